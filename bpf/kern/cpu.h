/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_KERN_CPU_H
#define LOADSHED_KERN_CPU_H

/*
 * What one CPU keeps for itself: the cached clock, the packet that it judges, and the scratch of the limits' two
 * passes. An element of an array rather than of a per-CPU map, because the program then addresses it without a
 * look-up; XDP never nests on a CPU, so nobody else writes it.
 */

#include <linux/types.h>

#include "loadshed/bounds.h"
#include "loadshed/event_abi.h"
#include "loadshed/tables_abi.h"
#include "pure/packet.h"
#include "pure/sample.h"

/* Where the state of a pending charge lives. */
#define LS_AT_NOWHERE                                                                              \
	0	    /* nothing to charge: cost 0, or a newcomer that found no place and passes */
#define LS_AT_WAY 1 /* the way of this subject */
#define LS_AT_FREE_WAY 2 /* a way that must be claimed first */
#define LS_AT_SHARED 3	 /* ls_shared.state */
#define LS_AT_CROWD 4	 /* ls_shared.crowd */

/* One limit between the check and the commit. A line: the commit reads it all. */
struct ls_pending {
	__u64 state;   /* as read; of a free way: what is there now */
	__u64 next;    /* as it shall be */
	__u64 key;     /* of the way */
	__u64 cost;    /* ticks or units, scaled by NAT */
	__u64 ceiling; /* tau or limit, scaled by NAT */
	__u32 set;     /* index into ls_ways; or the slot of a shared state */
	__u8 way;
	__u8 at; /* LS_AT_* */
	__u8 shared;
	__u8 pad0;
	__u32 hot;   /* entry of the side table, from 1; 0: none */
	__u32 units; /* packets, bytes or connections; set with hot_key */
	__u64 hot_key;
};

#define LS_PENDING_OVERLOAD LS_CLASS_LIMITS /* two more behind the limits: packets, connections */
#define LS_PENDING_PANIC (LS_CLASS_LIMITS + 2) /* and two more: packets, connections */
#define LS_PENDING_GUARD (LS_CLASS_LIMITS + 4)
#define LS_PENDINGS 16 /* a power of two, so that an index is bounded by a mask */

#define LS_NO_LIMIT 255U
#define LS_NO_CLASS 65535U

/* Limits of the class hold for all nodes, and serve says that they share. */
#define LS_SHARES 1U
#define LS_SHARES_MORE 2U     /* some cost or ceiling is not the limit's own */
#define LS_SHARES_OFFERED 4U  /* counted as offered */
#define LS_SHARES_SETTLED 8U  /* all is counted */
#define LS_SHARES_SAMPLED 16U /* stands for LS_HOT_SAMPLE packets */

struct ls_job {
	struct ls_packet packet;
	__u64 word;   /* the control word, read once; what is temporary has been put into it */
	__u64 now;    /* ticks since the epoch; valid once ls_job_clock() was called */
	__u64 now_ns; /* the same in ns */
	__u64 bytes;  /* whole frame */
	__u64 hash_place, hash_tag; /* out of ls_hash_subject() */
	__u64 dead_state;	    /* out of ls_way_to_claim(): the state that was judged */
	__u32 half;		    /* generation in force: 0 or 1 */
	__u32 cpu;
	/* What each packet starts with, side by side: clang makes three stores of it. */
	__u32 factor; /* NAT factor of the source; 0: in no nat set */
	__u32 class_index;
	__u32 asking; /* the limit that is being asked: those before it have their ways */
	__u32 shares; /* LS_SHARES_* */
	__u8 limit;
	__u8 clocked;
	__u8 verdict, reason;
	__u32 counter;	 /* out: where this packet is counted */
	__u32 committed; /* bit i: pending i is charged */
	__u8 is_offered; /* new work that the level was asked about, counted once */
	__u8 pad0[3];
} __attribute__((aligned(64)));

struct ls_cpu {
	__u64 clock_ns; /* since the epoch */
	__u64 clock_jiffies;
	__u64 run_start_ns;
	__u32 clock_reuse; /* packets that may still be judged by this reading */
	__u32 run_packets; /* since run_start_ns, with those that clock_reuse allows */
	__u32 top_skip;	   /* packets until `top` looks at one */
	__u32 hot_skip;	   /* packets until kern/hot.h looks at one, while nothing is shared */
	__u64 pad1[3];
	struct ls_job job;
	struct ls_pending pending[LS_PENDINGS];
};

/* What the sampling of events counts; nobody but its CPU looks at it. */
struct ls_samples {
	struct ls_sample budget[LS_EVENT_BUDGETS];
} __attribute__((aligned(64)));

/* The object's section .bss: first what user space knows, then what it does not look at. */
struct ls_static {
	struct ls_tables tables;
	struct ls_cpu cpus[LS_CPUS];
};

_Static_assert(sizeof(struct ls_static) < 4U << 20, "elements of up to 4 MiB work on every kernel");
_Static_assert(sizeof(struct ls_pending) == 64, "a line");
_Static_assert(sizeof(struct ls_cpu) % 64 == 0, "lines: two CPUs share none");

#endif
