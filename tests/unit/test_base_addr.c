/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/base/addr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static enum ls_prefix_error parse(const char *text, struct ls_prefix *ret)
{
	return ls_prefix_parse(text, strlen(text), ret);
}

static struct ls_prefix prefix_of(const char *text)
{
	struct ls_prefix prefix = { 0 };

	if (parse(text, &prefix) != LS_PREFIX_OK)
		fail_msg("'%s' was refused", text);
	return prefix;
}

static void accepted_text_is_shown_canonically(void **state)
{
	static const struct {
		const char *text, *shown;
	} rows[] = {
		{ "203.0.113.7", "203.0.113.7" },
		{ "203.0.113.7/32", "203.0.113.7" },
		{ "203.0.113.0/24", "203.0.113.0/24" },
		{ "0.0.0.0/0", "0.0.0.0/0" },
		{ "0.0.0.0", "0.0.0.0" },
		{ "255.255.255.255", "255.255.255.255" },
		{ "128.0.0.0/1", "128.0.0.0/1" },
		{ "::", "::" },
		{ "::/0", "::/0" },
		{ "::1", "::1" },
		{ "1::", "1::" },
		{ "2001:DB8::1", "2001:db8::1" },
		{ "2001:0db8:0000:0000:0000:0000:0000:0001", "2001:db8::1" },
		{ "2001:db8::/32", "2001:db8::/32" },
		{ "2001:db8::1/128", "2001:db8::1" },
		/* RFC 5952: the longest run, the first of equals, no run of one */
		{ "2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1" },
		{ "2001:0:0:1:0:0:0:1", "2001:0:0:1::1" },
		{ "2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1" },
		{ "0:0:0:0:0:0:1:1", "::1:1" },
		{ "1:1:0:0:0:0:0:0", "1:1::" },
		{ "1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0" },
		{ "::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8" },
		{ "64:ff9b::192.0.2.1", "64:ff9b::c000:201" },
		{ "::ffff:0:0:0", "::ffff:0:0:0" },
		{ "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		  "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct ls_prefix prefix = prefix_of(rows[i].text);
		char text[LS_PREFIX_TEXT];

		assert_string_equal(ls_prefix_format(&prefix, text), rows[i].shown);
	}
}

static void refusals_have_their_reason_and_the_corrected_form(void **state)
{
	static const struct {
		const char *text;
		enum ls_prefix_error reason;
		const char *contains;
	} rows[] = {
		{ "", LS_PREFIX_E_EMPTY, "empty" },
		{ "203.0.113.040", LS_PREFIX_E_LEADING_ZERO, "write 203.0.113.40" },
		{ "010.0.0.1", LS_PREFIX_E_LEADING_ZERO, "write 10.0.0.1" },
		{ "00.0.0.0", LS_PREFIX_E_LEADING_ZERO, "write 0.0.0.0" },
		{ "203.0.113.0/024", LS_PREFIX_E_LEADING_ZERO, "write 203.0.113.0/24" },
		{ "2001:db8::/032", LS_PREFIX_E_LEADING_ZERO, "write 2001:db8::/32" },
		{ "0x7f.1", LS_PREFIX_E_HEX, "decimal" },
		{ "0x7f.0.0.1", LS_PREFIX_E_HEX, "decimal" },
		{ "127.0.0.0x1", LS_PREFIX_E_HEX, "decimal" },
		{ "127.1", LS_PREFIX_E_SHORT, "all four parts" },
		{ "203.0.113", LS_PREFIX_E_SHORT, "all four parts" },
		{ "10/8", LS_PREFIX_E_SHORT, "all four parts" },
		{ "3405803783", LS_PREFIX_E_OCTET, "above 255" },
		{ "1.2.3.4.5", LS_PREFIX_E_LONG, "too many" },
		{ "1.2.3.256", LS_PREFIX_E_OCTET, "above 255" },
		{ "1.2.3.99999999999999999999", LS_PREFIX_E_OCTET, "above 255" },
		{ "fe80::1%vs", LS_PREFIX_E_ZONE, "zone" },
		{ "203.0.113.7/24", LS_PREFIX_E_HOST_BITS, "write 203.0.113.0/24 or 203.0.113.7" },
		{ "203.0.113.1/31", LS_PREFIX_E_HOST_BITS, "203.0.113.0/31" },
		{ "1.0.0.0/0", LS_PREFIX_E_HOST_BITS, "0.0.0.0/0" },
		{ "2001:db8::1/64", LS_PREFIX_E_HOST_BITS, "write 2001:db8::/64 or 2001:db8::1" },
		{ "::ffff:203.0.113.7", LS_PREFIX_E_MAPPED, "write 203.0.113.7" },
		{ "::ffff:cb00:7100/120", LS_PREFIX_E_MAPPED, "write 203.0.113.0/24" },
		{ "::ffff:0:0/96", LS_PREFIX_E_MAPPED, "write 0.0.0.0/0" },
		{ "::ffff:203.0.113.040", LS_PREFIX_E_LEADING_ZERO, "leading zeros" },
		{ "203.0.113.0/33", LS_PREFIX_E_LENGTH, "/32" },
		{ "2001:db8::/129", LS_PREFIX_E_LENGTH, "/128" },
		{ "203.0.113.0/", LS_PREFIX_E_LENGTH, "/32" },
		{ "203.0.113.0/x", LS_PREFIX_E_LENGTH, "/32" },
		{ "203.0.113.0/-1", LS_PREFIX_E_LENGTH, "/32" },
		{ "203.0.113.0/24/24", LS_PREFIX_E_LENGTH, "/32" },
		{ "203.0.113.0/4294967320", LS_PREFIX_E_LENGTH, "/32" },
		{ "203.0.113.0/255.255.255.0", LS_PREFIX_E_MASK, "/24" },
		{ "203.0.113.1-203.0.113.9", LS_PREFIX_E_RANGE, "range" },
		{ "203.0.113.1-9", LS_PREFIX_E_RANGE, "range" },
		{ "2001:db8::1-2001:db8::9", LS_PREFIX_E_RANGE, "range" },
		{ "203.0.113.7:80", LS_PREFIX_E_PORT, "port" },
		{ "[2001:db8::1]:443", LS_PREFIX_E_PORT, "brackets" },
		{ "example.com", LS_PREFIX_E_SYNTAX, "no address" },
		{ "1.2..4", LS_PREFIX_E_SYNTAX, "no address" },
		{ "1.2.3.", LS_PREFIX_E_SYNTAX, "no address" },
		{ ".1.2.3", LS_PREFIX_E_SYNTAX, "no address" },
		{ "1.2.3.4 ", LS_PREFIX_E_SYNTAX, "no address" },
		{ " 1.2.3.4", LS_PREFIX_E_SYNTAX, "no address" },
		{ "+1.2.3.4", LS_PREFIX_E_SYNTAX, "no address" },
		{ "/24", LS_PREFIX_E_SYNTAX, "no address" },
		{ ":", LS_PREFIX_E_SYNTAX, "no address" },
		{ ":::", LS_PREFIX_E_SYNTAX, "no address" },
		{ ":1::", LS_PREFIX_E_SYNTAX, "no address" },
		{ "1:", LS_PREFIX_E_SYNTAX, "no address" },
		{ "1::2::3", LS_PREFIX_E_SYNTAX, "no address" },
		{ "12345::", LS_PREFIX_E_SYNTAX, "no address" },
		{ "g::", LS_PREFIX_E_SYNTAX, "no address" },
		{ "1:2:3:4:5:6:7", LS_PREFIX_E_SHORT, "eight groups" },
		{ "1:2:3:4:5:6:7:8:9", LS_PREFIX_E_LONG, "too many" },
		{ "1:2:3:4:5:6:7:8::", LS_PREFIX_E_LONG, "too many" },
		{ "1:2:3:4:5:6:7:1.2.3.4", LS_PREFIX_E_LONG, "too many" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct ls_prefix before = { .family = 99 };
		struct ls_prefix prefix = before;
		const enum ls_prefix_error reason = parse(rows[i].text, &prefix);
		char clause[256];

		if (reason != rows[i].reason)
			fail_msg("'%s': reason %d, expected %d", rows[i].text, (int)reason,
				 (int)rows[i].reason);
		assert_memory_equal(&prefix, &before, sizeof(prefix));
		ls_prefix_explain(reason, rows[i].text, strlen(rows[i].text), clause,
				  sizeof(clause));
		if (!strstr(clause, rows[i].contains))
			fail_msg("'%s': \"%s\" lacks \"%s\"", rows[i].text, clause,
				 rows[i].contains);
	}
}

static void a_nul_inside_is_no_address(void **state)
{
	struct ls_prefix prefix;

	(void)state;
	assert_int_equal(ls_prefix_parse("1.2.3.4\0", 8, &prefix), LS_PREFIX_E_SYNTAX);
	assert_int_equal(ls_prefix_parse("1.2.\0003.4", 8, &prefix), LS_PREFIX_E_SYNTAX);
}

static void containing_respects_family_and_length(void **state)
{
	static const struct {
		const char *outer, *inner;
		bool contains;
	} rows[] = {
		{ "203.0.113.0/24", "203.0.113.7", true },
		{ "203.0.113.0/24", "203.0.113.0/24", true },
		{ "203.0.113.0/24", "203.0.113.128/25", true },
		{ "203.0.113.0/24", "203.0.112.0/23", false },
		{ "203.0.113.0/25", "203.0.113.128", false },
		{ "203.0.113.7", "203.0.113.7", true },
		{ "0.0.0.0/0", "255.255.255.255", true },
		{ "0.0.0.0/0", "::1", false },
		{ "::/0", "203.0.113.7", false },
		{ "2001:db8::/33", "2001:db8:7fff::/48", true },
		{ "2001:db8::/33", "2001:db8:8000::/48", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct ls_prefix outer = prefix_of(rows[i].outer);
		const struct ls_prefix inner = prefix_of(rows[i].inner);

		assert_int_equal(ls_prefix_contains(&outer, &inner), rows[i].contains);
	}
}

static void widening_clears_what_is_behind(void **state)
{
	struct ls_prefix wide = ls_prefix_widen(prefix_of("2001:db8:1:2:3:4:5:6"), 64);
	char text[LS_PREFIX_TEXT];

	(void)state;
	assert_string_equal(ls_prefix_format(&wide, text), "2001:db8:1:2::/64");
	wide = ls_prefix_widen(wide, 47);
	assert_string_equal(ls_prefix_format(&wide, text), "2001:db8::/47");
	wide = ls_prefix_widen(wide, 100);
	assert_int_equal(wide.length, 47);
}

static struct ls_prefix random_prefix(void)
{
	struct ls_prefix prefix = { .family = rand() % 2 ? LS_IPV4 : LS_IPV6 };
	const uint8_t full = ls_prefix_full_length(prefix.family);

	/* Few different bytes, so that equal and nested prefixes are common. */
	for (unsigned i = 0; i < full / 8U; i++)
		prefix.bytes[i] = (uint8_t)(rand() % 3 ? rand() % 3 : rand());
	prefix.length = full;
	return ls_prefix_widen(prefix, (uint8_t)(rand() % (full + 1)));
}

static void any_prefix_survives_text(void **state)
{
	const unsigned seed = 20;

	(void)state;
	srand(seed);
	for (unsigned i = 0; i < 200000; i++) {
		const struct ls_prefix prefix = random_prefix();
		struct ls_prefix again = { 0 };
		char text[LS_PREFIX_TEXT];
		const enum ls_prefix_error reason = parse(ls_prefix_format(&prefix, text), &again);

		if (reason == LS_PREFIX_E_MAPPED)
			continue;
		if (reason != LS_PREFIX_OK || !ls_prefix_equal(&prefix, &again))
			fail_msg("seed %u, step %u: %s", seed, i, text);
	}
}

static int compare_void(const void *a, const void *b)
{
	return ls_prefix_compare(a, b);
}

static void sorting_orders_and_removes_duplicates(void **state)
{
	enum { COUNT = 3000 };
	static struct ls_prefix sorted[COUNT], expected[COUNT];
	const unsigned seed = 7;

	(void)state;
	srand(seed);
	for (unsigned round = 0; round < 30; round++) {
		const size_t count = (size_t)rand() % COUNT;
		size_t kept = 0;

		for (size_t i = 0; i < count; i++)
			expected[i] = sorted[i] = random_prefix();
		qsort(expected, count, sizeof(expected[0]), compare_void);
		for (size_t i = 0; i < count; i++) {
			if (kept == 0 || !ls_prefix_equal(&expected[kept - 1], &expected[i]))
				expected[kept++] = expected[i];
		}
		assert_int_equal(ls_prefix_sort(sorted, count), kept);
		assert_memory_equal(sorted, expected, kept * sizeof(sorted[0]));
		/* and once more, in order already */
		assert_int_equal(ls_prefix_sort(sorted, kept), kept);
		assert_memory_equal(sorted, expected, kept * sizeof(sorted[0]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accepted_text_is_shown_canonically),
		cmocka_unit_test(refusals_have_their_reason_and_the_corrected_form),
		cmocka_unit_test(a_nul_inside_is_no_address),
		cmocka_unit_test(containing_respects_family_and_length),
		cmocka_unit_test(widening_clears_what_is_behind),
		cmocka_unit_test(any_prefix_survives_text),
		cmocka_unit_test(sorting_orders_and_removes_duplicates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
