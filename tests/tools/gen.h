/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_TESTS_TOOLS_GEN_H
#define LOADSHED_TESTS_TOOLS_GEN_H

/*
 * A packet generator inside the kernel: a small XDP program that gives each frame another source,
 * then calls the program under test by tail call or redirects the frame to a veth.
 * BPF_PROG_TEST_RUN runs it a million times in one system call, so neither a system call nor a copy
 * is in what is measured; what the generator itself costs is in every program's time alike, and
 * goes away in a difference to XDP_DROP.
 *
 * Sources are numbered; a cheap generator of random numbers per CPU (Knuth's 64-bit linear
 * congruence, upper half) draws the number, an odd multiplier spreads the numbers over all of IPv4,
 * so that few sources, too, lie in different /24s. IPv4 header checksums are right, for stacks that
 * look at them.
 */

#include <linux/types.h>

#define GEN_CPUS 64

struct gen_config {
	__u64 sources;	/* how many; 0: all 2^32 (IPv6: 2^52 /64s) */
	__u64 prefix6;	/* IPv6: upper half of source 0, the number is added at bit 0 */
	__u32 base;	/* IPv4: source 0 */
	__u32 spread;	/* IPv4: number times this is added to base; odd */
	__u32 checksum; /* sum of the IPv4 header but for checksum and source; gen_open() sets it */
	__u16 family;	/* 4 or 6 */
	__u16 ports;	/* destination ports drawn from port on; 0: the frame's stays */
	__u16 port;
	__u16 pad0;
	__u32 redirect; /* gen_redirect: index of the interface to send from */
};

/* One line per CPU: two of them would slow each other down. */
struct gen_cpu {
	__u64 random;
	__u64 packets;
	__u64 pad[6];
};

#ifndef __bpf__

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GEN_FRAME_MAX 256
#define GEN_SPREAD 0x9E3779B1U /* 2^32 over the golden ratio, odd: neighbours end up far apart */

struct gen_frame {
	uint8_t bytes[GEN_FRAME_MAX];
	size_t length;
};

/* A frame of `family` and protocol (6 or 17), to `port`; tcp_flags of a TCP header. 64 bytes at
 * least. */
void gen_frame_make(struct gen_frame *frame, int family, int protocol, uint16_t port,
		    uint8_t tcp_flags);
/* Sets the frame's source: IPv4 in host order, or upper half of an IPv6 one. */
void gen_frame_source(struct gen_frame *frame, uint64_t source);

struct gen;

/* Loads a generator of its own; ends the process with a line when that fails: nothing can be
 * measured. */
struct gen *gen_open(void);
void gen_close(struct gen *gen);
/* The live configuration; gen_frame_use() sets family and checksum in it. */
struct gen_config *gen_config(struct gen *gen);
void gen_frame_use(struct gen *gen, const struct gen_frame *frame);
void gen_seed(struct gen *gen, uint64_t seed);
/* Which program gets the packets of gen_run(). */
void gen_target(struct gen *gen, int program_fd);
/* XDP_DROP and nothing else. */
int gen_drop_fd(const struct gen *gen);
int gen_redirect_fd(const struct gen *gen);
/* Address of the number-th source, as gen_frame_source() takes it. */
uint64_t gen_source(const struct gen *gen, uint64_t number);

/* Runs `packets` packets through the target on this thread's CPU; mean nanoseconds of one. */
double gen_run(struct gen *gen, uint32_t packets);
/* Sends about `packets` packets out of gen_config()->redirect. */
void gen_send(struct gen *gen, uint32_t packets);
/* One frame through a program; XDP_* is returned. */
int gen_once(int program_fd, const struct gen_frame *frame);

/* The calling thread stays on one CPU. */
void gen_pin(unsigned cpu);
/*
 * The calling thread and those that it starts get most of a CPU that others want, too; with
 * LS_OWN_SESSION=1 in the environment also beside other sessions.
 */
void gen_prefer(void);
/* The calling thread goes before all that is not real-time, where the kernel lets it; for short
 * runs. */
void gen_hurry(void);
unsigned gen_cpus(void);
uint64_t gen_now_ns(void);

#endif
#endif
