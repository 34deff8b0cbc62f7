/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_TOP_ABI_H
#define LOADSHED_TOP_ABI_H

/*
 * Who sends most: what `top` reads. One element per CPU, written by that CPU alone, of a fixed size whatever the
 * traffic: 1.25 MiB. How it is filled, and what its numbers are good for, is in pure/summary.h.
 *
 * Time is cut into epochs of 2^29 ns, 0.54 s, the same for all CPUs. Each CPU has room for four of them and
 * writes in the one that is; the two before it are whole and lie still for another 0.54 s at least, so any number of
 * readers see the same and disturb nobody. Nothing is ever cleared: a set says which epoch its ways are of, and is
 * empty in every other one.
 */

#include <linux/types.h>

#include "loadshed/bounds.h"

#define LS_TOP_EPOCH_SHIFT                                                                         \
	29		/* (ns since the control record's epoch >> this) + 1 is an epoch's number */
#define LS_TOP_EPOCHS 4 /* number % this is its place */
#define LS_TOP_SETS 256
#define LS_TOP_WAYS 8

/* Four summaries side by side. Refused is what was dropped or would have been, so that a source which little else
 * comes from than drops is found among many that send more. */
#define LS_TOP_SOURCES 0 /* IPv4 /32, IPv6 /64 */
#define LS_TOP_SOURCES_REFUSED 1
#define LS_TOP_PREFIXES 2 /* IPv4 /24, IPv6 /48 */
#define LS_TOP_PREFIXES_REFUSED 3
#define LS_TOP_KINDS 4
#define LS_TOP_PREFIX4 24
#define LS_TOP_PREFIX6 48

/* A set: its ways lie field by field, because all keys are looked at and then one way is changed. */
struct ls_top_set {
	__u64 key[LS_TOP_WAYS];	    /* IPv4 address, or the upper half of an IPv6 one; host order */
	__u64 bytes[LS_TOP_WAYS];   /* since the key has the way */
	__u32 at[LS_TOP_WAYS];	    /* ifindex << 1 | 1 for IPv6 */
	__u32 packets[LS_TOP_WAYS]; /* 0: free. Refused kinds: refused packets */
	__u32 error[LS_TOP_WAYS];   /* of `packets`, what was taken over and may be others' */
	__u32 drops[LS_TOP_WAYS];   /* refused kinds: packets - error that really were dropped */
	__u32 epoch;		    /* low bits of the number of the epoch that the ways are of */
	__u32 pad0[15];
};

/* Sums over the samples of one epoch that came in by the interfaces of one bank, scaled up. */
struct ls_top_total {
	__u64 packets;
	__u64 bytes;
	__u64 refused;
	__u64 drops;
};

struct ls_top_epoch {
	__u64 number; /* 0: never used */
	__u32 weight; /* largest of its samples: 1 in so many packets was looked at, or more */
	__u32 samples;
	__u64 pad0[6];
	struct ls_top_total total[LS_BANKS];
};

/* The program's own. */
struct ls_top_sampler {
	__u64 random;  /* state of the generator */
	__u64 bits;    /* of the window: bit i says whether packet i from here is a sample */
	__u64 epoch;   /* number */
	__u64 jiffies; /* when the clock was last asked */
	__u64 packets; /* of this epoch, by its samples */
	__u32 left;    /* packets of the window that are to come */
	__u32 is_due;  /* the next packet that is looked at is a sample */
	__u32 shift;   /* 1 in 2^shift packets is one */
	__u32 samples; /* in this epoch */
	__u32 allowed; /* samples before shift grows */
	__u32 pad0;
};

struct ls_top {
	struct ls_top_sampler sampler;
	struct ls_top_epoch epoch[LS_TOP_EPOCHS];
	/* (place of the epoch * LS_TOP_KINDS + kind) * LS_TOP_SETS + set */
	struct ls_top_set set[LS_TOP_EPOCHS * LS_TOP_KINDS * LS_TOP_SETS];
};

_Static_assert(sizeof(struct ls_top_set) == 320, "five lines");
_Static_assert(sizeof(struct ls_top_epoch) == 320, "five lines");
_Static_assert(sizeof(struct ls_top_sampler) == 64, "a line");
_Static_assert(sizeof(struct ls_top) < 4U << 20, "elements of up to 4 MiB work on every kernel");

#endif
