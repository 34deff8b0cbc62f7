/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_POLICY_READ_H
#define LOADSHED_USER_POLICY_READ_H

/*
 * YAML in; a policy, or one line of refusal, out. A refusal reads
 *	FILE:LINE:COLUMN: what is wrong, why; what to do
 * (list files: FILE:LINE). Nothing is guessed and nothing unknown is skipped.
 */

#include <stddef.h>

struct ls_error;
struct ls_policy;
struct ls_set;
struct ls_warnings;

/* What a policy may hold, so that a wrong file fails at once and not when memory runs out. */
#define LS_POLICY_BYTES_MAX (128UL << 20) /* the document: 4 M entries printed inline are 90 MB */
#define LS_LIST_BYTES_MAX (1UL << 30)	  /* one list file */
#define LS_ENTRIES_MAX (4UL << 20)	  /* entries of all sets and lists together */
#define LS_SETS_MAX 1024		  /* four times the combinations that lists may make */
#define LS_NATS_MAX 1024		  /* the same for entries of `nat` */
#define LS_MEMBERS_MAX (1UL << 20) /* entries of one `allow`, `deny`, `to`, `from` or `sources` */

/*
 * Where the files of sets come from. A saved policy brings the contents that it was saved with.
 */
struct ls_policy_files {
	void *context;
	/*
	 * The bytes of `file`, as the policy spells it: *ret_bytes is malloc'ed and goes to the
	 * reader. Returns 0, or negative with a line in `error`.
	 */
	int (*read)(void *context, const char *file, char **ret_bytes, size_t *ret_length,
		    struct ls_error *error);
	/*
	 * When not NULL, asked instead of `read`: fills in entries (sorted, without duplicates),
	 * sha256 and skipped of a set whose name, file and skip_errors are there already.
	 */
	int (*fill)(void *context, struct ls_set *set, struct ls_error *error);
};

/* All that can be said about a reading; zero is the default of every member. */
struct ls_policy_source {
	const char *name;  /* shown in messages and the directory that list files are relative to */
	const char *bytes; /* the document; NULL: read the file `name` */
	size_t length;
	const struct ls_policy_files *files; /* NULL: the file system */
	struct ls_warnings *warnings; /* what the reader alone sees: skipped and repeated lines */
};

/*
 * Returns 0 and a policy that the caller frees, or negative with a line in `error` and *ret
 * unchanged.
 */
int ls_policy_read_source(const struct ls_policy_source *source, struct ls_policy **ret,
			  struct ls_error *error);

/* The file at `path`; list files as `files` says, or next to it. */
int ls_policy_read(const char *path, const struct ls_policy_files *files, struct ls_policy **ret,
		   struct ls_error *error);

/* From memory; `name` stands for the file in messages. */
int ls_policy_read_memory(const char *name, const char *bytes, size_t length,
			  const struct ls_policy_files *files, struct ls_policy **ret,
			  struct ls_error *error);

#endif
