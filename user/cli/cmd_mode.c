/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/publish.h"

/* panic, off, on: what is put beside the policy for a time. */

#include <stdio.h>

#include "user/base/output.h"
#include "user/base/units.h"
#include "user/cli/session.h"
#include "user/plane/timed.h"
#include "user/policy/policy.h"

#define DEFAULT_NS (600 * LS_NS_PER_S)

static uint64_t whole_seconds(uint64_t ns)
{
	return (ns + LS_NS_PER_S - 1) / LS_NS_PER_S;
}

static int report(struct ls_cli *cli, struct ls_plane *plane)
{
	const uint64_t off_ns = ls_plane_off_left(plane), panic_ns = ls_plane_panic_left(plane);
	char text[LS_HUMAN_TEXT];

	if (cli->json)
		return ls_cli_print_json(json_pack("{s:o, s:o}", "off_seconds",
						   ls_cli_seconds_json(off_ns), "panic_seconds",
						   ls_cli_seconds_json(panic_ns)));
	if (off_ns)
		printf("off: nothing is dropped for %s; 'loadshed on' ends it\n",
		       ls_human_time(whole_seconds(off_ns) * LS_NS_PER_S, text));
	if (panic_ns)
		printf("panic: strict beside the policy for %s; 'loadshed on' ends it\n",
		       ls_human_time(whole_seconds(panic_ns) * LS_NS_PER_S, text));
	if (!off_ns && !panic_ns)
		printf("on: the policy alone is in force\n");
	return ls_cli_flush();
}

/* What will be enforced must let the session through. */
static int guard(struct ls_cli *cli, struct ls_plane *plane, bool panic)
{
	_cleanup_(ls_policy_freep) struct ls_policy *policy = NULL;
	struct ls_error error = LS_ERROR_INIT;

	if (ls_plane_policy(plane, &policy, NULL, &error) < 0)
		return ls_cli_fail(&error);
	return ls_session_guard(cli, &(struct ls_session_change){
					     .policy = policy, .plane = plane, .panic = panic });
}

/* For how long, and the instance. */
static int begin(struct ls_cli *cli, uint64_t *ret_for_ns, struct ls_plane **ret_plane)
{
	const int r = ls_cli_time(cli, LS_OPTION_FOR, DEFAULT_NS, ret_for_ns);

	return r == LS_EXIT_DONE ? ls_cli_open(cli, LS_PLANE_WRITE, ret_plane) : r;
}

int ls_cmd_off(struct ls_cli *cli)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	struct ls_error error = LS_ERROR_INIT;
	uint64_t for_ns;
	int r = begin(cli, &for_ns, &plane);

	if (r != LS_EXIT_DONE)
		return r;
	return ls_plane_off(plane, for_ns, &error) < 0 ? ls_cli_fail(&error) : report(cli, plane);
}

int ls_cmd_panic(struct ls_cli *cli)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	struct ls_error error = LS_ERROR_INIT;
	uint64_t for_ns;
	int r = begin(cli, &for_ns, &plane);

	if (r == LS_EXIT_DONE)
		r = guard(cli, plane, true);
	if (r != LS_EXIT_DONE)
		return r;
	if (ls_plane_panic(plane, for_ns, &error) < 0)
		return ls_cli_fail(&error);
	if (ls_plane_off_left(plane))
		ls_cli_note(
			"panic drops nothing while 'off' holds; 'loadshed on' and then 'loadshed panic' end that");
	return report(cli, plane);
}

int ls_cmd_on(struct ls_cli *cli)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	_cleanup_(ls_plane_status_fini) struct ls_plane_status status = { 0 };
	struct ls_error error = LS_ERROR_INIT;
	int r = ls_cli_open(cli, LS_PLANE_WRITE, &plane);

	if (r == LS_EXIT_DONE && ls_plane_off_left(plane))
		r = guard(cli, plane, false);
	if (r != LS_EXIT_DONE)
		return r;
	ls_plane_on(plane);
	if (ls_plane_status(plane, &status, &error) == 0 && status.attach_monitor)
		ls_cli_note(
			"nothing is dropped all the same: attached with --monitor; detach and attach without it to enforce");
	return report(cli, plane);
}
