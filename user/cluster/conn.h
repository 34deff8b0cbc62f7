/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_CLUSTER_CONN_H
#define LOADSHED_USER_CLUSTER_CONN_H

/*
 * One connection to one Redis. It is made once and closed once: what goes wrong closes it, with all that was under way,
 * and its context is never used again. Nothing waits: names are looked up by a process of their own.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "user/policy/redis_url.h"

struct ls_reply;

/* why: NULL, or what is wrong; then reply is NULL, or the store's error. */
typedef void (*ls_conn_fn)(void *data, const struct ls_reply *reply, const char *why);

enum ls_conn_state {
	LS_CONN_CLOSED,
	LS_CONN_RESOLVING,
	LS_CONN_CONNECTING,
	LS_CONN_OPEN,
};

#define LS_CONN_QUEUE 256

struct ls_conn_waiter {
	ls_conn_fn answer; /* NULL: nobody cares any more */
	void *data;
};

struct ls_conn {
	enum ls_conn_state state;
	struct ls_redis_url url; /* where to */
	int epoll_fd;
	int fd;	   /* of the socket, or of the look-up */
	int child; /* of the look-up; 0: none */
	void *context;
	bool wants_write;
	uint64_t since_ns; /* of the state */
	struct ls_conn_waiter queue[LS_CONN_QUEUE];
	unsigned first, count;
	char why[192]; /* it was closed */
};

/* Begins; false when it cannot even begin (conn->why says so). */
bool ls_conn_open(struct ls_conn *conn, const struct ls_redis_url *url, int epoll_fd,
		  uint64_t now_ns);
/* Closes; everybody who waits is told. Can run twice. */
void ls_conn_close(struct ls_conn *conn, const char *why);
/* Goes on; closes when a connect takes longer than a second. */
void ls_conn_work(struct ls_conn *conn, uint64_t now_ns);

/* Sends a command; false: closed, or its queue is full, and answer is not called. */
bool ls_conn_send(struct ls_conn *conn, size_t n_words, const char *const *words,
		  const size_t *lengths, ls_conn_fn answer, void *data);
/* Nobody waits for this one any more; its answer is dropped when it comes. */
void ls_conn_forget(struct ls_conn *conn, const void *data);

bool ls_conn_has_tls(void);

#endif
