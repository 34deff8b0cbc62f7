/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/base/listen.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "user/base/error.h"

#define FORMS "write ADDRESS:PORT, [IPV6]:PORT, :PORT or none; default " LS_LISTEN_DEFAULT

/* 1 to 65535, without sign, blanks or leading zeros; 0: it is none. */
static uint16_t parse_port(const char *text)
{
	unsigned long value = 0;

	if (text[0] == '0' || strlen(text) > 5 || text[strspn(text, "0123456789")] != '\0')
		return 0;
	for (; *text; text++)
		value = value * 10 + (unsigned long)(*text - '0');
	return value <= 65535 ? (uint16_t)value : 0;
}

static void set4(struct in_addr address, uint16_t port, struct ls_listen *ret)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&ret->address;
	char text[INET_ADDRSTRLEN];

	in->sin_family = AF_INET;
	in->sin_port = htons(port);
	in->sin_addr = address;
	ret->length = sizeof(*in);
	ret->is_loopback = ntohl(address.s_addr) >> 24 == 127;
	snprintf(ret->text, sizeof(ret->text), "%s:%u",
		 inet_ntop(AF_INET, &address, text, sizeof(text)), port);
}

static void set6(const struct in6_addr *address, uint16_t port, struct ls_listen *ret)
{
	struct sockaddr_in6 *in = (struct sockaddr_in6 *)&ret->address;
	char text[INET6_ADDRSTRLEN];

	in->sin6_family = AF_INET6;
	in->sin6_port = htons(port);
	in->sin6_addr = *address;
	ret->length = sizeof(*in);
	ret->is_loopback = IN6_IS_ADDR_LOOPBACK(address);
	snprintf(ret->text, sizeof(ret->text), "[%s]:%u",
		 inet_ntop(AF_INET6, address, text, sizeof(text)), port);
}

int ls_listen_parse(const char *text, struct ls_listen *ret, struct ls_error *error)
{
	struct ls_listen listen = { 0 };
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2];
	struct in_addr address4;
	struct in6_addr address6 = IN6ADDR_ANY_INIT;

	if (strcmp(text, "none") == 0) {
		listen.is_none = true;
		snprintf(listen.text, sizeof(listen.text), "none");
		*ret = listen;
		return 0;
	}
	if (!colon)
		return ls_error_set(
			error, "'%.80s' is no address to listen on: it has no port; " FORMS, text);
	const uint16_t port = parse_port(colon + 1);
	const size_t length = (size_t)(colon - text);
	if (!port)
		return ls_error_set(
			error,
			"'%.80s' is no address to listen on: '%.20s' is no port from 1 to 65535; " FORMS,
			text, colon + 1);
	snprintf(host, sizeof(host), "%.*s", (int)(length < sizeof(host) ? length : sizeof(host)),
		 text);
	if (strcmp(host, "localhost") == 0)
		snprintf(host, sizeof(host), "127.0.0.1");
	const size_t end = strlen(host);
	if (end == 0) {
		set6(&address6, port, &listen);
	} else if (length < sizeof(host) && inet_pton(AF_INET, host, &address4) == 1) {
		set4(address4, port, &listen);
	} else if (host[0] == '[' && host[end - 1] == ']') {
		host[end - 1] = '\0';
		if (inet_pton(AF_INET6, host + 1, &address6) != 1)
			return ls_error_set(
				error,
				"'%.80s' is no address to listen on: '%.60s' is no IPv6 address; " FORMS,
				text, host + 1);
		set6(&address6, port, &listen);
	} else if (memchr(text, ':', length)) {
		return ls_error_set(
			error,
			"'%.80s' is no address to listen on: an IPv6 address stands in brackets; " FORMS,
			text);
	} else {
		return ls_error_set(
			error,
			"'%.80s' is no address to listen on: '%.60s' is no IPv4 address (names are not looked up); " FORMS,
			text, host);
	}
	*ret = listen;
	return 0;
}
