/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_PURE_BUILTIN_H
#define LOADSHED_PURE_BUILTIN_H

/* The numbers of the program's own limits, as token buckets in ticks. */

#include "pure/base.h"

/* What keeps links alive: 10 000/s per node, burst 1 000. */
#define LS_CONTROL_COST (64ULL * 1000000000 / 10000)
#define LS_CONTROL_TAU (1000 * LS_CONTROL_COST)

/* ICMP errors: 10/s per source, burst 20. */
#define LS_ICMP_COST (64ULL * 1000000000 / 10)
#define LS_ICMP_TAU (20 * LS_ICMP_COST)

#endif
