/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_PURE_SUMMARY_H
#define LOADSHED_PURE_SUMMARY_H

/*
 * Heavy hitters at the cost of a decrement per packet: a sample of the packets, and of that the Space-Saving summary
 * (Metwally, Agrawal and El Abbadi, "Efficient computation of frequent and top-k elements in data streams", ICDT 2005),
 * one of eight ways in each of 256 sets.
 *
 * Sampling. Every packet is a sample with probability 2^-shift, independent of all others and of what anybody can
 * know: bit i of the AND of `shift` random words is 1 with exactly that probability, so 64 packets are decided at once,
 * and what is kept per packet is a count down to the next. A sample counts 2^shift packets. The estimate of a source of
 * n packets is unbiased with variance n * (w - 1), w the largest weight of the epoch; so with z standard
 * deviations (z = 4: 99.99 %)
 *	|estimate - n| <= z * sqrt((w - 1) * estimate + (z * (w - 1) / 2)^2) + z^2 * (w - 1) / 2
 * (the score interval: |estimate - n| <= z * sqrt(n * (w - 1)) solved for n). At shift 0 it is exact.
 * `shift` follows the rate: 8192 samples an epoch on a CPU (of 0.54 s) at most in steady traffic; when it rises, 2048
 * more for each doubling. So a CPU that sees less than 11 000 packets a second counts all of them, and one that sees millions spends
 * 0.1 % of its time here.
 *
 * Space-Saving. A key that its set has no way for takes over the one with the fewest packets m and goes on from there,
 * with error m. Then for each key: packets - error <= its weight of samples <= packets, and of a key that is in no way,
 * its weight is at most the smallest `packets` of its set. As the packets of a set add up to its weight W, that
 * smallest one is at most W / 8, and what weighs more is in the set for certain, whoever else sends and in what order.
 * Keys come to sets by a keyed hash, so W is about 1/256 of all; a very heavy one holds one way and leaves the
 * bound to the other seven. With what sampling and the hash add by chance, a source of 1/200 of the packets of a CPU
 * is there: in all of the 320 trials of tests/twin/test_top.c (LS_LONG=1) under floods made to push it out.
 * What is shown is packets - error, with m and the sampling error as its bound.
 *
 * `bytes` counts since the key has its way: a lower bound, off by the share of packets that `error` says.
 */

#include "loadshed/top_abi.h"
#include "pure/base.h"
#include "pure/packet.h"

#define LS_TOP_SAMPLES 8192U	  /* of an epoch before shift grows */
#define LS_TOP_SAMPLES_MORE 2048U /* after that, for each doubling */
#define LS_TOP_EXPECTED 6144U /* shift at the start of an epoch: as many if it goes on as before */
#define LS_TOP_SHIFT_MAX 16

/* splitmix64 (Steele, Lea and Flood, 2014): equidistributed, passes BigCrush. */
LS_INLINE __u64 ls_sampler_random(__u64 *state)
{
	__u64 z = *state += 0x9e3779b97f4a7c15ULL;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

/* How many of the next packets are to be let go. The one after them is a sample if ->is_due, else it is for this
 * function again. */
LS_INLINE __u32 ls_sampler_draw(struct ls_top_sampler *sampler)
{
	if (!sampler->left) {
		__u64 bits = ~0ULL, random = sampler->random;
		__u32 shift = sampler->shift;
		LS_NO_UNROLL
		for (__u32 i = 0; i < LS_TOP_SHIFT_MAX; i++) {
			if (i >= shift)
				break;
			bits &= ls_sampler_random(&random);
		}
		sampler->random = random;
		sampler->bits = bits;
		sampler->left = 64;
	}
	__u64 bits = sampler->bits;
	if (!bits) {
		__u32 rest = sampler->left;
		sampler->is_due = 0;
		sampler->left = 0;
		return rest;
	}
	__u32 gap = ls_lowest_bit(bits);
	sampler->bits = bits >> gap >> 1;
	sampler->left -= gap + 1;
	sampler->is_due = 1;
	return gap;
}

/* Makes the next draw one of `shift`: what is left of the window is forgotten, which changes no probability. */
LS_INLINE void ls_sampler_set_shift(struct ls_top_sampler *sampler, __u32 shift)
{
	sampler->shift = shift;
	sampler->left = 0;
}

/* Goes on to the epoch of `number`. */
LS_INLINE void ls_sampler_enter(struct ls_top_sampler *sampler, __u64 number)
{
	__u64 expected = number == sampler->epoch + 1 ? sampler->packets : 0;
	__u32 shift = 0;
	LS_NO_UNROLL
	for (__u32 i = 0; i < LS_TOP_SHIFT_MAX; i++) {
		if (expected <= LS_TOP_EXPECTED)
			break;
		expected >>= 1;
		shift++;
	}
	sampler->epoch = number;
	sampler->packets = 0;
	sampler->samples = 0;
	sampler->allowed = LS_TOP_SAMPLES;
	ls_sampler_set_shift(sampler, shift);
}

/* Counts a sample of that weight, and thins out if there are more than were expected. */
LS_INLINE void ls_sampler_count(struct ls_top_sampler *sampler, __u32 weight)
{
	sampler->packets += weight;
	sampler->samples++;
	if (sampler->samples < sampler->allowed || sampler->shift >= LS_TOP_SHIFT_MAX)
		return;
	sampler->allowed += LS_TOP_SAMPLES_MORE;
	ls_sampler_set_shift(sampler, sampler->shift + 1);
}

/* What a sample adds. */
struct ls_summary_item {
	__u64 key;
	__u64 bytes; /* all scaled by the weight already */
	__u32 at;
	__u32 packets;
	__u32 drops;
};

/* The set of a key, below LS_TOP_SETS: multilinear hashing as in pure/hash.h, with four keys that it does not use. The
 * interface has no part in it, so that all ways of a source are in one set. */
LS_INLINE __u32 ls_summary_set(const __u64 *hash_key, __u64 key, __u32 is_ipv6)
{
	__u64 sum = hash_key[12] + hash_key[13] * (__u32)key + hash_key[14] * (__u32)(key >> 32) +
		    hash_key[15] * is_ipv6;
	return (__u32)(sum >> 32) & (LS_TOP_SETS - 1);
}

/* What a source is filed under in the summaries of sources and of prefixes. */
LS_INLINE __u64 ls_summary_key(struct ls_address source, __u8 family, __u32 kind)
{
	__u64 key = family == 4 ? source.low : source.high;
	if (kind < LS_TOP_PREFIXES)
		return key;
	return family == 4 ? key & ~0xffULL : key & ~0xffffULL;
}

/*
 * Adds to the way of the key, or to the one that it takes over. A way is looked for and the smallest one, at once: a
 * match counts less than any number of packets.
 */
LS_INLINE void ls_summary_add(struct ls_top_set *set, __u32 epoch,
			      const struct ls_summary_item *item)
{
	if (set->epoch != epoch) {
		for (int i = 0; i < LS_TOP_WAYS; i++)
			set->packets[i] = 0;
		set->epoch = epoch;
	}
	__u64 best = ~0ULL;
	for (__u32 i = 0; i < LS_TOP_WAYS; i++) {
		__u64 rank = ((__u64)set->packets[i] << 4) + LS_TOP_WAYS + i;
		if (set->key[i] == item->key && set->at[i] == item->at && set->packets[i])
			rank = i;
		best = rank < best ? rank : best;
	}
	__u32 way = (__u32)ls_bounded(best, LS_TOP_WAYS);
	if (best >= LS_TOP_WAYS) {
		set->error[way] = set->packets[way];
		set->key[way] = item->key;
		set->at[way] = item->at;
		set->bytes[way] = 0;
		set->drops[way] = 0;
	}
	set->packets[way] += item->packets;
	set->bytes[way] += item->bytes;
	set->drops[way] += item->drops;
}

#endif
