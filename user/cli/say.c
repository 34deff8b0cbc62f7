/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/cli.h"

/* What every verb says, and how: notes and failures on stderr, one line each; JSON on stdout; the exit code of both. */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "user/base/buffer.h"
#include "user/base/units.h"
#include "user/plane/plane.h"
#include "user/policy/check.h"

static void say(const char *format, va_list arguments)
{
	fputs("loadshed: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
}

void ls_cli_note(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(format, arguments);
	va_end(arguments);
}

int ls_cli_usage(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(format, arguments);
	va_end(arguments);
	return LS_EXIT_USAGE;
}

int ls_cli_fail(const struct ls_error *error)
{
	ls_cli_note("%s", ls_error_is_set(error) ? error->text : "failed, and nobody said why");
	return LS_EXIT_FAILED;
}

void ls_cli_notes(const struct ls_warnings *notes)
{
	for (size_t i = 0; i < notes->count; i++)
		ls_cli_note("%s", notes->lines[i]);
	if (notes->dropped)
		ls_cli_note("… and %zu more", notes->dropped);
}

int ls_cli_absent(const struct ls_cli *cli)
{
	char ghosts[128];

	if (ls_plane_ghosts(ghosts, sizeof(ghosts)) > 0)
		ls_cli_note(
			"cannot see the state of instance '%s', though %s runs the program: its pins are in another mount namespace, or another user's; run it where 'loadshed attach' was run",
			cli->instance, ghosts);
	else
		ls_cli_note(
			"cannot do '%s': nothing is attached (instance '%s'); 'loadshed attach IFACE' starts it",
			cli->verb->name, cli->instance);
	return LS_EXIT_FAILED;
}

int ls_cli_flush(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return LS_EXIT_DONE;
	/* Whoever reads has seen enough: `loadshed stats --watch | head`. */
	if (errno != EPIPE)
		ls_cli_note("cannot write to stdout: %s", strerror(errno));
	return LS_EXIT_FAILED;
}

int ls_cli_print_json(json_t *json)
{
	if (!json || json_dumpf(json, stdout, JSON_INDENT(2)) < 0) {
		json_decref(json);
		ls_cli_note("cannot write JSON to stdout: %s", strerror(json ? errno : ENOMEM));
		return LS_EXIT_FAILED;
	}
	json_decref(json);
	putchar('\n');
	return ls_cli_flush();
}

json_t *ls_cli_text_json(const char *text)
{
	_cleanup_buffer_ struct ls_buffer clean = LS_BUFFER_INIT;

	if (!text || !text[0])
		return json_null();
	ls_buffer_utf8(&clean, text);
	return clean.failed ? NULL : json_string(ls_buffer_string(&clean));
}

json_t *ls_cli_seconds_json(uint64_t ns)
{
	return ns ? json_integer((json_int_t)((ns + LS_NS_PER_S - 1) / LS_NS_PER_S)) : json_null();
}
