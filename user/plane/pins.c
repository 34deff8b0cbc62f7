/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/internal.h"

/*
 * Where state is kept so that the next process finds it: a directory of bpffs.
 *
 * `ip netns exec` gives its command a mount namespace of its own with a fresh /sys, in which nothing is
 * mounted and which goes away with the command. So when /sys/fs/bpf is no bpffs here, that of process 1 is
 * taken, through its root link in /proc; and where that is not ours to look through (containers, hidepid,
 * security modules), that of the nearest ancestor that lives in another mount namespace, which is the shell
 * from which `ip netns exec` was called.
 */

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <linux/magic.h>

#include "user/base/error.h"
#include "user/base/process.h"

#define BPFFS "/sys/fs/bpf"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

static inline void cleanup_dir(DIR **directory)
{
	if (*directory)
		closedir(*directory);
}
#define _cleanup_dir_ _cleanup_(cleanup_dir)

static bool is_bpffs(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && fs.f_type == BPF_FS_MAGIC;
}

/* Identity of a process's namespace: its inode; 0 when it may not be looked at. */
static uint64_t namespace_inode(pid_t pid, const char *kind)
{
	char path[64];
	struct stat status;

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, kind);
	return stat(path, &status) == 0 ? status.st_ino : 0;
}

uint64_t ls_netns_inode(void)
{
	return namespace_inode(getpid(), "net");
}

uint64_t ls_netns_cookie(void)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t cookie = 0;
	socklen_t length = sizeof(cookie);

	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &length) < 0)
		return 0;
	return cookie;
}

uint64_t ls_netns_inode_oldest(void)
{
	/* Asked once: a process that lives long loses its ancestors, and what was saved must be found where it was. */
	static uint64_t known;

	if (known)
		return known;
	uint64_t oldest = ls_netns_inode();
	pid_t pid = getpid();

	for (int i = 0; i < LS_ANCESTORS_MAX && (pid = ls_process_parent(pid)) > 0; i++) {
		const uint64_t inode = namespace_inode(pid, "net");
		oldest = inode ? inode : oldest;
	}
	known = oldest;
	return oldest;
}

/* The process whose mount namespace outlives ours: 1, or the nearest ancestor in another, with bpffs if there is one; 0: none. */
static pid_t outer_process(void)
{
	const uint64_t own = namespace_inode(getpid(), "mnt");
	const uint64_t first = namespace_inode(1, "mnt");
	pid_t pid = getpid(), nearest = 0;

	if (first)
		return first == own ? 0 : 1;
	for (int i = 0; i < LS_ANCESTORS_MAX && pid > 1; i++) {
		pid = ls_process_parent(pid);
		const uint64_t inode = pid > 1 ? namespace_inode(pid, "mnt") : 0;
		if (!inode || inode == own)
			continue;
		/* `unshare -m` in `ip netns exec`: the nearest has no bpffs either. */
		char path[64];
		snprintf(path, sizeof(path), "/proc/%d/root" BPFFS, pid);
		if (is_bpffs(path))
			return pid;
		nearest = nearest ? nearest : pid;
	}
	return nearest;
}

/* Mounts bpffs at its usual place in the mount namespace of `pid`; 0: in ours. Negative errno. */
static int mount_bpffs(pid_t pid)
{
	int status = 0;

	if (!pid)
		return mount("bpffs", BPFFS, "bpf", 0, "mode=700") < 0 ? -errno : 0;
	/* A process of its own: joining a namespace is for good. */
	const pid_t child = fork();
	if (child < 0)
		return -errno;
	if (child == 0) {
		char path[64];
		snprintf(path, sizeof(path), "/proc/%d/ns/mnt", pid);
		const int fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || setns(fd, CLONE_NEWNS) < 0)
			_exit(errno);
		if (!is_bpffs(BPFFS) && mount("bpffs", BPFFS, "bpf", 0, "mode=700") < 0)
			_exit(errno);
		_exit(0);
	}
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

bool ls_pins_bpffs(char ret_path[static PATH_MAX], bool *ret_is_here)
{
	snprintf(ret_path, PATH_MAX, BPFFS);
	*ret_is_here = is_bpffs(ret_path);
	if (*ret_is_here)
		return true;
	const pid_t outer = outer_process();
	if (outer)
		snprintf(ret_path, PATH_MAX, "/proc/%d/root" BPFFS, outer);
	return outer && is_bpffs(ret_path);
}

int ls_pins_root(bool create, char ret_root[static PATH_MAX], struct ls_error *error)
{
	char path[PATH_MAX];
	bool is_here = false;
	struct statvfs fs;

	if (!ls_pins_bpffs(path, &is_here)) {
		if (!create)
			return LS_PLANE_E_ABSENT;
		const int r = mount_bpffs(outer_process());
		if (r == -EPERM)
			return ls_error_set_errno(
				error, EPERM,
				"cannot mount bpffs, which keeps the state, at '%s'; run as root",
				path);
		if (r < 0)
			return ls_error_set_errno(
				error, -r,
				"cannot mount bpffs, which keeps the state, at '%s'; mount it with 'mount -t bpf bpffs %s'",
				path, BPFFS);
	}
	if ((size_t)snprintf(ret_root, PATH_MAX, "%s/loadshed", path) >= PATH_MAX)
		return ls_error_set(error, "the path of the pins gets too long below '%s'", path);
	if (!create)
		return access(ret_root, F_OK) == 0 ? 0 : LS_PLANE_E_ABSENT;
	if (statvfs(path, &fs) == 0 && fs.f_flag & ST_RDONLY) {
		ls_error_set(
			error,
			"cannot keep state in '%s': it is mounted read-only; nothing was attached; 'mount -o remount,rw %s' helps",
			path, path);
		return -EROFS;
	}
	if (mkdir(ret_root, 0700) < 0 && errno != EEXIST)
		return ls_error_set_errno(error, errno, "cannot make '%s'", ret_root);
	return 0;
}

/*
 * Moves this process into the mount namespace that has bpffs, where it stays in sight when the process through which it
 * was found has ended, and without the right to look at others. Only where the rest is the same file system, as with
 * `ip netns exec`. The working directory becomes the root.
 */
static void move_to_bpffs(pid_t outer)
{
	char path[64];
	struct stat here, there;

	snprintf(path, sizeof(path), "/proc/%d/root/", outer);
	if (stat("/", &here) < 0 || stat(path, &there) < 0 || here.st_dev != there.st_dev ||
	    here.st_ino != there.st_ino)
		return;
	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", outer);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		(void)setns(fd, CLONE_NEWNS);
}

int ls_plane_prepare(bool create, struct ls_error *error)
{
	char root[PATH_MAX], path[PATH_MAX];
	bool is_here = false;
	const int r = ls_pins_root(create, root, error);

	(void)ls_netns_inode_oldest();
	if (ls_pins_bpffs(path, &is_here) && !is_here)
		move_to_bpffs(outer_process());
	return r < 0 ? r : 0;
}

bool ls_plane_looks_outside(void)
{
	char path[PATH_MAX];
	bool is_here = false;

	return !ls_pins_bpffs(path, &is_here) || !is_here;
}

int ls_pins_path(const char *root, const char *instance, const char *suffix,
		 char ret_path[static PATH_MAX], struct ls_error *error)
{
	const uint64_t inode = ls_netns_inode();
	const int length =
		snprintf(ret_path, PATH_MAX, "%s/%s@%" PRIu64 "%s", root, instance, inode, suffix);

	if (!inode)
		return ls_error_set(
			error,
			"cannot tell which network namespace this is, as /proc does not say; mount it with 'mount -t proc proc /proc'");
	if (length < 0 || length >= PATH_MAX - 64) /* room for a pin's name */
		return ls_error_set(error, "the path of the pins gets too long below '%s'", root);
	return 0;
}

int ls_pins_remove(const char *directory)
{
	_cleanup_dir_ DIR *list = opendir(directory);
	const struct dirent *entry;
	int result = 0;

	if (!list)
		return errno == ENOENT ? 0 : -errno;
	/* Links first: what is half taken apart must not go on judging packets. */
	for (int pass = 0; pass < 2; pass++) {
		rewinddir(list);
		while ((entry = readdir(list))) {
			if (entry->d_name[0] == '.')
				continue;
			if (pass == 0 && strncmp(entry->d_name, "link_", 5) != 0)
				continue;
			if (unlinkat(dirfd(list), entry->d_name, 0) < 0 && errno != ENOENT)
				result = -errno;
		}
	}
	if (rmdir(directory) < 0 && errno != ENOENT && result == 0)
		result = -errno;
	return result;
}

int ls_pins_repair(const char *root, const char *instance, struct ls_error *error)
{
	char path[PATH_MAX], fresh[PATH_MAX], old[PATH_MAX];
	int r;

	if (ls_pins_path(root, instance, "", path, error) < 0 ||
	    ls_pins_path(root, instance, "@new", fresh, error) < 0 ||
	    ls_pins_path(root, instance, "@old", old, error) < 0)
		return -ENAMETOOLONG;
	/* Killed between the two renames of an exchange: the new one is whole, and what runs. */
	if (access(path, F_OK) < 0 && access(old, F_OK) == 0 && access(fresh, F_OK) == 0 &&
	    rename(fresh, path) < 0)
		return ls_error_set_errno(error, errno, "cannot rename '%s'", fresh);
	r = ls_pins_remove(fresh);
	if (r == 0)
		r = ls_pins_remove(old);
	if (r < 0)
		return ls_error_set_errno(
			error, -r, "cannot clear what an ended process left of instance '%s'",
			instance);
	return 0;
}

/* Whether some process or mount holds the network namespace. */
static bool netns_is_alive(uint64_t inode)
{
	_cleanup_dir_ DIR *processes = opendir("/proc");
	_cleanup_fclose_ FILE *mounts = fopen("/proc/self/mountinfo", "re");
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	char wanted[64];
	const struct dirent *entry;

	if (!processes || !mounts)
		return true;
	snprintf(wanted, sizeof(wanted), " net:[%" PRIu64 "] ", inode);
	while (getline(&line, &size, mounts) > 0)
		if (strstr(line, wanted))
			return true;
	while ((entry = readdir(processes))) {
		const int pid = atoi(entry->d_name);
		if (pid > 0 && namespace_inode(pid, "net") == inode)
			return true;
	}
	return false;
}

/* Whether at least one link is pinned there and none of them has its device any more. */
static bool all_links_are_dead(const char *directory)
{
	_cleanup_dir_ DIR *list = opendir(directory);
	const struct dirent *entry;
	unsigned links = 0;

	if (!list)
		return false;
	while ((entry = readdir(list))) {
		struct bpf_link_info info = { 0 };
		__u32 length = sizeof(info);
		if (strncmp(entry->d_name, "link_", 5) != 0)
			continue;
		_cleanup_close_ int fd =
			ls_pins_get_link(directory, (uint32_t)strtoul(entry->d_name + 5, NULL, 10));
		if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &length) < 0 || info.xdp.ifindex)
			return false;
		links++;
	}
	return links > 0;
}

void ls_pins_collect(const char *root)
{
	_cleanup_dir_ DIR *list = opendir(root);
	const struct dirent *entry;

	while (list && (entry = readdir(list))) {
		char path[PATH_MAX];
		const char *at = strchr(entry->d_name, '@');
		const uint64_t inode = at ? strtoull(at + 1, NULL, 10) : 0;
		if (!inode || inode == ls_netns_inode() ||
		    (size_t)snprintf(path, sizeof(path), "%s/%s", root, entry->d_name) >=
			    sizeof(path))
			continue;
		if (all_links_are_dead(path) && !netns_is_alive(inode))
			(void)ls_pins_remove(path); /* garbage of others: it may stay */
	}
}

bool ls_pins_find_owner(const char *root, uint32_t ifindex, char ret_instance[static LS_NAME_BYTES])
{
	_cleanup_dir_ DIR *list = opendir(root);
	const struct dirent *entry;

	while (list && (entry = readdir(list))) {
		char *end = NULL;
		const char *at = strchr(entry->d_name, '@');
		if (!at || strtoull(at + 1, &end, 10) != ls_netns_inode() || *end != '\0' ||
		    at - entry->d_name >= LS_NAME_BYTES)
			continue;
		char path[PATH_MAX];
		if ((size_t)snprintf(path, sizeof(path), "%s/%s/link_%u", root, entry->d_name,
				     ifindex) >= sizeof(path) ||
		    access(path, F_OK) < 0)
			continue;
		snprintf(ret_instance, LS_NAME_BYTES, "%.*s", (int)(at - entry->d_name),
			 entry->d_name);
		return true;
	}
	return false;
}

int ls_pins_add_maps(const struct ls_plane *plane, const char *directory, struct ls_error *error)
{
	char path[PATH_MAX + 64];

	for (int map = 0; map < LS_MAP_MAX; map++) {
		if (plane->maps[map].fd < 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", directory, ls_map_name(map));
		if (bpf_obj_pin(plane->maps[map].fd, path) < 0 && errno != EEXIST)
			return ls_error_set_errno(error, errno, "cannot pin map '%s' at '%s'",
						  ls_map_name(map), path);
	}
	return 0;
}

static void link_path(const char *directory, uint32_t ifindex, char path[static PATH_MAX + 64])
{
	snprintf(path, PATH_MAX + 64, "%s/link_%u", directory, ifindex);
}

int ls_pins_add_link(int link_fd, const char *directory, uint32_t ifindex, struct ls_error *error)
{
	char path[PATH_MAX + 64];

	link_path(directory, ifindex, path);
	if (bpf_obj_pin(link_fd, path) < 0)
		return ls_error_set_errno(error, errno, "cannot pin the link at '%s'", path);
	return 0;
}

int ls_pins_get_link(const char *directory, uint32_t ifindex)
{
	char path[PATH_MAX + 64];

	link_path(directory, ifindex, path);
	const int fd = bpf_obj_get(path);
	return fd < 0 ? -errno : fd;
}

int ls_pins_remove_link(const char *directory, uint32_t ifindex)
{
	char path[PATH_MAX + 64];

	link_path(directory, ifindex, path);
	return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

bool ls_pins_next_link(const char *directory, uint32_t *ret_ifindex)
{
	_cleanup_dir_ DIR *list = opendir(directory);
	const struct dirent *entry;

	while (list && (entry = readdir(list))) {
		if (strncmp(entry->d_name, "link_", 5) != 0)
			continue;
		*ret_ifindex = (uint32_t)strtoul(entry->d_name + 5, NULL, 10);
		return true;
	}
	return false;
}
