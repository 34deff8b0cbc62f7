/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_TIMED_H
#define LOADSHED_USER_PLANE_TIMED_H

/*
 * What holds for a time, and going back. Each of these is stored in the kernel with its end and ends there, with
 * no process alive (bpf/pure/timed.h).
 *
 * What becomes of it:
 *	                apply, allow, deny   rollback    last detach   another build   reboot
 *	allow, deny     part of the policy   part of it  gone          stay            saved
 *	bans            stay                 stay        gone          stay            saved, with their ends
 *	off, panic      stay                 stay        gone          stay            gone
 *	confirm         refused meanwhile    refused     gone          stays           the previous policy
 * "Part of the policy": apply puts in force what its file says, so entries that were added by hand and are not in
 * the file are gone, and rollback brings them back. A layout of another version (upgrade.h) keeps all of
 * this, but neither counters nor the state of limits nor the previous generation.
 *
 * The plane is open for writing, but for those that only ask.
 */

#include <stdint.h>

struct ls_error;
struct ls_plane;
struct ls_policy;
struct ls_warnings;

/* As ls_plane_publish; with confirm_ns > 0 the policy before is back after that time unless it is confirmed. */
int ls_plane_publish_for(struct ls_plane *plane, const struct ls_policy *policy, const char *path,
			 uint64_t confirm_ns, struct ls_warnings *notes, struct ls_error *error);

/* Keeps what waits to be confirmed. LS_PLANE_E_NOT_PENDING. */
int ls_plane_confirm(struct ls_plane *plane, struct ls_error *error);

/* Refuses with a line while a policy waits to be confirmed. */
int ls_plane_refuse_pending(const struct ls_plane *plane, struct ls_error *error);

/* Nanoseconds left to confirm; 0: nothing is pending. */
uint64_t ls_plane_pending(const struct ls_plane *plane);

/* The policy that rollback would bring back, as ls_plane_policy does. LS_PLANE_E_NO_PREVIOUS. */
int ls_plane_previous(struct ls_plane *plane, struct ls_policy **ret_policy, char **ret_path,
		      struct ls_error *error);

/* Its number; 0: there is none. */
uint64_t ls_plane_previous_number(const struct ls_plane *plane);

/*
 * Puts the previous generation in force again, under its own number, with one store; what was in force is then
 * the previous one. LS_PLANE_E_NO_PREVIOUS. Refused while a confirm is pending.
 */
int ls_plane_rollback(struct ls_plane *plane, struct ls_warnings *notes, struct ls_error *error);

/* Drop nothing, or the strict preset, for `for_ns` from now, whatever was left of it. */
int ls_plane_off(struct ls_plane *plane, uint64_t for_ns, struct ls_error *error);
int ls_plane_panic(struct ls_plane *plane, uint64_t for_ns, struct ls_error *error);

/* Ends both at once. */
void ls_plane_on(struct ls_plane *plane);

/* Nanoseconds left; 0: not. */
uint64_t ls_plane_off_left(const struct ls_plane *plane);
uint64_t ls_plane_panic_left(const struct ls_plane *plane);

#endif
