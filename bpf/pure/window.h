/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_PURE_WINDOW_H
#define LOADSHED_PURE_WINDOW_H

/*
 * Limits by aligned windows, one word of state each; 0 is untouched.
 *
 * Windows are numbered from the Unix epoch (wall / window). The state holds the low 24 bits of the number,
 * so a source that has slept exactly 2^24 windows (194 days of 1 s windows) would meet its old count; an
 * entry that old does not survive in a table under pressure, and the error is one window's refusals.
 *   fixed window    number 24 | count 40            limit < 10^12 < 2^40
 *   sliding window  number 24 | previous 20 | current 20   limit <= 10^6 < 2^20
 * An untouched state has count 0, which means the same whatever its window.
 */

#include "pure/base.h"

#define LS_WINDOW_NUMBER_MASK 0xffffffULL
#define LS_FIXED_COUNT_BITS 40
#define LS_SLIDING_COUNT_BITS 20
#define LS_SLIDING_COUNT_MASK ((1ULL << LS_SLIDING_COUNT_BITS) - 1)

_Static_assert(LS_FIXED_COUNT_BITS == 2 * LS_SLIDING_COUNT_BITS,
	       "both have the number at the same place");

/* Where in time a packet is, for one window length. */
struct ls_window_clock {
	__u64 number;	 /* low 24 bits of the window's number */
	__u64 remaining; /* ns until it ends, 1 .. window */
};

LS_INLINE struct ls_window_clock ls_window_at(__u64 wall_ns, __u64 window_ns)
{
	__u64 number = wall_ns / window_ns;
	return (struct ls_window_clock){
		.number = number & LS_WINDOW_NUMBER_MASK,
		.remaining = window_ns - (wall_ns - number * window_ns),
	};
}

/* What has been counted in the window of `number`. */
LS_INLINE __u64 ls_fixed_count(__u64 state, __u64 number)
{
	if (state >> LS_FIXED_COUNT_BITS != number)
		return 0;
	return state & ((1ULL << LS_FIXED_COUNT_BITS) - 1);
}

/* count so far + cost <= limit; cost < 2^32. */
LS_INLINE int ls_fixed_take(__u64 state, __u64 number, __u64 cost, __u64 limit, __u64 *ret_next)
{
	__u64 count = ls_fixed_count(state, number) + cost;
	if (count > limit)
		return 0;
	*ret_next = number << LS_FIXED_COUNT_BITS | count;
	return 1;
}

/* The two counts that matter in the window of `number`: this one's and the one's before. */
struct ls_sliding_counts {
	__u64 previous, current;
};

LS_INLINE struct ls_sliding_counts ls_sliding_counts(__u64 state, __u64 number)
{
	__u64 current = state & LS_SLIDING_COUNT_MASK;
	__u64 previous = state >> LS_SLIDING_COUNT_BITS & LS_SLIDING_COUNT_MASK;
	__u64 age = (number - (state >> (2 * LS_SLIDING_COUNT_BITS))) & LS_WINDOW_NUMBER_MASK;
	if (age == 0)
		return (struct ls_sliding_counts){ previous, current };
	if (age == 1)
		return (struct ls_sliding_counts){ current, 0 };
	return (struct ls_sliding_counts){ 0, 0 };
}

/*
 * previous * (remaining / window) + current + cost <= limit, exactly: both sides times the window, which
 * takes up to 72 bits (20 of count, 52 of a window of 30 d), so the products are compared in two parts.
 */
LS_INLINE int ls_sliding_fits(__u64 previous, __u64 remaining_ns, __u64 room, __u64 window_ns)
{
	const __u64 low26 = (1ULL << 26) - 1;
	__u64 left_low = previous * (remaining_ns & low26);
	__u64 left_high = previous * (remaining_ns >> 26) + (left_low >> 26);
	__u64 right_low = room * (window_ns & low26);
	__u64 right_high = room * (window_ns >> 26) + (right_low >> 26);
	if (left_high != right_high)
		return left_high < right_high;
	return (left_low & low26) <= (right_low & low26);
}

LS_INLINE int ls_sliding_take(__u64 state, struct ls_window_clock clock, __u64 window_ns,
			      __u64 cost, __u64 limit, __u64 *ret_next)
{
	struct ls_sliding_counts counts = ls_sliding_counts(state, clock.number);
	__u64 current = counts.current + cost;
	if (current > limit ||
	    !ls_sliding_fits(counts.previous, clock.remaining, limit - current, window_ns))
		return 0;
	*ret_next = clock.number << (2 * LS_SLIDING_COUNT_BITS) |
		    counts.previous << LS_SLIDING_COUNT_BITS | current;
	return 1;
}

#endif
