/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BASE_ERROR_H
#define LOADSHED_USER_BASE_ERROR_H

/*
 * One failure, one line: what was attempted, on which object, why, what to do. Core functions fill
 * it in and return; only cli and serve show it. The first message stays, because it is nearest to
 * the cause: callers on the way up can set a general one without looking whether there is a better
 * one already.
 */

#include <stdbool.h>

/* Long enough for a path of PATH_MAX / 2 and a sentence; longer lines end in "…". */
#define LS_ERROR_BYTES 3072

struct ls_error {
	char text[LS_ERROR_BYTES]; /* "" while nothing was set; never holds a control character */
};

#define LS_ERROR_INIT                                                                              \
	{                                                                                          \
		.text = ""                                                                         \
	}

/*
 * Sets the line unless one is set already. `error` may be NULL: then nothing is kept. Control
 * characters, a line feed in a name for one, are shown as '?'. Returns -1, so that `return
 * ls_error_set(…)` reads well.
 */
int ls_error_set(struct ls_error *error, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The same with ": " and the text of errno value `code` (> 0) appended. Returns -code. */
int ls_error_set_errno(struct ls_error *error, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* "out of memory", and -ENOMEM. */
int ls_error_oom(struct ls_error *error);

/*
 * Puts "format: " in front of a message that is set, as when a caller knows the place; none: does
 * nothing.
 */
void ls_error_prefix(struct ls_error *error, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Forgets the message. */
void ls_error_clear(struct ls_error *error);

static inline bool ls_error_is_set(const struct ls_error *error)
{
	return error && error->text[0] != '\0';
}

#endif
