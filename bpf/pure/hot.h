/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_PURE_HOT_H
#define LOADSHED_PURE_HOT_H

/*
 * Sources that are limited for all nodes together: the part of their packets that passes, by error diffusion, and
 * where a source's entry is. See include/loadshed/hot_abi.h.
 */

#include "loadshed/hot_abi.h"
#include "pure/base.h"

/*
 * Whether one more packet does not pass. *frac carries the remainder from packet to packet: of n packets, n * admit / 2^32
 * pass, give or take one, without random numbers and with half their noise.
 */
LS_INLINE int ls_hot_thins(__u32 admit, __u32 *frac)
{
	if (admit == LS_HOT_ADMIT_ALL)
		return 0;
	__u32 next = *frac + admit;
	int passes = next < admit;
	*frac = next;
	return !passes;
}

/* The set of a key of the source table, of which the top 52 bits are a keyed hash. */
LS_INLINE __u32 ls_hot_set_of(__u64 key)
{
	return (__u32)(key >> 32) & (LS_HOT_SETS - 1);
}

/* Time as entries and limits hold it: modular, as long as nothing lasts for 26 days. */
LS_INLINE __u32 ls_hot_time(__u64 now_ns)
{
	return (__u32)(now_ns >> LS_HOT_TIME_SHIFT);
}

LS_INLINE int ls_hot_is_live(__u32 until, __u64 now_ns)
{
	return (__s32)((until & ~LS_HOT_F_MORE) - ls_hot_time(now_ns)) > 0;
}

/* A cost as it is for a bucket that has `scale` of the limit: 2^16 / share. Saturates far above any burst. */
LS_INLINE __u64 ls_hot_price(__u64 cost, __u32 scale)
{
	return cost > (1ULL << 62 >> LS_HOT_SCALE_BITS_MAX) ? cost : cost * scale >> 16;
}

#endif
