/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/internal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
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
	if (text[0] == '\0')
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

/* The file of a lock of the instance, opened; negative with a line. */
static int open_lock(const char *instance, const char *suffix, struct ls_error *error)
{
	char path[LS_PLANE_RUN_PATH];
	const int r = ls_plane_run_make(error);

	if (r < 0)
		return r;
	ls_plane_run_path(instance, suffix, path);
	const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? ls_error_set_errno(error, errno, "cannot open the lock '%s'", path) : fd;
}

int ls_lock_journal(const char *instance)
{
	_cleanup_close_ int fd = open_lock(instance, "journal", NULL);

	if (fd < 0)
		return fd;
	for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
		if ((errno != EWOULDBLOCK && errno != EINTR) || i == LS_JOURNAL_TRIES)
			return -EBUSY;
		nanosleep(&(struct timespec){ .tv_nsec = LS_JOURNAL_PAUSE_NS }, NULL);
	}
	return TAKE_FD(fd);
}

int ls_lock_take(const char *instance, struct ls_error *error)
{
	_cleanup_close_ int fd = open_lock(instance, "lock", error);
	char holder[32];
	const uint64_t deadline_ns = ls_now_monotonic() + LS_LOCK_WAIT_NS;

	if (fd < 0)
		return fd;
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return ls_error_set_errno(error, errno, "cannot lock instance '%s'",
						  instance);
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
	if (ftruncate(fd, 0) == 0)
		dprintf(fd, "%d\n", getpid());
	return TAKE_FD(fd);
}
