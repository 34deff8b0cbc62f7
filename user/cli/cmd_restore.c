/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/cli.h"

/*
 * restore: what was saved is attached again, at boot or after the pins were lost.
 *
 * Each interface is attached by itself: one that is not there yet, or that somebody else has taken, leaves the
 * others protected; it is named, and the exit code tells the unit to try again. The first makes the
 * instance, with policy and bans, before a packet is judged; the others join it. An instance that is
 * there already keeps what is in force in it, and only gets the interfaces that it lacks. Nothing is saved
 * anew, so that an interface that is missing today is still waited for tomorrow.
 */

#include <inttypes.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "user/base/addr.h"
#include "user/cli/session.h"
#include "user/plane/bans.h"
#include "user/plane/plane.h"
#include "user/plane/save.h"
#include "user/policy/check.h"
#include "user/policy/policy.h"

struct saved {
	struct ls_saved_attach attach;
	struct ls_policy *policy;
	char *path;
	struct ls_ban_entry *bans;
	size_t n_bans;
	bool bans_failed;
};

static void saved_fini(struct saved *saved)
{
	ls_saved_attach_fini(&saved->attach);
	ls_policy_free(saved->policy);
	free(saved->path);
	free(saved->bans);
}

/* A policy that cannot be read is no reason to attach an empty one; bans that cannot be read are no reason
 * to leave the host without its policy. */
static int read_saved(struct ls_cli *cli, struct saved *saved)
{
	struct ls_error error = LS_ERROR_INIT;

	if (ls_save_read_policy(cli->instance, &saved->policy, &saved->path, &error) < 0) {
		ls_error_prefix(&error, "nothing was restored");
		return ls_cli_fail(&error);
	}
	if (ls_save_read_bans(cli->instance, &saved->bans, &saved->n_bans, &error) < 0) {
		ls_error_prefix(&error, "the bans are not restored");
		ls_cli_note("%s", error.text);
		saved->bans_failed = true;
	}
	return LS_EXIT_DONE;
}

static bool is_attached(const struct ls_cli *cli)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;

	return ls_plane_open(cli->instance, LS_PLANE_READ, &plane, NULL) == 0;
}

/* Typed by hand in a session, what comes back could cut that, too. At boot there is none. */
static int guard_session(struct ls_cli *cli, const struct saved *saved)
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
static int attach_one(struct ls_cli *cli, const struct saved *saved,
		      const struct ls_saved_interface *interface, struct ls_error *last)
{
	_cleanup_warnings_ struct ls_warnings notes = LS_WARNINGS_INIT;
	struct ls_error error = LS_ERROR_INIT;
	const char *name = interface->name;
	bool published = false;
	const struct ls_plane_attach request = {
		.instance = cli->instance,
		.interfaces = &name,
		.n_interfaces = 1,
		.mode = ls_plane_mode_parse(interface->mode),
		.monitor = saved->attach.monitor,
		.verbose = cli->verbose,
		.policy = saved->policy,
		.policy_path = saved->path,
		.restore = true,
		.bans = saved->bans,
		.n_bans = saved->n_bans,
	};

	if (if_nametoindex(name) == 0) {
		ls_cli_note(
			"cannot restore '%s': there is no such interface; 'loadshed restore' attaches it when it is there, 'loadshed detach %s' forgets it",
			name, name);
		return LS_EXIT_FAILED;
	}
	const int r = ls_plane_attach(&request, &notes, &published, &error);
	ls_cli_notes(&notes);
	if (r == 0)
		return LS_EXIT_DONE;
	ls_error_prefix(&error, "cannot restore '%s'", name);
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

int ls_cmd_restore(struct ls_cli *cli)
{
	_cleanup_(saved_fini) struct saved saved = { 0 };
	struct ls_error error = LS_ERROR_INIT, last = LS_ERROR_INIT;
	const int r = ls_save_read_attach(cli->instance, &saved.attach, &error);
	int result = LS_EXIT_DONE;

	if (r == -ENOENT || (r == 0 && saved.attach.n_interfaces == 0)) {
		ls_cli_note("nothing is saved to be attached (instance '%s')", cli->instance);
		return cli->json ? ls_cmd_status(cli) : LS_EXIT_DONE;
	}
	if (r < 0) {
		ls_error_prefix(&error, "nothing was restored");
		return ls_cli_fail(&error);
	}
	result = read_saved(cli, &saved);
	if (result == LS_EXIT_DONE)
		result = guard_session(cli, &saved);
	if (result != LS_EXIT_DONE)
		return result;
	for (size_t i = 0; i < saved.attach.n_interfaces; i++)
		if (attach_one(cli, &saved, &saved.attach.interfaces[i], &last) != LS_EXIT_DONE)
			result = LS_EXIT_FAILED;
	const int reported = report_restore(cli);
	return result == LS_EXIT_DONE && !saved.bans_failed ? reported : LS_EXIT_FAILED;
}
