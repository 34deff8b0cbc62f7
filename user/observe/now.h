/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_OBSERVE_NOW_H
#define LOADSHED_USER_OBSERVE_NOW_H

/*
 * What the live page shows of overload shedding and of the cluster: the present alone, each only while it is in use.
 */

#include <stdbool.h>
#include <stdint.h>

#include "loadshed/hot_abi.h"
#include "loadshed/overload_abi.h"

struct ls_buffer;
struct ls_plane;

struct ls_now {
	bool has_overload; /* the policy asks for it, or a level was set by hand */
	bool has_report;   /* the controller has said something */
	bool has_level, is_hand;
	uint64_t left_ns; /* of the level */
	double part
		[LS_PRIORITIES]; /* of each priority's indices that the level refuses, by LS_ABI_* */
	uint64_t admitted[LS_PRIORITIES], refused[LS_PRIORITIES];
	struct ls_overload_report_abi report;
	bool has_cluster; /* nodes share, and the controller lives */
	struct ls_hot_status cluster;
};

/* `plane` NULL: nothing is attached, nothing is in use. */
void ls_now_read(struct ls_now *now, struct ls_plane *plane, uint64_t now_ns);

/* Two members of an object, each with a comma before it. */
void ls_now_json(const struct ls_now *now, uint64_t now_ns, struct ls_buffer *buffer);

#endif
