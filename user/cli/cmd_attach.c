/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/cli.h"

/* attach, detach, status: what runs where. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "user/base/addr.h"
#include "user/base/conditions.h"
#include "user/base/output.h"
#include "user/base/sha256.h"
#include "user/base/stamp.h"
#include "user/base/units.h"
#include "user/cli/overload_view.h"
#include "user/cli/session.h"
#include "user/plane/plane.h"
#include "user/plane/version.h"
#include "user/policy/check.h"
#include "user/policy/policy.h"
#include "user/policy/read.h"

#define _cleanup_status_ _cleanup_(ls_plane_status_fini)

static json_t *interfaces_json(const struct ls_plane_status *status)
{
	json_t *list = json_array();
	char since[LS_STAMP_TEXT];

	for (size_t i = 0; i < status->n_interfaces; i++) {
		const struct ls_plane_interface *interface = &status->interfaces[i];
		json_t *row = json_pack("{s:o, s:I, s:s, s:o, s:I, s:o, s:s}", "name",
					ls_cli_text_json(interface->name), "ifindex",
					(json_int_t)interface->ifindex, "attach",
					ls_plane_mode_name(interface->mode), "program_id",
					interface->program_id ? json_integer(interface->program_id)
							      : json_null(),
					"link_id", (json_int_t)interface->link_id, "mtu",
					interface->mtu ? json_integer(interface->mtu) : json_null(),
					"since", ls_stamp_format(interface->since_ns, since));
		json_array_append_new(list, row);
	}
	return list;
}

/* null: no controller runs. */
static json_t *serve_json(int pid, uint64_t since_ns)
{
	char since[LS_STAMP_TEXT];

	return pid ? json_pack("{s:i, s:s}", "pid", pid, "since", ls_stamp_format(since_ns, since))
		   : json_null();
}

static json_t *status_json(const struct ls_plane_status *status,
			   const struct ls_overload_view *overload)
{
	char sha256[LS_SHA256_TEXT], since[LS_STAMP_TEXT], program[LS_STAMP_TEXT];
	json_t *degraded = json_array();

	for (size_t i = 0; i < status->n_degraded; i++)
		json_array_append_new(degraded, ls_cli_text_json(status->degraded[i]));
	return json_pack(
		"{s:s, s:s, s:I, s:s, s:s, s:o, s:o, s:o, s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o}",
		"instance", status->instance, "version", status->version, "generation",
		(json_int_t)status->generation, "mode", status->monitor ? "monitor" : "enforce",
		"policy_sha256", ls_sha256_format(status->policy_sha256, sha256), "confirm_seconds",
		ls_cli_seconds_json(status->confirm_ns), "interfaces", interfaces_json(status),
		"degraded", degraded, "since", ls_stamp_format(status->published_ns, since),
		"program_since", ls_stamp_format(status->program_ns, program), "capacity",
		(json_int_t)status->sources, "off_seconds", ls_cli_seconds_json(status->off_ns),
		"panic_seconds", ls_cli_seconds_json(status->panic_ns), "previous_generation",
		status->previous ? json_integer((json_int_t)status->previous) : json_null(),
		"serve", serve_json(status->serve_pid, status->serve_since_ns), "overload",
		ls_overload_view_json(overload));
}

static void print_interfaces(const struct ls_plane_status *status)
{
	_cleanup_table_ struct ls_table table;
	static const char *const heads[] = { "INTERFACE", "INDEX", "ATTACH", "PROGRAM",
					     "LINK",	  "MTU",   "SINCE" };
	char since[LS_STAMP_TEXT];

	ls_table_init(&table, 7, 0x3a);
	for (size_t i = 0; i < 7; i++)
		ls_table_cell(&table, "%s", heads[i]);
	for (size_t i = 0; i < status->n_interfaces; i++) {
		const struct ls_plane_interface *interface = &status->interfaces[i];
		ls_table_cell(&table, "%s", interface->name);
		ls_table_cell(&table, "%u", interface->ifindex);
		ls_table_cell(&table, "%s", ls_plane_mode_name(interface->mode));
		if (interface->program_id) {
			ls_table_cell(&table, "%u", interface->program_id);
			ls_table_cell(&table, "%u", interface->link_id);
			ls_table_cell(&table, "%u", interface->mtu);
		} else {
			ls_table_cell(&table, interface->is_elsewhere ? "moved" : "vanished");
			ls_table_cell(&table, "%u", interface->link_id);
			ls_table_cell(&table, "-");
		}
		ls_table_cell(&table, "%s", ls_stamp_format(interface->since_ns, since));
	}
	(void)ls_table_print(&table, stdout);
}

static void print_status(const struct ls_plane_status *status,
			 const struct ls_overload_view *overload)
{
	char sha256[LS_SHA256_TEXT], since[LS_STAMP_TEXT], count[LS_UNIT_TEXT];

	printf("instance  %s, version %s since %s\n", status->instance, status->version,
	       ls_stamp_format(status->program_ns, since));
	printf("mode      %s\n", status->monitor ? "monitor" : "enforce");
	printf("policy    generation %" PRIu64 " since %s, sha256 %.16s\n", status->generation,
	       ls_stamp_format(status->published_ns, since),
	       ls_sha256_format(status->policy_sha256, sha256));
	printf("capacity  %s sources\n", ls_count_format(status->sources, count));
	if (status->serve_pid)
		printf("serve     process %d since %s\n", status->serve_pid,
		       ls_stamp_format(status->serve_since_ns, since));
	if (overload->is_armed || overload->has_level)
		printf("overload  %s\n", overload->text);
	putchar('\n');
	print_interfaces(status);
	if (status->n_degraded)
		printf("\n%sdegraded%s\n", ls_color(stdout, LS_COLOR_YELLOW),
		       ls_color(stdout, LS_COLOR_RESET));
	for (size_t i = 0; i < status->n_degraded; i++)
		printf("  "), ls_print_wrapped(status->degraded[i], 4, 2);
}

static int show_status(struct ls_plane *plane, bool json)
{
	_cleanup_status_ struct ls_plane_status status = { 0 };
	struct ls_error error = LS_ERROR_INIT;
	struct ls_overload_view overload;

	if (ls_plane_status(plane, &status, &error) < 0)
		return ls_cli_fail(&error);
	ls_overload_view_read(plane, &overload);
	if (json)
		return ls_cli_print_json(status_json(&status, &overload));
	print_status(&status, &overload);
	return ls_cli_flush();
}

/* Why the controller cannot attach what is saved, for one. */
static json_t *degraded_without_plane(const struct ls_conditions_view *controller)
{
	json_t *list = json_array();
	char since[LS_STAMP_TEXT];

	for (size_t i = 0; i < controller->count; i++)
		json_array_append_new(
			list, json_sprintf("since %s: %s",
					   ls_stamp_format(controller->rows[i].since_ns, since),
					   controller->rows[i].text));
	return list;
}

/* "Nothing is attached" only when that is so, and not just not to be seen. */
static int show_absent(const struct ls_cli *cli)
{
	char ghosts[128], path[LS_PLANE_RUN_PATH], since[LS_STAMP_TEXT];
	struct ls_conditions_view controller;

	if (ls_plane_ghosts(ghosts, sizeof(ghosts)) > 0)
		return ls_cli_absent(cli);
	ls_plane_run_path(cli->instance, "serve", path);
	ls_conditions_read(path, &controller);
	if (cli->json)
		return ls_cli_print_json(
			json_pack("{s:s, s:s, s:n, s:n, s:n, s:n, s:[], s:o, s:o}", "instance",
				  cli->instance, "version", LS_VERSION, "generation", "mode",
				  "policy_sha256", "confirm_seconds", "interfaces", "degraded",
				  degraded_without_plane(&controller), "serve",
				  serve_json(controller.pid, controller.start_ns)));
	printf("not protected: nothing is attached (instance %s)\n", cli->instance);
	for (size_t i = 0; i < controller.count; i++)
		printf("  since %s: %s\n", ls_stamp_format(controller.rows[i].since_ns, since),
		       controller.rows[i].text);
	if (controller.is_alive)
		printf("  'loadshed serve' waits, as process %d\n", controller.pid);
	return ls_cli_flush();
}

int ls_cmd_status(struct ls_cli *cli)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	struct ls_error error = LS_ERROR_INIT;
	const int r = ls_plane_open(cli->instance, LS_PLANE_READ, &plane, &error);

	if (r == LS_PLANE_E_ABSENT)
		return show_absent(cli);
	return r < 0 ? ls_cli_fail(&error) : show_status(plane, cli->json);
}

static bool all_are_attached(const struct ls_cli *cli, const struct ls_plane *plane)
{
	for (size_t i = 0; i < cli->n_arguments; i++)
		if (!ls_plane_is_attached(plane, cli->arguments[i]))
			return false;
	return true;
}

/*
 * The bans of an instance that is attached count as well; and without a policy of its own (NULL) an interface
 * that joins it gets the one that is in force.
 */
static int guard_session(struct ls_cli *cli, const struct ls_policy *policy)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	_cleanup_(ls_policy_freep) struct ls_policy *current = NULL;
	_cleanup_status_ struct ls_plane_status status = { 0 };
	struct ls_error error = LS_ERROR_INIT;

	if (ls_cli_has(cli, LS_OPTION_MONITOR))
		return LS_EXIT_DONE;
	if (ls_plane_open(cli->instance, LS_PLANE_READ, &plane, &error) != 0)
		plane = NULL; /* attach itself says what is wrong with it */
	if (plane && ls_plane_status(plane, &status, &error) == 0 && status.attach_monitor)
		return LS_EXIT_DONE;
	if (!policy) {
		if (!plane || all_are_attached(cli, plane) ||
		    ls_plane_policy(plane, &current, NULL, &error) < 0)
			return LS_EXIT_DONE;
		policy = current;
	}
	return ls_session_guard(cli,
				&(struct ls_session_change){ .policy = policy, .plane = plane });
}

static int report_attach(struct ls_cli *cli, bool published)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	_cleanup_status_ struct ls_plane_status status = { 0 };
	struct ls_error error = LS_ERROR_INIT;
	const int r = ls_plane_open(cli->instance, LS_PLANE_READ, &plane, &error);

	if (r == LS_PLANE_E_ABSENT)
		return ls_cli_absent(cli);
	if (r < 0)
		return ls_cli_fail(&error);
	if (cli->json)
		return show_status(plane, true);
	if (ls_plane_status(plane, &status, &error) < 0)
		return ls_cli_fail(&error);
	for (size_t i = 0; i < status.n_interfaces; i++)
		printf("%s: attached, %s mode\n", status.interfaces[i].name,
		       ls_plane_mode_name(status.interfaces[i].mode));
	printf("policy: %sgeneration %" PRIu64 ", %s\n", published ? "published as " : "",
	       status.generation, status.monitor ? "monitor" : "enforce");
	return ls_cli_flush();
}

int ls_cmd_attach(struct ls_cli *cli)
{
	_cleanup_(ls_policy_freep) struct ls_policy *policy = NULL;
	_cleanup_warnings_ struct ls_warnings notes = LS_WARNINGS_INIT;
	_cleanup_free_ char *path = NULL;
	struct ls_error error = LS_ERROR_INIT;
	const char *file = cli->values[LS_OPTION_POLICY], *mode = cli->values[LS_OPTION_MODE];
	bool published = false;
	struct ls_plane_attach request = {
		.instance = cli->instance,
		.interfaces = cli->arguments,
		.n_interfaces = cli->n_arguments,
		.mode = mode ? ls_plane_mode_parse(mode) : LS_PLANE_AUTO,
		.monitor = ls_cli_has(cli, LS_OPTION_MONITOR),
		.replace = ls_cli_has(cli, LS_OPTION_REPLACE),
		.verbose = cli->verbose,
	};

	if (request.mode == LS_PLANE_MODE_MAX)
		return ls_cli_usage("'%s' is no mode: --mode auto, native or generic", mode);
	if (file) {
		if (ls_policy_read(file, NULL, &policy, &error) < 0)
			return ls_cli_fail(&error);
		path = realpath(file, NULL);
		request.policy = policy;
		request.policy_path = path ? path : file;
	}
	const int guard = guard_session(cli, policy);
	if (guard != LS_EXIT_DONE)
		return guard;
	const int r = ls_plane_attach(&request, &notes, &published, &error);
	ls_cli_notes(&notes);
	return r < 0 ? ls_cli_fail(&error) : report_attach(cli, published);
}

int ls_cmd_detach(struct ls_cli *cli)
{
	_cleanup_warnings_ struct ls_warnings notes = LS_WARNINGS_INIT;
	struct ls_error error = LS_ERROR_INIT;
	size_t detached = 0;
	const bool all = ls_cli_has(cli, LS_OPTION_ALL);

	if (all == (cli->n_arguments > 0))
		return ls_cli_usage(
			"'detach' needs either interfaces or --all; for example: loadshed detach eth0");
	const int r = ls_plane_detach(cli->instance, cli->arguments, cli->n_arguments, &notes,
				      &detached, &error);
	ls_cli_notes(&notes);
	if (r < 0)
		return ls_cli_fail(&error);
	if (cli->json)
		return ls_cli_print_json(json_pack("{s:I}", "detached", (json_int_t)detached));
	if (detached)
		printf("detached from %zu interface%s\n", detached, detached == 1 ? "" : "s");
	return ls_cli_flush();
}
