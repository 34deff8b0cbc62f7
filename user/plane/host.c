/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/host.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "user/base/cleanup.h"
#include "user/plane/bans.h"
#include "user/plane/lists.h"
#include "user/policy/policy.h"

static size_t add(struct ls_host_address *list, size_t count, size_t room, const char *text,
		  const char *what)
{
	struct ls_prefix address;

	if (count == room || ls_prefix_parse(text, strcspn(text, "%"), &address) != LS_PREFIX_OK)
		return count;
	for (size_t i = 0; i < count; i++)
		if (ls_prefix_equal(&list[i].address, &address))
			return count;
	list[count] = (struct ls_host_address){ .address = address, .what = what };
	return count + 1;
}

static size_t add_own(struct ls_host_address *list, size_t count, size_t room)
{
	struct ifaddrs *all = NULL;
	char text[INET6_ADDRSTRLEN];

	if (getifaddrs(&all) < 0)
		return count;
	for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
		const int family = one->ifa_addr ? one->ifa_addr->sa_family : AF_UNSPEC;
		const void *address = NULL;
		if (one->ifa_flags & IFF_LOOPBACK)
			continue;
		if (family == AF_INET)
			address = &((const struct sockaddr_in *)(const void *)one->ifa_addr)
					   ->sin_addr;
		if (family == AF_INET6)
			address = &((const struct sockaddr_in6 *)(const void *)one->ifa_addr)
					   ->sin6_addr;
		/* Its own link-local one is nobody's source but its own. */
		if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)address))
			continue;
		const size_t before = count;
		if (address && inet_ntop(family, address, text, sizeof(text)))
			count = add(list, count, room, text, "own address");
		if (count > before)
			list[before].is_own = true;
	}
	freeifaddrs(all);
	return count;
}

/* "IFACE DESTINATION GATEWAY FLAGS REFCNT USE METRIC MASK …": hexadecimal as it lies in memory. Those of default routes. */
static size_t add_gateways4(struct ls_host_address *list, size_t count, size_t room)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/net/route", "re");
	char line[512], text[INET_ADDRSTRLEN];
	uint32_t destination, gateway, mask;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%*s %8x %8x %*x %*d %*d %*d %8x", &destination, &gateway,
			   &mask) == 3 &&
		    !destination && !mask && gateway &&
		    inet_ntop(AF_INET, &gateway, text, sizeof(text)))
			count = add(list, count, room, text, "gateway");
	return count;
}

/* "DESTINATION LENGTH SOURCE LENGTH NEXT-HOP …": 32 digits each. */
static size_t add_gateways6(struct ls_host_address *list, size_t count, size_t room)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/net/ipv6_route", "re");
	char line[512], digits[33], text[INET6_ADDRSTRLEN];
	struct in6_addr gateway;
	unsigned length;

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%*32s %2x %*32s %*2s %32s", &length, digits) != 2 || length ||
		    strlen(digits) != 32)
			continue;
		unsigned any = 0;
		for (int i = 0; i < 16; i++) {
			unsigned byte = 0;
			(void)sscanf(digits + 2 * i, "%2x", &byte);
			gateway.s6_addr[i] = (uint8_t)byte;
			any |= byte;
		}
		if (any && inet_ntop(AF_INET6, &gateway, text, sizeof(text)))
			count = add(list, count, room, text, "gateway");
	}
	return count;
}

/* Whether packets to it would leave this network namespace at all. */
static bool has_route(const struct ls_prefix *address)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} to = { .any = { .sa_family = address->family == LS_IPV4 ? AF_INET : AF_INET6 } };
	_cleanup_close_ int fd = socket(to.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (address->family == LS_IPV4)
		memcpy(&to.v4.sin_addr, address->bytes, sizeof(to.v4.sin_addr));
	else
		memcpy(&to.v6.sin6_addr, address->bytes, sizeof(to.v6.sin6_addr));
	to.v4.sin_port = htons(53); /* at the same place in both */
	return fd >= 0 && connect(fd, &to.any, sizeof(to)) == 0;
}

static size_t add_resolvers(struct ls_host_address *list, size_t count, size_t room)
{
	_cleanup_fclose_ FILE *file = fopen("/etc/resolv.conf", "re");
	char line[512], text[128];

	while (file && fgets(line, sizeof(line), file)) {
		const size_t before = count;
		if (sscanf(line, " nameserver %127s", text) == 1)
			count = add(list, count, room, text, "resolver");
		if (count > before && !has_route(&list[before].address))
			count = before;
	}
	return count;
}

/* A name is looked up by the controller alone, and may be another address by then. */
static size_t add_redis(struct ls_host_address *list, size_t count, size_t room,
			const struct ls_cluster_rule *cluster)
{
	for (size_t i = 0; i < cluster->n_redis; i++)
		if (!cluster->redis[i].path[0])
			count = add(list, count, room, cluster->redis[i].host, "Redis");
	return count;
}

size_t ls_host_addresses(const struct ls_policy *policy, struct ls_host_address *list, size_t room)
{
	size_t count = add_own(list, 0, room);

	if (policy)
		count = add_redis(list, count, room, &policy->cluster);

	count = add_gateways4(list, count, room);
	count = add_gateways6(list, count, room);
	return add_resolvers(list, count, room);
}

bool ls_host_is_within(const struct ls_policy *policy, const struct ls_prefix *prefix,
		       struct ls_host_address *ret)
{
	struct ls_host_address list[LS_HOST_ADDRESSES];
	const size_t count = ls_host_addresses(policy, list, LS_HOST_ADDRESSES);

	for (size_t i = 0; i < count; i++) {
		const struct ls_prefix wide = ls_ban_widen(list[i].address);
		*ret = list[i];
		if (ls_prefix_contains(prefix, &wide) &&
		    !ls_ban_is_allowed(policy, &list[i].address, NULL))
			return true;
	}
	return false;
}

bool ls_host_is_denied(const struct ls_policy *policy, const struct ls_policy *before,
		       struct ls_host_address *ret)
{
	struct ls_host_address list[LS_HOST_ADDRESSES];
	const size_t count = ls_host_addresses(policy, list, LS_HOST_ADDRESSES);

	for (size_t i = 0; i < count; i++) {
		*ret = list[i];
		if (!list[i].is_own &&
		    ls_lists_outcome(policy, &list[i].address) == LS_OUTCOME_DENY &&
		    !(before && before->mode == LS_MODE_ENFORCE &&
		      ls_lists_outcome(before, &list[i].address) == LS_OUTCOME_DENY))
			return true;
	}
	return false;
}

static const char *const no_clients[] = { "0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3",
					  "::/96",     "fe80::/10",   "ff00::/8" };

void ls_host_guard_init(struct ls_host_guard *guard, const struct ls_policy *policy)
{
	guard->n_host = ls_host_addresses(policy, guard->host, LS_HOST_ADDRESSES);
}

const char *ls_host_danger(const struct ls_host_guard *guard, const struct ls_prefix *prefix)
{
	struct ls_prefix none;

	for (size_t i = 0; i < sizeof(no_clients) / sizeof(no_clients[0]); i++)
		if (ls_prefix_parse(no_clients[i], strlen(no_clients[i]), &none) == LS_PREFIX_OK &&
		    ls_prefix_contains(&none, prefix))
			return "no client has such an address";
	for (size_t i = 0; i < guard->n_host; i++)
		if (ls_prefix_contains(prefix, &guard->host[i].address))
			return guard->host[i].what;
	return NULL;
}
