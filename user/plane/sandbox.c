/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/sandbox.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "user/base/error.h"
#include "user/plane/internal.h"
#include "user/policy/policy.h"

/*
 * Each run copies the frame into a buffer that the kernel allocates, so what no parser looks at is left out:
 * eight extension headers of the largest size (2048 bytes) and a transport header end well before.
 */
_Static_assert(LS_SANDBOX_FRAME_MAX >= LS_IPV6_EXTENSIONS * 2048 + 256, "all that is parsed");

int ls_plane_sandbox_open(const struct ls_plane_sandbox *request, struct ls_plane **ret_plane,
			  struct ls_error *error)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = calloc(1, sizeof(*plane));
	_cleanup_(ls_policy_freep) struct ls_policy *empty = NULL;
	const struct ls_load load = {
		.sources = request->sources ? request->sources : LS_SANDBOX_SOURCES,
		.is_replay = !request->live_clock,
		.small = true,
		.verbose = request->verbose,
	};

	if (!plane)
		return ls_error_oom(error);
	ls_plane_init(plane, "sandbox", LS_PLANE_WRITE);
	plane->is_sandbox = true;
	if (!request->policy && !(empty = ls_policy_new()))
		return ls_error_oom(error);
	int r = ls_load_object(&load, plane, error);
	if (r == 0)
		r = ls_publish(plane, request->policy ? request->policy : empty, NULL, error);
	if (r < 0)
		return r;
	*ret_plane = TAKE_PTR(plane);
	return 0;
}

void ls_plane_sandbox_begin(struct ls_plane *plane, uint64_t unix_ns)
{
	struct ls_control *control = ls_plane_control_rw(plane);

	control->epoch_ns = unix_ns;
	control->wall_ns = unix_ns;
	plane->replay->now_ns = unix_ns;
}

int ls_plane_run(struct ls_plane *plane, const void *frame, size_t length, uint32_t wire_bytes,
		 uint64_t unix_ns, struct ls_replay_abi *ret)
{
	/* The bare system call: libbpf's wrapper clears and copies more than the program takes. */
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr.test));
	attr.test.prog_fd = (__u32)plane->program_fd;
	attr.test.data_in = (__u64)(uintptr_t)frame;
	attr.test.data_size_in =
		(__u32)(length < LS_SANDBOX_FRAME_MAX ? length : LS_SANDBOX_FRAME_MAX);
	plane->replay->now_ns = unix_ns;
	plane->replay->wire_bytes = wire_bytes;
	if (syscall(SYS_bpf, BPF_PROG_TEST_RUN, &attr, sizeof(attr.test)) < 0)
		return -errno;
	*ret = *plane->replay;
	return 0;
}

int ls_plane_program_fd(const struct ls_plane *plane)
{
	return plane->program_fd;
}

uint64_t ls_plane_sandbox_table_bytes(const struct ls_plane *plane)
{
	return (uint64_t)ls_plane_state(plane)->sets[LS_TABLE_SHORT] * sizeof(struct ls_ways);
}
