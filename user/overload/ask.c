/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/overload/ask.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "user/base/loop.h"

#define WORD_MOST 10.0
#define WORD_UNHEALTHY 2.0

void ls_ask_init(struct ls_ask *ask, struct ls_loop *loop, const struct ls_endpoint *endpoint,
		 bool reads)
{
	*ask = (struct ls_ask){ .loop = loop, .endpoint = endpoint, .reads = reads, .fd = -1 };
}

void ls_ask_fini(struct ls_ask *ask)
{
	if (ask->fd < 0)
		return;
	ls_loop_remove(ask->loop, ask->fd);
	close(ask->fd);
	ask->fd = -1;
}

static void end(struct ls_ask *ask, bool is_good, const char *why)
{
	ask->latency_ns = ls_loop_monotonic_ns() - ask->started_ns;
	ask->is_done = true;
	ask->is_good = is_good;
	snprintf(ask->why, sizeof(ask->why), "%s", why);
	ls_ask_fini(ask);
}

/* The response so far: its status and where the body begins. False: not all of the header is there. */
static bool parse_http(struct ls_ask *ask)
{
	const char *body = strstr(ask->text, "\r\n\r\n");

	if (!body || sscanf(ask->text, "HTTP/%*u.%*u %u", &ask->status) != 1)
		return false;
	ask->body = body + 4;
	return true;
}

static void read_answer(struct ls_ask *ask)
{
	const ssize_t bytes = recv(ask->fd, ask->text + ask->length,
				   sizeof(ask->text) - 1 - ask->length, MSG_DONTWAIT);
	const bool is_http = ask->endpoint->kind == LS_ENDPOINT_HTTP;

	if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (bytes < 0) {
		end(ask, false, strerror(errno));
		return;
	}
	ask->length += (unsigned)bytes;
	ask->text[ask->length] = '\0';
	const bool is_end = bytes == 0 || ask->length == sizeof(ask->text) - 1;
	ask->body = ask->text;
	if (is_http && !parse_http(ask)) {
		if (is_end)
			end(ask, false, "the answer is no HTTP");
		return;
	}
	/* A body without a line feed ends with the connection, and `Connection: close` was asked for. */
	if (!is_end && !strchr(ask->body, '\n') && !(is_http && ask->status >= 400))
		return;
	char why[64] = "";
	if (ask->status >= 400)
		snprintf(why, sizeof(why), "HTTP status %u", ask->status);
	end(ask, !*why, why);
}

static void send_request(struct ls_ask *ask)
{
	char request[512];
	const char *url = ask->endpoint->text + strlen("http://");
	const size_t host = strcspn(url, "/");
	const int length = snprintf(
		request, sizeof(request),
		"GET %.300s HTTP/1.0\r\nHost: %.*s\r\nUser-Agent: loadshed\r\nConnection: close\r\n\r\n",
		url + host, (int)(host < 64 ? host : 64), url);

	if (send(ask->fd, request, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT) != length)
		end(ask, false, "the request could not be sent");
}

static void on_event(void *data, uint32_t events)
{
	struct ls_ask *ask = data;
	int code = 0;
	socklen_t length = sizeof(code);
	const bool is_asked = ask->endpoint->kind == LS_ENDPOINT_HTTP;

	(void)events;
	if (ask->is_connected) {
		read_answer(ask);
		return;
	}
	if (getsockopt(ask->fd, SOL_SOCKET, SO_ERROR, &code, &length) < 0)
		code = errno;
	if (code) {
		end(ask, false, strerror(code));
		return;
	}
	if (!is_asked && !ask->reads) {
		end(ask, true, "");
		return;
	}
	ask->is_connected = true;
	if (ls_loop_change(ask->loop, ask->fd, EPOLLIN) < 0)
		end(ask, false, "the event loop takes no more");
	else if (is_asked)
		send_request(ask);
}

static socklen_t address_of(const struct ls_endpoint *endpoint, struct sockaddr_storage *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (endpoint->kind == LS_ENDPOINT_UNIX) {
		struct sockaddr_un *local = (void *)ret;
		local->sun_family = AF_UNIX;
		snprintf(local->sun_path, sizeof(local->sun_path), "%s", endpoint->text);
		return sizeof(*local);
	}
	if (endpoint->address.family == LS_IPV4) {
		struct sockaddr_in *four = (void *)ret;
		four->sin_family = AF_INET;
		four->sin_port = htons(endpoint->port);
		memcpy(&four->sin_addr, endpoint->address.bytes, 4);
		return sizeof(*four);
	}
	struct sockaddr_in6 *six = (void *)ret;
	six->sin6_family = AF_INET6;
	six->sin6_port = htons(endpoint->port);
	memcpy(&six->sin6_addr, endpoint->address.bytes, 16);
	return sizeof(*six);
}

void ls_ask_start(struct ls_ask *ask, uint64_t now_ns)
{
	struct sockaddr_storage address;
	const socklen_t length = address_of(ask->endpoint, &address);

	if (ask->fd >= 0)
		return;
	ask->started_ns = now_ns;
	ask->is_connected = false;
	ask->length = 0;
	ask->status = 0;
	ask->text[0] = '\0';
	ask->body = ask->text;
	ask->fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (ask->fd < 0) {
		end(ask, false, strerror(errno));
		return;
	}
	if (connect(ask->fd, (const struct sockaddr *)&address, length) < 0 &&
	    errno != EINPROGRESS) {
		const int code = errno;
		close(ask->fd);
		ask->fd = -1;
		end(ask, false, strerror(code));
		return;
	}
	if (ls_loop_add(ask->loop, ask->fd, EPOLLOUT, on_event, ask) < 0) {
		close(ask->fd);
		ask->fd = -1;
		end(ask, false, "the event loop takes no more");
	}
}

void ls_ask_expire(struct ls_ask *ask, uint64_t now_ns, uint64_t timeout_ns)
{
	if (ask->fd >= 0 && now_ns - ask->started_ns >= timeout_ns)
		end(ask, false, "no answer in time");
}

bool ls_word_parse(const char *text, double *ret)
{
	static const struct {
		const char *word;
		double value;
	} words[] = { { "healthy", 0 },
		      { "ok", 0 },
		      { "unhealthy", WORD_UNHEALTHY },
		      { "overloaded", WORD_UNHEALTHY } };
	const size_t skip = strspn(text, " \t\r\n"), length = strcspn(text + skip, " \t\r\n");
	const char *start = text + skip;
	char *end_of_number = NULL;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strlen(words[i].word) == length && strncmp(start, words[i].word, length) == 0) {
			*ret = words[i].value;
			return true;
		}
	}
	/* Digits and one dot: strtod would take "inf", "0x1" and other languages' commas, too. */
	if (length == 0 || length > 16 || strspn(start, "0123456789.") != length)
		return false;
	const double value = strtod(start, &end_of_number);
	if (end_of_number != start + length || value > WORD_MOST)
		return false;
	*ret = value;
	return true;
}
