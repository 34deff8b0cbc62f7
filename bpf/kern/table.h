/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_KERN_TABLE_H
#define LOADSHED_KERN_TABLE_H

/*
 * The tables of state per (subject, limit): look-up, and whom a newcomer may replace.
 *
 * Forgetting a state that holds nothing (a full bucket, a window that has passed) changes no verdict, so
 * only such ways are taken. In the short table nothing outlives about 10 s, so a flood recycles its own
 * dead; in the others the least used state goes if it has used at most 1/8 of its limit. A newcomer for whom
 * there is no way is charged to the limit's crowd bucket (short table) or passes, counted (the others):
 * nobody who is being limited is ever evicted for a stranger.
 *
 * Between CPUs: a way's owner is (key, state). Whoever charges it reads the state, then sees the key again,
 * then compares and swaps the state, so a way that changed hands in between is noticed. Whoever claims it
 * swaps the state to BUSY first, then writes the key, then the state. Two CPUs may claim two ways for one
 * newcomer at once; the first in order is found from then on and the other dies, at the price of one packet.
 */

#include "kern/clock.h"
#include "pure/bucket.h"
#include "pure/hash.h"
#include "pure/window.h"

LS_INLINE struct ls_ways *ls_ways_at(__u32 set)
{
	return bpf_map_lookup_elem(&ls_ways, &set);
}

LS_INLINE __u32 ls_table_set(__u32 table, struct ls_hash hash)
{
	table &= LS_TABLES - 1;
	return ls_table_base[table] + ls_hash_set(hash, ls_table_mask[table]);
}

#define LS_WAY_NONE ((__u32)LS_WAYS)

/*
 * The way of `key` and its state, or LS_WAY_NONE. A set fills from the front and a key never becomes 0
 * again, so a 0 in the first line means that the second was never used.
 */
LS_INLINE __u32 ls_way_find(const struct ls_ways *ways, __u64 key, __u64 *ret_state)
{
	__u32 way = LS_WAY_NONE;
	if (LS_LIKELY(LS_READ_ONCE(ways->way[0].key) == key))
		way = 0; /* in a table that is not full nearly always */
	else
		for (int i = LS_WAYS_LINE - 1; i > 0; i--)
			if (LS_READ_ONCE(ways->way[i].key) == key)
				way = (__u32)i;
	if (way == LS_WAY_NONE) {
		if (!LS_READ_ONCE(ways->way[LS_WAYS_LINE - 1].key))
			return LS_WAY_NONE;
		for (int i = LS_WAYS - 1; i >= LS_WAYS_LINE; i--)
			if (LS_READ_ONCE(ways->way[i].key) == key)
				way = (__u32)i;
		if (way == LS_WAY_NONE)
			return LS_WAY_NONE;
	}
	way = ls_opaque(way) & (LS_WAYS - 1);
	*ret_state = LS_READ_ONCE(ways->way[way].state);
	if (*ret_state == LS_STATE_BUSY || LS_READ_ONCE(ways->way[way].key) != key)
		return LS_WAY_NONE;
	return way;
}

/* The share of a window's count, as ls_share() says; 0: the window has passed. */
LS_INLINE __u32 ls_share_window(const struct ls_job *job, const struct ls_slot_abi *slot,
				__u64 state)
{
	struct ls_window_clock clock =
		ls_window_at(ls_job_wall_ns(job), slot->window_ns | !slot->window_ns);
	if (slot->algorithm == LS_ABI_FIXED_WINDOW) {
		__u64 count = ls_fixed_count(state, clock.number);
		return count ? (__u32)(count >> (slot->share_shift & 63)) | 1 : 0;
	}
	struct ls_sliding_counts counts = ls_sliding_counts(state, clock.number);
	__u64 count = counts.previous + counts.current; /* an upper bound is enough to spare it */
	return count ? (__u32)(count >> (slot->share_shift & 63)) | 1 : 0;
}

LS_INLINE __u32 ls_share_log(const struct ls_job *job, const struct ls_slot_abi *slot, __u64 state,
			     __u32 place)
{
	struct ls_log *log = bpf_map_lookup_elem(&ls_logs, &place);
	if (!log || state <= 1)
		return 0;
	__u64 window = slot->window_ns << LS_TICKS_PER_NS_SHIFT;
	__u64 admitted = state - 1;
	if (!ls_tick_after(log->stamp[(admitted - 1) & (LS_LOG_STAMPS - 1)] + window, job->now))
		return 0;
	__u64 eighth = slot->limit / 8;
	/* More than an eighth of the limit is live: not for eviction. */
	if (admitted > eighth &&
	    ls_tick_after(log->stamp[(admitted - 1 - eighth) & (LS_LOG_STAMPS - 1)] + window,
			  job->now))
		return 255;
	return 1;
}

LS_INLINE __u32 ls_share_strikes(const struct ls_job *job, const struct ls_slot_abi *slot,
				 __u64 state, __u32 place)
{
	__u32 set = place / LS_WAYS;
	struct ls_strikes *strikes = bpf_map_lookup_elem(&ls_strikes, &set);
	if (!strikes || ls_tick_after(job->now, state + (slot->window_ns << LS_TICKS_PER_NS_SHIFT)))
		return 0;
	return (strikes->count[place % LS_WAYS] >> (slot->share_shift & 31)) | 1;
}

/*
 * How much of its limit the state in a way has used, in units of which full_share are the whole; 0: dead.
 * `place` is set * LS_WAYS + way within the tables that have more than a state.
 */
LS_INLINE __u32 ls_share(const struct ls_job *job, const struct ls_slot_abi *slot, __u32 table,
			 __u64 state, __u32 place)
{
	if (!slot->known || state == 0)
		return 0;
	if (table == LS_TABLE_LOG)
		return ls_share_log(job, slot, state, place);
	if (table == LS_TABLE_STRIKE)
		return ls_share_strikes(job, slot, state, place);
	if (slot->algorithm != LS_ABI_TOKEN_BUCKET)
		return ls_share_window(job, slot, state);
	__u64 used = ls_bucket_used(state, job->now, LS_COST_TICKS_MAX);
	return used ? (__u32)(used >> (slot->share_shift & 63)) | 1 : 0;
}

/*
 * The ways of `set` that pendings before job->asking of the same packet want, as a bitmap: limits of one subject share a
 * set, so several newcomers of one packet must not be given the same way. Those of panic are hashed by another
 * class slot and look at each other only; where by chance both want one way, the commit notices.
 */
LS_INLINE __u32 ls_ways_wanted(const struct ls_job *job, __u32 set)
{
	const struct ls_cpu *cpu = ls_cpu_of(job->cpu);
	__u32 first = job->asking >= LS_PENDING_PANIC ? LS_PENDING_PANIC : 0;
	__u32 wanted = 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LS_CLASS_LIMITS; i++) {
		if (first + i >= job->asking)
			break;
		const struct ls_pending *pending =
			&cpu->pending[ls_bounded(first + i, LS_PENDINGS)];
		__u32 is_here = pending->set == set &&
				(pending->at == LS_AT_WAY || pending->at == LS_AT_FREE_WAY);
		wanted |= is_here << (pending->way & (LS_WAYS - 1));
		wanted = ls_opaque(wanted);
	}
	return wanted;
}

/*
 * Which way of a set a newcomer may claim: the first dead one, or, outside the short table, the one that has
 * used the smallest share of its limit, if that is at most 1/8. LS_WAY_NONE: nobody. A way of the same subject under a
 * limit that the policy still has is left alone, dead or not: that limit of this very packet may be about to charge
 * it. job->dead_state is what was judged: a claim swaps exactly that, so that a way charged since is not lost.
 */
__attribute__((noinline)) int ls_way_to_claim(struct ls_job *job, __u32 table, __u32 set,
					      __u64 for_key)
{
	if (!job)
		return LS_WAY_NONE;
	struct ls_ways *ways = ls_ways_at(set);
	if (!ways)
		return LS_WAY_NONE;
	__u32 first = (set - ls_table_base[table & (LS_TABLES - 1)]) * LS_WAYS;
	__u32 wanted = ls_ways_wanted(job, set);
	__u32 best = ls_opaque(LS_WAY_NONE), best_share = ls_opaque(256);
	__u64 best_state = 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LS_WAYS; i++) {
		__u64 state = LS_READ_ONCE(ways->way[i].state);
		__u64 key = LS_READ_ONCE(ways->way[i].key);
		if (state == LS_STATE_BUSY || wanted >> i & 1)
			continue;
		job->dead_state = state;
		if (!key)
			return (int)i;
		const struct ls_slot_abi *slot = &ls_static.tables.slots[ls_bounded(
			job->half * LS_SLOTS + (key & (LS_SLOTS - 1)), 2 * LS_SLOTS)];
		if ((key ^ for_key) < LS_SLOTS && slot->known)
			continue;
		__u32 share = ls_share(job, slot, table, state, first + i);
		if (!share)
			return (int)i;
		if (share < best_share && share * 8 <= slot->full_share) {
			best = ls_opaque(i);
			best_share = share;
			best_state = state;
		}
	}
	if (table == LS_TABLE_SHORT || best == LS_WAY_NONE)
		return LS_WAY_NONE;
	__sync_fetch_and_add(&ls_control.evicted, 1);
	job->dead_state = best_state;
	return (int)best;
}

#endif
