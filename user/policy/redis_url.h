/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_POLICY_REDIS_URL_H
#define LOADSHED_USER_POLICY_REDIS_URL_H

/*
 * Where a Redis is:
 *	redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE or /MASTER]	rediss:// with TLS
 *	unix:/PATH
 * What is behind the last slash is the number of a database or, for a Sentinel, the name of the master that it watches.
 * User and password may hold %XX.
 */

#include <stdbool.h>
#include <stdint.h>

#define LS_REDIS_TEXT 256

struct ls_redis_url {
	bool tls;
	char path[108]; /* of a unix socket; "": none */
	char host[128]; /* name or address, without brackets */
	uint16_t port;
	char user[64];
	char password[128];
	bool has_password;
	char name[64]; /* database or master; "": not given */
};

/* What is wrong with it, and NULL for nothing: static text, to be put behind the URL in a message. */
const char *ls_redis_url_parse(const char *text, struct ls_redis_url *ret);

enum ls_secrets {
	LS_SECRETS_MASKED, /* "***" instead of a password */
	LS_SECRETS_DIGESTED, /* sixteen bits of its hash: tells whether two differ, and not what they are */
	LS_SECRETS_KEPT,
};

/* The URL as text; returns `text`. */
char *ls_redis_url_format(const struct ls_redis_url *url, enum ls_secrets secrets,
			  char text[static 4 * LS_REDIS_TEXT]);

#define LS_REDIS_MASK "***"

#endif
