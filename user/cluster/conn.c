/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cluster/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hiredis/hiredis.h>
#ifdef LS_REDIS_TLS
#include <hiredis/hiredis_ssl.h>
#endif

#include "user/base/cleanup.h"

#define CONNECT_NS 1000000000ULL
#define LOOKUP_NS 5000000000ULL

bool ls_conn_has_tls(void)
{
#ifdef LS_REDIS_TLS
	return true;
#else
	return false;
#endif
}

static void drop_child(struct ls_conn *conn)
{
	if (conn->child) {
		/* The one way to end a process that serve's filter leaves. */
		(void)syscall(SYS_tgkill, conn->child, conn->child, SIGKILL);
		while (waitpid(conn->child, NULL, 0) < 0 && errno == EINTR)
			;
	}
	conn->child = 0;
}

void ls_conn_close(struct ls_conn *conn, const char *why)
{
	if (conn->state == LS_CONN_CLOSED)
		return;
	snprintf(conn->why, sizeof(conn->why), "%s", why);
	conn->state = LS_CONN_CLOSED;
	drop_child(conn);
	if (conn->fd >= 0)
		(void)epoll_ctl(conn->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
	if (conn->context)
		redisFree(conn->context); /* closes the socket */
	else if (conn->fd >= 0)
		close(conn->fd);
	conn->context = NULL;
	conn->fd = -1;
	/* Whoever is told may open the connection again: take the queue off first. */
	const unsigned first = conn->first, count = conn->count;
	conn->count = 0;
	for (unsigned i = 0; i < count; i++) {
		const struct ls_conn_waiter waiter = conn->queue[(first + i) % LS_CONN_QUEUE];
		if (waiter.answer)
			waiter.answer(waiter.data, NULL, conn->why);
	}
}

static void fail(struct ls_conn *conn, const char *what, int code)
{
	char text[192];

	snprintf(text, sizeof(text), "%s: %s", what, strerror(code));
	ls_conn_close(conn, text);
}

static void watch(struct ls_conn *conn, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = conn };

	if (epoll_ctl(conn->epoll_fd, EPOLL_CTL_MOD, conn->fd, &event) < 0)
		(void)epoll_ctl(conn->epoll_fd, EPOLL_CTL_ADD, conn->fd, &event);
}

static void connect_to(struct ls_conn *conn, const struct sockaddr *address, socklen_t length,
		       uint64_t now_ns)
{
	conn->fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	conn->state = LS_CONN_CONNECTING;
	conn->since_ns = now_ns;
	if (conn->fd < 0) {
		fail(conn, "cannot make a socket", errno);
		return;
	}
	if (connect(conn->fd, address, length) < 0 && errno != EINPROGRESS) {
		/* serve is root, and yet has no CAP_DAC_OVERRIDE. */
		fail(conn,
		     errno == EACCES && address->sa_family == AF_UNIX
			     ? "cannot connect; everybody must be able to write to the socket (unixsocketperm 777) and to enter its folder"
			     : "cannot connect",
		     errno);
		return;
	}
	watch(conn, EPOLLOUT);
}

static void connect_unix(struct ls_conn *conn, uint64_t now_ns)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", conn->url.path);
	connect_to(conn, (const struct sockaddr *)&address, sizeof(address), now_ns);
}

/* A number is taken as it is; returns whether it was one. */
static bool connect_numeric(struct ls_conn *conn, uint64_t now_ns)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
					.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
	struct addrinfo *found = NULL;
	char port[8];

	snprintf(port, sizeof(port), "%u", conn->url.port);
	if (getaddrinfo(conn->url.host, port, &hints, &found) != 0)
		return false;
	connect_to(conn, found->ai_addr, found->ai_addrlen, now_ns);
	freeaddrinfo(found);
	return true;
}

/* In a process of its own: writes the address and ends. */
static void look_up(const struct ls_conn *conn, int out)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG };
	struct addrinfo *found = NULL;
	struct sockaddr_storage address = { 0 };
	char port[8];

	snprintf(port, sizeof(port), "%u", conn->url.port);
	const int r = getaddrinfo(conn->url.host, port, &hints, &found);
	if (r != 0)
		_exit(1);
	memcpy(&address, found->ai_addr, found->ai_addrlen);
	_exit(write(out, &address, sizeof(address)) != sizeof(address));
}

static void begin_look_up(struct ls_conn *conn, uint64_t now_ns)
{
	int pipe_fds[2];

	conn->state = LS_CONN_RESOLVING;
	conn->since_ns = now_ns;
	if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0) {
		fail(conn, "cannot make a pipe", errno);
		return;
	}
	conn->fd = pipe_fds[0];
	conn->child = fork();
	if (conn->child == 0)
		look_up(conn, pipe_fds[1]);
	close(pipe_fds[1]);
	if (conn->child < 0) {
		conn->child = 0;
		fail(conn, "cannot start a process that looks a name up", errno);
		return;
	}
	watch(conn, EPOLLIN);
}

bool ls_conn_open(struct ls_conn *conn, const struct ls_redis_url *url, int epoll_fd,
		  uint64_t now_ns)
{
	memset(conn, 0, sizeof(*conn));
	conn->url = *url;
	conn->epoll_fd = epoll_fd;
	conn->fd = -1;
	if (url->tls && !ls_conn_has_tls()) {
		snprintf(conn->why, sizeof(conn->why),
			 "this build's Redis library has no TLS; use redis:// or unix:");
		return false;
	}
	if (url->path[0])
		connect_unix(conn, now_ns);
	else if (!connect_numeric(conn, now_ns))
		begin_look_up(conn, now_ns);
	return conn->state != LS_CONN_CLOSED;
}

static void end_look_up(struct ls_conn *conn, uint64_t now_ns)
{
	struct sockaddr_storage address;
	const ssize_t n = read(conn->fd, &address, sizeof(address));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	(void)epoll_ctl(conn->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
	close(conn->fd);
	conn->fd = -1;
	drop_child(conn);
	if (n != sizeof(address)) {
		ls_conn_close(conn, "its name cannot be looked up");
		return;
	}
	connect_to(conn, (const struct sockaddr *)&address,
		   address.ss_family == AF_INET ? sizeof(struct sockaddr_in)
						: sizeof(struct sockaddr_in6),
		   now_ns);
}

#ifdef LS_REDIS_TLS
/* The system's authorities; the certificate must be for the host of the URL. */
static bool start_tls(struct ls_conn *conn)
{
	static redisSSLContext *shared;
	redisSSLContextError code = REDIS_SSL_CTX_NONE;

	if (!shared) {
		redisInitOpenSSL();
		shared = redisCreateSSLContext(NULL, "/etc/ssl/certs", NULL, NULL, conn->url.host,
					       &code);
	}
	return shared && redisInitiateSSLWithContext(conn->context, shared) == REDIS_OK;
}
#endif

static void end_connect(struct ls_conn *conn, uint64_t now_ns)
{
	int code = 0;
	socklen_t length = sizeof(code);

	if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &code, &length) < 0 || code) {
		fail(conn, "cannot connect", code ? code : errno);
		return;
	}
	redisContext *const context = redisConnectFd(conn->fd);
	if (!context) {
		ls_conn_close(conn, "out of memory");
		return;
	}
	context->flags &= ~REDIS_BLOCK;
	conn->context = context;
	conn->state = LS_CONN_OPEN;
	conn->since_ns = now_ns;
#ifdef LS_REDIS_TLS
	if (conn->url.tls && !start_tls(conn)) {
		ls_conn_close(conn, context->errstr[0] ? context->errstr : "TLS cannot start");
		return;
	}
#endif
	watch(conn, EPOLLIN);
}

static void flush(struct ls_conn *conn)
{
	redisContext *const context = conn->context;
	int done = 0;

	if (redisBufferWrite(context, &done) != REDIS_OK) {
		ls_conn_close(conn, context->errstr[0] ? context->errstr : "cannot write");
		return;
	}
	if (conn->wants_write == !done)
		return;
	conn->wants_write = !done;
	watch(conn, conn->wants_write ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void receive(struct ls_conn *conn)
{
	redisContext *const context = conn->context;

	if (redisBufferRead(context) != REDIS_OK) {
		ls_conn_close(conn, context->errstr[0] ? context->errstr : "it hung up");
		return;
	}
	while (conn->state == LS_CONN_OPEN && conn->context == context) {
		void *got = NULL;
		if (redisGetReplyFromReader(context, &got) != REDIS_OK) {
			ls_conn_close(conn, "it does not speak Redis's protocol");
			return;
		}
		if (!got)
			return;
		redisReply *const reply = got;
		if (!conn->count) {
			freeReplyObject(reply);
			ls_conn_close(conn, "it answers what nobody asked");
			return;
		}
		const struct ls_conn_waiter waiter = conn->queue[conn->first];
		conn->first = (conn->first + 1) % LS_CONN_QUEUE;
		conn->count--;
		if (waiter.answer)
			waiter.answer(waiter.data, (const struct ls_reply *)reply,
				      reply->type == REDIS_REPLY_ERROR ? reply->str : NULL);
		freeReplyObject(reply);
	}
}

void ls_conn_work(struct ls_conn *conn, uint64_t now_ns)
{
	if (conn->state == LS_CONN_RESOLVING)
		end_look_up(conn, now_ns);
	if (conn->state == LS_CONN_RESOLVING && now_ns - conn->since_ns > LOOKUP_NS)
		ls_conn_close(conn, "its name cannot be looked up in time");
	if (conn->state == LS_CONN_CONNECTING) {
		struct sockaddr_storage peer;
		socklen_t length = sizeof(peer);
		int code = 0;
		socklen_t code_length = sizeof(code);
		if (getpeername(conn->fd, (struct sockaddr *)&peer, &length) == 0)
			end_connect(conn, now_ns);
		else if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &code, &code_length) == 0 &&
			 code)
			fail(conn, "cannot connect", code);
		else if (now_ns - conn->since_ns > CONNECT_NS)
			ls_conn_close(conn, "cannot connect: no answer within a second");
	}
	if (conn->state == LS_CONN_OPEN)
		receive(conn);
	if (conn->state == LS_CONN_OPEN && conn->wants_write)
		flush(conn);
}

bool ls_conn_send(struct ls_conn *conn, size_t n_words, const char *const *words,
		  const size_t *lengths, ls_conn_fn answer, void *data)
{
	redisContext *const context = conn->context;

	if (conn->state != LS_CONN_OPEN || conn->count == LS_CONN_QUEUE)
		return false;
	/* hiredis takes pointers to what it does not change. */
	if (redisAppendCommandArgv(context, (int)n_words, (const char **)words, lengths) !=
	    REDIS_OK) {
		ls_conn_close(conn, "out of memory");
		return false;
	}
	conn->queue[(conn->first + conn->count++) % LS_CONN_QUEUE] =
		(struct ls_conn_waiter){ answer, data };
	flush(conn);
	return true; /* a failed write has told the waiter */
}

void ls_conn_forget(struct ls_conn *conn, const void *data)
{
	for (unsigned i = 0; i < conn->count; i++) {
		struct ls_conn_waiter *const waiter =
			&conn->queue[(conn->first + i) % LS_CONN_QUEUE];
		if (waiter->data == data)
			waiter->answer = NULL;
	}
}
