/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_KERN_LISTS_H
#define LOADSHED_KERN_LISTS_H

/*
 * Which lists an address is in, as one label, whatever the number of entries.
 *
 * IPv4: a word for each /16 tells the label where all of it has the same, which with a list that is not of the whole
 * world is nearly everywhere. Else a bit for each /24 tells whether it is unlike most of its /16. Only if it is, one cell
 * per /24 is read, which tells the label as far as prefixes up to /24 go, and which longer lengths exist in this /24;
 * those are asked by exact probes, longest first. 128 KiB of words and 2 MB of bits stay nearer than 32 MB of cells.
 *
 * IPv6: bisection over the prefix lengths in use with markers (Waldvogel, Varghese, Turner and Plattner, "Scalable high
 * speed IP routing lookups", SIGCOMM 1997): at most 8 probes for any list. Mostly it is one, of the filter alone: whether
 * any entry begins as the address does (policy_abi.h: root6). Every entry carries the label of its longest cover, so the
 * first hit from the long end is the answer. Kernel LPM tries cost 128 ns at 1000 entries and about 1 us at 1 M.
 *
 * What each stage buys, by `loadshed bench lists` with and without it in turns, in ns over no lists:
 * - the word for each /16: with 1 k prefixes 3 instead of 8 from 1 k sources, about 20 instead of 65 from random ones; it
 *   costs 2 where entries lie in every /16, as in a made-up list of 120 k.
 * - the bit for each /24, behind it: 2 MB instead of 32 give back that 2, and 8 of 76 from random ones at 1 M prefixes.
 *   A bit for each /22, 512 KB, is no better: more of them say nothing.
 * - the roots in the filter of IPv6: 11 instead of 33 from 1 k sources; from random ones 54 instead of 90 at 120 k
 *   prefixes, 83 instead of 150 at 1 M. An address that is in a list pays one look-up more, 7 ns.
 */

#include "kern/job.h"

LS_INLINE struct ls_generation_abi *ls_generation(__u32 half)
{
	return &ls_control.generation[half & 1];
}

/* Looks for LS_HOST4 entries of one length; returns the label, or -1. */
LS_INLINE int ls_host4_probe(void *lists, const struct ls_generation_abi *generation, __u32 address,
			     __u32 length)
{
	__u32 masked = address & (0xffffffffU << (32 - length));
	__u64 wanted = LS_HOST4(masked, length, 0);
	__u64 mixed = masked ^ length * 0x9E3779B9U;
	__u32 shift = (64U - generation->hosts4_bits) & 63U;
#pragma clang loop unroll(disable)
	for (int choice = 0; choice < 2; choice++) {
		__u32 index =
			generation->hosts4 + (__u32)(mixed * generation->seed[choice] >> shift);
		struct ls_line *line = bpf_map_lookup_elem(lists, &index);
		if (!line)
			return -1;
		for (int i = 0; i < 8; i++)
			if (LS_HOST4_KEY(line->word[i]) == wanted)
				return (int)(line->word[i] & 0xff);
	}
	return -1;
}

/* The label of an IPv4 address in whose /24 longer prefixes lie; `lengths`: bit i for length 25 + i. */
__attribute__((noinline)) int ls_label_host4(__u32 half, __u32 address, __u32 lengths, __u32 label)
{
	__u32 key = half & 1;
	void *lists = bpf_map_lookup_elem(&ls_lists, &key);
	if (!lists)
		return (int)(label & 0xff);
	struct ls_generation_abi *generation = ls_generation(half);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < 8; i++) {
		__u32 length = 32 - i;
		if (!(lengths >> (length - 25) & 1))
			continue;
		int found = ls_host4_probe(lists, generation, address, length);
		if (found >= 0)
			return found;
	}
	return (int)(label & 0xff);
}

LS_INLINE int ls_net6_hit(const struct ls_net6 *net, struct ls_address address, __u32 length)
{
	return net->length == length && net->high == address.high && net->low == address.low;
}

struct ls_hashes6 {
	__u64 first, second;
};

LS_INLINE struct ls_hashes6 ls_net6_hashes(const __u64 *seed, struct ls_address address,
					   __u32 length)
{
	__u64 a = (__u32)address.high, b = address.high >> 32;
	__u64 c = (__u32)address.low, d = address.low >> 32;
	struct ls_hashes6 hashes = {
		a * seed[0] + b * seed[1] + c * seed[2] + d * seed[3] + length * seed[4],
		a * seed[5] + b * seed[6] + c * seed[7] + d * seed[1] + length * seed[3],
	};
	return hashes;
}

/* 0: no entry has these hashes. */
LS_INLINE int ls_filter6_may_hold(void *lists, const struct ls_generation_abi *generation,
				  struct ls_hashes6 hashes)
{
	__u32 shift = (64U - generation->filter6_bits) & 63U;
	__u32 index = generation->filter6 + (__u32)(hashes.first >> shift);
	struct ls_line *line = bpf_map_lookup_elem(lists, &index);
	if (!line)
		return 1;
	__u64 all = 1;
#pragma clang loop unroll(full)
	for (int i = 0; i < LS_FILTER6_BITS; i++) {
		__u32 bit = (__u32)LS_FILTER6_BIT(hashes.second, i);
		all &= line->word[bit >> 6] >> (bit & 63);
	}
	return (int)all;
}

/* The label of (address masked to length), or -1 when neither prefix nor marker stands there. */
LS_INLINE int ls_net6_probe(void *lists, const struct ls_generation_abi *generation,
			    struct ls_address address, __u32 length)
{
	struct ls_hashes6 hashes = ls_net6_hashes(generation->seed, address, length);
	__u32 shift = (64U - generation->nets6_bits) & 63U;
	if (!ls_filter6_may_hold(lists, generation, hashes))
		return -1;
#pragma clang loop unroll(disable)
	for (int choice = 0; choice < 2; choice++) {
		__u32 index = generation->nets6 +
			      (__u32)((choice ? hashes.second : hashes.first) >> shift);
		struct ls_line *line = bpf_map_lookup_elem(lists, &index);
		if (!line)
			return -1;
		const struct ls_net6 *net = (const struct ls_net6 *)line;
		for (int i = 0; i < LS_NETS6_LINE; i++)
			if (ls_net6_hit(&net[i], address, length))
				return (int)(net[i].label & 0xff);
	}
	return -1;
}

__attribute__((noinline)) int ls_label_net6(__u32 half, __u64 high, __u64 low)
{
	struct ls_generation_abi *generation = ls_generation(half);
	struct ls_address address = { high, low };
	int label = generation->label6 & 0xff;
	__u32 key = half & 1;
	void *lists = bpf_map_lookup_elem(&ls_lists, &key);
	if (!lists)
		return label;
	__u32 root = generation->root6;
	if (root &&
	    !ls_filter6_may_hold(
		    lists, generation,
		    ls_net6_hashes(generation->seed, ls_masked(address, 6, root), LS_ROOT6(root))))
		return label;
	int from = 0, to = (int)generation->n_lengths6 - 1;
#pragma clang loop unroll(disable)
	for (int i = 0; i < 8; i++) { /* 2^8 > the 128 lengths there are */
		from = (int)ls_opaque((__u32)from);
		to = (int)ls_opaque((__u32)to);
		if (from > to)
			break;
		__u32 middle = (__u32)(from + to) / 2;
		if (middle >= LS_LENGTHS6)
			break;
		__u32 length = generation->lengths6[middle];
		int found = ls_net6_probe(lists, generation, ls_masked(address, 6, length), length);
		if (found >= 0) {
			label = found;
			from = (int)middle + 1;
		} else {
			to = (int)middle - 1;
		}
	}
	return label;
}

/* The label of an IPv4 address whose /16 has more than one; `label` is that of most. */
LS_INLINE __u32 ls_label_deep4(const struct ls_job *job, __u32 address, __u32 label)
{
	__u32 key = job->half & 1;
	void *lists = bpf_map_lookup_elem(&ls_lists, &key);
	if (!lists)
		return 0;
	__u32 index = LS_MARK4_LINE(address), bit = LS_MARK4_BIT(address);
	struct ls_line *marks = bpf_map_lookup_elem(lists, &index);
	if (marks && !(marks->word[bit >> 6] >> (bit & 63) & 1))
		return label;
	index = address >> 13; /* 32 cells of a /24 each to a line */
	struct ls_line *line = bpf_map_lookup_elem(lists, &index);
	if (!line)
		return 0;
	__u32 cell = ((const __u16 *)line)[(address >> 8) & 31];
	if (LS_LIKELY(cell < 256))
		return cell;
	return (__u32)ls_label_host4(job->half, address, cell >> 8, cell & 0xff) & 0xff;
}

/* The label of an address of the packet's family: 0 (in no list) when this family has no lists. */
/* By pointer: a copy of the address is read byte by byte. */
LS_INLINE __u32 ls_label(const struct ls_job *job, const struct ls_address *address)
{
	if (job->packet.family == 6) {
		if (!(job->word & LS_WORD_LISTS6))
			return 0;
		return (__u32)ls_label_net6(job->half, address->high, address->low) & 0xff;
	}
	if (!(job->word & LS_WORD_LISTS4))
		return 0;
	__u32 low = (__u32)address->low;
	__u32 net =
		ls_static.tables
			.nets4[ls_bounded((job->half & 1) * LS_NETS4 + (low >> 16), 2 * LS_NETS4)];
	return LS_LIKELY(net < LS_NET4_DEEP) ? net : ls_label_deep4(job, low, net & 0xff);
}

LS_INLINE struct ls_label_abi *ls_label_of(const struct ls_job *job, __u32 label)
{
	return &ls_static.tables.labels[ls_bounded(
		job->half * LS_LABELS + (label & (LS_LABELS - 1)), 2 * LS_LABELS)];
}

#endif
