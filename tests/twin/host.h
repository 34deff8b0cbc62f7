/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_TWIN_HOST_H
#define LOADSHED_TWIN_HOST_H

/*
 * The whole data plane as a host program: bpf/loadshed.bpf.c compiled for this machine over plain arrays.
 * One plane at a time; any number of threads judge on it at once.
 */

#include <stddef.h>
#include <stdint.h>

#include "loadshed/control_abi.h"
#include "loadshed/event_abi.h"
#include "loadshed/overload_abi.h"
#include "loadshed/top_abi.h"
#include "user/policy/compile.h"

/* Makes the maps for `cpus` CPUs with `sets` sets (a power of two) in each table; all state is empty. */
void ls_host_start(unsigned cpus, uint32_t sets, uint64_t seed);
void ls_host_stop(void);

/* Copies the image into the half that is not in force and publishes it. `replay`: see ls_host_replay(). */
void ls_host_publish(const struct ls_image *image, unsigned half);

/* The clock of all threads, ns. Also the epoch when set before the first packet. */
void ls_host_set_epoch(uint64_t now_ns, uint64_t wall_ns);
void ls_host_set_clock(uint64_t now_ns);
void ls_host_set_jiffies(uint64_t jiffies);

/* Which CPU the calling thread is; 0 unless said. */
void ls_host_set_cpu(unsigned cpu);

/* Frames must lie below 4 GiB, since struct xdp_md has 32-bit addresses: memory for them. */
uint8_t *ls_host_frame(size_t bytes);

/* Judges one frame from ls_host_frame(); XDP_PASS or XDP_DROP. */
int ls_host_judge(uint8_t *frame, size_t bytes);

/* The same by the program of kernels that have no frames in several buffers. */
int ls_host_judge_linear(uint8_t *frame, size_t bytes);

/* The same with replay's clock and report. */
struct ls_replay_abi ls_host_replay(uint8_t *frame, size_t bytes, uint64_t unix_ns);

/* Sum of one counter over CPUs. */
struct ls_counter ls_host_counter(uint32_t number);

/* The events of one CPU. */
const struct ls_event_ring *ls_host_ring(unsigned cpu);

struct ls_control *ls_host_control(void);
struct ls_overload *ls_host_overload(void);
struct ls_offered *ls_host_offered(void); /* by CPU */
struct ls_ways *ls_host_ways(size_t *ret_sets);
/* One for each CPU. */
const struct ls_top *ls_host_top(void);

/* Nodes share limits until then, in ns since the epoch: the side table, and the CPUs' own parts of it. */
struct ls_hot;
struct ls_hot_cpu;
struct ls_hot *ls_host_share(uint64_t until_ns);
struct ls_hot_cpu *ls_host_shares(void);
/* Key of an IPv4 source (host order) under a limit per source. */
uint64_t ls_host_source_key(uint32_t source, unsigned half, unsigned class_index, unsigned limit);

#endif
