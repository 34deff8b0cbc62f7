/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * A refused packet writes nothing that another CPU reads: after a flood from a source over its
 * limit every table is byte for byte what it was. The flood that fills the limit comes first, then
 * the snapshot.
 */

#include "tests/kern/common.h"

#define FILL_PACKETS 5000U
#define FLOOD_PACKETS 1000000U
#define SOURCES 20000

static const enum ls_map tables[] = { LS_MAP_WAYS,     LS_MAP_LOGS,   LS_MAP_STRIKES, LS_MAP_BANS,
				      LS_MAP_BAN_INFO, LS_MAP_TABLES, LS_MAP_CONTROL };
#define N_TABLES (sizeof(tables) / sizeof(tables[0]))

/* Behind the tables of fixed size lie the CPUs' own records, which every packet writes. */
static size_t compared(enum ls_map map, size_t bytes)
{
	return map == LS_MAP_TABLES ? sizeof(struct ls_tables) : bytes;
}

static void check(struct ls_gen *gen, const char *name, const char *rest)
{
	char text[1024];
	void *copies[N_TABLES];
	const char *changed = NULL;

	snprintf(text, sizeof(text), "version: 1\n%s", rest);
	struct ls_plane *plane = kern_sandbox(text, SOURCES, true);
	gen_target(gen, ls_plane_program_fd(plane));
	gen_run(gen, FILL_PACKETS);
	for (size_t i = 0; i < N_TABLES; i++) {
		size_t bytes = 0;
		const void *memory = kern_memory(plane, tables[i], &bytes);
		bytes = compared(tables[i], bytes);
		copies[i] = malloc(bytes);
		if (!copies[i])
			abort();
		memcpy(copies[i], memory, bytes);
	}
	const uint64_t passed = kern_count(plane, NULL, LS_VERDICT_PASS, LS_REASON_MAX);
	const uint64_t refused = kern_count(plane, NULL, LS_VERDICT_DROP, LS_REASON_MAX);
	gen_run(gen, FLOOD_PACKETS);
	for (size_t i = 0; i < N_TABLES; i++) {
		size_t bytes = 0;
		const void *memory = kern_memory(plane, tables[i], &bytes);
		bytes = compared(tables[i], bytes);
		if (memcmp(copies[i], memory, bytes) != 0 && !changed)
			changed = ls_map_name(tables[i]);
		free(copies[i]);
	}
	const uint64_t more_passed =
		kern_count(plane, NULL, LS_VERDICT_PASS, LS_REASON_MAX) - passed;
	const uint64_t more_refused =
		kern_count(plane, NULL, LS_VERDICT_DROP, LS_REASON_MAX) - refused;
	kern_result(!changed && more_passed == 0 && more_refused == FLOOD_PACKETS, name,
		    "%s%s; %" PRIu64 " passed and %" PRIu64 " refused of %u",
		    changed ? changed : "nothing", " changed", more_passed, more_refused,
		    FLOOD_PACKETS);
	ls_plane_close(plane);
}

#define LIMITS(text) "classes:\n  - name: a\n    match: any\n    limits:\n" text

int main(void)
{
	struct ls_gen *gen = gen_open();

	gen_pin(0);
	check(gen, "refused_by_bucket_writes_nothing",
	      LIMITS("      - { rate: 1/d, burst: 10 }\n"));
	check(gen, "refused_by_bytes_writes_nothing",
	      LIMITS("      - { count: bytes, rate: 1B/s, burst: 2kB }\n"));
	check(gen, "refused_by_class_bucket_writes_nothing",
	      LIMITS("      - { per: class, rate: 1/d, burst: 10 }\n"));
	check(gen, "refused_by_fixed_window_writes_nothing",
	      LIMITS("      - { algorithm: fixed-window, limit: 10, window: 30d }\n"));
	check(gen, "refused_by_sliding_window_writes_nothing",
	      LIMITS("      - { algorithm: sliding-window, limit: 10, window: 30d }\n"));
	check(gen, "refused_by_sliding_log_writes_nothing",
	      LIMITS("      - { algorithm: sliding-log, limit: 10, window: 30d }\n"));
	check(gen, "refused_by_last_of_three_writes_nothing",
	      LIMITS("      - { name: one, rate: 100M/s }\n"
		     "      - { name: two, per: class, rate: 100M/s }\n"
		     "      - { name: three, per: { ipv4: 24 }, rate: 1/d, burst: 10 }\n"));
	check(gen, "refused_beside_overload_writes_nothing",
	      "overload: { max: { packets: 100M/s } }\n" LIMITS(
		      "      - { rate: 1/d, burst: 10 }\n"));
	check(gen, "denied_writes_nothing", "deny: [0.0.0.0/1]\n");
	ls_gen_close(gen);
	return kern_status();
}
