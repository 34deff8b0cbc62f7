/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_KERN_HOT_H
#define LOADSHED_KERN_HOT_H

/*
 * Limits that hold for all nodes together, bound to the side table (include/loadshed/hot_abi.h). Three steps around
 * the limits of a class that has such limits, while serve says that nodes share:
 *
 *   look     before the limits are asked: which of them have an entry for this packet. What has none is counted,
 *            so that serve hears of it once it is worth sharing.
 *   thin     after every limit, panic and overload said yes and before anything is charged: counts what is offered, and
 *            refuses the part that all nodes together do not admit. So what is thinned consumes nothing anywhere, and
 *            what another limit refuses does not count as demand of this one.
 *   settle   at the end: counts what was admitted; or, when the limit's own bucket refused, what was offered.
 *
 * Entries are read only; counts are the CPU's own, so a refused packet writes no shared line. A packet that arrives
 * while serve changes an entry's two words may go by the old ratio under the new end: by one period's difference.
 */

#include "kern/limits.h"

LS_INLINE struct ls_hot *ls_hot_table(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&ls_hot, &zero);
}

LS_INLINE struct ls_hot_cpu *ls_hot_own(const struct ls_job *job)
{
	__u32 cpu = job->cpu;
	return bpf_map_lookup_elem(&ls_hot_cpus, &cpu);
}

/* The live entry of a key, from 1; 0: none. */
LS_INLINE __u32 ls_hot_find(const struct ls_hot *hot, __u64 key, __u64 now_ns, __u32 *ret_more)
{
	__u32 number = ls_hot_set_of(key);
	const struct ls_hot_set *set = &hot->sets[ls_bounded(number, LS_HOT_SETS)];
	__u32 entry = 0;
	for (__u32 i = 0; i < LS_HOT_WAYS; i++)
		if (LS_READ_ONCE(set->way[i].key) == key)
			entry = number * LS_HOT_WAYS + i + 1;
	if (!entry)
		return 0;
	__u32 until = LS_READ_ONCE(set->way[(entry - 1) & (LS_HOT_WAYS - 1)].until);
	*ret_more = until & LS_HOT_F_MORE;
	return ls_hot_is_live(until, now_ns) ? entry : 0;
}

/* Tells serve of a source. */
__attribute__((noinline)) int ls_hot_tell(struct ls_job *job, __u32 index)
{
	if (!job)
		return 0;
	struct ls_hot_cpu *own = ls_hot_own(job);
	if (!own)
		return 0;
	const struct ls_pending *pending = ls_pending_of(job, index);
	struct ls_hot_news *news = &own->ring[ls_bounded(own->head, LS_HOT_RING)];
	const struct ls_packet *packet = &job->packet;
	news->key = pending->hot_key;
	news->source_high = packet->source.high;
	news->source_low = packet->source.low;
	news->destination_high = packet->destination.high;
	news->destination_low = packet->destination.low;
	news->source_port = packet->source_port;
	news->port = packet->port;
	news->protocol = packet->known & LS_KNOWN_PROTOCOL ? packet->protocol : 256;
	news->family = packet->family;
	news->has_ports = !!(packet->known & LS_KNOWN_PORTS);
	news->factor = job->factor;
	news->class_slot = ls_job_class(job)->slot;
	__sync_fetch_and_add(&own->head, 1); /* orders the entry before it */
	return 0;
}

/* Counts a source that is not shared; 1 when it has become worth telling. */
LS_INLINE int ls_hot_warm(const struct ls_hot_limit *limit, struct ls_hot_cpu *own, __u64 key,
			  __u64 now_ns)
{
	__u32 report_at = limit->report_at;
	if (!report_at)
		return 0;
	__u32 epoch = (__u32)(now_ns >> (limit->epoch_shift & 63));
	struct ls_hot_warm *warm = &own->warm[ls_bounded(key >> 20, LS_HOT_WARM)];
	__u32 count = warm->epoch == epoch ? warm->count : 0;
	if (warm->key != key) {
		if (count) {
			warm->count = count - 1;
			return 0;
		}
		warm->key = key;
	}
	warm->epoch = epoch;
	warm->count = count + 1;
	return count + 1 == report_at;
}

LS_INLINE void ls_hot_look_at(struct ls_job *job, struct ls_class_abi *class, __u32 i)
{
	const struct ls_limit_abi *limit = &class->limit[i & (LS_CLASS_LIMITS - 1)];
	struct ls_pending *pending = ls_pending_of(job, i);
	pending->hot = 0;
	if (!(limit->flags & LS_LIMIT_F_CLUSTER))
		return;
	__u64 units = ls_units(job, limit);
	struct ls_hot *hot = ls_hot_table();
	struct ls_hot_cpu *own = ls_hot_own(job);
	if (!units || !hot || !own)
		return;
	struct ls_hash hash = ls_limit_hash(job, limit, class->slot);
	__u64 key = ls_hash_key(hash, limit->slot);
	__u32 more = 0;
	pending->units = (__u32)units;
	pending->hot_key = key;
	pending->hot = ls_hot_find(hot, key, job->now_ns, &more);
	const struct ls_hot_limit *slot = &hot->limits[limit->slot & (LS_SLOTS - 1)];
	if (!pending->hot) {
		__u32 until = LS_READ_ONCE(slot->until);
		more = ls_hot_is_live(until, job->now_ns);
		if (more && until & LS_HOT_F_CLOSED)
			pending->hot = LS_HOT_CLOSED;
		if (ls_hot_warm(slot, own, key, job->now_ns))
			ls_hot_tell(job, i);
	}
	if (more)
		job->shares |= LS_SHARES_MORE;
}

__attribute__((noinline)) int ls_hot_look(struct ls_job *job)
{
	if (!job)
		return 0;
	struct ls_class_abi *class = ls_job_class(job);
	__u32 n = class->n_limits;
	job->shares = LS_SHARES;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LS_CLASS_LIMITS; i++) {
		if (i >= n)
			break;
		ls_hot_look_at(job, class, i);
	}
	return 0;
}

/* Counts the offer, and refuses what is to be thinned: LS_REFUSAL() or 0. Once a packet. */
__attribute__((noinline)) int ls_hot_thin(struct ls_job *job)
{
	if (!job)
		return 0;
	struct ls_hot *hot = ls_hot_table();
	struct ls_hot_cpu *own = ls_hot_own(job);
	__u32 n = ls_job_class(job)->n_limits;
	if (!hot || !own || job->shares & LS_SHARES_OFFERED)
		return 0;
	job->shares |= LS_SHARES_OFFERED;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LS_CLASS_LIMITS; i++) {
		if (i >= n)
			break;
		struct ls_pending *pending = ls_pending_of(job, i);
		if (!pending->hot)
			continue;
		if (pending->hot == LS_HOT_CLOSED)
			return (int)LS_REFUSAL(i, LS_ASK_REFUSED);
		__u32 entry = pending->hot - 1;
		struct ls_hot_count *count = &own->count[ls_bounded(entry, LS_HOT_ENTRIES)];
		struct ls_hot_set *set = &hot->sets[ls_bounded(entry / LS_HOT_WAYS, LS_HOT_SETS)];
		count->offered += pending->units;
		if (ls_hot_thins(LS_READ_ONCE(set->way[entry & (LS_HOT_WAYS - 1)].admit),
				 &count->frac))
			return (int)LS_REFUSAL(i, LS_ASK_REFUSED);
	}
	return 0;
}

/* Counts what became of the packet: `refusal` is 0 or LS_REFUSAL(). */
__attribute__((noinline)) int ls_hot_settle(struct ls_job *job, __u32 refusal)
{
	if (!job)
		return 0;
	struct ls_hot_cpu *own = ls_hot_own(job);
	__u32 n = ls_job_class(job)->n_limits;
	if (!own)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LS_CLASS_LIMITS; i++) {
		if (i >= n)
			break;
		struct ls_pending *pending = ls_pending_of(job, i);
		if (!pending->hot || pending->hot == LS_HOT_CLOSED)
			continue;
		struct ls_hot_count *count =
			&own->count[ls_bounded(pending->hot - 1, LS_HOT_ENTRIES)];
		if (!refusal)
			count->admitted += pending->units;
		else if (!(job->shares & LS_SHARES_OFFERED) && i == LS_REFUSAL_INDEX(refusal))
			count->offered += pending->units;
	}
	return 0;
}

#endif
