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
	__u32 reuse = cpu->clock_reuse;
	if (LS_LIKELY(reuse && cpu->clock_jiffies == jiffies)) {
		cpu->clock_reuse = reuse - 1;
		return cpu->clock_ns;
	}
	__u64 now = bpf_ktime_get_ns() - ls_control.epoch_ns;
	cpu->clock_ns = now;
	cpu->clock_jiffies = jiffies;
	__u32 packets = cpu->run_packets + 1 - reuse;
	if (packets >= LS_DENSE_PACKETS) {
		reuse = now - cpu->run_start_ns < LS_DENSE_NS ? LS_DENSE_PACKETS - 1 : 0;
		cpu->run_start_ns = now;
		packets = 0;
	}
	/* Those that may reuse it are counted now, so that they need not count themselves. */
	cpu->clock_reuse = reuse;
	cpu->run_packets = packets + reuse;
	return now;
}

/* Sets the job's clocks, once. */
LS_INLINE void ls_job_clock(struct ls_cpu *cpu)
{
	struct ls_job *job = &cpu->job;
	if (job->clocked)
		return;
	job->clocked = 1;
	job->now_ns = ls_is_replay ? ls_replay.now_ns - ls_control.epoch_ns : ls_clock_read(cpu);
	job->now = job->now_ns << LS_TICKS_PER_NS_SHIFT;
}

/* The job's clock since the Unix epoch; only windows ask for it. */
LS_INLINE __u64 ls_job_wall_ns(const struct ls_job *job)
{
	return job->now_ns + (ls_is_replay ? ls_control.epoch_ns : ls_control.wall_ns);
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
