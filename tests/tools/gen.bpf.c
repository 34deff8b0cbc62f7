/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/* The kernel half of gen.h. */

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "tests/tools/gen.h"

struct gen_config gen_config SEC(".data.config");
struct gen_cpu gen_cpu[GEN_CPUS] SEC(".data.cpus");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} gen_target SEC(".maps");

#define IP_AT 14
#define INLINE static inline __attribute__((always_inline))

INLINE __u64 draw(struct gen_cpu *cpu)
{
	cpu->random = cpu->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return cpu->random;
}

INLINE void source4(__u8 *ip, __u64 random)
{
	__u32 upper = (__u32)(random >> 32);
	__u64 sources = gen_config.sources;
	__u32 number = sources ? (__u32)((__u64)upper * sources >> 32) : upper;
	__u32 address = gen_config.base + number * gen_config.spread;
	__u32 sum = gen_config.checksum + (address >> 16) + (address & 0xffff);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	*(__u16 *)(ip + 10) = __builtin_bswap16((__u16)~sum);
	*(__u32 *)(ip + 12) = __builtin_bswap32(address);
}

INLINE void source6(__u8 *ip, __u64 random)
{
	__u64 sources = gen_config.sources;
	__u64 number = sources ? (random >> 32) * sources >> 32 : random >> 12;
	__u64 upper = __builtin_bswap64(gen_config.prefix6 + number);
	*(__u32 *)(ip + 8) = (__u32)upper;
	*(__u32 *)(ip + 12) = (__u32)(upper >> 32);
}

/* Gives the frame its source and port. */
INLINE int prepare(struct xdp_md *ctx)
{
	__u8 *frame = (__u8 *)(long)ctx->data;
	__u8 *end = (__u8 *)(long)ctx->data_end;
	struct gen_cpu *cpu = &gen_cpu[bpf_get_smp_processor_id() & (GEN_CPUS - 1)];
	if (frame + IP_AT + 44 > end)
		return 0;
	__u64 random = draw(cpu);
	int is_ipv4 = gen_config.family == 4;
	if (is_ipv4)
		source4(frame + IP_AT, random);
	else
		source6(frame + IP_AT, random);
	if (gen_config.ports) {
		/* Bits 16 to 31: a source keeps to no port. */
		__u32 number = (__u32)((random >> 16 & 0xffff) * gen_config.ports >> 16);
		*(__u16 *)(frame + (is_ipv4 ? IP_AT + 22 : IP_AT + 42)) =
			__builtin_bswap16((__u16)(gen_config.port + number));
	}
	cpu->packets++;
	return 1;
}

SEC("xdp.frags")
int gen_call(struct xdp_md *ctx)
{
	if (prepare(ctx))
		bpf_tail_call_static(ctx, &gen_target, 0);
	return XDP_ABORTED;
}

SEC("xdp.frags")
int gen_redirect(struct xdp_md *ctx)
{
	if (!prepare(ctx))
		return XDP_ABORTED;
	return (int)bpf_redirect(gen_config.redirect, 0);
}

SEC("xdp.frags")
int gen_drop(struct xdp_md *ctx)
{
	(void)ctx;
	return XDP_DROP;
}

char _license[] SEC("license") = "Dual BSD/GPL";
