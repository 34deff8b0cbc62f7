/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_REPLAY_REPLAY_H
#define LOADSHED_USER_REPLAY_REPLAY_H

/*
 * A capture, judged packet by packet under its own clock, and what came out: in sums, and on demand one
 * line for each packet. Who judges comes in as functions, so nothing here knows the kernel.
 */

#include <stdint.h>
#include <stdio.h>

#include "loadshed/bounds.h"
#include "loadshed/control_abi.h"
#include "loadshed/reasons.h"

struct ls_error;

/* Shorter frames have no Ethernet header; the judge is not asked about them. */
#define LS_REPLAY_FRAME_MIN 14

struct ls_replay_judge {
	void *context;
	/*
	 * Empty state, and time starts at `unix_ns`: before the first packet, and again after a silence
	 * that outlasts all state. 0, or negative with a line in `error`.
	 */
	int (*start)(void *context, uint64_t unix_ns, struct ls_error *error);
	/*
	 * The verdict on a frame of `length` bytes, at least LS_REPLAY_FRAME_MIN and at most `frame_max`, that
	 * had `wire_bytes` on the wire. `unix_ns` never goes back. 0 or a negative errno.
	 */
	int (*run)(void *context, const uint8_t *frame, uint32_t length, uint32_t wire_bytes,
		   uint64_t unix_ns, struct ls_replay_abi *ret);
	uint32_t frame_max; /* bytes of a frame that it takes; of longer ones it sees the first */
};

/* A class as the lines name it; index: that of the policy. */
struct ls_replay_class {
	const char *name;
	const char *limits[LS_CLASS_LIMITS];
};

struct ls_replay_request {
	const char *capture; /* path, or "-" */
	struct ls_replay_judge judge;
	const struct ls_replay_class *classes;
	unsigned n_classes;
	enum ls_verdict malformed; /* what becomes of a malformed frame, by the policy */
	FILE *packets;		   /* a line of JSON for each packet; NULL: none */
};

struct ls_replay_tally {
	uint64_t pass; /* with what would have been dropped */
	uint64_t drop;
	uint64_t would_drop;
};

struct ls_replay_summary {
	uint64_t packets, bytes;   /* bytes as on the wire */
	uint64_t begin_ns, end_ns; /* Unix time of the first and of the latest packet */
	struct ls_replay_tally total;
	uint64_t reasons[LS_REASON_MAX];
	struct ls_replay_tally classes[LS_CLASSES]; /* by index; packets of no class are in none */
};

/*
 * Returns 0, or a negative errno with a line in `error`. *ret_summary is filled in either case with the
 * packets judged so far: a capture that is cut off has told something before its end.
 */
int ls_replay_run(const struct ls_replay_request *request, struct ls_replay_summary *ret_summary,
		  struct ls_error *error);

#endif
