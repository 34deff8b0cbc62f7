/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/view.h"

/*
 * The look-ups of a packet in the tables of a policy, as policy_abi.h lays them out: the label of an address and
 * the first class that matches. The kernel's are written for speed and for the verifier; these are for one
 * question, and for questions that leave something open.
 */

#include <string.h>

#include <bpf/bpf.h>

#include "user/policy/policy.h"

static bool read_line(const struct ls_view *view, uint32_t index, struct ls_line *ret)
{
	return bpf_map_lookup_elem(view->lists_fd, &index, ret) == 0;
}

static const struct ls_generation_abi *generation_of(const struct ls_view *view)
{
	return &view->control->generation[view->half];
}

/* Label of exactly this prefix longer than /24, or -1. */
static int find_host4(const struct ls_view *view, uint32_t address, unsigned length)
{
	const struct ls_generation_abi *generation = generation_of(view);
	const uint32_t masked = address & 0xffffffffU << (32 - length);
	const uint64_t mixed = masked ^ length * 0x9E3779B9U;
	const unsigned shift = (64U - generation->hosts4_bits) & 63U;
	struct ls_line line;

	for (unsigned choice = 0; choice < 2; choice++) {
		const uint64_t bucket = mixed * generation->seed[choice] >> shift;
		if (!read_line(view, generation->hosts4 + (uint32_t)bucket, &line))
			return -1;
		for (unsigned i = 0; i < 8; i++)
			if (LS_HOST4_KEY(line.word[i]) == LS_HOST4(masked, length, 0))
				return (int)(line.word[i] & 0xff);
	}
	return -1;
}

static unsigned label4(const struct ls_view *view, uint32_t address)
{
	struct ls_line line;

	if (!(view->word & LS_WORD_LISTS4) || !read_line(view, address >> 13, &line))
		return 0;
	const unsigned place = address >> 8 & 31;
	const unsigned cell = (unsigned)(line.word[place / 4] >> (16 * (place & 3))) & 0xffff;
	for (unsigned length = 32; length >= 25; length--) {
		const int found = cell >> (8 + length - 25) & 1 ? find_host4(view, address, length)
								: -1;
		if (found >= 0)
			return (unsigned)found;
	}
	return cell & 0xff;
}

/* Label of this prefix or of a marker that stands there, or -1. */
static int find_net6(const struct ls_view *view, struct ls_address address, uint64_t length)
{
	const struct ls_generation_abi *generation = generation_of(view);
	const __u64 *seed = generation->seed;
	const uint64_t a = (uint32_t)address.high, b = address.high >> 32;
	const uint64_t c = (uint32_t)address.low, d = address.low >> 32;
	const uint64_t hash[2] = {
		a * seed[0] + b * seed[1] + c * seed[2] + d * seed[3] + length * seed[4],
		a * seed[5] + b * seed[6] + c * seed[7] + d * seed[1] + length * seed[3],
	};
	const unsigned shift = (64U - generation->nets6_bits) & 63U;
	struct ls_line line;
	struct ls_net6 nets[LS_NETS6_LINE];

	for (unsigned choice = 0; choice < 2; choice++) {
		if (!read_line(view, generation->nets6 + (uint32_t)(hash[choice] >> shift), &line))
			return -1;
		memcpy(nets, &line, sizeof(nets));
		for (unsigned i = 0; i < LS_NETS6_LINE; i++)
			if (nets[i].length == length && nets[i].high == address.high &&
			    nets[i].low == address.low)
				return (int)(nets[i].label & 0xff);
	}
	return -1;
}

static unsigned label6(const struct ls_view *view, struct ls_address address)
{
	const struct ls_generation_abi *generation = generation_of(view);
	unsigned label = generation->label6 & 0xff;
	int from = 0, to = (int)generation->n_lengths6 - 1;

	if (!(view->word & LS_WORD_LISTS6))
		return 0;
	while (view->lists_fd >= 0 && from <= to) {
		const int middle = (from + to) / 2;
		const unsigned length = generation->lengths6[middle];
		const int found = find_net6(view, ls_masked(address, 6, length), length);
		if (found >= 0) {
			label = (unsigned)found;
			from = middle + 1;
		} else {
			to = middle - 1;
		}
	}
	return label;
}

unsigned ls_view_label(const struct ls_view *view, struct ls_address address)
{
	return view->query->packet.family == 6 ? label6(view, address)
					       : label4(view, (uint32_t)address.low);
}

static unsigned row_at(const struct ls_view *view, unsigned chunk, unsigned place)
{
	return view->ports[view->half * LS_CHUNKS + chunk].row[place & (LS_ROW_CHUNK - 1)];
}

/* The protocols that the packet may have; 0: not known, and it may be any. */
static unsigned candidates(const struct ls_query *query, uint8_t ret[static 3])
{
	static const uint8_t with_ports[3] = { LS_PROTOCOL_TCP, LS_PROTOCOL_UDP, LS_PROTOCOL_SCTP };

	if (query->packet.known & LS_KNOWN_PROTOCOL) {
		ret[0] = query->packet.protocol;
		return 1;
	}
	if (!query->has_port && !query->has_source_port)
		return 0;
	memcpy(ret, with_ports, sizeof(with_ports));
	return 3;
}

/* Row by protocol and destination port. */
static unsigned port_row(const struct ls_view *view, uint8_t protocol)
{
	const struct ls_query *query = view->query;
	const unsigned port = query->packet.port;
	const unsigned base = protocol == LS_PROTOCOL_TCP   ? LS_CHUNKS_TCP
			      : protocol == LS_PROTOCOL_UDP ? LS_CHUNKS_UDP
							    : LS_CHUNKS_SCTP;

	if (!query->has_port)
		return row_at(view, LS_CHUNK_OTHER, LS_OTHER_PROTOCOL + protocol);
	return row_at(view, base + (port >> 12), port);
}

static uint64_t bits_of(const struct ls_view *view, unsigned word, unsigned row)
{
	return view->rows[(view->half * LS_CLASS_WORDS + word) * LS_ROWS + row];
}

static uint64_t port_bits(const struct ls_view *view, unsigned word)
{
	uint8_t protocol[3];
	const unsigned n = candidates(view->query, protocol);
	uint64_t bits = ~0ULL;

	if (!(view->word & LS_WORD_PORTS))
		return bits_of(view, word, 0);
	if (n == 0)
		return bits_of(view, word, row_at(view, LS_CHUNK_OTHER, LS_OTHER_NO_PROTOCOL));
	for (unsigned i = 0; i < n; i++)
		bits &= bits_of(view, word, port_row(view, protocol[i]));
	return bits;
}

/* Over every byte of flags that the packet may have. */
static uint64_t flag_bits(const struct ls_view *view, unsigned word)
{
	const uint8_t known = view->query->flags_known;
	const uint8_t flags = view->query->packet.flags & known;
	uint64_t bits = ~0ULL;

	if (!known)
		return bits_of(view, word, row_at(view, LS_CHUNK_OTHER, LS_OTHER_NO_FLAGS));
	for (unsigned byte = 0; byte < 256; byte++)
		if ((byte & known) == flags)
			bits &= bits_of(view, word,
					row_at(view, LS_CHUNK_OTHER, LS_OTHER_FLAGS + byte));
	return bits;
}

static uint64_t more_bits(const struct ls_view *view, unsigned word, unsigned from_row,
			  unsigned to_row)
{
	const struct ls_query *query = view->query;
	const uint16_t port = query->packet.source_port, vlan = query->packet.vlan;
	uint64_t bits = ~0ULL;

	if (view->word & LS_WORD_SOURCE_PORTS)
		bits &= bits_of(view, word,
				query->has_source_port
					? row_at(view, LS_CHUNKS_SOURCE + (port >> 12), port)
					: row_at(view, LS_CHUNK_OTHER, LS_OTHER_NO_SOURCE_PORT));
	if (view->word & LS_WORD_VLAN)
		bits &= bits_of(view, word,
				vlan == LS_NO_VLAN ? row_at(view, LS_CHUNK_OTHER, LS_OTHER_NO_VLAN)
						   : row_at(view, LS_CHUNK_VLAN, vlan));
	if (view->word & LS_WORD_FLAGS)
		bits &= flag_bits(view, word);
	if (view->word & LS_WORD_FROM)
		bits &= bits_of(view, word, from_row);
	if (view->word & LS_WORD_TO)
		bits &= bits_of(view, word, to_row);
	return bits;
}

static bool ranges_hold(const struct ls_ranges *ranges, unsigned value)
{
	for (size_t i = 0; i < ranges->count; i++)
		if (value >= ranges->items[i].low && value <= ranges->items[i].high)
			return true;
	return ranges->count == 0;
}

/*
 * The tables hold the first class of each protocol and port, and the packet may have several protocols: the policy
 * itself knows which class matches all of them.
 */
static unsigned class_of_several(const struct ls_view *view, const uint8_t *protocol, unsigned n)
{
	_cleanup_(ls_policy_freep) struct ls_policy *policy = NULL;
	const struct ls_query *query = view->query;

	if (ls_plane_policy(view->plane, &policy, NULL, NULL) < 0)
		return LS_DIRECT_NONE;
	for (unsigned class = 0; class < policy->n_classes; class ++) {
		const struct ls_match *match = &policy->classes[class].match;
		bool matches = query->has_port ? ranges_hold(&match->ports, query->packet.port)
					       : match->ports.count == 0;
		for (unsigned i = 0; i < n; i++)
			matches = matches && ranges_hold(&match->protocols, protocol[i]);
		if (matches)
			return class;
	}
	return LS_DIRECT_NONE;
}

static unsigned class_direct(const struct ls_view *view)
{
	uint8_t protocol[3];
	const unsigned n = candidates(view->query, protocol);

	if (n == 0)
		return row_at(view, LS_CHUNK_OTHER, LS_OTHER_NO_PROTOCOL);
	const unsigned first = port_row(view, protocol[0]);
	for (unsigned i = 1; i < n; i++)
		if (port_row(view, protocol[i]) != first)
			return class_of_several(view, protocol, n);
	return first;
}

unsigned ls_view_class(const struct ls_view *view, unsigned from_row, unsigned to_row)
{
	const unsigned words = view->word >> LS_WORD_WORDS_SHIFT & 7;

	if (view->word & LS_WORD_DIRECT)
		return class_direct(view);
	for (unsigned word = 0; word < words && word < LS_CLASS_WORDS; word++) {
		const uint64_t bits = port_bits(view, word) &
				      more_bits(view, word, from_row, to_row);
		if (bits)
			return word * 64 + (unsigned)__builtin_ctzll(bits);
	}
	return LS_DIRECT_NONE;
}
