/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * Two CPUs on one source, on the kernel's own clock: what passes is at most burst + rate * t + 16
 * packets per CPU, and at least 99 % of burst + rate * t, whatever the rate, also for a bucket that
 * a whole class shares and for three limits at once.
 *
 * t is measured outside: from before the first packet to after the last for the upper bound. The
 * lower one takes the time in which a CPU was judging, from the first thread's start to the last
 * one's end; what a small burst cannot hold is lost while neither runs (1 000 packets at 10 M/s are
 * 100 us), so the threads go before everything else. A hypervisor does not know of that: a run
 * that loses more is repeated, up to four times. What passes too much fails at once.
 */

#include <pthread.h>

#include "tests/kern/common.h"

#define RUN_PACKETS 500000U
#define FOR_NS 400000000ULL /* real-time threads are stopped after 950 ms of a second */
#define LONG_ROUNDS 10
#define TRIES 5
#define SLACK_PACKETS (16 * 2)

struct runner {
	struct ls_gen *gen;
	pthread_barrier_t *barrier;
	unsigned cpu;
	uint64_t start_ns, end_ns;
	uint64_t packets;
};

static void *runner_main(void *context)
{
	struct runner *runner = context;

	gen_pin(runner->cpu);
	ls_gen_hurry();
	pthread_barrier_wait(runner->barrier);
	runner->start_ns = ls_gen_now_ns();
	do {
		gen_run(runner->gen, RUN_PACKETS);
		runner->packets += RUN_PACKETS;
		runner->end_ns = ls_gen_now_ns();
	} while (runner->end_ns - runner->start_ns < FOR_NS);
	return NULL;
}

/* Reports the run, but for one that passed too little and is not the last try: false. */
static bool race_once(struct ls_gen *gen, const char *name, double rate, double burst,
		      const char *limits, bool is_last)
{
	char text[1024];

	snprintf(text, sizeof(text),
		 "version: 1\nclasses:\n  - name: a\n    match: any\n    limits:\n%s", limits);
	struct ls_plane *plane = kern_sandbox(text, 1000, true);
	pthread_barrier_t barrier;
	pthread_t threads[2];
	struct runner runners[2];

	gen_target(gen, ls_plane_program_fd(plane));
	pthread_barrier_init(&barrier, NULL, 2);
	for (unsigned i = 0; i < 2; i++) {
		runners[i] = (struct runner){ .gen = gen, .barrier = &barrier, .cpu = i };
		if (pthread_create(&threads[i], NULL, runner_main, &runners[i]) != 0)
			abort();
	}
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&barrier);

	const uint64_t start = runners[0].start_ns < runners[1].start_ns ? runners[0].start_ns
									 : runners[1].start_ns;
	const uint64_t end = runners[0].end_ns > runners[1].end_ns ? runners[0].end_ns
								   : runners[1].end_ns;
	const double seconds = (double)(end - start) / 1e9;
	const double packets = (double)(runners[0].packets + runners[1].packets);
	double allowed = burst + rate * seconds;
	const double passed = (double)kern_count(plane, "a", LS_VERDICT_PASS, LS_REASON_MAX);
	const double refused = (double)kern_count(plane, "a", LS_VERDICT_DROP, LS_REASON_MAX);
	const double highest = allowed + SLACK_PACKETS;
	if (allowed > packets)
		allowed = packets;
	/* Whole packets: the last fraction of one is nobody's. */
	const bool is_enough = passed >= 0.99 * allowed - 1;
	const bool is_safe = passed <= highest && passed + refused == packets;
	const bool is_reported = is_enough || !is_safe || is_last;
	if (is_reported)
		kern_result(
			is_enough && is_safe, name,
			"%.0f of %.0f passed in %.3f s (%.1f Mpps); allowed %.1f, that is %.2f %%; contended %" PRIu64,
			passed, packets, seconds, packets / seconds / 1e6, allowed,
			100 * passed / allowed, (uint64_t)ls_plane_control(plane)->contended);
	ls_plane_close(plane);
	return is_reported;
}

static void race(struct ls_gen *gen, const char *name, double rate, double burst,
		 const char *limits)
{
	for (int round = 0; round < (kern_is_long() ? LONG_ROUNDS : 1); round++)
		for (int try = 1; !race_once(gen, name, rate, burst, limits, try == TRIES); try++)
			continue;
}

int main(void)
{
	if (gen_cpus() < 2) {
		kern_skip("race", "one CPU");
		return 0;
	}
	struct ls_gen *gen = gen_open();
	race(gen, "race_100_per_second", 100, 100, "      - { rate: 100/s }\n");
	race(gen, "race_1k_per_second", 1e3, 1e3, "      - { rate: 1k/s }\n");
	race(gen, "race_10k_per_second", 1e4, 1e4, "      - { rate: 10k/s }\n");
	race(gen, "race_100k_per_second", 1e5, 1e5, "      - { rate: 100k/s }\n");
	race(gen, "race_1M_per_second_burst_1k", 1e6, 1e3, "      - { rate: 1M/s, burst: 1k }\n");
	race(gen, "race_10M_per_second", 1e7, 1e7, "      - { rate: 10M/s }\n");
	race(gen, "race_10M_per_second_burst_1k", 1e7, 1e3, "      - { rate: 10M/s, burst: 1k }\n");
	race(gen, "race_per_class_100k", 1e5, 1e5, "      - { per: class, rate: 100k/s }\n");
	race(gen, "race_per_class_10M", 1e7, 1e4,
	     "      - { per: class, rate: 10M/s, burst: 10k }\n");
	race(gen, "race_three_limits", 1e5, 1e4,
	     "      - { name: source, rate: 1M/s, burst: 1M }\n"
	     "      - { name: total, per: class, rate: 100k/s, burst: 10k }\n"
	     "      - { name: net, per: { ipv4: 24 }, rate: 300k/s, burst: 300k }\n");
	race(gen, "race_three_limits_source_binds", 1e6, 1e4,
	     "      - { name: source, rate: 1M/s, burst: 10k }\n"
	     "      - { name: total, per: class, rate: 2M/s, burst: 1M }\n"
	     "      - { name: net, per: { ipv4: 24 }, rate: 3M/s, burst: 1M }\n");
	race(gen, "race_fixed_window", 0, 1000,
	     "      - { count: packets, limit: 1000, window: 1d, algorithm: fixed-window }\n");
	ls_gen_close(gen);
	return kern_status();
}
