/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * Rates from one a day to 100 million a second, under a clock that the test moves. A source that
 * always asks again before the next token has grown must have passed exactly burst + floor(rate *
 * t) packets after each of its packets (with a burst of 1 only where tokens come with packets: else
 * the bucket is full for a moment). Where the time of a token is no whole number of ticks (1/64
 * ns), rounding gives away at most one tick per packet (pure/bucket.h), and that much more may
 * pass.
 */

#include "tests/kern/common.h"

#define START_NS 1700000000000000000ULL

struct rate_case {
	const char *rate;
	uint64_t count, period_ns;
	uint64_t burst;
};

static const struct rate_case cases[] = {
	{ "1/d", 1, 86400000000000, 1 },	 { "1/d", 1, 86400000000000, 5 },
	{ "7/d", 7, 86400000000000, 3 },	 { "1/h", 1, 3600000000000, 2 },
	{ "59/m", 59, 60000000000, 10 },	 { "1/s", 1, 1000000000, 1 },
	{ "3/s", 3, 1000000000, 100 },		 { "200/s", 200, 1000000000, 400 },
	{ "1k/s", 1000, 1000000000, 1 },	 { "33.333k/s", 33333, 1000000000, 50 },
	{ "1M/s", 1000000, 1000000000, 16 },	 { "7M/s", 7000000, 1000000000, 7 },
	{ "10M/s", 10000000, 1000000000, 1000 }, { "33M/s", 33000000, 1000000000, 64 },
	{ "64M/s", 64000000, 1000000000, 2 },	 { "100M/s", 100000000, 1000000000, 1000 },
};

static void check_case(const struct rate_case *item, int family)
{
	char text[256], name[96];
	struct ls_gen_frame frame;
	const uint64_t packets = item->burst * 2 + (kern_is_long() ? 100000 : 10000);
	/* Twice as often as tokens come, so that none waits for the packet after next. */
	const uint64_t step_ns = item->period_ns / item->count / 2;
	const long double cost_ticks =
		64.0L * (long double)item->period_ns / (long double)item->count;
	uint64_t passed = 0, wrong_at = UINT64_MAX, wrong_expected = 0, wrong_passed = 0;

	snprintf(text, sizeof(text),
		 "version: 1\nclasses:\n  - name: a\n    match: any\n    limits:\n"
		 "      - { rate: %s, burst: %" PRIu64 " }\n",
		 item->rate, item->burst);
	snprintf(name, sizeof(name), "rate_%s_burst_%" PRIu64 "_ipv%d", item->rate, item->burst,
		 family);
	struct ls_plane *plane = kern_sandbox(text, 1000, false);
	gen_frame_make(&frame, family, 17, 9, 0);
	ls_plane_sandbox_begin(plane, START_NS);
	for (uint64_t i = 0; i < packets; i++) {
		const uint64_t t_ns = i * step_ns;
		struct ls_replay_abi verdict;
		if (ls_plane_run(plane, frame.bytes, frame.length, (uint32_t)frame.length,
				 START_NS + t_ns, &verdict) < 0) {
			fprintf(stderr, "cannot run a frame\n");
			exit(1);
		}
		passed += verdict.verdict == LS_VERDICT_PASS;
		const unsigned __int128 grown =
			(unsigned __int128)t_ns * item->count / item->period_ns;
		uint64_t expected = item->burst + (uint64_t)grown;
		if (expected > i + 1)
			expected = i + 1;
		/* One tick per packet, and the packet that it may complete. */
		const uint64_t extra = cost_ticks == (long double)(uint64_t)cost_ticks
					       ? 0
					       : (uint64_t)((long double)passed / cost_ticks) + 1;
		if ((passed < expected || passed > expected + extra) && wrong_at == UINT64_MAX) {
			wrong_at = i + 1;
			wrong_expected = expected;
			wrong_passed = passed;
		}
	}
	if (wrong_at == UINT64_MAX)
		kern_result(true, name, "%" PRIu64 " of %" PRIu64 " passed", passed, packets);
	else
		kern_result(false, name,
			    "after packet %" PRIu64 " %" PRIu64 " had passed instead of %" PRIu64,
			    wrong_at, wrong_passed, wrong_expected);
	ls_plane_close(plane);
}

int main(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_case(&cases[i], i % 4 == 3 ? 6 : 4);
	return kern_status();
}
