/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_SAVE_H
#define LOADSHED_USER_PLANE_SAVE_H

/*
 * What outlives a reboot: /var/lib/loadshed/INSTANCE holds
 *	policy.blob	the policy with its lists' contents (user/policy/blob.h)
 *	attach		interfaces, mode, --monitor
 *	bans		bans with absolute end times
 * Each is replaced whole; one that is cut off is an error, never an empty policy or no bans.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ls_error;
struct ls_plane;
struct ls_policy;

#define LS_SAVE_DIRECTORY "/var/lib/loadshed"

/* Only the bans: what `ban add` and `del` change. The plane is open for writing. */
int ls_save_bans(struct ls_plane *plane, struct ls_error *error);

/* The saved policy and the path it came from (NULL: nowhere), owned by the caller. */
int ls_save_read_policy(const char *instance, struct ls_policy **ret, char **ret_path,
			struct ls_error *error);

/* Puts the saved bans that have not ended into the plane. No file: no bans. */
int ls_save_read_bans(struct ls_plane *plane, struct ls_error *error);

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

/* What `restore` attaches. A missing file is -ENOENT with a line. */
int ls_save_read_attach(const char *instance, struct ls_saved_attach *ret, struct ls_error *error);

#endif
