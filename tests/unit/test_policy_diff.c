/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/diff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "user/base/buffer.h"
#include "user/base/error.h"
#include "user/policy/edit.h"
#include "user/policy/policy.h"
#include "user/policy/read.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static struct ls_policy *read_text(const char *rest)
{
	struct ls_error error = LS_ERROR_INIT;
	struct ls_policy *policy = NULL;
	char text[2048];

	snprintf(text, sizeof(text), "version: 1\n%s\n", rest);
	if (ls_policy_read_memory("p", text, strlen(text), NULL, &policy, &error) < 0)
		fail_msg("%s", error.text);
	return policy;
}

#define CLASS(limits) "classes: [{ name: web, match: { ports: 80 }, limits: [" limits "] }]"

static void each_difference_has_its_line(void **state)
{
	static const struct {
		const char *from, *to, *lines;
	} rows[] = {
		{ "", "mode: monitor", "mode: enforce -> monitor\n" },
		{ "", "malformed: pass", "malformed: drop -> pass\n" },
		{ "", "capacity: { sources: 2M }", "capacity: sources 1M -> 2M\n" },
		{ "allow: [192.0.2.1]", "allow: [192.0.2.2]", "allow: -192.0.2.1 +192.0.2.2\n" },
		{ "sets: { s: [192.0.2.1] }", "sets: { s: [192.0.2.1] }\ndeny: [s]",
		  "deny: +set s\n" },
		{ "sets: { s: [192.0.2.1] }", "sets: { s: [192.0.2.2, 192.0.2.1] }",
		  "set s: +192.0.2.2\n" },
		{ "sets: { s: [192.0.2.1, 192.0.2.2, 192.0.2.3, 192.0.2.4, 192.0.2.5] }",
		  "sets: { s: [192.0.2.5, 192.0.2.6, 192.0.2.7, 192.0.2.8, 192.0.2.9, 192.0.2.10] }",
		  "set s: +5 -4 entries\n" },
		{ "sets: { s: [192.0.2.1] }", "", "set s: removed (1 entries)\n" },
		{ "", "sets: { s: [] }", "set s: added (0 entries)\n" },
		{ "", "nat: [{ sources: 192.0.2.1, factor: 2 }]",
		  "nat entry 1: added, factor 2\n" },
		{ "nat: [{ sources: 192.0.2.1, factor: 2 }]",
		  "nat: [{ sources: 192.0.2.2, factor: 3 }]",
		  "nat entry 1: factor 2 -> 3\nnat entry 1: -192.0.2.1 +192.0.2.2\n" },
		{ "", "overload: { max: { packets: 2M/s } }",
		  "overload: max packets none -> 2M/s\n" },
		{ "", "overload: {}",
		  "overload: accept_delay none -> 20ms\noverload: cpu none -> off\n"
		  "overload: pressure none -> off\noverload: memory none -> 95%\n"
		  "overload: softnet none -> on\n" },
		{ "overload: { floor: { low: 5% } }",
		  "overload: { mode: monitor, cpu: 85%, load: { file: /run/load } }",
		  "overload: mode enforce -> monitor\noverload: cpu off -> 85%\n"
		  "overload: load none -> { file: /run/load, target: 80% }\n"
		  "overload: floor { low: 5% } -> none\n" },
		{ "overload: { max: { packets: 2M/s } }", "overload: { max: { packets: 3M/s } }",
		  "overload: max packets 2M/s -> 3M/s\n" },
		{ "", "classes: [{ name: dns, match: any }]", "class dns: added\n" },
		{ "classes: [{ name: dns, match: any }]", "", "class dns: removed\n" },
		{ "classes: [{ name: a, match: any }, { name: b, match: any }]",
		  "classes: [{ name: b, match: any }, { name: a, match: any }]",
		  "class b: now before class a\n" },
		{ "classes: [{ name: a, match: any }]",
		  "classes: [{ name: a, match: any, mode: monitor, priority: low }]",
		  "class a: mode enforce -> monitor\nclass a: priority normal -> low\n" },
		{ "classes: [{ name: a, match: any }]",
		  "classes: [{ name: a, match: { protocol: tcp } }]",
		  "class a: match is no longer any\nclass a: match protocol any -> [tcp]\n" },
		{ "classes: [{ name: a, match: { ports: 80 } }]",
		  "classes: [{ name: a, match: { ports: [80, 443], from: 192.0.2.1, vlan: 7, "
		  "tcp_flags: syn } }]",
		  "class a: match ports [80] -> [80, 443]\nclass a: match vlan any -> [7]\n"
		  "class a: match tcp_flags [] -> [syn]\nclass a: match from: +192.0.2.1\n" },
		{ CLASS("{ name: new, rate: 50/s, burst: 9 }"),
		  CLASS("{ name: new, rate: 100/s, burst: 9 }"),
		  "class web: limit new: rate 50/s -> 100/s\n" },
		{ CLASS("{ name: new, rate: 50/s, burst: 9 }"),
		  CLASS("{ name: new, rate: 50/s, burst: 10 }"),
		  "class web: limit new: burst 9 -> 10\n" },
		{ CLASS("{ name: new, rate: 50/s }"), CLASS("{ name: old, rate: 50/s }"),
		  "class web: limit new: removed\n"
		  "class web: limit old: added, rate 50/s, burst 50\n" },
		{ CLASS("{ name: n, rate: 50/s }"), CLASS("{ name: n, rate: 50/s, per: class }"),
		  "class web: limit n: per source -> class (starts fresh)\n" },
		{ CLASS("{ name: n, rate: 50/s }"),
		  CLASS("{ name: n, rate: 50/s, count: connections }"),
		  "class web: limit n: count packets -> connections (starts fresh)\n" },
		{ CLASS("{ name: n, rate: 50/s }"),
		  CLASS("{ name: n, algorithm: sliding-log, limit: 5, window: 1m }"),
		  "class web: limit n: algorithm token-bucket -> sliding-log (starts fresh)\n"
		  "class web: limit n: rate 50/s -> window 1m (starts fresh)\n"
		  "class web: limit n: burst 50 -> limit 5 (starts fresh)\n" },
		{ CLASS("{ name: a, rate: 1/s }, { name: b, rate: 1/s }"),
		  CLASS("{ name: b, rate: 1/s }, { name: a, rate: 1/s }"),
		  "class web: limits are asked in another order\n" },
		{ "classes: [{ name: a, match: any, limits: [{ rate: 1/s }] }]",
		  "classes: [{ name: a, match: any, limits: [{ rate: 1/s }], "
		  "ban: { after: 1k, within: 10s, for: 10m } }]",
		  "class a: ban none -> after 1k within 10s for 10m\n" },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(rows); i++) {
		_cleanup_policy_ struct ls_policy *from = read_text(rows[i].from);
		_cleanup_policy_ struct ls_policy *to = read_text(rows[i].to);
		_cleanup_buffer_ struct ls_buffer lines = LS_BUFFER_INIT;

		assert_true(ls_policy_diff(from, to, &lines));
		assert_string_equal(ls_buffer_string(&lines), rows[i].lines);
		assert_false(ls_policy_equal(to, from));
		assert_true(ls_policy_equal(to, to));
	}
}

static void another_spelling_is_no_difference(void **state)
{
	static const struct {
		const char *from, *to;
	} rows[] = {
		{ "", "mode: enforce\nmalformed: drop\nclasses: []\nallow: []\n" },
		{ "allow: [192.0.2.1, 192.0.2.2]", "allow: [192.0.2.2/32, 192.0.2.1]" },
		{ "sets: { a: ['2001:db8::1'], b: [] }", "sets: { b: [], a: ['2001:DB8:0::1'] }" },
		{ "sets: { a: [192.0.2.1], b: [] }\ndeny: [a, b]",
		  "sets: { b: [], a: [192.0.2.1] }\ndeny: [b, a]" },
		{ CLASS("{ rate: 600/m }"), CLASS("{ name: limit-1, rate: 10/s, burst: 10 }") },
		{ "classes: [{ name: a, match: { ports: [80, 81] } }]",
		  "classes: [{ name: a, match: { ports: 80-81, protocol: [sctp, 6, udp] } }]" },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(rows); i++) {
		_cleanup_policy_ struct ls_policy *from = read_text(rows[i].from);
		_cleanup_policy_ struct ls_policy *to = read_text(rows[i].to);
		_cleanup_buffer_ struct ls_buffer lines = LS_BUFFER_INIT;

		if (ls_policy_diff(from, to, &lines))
			fail_msg("row %zu: %s", i, ls_buffer_string(&lines));
	}
}

static struct ls_prefix prefix_of(const char *text)
{
	struct ls_prefix prefix = { 0 };

	assert_int_equal(ls_prefix_parse(text, strlen(text), &prefix), LS_PREFIX_OK);
	return prefix;
}

static void entries_are_added_and_removed_exactly(void **state)
{
	_cleanup_policy_ struct ls_policy *policy = read_text(
		"sets: { other: [192.0.2.9], s: [192.0.2.0/24] }\ndeny: [s, 198.51.100.0/24]");
	_cleanup_policy_ struct ls_policy *before = read_text(
		"sets: { other: [192.0.2.9], s: [192.0.2.0/24] }\ndeny: [s, 198.51.100.0/24]");
	const struct ls_prefix fresh = prefix_of("198.51.100.7"),
			       in_set = prefix_of("192.0.2.0/24");
	int set = -1;

	(void)state;
	assert_int_equal(ls_policy_edit_remove(policy, LS_EDIT_DENY, &fresh, &set),
			 LS_EDIT_E_ABSENT);
	assert_int_equal(ls_policy_edit_add(policy, LS_EDIT_DENY, &fresh), 0);
	assert_false(ls_policy_equal(policy, before));
	assert_int_equal(ls_policy_edit_add(policy, LS_EDIT_DENY, &fresh), LS_EDIT_E_PRESENT);
	assert_int_equal(ls_policy_edit_add(policy, LS_EDIT_ALLOW, &fresh), 0);
	assert_int_equal(ls_policy_edit_add(policy, LS_EDIT_DENY, &in_set), LS_EDIT_E_PRESENT);
	assert_int_equal(ls_policy_edit_remove(policy, LS_EDIT_DENY, &in_set, &set),
			 LS_EDIT_E_IN_SET);
	assert_int_equal(set, 1);
	assert_int_equal(ls_policy_edit_remove(policy, LS_EDIT_ALLOW, &fresh, NULL), 0);
	assert_int_equal(ls_policy_edit_remove(policy, LS_EDIT_DENY, &fresh, NULL), 0);
	assert_true(ls_policy_equal(policy, before));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_difference_has_its_line),
		cmocka_unit_test(another_spelling_is_no_difference),
		cmocka_unit_test(entries_are_added_and_removed_exactly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
