/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/publish.h"

#include <inttypes.h>
#include <stdio.h>

#include "user/base/output.h"
#include "user/base/units.h"
#include "user/cli/session.h"
#include "user/plane/timed.h"
#include "user/policy/check.h"

int ls_cli_open(struct ls_cli *cli, enum ls_plane_access access, struct ls_plane **ret_plane)
{
	struct ls_error error = LS_ERROR_INIT;
	const int r = ls_plane_open(cli->instance, access, ret_plane, &error);

	if (r == LS_PLANE_E_ABSENT)
		return ls_cli_absent(cli);
	return r < 0 ? ls_cli_fail(&error) : LS_EXIT_DONE;
}

int ls_cli_time(struct ls_cli *cli, enum ls_option option, uint64_t otherwise_ns, uint64_t *ret_ns)
{
	struct ls_error error = LS_ERROR_INIT;

	*ret_ns = otherwise_ns;
	if (!ls_cli_has(cli, option) ||
	    ls_time_parse(cli->values[option], LS_NS_PER_S, LS_TIME_MAX_NS, ret_ns, &error) == 0)
		return LS_EXIT_DONE;
	return ls_cli_usage("--%s: %s", ls_option_name(option), error.text);
}

int ls_cli_save(struct ls_plane *plane)
{
	struct ls_error error = LS_ERROR_INIT;

	if (ls_plane_save(plane, &error) == 0)
		return LS_EXIT_DONE;
	ls_error_prefix(&error,
			"in force as generation %" PRIu64 ", but not saved for the next boot",
			ls_plane_generation(plane));
	return ls_cli_fail(&error);
}

int ls_cli_publish(struct ls_cli *cli, struct ls_plane *plane, const struct ls_cli_publish *what,
		   bool *ret_changed)
{
	_cleanup_warnings_ struct ls_warnings notes = LS_WARNINGS_INIT;
	struct ls_error error = LS_ERROR_INIT;
	const struct ls_session_change change = { .policy = what->policy, .plane = plane };
	const int guard = ls_session_guard(cli, &change);

	if (guard != LS_EXIT_DONE)
		return guard;
	const int r = ls_plane_publish_for(plane, what->policy, what->path, what->confirm_ns,
					   &notes, &error);
	ls_cli_notes(&notes);
	if (r < 0)
		return ls_cli_fail(&error);
	*ret_changed = r == 0;
	/* What is in force already is saved as well: the apply before may have been killed before its save. */
	return ls_cli_save(plane);
}

int ls_cli_report(struct ls_cli *cli, struct ls_plane *plane, const char *what, bool changed)
{
	const uint64_t number = ls_plane_generation(plane), left_ns = ls_plane_pending(plane);
	char left[LS_HUMAN_TEXT];

	if (cli->json)
		return ls_cli_print_json(
			json_pack("{s:I, s:b, s:o}", "generation", (json_int_t)number, "changed",
				  changed, "confirm_seconds", ls_cli_seconds_json(left_ns)));
	if (!changed)
		printf("in force already, as generation %" PRIu64 "; nothing was changed\n",
		       number);
	else
		printf("%s generation %" PRIu64 "\n", what, number);
	if (changed && left_ns)
		printf("the policy before is back in %s, unless 'loadshed policy confirm' keeps this one\n",
		       ls_human_time((left_ns + LS_NS_PER_S - 1) / LS_NS_PER_S * LS_NS_PER_S,
				     left));
	return ls_cli_flush();
}
