/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/lists.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "user/base/addr.h"
#include "user/base/error.h"
#include "user/plane/bans.h"
#include "user/policy/policy.h"
#include "user/policy/read.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static const char text[] = "version: 1\n"
			   "sets:\n"
			   "  office: [198.51.100.0/24, 2001:db8:10::/48]\n"
			   "allow: [office, 203.0.113.7, 192.0.2.0/25]\n"
			   "deny: [203.0.113.0/24, 198.51.100.128/25, 192.0.2.0/25]\n";

static struct ls_policy *read_policy(void)
{
	struct ls_policy *policy = NULL;
	struct ls_error error = LS_ERROR_INIT;

	if (ls_policy_read_memory("p", text, strlen(text), NULL, &policy, &error) < 0)
		fail_msg("%s", error.text);
	return policy;
}

static struct ls_prefix prefix(const char *from)
{
	struct ls_prefix result;

	assert_int_equal(ls_prefix_parse(from, strlen(from), &result), LS_PREFIX_OK);
	return result;
}

static void the_longer_prefix_wins_and_allow_wins_a_tie(void **state)
{
	static const struct {
		const char *source;
		enum ls_outcome wanted;
	} rows[] = {
		{ "203.0.113.7", LS_OUTCOME_ALLOW },	{ "203.0.113.8", LS_OUTCOME_DENY },
		{ "198.51.100.1", LS_OUTCOME_ALLOW },	{ "198.51.100.129", LS_OUTCOME_DENY },
		{ "192.0.2.1", LS_OUTCOME_ALLOW },	{ "192.0.2.200", LS_OUTCOME_NONE },
		{ "2001:db8:10::1", LS_OUTCOME_ALLOW }, { "2001:db8:11::1", LS_OUTCOME_NONE },
	};
	struct ls_policy *policy = read_policy();

	(void)state;
	for (size_t i = 0; i < LENGTH(rows); i++) {
		const struct ls_prefix source = prefix(rows[i].source);
		print_message("%s\n", rows[i].source);
		assert_int_equal(ls_lists_outcome(policy, &source), rows[i].wanted);
	}
	ls_policy_free(policy);
}

static void a_ban_that_could_never_apply_is_known(void **state)
{
	static const struct {
		const char *source;
		bool is_allowed, holds_allowed;
	} rows[] = {
		{ "203.0.113.7", true, false },
		{ "203.0.113.0/24", false, true },
		{ "198.51.100.0/25", true, false },
		{ "198.51.100.0/24", false, true }, /* half of it is denied, and can be banned */
		{ "198.51.0.0/16", false, true },
		{ "2001:db8:10:1::/64", true, false },
		{ "10.0.0.0/8", false, false },
	};
	struct ls_policy *policy = read_policy();

	(void)state;
	for (size_t i = 0; i < LENGTH(rows); i++) {
		const struct ls_prefix source = prefix(rows[i].source);
		bool inside = false;
		print_message("%s\n", rows[i].source);
		assert_int_equal(ls_ban_is_allowed(policy, &source, &inside), rows[i].is_allowed);
		assert_int_equal(inside, rows[i].holds_allowed);
	}
	ls_policy_free(policy);
}

static void a_ban_is_about_no_more_than_64_bits(void **state)
{
	const struct ls_prefix host = prefix("2001:db8:1:2:3::7"),
			       wide = prefix("2001:db8:1:2::/64"), net = prefix("2001:db8::/40"),
			       ipv4 = prefix("203.0.113.7");
	struct ls_prefix result = ls_ban_widen(host);

	(void)state;
	assert_true(ls_prefix_equal(&result, &wide));
	result = ls_ban_widen(net);
	assert_true(ls_prefix_equal(&result, &net));
	result = ls_ban_widen(ipv4);
	assert_true(ls_prefix_equal(&result, &ipv4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_longer_prefix_wins_and_allow_wins_a_tie),
		cmocka_unit_test(a_ban_that_could_never_apply_is_known),
		cmocka_unit_test(a_ban_is_about_no_more_than_64_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
