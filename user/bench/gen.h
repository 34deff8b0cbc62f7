/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BENCH_GEN_H
#define LOADSHED_USER_BENCH_GEN_H

/*
 * A packet generator inside the kernel: a small XDP program that gives each frame another source, then calls the
 * program under test by tail call or redirects the frame to a veth. BPF_PROG_TEST_RUN runs it a hundred thousand
 * times in one system call, so neither a system call nor a copy is in what is measured; what the generator itself
 * costs is in every program's time alike, and goes away in a difference to XDP_DROP.
 *
 * Nothing outlives the process: programs, maps, links and network namespaces go with their file descriptors.
 *
 * Functions that can fail return 0, or negative with a line in `error`.
 */

#include <stddef.h>
#include <stdint.h>

#include "loadshed/bench_abi.h"
#include "user/base/cleanup.h"

struct ls_error;
struct ls_gen;

#define LS_GEN_FRAME_MAX 256
#define LS_GEN_SPREAD 0x9E3779B1U /* 2^32 over the golden ratio, odd: neighbours end up far apart */

/* What a frame is like. */
struct ls_gen_kind {
	uint8_t family;	    /* 4 or 6 */
	uint8_t protocol;   /* 6 or 17 */
	uint8_t tcp_flags;  /* byte 13 of a TCP header */
	uint8_t tags;	    /* VLAN tags: 0 to 2 */
	uint8_t extensions; /* IPv6: headers of 8 bytes in front of the transport header, 0 to 4 */
	uint16_t port;	    /* destination */
	uint16_t ports;	    /* drawn from `port` on; 0: all go to `port` */
};

struct ls_gen_frame {
	uint8_t bytes[LS_GEN_FRAME_MAX];
	size_t length; /* 64 at least */
	struct ls_gen_kind kind;
	uint8_t ip_at, port_at;
};

void ls_gen_frame_make(struct ls_gen_frame *frame, const struct ls_gen_kind *kind);
/* Sets the frame's source: IPv4 in host order, or upper half of an IPv6 one. */
void ls_gen_frame_source(struct ls_gen_frame *frame, uint64_t source);

int ls_gen_open(struct ls_gen **ret, struct ls_error *error);
void ls_gen_close(struct ls_gen *gen);
DEFINE_CLEANUP(struct ls_gen *, ls_gen_close);

/* The live configuration; ls_gen_frame_use() sets what depends on the frame. */
struct ls_gen_config *ls_gen_config(struct ls_gen *gen);
void ls_gen_frame_use(struct ls_gen *gen, const struct ls_gen_frame *frame);
void ls_gen_seed(struct ls_gen *gen, uint64_t seed);
/* Which program gets the packets of ls_gen_run(). */
int ls_gen_target(struct ls_gen *gen, int program_fd, struct ls_error *error);
/* XDP_DROP and nothing else. */
int ls_gen_drop_fd(const struct ls_gen *gen);
/* Address of the number-th source, as ls_gen_frame_source() takes it. */
uint64_t ls_gen_source(const struct ls_gen *gen, uint64_t number);
/* The compiler of the BPF objects, as it names itself. */
const char *ls_gen_compiler(const struct ls_gen *gen);

/* Runs `packets` packets through the target on this thread's CPU; *ret_ns is the mean time of one. Threads may
 * run at once. */
int ls_gen_run(struct ls_gen *gen, uint32_t packets, double *ret_ns, struct ls_error *error);
/* Sends about `packets` packets out of ls_gen_config()->redirect. */
int ls_gen_send(struct ls_gen *gen, uint32_t packets, struct ls_error *error);

/* Bytes of machine code of a loaded program; 0: it is interpreted, or not known. */
uint32_t ls_gen_code_bytes(int program_fd);

/* The calling thread stays on one CPU. Negative errno. */
int ls_gen_pin(unsigned cpu);
/* The CPUs that this process may run on: the last of them (interrupts of devices tend to be on the first), the one
 * before it (the same where there is only one). */
void ls_gen_cpus(unsigned *ret_last, unsigned *ret_other);
/* The calling thread goes before all that is not real-time, where the kernel lets it; for short runs. */
void ls_gen_hurry(void);
uint64_t ls_gen_now_ns(void);

#endif
