/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/edit.h"

#include <errno.h>
#include <string.h>

#include "user/policy/members.h"

static struct ls_members *members_of(struct ls_policy *policy, enum ls_edit_list list)
{
	return list == LS_EDIT_ALLOW ? &policy->allow : &policy->deny;
}

/* Index of the member that is exactly this prefix, or -1. */
static ptrdiff_t find_own(const struct ls_members *members, const struct ls_prefix *prefix)
{
	for (size_t i = 0; i < members->count; i++) {
		if (members->items[i].set < 0 && ls_prefix_equal(&members->items[i].prefix, prefix))
			return (ptrdiff_t)i;
	}
	return -1;
}

/* Index of a set of the list that has it, or -1. */
static int find_in_sets(const struct ls_policy *policy, const struct ls_members *members,
			const struct ls_prefix *prefix)
{
	for (size_t i = 0; i < members->count; i++) {
		const int set = members->items[i].set;

		if (set >= 0 && ls_prefixes_hold(&policy->sets[set].entries, prefix))
			return set;
	}
	return -1;
}

int ls_policy_edit_add(struct ls_policy *policy, enum ls_edit_list list,
		       const struct ls_prefix *prefix)
{
	struct ls_members *const members = members_of(policy, list);
	struct ls_member *items;

	if (find_own(members, prefix) >= 0 || find_in_sets(policy, members, prefix) >= 0)
		return LS_EDIT_E_PRESENT;
	items = reallocarray(members->items, members->count + 1, sizeof(*items));
	if (!items)
		return -ENOMEM;
	members->items = items;
	items[members->count++] = (struct ls_member){ .set = -1, .prefix = *prefix };
	return 0;
}

int ls_policy_edit_remove(struct ls_policy *policy, enum ls_edit_list list,
			  const struct ls_prefix *prefix, int *ret_set)
{
	struct ls_members *const members = members_of(policy, list);
	const ptrdiff_t own = find_own(members, prefix);
	int set;

	if (own >= 0) {
		members->count--;
		memmove(&members->items[own], &members->items[own + 1],
			(members->count - (size_t)own) * sizeof(*members->items));
		return 0;
	}
	set = find_in_sets(policy, members, prefix);
	if (set < 0)
		return LS_EDIT_E_ABSENT;
	if (ret_set)
		*ret_set = set;
	return LS_EDIT_E_IN_SET;
}
