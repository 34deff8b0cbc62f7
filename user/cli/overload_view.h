/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_CLI_OVERLOAD_VIEW_H
#define LOADSHED_USER_CLI_OVERLOAD_VIEW_H

/* What overload shedding does now, for `overload explain` and `status`. */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "loadshed/overload_abi.h"
#include "user/plane/overload.h"

struct ls_plane;

struct ls_overload_view {
	bool is_armed;	    /* the policy asks for it */
	bool is_controlled; /* the controller has said something in the last two seconds */
	bool has_level, is_hand;
	double height; /* 0: nothing is refused by the level */
	uint64_t left_ns;
	uint64_t admitted[LS_PRIORITIES], refused[LS_PRIORITIES];
	uint64_t refused_guard[LS_PRIORITIES]; /* of those, by the guard */
	struct ls_accept_queue_view queue;
	char text[LS_OVERLOAD_TEXT_BYTES + 160]; /* one sentence */
	struct ls_overload_report_abi report;
};

void ls_overload_view_read(struct ls_plane *plane, struct ls_overload_view *ret);

/* {"armed","controlled","level","by","reason",…} */
json_t *ls_overload_view_json(const struct ls_overload_view *view);

#endif
