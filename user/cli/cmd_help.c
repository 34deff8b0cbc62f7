/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/base/output.h"
#include "user/cli/manual.h"

/*
 * help, and the same for the manual page: the table of verbs and manual.c, once as text in 80 columns and once
 * as macros of man(7), for the build (user/share/loadshed.8.in).
 */

#include <stdio.h>
#include <string.h>

static void print_overview(void)
{
	puts("loadshed sheds load inside the network driver.\n\n"
	     "usage: loadshed [-I INSTANCE] [-i IFACE] [-o table|json] [-v] VERB …\n");
	for (size_t i = 0; i < ls_n_verbs; i++)
		if (ls_verbs[i].run && ls_verbs[i].help[0])
			printf("  %-17s %s\n", ls_verbs[i].name, ls_verbs[i].help);
	putchar('\n');
	for (size_t i = 0; i < ls_n_manual_globals; i++) {
		const struct ls_manual_global *global = &ls_manual_globals[i];
		printf("  -%c, --%s %-*s ", global->letter, global->name,
		       (int)(19 - strlen(global->name)), global->value);
		ls_print_wrapped(global->text, 29, 29);
	}
	puts("\nexit: 0 done, 1 failed, 2 wrong usage.\n"
	     "'loadshed help VERB' tells more. For example:\n"
	     "  loadshed attach eth0 --policy policy.yaml");
}

static bool is_allowed(const struct ls_verb *verb, unsigned option)
{
	return verb->allowed & 1U << option;
}

static void print_options(const struct ls_verb *verb)
{
	for (unsigned option = 0; option < LS_OPTION_MAX; option++) {
		char left[64];
		if (!is_allowed(verb, option))
			continue;
		const char letter = ls_option_letter(option);
		snprintf(left, sizeof(left), "%s%.1s%s--%s %s", letter ? "-" : "", &letter,
			 letter ? ", " : "", ls_option_name(option), ls_option_value(option));
		const size_t width = ls_text_width(left, strlen(left));
		printf("  %s%*s ", left, width < 27 ? (int)(27 - width) : 0, "");
		ls_print_wrapped(ls_manual_option(verb, option), 30, (width < 27 ? 27 : width) + 3);
	}
}

static void print_verb(const struct ls_verb *verb)
{
	const char *text = ls_manual_verb(verb);

	printf("loadshed %s%s%s%s\n\n  ", verb->name, verb->arguments[0] ? " " : "",
	       verb->arguments, verb->allowed ? " [OPTION…]" : "");
	ls_print_wrapped(verb->help, 2, 2);
	if (!verb->run)
		puts("  Not in this version yet.");
	if (text[0]) {
		fputs("\n  ", stdout);
		ls_print_wrapped(text, 2, 2);
	}
	if (verb->allowed) {
		putchar('\n');
		print_options(verb);
	}
	printf("\n  for example: loadshed %s\n", verb->example);
}

int ls_cmd_help(struct ls_cli *cli)
{
	char wanted[64] = "";
	size_t shown = 0;

	if (cli->n_arguments == 0) {
		print_overview();
		return ls_cli_flush();
	}
	snprintf(wanted, sizeof(wanted), "%s%s%s", cli->arguments[0],
		 cli->n_arguments > 1 ? " " : "", cli->n_arguments > 1 ? cli->arguments[1] : "");
	for (size_t i = 0; i < ls_n_verbs; i++) {
		const size_t length = strlen(wanted);
		if (!ls_verbs[i].help[0] || strncmp(ls_verbs[i].name, wanted, length) != 0 ||
		    (ls_verbs[i].name[length] != '\0' && ls_verbs[i].name[length] != ' '))
			continue;
		if (shown++)
			putchar('\n');
		print_verb(&ls_verbs[i]);
	}
	if (!shown)
		return ls_cli_usage("unknown verb '%s'; 'loadshed help' lists the verbs", wanted);
	return ls_cli_flush();
}

/* ---- man(7) ---- */

/* Text as roff: what is between backquotes is bold, and its hyphens are those that one types. */
static void man_text(const char *text)
{
	bool is_literal = false, at_start = true;

	for (const char *at = text; *at; at++) {
		if (*at == '`') {
			is_literal = !is_literal;
			fputs(is_literal ? "\\fB" : "\\fR", stdout);
			at_start = false;
			continue;
		}
		if (at[0] == '\n' && at[1] == '\n') {
			fputs("\n.PP\n", stdout);
			at++;
			at_start = true;
			continue;
		}
		if (at_start && (*at == '.' || *at == '\''))
			fputs("\\&", stdout);
		if (*at == '\\')
			fputs("\\e", stdout);
		else if (*at == '-' &&
			 (is_literal || (at[1] == '-' || (at > text && at[-1] == '-'))))
			fputs("\\-", stdout);
		else if (strncmp(at, "…", strlen("…")) == 0)
			fputs("\\&...", stdout), at += strlen("…") - 1;
		else
			putchar(*at);
		at_start = false;
	}
	putchar('\n');
}

/* Something to type, as it stands. */
static void man_literal(const char *text)
{
	for (; *text; text++) {
		if (*text == '-')
			fputs("\\-", stdout);
		else if (strncmp(text, "…", strlen("…")) == 0)
			fputs(" ...", stdout), text += strlen("…") - 1;
		else
			putchar(*text);
	}
}

static void man_value(const char *value)
{
	const bool is_name = value[0] >= 'A' && value[0] <= 'Z';

	if (!value[0])
		return;
	fputs(is_name ? " \\fI" : " \\fB", stdout);
	man_literal(value);
	fputs("\\fR", stdout);
}

static void man_verb(const struct ls_verb *verb)
{
	fputs(".SS \"", stdout);
	man_literal(verb->name);
	fputs("\"\n.B loadshed ", stdout);
	man_literal(verb->name);
	putchar('\n');
	if (verb->arguments[0]) {
		fputs(".I \"", stdout);
		man_literal(verb->arguments);
		fputs("\"\n", stdout);
	}
	for (unsigned option = 0; option < LS_OPTION_MAX; option++) {
		const bool is_required = verb->required & 1U << option;
		if (!is_allowed(verb, option))
			continue;
		fputs(is_required ? "\\fB\\-\\-" : "[\\fB\\-\\-", stdout);
		man_literal(ls_option_name(option));
		fputs("\\fR", stdout);
		man_value(ls_option_value(option));
		puts(is_required ? "" : "]");
	}
	printf(".PP\n");
	man_text(verb->help);
	if (ls_manual_verb(verb)[0]) {
		puts(".PP");
		man_text(ls_manual_verb(verb));
	}
	for (unsigned option = 0; option < LS_OPTION_MAX; option++) {
		if (!is_allowed(verb, option))
			continue;
		fputs(".TP\n", stdout);
		if (ls_option_letter(option))
			printf("\\fB\\-%c\\fR, ", ls_option_letter(option));
		fputs("\\fB\\-\\-", stdout);
		man_literal(ls_option_name(option));
		fputs("\\fR", stdout);
		man_value(ls_option_value(option));
		putchar('\n');
		man_text(ls_manual_option(verb, option));
	}
	fputs(".PP\nFor example:\n.PP\n.nf\n.RS 4\nloadshed ", stdout);
	man_literal(verb->example);
	puts("\n.RE\n.fi");
}

int ls_cmd_manual(struct ls_cli *cli)
{
	(void)cli;
	for (size_t i = 0; i < ls_n_verbs; i++)
		if (ls_verbs[i].run && ls_verbs[i].help[0])
			man_verb(&ls_verbs[i]);
	puts(".SH OPTIONS\nThese are accepted before and after the verb.");
	for (size_t i = 0; i < ls_n_manual_globals; i++) {
		const struct ls_manual_global *global = &ls_manual_globals[i];
		printf(".TP\n\\fB\\-%c\\fR, \\fB\\-\\-%s\\fR", global->letter, global->name);
		man_value(global->value);
		putchar('\n');
		man_text(global->text);
	}
	return ls_cli_flush();
}
