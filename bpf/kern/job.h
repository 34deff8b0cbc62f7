/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_KERN_JOB_H
#define LOADSHED_KERN_JOB_H

/*
 * One packet on its way through the stages: what was found, when it is, and what became of it. It lives in
 * the CPU's record, not on the stack: there is 512 bytes of that for all functions together, and the verifier
 * tracks each value on it, one state per combination. Stages off the common path are functions of their own
 * and get it by pointer (a global function is verified once, whoever calls it).
 */

#include "kern/maps.h"
#include "loadshed/reasons.h"
#include "pure/packet.h"

/*
 * The same number, of which the verifier knows nothing. Used where branches meet that differ in a small
 * constant: the paths are then one state to it, instead of being followed each to the end.
 */
LS_INLINE __u32 ls_opaque(__u32 number)
{
	return number + (__u32)LS_READ_ONCE(ls_control.zero);
}

LS_INLINE int ls_job_monitors(const struct ls_job *job)
{
	return (job->word & LS_WORD_MONITOR) != 0;
}

/* Ends the packet before any class: counted by verdict and reason. */
LS_INLINE void ls_job_end(struct ls_job *job, __u8 verdict, __u8 reason)
{
	job->verdict = verdict;
	job->reason = reason;
	job->counter = LS_COUNTER_GLOBAL(verdict, reason);
}

/* The same for a refusal that the policy's mode may soften. */
LS_INLINE void ls_job_refuse(struct ls_job *job, __u8 reason)
{
	ls_job_end(job, ls_job_monitors(job) ? LS_VERDICT_WOULD_DROP : LS_VERDICT_DROP, reason);
}

LS_INLINE struct ls_cpu *ls_cpu_of(__u32 number)
{
	struct ls_cpu *cpu = &ls_static.cpus[number & (LS_CPUS - 1)];
	LS_REBASE(cpu);
	return cpu;
}

LS_INLINE struct ls_class_abi *ls_job_class(const struct ls_job *job)
{
	__u64 index = ls_bounded(job->half * LS_CLASSES + (job->class_index & (LS_CLASSES - 1)),
				 2 * LS_CLASSES);
	struct ls_class_abi *class = &ls_static.tables.classes[index];
	LS_REBASE(class);
	return class;
}

#endif
