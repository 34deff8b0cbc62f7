/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_OBSERVE_READING_H
#define LOADSHED_USER_OBSERVE_READING_H

/*
 * One look at an instance: everything that metrics and the live page show, read once, so that both say the same and
 * a hundred readers cost no more than one. Nothing attached is a state like any other: what was counted before
 * stays.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loadshed/reasons.h"
#include "user/observe/now.h"
#include "user/observe/steady.h"
#include "user/plane/bans.h"
#include "user/plane/census.h"
#include "user/plane/plane.h"
#include "user/plane/top.h"

/* Bans that are shown; more are counted. */
#define LS_READING_BANS 100

/* Number of a row of `verdicts`. */
#define LS_READING_NUMBER(verdict, reason) ((unsigned)(verdict)*16U + (unsigned)(reason))
#define LS_READING_VERDICT(number) ((enum ls_verdict)((number) / 16U))
#define LS_READING_REASON(number) ((enum ls_reason)((number) % 16U))

/* Numbers of the rows of `pressure`; only packets count. */
enum ls_reading_pressure {
	LS_READING_EVICTED,
	LS_READING_UNPLACED_SHORT,
	LS_READING_UNPLACED_LONG,
	LS_READING_CONTENDED,
	LS_READING_BANS_LOST,
	LS_READING_EVENTS,
	LS_READING_EVENTS_LOST,
};

struct ls_reading {
	bool is_attached;
	uint64_t read_ns; /* CLOCK_MONOTONIC; 0: never */
	/* The one in force; of the last one that was attached while nothing is. */
	struct ls_plane_status status;
	struct ls_steady
		verdicts; /* name: class, "" before any; detail: limit; packets and bytes */
	struct ls_steady interfaces; /* name: interface; number: LS_VERDICT_PASS or _DROP */
	struct ls_steady pressure;   /* name "" */
	uint64_t events_lost, events_lost_epoch; /* the largest reading, and since when */
	struct ls_census census;
	uint64_t census_ns; /* CLOCK_MONOTONIC of the last slice */
	struct ls_occupancy occupancy;
	struct ls_ban_survey bans;
	struct ls_top_reading top;
	struct ls_now now;	/* read with it, for the page */
	uint64_t top_ns;	/* CLOCK_MONOTONIC of it; 0: never */
	uint64_t policy_number; /* of what `policy` is the text of */
	char *policy;		/* canonical text, owned; NULL: none */
};

void ls_reading_fini(struct ls_reading *reading);

/*
 * Reads. `plane` NULL: nothing is attached. Slices of the tables and bans are looked at once a second at most. What cannot
 * be read stays as it was: then false, with a line in `error`.
 */
bool ls_reading_take(struct ls_reading *reading, struct ls_plane *plane, uint64_t now_ns,
		     struct ls_error *error);

/* Reads who sends most and what is shed and shared now, once a second at most: for the page alone. What cannot be read is empty. */
void ls_reading_look_at_now(struct ls_reading *reading, struct ls_plane *plane, uint64_t now_ns);

/*
 * The canonical text of the policy in force, which stays until the next call; "": nothing is attached. Made anew when the
 * generation has changed, cut where it is longer than a page can show. NULL with a line.
 */
#define LS_READING_POLICY_BYTES (256U << 10)
const char *ls_reading_policy(struct ls_reading *reading, struct ls_plane *plane,
			      struct ls_error *error);

#endif
