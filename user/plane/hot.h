/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_HOT_H
#define LOADSHED_USER_PLANE_HOT_H

/*
 * The side table of sources that nodes share (loadshed/hot_abi.h), from the side of its one writer, `serve`, and of those
 * who only look. Entries are stores into mapped memory: in force for the next packet, and over at the end that each carries.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loadshed/hot_abi.h"
#include "loadshed/policy_abi.h"

struct ls_error;
struct ls_plane;
struct ls_hot_writer;

/*
 * The plane may be open for reading: what is written here is written by nobody else, so no lock is needed. It must outlive
 * the writer. Negative with a line; -ENOENT: another build's program runs, which knows no shared sources.
 */
int ls_hot_open(struct ls_plane *plane, struct ls_hot_writer **ret, struct ls_error *error);
void ls_hot_close(struct ls_hot_writer *writer);

/* Nodes share for so long from now on; 0: not any more. */
void ls_hot_enable(struct ls_hot_writer *writer, uint64_t for_ns);

/* What CPUs have told since the last call, `room` at most; *ret_lost: so many were overwritten before. */
size_t ls_hot_news(struct ls_hot_writer *writer, struct ls_hot_news *ret, size_t room,
		   uint64_t *ret_lost);

/* An entry for the key, which may have one; -1: its set is full. Nothing holds for it yet. */
int ls_hot_claim(struct ls_hot_writer *writer, uint64_t key, const struct ls_hot_news *subject);
/* Whether something holds for the entry now, from an earlier writer. */
bool ls_hot_is_held(const struct ls_hot_writer *writer, int entry);
void ls_hot_release(struct ls_hot_writer *writer, int entry);
/* What the entry holds for so long: `more` NULL for nothing more. */
void ls_hot_set(struct ls_hot_writer *writer, int entry, uint32_t admit, uint64_t for_ns,
		const struct ls_hot_more *more);
/* Counted in the entry by all CPUs, since the map was made: callers take differences. */
void ls_hot_counts(const struct ls_hot_writer *writer, int entry, uint64_t *ret_offered,
		   uint64_t *ret_admitted);
/* The entry's record that outlives the writer. */
struct ls_hot_info *ls_hot_info(struct ls_hot_writer *writer, int entry);
/* The key that the entry has; 0: free. */
uint64_t ls_hot_key_at(const struct ls_hot_writer *writer, int entry);

/* What holds for the sources of a limit that have no entry. limit->until is filled in: for_ns from now; 0: never. */
void ls_hot_set_limit(struct ls_hot_writer *writer, uint16_t slot, struct ls_hot_limit limit,
		      uint64_t for_ns, bool is_closed);

struct ls_hot_status *ls_hot_status(struct ls_hot_writer *writer);
/* A whole copy of the status for a reader; false: there is none. */
bool ls_hot_read_status(struct ls_plane *plane, struct ls_hot_status *ret);

/* A class of the policy in force, as the kernel has it; false: there is none of that number. */
bool ls_hot_class(struct ls_plane *plane, unsigned index, struct ls_class_abi *ret);

/* This node's counts of a window limit's subject: of the window of *ret_number (low 24 bits), and the one before. */
void ls_hot_window(struct ls_plane *plane, const struct ls_limit_abi *limit, uint64_t key,
		   const struct ls_hot_news *subject, unsigned class_slot, uint64_t *ret_number,
		   uint64_t *ret_count, uint64_t *ret_before);
/* Unix time by which the kernel's windows go, now. */
uint64_t ls_hot_wall(const struct ls_plane *plane);

/*
 * A subject as text that is the same on every node, and back to the key that it has on this one. Of the limit, what
 * tells subjects apart is used.
 */
#define LS_HOT_SUBJECT_TEXT 96
void ls_hot_subject_format(const struct ls_limit_abi *limit, const struct ls_hot_news *subject,
			   char text[static LS_HOT_SUBJECT_TEXT]);
bool ls_hot_subject_parse(const struct ls_limit_abi *limit, const char *text,
			  struct ls_hot_news *ret);
uint64_t ls_hot_key(const struct ls_plane *plane, const struct ls_limit_abi *limit,
		    unsigned class_slot, const struct ls_hot_news *subject);

#endif
