/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_PURE_LIMIT_H
#define LOADSHED_PURE_LIMIT_H

/*
 * One limit and one packet: what it costs, how a NAT factor loosens the limit, and whether a state has room for
 * the cost. The kernel charges by it and `explain` answers by it.
 */

#include "loadshed/policy_abi.h"
#include "loadshed/table_abi.h"
#include "pure/bucket.h"
#include "pure/packet.h"
#include "pure/window.h"

/* What `units` packets, bytes or connections cost, in ticks or units. */
LS_INLINE __u64 ls_limit_price(const struct ls_limit_abi *limit, __u64 units)
{
	if (limit->algorithm != LS_ABI_TOKEN_BUCKET)
		return units;
	if (units > limit->cap)
		units = limit->cap;
	return units * limit->mult >> (limit->shift & 63);
}

/* Cost and ceiling (tau, or the limit in units) for a source whose NAT factor is `factor`. */
LS_INLINE void ls_limit_scale(const struct ls_limit_abi *limit, __u32 factor, __u64 *cost,
			      __u64 *ceiling)
{
	if (LS_LIKELY(factor <= 1) || limit->per != LS_ABI_PER_SOURCE)
		return;
	if (limit->algorithm == LS_ABI_TOKEN_BUCKET)
		*cost /= factor; /* rate and burst both grow, so tau stays */
	else
		*ceiling *= factor;
}

/* A sliding log with `state` and its stamps: fewer than `limit` (1 to 64) within the window. */
LS_INLINE int ls_log_take(const struct ls_log *log, __u64 state, __u64 now, __u64 window_ns,
			  __u64 limit, __u64 *ret_next)
{
	__u64 admitted = state ? state - 1 : 0;
	__u64 oldest = log->stamp[(admitted - limit) & (LS_LOG_STAMPS - 1)];
	/* Signed: another CPU's stamp may lie a little after our clock, and is then of now. */
	if (admitted >= limit && ls_tick_after(oldest + (window_ns << LS_TICKS_PER_NS_SHIFT), now))
		return 0;
	*ret_next = admitted + 2;
	return 1;
}

/*
 * Whether the state of a limit that is no sliding log admits the cost; on yes *ret_next is the state that charges
 * it. now: ticks since the epoch; wall_ns: the same instant since the Unix epoch.
 */
LS_INLINE int ls_limit_take(const struct ls_limit_abi *limit, __u64 now, __u64 wall_ns, __u64 state,
			    __u64 cost, __u64 ceiling, __u64 *ret_next)
{
	if (LS_LIKELY(limit->algorithm == LS_ABI_TOKEN_BUCKET))
		return ls_bucket_take(state, now, cost, ceiling, limit->clamp, ret_next);
	__u64 window = limit->window_ns | !limit->window_ns; /* never 0 */
	struct ls_window_clock clock = ls_window_at(wall_ns, window);
	/* Another CPU is past the boundary already: then so are we, or each would undo the other's count. */
	__u64 stored = state >> LS_FIXED_COUNT_BITS;
	if (state && ((stored - clock.number) & LS_WINDOW_NUMBER_MASK) == 1)
		clock = (struct ls_window_clock){ .number = stored, .remaining = window };
	if (limit->algorithm == LS_ABI_FIXED_WINDOW)
		return ls_fixed_take(state, clock.number, cost, ceiling, ret_next);
	return ls_sliding_take(state, clock, window, cost, ceiling, ret_next);
}

#endif
