/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_KERN_BUILTIN_H
#define LOADSHED_KERN_BUILTIN_H

/*
 * The program's own two limits: what keeps links alive (10 000/s per node, burst 1 000), and ICMP errors
 * (10/s per source, burst 20). Above them a packet is an ordinary one; nothing is refused here.
 */

#include "kern/limits.h"
#include "pure/builtin.h"

/* 1: within the node's budget for what keeps links alive, and charged to it. The clock must be set. */
__attribute__((noinline)) int ls_control_admits(struct ls_job *job)
{
	if (!job)
		return 0;
	struct ls_shared *shared = &ls_static.tables.shared[LS_SLOT_CONTROL];
#pragma clang loop unroll(disable)
	for (int try = 0; try < LS_COMMIT_TRIES; try++) {
		__u64 state = LS_READ_ONCE(shared->state), next = 0;
		if (!ls_bucket_take(state, job->now, LS_CONTROL_COST, LS_CONTROL_TAU,
				    LS_CONTROL_TAU, &next))
			return 0;
		if (__sync_val_compare_and_swap(&shared->state, state, next) == state)
			return 1;
	}
	return 1;
}

/* 1: an ICMP error within its source's budget, and charged to it. The clock must be set. */
__attribute__((noinline)) int ls_icmp_admits(struct ls_job *job)
{
	if (!job)
		return 0;
	struct ls_limit_abi limit = LS_ICMP_LIMIT;
	__u32 factor = job->factor;
	job->factor = 0; /* the budget is the program's, not the policy's: NAT does not change it */
	struct ls_pending pending = { 0 };
	int admits = ls_ask(job, &limit, LS_CLASS_SLOT_ICMP_ERRORS, &pending) == LS_ASK_OK;
	/* In the crowd it is an ordinary packet, so that a spoofed flood gains nothing; and so it is when another
	 * CPU got ahead, which costs a source with errors on two CPUs a place in its budget now and then. */
	if (pending.at != LS_AT_WAY && pending.at != LS_AT_FREE_WAY)
		admits = 0;
	if (admits)
		admits = ls_commit_once(job, &limit, &pending);
	job->factor = factor;
	return admits;
}

#endif
