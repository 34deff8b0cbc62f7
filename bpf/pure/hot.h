/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_PURE_HOT_H
#define LOADSHED_PURE_HOT_H

/*
 * Sources that are limited for all nodes together: the part of their packets that passes, by error diffusion, and
 * where a source's entry is. See include/loadshed/hot_abi.h.
 */

#include "loadshed/hot_abi.h"
#include "loadshed/policy_abi.h"
#include "pure/base.h"
#include "pure/window.h"

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

#define LS_HOT_COST_MAX (1ULL << 50)

/* A cost as it is for a bucket that has a part of the limit, scale = 2^16 / part up to 2^28. Exact below 2^50 ticks, 5 hours. */
LS_INLINE __u64 ls_hot_price(__u64 cost, __u32 scale)
{
	if (cost > LS_HOT_COST_MAX)
		return cost;
	return (cost >> 16) * scale + ((cost & 0xffff) * scale >> 16);
}

/* Cost and ceiling of one limit for one packet, as in kern/limits.h. */
struct ls_hot_standing {
	__u64 cost, ceiling;
	__u32 factor; /* of NAT, that the ceiling has in it already */
};

/* What the side table makes of them; entry from 1, 0: the source has none. */
LS_INLINE void ls_hot_apply(const struct ls_hot *hot, const struct ls_limit_abi *limit, __u32 entry,
			    __u64 now_ns, __u64 wall_ns, struct ls_hot_standing *standing)
{
	__u32 scale = LS_HOT_SCALE_ONE;
	__u64 ceiling = ~0ULL;
	if (entry == LS_HOT_CLOSED)
		return;
	if (entry) {
		__u32 index = (__u32)ls_bounded(entry - 1, LS_HOT_ENTRIES);
		const struct ls_hot_set *set =
			&hot->sets[ls_bounded(index / LS_HOT_WAYS, LS_HOT_SETS)];
		if (!(LS_READ_ONCE(set->way[index % LS_HOT_WAYS].until) & LS_HOT_F_MORE))
			return;
		const struct ls_hot_more *more = &hot->more[index];
		scale = more->scale;
		if (limit->algorithm != LS_ABI_TOKEN_BUCKET) {
			struct ls_window_clock clock =
				ls_window_at(wall_ns, limit->window_ns | !limit->window_ns);
			if (more->number == clock.number)
				ceiling = more->ceiling;
		}
	} else {
		const struct ls_hot_limit *of = &hot->limits[limit->slot & (LS_SLOTS - 1)];
		if (!ls_hot_is_live(LS_READ_ONCE(of->until), now_ns))
			return;
		scale = of->scale;
		if (of->tau)
			ceiling = of->tau;
		if (limit->algorithm != LS_ABI_TOKEN_BUCKET && standing->factor > 1)
			ceiling *= standing->factor;
	}
	if (limit->algorithm == LS_ABI_TOKEN_BUCKET)
		standing->cost = ls_hot_price(standing->cost, scale);
	if (ceiling < standing->ceiling)
		standing->ceiling = ceiling;
}

#endif
