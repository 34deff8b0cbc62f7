/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/publish.h"

/* policy apply, confirm, rollback; allow and deny: what puts another generation in force. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "user/base/addr.h"
#include "user/cli/session.h"
#include "user/plane/timed.h"
#include "user/policy/check.h"
#include "user/policy/edit.h"
#include "user/policy/policy.h"
#include "user/policy/read.h"

int ls_cmd_policy_apply(struct ls_cli *cli)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	_cleanup_(ls_policy_freep) struct ls_policy *policy = NULL;
	_cleanup_free_ char *path = NULL;
	struct ls_error error = LS_ERROR_INIT;
	struct ls_cli_publish what = { 0 };
	bool changed = false;
	int r = ls_cli_time(cli, LS_OPTION_CONFIRM, 0, &what.confirm_ns);

	if (r != LS_EXIT_DONE)
		return r;
	if (ls_policy_read(cli->arguments[0], NULL, &policy, &error) < 0)
		return ls_cli_fail(&error);
	path = realpath(cli->arguments[0], NULL);
	what.policy = policy;
	what.path = path;
	r = ls_cli_open(cli, LS_PLANE_WRITE, &plane);
	if (r == LS_EXIT_DONE)
		r = ls_cli_publish(cli, plane, &what, &changed);
	return r == LS_EXIT_DONE ? ls_cli_report(cli, plane, "applied as", changed) : r;
}

int ls_cmd_policy_confirm(struct ls_cli *cli)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	struct ls_error error = LS_ERROR_INIT;
	int r = ls_cli_open(cli, LS_PLANE_WRITE, &plane);

	if (r != LS_EXIT_DONE)
		return r;
	r = ls_plane_confirm(plane, &error);
	if (r < 0)
		return ls_cli_fail(&error);
	if (r == LS_PLANE_E_NOT_PENDING) {
		ls_cli_note(
			"cannot confirm: nothing waits for it, so nothing was changed; generation %" PRIu64
			" is in force (if there was one, it was confirmed already, or its time is over and the policy before is back)",
			ls_plane_generation(plane));
		return LS_EXIT_FAILED;
	}
	r = ls_cli_save(plane);
	return r == LS_EXIT_DONE ? ls_cli_report(cli, plane, "confirmed", true) : r;
}

int ls_cmd_policy_rollback(struct ls_cli *cli)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	_cleanup_(ls_policy_freep) struct ls_policy *previous = NULL;
	_cleanup_warnings_ struct ls_warnings notes = LS_WARNINGS_INIT;
	struct ls_error error = LS_ERROR_INIT;
	int r = ls_cli_open(cli, LS_PLANE_WRITE, &plane);

	if (r != LS_EXIT_DONE)
		return r;
	r = ls_plane_previous(plane, &previous, NULL, &error);
	if (r == LS_PLANE_E_NO_PREVIOUS && !ls_plane_pending(plane)) {
		ls_cli_note(
			"cannot go back: there is no generation before %" PRIu64
			" (one is kept; none after an attach, and not one that was never confirmed); apply a file instead",
			ls_plane_generation(plane));
		return LS_EXIT_FAILED;
	}
	if (r < 0)
		return ls_cli_fail(&error);
	if (previous && !ls_plane_pending(plane)) {
		const struct ls_session_change change = { .policy = previous, .plane = plane };
		r = ls_session_guard(cli, &change);
		if (r != LS_EXIT_DONE)
			return r;
	}
	r = ls_plane_rollback(plane, &notes, &error);
	ls_cli_notes(&notes);
	if (r < 0)
		return ls_cli_fail(&error);
	r = ls_cli_save(plane);
	return r == LS_EXIT_DONE ? ls_cli_report(cli, plane, "rolled back to", true) : r;
}

static const char *const list_names[] = { [LS_EDIT_ALLOW] = "allow", [LS_EDIT_DENY] = "deny" };
_Static_assert(sizeof(list_names) / sizeof(list_names[0]) == LS_EDIT_MAX, "one name each");

static int read_entry(struct ls_cli *cli, enum ls_edit_list list, struct ls_prefix *ret)
{
	const char *text = cli->arguments[0];
	char clause[256];
	const enum ls_prefix_error reason = ls_prefix_parse(text, strlen(text), ret);

	if (reason != LS_PREFIX_OK)
		return ls_cli_usage("%s", ls_prefix_explain(reason, text, strlen(text), clause,
							    sizeof(clause)));
	if (ret->length == 0 && !ls_cli_has(cli, LS_OPTION_YES)) {
		ls_cli_note(
			"%s in '%s' is everybody; nothing was changed; use --yes if that is meant",
			text, list_names[list]);
		return LS_EXIT_FAILED;
	}
	return LS_EXIT_DONE;
}

/* Makes the edit; LS_EXIT_DONE, *ret_changed says whether there was one to make. */
static int edit(struct ls_policy *policy, enum ls_edit_list list, bool add,
		const struct ls_prefix *prefix, bool *ret_changed)
{
	struct ls_error error = LS_ERROR_INIT;
	char text[LS_PREFIX_TEXT];
	int set = -1;
	const int r = add ? ls_policy_edit_add(policy, list, prefix)
			  : ls_policy_edit_remove(policy, list, prefix, &set);

	ls_prefix_format(prefix, text);
	*ret_changed = r == 0;
	switch (r) {
	case 0:
	case LS_EDIT_E_PRESENT:
		return LS_EXIT_DONE;
	case LS_EDIT_E_ABSENT:
		ls_cli_note(
			"cannot remove %s from '%s': there is no entry that is exactly this; 'loadshed policy show --expand' lists them",
			text, list_names[list]);
		return LS_EXIT_FAILED;
	case LS_EDIT_E_IN_SET:
		ls_cli_note(
			"cannot remove %s from '%s': it is there through the set '%s'; change the set and apply",
			text, list_names[list], policy->sets[set].name);
		return LS_EXIT_FAILED;
	default:
		ls_error_oom(&error);
		return ls_cli_fail(&error);
	}
}

static int edit_list(struct ls_cli *cli, enum ls_edit_list list, bool add)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	_cleanup_(ls_policy_freep) struct ls_policy *policy = NULL;
	_cleanup_free_ char *path = NULL;
	struct ls_error error = LS_ERROR_INIT;
	struct ls_prefix prefix;
	char text[LS_PREFIX_TEXT], what[128];
	bool changed = false;
	int r = read_entry(cli, list, &prefix);

	if (r == LS_EXIT_DONE)
		r = ls_cli_open(cli, LS_PLANE_WRITE, &plane);
	if (r != LS_EXIT_DONE)
		return r;
	if (ls_plane_policy(plane, &policy, &path, &error) < 0)
		return ls_cli_fail(&error);
	r = edit(policy, list, add, &prefix, &changed);
	if (r != LS_EXIT_DONE)
		return r;
	const struct ls_cli_publish publish = { .policy = policy, .path = path };
	r = ls_cli_publish(cli, plane, &publish, &changed);
	snprintf(what, sizeof(what), "%s: %s '%s', as", ls_prefix_format(&prefix, text),
		 add ? "added to" : "removed from", list_names[list]);
	return r == LS_EXIT_DONE ? ls_cli_report(cli, plane, what, changed) : r;
}

int ls_cmd_allow_add(struct ls_cli *cli)
{
	return edit_list(cli, LS_EDIT_ALLOW, true);
}

int ls_cmd_allow_del(struct ls_cli *cli)
{
	return edit_list(cli, LS_EDIT_ALLOW, false);
}

int ls_cmd_deny_add(struct ls_cli *cli)
{
	return edit_list(cli, LS_EDIT_DENY, true);
}

int ls_cmd_deny_del(struct ls_cli *cli)
{
	return edit_list(cli, LS_EDIT_DENY, false);
}
