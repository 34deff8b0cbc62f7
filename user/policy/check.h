/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_POLICY_CHECK_H
#define LOADSHED_USER_POLICY_CHECK_H

/*
 * What is valid but hardly meant. Warnings never stop a policy; `policy check` shows them.
 */

#include <stddef.h>

#include "user/base/cleanup.h"

struct ls_policy;

/* Lines for people, in the order in which they were found. Embedded: zero it or use the macro. */
struct ls_warnings {
	char **lines; /* owned, as are the strings */
	size_t count;
	size_t dropped; /* that there was no room or no memory for */
};

/* More would not be read, and a list of a million bad lines must not become a million strings. */
#define LS_WARNINGS_MAX 1000

#define LS_WARNINGS_INIT                                                                           \
	{                                                                                          \
		0                                                                                  \
	}

void ls_warnings_fini(struct ls_warnings *warnings);

/* Adds a line; NULL is accepted and does nothing; beyond LS_WARNINGS_MAX it only counts. */
void ls_warnings_add(struct ls_warnings *warnings, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#define _cleanup_warnings_ _cleanup_(ls_warnings_fini)

/*
 * Adds what the model shows: classes and entries that can never match, /0 in `deny`, empty lists,
 * unused sets, a prefix limit that undoes a NAT factor, bans by packets that may be spoofed, an
 * `overload.max` too small to admit anything. Sound, not complete: what it names is so, but it does
 * not find everything. Returns 0 or -ENOMEM.
 */
int ls_policy_check(const struct ls_policy *policy, struct ls_warnings *warnings);

#endif
