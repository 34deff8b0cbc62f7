/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tests/tools/gen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "user/base/error.h"

static struct ls_error error;

static void need(int code, const char *what)
{
	if (code >= 0)
		return;
	fprintf(stderr, "%s\n", error.text[0] ? error.text : what);
	exit(1);
}

struct ls_gen *gen_open(void)
{
	struct ls_gen *gen = NULL;

	need(ls_gen_open(&gen, &error), "cannot open a generator");
	return gen;
}

void gen_target(struct ls_gen *gen, int program_fd)
{
	need(ls_gen_target(gen, program_fd, &error), "cannot aim the generator");
}

double gen_run(struct ls_gen *gen, uint32_t packets)
{
	double ns = 0;

	need(ls_gen_run(gen, packets, &ns, &error), "cannot run the generator");
	return ns;
}

void gen_send(struct ls_gen *gen, uint32_t packets)
{
	need(ls_gen_send(gen, packets, &error), "cannot send");
}

int gen_once(int program_fd, const struct ls_gen_frame *frame)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = frame->bytes,
		    .data_size_in = (__u32)frame->length, .repeat = 1);

	need(bpf_prog_test_run_opts(program_fd, &opts), "cannot run a frame");
	return (int)opts.retval;
}

void gen_frame_make(struct ls_gen_frame *frame, int family, int protocol, uint16_t port,
		    uint8_t tcp_flags)
{
	const struct ls_gen_kind kind = { .family = (uint8_t)family,
					  .protocol = (uint8_t)protocol,
					  .port = port,
					  .tcp_flags = tcp_flags };

	ls_gen_frame_make(frame, &kind);
}

void gen_pin(unsigned cpu)
{
	need(ls_gen_pin(cpu), "cannot stay on a CPU");
}

unsigned gen_cpus(void)
{
	return (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
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
