/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_STATE_ABI_H
#define LOADSHED_STATE_ABI_H

/*
 * What the command line must remember between two runs and the kernel never reads: who is attached, how
 * and since when, and what each half of the policy tables holds. Pinned with the rest, written under the
 * lock; readers see whole records because every one is written before it is made reachable (a row by its
 * ifindex, a half by the control word).
 */

#include <linux/types.h>

#include "loadshed/bounds.h"

/* Interfaces of one instance. A row is 64 bytes; more than LS_BANKS share bank 0. */
#define LS_STATE_INTERFACES 64

/* Element of the inner maps of `ls_texts`: a page, so that what is mapped is what is there. */
#define LS_TEXT_CHUNK 4096

#define LS_STATE_NATIVE 1
#define LS_STATE_GENERIC 2

#define LS_STATE_F_PENDING                                                                         \
	1U /* being attached: if nobody holds the lock, a killed attach left it */
#define LS_STATE_F_FELL_BACK 2U /* generic because the driver has no native mode, not by wish */

struct ls_state_interface {
	char name[16]; /* as it was called at attach */
	__u32 ifindex; /* 0: free row */
	__u32 link_id;
	__u64 since_ns; /* CLOCK_REALTIME of the attach */
	__u16 bank;	/* of its counters; 0: shared with others */
	__u8 mode;	/* LS_STATE_NATIVE or LS_STATE_GENERIC */
	__u8 flags;	/* LS_STATE_F_* */
	__u32 pad0;
	__u64 pad1[3];
};

/* What one half of the policy tables holds. */
struct ls_state_half {
	__u64 number; /* generation as people see it; 0: the half holds nothing that was in force and is whole */
	__u64 since_ns;	  /* CLOCK_REALTIME of the publish */
	__u64 text_bytes; /* of the policy's blob in ls_texts */
	__u64 sources; /* capacity that the policy asks for: it may differ from the one that is held */
	__u8 sha256[32]; /* of the policy in its canonical text */
};

#define LS_STATE_MONITOR 1U   /* attach --monitor: nothing is dropped, whatever the policy says */
#define LS_STATE_TIMED 2U     /* the program that runs judges what is temporary (pure/timed.h) */
#define LS_STATE_LISTENERS 4U /* and it reads accept queues (kern/listener.h) */

struct ls_state {
	__u32 abi_version; /* LS_ABI_VERSION of whoever made the maps */
	__u32 bytes;	   /* sizeof(struct ls_state) of whoever made the maps */
	char instance[LS_NAME_BYTES];
	char version[LS_NAME_BYTES]; /* of the program that runs */
	__u8 object_sha256[32];	     /* of the BPF object that runs: which build */
	__u64 netns_cookie;	     /* of the namespace it belongs to; 0: the kernel has none */
	__u64 made_ns;		     /* CLOCK_REALTIME when the maps were made */
	__u64 sources;		     /* capacity that the tables were made for */
	__u32 flags;		     /* LS_STATE_MONITOR, _TIMED, _LISTENERS */
	__u32 folding;	   /* odd while counters move to ls_retired: a reader then reads again */
	__u64 upgraded_ns; /* CLOCK_REALTIME of the last change of build; 0: none */
	__u32 sets[4];	   /* of the tables LS_TABLE_*, as made */
	__u64 words
		[2]; /* control word of each half, without what is temporary or comes from attach */
	__u64 pad0[2];
	struct ls_state_half half[2];
	struct ls_state_interface interfaces[LS_STATE_INTERFACES];
};

/*
 * The reason that an operator gave for a ban, in the hash `ls_ban_texts`. It outlives the ban by no more
 * than the next listing; subject and kind are those of struct ls_ban.
 */
#define LS_BAN_TEXT_BYTES 64

struct ls_ban_text_key {
	__u64 subject;
	__u32 kind; /* (until & LS_BAN_KIND_MASK), length and family */
	__u32 pad0;
};

struct ls_ban_text {
	char text[LS_BAN_TEXT_BYTES]; /* UTF-8, NUL-terminated */
};

_Static_assert(sizeof(struct ls_state_interface) == 64, "a line");
_Static_assert(sizeof(struct ls_state_half) == 64, "a line");
_Static_assert(sizeof(struct ls_state) % 64 == 0, "lines");
_Static_assert(sizeof(struct ls_ban_text_key) == 16, "no padding");

#endif
