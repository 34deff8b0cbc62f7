/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_HOST_H
#define LOADSHED_USER_PLANE_HOST_H

/*
 * Addresses that this host cannot do without: its own (but loopback, which no interface is asked for), those of its
 * default gateways, of resolvers that it has a route to, and of the Redis that a policy names by address. Others that a part
 * of the program depends on belong into ls_host_addresses().
 */

#include <stdbool.h>
#include <stddef.h>

#include "user/base/addr.h"

struct ls_policy;

#define LS_HOST_ADDRESSES 256

struct ls_host_address {
	struct ls_prefix address;
	const char *what; /* "own address", "gateway", "resolver", "Redis" */
	bool is_own;
};

/* As many as fit into `list`; returns how many. What cannot be read is left out. `policy` NULL: no Redis. */
size_t ls_host_addresses(const struct ls_policy *policy, struct ls_host_address *list, size_t room);

/* The first that `prefix` covers and `policy` does not allow; false: none. */
bool ls_host_is_within(const struct ls_policy *policy, const struct ls_prefix *prefix,
		       struct ls_host_address *ret);

/*
 * The first that `policy` denies and `before` (NULL: none) did not; false: none. Own addresses do not count: what comes
 * from outside with one of them is forged.
 */
bool ls_host_is_denied(const struct ls_policy *policy, const struct ls_policy *before,
		       struct ls_host_address *ret);

/* What nobody may ban by a list or a glance: those addresses, and what no client can have. */
struct ls_host_guard {
	struct ls_host_address host[LS_HOST_ADDRESSES];
	size_t n_host;
};

void ls_host_guard_init(struct ls_host_guard *guard, const struct ls_policy *policy);
/* Why a ban of `prefix` would hurt this host; NULL: it would not. */
const char *ls_host_danger(const struct ls_host_guard *guard, const struct ls_prefix *prefix);

#endif
