/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_WAIT_H
#define LOADSHED_USER_PLANE_WAIT_H

/*
 * How long until a limit admits, and how much it admits now: the questions that no packet asks. Each agrees with
 * the `take` of its algorithm in bpf/pure: refused one nanosecond before, admitted then (tests/unit/
 * test_plane_wait.c). They need 128 bits, which BPF does not have.
 */

#include <stdint.h>

#include "loadshed/policy_abi.h"
#include "loadshed/table_abi.h"

#define LS_WAIT_NEVER UINT64_MAX

/* An instant: ticks since the epoch, and the same since the Unix epoch in ns. */
struct ls_instant {
	uint64_t now;
	uint64_t wall_ns;
};

/* A state under a limit. `log` only of a sliding log. */
struct ls_standing {
	const struct ls_limit_abi *limit;
	const struct ls_log *log; /* NULL: no stamps yet */
	uint64_t state;
	uint64_t ceiling; /* tau, or the limit in units: with the NAT factor */
	uint32_t factor;  /* NAT factor that makes a token bucket's units cheaper; 0 or 1: none */
};

/* Nanoseconds until `cost` (ticks or units, scaled) is admitted, if nothing else comes; 0: now. */
uint64_t ls_standing_wait(const struct ls_standing *standing, struct ls_instant at, uint64_t cost);

/* Units that are admitted now, rounded down. */
uint64_t ls_standing_remaining(const struct ls_standing *standing, struct ls_instant at);

/* Units of an untouched state: the burst or the limit, with the NAT factor. */
uint64_t ls_standing_ceiling(const struct ls_standing *standing);

/*
 * How much of its limit a stranger's state has used, in units of which slot->full_share are the whole; 0: it holds
 * nothing, and a newcomer may have its place. As ls_share() in kern/table.h says, but for a strike, of which
 * it is 1 or 0. `log`: of a state in the log table; else not looked at.
 */
unsigned ls_state_share(struct ls_instant at, const struct ls_slot_abi *slot, unsigned table,
			uint64_t state, const struct ls_log *log);

#endif
