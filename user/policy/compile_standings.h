/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_POLICY_COMPILE_STANDINGS_H
#define LOADSHED_USER_POLICY_COMPILE_STANDINGS_H

/* Standings that are all different: each gets the next number, its label, the first time that it is asked for. */

#include <stddef.h>
#include <stdint.h>

#include "user/policy/compile_lists.h"

struct ls_standings {
	struct ls_standing *items; /* owned; label is the index */
	size_t count, capacity;
	uint32_t *hash; /* owned; label + 1; 0: free; a power of two, at most half full */
	size_t hash_size;
};

/* The label of a standing, which is copied. 0 or -ENOMEM. */
int ls_standings_intern(struct ls_standings *standings, const struct ls_standing *standing,
			uint32_t *ret_label);
void ls_standings_fini(struct ls_standings *standings);

#endif
