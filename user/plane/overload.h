/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_OVERLOAD_H
#define LOADSHED_USER_PLANE_OVERLOAD_H

/*
 * Overload shedding in the kernel's records: what was offered, and how far it is admitted. The controller writes here
 * ten times a second and holds no lock: each record has one writer (the controller, or whoever has the lock for the
 * operator's hand), and each field is one store.
 */

#include <stdbool.h>
#include <stdint.h>

#include "loadshed/overload_abi.h"

struct ls_error;
struct ls_plane;

/* Whether the policy in force has signals or checks. */
bool ls_plane_has_signals(const struct ls_plane *plane);

/* Whether new work is counted and may be refused: by that, or because a level was set by hand. */
bool ls_plane_counts_offers(const struct ls_plane *plane);

/* ns left of a level that was set by hand; 0: none is. */
uint64_t ls_plane_hand_left(struct ls_plane *plane);

/* The records, writable whatever the plane was opened for. NULL with a line: a program of an earlier build runs. */
struct ls_overload *ls_plane_overload(struct ls_plane *plane, struct ls_error *error);

/* The counts by CPU; *ret_cpus: how many. NULL with a line. */
const struct ls_offered *ls_plane_offered(struct ls_plane *plane, unsigned *ret_cpus,
					  struct ls_error *error);

/* ns since the epoch of the tables, which the records' ends are given in. */
uint64_t ls_plane_ticking_ns(const struct ls_plane *plane);

/* The level that is in force now, and whether by hand; false: none is. */
bool ls_plane_level(struct ls_plane *plane, __u64 ret_admit[static LS_PRIORITIES],
		    bool *ret_is_hand, uint64_t *ret_left_ns);

/* Admits so far for a time, whatever policy and controller say; for_ns 0: ends it. The plane is open for writing. */
int ls_plane_set_hand(struct ls_plane *plane, const __u64 admit[static LS_PRIORITIES],
		      uint64_t for_ns, struct ls_error *error);

/* The guard at `rate` per second until `for_ns` from now; 0: none. */
void ls_plane_set_guard(struct ls_plane *plane, double rate, uint64_t for_ns);

/* The rate of the guard that is in force, per second; 0: none is. */
double ls_plane_guard(struct ls_plane *plane);

/*
 * How many connections may wait in a listener's accept queue as long as the guard holds, of far clients `in_ns` from now
 * on; 0: its backlog alone says.
 */
void ls_plane_set_queue_most(struct ls_plane *plane, uint32_t most, uint64_t in_ns);

/* What bpf/kern/listener.h does. */
struct ls_accept_queue_view {
	unsigned percent; /* of the policy in force, for priority normal; 0: it is off */
	bool is_read;	  /* the program that runs can read accept queues */
	uint64_t refused; /* SYNs, by the place that their listener had */
	uint64_t ago_ns;  /* since the last of them; UINT64_MAX: none */
	unsigned port;	  /* that it was for */
};

void ls_plane_accept_queue(struct ls_plane *plane, struct ls_accept_queue_view *ret);

/* Slot of the class of that name; -1: no class that is in force has it. */
int ls_plane_class_slot(const struct ls_plane *plane, const char *name);

/* A whole copy of what the controller said last; false: nothing yet, or it is being written all the time. */
bool ls_plane_overload_report(struct ls_plane *plane, struct ls_overload_report_abi *ret);

#endif
