/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/lists.h"

#include <stddef.h>

#include "user/base/addr.h"
#include "user/policy/policy.h"

/*
 * A walk over all entries: 5 ms for a million, and asked once per command. The kernel has a table instead.
 */

typedef bool (*visit_fn)(const struct ls_prefix *entry, const struct ls_prefix *prefix, int *best);

/* Calls `visit` for every entry until it returns true. */
static bool visit_members(const struct ls_policy *policy, const struct ls_members *members,
			  visit_fn visit, const struct ls_prefix *prefix, int *best)
{
	for (size_t i = 0; i < members->count; i++) {
		const struct ls_member *member = &members->items[i];
		if (member->set < 0) {
			if (visit(&member->prefix, prefix, best))
				return true;
			continue;
		}
		const struct ls_prefixes *entries = &policy->sets[member->set].entries;
		for (size_t k = 0; k < entries->count; k++)
			if (visit(&entries->items[k], prefix, best))
				return true;
	}
	return false;
}

static bool keep_longest(const struct ls_prefix *entry, const struct ls_prefix *prefix, int *best)
{
	if (ls_prefix_contains(entry, prefix) && entry->length > *best)
		*best = entry->length;
	return false;
}

static bool is_within(const struct ls_prefix *entry, const struct ls_prefix *prefix, int *best)
{
	(void)best;
	return entry->length > prefix->length && ls_prefix_contains(prefix, entry);
}

enum ls_outcome ls_lists_outcome(const struct ls_policy *policy, const struct ls_prefix *prefix)
{
	int allow = -1, deny = -1;

	visit_members(policy, &policy->allow, keep_longest, prefix, &allow);
	visit_members(policy, &policy->deny, keep_longest, prefix, &deny);
	if (allow < 0 && deny < 0)
		return LS_OUTCOME_NONE;
	return allow >= deny ? LS_OUTCOME_ALLOW : LS_OUTCOME_DENY;
}

bool ls_lists_has_within(const struct ls_policy *policy, enum ls_outcome list,
			 const struct ls_prefix *prefix)
{
	const struct ls_members *members = list == LS_OUTCOME_ALLOW ? &policy->allow
								    : &policy->deny;

	return visit_members(policy, members, is_within, prefix, NULL);
}
