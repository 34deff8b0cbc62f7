/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_CLI_SESSION_H
#define LOADSHED_USER_CLI_SESSION_H

/*
 * The caller's own way in: nobody cuts the session he is working in by accident. The session is what
 * SSH_CONNECTION says, of this process or of the nearest ancestor that has one (sudo takes it out of the
 * environment). Under tmux and screen that is the login in which the shell was started, while its user may have come
 * back from somewhere else: so the logins of all clients that are attached at this moment count as well.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "user/base/addr.h"

struct ls_cli;
struct ls_plane;
struct ls_policy;

/* As this host sees it: behind NAT or a bastion, the client is that. An IPv4 address mapped into IPv6 is IPv4. */
struct ls_session {
	struct ls_prefix client;
	struct ls_prefix server; /* of the client's family */
	uint16_t client_port, server_port;
};

#define LS_SESSIONS_MAX 16

/* How many there are, each once; 0: not in an SSH session. */
size_t ls_session_find(struct ls_session list[static LS_SESSIONS_MAX]);

#define LS_SESSION_WHY 192

/* What is about to be in force. */
struct ls_session_change {
	const struct ls_policy *policy;
	struct ls_plane *plane; /* whose bans count; NULL: none */
	bool panic;
	bool was_in_force; /* before this boot: the host's addresses were asked about then */
};

/*
 * Whether a session would be cut if the change were enforced, or could not be taken up again: what a new connection
 * and ten packets a second of it would get from the real program under the policy, with all buckets full. A policy that
 * monitors cuts nobody. *ret_session and ret_why say whose and why.
 */
bool ls_session_is_cut(const struct ls_session_change *change, struct ls_session *ret_session,
		       char ret_why[static LS_SESSION_WHY]);

/* The first of `list` that a ban of `prefix` would cut under the policy; NULL: none. */
const struct ls_session *ls_session_banned(const struct ls_session *list, size_t count,
					   const struct ls_policy *policy,
					   const struct ls_prefix *prefix);

/*
 * The guard of a verb: LS_EXIT_DONE, or LS_EXIT_FAILED after a line that names the address: of a session, or of what this
 * host cannot do without (user/cli/host.h). --yes passes, and so does an instance that was attached with --monitor.
 */
int ls_session_guard(struct ls_cli *cli, const struct ls_session_change *change);

#endif
