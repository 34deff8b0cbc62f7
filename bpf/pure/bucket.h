/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_PURE_BUCKET_H
#define LOADSHED_PURE_BUCKET_H

/*
 * A token bucket as one timestamp: the generic cell rate algorithm (ITU-T I.371, virtual scheduling).
 *
 * The state is the theoretical arrival time (TAT): the tick at which the bucket will be full again; 0 is
 * untouched. How far TAT lies ahead of now is what has been taken, measured in the time that its refill
 * takes: tokens = (tau - (TAT - now)) / ticks per token. So refilling needs no arithmetic at all, nothing
 * is lost to rounding between packets, and a refused packet changes nothing, not even a timestamp.
 *
 * Numbers: ticks of 1/64 ns since the epoch, modulo 2^64. Costs are rounded down to whole ticks, so a
 * source that is exactly on its rate is never refused by rounding, and one that is above it gains at most
 * one tick per packet: a part of rate / 64e9 (2e-7 at 10 k/s, 1.6e-3 at 100 Mpps when 64e9 / rate is not
 * whole). tau <= 2^61, one cost <= 2^62, so no sum reaches half of the circle.
 *
 * Clock readings of different CPUs, and the cached ones, may lie a little before the stored TAT of another
 * CPU: then less than nothing has passed, and the bucket is as empty as it was left. TAT moves back only by an
 * undo, and when a faster rate comes into force (user/plane/settle.c pulls it back to now + clamp, so that it
 * helps at once). A TAT further ahead than `clamp` cannot come from this limit: it was left by a slower rate and
 * is not pulled back yet, or the entry has slept half a circle.
 */

#include "pure/base.h"

/* How far the bucket is from full, in ticks: 0 .. clamp. */
LS_INLINE __u64 ls_bucket_used(__u64 state, __u64 now, __u64 clamp)
{
	__s64 ahead = (__s64)(state - now);
	if (state == 0 || ahead <= 0)
		return 0;
	return (__u64)ahead < clamp ? (__u64)ahead : clamp;
}

/* The state of a bucket from which `used` ticks are taken; 0 is kept for "untouched". */
LS_INLINE __u64 ls_bucket_state(__u64 now, __u64 used)
{
	__u64 state = now + used;
	/* Neither of the two reserved values, 0 and LS_STATE_BUSY: a tick or two more are 1/32 ns. */
	return state + 1 <= 1 ? 1 : state;
}

/*
 * Whether a packet of `cost` is admitted: tokens >= min(cost, burst). On yes *ret_next is the new state,
 * which may leave the bucket in debt (a packet larger than the burst passes on a full bucket).
 */
LS_INLINE int ls_bucket_take(__u64 state, __u64 now, __u64 cost, __u64 tau, __u64 clamp,
			     __u64 *ret_next)
{
	__u64 used = ls_bucket_used(state, now, clamp);
	__u64 asked = cost < tau ? cost : tau;
	if (used + asked > tau)
		return 0;
	*ret_next = ls_bucket_state(now, used + cost);
	return 1;
}

/* Ticks until a packet of `cost` would be admitted; 0: now. */
LS_INLINE __u64 ls_bucket_wait(__u64 state, __u64 now, __u64 cost, __u64 tau, __u64 clamp)
{
	__u64 used = ls_bucket_used(state, now, clamp);
	__u64 asked = cost < tau ? cost : tau;
	return used + asked > tau ? used + asked - tau : 0;
}

#endif
