/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/link.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "user/base/error.h"
#include "user/policy/check.h"

/* What a driver without frames of several buffers takes: a page less headroom and tail (veth: 3506). */
#define SINGLE_BUFFER_MTU 3498

void ls_target_init(struct ls_target *target)
{
	memset(target, 0, sizeof(*target));
	target->foreign_fd = -1;
	target->link_fd = -1;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void ls_target_fini(struct ls_target *target)
{
	close_fd(&target->foreign_fd);
	close_fd(&target->link_fd);
}

int ls_link_info(int link_fd, uint32_t *ret_ifindex, uint32_t *ret_link_id,
		 uint32_t *ret_program_id)
{
	struct bpf_link_info info = { 0 };
	__u32 length = sizeof(info);

	if (bpf_obj_get_info_by_fd(link_fd, &info, &length) < 0)
		return -errno;
	*ret_ifindex = info.xdp.ifindex;
	*ret_link_id = info.id;
	*ret_program_id = info.prog_id;
	return 0;
}

static bool runs_there(const struct bpf_xdp_query_opts *query, uint32_t program_id)
{
	return query->prog_id == program_id || query->drv_prog_id == program_id ||
	       query->skb_prog_id == program_id || query->hw_prog_id == program_id;
}

bool ls_link_is_here(int link_fd, uint32_t ifindex)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, query);
	uint32_t at = 0, link_id = 0, program_id = 0;

	/* An upgrade may come between the two questions; not twice. */
	for (int i = 0; i < 2; i++) {
		if (ls_link_info(link_fd, &at, &link_id, &program_id) < 0 || at != ifindex ||
		    !program_id)
			return false;
		const int r = bpf_xdp_query((int)ifindex, 0, &query);
		if (r == 0 && runs_there(&query, program_id))
			return true;
		if (r < 0 && r != -ENODEV && r != -ENXIO)
			return true; /* not to be asked: nothing speaks against it */
	}
	return false;
}

static const char *const mode_names[] = {
	[LS_PLANE_AUTO] = "auto",
	[LS_PLANE_NATIVE] = "native",
	[LS_PLANE_GENERIC] = "generic",
};
_Static_assert(sizeof(mode_names) / sizeof(mode_names[0]) == LS_PLANE_MODE_MAX, "one name each");

const char *ls_plane_mode_name(enum ls_plane_mode mode)
{
	return mode < LS_PLANE_MODE_MAX ? mode_names[mode] : "unknown";
}

enum ls_plane_mode ls_plane_mode_parse(const char *text)
{
	unsigned mode = 0;

	while (mode < LS_PLANE_MODE_MAX && strcmp(text, mode_names[mode]) != 0)
		mode++;
	return (enum ls_plane_mode)mode;
}

static __u32 mode_flags(enum ls_plane_mode mode)
{
	return mode == LS_PLANE_GENERIC ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE;
}

/* " (held by process 12, 34)" for the processes that have the link open; "" when none is seen. */
static void holders_of(uint32_t link_id, char *text, size_t size)
{
	DIR *processes = opendir("/proc");
	const struct dirent *entry;
	char wanted[32];
	size_t used = 0;

	text[0] = '\0';
	snprintf(wanted, sizeof(wanted), "link_id:\t%u\n", link_id);
	while (processes && (entry = readdir(processes))) {
		char path[64];
		const struct dirent *fd;
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/%.16s/fdinfo", entry->d_name);
		DIR *fds = opendir(path);
		while (fds && (fd = readdir(fds)) && used < size) {
			char content[1024];
			if (fd->d_name[0] == '.')
				continue;
			_cleanup_close_ int file =
				openat(dirfd(fds), fd->d_name, O_RDONLY | O_CLOEXEC);
			const ssize_t length = file < 0 ? -1
							: read(file, content, sizeof(content) - 1);
			content[length > 0 ? length : 0] = '\0';
			if (!strstr(content, wanted))
				continue;
			used += (size_t)snprintf(text + used, size - used, "%s %s",
						 used ? "," : " (held by process", entry->d_name);
			break;
		}
		if (fds)
			closedir(fds);
	}
	if (processes)
		closedir(processes);
	if (used && used < size)
		snprintf(text + used, size - used, ")");
}

static int refuse_foreign(const struct ls_target *target, struct ls_error *error)
{
	const struct ls_resident *foreign = &target->foreign;
	const char *name = foreign->program_name[0] ? foreign->program_name : "unnamed";
	const char *mode = foreign->mode == LS_PLANE_MODE_MAX ? "offloaded"
							      : ls_plane_mode_name(foreign->mode);
	char holders[128];

	if (!foreign->link_id && foreign->mode != LS_PLANE_MODE_MAX) {
		ls_error_set(
			error,
			"cannot attach to '%s': XDP program '%s' (id %u) is attached there by netlink, %s; detach it with 'ip link set %s %s off' or take over with --replace",
			target->device.name, name, foreign->program_id, mode, target->device.name,
			foreign->mode == LS_PLANE_GENERIC ? "xdpgeneric" : "xdpdrv");
		return -EBUSY;
	}
	if (!foreign->link_id) {
		ls_error_set(
			error,
			"cannot attach to '%s': XDP program '%s' (id %u) is offloaded to the device; 'ip link set %s xdpoffload off' detaches it",
			target->device.name, name, foreign->program_id, target->device.name);
		return -EBUSY;
	}
	holders_of(foreign->link_id, holders, sizeof(holders));
	ls_error_set(
		error,
		"cannot attach to '%s': XDP program '%s' (id %u) is attached there by BPF link %u%s, %s; its owner must let go, or take over with --replace",
		target->device.name, name, foreign->program_id, foreign->link_id, holders, mode);
	return -EBUSY;
}

int ls_target_check(struct ls_target *target, const char *root, bool replace,
		    struct ls_error *error)
{
	char instance[LS_NAME_BYTES];
	int r = ls_device_check(&target->device, error);

	if (r < 0)
		return r;
	r = ls_device_resident(target->device.ifindex, &target->foreign);
	if (r < 0)
		return ls_error_set_errno(error, -r, "cannot see what is attached to '%s'",
					  target->device.name);
	if (!target->foreign.program_id)
		return 0;
	if (ls_program_is_ours(target->foreign.program_name) &&
	    ls_pins_find_owner(root, target->device.ifindex, instance)) {
		ls_error_set(
			error,
			"cannot attach to '%s': instance '%s' is attached there; 'loadshed -I %s detach %s' lets go",
			target->device.name, instance, instance, target->device.name);
		return -EBUSY;
	}
	if (!replace || target->foreign.mode == LS_PLANE_MODE_MAX)
		return refuse_foreign(target, error);
	return 0;
}

static int put_aside(struct ls_target *target, struct ls_error *error)
{
	const struct ls_resident *foreign = &target->foreign;
	int r;

	if (!foreign->program_id)
		return 0;
	target->foreign_fd = bpf_prog_get_fd_by_id(foreign->program_id);
	if (target->foreign_fd < 0)
		return ls_error_set_errno(error, errno, "cannot take over from program %u on '%s'",
					  foreign->program_id, target->device.name);
	if (foreign->link_id) {
		_cleanup_close_ int fd = bpf_link_get_fd_by_id(foreign->link_id);
		r = fd < 0 || bpf_link_detach(fd) < 0 ? -errno : 0;
	} else {
		LIBBPF_OPTS(bpf_xdp_attach_opts, opts, .old_prog_fd = target->foreign_fd);
		r = bpf_xdp_detach((int)target->device.ifindex, mode_flags(foreign->mode), &opts);
	}
	if (r < 0)
		return ls_error_set_errno(error, -r, "cannot detach program '%s' (id %u) from '%s'",
					  foreign->program_name, foreign->program_id,
					  target->device.name);
	target->is_put_aside = true;
	return 0;
}

/* By netlink in either case: a link that was detached cannot be brought back. */
static void put_back(struct ls_target *target)
{
	if (!target->is_put_aside)
		return;
	(void)bpf_xdp_attach((int)target->device.ifindex, target->foreign_fd,
			     mode_flags(target->foreign.mode) | XDP_FLAGS_UPDATE_IF_NOEXIST, NULL);
	target->is_put_aside = false;
}

void ls_target_undo(struct ls_target *target)
{
	if (target->is_attached)
		return;
	if (target->link_fd >= 0)
		bpf_link_detach(target->link_fd);
	close_fd(&target->link_fd);
	put_back(target);
}

/* Which of the known troubles an errno and the kernel's text point to. */
static bool is_about(const char *said, const char *word)
{
	return strcasestr(said, word) != NULL;
}

static void name_driver(const struct ls_device *device, char *text, size_t size)
{
	if (device->driver[0])
		snprintf(text, size, "driver '%s'", device->driver);
	else
		snprintf(text, size, "its driver");
}

int ls_target_explain(const struct ls_device *device, enum ls_plane_mode mode, int code,
		      const char *said, struct ls_error *error)
{
	const bool is_native = mode != LS_PLANE_GENERIC;
	char driver[48];
	const char *colon = said[0] ? "; the kernel says: " : "";
	uint32_t now = 0, most = 0;

	name_driver(device, driver, sizeof(driver));
	if (is_native && (code == ENOMEM || is_about(said, "queue") || is_about(said, "ring") ||
			  is_about(said, "channel"))) {
		if (!ls_device_queues(device, &now, &most))
			return ls_error_set_errno(
				error, code,
				"cannot attach to '%s': %s wants more queues for native mode than it has; give it more with 'ethtool -L %s combined N', or use --mode generic%s%s",
				device->name, driver, device->name, colon, said);
		return ls_error_set_errno(
			error, code,
			"cannot attach to '%s': %s wants more queues for native mode (now %u of at most %u); try 'ethtool -L %s combined %u', or use --mode generic%s%s",
			device->name, driver, now, most, device->name, most > now ? most : now,
			colon, said);
	}
	if (is_native &&
	    (is_about(said, "mtu") || is_about(said, "frags") || code == ERANGE ||
	     (device->mtu > SINGLE_BUFFER_MTU && (code == EINVAL || code == EOPNOTSUPP) &&
	      !is_about(said, "does not support XDP"))))
		return ls_error_set_errno(
			error, code,
			"cannot attach to '%s': its MTU of %u%s is more than %s takes in native mode here, about %u; 'ip link set %s mtu 1500' or --mode generic helps%s%s",
			device->name, device->mtu,
			strcmp(device->driver, "veth") == 0 ? " (or its peer's)" : "", driver,
			SINGLE_BUFFER_MTU, device->name, colon, said);
	if (is_native && code == EOPNOTSUPP)
		return ls_error_set_errno(
			error, code,
			"cannot attach to '%s': %s has no native mode; --mode auto or generic attaches above it, slower%s%s",
			device->name, driver, colon, said);
	if (code == EPERM)
		return ls_error_set_errno(
			error, code, "cannot attach to '%s'; run as root, or with CAP_NET_ADMIN",
			device->name);
	if (code == EBUSY || code == EEXIST)
		return ls_error_set_errno(
			error, code,
			"cannot attach to '%s': another XDP program came or is on a device above or below it; 'ip -d link show %s' shows it%s%s",
			device->name, device->name, colon, said);
	return ls_error_set_errno(error, code, "cannot attach to '%s' in %s mode (%s, MTU %u)%s%s",
				  device->name, is_native ? "native" : "generic", driver,
				  device->mtu, colon, said);
}

/*
 * The kernel's text about a refusal comes by netlink only, so the same is tried once more that way. Should that
 * succeed, it is undone.
 */
static void ask_why(const struct ls_target *target, int program_fd, __u32 flags)
{
	const int ifindex = (int)target->device.ifindex;

	ls_said_clear();
	if (bpf_xdp_attach(ifindex, program_fd, flags | XDP_FLAGS_UPDATE_IF_NOEXIST, NULL) == 0) {
		LIBBPF_OPTS(bpf_xdp_attach_opts, opts, .old_prog_fd = program_fd);
		(void)bpf_xdp_detach(ifindex, flags, &opts);
	}
}

static int create_link(struct ls_target *target, int program_fd, enum ls_plane_mode mode)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = mode_flags(mode));
	uint32_t ifindex, program_id;
	const int fd = bpf_link_create(program_fd, (int)target->device.ifindex, BPF_XDP, &opts);

	if (fd < 0)
		return -errno;
	target->link_fd = fd;
	target->mode = mode == LS_PLANE_GENERIC ? LS_PLANE_GENERIC : LS_PLANE_NATIVE;
	return ls_link_info(fd, &ifindex, &target->link_id, &program_id);
}

int ls_target_attach(struct ls_target *target, int program_fd, enum ls_plane_mode mode,
		     struct ls_warnings *notes, struct ls_error *error)
{
	const char *name = target->device.name;
	char driver[48];
	int r = put_aside(target, error);

	if (r < 0)
		return r;
	r = create_link(target, program_fd, mode);
	if (r < 0)
		ask_why(target, program_fd, mode_flags(mode));
	if (r == -EOPNOTSUPP && mode == LS_PLANE_AUTO) {
		r = create_link(target, program_fd, LS_PLANE_GENERIC);
		if (r == 0) {
			target->fell_back = true;
			name_driver(&target->device, driver, sizeof(driver));
			ls_warnings_add(
				notes,
				"%s: %s has no native mode, so generic mode is used: slower, and merged packets count as one",
				name, driver);
			return 0;
		}
		mode = LS_PLANE_GENERIC;
	}
	if (r < 0) {
		ls_target_explain(&target->device, mode, -r, ls_said(), error);
		ls_target_undo(target);
		return r;
	}
	if (target->mode == LS_PLANE_GENERIC)
		ls_warnings_add(
			notes, "%s: generic mode is slower, and merged packets count as one", name);
	return 0;
}
