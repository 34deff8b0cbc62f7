/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BASE_FILE_H
#define LOADSHED_USER_BASE_FILE_H

/*
 * Whole files: read with a bound, written so that a reader or a crash sees the old one or the new
 * one.
 */

#include <stddef.h>
#include <sys/types.h>

struct ls_error;

/*
 * Reads all of a regular file or pipe (so /dev/stdin in a pipeline, too) of at most `max_bytes`.
 * *ret_bytes is owned by the caller and has a NUL after its *ret_length bytes.
 * Returns 0, or a negative errno with a line in `error`: -EISDIR and -EINVAL for what is neither,
 * -EFBIG above the bound, -ENODATA for a pipe that ends without a byte (its writer failed, or a FIFO has none: that is no
 * empty list), and whatever opening and reading give.
 */
int ls_file_read(const char *path, size_t max_bytes, char **ret_bytes, size_t *ret_length,
		 struct ls_error *error);

/*
 * Replaces the contents of `path` at once: temporary file in the same directory, fsync, rename,
 * fsync of the directory. A symbolic link is followed and stays one. An existing file keeps owner
 * and mode; a new one gets `mode`, less the umask. Only regular files are replaced. Returns 0, or a
 * negative errno with a line in `error`; the old file is then whole and the temporary one removed.
 */
int ls_file_write(const char *path, const void *bytes, size_t length, mode_t mode,
		  struct ls_error *error);

/*
 * The same for a file that is the program's own: whatever has its name is replaced, a symbolic link itself and not what it
 * points to, and the new file has `mode`, less the umask, and the caller as owner.
 */
int ls_file_replace(const char *path, const void *bytes, size_t length, mode_t mode,
		    struct ls_error *error);

/* Removes the temporary files that killed writers have left in a directory. */
void ls_file_sweep(const char *directory);

#endif
