/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/reader.h"

/*
 * What a class asks for. Numbers become sorted ranges; what can never be asked together is refused.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/error.h"

#define TCP 6
#define UDP 17
#define SCTP 132

static int compare_ranges(const void *a, const void *b)
{
	const struct ls_range *const left = a, *const right = b;

	return (left->low > right->low) - (left->low < right->low);
}

static void merge_ranges(struct ls_ranges *ranges)
{
	size_t kept = 0;

	qsort(ranges->items, ranges->count, sizeof(*ranges->items), compare_ranges);
	for (size_t i = 0; i < ranges->count; i++) {
		struct ls_range *const last = kept ? &ranges->items[kept - 1] : NULL;
		const struct ls_range next = ranges->items[i];

		if (!last || next.low > last->high + 1U)
			ranges->items[kept++] = next;
		else if (next.high > last->high)
			last->high = next.high;
	}
	ranges->count = kept;
}

bool ls_ranges_hold(const struct ls_ranges *ranges, unsigned value)
{
	for (size_t i = 0; i < ranges->count; i++) {
		if (value >= ranges->items[i].low && value <= ranges->items[i].high)
			return true;
	}
	return false;
}

/* "443" or "8000-8099", from 0 to `high`. */
static int read_number_range(struct ls_reader *reader, const struct ls_node *node, const char *what,
			     unsigned high, struct ls_range *ret)
{
	struct ls_error found = LS_ERROR_INIT;
	const char *text = NULL, *dash;
	uint64_t first = 0, last = 0;
	char low_text[24];

	if (ls_reader_text(reader, node, what, &text) < 0)
		return -1;
	dash = strchr(text, '-');
	if (!dash || dash == text || (size_t)(dash - text) >= sizeof(low_text)) {
		if (ls_reader_number(reader, node, what, 0, high, &first) < 0)
			return -1;
		last = first;
	} else {
		snprintf(low_text, sizeof(low_text), "%.*s", (int)(dash - text), text);
		if (ls_number_parse(low_text, 0, high, &first, &found) < 0 ||
		    ls_number_parse(dash + 1, 0, high, &last, &found) < 0)
			return ls_refuse(reader, node, "%s '%.60s': %s", what, text, found.text);
		if (first > last)
			return ls_refuse(reader, node,
					 "%s: the range '%s' is upside down; write %llu-%llu", what,
					 text, (unsigned long long)last, (unsigned long long)first);
	}
	*ret = (struct ls_range){ .low = (uint16_t)first, .high = (uint16_t)last };
	return 0;
}

static int read_protocol(struct ls_reader *reader, const struct ls_node *node, const char *what,
			 unsigned high, struct ls_range *ret)
{
	const char *text = NULL, *nearest;
	int protocol;

	(void)high;
	if (ls_reader_text(reader, node, what, &text) < 0)
		return -1;
	protocol = ls_protocol_parse(text);
	if (protocol >= 0) {
		*ret = (struct ls_range){ .low = (uint16_t)protocol, .high = (uint16_t)protocol };
		return 0;
	}
	nearest = ls_suggest(text, ls_protocol_names, LS_PROTOCOL_NAMES);
	if (nearest && *text > '9')
		return ls_refuse(reader, node, "'%.60s' is no protocol; did you mean '%s'?", text,
				 nearest);
	return ls_refuse(reader, node,
			 "'%.60s' is no protocol; accepted are tcp, udp, icmp, icmpv6, sctp, gre, "
			 "esp and numbers from 0 to 255",
			 text);
}

typedef int read_range_function(struct ls_reader *reader, const struct ls_node *node,
				const char *what, unsigned high, struct ls_range *ret);

/* One value or a list of them. */
static int read_ranges(struct ls_reader *reader, const struct ls_node *node, const char *what,
		       unsigned high, read_range_function *read_one, struct ls_ranges *ret)
{
	if (node->kind == LS_NODE_LIST && node->count == 0)
		return ls_refuse(
			reader, node,
			"%s is an empty list, which would match nothing; leave the key out", what);
	ret->items = calloc(node->kind == LS_NODE_LIST ? node->count : 1, sizeof(*ret->items));
	if (!ret->items)
		return ls_error_oom(reader->error);
	for (const struct ls_node *item = ls_node_begin(node); item;
	     item = ls_node_after(node, item)) {
		if (read_one(reader, item, what, high, &ret->items[ret->count]) < 0)
			return -1;
		ret->count++;
	}
	merge_ranges(ret);
	return 0;
}

static int read_endpoint(struct ls_reader *reader, const struct ls_node *node, const char *what,
			 struct ls_members *ret)
{
	if (node->kind == LS_NODE_LIST && node->count == 0)
		return ls_refuse(
			reader, node,
			"%s is an empty list, which would match nothing; leave the key out", what);
	return ls_read_members(reader, node, what, ret);
}

static int read_flags(struct ls_reader *reader, const struct ls_node *node, struct ls_match *match)
{
	if (node->kind == LS_NODE_LIST && node->count == 0)
		return ls_refuse(reader, node, "tcp_flags is an empty list; leave the key out");
	for (const struct ls_node *item = ls_node_begin(node); item;
	     item = ls_node_after(node, item)) {
		const char *text = NULL;

		if (ls_reader_text(reader, item, "tcp_flags", &text) < 0)
			return -1;
		if (!ls_tcp_flag_parse(text, &match->flags_set, &match->flags_clear))
			return ls_refuse(
				reader, item,
				"'%.60s' is no flag; accepted are fin, syn, rst, psh, ack, "
				"urg, ece, cwr, and each with 'no-' in front",
				text);
		if (match->flags_set & match->flags_clear)
			return ls_refuse(reader, item,
					 "'%s': the flag is asked for both set and clear, which no "
					 "packet is",
					 text);
	}
	return 0;
}

/* Without `protocol`, ports mean the protocols that have some. */
static int imply_protocols(struct ls_reader *reader, struct ls_match *match)
{
	static const struct ls_range with_ports[] = { { TCP, TCP }, { UDP, UDP }, { SCTP, SCTP } };

	match->protocols.items = malloc(sizeof(with_ports));
	if (!match->protocols.items)
		return ls_error_oom(reader->error);
	memcpy(match->protocols.items, with_ports, sizeof(with_ports));
	match->protocols.count = LS_LENGTH(with_ports);
	match->protocols_implied = true;
	return 0;
}

/* A key that the protocols make pointless is refused and not ignored. */
static int check_protocols(struct ls_reader *reader, const struct ls_match *match,
			   const struct ls_node *ports, const struct ls_node *flags)
{
	char name[LS_PROTOCOL_TEXT];

	for (size_t i = 0; ports && i < match->protocols.count; i++) {
		for (unsigned p = match->protocols.items[i].low;
		     p <= match->protocols.items[i].high; p++) {
			if (p != TCP && p != UDP && p != SCTP)
				return ls_refuse(reader, ports->key,
						 "'%s' does not apply to protocol %s, which has no "
						 "ports; leave one of them out",
						 ports->key->text, ls_protocol_format(p, name));
		}
	}
	if (flags && match->protocols.count > 0 && !ls_ranges_hold(&match->protocols, TCP))
		return ls_refuse(reader, flags->key,
				 "'tcp_flags' does not apply: the protocol here is not tcp");
	return 0;
}

int ls_read_match(struct ls_reader *reader, const struct ls_node *node, struct ls_match *ret)
{
	static const char *const keys[] = { "protocol", "ports", "source_ports", "to",
					    "from",	"vlan",	 "tcp_flags" };
	const struct ls_node *protocol, *ports, *source_ports, *to, *from, *vlan, *flags;

	if (node->kind == LS_NODE_TEXT && strcmp(node->text, "any") == 0) {
		ret->any = true;
		return 0;
	}
	if (node->kind != LS_NODE_MAP)
		return ls_refuse(
			reader, node,
			"match must be 'any' or a map such as { protocol: tcp, ports: [80] }");
	if (node->count == 0)
		return ls_refuse(reader, node,
				 "match is empty; write 'match: any' if every packet is meant");
	if (ls_reader_map(reader, node, "'match'", keys, LS_LENGTH(keys)) < 0)
		return -1;

	protocol = ls_node_get(node, "protocol");
	ports = ls_node_get(node, "ports");
	source_ports = ls_node_get(node, "source_ports");
	to = ls_node_get(node, "to");
	from = ls_node_get(node, "from");
	vlan = ls_node_get(node, "vlan");
	flags = ls_node_get(node, "tcp_flags");
	if (protocol &&
	    read_ranges(reader, protocol, "protocol", 255, read_protocol, &ret->protocols) < 0)
		return -1;
	if (ports &&
	    read_ranges(reader, ports, "ports", UINT16_MAX, read_number_range, &ret->ports) < 0)
		return -1;
	if (source_ports && read_ranges(reader, source_ports, "source_ports", UINT16_MAX,
					read_number_range, &ret->source_ports) < 0)
		return -1;
	if (to && read_endpoint(reader, to, "to", &ret->to) < 0)
		return -1;
	if (from && read_endpoint(reader, from, "from", &ret->from) < 0)
		return -1;
	if (vlan && read_ranges(reader, vlan, "vlan", 4095, read_number_range, &ret->vlans) < 0)
		return -1;
	if (flags && read_flags(reader, flags, ret) < 0)
		return -1;
	if (!protocol && (ports || source_ports))
		return imply_protocols(reader, ret);
	return check_protocols(reader, ret, ports ? ports : source_ports, flags);
}
