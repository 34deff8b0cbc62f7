/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_TABLE_ABI_H
#define LOADSHED_TABLE_ABI_H

/*
 * The tables that packets change: state per (subject, limit), strikes, bans, shared buckets.
 *
 * All are set-associative: a keyed hash picks a set of eight ways, two cache lines, and a key of 64 bits
 * tells the ways apart. A way is 16 bytes, so four ways are a line, and a set is a line and its neighbour,
 * which the hardware fetches together. See kern/table.h for the protocol between CPUs.
 */

#include <linux/types.h>

#include "loadshed/bounds.h"

#define LS_WAYS 8
#define LS_WAYS_LINE 4

/*
 * One way. key: 52 bits of hash, then 12 bits of limit slot; 0 was never used. state: meaning by the
 * slot's algorithm; 0 is untouched (full bucket, empty window), LS_STATE_BUSY is being claimed.
 */
struct ls_way {
	__u64 key;
	__u64 state;
};

#define LS_STATE_BUSY (~0ULL)

struct ls_ways {
	struct ls_way way[LS_WAYS];
};

/* The stamps of one way of the log table, in ticks. Entry n is at n % 64; the way's state is n + 1. */
struct ls_log {
	__u64 stamp[LS_LOG_STAMPS];
};

/* The refusals that one way of the strike table has seen since the stamp in its state. */
struct ls_strikes {
	__u32 count[LS_WAYS];
};

/*
 * What all subjects of a limit share: the bucket of a `per: class` limit, and the crowd bucket of those
 * whom the table had no place for. A line of its own, so that two limits do not share one.
 */
struct ls_shared {
	__u64 state; /* per: class, and the program's own node-wide limits */
	__u64 crowd;
	__u64 unplaced; /* newcomers that found no place, since attach */
	__u64 pad[5];
};

/*
 * A ban. subject: the source or prefix as one word (pure/ban.h). until: when it ends and what kind of subject
 * it is, so that one store changes both; 0: free.
 *   bits 63..3  end in ns since the epoch (2^61 of them are 73 years)
 *   bits 2..1   LS_BAN_KIND_*
 *   bit 0       set in way 0 only: some ban of this set lives in its other set (pure/ban.h)
 * A way whose end has passed is free. LS_STATE_BUSY is being claimed: its kind is no subject's.
 */
struct ls_ban {
	__u64 subject;
	__u64 until;
};

struct ls_bans {
	struct ls_ban way[LS_WAYS];
};

/* What nobody on a packet's path asks: origin (low 8 bits) and, of a class ban, class slot << 8. */
struct ls_ban_info {
	__u32 way[LS_WAYS];
};

#define LS_BAN_END_SHIFT 3
#define LS_BAN_KIND_IPV4 0ULL
#define LS_BAN_KIND_IPV6 2ULL	    /* a /64 */
#define LS_BAN_KIND_IPV6_SHORT 4ULL /* a shorter prefix */
#define LS_BAN_KIND_MASK 6ULL
#define LS_BAN_OVERFLOWED 1ULL

#define LS_BAN_INFO(origin, class_slot) ((__u32)(origin) | (__u32)(class_slot) << 8)

_Static_assert(sizeof(struct ls_ways) == 128, "a set is two lines");
_Static_assert(sizeof(struct ls_bans) == 128, "a set is two lines");
_Static_assert(sizeof(struct ls_ban_info) == 32, "half a line");
_Static_assert(sizeof(struct ls_shared) == 64, "a line");
_Static_assert(sizeof(struct ls_log) == 512, "eight lines");
_Static_assert(sizeof(struct ls_strikes) == 32, "half a line");

#endif
