/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_HOT_ABI_H
#define LOADSHED_HOT_ABI_H

/*
 * Limits in cluster scope: the side table of the sources that nodes share.
 *
 * The source table has one word for each source and limit, which is full. What only a shared source needs is here:
 * the ratio that passes, and counts of what was offered and admitted. `serve` writes the entries and their ends, packets
 * read them, so an entry's line is shared and clean; what packets write is in a record of their own CPU. When
 * serve ends, entries lapse by themselves and the limit is the node's own again.
 *
 * What is not shared yet is noticed without a scan: each CPU keeps a small table of counts, in which a source that
 * sends more than all others of its place stays (Misra and Gries, "Finding repeated elements", 1982, with one
 * counter a place). A source whose count reaches the limit's threshold within an epoch is put into a ring, once.
 */

#include <linux/types.h>

#include "loadshed/bounds.h"

#define LS_HOT_SETS 1024 /* 4096 shared sources: four times what a node reports in a round */
#define LS_HOT_WAYS 4	 /* a line */
#define LS_HOT_ENTRIES (LS_HOT_SETS * LS_HOT_WAYS)
#define LS_HOT_WARM 1024 /* 16 KiB a CPU */
#define LS_HOT_RING 256	 /* sources that a CPU can name between two looks of serve, 20 ms apart */

#define LS_HOT_SAMPLE 8U	/* packets that one stands for while nothing is shared */
#define LS_HOT_SAMPLED_FROM 64U /* lowest report_at at which that is done */
#define LS_HOT_F_SAMPLED 1ULL	/* in ls_control.hot_until: it is done */
#define LS_HOT_ADMIT_ALL 0xffffffffU
#define LS_HOT_TIME_SHIFT 20	  /* about a millisecond */
#define LS_HOT_F_MORE 1U	  /* in `until`: look at ls_hot_more, too */
#define LS_HOT_F_CLOSED 1U	  /* in `until` of a limit: nothing passes */
#define LS_HOT_CLOSED 0xffffffffU /* instead of an entry: so says the limit */
#define LS_HOT_SCALE_ONE 65536U
#define LS_HOT_SCALE_MAX (1U << 28)

/* One shared source. key as in the source table: 52 bits of hash, 12 of limit slot; 0: free. */
struct ls_hot_way {
	__u64 key;
	__u32 admit; /* part that passes, in 2^-32; LS_HOT_ADMIT_ALL: all */
	__u32 until; /* ls_hot_time() of its end, even; and LS_HOT_F_MORE */
};

struct ls_hot_set {
	struct ls_hot_way way[LS_HOT_WAYS];
};

/* What few entries need. */
struct ls_hot_more {
	__u64 ceiling; /* window: up to which count of its own this node admits ... */
	__u64 number;  /* ... in the window with this number (low 24 bits); 2^32: none */
	__u32 scale;   /* bucket: cost in 2^-16, LS_HOT_SCALE_ONE and more */
	__u32 pad0;
	__u64 pad1;
};
#define LS_HOT_NO_WINDOW (1ULL << 32)

/* By limit slot: what holds for sources that are not shared (yet). */
struct ls_hot_limit {
	__u64 tau; /* burst in ticks or count of a window that this node may give; 0: the limit's own */
	__u32 scale;	   /* as above */
	__u32 until;	   /* end of these two, as above, even; 0: none */
	__u32 report_at;   /* count in an epoch that makes a source shared; 0: never */
	__u32 epoch_shift; /* an epoch is 2^this ns */
	__u64 pad0;
};

/* Counts of one entry on one CPU: nobody else writes them. In packets, bytes or connections. */
struct ls_hot_count {
	__u64 offered;
	__u64 admitted;
	__u32 frac; /* error diffusion */
	__u32 pad0;
	__u64 pad1;
};

struct ls_hot_warm {
	__u64 key;
	__u32 epoch;
	__u32 count;
};

/* A source that has become worth sharing. Written by its CPU, then `head`; read by serve. */
struct ls_hot_news {
	__u64 key;
	__u64 source_high, source_low; /* as in struct ls_packet */
	__u64 destination_high, destination_low;
	__u16 source_port, port;
	__u16 protocol; /* 256: unknown */
	__u8 family;
	__u8 has_ports;
	__u32 factor; /* of NAT; 0: none */
	__u16 class_slot;
	__u16 pad0;
	__u64 seen; /* packets of it in this epoch */
};

struct ls_hot_cpu {
	struct ls_hot_count count[LS_HOT_ENTRIES];
	struct ls_hot_warm warm[LS_HOT_WARM];
	__u64 head; /* entries ever put into the ring */
	__u64 pad0[7];
	struct ls_hot_news ring[LS_HOT_RING];
};

/* What nobody on a packet's path reads: serve's own, kept for the next serve and for `cluster status`. */
struct ls_hot_info {
	struct ls_hot_news subject;
	__u64 window_reported; /* window: of this node's count, what the store has */
	__u64 window_number;
	__u64 pad0[6];
};

#define LS_HOT_NODES 64
struct ls_hot_node {
	char name[64];
	__u64 age_ns; /* of what it last said, at `beat_ns` */
	__u64 pad0[7];
};

/* Written by serve once a round under `version` (odd while it writes), read by the verbs. */
struct ls_hot_status {
	__u32 version;
	__u32 pid;	/* of serve; 0: it ended in order */
	__u64 beat_ns;	/* CLOCK_MONOTONIC of the last look */
	__u64 round_ns; /* CLOCK_MONOTONIC of the last answer; 0: none */
	__u64 took_ns;	/* that it took */
	__u64 period_ns;
	__s64 clock_ns; /* store's clock minus this node's */
	__u32 state;	/* enum ls_link_state */
	__u32 is_up;	/* the store answers */
	__u32 nodes;	/* 0: never known */
	__u32 keys;	/* shared by this node */
	__u64 rounds, failed, scripts_sent, foreign, lapsed_bans, shared_bans, dropped_keys;
	__u64 error_ppm; /* estimate: spread of debts over ten seconds, of the worst key */
	char mode[16];	 /* standalone, sentinel, cluster */
	char node[64];
	char store[128];   /* without its password */
	char trouble[192]; /* "": none */
	struct ls_hot_node node_list[LS_HOT_NODES];
	__u64 pad0[9];
};

struct ls_hot {
	struct ls_hot_set sets[LS_HOT_SETS];
	struct ls_hot_limit limits[LS_SLOTS];
	struct ls_hot_more more[LS_HOT_ENTRIES]; /* way within the sets, as all that follow */
	struct ls_hot_info info[LS_HOT_ENTRIES];
	struct ls_hot_status status;
};

_Static_assert(sizeof(struct ls_hot_set) == 64, "a line");
_Static_assert(sizeof(struct ls_hot_more) == 32, "no padding");
_Static_assert(sizeof(struct ls_hot_limit) == 32, "no padding");
_Static_assert(sizeof(struct ls_hot_count) == 32, "half a line");
_Static_assert(sizeof(struct ls_hot_news) == 64, "a line");
_Static_assert(sizeof(struct ls_hot_cpu) % 64 == 0, "lines: two CPUs share none");

#endif
