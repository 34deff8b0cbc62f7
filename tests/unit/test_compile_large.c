/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lists of the sizes that feeds have: a million random hosts, and real lists where they are at hand. */

#include "lists.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Real lists, not part of the project: LS_TEST_LISTS or beside the checkout. */
#define LISTS_DIRECTORY "../shared/data/lists"

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Whether some prefix of a sorted set covers `address`: one binary search for each length. */
static bool set_covers(const struct ls_set *set, const struct ls_prefix *address)
{
	for (unsigned length = 0; length <= ls_prefix_full_length(address->family); length++) {
		const struct ls_prefix wanted = ls_prefix_widen(*address, (uint8_t)length);
		size_t low = 0, high = set->entries.count;

		while (low < high) {
			const size_t middle = low + (high - low) / 2;
			const int order = ls_prefix_compare(&set->entries.items[middle], &wanted);

			if (order == 0)
				return true;
			if (order < 0)
				low = middle + 1;
			else
				high = middle;
		}
	}
	return false;
}

static void check_sample(const struct ls_policy *policy, const struct ls_image *image,
			 struct ls_prefix address)
{
	const unsigned label = image_label(image, &address);

	assert_int_equal(image->labels[label].list == LS_LIST_DENY,
			 set_covers(&policy->sets[0], &address));
}

/* Denies the only set, and checks the edges of about 20 000 of its entries. */
static void compile_large(struct ls_policy *policy, const char *what)
{
	const struct ls_set *set = &policy->sets[0];
	const size_t stride = set->entries.count / 20000 + 1;
	struct ls_image *image;
	double started;

	build_member_set(&policy->deny, 0);
	started = now_ms();
	image = compile(policy, 7, NULL);
	printf("%s: %zu entries, %zu KiB, compiled in %.0f ms\n", what, set->entries.count,
	       image ? image->n_lines * sizeof(*image->lines) / 1024 : 0, now_ms() - started);
	assert_non_null(image);
	for (size_t i = 0; i < set->entries.count; i += stride) {
		struct ls_prefix first = first_of(set->entries.items[i]);
		struct ls_prefix last = last_of(set->entries.items[i]);

		check_sample(policy, image, first);
		check_sample(policy, image, last);
		if (step_address(&first, -1))
			check_sample(policy, image, first);
		if (step_address(&last, 1))
			check_sample(policy, image, last);
	}
	ls_image_free(image);
}

static void a_million_hosts_are_found(void **state)
{
	const size_t count = 1000000;
	struct ls_policy *policy = build_policy();
	struct ls_prefix *items = calloc(count, sizeof(*items));
	uint64_t chance = chance_seed(__func__);

	(void)state;
	assert_non_null(items);
	for (size_t i = 0; i < count; i++) {
		const uint64_t address = chance_next(&chance);

		items[i] = (struct ls_prefix){ .family = LS_IPV4, .length = 32 };
		memcpy(items[i].bytes, &address, 4);
	}
	build_set(policy, items, count);
	compile_large(policy, "random hosts");
	ls_policy_free(policy);
}

/* Reads one prefix per line. NULL: the file is not there. */
static struct ls_policy *read_policy(const char *name)
{
	const char *directory = getenv("LS_TEST_LISTS");
	char path[4096], line[256];
	struct ls_prefix *items = NULL;
	size_t count = 0, capacity = 0;
	struct ls_policy *policy;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory ? directory : LISTS_DIRECTORY, name);
	file = fopen(path, "r");
	if (!file) {
		printf("SKIPPED: no %s (set LS_TEST_LISTS)\n", path);
		return NULL;
	}
	while (fgets(line, sizeof(line), file)) {
		const size_t length = strcspn(line, " \t\r\n#");

		if (count == capacity) {
			capacity = 2 * capacity + 1024;
			items = reallocarray(items, capacity, sizeof(*items));
			assert_non_null(items);
		}
		if (ls_prefix_parse(line, length, &items[count]) == LS_PREFIX_OK)
			count++;
	}
	fclose(file);
	assert_true(count > 0);
	policy = build_policy();
	build_set(policy, items, count);
	return policy;
}

static void real_lists_are_exact(void **state)
{
	static const char *const names[] = { "hosts-120k.txt", "prefixes-v4-172k.txt",
					     "prefixes-v6-73k.txt" };
	unsigned done = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct ls_policy *policy = read_policy(names[i]);

		if (!policy)
			continue;
		compile_large(policy, names[i]);
		ls_policy_free(policy);
		done++;
	}
	if (!done)
		skip();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_million_hosts_are_found),
		cmocka_unit_test(real_lists_are_exact),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
