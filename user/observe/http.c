/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/observe/http.h"

/*
 * libmicrohttpd with an epoll descriptor of its own, which stands in the caller's loop: when it is ready, or when the
 * library's next timeout comes, MHD_run() does what there is to do. The library's timeout is of inactivity, so somebody
 * who takes one byte a second would stay; therefore each connection also has a deadline here, and is shut down
 * when it has passed, which the library sees as any other end.
 */

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <microhttpd.h>

#include "user/base/cleanup.h"
#include "user/base/error.h"
#include "user/base/listen.h"
#include "user/base/loop.h"

#define IDLE_SECONDS 15U /* between two requests, and while nothing moves */
#define REQUEST_BYTES 16384U
#define RUNS_AT_ONCE 16 /* before others in the loop have their turn */
#define MS_NS 1000000ULL
#define SECOND_NS 1000000000ULL

struct connection {
	struct MHD_Connection *of; /* NULL: free */
	uint64_t since_ns;	   /* when it was made, or its last request was done */
	bool is_ended;
};

struct ls_http {
	struct ls_loop *loop;
	struct MHD_Daemon *daemon;
	bool is_loopback;
	const char *security;
	ls_http_fn answer;
	void *data;
	int epoll_fd; /* the library's */
	int timer;
	size_t bytes; /* of answers that are not sent yet */
	struct ls_http_counts counts;
	struct connection connections[LS_HTTP_CONNECTIONS];
};

/* An answer that the library sends from and then gives back. */
struct body {
	struct ls_http *http;
	char *bytes;
	size_t length;
};

static void free_body(void *data)
{
	struct body *body = data;

	body->http->bytes -= body->length;
	free(body->bytes);
	free(body);
}

/* ---- answers ---- */

static const struct {
	const char *name, *value;
} headers[] = {
	{ "X-Content-Type-Options", "nosniff" }, { "X-Frame-Options", "DENY" },
	{ "Referrer-Policy", "no-referrer" },	 { "Cross-Origin-Resource-Policy", "same-origin" },
	{ "Cache-Control", "no-store" },
};

static enum MHD_Result queue(const struct ls_http *http, struct MHD_Connection *connection,
			     unsigned status, const char *type, struct MHD_Response *response)
{
	if (!response)
		return MHD_NO;
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
		(void)MHD_add_response_header(response, headers[i].name, headers[i].value);
	(void)MHD_add_response_header(response, "Content-Security-Policy", http->security);
	(void)MHD_add_response_header(response, "Content-Type", type);
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		(void)MHD_add_response_header(response, "Allow", "GET, HEAD");
	const enum MHD_Result result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result refuse(struct ls_http *http, struct MHD_Connection *connection,
			      unsigned status, const char *line)
{
	http->counts.refused++;
	/* The lines are literals. */
	return queue(http, connection, status, "text/plain; charset=utf-8",
		     MHD_create_response_from_buffer(strlen(line), (void *)(uintptr_t)line,
						     MHD_RESPMEM_PERSISTENT));
}

static enum MHD_Result send_answer(struct ls_http *http, struct MHD_Connection *connection,
				   struct ls_http_answer *answer)
{
	_cleanup_free_ char *bytes = answer->bytes;
	struct body *body;

	if (http->bytes + answer->length > LS_HTTP_BYTES)
		return refuse(http, connection, MHD_HTTP_SERVICE_UNAVAILABLE,
			      "too many answers are on their way; try again\n");
	body = malloc(sizeof(*body));
	if (!body)
		return MHD_NO;
	*body = (struct body){ http, TAKE_PTR(bytes), answer->length };
	struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
		body->length, body->bytes, free_body, body);
	http->bytes += body->length;
	if (!response) {
		free_body(body);
		return MHD_NO;
	}
	return queue(http, connection, answer->status, answer->type, response);
}

/* ---- questions ---- */

/* Whether the header Host names this machine: localhost, 127.0.0.0/8 or [::1], with any port. */
static bool is_own_host(const char *host)
{
	static const char *const names[] = { "localhost", "[::1]", "[0:0:0:0:0:0:0:1]" };
	size_t length;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		length = strlen(names[i]);
		if (strncasecmp(host, names[i], length) == 0 &&
		    (host[length] == '\0' || host[length] == ':'))
			return true;
	}
	length = strspn(host, "0123456789.");
	return strncmp(host, "127.", 4) == 0 && (host[length] == '\0' || host[length] == ':');
}

static const char *value_of(struct MHD_Connection *connection, enum MHD_ValueKind kind,
			    const char *name)
{
	const char *value = MHD_lookup_connection_value(connection, kind, name);

	return value ? value : "";
}

static struct connection *connection_of(struct ls_http *http, const struct MHD_Connection *of)
{
	for (size_t i = 0; i < LS_HTTP_CONNECTIONS; i++)
		if (http->connections[i].of == of)
			return &http->connections[i];
	return NULL;
}

/*
 * Called when the headers are there, for each part of what is uploaded, and at the end; an answer at the first
 * call refuses the upload.
 */
static enum MHD_Result on_request(void *data, struct MHD_Connection *connection, const char *path,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_bytes, void **request_data)
{
	static char is_seen;
	struct ls_http *http = data;
	struct ls_http_answer answer = { .status = MHD_HTTP_OK };
	const bool reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;

	(void)version;
	(void)upload;
	if (!*request_data && reads) {
		/* The answer waits for the second call: else the library closes the connection. */
		*request_data = &is_seen;
		return MHD_YES;
	}
	*upload_bytes = 0;
	http->counts.requests++;
	if (!reads)
		return refuse(http, connection, MHD_HTTP_METHOD_NOT_ALLOWED,
			      "this listener is read-only: GET and HEAD\n");
	const char *host = value_of(connection, MHD_HEADER_KIND, "Host");
	if (http->is_loopback && *host && !is_own_host(host))
		return refuse(
			http, connection, MHD_HTTP_FORBIDDEN,
			"this listener is for this machine only: ask by 127.0.0.1 or localhost\n");
	const struct ls_http_request request = {
		.path = path,
		.accept = value_of(connection, MHD_HEADER_KIND, "Accept"),
		.since = value_of(connection, MHD_GET_ARGUMENT_KIND, "since"),
	};
	if (!http->answer(http->data, &request, &answer))
		return refuse(
			http, connection, MHD_HTTP_NOT_FOUND,
			"no such page; there are /, /metrics, /health, /live.json, /policy\n");
	return send_answer(http, connection, &answer);
}

static void on_completed(void *data, struct MHD_Connection *of, void **request_data,
			 enum MHD_RequestTerminationCode code)
{
	struct connection *connection = connection_of(data, of);

	(void)request_data;
	(void)code;
	if (connection)
		connection->since_ns = ls_loop_monotonic_ns();
}

static void on_connection(void *data, struct MHD_Connection *of, void **socket_data,
			  enum MHD_ConnectionNotificationCode code)
{
	struct ls_http *http = data;
	const bool comes = code == MHD_CONNECTION_NOTIFY_STARTED;
	struct connection *connection = connection_of(http, comes ? NULL : of);

	(void)socket_data;
	if (!connection)
		return;
	http->counts.connections += comes ? 1U : -1U;
	*connection = (struct connection){ 0 };
	if (!comes)
		return;
	connection->of = of;
	connection->since_ns = ls_loop_monotonic_ns();
}

/* ---- the loop ---- */

static void run(struct ls_http *http)
{
	MHD_UNSIGNED_LONG_LONG left_ms = 0;
	int runs = 0;

	/* A timeout of 0: there is more to do at once. */
	do
		(void)MHD_run(http->daemon);
	while (MHD_get_timeout(http->daemon, &left_ms) == MHD_YES && left_ms == 0 &&
	       ++runs < RUNS_AT_ONCE);
	if (MHD_get_timeout(http->daemon, &left_ms) == MHD_YES)
		(void)ls_loop_timer_set(http->loop, http->timer,
					left_ms ? (uint64_t)left_ms * MS_NS : 1, 0);
}

static void on_ready(void *data, uint32_t events)
{
	(void)events;
	run(data);
}

static void on_timer(void *data, uint64_t now_ns)
{
	(void)now_ns;
	run(data);
}

void ls_http_tick(struct ls_http *http, uint64_t now_ns)
{
	const uint64_t most =
		(http->counts.connections >= LS_HTTP_CONNECTIONS / 4 * 3 ? 2 : LS_HTTP_SECONDS) *
		SECOND_NS;

	for (size_t i = 0; i < LS_HTTP_CONNECTIONS; i++) {
		struct connection *connection = &http->connections[i];
		const union MHD_ConnectionInfo *info;
		if (!connection->of || connection->is_ended || now_ns < connection->since_ns ||
		    now_ns - connection->since_ns < most)
			continue;
		info = MHD_get_connection_info(connection->of, MHD_CONNECTION_INFO_CONNECTION_FD);
		if (!info)
			continue;
		(void)shutdown(info->connect_fd, SHUT_RDWR);
		connection->is_ended = true;
		http->counts.expired++;
	}
	/* Also when nothing was ended: a library that was full listens again only in the run after the one that made room. */
	run(http);
}

/* ---- start and end ---- */

static int open_socket(const struct ls_listen *listen_at, struct ls_error *error)
{
	const struct sockaddr *address = (const struct sockaddr *)&listen_at->address;
	const int on = 1, off = 0;
	_cleanup_close_ int fd =
		socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return ls_error_set_errno(error, errno, "cannot listen on %s", listen_at->text);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (address->sa_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, address, listen_at->length) < 0 || listen(fd, LS_HTTP_CONNECTIONS) < 0) {
		if (errno == EADDRINUSE) {
			ls_error_set(
				error,
				"cannot listen on %s: another program does; choose another address with --metrics ADDR, or --metrics none",
				listen_at->text);
			return -EADDRINUSE;
		}
		return ls_error_set_errno(error, errno, "cannot listen on %s", listen_at->text);
	}
	return TAKE_FD(fd);
}

static int start(struct ls_http *http, int fd, struct ls_error *error)
{
	http->daemon = MHD_start_daemon(
		MHD_USE_EPOLL, 0, NULL, NULL, on_request, http, MHD_OPTION_LISTEN_SOCKET, fd,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)LS_HTTP_CONNECTIONS,
		MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)REQUEST_BYTES, MHD_OPTION_NOTIFY_CONNECTION, on_connection, http,
		MHD_OPTION_NOTIFY_COMPLETED, on_completed, http, MHD_OPTION_END);
	if (!http->daemon)
		return ls_error_set(error, "cannot start the HTTP listener");
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	if (!info)
		return ls_error_set(error, "cannot start the HTTP listener: no epoll");
	http->epoll_fd = info->epoll_fd;
	http->timer = ls_loop_timer_idle(http->loop, on_timer, http);
	if (http->timer < 0)
		return ls_error_set_errno(error, -http->timer, "cannot start the HTTP listener");
	const int r = ls_loop_add(http->loop, http->epoll_fd, EPOLLIN, on_ready, http);
	return r < 0 ? ls_error_set_errno(error, -r, "cannot start the HTTP listener") : 0;
}

DEFINE_CLEANUP(struct ls_http *, ls_http_free);

int ls_http_new(struct ls_loop *loop, const struct ls_http_listen *request, struct ls_http **ret,
		struct ls_error *error)
{
	_cleanup_(ls_http_freep) struct ls_http *http = calloc(1, sizeof(*http));

	if (!http)
		return ls_error_oom(error);
	http->loop = loop;
	http->is_loopback = request->at->is_loopback;
	http->answer = request->answer;
	http->data = request->data;
	http->security = request->security;
	http->epoll_fd = http->timer = -1;
	_cleanup_close_ int fd = open_socket(request->at, error);
	if (fd < 0)
		return fd;
	const int r = start(http, fd, error);
	if (http->daemon)
		TAKE_FD(fd); /* closed with the daemon */
	if (r < 0)
		return r;
	*ret = TAKE_PTR(http);
	return 0;
}

void ls_http_free(struct ls_http *http)
{
	if (!http)
		return;
	if (http->epoll_fd >= 0)
		ls_loop_remove(http->loop, http->epoll_fd);
	ls_loop_timer_stop(http->loop, http->timer);
	if (http->daemon)
		MHD_stop_daemon(http->daemon);
	free(http);
}

void ls_http_read(const struct ls_http *http, struct ls_http_counts *ret)
{
	*ret = http->counts;
}
