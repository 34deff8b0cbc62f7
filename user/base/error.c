/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A terminal or a log must not be steered by a file name; UTF-8 is left as it is. */
static void error_tidy(struct ls_error *error)
{
	static const char ellipsis[] = "…";
	const size_t length = strlen(error->text);

	for (char *c = error->text; *c; c++) {
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	}
	if (length == sizeof(error->text) - 1)
		memcpy(error->text + length + 1 - sizeof(ellipsis), ellipsis, sizeof(ellipsis));
}

static void error_vset(struct ls_error *error, const char *format, va_list arguments)
{
	if (vsnprintf(error->text, sizeof(error->text), format, arguments) < 0)
		snprintf(error->text, sizeof(error->text), "%s", format);
	error_tidy(error);
}

int ls_error_set(struct ls_error *error, const char *format, ...)
{
	va_list arguments;

	if (!error || ls_error_is_set(error))
		return -1;
	va_start(arguments, format);
	error_vset(error, format, arguments);
	va_end(arguments);
	return -1;
}

int ls_error_set_errno(struct ls_error *error, int code, const char *format, ...)
{
	va_list arguments;
	size_t length;

	if (!error || ls_error_is_set(error))
		return -code;
	va_start(arguments, format);
	error_vset(error, format, arguments);
	va_end(arguments);

	length = strlen(error->text);
	snprintf(error->text + length, sizeof(error->text) - length, ": %s", strerror(code));
	error_tidy(error);
	return -code;
}

int ls_error_oom(struct ls_error *error)
{
	ls_error_set(error, "out of memory");
	return -ENOMEM;
}

void ls_error_prefix(struct ls_error *error, const char *format, ...)
{
	struct ls_error whole = LS_ERROR_INIT;
	va_list arguments;
	size_t length;

	if (!ls_error_is_set(error))
		return;
	va_start(arguments, format);
	error_vset(&whole, format, arguments);
	va_end(arguments);

	length = strlen(whole.text);
	for (const char *part = ": "; *part && length < sizeof(whole.text) - 1; part++)
		whole.text[length++] = *part;
	for (const char *part = error->text; *part && length < sizeof(whole.text) - 1; part++)
		whole.text[length++] = *part;
	whole.text[length] = '\0';
	error_tidy(&whole);
	*error = whole;
}

void ls_error_clear(struct ls_error *error)
{
	if (error)
		error->text[0] = '\0';
}
