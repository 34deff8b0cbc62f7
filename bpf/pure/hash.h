/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_PURE_HASH_H
#define LOADSHED_PURE_HASH_H

/*
 * From a subject to its place: multilinear hashing, h = k0 + sum of k[i] * w[i] modulo 2^64 over 32-bit
 * words, of which the top 32 bits are strongly universal when the keys are random and secret (Lemire and
 * Kaser, "Strongly universal string hashing is fast", Computer Journal 2014): whoever does not know the
 * keys finds two colliding subjects with probability 2^-32 per pair and sum, whatever he picks. Two sums
 * with keys of their own give the set and the tag. It costs a multiplication per word and sum, against about
 * 10 ns more for SipHash-1-3.
 *
 * The class is a word of the hash and the limit's slot is not: all limits of a subject in a class share a
 * set, so a packet with three limits waits for memory once.
 */

#include "loadshed/bounds.h"
#include "loadshed/policy_abi.h"
#include "pure/base.h"
#include "pure/packet.h"

/* The word positions. A position that a subject lacks counts as 0 and costs nothing. */
enum {
	LS_HASH_TAG,	    /* class slot, kind and family: so that no two kinds of subject alias */
	LS_HASH_SOURCE = 1, /* 1..4 */
	LS_HASH_TARGET = 5, /* 5..8 */
	LS_HASH_PORTS = 9,
	LS_HASH_PROTOCOL = 10,
	LS_HASH_TAG_KEYS = 16, /* the keys of the second sum */
};

struct ls_hash {
	__u64 place; /* its top 32 bits choose the set */
	__u64 tag;   /* its top 52 bits are the key's */
};

LS_INLINE void ls_hash_add(struct ls_hash *hash, const __u64 *key, __u32 position, __u32 word)
{
	hash->place += key[1 + position] * word;
	hash->tag += key[LS_HASH_TAG_KEYS + 1 + position] * word;
}

LS_INLINE void ls_hash_address(struct ls_hash *hash, const __u64 *key, __u32 position,
			       struct ls_address address, __u8 family)
{
	ls_hash_add(hash, key, position, (__u32)address.low);
	if (family == 4)
		return;
	ls_hash_add(hash, key, position + 1, (__u32)(address.low >> 32));
	ls_hash_add(hash, key, position + 2, (__u32)address.high);
	ls_hash_add(hash, key, position + 3, (__u32)(address.high >> 32));
}

/* `kind` is LS_ABI_PER_*; below 16. */
LS_INLINE struct ls_hash ls_hash_start(const __u64 *key, __u32 class_slot, __u32 kind, __u8 family)
{
	struct ls_hash hash = { key[0], key[LS_HASH_TAG_KEYS] };
	ls_hash_add(&hash, key, LS_HASH_TAG, class_slot << 8 | kind << 4 | family);
	return hash;
}

/* The /32 or /64 that a source is: what `per: source` means. */
LS_INLINE struct ls_hash ls_hash_source(const __u64 *key, __u32 class_slot, __u32 kind,
					const struct ls_packet *packet)
{
	struct ls_hash hash = ls_hash_start(key, class_slot, kind, packet->family);
	if (packet->family == 4) {
		ls_hash_add(&hash, key, LS_HASH_SOURCE, (__u32)packet->source.low);
	} else {
		ls_hash_add(&hash, key, LS_HASH_SOURCE + 2, (__u32)packet->source.high);
		ls_hash_add(&hash, key, LS_HASH_SOURCE + 3, (__u32)(packet->source.high >> 32));
	}
	return hash;
}

/* A subject other than the plain source. per, bits4, bits6 as in struct ls_limit_abi. */
LS_INLINE struct ls_hash ls_hash_other(const __u64 *key, __u32 class_slot, __u32 per, __u32 bits4,
				       __u32 bits6, const struct ls_packet *packet)
{
	__u8 family = packet->family;
	struct ls_hash hash =
		ls_hash_start(key, class_slot, per, per == LS_ABI_PER_CLASS ? 0 : family);
	if (per == LS_ABI_PER_PREFIX) {
		struct ls_address prefix =
			ls_masked(packet->source, family, family == 4 ? bits4 & 63 : bits6 & 255);
		ls_hash_address(&hash, key, LS_HASH_SOURCE, prefix, family);
	} else if (per == LS_ABI_PER_DESTINATION) {
		ls_hash_address(&hash, key, LS_HASH_TARGET, packet->destination, family);
	} else if (per == LS_ABI_PER_FLOW) {
		ls_hash_address(&hash, key, LS_HASH_SOURCE, packet->source, family);
		ls_hash_address(&hash, key, LS_HASH_TARGET, packet->destination, family);
		ls_hash_add(&hash, key, LS_HASH_PORTS,
			    packet->known & LS_KNOWN_PORTS
				    ? (__u32)packet->source_port << 16 | packet->port
				    : 0);
		ls_hash_add(&hash, key, LS_HASH_PROTOCOL,
			    packet->known & LS_KNOWN_PROTOCOL ? packet->protocol : 256);
	}
	return hash;
}

LS_INLINE __u64 ls_hash_key(struct ls_hash hash, __u32 slot)
{
	return (hash.tag & ~(__u64)(LS_SLOTS - 1)) | slot;
}

LS_INLINE __u32 ls_hash_set(struct ls_hash hash, __u32 mask)
{
	return (__u32)(hash.place >> 32) & mask;
}

#endif
