/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_SERVE_SERVE_H
#define LOADSHED_USER_SERVE_SERVE_H

/*
 * The controller, in the foreground. A client of the pinned state as every verb is: what is attached goes on judging
 * packets before, after and without it.
 */

#include <stdbool.h>

struct ls_error;
struct ls_listen;

struct ls_serve_request {
	const char *instance;
	const struct ls_listen *listen; /* of the HTTP listener */
	bool may_restore; /* false: what is saved would cut the caller's own session */
};

/* Until SIGTERM or SIGINT. 0, or negative with a line in `error`. */
int ls_serve_run(const struct ls_serve_request *request, struct ls_error *error);

#endif
