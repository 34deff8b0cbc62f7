/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_KERN_COUNT_H
#define LOADSHED_KERN_COUNT_H

/*
 * Counting: each packet adds to exactly one counter of its CPU and interface, so sums are exact and add up
 * by construction (seen = pass + drop), and reading them stops nobody.
 */

#include "kern/job.h"

/* The interface's bank of counters; bank 0 takes interfaces that have none of their own. */
LS_INLINE __u32 ls_bank(__u32 ifindex)
{
	struct ls_bank_abi *bank = &ls_control.bank[ifindex & (LS_BANK_SLOTS - 1)];
	return bank->ifindex == ifindex ? bank->bank : 0;
}

LS_INLINE void ls_count(const struct ls_job *job, __u32 ifindex)
{
	__u32 index = job->cpu * ls_banks + ls_bank(ifindex);
	struct ls_counters *counters = bpf_map_lookup_elem(&ls_counters, &index);
	__u32 number = job->counter;
	if (!counters || number >= LS_COUNTERS)
		return;
	counters->counter[number].packets++;
	counters->counter[number].bytes += job->bytes;
}

#endif
