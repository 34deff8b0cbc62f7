/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/internal.h"

/*
 * What an interface is and what is on it already. Everything is asked of the kernel through netlink and
 * ioctl, never through /sys, which `ip netns exec` may show for another namespace.
 */

#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "user/base/error.h"

/* A name of an altname's length: ALTIFNAMSIZ is 128. */
#define ALTNAME_BYTES 128
#define ANSWER_BYTES 32768 /* one RTM_NEWLINK, with the counters of many virtual functions */

struct link_request {
	struct nlmsghdr header;
	struct ifinfomsg info;
	char attributes[RTA_SPACE(ALTNAME_BYTES)];
};

/*
 * Asks for one link by name or altname (kernel 5.5), which come in different attributes; or by index.
 * Returns the length of the answer, or negative errno.
 */
static ssize_t ask_link(uint32_t ifindex, unsigned short attribute, const char *name, char *answer)
{
	_cleanup_close_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct link_request request = {
		.header = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)),
			    .nlmsg_type = RTM_GETLINK,
			    .nlmsg_flags = NLM_F_REQUEST },
		.info = { .ifi_family = AF_UNSPEC, .ifi_index = (int)ifindex },
	};

	if (fd < 0)
		return -errno;
	if (name) {
		struct rtattr *to = (struct rtattr *)request.attributes;
		const size_t length = strlen(name) + 1;
		if (length > ALTNAME_BYTES)
			return -ENODEV;
		to->rta_type = attribute;
		to->rta_len = (unsigned short)RTA_LENGTH(length);
		memcpy(RTA_DATA(to), name, length);
		request.header.nlmsg_len += (unsigned)RTA_SPACE(length);
	}
	if (send(fd, &request, request.header.nlmsg_len, 0) < 0)
		return -errno;
	const ssize_t got = recv(fd, answer, ANSWER_BYTES, 0);
	if (got < (ssize_t)sizeof(struct nlmsghdr))
		return got < 0 ? -errno : -EBADMSG;
	const struct nlmsghdr *header = (const struct nlmsghdr *)answer;
	if (header->nlmsg_type == NLMSG_ERROR) {
		const struct nlmsgerr *refusal = NLMSG_DATA(header);
		return refusal->error ? refusal->error : -EBADMSG;
	}
	return got;
}

static int ethtool(const char *name, void *command)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { 0 };

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%.15s", name);
	request.ifr_data = command;
	return fd < 0 || ioctl(fd, SIOCETHTOOL, &request) < 0 ? -errno : 0;
}

static void read_answer(const char *answer, ssize_t length, struct ls_device *ret)
{
	const struct nlmsghdr *header = (const struct nlmsghdr *)answer;
	const struct ifinfomsg *info = NLMSG_DATA(header);
	const struct rtattr *attribute = IFLA_RTA(info);
	size_t left = (size_t)length - NLMSG_LENGTH(sizeof(*info));

	memset(ret, 0, sizeof(*ret));
	ret->ifindex = (uint32_t)info->ifi_index;
	ret->type = info->ifi_type;
	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
		if (attribute->rta_type == IFLA_IFNAME)
			snprintf(ret->name, sizeof(ret->name), "%.31s",
				 (const char *)RTA_DATA(attribute));
		else if (attribute->rta_type == IFLA_MTU)
			memcpy(&ret->mtu, RTA_DATA(attribute), sizeof(ret->mtu));
	}
	struct ethtool_drvinfo driver = { .cmd = ETHTOOL_GDRVINFO };
	if (ethtool(ret->name, &driver) == 0)
		snprintf(ret->driver, sizeof(ret->driver), "%.31s", driver.driver);
}

int ls_device_find(const char *name, struct ls_device *ret, struct ls_error *error)
{
	_cleanup_free_ char *answer = malloc(ANSWER_BYTES);
	ssize_t length = -ENODEV;

	if (!answer)
		return ls_error_oom(error);
	if (name[0] != '\0' && strlen(name) < IFNAMSIZ)
		length = ask_link(0, IFLA_IFNAME, name, answer);
	if (length == -ENODEV && name[0] != '\0')
		length = ask_link(0, IFLA_ALT_IFNAME, name, answer);
	if (length == -ENODEV || length == -EINVAL || length == -ERANGE)
		return ls_error_set(
			error,
			"there is no interface '%s' in this network namespace; 'ip -br link' lists them",
			name);
	if (length < 0)
		return ls_error_set_errno(error, (int)-length, "cannot look up interface '%s'",
					  name);
	read_answer(answer, length, ret);
	return 0;
}

int ls_device_get(uint32_t ifindex, struct ls_device *ret)
{
	_cleanup_free_ char *answer = malloc(ANSWER_BYTES);
	const ssize_t length = answer ? ask_link(ifindex, 0, NULL, answer) : -ENOMEM;

	if (length < 0)
		return (int)length;
	read_answer(answer, length, ret);
	return 0;
}

int ls_device_check(const struct ls_device *device, struct ls_error *error)
{
	if (device->type == ARPHRD_ETHER || device->type == ARPHRD_LOOPBACK)
		return 0;
	return ls_error_set(
		error,
		"cannot attach to '%s': its frames have no Ethernet header (link type %u), so sources could not be told; attach to the interface below it",
		device->name, device->type);
}

int ls_device_offload(const char *name, uint32_t command, uint32_t bits)
{
	struct ethtool_value value = { .cmd = command };

	return ethtool(name, &value) < 0 ? -1 : (value.data & bits) != 0;
}

/*
 * The feature that ethtool calls rx-vlan-offload. veth has it on as well, and there it means as much: a tag
 * that a VLAN device on the peer sets travels beside the frame.
 */
bool ls_device_takes_tags(const struct ls_device *device)
{
	return ls_device_offload(device->name, ETHTOOL_GFLAGS, ETH_FLAG_RXVLAN) == 1;
}

bool ls_device_queues(const struct ls_device *device, uint32_t *ret_now, uint32_t *ret_max)
{
	struct ethtool_channels channels = { .cmd = ETHTOOL_GCHANNELS };

	if (ethtool(device->name, &channels) < 0)
		return false;
	*ret_now = channels.max_combined ? channels.combined_count : channels.tx_count;
	*ret_max = channels.max_combined ? channels.max_combined : channels.max_tx;
	return true;
}

/* The link that holds program `program_id` on the interface; 0: none, so it came by netlink. */
static uint32_t link_of(uint32_t ifindex, uint32_t program_id)
{
	uint32_t id = 0;

	while (bpf_link_get_next_id(id, &id) == 0) {
		_cleanup_close_ int fd = bpf_link_get_fd_by_id(id);
		struct bpf_link_info info = { 0 };
		__u32 length = sizeof(info);
		if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &length) < 0)
			continue;
		if (info.type == BPF_LINK_TYPE_XDP && info.xdp.ifindex == ifindex &&
		    info.prog_id == program_id)
			return id;
	}
	return 0;
}

int ls_device_resident(uint32_t ifindex, struct ls_resident *ret)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, query);
	struct bpf_prog_info info = { 0 };
	__u32 length = sizeof(info);
	const int r = bpf_xdp_query((int)ifindex, 0, &query);

	memset(ret, 0, sizeof(*ret));
	if (r < 0)
		return r;
	if (query.drv_prog_id) {
		ret->program_id = query.drv_prog_id;
		ret->mode = LS_PLANE_NATIVE;
	} else if (query.skb_prog_id) {
		ret->program_id = query.skb_prog_id;
		ret->mode = LS_PLANE_GENERIC;
	} else if (query.prog_id || query.hw_prog_id) {
		ret->program_id = query.prog_id ? query.prog_id : query.hw_prog_id;
		ret->mode = query.attach_mode == XDP_ATTACHED_DRV   ? LS_PLANE_NATIVE
			    : query.attach_mode == XDP_ATTACHED_SKB ? LS_PLANE_GENERIC
								    : LS_PLANE_MODE_MAX;
	}
	if (!ret->program_id)
		return 0;
	_cleanup_close_ int fd = bpf_prog_get_fd_by_id(ret->program_id);
	if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &length) == 0)
		snprintf(ret->program_name, sizeof(ret->program_name), "%s", info.name);
	ret->link_id = link_of(ifindex, ret->program_id);
	return 0;
}

bool ls_program_is_ours(const char *name)
{
	return strcmp(name, "ls_xdp") == 0 || strcmp(name, "ls_xdp_frags") == 0;
}

static int find_ghosts(char *list, size_t size)
{
	struct if_nameindex *all = if_nameindex();
	char root[PATH_MAX] = "", instance[LS_NAME_BYTES];
	const bool has_root = ls_pins_root(false, root, NULL) == 0;
	int count = 0;
	size_t used = 0;

	if (size > 0)
		list[0] = '\0';
	for (struct if_nameindex *at = all; at && at->if_index; at++) {
		struct ls_resident resident;
		if (ls_device_resident(at->if_index, &resident) < 0 ||
		    !ls_program_is_ours(resident.program_name))
			continue;
		if (has_root && ls_pins_find_owner(root, at->if_index, instance))
			continue;
		if (used < size) {
			const int n = snprintf(list + used, size - used, "%s%s", count ? ", " : "",
					       at->if_name);
			used += n > 0 ? (size_t)n : 0;
		}
		count++;
	}
	if (all)
		if_freenameindex(all);
	return count;
}

/*
 * A link that was never pinned goes with its process, but a moment after it: the kernel lets go of it from a work
 * queue. What is still there after a second is a ghost.
 */
int ls_plane_ghosts(char *list, size_t size)
{
	int count = find_ghosts(list, size);

	for (int i = 0; count > 0 && i < 20; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
		count = find_ghosts(list, size);
	}
	return count;
}

/* Of <linux/if_bonding.h>, which cannot stand beside <net/if.h>. */
struct bond_info {
	int32_t mode, members, miimon;
};

struct bond_member {
	int32_t number;
	char name[IFNAMSIZ];
	int8_t link, state;
	uint32_t failures;
};

size_t ls_device_members(const char *name, uint32_t *list, size_t room)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct bond_info bond = { 0 };
	struct ifreq request = { .ifr_data = (void *)&bond };
	size_t count = 0;

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%.15s", name);
	if (fd < 0 || ioctl(fd, SIOCBONDINFOQUERY, &request) < 0)
		return 0;
	for (int i = 0; i < bond.members && count < room; i++) {
		struct bond_member member = { .number = i };
		request.ifr_data = (void *)&member;
		if (ioctl(fd, SIOCBONDSLAVEINFOQUERY, &request) == 0 &&
		    (list[count] = if_nametoindex(member.name)) != 0)
			count++;
	}
	return count;
}
