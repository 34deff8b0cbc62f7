/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * Two CPUs on one state: what it costs when its line goes back and forth, and that nothing is lost to it. The
 * accuracy rows compare what was admitted with burst + rate * t, where t is the time in which either CPU ran.
 */

#include "user/bench/internal.h"

#include <math.h>
#include <pthread.h>
#include <time.h>

#include "user/base/error.h"
#include "user/plane/counters.h"
#include "user/plane/plane.h"
#include "user/plane/sandbox.h"

#define RACE_PACKETS 1000000U

struct racer {
	struct ls_gen *gen;
	pthread_barrier_t *barrier;
	unsigned cpu;
	double ns;
	uint64_t start_ns, end_ns;
	int code;
	struct ls_error error;
};

static void *race(void *context)
{
	struct racer *racer = context;

	racer->code = ls_gen_pin(racer->cpu);
	ls_gen_hurry();
	pthread_barrier_wait(racer->barrier);
	racer->start_ns = ls_gen_now_ns();
	if (racer->code == 0)
		racer->code = ls_gen_run(racer->gen, RACE_PACKETS, &racer->ns, &racer->error);
	racer->end_ns = ls_gen_now_ns();
	return NULL;
}

struct race_result {
	double ns;	/* of a packet, mean of both CPUs */
	double took_ns; /* while either ran */
};

static int on_two_cpus(struct ls_bench *bench, int program, struct race_result *ret,
		       struct ls_error *error)
{
	struct racer racers[2] = { 0 };
	pthread_barrier_t barrier;
	pthread_t threads[2];
	int r = ls_gen_target(bench->gen, program, error);

	if (r < 0)
		return r;
	pthread_barrier_init(&barrier, NULL, 3);
	for (int i = 0; i < 2; i++) {
		racers[i].gen = bench->gen;
		racers[i].barrier = &barrier;
		racers[i].cpu = i ? bench->other_cpu : bench->cpu;
		r = pthread_create(&threads[i], NULL, race, &racers[i]);
		if (r !=
		    0) /* the other, if there is one, waits for ever: the process ends with this */
			return ls_error_set_errno(error, r, "cannot start a thread");
	}
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&barrier);
	for (int i = 0; i < 2; i++)
		if (racers[i].code < 0)
			return ls_error_set(error, "cannot run on CPU %u: %s", racers[i].cpu,
					    racers[i].error.text);
	ret->ns = (racers[0].ns + racers[1].ns) / 2;
	ret->took_ns = fmax((double)racers[0].end_ns, (double)racers[1].end_ns) -
		       fmin((double)racers[0].start_ns, (double)racers[1].start_ns);
	return 0;
}

static int passed(struct ls_plane *plane, uint64_t *ret, struct ls_error *error)
{
	_cleanup_stats_ struct ls_stats stats = { 0 };
	const int r = ls_stats_read(plane, NULL, &stats, error);

	*ret = stats.pass.packets;
	return r;
}

/* Nanoseconds over XDP_DROP while two CPUs run the recipe. */
static int row_cost(struct ls_bench *bench, const char *name, struct ls_recipe recipe,
		    struct ls_error *error)
{
	double samples[LS_BENCH_ROUNDS];
	struct ls_plane *plane = NULL;
	int r = ls_bench_plane_with(bench, 0, recipe, &plane, error);

	for (int round = 0; round < LS_BENCH_ROUNDS && r == 0; round++) {
		struct race_result floor = { 0 }, ours = { 0 };
		r = on_two_cpus(bench, ls_gen_drop_fd(bench->gen), &floor, error);
		if (r == 0)
			r = on_two_cpus(bench, ls_plane_program_fd(plane), &ours, error);
		samples[round] = ours.ns - floor.ns;
	}
	if (r < 0)
		return r;
	ls_report_row(bench->report, &(struct ls_report_row){ .name = name,
							      .unit = "ns",
							      .over = "XDP_DROP",
							      .ours = ls_figure_of(samples),
							      .goal = NAN });
	return 0;
}

/* What is admitted of what may be, in percent, and how many packets passed unjudged for want of luck. */
static int row_accuracy(struct ls_bench *bench, const char *name, struct ls_recipe recipe,
			struct ls_error *error)
{
	double samples[LS_BENCH_ROUNDS];
	struct ls_plane *plane = NULL;
	int r = ls_bench_plane_with(bench, 0, recipe, &plane, error);

	for (int round = 0; round < LS_BENCH_ROUNDS && r == 0; round++) {
		struct race_result result = { 0 };
		uint64_t before = 0, after = 0;
		/* The bucket has to be full at the start, as the sum below has it. */
		const struct timespec refill = { .tv_nsec = 2L * LS_RECIPE_STRICT_BURST *
							    (1000000000 / LS_RECIPE_STRICT_RATE) };
		nanosleep(&refill, NULL);
		r = passed(plane, &before, error);
		if (r == 0)
			r = on_two_cpus(bench, ls_plane_program_fd(plane), &result, error);
		if (r == 0)
			r = passed(plane, &after, error);
		samples[round] =
			100 * (double)(after - before) /
			(LS_RECIPE_STRICT_BURST + result.took_ns * LS_RECIPE_STRICT_RATE / 1e9);
	}
	if (r < 0)
		return r;
	ls_report_row(bench->report, &(struct ls_report_row){ .name = name,
							      .unit = "%",
							      .ours = ls_figure_of(samples),
							      .goal = 99,
							      .is_at_least = true });
	return 0;
}

int ls_bench_cpus(struct ls_bench *bench, struct ls_error *error)
{
	static const struct ls_report_group group = {
		.name = "cpus",
		.title = "two CPUs, one source",
	};
	static const struct ls_gen_kind kind = { .family = 4,
						 .protocol = 17,
						 .port = LS_RECIPE_PORT };
	const struct ls_recipe generous = { LS_RECIPE_LIMITS, 1 }, shared = { LS_RECIPE_CLASS, 1 },
			       strict = { LS_RECIPE_STRICT, 1 },
			       strict_class = { LS_RECIPE_CLASS_STRICT, 1 };
	struct ls_gen_frame frame;

	ls_report_group(bench->report, &group);
	if (bench->cpu == bench->other_cpu) {
		ls_report_skip(bench->report, "two CPUs, one source", "there is one CPU");
		return 0;
	}
	ls_gen_frame_make(&frame, &kind);
	ls_gen_frame_use(bench->gen, &frame);
	ls_gen_config(bench->gen)->sources = 1;
	int r = row_cost(bench, "all admitted, ns over XDP_DROP", generous, error);
	if (r == 0)
		r = row_cost(bench, "one limit of the class, all admitted, ns", shared, error);
	if (r == 0)
		r = row_cost(bench, "mostly refused (1 M/s), ns over XDP_DROP", strict, error);
	if (r == 0)
		r = row_accuracy(bench, "admitted, % of burst + rate * t", strict, error);
	if (r == 0)
		r = row_accuracy(bench, "the same by a limit of the class, %", strict_class, error);
	return r;
}
