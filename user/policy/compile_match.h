/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_POLICY_COMPILE_MATCH_H
#define LOADSHED_USER_POLICY_COMPILE_MATCH_H

/* Classification: which row of classes each port, tag and flag byte has. Used by compile.c only. */

#include <stdint.h>

#include "user/policy/compile.h"

/* A set of classes, by their index in the policy. */
struct ls_class_set {
	uint64_t word[LS_CLASS_WORDS];
};

static inline void ls_class_set_add(struct ls_class_set *set, size_t class)
{
	set->word[class / 64] |= 1ULL << (class % 64);
}

/* The rows of one image, each different bitmap once. */
struct ls_rows;

/* Row 0 is made at once: all classes. NULL: out of memory. `image` must outlive it. */
struct ls_rows *ls_rows_new(struct ls_image *image, const struct ls_policy *policy);
void ls_rows_free(struct ls_rows *rows);

/* The row of `set`, made if there is none yet; -1 when LS_ROWS exist already. */
int ls_rows_intern(struct ls_rows *rows, const struct ls_class_set *set);

/*
 * Fills image->ports and adds to image->word the dimensions that some class asks for, except `from`
 * and `to`. A dimension that none asks for keeps row 0 throughout. Returns 0, or -1 with a line in
 * `error`: out of memory or rows.
 */
int ls_compile_match(const struct ls_policy *policy, struct ls_rows *rows, struct ls_image *image,
		     struct ls_error *error);

/*
 * Where protocols and destination ports are all that the classes ask for, replaces their rows by the class itself, which
 * spares a packet the bitmap. Comes last, when image->word has all dimensions.
 */
void ls_compile_direct(struct ls_image *image);

/* The line for a policy that needs more than LS_ROWS rows. Returns -1. */
int ls_rows_error(struct ls_error *error);

#endif
