/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_COUNTERS_H
#define LOADSHED_USER_PLANE_COUNTERS_H

/*
 * What happened, in sums. Every counter is one CPU's exact 64-bit count; each is read once, and all totals
 * are made of the same readings, so seen = pass + drop holds in every answer, also under load.
 */

#include <stddef.h>
#include <stdint.h>

#include "loadshed/bounds.h"
#include "loadshed/reasons.h"

struct ls_error;
struct ls_plane;
struct ls_policy;

struct ls_tally {
	uint64_t packets;
	uint64_t bytes;
};

struct ls_stats_verdict {
	enum ls_verdict verdict;
	enum ls_reason reason;
	char limit[LS_NAME_BYTES]; /* "": not a limit's */
	struct ls_tally tally;
};

struct ls_stats_class {
	char name[LS_NAME_BYTES];	   /* "": verdicts before any class */
	struct ls_stats_verdict *verdicts; /* owned; only those that are not zero */
	size_t n_verdicts;
};

struct ls_stats_interface {
	char name[32];
	uint32_t ifindex; /* 0: those that share a bank, and what no interface claims */
	struct ls_tally pass, drop;
};

struct ls_stats {
	struct ls_tally seen, pass, drop, would_drop; /* would_drop is part of pass */
	struct ls_stats_class
		*classes; /* "" first, then the policy's in its order, then past ones */
	size_t n_classes;
	size_t n_current; /* of them: "" and those of the policy in force */
	struct ls_stats_interface *interfaces;
	size_t n_interfaces;
	uint64_t read_ns; /* CLOCK_MONOTONIC of the reading, for rates */
};

/* `interface`: only what came in there (its bank); NULL: all. Returns 0, or negative with a line. */
int ls_stats_read(struct ls_plane *plane, const char *interface, struct ls_stats *ret,
		  struct ls_error *error);
void ls_stats_fini(struct ls_stats *stats);

#define _cleanup_stats_ _cleanup_(ls_stats_fini)

#endif
