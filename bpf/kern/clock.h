/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_KERN_CLOCK_H
#define LOADSHED_KERN_CLOCK_H

/*
 * What time it is for a packet.
 *
 * A reading of the monotonic clock costs 30 ns on a virtual machine, more than the rest of a verdict, so
 * in a dense run one reading serves 16 packets. A run is dense when the last 16 packets took less than
 * LS_DENSE_NS together; a reading is never reused in another jiffy. So in steady traffic of any rate a
 * reading is microseconds old at the most; the worst is a pause in the middle of a dense run, after which
 * up to 15 packets of this CPU, all in the rest of that jiffy (4 ms at HZ 250), may be judged by a reading
 * from before it. A clock that is late admits less, never more: the bound of what passes stands, and what a
 * conforming source can lose is those 15 packets. (A window charges them to the one that has just ended, if they
 * fall behind its end; what holds for a time only may end one jiffy late for them.) (Reusing a reading for 16 packets or one jiffy whatever
 * the density refused half of a source at half its limit.)
 *
 * `replay` has the capture's clock and never caches.
 */

#include "kern/job.h"
#include "pure/timed.h"

#define LS_DENSE_PACKETS 16
#define LS_DENSE_NS 64000 /* 250 kpps: below that, 30 ns per packet are less than 1 % of a CPU */

LS_INLINE __u64 ls_clock_read(struct ls_cpu *cpu)
{
	__u64 jiffies = bpf_jiffies64();
	cpu->run_packets++;
	if (cpu->clock_reuse && cpu->clock_jiffies == jiffies) {
		cpu->clock_reuse--;
		return cpu->clock_ns;
	}
	__u64 now = bpf_ktime_get_ns();
	cpu->clock_ns = now;
	cpu->clock_jiffies = jiffies;
	if (cpu->run_packets >= LS_DENSE_PACKETS) {
		cpu->clock_reuse = now - cpu->run_start_ns < LS_DENSE_NS ? LS_DENSE_PACKETS - 1 : 0;
		cpu->run_start_ns = now;
		cpu->run_packets = 0;
	}
	return now;
}

/* Sets the job's three clocks, once. */
LS_INLINE void ls_job_clock(struct ls_cpu *cpu)
{
	struct ls_job *job = &cpu->job;
	if (job->clocked)
		return;
	job->clocked = 1;
	if (ls_is_replay) {
		job->wall_ns = ls_replay.now_ns;
		job->now_ns = job->wall_ns - ls_control.epoch_ns;
	} else {
		job->now_ns = ls_clock_read(cpu) - ls_control.epoch_ns;
		job->wall_ns = ls_control.wall_ns + job->now_ns;
	}
	job->now = job->now_ns << LS_TICKS_PER_NS_SHIFT;
}

/* Puts into the job's word what holds for a time only. A function of its own: off the common path. */
__attribute__((noinline)) int ls_job_timed(struct ls_cpu *cpu)
{
	if (!cpu)
		return 0;
	ls_job_clock(cpu);
	cpu->job.word = ls_timed_word(&ls_control, cpu->job.word, cpu->job.now_ns);
	return 0;
}

#endif
