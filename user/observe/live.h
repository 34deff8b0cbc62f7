/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_OBSERVE_LIVE_H
#define LOADSHED_USER_OBSERVE_LIVE_H

/*
 * What the live page shows: the last ten minutes by the second, and the present in detail, as JSON. A sample keeps the
 * LS_LIVE_CLASSES classes with most packets of its second by name and the rest as one, so that memory is fixed: 0.7 MB.
 *
 * All that comes from outside (reasons of bans, names of interfaces) is escaped here and set as text there.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loadshed/bounds.h"
#include "loadshed/reasons.h"

struct ls_buffer;
struct ls_reading;

#define LS_LIVE_SAMPLES 600
#define LS_LIVE_CLASSES 16
#define LS_LIVE_SOURCES 12
#define LS_LIVE_ROWS 64 /* classes shown in detail, and reasons of one class */

/* Packets per second. */
struct ls_live_class {
	char name[LS_NAME_BYTES];
	uint64_t pass, drop, would_drop; /* a would-drop is part of pass */
};

struct ls_live_sample {
	uint64_t unix_s; /* 0: empty */
	bool is_attached;
	uint64_t pass_bytes, drop_bytes;
	struct ls_live_class all;
	uint64_t drop[LS_REASON_MAX];
	struct ls_live_class others;
	struct ls_live_class classes[LS_LIVE_CLASSES]; /* name "" and no packets: unused */
	size_t n_classes;
};

struct ls_live {
	struct ls_live_sample samples[LS_LIVE_SAMPLES];
	size_t next;
	uint64_t tick_ns; /* CLOCK_MONOTONIC of the last one; 0: none */
};

/* Once a second, after the reading has been taken: sets its rates and keeps a sample. */
void ls_live_tick(struct ls_live *live, struct ls_reading *reading, uint64_t now_ns,
		  uint64_t unix_ns);

/* The JSON document, with the samples that are younger than `since` (Unix seconds; 0: all). */
void ls_live_json(const struct ls_live *live, const struct ls_reading *reading, uint64_t unix_ns,
		  uint64_t since, struct ls_buffer *buffer);

/* Whether packets are judged; and why not, or what is degraded, one line. `line` "": all is well. */
bool ls_live_health(const struct ls_reading *reading, char *line, size_t size);

#endif
