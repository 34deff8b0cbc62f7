/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_PURE_SAMPLE_H
#define LOADSHED_PURE_SAMPLE_H

/*
 * Which refused packets become events: a token bucket for each CPU, verdict and reason. In a flood it takes the first
 * packet after each refill, so samples are spread evenly over time and not over packets; what comes at less
 * than the rate is taken whole, whatever floods beside it.
 *
 * A bucket that is empty stays so for the rest of the jiffy (a refill takes 7.8 ms, a jiffy at most 10): so in a
 * flood nearly every packet costs one comparison, and the clock is read twice a jiffy.
 */

#include "loadshed/bounds.h"
#include "pure/bucket.h"

#define LS_SAMPLE_RATE 128 /* events per second */
#define LS_SAMPLE_BURST 64
#define LS_SAMPLE_COST ((1000000000ULL << LS_TICKS_PER_NS_SHIFT) / LS_SAMPLE_RATE)
#define LS_SAMPLE_TAU (LS_SAMPLE_BURST * LS_SAMPLE_COST)

/* Refusals that one budget has seen on one CPU. */
struct ls_sample {
	__u32 refused; /* since the last event */
	__u32 empty;   /* low bits of the jiffy in which the bucket was found empty */
};

/* Counts one refusal; 0: no event of it. */
LS_INLINE int ls_sample_counts(struct ls_sample *sample, __u64 jiffies)
{
	sample->refused++;
	return sample->empty != (__u32)jiffies;
}

/* Whether there is a token at now_ns of any clock that does not go back; *bucket is charged. */
LS_INLINE int ls_sample_takes(struct ls_sample *sample, __u64 *bucket, __u64 now_ns, __u64 jiffies)
{
	__u64 next = 0;
	if (!ls_bucket_take(*bucket, now_ns << LS_TICKS_PER_NS_SHIFT, LS_SAMPLE_COST, LS_SAMPLE_TAU,
			    LS_SAMPLE_TAU, &next)) {
		sample->empty = (__u32)jiffies;
		return 0;
	}
	*bucket = next;
	return 1;
}

#endif
