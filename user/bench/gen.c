/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/bench/gen.h"

#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include <linux/bpf.h>
#include <linux/if_link.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "gen.skel.h"
#include "user/base/error.h"
#include "user/plane/sandbox.h"

struct ls_gen {
	struct gen_skeleton *skeleton;
	struct ls_gen_frame frame;
	int namespace_fds
		[2]; /* where the two programs are attached, one interface each; -1: not open */
	int links[2];
};

/* Interrupted runs are run again from the start; more often than this is no accident. */
#define RUN_TRIES 16

#define LOOPBACK 1 /* ifindex of lo in every namespace */

#define HEADER_DESTINATION_OPTIONS 60

static uint8_t *put16(uint8_t *at, unsigned number)
{
	at[0] = (uint8_t)(number >> 8);
	at[1] = (uint8_t)number;
	return at + 2;
}

static uint8_t *put32(uint8_t *at, uint32_t number)
{
	return put16(put16(at, number >> 16), number & 0xffff);
}

/* Sum of the IPv4 header's words but for checksum and source. */
static uint32_t header_sum(const uint8_t *ip)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		if (i < 10 || i > 14)
			sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	return sum;
}

/* From 192.0.2.1 to 198.51.100.1; returns where the payload goes. */
static uint8_t *put_ipv4(uint8_t *ip, const struct ls_gen_kind *kind, unsigned payload)
{
	ip[0] = 0x45;
	put16(ip + 2, 20 + payload);
	ip[8] = 64;
	ip[9] = kind->protocol;
	put32(ip + 16, 0xC6336401);
	return ip + 20;
}

/* From 2001:db8:1:: to 2001:db8::1; each extension header is destination options with padding. */
static uint8_t *put_ipv6(uint8_t *ip, const struct ls_gen_kind *kind, unsigned payload)
{
	uint8_t *next = ip + 6, *at = ip + 40;

	ip[0] = 0x60;
	put16(ip + 4, payload + 8U * kind->extensions);
	ip[7] = 64;
	put32(ip + 24, 0x20010db8);
	ip[39] = 1;
	for (unsigned i = 0; i < kind->extensions; i++, at += 8) {
		*next = HEADER_DESTINATION_OPTIONS;
		next = at;
		at[2] = 1; /* PadN of four bytes */
		at[3] = 4;
	}
	*next = kind->protocol;
	return at;
}

void ls_gen_frame_make(struct ls_gen_frame *frame, const struct ls_gen_kind *kind)
{
	const unsigned payload = 30;
	uint8_t *at = frame->bytes + 12;

	memset(frame, 0, sizeof(*frame));
	frame->kind = *kind;
	/* 02:00:00:00:00:02 from 02:00:00:00:00:01: what the bench gives its veth. */
	frame->bytes[0] = frame->bytes[6] = 2;
	frame->bytes[5] = 2;
	frame->bytes[11] = 1;
	for (unsigned i = 0; i < kind->tags; i++)
		at = put16(put16(at, 0x8100), 10 + i);
	at = put16(at, kind->family == 4 ? 0x0800 : 0x86dd);
	frame->ip_at = (uint8_t)(at - frame->bytes);
	at = kind->family == 4 ? put_ipv4(at, kind, payload) : put_ipv6(at, kind, payload);
	frame->port_at = (uint8_t)(at + 2 - frame->bytes);
	put16(put16(at, 40000), kind->port);
	if (kind->protocol == 6) {
		at[12] = 5 << 4;
		at[13] = kind->tcp_flags;
	} else {
		put16(at + 4, payload);
	}
	frame->length = (size_t)(at + payload - frame->bytes);
	ls_gen_frame_source(frame, kind->family == 4 ? 0xC0000201 : 0x20010db800010000ULL);
}

void ls_gen_frame_source(struct ls_gen_frame *frame, uint64_t source)
{
	uint8_t *ip = frame->bytes + frame->ip_at;

	if (frame->kind.family == 6) {
		put32(put32(ip + 8, (uint32_t)(source >> 32)), (uint32_t)source);
		return;
	}
	put32(ip + 12, (uint32_t)source);
	uint32_t sum =
		header_sum(ip) + (uint32_t)(source >> 16 & 0xffff) + (uint32_t)(source & 0xffff);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	put16(ip + 10, ~sum & 0xffff);
}

/*
 * A program that is in no XDP dispatcher is put into one for each BPF_PROG_TEST_RUN that repeats, which waits for
 * up to 25 ms. So both are attached for good: generic, to the loopback of a network namespace of their own.
 */
static int keep_in_dispatcher(struct ls_gen *gen, struct ls_error *error)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = XDP_FLAGS_SKB_MODE);
	const int programs[] = { bpf_program__fd(gen->skeleton->progs.gen_call),
				 bpf_program__fd(gen->skeleton->progs.gen_redirect) };
	_cleanup_close_ int home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	int r = home < 0 ? -errno : 0;

	for (int i = 0; i < 2 && r == 0; i++) {
		if (unshare(CLONE_NEWNET) < 0) {
			r = -errno;
			break;
		}
		gen->namespace_fds[i] = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
		gen->links[i] = bpf_link_create(programs[i], LOOPBACK, BPF_XDP, &opts);
		if (gen->links[i] < 0)
			r = gen->links[i];
	}
	if (home >= 0 && setns(home, CLONE_NEWNET) < 0)
		r = -errno;
	return r < 0 ? ls_error_set_errno(
			       error, -r,
			       "cannot keep the generator in a network namespace of its own")
		     : 0;
}

int ls_gen_open(struct ls_gen **ret, struct ls_error *error)
{
	_cleanup_(ls_gen_closep) struct ls_gen *gen = calloc(1, sizeof(*gen));
	const uint32_t flags = ls_load_has_frags() ? BPF_F_XDP_HAS_FRAGS : 0;

	if (!gen)
		return ls_error_oom(error);
	libbpf_set_print(NULL); /* what it would say of a failure is in our line */
	for (int i = 0; i < 2; i++)
		gen->namespace_fds[i] = gen->links[i] = -1;
	gen->skeleton = gen_skeleton__open();
	if (!gen->skeleton)
		return ls_error_set_errno(error, errno, "cannot read the generator's BPF object");
	bpf_program__set_flags(gen->skeleton->progs.gen_call, flags);
	bpf_program__set_flags(gen->skeleton->progs.gen_redirect, flags);
	bpf_program__set_flags(gen->skeleton->progs.gen_drop, flags);
	const int r = gen_skeleton__load(gen->skeleton);
	if (r < 0)
		return ls_error_set_errno(
			error, -r,
			"cannot load the generator of packets; run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_SYS_ADMIN");
	const struct ls_gen_kind kind = { .family = 4, .protocol = 17, .port = 9 };
	*ls_gen_config(gen) = (struct ls_gen_config){ .sources = 1, .spread = 1 };
	ls_gen_frame_make(&gen->frame, &kind);
	ls_gen_frame_use(gen, &gen->frame);
	ls_gen_seed(gen, 1);
	if (keep_in_dispatcher(gen, error) < 0)
		return -1;
	*ret = TAKE_PTR(gen);
	return 0;
}

void ls_gen_close(struct ls_gen *gen)
{
	if (!gen)
		return;
	for (int i = 0; i < 2; i++) {
		if (gen->links[i] >= 0)
			close(gen->links[i]);
		if (gen->namespace_fds[i] >= 0)
			close(gen->namespace_fds[i]);
	}
	gen_skeleton__destroy(gen->skeleton);
	free(gen);
}

struct ls_gen_config *ls_gen_config(struct ls_gen *gen)
{
	return &gen->skeleton->data_config->gen_config;
}

void ls_gen_frame_use(struct ls_gen *gen, const struct ls_gen_frame *frame)
{
	struct ls_gen_config *config = ls_gen_config(gen);

	if (frame != &gen->frame)
		gen->frame = *frame;
	config->family = frame->kind.family;
	config->port = frame->kind.port;
	config->ports = frame->kind.ports;
	config->ip_at = frame->ip_at;
	config->port_at = frame->port_at;
	config->checksum = header_sum(frame->bytes + frame->ip_at);
}

void ls_gen_seed(struct ls_gen *gen, uint64_t seed)
{
	for (unsigned cpu = 0; cpu < LS_GEN_CPUS; cpu++)
		gen->skeleton->data_cpus->gen_cpu[cpu].random =
			(seed + cpu * 1000003) * 0x9e3779b97f4a7c15ULL;
}

int ls_gen_target(struct ls_gen *gen, int program_fd, struct ls_error *error)
{
	const __u32 key = 0;
	const int r = bpf_map_update_elem(bpf_map__fd(gen->skeleton->maps.gen_target), &key,
					  &program_fd, BPF_ANY);

	return r < 0 ? ls_error_set_errno(error, -r, "cannot put a program behind the generator")
		     : 0;
}

int ls_gen_drop_fd(const struct ls_gen *gen)
{
	return bpf_program__fd(gen->skeleton->progs.gen_drop);
}

uint64_t ls_gen_source(const struct ls_gen *gen, uint64_t number)
{
	const struct ls_gen_config *config = &gen->skeleton->data_config->gen_config;

	if (config->family == 6)
		return config->prefix6 + number;
	return config->base + (uint32_t)number * config->spread;
}

const char *ls_gen_compiler(const struct ls_gen *gen)
{
	return gen->skeleton->rodata_compiler->gen_compiler;
}

int ls_gen_run(struct ls_gen *gen, uint32_t packets, double *ret_ns, struct ls_error *error)
{
	int r = -EINTR;

	for (int try = 0; r == -EINTR && try < RUN_TRIES; try++) {
		LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = gen->frame.bytes,
			    .data_size_in = (__u32)gen->frame.length, .repeat = (int)packets);
		r = bpf_prog_test_run_opts(bpf_program__fd(gen->skeleton->progs.gen_call), &opts);
		if (r == 0 && opts.retval == XDP_ABORTED)
			return ls_error_set(
				error, "cannot run the generator: its tail call finds no program");
		if (r == 0)
			*ret_ns = (double)opts.duration;
	}
	return r < 0 ? ls_error_set_errno(error, -r, "cannot run the generator") : 0;
}

int ls_gen_send(struct ls_gen *gen, uint32_t packets, struct ls_error *error)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = gen->frame.bytes,
		    .data_size_in = (__u32)gen->frame.length, .repeat = (int)packets,
		    .flags = BPF_F_TEST_XDP_LIVE_FRAMES, .batch_size = 64);
	const int r =
		bpf_prog_test_run_opts(bpf_program__fd(gen->skeleton->progs.gen_redirect), &opts);

	return r < 0 && r != -EINTR ? ls_error_set_errno(error, -r, "cannot send packets") : 0;
}

uint32_t ls_gen_code_bytes(int program_fd)
{
	struct bpf_prog_info info = { 0 };
	__u32 size = sizeof(info);

	return bpf_obj_get_info_by_fd(program_fd, &info, &size) == 0 ? info.jited_prog_len : 0;
}

int ls_gen_pin(unsigned cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) < 0 ? -errno : 0;
}

void ls_gen_cpus(unsigned *ret_last, unsigned *ret_other)
{
	cpu_set_t set;
	int last = -1, other = -1;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		CPU_ZERO(&set);
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &set))
			continue;
		other = last;
		last = (int)cpu;
	}
	*ret_last = last < 0 ? 0 : (unsigned)last;
	*ret_other = other < 0 ? *ret_last : (unsigned)other;
}

void ls_gen_hurry(void)
{
	const struct sched_param first = { .sched_priority = 1 };

	sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first);
}

uint64_t ls_gen_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
