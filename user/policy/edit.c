/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/edit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/sha256.h"
#include "user/policy/members.h"
#include "user/policy/read.h"
#include "user/policy/reader.h"

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

int ls_policy_edit_list(struct ls_policy *policy, size_t index, const char *shown,
			const char *bytes, size_t length, struct ls_error *error)
{
	struct ls_set *set = &policy->sets[index];
	struct ls_set fresh = { .skip_errors = set->skip_errors };
	size_t others = 0;

	ls_sha256(bytes, length, fresh.sha256);
	if (memcmp(fresh.sha256, set->sha256, sizeof(fresh.sha256)) == 0)
		return LS_EDIT_E_PRESENT;
	for (size_t i = 0; i < policy->n_sets; i++)
		others += i == index ? 0 : policy->sets[i].entries.count;
	int r = ls_read_list(shown, bytes, length, LS_ENTRIES_MAX - others, NULL, &fresh, error);
	if (r == 0 && fresh.entries.count == 0 && set->entries.count > 0)
		r = LS_EDIT_E_ABSENT;
	if (r != 0) {
		free(fresh.entries.items);
		return r;
	}
	free(set->entries.items);
	set->entries = fresh.entries;
	set->skipped = fresh.skipped;
	memcpy(set->sha256, fresh.sha256, sizeof(set->sha256));
	return 0;
}
