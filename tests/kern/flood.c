/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * A flood of random sources out of 16 M from two CPUs, against the example policy with tables of
 * the default size, while a few hundred known sources go on: banned ones stay banned, allowed ones
 * lose nothing, those far above a limit stay limited, those within theirs lose nothing; almost no
 * newcomer ends in the crowd, and no memory grows.
 *
 * The flood is DNS, SYNs to two services and datagrams to anywhere, in turns. `overload.max` is
 * raised out of the way: it is meant to refuse anybody's new work in such a flood.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "tests/kern/common.h"
#include "user/plane/bans.h"

#define TICK_NS 100000000ULL /* known sources send in bursts of this distance */
#define FLOOD_SOURCES (1ULL << 24)
#define CHUNK 20000U /* packets of one system call, about 3 ms */

static const char policy_format[] =
	"version: 1\n"
	"sets:\n"
	"  office: [203.0.113.0/24, 2001:db8:10::/48]\n"
	"  blocked: [192.0.2.128/25, 100.127.0.0/16]\n"
	"  cgnat: [100.64.0.0/10]\n"
	"allow: [office, 198.51.100.7]\n"
	"deny: [blocked]\n"
	"nat:\n"
	"  - { sources: [cgnat], factor: 32 }\n"
	"overload:\n"
	"  max: { packets: 1G/s, connections: 1G/s }\n"
	"classes:\n"
	"  - name: dns\n"
	"    match: { protocol: udp, ports: [53] }\n"
	"    priority: high\n"
	"    limits:\n"
	"      - { name: query, per: source, count: packets, rate: 200/s, burst: 400 }\n"
	"  - name: web\n"
	"    match: { protocol: tcp, ports: [80, 443, 8000-8099], to: [198.51.100.1] }\n"
	"    limits:\n"
	"      - { name: new,   per: source, count: connections, rate: 50/s, burst: 100 }\n"
	"      - { name: bulk,  per: source, count: bytes, rate: 100Mbit/s, burst: 4MiB }\n"
	"      - { name: net,   per: { ipv4: 24, ipv6: 48 }, count: connections, rate: 500/s }\n"
	"      - { name: total, per: class, count: connections, rate: 20k/s }\n"
	"  - name: login\n"
	"    match: { protocol: tcp, ports: [8443] }\n"
	"    mode: %s\n"
	"    limits:\n"
	"      - { name: minute, per: source, count: connections, limit: 10, "
	"window: 60s, algorithm: sliding-window }\n"
	"    ban: { after: 100, within: 10s, for: 10m }\n"
	"  - name: rest\n"
	"    match: any\n"
	"    priority: low\n"
	"    limits:\n"
	"      - { rate: 10k/s }\n";

struct flooder {
	unsigned cpu;
	int program;
	uint64_t packets;
	struct ls_gen *gen;
};

static atomic_bool ended;

static void *flooder_main(void *context)
{
	struct flooder *flooder = context;
	struct ls_gen_frame frames[4];

	gen_frame_make(&frames[0], 4, 17, 53, 0);
	gen_frame_make(&frames[1], 4, 6, 443, 2);
	gen_frame_make(&frames[2], 4, 6, 8443, 2);
	gen_frame_make(&frames[3], 4, 17, 9, 0);
	gen_pin(flooder->cpu);
	for (unsigned i = flooder->cpu; !ended; i++) {
		ls_gen_frame_use(flooder->gen, &frames[i % 4]);
		gen_run(flooder->gen, CHUNK);
		flooder->packets += CHUNK;
	}
	return NULL;
}

/* One kind of known sources. */
struct known {
	const char *name;
	uint32_t base;
	unsigned n;
	int protocol;
	uint16_t port;
	unsigned per_tick; /* packets of each source */
	uint64_t sent, passed;
	uint64_t most; /* passed of one source */
};

#define KNOWN_MAX 64 /* sources of one kind */

static struct known kinds[] = {
	{ "banned", 0xC6120000, 64, 17, 53, 2, 0, 0, 0 },     /* 198.18.0.0 */
	{ "allowed", 0xCB007100, 64, 17, 53, 60, 0, 0, 0 },   /* 203.0.113.0 */
	{ "dns_above", 0xC6120100, 64, 17, 53, 60, 0, 0, 0 }, /* 600/s against 200/s */
	{ "login_above", 0xC6120200, 32, 6, 8443, 1, 0, 0, 0 },
	{ "dns_within", 0xC6120300, 64, 17, 53, 10, 0, 0, 0 },
	{ "rest_within", 0xC6120400, 64, 17, 9, 20, 0, 0, 0 },
};
enum { BANNED, ALLOWED, DNS_ABOVE, LOGIN_ABOVE, DNS_WITHIN, REST_WITHIN, N_KINDS };

static void send_known(int program, struct known *known, uint64_t passed[KNOWN_MAX])
{
	struct ls_gen_frame frame;

	gen_frame_make(&frame, 4, known->protocol, known->port, 2);
	for (unsigned i = 0; i < known->n; i++) {
		ls_gen_frame_source(&frame, known->base + i);
		for (unsigned j = 0; j < known->per_tick; j++) {
			const bool did_pass = gen_once(program, &frame) == XDP_PASS_CODE;
			known->sent++;
			known->passed += did_pass;
			passed[i] += did_pass;
		}
		if (passed[i] > known->most)
			known->most = passed[i];
	}
}

static uint64_t memory_kb(void)
{
	uint64_t kb = 0;
	char line[128];
	FILE *file = fopen("/proc/self/status", "r");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "RssAnon: %" SCNu64, &kb) == 1)
			break;
	if (file)
		fclose(file);
	return kb;
}

/* What the kernel accounts for the plane's maps. */
static uint64_t maps_bytes(const struct ls_plane *plane)
{
	uint64_t sum = 0;

	for (int map = 0; map < LS_MAP_MAX; map++) {
		char path[64], line[128];
		snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", plane->maps[map].fd);
		FILE *file = fopen(path, "r");
		uint64_t bytes = 0;
		while (file && fgets(line, sizeof(line), file))
			if (sscanf(line, "memlock: %" SCNu64, &bytes) == 1)
				sum += bytes;
		if (file)
			fclose(file);
	}
	return sum;
}

static void ban_known(struct ls_plane *plane)
{
	struct ls_error error = LS_ERROR_INIT;

	for (unsigned i = 0; i < kinds[BANNED].n; i++) {
		struct ls_prefix prefix;
		char text[32];
		snprintf(text, sizeof(text), "198.18.0.%u", i);
		ls_prefix_parse(text, strlen(text), &prefix);
		if (ls_ban_add(plane, NULL, &prefix, 3600ULL * 1000000000, LS_ORIGIN_OPERATOR, NULL,
			       &error) < 0) {
			fprintf(stderr, "%s\n", error.text);
			exit(1);
		}
	}
}

static void judge(struct ls_plane *plane, const char *mode, uint64_t packets, double seconds)
{
	char name[96];
	const struct ls_tables *tables = kern_memory(plane, LS_MAP_TABLES, NULL);
	const struct ls_shared *shared = tables->shared;
	uint64_t unplaced = 0;

#define NAME(text) (snprintf(name, sizeof(name), "%s_login_%s", text, mode), name)
	kern_result(kinds[BANNED].passed == 0, NAME("banned_stay_banned"),
		    "%" PRIu64 " of %" PRIu64 " passed", kinds[BANNED].passed, kinds[BANNED].sent);
	kern_result(kinds[ALLOWED].passed == kinds[ALLOWED].sent, NAME("allowed_lose_nothing"),
		    "%" PRIu64 " of %" PRIu64 " passed", kinds[ALLOWED].passed,
		    kinds[ALLOWED].sent);
	const double bound = 400 + 200 * seconds + 32;
	kern_result((double)kinds[DNS_ABOVE].most <= bound, NAME("limited_stay_limited"),
		    "at most %" PRIu64 " of one source passed of %" PRIu64 ", bound %.1f",
		    kinds[DNS_ABOVE].most, kinds[DNS_ABOVE].sent / kinds[DNS_ABOVE].n, bound);
	const uint64_t login_sent = kinds[LOGIN_ABOVE].sent / kinds[LOGIN_ABOVE].n;
	const double login_bound = strcmp(mode, "enforce") == 0 ? 10 + seconds / 6 + 1
								: (double)login_sent;
	kern_result((double)kinds[LOGIN_ABOVE].most <= login_bound &&
			    (double)kinds[LOGIN_ABOVE].passed >= 10.0 * kinds[LOGIN_ABOVE].n,
		    NAME("login_stays_limited"),
		    "at most %" PRIu64 " of one source passed of %" PRIu64 ", bound %.1f",
		    kinds[LOGIN_ABOVE].most, login_sent, login_bound);
	kern_result(kinds[DNS_WITHIN].passed == kinds[DNS_WITHIN].sent,
		    NAME("dns_within_lose_nothing"), "%" PRIu64 " of %" PRIu64 " passed",
		    kinds[DNS_WITHIN].passed, kinds[DNS_WITHIN].sent);
	kern_result(kinds[REST_WITHIN].passed == kinds[REST_WITHIN].sent,
		    NAME("rest_within_lose_nothing"), "%" PRIu64 " of %" PRIu64 " passed",
		    kinds[REST_WITHIN].passed, kinds[REST_WITHIN].sent);
	for (unsigned slot = 0; slot < LS_SLOTS; slot++)
		unplaced += shared[slot].unplaced;
	const struct ls_control *control = ls_plane_control(plane);
	kern_result((double)unplaced <= 1e-4 * (double)packets, NAME("newcomers_find_a_place"),
		    "%" PRIu64 " of %" PRIu64
		    " in the crowd at %.1f Mpps, of which refused %" PRIu64 "; long table: %" PRIu64
		    " without a place, %" PRIu64 " evicted; contended %" PRIu64,
		    unplaced, packets, (double)packets / seconds / 1e6,
		    kern_count(plane, NULL, LS_VERDICT_DROP, LS_REASON_CROWD),
		    (uint64_t)control->unplaced_long, (uint64_t)control->evicted,
		    (uint64_t)control->contended);
}

static void flood(const char *mode)
{
	char text[4096];
	struct flooder flooders[2];
	pthread_t threads[2];
	const uint64_t for_ns = kern_is_long() ? 60000000000ULL : 10000000000ULL;
	static uint64_t passed[N_KINDS][KNOWN_MAX];
	char name[96];

	memset(passed, 0, sizeof(passed));
	for (unsigned i = 0; i < N_KINDS; i++)
		kinds[i].sent = kinds[i].passed = kinds[i].most = 0;
	snprintf(text, sizeof(text), policy_format, mode);
	struct ls_plane *plane = kern_sandbox(text, 1000000, true);
	const int program = ls_plane_program_fd(plane);
	ban_known(plane);
	ended = false;
	for (unsigned i = 0; i < 2; i++) {
		flooders[i] = (struct flooder){ .cpu = i % gen_cpus(), .program = program };
		flooders[i].gen = gen_open();
		ls_gen_config(flooders[i].gen)->sources = FLOOD_SOURCES;
		ls_gen_config(flooders[i].gen)->base = 0x10000000; /* 16.0.0.0/8 */
		ls_gen_seed(flooders[i].gen, 17 + i);
		gen_target(flooders[i].gen, program);
	}
	const uint64_t start_ns = ls_gen_now_ns();
	for (unsigned i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, flooder_main, &flooders[i]) != 0)
			abort();
	uint64_t kb = 0, bytes = 0, next_ns = start_ns;
	while (ls_gen_now_ns() - start_ns < for_ns) {
		for (unsigned i = 0; i < N_KINDS; i++)
			send_known(program, &kinds[i], passed[i]);
		if (!kb) {
			kb = memory_kb();
			bytes = maps_bytes(plane);
		}
		next_ns += TICK_NS;
		const uint64_t now_ns = ls_gen_now_ns();
		/* A source within its limits must not send two bursts at once to catch up. */
		if (next_ns < now_ns + TICK_NS / 2)
			next_ns = now_ns + TICK_NS / 2;
		const struct timespec until = { (time_t)(next_ns / 1000000000),
						(long)(next_ns % 1000000000) };
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	}
	ended = true;
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	const double seconds = (double)(ls_gen_now_ns() - start_ns) / 1e9;
	judge(plane, mode, flooders[0].packets + flooders[1].packets, seconds);
	const uint64_t kb_after = memory_kb(), bytes_after = maps_bytes(plane);
	kern_result(kb_after <= kb + 1024 && bytes_after == bytes && bytes > 0,
		    NAME("memory_stays"),
		    "process %" PRIu64 " to %" PRIu64 " kB, maps %" PRIu64 " to %" PRIu64 " bytes",
		    kb, kb_after, bytes, bytes_after);
	for (unsigned i = 0; i < 2; i++)
		ls_gen_close(flooders[i].gen);
	ls_plane_close(plane);
}

int main(void)
{
	gen_prefer();
	flood("monitor");
	flood("enforce");
	return kern_status();
}
