/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tests/tools/gen.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/resource.h>

#include <linux/bpf.h>
#include <linux/if_link.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "gen.skel.h"

struct gen {
	struct gen_skeleton *skeleton;
	struct gen_frame frame;
	int namespace_fds[2]; /* where the two programs are attached, one interface each */
	int links[2];
};

/* Interrupted runs are run again from the start; more often than this is no accident. */
#define RUN_TRIES 16

#define LOOPBACK 1 /* ifindex of lo in every namespace */

__attribute__((noreturn)) static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static void put16(uint8_t *at, unsigned number)
{
	at[0] = (uint8_t)(number >> 8);
	at[1] = (uint8_t)number;
}

static void put32(uint8_t *at, uint32_t number)
{
	put16(at, number >> 16);
	put16(at + 2, number & 0xffff);
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

void gen_frame_make(struct gen_frame *frame, int family, int protocol, uint16_t port,
		    uint8_t tcp_flags)
{
	uint8_t *ip = frame->bytes + 14;
	const unsigned transport = protocol == 6 ? 20 : 8;
	uint8_t *payload;

	memset(frame, 0, sizeof(*frame));
	/* 02:00:00:00:00:02 from 02:00:00:00:00:01: what the bench gives its veth. */
	frame->bytes[0] = frame->bytes[6] = 2;
	frame->bytes[5] = 2;
	frame->bytes[11] = 1;
	put16(frame->bytes + 12, family == 4 ? 0x0800 : 0x86dd);
	if (family == 4) {
		frame->length = 64;
		ip[0] = 0x45;
		put16(ip + 2, 50);
		ip[8] = 64;
		ip[9] = (uint8_t)protocol;
		put32(ip + 16, 0xC6336401); /* 198.51.100.1 */
		payload = ip + 20;
	} else {
		frame->length = 78;
		ip[0] = 0x60;
		put16(ip + 4, 24);
		ip[6] = (uint8_t)protocol;
		ip[7] = 64;
		put32(ip + 24, 0x20010db8);
		ip[39] = 1;
		payload = ip + 40;
	}
	put16(payload, 40000);
	put16(payload + 2, port);
	if (protocol == 6) {
		payload[12] = (uint8_t)(transport / 4 << 4);
		payload[13] = tcp_flags;
	} else {
		put16(payload + 4, family == 4 ? 30 : 24);
	}
	gen_frame_source(frame, family == 4 ? 0xC0000201 : 0x20010db800010000ULL);
}

void gen_frame_source(struct gen_frame *frame, uint64_t source)
{
	uint8_t *ip = frame->bytes + 14;

	if (ip[0] >> 4 == 6) {
		put32(ip + 8, (uint32_t)(source >> 32));
		put32(ip + 12, (uint32_t)source);
		return;
	}
	put32(ip + 12, (uint32_t)source);
	uint32_t sum =
		header_sum(ip) + (uint32_t)(source >> 16 & 0xffff) + (uint32_t)(source & 0xffff);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	put16(ip + 10, ~sum & 0xffff);
}

static int quiet(enum libbpf_print_level level, const char *format, va_list arguments)
{
	return level == LIBBPF_WARN ? vfprintf(stderr, format, arguments) : 0;
}

/*
 * A program that is in no XDP dispatcher is put into one for each BPF_PROG_TEST_RUN that repeats,
 * which waits for up to 25 ms. So both are attached for good: generic, to the loopback of a network
 * namespace of their own.
 */
static void keep_in_dispatcher(struct gen *gen)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = XDP_FLAGS_SKB_MODE);
	const int programs[] = { bpf_program__fd(gen->skeleton->progs.gen_call),
				 bpf_program__fd(gen->skeleton->progs.gen_redirect) };
	const int home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

	for (int i = 0; i < 2; i++) {
		if (home < 0 || unshare(CLONE_NEWNET) < 0)
			die("cannot make a network namespace for the generator");
		gen->namespace_fds[i] = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
		gen->links[i] = bpf_link_create(programs[i], LOOPBACK, BPF_XDP, &opts);
		if (gen->links[i] < 0)
			die("cannot attach the generator to its loopback");
	}
	if (setns(home, CLONE_NEWNET) < 0)
		die("cannot return to the network namespace");
	close(home);
}

struct gen *gen_open(void)
{
	struct gen *gen = calloc(1, sizeof(*gen));

	libbpf_set_print(quiet);
	if (!gen || !(gen->skeleton = gen_skeleton__open_and_load()))
		die("cannot load the generator");
	gen->skeleton->data_config->gen_config = (struct gen_config){ .sources = 1, .spread = 1 };
	gen_frame_make(&gen->frame, 4, 17, 9, 0);
	gen_frame_use(gen, &gen->frame);
	gen_seed(gen, 1);
	keep_in_dispatcher(gen);
	return gen;
}

void gen_close(struct gen *gen)
{
	if (!gen)
		return;
	for (int i = 0; i < 2; i++) {
		close(gen->links[i]);
		close(gen->namespace_fds[i]);
	}
	gen_skeleton__destroy(gen->skeleton);
	free(gen);
}

struct gen_config *gen_config(struct gen *gen)
{
	return &gen->skeleton->data_config->gen_config;
}

void gen_frame_use(struct gen *gen, const struct gen_frame *frame)
{
	if (frame != &gen->frame)
		gen->frame = *frame;
	gen_config(gen)->family = frame->bytes[14] >> 4;
	gen_config(gen)->checksum = header_sum(frame->bytes + 14);
}

void gen_seed(struct gen *gen, uint64_t seed)
{
	for (unsigned cpu = 0; cpu < GEN_CPUS; cpu++)
		gen->skeleton->data_cpus->gen_cpu[cpu].random =
			(seed + cpu * 1000003) * 0x9e3779b97f4a7c15ULL;
}

void gen_target(struct gen *gen, int program_fd)
{
	const __u32 key = 0;

	if (bpf_map_update_elem(bpf_map__fd(gen->skeleton->maps.gen_target), &key, &program_fd,
				BPF_ANY) < 0)
		die("cannot put the program behind the generator");
}

int gen_drop_fd(const struct gen *gen)
{
	return bpf_program__fd(gen->skeleton->progs.gen_drop);
}

int gen_redirect_fd(const struct gen *gen)
{
	return bpf_program__fd(gen->skeleton->progs.gen_redirect);
}

uint64_t gen_source(const struct gen *gen, uint64_t number)
{
	const struct gen_config *config = &gen->skeleton->data_config->gen_config;

	if (config->family == 6)
		return config->prefix6 + number;
	return config->base + (uint32_t)number * config->spread;
}

double gen_run(struct gen *gen, uint32_t packets)
{
	for (int try = 0; try < RUN_TRIES; try++) {
		LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = gen->frame.bytes,
			    .data_size_in = (__u32)gen->frame.length, .repeat = (int)packets);
		if (bpf_prog_test_run_opts(bpf_program__fd(gen->skeleton->progs.gen_call), &opts) ==
		    0) {
			if (opts.retval == XDP_ABORTED) {
				errno = EINVAL;
				die("the generator's tail call");
			}
			return (double)opts.duration;
		}
		if (errno != EINTR)
			break;
	}
	die("cannot run the generator");
}

void gen_send(struct gen *gen, uint32_t packets)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = gen->frame.bytes,
		    .data_size_in = (__u32)gen->frame.length, .repeat = (int)packets,
		    .flags = BPF_F_TEST_XDP_LIVE_FRAMES, .batch_size = 64);

	if (bpf_prog_test_run_opts(gen_redirect_fd(gen), &opts) < 0 && errno != EINTR)
		die("cannot send");
}

int gen_once(int program_fd, const struct gen_frame *frame)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = frame->bytes,
		    .data_size_in = (__u32)frame->length, .repeat = 1);

	if (bpf_prog_test_run_opts(program_fd, &opts) < 0)
		die("cannot run a frame");
	return (int)opts.retval;
}

void gen_pin(unsigned cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		die("cannot stay on a CPU");
}

void gen_prefer(void)
{
	setpriority(PRIO_PROCESS, 0, -20);
	/* Where sessions are grouped, niceness counts within a session only. One of our own can be
	 * favoured. */
	const char *own = getenv("LS_OWN_SESSION");
	FILE *group = own && strcmp(own, "1") == 0 ? fopen("/proc/self/autogroup", "w") : NULL;
	if (group) {
		fputs("-20", group);
		fclose(group);
	}
}

void gen_hurry(void)
{
	const struct sched_param first = { .sched_priority = 1 };

	sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first);
}

unsigned gen_cpus(void)
{
	return (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
}

uint64_t gen_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
