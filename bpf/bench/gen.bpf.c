/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * The kernel half of user/bench/gen.h: gives each frame another source, then calls the program under test by
 * tail call, or redirects the frame to a veth. IPv4 header checksums are right, for stacks that look at them.
 * The loader marks these programs as taking frames of several buffers where the program under test is.
 */

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "loadshed/bench_abi.h"

struct ls_gen_config gen_config SEC(".data.config");
struct ls_gen_cpu gen_cpu[LS_GEN_CPUS] SEC(".data.cpus");

/* Which clang built this object, and so the one beside it. */
const char gen_compiler[64] SEC(".rodata.compiler") = __VERSION__;

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} gen_target SEC(".maps");

#define INLINE static inline __attribute__((always_inline))

INLINE __u64 draw(struct ls_gen_cpu *cpu)
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
	__u8 *ip = frame + (gen_config.ip_at & 31);
	struct ls_gen_cpu *cpu = &gen_cpu[bpf_get_smp_processor_id() & (LS_GEN_CPUS - 1)];
	if (ip + 40 > end)
		return 0;
	__u64 random = draw(cpu);
	if (gen_config.family == 4)
		source4(ip, random);
	else
		source6(ip, random);
	if (gen_config.ports) {
		/* Bits 16 to 31: a source keeps to no port. */
		__u32 number = (__u32)((random >> 16 & 0xffff) * gen_config.ports >> 16);
		__u8 *port = frame + (gen_config.port_at & 127);
		if (port + 2 > end)
			return 0;
		*(__u16 *)port = __builtin_bswap16((__u16)(gen_config.port + number));
	}
	cpu->packets++;
	return 1;
}

SEC("xdp")
int gen_call(struct xdp_md *ctx)
{
	if (prepare(ctx))
		bpf_tail_call_static(ctx, &gen_target, 0);
	return XDP_ABORTED;
}

SEC("xdp")
int gen_redirect(struct xdp_md *ctx)
{
	if (!prepare(ctx))
		return XDP_ABORTED;
	return (int)bpf_redirect(gen_config.redirect, 0);
}

SEC("xdp")
int gen_drop(struct xdp_md *ctx)
{
	(void)ctx;
	return XDP_DROP;
}

char _license[] SEC("license") = "Dual BSD/GPL";
