/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_OVERLOAD_BREAKER_H
#define LOADSHED_USER_OVERLOAD_BREAKER_H

/*
 * The circuit breaker of one class, as arithmetic: results of checks in, what part of new work is admitted out.
 *
 *	closed		all of it; `fall` failures in a row open it
 *	open		none of it, at once: what cannot be served is not queued; `rise` successes in a row half open it
 *	half open	1/8, then 1/4, 1/2 and all of it, a step for each success; one failure opens it again
 *
 * The checks are the controller's own and come from this host, so they reach the service when nobody else does.
 */

#include <stdbool.h>
#include <stdint.h>

#include "loadshed/overload_abi.h"

struct ls_breaker {
	unsigned fall, rise;	      /* set once */
	unsigned failures, successes; /* in a row */
	unsigned state;		      /* LS_BREAKER_* */
	unsigned shift;		      /* half open: 2^-shift of new work is admitted */
	uint64_t opened;	      /* how often */
};

void ls_breaker_init(struct ls_breaker *breaker, unsigned fall, unsigned rise);

/* One result; whether the state changed. */
bool ls_breaker_note(struct ls_breaker *breaker, bool is_good);

/* The part of new work that is admitted, of 2^32; only while it is not closed. */
uint32_t ls_breaker_boundary(const struct ls_breaker *breaker);

#endif
