/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/* Putting a policy in force, and what is held for it. */

#include "user/bench/internal.h"

#include <math.h>

#include "user/base/error.h"
#include "user/plane/plane.h"
#include "user/plane/sandbox.h"
#include "user/policy/policy.h"

static void put(struct ls_bench *bench, const char *name, const char *unit, struct ls_figure figure,
		double goal)
{
	ls_report_row(bench->report,
		      &(struct ls_report_row){
			      .name = name, .unit = unit, .ours = figure, .goal = goal });
}

struct times {
	double read_ms[LS_BENCH_ROUNDS], publish_ms[LS_BENCH_ROUNDS], all_ms[LS_BENCH_ROUNDS];
};

/* Reads and publishes a policy with 100 k prefixes; the time of what made its text is in that of reading. */
static int apply_once(struct ls_bench *bench, int round, struct times *times,
		      struct ls_error *error)
{
	_cleanup_(ls_policy_freep) struct ls_policy *policy = NULL;
	struct ls_plane *plane = NULL;
	int r = ls_bench_plane_with(bench, 0, (struct ls_recipe){ LS_RECIPE_LIMITS, 1 }, &plane,
				    error);

	if (r < 0)
		return r;
	const uint64_t start_ns = ls_gen_now_ns();
	r = ls_recipe_policy((struct ls_recipe){ LS_RECIPE_LIST4, 100000 }, &policy, error);
	if (r < 0)
		return r;
	const uint64_t middle_ns = ls_gen_now_ns();
	r = ls_plane_publish(plane, policy, NULL, NULL, error);
	if (r < 0)
		return r;
	const uint64_t end_ns = ls_gen_now_ns();
	/* It is in force now; what the slot had before comes back by the next ls_bench_plane_with(). */
	bench->slots[0].recipe = (struct ls_recipe){ LS_RECIPE_LIST4, 100000 };
	times->read_ms[round] = (double)(middle_ns - start_ns) / 1e6;
	times->publish_ms[round] = (double)(end_ns - middle_ns) / 1e6;
	times->all_ms[round] = (double)(end_ns - start_ns) / 1e6;
	return 0;
}

int ls_bench_apply(struct ls_bench *bench, struct ls_error *error)
{
	static const struct ls_report_group group = {
		.name = "apply",
		.title = "policy and memory",
	};
	uint64_t wanted = 0, available = 0;
	struct times times;
	int r = 0;

	ls_report_group(bench->report, &group);
	for (int round = 0; round < LS_BENCH_ROUNDS && r == 0; round++)
		r = apply_once(bench, round, &times, error);
	if (r < 0)
		return r;
	put(bench, "read a policy with 100 k prefixes, ms", "ms", ls_figure_of(times.read_ms), NAN);
	put(bench, "publish it, ms", "ms", ls_figure_of(times.publish_ms), NAN);
	put(bench, "both: apply, ms", "ms", ls_figure_of(times.all_ms), 200);
	const uint64_t table = ls_plane_sandbox_table_bytes(bench->slots[0].plane);
	put(bench, "table bytes per tracked (source, limit)", "bytes",
	    ls_figure_exact((double)table / LS_BENCH_TRACKED), 64);
	if (ls_load_memory(LS_BENCH_CAPACITY, &wanted, &available) < 0)
		return ls_error_oom(error);
	put(bench, "all tables of an instance, MB", "MB", ls_figure_exact((double)wanted / 1e6),
	    NAN);
	return 0;
}
