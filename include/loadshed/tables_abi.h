/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_TABLES_ABI_H
#define LOADSHED_TABLES_ABI_H

/*
 * Everything that has a size of its own, whatever the capacity and the policy: the two generations of the policy's
 * tables, and the shared buckets by limit slot. One map of one element, so that the program addresses it directly.
 * g is a generation, 0 or 1.
 */

#include "loadshed/policy_abi.h"
#include "loadshed/table_abi.h"

struct ls_tables {
	struct ls_class_abi classes[2 * LS_CLASSES]; /* g * LS_CLASSES + class, in file order */
	struct ls_rows_abi ports[2 * LS_CHUNKS];     /* g * LS_CHUNKS + chunk */
	__u64 rows[2 * LS_CLASS_WORDS * LS_ROWS];  /* (g * LS_CLASS_WORDS + word) * LS_ROWS + row */
	struct ls_label_abi labels[2 * LS_LABELS]; /* g * LS_LABELS + label */
	struct ls_slot_abi slots[2 * LS_SLOTS];	   /* g * LS_SLOTS + limit slot */
	struct ls_shared shared[LS_SLOTS];	   /* limit slot */
	__u16 nets4[2 * LS_NETS4]; /* g * LS_NETS4 + upper half of an IPv4 address */
};

_Static_assert(sizeof(struct ls_tables) % 64 == 0, "lines: the records behind it share none");

#endif
