/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_TESTS_UNIT_LOOKUP_H
#define LOADSHED_TESTS_UNIT_LOOKUP_H

/*
 * What the kernel does with an image, written plainly from the layout in policy_abi.h and apart
 * from the program's own look-ups, so that compiler and program are judged by a third party.
 */

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "user/policy/compile.h"

static inline int lookup_host4(const struct ls_image *image, uint32_t address, unsigned length)
{
	const struct ls_generation_abi *generation = &image->generation;
	const uint32_t masked = address & (uint32_t)(0xffffffff00000000ULL >> length);
	const uint64_t x = masked ^ length * 0x9E3779B9U;

	for (unsigned choice = 0; choice < 2; choice++) {
		const uint64_t bucket = x * generation->seed[choice] >>
					(64 - generation->hosts4_bits);
		const struct ls_line *line = &image->lines[generation->hosts4 + bucket];

		for (unsigned i = 0; i < 8; i++)
			if (LS_HOST4_KEY(line->word[i]) == LS_HOST4(masked, length, 0))
				return (int)(line->word[i] & 0xff);
	}
	return -1;
}

/* The word of the /16 and the marks, which are asked before the cell, must not say something else. */
static inline void lookup_check_short4(const struct ls_image *image, uint32_t address,
				       unsigned cell)
{
	const unsigned net = image->nets4[address >> 16], bit = LS_MARK4_BIT(address);
	const struct ls_line *marks = &image->lines[LS_MARK4_LINE(address)];

	if (net < LS_NET4_DEEP)
		assert(cell == net);
	else if (!(marks->word[bit / 64] >> (bit % 64) & 1))
		assert(cell == (net & 0xff));
}

static inline unsigned lookup_label4(const struct ls_image *image, uint32_t address)
{
	const struct ls_line *line;
	uint64_t word;
	unsigned cell;

	if (!(image->word & LS_WORD_LISTS4))
		return 0;
	line = &image->lines[address >> 13];
	word = line->word[(address >> 8 & 31) / 4];
	cell = (unsigned)(word >> (16 * (address >> 8 & 3))) & 0xffff;
	lookup_check_short4(image, address, cell);
	for (unsigned length = 32; length >= 25; length--) {
		if (cell >> (8 + length - 25) & 1) {
			const int found = lookup_host4(image, address, length);

			if (found >= 0)
				return (unsigned)found;
		}
	}
	return cell & 0xff;
}

static inline int lookup_net6(const struct ls_image *image, uint64_t high, uint64_t low,
			      unsigned length)
{
	const __u64 *seed = image->generation.seed;
	const uint64_t bits = 64U - image->generation.nets6_bits;
	const uint64_t words[4] = { high & 0xffffffff, high >> 32, low & 0xffffffff, low >> 32 };
	const uint64_t buckets[2] = {
		(words[0] * seed[0] + words[1] * seed[1] + words[2] * seed[2] + words[3] * seed[3] +
		 length * seed[4]) >>
			bits,
		(words[0] * seed[5] + words[1] * seed[6] + words[2] * seed[7] + words[3] * seed[1] +
		 length * seed[3]) >>
			bits,
	};

	for (unsigned choice = 0; choice < 2; choice++) {
		struct ls_net6 nets[LS_NETS6_LINE];

		memcpy(nets, &image->lines[image->generation.nets6 + buckets[choice]],
		       sizeof(nets));
		for (unsigned i = 0; i < LS_NETS6_LINE; i++)
			if (nets[i].high == high && nets[i].low == low && nets[i].length == length)
				return (int)nets[i].label;
	}
	return -1;
}

/* Whether the filter has the root of an address; without one, bisection is not asked. */
static inline bool lookup_may_hold6(const struct ls_image *image, uint64_t high)
{
	const struct ls_generation_abi *generation = &image->generation;
	const __u64 *seed = generation->seed;
	const unsigned root = generation->root6;
	bool all = true;

	if (root == 0)
		return true;
	const uint64_t bits = high >> (64 - root) << (64 - root);
	const uint64_t lower = bits & 0xffffffff, upper = bits >> 32;
	const uint64_t first = lower * seed[0] + upper * seed[1] + LS_ROOT6(root) * seed[4];
	const uint64_t second = lower * seed[5] + upper * seed[6] + LS_ROOT6(root) * seed[3];
	const struct ls_line *line =
		&image->lines[generation->filter6 + (first >> (64 - generation->filter6_bits))];
	for (unsigned i = 0; i < LS_FILTER6_BITS; i++) {
		const unsigned bit = (unsigned)LS_FILTER6_BIT(second, i);
		all = all && line->word[bit / 64] >> (bit % 64) & 1;
	}
	return all;
}

/* *ret_probes (may be NULL): how many lengths were asked. */
static inline unsigned lookup_label6(const struct ls_image *image, uint64_t high, uint64_t low,
				     unsigned *ret_probes)
{
	int from = 0, to = image->generation.n_lengths6 - 1;
	unsigned best = image->generation.label6, probes = 0;

	if (!(image->word & LS_WORD_LISTS6))
		return 0;
	while (from <= to) {
		const int middle = (from + to) / 2;
		const unsigned length = image->generation.lengths6[middle];
		const uint64_t high_mask = length >= 64 ? ~0ULL : ~(~0ULL >> length);
		const uint64_t low_mask = length <= 64	  ? 0
					  : length == 128 ? ~0ULL
							  : ~(~0ULL >> (length - 64));
		const int found = lookup_net6(image, high & high_mask, low & low_mask, length);

		probes++;
		if (found >= 0) {
			best = (unsigned)found;
			from = middle + 1;
		} else {
			to = middle - 1;
		}
	}
	if (!lookup_may_hold6(image, high))
		assert(best == image->generation.label6);
	if (ret_probes)
		*ret_probes = probes;
	return best;
}

/* What classification looks at. */
struct lookup_packet {
	bool has_protocol, has_ports;
	uint8_t protocol;
	uint16_t port, source_port;
	int vlan;  /* -1: untagged */
	int flags; /* -1: not TCP, or its header is not whole */
	unsigned from_label, to_label;
};

static inline unsigned lookup_port_row(const struct ls_image *image,
				       const struct lookup_packet *packet)
{
	const uint16_t *other = image->ports[LS_CHUNK_OTHER].row;
	unsigned chunk = LS_CHUNKS_SCTP;

	if (!packet->has_protocol)
		return other[LS_OTHER_NO_PROTOCOL];
	if (!packet->has_ports)
		return other[LS_OTHER_PROTOCOL + packet->protocol];
	if (packet->protocol == 6)
		chunk = LS_CHUNKS_TCP;
	else if (packet->protocol == 17)
		chunk = LS_CHUNKS_UDP;
	return image->ports[chunk + (packet->port >> 12)].row[packet->port & 4095];
}

/* Index of the first class that matches, -1: none. */
static inline int lookup_class(const struct ls_image *image, const struct lookup_packet *packet)
{
	const uint16_t *other = image->ports[LS_CHUNK_OTHER].row;
	const unsigned words = image->word >> LS_WORD_WORDS_SHIFT & 7;
	unsigned rows[6] = { 0 };

	if (image->word & LS_WORD_DIRECT) {
		const unsigned class = lookup_port_row(image, packet);

		return class == LS_DIRECT_NONE ? -1 : (int)class;
	}
	if (image->word & LS_WORD_PORTS)
		rows[0] = lookup_port_row(image, packet);
	if (image->word & LS_WORD_SOURCE_PORTS)
		rows[1] = packet->has_ports
				  ? image->ports[LS_CHUNKS_SOURCE + (packet->source_port >> 12)]
					    .row[packet->source_port & 4095]
				  : other[LS_OTHER_NO_SOURCE_PORT];
	if (image->word & LS_WORD_VLAN)
		rows[2] = packet->vlan < 0 ? other[LS_OTHER_NO_VLAN]
					   : image->ports[LS_CHUNK_VLAN].row[packet->vlan];
	if (image->word & LS_WORD_FLAGS)
		rows[3] = packet->flags < 0 ? other[LS_OTHER_NO_FLAGS]
					    : other[LS_OTHER_FLAGS + packet->flags];
	if (image->word & LS_WORD_FROM)
		rows[4] = image->labels[packet->from_label].from_row;
	if (image->word & LS_WORD_TO)
		rows[5] = image->labels[packet->to_label].to_row;
	for (unsigned word = 0; word < words; word++) {
		uint64_t bits = ~0ULL;

		for (unsigned i = 0; i < 6; i++)
			bits &= image->rows[word][rows[i]];
		if (bits)
			return (int)(word * 64) + __builtin_ctzll(bits);
	}
	return -1;
}

#endif
