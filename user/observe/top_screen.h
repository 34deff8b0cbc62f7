/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_OBSERVE_TOP_SCREEN_H
#define LOADSHED_USER_OBSERVE_TOP_SCREEN_H

/*
 * The full screen of `top`: rows that are renewed about twice a second, sorted as asked, with a cursor and marks, and a
 * prompt for a ban. It knows the terminal; what it shows and what a ban is, it asks its caller.
 *
 * Nothing is said by colour. The terminal is given back on every way out: a key, an error, and any signal that ends a
 * process and can be caught.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "user/plane/top.h"

struct ls_error;

/* What is above the rows. */
struct ls_top_frame {
	struct ls_top_reading reading; /* owned */
	char title[128];	       /* instance, generation, mode */
	char rates[160];	       /* seen, passed, dropped */
	char reasons[160];	       /* why it was refused, most first */
	char state[160];	       /* what is degraded; "" : nothing */
};

#define LS_TOP_WORD 40	   /* what a row is: "ban 9m 3s" */
#define LS_TOP_MESSAGE 256 /* what became of a ban */

struct ls_top_screen {
	void *context;
	/* The next frame, into an empty one. 0, or negative with a line, which ends the screen. */
	int (*read)(void *context, struct ls_top_frame *ret, struct ls_error *error);
	/* Nanoseconds until read() has something newer than `number`. */
	uint64_t (*wait_ns)(void *context, uint64_t number);
	/* In a word what is known of a source or prefix; "" : nothing. */
	void (*describe)(void *context, const struct ls_prefix *prefix,
			 char text[static LS_TOP_WORD]);
	/* Bans them for a time as typed; says what came of it. */
	void (*ban)(void *context, const struct ls_prefix *prefixes, size_t count, const char *time,
		    char message[static LS_TOP_MESSAGE]);
};

/* Until `q`: 0. *ret_signal: it was ended by that one (0: not), which the caller raises again. Negative with a line. */
int ls_top_screen_run(const struct ls_top_screen *screen, int *ret_signal, struct ls_error *error);

#endif
