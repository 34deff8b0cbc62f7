/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/internal.h"

#include <time.h>

static uint64_t read_clock(clockid_t clock)
{
	struct timespec now = { 0 };

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

/* The clock of bpf_ktime_get_ns(). */
uint64_t ls_now_monotonic(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t ls_now_unix(void)
{
	return read_clock(CLOCK_REALTIME);
}

uint64_t ls_plane_now(const struct ls_plane *plane)
{
	const uint64_t epoch_ns = ls_plane_control_rw(plane)->epoch_ns;
	const uint64_t now_ns = plane->is_replay ? plane->replay->now_ns : ls_now_monotonic();

	return now_ns > epoch_ns ? now_ns - epoch_ns : 0;
}
