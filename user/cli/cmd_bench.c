/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/* loadshed bench: what this host can do, in under a minute, or some groups of its rows. */

#include "user/cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "user/bench/bench.h"
#include "user/bench/report.h"

/* Place of a group; ls_n_bench_groups: there is none of that name. */
static size_t group_of(const char *name)
{
	size_t i = 0;

	while (i < ls_n_bench_groups && strcmp(ls_bench_groups[i].name, name) != 0)
		i++;
	return i;
}

static bool is_wanted(const struct ls_cli *cli, size_t group)
{
	for (size_t i = 0; i < cli->n_arguments; i++)
		if (group_of(cli->arguments[i]) == group)
			return true;
	return cli->n_arguments == 0;
}

static int unknown_group(const char *name)
{
	char names[128] = "";

	for (size_t i = 0; i < ls_n_bench_groups; i++) {
		const size_t length = strlen(names);
		snprintf(names + length, sizeof(names) - length, "%s%s", i ? ", " : "",
			 ls_bench_groups[i].name);
	}
	return ls_cli_usage("bench: '%s' is no group of rows; there are %s", name, names);
}

int ls_cmd_bench(struct ls_cli *cli)
{
	_cleanup_(ls_report_freep) struct ls_report *report =
		ls_report_new(cli->json ? NULL : stdout, false);
	_cleanup_(ls_bench_closep) struct ls_bench *bench = NULL;
	struct ls_error error = LS_ERROR_INIT;

	for (size_t i = 0; i < cli->n_arguments; i++)
		if (group_of(cli->arguments[i]) == ls_n_bench_groups)
			return unknown_group(cli->arguments[i]);
	int r = report ? ls_bench_open(report, &bench, &error) : ls_error_oom(&error);
	for (size_t i = 0; i < ls_n_bench_groups && r >= 0; i++)
		if (is_wanted(cli, i))
			r = ls_bench_run(bench, i, &error);
	if (r < 0)
		return ls_cli_fail(&error);
	return cli->json ? ls_cli_print_json(ls_report_json(report)) : ls_cli_flush();
}
