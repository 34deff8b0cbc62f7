/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_EXPLAIN_H
#define LOADSHED_USER_PLANE_EXPLAIN_H

/*
 * What the next packet would get, and why: the order of judgement gone through in user space, by the same pure
 * headers as in the kernel, on the tables that packets are judged by. It reads and changes nothing.
 *
 * A question may leave out what a packet has. What is left out matches only classes that do not ask for it:
 * where a protocol or a flag is open, a class matches if it does so whatever it may be.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loadshed/bounds.h"
#include "loadshed/reasons.h"
#include "pure/packet.h"
#include "user/base/addr.h"
#include "user/plane/bans.h"

struct ls_error;
struct ls_plane;

/* A frame of the smallest size on the wire, without its checksum's four bytes: 60, and with them 64. */
#define LS_QUERY_BYTES 64

/* A packet to ask about. */
struct ls_query {
	struct ls_packet packet; /* what `known` says is there; the rest is 0 */
	uint64_t bytes;		 /* of the whole frame, for limits that count them */
	bool has_destination;
	bool has_port, has_source_port; /* each may be there without the other */
	uint8_t flags_known;		/* which bits of packet.flags are given */
};

/* What a person can say about a packet; -1: left out. */
struct ls_query_words {
	struct ls_prefix source;	     /* one address */
	const struct ls_prefix *destination; /* one address of the same family; NULL: left out */
	int protocol, port, source_port;
	uint8_t flags_set, flags_clear; /* TCP flags that are 1, that are 0; neither: left out */
};

struct ls_query ls_query_make(const struct ls_query_words *words);

#define LS_EXPLAIN_KEY_TEXT 160
#define LS_EXPLAIN_NEVER UINT64_MAX

/* Where the state of a limit was found. */
enum ls_explain_place {
	LS_PLACE_OWN,	 /* the subject has a state of its own */
	LS_PLACE_NONE,	 /* nothing is known of it yet, and there is room */
	LS_PLACE_CROWD,	 /* no room: it is charged to the limit's crowd bucket */
	LS_PLACE_UNSEEN, /* no room in a table of long memory: it passes uncharged */
};

struct ls_explain_limit {
	char name[LS_NAME_BYTES];
	char key[LS_EXPLAIN_KEY_TEXT]; /* who is limited, as text; of `per: class` its name */
	uint8_t per, count, algorithm; /* LS_ABI_* */
	enum ls_explain_place place;
	bool is_charged; /* such a packet costs something here */
	bool refuses;	 /* this packet, asked alone */
	bool is_shared;	 /* the limit holds for all nodes, and this source is counted by all */
	bool thins; /* then: what is admitted here is refused all the same, since all nodes' is too much */
	double admit;	    /* then: the part that passes, 0 to 1 */
	uint64_t ceiling;   /* burst or limit, NAT included: packets, bytes, connections */
	uint64_t remaining; /* how much would be admitted now */
	/* Until such a packet conforms (where it costs nothing: until a connection would); LS_EXPLAIN_NEVER. */
	uint64_t wait_ns;
};

/* One of the two kinds of `overload.max`. */
struct ls_explain_overload {
	bool is_given;
	bool refuses;
	uint64_t remaining; /* before work of this class's priority is refused */
	uint64_t ceiling;
};

struct ls_explain {
	enum ls_verdict verdict;
	enum ls_reason reason;
	int class_index; /* -1: none, or its verdict came before any class */
	int limit;	 /* that refuses; -1: none */
	char class_name[LS_NAME_BYTES];
	uint8_t priority; /* LS_ABI_*, of the class */
	bool class_monitors;

	uint64_t generation; /* in force now: the previous one after a confirm that did not come */
	bool is_monitor;     /* policy or attach, or `off` */
	uint64_t off_ns, panic_ns, confirm_ns; /* left; 0: not */

	uint8_t list;	 /* LS_LIST_* of the source */
	uint32_t factor; /* NAT factor; 0: in no nat set */
	bool is_banned;
	struct ls_ban_entry ban; /* if so, even where an `allow` overrules it */

	struct ls_explain_limit
		limits[LS_CLASS_LIMITS]; /* of the class, in the order of the file */
	size_t n_limits;
	struct ls_explain_limit panic[2]; /* packets, connections; only while panic holds */
	size_t n_panic;
	struct ls_explain_overload overload[2]; /* packets, connections */
};

/* 0, or negative with a line in `error`. */
int ls_explain(struct ls_plane *plane, const struct ls_query *query, struct ls_explain *ret,
	       struct ls_error *error);

#endif
