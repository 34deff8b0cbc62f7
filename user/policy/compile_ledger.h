/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_POLICY_COMPILE_LEDGER_H
#define LOADSHED_USER_POLICY_COMPILE_LEDGER_H

/* Slots and counters by name. Used by compile.c only. */

#include "user/policy/compile.h"

/*
 * Gives every class and limit of `policy` its slot and counters: writes them into image->classes
 * (whose other members are filled in already), lists in the image which slots and counters belonged
 * to another name before, and brings the ledger up to date for generation `half`.
 *
 * Also keeps a limit in the table that it lives in, and narrows its clamp once it was edited.
 *
 * Returns 0, or -1 with a line in `error`: out of memory, or more limits live in the two
 * generations than there are slots. The ledger is then half changed.
 */
int ls_compile_ledger(const struct ls_policy *policy, unsigned half, struct ls_ledger *ledger,
		      struct ls_image *image, struct ls_error *error);

#endif
