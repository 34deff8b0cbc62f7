/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_TOP_H
#define LOADSHED_USER_PLANE_TOP_H

/*
 * Who sends most and who loses most, over about the last second: the two newest whole epochs of the kernel's summaries
 * (include/loadshed/top_abi.h), merged over CPUs. All readers at one time see the same; none disturbs another.
 *
 * Every figure has its bound. What is shown is what was counted for a row and for nobody else; the truth lies within
 * `error` of it, with 99.99 % (sampling) and for certain (the summary): see bpf/pure/summary.h. A source that sends more
 * than 1/200 of a CPU's packets, or has that share of its refused ones, is in the list, unless LS_TOP_ROWS others send more.
 */

#include <stddef.h>
#include <stdint.h>

#include "user/base/addr.h"

struct ls_error;
struct ls_plane;

struct ls_top_row {
	struct ls_prefix prefix; /* sources: IPv4 /32, IPv6 /64; prefixes: /24, /48 */
	/* Per second. What would have been dropped is no part of `drops`. */
	double packets, bytes, drops, would_drops;
	double error;	      /* of `packets` */
	double refused_error; /* of drops + would_drops */
	double share;	      /* of all packets that came in, 0 to 1 */
};

/* At most so many rows for each order; together three times that. */
#define LS_TOP_ROWS 100

struct ls_top_list {
	struct ls_top_row *rows; /* owned; by packets, most first */
	size_t count;
};

struct ls_top_reading {
	uint64_t number; /* of the newest epoch in it: grows by one each 0.54 s */
	uint64_t
		interval_ns; /* that was measured; 0: the summaries are younger than an epoch, all is empty */
	uint32_t
		weight; /* one packet in so many was looked at, at least; 1: all, nothing is estimated */
	struct ls_top_row total; /* its prefix is empty */
	struct ls_top_list sources, prefixes;
};

enum ls_top_order {
	LS_TOP_BY_PACKETS,
	LS_TOP_BY_BYTES,
	LS_TOP_BY_DROPS, /* and would-drops */
	LS_TOP_ORDER_MAX,
};

/*
 * `interface`: only what came in there; NULL: all. 0, or negative with a line. The total of an interface without counters of
 * its own (more than seven are attached) is that of all those.
 */
int ls_top_read(struct ls_plane *plane, const char *interface, struct ls_top_reading *ret,
		struct ls_error *error);
/* Can run twice. */
void ls_top_fini(struct ls_top_reading *reading);
#define _cleanup_top_ _cleanup_(ls_top_fini)

/* Nanoseconds until ls_top_read() has something newer than `number` to say; 0: now. */
uint64_t ls_top_wait_ns(const struct ls_plane *plane, uint64_t number);

/* Most first; equal ones by address, so that they do not jump about. */
void ls_top_sort(struct ls_top_list *list, enum ls_top_order order);

#endif
