/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_EVENT_ABI_H
#define LOADSHED_EVENT_ABI_H

/*
 * What happened, as it happens: rings of numbered slots in the map `ls_events`, one for each possible CPU and one more,
 * the last, for what user space writes (the journal).
 *
 * A ring has one writer and any number of readers that it does not know. Event n lies in slot n % LS_EVENT_SLOTS.
 * The writer sets the slot's number to 0, fills it, sets the number to n and then the head to n; each of these
 * two stores is an exchange, which orders what is around it. A reader that finds n before and after it has copied the
 * slot has event n; else it has been overtaken and n is lost to it, and to nobody else.
 *
 * Sampling: each CPU may write LS_SAMPLE_RATE events a second of one verdict and reason (pure/sample.h), so a flood of
 * one reason takes nothing from another. `total` counts all of them, so that a reader can say for how many an event
 * stands, also when it has lost some in between.
 */

#include <linux/types.h>

#include "loadshed/bounds.h"

#define LS_EVENT_SLOTS                                                                             \
	512 /* 200 KiB per CPU; 4 s of one reason in a flood, 0.3 s of all fourteen */
#define LS_EVENT_FRAME 256 /* bytes of the frame that are kept */
#define LS_EVENT_BUDGETS 32

/* Budget of a verdict (drop or would-drop) and reason. Reason 0 never refuses: its place is that of class bans. */
#define LS_EVENT_BUDGET(verdict, reason) (((verdict)&2U) << 3 | ((reason)&15U))
#define LS_EVENT_BUDGET_BANS 0U

/* What kinds there are; append only. `value` and the texts of the journal by kind: see struct ls_event_text. */
#define LS_EVENTS(X)                                                                               \
	X(PACKET, "packet")	/* a packet was refused: `verdict` says drop or would-drop */      \
	X(BAN, "ban")		/* value: ns */                                                    \
	X(UNBAN, "unban")	/* */                                                              \
	X(POLICY, "policy")	/* a generation came into force, or was confirmed */               \
	X(MODE, "mode")		/* panic, off, on, monitor; value: ns, 0: until it is changed */   \
	X(ATTACH, "attach")	/* name: interface */                                              \
	X(DETACH, "detach")	/* name: interface */                                              \
	X(OVERLOAD, "overload") /* value: level */                                                 \
	X(CLUSTER, "cluster")	/* name: node or server */                                         \
	X(NOTE, "note")		/* name: who says it */

enum ls_event_kind {
#define LS_EVENT_ENUM(id, text) LS_EVENT_##id,
	LS_EVENTS(LS_EVENT_ENUM)
#undef LS_EVENT_ENUM
		LS_EVENT_MAX,
};

#define LS_EVENT_NO_SLOT 0xffffU /* of class_slot and limit_slot */

/* What is known of a packet (`known`); what is not is 0. */
#define LS_EVENT_F_PROTOCOL 1U
#define LS_EVENT_F_PORTS 2U
#define LS_EVENT_F_TCP 4U
#define LS_EVENT_F_ICMP 8U

/* Of the journal: UTF-8, NUL-terminated, "" where nothing applies. */
struct ls_event_text {
	char action[LS_NAME_BYTES]; /* "apply", "panic", … */
	char name[LS_NAME_BYTES];
	char text[LS_EVENT_FRAME - 2 * LS_NAME_BYTES];
};

struct ls_event_abi {
	__u64 number;  /* 0: nothing whole is here */
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u64 total;   /* packet: of this verdict and reason on this CPU since the map was made */
	__u64 value;   /* by kind */
	__u64 source_high, source_low; /* as struct ls_address; 0 when family is */
	__u64 destination_high, destination_low;
	__u32 since;	  /* packet: part of total since the event before this one */
	__u32 generation; /* that judged it, as people see it */
	__u32 ifindex;	  /* 0: of no interface */
	__u32 bytes;	  /* of the whole frame */
	__u16 class_slot; /* in the ledger, or LS_EVENT_NO_SLOT */
	__u16 limit_slot;
	__u16 class_index; /* in the generation's policy, or LS_EVENT_NO_SLOT */
	__u16 source_port, port;
	__u16 frame_bytes; /* of `frame` */
	__u8 kind, verdict, reason;
	__u8 family; /* 4 or 6 when there is a source, else 0 */
	__u8 length; /* of the source as a prefix */
	__u8 protocol, tcp_flags, icmp_type;
	__u8 known;  /* LS_EVENT_F_* */
	__u8 origin; /* of a ban: enum ls_origin */
	__u8 pad0[2];
	__u64 pad1[3];
	union {
		__u8 frame[LS_EVENT_FRAME]; /* as an attacker wrote it */
		struct ls_event_text text;
	};
};

struct ls_event_ring {
	__u64 head; /* number of the last event; 0: none yet */
	__u64 pad0[7];
	/* The writer's own, by budget. */
	__u64 total[LS_EVENT_BUDGETS];
	__u64 bucket[LS_EVENT_BUDGETS]; /* pure/bucket.h */
	__u64 pad1[440];		/* a ring is whole pages of 4 KiB */
	struct ls_event_abi slots[LS_EVENT_SLOTS];
};

_Static_assert(sizeof(struct ls_event_text) == LS_EVENT_FRAME, "the same bytes");
_Static_assert(sizeof(struct ls_event_abi) == 128 + LS_EVENT_FRAME, "lines");
_Static_assert(sizeof(struct ls_event_ring) % 4096 == 0, "pages");

#endif
