/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_CONTROL_ABI_H
#define LOADSHED_CONTROL_ABI_H

/*
 * The control record: what every packet reads first, and the only thing that a publish changes at once.
 */

#include <linux/types.h>

#include "loadshed/policy_abi.h"

/*
 * Raised when an older build would misread what a newer one wrote, or the other way round: a field that moved or means
 * something else. Not for a map that the older build does not know and leaves alone (its attach and ours take maps by name),
 * nor for what was always 0 and still means "not there" when it is 0: bits of the word, flags, `hot_until`.
 * So overload, sharing, events and top left it at 1; a record that changes its size is found by that. 2: the words and
 * marks before the cells of a list, and the roots in its filter.
 */
#define LS_ABI_VERSION 2

/*
 * The control word. One 64-bit store publishes a generation together with the stages that it needs, so
 * that no packet can see one generation's tables with another's stages.
 */
#define LS_WORD_GENERATION 1ULL	    /* which half of the tables */
#define LS_WORD_MONITOR (1ULL << 1) /* the policy's mode, or `attach --monitor` */
#define LS_WORD_MALFORMED_PASS (1ULL << 2)
#define LS_WORD_LISTS4 (1ULL << 3) /* some IPv4 address has a label */
#define LS_WORD_LISTS6 (1ULL << 4)
#define LS_WORD_PORTS (1ULL << 5) /* a class asks for protocols or destination ports */
#define LS_WORD_SOURCE_PORTS (1ULL << 6)
#define LS_WORD_VLAN (1ULL << 7)
#define LS_WORD_FLAGS (1ULL << 8)
#define LS_WORD_FROM (1ULL << 9)
#define LS_WORD_TO (1ULL << 10)
#define LS_WORD_OVERLOAD (1ULL << 11)
/*
 * Protocols and destination ports are all that any class asks for: the rows of LS_CHUNKS_TCP to _SCTP and of
 * LS_OTHER_PROTOCOL hold the class itself, or LS_DIRECT_NONE, instead of a row.
 */
#define LS_WORD_DIRECT (1ULL << 13)
#define LS_DIRECT_NONE 0xffffU
#define LS_WORD_TIMED (1ULL << 12) /* look at off_until, panic_until and confirm_until */
#define LS_WORD_LEVEL (1ULL << 14) /* new work is counted by index, and a level may refuse it */
#define LS_WORD_OVERLOAD_MONITOR (1ULL << 20) /* what `overload` refuses is only counted */
#define LS_WORD_BREAKERS (1ULL << 21)	      /* some class has a breaker */
#define LS_WORD_WORDS_SHIFT 16		      /* class bitmap words in use, 0 to 4: three bits */
/* Never in the record: what a packet makes of panic_until in its own copy of the word. */
#define LS_WORD_PANIC (1ULL << 19)
#define LS_WORD_NUMBER_SHIFT 32 /* the generation number that people see, from 1 */

#define LS_HASH_KEYS 32
#define LS_BANK_SLOTS 256

/* Which counters an interface's packets go to: slot ifindex % LS_BANK_SLOTS; others go to bank 0. */
struct ls_bank_abi {
	__u32 ifindex;
	__u32 bank;
};

struct ls_control {
	/* The first line is read by every packet. */
	__u64 word;
	__u64 epoch_ns; /* CLOCK_MONOTONIC when the tables were made: tick 0 */
	__u64 wall_ns; /* CLOCK_REALTIME at epoch_ns, refreshed by whoever publishes (drift, steps) */
	__u64 ban_lengths4; /* bit L - 1: some IPv4 ban has length L, 1 to 32 */
	__u64 ban_lengths6; /* bit L - 1: some IPv6 ban has length L, 1 to 64 */
	__u64 zero;	    /* always 0, which the verifier cannot know: see pure/packet.h */
	__u64 hot_until; /* nodes share limits until then, in ns since the epoch (kern/hot.h); 0: they do not */
	__u64 pad0;

	/* What is temporary: read only when LS_WORD_TIMED is set (pure/timed.h). In ns since the epoch, as of bans;
	 * 0: not set. */
	__u64 off_until;
	__u64 panic_until;
	__u64 confirm_until;
	__u64 previous_word; /* in force again once confirm_until has passed */
	__u64 pad1[4];

	/* Secret, odd where they are multipliers; drawn once, kept over upgrades. */
	__u64 hash_key[LS_HASH_KEYS];

	/* Trouble and pressure, counted with atomics: none of them is on a common path. */
	__u64 evicted;	     /* long table: least used share evicted */
	__u64 unplaced_long; /* long and log tables: newcomer found no place and passed */
	__u64 contended;     /* packets that passed uncharged: their commit lost every try */
	__u64 bans_lost;     /* a class ban found no place in its two sets */
	__u64 pad2[4];

	struct ls_bank_abi bank[LS_BANK_SLOTS];
	struct ls_generation_abi generation[2];
	__u32 abi_version;
	__u32 pad3;
	__u64 pad4[7];
};

/* A counter: exact, one writer (its CPU). */
struct ls_counter {
	__u64 packets;
	__u64 bytes;
};

/*
 * Counter numbers. First the verdicts before any class, by verdict and reason; then blocks that the
 * ledger hands out to classes and limits by name, so that they survive edits.
 */
#define LS_COUNTER_GLOBAL(verdict, reason) ((verdict)*16 + (reason))
/*
 * What the counters of forgotten names have held. Added up by user space, CPU by CPU, in places of the same 48 that no
 * packet counts into: only `malformed`, of the reasons that drop, can pass, and none that passes can drop.
 */
#define LS_COUNTER_FOLDED(verdict, reason) LS_COUNTER_GLOBAL(verdict, ((reason) + 8) % 16)
#define LS_COUNTERS_GLOBAL 48
#define LS_CLASS_COUNTERS 8
#define LS_CLASS_COUNTER_ADMITTED 0
#define LS_CLASS_COUNTER_INTERNAL 1
#define LS_CLASS_COUNTER_OVERLOAD_DROP 2
#define LS_CLASS_COUNTER_OVERLOAD_WOULD 3
#define LS_CLASS_COUNTER_PANIC_DROP 4
#define LS_CLASS_COUNTER_PANIC_WOULD 5
#define LS_LIMIT_COUNTERS 4
#define LS_LIMIT_COUNTER_DROP 0
#define LS_LIMIT_COUNTER_CROWD_DROP 1
#define LS_LIMIT_COUNTER_WOULD 2
#define LS_LIMIT_COUNTER_CROWD_WOULD 3

struct ls_counters {
	struct ls_counter counter[LS_COUNTERS];
};

/* What `replay` and tests ask for: the clock of one packet in, its verdict out. */
struct ls_replay_abi {
	__u64 now_ns;	  /* in: Unix time of the packet; becomes both clocks */
	__u32 wire_bytes; /* in: length on the wire; the frame handed in may be shorter */
	__u32 pad0;
	__u8 verdict;	   /* out: enum ls_verdict */
	__u8 reason;	   /* out: enum ls_reason */
	__u8 limit;	   /* out: index within the class, 255: none */
	__u8 family;	   /* out: 4, 6; 0: no source */
	__u16 class_index; /* out: index within the policy, 65535: none */
	__u16 pad1;
	__u64 source_high; /* out: full address in host order; IPv4 in the low 32 bits of source_low */
	__u64 source_low;
};

_Static_assert(sizeof(struct ls_control) % 64 == 0, "lines");

#endif
