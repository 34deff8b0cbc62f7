/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_BENCH_ABI_H
#define LOADSHED_BENCH_ABI_H

/*
 * What the bench's generator of packets (bpf/bench/gen.bpf.c) and user space share: two sections of its object.
 *
 * Sources are numbered; a cheap generator of random numbers per CPU (Knuth's 64-bit linear congruence, upper
 * half) draws the number, an odd multiplier spreads the numbers over all of IPv4, so that few sources, too, lie in
 * different /24s.
 */

#include <linux/types.h>

#define LS_GEN_CPUS                                                                                \
	64 /* a power of two; on a machine with more two may share a record: still random */

struct ls_gen_config {
	__u64 sources;	/* how many; 0: all 2^32 (IPv6: 2^52 /64s) */
	__u64 prefix6;	/* IPv6: upper half of source 0, the number is added at bit 0 */
	__u32 base;	/* IPv4: source 0 */
	__u32 spread;	/* IPv4: number times this is added to base; odd */
	__u32 checksum; /* sum of the IPv4 header but for checksum and source */
	__u16 family;	/* 4 or 6 */
	__u16 ports;	/* destination ports drawn from port on; 0: the frame's stays */
	__u16 port;
	__u8 ip_at;	/* of the frame: where the IP header is; below 32 */
	__u8 port_at;	/* of the frame: where the destination port is; below 128 */
	__u32 redirect; /* gen_redirect: index of the interface to send from */
};

/* One line per CPU: two of them would slow each other down. */
struct ls_gen_cpu {
	__u64 random;
	__u64 packets;
	__u64 pad0[6];
};

_Static_assert(sizeof(struct ls_gen_config) == 40, "as both sides see it");
_Static_assert(sizeof(struct ls_gen_cpu) == 64, "a line");

#endif
