/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/internal.h"

/*
 * Where an instance is saved. One name may be used in every network namespace, and each must find its own
 * again:
 *	/var/lib/loadshed/INSTANCE		the first namespace: the machine's, or the container's
 *	/var/lib/loadshed/INSTANCE/netns/NAME	one that `ip netns` knows as NAME, which is what it is called
 *						after the next boot, too
 *	/run/loadshed/saved/INSTANCE@COOKIE	one without a name: it does not outlive a reboot, and neither
 *						do its files, so that no other namespace can take them for its own
 * A namespace that has several names goes by the first of them in the alphabet. The first namespace is that of
 * process 1; where that may not be looked at, that of our oldest ancestor which may.
 */

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "user/base/error.h"
#include "user/base/file.h"
#include "user/plane/save.h"

#define NAMES "/run/netns"
#define UNNAMED "/run/loadshed/saved"
#define DIRECTORY_MODE 0700

static uint64_t inode_of(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 ? status.st_ino : 0;
}

/* The first name of this network namespace; false: it has none. */
static bool find_name(char ret_name[static NAME_MAX + 1])
{
	const uint64_t own = ls_netns_inode();
	DIR *list = opendir(NAMES);
	const struct dirent *entry;
	bool found = false;

	while (list && (entry = readdir(list))) {
		char path[sizeof(NAMES) + NAME_MAX + 1];
		if (entry->d_name[0] == '.' && (!entry->d_name[1] || entry->d_name[1] == '.'))
			continue;
		snprintf(path, sizeof(path), NAMES "/%s", entry->d_name);
		if (inode_of(path) != own || (found && strcmp(entry->d_name, ret_name) >= 0))
			continue;
		snprintf(ret_name, NAME_MAX + 1, "%s", entry->d_name);
		found = true;
	}
	if (list)
		closedir(list);
	return found;
}

void ls_save_place(const char *instance, char ret_path[static PATH_MAX])
{
	const uint64_t own = ls_netns_inode(), first = inode_of("/proc/1/ns/net");
	char name[NAME_MAX + 1];

	if (first != own && find_name(name))
		snprintf(ret_path, PATH_MAX, LS_SAVE_DIRECTORY "/%s/netns/%s", instance, name);
	else if (first == own || (!first && ls_netns_inode_oldest() == own))
		snprintf(ret_path, PATH_MAX, LS_SAVE_DIRECTORY "/%s", instance);
	else
		snprintf(ret_path, PATH_MAX, UNNAMED "/%s@%" PRIu64, instance, ls_netns_cookie());
}

static int sync_parent(char *path)
{
	char *slash = strrchr(path, '/');

	*slash = '\0';
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*slash = '/';
	return fd >= 0 && (fsync(fd) == 0 || errno == EINVAL) ? 0 : -errno;
}

int ls_save_make_place(const char *instance, struct ls_error *error)
{
	char path[PATH_MAX];
	bool is_last = false;

	ls_save_place(instance, path);
	for (char *at = path + 1; !is_last; at++) {
		at += strcspn(at, "/");
		is_last = *at == '\0';
		*at = '\0';
		const bool is_new = mkdir(path, DIRECTORY_MODE) == 0;
		if ((!is_new && errno != EEXIST) || (is_new && sync_parent(path) < 0))
			return ls_error_set_errno(error, errno, "cannot make '%s'", path);
		if (!is_last)
			*at = '/';
	}
	ls_file_sweep(path);
	return 0;
}
