/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/* The bucket's arithmetic alone, then through the whole program on a clock that the test moves. */

#include "tests/twin/twin.h"

#include "pure/bucket.h"
#include "pure/overload.h"

#define TICKS_PER_SECOND (64 * TWIN_SECOND)

static void burst_is_admitted_then_rate_holds(void **state)
{
	(void)state;
	const __u64 cost = TICKS_PER_SECOND / 10, tau = 5 * cost;
	__u64 tat = 0, now = 12345;
	int admitted = 0;
	for (int i = 0; i < 20; i++)
		admitted += ls_bucket_take(tat, now, cost, tau, tau, &tat);
	assert_int_equal(admitted, 5);
	for (int step = 1; step <= 1000; step++) {
		now += cost / 4;
		admitted += ls_bucket_take(tat, now, cost, tau, tau, &tat);
	}
	assert_int_equal(admitted, 5 + 250);
}

static void a_refusal_changes_nothing_and_names_the_wait(void **state)
{
	(void)state;
	const __u64 cost = 1000, tau = 1000;
	__u64 tat = 0, untouched;
	assert_true(ls_bucket_take(0, 500, cost, tau, tau, &tat));
	untouched = tat;
	assert_false(ls_bucket_take(tat, 700, cost, tau, tau, &tat));
	assert_int_equal(tat, untouched);
	__u64 wait = ls_bucket_wait(tat, 700, cost, tau, tau);
	assert_int_equal(wait, 800);
	assert_false(ls_bucket_take(tat, 700 + wait - 1, cost, tau, tau, &tat));
	assert_true(ls_bucket_take(tat, 700 + wait, cost, tau, tau, &tat));
}

static void a_packet_larger_than_the_burst_leaves_a_debt(void **state)
{
	(void)state;
	__u64 tat = 0;
	assert_true(ls_bucket_take(tat, 100, 5000, 1000, 5000, &tat));
	assert_false(ls_bucket_take(tat, 100 + 4999, 5000, 1000, 5000, &tat));
	assert_false(ls_bucket_take(tat, 100 + 4000, 1, 1000, 5000, &tat));
	assert_true(ls_bucket_take(tat, 100 + 4001, 1, 1000, 5000, &tat));
}

static void time_that_goes_back_mints_nothing_and_locks_nobody_out(void **state)
{
	(void)state;
	const __u64 cost = 100, tau = 400;
	__u64 tat = 0, now = 1000000;
	int admitted = 0;
	for (int i = 0; i < 100; i++)
		admitted += ls_bucket_take(tat, i % 2 ? now : now - 64, cost, tau, tau, &tat);
	assert_in_range(admitted, 4, 5);
	/* A TAT far ahead of what the limit can leave behind counts as an empty bucket, not as a lock-out. */
	tat = now + 1000 * TICKS_PER_SECOND;
	assert_int_equal(ls_bucket_wait(tat, now, cost, tau, tau), cost);
}

static void the_circle_of_ticks_has_no_seam(void **state)
{
	(void)state;
	const __u64 cost = 1ULL << 58, tau = LS_TAU_TICKS_MAX;
	__u64 now = 0ULL - (1ULL << 59), tat = 0;
	int admitted = 0;
	for (int i = 0; i < 64; i++) {
		admitted += ls_bucket_take(tat, now, cost, tau, tau, &tat);
		assert_true(tat != 0 && tat != ~0ULL);
		now += cost / 4;
	}
	assert_int_equal(admitted, 8 + 15); /* the burst of 8, and 63 / 4 refilled in between */
}

static void the_reserved_states_are_never_made(void **state)
{
	(void)state;
	assert_int_equal(ls_bucket_state(0, 0), 1);
	assert_int_equal(ls_bucket_state(~0ULL, 0), 1);
	assert_int_equal(ls_bucket_state(~0ULL, 1), 1);
	assert_int_equal(ls_bucket_state(~0ULL, 2), 1);
	assert_int_equal(ls_bucket_state(~0ULL, 3), 2);
}

static void overload_keeps_the_reserve_of_each_priority(void **state)
{
	(void)state;
	const __u64 cost = 10, tau = 80 * cost;
	static const int admitted[] = { 40, 60, 70, 80 };
	for (uint32_t priority = 0; priority < 4; priority++) {
		__u64 tat = 0;
		int n = 0;
		for (int i = 0; i < 100; i++)
			n += ls_overload_take(tat, 1, cost, tau, ls_overload_reserve(tau, priority),
					      1, &tat);
		assert_int_equal(n, admitted[priority]);
		/* Work in progress is never refused and takes the rest. */
		for (int i = 0; i < 100; i++)
			assert_true(ls_overload_take(tat, 1, cost, tau, tau / 2, 0, &tat));
		assert_int_equal(ls_bucket_used(tat, 1, tau), tau);
	}
}

/* Through the program: admitted = burst + floor(rate * t) for rates over eleven decades. */
static void rates_hold_from_one_a_day_to_100_Mpps(void **state)
{
	(void)state;
	static const struct {
		const char *rate;
		__u64 units, period_ns;
	} rows[] = {
		{ "1/d", 1, 86400 * TWIN_SECOND },
		{ "7/h", 7, 3600 * TWIN_SECOND },
		{ "3/s", 3, TWIN_SECOND },
		{ "999/s", 999, TWIN_SECOND },
		{ "10k/s", 10000, TWIN_SECOND },
		{ "1M/s", 1000000, TWIN_SECOND },
		{ "12M/s", 12000000, TWIN_SECOND },
		{ "100M/s", 100000000, TWIN_SECOND },
		{ "640M/s", 640000000, TWIN_SECOND },
		{ "4G/s", 4000000000ULL, TWIN_SECOND },
	};
	uint8_t *frame = ls_host_frame(4096);
	for (size_t row = 0; row < sizeof(rows) / sizeof(*rows); row++) {
		/* With intervals of a few ns, what arrives within one ns is a burst. */
		__u64 burst = rows[row].period_ns / rows[row].units >= 10 ? 2 : 64;
		char yaml[256];
		snprintf(yaml, sizeof(yaml),
			 "version: 1\nclasses:\n  - name: all\n    match: any\n    limits:\n"
			 "      - { rate: %s, burst: %llu }\n",
			 rows[row].rate, (unsigned long long)burst);
		twin_start(1, yaml);
		twin_udp(frame, 0xc6336407, 53);
		/* 20 000 packets at 4 times the rate, in whole ns. */
		__u64 packets = 20000, admitted = 0, now = 0;
		for (__u64 i = 0; i < packets; i++) {
			now = (__u64)((unsigned __int128)i * rows[row].period_ns /
				      (4 * rows[row].units));
			admitted += ls_host_replay(frame, TWIN_UDP_BYTES, now).verdict ==
				    LS_VERDICT_PASS;
		}
		__u64 refilled =
			(__u64)((unsigned __int128)now * rows[row].units / rows[row].period_ns);
		/* A burst that is asked every quarter of an interval loses nothing to the cap; what it
		 * gains is a tick per packet at the most. */
		assert_in_range(admitted, burst + refilled - (burst > 2),
				burst + refilled + packets * rows[row].units / (64 * TWIN_SECOND) +
					1);
	}
	ls_host_stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(burst_is_admitted_then_rate_holds),
		cmocka_unit_test(a_refusal_changes_nothing_and_names_the_wait),
		cmocka_unit_test(a_packet_larger_than_the_burst_leaves_a_debt),
		cmocka_unit_test(time_that_goes_back_mints_nothing_and_locks_nobody_out),
		cmocka_unit_test(the_circle_of_ticks_has_no_seam),
		cmocka_unit_test(the_reserved_states_are_never_made),
		cmocka_unit_test(overload_keeps_the_reserve_of_each_priority),
		cmocka_unit_test(rates_hold_from_one_a_day_to_100_Mpps),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
