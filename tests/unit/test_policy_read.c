/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/read.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "user/base/buffer.h"
#include "user/base/error.h"
#include "user/policy/policy.h"
#include "policy_text.h"

/* The example of the contract. */
static const char example[] =
	"version: 1\n"
	"mode: enforce                 # or monitor: count what would be dropped, drop nothing\n"
	"\n"
	"sets:                         # named lists of addresses and prefixes\n"
	"  office:\n"
	"    - 203.0.113.0/24\n"
	"    - 2001:db8:10::/48\n"
	"  blocked: { file: blocked.txt }\n"
	"  cgnat: [100.64.0.0/10]\n"
	"\n"
	"allow: [office, 198.51.100.7]      # never limited, never shed\n"
	"deny:  [blocked]                   # always dropped\n"
	"\n"
	"nat:                               # addresses shared by many users get looser bounds\n"
	"  - { sources: [cgnat], factor: 32 }\n"
	"\n"
	"overload:\n"
	"  max: { packets: 2M/s, connections: 20k/s }\n"
	"\n"
	"classes:                           # first match wins\n"
	"  - name: dns\n"
	"    match: { protocol: udp, ports: [53] }\n"
	"    priority: high\n"
	"    limits:\n"
	"      - { name: query, per: source, count: packets, rate: 200/s, burst: 400 }\n"
	"\n"
	"  - name: web\n"
	"    match: { protocol: tcp, ports: [80, 443, 8000-8099], to: [198.51.100.10] }\n"
	"    limits:\n"
	"      - { name: new,   per: source, count: connections, rate: 50/s, burst: 100 }\n"
	"      - { name: bulk,  per: source, count: bytes, rate: 100Mbit/s, burst: 4MiB }\n"
	"      - { name: net,   per: { ipv4: 24, ipv6: 48 }, count: connections, rate: 500/s }\n"
	"      - { name: total, per: class, count: connections, rate: 20k/s }\n"
	"\n"
	"  - name: login\n"
	"    match: { protocol: tcp, ports: [8443] }\n"
	"    mode: monitor\n"
	"    limits:\n"
	"      - { name: minute, per: source, count: connections, limit: 10, window: 60s, "
	"algorithm: sliding-window }\n"
	"    ban: { after: 100, within: 10s, for: 10m }\n"
	"\n"
	"  - name: rest\n"
	"    match: any\n"
	"    priority: low\n"
	"    limits:\n"
	"      - { rate: 10k/s }            # defaults: name limit-1, per source, count packets\n";

static void the_example_becomes_the_model(void **state)
{
	_cleanup_policy_ struct ls_policy *policy = accept(example);
	const struct ls_limit *limit;

	(void)state;
	assert_int_equal(policy->mode, LS_MODE_ENFORCE);
	assert_false(policy->malformed_pass);
	assert_int_equal(policy->sources, 1000000);
	assert_int_equal(policy->n_sets, 3);
	assert_string_equal(policy->sets[1].file, "blocked.txt");
	assert_int_equal(policy->sets[1].entries.count, 2);
	assert_int_equal(policy->allow.count, 2);
	assert_int_equal(policy->allow.items[0].set, 0);
	assert_int_equal(policy->allow.items[1].set, -1);
	assert_int_equal(policy->nats[0].factor, 32);
	assert_true(policy->overload.has_packets && policy->overload.has_connections);
	assert_int_equal(policy->n_classes, 4);

	assert_int_equal(policy->classes[0].priority, LS_PRIORITY_HIGH);
	assert_int_equal(policy->classes[0].match.protocols.items[0].low, 17);
	assert_int_equal(policy->classes[1].priority, LS_PRIORITY_NORMAL);
	assert_int_equal(policy->classes[1].match.ports.count, 3);
	assert_int_equal(policy->classes[1].match.ports.items[2].high, 8099);
	limit = &policy->classes[1].limits[1];
	assert_int_equal(limit->count, LS_COUNT_BYTES);
	assert_int_equal(limit->rate.units, 1); /* a byte */
	assert_int_equal(limit->rate.period_ns, 80);
	assert_int_equal(limit->burst, 4 << 20);
	limit = &policy->classes[1].limits[2];
	assert_int_equal(limit->per, LS_PER_PREFIX);
	assert_int_equal(limit->per_ipv4, 24);
	assert_int_equal(limit->per_ipv6, 48);
	assert_int_equal(limit->burst, 500); /* one second of the rate */
	assert_int_equal(policy->classes[2].mode, LS_MODE_MONITOR);
	limit = &policy->classes[2].limits[0];
	assert_int_equal(limit->algorithm, LS_SLIDING_WINDOW);
	assert_int_equal(limit->limit, 10);
	assert_int_equal(limit->window_ns, 60000000000);
	assert_true(policy->classes[2].ban.given);
	assert_int_equal(policy->classes[2].ban.for_ns, 600000000000);
	assert_true(policy->classes[3].match.any);
	limit = &policy->classes[3].limits[0];
	assert_string_equal(limit->name, "limit-1");
	assert_int_equal(limit->per, LS_PER_SOURCE);
	assert_int_equal(limit->count, LS_COUNT_PACKETS);
	assert_int_equal(limit->burst, 10000);
}

static void accepted_documents(void **state)
{
	static const char *const texts[] = {
		"version: 1",
		"---\nversion: 1\n",
		"---\nversion: 1\n...\n",
		"\xef\xbb\xbfversion: 1\n",
		"version: 1\r\nmode: monitor\r\n",
		"{version: 1, mode: monitor}",
		"\"version\": '1'",
		"version : 1\nmode : enforce\n",
		"version: 1\nclasses: []\nallow: []\ndeny: []\nnat: []\nsets: {}\n",
		"version: 1\nallow: [0.0.0.0/0, '::/0']\n",
		/* IPv6 is full of colons, which YAML has a use for, too */
		"version: 1\nallow: ['::/0', '::1', 2001:db8::/32, 2001:db8::1]\n",
		"version: 1\nallow:\n  - ::/0\n  - ::1\n  - 2001:db8::/32\n",
		"version: 1\nallow: ['::', '2001:db8::']\ndeny: 2001:db8::1\n",
		"version: 1\nallow: 198.51.100.7\n",
		"version: 1\nmalformed: pass\ncapacity: { sources: 64M }\n",
		"version: 1\ncapacity: { sources: 1k }\n",
		"version: 1\nsets: { no: [192.0.2.1], null: [], true: [192.0.2.2] }\ndeny: [no]\n",
		"version: 1\nclasses: [{ name: a, match: any }]\n",
		"version: 1\nclasses: [{ name: a, match: any, limits: [] }]\n",
		"version: 1\nclasses: [{ name: a, match: { protocol: [tcp, 17, esp, 255, 0] } }]\n",
		"version: 1\nclasses: [{ name: a, match: { protocol: tcp, ports: 443, "
		"tcp_flags: [syn, no-ack, no-rst] } }]\n",
		"version: 1\nclasses: [{ name: a, match: { vlan: [0, 4095, 100-199] } }]\n",
		"version: 1\nclasses: [{ name: a, match: { source_ports: [0, 65535] } }]\n",
		"version: 1\nclasses: [{ name: a, match: { from: 192.0.2.0/24, to: '2001:db8::1' } }]\n",
		"version: 1\nclasses: [{ name: a, match: any, limits: [{ rate: 1/s, scope: node }] }]\n",
		"version: 1\nclasses: [{ name: a, match: any, limits: [{ rate: 4G/s }] }]\n",
		"version: 1\nclasses: [{ name: a, match: any, limits: [{ rate: 1/d }] }]\n",
		"version: 1\nclasses: [{ name: a, match: any, limits: [{ rate: 1/d, burst: 416 }] }]\n",
		"version: 1\nclasses: [{ name: a, match: any, limits: "
		"[{ count: bytes, rate: 1000Gbit/s }] }]\n",
		"version: 1\nclasses: [{ name: a, match: any, limits: "
		"[{ count: bytes, algorithm: fixed-window, limit: 10GB, window: 30d }] }]\n",
		"version: 1\nclasses: [{ name: a, match: any, limits: "
		"[{ algorithm: fixed-window, limit: 999999999999, window: 1s }] }]\n",
		"version: 1\nclasses: [{ name: a, match: any, limits: "
		"[{ algorithm: sliding-window, limit: 1M, window: 1000ms }] }]\n",
		"version: 1\nclasses: [{ name: a, match: any, limits: "
		"[{ algorithm: sliding-log, limit: 64, window: 1m }] }]\n",
		"version: 1\nclasses: [{ name: a, match: any, limits: "
		"[{ per: flow, rate: 1/s }, { per: destination, rate: 1/s }, "
		"{ per: { ipv6: 128 }, rate: 1/s }, { per: { ipv4: 1 }, rate: 1/s }] }]\n",
		"version: 1\nnat: [{ sources: 192.0.2.1, factor: 10k }]\n",
		/* the factor touches limits per source only */
		"version: 1\nnat: [{ sources: [192.0.2.1], factor: 1000 }]\nclasses: [{ name: a, "
		"match: any, limits: [{ per: class, rate: 1G/s }, { per: destination, "
		"algorithm: sliding-log, limit: 64, window: 1s }] }]\n",
		"version: 1\nsets: { s: { file: blocked.txt, on_error: refuse } }\n",
		"version: 1\nclasses: [{ name: abcdefghijklmnopqrstuvwxyz_-123, match: any }]\n",
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(texts); i++)
		ls_policy_free(accept(texts[i]));
}

static void ports_without_protocol_mean_the_three_that_have_some(void **state)
{
	_cleanup_policy_ struct ls_policy *policy = accept(
		"version: 1\nclasses: [{ name: a, match: { ports: [443, 80, 81, 79-82, 444] } }]\n");
	const struct ls_match *const match = &policy->classes[0].match;

	(void)state;
	assert_true(match->protocols_implied);
	assert_int_equal(match->protocols.count, 3);
	assert_int_equal(match->protocols.items[2].low, 132);
	/* sorted and merged */
	assert_int_equal(match->ports.count, 2);
	assert_int_equal(match->ports.items[0].low, 79);
	assert_int_equal(match->ports.items[0].high, 82);
	assert_int_equal(match->ports.items[1].high, 444);
}

static void the_default_burst_is_a_second_and_never_too_small(void **state)
{
	static const struct {
		const char *limit;
		uint64_t burst;
	} rows[] = {
		{ "rate: 10k/s", 10000 },
		{ "rate: 1/d", 1 },
		{ "rate: 90/m", 2 }, /* 1.5, rounded up */
		{ "rate: 8bit/s, count: bytes", 65536 },
		{ "rate: 100Mbit/s, count: bytes", 12500000 },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(rows); i++) {
		_cleanup_policy_ struct ls_policy *policy = NULL;
		char text[256];

		snprintf(text, sizeof(text),
			 "version: 1\nclasses: [{ name: a, match: any, limits: [{ %s }] }]\n",
			 rows[i].limit);
		policy = accept(text);
		assert_int_equal(policy->classes[0].limits[0].burst, rows[i].burst);
	}
}

static void a_prefix_that_is_left_out_is_that_of_the_source(void **state)
{
	_cleanup_policy_ struct ls_policy *policy =
		accept("version: 1\nclasses: [{ name: a, match: any, limits: [{ per: { ipv4: 24 }, "
		       "rate: 1/s }, { per: { ipv6: 48 }, rate: 1/s }] }]\n");

	(void)state;
	assert_int_equal(policy->classes[0].limits[0].per_ipv6, 64);
	assert_int_equal(policy->classes[0].limits[1].per_ipv4, 32);
}

static void documents_are_refused_with_their_place(void **state)
{
	static const struct {
		const char *text, *starts, *contains;
	} rows[] = {
		/* what YAML may hold */
		{ "", "p.yaml:1:1:", "no policy in it" },
		{ "# nothing\n", "p.yaml:1:1:", "no policy in it" },
		{ "- a\n", "p.yaml:1:1:", "map of keys" },
		{ "version: 1\nmode: !!str enforce\n", "p.yaml:2:7:", "tags" },
		{ "version: 1\nallow: !x [192.0.2.1]\n", "p.yaml:2:8:", "tags" },
		{ "version: 1\nmode: &a enforce\n", "p.yaml:2:7:", "anchors" },
		{ "version: 1\nallow: &a [192.0.2.1]\n", "p.yaml:2:8:", "anchors" },
		{ "version: 1\nmode: *a\n", "p.yaml:2:7:", "aliases" },
		{ "version: 1\nnat:\n  - <<: { factor: 1 }\n", "p.yaml:3:5:", "merge keys" },
		{ "version: 1\nmode: enforce\nmode: monitor\n",
		  "p.yaml:3:1:", "'mode' is there twice, first in line 2" },
		{ "version: 1\n---\nversion: 1\n", "p.yaml:2:1:", "second document" },
		{ "%YAML 1.1\n---\nversion: 1\n", "p.yaml:1:1:", "directives" },
		{ "? [a]\n: 1\n", "p.yaml:1:3:", "a key must be a word" },
		{ "version: 1\nclasses:\n\t- name: a\n", "p.yaml:3:1:", "a tab" },
		{ "version: 1\nmode: [enforce\n", "p.yaml:3:1:", "not valid YAML" },
		{ "version: 1\nmode: \"en\\0force\"\n", "p.yaml:2:7:", "control character" },
		{ "version: 1\nmode: \"en\\nforce\"\n", "p.yaml:2:7:", "control character" },
		{ "version: 1\nmode: |\n  enforce\n", "p.yaml:2:7:", "more than one line" },
		{ "version: 1\nmode: \xff\n", "p.yaml:2:7:", "no text in UTF-8" },
		{ "version: 1\nmode: [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]\n",
		  "p.yaml:2:22:", "nested more than 16" },

		/* keys */
		{ "mode: enforce\n", "p.yaml:1:1:", "'version: 1' is missing" },
		{ "version: 2\n", "p.yaml:1:10:", "reads version 1" },
		{ "version: 1.0\n", "p.yaml:1:10:", "reads version 1" },
		{ "version: 1\nclases: []\n", "p.yaml:2:1:", "did you mean 'classes'?" },
		{ "version: 1\nMode: enforce\n", "p.yaml:2:1:", "did you mean 'mode'?" },
		{ "version: 1\n\"mode \": enforce\n", "p.yaml:2:1:", "did you mean 'mode'?" },
		{ "version: 1\nmax-sources: 10\n", "p.yaml:2:1:", "accepted are" },
		{ "version: 1\nburst: 10\n", "p.yaml:2:1:", "in a limit" },
		{ "version: 1\nrate_limit: 10/s\n", "p.yaml:2:1:", "unknown key 'rate_limit'" },
		{ "version: 1\nmode:\n", "p.yaml:2:6:", "no value" },
		{ "version: 1\nmode: off\n", "p.yaml:2:7:", "enforce, monitor" },
		{ "version: 1\nmode: [enforce]\n", "p.yaml:2:7:", "single value" },
		{ "version: 1\nmode: enforced\n", "p.yaml:2:7:", "did you mean 'enforce'?" },
		{ "version: 1\nmalformed: allow\n", "p.yaml:2:12:", "drop, pass" },
		{ "version: 1\ncapacity: 1M\n", "p.yaml:2:11:", "sources" },
		{ "version: 1\ncapacity: {}\n", "p.yaml:2:11:", "sources: 1M" },
		{ "version: 1\ncapacity: { sources: 999 }\n", "p.yaml:2:22:", "from 1k to 64M" },
		{ "version: 1\ncapacity: { sources: 65M }\n", "p.yaml:2:22:", "from 1k to 64M" },
		{ "version: 1\ncluster: { node: a }\n", "p.yaml:2:10:", "names no Redis" },
		{ "version: 1\noverload: { cpu: 85 }\n", "p.yaml:2:18:", "no percentage" },
		{ "version: 1\noverload: { cpu: 101% }\n", "p.yaml:2:18:", "out of range" },
		{ "version: 1\noverload: { accept_delay: 0ms }\n", "p.yaml:2:27:", "from 1ms" },
		{ "version: 1\noverload: { accept_queue: 101% }\n",
		  "p.yaml:2:27:", "out of range" },
		{ "version: 1\noverload: { accept_queue: 12 }\n", "p.yaml:2:27:", "no percentage" },
		{ "version: 1\noverload: { softnet: yes }\n", "p.yaml:2:22:", "off, on" },
		{ "version: 1\noverload: { load: {} }\n", "p.yaml:2:19:", "where to ask" },
		{ "version: 1\noverload: { load: { file: x } }\n", "p.yaml:2:27:", "absolute" },
		{ "version: 1\noverload: { load: { file: /a, unix: /b } }\n",
		  "p.yaml:2:31:", "one place" },
		{ "version: 1\noverload: { load: { tcp: x } }\n", "p.yaml:2:21:", "unknown key" },
		{ "version: 1\noverload: { probe: { http: \"http://localhost:80/\" } }\n",
		  "p.yaml:2:28:", "not a name" },
		{ "version: 1\noverload: { probe: { tcp: \"192.0.2.1:0\" } }\n",
		  "p.yaml:2:27:", "not understood" },
		{ "version: 1\noverload: { floor: { low: 60%, high: 60% } }\n",
		  "p.yaml:2:20:", "120% together" },
		{ "version: 1\nclasses: [{ name: a, match: any, check: { interval: 1s } }]\n",
		  "p.yaml:2:41:", "where to ask" },
		{ "version: 1\nclasses: [{ name: a, match: any, check: { tcp: \"192.0.2.1:80\", "
		  "interval: 1s, timeout: 2s } }]\n",
		  "p.yaml:2:87:", "longer than" },
		{ "version: 1\noverload: { max: {} }\n", "p.yaml:2:18:", "packets, connections" },
		{ "version: 1\noverload: { max: { bytes: 1GB/s } }\n",
		  "p.yaml:2:20:", "'bytes' does not apply" },
		{ "version: 1\noverload: { max: { packets: 1M } }\n", "p.yaml:2:29:", "no period" },

		/* sets and lists */
		{ "version: 1\nsets: [a]\n", "p.yaml:2:7:", "map of names" },
		{ "version: 1\nsets: { Office: [] }\n", "p.yaml:2:9:", "a-z" },
		{ "version: 1\nsets: { 1a: [] }\n", "p.yaml:2:9:", "starts with a letter" },
		{ "version: 1\nsets: { abcdefghijklmnopqrstuvwxyz_-1234: [] }\n",
		  "p.yaml:2:9:", "at most 31" },
		{ "version: 1\nsets: { a: [b] }\n", "p.yaml:2:13:", "sets hold no sets" },
		{ "version: 1\nsets: { a: [[192.0.2.1]] }\n", "p.yaml:2:13:", "not a list" },
		{ "version: 1\nsets: { a: }\n", "p.yaml:2:12:", "no value" },
		{ "version: 1\nsets: { a: [203.0.113.7/24] }\n",
		  "p.yaml:2:13:", "write 203.0.113.0/24" },
		{ "version: 1\nsets: { a: blocked.txt }\n", "p.yaml:2:12:", "file: blocked.txt" },
		{ "version: 1\nsets: { a: { } }\n", "p.yaml:2:12:", "'file'" },
		{ "version: 1\nsets: { a: { fiel: x } }\n",
		  "p.yaml:2:14:", "did you mean 'file'?" },
		{ "version: 1\nsets: { a: { file: nowhere.txt } }\n",
		  "p.yaml:2:20:", "cannot open 'nowhere.txt'" },
		{ "version: 1\nsets: { a: { file: blocked.txt, on_error: ignore } }\n",
		  "p.yaml:2:43:", "refuse, skip" },
		{ "version: 1\nallow: [\"\"]\n", "p.yaml:2:9:", "empty" },
		{ "version: 1\nallow: [::/0]\n",
		  "p.yaml:2:9:", "needs quotes here, such as '::1'" },
		{ "version: 1\nallow: [2001:db8::]\n", "p.yaml:2:18:", "needs quotes here" },
		{ "version: 1\nallow:\n  - 2001:db8::\n", "p.yaml:3:5:", "quotes: '2001:db8::'" },
		{ "version: 1\nallow:\n", "p.yaml:2:7:", "[] for an empty one" },
		{ "version: 1\nallow: { a: b }\n", "p.yaml:2:8:", "must be a list" },
		{ "version: 1\nsets: { office: [] }\nallow: [ofice]\n",
		  "p.yaml:3:9:", "did you mean 'office'?" },
		{ "version: 1\nallow: [nowhere]\n", "p.yaml:2:9:", "define it under 'sets'" },
		{ "version: 1\ndeny: [203.0.113.040]\n", "p.yaml:2:8:", "write 203.0.113.40" },
		{ "version: 1\ndeny: ['::ffff:203.0.113.7']\n",
		  "p.yaml:2:8:", "write 203.0.113.7" },
		{ "version: 1\nnat: { factor: 2 }\n", "p.yaml:2:6:", "must be a list" },
		{ "version: 1\nnat: [{ factor: 2 }]\n", "p.yaml:2:7:", "needs both" },
		{ "version: 1\nnat: [{ sources: [192.0.2.1], factor: 0 }]\n",
		  "p.yaml:2:39:", "from 1 to 10k" },
		{ "version: 1\nnat: [{ sources: [192.0.2.1], factor: 10001 }]\n",
		  "p.yaml:2:39:", "from 1 to 10k" },
		{ "version: 1\nnat: [{ sources: [192.0.2.1], factor: 1.5 }]\n",
		  "p.yaml:2:39:", "whole" },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(rows); i++)
		refuse(rows[i].text, rows[i].starts, rows[i].contains);
}

static void a_document_cut_anywhere_never_crashes(void **state)
{
	const size_t length = strlen(example);

	(void)state;
	for (size_t cut = 0; cut < length; cut++) {
		struct ls_error error = LS_ERROR_INIT;
		struct ls_policy *policy = NULL;
		_cleanup_free_ char *part = malloc(cut + 1);

		memcpy(part, example, cut);
		if (ls_policy_read_memory("p.yaml", part, cut, &files, &policy, &error) < 0)
			assert_true(ls_error_is_set(&error));
		ls_policy_free(policy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_example_becomes_the_model),
		cmocka_unit_test(accepted_documents),
		cmocka_unit_test(ports_without_protocol_mean_the_three_that_have_some),
		cmocka_unit_test(the_default_burst_is_a_second_and_never_too_small),
		cmocka_unit_test(a_prefix_that_is_left_out_is_that_of_the_source),
		cmocka_unit_test(documents_are_refused_with_their_place),
		cmocka_unit_test(a_document_cut_anywhere_never_crashes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
