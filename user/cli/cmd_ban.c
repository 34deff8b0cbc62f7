/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/publish.h"

/* ban add, del, list. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "user/base/addr.h"
#include "user/base/buffer.h"
#include "user/base/output.h"
#include "user/base/reason.h"
#include "user/base/units.h"
#include "user/plane/host.h"
#include "user/cli/session.h"
#include "user/plane/bans.h"
#include "user/plane/plane.h"
#include "user/plane/save.h"
#include "user/policy/policy.h"

/* SRC of the command line; IPv6 longer than /64 is widened, and says so. */
static int read_source(const char *text, struct ls_prefix *ret)
{
	struct ls_prefix prefix;
	char clause[256], wide[LS_PREFIX_TEXT];
	const enum ls_prefix_error reason = ls_prefix_parse(text, strlen(text), &prefix);

	if (reason != LS_PREFIX_OK)
		return ls_cli_usage("%s", ls_prefix_explain(reason, text, strlen(text), clause,
							    sizeof(clause)));
	*ret = ls_ban_widen(prefix);
	if (!ls_prefix_equal(ret, &prefix))
		ls_cli_note("%s is widened to %s: a /64 is one source", text,
			    ls_prefix_format(ret, wide));
	return LS_EXIT_DONE;
}

/* Rounded up, so that a ban that stands never shows as 0. */
static uint64_t seconds(uint64_t ns)
{
	return (ns + LS_NS_PER_S - 1) / LS_NS_PER_S;
}

static json_t *ban_json(const struct ls_ban_entry *ban)
{
	char text[LS_PREFIX_TEXT];

	return json_pack("{s:s, s:I, s:o, s:s}", "source", ls_prefix_format(&ban->prefix, text),
			 "remaining_seconds", (json_int_t)seconds(ban->remaining_ns), "reason",
			 ls_cli_text_json(ban->reason), "origin", ls_origin_name(ban->origin));
}

/* A ban that would cut a session of the caller, or what this host cannot do without, takes --yes. */
static int guard(struct ls_plane *plane, const struct ls_policy *policy,
		 const struct ls_prefix *prefix)
{
	_cleanup_(ls_plane_status_fini) struct ls_plane_status status = { 0 };
	struct ls_session sessions[LS_SESSIONS_MAX];
	struct ls_host_address host;
	char text[LS_PREFIX_TEXT], own[LS_PREFIX_TEXT];

	if (policy->mode == LS_MODE_MONITOR ||
	    (ls_plane_status(plane, &status, NULL) == 0 && status.attach_monitor))
		return LS_EXIT_DONE;
	ls_prefix_format(prefix, text);
	const size_t count = ls_session_find(sessions);
	const struct ls_session *cut = ls_session_banned(sessions, count, policy, prefix);
	if (cut)
		ls_cli_note(
			"banning %s would cut your own session from %s; nothing was changed; use --yes if that is meant",
			text, ls_prefix_format(&cut->client, own));
	else if (ls_host_is_within(policy, prefix, &host))
		ls_cli_note(
			"banning %s would cut %s (this host's %s); nothing was changed; use --yes if that is meant",
			text, ls_prefix_format(&host.address, own), host.what);
	else
		return LS_EXIT_DONE;
	return LS_EXIT_FAILED;
}

/* What must be known before a ban stands. */
static int check_ban(struct ls_cli *cli, struct ls_plane *plane, const struct ls_prefix *prefix)
{
	_cleanup_(ls_policy_freep) struct ls_policy *policy = NULL;
	struct ls_error error = LS_ERROR_INIT;
	char text[LS_PREFIX_TEXT];
	bool inside = false;

	ls_prefix_format(prefix, text);
	if (ls_plane_policy(plane, &policy, NULL, &error) < 0)
		return ls_cli_fail(&error);
	if (ls_ban_is_allowed(policy, prefix, &inside)) {
		ls_cli_note(
			"cannot ban %s: the policy allows it, so the ban would never apply; take it out of 'allow' first",
			text);
		return LS_EXIT_FAILED;
	}
	if (!ls_cli_has(cli, LS_OPTION_YES) && guard(plane, policy, prefix) != LS_EXIT_DONE)
		return LS_EXIT_FAILED;
	if (inside)
		ls_cli_note("%s holds addresses that 'allow' names; those stay allowed", text);
	return LS_EXIT_DONE;
}

static int save(struct ls_plane *plane, const char *what)
{
	struct ls_error error = LS_ERROR_INIT;

	if (ls_save_bans(plane, &error) == 0)
		return LS_EXIT_DONE;
	ls_error_prefix(&error, "%s, but not saved for the next boot", what);
	return ls_cli_fail(&error);
}

static int report_ban(struct ls_cli *cli, struct ls_plane *plane, const struct ls_prefix *prefix,
		      bool longer)
{
	_cleanup_free_ struct ls_ban_entry *bans = NULL;
	struct ls_error error = LS_ERROR_INIT;
	size_t count = 0, i = 0;
	char text[LS_PREFIX_TEXT], left[LS_HUMAN_TEXT];

	if (ls_ban_list(plane, &bans, &count, &error) < 0)
		return ls_cli_fail(&error);
	while (i < count && !ls_prefix_equal(&bans[i].prefix, prefix))
		i++;
	ls_prefix_format(prefix, text);
	if (i == count) {
		ls_cli_note("the ban of %s has ended already", text);
		return LS_EXIT_DONE;
	}
	if (longer)
		ls_cli_note("%s is banned for longer already; that ban stays", text);
	if (cli->json)
		return ls_cli_print_json(ban_json(&bans[i]));
	printf("%s: banned for %s\n", text,
	       ls_human_time(seconds(bans[i].remaining_ns) * LS_NS_PER_S, left));
	return ls_cli_flush();
}

int ls_cmd_ban_add(struct ls_cli *cli)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	struct ls_error error = LS_ERROR_INIT;
	const char *reason = cli->values[LS_OPTION_REASON];
	struct ls_prefix prefix;
	uint64_t for_ns = 0;
	int r = read_source(cli->arguments[0], &prefix);

	if (r != LS_EXIT_DONE)
		return r;
	if (prefix.length == 0) {
		ls_cli_note("cannot ban %s: it would drop everybody", cli->arguments[0]);
		return LS_EXIT_FAILED;
	}
	if (ls_time_parse(cli->values[LS_OPTION_FOR], LS_NS_PER_S, LS_TIME_MAX_NS, &for_ns,
			  &error) < 0)
		return ls_cli_usage("--for: %s", error.text);
	if (reason && strlen(reason) >= LS_BAN_TEXT_BYTES)
		return ls_cli_usage("--reason: at most %d bytes, this has %zu",
				    LS_BAN_TEXT_BYTES - 1, strlen(reason));
	for (const char *at = reason ? reason : ""; *at; at += ls_utf8_character(at)) {
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			return ls_cli_usage(
				"--reason: one line of text, without control characters");
		if (!ls_utf8_character(at))
			return ls_cli_usage("--reason: not UTF-8; write it in plain letters");
	}
	r = ls_cli_open(cli, LS_PLANE_WRITE, &plane);
	if (r == LS_EXIT_DONE)
		r = check_ban(cli, plane, &prefix);
	if (r != LS_EXIT_DONE)
		return r;
	const int added =
		ls_ban_add(plane, NULL, &prefix, for_ns, LS_ORIGIN_OPERATOR, reason, &error);
	if (added < 0)
		return ls_cli_fail(&error);
	r = added == 0 ? save(plane, "banned") : LS_EXIT_DONE;
	return r == LS_EXIT_DONE ? report_ban(cli, plane, &prefix, added == LS_BAN_E_LONGER) : r;
}

int ls_cmd_ban_del(struct ls_cli *cli)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	struct ls_error error = LS_ERROR_INIT;
	struct ls_prefix prefix;
	char text[LS_PREFIX_TEXT];
	int r = read_source(cli->arguments[0], &prefix);

	if (r == LS_EXIT_DONE)
		r = ls_cli_open(cli, LS_PLANE_WRITE, &plane);
	if (r != LS_EXIT_DONE)
		return r;
	ls_prefix_format(&prefix, text);
	const int deleted = prefix.length ? ls_ban_del(plane, &prefix, &error) : LS_BAN_E_ABSENT;
	if (deleted < 0)
		return ls_cli_fail(&error);
	if (deleted == LS_BAN_E_ABSENT) {
		ls_cli_note(
			"cannot end a ban of %s: there is none of exactly this source; 'loadshed ban list' shows them",
			text);
		return LS_EXIT_FAILED;
	}
	r = save(plane, "ended");
	if (r != LS_EXIT_DONE)
		return r;
	if (cli->json)
		return ls_cli_print_json(json_pack("{s:s}", "source", text));
	printf("%s: no longer banned\n", text);
	return ls_cli_flush();
}

static int print_bans(const struct ls_ban_entry *bans, size_t count)
{
	_cleanup_table_ struct ls_table table;
	char text[LS_PREFIX_TEXT], left[LS_HUMAN_TEXT];

	ls_table_init(&table, 4, 0x2);
	ls_table_cell(&table, "SOURCE");
	ls_table_cell(&table, "REMAINING");
	ls_table_cell(&table, "ORIGIN");
	ls_table_cell(&table, "REASON");
	for (size_t i = 0; i < count; i++) {
		ls_table_cell(&table, "%s", ls_prefix_format(&bans[i].prefix, text));
		ls_table_cell(&table, "%s",
			      ls_human_time(seconds(bans[i].remaining_ns) * LS_NS_PER_S, left));
		ls_table_cell(&table, "%s", ls_origin_name(bans[i].origin));
		ls_table_cell(&table, "%s", bans[i].reason[0] ? bans[i].reason : "-");
	}
	if (count == 0)
		printf("no bans\n");
	else
		(void)ls_table_print(&table, stdout);
	return ls_cli_flush();
}

int ls_cmd_ban_list(struct ls_cli *cli)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	_cleanup_free_ struct ls_ban_entry *bans = NULL;
	_cleanup_json_ json_t *list = NULL;
	struct ls_error error = LS_ERROR_INIT;
	size_t count = 0;
	const int r = ls_cli_open(cli, LS_PLANE_READ, &plane);

	if (r != LS_EXIT_DONE)
		return r;
	if (ls_ban_list(plane, &bans, &count, &error) < 0)
		return ls_cli_fail(&error);
	if (!cli->json)
		return print_bans(bans, count);
	list = json_array();
	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, ban_json(&bans[i]));
	return ls_cli_print_json(json_pack("{s:O}", "bans", list));
}
