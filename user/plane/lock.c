/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/internal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "user/base/error.h"

/*
 * One lock per instance and network namespace, in /run because it means nothing after a reboot. flock()
 * goes with the file descriptor, so a killed holder never leaves one behind; the pid in the file is only
 * for the message.
 *
 * The file goes with the instance: whoever holds the lock of an instance that is not there (any more) removes it. So
 * a lock that was got counts only if its file still has its name; else somebody removed it meanwhile, and the next
 * one may hold another file already.
 */
#define LS_LOCK_DIRECTORY "/run/loadshed"
#define LS_LOCK_WAIT_NS 5000000000ULL
#define LS_LOCK_PAUSE_NS 20000000L
#define LS_JOURNAL_TRIES 100
#define LS_JOURNAL_PAUSE_NS 1000000L

static void holder_of(int fd, char text[static 32])
{
	ssize_t length = pread(fd, text, 31, 0);

	text[length > 0 ? length : 0] = '\0';
	text[strspn(text, "0123456789")] = '\0';
	/* Who locks it where nothing can be written leaves the name of the one before. */
	if (text[0] == '\0' || (kill((pid_t)strtol(text, NULL, 10), 0) < 0 && errno == ESRCH))
		snprintf(text, 32, "unknown");
}

void ls_plane_run_path(const char *instance, const char *suffix,
		       char ret_path[static LS_PLANE_RUN_PATH])
{
	snprintf(ret_path, LS_PLANE_RUN_PATH, "%s/%s@%" PRIu64 ".%s", LS_LOCK_DIRECTORY, instance,
		 ls_netns_inode(), suffix);
}

int ls_plane_run_make(struct ls_error *error)
{
	if (mkdir(LS_LOCK_DIRECTORY, 0700) < 0 && errno != EEXIST)
		return ls_error_set_errno(error, errno, "cannot make '%s'", LS_LOCK_DIRECTORY);
	return 0;
}

static bool has_name(int fd, const char *path)
{
	struct stat held, named;

	return fstat(fd, &held) == 0 && lstat(path, &named) == 0 && held.st_dev == named.st_dev &&
	       held.st_ino == named.st_ino;
}

/* One try: 1 with the lock, 0 when somebody else has it or took its file away, or negative with a line. */
static int try_lock(const char *path, int *ret_fd, struct ls_error *error)
{
	const int r = ls_plane_run_make(error);

	if (r < 0)
		return r;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	/* On a disk that can only be read (a fault often makes it so, and `panic` has to work then) the lock of an
	 * instance is there already, and reading is enough to lock it. */
	if (fd < 0 && errno == EROFS) {
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		errno = fd < 0 ? EROFS : errno;
	}
	if (fd < 0)
		return ls_error_set_errno(error, errno, "cannot open the lock '%s'", path);
	*ret_fd = fd;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return has_name(fd, path);
	if (errno != EWOULDBLOCK && errno != EINTR)
		return ls_error_set_errno(error, errno, "cannot lock '%s'", path);
	return 0;
}

int ls_lock_journal(const char *instance)
{
	char path[LS_PLANE_RUN_PATH];

	ls_plane_run_path(instance, "journal", path);
	for (int i = 0; i < LS_JOURNAL_TRIES; i++) {
		_cleanup_close_ int fd = -1;
		const int r = try_lock(path, &fd, NULL);
		if (r < 0)
			return r;
		if (r > 0)
			return TAKE_FD(fd);
		nanosleep(&(struct timespec){ .tv_nsec = LS_JOURNAL_PAUSE_NS }, NULL);
	}
	return -EBUSY;
}

int ls_lock_take(const char *instance, struct ls_error *error)
{
	char path[LS_PLANE_RUN_PATH], holder[32];
	const uint64_t deadline_ns = ls_now_monotonic() + LS_LOCK_WAIT_NS;

	ls_plane_run_path(instance, "lock", path);
	for (;;) {
		_cleanup_close_ int fd = -1;
		const int r = try_lock(path, &fd, error);
		if (r < 0)
			return r;
		if (r > 0) {
			if (ftruncate(fd, 0) == 0)
				dprintf(fd, "%d\n", getpid());
			return TAKE_FD(fd);
		}
		if (ls_now_monotonic() > deadline_ns) {
			holder_of(fd, holder);
			ls_error_set(
				error,
				"cannot lock instance '%s': process %s has held it for more than 5 s; wait for it or end it",
				instance, holder);
			return -EBUSY;
		}
		nanosleep(&(struct timespec){ .tv_nsec = LS_LOCK_PAUSE_NS }, NULL);
	}
}

void ls_lock_remove(const char *instance)
{
	char path[LS_PLANE_RUN_PATH];

	ls_plane_run_path(instance, "lock", path);
	(void)unlink(path);
	ls_plane_run_path(instance, "journal", path);
	(void)unlink(path);
}
