/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_POLICY_DIFF_H
#define LOADSHED_USER_POLICY_DIFF_H

/*
 * What changes from one policy to another, in terms of meaning: order of keys, spelling of units,
 * comments and the order of entries in a list are no difference.
 */

#include <stdbool.h>

struct ls_buffer;
struct ls_policy;

/*
 * Appends one line per difference to `buffer` (NULL: only the answer is wanted), such as
 *	class web: limit new: rate 50/s -> 100/s
 *	class dns: added
 *	deny: +203.0.113.7 -set office
 *	set blocked: +300 -12 entries
 * Returns whether anything differs. What cannot be compared for lack of memory counts as different;
 * lines that are missing for it are remembered in the buffer.
 */
bool ls_policy_diff(const struct ls_policy *from, const struct ls_policy *to,
		    struct ls_buffer *buffer);

/* No difference. The sha256 of a list file and its skipped lines do not count: only entries do. */
bool ls_policy_equal(const struct ls_policy *a, const struct ls_policy *b);

#endif
