/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_VIEW_H
#define LOADSHED_USER_PLANE_VIEW_H

/*
 * One look at the tables of a plane, at one instant and by one generation: what the parts of `explain` share.
 * Nothing outside the folder includes it.
 */

#include "loadshed/policy_abi.h"
#include "user/plane/explain.h"
#include "user/plane/internal.h"

#define LS_VIEW_TAKEN (LS_CLASS_LIMITS + 2)

struct ls_view {
	struct ls_plane *plane;
	const struct ls_control *control;
	const struct ls_query *query;
	uint64_t word; /* with what is temporary put into it */
	unsigned half;
	uint64_t now_ns, now, wall_ns; /* as of struct ls_job */
	uint32_t factor;
	int lists_fd; /* the inner map of lists; -1: none */
	const struct ls_class_abi *classes;
	const struct ls_slot_abi *slots;
	const struct ls_label_abi *labels;
	const struct ls_rows_abi *ports;
	const uint64_t *rows;
	const struct ls_ways *ways;
	const struct ls_log *logs;
	const struct ls_shared *shared;
	const struct ls_hot *hot; /* NULL: nodes do not share now */
	const struct ls_hot_cpu *hot_cpus;
	uint32_t n_cpus;
	uint32_t table_base[LS_TABLES], table_mask[LS_TABLES];
	/* Ways that the limits asked so far would charge, and that those after them cannot have: set * LS_WAYS + way. */
	uint64_t taken[LS_VIEW_TAKEN];
	unsigned n_taken;
};

/* ---- view.c ---- */

/* Label of an address of the packet's family: 0 in no list. */
unsigned ls_view_label(const struct ls_view *view, struct ls_address address);

/* Index of the first class that matches, or LS_DIRECT_NONE. */
unsigned ls_view_class(const struct ls_view *view, unsigned from_row, unsigned to_row);

/* ---- explain_limit.c ---- */

/* The first `length` bits of an address, at most all of them. */
struct ls_prefix ls_view_prefix(struct ls_address address, uint8_t family, uint8_t length);

/*
 * Asks one limit of the class with `class_slot`; all of *ret but its name. Returns whether it refuses. Limits must be asked in
 * the kernel's order: each takes the way that it would charge.
 */
bool ls_view_limit(struct ls_view *view, const struct ls_limit_abi *limit, unsigned class_slot,
		   struct ls_explain_limit *ret);

/* ---- explain_level.c ---- */

/* Whether breaker, level or guard of overload shedding refuses it; class NULL: it has none. */
bool ls_view_level_refuses(const struct ls_view *view, const struct ls_class_abi *class,
			   unsigned priority);

#endif
