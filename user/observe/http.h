/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_OBSERVE_HTTP_H
#define LOADSHED_USER_OBSERVE_HTTP_H

/*
 * The HTTP listener: read-only pages by GET and HEAD, in the caller's loop, without threads.
 *
 * Nobody can hurt it by being slow or many: at most LS_HTTP_CONNECTIONS at once, 16 KiB of memory for what one asks,
 * LS_HTTP_BYTES of answers on their way in all, LS_HTTP_SECONDS for a request from its first byte to the last one of
 * its answer, and two seconds of it when three quarters of the connections are taken. Sends and receives
 * never wait.
 *
 * A browser that was led here by a name that somebody else's DNS points at this machine (DNS rebinding) is refused:
 * while only this machine can reach the listener, Host must be an address of it or `localhost`.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ls_error;
struct ls_http;
struct ls_listen;
struct ls_loop;

#define LS_HTTP_CONNECTIONS 128
#define LS_HTTP_BYTES (16U << 20)
#define LS_HTTP_SECONDS 30

struct ls_http_request {
	const char *path;
	const char *accept; /* "": none */
	const char *since;  /* argument of that name; "": none */
};

struct ls_http_answer {
	unsigned status;
	const char *type; /* a literal */
	char *bytes;	  /* owned: handed over */
	size_t length;
};

/* Answers a path, or returns false: there is no such page. Called from the loop. */
typedef bool (*ls_http_fn)(void *data, const struct ls_http_request *request,
			   struct ls_http_answer *ret);

struct ls_http_listen {
	const struct ls_listen *at;
	const char *security; /* Content-Security-Policy of every answer; stays with the caller */
	ls_http_fn answer;
	void *data;
};

/* Binds and listens. Negative with a line, such as that the address is in use. */
int ls_http_new(struct ls_loop *loop, const struct ls_http_listen *request, struct ls_http **ret,
		struct ls_error *error);
/* Ends connections that take too long: once a second. */
void ls_http_tick(struct ls_http *http, uint64_t now_ns);
void ls_http_free(struct ls_http *http);

struct ls_http_counts {
	uint64_t requests, refused; /* refused: by method, path, host or for lack of room */
	uint64_t expired;	    /* connections that were ended because they took too long */
	unsigned connections;	    /* now */
};

void ls_http_read(const struct ls_http *http, struct ls_http_counts *ret);

#endif
