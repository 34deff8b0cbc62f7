/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_OVERLOAD_SOCKETS_H
#define LOADSHED_USER_OVERLOAD_SOCKETS_H

/*
 * What waits in the accept queues of this network namespace's listeners: the kernel's own figures, by sock_diag
 * (NETLINK_SOCK_DIAG), a question of some 10 us. Of a listening socket idiag_rqueue is how many connections wait to be
 * accepted and idiag_wqueue how many may (net/ipv4/tcp_diag.c).
 */

#include <stdint.h>

struct ls_error;

struct ls_accept_queues {
	unsigned listeners;
	uint64_t waiting; /* in all of them */
	/* The one that is fullest. */
	uint16_t port;
	uint32_t worst_waiting, worst_most;
};

/* A socket to ask with, or negative with a line. */
int ls_sockets_open(struct ls_error *error);

/* Asks for both families. 0 or negative errno; *ret is then unchanged. */
int ls_sockets_read(int fd, struct ls_accept_queues *ret);

#endif
