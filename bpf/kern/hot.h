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

#define LS_HOT_MORE (-1) /* no LS_REFUSAL() */

/*
 * Whether the packet's limits are looked for. While no source is shared and all thresholds are high, every eighth packet
 * is, at random, and counts as eight: to notice the first one costs the other seven a decrement. A packet
 * then costs 4 ns more than in node scope, and 14 if each is looked at. The clock must be set.
 */
LS_INLINE void ls_hot_wants(struct ls_cpu *cpu)
{
	struct ls_job *job = &cpu->job;
	__u64 until = LS_READ_ONCE(ls_control.hot_until);
	if (job->now_ns >= until)
		return;
	job->shares = LS_SHARES;
	if (!(until & LS_HOT_F_SAMPLED))
		return;
	__u32 skip = cpu->hot_skip;
	if (LS_LIKELY(skip)) {
		cpu->hot_skip = skip - 1;
		job->shares = 0;
		return;
	}
	__u32 random = bpf_get_prandom_u32();
	cpu->hot_skip = (random & 7) + (random >> 8 & 7); /* 7 on average */
	job->shares = LS_SHARES | LS_SHARES_SAMPLED;
}

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

/* How many limits the class has: read anew for each loop, or the verifier follows what one loop knows of it into the next. */
LS_INLINE __u32 ls_hot_limits(const struct ls_job *job)
{
	return LS_READ_ONCE(ls_job_class(job)->n_limits);
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
			  const struct ls_job *job)
{
	__u32 report_at = limit->report_at;
	__u32 weight = job->shares & LS_SHARES_SAMPLED ? LS_HOT_SAMPLE : 1;
	if (!report_at)
		return 0;
	__u32 epoch = (__u32)(job->now_ns >> (limit->epoch_shift & 63));
	struct ls_hot_warm *warm = &own->warm[ls_bounded(key >> 20, LS_HOT_WARM)];
	__u32 count = warm->epoch == epoch ? warm->count : 0;
	if (warm->key != key) {
		if (count) {
			warm->count = count > weight ? count - weight : 0;
			return 0;
		}
		warm->key = key;
	}
	warm->epoch = epoch;
	warm->count = count + weight;
	return count < report_at && count + weight >= report_at;
}

/* Looks for limit i, of which the packet's key is `key`. */
LS_INLINE void ls_hot_look_at(struct ls_job *job, struct ls_hot *hot, struct ls_hot_cpu *own,
			      const struct ls_limit_abi *limit, __u32 i, __u64 key)
{
	struct ls_pending *pending = ls_pending_of(job, i);
	__u64 units = ls_units(job, limit);
	if (!units)
		return;
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
		if (ls_hot_warm(slot, own, key, job))
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
	struct ls_hot *hot = ls_hot_table();
	struct ls_hot_cpu *own = ls_hot_own(job);
	__u32 n = class->n_limits;
	if (!hot || !own)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LS_CLASS_LIMITS; i++) {
		if (i >= n)
			break;
		const struct ls_limit_abi *limit = &class->limit[i & (LS_CLASS_LIMITS - 1)];
		ls_pending_of(job, i)->hot = 0;
		if (!(limit->flags & LS_LIMIT_F_CLUSTER))
			continue;
		struct ls_hash hash = ls_limit_hash(job, limit, class->slot);
		ls_hot_look_at(job, hot, own, limit, i, ls_hash_key(hash, limit->slot));
	}
	return 0;
}

/* Counts the offer, and refuses what is to be thinned: LS_REFUSAL() or 0. */
LS_INLINE int ls_hot_thin_all(struct ls_job *job, struct ls_hot *hot, struct ls_hot_cpu *own)
{
	__u32 n = ls_hot_limits(job);
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

/* The same for limits that are asked one by one. Once a packet. */
__attribute__((noinline)) int ls_hot_thin(struct ls_job *job)
{
	if (!job)
		return 0;
	struct ls_hot *hot = ls_hot_table();
	struct ls_hot_cpu *own = ls_hot_own(job);
	if (!hot || !own || job->shares & (LS_SHARES_OFFERED | LS_SHARES_SETTLED))
		return 0;
	return ls_hot_thin_all(job, hot, own);
}

/* Counts that the packet was admitted, or that it was not after all (sign -1). */
LS_INLINE void ls_hot_admit_all(struct ls_job *job, struct ls_hot_cpu *own, __u64 sign)
{
	__u32 n = ls_hot_limits(job);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LS_CLASS_LIMITS; i++) {
		if (i >= n)
			break;
		const struct ls_pending *pending = ls_pending_of(job, i);
		if (pending->hot && pending->hot != LS_HOT_CLOSED)
			own->count[ls_bounded(pending->hot - 1, LS_HOT_ENTRIES)].admitted +=
				pending->units * sign;
	}
}

/* Counts what became of the packet: `refusal` is 0 or LS_REFUSAL(). */
LS_INLINE void ls_hot_settle_all(struct ls_job *job, struct ls_hot_cpu *own, __u32 refusal)
{
	if (!refusal) {
		ls_hot_admit_all(job, own, 1);
		return;
	}
	const struct ls_pending *pending =
		&ls_cpu_of(job->cpu)->pending[ls_bounded(LS_REFUSAL_INDEX(refusal), LS_PENDINGS)];
	if (job->shares & LS_SHARES_OFFERED || LS_REFUSAL_INDEX(refusal) >= LS_CLASS_LIMITS)
		return;
	if (pending->hot && pending->hot != LS_HOT_CLOSED)
		own->count[ls_bounded(pending->hot - 1, LS_HOT_ENTRIES)].offered += pending->units;
}

__attribute__((noinline)) int ls_hot_settle(struct ls_job *job, __u32 refusal)
{
	if (!job)
		return 0;
	struct ls_hot_cpu *own = ls_hot_own(job);
	if (own)
		ls_hot_settle_all(job, own, refusal);
	return 0;
}

/* Takes back what ls_hot_quick() counted as admitted: another CPU got ahead, all is asked again. */
__attribute__((noinline)) int ls_hot_take_back(struct ls_job *job)
{
	if (!job)
		return 0;
	struct ls_hot_cpu *own = ls_hot_own(job);
	job->shares &= ~LS_SHARES_SETTLED;
	if (own)
		ls_hot_admit_all(job, own, ~0ULL);
	return 0;
}

/*
 * All three steps in one call, for a class of which all limits are of the source, with the hash of which `tag` is a
 * part: `refusal` is what its limits say, 0 or LS_REFUSAL(). Returns the same, or LS_HOT_MORE when some cost or ceiling
 * is not the limit's own, so that they have to be asked by ls_limits_many(). A packet of one such limit costs 12 ns
 * more than in node scope this way, and 15 by three calls (tests/kern/hot.c).
 */
__attribute__((noinline)) int ls_hot_quick(struct ls_job *job, __u64 tag, __u32 refusal)
{
	if (!job)
		return 0;
	struct ls_class_abi *class = ls_job_class(job);
	struct ls_hash hash = { .tag = tag };
	struct ls_hot *hot = ls_hot_table();
	struct ls_hot_cpu *own = ls_hot_own(job);
	__u32 n = class->n_limits;
	if (!hot || !own)
		return (int)refusal;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LS_CLASS_LIMITS; i++) {
		if (i >= n)
			break;
		const struct ls_limit_abi *limit = &class->limit[i & (LS_CLASS_LIMITS - 1)];
		ls_pending_of(job, i)->hot = 0;
		if (limit->flags & LS_LIMIT_F_CLUSTER)
			ls_hot_look_at(job, hot, own, limit, i, ls_hash_key(hash, limit->slot));
	}
	if (job->shares & LS_SHARES_MORE)
		return LS_HOT_MORE;
	if (!refusal)
		refusal = ls_opaque((__u32)ls_hot_thin_all(job, hot, own));
	ls_hot_settle_all(job, own, refusal);
	job->shares |= LS_SHARES_SETTLED;
	return (int)refusal;
}

#endif
