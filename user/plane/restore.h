/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_RESTORE_H
#define LOADSHED_USER_PLANE_RESTORE_H

/*
 * What was saved, attached again: at boot, after the pins were lost, or when an interface comes back. Each interface is
 * attached by itself, so that one that is not there yet leaves the others protected. The first makes the instance,
 * with policy and bans, before a packet is judged; the others join it. An instance that is there already keeps what
 * is in force in it. Nothing is saved anew, so that what is missing today is still waited for tomorrow.
 */

#include <stdbool.h>
#include <stddef.h>

#include "user/plane/save.h"

struct ls_error;
struct ls_policy;
struct ls_warnings;

struct ls_restore {
	struct ls_saved_attach attach;
	struct ls_policy *policy;
	char *path;
	struct ls_ban_entry *bans;
	size_t n_bans;
	bool bans_failed; /* they cannot be read: no reason to leave the host without its policy */
};

void ls_restore_fini(struct ls_restore *restore);
#define _cleanup_restore_ _cleanup_(ls_restore_fini)

#define LS_RESTORE_E_NOTHING 1 /* no interface is saved */

/*
 * Reads all that is saved. LS_RESTORE_E_NOTHING, or negative with a line: a policy that cannot be read is no
 * reason to attach an empty one. `bans_error` gets the line about bans that cannot be read.
 */
int ls_restore_read(const char *instance, struct ls_restore *ret, struct ls_error *bans_error,
		    struct ls_error *error);

/* Attaches one saved interface. 0, also when it is attached already, or negative with a line. */
int ls_restore_interface(const char *instance, const struct ls_restore *restore, const char *name,
			 bool verbose, struct ls_warnings *notes, struct ls_error *error);

#endif
