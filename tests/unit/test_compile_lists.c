/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The list compiler against a plain longest-prefix search through all entries. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lists.h"
#include "policy_builder.h"
#include "user/base/error.h"
#include "user/policy/compile_match.h"

/* ---- the reference ---- */

struct standing {
	uint8_t list;
	uint32_t factor;
	struct ls_class_set from, to;
};

/* Length of the longest entry that covers `address`, -1: none. */
static int longest(const struct ls_policy *policy, const struct ls_members *members,
		   const struct ls_prefix *address)
{
	int best = -1;

	for (size_t i = 0; i < members->count; i++) {
		const struct ls_member *member = &members->items[i];
		const struct ls_prefix *items = &member->prefix;
		size_t count = 1;

		if (member->set >= 0) {
			items = policy->sets[member->set].entries.items;
			count = policy->sets[member->set].entries.count;
		}
		for (size_t j = 0; j < count; j++)
			if (items[j].length > best && ls_prefix_contains(&items[j], address))
				best = items[j].length;
	}
	return best;
}

static struct standing reference(const struct ls_policy *policy, const struct ls_prefix *address)
{
	const int allow = longest(policy, &policy->allow, address);
	const int deny = longest(policy, &policy->deny, address);
	struct standing standing = { .list = LS_LIST_NONE };
	int nat = -1;

	if (allow >= 0 && allow >= deny)
		standing.list = LS_LIST_ALLOW;
	else if (deny >= 0)
		standing.list = LS_LIST_DENY;
	for (size_t i = 0; i < policy->n_nats; i++) {
		const int length = longest(policy, &policy->nats[i].sources, address);

		if (length > nat) {
			nat = length;
			standing.factor = policy->nats[i].factor;
		}
	}
	for (size_t i = 0; i < policy->n_classes; i++) {
		const struct ls_match *match = &policy->classes[i].match;

		if (!match->from.count || longest(policy, &match->from, address) >= 0)
			ls_class_set_add(&standing.from, i);
		if (!match->to.count || longest(policy, &match->to, address) >= 0)
			ls_class_set_add(&standing.to, i);
	}
	return standing;
}

/* ---- what the image says ---- */

static void check_address(const struct ls_policy *policy, const struct ls_image *image,
			  const struct ls_prefix *address)
{
	const struct standing expected = reference(policy, address);
	const struct ls_label_abi *label = &image->labels[image_label(image, address)];

	assert_int_equal(label->list, expected.list);
	assert_int_equal(label->factor, expected.factor);
	for (unsigned word = 0; word < (image->word >> LS_WORD_WORDS_SHIFT & 7); word++) {
		assert_true(image->rows[word][label->from_row] == expected.from.word[word]);
		assert_true(image->rows[word][label->to_row] == expected.to.word[word]);
	}
}

static void check_edges(const struct ls_policy *policy, const struct ls_image *image,
			const struct ls_prefix *prefix)
{
	struct ls_prefix address = first_of(*prefix);

	check_address(policy, image, &address);
	if (step_address(&address, -1))
		check_address(policy, image, &address);
	address = last_of(*prefix);
	check_address(policy, image, &address);
	if (step_address(&address, 1))
		check_address(policy, image, &address);
}

static void check_members(const struct ls_policy *policy, const struct ls_image *image,
			  const struct ls_members *members)
{
	for (size_t i = 0; i < members->count; i++)
		if (members->items[i].set < 0)
			check_edges(policy, image, &members->items[i].prefix);
}

static void check_policy(const struct ls_policy *policy, const struct ls_image *image)
{
	for (size_t i = 0; i < policy->n_sets; i++)
		for (size_t j = 0; j < policy->sets[i].entries.count; j++)
			check_edges(policy, image, &policy->sets[i].entries.items[j]);
	check_members(policy, image, &policy->allow);
	check_members(policy, image, &policy->deny);
	for (size_t i = 0; i < policy->n_nats; i++)
		check_members(policy, image, &policy->nats[i].sources);
	for (size_t i = 0; i < policy->n_classes; i++) {
		check_members(policy, image, &policy->classes[i].match.from);
		check_members(policy, image, &policy->classes[i].match.to);
	}
}

static void compile_and_check(const struct ls_policy *policy, uint64_t chance)
{
	struct ls_image *image = compile(policy, chance, NULL);

	assert_non_null(image);
	check_policy(policy, image);
	ls_image_free(image);
}

/* ---- random nested prefixes ---- */

/* Few bits vary, at places all over the address, so that prefixes of all lengths nest and touch. */
static struct ls_prefix random_prefix(uint64_t *chance, bool ipv6)
{
	struct ls_prefix prefix = build_prefix(ipv6 ? "2001:db8::" : "203.0.113.0");
	const unsigned bytes = ipv6 ? 16 : 4;
	const unsigned full = ipv6 ? 128 : 32;

	for (unsigned i = 0; i < 3; i++) {
		const unsigned byte = chance_below(chance, bytes);

		prefix.bytes[byte] = (uint8_t)(prefix.bytes[byte] ^ 1U << chance_below(chance, 8));
	}
	if (chance_below(chance, 4) == 0)
		return prefix;
	return ls_prefix_widen(prefix, (uint8_t)chance_below(chance, full + 1));
}

static struct ls_prefix random_of(uint64_t *chance, unsigned families)
{
	return random_prefix(chance, families == 3 ? chance_below(chance, 2) : families == 2);
}

static void random_members(uint64_t *chance, const struct ls_policy *policy, unsigned families,
			   struct ls_members *members)
{
	const unsigned count = 1 + chance_below(chance, 6);

	for (unsigned i = 0; i < count; i++) {
		if (policy->n_sets && chance_below(chance, 3) == 0)
			build_member_set(members,
					 (int)chance_below(chance, (unsigned)policy->n_sets));
		else
			build_member_prefix(members, random_of(chance, families));
	}
}

/* `families`: 1 IPv4, 2 IPv6, 3 both. */
static struct ls_policy *random_policy(uint64_t *chance, unsigned families, unsigned n_classes)
{
	struct ls_policy *policy = build_policy();

	for (unsigned i = 0; i < 3; i++) {
		const unsigned count = chance_below(chance, 12);
		struct ls_prefix *items = calloc(count + 1, sizeof(*items));

		assert_non_null(items);
		for (unsigned j = 0; j < count; j++)
			items[j] = random_of(chance, families);
		build_set(policy, items, count);
	}
	random_members(chance, policy, families, &policy->allow);
	random_members(chance, policy, families, &policy->deny);
	for (unsigned i = 0; i < 2; i++)
		random_members(chance, policy, families,
			       &build_nat(policy, 1 + chance_below(chance, 3))->sources);
	for (unsigned i = 0; i < n_classes; i++) {
		char name[LS_NAME_BYTES];
		struct ls_class *class;

		snprintf(name, sizeof(name), "c-%u", i);
		class = build_class(policy, name);
		if (chance_below(chance, 2))
			random_members(chance, policy, families, &class->match.from);
		if (chance_below(chance, 2))
			random_members(chance, policy, families, &class->match.to);
	}
	return policy;
}

static void every_edge_of_nested_prefixes_has_its_standing(void **state)
{
	uint64_t chance = chance_seed(__func__);
	unsigned compiled = 0;

	(void)state;
	for (unsigned round = 0; round < 300; round++) {
		struct ls_policy *policy =
			random_policy(&chance, 1 + round % 3, chance_below(&chance, 4));

		if (ls_policy_count_labels(policy) <= LS_LABELS - 1) {
			compile_and_check(policy, round);
			compiled++;
		}
		ls_policy_free(policy);
	}
	assert_true(compiled > 200);
}

/* Deeper: one list, many prefixes, so that markers and cells of all lengths meet. */
static void dense_lists_are_exact(void **state)
{
	uint64_t chance = chance_seed(__func__);

	(void)state;
	for (unsigned round = 0; round < 12; round++) {
		struct ls_policy *policy = build_policy();

		for (unsigned i = 0; i < 2; i++) {
			const unsigned count = 400;
			struct ls_prefix *items = calloc(count, sizeof(*items));

			assert_non_null(items);
			for (unsigned j = 0; j < count; j++)
				items[j] = random_prefix(&chance, round % 2);
			build_set(policy, items, count);
		}
		build_member_set(&policy->allow, 0);
		build_member_set(&policy->deny, 1);
		compile_and_check(policy, round);
		ls_policy_free(policy);
	}
}

static void allow_wins_a_tie_and_the_longer_prefix_wins_else(void **state)
{
	static const struct {
		const char *address;
		uint8_t list;
	} cases[] = {
		{ "203.0.113.1", LS_LIST_DENY },    { "203.0.113.130", LS_LIST_ALLOW },
		{ "203.0.113.200", LS_LIST_DENY },  { "203.0.113.201", LS_LIST_ALLOW },
		{ "198.51.100.1", LS_LIST_ALLOW },  { "192.0.2.1", LS_LIST_NONE },
		{ "2001:db8::1", LS_LIST_ALLOW },   { "2001:db8:1::1", LS_LIST_DENY },
		{ "2001:db8:1::2", LS_LIST_ALLOW }, { "2001:db9::", LS_LIST_NONE },
	};
	struct ls_policy *policy = build_policy();
	struct ls_image *image;

	(void)state;
	build_member_prefix(&policy->deny, build_prefix("203.0.113.0/24"));
	build_member_prefix(&policy->allow, build_prefix("203.0.113.128/25"));
	build_member_prefix(&policy->deny, build_prefix("203.0.113.200"));
	build_member_prefix(&policy->deny, build_prefix("198.51.100.0/24"));
	build_member_prefix(&policy->allow, build_prefix("198.51.100.0/24"));
	build_member_prefix(&policy->allow, build_prefix("2001:db8::/32"));
	build_member_prefix(&policy->deny, build_prefix("2001:db8:1::1"));
	image = compile(policy, 1, NULL);
	assert_non_null(image);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct ls_prefix address = build_prefix(cases[i].address);

		assert_int_equal(image->labels[image_label(image, &address)].list, cases[i].list);
	}
	assert_int_equal(ls_policy_count_labels(policy), 2);
	ls_image_free(image);
	ls_policy_free(policy);
}

static void of_two_nat_entries_with_one_prefix_the_first_counts(void **state)
{
	struct ls_policy *policy = build_policy();
	struct ls_prefix *items = calloc(2, sizeof(*items));
	int set;

	(void)state;
	assert_non_null(items);
	items[0] = build_prefix("100.64.0.0/10");
	items[1] = build_prefix("2001:db8::/32");
	set = build_set(policy, items, 2);
	/* the set first, then the same prefixes by themselves, then a longer one with a lower
	 * factor */
	build_member_set(&build_nat(policy, 8)->sources, set);
	build_member_prefix(&build_nat(policy, 32)->sources, build_prefix("100.64.0.0/10"));
	build_member_prefix(&policy->nats[1].sources, build_prefix("2001:db8::/32"));
	build_member_prefix(&build_nat(policy, 2)->sources, build_prefix("100.64.7.0/24"));
	build_member_prefix(&policy->nats[2].sources, build_prefix("2001:db8:7::/48"));
	compile_and_check(policy, 1);
	assert_int_equal(ls_policy_count_labels(policy), 2);
	ls_policy_free(policy);
}

static void whole_address_spaces_and_single_entries_work(void **state)
{
	static const char *const lists[][3] = {
		{ "0.0.0.0/0" },
		{ "::/0" },
		{ "::/0", "2001:db8::1" },
		{ "0.0.0.0/0", "255.255.255.255", "0.0.0.0" },
		{ "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" },
		{ "203.0.113.7" },
		{ "::/1", "8000::/1" },
		{ "0.0.0.0/1", "255.255.255.128/25" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
		struct ls_policy *policy = build_policy();

		build_member_prefix(&policy->deny, build_prefix(lists[i][0]));
		for (unsigned j = 1; j < 3 && lists[i][j]; j++)
			build_member_prefix(&policy->allow, build_prefix(lists[i][j]));
		compile_and_check(policy, i);
		ls_policy_free(policy);
	}
}

static void an_entry_that_another_hides_costs_nothing(void **state)
{
	struct ls_policy *policy = build_policy();
	struct ls_image *image;

	(void)state;
	build_member_prefix(&policy->deny, build_prefix("203.0.113.0/24"));
	build_member_prefix(&policy->deny, build_prefix("2001:db8::/32"));
	for (unsigned i = 0; i < 200; i++) {
		struct ls_prefix prefix = build_prefix("203.0.113.0");

		prefix.bytes[3] = (uint8_t)i;
		build_member_prefix(&policy->deny, prefix);
		prefix = build_prefix("2001:db8::");
		prefix.bytes[15] = (uint8_t)i;
		build_member_prefix(&policy->deny, prefix);
	}
	image = compile(policy, 1, NULL);
	assert_non_null(image);
	assert_int_equal(image->generation.hosts4_bits, 1);
	assert_int_equal(image->generation.nets6_bits, 1);
	assert_int_equal(image->generation.n_lengths6, 1);
	check_policy(policy, image);
	ls_image_free(image);
	ls_policy_free(policy);
}

/* The bad luck of every multiplier at once: placement fails, draws again, and grows. */
static uint64_t bad_then_good(void *context)
{
	uint64_t *calls = context;

	return ++*calls <= 8 * 20 ? 1 : chance_next(calls);
}

static void bad_multipliers_are_drawn_again(void **state)
{
	struct ls_policy *policy = build_policy();
	struct ls_ledger *ledger = calloc(1, sizeof(*ledger));
	struct ls_image *image = NULL;
	uint64_t calls = 0;

	(void)state;
	assert_non_null(ledger);
	for (unsigned i = 0; i < 200; i++) {
		struct ls_prefix prefix = build_prefix("203.0.113.0");

		prefix.bytes[3] = (uint8_t)i;
		build_member_prefix(i % 2 ? &policy->allow : &policy->deny, prefix);
		prefix = build_prefix("2001:db8::");
		prefix.bytes[15] = (uint8_t)i;
		build_member_prefix(i % 2 ? &policy->allow : &policy->deny, prefix);
	}
	assert_int_equal(ls_policy_compile(policy, 0, ledger, bad_then_good, &calls, &image, NULL),
			 0);
	assert_true(calls > 8 * 20);
	check_policy(policy, image);
	ls_image_free(image);
	ls_policy_free(policy);
	free(ledger);
}

/* ---- too many combinations ---- */

/* Each of `n` classes asks for a prefix of its own and for one that it shares with another. */
static struct ls_policy *overlapping_policy(unsigned n)
{
	struct ls_policy *policy = build_policy();

	for (unsigned i = 0; i < n; i++) {
		char name[LS_NAME_BYTES];
		struct ls_prefix prefix = build_prefix("203.0.113.0");
		struct ls_members *from;

		snprintf(name, sizeof(name), "c-%u", i);
		from = &build_class(policy, name)->match.from;
		prefix.bytes[3] = (uint8_t)i;
		build_member_prefix(from, prefix);
	}
	return policy;
}

static void the_256th_combination_is_refused_with_the_lists_to_merge(void **state)
{
	struct ls_policy *policy = overlapping_policy(255);
	struct ls_error error = LS_ERROR_INIT;

	(void)state;
	assert_int_equal(ls_policy_count_labels(policy), 255);
	compile_and_check(policy, 1);
	build_member_prefix(&policy->allow, build_prefix("203.0.113.5"));
	build_member_prefix(&policy->allow, build_prefix("203.0.113.255"));
	assert_int_equal(ls_policy_count_labels(policy), 256);
	assert_null(compile(policy, 1, &error));
	assert_non_null(strstr(error.text, "256"));
	assert_non_null(strstr(error.text, "255"));
	assert_non_null(strstr(error.text, "'from' of class 'c-"));
	ls_policy_free(policy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_edge_of_nested_prefixes_has_its_standing),
		cmocka_unit_test(dense_lists_are_exact),
		cmocka_unit_test(allow_wins_a_tie_and_the_longer_prefix_wins_else),
		cmocka_unit_test(of_two_nat_entries_with_one_prefix_the_first_counts),
		cmocka_unit_test(whole_address_spaces_and_single_entries_work),
		cmocka_unit_test(an_entry_that_another_hides_costs_nothing),
		cmocka_unit_test(bad_multipliers_are_drawn_again),
		cmocka_unit_test(the_256th_combination_is_refused_with_the_lists_to_merge),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
