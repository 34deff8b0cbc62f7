/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_EVENTS_H
#define LOADSHED_USER_PLANE_EVENTS_H

/*
 * What happens, as it happens: refused packets (sampled in the kernel), bans, and what operators and controllers do.
 *
 * Any number of readers, each for itself: a reader has its own position in the rings of loadshed/event_abi.h, costs the
 * kernel nothing, and is told what it has lost when it was too slow. There is nothing to wait on: ask
 * every 100 to 250 ms. A CPU writes at most 128 events a second of one reason and verdict and keeps the last 512.
 *
 *	ls_events_open(plane, false, &events, &error);
 *	for (;;) {
 *		while (ls_events_next(events, &event))
 *			…
 *		(sleep)
 *	}
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loadshed/event_abi.h"
#include "loadshed/reasons.h"
#include "user/base/addr.h"
#include "user/base/cleanup.h"

struct ls_error;
struct ls_events;
struct ls_plane;

/* One event. What does not apply is 0 or "". */
struct ls_event {
	enum ls_event_kind kind;
	uint64_t unix_ns;
	uint32_t ring; /* with `number`: which event it is, for all readers alike */
	uint64_t number;
	/* For a packet: drop or would-drop, and why; for a class ban: of the packet that led to it. */
	enum ls_verdict verdict;
	enum ls_reason reason;
	/*
	 * For how many refused packets it stands: those of this verdict and reason on its CPU, on any interface, since the
	 * last one that this reader has seen or lost. So the sum over all packet events is what the counters say, but for
	 * what came since the last sample of each CPU: below 8 ms of a flood.
	 */
	uint64_t stands_for;
	uint64_t value; /* ban, mode: ns; overload: level */
	bool has_source;
	struct ls_prefix source; /* of a packet: the address; of a ban: what is banned */
	struct ls_prefix destination;
	uint8_t known; /* LS_EVENT_F_*: which of these are */
	uint8_t protocol, tcp_flags, icmp_type;
	uint16_t source_port, port;
	enum ls_origin origin;	   /* of a ban */
	uint32_t generation;	   /* in force then */
	uint32_t ifindex;	   /* 0: none */
	char interface[32];	   /* its present name */
	char class[LS_NAME_BYTES]; /* "": none */
	char limit[LS_NAME_BYTES];
	uint32_t bytes;		       /* of the frame */
	uint16_t frame_bytes;	       /* of its beginning, which is kept */
	struct ls_event_text text;     /* of events of user space: see ls_journal_write() */
	uint8_t frame[LS_EVENT_FRAME]; /* as a stranger wrote it: show it, do not believe it */
};

/*
 * Starts reading: with what happens from now on, or with what the rings still hold. The plane must stay open.
 * Negative with a line; also when the program that runs is too old to write events.
 */
int ls_events_open(struct ls_plane *plane, bool from_oldest, struct ls_events **ret,
		   struct ls_error *error);
void ls_events_close(struct ls_events *events);
DEFINE_CLEANUP(struct ls_events *, ls_events_close);

/*
 * The next event, in order of time as far as one call of many can know: two CPUs' events that are written while this
 * is asked may come in the other order. False: nothing more at the moment. Never waits.
 *
 * Names of class and limit are those that they had, also after an edit of the policy. (Only where a policy of more
 * than 256 new classes or 2000 new limits was applied twice since, one may have been given to another.)
 */
bool ls_events_next(struct ls_events *events, struct ls_event *ret);

/* Events that this reader was too slow for, since it was opened. Packets that they stood for are in the next
 * ones of their kind. */
uint64_t ls_events_lost(const struct ls_events *events);

/* Whether the rings are still those of the instance: not after a detach, or an attach that made it anew. Then
 * open plane and events again. */
bool ls_events_is_current(const struct ls_events *events);

/* Whether events of the interface of this name or altname are to be expected: it is attached, or was and has
 * vanished. *ret_ifindex is its index. Else negative with a line. */
int ls_events_interface(const struct ls_plane *plane, const char *name, uint32_t *ret_ifindex,
			struct ls_error *error);

const char *ls_event_kind_name(enum ls_event_kind kind); /* "packet", "ban", … */

/*
 * The journal: what user space has done, for all readers. Written after it is done, whoever does it; under a lock of its
 * own, for microseconds, so the plane may be open for reading only. A journal that cannot be written is no
 * failure of what was done: nothing is returned.
 *
 *	POLICY	 action apply, confirm, rollback, expire; generation as it is now; text: path of the policy
 *	MODE	 action panic, off, on, monitor; value: ns
 *	BAN	 subject, origin, value: ns; text: reason; an import: action import, text: how many
 *	UNBAN	 subject
 *	ATTACH	 name: interface; action native or generic; DETACH: name
 *	OVERLOAD value: level; text: the signal that led to it
 *	CLUSTER	 action up, down, …; name: node or server; text
 *	NOTE	 name: who says it; text
 */
struct ls_journal_entry {
	enum ls_event_kind kind;
	const char *action, *name, *text; /* NULL: none; cut to what struct ls_event_text holds */
	const struct ls_prefix *subject;  /* NULL: none */
	enum ls_origin origin;
	uint32_t ifindex; /* 0: none */
	uint64_t value;
};

void ls_journal_write(struct ls_plane *plane, const struct ls_journal_entry *entry);

#endif
