/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "user/base/cleanup.h"
#include "user/base/error.h"

/* What a pipe is asked for at a time; a regular file is asked for its whole size first. */
#define READ_CHUNK 65536U

/* How the name of a temporary file begins; the pid of its writer follows. */
#define TEMPORARY ".ls-"

static int read_all(int fd, const char *path, size_t expected, size_t max_bytes, char **ret_bytes,
		    size_t *ret_length, struct ls_error *error)
{
	_cleanup_free_ char *bytes = NULL;
	size_t length = 0, capacity = expected + 2; /* a byte to see the end, and the NUL */

	bytes = malloc(capacity);
	if (!bytes)
		return ls_error_oom(error);
	for (;;) {
		ssize_t got;

		if (length + 1 == capacity) {
			char *larger;

			capacity = 2 * capacity + READ_CHUNK;
			larger = realloc(bytes, capacity);
			if (!larger)
				return ls_error_oom(error);
			bytes = larger;
		}
		got = read(fd, bytes + length, capacity - 1 - length);
		if (got < 0) {
			if (errno == EINTR)
				continue;
			return ls_error_set_errno(error, errno, "cannot read '%s'", path);
		}
		if (got == 0)
			break;
		length += (size_t)got;
		if (length > max_bytes) {
			ls_error_set(error, "cannot read '%s': it is larger than %zu MiB", path,
				     max_bytes >> 20);
			return -EFBIG;
		}
	}
	bytes[length] = '\0';
	*ret_bytes = TAKE_PTR(bytes);
	*ret_length = length;
	return 0;
}

int ls_file_read(const char *path, size_t max_bytes, char **ret_bytes, size_t *ret_length,
		 struct ls_error *error)
{
	/*
	 * O_NONBLOCK: opening a FIFO that nobody writes to must not hang; reading one then may
	 * wait.
	 */
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat status;

	if (fd < 0)
		return ls_error_set_errno(error, errno, "cannot open '%s'", path);
	if (fstat(fd, &status) < 0)
		return ls_error_set_errno(error, errno, "cannot read '%s'", path);
	if (S_ISDIR(status.st_mode))
		return ls_error_set_errno(error, EISDIR, "cannot read '%s'", path);
	if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode)) {
		ls_error_set(error, "cannot read '%s': it is neither a file nor a pipe", path);
		return -EINVAL;
	}
	if (S_ISREG(status.st_mode) && (uintmax_t)status.st_size > max_bytes) {
		ls_error_set(error, "cannot read '%s': it is larger than %zu MiB", path,
			     max_bytes >> 20);
		return -EFBIG;
	}
	if (S_ISFIFO(status.st_mode) && fcntl(fd, F_SETFL, 0) < 0)
		return ls_error_set_errno(error, errno, "cannot read '%s'", path);
	const int r = read_all(fd, path,
			       S_ISREG(status.st_mode) ? (size_t)status.st_size : READ_CHUNK,
			       max_bytes, ret_bytes, ret_length, error);
	if (r == 0 && S_ISFIFO(status.st_mode) && *ret_length == 0) {
		free(*ret_bytes);
		*ret_bytes = NULL;
		ls_error_set(error, "cannot read '%s': nothing came out of the pipe", path);
		return -ENODATA;
	}
	return r;
}

static int write_all(int fd, const char *bytes, size_t length)
{
	while (length > 0) {
		const ssize_t put = write(fd, bytes, length);

		if (put < 0 && errno != EINTR)
			return -errno;
		if (put > 0) {
			bytes += put;
			length -= (size_t)put;
		}
	}
	return 0;
}

/* Gives the new file what the old one had; the group or owner of somebody else needs root. */
static int keep_owner_and_mode(int fd, const struct stat *old)
{
	struct stat now;

	if (fstat(fd, &now) < 0)
		return -errno;
	if ((now.st_uid != old->st_uid || now.st_gid != old->st_gid) &&
	    fchown(fd, old->st_uid, old->st_gid) < 0)
		return -errno;
	return fchmod(fd, old->st_mode & 07777) < 0 ? -errno : 0;
}

static int sync_directory(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY);

	if (fd < 0)
		return -errno;
	/*
	 * Some file systems cannot sync a directory (EINVAL); then the rename is as safe as it
	 * gets.
	 */
	if (fsync(fd) < 0 && errno != EINVAL)
		return -errno;
	return 0;
}

/* `path` itself, or where its chain of symbolic links ends. The end need not exist. */
static int resolve_links(const char *path, char target[static PATH_MAX])
{
	char link[PATH_MAX];

	if (strlen(path) >= PATH_MAX)
		return -ENAMETOOLONG;
	strcpy(target, path);
	/* 40 is the kernel's own bound (MAXSYMLINKS). */
	for (unsigned followed = 0; followed < 40; followed++) {
		const ssize_t length = readlink(target, link, sizeof(link) - 1);
		const char *slash;
		size_t base;

		if (length < 0)
			return errno == EINVAL || errno == ENOENT ? 0 : -errno;
		link[length] = '\0';
		slash = strrchr(target, '/');
		base = link[0] != '/' && slash ? (size_t)(slash - target) + 1 : 0;
		if (base + (size_t)length >= PATH_MAX)
			return -ENAMETOOLONG;
		memcpy(target + base, link, (size_t)length + 1);
	}
	return -ELOOP;
}

/* Directory of `path` with its slash, or "./". */
static int directory_of(const char *path, char directory[static PATH_MAX])
{
	const char *const slash = strrchr(path, '/');
	const size_t length = slash ? (size_t)(slash - path) + 1 : 2;

	if (length >= PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(directory, slash ? path : "./", length);
	directory[length] = '\0';
	return 0;
}

static int fill_temporary(int fd, const void *bytes, size_t length, const struct stat *old)
{
	int result = old ? keep_owner_and_mode(fd, old) : 0;

	if (result == 0)
		result = write_all(fd, bytes, length);
	if (result == 0 && fsync(fd) < 0)
		result = -errno;
	return result;
}

/*
 * Only of processes that are gone: an instance of the same name in another network namespace writes here,
 * too.
 */
void ls_file_sweep(const char *directory)
{
	DIR *const list = opendir(directory);
	const struct dirent *entry;
	long pid;

	while (list && (entry = readdir(list)))
		if (sscanf(entry->d_name, TEMPORARY "%ld-", &pid) == 1 && pid > 0 &&
		    kill((pid_t)pid, 0) < 0 && errno == ESRCH)
			(void)unlinkat(dirfd(list), entry->d_name,
				       0); /* the next one tries again */
	if (list)
		closedir(list);
}

/*
 * A new file beside the target. A name is only taken when an earlier run of the same pid was
 * killed.
 */
static int open_temporary(const char *directory, mode_t mode, char path[static PATH_MAX])
{
	for (unsigned attempt = 0; attempt < 100; attempt++) {
		const int length = snprintf(path, PATH_MAX, "%s" TEMPORARY "%ld-%u", directory,
					    (long)getpid(), attempt);
		int fd;

		if (length >= PATH_MAX)
			return -ENAMETOOLONG;
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
		if (fd >= 0 || errno != EEXIST)
			return fd >= 0 ? fd : -errno;
	}
	return -EEXIST;
}

/* `path`: for messages. `old`: whose owner and mode the new file gets; NULL: it gets `mode`. */
static int put_in_place(const char *path, const char *target, const struct stat *old,
			const void *bytes, size_t length, mode_t mode, struct ls_error *error)
{
	char directory[PATH_MAX], temporary[PATH_MAX];
	_cleanup_close_ int fd = -1;
	int result = directory_of(target, directory);

	if (result < 0)
		return ls_error_set_errno(error, -result, "cannot write '%s'", path);
	/* An existing file's mode is given later; until then nobody else may look. */
	fd = open_temporary(directory, old ? 0600 : mode, temporary);
	if (fd < 0)
		return ls_error_set_errno(error, -fd, "cannot write '%s': temporary file in '%s'",
					  path, directory);
	result = fill_temporary(fd, bytes, length, old);
	if (result == 0 && rename(temporary, target) < 0)
		result = -errno;
	if (result < 0) {
		unlink(temporary);
		return ls_error_set_errno(error, -result, "cannot write '%s'", path);
	}
	result = sync_directory(directory);
	if (result < 0)
		return ls_error_set_errno(error, -result, "cannot make '%s' durable", path);
	return 0;
}

int ls_file_write(const char *path, const void *bytes, size_t length, mode_t mode,
		  struct ls_error *error)
{
	char target[PATH_MAX];
	struct stat old;
	const int result = resolve_links(path, target);

	if (result < 0)
		return ls_error_set_errno(error, -result, "cannot write '%s'", path);
	const bool exists = lstat(target, &old) == 0;
	if (exists && !S_ISREG(old.st_mode)) {
		ls_error_set(error, "cannot write '%s': it is no regular file", path);
		return S_ISDIR(old.st_mode) ? -EISDIR : -EINVAL;
	}
	return put_in_place(path, target, exists ? &old : NULL, bytes, length, mode, error);
}

int ls_file_replace(const char *path, const void *bytes, size_t length, mode_t mode,
		    struct ls_error *error)
{
	return put_in_place(path, path, NULL, bytes, length, mode, error);
}
