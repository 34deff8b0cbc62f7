/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_CLUSTER_BANS_H
#define LOADSHED_USER_CLUSTER_BANS_H

/*
 * Bans of one node become bans of all, and so do their removals. Once a period what changed here since the last look is told
 * to the store, and what changed elsewhere is put in force here, with origin `cluster`. Remaining times are told, and the
 * store's clock ends them, so a ban ends everywhere at once whatever the nodes' clocks say.
 *
 * Not taken over: what has ended on its way, what the policy allows, and what covers an address of this node, its gateways,
 * its resolvers or its Redis.
 */

#include <stdint.h>

struct ls_cluster_bans;
struct ls_plane;
struct ls_sync;

struct ls_cluster_bans *ls_cluster_bans_new(const char *instance);
void ls_cluster_bans_free(struct ls_cluster_bans *bans);

/*
 * What was removed here while no controller ran, since beat_ns (CLOCK_MONOTONIC, 0: never) of the last one: by the journal.
 * It is told first, so that others do not bring it back.
 */
void ls_cluster_bans_catch_up(struct ls_cluster_bans *bans, struct ls_plane *plane,
			      uint64_t beat_ns);

/* Once a period. */
void ls_cluster_bans_work(struct ls_cluster_bans *bans, struct ls_sync *sync,
			  struct ls_plane *plane, uint64_t now_ns);

/* Taken over from others; and those that had ended when they came. NULL: 0. */
uint64_t ls_cluster_bans_shared(const struct ls_cluster_bans *bans);
uint64_t ls_cluster_bans_lapsed(const struct ls_cluster_bans *bans);

#endif
