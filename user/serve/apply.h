/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_SERVE_APPLY_H
#define LOADSHED_USER_SERVE_APPLY_H

/*
 * What the controller does in worker processes: publishing and attaching. Each reports in lines (worker.h):
 *
 *	E text            failed; nothing was changed unless the text says so
 *	N text            worth knowing
 *	W                 refused, as a policy waits to be confirmed: try again later
 *	G number          this generation is in force by us
 *	= number          it was in force already
 *	P path            where the policy came from
 *	L name TAB path TAB entries      a set with a file, and how many entries it has in force
 *	U name TAB text   the file of that set changed and is in force
 *	B name TAB text   the file of that set cannot be used
 *	A name            this interface was attached
 *	F name TAB text   this interface could not be attached
 */

struct ls_buffer;

/* Applies the file again that the policy in force came from. argument: name of the instance. */
void ls_apply_reload(const void *argument, struct ls_buffer *report);

/* Says which list files the policy in force has: P, L. argument: name of the instance. */
void ls_apply_inspect(const void *argument, struct ls_buffer *report);

/*
 * Reads the list files of the policy in force and publishes what has changed in them, and nothing else: the policy
 * file is not looked at, and entries that were added by hand stay. A set whose file is bad, or suddenly empty, keeps
 * its entries, and the others are published. argument: name of the instance.
 */
void ls_apply_lists(const void *argument, struct ls_buffer *report);

struct ls_apply_attach {
	const char *instance;
	char names[64][32];
	unsigned n_names;
};

/* Saves again what is in force. argument: name of the instance. */
void ls_apply_save(const void *argument, struct ls_buffer *report);

/* Attaches saved interfaces. argument: struct ls_apply_attach. */
void ls_apply_attach(const void *argument, struct ls_buffer *report);

#endif
