/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_SERVE_DEBOUNCE_H
#define LOADSHED_USER_SERVE_DEBOUNCE_H

/*
 * Many events, one action: it is due once nothing has happened for `quiet_ns`, or `most_ns` after the first event, if
 * they do not end. Zero is an instance without events. Times: any clock that does not step, never 0.
 */

#include <stdbool.h>
#include <stdint.h>

struct ls_debounce {
	uint64_t first_ns, last_ns; /* of the events that wait; 0: none do */
};

static inline void ls_debounce_event(struct ls_debounce *debounce, uint64_t now_ns)
{
	if (!debounce->first_ns)
		debounce->first_ns = now_ns;
	debounce->last_ns = now_ns;
}

/* True once for a group of events, which is then forgotten. */
static inline bool ls_debounce_due(struct ls_debounce *debounce, uint64_t now_ns, uint64_t quiet_ns,
				   uint64_t most_ns)
{
	if (!debounce->first_ns ||
	    (now_ns - debounce->last_ns < quiet_ns && now_ns - debounce->first_ns < most_ns))
		return false;
	*debounce = (struct ls_debounce){ 0 };
	return true;
}

#endif
