/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_OVERLOAD_ASK_H
#define LOADSHED_USER_OVERLOAD_ASK_H

/*
 * One question to a service, without waiting: connect, for HTTP a GET, and the start of the answer. The loop calls when
 * something moves; the owner looks at the clock now and then, so that a question ends in time.
 *
 * The answer is whole when a connection stands (tcp; unix without `reads`), when the header of the response and as much
 * of the body as fits is there (http), or at a line feed or the end (unix with `reads`).
 */

#include <stdbool.h>
#include <stdint.h>

#include "user/policy/policy.h"

struct ls_loop;

#define LS_ASK_BYTES 1024

struct ls_ask {
	struct ls_loop *loop;
	const struct ls_endpoint *endpoint;
	bool reads; /* unix: the answer is what it says, not that it accepts */
	int fd;	    /* -1: no question is on its way */
	bool is_connected;
	uint64_t started_ns; /* CLOCK_MONOTONIC */
	char text[LS_ASK_BYTES];
	unsigned length;
	/* Of the last question. */
	bool is_done;	 /* there was one */
	bool is_good;	 /* it was answered: for HTTP with a status below 400 */
	unsigned status; /* of HTTP; else 0 */
	uint64_t latency_ns;
	const char *body; /* in text */
	char why[64];	  /* not good: why */
};

void ls_ask_init(struct ls_ask *ask, struct ls_loop *loop, const struct ls_endpoint *endpoint,
		 bool reads);
void ls_ask_fini(struct ls_ask *ask);

static inline bool ls_ask_is_busy(const struct ls_ask *ask)
{
	return ask->fd >= 0;
}

/* Asks, unless a question is on its way. */
void ls_ask_start(struct ls_ask *ask, uint64_t now_ns);

/* Ends a question that takes longer than `timeout_ns`, as not good. */
void ls_ask_expire(struct ls_ask *ask, uint64_t now_ns, uint64_t timeout_ns);

/*
 * An application's word about its load: a number, 0 (idle) to 1 (all that it can) and up to 10, or `healthy` or `ok` (0),
 * `unhealthy` or `overloaded` (2). False: something else.
 */
bool ls_word_parse(const char *text, double *ret);

#endif
