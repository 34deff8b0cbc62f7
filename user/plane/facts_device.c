/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/preflight.h"

/*
 * What an interface is like. All of it is asked of the kernel and nothing is tried: an attach in native mode may reset
 * the card's queues. Whether the driver has that mode is what the kernel says through its netdev family (6.3).
 */

#include <linux/ethtool.h>
#include <linux/genetlink.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "user/plane/internal.h"
#include "user/policy/policy.h"

#define ANSWER_BYTES 32768

/* Newer than the headers of Debian 12. */
#define LINK_A_TARGET_NETNSID 46
#define LINK_A_GRO_MAX_SIZE 58
#define NETDEV_FAMILY "netdev"
#define NETDEV_DEV_GET 1
#define NETDEV_A_IFINDEX 1
#define NETDEV_A_XDP_FEATURES 3
#define NETDEV_XDP_BASIC 1U
#define NETDEV_XDP_RX_SG 32U

struct request {
	struct nlmsghdr header;
	char body[256];
};

static void begin(struct request *request, uint16_t type, const void *fixed, size_t bytes)
{
	memset(request, 0, sizeof(*request));
	request->header.nlmsg_type = type;
	request->header.nlmsg_flags = NLM_F_REQUEST;
	request->header.nlmsg_len = (__u32)NLMSG_LENGTH(bytes);
	memcpy(request->body, fixed, bytes);
}

static void put(struct request *request, unsigned short type, const void *value, size_t bytes)
{
	struct rtattr *attribute =
		(struct rtattr *)((char *)request + NLMSG_ALIGN(request->header.nlmsg_len));

	attribute->rta_type = type;
	attribute->rta_len = (unsigned short)RTA_LENGTH(bytes);
	memcpy(RTA_DATA(attribute), value, bytes);
	request->header.nlmsg_len =
		(__u32)(NLMSG_ALIGN(request->header.nlmsg_len) + RTA_ALIGN(attribute->rta_len));
}

/* One question and its answer, in `answer`; its first attribute, after `fixed` bytes of header. NULL: none. */
static const struct rtattr *ask(int protocol, struct request *request, size_t fixed, char *answer,
				size_t *ret_left)
{
	_cleanup_close_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

	if (fd < 0 || send(fd, request, request->header.nlmsg_len, 0) < 0)
		return NULL;
	const ssize_t got = recv(fd, answer, ANSWER_BYTES, 0);
	const struct nlmsghdr *header = (const struct nlmsghdr *)answer;
	if (got < (ssize_t)(NLMSG_LENGTH(fixed)) || header->nlmsg_type == NLMSG_ERROR)
		return NULL;
	*ret_left = (size_t)got - NLMSG_LENGTH(NLMSG_ALIGN(fixed));
	return (const struct rtattr *)((const char *)NLMSG_DATA(header) + NLMSG_ALIGN(fixed));
}

static uint32_t number_of(const struct rtattr *attribute)
{
	uint32_t value = 0;
	const size_t bytes = RTA_PAYLOAD(attribute);

	memcpy(&value, RTA_DATA(attribute), bytes < sizeof(value) ? bytes : sizeof(value));
	return value;
}

struct link {
	uint32_t flags, mtu, peer, gso_max, gro_max;
	int peer_netns; /* -1: this one */
	char name[IFNAMSIZ];
};

/* netns: of the peer, as the kernel numbers it here; -1: this one. */
static bool ask_link(uint32_t ifindex, int netns, char *answer, struct link *ret)
{
	const struct ifinfomsg info = { .ifi_family = AF_UNSPEC, .ifi_index = (int)ifindex };
	struct request request;
	size_t left = 0;

	begin(&request, RTM_GETLINK, &info, sizeof(info));
	if (netns >= 0)
		put(&request, LINK_A_TARGET_NETNSID, &netns, sizeof(netns));
	const struct rtattr *at = ask(NETLINK_ROUTE, &request, sizeof(info), answer, &left);
	if (!at)
		return false;
	*ret = (struct link){ .peer_netns = -1 };
	ret->flags = ((const struct ifinfomsg *)NLMSG_DATA((struct nlmsghdr *)answer))->ifi_flags;
	for (; RTA_OK(at, left); at = RTA_NEXT(at, left)) {
		switch (at->rta_type) {
		case IFLA_IFNAME:
			snprintf(ret->name, sizeof(ret->name), "%.15s", (const char *)RTA_DATA(at));
			break;
		case IFLA_MTU:
			ret->mtu = number_of(at);
			break;
		case IFLA_LINK:
			ret->peer = number_of(at);
			break;
		case IFLA_LINK_NETNSID:
			ret->peer_netns = (int)number_of(at);
			break;
		case IFLA_GSO_MAX_SIZE:
			ret->gso_max = number_of(at);
			break;
		case LINK_A_GRO_MAX_SIZE:
			ret->gro_max = number_of(at);
			break;
		}
	}
	return true;
}

/* Number of the netdev family; 0: the kernel has none. */
static uint16_t netdev_family(char *answer)
{
	const struct genlmsghdr command = { .cmd = CTRL_CMD_GETFAMILY, .version = 1 };
	struct request request;
	size_t left = 0;

	begin(&request, GENL_ID_CTRL, &command, sizeof(command));
	put(&request, CTRL_ATTR_FAMILY_NAME, NETDEV_FAMILY, sizeof(NETDEV_FAMILY));
	const struct rtattr *at = ask(NETLINK_GENERIC, &request, sizeof(command), answer, &left);
	for (; at && RTA_OK(at, left); at = RTA_NEXT(at, left))
		if (at->rta_type == CTRL_ATTR_FAMILY_ID)
			return (uint16_t)number_of(at);
	return 0;
}

static enum ls_native ask_native(uint32_t ifindex, char *answer)
{
	const struct genlmsghdr command = { .cmd = NETDEV_DEV_GET, .version = 1 };
	struct request request;
	size_t left = 0;
	const uint16_t family = netdev_family(answer);

	if (!family)
		return LS_NATIVE_UNKNOWN;
	begin(&request, family, &command, sizeof(command));
	put(&request, NETDEV_A_IFINDEX, &ifindex, sizeof(ifindex));
	const struct rtattr *at = ask(NETLINK_GENERIC, &request, sizeof(command), answer, &left);
	for (; at && RTA_OK(at, left); at = RTA_NEXT(at, left)) {
		if (at->rta_type != NETDEV_A_XDP_FEATURES)
			continue;
		const uint32_t features = number_of(at); /* the low half of 64 bits */
		return !(features & NETDEV_XDP_BASIC) ? LS_NATIVE_NO
		       : features & NETDEV_XDP_RX_SG  ? LS_NATIVE_FRAGS
						      : LS_NATIVE_YES;
	}
	return LS_NATIVE_UNKNOWN;
}

static void gather_link(const struct ls_device *device, struct ls_device_facts *facts)
{
	_cleanup_free_ char *answer = malloc(ANSWER_BYTES);
	struct link link, peer;

	if (!answer || !ask_link(device->ifindex, -1, answer, &link))
		return;
	facts->is_up = link.flags & IFF_UP;
	facts->gro_max = link.gro_max;
	facts->gso_max = link.gso_max;
	facts->native = ask_native(device->ifindex, answer);
	if (strcmp(device->driver, "veth") != 0 || !link.peer ||
	    !ask_link(link.peer, link.peer_netns, answer, &peer))
		return;
	facts->peer_mtu = peer.mtu;
	facts->peer_is_here = link.peer_netns < 0;
	snprintf(facts->peer, sizeof(facts->peer), "%s", peer.name);
	if (facts->peer_is_here)
		facts->peer_merges = ls_device_offload(peer.name, ETHTOOL_GTSO, ~0U) == 1 ||
				     ls_device_offload(peer.name, ETHTOOL_GGSO, ~0U) == 1;
}

static void gather_program(const struct ls_device *device, const char *instance,
			   struct ls_device_facts *facts)
{
	struct ls_resident resident;
	char root[PATH_MAX], owner[LS_NAME_BYTES] = "";

	facts->program_mode = "";
	if (ls_device_resident(device->ifindex, &resident) < 0 || !resident.program_id)
		return;
	facts->program_id = resident.program_id;
	snprintf(facts->program_name, sizeof(facts->program_name), "%s", resident.program_name);
	facts->program_mode = resident.mode == LS_PLANE_MODE_MAX
				      ? "offloaded"
				      : ls_plane_mode_name(resident.mode);
	facts->link_id = resident.link_id;
	facts->is_ours = ls_program_is_ours(resident.program_name);
	if (facts->is_ours && ls_pins_root(false, root, NULL) == 0 &&
	    ls_pins_find_owner(root, device->ifindex, owner))
		snprintf(facts->owner, sizeof(facts->owner), "%s", owner);
	facts->is_owned = strcmp(owner, instance) == 0;
}

static void gather_policy(const char *instance, struct ls_device_facts *facts)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	_cleanup_(ls_policy_freep) struct ls_policy *policy = NULL;

	if (ls_plane_open(instance, LS_PLANE_READ, &plane, NULL) != 0 ||
	    ls_plane_policy(plane, &policy, NULL, NULL) < 0)
		return;
	facts->policy_uses_vlan = ls_policy_uses_vlan(policy);
	facts->policy_counts_packets = policy->overload.has_packets;
	for (size_t i = 0; i < policy->n_classes; i++)
		for (size_t k = 0; k < policy->classes[i].n_limits; k++)
			if (policy->classes[i].limits[k].count == LS_COUNT_PACKETS)
				facts->policy_counts_packets = true;
}

void ls_device_facts_gather(const char *instance, const char *name, struct ls_device_facts *ret)
{
	struct ls_device device;
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	memset(ret, 0, sizeof(*ret));
	snprintf(ret->name, sizeof(ret->name), "%.31s", name);
	ret->program_mode = "";
	ret->peer_merges = LS_FACT_UNKNOWN;
	if (ls_device_find(name, &device, NULL) < 0)
		return;
	ret->is_there = true;
	snprintf(ret->name, sizeof(ret->name), "%.31s", device.name);
	snprintf(ret->driver, sizeof(ret->driver), "%.31s", device.driver);
	ret->type = device.type;
	ret->has_ethernet = ls_device_check(&device, NULL) == 0;
	ret->mtu = device.mtu;
	ret->cpus = cpus > 0 ? (uint32_t)cpus : 1;
	ret->has_lro = ls_device_offload(device.name, ETHTOOL_GFLAGS, ETH_FLAG_LRO) == 1;
	ret->has_gro = ls_device_offload(device.name, ETHTOOL_GGRO, ~0U) == 1;
	ret->takes_tags = ls_device_takes_tags(&device);
	if (!ls_device_queues(&device, &ret->queues_now, &ret->queues_max))
		ret->queues_now = ret->queues_max = 0;
	gather_link(&device, ret);
	gather_program(&device, instance, ret);
	gather_policy(instance, ret);
}
