/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_CLI_SESSION_H
#define LOADSHED_USER_CLI_SESSION_H

/*
 * The caller's own way in: nobody cuts the session he is working in by accident. The session is the client
 * address in SSH_CONNECTION, of this process or of the nearest ancestor that has one (sudo takes it out
 * of the environment).
 */

#include <stdbool.h>

struct ls_plane;
struct ls_policy;
struct ls_prefix;

/* Address of the client; false: not in an SSH session. An IPv4 address mapped into IPv6 is IPv4. */
bool ls_session_find(struct ls_prefix *ret);

/* Whether the session would be dropped for its source if `policy` were enforced: by `deny`, or by a ban of `plane`
 * (NULL: none) that the policy does not undo. *ret_why names it. */
bool ls_session_is_cut(const struct ls_policy *policy, struct ls_plane *plane,
		       struct ls_prefix *ret_session, const char **ret_why);

#endif
