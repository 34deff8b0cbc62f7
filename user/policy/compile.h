/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_POLICY_COMPILE_H
#define LOADSHED_USER_POLICY_COMPILE_H

/*
 * From the model to the kernel's records. Pure: nothing of the kernel is touched here; the plane
 * copies the image into the half of the maps that is not in force, and publishes it with one store.
 */

#include <stddef.h>
#include <stdint.h>

#include "loadshed/control_abi.h"
#include "loadshed/ledger_abi.h"
#include "loadshed/policy_abi.h"

struct ls_policy;
struct ls_error;

/* A block of counters that belonged to a name which the ledger has forgotten. */
struct ls_reused_counters {
	uint32_t counter; /* the first */
	uint32_t count;	  /* LS_CLASS_COUNTERS or LS_LIMIT_COUNTERS: which kind they are */
};

/*
 * One generation of every policy table, ready to be copied. `word` holds the stage bits and the
 * number of bitmap words, but neither the generation bit nor its number. `lines` is the inner map
 * of lists.
 */
struct ls_image {
	uint64_t word;
	struct ls_generation_abi generation;
	struct ls_class_abi classes[LS_CLASSES];
	struct ls_slot_abi slots[LS_SLOTS];
	struct ls_label_abi labels[LS_LABELS];
	struct ls_rows_abi ports[LS_CHUNKS];
	uint64_t rows[LS_CLASS_WORDS][LS_ROWS];
	size_t n_rows; /* of each word, from 0: the rest is not used */
	uint16_t nets4[LS_NETS4];
	struct ls_line *lines;
	size_t n_lines;
	/* Limit slots given anew that had another identity before: their old states must be purged
	 * from the tables before the publish. */
	uint16_t fresh_slots[LS_SLOTS];
	size_t n_fresh_slots;
	/* Blocks that lost their name, each once; a new name may have got them already. Neither
	 * generation counts there, so the plane adds them to the verdicts of no class and
	 * clears them before the publish. */
	struct ls_reused_counters reused_counters[LS_CLASS_SLOTS + LS_SLOTS];
	size_t n_reused_counters;
};

/*
 * Compiles `policy` for generation `half` (0 or 1). `ledger` is read and updated: names that the
 * policy has get (or keep) slots and counters and the live bit of `half`; those that only `half`
 * had before lose it. The caller works on a copy of the ledger and writes it back when the publish
 * has succeeded.
 * `random` yields 64 random bits (for the list hashes).
 *
 * Returns 0, or -1 with one line in `error`: more than 255 combinations of lists, more than LS_ROWS
 * distinct rows, out of memory. Nothing is changed then but the ledger copy.
 */
int ls_policy_compile(const struct ls_policy *policy, unsigned half, struct ls_ledger *ledger,
		      uint64_t (*random)(void *context), void *context, struct ls_image **ret_image,
		      struct ls_error *error);

void ls_image_free(struct ls_image *image);

/* How many combinations the policy's lists make (policy check prints it); -1: out of memory. */
int ls_policy_count_labels(const struct ls_policy *policy);

/*
 * `accept_queue` as the kernel has it (ls_generation_abi.queue_at); 0: leaves it as it is. `percent` is for priority
 * normal. Low has two thirds of it; high half of the place that is left, critical all; of 75 % that leaves the reserves
 * of `max`.
 */
void ls_compile_queue(unsigned percent, __u16 at[static 4]);

#endif
