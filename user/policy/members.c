/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/members.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int ls_members_flatten(const struct ls_policy *policy, const struct ls_members *members,
		       struct ls_prefixes *ret)
{
	_cleanup_free_ struct ls_prefix *items = NULL;
	size_t count = 0, at = 0;
	ptrdiff_t kept;

	for (size_t i = 0; i < members->count; i++) {
		const int set = members->items[i].set;

		count += set >= 0 ? policy->sets[set].entries.count : 1;
	}
	items = calloc(count + 1, sizeof(*items));
	if (!items)
		return -ENOMEM;
	for (size_t i = 0; i < members->count; i++) {
		const struct ls_member *const member = &members->items[i];

		if (member->set >= 0) {
			const struct ls_prefixes *const set = &policy->sets[member->set].entries;

			if (set->count > 0)
				memcpy(items + at, set->items, set->count * sizeof(*items));
			at += set->count;
		} else {
			items[at++] = member->prefix;
		}
	}
	kept = ls_prefix_sort(items, count);
	if (kept < 0)
		return -ENOMEM;
	ret->count = (size_t)kept;
	ret->items = TAKE_PTR(items);
	return 0;
}

static const struct ls_prefix *find(const struct ls_prefixes *prefixes,
				    const struct ls_prefix *wanted)
{
	size_t low = 0, high = prefixes->count;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		const int order = ls_prefix_compare(&prefixes->items[middle], wanted);

		if (order == 0)
			return &prefixes->items[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

bool ls_prefixes_hold(const struct ls_prefixes *prefixes, const struct ls_prefix *prefix)
{
	return find(prefixes, prefix) != NULL;
}

const struct ls_prefix *ls_prefixes_cover(const struct ls_prefixes *prefixes,
					  const struct ls_prefix *prefix)
{
	for (unsigned length = 0; length < prefix->length; length++) {
		const struct ls_prefix wider = ls_prefix_widen(*prefix, (uint8_t)length);
		const struct ls_prefix *const found = find(prefixes, &wider);

		if (found)
			return found;
	}
	return NULL;
}

bool ls_prefixes_include(const struct ls_prefixes *outer, const struct ls_prefixes *inner)
{
	const struct ls_prefix *cover = NULL;
	size_t next = 0;

	/*
	 * Both are sorted by address, wider first: the last that was not inside another is the only
	 * one that can contain what comes.
	 */
	for (size_t i = 0; i < inner->count; i++) {
		const struct ls_prefix *const wanted = &inner->items[i];

		while (next < outer->count && ls_prefix_compare(&outer->items[next], wanted) <= 0) {
			if (!cover || !ls_prefix_contains(cover, &outer->items[next]))
				cover = &outer->items[next];
			next++;
		}
		if (!cover || !ls_prefix_contains(cover, wanted))
			return false;
	}
	return true;
}

size_t ls_prefixes_count_hidden(const struct ls_prefixes *prefixes, struct ls_prefix *ret_first,
				struct ls_prefix *ret_cover)
{
	const struct ls_prefix *cover = NULL;
	size_t hidden = 0;

	for (size_t i = 0; i < prefixes->count; i++) {
		const struct ls_prefix *const item = &prefixes->items[i];

		if (!cover || !ls_prefix_contains(cover, item)) {
			cover = item;
			continue;
		}
		if (hidden++ == 0) {
			*ret_first = *item;
			*ret_cover = *cover;
		}
	}
	return hidden;
}
