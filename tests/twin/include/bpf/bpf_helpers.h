/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_TWIN_BPF_HELPERS_H
#define LOADSHED_TWIN_BPF_HELPERS_H

/*
 * The kernel's helpers for the host build of the program: found before the real header, so that
 * bpf/loadshed.bpf.c is compiled unchanged, runs on any number of threads (each is a CPU), under sanitizers,
 * under a fuzzer, and on a clock that the test moves.
 */

#include <linux/bpf.h>
#include <linux/types.h>

#define SEC(name)
#define __uint(name, value) int(*name)[value]
#define __type(name, value) __typeof__(value) *name
#define __array(name, value) __typeof__(value) *name[1]

void *bpf_map_lookup_elem(const void *map, const void *key);
__u64 bpf_ktime_get_ns(void);
__u64 bpf_jiffies64(void);
__u32 bpf_get_prandom_u32(void);
__u32 bpf_get_smp_processor_id(void);
__u64 bpf_xdp_get_buff_len(struct xdp_md *ctx);
struct bpf_sock *bpf_skc_lookup_tcp(void *ctx, struct bpf_sock_tuple *tuple, __u32 bytes,
				    __u64 netns, __u64 flags);
struct tcp_sock *bpf_skc_to_tcp_sock(void *socket);
long bpf_sk_release(void *socket);
long bpf_fib_lookup(void *ctx, struct bpf_fib_lookup *route, int bytes, __u32 flags);
long bpf_xdp_load_bytes(struct xdp_md *ctx, __u32 offset, void *to, __u32 bytes);

#endif
