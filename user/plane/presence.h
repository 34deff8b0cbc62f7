/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_PRESENCE_H
#define LOADSHED_USER_PLANE_PRESENCE_H

/* Whether the interfaces that were attached still run the program, asked of the kernel and not of the record. */

#include <stddef.h>
#include <stdint.h>

struct ls_plane;

enum ls_presence {
	LS_PRESENCE_RUNS,
	LS_PRESENCE_VANISHED,  /* the interface is gone, and the program with it */
	LS_PRESENCE_TAKEN_OFF, /* it is there, and somebody took our program off it */
	LS_PRESENCE_MOVED,     /* it runs the program, in another network namespace */
};

#define LS_PRESENCE_ROWS 64 /* interfaces of one instance */

struct ls_presence_row {
	char name[32]; /* when it was saved last */
	char now[32];  /* RUNS: at present, another if it was renamed since; otherwise as `name` */
	uint32_t ifindex;
	enum ls_presence presence;
	/* TAKEN_OFF: what runs there now; 0 and "": nothing. */
	uint32_t foreign_id;
	char foreign_name[16];
};

/* Half a dozen system calls for each interface that runs. Returns how many rows there are. */
size_t ls_presence_read(const struct ls_plane *plane,
			struct ls_presence_row ret_rows[static LS_PRESENCE_ROWS]);

#endif
