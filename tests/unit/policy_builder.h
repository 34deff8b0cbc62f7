/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_TESTS_UNIT_POLICY_BUILDER_H
#define LOADSHED_TESTS_UNIT_POLICY_BUILDER_H

/* Policies made by hand, without the reader, and reproducible chance. Ends the test when memory
 * runs out. */

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "user/policy/policy.h"

/* splitmix64: every seed is a good one. */
static inline uint64_t chance_next(void *state)
{
	uint64_t z = *(uint64_t *)state += 0x9E3779B97F4A7C15ULL;

	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ULL;
	z = (z ^ z >> 27) * 0x94D049BB133111EBULL;
	return z ^ z >> 31;
}

/* 0 to bound - 1. */
static inline unsigned chance_below(uint64_t *state, unsigned bound)
{
	return (unsigned)(chance_next(state) % bound);
}

/* The seed of this run: LS_TEST_SEED, else the time. Printed, so that a failure can be repeated. */
static inline uint64_t chance_seed(const char *test)
{
	const char *text = getenv("LS_TEST_SEED");
	const uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);

	printf("%s: LS_TEST_SEED=%llu\n", test, (unsigned long long)seed);
	return seed;
}

static inline void *builder_grow(void *items, size_t count, size_t size)
{
	items = realloc(items, (count + 1) * size);
	assert(items);
	memset((char *)items + count * size, 0, size);
	return items;
}

static inline struct ls_policy *build_policy(void)
{
	struct ls_policy *policy = ls_policy_new();

	assert(policy);
	return policy;
}

static inline struct ls_prefix build_prefix(const char *text)
{
	struct ls_prefix prefix;
	const enum ls_prefix_error error = ls_prefix_parse(text, strlen(text), &prefix);

	assert(error == LS_PREFIX_OK);
	return prefix;
}

/* Takes `items` over (allocated); they are sorted here. Returns the index of the set. */
static inline int build_set(struct ls_policy *policy, struct ls_prefix *items, size_t count)
{
	const ptrdiff_t sorted = ls_prefix_sort(items, count);
	struct ls_set *set;

	assert(sorted >= 0);
	policy->sets = builder_grow(policy->sets, policy->n_sets, sizeof(*policy->sets));
	set = &policy->sets[policy->n_sets];
	snprintf(set->name, sizeof(set->name), "set-%zu", policy->n_sets);
	set->entries = (struct ls_prefixes){ .items = items, .count = (size_t)sorted };
	return (int)policy->n_sets++;
}

static inline void build_member(struct ls_members *members, struct ls_member member)
{
	members->items = builder_grow(members->items, members->count, sizeof(*members->items));
	members->items[members->count++] = member;
}

static inline void build_member_set(struct ls_members *members, int set)
{
	build_member(members, (struct ls_member){ .set = set });
}

static inline void build_member_prefix(struct ls_members *members, struct ls_prefix prefix)
{
	build_member(members, (struct ls_member){ .set = -1, .prefix = prefix });
}

static inline struct ls_nat *build_nat(struct ls_policy *policy, uint32_t factor)
{
	policy->nats = builder_grow(policy->nats, policy->n_nats, sizeof(*policy->nats));
	policy->nats[policy->n_nats].factor = factor;
	return &policy->nats[policy->n_nats++];
}

/* At the end; the pointer is valid until the next one. */
static inline struct ls_class *build_class(struct ls_policy *policy, const char *name)
{
	struct ls_class *class;

	policy->classes =
		builder_grow(policy->classes, policy->n_classes, sizeof(*policy->classes));
	class = &policy->classes[policy->n_classes++];
	snprintf(class->name, sizeof(class->name), "%s", name);
	class->priority = LS_PRIORITY_NORMAL;
	return class;
}

/* Behind those that are there, not adjacent to them. */
static inline void build_range(struct ls_ranges *ranges, unsigned low, unsigned high)
{
	ranges->items = builder_grow(ranges->items, ranges->count, sizeof(*ranges->items));
	ranges->items[ranges->count++] =
		(struct ls_range){ .low = (uint16_t)low, .high = (uint16_t)high };
}

static inline struct ls_limit *build_limit(struct ls_class *class, const char *name)
{
	struct ls_limit *limit = &class->limits[class->n_limits++];

	*limit = (struct ls_limit){ .rate = { 1, 1000000 }, .burst = 1000 };
	snprintf(limit->name, sizeof(limit->name), "%s", name);
	return limit;
}

#endif
