/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_CLI_TOP_BAN_H
#define LOADSHED_USER_CLI_TOP_BAN_H

/* Bans of what `top` shows: asked for at a glance, so what would hurt is left out and said. */

#include "user/cli/cli.h"
#include "user/plane/host.h"
#include "user/cli/session.h"

#define LS_TOP_BAN_WHY 96

struct ls_top_ban {
	struct ls_plane *plane;	  /* open for writing */
	struct ls_policy *policy; /* in force */
	struct ls_host_guard host;
	struct ls_session sessions[LS_SESSIONS_MAX];
	size_t n_sessions;
};

/* Opens the instance. 0; LS_PLANE_E_ABSENT; or negative with a line. */
int ls_top_ban_open(struct ls_cli *cli, struct ls_top_ban *ret, struct ls_error *error);
void ls_top_ban_close(struct ls_top_ban *ban);
#define _cleanup_top_ban_ _cleanup_(ls_top_ban_close)

/*
 * Bans one source or prefix. 0; LS_BAN_E_LONGER; LS_BAN_E_ALLOWED: left out, for the reason in `why`; or negative with a
 * line. It holds at once and is saved by ls_top_ban_save().
 */
int ls_top_ban_put(struct ls_top_ban *ban, const struct ls_prefix *prefix, uint64_t for_ns,
		   char why[static LS_TOP_BAN_WHY], struct ls_error *error);
int ls_top_ban_save(struct ls_top_ban *ban, struct ls_error *error);

#endif
