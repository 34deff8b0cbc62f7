/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/print.h"

/*
 * What is shown can be applied and changes nothing; what is saved is restored: for random policies.
 * They are written as YAML by a generator that knows the language, not the reader.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "user/base/buffer.h"
#include "user/base/error.h"
#include "user/policy/blob.h"
#include "user/policy/check.h"
#include "user/policy/diff.h"
#include "user/policy/policy.h"
#include "user/policy/read.h"

/* `file` is the seed of its contents, so that it can be read again. */
static int random_file(void *context, const char *file, char **ret_bytes, size_t *ret_length,
		       struct ls_error *error)
{
	struct ls_buffer text = LS_BUFFER_INIT;
	unsigned seed = (unsigned)strlen(file) * 7919U + (unsigned char)file[0];

	(void)context;
	for (unsigned i = 0; i < seed % 40; i++) {
		seed = seed * 1103515245U + 12345U;
		if (seed >> 16 & 1)
			ls_buffer_format(&text, "10.%u.%u.0/24 # x\n", seed >> 20 & 7, seed >> 24);
		else
			ls_buffer_format(&text, "2001:db8:%x::/48\n", seed >> 20 & 31);
	}
	*ret_bytes = ls_buffer_take(&text, ret_length);
	return *ret_bytes ? 0 : ls_error_oom(error);
}

static const struct ls_policy_files files = { .read = random_file };

static unsigned any(unsigned bound)
{
	return (unsigned)rand() % bound;
}

static bool maybe(void)
{
	return rand() % 2;
}

static void add_prefix(struct ls_buffer *yaml)
{
	static const char *const odd[] = { "'::'",	   "'::/0'",	"'::1'",
					   "'2001:db8::'", "0.0.0.0/0", "'1:2:3:4:5:6:7::'",
					   "'::2:0:0:0'" };

	switch (any(5)) {
	case 0:
		ls_buffer_format(yaml, "192.0.2.%u", any(256));
		break;
	case 1:
		ls_buffer_format(yaml, "10.%u.0.0/16", any(4));
		break;
	case 2:
		ls_buffer_text(yaml, odd[any(7)]);
		break;
	case 3:
		ls_buffer_format(yaml, "'2001:db8:%x::/48'", any(8));
		break;
	default:
		ls_buffer_format(yaml, "\"2001:DB8::%x\"", any(65536));
		break;
	}
}

static void add_members(struct ls_buffer *yaml, unsigned n_sets)
{
	const unsigned count = 1 + any(12);

	ls_buffer_text(yaml, "[");
	for (unsigned i = 0; i < count; i++) {
		if (i > 0)
			ls_buffer_text(yaml, ", ");
		if (n_sets > 0 && any(3) == 0)
			ls_buffer_format(yaml, "set%u", any(n_sets));
		else
			add_prefix(yaml);
	}
	ls_buffer_text(yaml, "]");
}

static void add_ranges(struct ls_buffer *yaml, const char *key, unsigned bound)
{
	const unsigned count = 1 + any(5);

	ls_buffer_format(yaml, "      %s: [", key);
	for (unsigned i = 0; i < count; i++) {
		const unsigned low = any(bound);

		ls_buffer_format(yaml, "%s%u", i ? ", " : "", low);
		if (maybe())
			ls_buffer_format(yaml, "-%u", low + any(bound - low));
	}
	ls_buffer_text(yaml, "]\n");
}

static void add_match(struct ls_buffer *yaml, unsigned n_sets)
{
	static const char *const protocols[] = { "tcp", "[tcp, udp]", "[6, 17, 132]" };

	if (any(5) == 0) {
		ls_buffer_text(yaml, "    match: any\n");
		return;
	}
	ls_buffer_text(yaml, "    match:\n");
	if (any(6) == 0)
		ls_buffer_format(yaml, "      protocol: [tcp, icmp, gre, %u, 255]\n", any(256));
	else {
		if (maybe())
			ls_buffer_format(yaml, "      protocol: %s\n", protocols[any(3)]);
		add_ranges(yaml, "ports", 65536);
		if (maybe())
			add_ranges(yaml, "source_ports", 65536);
	}
	if (any(3) == 0) {
		ls_buffer_text(yaml, "      to: ");
		add_members(yaml, n_sets);
		ls_buffer_text(yaml, "\n");
	}
	if (any(3) == 0) {
		ls_buffer_text(yaml, "      from: ");
		add_members(yaml, n_sets);
		ls_buffer_text(yaml, "\n");
	}
	if (any(4) == 0)
		add_ranges(yaml, "vlan", 4096);
	if (any(4) == 0)
		ls_buffer_format(yaml, "      tcp_flags: [%s]\n",
				 maybe() ? "syn, no-ack, no-cwr" : "no-fin");
}

static void add_limit(struct ls_buffer *yaml, unsigned index)
{
	static const char *const pers[] = { "source", "flow",	      "destination",
					    "class",  "{ ipv4: 24 }", "{ ipv4: 17, ipv6: 56 }" };
	static const char *const item_rates[] = { "7/s",  "1.5k/s", "100M/s", "90/m",
						  "17/h", "3/d",    "0.25/m" };
	static const char *const byte_rates[] = { "100Mbit/s", "12.5MB/s", "3.3kbit/s", "1.25KiB/s",
						  "0.5GiB/s",  "999bit/s", "1Gbit/s" };
	static const char *const bursts[] = { "1", "17", "1k" };
	static const char *const byte_bursts[] = { "1B", "64KiB", "1.5MB" };
	static const char *const windows[] = { "1s", "1500ms", "60s", "1h", "30d" };
	const bool bytes = any(3) == 0;

	ls_buffer_format(yaml, "      - { per: %s, count: %s", pers[any(6)],
			 bytes	   ? "bytes"
			 : maybe() ? "packets"
				   : "connections");
	if (maybe())
		ls_buffer_format(yaml, ", name: n%u", index);
	if (any(3) > 0) {
		ls_buffer_format(yaml, ", rate: %s",
				 bytes ? byte_rates[any(7)] : item_rates[any(7)]);
		if (maybe())
			ls_buffer_format(yaml, ", burst: %s",
					 bytes ? byte_bursts[any(3)] : bursts[any(3)]);
	} else if (bytes) {
		ls_buffer_format(yaml, ", algorithm: fixed-window, limit: %uMiB, window: %s",
				 1 + any(99), windows[any(5)]);
	} else {
		static const char *const algorithms[] = { "fixed-window", "sliding-window",
							  "sliding-log" };

		ls_buffer_format(yaml, ", algorithm: %s, limit: %u, window: %s", algorithms[any(3)],
				 1 + any(6), windows[any(5)]);
	}
	ls_buffer_text(yaml, " }\n");
}

static void add_class(struct ls_buffer *yaml, unsigned index, unsigned n_sets)
{
	static const char *const priorities[] = { "low", "normal", "high", "critical" };
	const unsigned n_limits = any(9);

	ls_buffer_format(yaml, "  - name: class%u\n", index);
	add_match(yaml, n_sets);
	if (maybe())
		ls_buffer_format(yaml, "    priority: %s\n", priorities[any(4)]);
	if (maybe())
		ls_buffer_format(yaml, "    mode: %s\n", maybe() ? "monitor" : "enforce");
	if (n_limits > 0)
		ls_buffer_text(yaml, "    limits:\n");
	for (unsigned i = 0; i < n_limits; i++)
		add_limit(yaml, i);
	if (n_limits > 0 && any(3) == 0)
		ls_buffer_format(yaml, "    ban: { after: %u, within: %us, for: 90m }\n",
				 1 + any(1000), 1 + any(100));
}

static void random_policy(struct ls_buffer *yaml)
{
	static const char *const paths[] = { "a.txt",	      "'-odd name: #1.txt'",
					     "lists/b-c.txt", "\"quote\\\"back\\\\slash\"",
					     "größe.txt",     "../d" };
	const unsigned n_sets = any(5), n_classes = any(8), n_nats = any(3);

	ls_buffer_format(yaml, "version: 1\nmode: %s\n", maybe() ? "monitor" : "enforce");
	if (maybe())
		ls_buffer_format(yaml, "malformed: pass\ncapacity: { sources: %uk }\n",
				 1 + any(64000));
	if (n_sets > 0)
		ls_buffer_text(yaml, "sets:\n");
	for (unsigned i = 0; i < n_sets; i++) {
		ls_buffer_format(yaml, "  set%u: ", i);
		if (any(3) == 0) {
			ls_buffer_format(yaml, "{ file: %s%s }", paths[any(6)],
					 maybe() ? ", on_error: skip" : "");
		} else if (any(5) == 0) {
			ls_buffer_text(yaml, "[]");
		} else {
			const unsigned count = 1 + any(5);

			for (unsigned j = 0; j < count; j++) {
				ls_buffer_text(yaml, j ? ", " : "[");
				add_prefix(yaml);
			}
			ls_buffer_text(yaml, "]");
		}
		ls_buffer_text(yaml, "\n");
	}
	if (maybe()) {
		ls_buffer_text(yaml, "allow: ");
		add_members(yaml, n_sets);
		ls_buffer_text(yaml, "\ndeny: ");
		add_members(yaml, n_sets);
		ls_buffer_text(yaml, "\n");
	}
	if (n_nats > 0)
		ls_buffer_text(yaml, "nat:\n");
	for (unsigned i = 0; i < n_nats; i++) {
		ls_buffer_text(yaml, "  - sources: ");
		add_members(yaml, n_sets);
		ls_buffer_format(yaml, "\n    factor: %u\n", 1 + any(10));
	}
	if (any(3) == 0)
		ls_buffer_text(yaml, "overload: { max: { packets: 2M/s } }\n");
	else if (maybe())
		ls_buffer_text(yaml, "overload: { max: { packets: 90/m, connections: 1.5k/s } }\n");
	else if (maybe())
		ls_buffer_format(
			yaml,
			"overload: { mode: %s, cpu: %u%%, accept_delay: %s, memory: off, softnet: %s,\n"
			"  load: { %s, target: 70%% }, floor: { low: %u%%, high: 20%% } }\n",
			maybe() ? "monitor" : "enforce", 1 + any(100), maybe() ? "off" : "1500ms",
			maybe() ? "on" : "off",
			maybe() ? "unix: '/run/a b.sock'" : "http: 'http://[2001:db8::1]:80/x?y'",
			1 + any(70));
	if (n_classes > 0)
		ls_buffer_text(yaml, "classes:\n");
	for (unsigned i = 0; i < n_classes; i++)
		add_class(yaml, i, n_sets);
}

static struct ls_policy *read_back(const struct ls_buffer *yaml, unsigned seed)
{
	struct ls_error error = LS_ERROR_INIT;
	struct ls_policy *policy = NULL;

	if (ls_policy_read_memory("p", ls_buffer_string(yaml), yaml->length, &files, &policy,
				  &error) < 0)
		fail_msg("seed %u: %s\n%s", seed, error.text, ls_buffer_string(yaml));
	return policy;
}

static void expect_equal(const struct ls_policy *a, const struct ls_policy *b, unsigned seed)
{
	_cleanup_buffer_ struct ls_buffer text = LS_BUFFER_INIT;

	if (ls_policy_diff(a, b, &text))
		fail_msg("seed %u differs:\n%s", seed, ls_buffer_string(&text));
	assert_true(ls_policy_equal(b, a));
}

static void what_is_shown_reads_back_as_the_same(void **state)
{
	(void)state;
	for (unsigned seed = 0; seed < 3000; seed++) {
		_cleanup_buffer_ struct ls_buffer yaml = LS_BUFFER_INIT, shown = LS_BUFFER_INIT;
		_cleanup_buffer_ struct ls_buffer again = LS_BUFFER_INIT;
		_cleanup_policy_ struct ls_policy *policy = NULL, *second = NULL;

		srand(seed);
		random_policy(&yaml);
		policy = read_back(&yaml, seed);
		ls_policy_print(policy, false, &shown);
		second = read_back(&shown, seed);
		expect_equal(policy, second, seed);
		ls_policy_print(second, false, &again);
		assert_string_equal(ls_buffer_string(&shown), ls_buffer_string(&again));
	}
}

static void what_is_shown_expanded_holds_the_same_entries(void **state)
{
	(void)state;
	for (unsigned seed = 0; seed < 300; seed++) {
		_cleanup_buffer_ struct ls_buffer yaml = LS_BUFFER_INIT, shown = LS_BUFFER_INIT;
		_cleanup_policy_ struct ls_policy *policy = NULL, *second = NULL;

		srand(seed);
		random_policy(&yaml);
		policy = read_back(&yaml, seed);
		ls_policy_print(policy, true, &shown);
		assert_null(strstr(ls_buffer_string(&shown), "{ file:"));
		second = read_back(&shown, seed);
		/* only where the entries came from is another */
		for (size_t i = 0; i < policy->n_sets; i++) {
			free(policy->sets[i].file);
			policy->sets[i].file = NULL;
			policy->sets[i].skip_errors = false;
		}
		expect_equal(policy, second, seed);
	}
}

static void what_is_saved_is_restored(void **state)
{
	(void)state;
	for (unsigned seed = 0; seed < 1000; seed++) {
		_cleanup_buffer_ struct ls_buffer yaml = LS_BUFFER_INIT, blob = LS_BUFFER_INIT;
		_cleanup_policy_ struct ls_policy *policy = NULL, *second = NULL;
		struct ls_error error = LS_ERROR_INIT;
		uint8_t digest[32], digest_again[32];

		srand(seed);
		random_policy(&yaml);
		policy = read_back(&yaml, seed);
		ls_blob_write(policy, NULL, &blob);
		if (ls_blob_read("blob", blob.bytes, blob.length, &second, NULL, &error) < 0)
			fail_msg("seed %u: %s", seed, error.text);
		expect_equal(policy, second, seed);
		/* the digest covers files' sha256 and skipped lines, too */
		assert_int_equal(ls_policy_digest(policy, digest), 0);
		assert_int_equal(ls_policy_digest(second, digest_again), 0);
		assert_memory_equal(digest, digest_again, sizeof(digest));
	}
}

static void two_policies_are_equal_only_if_they_are_shown_alike(void **state)
{
	unsigned different = 0;

	(void)state;
	for (unsigned seed = 0; seed < 500; seed++) {
		_cleanup_buffer_ struct ls_buffer yaml = LS_BUFFER_INIT, other = LS_BUFFER_INIT;
		_cleanup_buffer_ struct ls_buffer lines = LS_BUFFER_INIT;
		_cleanup_policy_ struct ls_policy *policy = NULL, *second = NULL;

		srand(seed);
		random_policy(&yaml);
		random_policy(&other);
		policy = read_back(&yaml, seed);
		second = read_back(&other, seed);
		if (ls_policy_diff(policy, second, &lines)) {
			different++;
			assert_true(lines.length > 0);
			assert_true(ls_policy_diff(second, policy, NULL));
		}
	}
	assert_true(different > 480);
}

static void checking_never_fails(void **state)
{
	(void)state;
	for (unsigned seed = 0; seed < 1000; seed++) {
		_cleanup_buffer_ struct ls_buffer yaml = LS_BUFFER_INIT;
		_cleanup_policy_ struct ls_policy *policy = NULL;
		_cleanup_warnings_ struct ls_warnings warnings = LS_WARNINGS_INIT;

		srand(seed);
		random_policy(&yaml);
		policy = read_back(&yaml, seed);
		assert_int_equal(ls_policy_check(policy, &warnings), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_shown_reads_back_as_the_same),
		cmocka_unit_test(what_is_shown_expanded_holds_the_same_entries),
		cmocka_unit_test(what_is_saved_is_restored),
		cmocka_unit_test(two_policies_are_equal_only_if_they_are_shown_alike),
		cmocka_unit_test(checking_never_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
