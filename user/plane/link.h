/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_LINK_H
#define LOADSHED_USER_PLANE_LINK_H

/* One interface: whose program is on it, putting ours there, and the words for why that does not work. */

#include "user/plane/internal.h"

/* An interface on its way to being attached. */
struct ls_target {
	struct ls_device device;
	bool is_attached;	    /* ours already, before this run */
	struct ls_resident foreign; /* program_id 0: none */
	int foreign_fd;		    /* of its program while it is put aside */
	bool is_put_aside;
	enum ls_plane_mode mode; /* that it got */
	bool fell_back;
	int link_fd;
	uint32_t link_id;
};

void ls_target_init(struct ls_target *target);
/* Closes what is open; a link that is not pinned goes with it. */
void ls_target_fini(struct ls_target *target);

/* Finds out what is on the interface; refuses with one line what may not be touched. */
int ls_target_check(struct ls_target *target, const char *root, bool replace,
		    struct ls_error *error);

/* Puts the program there, and a foreign one aside before. On failure the foreign one is back. */
int ls_target_attach(struct ls_target *target, int program_fd, enum ls_plane_mode mode,
		     struct ls_warnings *notes, struct ls_error *error);

/* Takes ours away again and puts the foreign one back, in so far as that can be done. */
void ls_target_undo(struct ls_target *target);

/* One line about a refusal of the kernel; `said` is its own text or "". Public for tests. */
int ls_target_explain(const struct ls_device *device, enum ls_plane_mode mode, int code,
		      const char *said, struct ls_error *error);

/* Of a link: index of its device, 0 when that is gone, and its id and program. Negative errno. */
int ls_link_info(int link_fd, uint32_t *ret_ifindex, uint32_t *ret_link_id,
		 uint32_t *ret_program_id);
/*
 * Whether the interface that has index `ifindex` in this network namespace runs the program of the link. A link goes along
 * with an interface that is moved to another namespace, and its index may be another interface's here.
 */
bool ls_link_is_here(int link_fd, uint32_t ifindex);

/* ---- rows.c ---- */

/* The row of an interface, or a free one for index 0; NULL: there is none. */
struct ls_state_interface *ls_row_of(const struct ls_plane *plane, uint32_t ifindex);
/* Whether the link of a row still has its device. */
bool ls_row_is_alive(const struct ls_plane *plane, const struct ls_state_interface *row);
/* … and that device is in this network namespace. */
bool ls_row_is_here(const struct ls_plane *plane, const struct ls_state_interface *row);
/* Leads the packets of an interface to the counters of a bank, and those of a bond's members, by whose indexes they come. */
void ls_row_find_bank(struct ls_plane *plane, uint16_t bank, const struct ls_device *device);
/* The same when they are known. */
void ls_row_set_bank(struct ls_plane *plane, uint16_t bank, uint32_t ifindex,
		     const uint32_t *members, size_t n_members);
struct ls_presence_row;
/* Whether it runs the program, and what else became of it. */
void ls_row_presence(const struct ls_plane *plane, const struct ls_state_interface *row,
		     struct ls_presence_row *ret);
/* Forgets an interface: its row, its pin, its bank. The link must be detached, or dead. */
void ls_row_drop(struct ls_plane *plane, struct ls_state_interface *row);
/* Takes out what a killed attach left half done. */
void ls_rows_drop_pending(struct ls_plane *plane);
/*
 * Takes out interfaces that have vanished. One that is there and that somebody took our program off stays, so that this is
 * seen; attaching or detaching it by name ends that.
 */
void ls_rows_drop_dead(struct ls_plane *plane);

#endif
