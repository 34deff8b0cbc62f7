/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_KERN_EVENTS_H
#define LOADSHED_KERN_EVENTS_H

/*
 * Events: what was refused, sampled, and the bans that classes give. See loadshed/event_abi.h for the rings and
 * pure/sample.h for the budgets.
 *
 * A packet that passes pays one comparison. One that is refused and not sampled adds one to a counter of its CPU and
 * compares a jiffy; both lie in one line of the CPU's own, in a section of the object, so that there is no look-up. Only
 * a sample looks up the ring, reads the clock and copies the frame.
 *
 * A ring's writer is its CPU: XDP does not nest, so nobody else writes it.
 */

#include "kern/job.h"
#include "pure/sample.h"

LS_INLINE struct ls_sample *ls_sample_of(__u32 cpu, __u32 budget)
{
	struct ls_samples *mine = &ls_samples[cpu & (LS_CPUS - 1)];
	LS_REBASE(mine);
	return &mine->budget[ls_bounded(budget, LS_EVENT_BUDGETS)];
}

/* Takes a slot for one event of this budget; 0: it is not sampled. */
LS_INLINE struct ls_event_abi *ls_event_begin(const struct ls_job *job, __u32 budget, __u64 jiffies)
{
	__u32 index = job->cpu;
	struct ls_event_ring *ring = bpf_map_lookup_elem(&ls_events, &index);
	if (!ring)
		return 0;
	struct ls_sample *sample = ls_sample_of(job->cpu, budget);
	__u64 now = bpf_ktime_get_ns();
	if (!ls_sample_takes(sample, &ring->bucket[ls_bounded(budget, LS_EVENT_BUDGETS)], now,
			     jiffies))
		return 0;
	struct ls_event_abi *event = &ring->slots[ls_bounded(ring->head + 1, LS_EVENT_SLOTS)];
	__sync_lock_test_and_set(&event->number, 0);
	__u32 since = sample->refused;
	__u64 total = ring->total[ls_bounded(budget, LS_EVENT_BUDGETS)] + since;
	ring->total[ls_bounded(budget, LS_EVENT_BUDGETS)] = total;
	sample->refused = 0;
	event->time_ns = now;
	event->total = total;
	event->since = since;
	return event;
}

/* Makes it visible. */
LS_INLINE void ls_event_end(const struct ls_job *job, struct ls_event_abi *event)
{
	__u32 index = job->cpu;
	struct ls_event_ring *ring = bpf_map_lookup_elem(&ls_events, &index);
	if (!ring)
		return;
	__sync_lock_test_and_set(&event->number, ring->head + 1);
	LS_WRITE_ONCE(ring->head, ring->head + 1);
}

/* Whose it is; a packet without a source has nothing else that could be believed either. */
LS_INLINE void ls_event_subject(const struct ls_job *job, struct ls_event_abi *event)
{
	const struct ls_packet *packet = &job->packet;
	int has_source = packet->family != 0;
	__u32 known = has_source ? packet->known : 0;
	event->family = packet->family;
	event->length = packet->family == 6 ? 128 : 32;
	event->source_high = has_source ? packet->source.high : 0;
	event->source_low = has_source ? packet->source.low : 0;
	event->destination_high = has_source ? packet->destination.high : 0;
	event->destination_low = has_source ? packet->destination.low : 0;
	event->protocol = known & LS_KNOWN_PROTOCOL ? packet->protocol : 0;
	event->source_port = known & LS_KNOWN_PORTS ? packet->source_port : 0;
	event->port = known & LS_KNOWN_PORTS ? packet->port : 0;
	event->tcp_flags = known & LS_KNOWN_FLAGS ? packet->flags : 0;
	event->icmp_type = known & LS_KNOWN_ICMP ? packet->icmp_type : 0;
	event->known = known &
		       (LS_EVENT_F_PROTOCOL | LS_EVENT_F_PORTS | LS_EVENT_F_TCP | LS_EVENT_F_ICMP);
}
_Static_assert(LS_EVENT_F_PROTOCOL == LS_KNOWN_PROTOCOL && LS_EVENT_F_PORTS == LS_KNOWN_PORTS &&
		       LS_EVENT_F_TCP == LS_KNOWN_FLAGS && LS_EVENT_F_ICMP == LS_KNOWN_ICMP,
	       "taken over as they are");

/* Which class and limit, by the places that keep their names over edits. */
LS_INLINE void ls_event_class(const struct ls_job *job, struct ls_event_abi *event)
{
	event->class_index = LS_EVENT_NO_SLOT;
	event->class_slot = LS_EVENT_NO_SLOT;
	event->limit_slot = LS_EVENT_NO_SLOT;
	event->generation = (__u32)(job->word >> LS_WORD_NUMBER_SHIFT);
	if (job->class_index == LS_NO_CLASS)
		return;
	const struct ls_class_abi *class = ls_job_class(job);
	event->class_index = (__u16)job->class_index;
	event->class_slot = (__u16) class->slot;
	if (job->limit != LS_NO_LIMIT)
		event->limit_slot =
			(__u16) class->limit[ls_bounded(job->limit, LS_CLASS_LIMITS)].slot;
}

/* The beginning of the frame, of which only the first buffer is looked at: for programs that have no other. */
LS_INLINE __u32 ls_event_frame(struct xdp_md *ctx, __u8 *to)
{
	const __u8 *from = (const __u8 *)(long)ctx->data;
	const __u8 *end = (const __u8 *)(long)ctx->data_end;
	__u32 at = 0;
#pragma clang loop unroll(disable)
	for (; at < LS_EVENT_FRAME; at += 8, from += 8) {
		if (from + 8 > end)
			break;
		*(__u64 *)(to + at) = *(const __u64 *)from;
	}
#pragma clang loop unroll(disable)
	for (; at < LS_EVENT_FRAME; at++, from++) {
		if (from + 1 > end)
			break;
		to[at] = *from;
	}
	return at;
}

/* The same of frames in any number of buffers. */
LS_INLINE __u32 ls_event_frame_frags(struct xdp_md *ctx, __u64 bytes, __u8 *to)
{
	if (!bytes)
		return 0;
	/* That this is 1 to LS_EVENT_FRAME has to be seen by verifiers that learn no bound from a comparison with 0. */
	__u64 kept =
		ls_bounded((bytes < LS_EVENT_FRAME ? bytes : LS_EVENT_FRAME) - 1, LS_EVENT_FRAME) +
		1;
	return bpf_xdp_load_bytes(ctx, 0, to, (__u32)kept) ? 0 : (__u32)kept;
}

LS_INLINE int ls_event_packet(struct xdp_md *ctx, const struct ls_job *job, __u64 jiffies,
			      int has_frags)
{
	struct ls_event_abi *event =
		ls_event_begin(job, LS_EVENT_BUDGET(job->verdict, job->reason), jiffies);
	if (!event)
		return 0;
	event->kind = LS_EVENT_PACKET;
	event->verdict = job->verdict;
	event->reason = job->reason;
	event->bytes = (__u32)job->bytes;
	event->ifindex = ctx->ingress_ifindex;
	ls_event_subject(job, event);
	ls_event_class(job, event);
	event->frame_bytes = (__u16)(has_frags ? ls_event_frame_frags(ctx, job->bytes, event->frame)
					       : ls_event_frame(ctx, event->frame));
	ls_event_end(job, event);
	return 0;
}

/* Functions of their own, so that they are verified once and take nothing from the others' stack. */
__attribute__((noinline)) int ls_event_linear(struct xdp_md *ctx, const struct ls_job *job,
					      __u64 jiffies)
{
	return job ? ls_event_packet(ctx, job, jiffies, 0) : 0;
}

__attribute__((noinline)) int ls_event_frags(struct xdp_md *ctx, const struct ls_job *job,
					     __u64 jiffies)
{
	return job ? ls_event_packet(ctx, job, jiffies, 1) : 0;
}

/* Says of a packet with its verdict what there is to be said. */
LS_INLINE void ls_event(struct xdp_md *ctx, const struct ls_job *job, int has_frags)
{
	if (job->verdict == LS_VERDICT_PASS || ls_is_replay)
		return;
	__u64 jiffies = bpf_jiffies64();
	__u32 budget = LS_EVENT_BUDGET(job->verdict, job->reason);
	if (LS_LIKELY(!ls_sample_counts(ls_sample_of(job->cpu, budget), jiffies)))
		return;
	if (has_frags)
		ls_event_frags(ctx, job, jiffies);
	else
		ls_event_linear(ctx, job, jiffies);
}

/* A class has banned the packet's source for for_ns. */
__attribute__((noinline)) int ls_event_ban(const struct ls_job *job, __u64 for_ns)
{
	if (!job || ls_is_replay)
		return 0;
	__u64 jiffies = bpf_jiffies64();
	if (!ls_sample_counts(ls_sample_of(job->cpu, LS_EVENT_BUDGET_BANS), jiffies))
		return 0;
	struct ls_event_abi *event = ls_event_begin(job, LS_EVENT_BUDGET_BANS, jiffies);
	if (!event)
		return 0;
	event->kind = LS_EVENT_BAN;
	event->verdict = job->verdict;
	event->reason = job->reason;
	event->value = for_ns;
	event->origin = LS_ORIGIN_CLASS;
	event->bytes = 0;
	event->ifindex = 0;
	event->frame_bytes = 0;
	ls_event_subject(job, event);
	event->length = job->packet.family == 6 ? 64 : 32;
	ls_event_class(job, event);
	ls_event_end(job, event);
	return 0;
}

#endif
