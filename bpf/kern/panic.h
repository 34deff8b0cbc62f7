/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_KERN_PANIC_H
#define LOADSHED_KERN_PANIC_H

/*
 * `panic`: a strict preset beside the policy. Each source gets 20 connections/s and 2 000 packets/s with bursts of
 * one second, and new work of priority `low` is refused.
 *
 * It is asked after the limits of the class and before `overload.max`, and committed together with them: what the
 * limits refused does not count here, what is refused here has consumed nothing anywhere, and class bans go on
 * counting the refusals of the class alone. Allowed sources never come here. Its two buckets are `per: source`
 * limits like others, so the NAT factor of an address that many share loosens them, too.
 */

#include "kern/limits.h"
#include "kern/overload.h"
#include "pure/builtin.h"

/* By kind. Constants of the object: 64 bytes each are too much for the stack, which all callers share. */
static const volatile struct ls_limit_abi ls_panic_limits[2] = {
	LS_PANIC_LIMIT(LS_ABI_PACKETS, LS_PANIC_PACKET_COST, LS_SLOT_PANIC_PACKETS),
	LS_PANIC_LIMIT(LS_ABI_CONNECTIONS, LS_PANIC_CONNECTION_COST, LS_SLOT_PANIC_CONNECTIONS),
};

LS_INLINE const struct ls_limit_abi *ls_panic_limit(__u32 kind)
{
	return (const struct ls_limit_abi *)&ls_panic_limits[kind & 1];
}

/* Asks one kind (0 packets, 1 connections) and leaves in its pending what would charge it. */
__attribute__((noinline)) int ls_panic_ask(struct ls_job *job, __u32 kind)
{
	if (!job)
		return LS_ASK_OK;
	struct ls_pending *pending = ls_pending_of(job, LS_PENDING_PANIC + (kind & 1));
	job->asking = LS_PENDING_PANIC + (kind & 1);
	return ls_ask(job, ls_panic_limit(kind), LS_CLASS_SLOT_PANIC, pending);
}

/* Commits what was asked, asking again when another CPU got ahead. */
__attribute__((noinline)) int ls_panic_commit(struct ls_job *job, __u32 kind)
{
	if (!job)
		return LS_ASK_OK;
	struct ls_pending *pending = ls_pending_of(job, LS_PENDING_PANIC + (kind & 1));
#pragma clang loop unroll(disable)
	for (int try = 0; try < LS_COMMIT_TRIES; try++) {
		if (ls_commit_once(job, ls_panic_limit(kind), pending))
			return LS_ASK_OK;
		int answer = ls_panic_ask(job, kind);
		if (answer != LS_ASK_OK)
			return answer;
	}
	__sync_fetch_and_add(&ls_control.contended, 1);
	pending->at = LS_AT_NOWHERE;
	return LS_ASK_OK;
}

#endif
