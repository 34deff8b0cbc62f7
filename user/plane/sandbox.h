/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_SANDBOX_H
#define LOADSHED_USER_PLANE_SANDBOX_H

/*
 * The same BPF object, loaded for this process alone: nothing is pinned, nothing is attached, and no live
 * state is touched. It runs on packets that it is handed, under a clock that it is told. Closed with
 * ls_plane_close(); everything goes with it.
 *
 * What works on any plane (publish, counters, bans, policy) works on this one; save and status do not.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loadshed/control_abi.h"

struct ls_error;
struct ls_plane;
struct ls_policy;

/* Enough for a capture with 64 k sources of one limit; about 25 MB. */
#define LS_SANDBOX_SOURCES 65536

struct ls_plane_sandbox {
	const struct ls_policy *policy; /* published at once; NULL: the empty one */
	uint64_t sources;		/* capacity; 0: LS_SANDBOX_SOURCES */
	int live_clock; /* 0: replay, the clock is that of ls_plane_run; 1: the kernel's own, for benches */
	int verbose; /* the verifier's log to stderr when the program does not load */
};

int ls_plane_sandbox_open(const struct ls_plane_sandbox *request, struct ls_plane **ret_plane,
			  struct ls_error *error);

/*
 * Starts time: tick 0 and the wall clock's zero of all state are at `unix_ns`, that of the first packet. Must come before the
 * first ls_plane_run(), and before the first ban, of a replay.
 */
void ls_plane_sandbox_begin(struct ls_plane *plane, uint64_t unix_ns);

/*
 * Judges one frame: one system call. `frame` is at least 14 bytes, as BPF_PROG_TEST_RUN takes no fewer; of a
 * longer one than LS_SANDBOX_FRAME_MAX only the front is handed in. `wire_bytes` is its length on the wire, `unix_ns` its
 * time, which never goes back. *ret is what the program said; the caller pads what the capture cut off.
 * Returns 0, or a negative errno. One thread at a time.
 */
#define LS_SANDBOX_FRAME_MIN 14
#define LS_SANDBOX_FRAME_MAX 32768
int ls_plane_run(struct ls_plane *plane, const void *frame, size_t length, uint32_t wire_bytes,
		 uint64_t unix_ns, struct ls_replay_abi *ret);

/* The fd of the loaded program, for benches that run it otherwise; owned by the plane. */
int ls_plane_program_fd(const struct ls_plane *plane);

/* Bytes of the short table, which holds the state of most limits. */
uint64_t ls_plane_sandbox_table_bytes(const struct ls_plane *plane);

/*
 * Whether the kernel loads programs that take frames in several buffers (5.18): tried, by loading one. Who calls
 * a sandbox's program by tail call must be loaded as it is.
 */
bool ls_load_has_frags(void);

/* What new tables for so many sources take, and what there is (UINT64_MAX: not known). Negative errno. */
int ls_load_memory(uint64_t sources, uint64_t *ret_wanted, uint64_t *ret_available);

#endif
