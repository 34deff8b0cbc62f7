/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/* The window algorithms against their definitions in exact arithmetic. */

#include "tests/twin/twin.h"

#include "pure/window.h"

static void sliding_window_meets_the_check_value(void **state)
{
	(void)state;
	/* 50 per 60 s, 42 in the previous window, 15 s into this one: the 18th fits (49.5), the 19th not. */
	const __u64 window = 60 * TWIN_SECOND;
	__u64 word = 0;
	struct ls_window_clock before = ls_window_at(1000 * window + 5 * TWIN_SECOND, window);
	for (int i = 0; i < 42; i++)
		assert_true(ls_sliding_take(word, before, window, 1, 50, &word));
	struct ls_window_clock now = ls_window_at(1001 * window + 15 * TWIN_SECOND, window);
	for (int i = 1; i <= 18; i++)
		assert_true(ls_sliding_take(word, now, window, 1, 50, &word));
	assert_false(ls_sliding_take(word, now, window, 1, 50, &word));
}

static void sliding_window_is_exact(void **state)
{
	(void)state;
	__u64 seed = 1;
	for (int i = 0; i < 200000; i++) {
		__u64 window = LS_WINDOW_NS_MIN +
			       twin_random(&seed) % (LS_WINDOW_NS_MAX - LS_WINDOW_NS_MIN);
		__u64 previous = twin_random(&seed) % (LS_SLIDING_LIMIT_MAX + 1);
		__u64 room = twin_random(&seed) % (LS_SLIDING_LIMIT_MAX + 1);
		__u64 remaining = 1 + twin_random(&seed) % window;
		if (i % 4 == 0 && previous) /* near equality, where rounding would show */
			remaining = (__u64)((unsigned __int128)room * window / previous);
		if (remaining == 0 || remaining > window)
			continue;
		int right = (unsigned __int128)previous * remaining <=
			    (unsigned __int128)room * window;
		assert_int_equal(ls_sliding_fits(previous, remaining, room, window), right);
	}
}

static void fixed_window_counts_to_the_limit_and_starts_again(void **state)
{
	(void)state;
	const __u64 day = 86400 * TWIN_SECOND;
	__u64 word = 0;
	struct ls_window_clock clock = ls_window_at(20000 * day - 1, day);
	assert_int_equal(clock.remaining, 1);
	for (int i = 0; i < 500; i++)
		assert_true(ls_fixed_take(word, clock.number, 1, 500, &word));
	assert_false(ls_fixed_take(word, clock.number, 1, 500, &word));
	clock = ls_window_at(20000 * day, day); /* midnight UTC */
	assert_int_equal(clock.remaining, day);
	assert_true(ls_fixed_take(word, clock.number, 1, 500, &word));
	assert_int_equal(ls_fixed_count(word, clock.number), 1);
}

static void fixed_window_holds_its_largest_limit(void **state)
{
	(void)state;
	__u64 word = 0;
	assert_true(ls_fixed_take(word, 0xffffff, 1, LS_FIXED_LIMIT_MAX, &word));
	word = 0xffffffULL << LS_FIXED_COUNT_BITS | (LS_FIXED_LIMIT_MAX - 1000);
	assert_true(ls_fixed_take(word, 0xffffff, 1000, LS_FIXED_LIMIT_MAX, &word));
	assert_false(ls_fixed_take(word, 0xffffff, 1, LS_FIXED_LIMIT_MAX, &word));
	assert_true(word != ~0ULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sliding_window_meets_the_check_value),
		cmocka_unit_test(sliding_window_is_exact),
		cmocka_unit_test(fixed_window_counts_to_the_limit_and_starts_again),
		cmocka_unit_test(fixed_window_holds_its_largest_limit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
