/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_POLICY_ABI_H
#define LOADSHED_POLICY_ABI_H

/*
 * The policy as the kernel reads it: records and tables, never code. There are two generations of each;
 * the control word says which one is in force, and a packet reads that word once.
 *
 * Where each generation's records are: tables_abi.h.
 */

#include <linux/types.h>

#include "loadshed/bounds.h"

/* enum values below are ABI and shared with the policy model's enums by assertion in user/policy/compile.c */
#define LS_ABI_TOKEN_BUCKET 0
#define LS_ABI_FIXED_WINDOW 1
#define LS_ABI_SLIDING_WINDOW 2
#define LS_ABI_SLIDING_LOG 3

#define LS_ABI_PACKETS 0
#define LS_ABI_BYTES 1
#define LS_ABI_CONNECTIONS 2

#define LS_ABI_PER_SOURCE 0
#define LS_ABI_PER_PREFIX 1
#define LS_ABI_PER_FLOW 2
#define LS_ABI_PER_DESTINATION 3
#define LS_ABI_PER_CLASS 4

#define LS_ABI_LOW 0
#define LS_ABI_NORMAL 1
#define LS_ABI_HIGH 2
#define LS_ABI_CRITICAL 3

/* Tables that a limit's state can live in. */
#define LS_TABLE_SHORT 0  /* nothing in it outlives about 10 s, so a flood recycles its own dead */
#define LS_TABLE_LONG 1	  /* long windows: the least used share is evicted */
#define LS_TABLE_LOG 2	  /* sliding logs */
#define LS_TABLE_STRIKE 3 /* refusals towards a class ban */
#define LS_TABLES 4

/*
 * One limit: a cache line. Token bucket: the cost of c units is min(c, cap) * mult >> shift ticks; the
 * others count c itself. Rounding is down: the fastest representable error is 1 tick per packet.
 */
struct ls_limit_abi {
	__u64 mult; /* token bucket: ticks per unit, times 2^shift; windows: unused, 0 */
	__u64 cap;  /* token bucket: largest c for which c * mult cannot overflow 2^62 */
	__u64 tau;  /* token bucket: burst in ticks; windows: the limit in units */
	__u64 clamp; /* token bucket: furthest that a TAT may lie ahead, in ticks; see pure/bucket.h */
	__u64 window_ns; /* windows only */
	__u8 shift;
	__u8 algorithm;
	__u8 count;
	__u8 per;
	__u8 bits4,
		bits6; /* per prefix and source: how much of the source's address is the subject */
	__u8 table;
	__u8 flags; /* LS_LIMIT_F_* */
	__u16 slot;
	__u16 pad0;
	__u32 counter; /* first of LS_LIMIT_COUNTERS */
	__u64 pad1;
};

#define LS_LIMIT_F_SHARED 1U /* the bucket is not one source's: committed first, never NAT-scaled */

/* The limit holds for all nodes together: kern/hot.h. */
#define LS_LIMIT_F_CLUSTER 2U

#define LS_CLASS_F_MONITOR 1U
#define LS_CLASS_F_BAN 2U
/* All limits are token buckets per source in the short table: kern/judge.h has a short way for them. */
#define LS_CLASS_F_QUICK 4U
#define LS_CLASS_F_CLUSTER 8U /* some limit has LS_LIMIT_F_CLUSTER */

/* One class: a line of its own and one for each limit. */
struct ls_class_abi {
	__u8 flags; /* LS_CLASS_F_* */
	__u8 priority;
	__u8 n_limits;
	__u8 pad0;
	__u16 slot; /* class slot: part of the hash, so a class's limits of a subject share a set */
	__u16 ban_slot; /* limit slot of the strike counter */
	__u32 counter;	/* first of LS_CLASS_COUNTERS */
	__u32 ban_after;
	__u64 ban_within_ticks;
	__u64 ban_for_ns;
	__u64 pad1[4];
	struct ls_limit_abi limit[LS_CLASS_LIMITS];
};

/*
 * What must be known of a stranger's state to judge whether it may be evicted, by limit slot.
 * used >> share_shift is in 0..255 for a state within its limit, and full_share is that of a full one.
 */
struct ls_slot_abi {
	__u64 window_ns;
	__u64 limit; /* sliding log: how many stamps count */
	__u8 algorithm;
	__u8 known; /* 0: no limit of this generation has the slot, so its states are dead */
	__u8 share_shift;
	__u8 full_share;
	__u32 pad0;
	__u64 pad1;
};

/* What the combination of lists that an address is in means; by label. */
struct ls_label_abi {
	__u8 list; /* LS_LIST_* as a source: after longest prefix and tie have been resolved */
	__u8 pad0[3];
	__u32 factor;	/* NAT factor as a source; 0: in no `nat` entry */
	__u16 from_row; /* row of the classes that this source does not rule out */
	__u16 to_row;	/* row of the classes that this destination does not rule out */
	__u32 pad1;
};

#define LS_LIST_NONE 0
#define LS_LIST_ALLOW 1
#define LS_LIST_DENY 2

/*
 * Rows of class bitmaps by what a packet shows, 4096 at a time so that the array holds them densely
 * (array elements are rounded up to 8 bytes). Row 0 is "rules no class out".
 */
#define LS_ROW_CHUNK 4096
struct ls_rows_abi {
	__u16 row[LS_ROW_CHUNK];
};

/*
 * Chunks of one generation in ls_tables.ports: destination ports of three protocols, where the row
 * already includes the protocol; source ports; then what has no ports.
 */
#define LS_CHUNKS_TCP 0
#define LS_CHUNKS_UDP 16
#define LS_CHUNKS_SCTP 32
#define LS_CHUNKS_SOURCE 48 /* source ports, whatever the protocol */
#define LS_CHUNK_VLAN 64    /* by outer tag */
#define LS_CHUNK_OTHER 65   /* LS_OTHER_*: protocols without ports, flags */
#define LS_CHUNKS 66

/* Within LS_CHUNK_OTHER. Protocol numbers index it directly: protocol known, ports not. */
#define LS_OTHER_PROTOCOL 0
#define LS_OTHER_NO_PROTOCOL 256 /* the chain of headers was cut off */
#define LS_OTHER_NO_SOURCE_PORT 257
#define LS_OTHER_NO_VLAN 258
#define LS_OTHER_NO_FLAGS 259 /* not TCP, or TCP without its header */
#define LS_OTHER_FLAGS 512    /* + TCP flag byte */

/*
 * Lists of one generation: one array of lines, an inner map made to measure at apply.
 *   lines [0, cells4): when has4, 2^24 / 32 lines of u16 cells by the first 24 bits of an IPv4 address:
 *     low 8 bits: label of the address as far as prefixes up to /24 tell; high 8 bits: bit i set when
 *     a prefix of length 25 + i lies in this /24
 *   lines [hosts4, hosts4 + 2^hosts4_bits): buckets of 8 longer IPv4 prefixes
 *   lines [nets6, nets6 + 2^nets6_bits): buckets of 2 IPv6 prefixes and markers
 *   lines [filter6, filter6 + 2^filter6_bits): a blocked Bloom filter of those (Putze, Sanders and Singler,
 *     "Cache-, hash- and space-efficient Bloom filters", 2009): LS_FILTER6_BITS bits in one line for each.
 *     Most steps of the bisection find nothing; they then read a line of a table that the cache holds
 *     instead of two of one that it does not.
 * A bucket is chosen by either of two hashes; user space places entries so that all fit.
 */
struct ls_line {
	__u64 word[8];
};

/*
 * Before the cells: one word for each /16. Below LS_LABELS it is the label of the whole /16; with
 * LS_NET4_DEEP its low byte is the label that most of its cells have, and a bit for each /24 tells which have not: bit
 * LS_MARK4_BIT() of line LS_MARK4_LINE(). What is in no list is known without a look at the cells, which are 32 MB
 * and in no cache.
 */
#define LS_NETS4 65536
#define LS_NET4_DEEP 0x100
#define LS_CELLS4_LINES (1U << 19)
#define LS_MARKS4_LINES (1U << 15)
#define LS_MARK4_LINE(address) (LS_CELLS4_LINES + ((address) >> 17))
#define LS_MARK4_BIT(address) ((address) >> 8 & 511)

/* A prefix longer than /24: address << 32 | length << 8 | label; 0: free. */
#define LS_HOST4(address, length, label)                                                           \
	((__u64)(address) << 32 | (__u64)(length) << 8 | (__u64)(label))
#define LS_HOST4_KEY(entry) ((entry) & ~0xffULL)

/* An IPv6 prefix or a marker of a longer one. */
struct ls_net6 {
	__u64 high, low; /* masked */
	__u64 length;	 /* 1 to 128; 0: free */
	__u64 label;	 /* of the longest prefix that covers it, itself included */
};

#define LS_NETS6_LINE 2

/*
 * Addresses that are in no list are most of a flood's. The filter also holds, under a length that no prefix has, the
 * first `root6` bits of every prefix (of a shorter one, all that begin with it): what is not among them needs no
 * bisection.
 */
#define LS_ROOT6(length) ((length) + 256)

/* Bit number i of an entry in its line of the filter, out of its second hash (whose high bits are the good ones). */
#define LS_FILTER6_BITS 3
#define LS_FILTER6_BIT(second_hash, i) ((second_hash) >> (55 - 9 * (i)) & 511)

/* Per generation, what the stages need to find their tables: part of the control record. */
struct ls_generation_abi {
	__u32 cells4; /* lines, of marks too; 0 or 2^19 + 2^15 */
	__u32 hosts4;
	__u32 nets6;
	__u8 hosts4_bits;
	__u8 nets6_bits;
	__u8 n_lengths6; /* prefix lengths in use (of prefixes and markers: only real prefixes' lengths) */
	__u8 root6;   /* LS_ROOT6() of this length are in the filter; 0: there are none */
	__u16 label6; /* label of an IPv6 address that only ::/0 covers, or none */
	__u16 pad0;
	__u32 n_classes;
	__u64 seed[8];			/* odd multipliers of the list hashes */
	__u8 lengths6[LS_LENGTHS6 + 7]; /* ascending; searched by bisection */
	__u32 filter6;
	__u32 filter6_bits;
	__u64 pad1[3];
	/* overload max: GCRA of both kinds; mult 0: not given */
	struct ls_limit_abi overload_packets;
	struct ls_limit_abi overload_connections;
};

_Static_assert(sizeof(struct ls_limit_abi) == 64, "a line");
_Static_assert(sizeof(struct ls_class_abi) == 64 + 64 * LS_CLASS_LIMITS, "lines");
_Static_assert(sizeof(struct ls_slot_abi) == 32, "half a line");
_Static_assert(sizeof(struct ls_label_abi) == 16, "a quarter of a line");
_Static_assert(sizeof(struct ls_net6) * LS_NETS6_LINE == sizeof(struct ls_line), "a line");
_Static_assert(sizeof(struct ls_generation_abi) % 64 == 0, "lines");

#endif
