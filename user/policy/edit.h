/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_POLICY_EDIT_H
#define LOADSHED_USER_POLICY_EDIT_H

/*
 * The edits of single entries that the command line offers. They work on a policy that the caller
 * has made for it (read again from what is saved), never on one that is in force.
 */

#include <stddef.h>

struct ls_error;
struct ls_policy;
struct ls_prefix;

enum ls_edit_list {
	LS_EDIT_ALLOW,
	LS_EDIT_DENY,
	LS_EDIT_MAX,
};

#define LS_EDIT_E_PRESENT 1 /* add: the list has exactly this entry already */
#define LS_EDIT_E_ABSENT 2  /* remove: it has not, neither of its own nor through a set */
#define LS_EDIT_E_IN_SET 3  /* remove: it comes from a set, which has to be edited instead */

/* Appends an entry. 0, LS_EDIT_E_PRESENT (also when one of the list's sets has it), or -ENOMEM. */
int ls_policy_edit_add(struct ls_policy *policy, enum ls_edit_list list,
		       const struct ls_prefix *prefix);

/*
 * Removes exactly this entry: not what covers it, nor what it covers. 0, _ABSENT or _IN_SET; in the
 * last case *ret_set (may be NULL) is the index of the set.
 */
int ls_policy_edit_remove(struct ls_policy *policy, enum ls_edit_list list,
			  const struct ls_prefix *prefix, int *ret_set);

/*
 * Replaces what a set from a file holds by the file's new bytes; `shown` names the file in messages. 0;
 * LS_EDIT_E_PRESENT when they are the bytes that it was read from; LS_EDIT_E_ABSENT when they hold no entry, though
 * the set has some; or negative with a line. The policy is changed only by 0.
 */
int ls_policy_edit_list(struct ls_policy *policy, size_t set, const char *shown, const char *bytes,
			size_t length, struct ls_error *error);

#endif
