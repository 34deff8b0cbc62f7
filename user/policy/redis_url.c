/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/redis_url.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/sha256.h"

#define PORT 6379

static int hex_of(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

/* Copies a part, undoing %XX; false: too long, or no such escape. */
static bool decode(const char *from, const char *end, char *to, size_t size)
{
	size_t n = 0;

	for (; from < end; from++) {
		char c = *from;
		if (c == '%') {
			if (end - from < 3 || hex_of(from[1]) < 0 || hex_of(from[2]) < 0)
				return false;
			c = (char)(hex_of(from[1]) << 4 | hex_of(from[2]));
			from += 2;
		}
		if (c == '\0' || n + 1 >= size)
			return false;
		to[n++] = c;
	}
	to[n] = '\0';
	return true;
}

static const char *parse_user(const char *start, const char *end, struct ls_redis_url *url)
{
	const char *const colon = memchr(start, ':', (size_t)(end - start));

	if (!decode(start, colon ? colon : end, url->user, sizeof(url->user)))
		return "has a user that is too long or has a wrong %XX";
	if (!colon)
		return url->user[0] ? NULL : "has an '@' and no user before it";
	if (!decode(colon + 1, end, url->password, sizeof(url->password)))
		return "has a password that is too long or has a wrong %XX";
	if (strcmp(url->password, LS_REDIS_MASK) == 0)
		return "has the mask that 'policy show' prints instead of a password; write the password, or use password_file";
	url->has_password = url->password[0] != '\0';
	return url->has_password ? NULL : "has an empty password";
}

static const char *parse_port(const char *text, const char *end, struct ls_redis_url *url)
{
	char *rest;
	const unsigned long port = strtoul(text, &rest, 10);

	if (text == end || !isdigit((unsigned char)*text) || rest != end || *text == '0' ||
	    port > 65535)
		return "has a port that is not 1 to 65535";
	url->port = (uint16_t)port;
	return NULL;
}

static const char *parse_host(const char *start, const char *end, struct ls_redis_url *url)
{
	const char *host_end = memchr(start, ':', (size_t)(end - start));
	const char *port = NULL;

	if (*start == '[') {
		host_end = memchr(start, ']', (size_t)(end - start));
		if (!host_end)
			return "has an address in brackets without their end";
		if (host_end + 1 < end && host_end[1] != ':')
			return "has something between the address and the port";
		port = host_end + 1 < end ? host_end + 2 : NULL;
		start++;
	} else if (host_end) {
		port = host_end + 1;
	} else {
		host_end = end;
	}
	if (host_end == start)
		return "has no host";
	if ((size_t)(host_end - start) >= sizeof(url->host))
		return "has a host that is too long";
	memcpy(url->host, start, (size_t)(host_end - start));
	for (const char *c = url->host; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr(".-_:%", *c))
			return "has a host with a character that no host has";
	return port ? parse_port(port, end, url) : NULL;
}

static const char *parse_authority(const char *text, struct ls_redis_url *url)
{
	const char *const slash = strchr(text, '/');
	const char *const end = slash ? slash : text + strlen(text);
	const char *at = NULL, *why = NULL;

	for (const char *c = text; c < end; c++)
		at = *c == '@' ? c : at;
	if (at)
		why = parse_user(text, at, url);
	if (!why)
		why = parse_host(at ? at + 1 : text, end, url);
	if (why || !slash || !slash[1])
		return why;
	for (const char *c = slash + 1; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
			return "has a database or master name with other characters than letters, digits, '.', '_' and '-'";
	if (strlen(slash + 1) >= sizeof(url->name))
		return "has a database or master name that is too long";
	strcpy(url->name, slash + 1);
	return NULL;
}

const char *ls_redis_url_parse(const char *text, struct ls_redis_url *ret)
{
	struct ls_redis_url url = { .port = PORT };
	const char *why;

	if (strlen(text) >= LS_REDIS_TEXT)
		return "is too long";
	if (strncmp(text, "unix:", 5) == 0) {
		text += 5;
		text += strncmp(text, "///", 3) == 0 ? 2 : 0;
		if (*text != '/' || text[1] == '\0' || text[1] == '/')
			return "needs an absolute path, such as unix:/run/redis/redis.sock";
		if (strlen(text) >= sizeof(url.path))
			return "has a path that is too long for a socket";
		strcpy(url.path, text);
		*ret = url;
		return NULL;
	}
	url.tls = strncmp(text, "rediss://", 9) == 0;
	if (!url.tls && strncmp(text, "redis://", 8) != 0)
		return "is not redis://HOST, rediss://HOST or unix:/PATH";
	why = parse_authority(text + (url.tls ? 9 : 8), &url);
	if (!why)
		*ret = url;
	return why;
}

static void encode(const char *text, char *to, size_t size)
{
	size_t n = 0;

	for (; *text && n + 4 < size; text++) {
		if (isalnum((unsigned char)*text) || strchr("._~-", *text))
			to[n++] = *text;
		else
			n += (size_t)snprintf(to + n, size - n, "%%%02X", (unsigned char)*text);
	}
	to[n] = '\0';
}

char *ls_redis_url_format(const struct ls_redis_url *url, enum ls_secrets secrets,
			  char text[static 4 * LS_REDIS_TEXT])
{
	char user[3 * sizeof(url->user)], password[3 * sizeof(url->password)] = LS_REDIS_MASK;
	uint8_t digest[LS_SHA256_BYTES];
	const bool is_ipv6 = strchr(url->host, ':') != NULL;

	if (url->path[0]) {
		snprintf(text, 4 * LS_REDIS_TEXT, "unix:%s", url->path);
		return text;
	}
	encode(url->user, user, sizeof(user));
	if (secrets == LS_SECRETS_KEPT)
		encode(url->password, password, sizeof(password));
	if (secrets == LS_SECRETS_DIGESTED) {
		ls_sha256(url->password, strlen(url->password), digest);
		snprintf(password, sizeof(password), "*%02x%02x", digest[0], digest[1]);
	}
	snprintf(text, 4 * LS_REDIS_TEXT, "%s://%s%s%s%s%s%s%s:%u%s%s",
		 url->tls ? "rediss" : "redis", user, url->has_password ? ":" : "",
		 url->has_password ? password : "", url->user[0] || url->has_password ? "@" : "",
		 is_ipv6 ? "[" : "", url->host, is_ipv6 ? "]" : "", url->port,
		 url->name[0] ? "/" : "", url->name);
	return text;
}
