/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_KERN_BANS_H
#define LOADSHED_KERN_BANS_H

/*
 * Bans: whether the source is banned, and the ban that a class gives after too many refusals. A ban of a
 * prefix is asked once per prefix length in use, the single address (IPv6: its /64) first; with no ban at
 * all a packet reads one word.
 */

#include "kern/clock.h"
#include "kern/table.h"
#include "pure/ban.h"

LS_INLINE __u64 ls_ban_word(const struct ls_packet *packet)
{
	return packet->family == 6 ? packet->source.high : packet->source.low;
}

LS_INLINE struct ls_bans *ls_bans_at(__u32 set)
{
	set &= ls_ban_mask;
	return bpf_map_lookup_elem(&ls_bans, &set);
}

/* Whether `subject` of `kind` is banned at now_ns. */
__attribute__((noinline)) int ls_ban_probe(__u64 subject, __u64 kind, __u64 now_ns)
{
	__u64 place = ls_ban_place(ls_control.hash_key, subject, kind);
	__u64 until = 0;
	struct ls_bans *set = ls_bans_at((__u32)(place >> 32));
	if (!set)
		return 0;
	if (ls_ban_find(set, subject, kind, &until) >= 0 && ls_ban_is_live(until, now_ns))
		return 1;
	if (LS_LIKELY(!(set->way[0].until & LS_BAN_OVERFLOWED)))
		return 0;
	set = ls_bans_at((__u32)place);
	return set && ls_ban_find(set, subject, kind, &until) >= 0 && ls_ban_is_live(until, now_ns);
}

/* Whether the source's prefix of `length` bits is banned. */
__attribute__((noinline)) int ls_is_banned_by(const struct ls_job *job, __u32 length)
{
	if (!job)
		return 0;
	int is_ipv6 = job->packet.family == 6;
	__u64 subject = ls_ban_subject(ls_ban_word(&job->packet), length & 63, is_ipv6);
	return ls_ban_probe(subject, ls_ban_kind(length & 63, is_ipv6), job->now_ns);
}

/* Whether a shorter prefix of the source is banned; bit L - 1 of `lengths`: some ban has length L. */
__attribute__((noinline)) int ls_is_banned_prefix(const struct ls_job *job, __u64 lengths)
{
	if (!job)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 length = 63; length > 0; length--)
		if (lengths >> (length - 1) & 1 && ls_is_banned_by(job, length))
			return 1;
	return 0;
}

/* Whether the source is banned. */
LS_INLINE int ls_is_banned(struct ls_cpu *cpu)
{
	struct ls_job *job = &cpu->job;
	int is_ipv6 = job->packet.family == 6;
	__u64 lengths = is_ipv6 ? LS_READ_ONCE(ls_control.ban_lengths6)
				: LS_READ_ONCE(ls_control.ban_lengths4);
	if (LS_LIKELY(!lengths))
		return 0;
	ls_job_clock(cpu);
	__u32 whole = is_ipv6 ? 64 : 32;
	__u64 bit = 1ULL << (whole - 1);
	if (lengths & bit && ls_ban_probe(ls_ban_subject(ls_ban_word(&job->packet), whole, is_ipv6),
					  ls_ban_kind(whole, is_ipv6), job->now_ns))
		return 1;
	return lengths & ~bit ? ls_is_banned_prefix(job, lengths & ~bit) : 0;
}

/* Bans the packet's source until end_ns; a ban that finds no place is counted. */
__attribute__((noinline)) int ls_ban_source(const struct ls_job *job, __u64 end_ns,
					    __u32 class_slot)
{
	if (!job)
		return 0;
	int is_ipv6 = job->packet.family == 6;
	__u32 whole = is_ipv6 ? 64 : 32;
	__u64 subject = ls_ban_subject(ls_ban_word(&job->packet), whole, is_ipv6);
	__u64 kind = ls_ban_kind(whole, is_ipv6);
	__u64 place = ls_ban_place(ls_control.hash_key, subject, kind);
	__u32 what = LS_BAN_INFO(LS_ORIGIN_CLASS, class_slot);
	__u32 home_index = (__u32)(place >> 32) & ls_ban_mask,
	      other_index = (__u32)place & ls_ban_mask;
	struct ls_bans *home = bpf_map_lookup_elem(&ls_bans, &home_index);
	struct ls_ban_info *info = bpf_map_lookup_elem(&ls_ban_info, &home_index);
	if (!home || !info)
		return 0;
	/* The word comes first: a ban that stands is one that packets look for. */
	if (is_ipv6)
		__sync_fetch_and_or(&ls_control.ban_lengths6, 1ULL << 63);
	else
		__sync_fetch_and_or(&ls_control.ban_lengths4, 1ULL << 31);
	if (ls_ban_put(home, info, subject, kind, end_ns, job->now_ns, what))
		return 1;
	struct ls_bans *other = bpf_map_lookup_elem(&ls_bans, &other_index);
	info = bpf_map_lookup_elem(&ls_ban_info, &other_index);
	if (other && info && (ls_ban_mark(home) || ls_ban_mark(home)) &&
	    ls_ban_put(other, info, subject, kind, end_ns, job->now_ns, what))
		return 1;
	__sync_fetch_and_add(&ls_control.bans_lost, 1);
	return 0;
}

/*
 * Counts one refusal of the source by its class, and bans it when `ban_after` have come within
 * `ban_within` of the first. The count starts again with a refusal that comes later than that, so a source
 * is never banned for fewer. Two CPUs that start a count at once lose one refusal.
 */
__attribute__((noinline)) int ls_strike(struct ls_job *job)
{
	if (!job)
		return 0;
	struct ls_class_abi *class = ls_job_class(job);
	struct ls_hash hash =
		ls_hash_source(ls_control.hash_key, class->slot, LS_ABI_PER_SOURCE, &job->packet);
	__u64 key = ls_hash_key(hash, class->ban_slot);
	__u32 set = ls_table_set(LS_TABLE_STRIKE, hash);
	struct ls_ways *ways = ls_ways_at(set);
	__u32 index = set - ls_table_base[LS_TABLE_STRIKE];
	struct ls_strikes *strikes = bpf_map_lookup_elem(&ls_strikes, &index);
	if (!ways || !strikes)
		return 0;

	__u64 first = 0;
	__u64 now = job->now | !job->now; /* 0 is "untouched" */
	__u32 way = ls_way_find(ways, key, &first);
	__u32 count = 1;
	if (way == LS_WAY_NONE) {
		way = (__u32)ls_way_to_claim(job, LS_TABLE_STRIKE, set, key);
		if (way >= LS_WAYS)
			return 0;
		__u64 state = job->dead_state;
		if (__sync_val_compare_and_swap(&ways->way[way].state, state, LS_STATE_BUSY) !=
		    state)
			return 0;
		LS_WRITE_ONCE(ways->way[way].key, key);
		LS_WRITE_ONCE(strikes->count[way], 1);
		__sync_lock_test_and_set(&ways->way[way].state, now);
	} else {
		way &= LS_WAYS - 1;
		if (first == 0 || (__s64)(now - first) > (__s64) class->ban_within_ticks) {
			if (__sync_val_compare_and_swap(&ways->way[way].state, first, now) == first)
				LS_WRITE_ONCE(strikes->count[way], 1);
		} else {
			count = __sync_fetch_and_add(&strikes->count[way], 1) + 1;
		}
	}
	if (count < class->ban_after)
		return 0;
	/* The ban has begun: what comes after it starts a new count. */
	LS_WRITE_ONCE(ways->way[way & (LS_WAYS - 1)].state, 0);
	return ls_ban_source(job, job->now_ns + class->ban_for_ns, class->slot);
}

#endif
