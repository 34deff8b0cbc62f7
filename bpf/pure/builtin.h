/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_PURE_BUILTIN_H
#define LOADSHED_PURE_BUILTIN_H

/* The program's own limits, as token buckets in ticks. */

#include "loadshed/policy_abi.h"
#include "pure/base.h"

/* What keeps links alive: 10 000/s per node, burst 1 000. */
#define LS_CONTROL_COST (64ULL * 1000000000 / 10000)
#define LS_CONTROL_TAU (1000 * LS_CONTROL_COST)

/* ICMP errors: 10/s per source, burst 20. */
#define LS_ICMP_COST (64ULL * 1000000000 / 10)
#define LS_ICMP_TAU (20 * LS_ICMP_COST)
#define LS_ICMP_LIMIT                                                                              \
	{                                                                                          \
		.mult = LS_ICMP_COST, .cap = 1, .tau = LS_ICMP_TAU, .clamp = LS_ICMP_TAU,          \
		.algorithm = LS_ABI_TOKEN_BUCKET, .count = LS_ABI_PACKETS,                         \
		.per = LS_ABI_PER_SOURCE, .table = LS_TABLE_SHORT, .slot = LS_SLOT_ICMP_ERRORS     \
	}

/* `panic`: per source 20 connections/s and 2 000 packets/s. */
#define LS_PANIC_TAU (64ULL * 1000000000)	     /* bursts of one second */
#define LS_PANIC_CONNECTION_COST (LS_PANIC_TAU / 20) /* 20/s */
#define LS_PANIC_PACKET_COST (LS_PANIC_TAU / 2000)   /* 2 000/s */

#define LS_PANIC_LIMIT(counts, price, number)                                                      \
	{                                                                                          \
		.mult = (price), .cap = 1, .tau = LS_PANIC_TAU, .clamp = LS_PANIC_TAU,             \
		.algorithm = LS_ABI_TOKEN_BUCKET, .count = (counts), .per = LS_ABI_PER_SOURCE,     \
		.table = LS_TABLE_SHORT, .slot = (number)                                          \
	}

#endif
