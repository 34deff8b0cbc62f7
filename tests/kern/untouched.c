/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * A refused packet writes nothing that another CPU reads: after a flood from a source over its
 * limit every table is byte for byte what it was. The flood that fills the limit comes first, then
 * the snapshot. Each algorithm with each kind of subject, both families, what a packet counts as, and
 * the refusals that no limit gives.
 *
 * Two refusals do write, and are not here: a class with `ban` counts strikes, and what the crowd's bucket
 * refuses is counted.
 */

#include "tests/kern/common.h"

#define FILL_PACKETS 5000U
#define FLOOD_PACKETS 100000U
#define SOURCES 20000

static const enum ls_map tables[] = { LS_MAP_WAYS,     LS_MAP_LOGS,   LS_MAP_STRIKES, LS_MAP_BANS,
				      LS_MAP_BAN_INFO, LS_MAP_TABLES, LS_MAP_CONTROL };
#define N_TABLES (sizeof(tables) / sizeof(tables[0]))

/* Behind the tables of fixed size lie the CPUs' own records, which every packet writes. */
static size_t compared(enum ls_map map, size_t bytes)
{
	return map == LS_MAP_TABLES ? sizeof(struct ls_tables) : bytes;
}

/* What was in the tables; the buffers are kept from one check to the next. */
static struct {
	void *bytes;
	size_t size;
} copies[N_TABLES];

static void snapshot(struct ls_plane *plane)
{
	for (size_t i = 0; i < N_TABLES; i++) {
		size_t bytes = 0;
		const void *memory = kern_memory(plane, tables[i], &bytes);
		bytes = compared(tables[i], bytes);
		if (bytes > copies[i].size) {
			free(copies[i].bytes);
			copies[i].bytes = malloc(bytes);
			copies[i].size = bytes;
		}
		if (!copies[i].bytes)
			abort();
		memcpy(copies[i].bytes, memory, bytes);
	}
}

/* The first table that is not what it was; NULL: all are. */
static const char *changed_since(struct ls_plane *plane)
{
	for (size_t i = 0; i < N_TABLES; i++) {
		size_t bytes = 0;
		const void *memory = kern_memory(plane, tables[i], &bytes);
		if (memcmp(copies[i].bytes, memory, compared(tables[i], bytes)) != 0)
			return ls_map_name(tables[i]);
	}
	return NULL;
}

/* One plane for all policies: a limit whose algorithm or subject is another starts fresh. */
static struct ls_plane *plane;

/* Publishes a policy, gives every source its place, and remembers what packets write. */
static void fill(struct ls_gen *gen, const char *rest)
{
	struct ls_policy *policy = kern_policy("version: 1\n%s", rest);

	kern_publish(plane, policy);
	ls_policy_free(policy);
	gen_target(gen, ls_plane_program_fd(plane));
	gen_run(gen, FILL_PACKETS);
	snapshot(plane);
}

static void check(struct ls_gen *gen, const char *name, const char *rest)
{
	fill(gen, rest);
	const uint64_t passed = kern_count(plane, NULL, LS_VERDICT_PASS, LS_REASON_MAX);
	const uint64_t refused = kern_count(plane, NULL, LS_VERDICT_DROP, LS_REASON_MAX);
	gen_run(gen, FLOOD_PACKETS);
	const char *changed = changed_since(plane);
	const uint64_t more_passed =
		kern_count(plane, NULL, LS_VERDICT_PASS, LS_REASON_MAX) - passed;
	const uint64_t more_refused =
		kern_count(plane, NULL, LS_VERDICT_DROP, LS_REASON_MAX) - refused;
	kern_result(!changed && more_passed == 0 && more_refused == FLOOD_PACKETS, name,
		    "%s%s; %" PRIu64 " passed and %" PRIu64 " refused of %u",
		    changed ? changed : "nothing", " changed", more_passed, more_refused,
		    FLOOD_PACKETS);
}

/* What is compared is what packets write: one that is admitted shows. */
static void check_admitted(struct ls_gen *gen, const char *name, const char *rest)
{
	fill(gen, rest);
	gen_run(gen, 1);
	const char *changed = changed_since(plane);
	kern_result(changed != NULL, name, "%s changed", changed ? changed : "nothing");
}

#define LIMITS(text) "classes:\n  - name: a\n    match: any\n    limits:\n" text

/* Every algorithm with every subject that it can have. */
static void check_all(struct ls_gen *gen, int family)
{
	static const struct {
		const char *name, *text;
	} algorithms[] = {
		{ "bucket", "rate: 1/d, burst: 10" },
		{ "bytes", "count: bytes, rate: 1B/s, burst: 2kB" },
		{ "connections", "count: connections, rate: 1/d, burst: 10" },
		{ "fixed_window", "algorithm: fixed-window, limit: 10, window: 30d" },
		{ "sliding_window", "algorithm: sliding-window, limit: 10, window: 30d" },
		{ "sliding_log", "algorithm: sliding-log, limit: 10, window: 30d" },
	}, subjects[] = {
		{ "source", "source" },		  { "prefix", "{ ipv4: 24, ipv6: 48 }" },
		{ "flow", "flow" },		  { "class", "class" },
		{ "destination", "destination" },
	};
	struct ls_gen_frame frame;

	/* A SYN, so that it is a connection as well as a packet. */
	gen_frame_make(&frame, family, 6, 1000, 0x02);
	ls_gen_frame_use(gen, &frame);
	for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++)
		for (size_t j = 0; j < sizeof(subjects) / sizeof(subjects[0]); j++) {
			char name[96], text[256];
			snprintf(name, sizeof(name), "refused_by_%s_per_%s_ipv%d_writes_nothing",
				 algorithms[i].name, subjects[j].name, family);
			snprintf(text, sizeof(text), LIMITS("      - { per: %s, %s }\n"),
				 subjects[j].text, algorithms[i].text);
			check(gen, name, text);
		}
}

int main(void)
{
	struct ls_gen *gen = gen_open();
	struct ls_gen_frame frame;

	gen_pin(0);
	plane = kern_sandbox("version: 1\n", SOURCES, true);
	check_admitted(gen, "admitted_by_bucket_is_seen", LIMITS("      - { rate: 100M/s }\n"));
	check_admitted(gen, "admitted_by_class_is_seen",
		       LIMITS("      - { per: class, rate: 100M/s }\n"));
	check_all(gen, 4);
	check_all(gen, 6);
	gen_frame_make(&frame, 4, 17, 1000, 0);
	ls_gen_frame_use(gen, &frame);
	check(gen, "refused_by_last_of_three_writes_nothing",
	      LIMITS("      - { name: one, rate: 100M/s }\n"
		     "      - { name: two, per: class, rate: 100M/s }\n"
		     "      - { name: three, per: { ipv4: 24 }, rate: 1/d, burst: 10 }\n"));
	check(gen, "refused_beside_overload_writes_nothing",
	      "overload: { max: { packets: 100M/s } }\n" LIMITS(
		      "      - { name: other, rate: 1/d, burst: 10 }\n"));
	check(gen, "denied_writes_nothing", "deny: [0.0.0.0/1, 128.0.0.0/1]\n");
	for (size_t i = 0; i < N_TABLES; i++)
		free(copies[i].bytes);
	ls_plane_close(plane);
	ls_gen_close(gen);
	return kern_status();
}
