/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BASE_LISTEN_H
#define LOADSHED_USER_BASE_LISTEN_H

/* Where something listens: HOST:PORT as written on a command line. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct ls_error;

#define LS_LISTEN_DEFAULT "127.0.0.1:9644"
#define LS_LISTEN_TEXT 64

struct ls_listen {
	bool is_none;			 /* "none": nowhere; then all else is zero */
	bool is_loopback;		 /* nobody from outside can reach it */
	struct sockaddr_storage address; /* AF_INET or AF_INET6 */
	socklen_t length;
	char text[LS_LISTEN_TEXT]; /* canonical: "127.0.0.1:9644", "[::]:80" */
};

/*
 * HOST:PORT with HOST an IPv4 address or `localhost` (which is 127.0.0.1), [V6]:PORT, :PORT (every address, of both
 * families), or `none`. No names: a listener must not wait for a resolver. PORT is 1 to 65535.
 * 0, or -1 with a line in `error`.
 */
int ls_listen_parse(const char *text, struct ls_listen *ret, struct ls_error *error);

#endif
