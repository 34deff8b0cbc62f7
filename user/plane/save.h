/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_SAVE_H
#define LOADSHED_USER_PLANE_SAVE_H

/*
 * What outlives a reboot. The directory of an instance (place.c says which) holds
 *	policy.blob	the policy with its lists' contents (user/policy/blob.h)
 *	attach		interfaces, mode, --monitor
 *	bans		bans with absolute end times
 * Each is replaced whole; one that is cut off is an error, never an empty policy or no bans. They do not
 * depend on each other, so a set in which one is newer than another is a good one, too.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "user/base/cleanup.h"

struct ls_ban_entry;
struct ls_error;
struct ls_plane;
struct ls_policy;

#define LS_SAVE_DIRECTORY "/var/lib/loadshed"

/* Only the bans: what `ban add` and `del` change. The plane is open for writing. */
int ls_save_bans(struct ls_plane *plane, struct ls_error *error);

/* The saved policy and the path it came from (NULL: nowhere), owned by the caller. */
int ls_save_read_policy(const char *instance, struct ls_policy **ret, char **ret_path,
			struct ls_error *error);

/* The saved bans that have not ended, owned by the caller. No file: no bans. */
int ls_save_read_bans(const char *instance, struct ls_ban_entry **ret, size_t *ret_count,
		      struct ls_error *error);

/* An interface as it was attached. */
struct ls_saved_interface {
	char name[32];
	char mode[8]; /* ls_plane_mode_name: "auto" where native was wished for but not there */
};

struct ls_saved_attach {
	bool monitor;
	struct ls_saved_interface *interfaces; /* owned: free() */
	size_t n_interfaces;
};

static inline void ls_saved_attach_fini(struct ls_saved_attach *saved)
{
	free(saved->interfaces);
	saved->interfaces = NULL;
}
#define _cleanup_saved_attach_ _cleanup_(ls_saved_attach_fini)

/* What `restore` attaches. A missing file is -ENOENT with a line. */
int ls_save_read_attach(const char *instance, struct ls_saved_attach *ret, struct ls_error *error);

#endif
