/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_PURE_OVERLOAD_H
#define LOADSHED_PURE_OVERLOAD_H

/*
 * `overload.max`: one token bucket for the whole node. The lower the priority of new work, the more of the
 * bucket it must leave for those above: it is admitted iff tokens - cost >= reserve * burst. Work that goes
 * on (TCP that opens no connection) is never refused, it only consumes what is there, down to 0, so that
 * connections in progress push new work out and not the other way round.
 */

#include "loadshed/policy_abi.h"
#include "pure/bucket.h"
#include "pure/packet.h"

/* TCP that opens no connection is work in progress; all else is new. */
LS_INLINE int ls_is_new_work(const struct ls_packet *packet)
{
	if (!(packet->known & LS_KNOWN_PROTOCOL) || packet->protocol != LS_PROTOCOL_TCP)
		return 1;
	return ls_is_connection(packet);
}

/* The part of the burst that new work of a priority must leave: low 1/2, normal 1/4, high 1/8, critical 0. */
LS_INLINE __u64 ls_overload_reserve(__u64 tau, __u32 priority)
{
	return priority >= LS_ABI_CRITICAL ? 0 : tau >> (priority + 1);
}

LS_INLINE int ls_overload_take(__u64 state, __u64 now, __u64 cost, __u64 tau, __u64 reserve,
			       int is_new, __u64 *ret_next)
{
	__u64 used = ls_bucket_used(state, now, tau);
	if (is_new) {
		if (used + cost + reserve > tau)
			return 0;
		used += cost;
	} else {
		used = used + cost < tau ? used + cost : tau;
	}
	*ret_next = ls_bucket_state(now, used);
	return 1;
}

#endif
