/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_POLICY_MEMBERS_H
#define LOADSHED_USER_POLICY_MEMBERS_H

/* Lists of prefixes: what a list with sets in it holds, and what covers what. */

#include <stdbool.h>
#include <stddef.h>

#include "user/policy/policy.h"

/*
 * All prefixes of the members and their sets, sorted, without duplicates. *ret->items is owned by
 * the caller (NULL when there are none). Returns 0 or -ENOMEM.
 */
int ls_members_flatten(const struct ls_policy *policy, const struct ls_members *members,
		       struct ls_prefixes *ret);

/* Whether exactly this prefix is there. */
bool ls_prefixes_hold(const struct ls_prefixes *prefixes, const struct ls_prefix *prefix);

/*
 * The widest of the prefixes that contains `prefix` without being equal to it, or NULL. Bisection
 * for each length that it could have: at most 128 of them.
 */
const struct ls_prefix *ls_prefixes_cover(const struct ls_prefixes *prefixes,
					  const struct ls_prefix *prefix);

/*
 * Whether each prefix of `inner` is in some prefix of `outer`, itself included. Sound, not
 * complete: two halves that together cover a whole are not seen.
 */
bool ls_prefixes_include(const struct ls_prefixes *outer, const struct ls_prefixes *inner);

/*
 * How many of the prefixes lie in another; *ret_first (if there is one) is the first, *ret_cover
 * what it lies in. One pass.
 */
size_t ls_prefixes_count_hidden(const struct ls_prefixes *prefixes, struct ls_prefix *ret_first,
				struct ls_prefix *ret_cover);

#endif
