/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_KERN_LEVEL_H
#define LOADSHED_KERN_LEVEL_H

/*
 * Overload shedding: new work is counted by priority index and, while a level holds, admitted as far as that says.
 *
 * It is asked after the limits and `max`, and before anything is charged: what those refuse does not count as offered,
 * and what is refused here has consumed nothing. A level is a record with an end; when its end has passed, with the
 * controller alive or dead, nothing is refused by it.
 *
 * Everything that is written for refused work belongs to this CPU. Admitted work of a flow that is not TCP is noted in
 * a table that all share, once in 4 s and flow, so that its next packets are no new work: a call or a tunnel that has
 * begun is not cut off by those who come later. What is not known there, as after an attach, is new work, and is
 * admitted or not by its source like any other.
 */

#include "kern/limits.h"
#include "pure/level.h"

LS_INLINE struct ls_offered *ls_offered_of(const struct ls_job *job)
{
	__u32 index = job->cpu;
	return bpf_map_lookup_elem(&ls_offered, &index);
}

/*
 * Whether the packet's flow was admitted within the last minute; `admits`: it is now. Two CPUs that take the same way
 * lose one flow, which is then new work once more.
 */
__attribute__((noinline)) int ls_flow_is_known(struct ls_job *job, __u32 admits)
{
	if (!job)
		return 0;
	ls_hash_subject(job, LS_CLASS_SLOT_FLOWS, LS_ABI_PER_FLOW, 0, 0);
	__u32 index = (__u32)(job->hash_place >> 32) & (LS_FLOW_LINES - 1);
	struct ls_flow_line *line = bpf_map_lookup_elem(&ls_flows, &index);
	if (!line)
		return 0;
	__u32 tag = ls_flow_tag(job->hash_tag), stamp = ls_flow_stamp(job->now_ns);
	/* In memory, not in a register, whose value the verifier would follow through all sixteen. */
	LS_WRITE_ONCE(job->dead_state, 0);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LS_FLOW_WAYS; i++) {
		__u32 way = LS_READ_ONCE(line->way[i]);
		__u32 age = ls_flow_age(way, stamp);
		if ((way & ~0xffU) == tag && (admits || age <= LS_FLOW_AGE)) {
			if (age)
				LS_WRITE_ONCE(line->way[i], tag | stamp);
			return 1;
		}
		__u64 oldest = LS_READ_ONCE(job->dead_state), this = (__u64)age << 8 | i;
		LS_WRITE_ONCE(job->dead_state, this > oldest ? this : oldest);
	}
	__u32 oldest = (__u32)LS_READ_ONCE(job->dead_state) & (LS_FLOW_WAYS - 1);
	if (admits)
		LS_WRITE_ONCE(line->way[oldest], tag | stamp);
	return 0;
}

/* Counts the source's new work; whether it is above its fair rate. A source that many users share may have more. */
LS_INLINE int ls_is_heavy(const struct ls_job *job, struct ls_offered *own, struct ls_hash hash)
{
	__u32 after = LS_READ_ONCE(ls_overload.heavy_after);
	__u64 *first = &own->sketch[0][(hash.place >> 40) & (LS_SKETCH_CELLS - 1)];
	__u64 *second = &own->sketch[1][(hash.tag >> 40) & (LS_SKETCH_CELLS - 1)];
	__u32 count = ls_sketch_add(first, job->now_ns);
	__u32 other = ls_sketch_add(second, job->now_ns);
	if (other < count)
		count = other;
	return after && count > (job->factor > 1 ? (__u64)after * job->factor : after);
}

/* Whether the breaker of the packet's class refuses it. */
LS_INLINE int ls_breaker_refuses(const struct ls_job *job, struct ls_offered *own)
{
	if (job->class_index == LS_NO_CLASS)
		return 0;
	__u64 slot = ls_bounded(ls_job_class(job)->slot, LS_CLASS_SLOTS);
	const struct ls_breaker_abi *breaker = &ls_overload.breaker[slot];
	return job->now_ns < LS_READ_ONCE(breaker->until_ns) &&
	       !ls_level_carries(&own->carry_breaker, LS_READ_ONCE(breaker->boundary));
}

/* Asks breaker and level. The clock must be set. */
__attribute__((noinline)) int ls_level_ask(struct ls_job *job, __u32 priority)
{
	if (!job || !ls_level_applies(&job->packet))
		return LS_ASK_OK;
	priority &= LS_PRIORITIES - 1;
	if (ls_is_flow(&job->packet) && ls_flow_is_known(job, 0))
		return LS_ASK_OK;
	struct ls_offered *own = ls_offered_of(job);
	if (!own)
		return LS_ASK_OK;
	if (job->word & LS_WORD_BREAKERS && ls_breaker_refuses(job, own)) {
		own->refused_breaker[priority]++;
		return LS_ASK_REFUSED;
	}
	struct ls_hash hash = ls_hash_source(ls_control.hash_key, LS_CLASS_SLOT_LEVEL,
					     LS_ABI_PER_SOURCE, &job->packet);
	__u32 step = ls_level_step(hash.place, ls_overload.salt, ls_is_heavy(job, own, hash));
	/* Asked again because another CPU got ahead, it is still one piece of work. */
	if (!job->is_offered)
		own->offered[ls_bounded(ls_level_index(priority, step), LS_LEVELS)]++;
	job->is_offered = 1;
	const struct ls_level_abi *level = &ls_overload.hand;
	if (job->now_ns >= LS_READ_ONCE(level->until_ns))
		level = &ls_overload.level;
	if (job->now_ns >= LS_READ_ONCE(level->until_ns))
		return LS_ASK_OK;
	if (ls_level_admits(LS_READ_ONCE(level->admit[priority]), step, &own->carry))
		return LS_ASK_OK;
	own->refused_level[priority]++;
	return LS_ASK_REFUSED;
}

__attribute__((noinline)) int ls_level_count_guard(const struct ls_job *job, __u32 priority)
{
	struct ls_offered *own = job ? ls_offered_of(job) : 0;
	if (own)
		own->refused_guard[priority & (LS_PRIORITIES - 1)]++;
	return 0;
}

/* New work that everybody has admitted and that is charged. */
__attribute__((noinline)) int ls_level_admitted(struct ls_job *job, __u32 priority)
{
	struct ls_offered *own = job ? ls_offered_of(job) : 0;
	if (!own)
		return 0;
	own->admitted[priority & (LS_PRIORITIES - 1)]++;
	if (ls_is_connection(&job->packet))
		own->admitted_tcp++;
	else if (ls_is_flow(&job->packet))
		ls_flow_is_known(job, 1);
	return 0;
}

#endif
