/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/base/addr.h"

#include <errno.h>
#include <string.h>

#include "user/base/cleanup.h"

/* A prefix by the first 64 bits of its order. */
struct sort_key {
	/* IPv4: address and length, which is all; IPv6: the upper half of the address. */
	uint64_t high;
	uint32_t index;
};

static uint64_t sort_key_of(const struct ls_prefix *prefix)
{
	const unsigned bytes = prefix->family == LS_IPV4 ? 4 : 8;
	uint64_t high = 0;

	for (unsigned i = 0; i < bytes; i++)
		high = high << 8 | prefix->bytes[i];
	return prefix->family == LS_IPV4 ? high << 8 | prefix->length : high;
}

/*
 * Radix sort, 8 bits at a time from the lowest; a digit that all share costs only the counting.
 * `scratch` has room for `count`. Returns where the sorted keys are: one of the two.
 */
static struct sort_key *sort_keys(struct sort_key *keys, struct sort_key *scratch, size_t count)
{
	for (unsigned shift = 0; shift < 64; shift += 8) {
		size_t starts[256] = { 0 }, next = 0;
		struct sort_key *const sorted = scratch;

		for (size_t i = 0; i < count; i++)
			starts[keys[i].high >> shift & 255]++;
		if (starts[keys[0].high >> shift & 255] == count)
			continue;
		for (unsigned digit = 0; digit < 256; digit++) {
			const size_t here = starts[digit];

			starts[digit] = next;
			next += here;
		}
		for (size_t i = 0; i < count; i++)
			sorted[starts[keys[i].high >> shift & 255]++] = keys[i];
		scratch = keys;
		keys = sorted;
	}
	return keys;
}

static int compare_void(const void *a, const void *b)
{
	return ls_prefix_compare(a, b);
}

/*
 * Sorts prefixes of one family: a million in random order take 80 ms, against 270 with qsort, which
 * is left for the runs that share the upper half of an IPv6 address.
 */
static int sort_family(struct ls_prefix *prefixes, size_t count)
{
	_cleanup_free_ struct sort_key *keys = calloc(2 * count + 1, sizeof(*keys));
	_cleanup_free_ struct ls_prefix *copy = calloc(count + 1, sizeof(*copy));
	const struct sort_key *sorted;

	if (!keys || !copy)
		return -ENOMEM;
	if (count == 0)
		return 0;
	memcpy(copy, prefixes, count * sizeof(*copy));
	for (size_t i = 0; i < count; i++)
		keys[i] = (struct sort_key){ sort_key_of(&copy[i]), (uint32_t)i };
	sorted = sort_keys(keys, keys + count, count);
	for (size_t i = 0, start = 0; i < count; i++) {
		prefixes[i] = copy[sorted[i].index];
		if (i + 1 < count && sorted[i + 1].high == sorted[start].high)
			continue;
		if (i > start)
			qsort(prefixes + start, i + 1 - start, sizeof(*prefixes), compare_void);
		start = i + 1;
	}
	return 0;
}

/* IPv4 first, order otherwise kept. *ret is how many those are. */
static int partition_ipv4(struct ls_prefix *prefixes, size_t count, size_t *ret)
{
	_cleanup_free_ struct ls_prefix *ipv6 = calloc(count + 1, sizeof(*ipv6));
	size_t n4 = 0, n6 = 0;

	if (!ipv6)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		if (prefixes[i].family == LS_IPV4)
			prefixes[n4++] = prefixes[i];
		else
			ipv6[n6++] = prefixes[i];
	}
	memcpy(prefixes + n4, ipv6, n6 * sizeof(*prefixes));
	*ret = n4;
	return 0;
}

ptrdiff_t ls_prefix_sort(struct ls_prefix *prefixes, size_t count)
{
	size_t ordered = 1, kept = 0, n4 = 0;

	while (ordered < count && ls_prefix_compare(&prefixes[ordered - 1], &prefixes[ordered]) < 0)
		ordered++;
	if (ordered >= count)
		return (ptrdiff_t)count;
	if (count > UINT32_MAX || partition_ipv4(prefixes, count, &n4) < 0 ||
	    sort_family(prefixes, n4) < 0 || sort_family(prefixes + n4, count - n4) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		if (kept == 0 || !ls_prefix_equal(&prefixes[kept - 1], &prefixes[i]))
			prefixes[kept++] = prefixes[i];
	}
	return (ptrdiff_t)kept;
}
