/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * loadshed in the driver: the order of judgement, on one page. Each step is a header of bpf/kern; what can be
 * wrong numerically is in bpf/pure. The program is the same for every policy.
 *
 * Trouble of our own (a map that does not answer) passes the packet and is counted as `internal`.
 */

#include "kern/builtin.h"
#include "kern/classify.h"
#include "kern/count.h"
#include "kern/events.h"
#include "kern/judge.h"
#include "kern/lists.h"
#include "kern/top.h"

/* Steps 1 to 3. Returns 1 when the packet has its verdict. */
LS_INLINE int ls_before_source(struct ls_cpu *cpu, enum ls_parse parse)
{
	struct ls_job *job = &cpu->job;
	if (LS_UNLIKELY(parse == LS_PARSE_NON_IP)) {
		ls_job_end(job, LS_VERDICT_PASS, LS_REASON_NON_IP);
		return 1;
	}
	if (LS_UNLIKELY(parse == LS_PARSE_MALFORMED)) {
		job->packet.family = 0;
		if (job->word & LS_WORD_MALFORMED_PASS)
			ls_job_end(job, LS_VERDICT_PASS, LS_REASON_MALFORMED);
		else
			ls_job_refuse(job, LS_REASON_MALFORMED);
		return 1;
	}
	if (LS_UNLIKELY(ls_is_control(&job->packet))) {
		ls_job_clock(cpu);
		if (ls_control_admits(job)) {
			ls_job_end(job, LS_VERDICT_PASS, LS_REASON_CONTROL);
			return 1;
		}
	}
	return 0;
}

/* Steps 4 to 7: lists, bans, ICMP errors. *ret_from_row: what the source's label does not rule out. */
LS_INLINE int ls_by_source(struct ls_cpu *cpu, __u32 *ret_from_row)
{
	struct ls_job *job = &cpu->job;
	__u8 list = LS_LIST_NONE;
	if (job->word & (LS_WORD_LISTS4 | LS_WORD_LISTS6)) {
		__u32 number = ls_label(job, &job->packet.source);
		/* Label 0 is no list and no factor; only `from` has to know of it. */
		struct ls_label_abi *label =
			number || job->word & LS_WORD_FROM ? ls_label_of(job, number) : 0;
		if (label) {
			list = label->list;
			job->factor = label->factor;
			*ret_from_row = label->from_row;
		}
	}
	if (list == LS_LIST_ALLOW) {
		ls_job_end(job, LS_VERDICT_PASS, LS_REASON_ALLOW);
		return 1;
	}
	if (ls_is_banned(cpu)) {
		ls_job_refuse(job, LS_REASON_BAN);
		return 1;
	}
	if (list == LS_LIST_DENY) {
		ls_job_refuse(job, LS_REASON_DENY);
		return 1;
	}
	if (LS_UNLIKELY(ls_is_icmp_error(&job->packet))) {
		ls_job_clock(cpu);
		if (ls_icmp_admits(job)) {
			ls_job_end(job, LS_VERDICT_PASS, LS_REASON_CONTROL);
			return 1;
		}
	}
	return 0;
}

LS_INLINE void ls_judge(struct xdp_md *ctx, struct ls_cpu *cpu, enum ls_parse parse)
{
	struct ls_job *job = &cpu->job;
	__u32 from_row = 0;
	if (ls_before_source(cpu, parse) || ls_by_source(cpu, &from_row))
		return;
	job->class_index = ls_classify(job, from_row);
	if (job->class_index == LS_NO_CLASS)
		ls_judge_unmatched(ctx, cpu);
	else
		ls_judge_class(ctx, cpu);
}

/* Reads of the first buffer, which is all that a program without frags is given. */
LS_INLINE int ls_read_linear(void *context, __u32 offset, __u8 *to, __u32 bytes)
{
	struct xdp_md *ctx = context;
	const __u8 *end = (const __u8 *)(long)ctx->data_end;
	const __u8 *from = (const __u8 *)(long)ctx->data + (offset & LS_OFFSET_MASK);
	if (from + bytes > end)
		return -1;
	__builtin_memcpy(to, from, bytes);
	return 0;
}

/* Reads of any buffer. */
LS_INLINE int ls_read_frags(void *context, __u32 offset, __u8 *to, __u32 bytes)
{
	return (int)bpf_xdp_load_bytes(context, offset, to, bytes);
}

/* IPv6 extension headers, off the common path; functions of their own so that the loop is verified once. */
__attribute__((noinline)) int ls_walk(struct xdp_md *ctx, struct ls_job *job)
{
	if (!job)
		return LS_PARSE_MALFORMED;
	return (int)ls_parse_extensions(ls_read_linear, ctx, (__u32)(ctx->data_end - ctx->data),
					LS_EXTENSIONS_AT(&job->packet), &job->packet,
					(__u32)LS_READ_ONCE(ls_control.zero));
}

__attribute__((noinline)) int ls_walk_frags(struct xdp_md *ctx, struct ls_job *job, __u32 bytes)
{
	if (!job)
		return LS_PARSE_MALFORMED;
	return (int)ls_parse_extensions(ls_read_frags, ctx, bytes, LS_EXTENSIONS_AT(&job->packet),
					&job->packet, (__u32)LS_READ_ONCE(ls_control.zero));
}

LS_INLINE void ls_report(const struct ls_job *job)
{
	ls_replay.verdict = job->verdict;
	ls_replay.reason = job->reason;
	ls_replay.limit = job->limit;
	ls_replay.family = job->packet.family;
	ls_replay.class_index = (__u16)job->class_index;
	ls_replay.source_high = job->packet.family ? job->packet.source.high : 0;
	ls_replay.source_low = job->packet.family ? job->packet.source.low : 0;
}

LS_INLINE int ls_run(struct xdp_md *ctx, __u64 bytes, int has_frags)
{
	__u32 index = bpf_get_smp_processor_id();
	struct ls_cpu *cpu = ls_cpu_of(index);
	struct ls_job *job = &cpu->job;
	job->factor = 0;
	job->class_index = LS_NO_CLASS;
	job->asking = 0;
	job->shares = 0;
	job->limit = LS_NO_LIMIT;
	job->clocked = 0;
	job->word = LS_READ_ONCE(ls_control.word);
	if (LS_UNLIKELY(job->word & LS_WORD_TIMED))
		ls_job_timed(cpu);
	job->half = job->word & LS_WORD_GENERATION;
	job->cpu = index;
	job->bytes = ls_is_replay ? ls_replay.wire_bytes : bytes;

	const __u8 *frame = (const __u8 *)(long)ctx->data;
	const __u8 *end = (const __u8 *)(long)ctx->data_end;
	enum ls_parse parse = ls_parse(frame, end, &job->packet);
	if (LS_UNLIKELY(parse == LS_PARSE_EXTENSIONS))
		parse = (enum ls_parse)(has_frags ? ls_walk_frags(ctx, job, (__u32)bytes)
						  : ls_walk(ctx, job));
	ls_judge(ctx, cpu, parse);
	ls_count(job, ctx->ingress_ifindex);
	ls_event(ctx, job, has_frags);
	ls_top_count(cpu, ctx->ingress_ifindex);
	if (ls_is_replay)
		ls_report(job);
	return job->verdict == LS_VERDICT_DROP ? XDP_DROP : XDP_PASS;
}

SEC("xdp")
int ls_xdp(struct xdp_md *ctx)
{
	return ls_run(ctx, (__u64)(ctx->data_end - ctx->data), 0);
}

/* The same for frames of several buffers, whose length only a helper knows (kernel 5.18). */
SEC("xdp.frags")
int ls_xdp_frags(struct xdp_md *ctx)
{
	return ls_run(ctx, bpf_xdp_get_buff_len(ctx), 1);
}

/* The whole tree is dual-licensed; the kernel wants a GPL-compatible name for its helpers. */
char _license[] SEC("license") = "Dual BSD/GPL";
