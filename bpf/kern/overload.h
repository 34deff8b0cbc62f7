/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_KERN_OVERLOAD_H
#define LOADSHED_KERN_OVERLOAD_H

/*
 * `overload.max` bound to its two shared states, and the guard of overload shedding, which is a third of the kind. It is asked after the limits of the class and committed
 * together with them, so what the limits refused does not count here, and what is refused here has consumed
 * nothing there.
 */

#include "kern/limits.h"
#include "kern/lists.h"
#include "pure/overload.h"

#define LS_OVERLOAD_GUARD 2

LS_INLINE const struct ls_limit_abi *ls_overload_limit(const struct ls_job *job, __u32 kind)
{
	struct ls_generation_abi *generation = ls_generation(job->half);
	if (kind == LS_OVERLOAD_GUARD)
		return &ls_overload.guard;
	return kind ? &generation->overload_connections : &generation->overload_packets;
}

LS_INLINE __u32 ls_overload_pending(__u32 kind)
{
	return kind == LS_OVERLOAD_GUARD ? LS_PENDING_GUARD : LS_PENDING_OVERLOAD + (kind & 1);
}

/* Whether the packet costs this kind nothing. */
LS_INLINE int ls_overload_skips(const struct ls_job *job, __u32 kind)
{
	if (kind == LS_OVERLOAD_GUARD)
		return !job->is_offered || job->now_ns >= LS_READ_ONCE(ls_overload.guard_until_ns);
	return kind && !ls_is_connection(&job->packet);
}

/* Asks one kind (0 packets, 1 connections, 2 the guard) and leaves in its pending what would charge it. */
__attribute__((noinline)) int ls_overload_ask(struct ls_job *job, __u32 kind, __u32 priority)
{
	if (!job)
		return LS_ASK_OK;
	const struct ls_limit_abi *limit = ls_overload_limit(job, kind);
	struct ls_pending *pending = ls_pending_of(job, ls_overload_pending(kind));
	pending->at = LS_AT_NOWHERE;
	if (!limit->mult || ls_overload_skips(job, kind))
		return LS_ASK_OK;
	__u32 slot = kind == LS_OVERLOAD_GUARD ? LS_SLOT_GUARD
		     : kind		       ? LS_SLOT_OVERLOAD_CONNECTIONS
					       : LS_SLOT_OVERLOAD_PACKETS;
	pending->state = LS_READ_ONCE(ls_static.tables.shared[slot].state);
	pending->cost = limit->mult;
	__u64 next = 0;
	if (!ls_overload_take(pending->state, job->now, limit->mult, limit->tau,
			      ls_overload_reserve(limit->tau, priority & 3),
			      ls_is_new_work(&job->packet), &next))
		return LS_ASK_REFUSED;
	pending->at = LS_AT_SHARED;
	pending->set = slot;
	pending->next = next;
	return LS_ASK_OK;
}

/* Commits what was asked, asking again when another CPU got ahead. */
__attribute__((noinline)) int ls_overload_commit(struct ls_job *job, __u32 kind, __u32 priority)
{
	if (!job)
		return LS_ASK_OK;
	struct ls_pending *pending = ls_pending_of(job, ls_overload_pending(kind));
#pragma clang loop unroll(disable)
	for (int try = 0; try < LS_COMMIT_TRIES; try++) {
		if (ls_commit_once(job, ls_overload_limit(job, kind), pending))
			return LS_ASK_OK;
		if (ls_overload_ask(job, kind, priority) == LS_ASK_REFUSED)
			return LS_ASK_REFUSED;
	}
	/* An addition cannot lose: charge first, judge by what was there, take back what that refuses. */
	const struct ls_limit_abi *limit = ls_overload_limit(job, kind);
	__u64 *state = &ls_static.tables.shared[pending->set & (LS_SLOTS - 1)].state;
	__u64 before = __sync_fetch_and_add(state, limit->mult), next = 0;
	if (ls_overload_take(before, job->now, limit->mult, limit->tau,
			     ls_overload_reserve(limit->tau, priority & 3),
			     ls_is_new_work(&job->packet), &next))
		return LS_ASK_OK;
	__sync_fetch_and_add(state, -limit->mult);
	return LS_ASK_REFUSED;
}

#endif
