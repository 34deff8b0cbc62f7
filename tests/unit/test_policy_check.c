/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "user/base/error.h"
#include "user/policy/policy.h"
#include "user/policy/read.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Reads and checks; the warnings of both. */
static void check_text(const char *text, struct ls_warnings *warnings)
{
	const struct ls_policy_source source = {
		.name = "p",
		.bytes = text,
		.length = strlen(text),
		.warnings = warnings,
	};
	_cleanup_policy_ struct ls_policy *policy = NULL;
	struct ls_error error = LS_ERROR_INIT;

	if (ls_policy_read_source(&source, &policy, &error) < 0)
		fail_msg("%s", error.text);
	assert_int_equal(ls_policy_check(policy, warnings), 0);
}

static bool has_warning(const struct ls_warnings *warnings, const char *part)
{
	for (size_t i = 0; i < warnings->count; i++) {
		if (strstr(warnings->lines[i], part))
			return true;
	}
	return false;
}

static void what_is_hardly_meant_is_told(void **state)
{
	static const struct {
		const char *text, *warning;
	} rows[] = {
		{ "classes: [{ name: a, match: any }, { name: b, match: { ports: 80 } }]",
		  "class 'b' can never match: class 'a'" },
		{ "classes: [{ name: a, match: { ports: [80-90] } }, "
		  "{ name: b, match: { protocol: tcp, ports: [81, 85-90] } }]",
		  "class 'b' can never match: class 'a'" },
		{ "classes: [{ name: a, match: { protocol: tcp } }, "
		  "{ name: b, match: { tcp_flags: [syn] } }]",
		  "class 'b' can never match" },
		{ "classes: [{ name: a, match: { tcp_flags: [syn] } }, "
		  "{ name: b, match: { tcp_flags: [syn, no-ack], vlan: 7 } }]",
		  "class 'b' can never match" },
		{ "sets: { big: [192.0.2.0/24], small: [192.0.2.7, 192.0.2.128/25] }\n"
		  "classes: [{ name: a, match: { from: big } }, { name: b, match: { from: small } }]",
		  "class 'b' can never match" },
		{ "sets: { big: [192.0.2.0/24] }\n"
		  "classes: [{ name: a, match: { to: big } }, { name: b, match: { to: 192.0.2.9 } }]",
		  "class 'b' can never match" },
		{ "sets: { none: [] }\nclasses: [{ name: a, match: { to: none } }]",
		  "its 'to' names only empty sets" },
		{ "classes: [{ name: a, match: { to: 192.0.2.1, from: '2001:db8::1' } }]",
		  "class 'a' can never match: its 'to' is IPv4 and its 'from' is IPv6" },
		{ "sets: { six: ['2001:db8::/32'], four: [192.0.2.1] }\n"
		  "classes: [{ name: a, match: { to: six, from: four } }]",
		  "class 'a' can never match: its 'to' is IPv6 and its 'from' is IPv4" },
		{ "deny: [192.0.2.0/24]\nclasses: [{ name: a, match: { from: 192.0.2.9 } }]",
		  "class 'a' can never match: all of its 'from' is in 'deny', which is asked first" },
		{ "sets: { s: [192.0.2.1, 192.0.2.7] }\nallow: [192.0.2.0/28]\n"
		  "classes: [{ name: a, match: { from: s } }]",
		  "all of its 'from' is in 'allow', which is asked first" },
		{ "allow: [192.0.2.1]\ndeny: [192.0.2.2]\n"
		  "classes: [{ name: a, match: { from: [192.0.2.1, 192.0.2.2] } }]",
		  "all of its 'from' is in 'allow' and 'deny', which are asked first" },
		{ "sets: { none: [] }\ndeny: [none]", "set 'none' is an empty list" },
		{ "sets: { s: [192.0.2.1] }", "set 's' is not used" },
		{ "allow: []", "p:2:8: allow is an empty list" },
		{ "deny: [0.0.0.0/0]", "deny holds 0.0.0.0/0" },
		{ "sets: { s: ['::/0'] }\ndeny: [s]", "deny holds ::/0" },
		{ "allow: [0.0.0.0/0]", "allow holds 0.0.0.0/0" },
		{ "deny: [192.0.2.1, 192.0.2.1]", "deny: 1 repeated" },
		{ "deny: [192.0.2.0/24, 192.0.2.1]", "192.0.2.1 lies in 192.0.2.0/24" },
		{ "sets: { s: [192.0.2.1] }\ndeny: [s, 192.0.2.1]", "is in set 's' already" },
		{ "sets: { s: [192.0.2.0/24, 192.0.2.0/25, 192.0.2.1] }\ndeny: [s]",
		  "set 's': 2 entries lie in others" },
		{ "allow: [192.0.2.1]\ndeny: [192.0.2.1]", "in allow too" },
		{ "nat: [{ sources: [192.0.2.1], factor: 2 }, { sources: [192.0.2.1], factor: 3 }]",
		  "nat: 192.0.2.1 is in entry 1 and again in entry 2" },
		{ "nat: [{ sources: [192.0.2.1], factor: 32 }]\nclasses: [{ name: a, match: any, "
		  "limits: [{ name: s, rate: 50/s }, { name: p, per: { ipv4: 24 }, rate: 500/s }] }]",
		  "limit 'p' holds a whole prefix below 32 times limit 's'" },
		{ "classes: [{ name: a, match: any, limits: [{ rate: 1/s }], "
		  "ban: { after: 1, within: 1s, for: 1s } }]",
		  "forged source" },
		{ "classes: [{ name: a, match: { tcp_flags: [ack] }, limits: "
		  "[{ rate: 1/s, count: connections }] }]",
		  "never counts anything" },
		{ "classes: [{ name: a, match: any, limits: "
		  "[{ rate: 1MB/s, count: bytes, burst: 100B }] }]",
		  "smaller than a full frame" },
		{ "overload: { max: { connections: 15/s } }",
		  "no new work of priority low is ever admitted" },
		{ "overload: { max: { connections: 5/s } }",
		  "priority low, normal, high, critical is ever" },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(rows); i++) {
		_cleanup_warnings_ struct ls_warnings warnings = LS_WARNINGS_INIT;
		char text[1024];

		snprintf(text, sizeof(text), "version: 1\n%s\n", rows[i].text);
		check_text(text, &warnings);
		if (!has_warning(&warnings, rows[i].warning))
			fail_msg("no \"%s\" (%zu, \"%s\") for\n%s", rows[i].warning, warnings.count,
				 warnings.count ? warnings.lines[0] : "", text);
	}
}

static void what_is_meant_is_not_warned_about(void **state)
{
	static const char *const texts[] = {
		"classes: [{ name: a, match: { ports: 80 } }, { name: b, match: any }]",
		"classes: [{ name: a, match: { protocol: udp, ports: 80 } }, "
		"{ name: b, match: { protocol: tcp, ports: 80 } }]",
		"classes: [{ name: a, match: { ports: 80 } }, { name: b, match: { protocol: tcp } }]",
		"classes: [{ name: a, match: { tcp_flags: [syn] } }, "
		"{ name: b, match: { protocol: tcp } }]",
		"classes: [{ name: a, match: { vlan: 7 } }, { name: b, match: { ports: 80 } }]",
		"classes: [{ name: a, match: { from: 192.0.2.0/25 } }, "
		"{ name: b, match: { from: 192.0.2.0/24 } }]",
		"allow: [192.0.2.7]\ndeny: [192.0.2.0/24]",
		"deny: [192.0.2.0/24]\n"
		"classes: [{ name: a, match: { from: [192.0.2.1, 198.51.100.1] } }]",
		"deny: [192.0.2.0/25]\nclasses: [{ name: a, match: { from: 192.0.2.0/24 } }]",
		"deny: [192.0.2.0/24]\nclasses: [{ name: a, match: { to: 192.0.2.1 } }]",
		"nat: [{ sources: [192.0.2.1], factor: 10 }]\nclasses: [{ name: a, match: any, "
		"limits: [{ name: s, rate: 50/s }, { name: p, per: { ipv4: 24 }, rate: 500/s }] }]",
		"overload: { max: { packets: 20/s, connections: 20/s } }",
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(texts); i++) {
		_cleanup_warnings_ struct ls_warnings warnings = LS_WARNINGS_INIT;
		char text[1024];

		snprintf(text, sizeof(text), "version: 1\n%s\n", texts[i]);
		check_text(text, &warnings);
		if (warnings.count > 0)
			fail_msg("\"%s\" for\n%s", warnings.lines[0], text);
	}
}

static void warnings_are_bounded(void **state)
{
	_cleanup_warnings_ struct ls_warnings warnings = LS_WARNINGS_INIT;

	(void)state;
	for (unsigned i = 0; i < LS_WARNINGS_MAX + 5; i++)
		ls_warnings_add(&warnings, "%u", i);
	assert_int_equal(warnings.count, LS_WARNINGS_MAX);
	assert_int_equal(warnings.dropped, 5);
	ls_warnings_add(NULL, "nobody listens");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_hardly_meant_is_told),
		cmocka_unit_test(what_is_meant_is_not_warned_about),
		cmocka_unit_test(warnings_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
