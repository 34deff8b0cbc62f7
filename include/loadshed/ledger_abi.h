/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_LEDGER_ABI_H
#define LOADSHED_LEDGER_ABI_H

/*
 * The ledger: which slot and which counters a name has. The kernel never reads it; it is pinned with the
 * rest so that every process that publishes or shows counters goes by the same book, and so that slots
 * and counters survive edits: a class or limit that comes back finds its own again.
 *
 * A limit's identity is (class name, name, algorithm, per, prefix bits, count, window): if one changes, a
 * fresh slot is given, so its state starts fresh. Counters go by (class name, limit name) alone.
 */

#include <linux/types.h>

#include "loadshed/bounds.h"

struct ls_ledger_class {
	char name[LS_NAME_BYTES]; /* "": free */
	__u32 counter;		  /* first of LS_CLASS_COUNTERS */
	__u16 slot;		  /* its index in the ledger, part of the hash */
	__u16 live;		  /* bit g: generation g has it */
};

struct ls_ledger_limit {
	char class_name[LS_NAME_BYTES]; /* "": free */
	char name[LS_NAME_BYTES];	/* "": the class's strike counter */
	__u64 window_ns;
	__u32 counter; /* first of LS_LIMIT_COUNTERS; shared by all identities of one name */
	__u8 algorithm;
	__u8 per;
	__u8 count;
	__u8 bits4, bits6;
	__u8 table;  /* kept while the identity is: see user/policy/compile_ledger.c */
	__u8 live;   /* bit g: generation g has it */
	__u8 edited; /* its rate or burst has changed since it came */
	__u8 shift;  /* with mult: the price last compiled, to see an edit */
	__u8 pad0[3];
	__u64 tau;
	__u64 mult;
};

struct ls_ledger {
	__u32 next_counter; /* lowest of limits that was never given; those of classes are below */
	__u32 next_slot; /* limit slots are given round robin, so that a freed one rests longest */
	__u64 pad0[7];
	struct ls_ledger_class classes[LS_CLASS_SLOTS];
	struct ls_ledger_limit limits[LS_SLOTS]; /* index: limit slot */
};

_Static_assert(sizeof(struct ls_ledger_class) == 40, "no padding");
_Static_assert(sizeof(struct ls_ledger_limit) == 104, "no padding");

#endif
