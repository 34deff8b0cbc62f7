/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/cli.h"

/*
 * restore: what was saved is attached again, at boot or after the pins were lost.
 * How is said in user/plane/restore.h. What could not be attached is named, and the exit code tells the unit to try
 * again.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "user/base/addr.h"
#include "user/cli/session.h"
#include "user/plane/bans.h"
#include "user/plane/plane.h"
#include "user/plane/restore.h"
#include "user/policy/check.h"
#include "user/policy/policy.h"

static bool is_attached(const struct ls_cli *cli)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;

	return ls_plane_open(cli->instance, LS_PLANE_READ, &plane, NULL) == 0;
}

/* Typed by hand in a session, what comes back could cut that, too. At boot there is none. */
static int guard_session(struct ls_cli *cli, const struct ls_restore *saved)
{
	const struct ls_session_change change = { .policy = saved->policy, .was_in_force = true };
	struct ls_session sessions[LS_SESSIONS_MAX];
	char text[LS_PREFIX_TEXT];

	if (ls_cli_has(cli, LS_OPTION_YES) || saved->attach.monitor || is_attached(cli))
		return LS_EXIT_DONE;
	const int r = ls_session_guard(cli, &change);
	if (r != LS_EXIT_DONE)
		return r;
	const size_t count = ls_session_find(sessions);
	for (size_t i = 0; i < saved->n_bans; i++) {
		const struct ls_session *cut =
			ls_session_banned(sessions, count, saved->policy, &saved->bans[i].prefix);
		if (!cut)
			continue;
		ls_cli_note(
			"this would cut your own session from %s: it was banned; nothing was changed; use --yes if that is meant",
			ls_prefix_format(&cut->client, text));
		return LS_EXIT_FAILED;
	}
	return LS_EXIT_DONE;
}

/* LS_EXIT_DONE, or LS_EXIT_FAILED with a line unless it is the line before. */
static int attach_one(struct ls_cli *cli, const struct ls_restore *saved, const char *name,
		      struct ls_error *last)
{
	_cleanup_warnings_ struct ls_warnings notes = LS_WARNINGS_INIT;
	struct ls_error error = LS_ERROR_INIT;
	const int r =
		ls_restore_interface(cli->instance, saved, name, cli->verbose, &notes, &error);

	ls_cli_notes(&notes);
	if (r == 0)
		return LS_EXIT_DONE;
	if (strcmp(error.text, last->text) != 0)
		(void)ls_cli_fail(&error);
	*last = error;
	return LS_EXIT_FAILED;
}

static int report_restore(struct ls_cli *cli)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	_cleanup_(ls_plane_status_fini) struct ls_plane_status status = { 0 };
	struct ls_error error = LS_ERROR_INIT;
	const int r = ls_plane_open(cli->instance, LS_PLANE_READ, &plane, &error);

	if (cli->json)
		return ls_cmd_status(cli);
	if (r == LS_PLANE_E_ABSENT)
		return LS_EXIT_DONE; /* what went wrong has been said */
	if (r < 0 || ls_plane_status(plane, &status, &error) < 0)
		return ls_cli_fail(&error);
	for (size_t i = 0; i < status.n_interfaces; i++)
		printf("%s: attached, %s mode\n", status.interfaces[i].name,
		       ls_plane_mode_name(status.interfaces[i].mode));
	printf("policy: generation %" PRIu64 ", %s\n", status.generation,
	       status.monitor ? "monitor" : "enforce");
	return ls_cli_flush();
}

/* LS_EXIT_DONE: *ret is filled, or nothing is saved and it is empty; else a line was printed. */
static int read_saved(const struct ls_cli *cli, struct ls_restore *ret)
{
	struct ls_error error = LS_ERROR_INIT, bans_error = LS_ERROR_INIT;
	const int r = ls_restore_read(cli->instance, ret, &bans_error, &error);

	if (r == LS_RESTORE_E_NOTHING)
		return LS_EXIT_DONE;
	if (r < 0) {
		ls_error_prefix(&error, "nothing was restored");
		return ls_cli_fail(&error);
	}
	if (ret->bans_failed) {
		ls_error_prefix(&bans_error, "the bans are not restored");
		ls_cli_note("%s", bans_error.text);
	}
	return LS_EXIT_DONE;
}

int ls_cmd_restore_guard(struct ls_cli *cli)
{
	_cleanup_restore_ struct ls_restore saved = { 0 };

	/* What cannot be read is said by whoever restores. */
	if (ls_restore_read(cli->instance, &saved, NULL, NULL) != 0)
		return LS_EXIT_DONE;
	return guard_session(cli, &saved);
}

int ls_cmd_restore(struct ls_cli *cli)
{
	_cleanup_restore_ struct ls_restore saved = { 0 };
	struct ls_error last = LS_ERROR_INIT;
	int result = read_saved(cli, &saved);

	if (result == LS_EXIT_DONE && saved.attach.n_interfaces == 0) {
		ls_cli_note("nothing is saved to be attached (instance '%s')", cli->instance);
		return cli->json ? ls_cmd_status(cli) : LS_EXIT_DONE;
	}
	if (result == LS_EXIT_DONE)
		result = guard_session(cli, &saved);
	if (result != LS_EXIT_DONE)
		return result;
	for (size_t i = 0; i < saved.attach.n_interfaces; i++)
		if (attach_one(cli, &saved, saved.attach.interfaces[i].name, &last) != LS_EXIT_DONE)
			result = LS_EXIT_FAILED;
	const int reported = report_restore(cli);
	return result == LS_EXIT_DONE && !saved.bans_failed ? reported : LS_EXIT_FAILED;
}
