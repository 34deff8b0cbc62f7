/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_OVERLOAD_ABI_H
#define LOADSHED_OVERLOAD_ABI_H

/*
 * Overload shedding between the kernel and the controller (`serve`), or the operator's hand.
 *
 * New work has a priority index, 0 (best) to LS_LEVELS - 1 (pure/level.h). The kernel counts what is offered by
 * index; user space turns those counts into how far each priority is admitted, and says until when that holds.
 * Nothing here lasts by itself: an end that has passed means that the record is not there.
 */

#include <linux/types.h>

#include "loadshed/bounds.h"
#include "loadshed/policy_abi.h"

#define LS_PRIORITIES 4
#define LS_LEVEL_STEPS                                                                             \
	256 /* indices of one priority: 128 of sources within their fair rate, 128 of the others */
#define LS_LEVELS (LS_PRIORITIES * LS_LEVEL_STEPS)

/*
 * How far one priority is admitted, as one word: indices below `step` are, those above are not, and of those at
 * `step` the part `boundary` / 2^32. Step LS_LEVEL_STEPS is everything.
 */
#define LS_ADMIT(step, boundary) ((__u64)(step) << 32 | (__u32)(boundary))
#define LS_ADMIT_STEP(admit) ((__u32)((admit) >> 32))
#define LS_ADMIT_BOUNDARY(admit) ((__u32)(admit))
#define LS_ADMIT_ALL LS_ADMIT(LS_LEVEL_STEPS, 0)

/* A full accept queue, in the unit of ls_generation_abi.queue_at. */
#define LS_QUEUE_WHOLE 10000U

/* Where a struct tcp_sock of the running kernel keeps them, in bytes; 0: they cannot be read here. */
struct ls_listener_fields {
	__u32 waiting; /* connections to be accepted */
	__u32 most;    /* the backlog */
	__u32 coming;  /* half open, not older than the first repetition of their SYN-ACK */
};

/* A level: a line, so that its readers share it with nothing that changes more often. */
struct ls_level_abi {
	__u64 until_ns;		    /* ns since the epoch; 0: never was */
	__u64 admit[LS_PRIORITIES]; /* by LS_ABI_LOW to LS_ABI_CRITICAL */
	__u64 pad0[3];
};

/* The breaker of one class, by class slot: while it holds, only `boundary` / 2^32 of its new work is admitted. */
struct ls_breaker_abi {
	__u64 until_ns;
	__u32 boundary; /* 0: open, nothing; more: half open */
	__u32 state;	/* LS_BREAKER_*, for people */
};

#define LS_BREAKER_CLOSED 0
#define LS_BREAKER_OPEN 1
#define LS_BREAKER_HALF_OPEN 2

/* What the controller says about itself, for `status`; no packet reads it. */
#define LS_OVERLOAD_TEXT_BYTES 256
#define LS_OVERLOAD_SIGNALS 8

struct ls_overload_signal_abi {
	char name[16]; /* as in the policy; "": no such row */
	char why[40];  /* why it is missing; "": it is there */
	__u64 value;   /* of `scale` to 1 */
	__u64 target;
	__u32 scale; /* 1000000000: seconds as ns; 1000: a part as per mille */
	__u32 flags; /* LS_SIGNAL_F_* */
};

#define LS_SIGNAL_F_PRESENT 1U
#define LS_SIGNAL_F_OVER 2U /* above its target */

struct ls_overload_report_abi {
	__u64 version;	  /* odd while it is being written */
	__u64 written_ns; /* ns since the epoch */
	__u64 since_ns;	  /* CLOCK_REALTIME of the last change between shedding and not */
	__u64 changes;	  /* how often that changed */
	__u32 sheds;	  /* 1: it sheds */
	__u32 n_signals;
	__u64 capacity_mps; /* measured, new work per second, times 1000; 0: not known */
	__u64 admit_mps;    /* what is admitted per second, times 1000; 0: everything */
	__u64 offered_mps;  /* what came per second, times 1000 */
	char text[LS_OVERLOAD_TEXT_BYTES]; /* one sentence */
	struct ls_overload_signal_abi signal[LS_OVERLOAD_SIGNALS];
};

/* The object's section .data.overload. */
struct ls_overload {
	struct ls_level_abi level; /* the controller's */
	struct ls_level_abi hand;  /* the operator's: while it holds, the other does not count */
	struct ls_limit_abi
		guard; /* a bucket of the node for new work, always armed once a capacity is known */
	__u64 guard_until_ns;
	__u64 salt; /* which sources come last within a priority; another one each hour */
	__u32 heavy_after; /* new work per window and CPU above which a source comes behind; 0: none does */
	__u32 queue_most; /* a longer accept queue waits too long; 0: not known */
	__u64 queue_from_ns; /* then the controller is late or dead, and that holds for far clients, too */
	__u64 pad1[4];
	struct ls_breaker_abi breaker[LS_CLASS_SLOTS];
	struct ls_overload_report_abi report;
};

/*
 * One CPU's counts, which nobody else writes. The sketch estimates the rate of a source's new work: two rows, the
 * smaller count wins, so it is never under-estimated; a cell is window << 32 | previous window's count << 16 | count.
 */
#define LS_SKETCH_ROWS 2
#define LS_SKETCH_CELLS 4096
#define LS_SKETCH_WINDOW_SHIFT 30 /* a window is 2^30 ns */

struct ls_offered {
	__u32 offered[LS_LEVELS];      /* new work by index, wraps */
	__u64 admitted[LS_PRIORITIES]; /* by LS_ABI_* */
	__u64 refused_level[LS_PRIORITIES];
	__u64 refused_guard[LS_PRIORITIES];
	__u64 refused_breaker[LS_PRIORITIES];
	__u64 admitted_tcp;
	__u32 carry; /* of the boundaries' error diffusion */
	__u32 carry_breaker;
	__u64 refused_queue[LS_PRIORITIES]; /* by the accept queue of their listener */
	__u64 queue_ns;			    /* when the last of those was, in ns since the epoch */
	__u32 queue_port;		    /* and what for */
	__u32 pad0;
	__u64 sketch[LS_SKETCH_ROWS][LS_SKETCH_CELLS];
};

/*
 * Flows that are not TCP and were admitted, so that they go on. 16 of them in a line; a flow is 24 bits of hash and
 * the 2^32 ns in which it was last seen; the one not seen for longest makes place.
 */
#define LS_FLOW_WAYS 16
#define LS_FLOW_LINES 16384 /* 1 MiB: 262 144 flows */
#define LS_FLOW_STAMP_SHIFT 32
#define LS_FLOW_AGE 14 /* 60 s */

struct ls_flow_line {
	__u32 way[LS_FLOW_WAYS]; /* hash << 8 | stamp; 0: free */
};

_Static_assert(sizeof(struct ls_level_abi) == 64, "a line");
_Static_assert(sizeof(struct ls_overload_signal_abi) == 80, "no padding");
_Static_assert(sizeof(struct ls_overload_report_abi) == 960, "15 lines");
_Static_assert(sizeof(struct ls_overload) % 64 == 0, "lines");
_Static_assert(sizeof(struct ls_offered) % 64 == 0, "lines");
_Static_assert(sizeof(struct ls_flow_line) == 64, "a line");

#endif
