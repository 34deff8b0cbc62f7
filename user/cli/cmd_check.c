/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/cli.h"

/* check: whether the host and its interfaces can be protected, each line with the command that helps. */

#include <stdio.h>
#include <string.h>

#include "user/base/output.h"
#include "user/plane/plane.h"
#include "user/plane/preflight.h"

#define INDENT 24 /* where the text starts: two blanks, the level, the topic */

static enum ls_color color_of(enum ls_finding_level level)
{
	return level == LS_FINDING_OK	     ? LS_COLOR_GREEN
	       : level == LS_FINDING_WARNING ? LS_COLOR_YELLOW
					     : LS_COLOR_RED;
}

static void print_finding(const struct ls_finding *finding)
{
	printf("  %s%-8s%s %-12s ", ls_color(stdout, color_of(finding->level)),
	       ls_finding_level_name(finding->level), ls_color(stdout, LS_COLOR_RESET),
	       finding->topic);
	ls_print_wrapped(finding->text, INDENT, INDENT);
	/* Never broken: it is there to be copied. */
	if (finding->fix[0])
		printf("%*sfix: %s\n", INDENT, "", finding->fix);
}

static int print_findings(const struct ls_findings *findings, size_t errors, size_t warnings)
{
	const char *subject = "";

	for (size_t i = 0; i < findings->count; i++) {
		if (strcmp(subject, findings->items[i].subject) != 0)
			printf("%s%s\n", i ? "\n" : "", findings->items[i].subject);
		subject = findings->items[i].subject;
		print_finding(&findings->items[i]);
	}
	printf("\n%zu error%s, %zu warning%s\n", errors, errors == 1 ? "" : "s", warnings,
	       warnings == 1 ? "" : "s");
	return ls_cli_flush();
}

static int print_json(const struct ls_findings *findings, size_t errors, size_t warnings)
{
	json_t *list = json_array();

	for (size_t i = 0; i < findings->count; i++) {
		const struct ls_finding *finding = &findings->items[i];
		json_array_append_new(list, json_pack("{s:o, s:s, s:s, s:o, s:o}", "subject",
						      ls_cli_text_json(finding->subject), "topic",
						      finding->topic, "level",
						      ls_finding_level_name(finding->level), "text",
						      ls_cli_text_json(finding->text), "fix",
						      ls_cli_text_json(finding->fix)));
	}
	return ls_cli_print_json(json_pack("{s:o, s:I, s:I}", "checks", list, "errors",
					   (json_int_t)errors, "warnings", (json_int_t)warnings));
}

static void check_device(const struct ls_cli *cli, const char *name, int has_frags,
			 struct ls_findings *findings)
{
	struct ls_device_facts facts;

	ls_device_facts_gather(cli->instance, name, &facts);
	ls_device_judge(&facts, has_frags, findings);
}

/* Those that the instance has attached. */
static void check_attached(const struct ls_cli *cli, int has_frags, struct ls_findings *findings)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	_cleanup_(ls_plane_status_fini) struct ls_plane_status status = { 0 };

	if (ls_plane_open(cli->instance, LS_PLANE_READ, &plane, NULL) != 0 ||
	    ls_plane_status(plane, &status, NULL) < 0)
		return;
	for (size_t i = 0; i < status.n_interfaces; i++)
		check_device(cli, status.interfaces[i].name, has_frags, findings);
}

int ls_cmd_check(struct ls_cli *cli)
{
	_cleanup_(ls_findings_fini) struct ls_findings findings = { 0 };
	_cleanup_(ls_host_facts_fini) struct ls_host_facts host;
	size_t count[LS_FINDING_MAX] = { 0 };

	ls_host_facts_gather(cli->instance, &host);
	ls_host_judge(&host, &findings);
	for (size_t i = 0; i < cli->n_arguments; i++)
		check_device(cli, cli->arguments[i], host.has_frags, &findings);
	if (cli->n_arguments == 0)
		check_attached(cli, host.has_frags, &findings);
	if (findings.failed) {
		ls_cli_note("cannot show all that was found: out of memory");
		return LS_EXIT_FAILED;
	}
	for (size_t i = 0; i < findings.count; i++)
		count[findings.items[i].level]++;
	const size_t errors = count[LS_FINDING_ERROR], warnings = count[LS_FINDING_WARNING];
	const int r = cli->json ? print_json(&findings, errors, warnings)
				: print_findings(&findings, errors, warnings);
	return r == LS_EXIT_DONE && errors ? LS_EXIT_FAILED : r;
}
