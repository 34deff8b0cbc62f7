/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * The speed rows: one run prints, for each kind of work, what the whole verdict costs over a bare
 * XDP_DROP, what a rival costs on the same packets, the goal, and whether it is met; and writes the
 * same as JSON.
 *
 *	bench OUT.json [DATA]	DATA: a folder with lists/prefixes-v6-73k.txt; else they are made up
 *
 * First instrument: a generator in the kernel calls the program by tail call, a million packets to
 * a system call. A sample is the lowest of three runs (interruptions only add), a figure the median
 * of five samples, each taken as a difference to XDP_DROP or to another program in the same round,
 * so that a slow machine slows both. It lets the cache misses of consecutive packets overlap, which
 * flatters short programs; so, second instrument: a veth in a network namespace of this process,
 * where the whole path from the sender to the verdict runs on one CPU, also with nft and iptables
 * instead.
 *
 * Nothing outlives the process: namespace, links, programs and maps go with it.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <linux/bpf.h>
#include <linux/if_link.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <jansson.h>

#include "rivals.skel.h"
#include "tests/tools/gen.h"
#include "user/base/error.h"
#include "user/plane/bans.h"
#include "user/plane/counters.h"
#include "user/plane/internal.h"
#include "user/plane/sandbox.h"
#include "user/policy/policy.h"
#include "user/policy/read.h"

#define ROUNDS 5
#define TRIES 3		/* runs to a sample */
#define PACKETS 200000U /* of one run */
#define CAPACITY 1000000U
#define CPU (gen_cpus() - 1) /* the last: interrupts of devices tend to be on the first */

#define SOURCES_SPOOFED 0 /* all of IPv4 */

/* As generous as it gets: everything is admitted, and every packet is charged. */
#define GENEROUS "{ rate: 100M/s, burst: 100M }"

static struct gen *gen;
static struct rivals_skeleton *rivals;
static json_t *rows;
static char folder[] = "/tmp/loadshed-bench-XXXXXX";
static const char *data_folder;
static unsigned missed;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

/* ---- figures ---- */

struct figure {
	double median, low, high;
};

static int ascending(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static struct figure figure_of(const double samples[ROUNDS])
{
	double sorted[ROUNDS];

	memcpy(sorted, samples, sizeof(sorted));
	qsort(sorted, ROUNDS, sizeof(sorted[0]), ascending);
	return (struct figure){ sorted[ROUNDS / 2], sorted[0], sorted[ROUNDS - 1] };
}

static double sample(int program)
{
	double lowest = INFINITY;

	gen_target(gen, program);
	gen_run(gen, PACKETS / 10);
	for (int i = 0; i < TRIES; i++)
		lowest = fmin(lowest, gen_run(gen, PACKETS));
	return lowest;
}

/* ret[i]: what programs[i] costs more than `base`, in the same round. */
static void compare(int base, const int *programs, size_t n, struct figure *ret)
{
	double samples[8][ROUNDS];

	for (int round = 0; round < ROUNDS; round++) {
		const double floor = sample(base);
		for (size_t i = 0; i < n; i++)
			samples[i][round] = sample(programs[i]) - floor;
	}
	for (size_t i = 0; i < n; i++)
		ret[i] = figure_of(samples[i]);
}

/* ---- output ---- */

struct row {
	const char *name;
	const char *unit;
	struct figure ours;
	const char *rival; /* NULL: none */
	struct figure theirs;
	double goal;	  /* NAN: none */
	bool is_at_least; /* the goal is a lower bound */
	const char *base; /* what `ours` is a difference to; NULL: it is none */
};

static void heading(const char *text)
{
	printf("\n%-44s %9s %13s %9s %7s  %s\n", text, "loadshed", "from…to", "rival", "goal", "");
}

static json_t *figure_json(struct figure figure)
{
	return json_pack("{s:f,s:f,s:f}", "median", figure.median, "low", figure.low, "high",
			 figure.high);
}

static void put(const struct row *row)
{
	const bool has_goal = !isnan(row->goal);
	const bool is_met = row->is_at_least ? row->ours.median >= row->goal
					     : row->ours.median <= row->goal;
	char range[32], rival[32] = "", goal[32] = "";
	const int digits = fabs(row->ours.high) < 9.95 && strcmp(row->unit, "ns") != 0 ? 1 : 0;

	snprintf(range, sizeof(range), "%.*f…%.*f", digits, row->ours.low, digits, row->ours.high);
	if (row->rival)
		snprintf(rival, sizeof(rival), "%.*f", digits, row->theirs.median);
	if (has_goal)
		snprintf(goal, sizeof(goal), "%s%.*f", row->is_at_least ? "≥ " : "≤ ",
			 fmod(row->goal, 1) != 0 ? 1 : 0, row->goal);
	/* The width of printf counts bytes; an ellipsis and a sign of comparison have three. */
	printf("%-44s %9.*f %15s %9s %*s  %s\n", row->name, digits, row->ours.median, range, rival,
	       has_goal ? 9 : 7, goal,
	       !has_goal ? ""
	       : is_met	 ? "met"
			 : "MISSED");
	fflush(stdout);
	if (has_goal && !is_met)
		missed++;
	json_t *object = json_pack("{s:s,s:s,s:o}", "name", row->name, "unit", row->unit,
				   "loadshed", figure_json(row->ours));
	if (row->base)
		json_object_set_new(object, "over", json_string(row->base));
	if (row->rival) {
		json_object_set_new(object, "rival", json_string(row->rival));
		json_object_set_new(object, "rival_figure", figure_json(row->theirs));
	}
	if (has_goal) {
		json_object_set_new(object, "goal", json_real(row->goal));
		json_object_set_new(object, "met", json_boolean(is_met));
	}
	json_array_append_new(rows, object);
}

/* ---- policies ---- */

__attribute__((format(printf, 1, 2))) static struct ls_policy *policy_of(const char *format, ...)
{
	struct ls_error error = LS_ERROR_INIT;
	struct ls_policy *policy = NULL;
	char *text = NULL, name[64];
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		die("out of memory");
	va_end(arguments);
	snprintf(name, sizeof(name), "%s/policy.yaml", folder);
	if (ls_policy_read_memory(name, text, strlen(text), NULL, &policy, &error) != 0)
		die("%s", error.text);
	free(text);
	return policy;
}

static struct ls_plane *sandbox(struct ls_policy *policy)
{
	const struct ls_plane_sandbox request = { .policy = policy,
						  .sources = CAPACITY,
						  .live_clock = 1 };
	struct ls_error error = LS_ERROR_INIT;
	struct ls_plane *plane = NULL;

	if (ls_plane_sandbox_open(&request, &plane, &error) < 0)
		die("%s", error.text);
	ls_policy_free(policy);
	return plane;
}

#define ONE_CLASS "version: 1\nclasses:\n  - name: a\n    match: any\n    limits:\n"
#define LIMIT(name, limit) "      - { name: " name ", " limit " }\n"

static struct ls_policy *policy_one(void)
{
	return policy_of("%s      - " GENEROUS "\n", ONE_CLASS);
}

static struct ls_policy *policy_three(const char *first)
{
	return policy_of("%s      - { name: one, %s }\n"
			 "      - { name: two, count: bytes, rate: 100GB/s, burst: 100GB }\n"
			 "      - { name: three, rate: 90M/s, burst: 90M }\n",
			 ONE_CLASS, first);
}

/* n classes that ask for a destination port each, from 1000 on; one limit in each. */
static struct ls_policy *policy_classes(unsigned n)
{
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	if (!file)
		die("out of memory");
	for (unsigned i = 0; i < n; i++)
		fprintf(file,
			"  - name: c%u\n    match: { ports: [%u] }\n    limits: [ " GENEROUS " ]\n",
			i, 1000 + i);
	fclose(file);
	struct ls_policy *policy = policy_of("version: 1\nclasses:\n%s", text);
	free(text);
	return policy;
}

/* ---- lists ---- */

struct entry4 {
	uint32_t address;
	uint32_t length;
};

static uint32_t mix(uint32_t number)
{
	number = (number ^ number >> 16) * 0x85ebca6bU;
	number = (number ^ number >> 13) * 0xc2b2ae35U;
	return number ^ number >> 16;
}

/* Of ten: seven hosts, a /28, a /24 and a /22. */
static struct entry4 entry4(uint32_t number)
{
	static const uint32_t lengths[] = { 32, 32, 32, 32, 32, 32, 32, 28, 24, 22 };
	const uint32_t length = lengths[number % 10];

	return (struct entry4){ mix(number + 1) & ~0U << (32 - length), length };
}

static void write_list4(const char *name, uint32_t n)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *file = fopen(path, "w");
	if (!file)
		die("cannot write '%s'", path);
	for (uint32_t i = 0; i < n; i++) {
		const struct entry4 entry = entry4(i);
		fprintf(file, "%u.%u.%u.%u/%u\n", entry.address >> 24, entry.address >> 16 & 255,
			entry.address >> 8 & 255, entry.address & 255, entry.length);
	}
	if (fclose(file) != 0)
		die("cannot write '%s'", path);
}

static void fill_trie4(uint32_t n)
{
	const int fd = bpf_map__fd(rivals->maps.rival_trie4);
	const __u32 value = 1;

	for (uint32_t i = 0; i < n; i++) {
		const struct entry4 entry = entry4(i);
		const struct {
			__u32 length, address;
		} key = { entry.length, htonl(entry.address) };
		if (bpf_map_update_elem(fd, &key, &value, BPF_ANY) < 0)
			die("cannot fill the trie: %s", strerror(errno));
	}
}

static struct ls_policy *policy_list(const char *file)
{
	return policy_of("version: 1\nsets:\n  list: { file: %s }\ndeny: [list]\nclasses:\n"
			 "  - name: a\n    match: any\n    limits: [ " GENEROUS " ]\n",
			 file);
}

/* 73 000 IPv6 prefixes, the real ones where there are any; also into the trie. */
static void make_list6(void)
{
	char path[256], line[128];

	if (data_folder) {
		snprintf(path, sizeof(path), "%s/lists/prefixes-v6-73k.txt", data_folder);
		if (access(path, R_OK) == 0) {
			char copy[128];
			snprintf(copy, sizeof(copy), "%s/list6", folder);
			if (symlink(path, copy) < 0)
				die("cannot link '%s'", path);
		} else {
			data_folder = NULL;
		}
	}
	if (!data_folder) {
		static const unsigned lengths[] = { 32, 29, 48, 48, 36, 40, 44, 32, 48, 56 };
		snprintf(path, sizeof(path), "%s/list6", folder);
		FILE *file = fopen(path, "w");
		if (!file)
			die("cannot write '%s'", path);
		for (uint32_t i = 0; i < 73000; i++) {
			const unsigned length = lengths[i % 10];
			const uint64_t bits =
				(0x2ULL << 60 | (uint64_t)mix(i + 1) << 28 | mix(i + 77777) >> 4) &
				~0ULL << (64 - length);
			fprintf(file, "%x:%x:%x:%x::/%u\n", (unsigned)(bits >> 48),
				(unsigned)(bits >> 32 & 0xffff), (unsigned)(bits >> 16 & 0xffff),
				(unsigned)(bits & 0xffff), length);
		}
		fclose(file);
	}
	snprintf(path, sizeof(path), "%s/list6", folder);
	FILE *file = fopen(path, "r");
	const __u32 value = 1;
	while (file && fgets(line, sizeof(line), file)) {
		struct {
			__u32 length;
			struct in6_addr address;
		} key = { 0 };
		char *slash = strchr(line, '/');
		if (!slash)
			continue;
		*slash = '\0';
		key.length = (__u32)atoi(slash + 1);
		if (inet_pton(AF_INET6, line, &key.address) == 1)
			bpf_map_update_elem(bpf_map__fd(rivals->maps.rival_trie6), &key, &value,
					    BPF_ANY);
	}
	if (file)
		fclose(file);
}

/* ---- rows by the generator ---- */

static int drop(void)
{
	return gen_drop_fd(gen);
}

static int bucket(void)
{
	return bpf_program__fd(rivals->progs.rival_bucket);
}

static void sources(uint64_t n)
{
	gen_config(gen)->sources = n;
}

/* Enough packets that nearly every source has been there. */
static void warm(int program, uint64_t n)
{
	gen_target(gen, program);
	gen_run(gen, n == SOURCES_SPOOFED || n > 2000000 ? 4000000 : (uint32_t)(4 * n + 10000));
}

static struct figure one_limit(struct ls_plane *plane, const char *name, uint64_t n, double goal)
{
	const int programs[] = { ls_plane_program_fd(plane), bucket() };
	struct figure figures[2];

	sources(n);
	warm(programs[0], n);
	warm(programs[1], n);
	compare(drop(), programs, 2, figures);
	put(&(struct row){ .name = name,
			   .unit = "ns",
			   .ours = figures[0],
			   .rival = "token bucket in LRU_HASH",
			   .theirs = figures[1],
			   .goal = goal,
			   .base = "XDP_DROP" });
	return figures[0];
}

/* One program against another of ours, or against XDP_DROP. */
static void put_over(const char *name, int base, const char *base_name, int program, double goal)
{
	struct figure figure;

	compare(base, &program, 1, &figure);
	put(&(struct row){
		.name = name, .unit = "ns", .ours = figure, .goal = goal, .base = base_name });
}

static void rows_limits(void)
{
	struct ls_plane *one = sandbox(policy_one());
	struct gen_frame frame;

	gen_frame_make(&frame, 4, 17, 1000, 0);
	gen_frame_use(gen, &frame);
	heading("ns over XDP_DROP; rival: LRU_HASH bucket");
	one_limit(one, "one limit, 1 source", 1, NAN);
	one_limit(one, "one limit, 1 k sources", 1000, 25);
	one_limit(one, "one limit, 131 k sources", 131072, NAN);
	const struct figure million = one_limit(one, "one limit, 1 M sources", 1000000, 150);
	one_limit(one, "one limit, 16 M sources", 16000000, million.median + 20);
	one_limit(one, "one limit, random spoofed sources", SOURCES_SPOOFED, million.median + 20);
	ls_plane_close(one);

	struct ls_plane *three = sandbox(policy_three("rate: 100M/s, burst: 100M"));
	sources(1000);
	warm(ls_plane_program_fd(three), 1000);
	put_over("three limits, all admitted, 1 k sources", drop(), "XDP_DROP",
		 ls_plane_program_fd(three), 45);
	ls_plane_close(three);
	three = sandbox(policy_three("rate: 60/m, burst: 1"));
	warm(ls_plane_program_fd(three), 1000);
	put_over("first of three refuses, 1 k sources", drop(), "XDP_DROP",
		 ls_plane_program_fd(three), NAN);
	ls_plane_close(three);

	struct ls_plane *six = sandbox(policy_one());
	gen_frame_make(&frame, 6, 17, 1000, 0);
	gen_frame_use(gen, &frame);
	gen_config(gen)->prefix6 = 0x2001db8000000000ULL;
	one_limit(six, "IPv6: one limit, 1 k sources", 1000, NAN);
	one_limit(six, "IPv6: one limit, 1 M sources", 1000000, NAN);
	ls_plane_close(six);
}

/* What is dropped on the shortest way that there is, counted and sampled for `events`. */
static void rows_refused(void)
{
	struct ls_plane *deny = sandbox(policy_of("version: 1\ndeny: [10.0.0.0/8]\n"));
	struct ls_plane *limit = sandbox(policy_of(ONE_CLASS "      - { rate: 60/m, burst: 1 }\n"));
	struct gen_frame frame;

	gen_frame_make(&frame, 4, 17, 1000, 0);
	gen_frame_use(gen, &frame);
	heading("ns over XDP_DROP, all refused, events sampled");
	sources(1000);
	put_over("denied, 1 k sources", drop(), "XDP_DROP", ls_plane_program_fd(deny), NAN);
	warm(ls_plane_program_fd(limit), 1000);
	put_over("over a limit, 1 k sources", drop(), "XDP_DROP", ls_plane_program_fd(limit), NAN);
	ls_plane_close(deny);
	ls_plane_close(limit);
}

static void rows_classes(void)
{
	struct ls_plane *one = sandbox(policy_classes(1));
	struct ls_plane *many = sandbox(policy_classes(64));
	struct ls_plane *most = sandbox(policy_classes(256));
	struct gen_frame frame;

	heading("ns over one class");
	sources(1000);
	double samples[2][ROUNDS];
	for (int round = 0; round < ROUNDS; round++) {
		gen_frame_make(&frame, 4, 17, 1000, 0);
		gen_frame_use(gen, &frame);
		const double base = sample(ls_plane_program_fd(one));
		gen_frame_make(&frame, 4, 17, 1000 + 63, 0);
		gen_frame_use(gen, &frame);
		samples[0][round] = sample(ls_plane_program_fd(many)) - base;
		gen_frame_make(&frame, 4, 17, 1000 + 255, 0);
		gen_frame_use(gen, &frame);
		samples[1][round] = sample(ls_plane_program_fd(most)) - base;
	}
	put(&(struct row){ "last of 64 classes, 1 k sources", "ns", figure_of(samples[0]),
			   .goal = NAN, .base = "one class" });
	put(&(struct row){ "last of 256 classes, 1 k sources", "ns", figure_of(samples[1]),
			   .goal = 3, .base = "one class" });
	ls_plane_close(one);
	ls_plane_close(many);
	ls_plane_close(most);
}

static void list_rows(struct ls_plane *none, struct ls_plane *some, int rival, const char *name,
		      uint64_t n, double goal)
{
	const int programs[] = { ls_plane_program_fd(none), ls_plane_program_fd(some), drop() };
	struct figure ours, theirs;

	sources(n);
	warm(programs[0], n);
	warm(programs[1], n);
	compare(programs[0], &programs[1], 1, &ours);
	compare(programs[2], &rival, 1, &theirs);
	put(&(struct row){ .name = name,
			   .unit = "ns",
			   .ours = ours,
			   .rival = "LPM trie alone, over XDP_DROP",
			   .theirs = theirs,
			   .goal = goal,
			   .base = "no lists" });
}

static void rows_lists(void)
{
	struct ls_plane *none = sandbox(policy_one());
	struct ls_plane *some;
	const int trie4 = bpf_program__fd(rivals->progs.rival_list4);
	struct gen_frame frame;

	gen_frame_make(&frame, 4, 17, 1000, 0);
	gen_frame_use(gen, &frame);
	heading("ns over no lists; rival: LPM trie alone");
	static const struct {
		uint32_t n;
		const char *file, *few, *random;
	} sizes[] = {
		{ 1000, "list1k", "1 k IPv4 prefixes, 1 k sources", "1 k IPv4 prefixes, random" },
		{ 120000, "list120k", "120 k IPv4 prefixes, 1 k sources",
		  "120 k IPv4 prefixes, random" },
		{ 1000000, "list1m", "1 M IPv4 prefixes, 1 k sources",
		  "1 M IPv4 prefixes, random" },
	};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const bool is_largest = sizes[i].n == 1000000;
		write_list4(sizes[i].file, sizes[i].n);
		fill_trie4(sizes[i].n);
		some = sandbox(policy_list(sizes[i].file));
		list_rows(none, some, trie4, sizes[i].few, 1000, is_largest ? 5 : NAN);
		list_rows(none, some, trie4, sizes[i].random, SOURCES_SPOOFED,
			  is_largest ? 50 : NAN);
		ls_plane_close(some);
	}
	make_list6();
	some = sandbox(policy_list("list6"));
	gen_frame_make(&frame, 6, 17, 1000, 0);
	gen_frame_use(gen, &frame);
	gen_config(gen)->prefix6 = 0x2a00000000000000ULL; /* /12: where most prefixes are */
	const int trie6 = bpf_program__fd(rivals->progs.rival_list6);
	list_rows(none, some, trie6, "73 k IPv6 prefixes, 1 k sources", 1000, NAN);
	list_rows(none, some, trie6, "73 k IPv6 prefixes, random", SOURCES_SPOOFED, 150);
	ls_plane_close(some);
	ls_plane_close(none);
}

static void add_bans(struct ls_plane *plane, uint32_t n)
{
	struct ls_error error = LS_ERROR_INIT;

	for (uint32_t i = 0; i < n; i++) {
		struct ls_prefix prefix = { 0 };
		char text[32];
		const uint32_t address = mix(i + 1) | 1;
		snprintf(text, sizeof(text), "%u.%u.%u.%u", address >> 24, address >> 16 & 255,
			 address >> 8 & 255, address & 255);
		if (ls_prefix_parse(text, strlen(text), &prefix) != LS_PREFIX_OK ||
		    ls_ban_add(plane, NULL, &prefix, 3600ULL * 1000000000, LS_ORIGIN_OPERATOR, NULL,
			       &error) < 0)
			die("cannot ban '%s': %s", text, error.text);
	}
}

static void rows_bans(void)
{
	struct ls_plane *none = sandbox(policy_one()), *one = sandbox(policy_one()),
			*many = sandbox(policy_one());
	struct gen_frame frame;

	add_bans(one, 1);
	add_bans(many, 5000);
	gen_frame_make(&frame, 4, 17, 1000, 0);
	gen_frame_use(gen, &frame);
	heading("ns over no bans");
	sources(1000);
	const int base = ls_plane_program_fd(none);
	warm(base, 1000);
	warm(ls_plane_program_fd(one), 1000);
	warm(ls_plane_program_fd(many), 1000);
	put_over("1 ban, 1 k sources", base, "no bans", ls_plane_program_fd(one), NAN);
	put_over("5 k bans, 1 k sources", base, "no bans", ls_plane_program_fd(many), NAN);
	ls_plane_close(none);
	ls_plane_close(one);
	ls_plane_close(many);
}

/* ---- two CPUs on one source ---- */

struct race {
	unsigned cpu;
	pthread_barrier_t *barrier;
	double ns;
	uint64_t start_ns, end_ns;
};

#define RACE_PACKETS 2000000U

static void *race_run(void *context)
{
	struct race *race = context;

	gen_pin(race->cpu);
	gen_hurry();
	pthread_barrier_wait(race->barrier);
	race->start_ns = gen_now_ns();
	race->ns = gen_run(gen, RACE_PACKETS);
	race->end_ns = gen_now_ns();
	return NULL;
}

static uint64_t admitted(struct ls_plane *plane)
{
	struct ls_error error = LS_ERROR_INIT;
	struct ls_stats stats;

	if (ls_stats_read(plane, NULL, &stats, &error) < 0)
		die("%s", error.text);
	const uint64_t packets = stats.pass.packets;
	ls_stats_fini(&stats);
	return packets;
}

/* Both CPUs run the target; mean ns of a packet on each. *ret_took_ns (may be NULL): while either
 * ran. */
static double on_two_cpus(int program, uint64_t *ret_took_ns)
{
	pthread_barrier_t barrier;
	pthread_t threads[2];
	struct race races[2];

	gen_target(gen, program);
	pthread_barrier_init(&barrier, NULL, 2);
	for (unsigned i = 0; i < 2; i++) {
		races[i] = (struct race){ .cpu = i, .barrier = &barrier };
		if (pthread_create(&threads[i], NULL, race_run, &races[i]) != 0)
			die("cannot start a thread");
	}
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&barrier);
	const uint64_t start_ns = races[0].start_ns < races[1].start_ns ? races[0].start_ns
									: races[1].start_ns;
	const uint64_t end_ns = races[0].end_ns > races[1].end_ns ? races[0].end_ns
								  : races[1].end_ns;
	if (ret_took_ns)
		*ret_took_ns = end_ns - start_ns;
	return (races[0].ns + races[1].ns) / 2;
}

static void rows_two_cpus(void)
{
	struct gen_frame frame;
	double ns[ROUNDS], refused_ns[ROUNDS], accuracy[ROUNDS];

	heading("two CPUs, one source");
	if (gen_cpus() < 2) {
		puts("skipped: one CPU");
		return;
	}
	gen_frame_make(&frame, 4, 17, 1000, 0);
	gen_frame_use(gen, &frame);
	sources(1);
	struct ls_plane *generous = sandbox(policy_one());
	struct ls_plane *strict =
		sandbox(policy_of("%s      - { rate: 1M/s, burst: 1k }\n", ONE_CLASS));
	for (int round = 0; round < ROUNDS; round++) {
		const double base = on_two_cpus(drop(), NULL);
		ns[round] = on_two_cpus(ls_plane_program_fd(generous), NULL) - base;
		const uint64_t before = admitted(strict);
		uint64_t took_ns = 0;
		refused_ns[round] = on_two_cpus(ls_plane_program_fd(strict), &took_ns) - base;
		accuracy[round] =
			100 * (double)(admitted(strict) - before) / (1000 + (double)took_ns / 1000);
	}
	put(&(struct row){ "all admitted, ns over XDP_DROP", "ns", figure_of(ns), .goal = NAN,
			   .base = "XDP_DROP" });
	put(&(struct row){ "mostly refused (1 M/s), ns over XDP_DROP", "ns", figure_of(refused_ns),
			   .goal = NAN, .base = "XDP_DROP" });
	put(&(struct row){ "admitted, % of burst + rate * t at 1 M/s", "%", figure_of(accuracy),
			   .goal = 99, .is_at_least = true });
	ls_plane_close(generous);
	ls_plane_close(strict);
}

/* ---- apply and memory ---- */

static void rows_apply(void)
{
	struct ls_error error = LS_ERROR_INIT;
	struct ls_plane *plane = sandbox(policy_one());
	double read_ms[ROUNDS], publish_ms[ROUNDS], all_ms[ROUNDS];

	heading("policy and memory");
	write_list4("list100k", 100000);
	for (int round = 0; round < ROUNDS; round++) {
		const uint64_t start_ns = gen_now_ns();
		struct ls_policy *policy = policy_list("list100k");
		const uint64_t middle_ns = gen_now_ns();
		if (ls_plane_publish(plane, policy, NULL, NULL, &error) != 0)
			die("cannot publish: %s", error.text);
		const uint64_t end_ns = gen_now_ns();
		ls_policy_free(policy);
		read_ms[round] = (double)(middle_ns - start_ns) / 1e6;
		publish_ms[round] = (double)(end_ns - middle_ns) / 1e6;
		all_ms[round] = read_ms[round] + publish_ms[round];
		policy = policy_one();
		if (ls_plane_publish(plane, policy, NULL, NULL, &error) != 0)
			die("cannot publish: %s", error.text);
		ls_policy_free(policy);
	}
	put(&(struct row){ "read a policy with 100 k prefixes, ms", "ms", figure_of(read_ms),
			   .goal = NAN });
	put(&(struct row){ "publish it, ms", "ms", figure_of(publish_ms), .goal = NAN });
	put(&(struct row){ "apply it (both), ms", "ms", figure_of(all_ms), .goal = 300 });
	const double bytes = (double)ls_plane_state(plane)->sets[LS_TABLE_SHORT] *
			     sizeof(struct ls_ways) / (1 << 20);
	put(&(struct row){ "table bytes per tracked (source, limit)",
			   "bytes",
			   { bytes, bytes, bytes },
			   .goal = 64 });
	ls_plane_close(plane);
}

/* ---- rows by veth ---- */

#define VETH_NS 300000000ULL /* of one sample */
#define VETH_BATCH 100000U

__attribute__((format(printf, 1, 2))) static bool run(const char *format, ...)
{
	char command[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(command, sizeof(command), format, arguments);
	va_end(arguments);
	return system(command) == 0;
}

/* What the receiving end has taken off its queue, whoever judged it. */
static uint64_t received(void)
{
	uint64_t packets = 0;
	char line[512];
	FILE *file = fopen("/proc/thread-self/net/dev", "r"); /* /sys shows another namespace */

	if (!file)
		die("cannot read the counters of the veth");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, " lsb1: %*u %" SCNu64, &packets) == 1)
			break;
	fclose(file);
	return packets;
}

/* ns of one packet all in: sender, veth and verdict share a CPU. */
static double veth_sample(void)
{
	gen_send(gen, VETH_BATCH);
	const uint64_t before = received(), start_ns = gen_now_ns();
	uint64_t now_ns;
	do {
		gen_send(gen, VETH_BATCH);
		now_ns = gen_now_ns();
	} while (now_ns - start_ns < VETH_NS);
	return (double)(now_ns - start_ns) / (double)(received() - before);
}

static struct figure veth_figure(void)
{
	double samples[ROUNDS];

	for (int round = 0; round < ROUNDS; round++)
		samples[round] = veth_sample();
	return figure_of(samples);
}

static int veth_attach(int program)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = XDP_FLAGS_DRV_MODE);
	const int link = bpf_link_create(program, (int)if_nametoindex("lsb1"), BPF_XDP, &opts);

	if (link < 0)
		die("cannot attach to the veth: %s", strerror(errno));
	return link;
}

static struct figure veth_program(int program)
{
	const int link = veth_attach(program);

	for (uint64_t i = 0; i < 20; i++)
		gen_send(gen, VETH_BATCH);
	const struct figure figure = veth_figure();
	close(link);
	return figure;
}

/* What the program alone takes, by the kernel's own clock, in ns. */
static struct figure veth_program_alone(int program)
{
	const int stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
	const int link = veth_attach(program);
	double samples[ROUNDS];

	for (int round = 0; round < ROUNDS; round++) {
		struct bpf_prog_info before = { 0 }, after = { 0 };
		__u32 size = sizeof(before);
		bpf_obj_get_info_by_fd(program, &before, &size);
		veth_sample();
		size = sizeof(after);
		bpf_obj_get_info_by_fd(program, &after, &size);
		samples[round] = (double)(after.run_time_ns - before.run_time_ns) /
				 (double)(after.run_cnt - before.run_cnt);
	}
	close(link);
	if (stats >= 0)
		close(stats);
	return figure_of(samples);
}

static void veth_row(const char *name, struct figure figure)
{
	put(&(struct row){ .name = name, .unit = "ns", .ours = figure, .goal = NAN });
}

static void veth_rival(const char *name, const char *rival, struct figure ours, const char *up,
		       const char *down)
{
	if (!run("%s", up)) {
		printf("%-44s skipped: '%s' failed\n", name, rival);
		return;
	}
	for (int i = 0; i < 20; i++)
		gen_send(gen, VETH_BATCH);
	const struct figure theirs = veth_figure();
	if (!run("%s", down))
		die("cannot remove the rules of %s", rival);
	const double ratio = theirs.median / ours.median;
	put(&(struct row){ .name = name,
			   .unit = "times",
			   .ours = { ratio, theirs.low / ours.high, theirs.high / ours.low },
			   .rival = rival,
			   .theirs = theirs,
			   .goal = 3.5,
			   .is_at_least = true });
}

/* Refused at the end, whoever judges: what is admitted once is nothing beside the flood. */
#define VETH_LIMIT "      - { rate: 2/m, burst: 1 }\n"

static void rows_veth(void)
{
	struct gen_frame frame;

	heading("veth flood, ns per packet all in");
	if (unshare(CLONE_NEWNET) < 0)
		die("cannot make a network namespace");
	if (!run("ip link set lo up && ip link add lsb0 address 02:00:00:00:00:01 type veth peer name "
		 "lsb1 address 02:00:00:00:00:02 && ip link set lsb0 up && ip link set lsb1 up")) {
		puts("skipped: no veth");
		return;
	}
	run("sysctl -q net.ipv6.conf.all.disable_ipv6=1");
	if (!run("ethtool -K lsb1 gro on >/dev/null 2>&1"))
		puts("(no ethtool: rows without a program on the receiving end may be missing)");
	gen_frame_make(&frame, 4, 17, 1000, 0);
	gen_frame_use(gen, &frame);
	gen_config(gen)->redirect = if_nametoindex("lsb0");
	sources(1000000);
	veth_row("bare XDP_DROP", veth_program(drop()));
	struct ls_plane *plane = sandbox(policy_of("%s" VETH_LIMIT, ONE_CLASS));
	sources(1000);
	veth_row("loadshed, 1 k sources", veth_program(ls_plane_program_fd(plane)));
	sources(1000000);
	const struct figure ours = veth_program(ls_plane_program_fd(plane));
	put(&(struct row){
		.name = "loadshed, 1 M sources", .unit = "ns", .ours = ours, .goal = 290 });
	veth_row("program alone (run_time_ns): XDP_DROP", veth_program_alone(drop()));
	veth_row("program alone: loadshed, 1 M sources",
		 veth_program_alone(ls_plane_program_fd(plane)));
	ls_plane_close(plane);
	heading("times as fast, at 1 M sources; rival: its ns");
	veth_rival("nft meter, netdev ingress hook", "nft meter", ours,
		   "nft -f - <<'E'\n"
		   "table netdev lsb {\n"
		   " set m { type ipv4_addr; flags dynamic; size 2000000; timeout 10m; }\n"
		   " chain in { type filter hook ingress device lsb1 priority 0;\n"
		   "  update @m { ip saddr limit rate over 2/minute burst 1 packets } drop\n"
		   "  drop\n }\n}\nE",
		   "nft delete table netdev lsb");
	veth_rival("iptables hashlimit, raw PREROUTING", "iptables hashlimit", ours,
		   "iptables -t raw -A PREROUTING -i lsb1 -m hashlimit --hashlimit-above 2/minute "
		   "--hashlimit-burst 1 --hashlimit-mode srcip --hashlimit-name lsb "
		   "--hashlimit-htable-size 1048576 --hashlimit-htable-max 2000000 "
		   "--hashlimit-htable-expire 600000 -j DROP && "
		   "iptables -t raw -A PREROUTING -i lsb1 -j DROP",
		   "iptables -t raw -F PREROUTING");
}

/* ---- the machine ---- */

static void first_line(const char *command, char *ret, size_t size)
{
	FILE *pipe = popen(command, "r");

	if (!pipe || !fgets(ret, (int)size, pipe))
		snprintf(ret, size, "unknown");
	ret[strcspn(ret, "\n")] = '\0';
	if (pipe)
		pclose(pipe);
}

static json_t *describe(void)
{
	struct utsname system_name;
	char cpu[128], compiler[128], load[64];

	uname(&system_name);
	first_line("sed -n 's/^model name[^:]*: //p' /proc/cpuinfo", cpu, sizeof(cpu));
	first_line("${CLANG:-clang} --version", compiler, sizeof(compiler));
	first_line("cut -d' ' -f1 /proc/loadavg", load, sizeof(load));
	printf("%s, %u CPUs, load %s\nkernel %s %s; %s\n", cpu, gen_cpus(), load,
	       system_name.release, system_name.machine, compiler);
	printf("Medians of %d, each the lowest of %d runs of %u packets.\n", ROUNDS, TRIES,
	       PACKETS);
	return json_pack("{s:s,s:i,s:s,s:s,s:s}", "cpu", cpu, "cpus", (int)gen_cpus(), "kernel",
			 system_name.release, "clang", compiler, "load", load);
}

static void remove_folder(void)
{
	run("rm -rf '%s'", folder);
}

int main(int argc, char **argv)
{
	const char *only = getenv("LS_BENCH_ROWS"); /* letters of the groups below; NULL: all */

	if (argc < 2 || argc > 3)
		die("usage: bench OUT.json [DATA]");
	data_folder = argc > 2 ? argv[2] : NULL;
	if (!mkdtemp(folder))
		die("cannot make '%s'", folder);
	atexit(remove_folder);
	gen_prefer();
	rows = json_array();
	gen = gen_open();
	rivals = rivals_skeleton__open_and_load();
	if (!rivals)
		die("cannot load the rivals");
	gen_config(gen)->spread = GEN_SPREAD;
	gen_config(gen)->base = 0x0A000001;
	json_t *machine = describe();

	static const struct {
		char letter;
		void (*run)(void);
	} groups[] = {
		{ 'l', rows_limits }, { 'e', rows_refused }, { 'c', rows_classes },
		{ 'p', rows_lists },  { 'b', rows_bans },    { 't', rows_two_cpus },
		{ 'a', rows_apply },  { 'v', rows_veth },
	};
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		gen_pin(CPU);
		if (!only || strchr(only, groups[i].letter))
			groups[i].run();
	}
	json_t *document = json_pack("{s:o,s:o}", "machine", machine, "rows", rows);
	if (json_dump_file(document, argv[1], JSON_INDENT(1) | JSON_REAL_PRECISION(6)) < 0)
		die("cannot write '%s'", argv[1]);
	json_decref(document);
	printf("\n%u goals missed; written to %s\n", missed, argv[1]);
	rivals_skeleton__destroy(rivals);
	gen_close(gen);
	return 0;
}
