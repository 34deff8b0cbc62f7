/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What classes and limits must not say, with the place that the message names. */

#include "policy_text.h"

#include <stdio.h>

#include "user/base/buffer.h"

static void classes_are_refused_with_their_place(void **state)
{
	/* Each stands in line 3, behind "  - ". */
	static const struct {
		const char *class;
		unsigned column;
		const char *contains;
	} rows[] = {
		{ "name", 5, "must be a map" },
		{ "{ match: any }", 5, "has no name" },
		{ "{ name: a }", 5, "has no match" },
		{ "{ name: A, match: any }", 13, "a-z" },
		{ "{ name: a, match: any, burts: 1 }", 28, "accepted are" },
		{ "{ name: a, match: any, prio: low }", 28, "unknown key 'prio'" },
		{ "{ name: a, match: any, priority: urgent }", 38, "low, normal, high" },
		{ "{ name: a, match: any, rate: 1/s }", 28, "in a limit" },
		{ "{ name: a, match: {} }", 23, "match is empty" },
		{ "{ name: a, match: all }", 23, "'any'" },
		{ "{ name: a, match: }", 23, "'any'" },
		{ "{ name: a, match: { protocol: tcpp } }", 35, "did you mean 'tcp'?" },
		{ "{ name: a, match: { protocol: 256 } }", 35, "0 to 255" },
		{ "{ name: a, match: { protocol: 6-17 } }", 35, "0 to 255" },
		{ "{ name: a, match: { protocol: TCP } }", 35, "is no protocol" },
		{ "{ name: a, match: { protocol: [] } }", 35, "empty list" },
		{ "{ name: a, match: { port: 80 } }", 25, "did you mean 'ports'?" },
		{ "{ name: a, match: { ports: 65536 } }", 32, "from 0 to 65535" },
		{ "{ name: a, match: { ports: [080] } }", 33, "leading zeros" },
		{ "{ name: a, match: { ports: 8k } }", 32, "something follows" },
		{ "{ name: a, match: { ports: http } }", 32, "no digit" },
		{ "{ name: a, match: { ports: 90-80 } }", 32, "write 80-90" },
		{ "{ name: a, match: { ports: 80- } }", 32, "no digit" },
		{ "{ name: a, match: { ports: [80, [81]] } }", 37, "single value" },
		{ "{ name: a, match: { protocol: icmp, ports: 1 } }", 41, "has no ports" },
		{ "{ name: a, match: { protocol: [tcp, gre], source_ports: 1 } }", 47,
		  "has no ports" },
		{ "{ name: a, match: { vlan: 4096 } }", 31, "from 0 to 4095" },
		{ "{ name: a, match: { tcp_flags: [sin] } }", 37, "is no flag" },
		{ "{ name: a, match: { tcp_flags: [syn, no-syn] } }", 42, "both set and clear" },
		{ "{ name: a, match: { tcp_flags: [] } }", 36, "empty list" },
		{ "{ name: a, match: { protocol: udp, tcp_flags: [syn] } }", 40, "not tcp" },
		{ "{ name: a, match: { to: [] } }", 29, "empty list" },
		{ "{ name: a, match: { from: [somewhere] } }", 32, "define it under 'sets'" },
		{ "{ name: a, match: any, ban: { after: 1, within: 1s } }", 33, "all three" },
		{ "{ name: a, match: any, limits: [{ rate: 1/s }], ban: { after: 0, within: 1s, "
		  "for: 1s } }",
		  67, "out of range" },
		{ "{ name: a, match: any, limits: [{ rate: 1/s }], ban: { after: 1, within: 1, "
		  "for: 1s } }",
		  78, "no unit" },
		{ "{ name: a, match: any, limits: [{ rate: 1/s }], ban: { after: 1, within: 1s, "
		  "for: 3654d } }",
		  87, "out of range" },
		{ "{ name: a, match: any, ban: { after: 1, within: 1s, for: 1s } }", 28,
		  "does not apply" },
		{ "{ name: a, match: any, limits: { rate: 1/s } }", 36, "must be a list" },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(rows); i++) {
		char text[512], place[32];

		snprintf(text, sizeof(text), "version: 1\nclasses:\n  - %s\n", rows[i].class);
		snprintf(place, sizeof(place), "p.yaml:3:%u:", rows[i].column);
		refuse(text, place, rows[i].contains);
	}
	refuse("version: 1\nclasses: [{ name: a, match: any }, { name: a, match: any }]\n",
	       "p.yaml:2:44:", "there is a class 'a' already");
	refuse("version: 1\nclasses: { name: a }\n", "p.yaml:2:10:", "must be a list");
}

static void limits_are_refused_with_their_place(void **state)
{
	/* Each stands in line 4, the brace in column 9 and its first key in column 11. */
	static const struct {
		const char *limit;
		unsigned column;
		const char *contains;
	} rows[] = {
		{ "rate: 1/s, burts: 10", 22, "did you mean 'burst'?" },
		{ "rate: 1/s, name: Web", 28, "a-z" },
		{ "burst: 10", 9, "has no rate" },
		{ "rate: 0/s", 17, "from 1/d to 4G/s" },
		{ "rate: 10Mbit/s", 17, "/s, /m, /h or /d" },
		{ "rate: 100Mb/s, count: bytes", 17, "Mbit/s" },
		{ "rate: 100/s, count: bytes", 17, "Mbit/s" },
		{ "rate: 1/s, burst: 0", 29, "out of range" },
		{ "rate: 1/s, burst: 10.5", 29, "whole" },
		{ "rate: 1/s, burst: 4KiB", 29, "unit is unknown" },
		{ "rate: 1MB/s, count: bytes, burst: 4096", 45, "no unit" },
		{ "rate: 1MB/s, count: bytes, burst: 0B", 45, "out of range" },
		{ "rate: 4G/s, burst: 2000000G", 30, "from 1 to 1000000G" },
		{ "rate: 1/d, burst: 418", 29,
		  "418 days to refill at 1/d, and it must be less than 417" },
		{ "rate: 0.001bit/s, count: bytes", 17, "6068 days" },
		{ "rate: 1/s, count: bits", 29, "bytes" },
		{ "rate: 1/s, per: host", 27, "source, flow" },
		{ "rate: 1/s, per: {}", 27, "per is empty" },
		{ "rate: 1/s, per: { ipv4: 0 }", 35, "per: class" },
		{ "rate: 1/s, per: { ipv6: 0 }", 35, "per: class" },
		{ "rate: 1/s, per: { ipv4: 33 }", 35, "from 0 to 32" },
		{ "rate: 1/s, per: { ipv6: 129 }", 35, "from 0 to 128" },
		{ "rate: 1/s, per: { ipv4: /24 }", 35, "no digit" },
		{ "rate: 1/s, per: [source]", 27, "ipv4, ipv6" },
		{ "rate: 1/s, algorithm: leaky-bucket", 33, "token-bucket" },
		{ "rate: 1/s, limit: 10", 22, "does not apply to a token bucket" },
		{ "rate: 1/s, window: 10s", 22, "does not apply to a token bucket" },
		{ "algorithm: fixed-window, limit: 1, window: 1s, rate: 1/s", 58,
		  "does not apply to a fixed-window" },
		{ "algorithm: fixed-window, limit: 1, window: 1s, burst: 1", 58,
		  "does not apply to a fixed-window" },
		{ "algorithm: fixed-window, limit: 1", 9, "has no window" },
		{ "algorithm: fixed-window, window: 1s", 9, "has no limit" },
		{ "algorithm: fixed-window, limit: 0, window: 1s", 43, "out of range" },
		{ "algorithm: fixed-window, limit: 1000G, window: 1s", 43,
		  "from 1 to 999999999999" },
		{ "algorithm: fixed-window, limit: 1, window: 999ms", 54, "from 1s to 30d" },
		{ "algorithm: fixed-window, limit: 1, window: 31d", 54, "from 1s to 30d" },
		{ "algorithm: fixed-window, limit: 1, window: 0s", 54, "from 1s to 30d" },
		{ "algorithm: fixed-window, limit: 10, window: 1s, count: bytes", 43, "no unit" },
		{ "algorithm: sliding-window, limit: 1000001, window: 1s", 45, "from 1 to 1M" },
		{ "algorithm: sliding-log, limit: 65, window: 1s", 42, "from 1 to 64" },
		{ "algorithm: sliding-window, limit: 1MB, window: 1s, count: bytes", 22,
		  "does not count bytes" },
		{ "algorithm: sliding-log, limit: 1B, window: 1s, count: bytes", 22,
		  "does not count bytes" },
		{ "rate: 1/s, scope: cluster", 29, "needs a section 'cluster'" },
		{ "rate: 1/s, scope: everywhere", 29, "node, cluster" },
		{ "rate: 1/s, on_loss: local", 22, "scope: cluster" },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(rows); i++) {
		char text[512], place[32];

		snprintf(text, sizeof(text),
			 "version: 1\nclasses: [{ name: a, match: any, limits: [\n"
			 "\n        { %s } ] }]\n",
			 rows[i].limit);
		snprintf(place, sizeof(place), "p.yaml:4:%u:", rows[i].column);
		refuse(text, place, rows[i].contains);
	}
}

static void limits_that_the_class_rules_out_are_refused(void **state)
{
	(void)state;
	refuse("version: 1\nclasses: [{ name: a, match: { protocol: udp }, limits: "
	       "[{ rate: 1/s, count: connections }] }]\n",
	       "p.yaml:2:77:", "'connections' does not apply");
	refuse("version: 1\nclasses: [{ name: a, match: any, limits: "
	       "[{ rate: 1/s, name: limit-2 }, { rate: 1/s }] }]\n",
	       "p.yaml:2:73:", "'limit-2' already");
	refuse("version: 1\nclasses: [{ name: a, match: any, limits: [{ rate: 1/s }, { rate: 1/s }, "
	       "{ rate: 1/s }, { rate: 1/s }, { rate: 1/s }, { rate: 1/s }, { rate: 1/s }, "
	       "{ rate: 1/s }, { rate: 1/s }] }]\n",
	       "p.yaml:2:163:", "at most 8 limits");
}

static void ranges_hold_after_the_nat_factor(void **state)
{
	static const struct {
		const char *limit;
		unsigned column;
		const char *contains;
	} rows[] = {
		{ "rate: 200M/s", 9, "rate 200M/s times the NAT factor 32 is out of range" },
		{ "rate: 40Gbit/s, count: bytes", 9, "up to 1000Gbit/s" },
		{ "rate: 1M/s, burst: 50000G", 22, "burst times the NAT factor 32" },
		{ "algorithm: sliding-log, limit: 3, window: 1s", 34, "up to 64" },
		{ "algorithm: sliding-window, limit: 40k, window: 1s", 37, "up to 1000000" },
		{ "algorithm: fixed-window, limit: 40G, window: 1s", 35, "up to 999999999999" },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(rows); i++) {
		char text[512], place[32];

		snprintf(text, sizeof(text),
			 "version: 1\nnat: [{ sources: [192.0.2.1], factor: 8 }, "
			 "{ sources: [192.0.2.2], factor: 32 }]\n"
			 "classes: [{ name: a, match: any, limits: [\n{ %s }] }]\n",
			 rows[i].limit);
		snprintf(place, sizeof(place), "p.yaml:4:%u:", rows[i].column);
		refuse(text, place, rows[i].contains);
	}
	refuse("version: 1\nnat: [{ sources: [192.0.2.1], factor: 10k }]\nclasses: [{ name: a, "
	       "match: any, limits: [{ rate: 1/s }], ban: { after: 1M, within: 1s, for: 1s } }]\n",
	       "p.yaml:3:73:", "from 1 to 100k");
}

static void a_bound_that_is_told_is_the_bound(void **state)
{
	static const struct {
		const char *limit, *contains;
	} rows[] = {
		{ "rate: 1G/s, burst: 0", "from 1 to 1000000G" },
		{ "rate: 1G/s, burst: 18446744073709551615", "from 1 to 1000000G" },
		{ "rate: 1GB/s, count: bytes, burst: 0B", "from 1B to 1000000GB" },
		{ "rate: 1GB/s, count: bytes, burst: 1000001GB", "from 1B to 1000000GB" },
		{ "algorithm: fixed-window, window: 1s, limit: 0", "from 1 to 999999999999" },
		{ "algorithm: fixed-window, window: 1s, limit: 1000G", "from 1 to 999999999999" },
		{ "algorithm: fixed-window, window: 1s, count: bytes, limit: 0B",
		  "from 1B to 999999999999B" },
		{ "algorithm: sliding-window, window: 1s, limit: 1000001", "from 1 to 1M" },
		{ "algorithm: sliding-log, window: 1s, limit: 65", "from 1 to 64" },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(rows); i++) {
		char text[512];

		snprintf(text, sizeof(text),
			 "version: 1\nclasses: [{ name: a, match: any, limits: [\n{ %s }] }]\n",
			 rows[i].limit);
		refuse(text, "p.yaml:3:", rows[i].contains);
	}
}

static void a_key_that_is_too_long_for_yaml_is_named_as_one(void **state)
{
	_cleanup_buffer_ struct ls_buffer text = LS_BUFFER_INIT, flow = LS_BUFFER_INIT;

	(void)state;
	ls_buffer_text(&text, "version: 1\n");
	ls_buffer_text(&flow, "version: 1\nsets: { ");
	for (unsigned i = 0; i < 2000; i++) {
		ls_buffer_text(&text, "a");
		ls_buffer_text(&flow, "a");
	}
	ls_buffer_text(&text, ": 1\n");
	ls_buffer_text(&flow, ": [] }\n");
	refuse(ls_buffer_string(&text), "p.yaml:2:1:", "a key has at most 1024 bytes");
	refuse(ls_buffer_string(&flow), "p.yaml:2:2009:", "a key has at most 1024 bytes");
}

static void too_many_classes_are_refused(void **state)
{
	_cleanup_buffer_ struct ls_buffer text = LS_BUFFER_INIT;

	(void)state;
	ls_buffer_text(&text, "version: 1\nclasses:\n");
	for (unsigned i = 0; i < 256; i++)
		ls_buffer_format(&text, "  - { name: c%u, match: any }\n", i);
	ls_policy_free(accept(ls_buffer_string(&text)));
	ls_buffer_text(&text, "  - { name: c256, match: any }\n");
	refuse(ls_buffer_string(&text), "p.yaml:259:5:", "at most 256 classes");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classes_are_refused_with_their_place),
		cmocka_unit_test(limits_are_refused_with_their_place),
		cmocka_unit_test(limits_that_the_class_rules_out_are_refused),
		cmocka_unit_test(ranges_hold_after_the_nat_factor),
		cmocka_unit_test(a_bound_that_is_told_is_the_bound),
		cmocka_unit_test(a_key_that_is_too_long_for_yaml_is_named_as_one),
		cmocka_unit_test(too_many_classes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
