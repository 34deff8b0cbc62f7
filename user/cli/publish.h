/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_CLI_PUBLISH_H
#define LOADSHED_USER_CLI_PUBLISH_H

/* What every verb that changes the policy does: guard, publish, save, report. */

#include <stdint.h>

#include "user/cli/cli.h"
#include "user/plane/plane.h"

/* Opens the instance of the command line; LS_EXIT_DONE, or LS_EXIT_FAILED after a line. */
int ls_cli_open(struct ls_cli *cli, enum ls_plane_access access, struct ls_plane **ret_plane);

/* Reads option --confirm or --for: 1 s to ten years; not given: `otherwise`. LS_EXIT_DONE or LS_EXIT_USAGE. */
int ls_cli_time(struct ls_cli *cli, enum ls_option option, uint64_t otherwise_ns, uint64_t *ret_ns);

struct ls_cli_publish {
	const struct ls_policy *policy;
	const char *path; /* where it came from; NULL: nowhere */
	uint64_t confirm_ns;
};

/*
 * Guards the session, publishes, saves. The plane is open for writing. LS_EXIT_DONE, *ret_changed says whether it was
 * in force already; or LS_EXIT_FAILED after a line.
 */
int ls_cli_publish(struct ls_cli *cli, struct ls_plane *plane, const struct ls_cli_publish *what,
		   bool *ret_changed);

/* Saves; a failure says that `what` is in force all the same. */
int ls_cli_save(struct ls_plane *plane);

/* "applied as generation 7", or as JSON. */
int ls_cli_report(struct ls_cli *cli, struct ls_plane *plane, const char *what, bool changed);

#endif
