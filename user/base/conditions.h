/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BASE_CONDITIONS_H
#define LOADSHED_USER_BASE_CONDITIONS_H

/*
 * What only the controller can know (a list file cannot be read since 10:04; a program was taken off at 10:07),
 * told to every other process: a file of fixed size in /run, mapped by its one writer, `serve`, and read by
 * `status`. It is in no pinned map, because it says something about a process and not about the kernel.
 *
 * A dead writer's words must not be believed, and no timeout decides that: the writer holds a lock on the
 * file (fcntl OFD) that the kernel lets go of with the process. A reader asks whether there is a lock,
 * without taking one. A writer that hangs is told by its heartbeat.
 *
 * A restarted controller that finds the same condition again within a few seconds keeps the time at which its
 * predecessor of the same boot first saw it (/run is empty after a boot).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ls_conditions;
struct ls_error;

#define LS_CONDITIONS_MAX 30	    /* more are counted, not kept */
#define LS_CONDITION_KEY_BYTES 48   /* longer keys are cut */
#define LS_CONDITION_TEXT_BYTES 208 /* longer texts are cut at a character */
#define LS_CONDITIONS_STALE_NS 10000000000ULL

struct ls_condition {
	uint64_t since_ns;		  /* CLOCK_REALTIME; 0: free */
	char key[LS_CONDITION_KEY_BYTES]; /* what it is about: "reload", "list blocked", "program eth0" */
	char text[LS_CONDITION_TEXT_BYTES]; /* for people, without the time; no line feed */
};

/* ---- the writer ---- */

/*
 * Makes or takes over the file and its lock. -EBUSY with a line that names the holder when another process has it.
 * The directory must be there.
 */
int ls_conditions_open(const char *path, struct ls_conditions **ret, struct ls_error *error);
/* Lets go: readers then see no controller. The file stays. NULL is fine. */
void ls_conditions_close(struct ls_conditions *conditions);

/*
 * Sets the condition `key`: returns true when it is new or its text is, so that the caller logs it once. `since`
 * stays while the key is set.
 */
bool ls_conditions_set(struct ls_conditions *conditions, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Returns true when it was set. */
bool ls_conditions_clear(struct ls_conditions *conditions, const char *key);
/* Unix time in ns since when it is set; 0: it is not. */
uint64_t ls_conditions_since(const struct ls_conditions *conditions, const char *key);
/* The writer is alive: once a second. now_ns: Unix time. */
void ls_conditions_beat(struct ls_conditions *conditions, uint64_t now_ns);

/* ---- readers ---- */

struct ls_conditions_view {
	bool is_alive; /* a controller runs; else all else is zero */
	int pid;
	uint64_t start_ns; /* Unix times */
	uint64_t beat_ns;
	size_t count, dropped;
	struct ls_condition rows[LS_CONDITIONS_MAX]; /* in the order in which they came */
};

/* Never fails: what cannot be read is no controller. */
void ls_conditions_read(const char *path, struct ls_conditions_view *ret);

#endif
