/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_KERN_LIMITS_H
#define LOADSHED_KERN_LIMITS_H

/*
 * All or nothing over the limits of a class: every limit is asked, in file order, before any is charged;
 * the first that refuses names the verdict, and nothing was written. Then the charges are committed, what
 * many share (class, destination, prefix, overload) before the source's own, each by compare-and-swap; a
 * commit that another CPU got ahead of is judged again, and if that refuses, what was committed is undone.
 *
 * The checks leave what the commit needs in the CPU's scratch. A refused packet writes to no line that
 * another CPU reads, so a flood from a blocked source costs no cache traffic; but what a class with `ban` refuses adds a
 * strike, and what the crowd's bucket refuses is counted.
 */

#include "kern/clock.h"
#include "kern/table.h"
#include "pure/hot.h"
#include "pure/limit.h"

/* One state under one limit, as pure as it gets outside bpf/pure: what the algorithms ask for. */
struct ls_question {
	__u64 state;
	__u64 cost;
	__u64 ceiling; /* tau, or the limit in units */
	__u32 log;     /* index into ls_logs; sliding log only */
};

/* Whether the state admits the cost; on yes *ret_next is the state that charges it. */
LS_INLINE int ls_take(const struct ls_job *job, const struct ls_limit_abi *limit,
		      const struct ls_question *question, __u64 *ret_next)
{
	__u32 index = question->log;
	if (limit->algorithm == LS_ABI_SLIDING_LOG) {
		struct ls_log *log = bpf_map_lookup_elem(&ls_logs, &index);
		return log ? ls_log_take(log, question->state, job->now, limit->window_ns,
					 question->ceiling, ret_next)
			   : 1;
	}
	return ls_limit_take(limit, job->now, ls_job_wall_ns(job), question->state, question->cost,
			     question->ceiling, ret_next);
}

/* How many packets, bytes or connections the packet is to this limit. */
LS_INLINE __u64 ls_units(const struct ls_job *job, const struct ls_limit_abi *limit)
{
	if (limit->count == LS_ABI_BYTES)
		return job->bytes;
	return limit->count != LS_ABI_CONNECTIONS || ls_is_connection(&job->packet);
}

/* What the packet costs this limit, in ticks or units; 0: nothing, and then it is never refused by it. */
LS_INLINE __u64 ls_cost(const struct ls_job *job, const struct ls_limit_abi *limit)
{
	__u64 units = ls_units(job, limit);
	return units ? ls_limit_price(limit, units) : 0;
}

/* Hashes a subject other than the plain source into job->hash_*. per, bits4, bits6 as in ls_limit_abi. */
__attribute__((noinline)) int ls_hash_subject(struct ls_job *job, __u32 class_slot, __u32 per,
					      __u32 bits4, __u32 bits6)
{
	if (!job)
		return 0;
	struct ls_hash hash =
		ls_hash_other(ls_control.hash_key, class_slot, per, bits4, bits6, &job->packet);
	job->hash_place = hash.place;
	job->hash_tag = hash.tag;
	return 0;
}

LS_INLINE struct ls_hash ls_limit_hash(struct ls_job *job, const struct ls_limit_abi *limit,
				       __u32 class_slot)
{
	if (LS_LIKELY(limit->per == LS_ABI_PER_SOURCE))
		return ls_hash_source(ls_control.hash_key, class_slot, LS_ABI_PER_SOURCE,
				      &job->packet);
	ls_hash_subject(job, class_slot, limit->per, limit->bits4, limit->bits6);
	return (struct ls_hash){ job->hash_place, job->hash_tag };
}

#define LS_ASK_OK 0
#define LS_ASK_REFUSED 1
#define LS_ASK_CROWD 2
#define LS_ASK_INTERNAL 3

/* Which of the pendings refused, and how. */
#define LS_REFUSAL(index, answer) ((index) << 8 | (answer))
#define LS_REFUSAL_INDEX(refusal) ((refusal) >> 8)
#define LS_REFUSAL_ANSWER(refusal) ((refusal)&0xff)

/* Asks the shared state of a limit: the one bucket of `per: class`, or the crowd's. */
LS_INLINE int ls_ask_shared(struct ls_job *job, const struct ls_limit_abi *limit,
			    struct ls_pending *pending, __u8 at)
{
	struct ls_shared *shared = &ls_static.tables.shared[limit->slot & (LS_SLOTS - 1)];
	struct ls_question question = {
		.state = *(const volatile __u64 *)(at == LS_AT_CROWD ? &shared->crowd
								     : &shared->state),
		.cost = pending->cost,
		.ceiling = pending->ceiling,
	};
	__u64 next = 0;
	if (!ls_take(job, limit, &question, &next))
		return at == LS_AT_CROWD ? LS_ASK_CROWD : LS_ASK_REFUSED;
	pending->at = at;
	pending->set = limit->slot;
	pending->state = question.state;
	pending->next = next;
	return LS_ASK_OK;
}

/* A newcomer without a place. */
LS_INLINE int ls_ask_unplaced(struct ls_job *job, const struct ls_limit_abi *limit,
			      struct ls_pending *pending)
{
	if (limit->table != LS_TABLE_SHORT) {
		__sync_fetch_and_add(&ls_control.unplaced_long, 1);
		return LS_ASK_OK; /* pending->at is LS_AT_NOWHERE */
	}
	/* The crowd's bucket has the limit's own ceiling and price, whoever is charged. */
	pending->ceiling = limit->tau;
	pending->cost = ls_cost(job, limit);
	pending->shared = 1;
	__sync_fetch_and_add(&ls_static.tables.shared[limit->slot & (LS_SLOTS - 1)].unplaced, 1);
	return ls_ask_shared(job, limit, pending, LS_AT_CROWD);
}

/*
 * What the side table makes of the cost and ceiling of the limit that is being asked: a part of the limit while the store
 * is away, or a window's count that is this node's to give.
 */
__attribute__((noinline)) int ls_hot_adjust(struct ls_job *job)
{
	if (!job)
		return 0;
	__u32 i = job->asking & (LS_CLASS_LIMITS - 1), zero = 0;
	const struct ls_limit_abi *limit = &ls_job_class(job)->limit[i];
	struct ls_pending *pending = &ls_cpu_of(job->cpu)->pending[i];
	const struct ls_hot *hot = bpf_map_lookup_elem(&ls_hot, &zero);
	if (!hot)
		return 0;
	struct ls_hot_standing standing = {
		.cost = pending->cost,
		.ceiling = pending->ceiling,
		.factor = limit->per == LS_ABI_PER_SOURCE ? job->factor : 0,
	};
	ls_hot_apply(hot, limit, pending->hot, job->now_ns, ls_job_wall_ns(job), &standing);
	pending->cost = standing.cost;
	pending->ceiling = standing.ceiling;
	return 0;
}

/* Asks one limit and leaves in *pending what would charge it. */
LS_INLINE int ls_ask(struct ls_job *job, const struct ls_limit_abi *limit, __u32 class_slot,
		     struct ls_pending *pending)
{
	__u64 cost = ls_cost(job, limit);
	pending->at = LS_AT_NOWHERE;
	if (!cost)
		return LS_ASK_OK;
	__u64 ceiling = limit->tau;
	ls_limit_scale(limit, job->factor, &cost, &ceiling);
	pending->cost = cost;
	pending->ceiling = ceiling;
	pending->shared = limit->flags & LS_LIMIT_F_SHARED;
	if (LS_UNLIKELY(limit->flags & LS_LIMIT_F_CLUSTER && job->shares & LS_SHARES_MORE)) {
		ls_hot_adjust(job);
		cost = pending->cost;
		ceiling = pending->ceiling;
	}
	if (limit->per == LS_ABI_PER_CLASS && limit->table != LS_TABLE_LOG)
		return ls_ask_shared(job, limit, pending, LS_AT_SHARED);

	struct ls_hash hash = ls_limit_hash(job, limit, class_slot);
	__u64 key = ls_hash_key(hash, limit->slot);
	__u32 table = limit->table & (LS_TABLES - 1);
	__u32 set = ls_table_set(table, hash);
	struct ls_ways *ways = ls_ways_at(set);
	if (!ways)
		return LS_ASK_INTERNAL;
	struct ls_question question = { .cost = cost, .ceiling = ceiling };
	__u8 at = LS_AT_WAY;
	__u32 way = ls_way_find(ways, key, &question.state);
	__u64 state = question.state;
	if (way == LS_WAY_NONE) {
		way = (__u32)ls_way_to_claim(job, table, set, key);
		if (way >= LS_WAYS)
			return ls_ask_unplaced(job, limit, pending);
		at = LS_AT_FREE_WAY;
		state = job->dead_state;
		question.state = 0;
	}
	question.log = (set - ls_table_base[LS_TABLE_LOG]) * LS_WAYS + way;
	__u64 next = 0;
	if (!ls_take(job, limit, &question, &next))
		return LS_ASK_REFUSED;
	pending->at = at;
	pending->set = set;
	pending->way = (__u8)way;
	pending->key = key;
	pending->state = state;
	pending->next = next;
	return LS_ASK_OK;
}

/* Where the stamps of a pending in the log table are. */
LS_INLINE __u32 ls_log_index(const struct ls_pending *pending)
{
	return (pending->set - ls_table_base[LS_TABLE_LOG]) * LS_WAYS + pending->way;
}

/* The stamp of a sliding log goes in before the state that counts it. */
LS_INLINE void ls_log_stamp(const struct ls_job *job, const struct ls_pending *pending)
{
	__u32 index = ls_log_index(pending);
	struct ls_log *log = bpf_map_lookup_elem(&ls_logs, &index);
	if (log)
		log->stamp[(pending->next - 2) & (LS_LOG_STAMPS - 1)] = job->now;
}

/* Tries once to commit what ls_ask() left; 0 when another CPU was faster. */
LS_INLINE int ls_commit_once(const struct ls_job *job, const struct ls_limit_abi *limit,
			     const struct ls_pending *pending)
{
	__u8 at = pending->at;
	if (at == LS_AT_NOWHERE)
		return 1;
	if (at >= LS_AT_SHARED) {
		struct ls_shared *shared = &ls_static.tables.shared[pending->set & (LS_SLOTS - 1)];
		__u64 *state = at == LS_AT_CROWD ? &shared->crowd : &shared->state;
		return __sync_val_compare_and_swap(state, pending->state, pending->next) ==
		       pending->state;
	}
	struct ls_ways *ways = ls_ways_at(pending->set);
	if (!ways)
		return 1;
	struct ls_way *way = &ways->way[pending->way & (LS_WAYS - 1)];
	if (limit->table == LS_TABLE_LOG)
		ls_log_stamp(job, pending);
	/* The key once more: a claim, even one of this packet, may have left the state that was read. */
	if (at == LS_AT_WAY)
		return LS_READ_ONCE(way->key) == pending->key &&
		       __sync_val_compare_and_swap(&way->state, pending->state, pending->next) ==
			       pending->state;
	if (__sync_val_compare_and_swap(&way->state, pending->state, LS_STATE_BUSY) !=
	    pending->state)
		return 0;
	LS_WRITE_ONCE(way->key, pending->key);
	__sync_lock_test_and_set(&way->state,
				 pending->next); /* an exchange: orders the key before it */
	return 1;
}

#define LS_COMMIT_TRIES 4

LS_INLINE struct ls_pending *ls_pending_of(const struct ls_job *job, __u32 i)
{
	return &ls_cpu_of(job->cpu)->pending[i & (LS_PENDINGS - 1)];
}

/* Asks limit i of the job's class; the answer. */
__attribute__((noinline)) int ls_ask_at(struct ls_job *job, __u32 i)
{
	if (!job)
		return LS_ASK_INTERNAL;
	struct ls_class_abi *class = ls_job_class(job);
	struct ls_pending *pending = ls_pending_of(job, i);
	job->asking = i;
	return ls_ask(job, &class->limit[i & (LS_CLASS_LIMITS - 1)], class->slot, pending);
}

#define LS_COMMIT_AGAIN 4

/* The state that a pending is about, where it can be asked again; NULL: its way has changed hands. */
LS_INLINE __u64 *ls_pending_state(const struct ls_pending *pending)
{
	if (pending->at >= LS_AT_SHARED) {
		struct ls_shared *shared = &ls_static.tables.shared[pending->set & (LS_SLOTS - 1)];
		return pending->at == LS_AT_CROWD ? &shared->crowd : &shared->state;
	}
	struct ls_ways *ways = ls_ways_at(pending->set);
	if (!ways || pending->at != LS_AT_WAY)
		return 0;
	struct ls_way *way = &ways->way[pending->way & (LS_WAYS - 1)];
	return LS_READ_ONCE(way->key) == pending->key ? &way->state : 0;
}

/*
 * The last resort of a commit that lost every try: an addition cannot lose. The charge is added first and judged by
 * what was there before; if that refuses, it is taken back. Right for a bucket that is not full (a contended one is
 * not) and for a window that still runs; a sliding log cannot be added to and lets the packet go.
 */
LS_INLINE int ls_charge_by_adding(struct ls_job *job, const struct ls_limit_abi *limit,
				  const struct ls_pending *pending, __u64 *state)
{
	if (limit->algorithm == LS_ABI_SLIDING_LOG) {
		__sync_fetch_and_add(&ls_control.contended, 1);
		return LS_ASK_OK;
	}
	if (LS_READ_ONCE(*state) == LS_STATE_BUSY)
		return LS_COMMIT_AGAIN; /* being claimed: an addition would make it look dead */
	struct ls_question question = {
		.state = __sync_fetch_and_add(state, pending->cost),
		.cost = pending->cost,
		.ceiling = pending->ceiling,
	};
	__u64 next = 0;
	if (question.state != LS_STATE_BUSY && ls_take(job, limit, &question, &next))
		return LS_ASK_OK;
	__sync_fetch_and_add(state, -pending->cost);
	return pending->at == LS_AT_CROWD ? LS_ASK_CROWD : LS_ASK_REFUSED;
}

/*
 * Commits limit i of the job's class as it was asked; when another CPU got ahead, asks the same state again. The
 * answer is then the new one, or LS_COMMIT_AGAIN when a way has changed hands, so that all must be asked again.
 */
__attribute__((noinline)) int ls_commit_at(struct ls_job *job, __u32 i)
{
	if (!job)
		return LS_ASK_OK;
	const struct ls_limit_abi *limit = &ls_job_class(job)->limit[i & (LS_CLASS_LIMITS - 1)];
	struct ls_pending *pending = ls_pending_of(job, i);
	if (ls_commit_once(job, limit, pending))
		return LS_ASK_OK;
	__u64 *state = ls_pending_state(pending);
	if (!state)
		return LS_COMMIT_AGAIN;
#pragma clang loop unroll(disable)
	for (int try = 0; try < LS_COMMIT_TRIES; try++) {
		struct ls_question question = {
			.state = LS_READ_ONCE(*state),
			.cost = pending->cost,
			.ceiling = pending->ceiling,
			.log = ls_log_index(pending),
		};
		__u64 next = 0;
		if (question.state == LS_STATE_BUSY)
			return LS_COMMIT_AGAIN;
		if (!ls_take(job, limit, &question, &next))
			return pending->at == LS_AT_CROWD ? LS_ASK_CROWD : LS_ASK_REFUSED;
		pending->state = question.state;
		pending->next = next;
		if (ls_commit_once(job, limit, pending))
			return LS_ASK_OK;
	}
	return ls_charge_by_adding(job, limit, pending, state);
}

/*
 * Takes back one committed charge. If nobody has charged the state since, it becomes what it was; otherwise
 * the cost is subtracted, which is right for a bucket and for a window that still runs.
 */
LS_INLINE void ls_undo_state(__u64 *state, const struct ls_pending *pending, int subtracts)
{
	/* A claimed way becomes untouched; a bucket back at its old TAT is as full as it was. */
	__u64 before = pending->at == LS_AT_FREE_WAY ? 0 : pending->state;
	if (__sync_val_compare_and_swap(state, pending->next, before) != pending->next && subtracts)
		__sync_fetch_and_add(state, -pending->cost);
}

/* Undoes the charges in `committed` (bit i: pending i). */
__attribute__((noinline)) int ls_undo(const struct ls_job *job, __u32 committed)
{
	if (!job)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LS_PENDINGS; i++) {
		struct ls_pending *pending = ls_pending_of(job, i);
		if (!(committed >> i & 1))
			continue;
		/* A log's last stamp cannot be taken back once another followed. */
		int subtracts = pending->set < ls_table_base[LS_TABLE_LOG] ||
				pending->at >= LS_AT_SHARED;
		if (pending->at >= LS_AT_SHARED) {
			struct ls_shared *shared =
				&ls_static.tables.shared[pending->set & (LS_SLOTS - 1)];
			ls_undo_state(pending->at == LS_AT_CROWD ? &shared->crowd : &shared->state,
				      pending, subtracts);
		} else if (pending->at != LS_AT_NOWHERE) {
			struct ls_ways *ways = ls_ways_at(pending->set);
			if (ways)
				ls_undo_state(&ways->way[pending->way & (LS_WAYS - 1)].state,
					      pending, subtracts);
		}
	}
	return 0;
}

#endif
