/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BASE_HOST_H
#define LOADSHED_USER_BASE_HOST_H

/* Addresses that this host cannot do without: its own, its gateways', its resolvers'. */

#include <stddef.h>

#include "user/base/addr.h"

struct ls_host_address {
	struct ls_prefix address;
	const char *what; /* "own address", "gateway", "resolver" */
};

/* As many as fit into `list`; returns how many. What cannot be read is left out. */
size_t ls_host_addresses(struct ls_host_address *list, size_t room);

#endif
