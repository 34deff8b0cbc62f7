/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_KERN_JUDGE_H
#define LOADSHED_KERN_JUDGE_H

/* Steps 8 to 10: the limits of the class, panic, overload, and what is said about it. */

#include "kern/bans.h"
#include "kern/hot.h"
#include "kern/events.h"
#include "kern/level.h"
#include "kern/limits.h"
#include "kern/listener.h"
#include "kern/overload.h"
#include "kern/panic.h"

/*
 * Notes that pending i is charged. In memory, not in a register: a register's value is known to the verifier,
 * which would then follow each of the 2^12 ways to have committed some of twelve.
 */
LS_INLINE void ls_committed(struct ls_job *job, __u32 i)
{
	LS_WRITE_ONCE(job->committed, LS_READ_ONCE(job->committed) | 1U << i);
}

/*
 * Commits those of n limits whose state is shared, or those whose is not; a refusal, or 0. A function of its own: called
 * twice in a loop, its own loop was a third of what the verifier goes through.
 */
__attribute__((noinline)) int ls_commit_some(struct ls_job *job, __u32 n, __u32 shared)
{
	if (!job)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LS_CLASS_LIMITS; i++) {
		if (i >= n)
			break;
		struct ls_pending *pending = ls_pending_of(job, i);
		if (pending->at == LS_AT_NOWHERE || pending->shared != shared)
			continue;
		int answer = ls_commit_at(job, i);
		if (answer != LS_ASK_OK)
			return (int)LS_REFUSAL(i, (__u32)answer);
		ls_committed(job, i);
	}
	return 0;
}

/* Asks both kinds of `overload.max`; a refusal, or 0. */
LS_INLINE int ls_ask_overload(struct ls_job *job, __u32 priority)
{
	for (__u32 kind = 0; kind < 2; kind++)
		if (ls_overload_ask(job, kind, priority) == LS_ASK_REFUSED)
			return (int)LS_REFUSAL(LS_PENDING_OVERLOAD, LS_ASK_REFUSED);
	return 0;
}

LS_INLINE int ls_commit_overload(struct ls_job *job, __u32 priority)
{
	for (__u32 kind = 0; kind < 2; kind++) {
		if (ls_overload_commit(job, kind, priority) != LS_ASK_OK)
			return (int)LS_REFUSAL(LS_PENDING_OVERLOAD, LS_ASK_REFUSED);
		ls_committed(job, LS_PENDING_OVERLOAD + kind);
	}
	return 0;
}

/*
 * Asks level, guard and listener, which come last: what refuses before them is not new work that the node could do.
 */
LS_INLINE int ls_ask_level(struct xdp_md *ctx, struct ls_job *job, __u32 priority)
{
	if (ls_level_ask(job, priority) == LS_ASK_REFUSED)
		return (int)LS_REFUSAL(LS_PENDING_OVERLOAD, LS_ASK_REFUSED);
	if (ls_overload_ask(job, LS_OVERLOAD_GUARD, priority) == LS_ASK_REFUSED) {
		ls_level_count_guard(job, priority);
		return (int)LS_REFUSAL(LS_PENDING_OVERLOAD, LS_ASK_REFUSED);
	}
	if (ls_listener_ask(ctx, job, priority) == LS_ASK_REFUSED)
		return (int)LS_REFUSAL(LS_PENDING_OVERLOAD, LS_ASK_REFUSED);
	return 0;
}

/* Charges the guard; a refusal, or 0. */
LS_INLINE int ls_commit_guard(struct ls_job *job, __u32 priority)
{
	if (ls_pending_of(job, LS_PENDING_GUARD)->at == LS_AT_NOWHERE)
		return 0;
	if (ls_overload_commit(job, LS_OVERLOAD_GUARD, priority) != LS_ASK_OK) {
		ls_level_count_guard(job, priority);
		return (int)LS_REFUSAL(LS_PENDING_OVERLOAD, LS_ASK_REFUSED);
	}
	ls_committed(job, LS_PENDING_GUARD);
	return 0;
}

/* Asks the three things that panic refuses; a refusal, or 0. */
LS_INLINE int ls_ask_panic(struct ls_job *job, __u32 priority)
{
	if (priority == LS_ABI_LOW && ls_is_new_work(&job->packet))
		return (int)LS_REFUSAL(LS_PENDING_PANIC, LS_ASK_REFUSED);
#pragma clang loop unroll(disable)
	for (__u32 kind = 0; kind < 2; kind++) {
		int answer = ls_panic_ask(job, kind);
		if (answer == LS_ASK_REFUSED || answer == LS_ASK_CROWD)
			return (int)LS_REFUSAL(LS_PENDING_PANIC, LS_ASK_REFUSED);
	}
	return 0;
}

LS_INLINE int ls_commit_panic(struct ls_job *job)
{
#pragma clang loop unroll(disable)
	for (__u32 kind = 0; kind < 2; kind++) {
		int answer = ls_panic_commit(job, kind);
		if (answer == LS_ASK_REFUSED || answer == LS_ASK_CROWD)
			return (int)LS_REFUSAL(LS_PENDING_PANIC, LS_ASK_REFUSED);
		ls_committed(job, LS_PENDING_PANIC + kind);
	}
	return 0;
}

/* Asks the n limits of the class; a refusal, or 0. */
__attribute__((noinline)) int ls_ask_limits(struct ls_job *job, __u32 n)
{
	if (!job)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LS_CLASS_LIMITS; i++) {
		if (i >= n)
			break;
		int answer = ls_ask_at(job, i);
		if (answer != LS_ASK_OK)
			return (int)LS_REFUSAL(i, (__u32)answer);
	}
	return 0;
}

/* Asks all limits of the class, panic and overload, without charging any. */
LS_INLINE int ls_ask_all(struct xdp_md *ctx, struct ls_job *job, __u32 n, __u32 priority)
{
	int refusal = ls_ask_limits(job, n);
	/* The word is read again each time: what is kept over the calls costs stack, of which callees need the rest. */
	if (!refusal && LS_READ_ONCE(job->word) & LS_WORD_PANIC)
		refusal = ls_ask_panic(job, priority);
	if (!refusal && LS_READ_ONCE(job->word) & LS_WORD_OVERLOAD)
		refusal = ls_ask_overload(job, priority);
	if (!refusal && LS_READ_ONCE(job->word) & LS_WORD_LEVEL)
		refusal = ls_ask_level(ctx, job, priority);
	if (!refusal && LS_READ_ONCE(job->shares))
		refusal = ls_hot_thin(job);
	return refusal;
}

/* Charges what was asked; a refusal, or LS_COMMIT_AGAIN as one: then job->committed says what is to be undone. */
LS_INLINE int ls_commit_all(struct ls_job *job, __u32 n, __u32 priority)
{
	int refusal = LS_READ_ONCE(job->word) & LS_WORD_OVERLOAD ? ls_commit_overload(job, priority)
								 : 0;
	if (!refusal && LS_READ_ONCE(job->word) & LS_WORD_PANIC)
		refusal = ls_commit_panic(job);
	if (!refusal && LS_READ_ONCE(job->word) & LS_WORD_LEVEL)
		refusal = ls_commit_guard(job, priority);
	if (!refusal)
		refusal = ls_commit_some(job, n, LS_LIMIT_F_SHARED);
	if (!refusal)
		refusal = ls_commit_some(job, n, 0);
	return refusal;
}

/*
 * Asks and commits all limits of the job's class (class_index may be LS_NO_CLASS: none), panic and overload. Returns 0
 * or LS_REFUSAL(). A function of its own, so that its loops are verified once.
 */
__attribute__((noinline)) int ls_limits_many(struct xdp_md *ctx, struct ls_job *job)
{
	if (!job)
		return 0;
	__u32 priority = LS_ABI_NORMAL;
	__u32 n = 0;
	job->is_offered = 0;
	if (job->class_index != LS_NO_CLASS) {
		priority = ls_job_class(job)->priority;
		n = ls_job_class(job)->n_limits;
	}
#pragma clang loop unroll(disable)
	for (int try = 0; try < LS_COMMIT_TRIES; try++) {
		int refusal = ls_ask_all(ctx, job, n, priority);
		if (refusal)
			return refusal;
		LS_WRITE_ONCE(job->committed, 0);
		refusal = ls_commit_all(job, n, priority);
		if (!refusal) {
			if (LS_READ_ONCE(job->is_offered))
				ls_level_admitted(job, priority);
			return 0;
		}
		ls_undo(job, job->committed);
		if (LS_REFUSAL_ANSWER((__u32)refusal) != LS_COMMIT_AGAIN)
			return refusal;
	}
	__sync_fetch_and_add(&ls_control.contended, 1);
	return 0;
}

/*
 * The short way: all limits are token buckets of the source in the short table (LS_CLASS_F_QUICK), so they share
 * one set, hashed and fetched once, and there is nothing to order. What is not simple about it, a newcomer to
 * several limits or another CPU in the way, goes to ls_limits_many() before anything is charged. It halves the cost
 * of a verdict against that.
 */
LS_INLINE int ls_quick_claim(struct ls_job *job, struct ls_ways *ways, __u32 set, __u64 key,
			     __u64 next)
{
	__u32 way = (__u32)ls_way_to_claim(job, LS_TABLE_SHORT, set, key);
	if (way >= LS_WAYS)
		return 0;
	struct ls_way *free = &ways->way[way];
	__u64 state = job->dead_state;
	if (__sync_val_compare_and_swap(&free->state, state, LS_STATE_BUSY) != state)
		return 0;
	LS_WRITE_ONCE(free->key, key);
	__sync_lock_test_and_set(&free->state, next); /* an exchange: orders the key before it */
	return 1;
}

/* What the short way cannot charge: all is asked again. */
LS_INLINE int ls_quick_again(struct xdp_md *ctx, struct ls_job *job)
{
	if (LS_UNLIKELY(job->shares))
		ls_hot_take_back(job);
	return ls_limits_many(ctx, job);
}

/* What the packet costs a token bucket, in ticks; 0: nothing. */
LS_INLINE __u64 ls_quick_cost(const struct ls_job *job, const struct ls_limit_abi *limit)
{
	__u64 units = 1;
	if (limit->count == LS_ABI_BYTES)
		units = job->bytes < limit->cap ? job->bytes : limit->cap;
	else if (limit->count == LS_ABI_CONNECTIONS && !ls_is_connection(&job->packet))
		return 0;
	return units * limit->mult >> (limit->shift & 63);
}

LS_INLINE int ls_limits_quick(struct xdp_md *ctx, struct ls_cpu *cpu, struct ls_class_abi *class)
{
	struct ls_job *job = &cpu->job;
	struct ls_hash hash =
		ls_hash_source(ls_control.hash_key, class->slot, LS_ABI_PER_SOURCE, &job->packet);
	__u32 set = ls_table_set(LS_TABLE_SHORT, hash);
	struct ls_ways *ways = ls_ways_at(set);
	if (!ways)
		return (int)LS_REFUSAL(0, LS_ASK_INTERNAL);
	__u32 n = class->n_limits;
	__u32 refusal = 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LS_CLASS_LIMITS; i++) {
		if (i >= n)
			break;
		const struct ls_limit_abi *limit = &class->limit[i];
		struct ls_pending *pending = &cpu->pending[i];
		__u64 cost = ls_quick_cost(job, limit);
		pending->at = LS_AT_NOWHERE;
		if (!cost)
			continue;
		if (LS_UNLIKELY(job->factor > 1))
			cost /= job->factor;
		__u64 key = ls_hash_key(hash, limit->slot), state = 0, next = 0;
		__u32 way = ls_way_find(ways, key, &state);
		if (way == LS_WAY_NONE)
			state = 0;
		if (!ls_bucket_take(state, job->now, cost, limit->tau, limit->clamp, &next)) {
			refusal = LS_REFUSAL(i, LS_ASK_REFUSED);
			break;
		}
		if (way == LS_WAY_NONE) {
			if (LS_UNLIKELY(job->shares))
				ls_hot_look(job);
			else if (n == 1 && ls_quick_claim(job, ways, set, key, next))
				return 0;
			return ls_limits_many(ctx, job);
		}
		if (n == 1 && !job->shares) {
			__u64 *only = &ways->way[way & (LS_WAYS - 1)].state;
			return LS_LIKELY(__sync_val_compare_and_swap(only, state, next) == state)
				       ? 0
				       : ls_limits_many(ctx, job);
		}
		pending->at = LS_AT_WAY;
		pending->set = set;
		pending->way = (__u8)way;
		pending->cost = cost;
		pending->state = state;
		pending->next = next;
	}
	if (LS_UNLIKELY(job->shares)) {
		refusal = (__u32)ls_hot_quick(job, hash.tag, refusal);
		if (refusal == (__u32)LS_HOT_MORE)
			return ls_limits_many(ctx, job);
	}
	if (refusal)
		return (int)refusal;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LS_CLASS_LIMITS; i++) {
		if (i >= n)
			break;
		struct ls_pending *pending = &cpu->pending[i];
		if (pending->at == LS_AT_NOWHERE)
			continue;
		__u64 *state = &ways->way[pending->way & (LS_WAYS - 1)].state;
		if (__sync_val_compare_and_swap(state, pending->state, pending->next) ==
		    pending->state)
			continue;
		ls_undo(job, (1U << i) - 1);
		return ls_quick_again(ctx, job);
	}
	return 0;
}

/* Says of a refused packet what it is counted as; class may be NULL (then only panic and overload refuse). */
LS_INLINE void ls_refused(struct ls_job *job, struct ls_class_abi *class, __u32 index, __u32 answer)
{
	int monitors = ls_job_monitors(job);
	int panic = index == LS_PENDING_PANIC;
	if (index == LS_PENDING_OVERLOAD)
		monitors |= (job->word & LS_WORD_OVERLOAD_MONITOR) != 0;
	if (!class) {
		ls_job_end(job, monitors ? LS_VERDICT_WOULD_DROP : LS_VERDICT_DROP,
			   panic ? LS_REASON_PANIC : LS_REASON_OVERLOAD);
		return;
	}
	monitors |= class->flags & LS_CLASS_F_MONITOR;
	job->verdict = monitors ? LS_VERDICT_WOULD_DROP : LS_VERDICT_DROP;
	if (index >= LS_PENDING_OVERLOAD) {
		job->reason = panic ? LS_REASON_PANIC : LS_REASON_OVERLOAD;
		job->counter = class->counter + (monitors ? LS_CLASS_COUNTER_OVERLOAD_WOULD
							  : LS_CLASS_COUNTER_OVERLOAD_DROP);
		if (panic)
			job->counter +=
				LS_CLASS_COUNTER_PANIC_DROP - LS_CLASS_COUNTER_OVERLOAD_DROP;
		return;
	}
	int crowd = answer == LS_ASK_CROWD;
	job->reason = crowd ? LS_REASON_CROWD : LS_REASON_LIMIT;
	job->limit = (__u8)index;
	job->counter = class->limit[ls_bounded(index, LS_CLASS_LIMITS)].counter +
		       (monitors ? LS_LIMIT_COUNTER_WOULD : LS_LIMIT_COUNTER_DROP) +
		       (crowd ? LS_LIMIT_COUNTER_CROWD_DROP - LS_LIMIT_COUNTER_DROP : 0);
	/* A monitored class never bans, an address of many users is never banned, and the crowd's
	 * refusals are nobody's in particular. */
	if (class->flags & LS_CLASS_F_BAN && !(class->flags & LS_CLASS_F_MONITOR) && !crowd &&
	    !job->factor && ls_strike(job))
		ls_event_ban(job, class->ban_for_ns);
}

/*
 * Whether something is asked beside the limits of the class. A level is not, of a packet that is no new work, so
 * connections in progress keep the short way.
 */
LS_INLINE int ls_has_beside(const struct ls_job *job)
{
	if (LS_LIKELY(!(job->word & (LS_WORD_OVERLOAD | LS_WORD_PANIC | LS_WORD_LEVEL))))
		return 0;
	return job->word & (LS_WORD_OVERLOAD | LS_WORD_PANIC) || ls_level_applies(&job->packet);
}

/* Judges a packet of a class. */
LS_INLINE void ls_judge_class(struct xdp_md *ctx, struct ls_cpu *cpu)
{
	struct ls_job *job = &cpu->job;
	struct ls_class_abi *class = ls_job_class(job);
	job->verdict = LS_VERDICT_PASS;
	job->reason = LS_REASON_ADMITTED;
	job->counter = class->counter + LS_CLASS_COUNTER_ADMITTED;
	int beside = ls_has_beside(job);
	if (!class->n_limits && !beside)
		return;
	ls_job_clock(cpu);
	if (LS_UNLIKELY(class->flags & LS_CLASS_F_CLUSTER))
		ls_hot_wants(cpu);
	__u32 refusal;
	if (class->flags & LS_CLASS_F_QUICK && !beside) {
		refusal = (__u32)ls_limits_quick(ctx, cpu, class);
	} else {
		if (LS_UNLIKELY(job->shares))
			ls_hot_look(job);
		refusal = (__u32)ls_limits_many(ctx, job);
	}
	if (LS_UNLIKELY(job->shares) && !(job->shares & LS_SHARES_SETTLED))
		ls_hot_settle(job, refusal);
	__u32 answer = LS_REFUSAL_ANSWER(refusal);
	if (LS_LIKELY(answer == LS_ASK_OK))
		return;
	if (answer == LS_ASK_INTERNAL) {
		job->reason = LS_REASON_INTERNAL;
		job->counter = class->counter + LS_CLASS_COUNTER_INTERNAL;
		return;
	}
	ls_refused(job, class, LS_REFUSAL_INDEX(refusal), answer);
}

/* Judges a packet of no class. */
LS_INLINE void ls_judge_unmatched(struct xdp_md *ctx, struct ls_cpu *cpu)
{
	struct ls_job *job = &cpu->job;
	ls_job_end(job, LS_VERDICT_PASS, LS_REASON_UNMATCHED);
	if (!ls_has_beside(job))
		return;
	ls_job_clock(cpu);
	__u32 refusal = (__u32)ls_limits_many(ctx, job);
	if (refusal)
		ls_refused(job, 0, LS_REFUSAL_INDEX(refusal), LS_ASK_REFUSED);
}

#endif
