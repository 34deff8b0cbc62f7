/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_TWIN_POLICIES_H
#define LOADSHED_TWIN_POLICIES_H

/*
 * Random policies for the sources, destinations, ports and tags that frames.h sends, with limits so small that
 * they bite. Seeded. Text, so that a failure shows what was in force.
 */

#include "tests/twin/twin.h"
#include "user/base/buffer.h"

struct policy_writer {
	struct ls_buffer text;
	uint64_t *seed;
};

static inline uint32_t policy_random(struct policy_writer *writer, uint32_t below)
{
	return (uint32_t)(twin_random(writer->seed) % below);
}

static inline bool policy_chance(struct policy_writer *writer, uint32_t one_in)
{
	return policy_random(writer, one_in) == 0;
}

#define POLICY_PICK(writer, list) (list)[policy_random(writer, sizeof(list) / sizeof((list)[0]))]

static inline void policy_members(struct policy_writer *writer)
{
	static const char *const members[] = {
		"203.0.113.1",		"203.0.113.2",		"203.0.113.4/31",
		"203.0.113.0/29",	"203.0.0.0/16",		"203.0.113.3",
		"203.0.113.128/25",	"'2001:db8:0:10::/63'", "'2001:db8:0:10::/64'",
		"'2001:db8:0:12::/64'", "'2001:db8::/32'",	"'2001:db8:0:11::3'",
		"198.51.100.10",	"'2001:db8:0:10::1'",
	};
	const uint32_t n = 1 + policy_random(writer, 3);

	ls_buffer_format(&writer->text, "[");
	for (uint32_t i = 0; i < n; i++)
		ls_buffer_format(&writer->text, "%s%s", i ? ", " : "",
				 POLICY_PICK(writer, members));
	ls_buffer_format(&writer->text, "]");
}

/* Whether TCP can match, so that connections can be counted. */
static inline bool policy_match(struct policy_writer *writer)
{
	static const char *const with_tcp[] = { "protocol: tcp",   "protocol: [tcp, sctp]",
						"ports: [53, 80]", "ports: [443, 8443]",
						"ports: [80]",	   "source_ports: [53]" };
	static const char *const others[] = { "protocol: udp", "protocol: icmp", "protocol: icmpv6",
					      "protocol: [2, 47, 253]" };
	static const char *const flags[] = { "[syn, no-ack]", "[no-syn]", "[ack]", "[syn]",
					     "[no-rst, no-fin]" };

	if (policy_chance(writer, 8)) {
		ls_buffer_format(&writer->text, "any");
		return true;
	}
	if (policy_chance(writer, 6)) {
		ls_buffer_format(&writer->text, "{ tcp_flags: %s }", POLICY_PICK(writer, flags));
		return true;
	}
	const bool has_tcp = !policy_chance(writer, 3);
	ls_buffer_format(&writer->text, "{ %s",
			 has_tcp ? POLICY_PICK(writer, with_tcp) : POLICY_PICK(writer, others));
	if (policy_chance(writer, 6))
		ls_buffer_format(&writer->text, ", vlan: 7");
	if (policy_chance(writer, 4)) {
		ls_buffer_format(&writer->text, ", from: ");
		policy_members(writer);
	}
	if (policy_chance(writer, 4)) {
		ls_buffer_format(&writer->text, ", to: ");
		policy_members(writer);
	}
	ls_buffer_format(&writer->text, " }");
	return has_tcp;
}

static inline void policy_limit(struct policy_writer *writer, uint32_t number, bool has_tcp)
{
	static const char *const pers[] = { "source",	    "source",
					    "source",	    "{ ipv4: 24, ipv6: 48 }",
					    "{ ipv4: 31 }", "flow",
					    "destination",  "class" };
	static const char *const counts[] = { "packets", "packets", "connections", "bytes" };
	static const char *const algorithms[] = { "fixed-window", "sliding-window", "sliding-log" };
	const char *count = POLICY_PICK(writer, counts);

	if (!has_tcp && strcmp(count, "connections") == 0)
		count = "packets";

	ls_buffer_format(&writer->text, "      - { name: l%u, per: %s, ", number,
			 POLICY_PICK(writer, pers));
	if (policy_chance(writer, 2)) {
		if (strcmp(count, "bytes") == 0)
			ls_buffer_format(
				&writer->text, "count: bytes, rate: %ukbit/s, burst: %uB }\n",
				1 + policy_random(writer, 60), 64 + policy_random(writer, 3000));
		else
			ls_buffer_format(&writer->text, "count: %s, rate: %u/%s, burst: %u }\n",
					 count, 1 + policy_random(writer, 40),
					 policy_chance(writer, 3) ? "m" : "s",
					 1 + policy_random(writer, 12));
		return;
	}
	/* Bytes are for fixed windows alone. */
	if (strcmp(count, "bytes") == 0)
		ls_buffer_format(
			&writer->text,
			"count: bytes, algorithm: fixed-window, limit: %uB, window: %us }\n",
			100 + policy_random(writer, 9000), 1 + policy_random(writer, 30));
	else
		ls_buffer_format(&writer->text,
				 "count: %s, algorithm: %s, limit: %u, window: %us }\n", count,
				 POLICY_PICK(writer, algorithms), 1 + policy_random(writer, 6),
				 1 + policy_random(writer, 30));
}

/* Up to `most` classes; the caller frees the text with free(). */
static inline char *policy_make(uint64_t *seed, uint32_t most)
{
	static const char *const priorities[] = { "low", "normal", "high", "critical" };
	struct policy_writer writer = { LS_BUFFER_INIT, seed };
	const uint32_t n = policy_random(&writer, most + 1);

	ls_buffer_format(&writer.text, "version: 1\n");
	if (policy_chance(&writer, 5))
		ls_buffer_format(&writer.text, "mode: monitor\n");
	if (policy_chance(&writer, 3)) {
		ls_buffer_format(&writer.text, "allow: ");
		policy_members(&writer);
	}
	if (policy_chance(&writer, 2)) {
		ls_buffer_format(&writer.text, "\ndeny: ");
		policy_members(&writer);
	}
	if (policy_chance(&writer, 2)) {
		ls_buffer_format(&writer.text,
				 "\nnat: [ { factor: %u, sources: ", 1 + policy_random(&writer, 4));
		policy_members(&writer);
		ls_buffer_format(&writer.text, " } ]");
	}
	if (policy_chance(&writer, 2))
		ls_buffer_format(&writer.text,
				 "\noverload: { max: { packets: %u/s, connections: %u/s } }",
				 20 + policy_random(&writer, 300), 10 + policy_random(&writer, 90));
	ls_buffer_format(&writer.text, "\nclasses:%s\n", n ? "" : " []");
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t limits = policy_random(&writer, policy_chance(&writer, 6) ? 9 : 4);
		ls_buffer_format(&writer.text, "  - name: c%u\n    match: ", i);
		const bool has_tcp = policy_match(&writer);
		ls_buffer_format(&writer.text, "\n    priority: %s\n",
				 POLICY_PICK(&writer, priorities));
		if (policy_chance(&writer, 6))
			ls_buffer_format(&writer.text, "    mode: monitor\n");
		if (limits && policy_chance(&writer, 4))
			ls_buffer_format(&writer.text,
					 "    ban: { after: %u, within: 5s, for: 3s }\n",
					 1 + policy_random(&writer, 30));
		ls_buffer_format(&writer.text, "    limits:%s\n", limits ? "" : " []");
		for (uint32_t k = 0; k < limits; k++)
			policy_limit(&writer, k, has_tcp);
	}
	char *text = strdup(ls_buffer_string(&writer.text));
	ls_buffer_fini(&writer.text);
	return text;
}

#endif
