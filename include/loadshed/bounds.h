/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_BOUNDS_H
#define LOADSHED_BOUNDS_H

/*
 * The sizes and bounds that kernel and user space share, each with its reason and its cost.
 */

#define LS_CLASSES 256 /* classes per policy: four 64-bit words of every class bitmap */
#define LS_CLASS_WORDS (LS_CLASSES / 64)
#define LS_CLASS_LIMITS 8    /* limits per class: the bound of the loops that check and commit */
#define LS_NAME_BYTES 32     /* names are at most 31 characters and a NUL */
#define LS_VLAN_TAGS 2	     /* tags walked before a packet is malformed */
#define LS_IPV6_EXTENSIONS 8 /* extension headers walked before a packet is malformed */
#define LS_LABELS 256	     /* label 0 is "in no list", so 255 combinations of lists can exist */
#define LS_NAT_FACTOR 10000  /* largest NAT factor */
#define LS_LOG_STAMPS                                                                              \
	64 /* stamps of one sliding log, so the largest limit (after NAT) of that kind */
#define LS_FRAME_BYTES_MAX                                                                         \
	(1U << 19) /* largest merged super-packet: GSO_MAX_SIZE is 8 * 65535 (6.3) */

/*
 * Time in the tables is in ticks of 1/64 ns since the epoch that is taken at attach. 2^64 of them are
 * 9.1 years; comparisons are modular, so what counts is that no state lies further ahead than half of
 * that. The largest refill time (burst / rate) is therefore bounded by 2^61 ticks, 417 days, and the
 * debt of one packet by 2^62.
 */
#define LS_TICKS_PER_NS_SHIFT 6
#define LS_TAU_TICKS_MAX (1ULL << 61)
#define LS_COST_TICKS_MAX (1ULL << 62)

/* The three windows' bounds: what their state words hold (see pure/window.h). */
#define LS_WINDOW_NS_MIN 1000000000ULL
#define LS_WINDOW_NS_MAX (30ULL * 86400 * 1000000000)
#define LS_FIXED_LIMIT_MAX 999999999999ULL /* < 10^12: 40 bits of count */
#define LS_SLIDING_LIMIT_MAX 1000000ULL	   /* 20 bits of count */

/* Refusals that a `ban.after` may ask for. */
#define LS_BAN_AFTER_MAX 1000000000ULL

/*
 * Limit slots: 12 bits of a table key. A slot is given to a (class, limit) identity and survives edits;
 * 4096 are twice what two generations of 256 classes with 8 limits need at most in practice. The last
 * ones are the program's own limits.
 */
#define LS_SLOT_BITS 12
#define LS_SLOTS (1U << LS_SLOT_BITS)
#define LS_SLOT_ICMP_ERRORS (LS_SLOTS - 1) /* step 7: ICMP errors per source */
#define LS_SLOT_CONTROL (LS_SLOTS - 2)	   /* step 3: what keeps links alive, per node */
#define LS_SLOT_OVERLOAD_PACKETS (LS_SLOTS - 3)
#define LS_SLOT_OVERLOAD_CONNECTIONS (LS_SLOTS - 4)
#define LS_SLOT_PANIC_CONNECTIONS (LS_SLOTS - 5)
#define LS_SLOT_PANIC_PACKETS (LS_SLOTS - 6)
#define LS_SLOT_GUARD (LS_SLOTS - 7)	/* of overload shedding (overload_abi.h) */
#define LS_SLOTS_POLICY (LS_SLOTS - 16) /* slots 1 to this - 1 are the policy's; 0 is never used */

/* Class slots: given by name, kept over edits; twice the classes, so that a whole policy can be renamed. */
#define LS_CLASS_SLOTS (2 * LS_CLASSES)
#define LS_CLASS_SLOT_ICMP_ERRORS (LS_CLASS_SLOTS + 0) /* for the hash only */
#define LS_CLASS_SLOT_PANIC (LS_CLASS_SLOTS + 1)
#define LS_CLASS_SLOT_LEVEL (LS_CLASS_SLOTS + 2)
#define LS_CLASS_SLOT_FLOWS (LS_CLASS_SLOTS + 3)

/*
 * Rows: distinct bitmaps of classes over all dimensions (ports, flags, tags, labels), per generation.
 * 16384 * 4 words * 2 generations * 8 bytes are 1 MiB.
 */
#define LS_ROWS 16384

/* CPUs that the program has a record for (a power of two: the index is masked). 1.3 KiB each. */
#define LS_CPUS 512

/* Interfaces with counters of their own; bank 0 takes those that came after. */
#define LS_BANKS 8

/* Counters per CPU and bank: 16 bytes each. */
#define LS_COUNTERS 20480

/* Prefix lengths of IPv6, 0 to 128: the bound of the list of those in use. */
#define LS_LENGTHS6 129

#endif
