/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_PURE_LEVEL_H
#define LOADSHED_PURE_LEVEL_H

/*
 * Who is refused first when everything is too much: a priority index for each piece of new work, and how far it is
 * admitted.
 *
 * The index is the class's priority, then whether the source is above its fair rate, then a hash of source and hour.
 * So what is refused is refused by person and not by packet: the same users fail together for an hour while the
 * others are served whole (DAGOR, SoCC'18, 4.2.3), and which ones they are rotates. Refusing packets at random would
 * spoil a page for everybody.
 *
 * Only the one index at the edge is split, by error diffusion: a sum carries over, so of n packets n * boundary are
 * admitted, give or take one, without random numbers.
 */

#include "loadshed/overload_abi.h"
#include "pure/base.h"
#include "pure/packet.h"

#define LS_PORT_DNS 53

/*
 * What a level may refuse: TCP that opens a connection, and what is not TCP; of that a datagram of a flow that goes
 * on is not new, which ls_is_flow() leaves to a look-up. The later fragments of a datagram are never new.
 */
LS_INLINE int ls_level_applies(const struct ls_packet *packet)
{
	if (packet->known & LS_FRAGMENT_LATER)
		return 0;
	if (!(packet->known & LS_KNOWN_PROTOCOL) || packet->protocol != LS_PROTOCOL_TCP)
		return 1;
	return ls_is_connection(packet);
}

/* Whether it may belong to a flow that goes on. Each query to a DNS server is work of its own. */
LS_INLINE int ls_is_flow(const struct ls_packet *packet)
{
	if (!(packet->known & LS_KNOWN_PROTOCOL) || packet->protocol == LS_PROTOCOL_TCP)
		return 0;
	return packet->protocol != LS_PROTOCOL_UDP || !(packet->known & LS_KNOWN_PORTS) ||
	       packet->port != LS_PORT_DNS;
}

/* 0 (first served) to LS_LEVEL_STEPS - 1 within a priority. place: a hash of the source. */
LS_INLINE __u32 ls_level_step(__u64 place, __u64 salt, int is_heavy)
{
	/* The high half is the strongly universal one (pure/hash.h); the multiplier is 2^32 / golden ratio. */
	__u32 mixed = ((__u32)(place >> 32) ^ (__u32)salt) * 0x9e3779b1U;
	return mixed >> 25 | (is_heavy ? LS_LEVEL_STEPS / 2 : 0);
}

/* 0 to LS_LEVELS - 1; priority as LS_ABI_*. */
LS_INLINE __u32 ls_level_index(__u32 priority, __u32 step)
{
	return (LS_ABI_CRITICAL - (priority & 3)) * LS_LEVEL_STEPS + (step & (LS_LEVEL_STEPS - 1));
}

/* Adds `boundary` / 2^32 to *carry; whether a whole one is full. */
LS_INLINE int ls_level_carries(__u32 *carry, __u32 boundary)
{
	__u32 before = *carry;
	*carry = before + boundary;
	return *carry < before;
}

/* Whether new work of `step` is admitted. */
LS_INLINE int ls_level_admits(__u64 admit, __u32 step, __u32 *carry)
{
	__u32 limit = LS_ADMIT_STEP(admit);
	if (step != limit)
		return step < limit;
	return ls_level_carries(carry, LS_ADMIT_BOUNDARY(admit));
}

/*
 * Counts one more in a cell of the sketch and returns about how many came in the last window: those of the current
 * one and the part of the previous one that it overlaps, as a sliding window does. Saturates at 65535.
 */
LS_INLINE __u32 ls_sketch_add(__u64 *cell, __u64 now_ns)
{
	__u32 window = (__u32)(now_ns >> LS_SKETCH_WINDOW_SHIFT);
	__u64 was = *cell;
	__u32 age = window - (__u32)(was >> 32);
	__u32 count = (__u32)was & 0xffffU, before = (__u32)was >> 16;
	if (age) {
		before = age == 1 ? count : 0;
		count = 0;
	}
	count += count < 0xffffU;
	*cell = (__u64)window << 32 | before << 16 | count;
	__u32 part = 0x10000U - (__u32)(now_ns >> (LS_SKETCH_WINDOW_SHIFT - 16) &
					0xffffU); /* of the window, in 2^16 */
	return count + (__u32)((__u64)before * part >> 16);
}

/*
 * The guard holds 50 ms of its rate, and 32 pieces of work of a slow server, whose 50 ms are less than what comes at
 * once by chance. In ticks; cost: those of one piece.
 */
#define LS_GUARD_TICKS (50000000ULL << LS_TICKS_PER_NS_SHIFT)
LS_INLINE __u64 ls_overload_guard_tau(__u64 cost)
{
	return 32 * cost > LS_GUARD_TICKS ? 32 * cost : LS_GUARD_TICKS;
}

/* ---- flows ---- */

LS_INLINE __u32 ls_flow_tag(__u64 tag)
{
	__u32 bits = (__u32)(tag >> 40);
	return (bits ? bits : 1U) << 8;
}

LS_INLINE __u32 ls_flow_stamp(__u64 now_ns)
{
	return (__u32)(now_ns >> LS_FLOW_STAMP_SHIFT) & 0xffU;
}

/* How many stamps ago a way was seen; a free one is as old as can be. */
LS_INLINE __u32 ls_flow_age(__u32 way, __u32 stamp)
{
	return way ? (stamp - way) & 0xffU : 0x100U;
}

#endif
