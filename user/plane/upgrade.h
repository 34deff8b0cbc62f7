/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_UPGRADE_H
#define LOADSHED_USER_PLANE_UPGRADE_H

/*
 * Another build takes over an instance that is attached: by link update, so that every packet is judged by
 * the old program or the new one and no link goes down.
 */

#include "user/plane/internal.h"

/*
 * When the object that runs is not this program's: loads ours on the same maps and puts it on every
 * link; all or none. plane->program_fd is then the new program. Same build: does nothing.
 */
int ls_upgrade_program(struct ls_plane *plane, bool verbose, struct ls_warnings *notes,
		       struct ls_error *error);

/* Loads the program once more on the maps of `plane`, into plane->program_fd; no link is touched. */
int ls_load_again(struct ls_plane *plane, bool verbose, struct ls_error *error);

/*
 * When the maps have another layout (ls_plane_open_pins said LS_PLANE_E_LAYOUT): makes new ones beside them, carries policy,
 * bans and what ends by itself over, and moves the links. `plane` is the old one and becomes the new one. Counters and
 * the state of limits start anew, and a note says so. On failure the old one goes on.
 */
int ls_upgrade_layout(struct ls_plane *plane, const char *root, bool verbose,
		      struct ls_warnings *notes, struct ls_error *error);

#endif
