/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_LISTS_H
#define LOADSHED_USER_PLANE_LISTS_H

/* What `allow` and `deny` of a policy say about an address: the longer prefix wins, allow wins a tie. */

#include <stdbool.h>

struct ls_policy;
struct ls_prefix;

enum ls_outcome {
	LS_OUTCOME_NONE,
	LS_OUTCOME_ALLOW,
	LS_OUTCOME_DENY,
};

/* Of a prefix as a whole: by the entries that cover it. */
enum ls_outcome ls_lists_outcome(const struct ls_policy *policy, const struct ls_prefix *prefix);

/* Whether an entry of the list (LS_OUTCOME_ALLOW or _DENY) lies within `prefix` and is longer. */
bool ls_lists_has_within(const struct ls_policy *policy, enum ls_outcome list,
			 const struct ls_prefix *prefix);

#endif
