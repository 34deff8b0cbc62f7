/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "user/bench/internal.h"
#include "user/base/addr.h"
#include "user/base/error.h"
#include "user/plane/bans.h"
#include "user/plane/plane.h"
#include "user/plane/sandbox.h"
#include "user/plane/version.h"
#include "user/policy/policy.h"

/* A sample: the lowest of so many runs, each about this long: short enough to fall between two interruptions. */
#define TRIES 3
#define RUN_NS 5e6
#define PACKETS_MIN 10000U
#define PACKETS_MAX 100000U
/* Run before a sample, so that it finds what a flood finds: with many sources the program's own tables in the cache
 * that is left after others had their turn. Without it the row with 1 M sources was 12 % higher. */
#define PACKETS_AHEAD 200000U
#define SOURCES_MANY 100000U

#define SOURCES_LARGE 1000000U
#define SOURCES_SMALL 131072U
#define PREFIXES_LARGE 1000000U
#define PREFIXES_SMALL 120000U

/* With tables for a million sources of everybody: two sandboxes, the rivals, a list in the making. */
#define MEMORY_LARGE (900ULL << 20)
#define MEMORY_PER_CPU (17ULL << 20) /* the per-CPU hash has a value for each */

/* Sources that are banned and not among those that send. */
#define STRANGERS (1U << 21)

const struct ls_bench_group ls_bench_groups[] = {
	{ "limits", "a verdict by limits, from 1 to a million sources" },
	{ "classes", "many classes instead of one" },
	{ "lists", "up to a million prefixes, both families" },
	{ "bans", "with and without bans" },
	{ "frames", "VLAN tags, IPv6, extension headers" },
	{ "cpus", "two CPUs on one source" },
	{ "apply", "putting a policy in force, and memory" },
};
const size_t ls_n_bench_groups = sizeof(ls_bench_groups) / sizeof(ls_bench_groups[0]);

static int (*const runs[])(struct ls_bench *bench, struct ls_error *error) = {
	ls_bench_limits, ls_bench_classes, ls_bench_lists, ls_bench_bans,
	ls_bench_frames, ls_bench_cpus,	   ls_bench_apply,
};
_Static_assert(sizeof(runs) / sizeof(runs[0]) ==
		       sizeof(ls_bench_groups) / sizeof(ls_bench_groups[0]),
	       "one for each");

static void close_slots(struct ls_bench *bench)
{
	for (size_t i = 0; i < sizeof(bench->slots) / sizeof(bench->slots[0]); i++) {
		ls_plane_close(bench->slots[i].plane);
		bench->slots[i].plane = NULL;
	}
}

/* With tables of its own: in those of a group before it a million sources stand, in the way of the few that a row
 * has, and only in one of the two that are compared. That made a list look 4 ns slower than it is. */
int ls_bench_run(struct ls_bench *bench, size_t group, struct ls_error *error)
{
	close_slots(bench);
	return runs[group](bench, error);
}

struct ls_gen *ls_bench_gen(struct ls_bench *bench)
{
	return bench->gen;
}

const struct ls_rivals *ls_bench_rivals(const struct ls_bench *bench)
{
	return bench->rivals;
}

/* ---- the machine ---- */

/* First line of a file that starts with `key` (NULL: any), after its first ": "; "" when there is none. */
static void read_line(const char *path, const char *key, char *ret, size_t size)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	char line[512];

	ret[0] = '\0';
	while (file && fgets(line, sizeof(line), file)) {
		if (key && strncmp(line, key, strlen(key)) != 0)
			continue;
		const char *value = key ? strstr(line, ": ") : line;
		if (!value)
			return;
		value += key ? 2 : 0;
		const size_t length = strcspn(value, "\n");
		snprintf(ret, size, "%.*s", (int)(length < size ? length : size - 1), value);
		return;
	}
}

static void describe(struct ls_bench *bench)
{
	struct ls_report *report = bench->report;
	struct utsname system = { 0 };
	char cpu[128], load[64], jit[16];
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	uname(&system);
	read_line("/proc/cpuinfo", "model name", cpu, sizeof(cpu));
	read_line("/proc/loadavg", NULL, load, sizeof(load));
	load[strcspn(load, " ")] = '\0';
	read_line("/proc/sys/net/core/bpf_jit_enable", NULL, jit, sizeof(jit));
	const uint32_t code_bytes = ls_gen_code_bytes(ls_plane_program_fd(bench->slots[0].plane));
	ls_report_line(report, "%s, %ld CPUs, load %s; kernel %s %s", cpu[0] ? cpu : "unknown CPU",
		       cpus, load, system.release, system.machine);
	ls_report_line(report, "loadshed %s, built with %s; %s", LS_VERSION,
		       ls_gen_compiler(bench->gen),
		       code_bytes ? "compiled by the kernel (JIT)" : "interpreted: no JIT");
	ls_report_line(report, "Medians of %d samples, each the lowest of %d runs.",
		       LS_BENCH_ROUNDS, TRIES);
	ls_report_machine(report, "cpu", json_string(cpu));
	ls_report_machine(report, "cpus", json_integer(cpus));
	ls_report_machine(report, "load", json_string(load));
	ls_report_machine(report, "kernel", json_string(system.release));
	ls_report_machine(report, "architecture", json_string(system.machine));
	ls_report_machine(report, "version", json_string(LS_VERSION));
	ls_report_machine(report, "compiler", json_string(ls_gen_compiler(bench->gen)));
	ls_report_machine(report, "jit", json_boolean(code_bytes != 0));
	ls_report_machine(report, "jit_setting", json_string(jit));
	ls_report_machine(report, "code_bytes", json_integer(code_bytes));
	ls_report_machine(report, "rounds", json_integer(LS_BENCH_ROUNDS));
	ls_report_machine(report, "tries", json_integer(TRIES));
}

/* ---- sandboxes ---- */

int ls_bench_plane(struct ls_recipe recipe, struct ls_plane **ret, struct ls_error *error)
{
	_cleanup_(ls_policy_freep) struct ls_policy *policy = NULL;
	int r = ls_recipe_policy(recipe, &policy, error);
	const struct ls_plane_sandbox request = {
		.policy = policy,
		.sources = LS_BENCH_CAPACITY,
		.live_clock = 1,
	};

	return r < 0 ? r : ls_plane_sandbox_open(&request, ret, error);
}

static int add_bans(struct ls_bench *bench, struct ls_plane *plane, struct ls_recipe recipe,
		    struct ls_error *error)
{
	const uint32_t first = recipe.kind == LS_RECIPE_BANNED ? 0 : STRANGERS;
	int r = 0;

	for (uint32_t i = 0; i < recipe.number && r >= 0; i++) {
		const uint32_t address = (uint32_t)ls_gen_source(bench->gen, first + i);
		const struct ls_prefix source = {
			.family = LS_IPV4,
			.length = 32,
			.bytes = { (uint8_t)(address >> 24), (uint8_t)(address >> 16),
				   (uint8_t)(address >> 8), (uint8_t)address },
		};
		r = ls_ban_add(plane, NULL, &source, 3600ULL * 1000000000, LS_ORIGIN_OPERATOR, NULL,
			       error);
	}
	return r < 0 ? r : 0;
}

static bool has_bans(struct ls_recipe recipe)
{
	return recipe.kind == LS_RECIPE_BANS || recipe.kind == LS_RECIPE_BANNED;
}

int ls_bench_plane_with(struct ls_bench *bench, size_t number, struct ls_recipe recipe,
			struct ls_plane **ret, struct ls_error *error)
{
	struct ls_bench_slot *slot = &bench->slots[number];
	_cleanup_(ls_policy_freep) struct ls_policy *policy = NULL;
	int r = 0;

	/* Bans stand beside policies: whoever wants none gets tables of his own. */
	if (slot->plane && has_bans(slot->recipe)) {
		ls_plane_close(slot->plane);
		slot->plane = NULL;
	}
	if (!slot->plane) {
		r = ls_bench_plane(recipe, &slot->plane, error);
	} else if (slot->recipe.kind != recipe.kind || slot->recipe.number != recipe.number) {
		r = ls_recipe_policy(recipe, &policy, error);
		if (r == 0)
			r = ls_plane_publish(slot->plane, policy, NULL, NULL, error);
	}
	if (r >= 0 && has_bans(recipe))
		r = add_bans(bench, slot->plane, recipe, error);
	if (r < 0)
		return r;
	slot->recipe = recipe;
	*ret = slot->plane;
	return 0;
}

/* ---- samples ---- */

static int use(struct ls_bench *bench, const struct ls_bench_side *side, struct ls_error *error)
{
	ls_gen_frame_use(bench->gen, &side->frame);
	return ls_gen_target(bench->gen, side->program_fd, error);
}

static int sample(struct ls_bench *bench, const struct ls_bench_side *side, double *ret,
		  struct ls_error *error)
{
	const uint64_t sources = ls_gen_config(bench->gen)->sources;
	const bool has_many = sources == 0 || sources > SOURCES_MANY;
	double lowest = INFINITY, ns = 0;
	int r = use(bench, side, error);

	if (r == 0)
		r = ls_gen_run(bench->gen, has_many ? PACKETS_AHEAD : PACKETS_MIN, &ns, error);
	const double wanted = RUN_NS / (ns > 1 ? ns : 1);
	const uint32_t packets =
		(uint32_t)fmin(fmax(wanted, (double)PACKETS_MIN), (double)PACKETS_MAX);
	for (int i = 0; i < TRIES && r == 0; i++) {
		r = ls_gen_run(bench->gen, packets, &ns, error);
		lowest = fmin(lowest, ns);
	}
	*ret = lowest;
	return r;
}

/* Enough packets that nearly every source has been there; of spoofed ones, that few sets are untouched. */
static int warm(struct ls_bench *bench, const struct ls_bench_side *side, uint64_t sources,
		struct ls_error *error)
{
	const uint64_t packets = sources ? 3 * sources + PACKETS_MIN : SOURCES_LARGE;
	double ns;
	const int r = use(bench, side, error);

	return r < 0 ? r : ls_gen_run(bench->gen, (uint32_t)packets, &ns, error);
}

/* ---- works ---- */

enum { DROP, BASE, OURS, RIVALS, SIDES = RIVALS + LS_REPORT_RIVALS };

/* What a work runs, warmed up. *ret_n: how many sides there are. */
static int make_sides(struct ls_bench *bench, const struct ls_bench_work *work,
		      struct ls_bench_side sides[static SIDES], size_t *ret_n,
		      struct ls_error *error)
{
	const bool has_base = work->base.kind != LS_RECIPE_NONE;
	struct ls_plane *plane = NULL;
	size_t n = RIVALS;

	for (size_t i = 0; i < SIDES; i++)
		ls_gen_frame_make(&sides[i].frame, &work->frame);
	sides[DROP].program_fd = sides[BASE].program_fd = ls_gen_drop_fd(bench->gen);
	int r = ls_bench_plane_with(bench, 0, work->recipe, &plane, error);
	if (r < 0)
		return r;
	sides[OURS].program_fd = ls_plane_program_fd(plane);
	if (has_base) {
		r = ls_bench_plane_with(bench, 1, work->base, &plane, error);
		if (r < 0)
			return r;
		sides[BASE].program_fd = ls_plane_program_fd(plane);
		ls_gen_frame_make(&sides[BASE].frame, &work->base_frame);
	}
	for (enum ls_rival rival = 0; rival < LS_RIVAL_MAX; rival++)
		if (work->rivals >> rival & 1)
			sides[n++].program_fd = ls_rivals_fd(bench->rivals, rival);
	/* What holds no state per source is warm after a few packets, which each sample begins with. */
	const bool is_list = work->rivals & (1U << LS_RIVAL_TRIE4 | 1U << LS_RIVAL_TRIE6);
	for (size_t i = has_base ? BASE : OURS; i < (is_list ? RIVALS : n) && r == 0; i++)
		r = warm(bench, &sides[i], work->sources, error);
	*ret_n = n;
	return r;
}

static int measure(struct ls_bench *bench, const char *over, const struct ls_bench_work *work,
		   struct ls_error *error)
{
	const bool has_base = work->base.kind != LS_RECIPE_NONE;
	struct ls_bench_side sides[SIDES];
	double samples[SIDES][LS_BENCH_ROUNDS];
	size_t n = 0;

	ls_gen_config(bench->gen)->sources = work->sources;
	int r = make_sides(bench, work, sides, &n, error);
	for (int round = 0; round < LS_BENCH_ROUNDS && r == 0; round++) {
		double ns[SIDES] = { 0 };
		for (size_t i = 0; i < n && r == 0; i++)
			if (i != BASE || has_base)
				r = sample(bench, &sides[i], &ns[i], error);
		samples[OURS][round] = ns[OURS] - ns[has_base ? BASE : DROP];
		for (size_t i = RIVALS; i < n; i++)
			samples[i][round] = ns[i] - ns[DROP];
	}
	if (r < 0)
		return r;
	struct ls_report_row row = {
		.name = work->name,
		.unit = "ns",
		.over = over,
		.ours = ls_figure_of(samples[OURS]),
		.goal = work->goal > 0 ? work->goal : NAN,
	};
	if (work->goal == LS_BENCH_GOAL_MILLION && bench->million_ns > 0)
		row.goal = bench->million_ns + 20;
	for (size_t i = RIVALS; i < n; i++) {
		row.rivals[i - RIVALS].is_known = true;
		row.rivals[i - RIVALS].figure = ls_figure_of(samples[i]);
	}
	ls_report_row(bench->report, &row);
	if (work->sources == SOURCES_LARGE && bench->million_ns <= 0)
		bench->million_ns = row.ours.median;
	return 0;
}

/* The tries hold what the list of the recipe does. */
static int fill_tries(struct ls_bench *bench, struct ls_recipe recipe, struct ls_error *error)
{
	if (recipe.kind != LS_RECIPE_LIST4 && recipe.kind != LS_RECIPE_LIST6)
		return 0;
	const uint8_t family = recipe.kind == LS_RECIPE_LIST4 ? LS_IPV4 : LS_IPV6;
	uint32_t *listed = &bench->listed[family == LS_IPV6];
	int r = 0;
	for (; *listed < recipe.number && r == 0; ++*listed) {
		const struct ls_prefix prefix = ls_recipe_prefix(family, *listed);
		r = ls_rivals_list(bench->rivals, &prefix, 1, error);
	}
	return r;
}

int ls_bench_works(struct ls_bench *bench, const char *over, const struct ls_bench_work *works,
		   size_t count, struct ls_error *error)
{
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++) {
		const struct ls_bench_work *work = &works[i];
		if (work->sources > bench->sources_max ||
		    work->recipe.number > bench->prefixes_max) {
			ls_report_skip(bench->report, work->name,
				       "this machine's memory does not hold it");
			continue;
		}
		r = fill_tries(bench, work->recipe, error);
		if (r == 0)
			r = measure(bench, over, work, error);
	}
	return r;
}

/* ---- open and close ---- */

static int open_all(struct ls_bench *bench, struct ls_error *error)
{
	uint64_t wanted = 0, available = 0;
	struct ls_plane *plane;
	int r = ls_gen_open(&bench->gen, error);

	if (r < 0)
		return r;
	ls_gen_config(bench->gen)->base = 0x0A000001;
	ls_gen_config(bench->gen)->spread = LS_GEN_SPREAD;
	ls_gen_config(bench->gen)->prefix6 = LS_RECIPE_PREFIX6;
	ls_gen_cpus(&bench->cpu, &bench->other_cpu);
	r = ls_gen_pin(bench->cpu);
	if (r < 0)
		return ls_error_set_errno(error, -r, "cannot stay on CPU %u", bench->cpu);

	if (ls_load_memory(LS_BENCH_CAPACITY, &wanted, &available) < 0)
		return ls_error_oom(error);
	const bool is_large =
		available >=
		MEMORY_LARGE + MEMORY_PER_CPU * (uint64_t)sysconf(_SC_NPROCESSORS_CONF);
	bench->sources_max = is_large ? SOURCES_LARGE : SOURCES_SMALL;
	bench->prefixes_max = is_large ? PREFIXES_LARGE : PREFIXES_SMALL;
	r = ls_bench_plane_with(bench, 0, (struct ls_recipe){ LS_RECIPE_LIMITS, 1 }, &plane, error);
	if (r < 0)
		return r;
	return ls_rivals_open(bench->sources_max + bench->sources_max / 16, bench->prefixes_max + 1,
			      &bench->rivals, error);
}

int ls_bench_open(struct ls_report *report, struct ls_bench **ret, struct ls_error *error)
{
	_cleanup_(ls_bench_closep) struct ls_bench *bench = calloc(1, sizeof(*bench));

	if (!bench)
		return ls_error_oom(error);
	bench->report = report;
	const int r = open_all(bench, error);
	if (r < 0)
		return r;
	describe(bench);
	*ret = TAKE_PTR(bench);
	return 0;
}

void ls_bench_close(struct ls_bench *bench)
{
	if (!bench)
		return;
	close_slots(bench);
	ls_rivals_close(bench->rivals);
	ls_gen_close(bench->gen);
	free(bench);
}
