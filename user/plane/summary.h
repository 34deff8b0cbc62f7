/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_SUMMARY_H
#define LOADSHED_USER_PLANE_SUMMARY_H

/* From the summaries of all CPUs to rows with their bounds. Reads memory that it is given, and no world. */

#include "loadshed/top_abi.h"
#include "user/plane/top.h"

struct ls_summary_request {
	const struct ls_top *cpus;
	size_t n_cpus;
	const __u64 *hash_key; /* LS_HASH_KEYS of them */
	uint64_t number;       /* newest epoch to read */
	unsigned n_epochs;     /* that one and those before it; below LS_TOP_EPOCHS */
	unsigned n_interfaces; /* that a source may come in by, at least 1 */
	uint32_t ifindex;      /* only this one's rows; 0: all */
	int bank;	       /* only this one's totals; -1: all */
};

/* 0, or negative with a line; -EAGAIN without one: an epoch was written over while it was read, so ask for a newer
 * one. */
int ls_summary_read(const struct ls_summary_request *request, struct ls_top_reading *ret,
		    struct ls_error *error);

/*
 * How far a number of packets can be from its estimate, where each counted with probability 1/weight at least:
 * four standard deviations. `variance` is the sum of (weight - 1) * estimate over the parts.
 */
double ls_summary_sampling_error(double variance, uint32_t weight);

#endif
