/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_TESTS_UNIT_POLICY_TEXT_H
#define LOADSHED_TESTS_UNIT_POLICY_TEXT_H

/* Policies as text, read as a file `p.yaml`: accepted, or refused with a place and words. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "user/base/error.h"
#include "user/policy/policy.h"
#include "user/policy/read.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* The files that the policies below name. */
static inline int read_file(void *context, const char *file, char **ret_bytes, size_t *ret_length,
			    struct ls_error *error)
{
	(void)context;
	if (strcmp(file, "blocked.txt") != 0)
		return ls_error_set(error, "cannot open '%s'", file);
	*ret_bytes = strdup("192.0.2.0/24\n198.51.100.66 5\n");
	*ret_length = strlen(*ret_bytes);
	return *ret_bytes ? 0 : ls_error_oom(error);
}

static const struct ls_policy_files files = { .read = read_file };

static inline struct ls_policy *read_text(const char *text, struct ls_error *error)
{
	struct ls_policy *policy = NULL;

	ls_policy_read_memory("p.yaml", text, strlen(text), &files, &policy, error);
	return policy;
}

static inline struct ls_policy *accept(const char *text)
{
	struct ls_error error = LS_ERROR_INIT;
	struct ls_policy *policy = read_text(text, &error);

	if (!policy)
		fail_msg("%s\nin\n%s", error.text, text);
	return policy;
}

/* `starts` is the place; `contains` a part of the message. */
static inline void refuse(const char *text, const char *starts, const char *contains)
{
	struct ls_error error = LS_ERROR_INIT;
	_cleanup_policy_ struct ls_policy *policy = read_text(text, &error);

	if (policy)
		fail_msg("accepted:\n%s", text);
	if (strncmp(error.text, starts, strlen(starts)) != 0 || !strstr(error.text, contains) ||
	    strchr(error.text, '\n'))
		fail_msg("\"%s\" is not \"%s … %s\" for\n%s", error.text, starts, contains, text);
}

#endif
