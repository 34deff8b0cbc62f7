/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_CLI_MANUAL_H
#define LOADSHED_USER_CLI_MANUAL_H

/*
 * What the manual says beyond the table of verbs: one source for `help VERB`, for the verbs of loadshed(8), and
 * for the descriptions in completions. In a text, `x` is something to type; "\n\n" ends a paragraph.
 */

#include "user/cli/cli.h"

/* What there is to know about a verb; "" when its line in the table says all. */
const char *ls_manual_verb(const struct ls_verb *verb);

/* One line about an option of a verb, or what the verb takes for it. */
const char *ls_manual_option(const struct ls_verb *verb, enum ls_option option);

/* A global option: letter, name, what its value is called ("" for a flag), one line. */
struct ls_manual_global {
	char letter;
	const char *name, *value, *text;
};
extern const struct ls_manual_global ls_manual_globals[];
extern const size_t ls_n_manual_globals;

#endif
