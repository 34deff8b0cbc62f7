/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_POLICY_BLOB_H
#define LOADSHED_USER_POLICY_BLOB_H

/*
 * A policy with the contents of its list files as one string of bytes: what is saved and restored
 * at boot, when the files may have gone or changed.
 *
 * Layout, little endian: magic, version, total length; the path that the policy came from; its
 * canonical YAML; for each set with a file its name, sha256, skipped lines and packed entries;
 * SHA-256 of all before. A string that is cut off, longer or changed anywhere is refused, never
 * read as a smaller policy.
 */

#include <stddef.h>

struct ls_buffer;
struct ls_error;
struct ls_policy;

/* Appends the blob. `path` is where the policy came from, for display and reloading; NULL: nowhere.
 * Failure is remembered in the buffer. */
void ls_blob_write(const struct ls_policy *policy, const char *path, struct ls_buffer *buffer);

/*
 * Returns 0, a policy equal to the one that was written and the path (NULL if there was none; the
 * pointer may be NULL if it is not wanted), both owned by the caller; or negative with a line in
 * `error`. `name` says in messages what was read.
 */
int ls_blob_read(const char *name, const void *bytes, size_t length, struct ls_policy **ret,
		 char **ret_path, struct ls_error *error);

#endif
