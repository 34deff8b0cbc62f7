/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/session.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "user/base/cleanup.h"

#define VARIABLE "SSH_CONNECTION="
#define ANCESTORS_MAX 64
#define ENVIRONMENT_MAX (1U << 20)

/* One address of it. */
static bool read_address(const char *text, struct ls_prefix *ret)
{
	static const char mapped[] = "::ffff:";
	size_t length = strcspn(text, "%");

	if (strncasecmp(text, mapped, strlen(mapped)) == 0 && strchr(text, '.')) {
		text += strlen(mapped);
		length -= strlen(mapped);
	}
	return ls_prefix_parse(text, length, ret) == LS_PREFIX_OK && ls_prefix_is_host(ret);
}

/* "203.0.113.7 51234 198.51.100.1 22" */
static bool read_connection(const char *text, struct ls_session *ret)
{
	char client[64], server[64];
	unsigned client_port, server_port;

	if (sscanf(text, "%63s %u %63s %u", client, &client_port, server, &server_port) != 4 ||
	    client_port > UINT16_MAX || server_port > UINT16_MAX ||
	    !read_address(client, &ret->client) || !read_address(server, &ret->server) ||
	    ret->client.family != ret->server.family)
		return false;
	ret->client_port = (uint16_t)client_port;
	ret->server_port = (uint16_t)server_port;
	return true;
}

/* SSH_CONNECTION in the environment that a process was started with. */
static bool read_process(pid_t pid, struct ls_session *ret)
{
	char path[64];
	_cleanup_free_ char *environment = malloc(ENVIRONMENT_MAX + 1);
	_cleanup_close_ int fd = -1;
	size_t length = 0;
	ssize_t got;

	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (!environment || fd < 0)
		return false;
	while (length < ENVIRONMENT_MAX &&
	       (got = read(fd, environment + length, ENVIRONMENT_MAX - length)) > 0)
		length += (size_t)got;
	environment[length] = '\0';
	for (size_t at = 0; at < length; at += strlen(environment + at) + 1)
		if (strncmp(environment + at, VARIABLE, strlen(VARIABLE)) == 0)
			return read_connection(environment + at + strlen(VARIABLE), ret);
	return false;
}

static pid_t parent_of(pid_t pid)
{
	char path[64], line[512];
	_cleanup_fclose_ FILE *file = NULL;
	int parent = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (!file || !fgets(line, sizeof(line), file))
		return 0;
	const char *rest = strrchr(line, ')');
	return rest && sscanf(rest + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

bool ls_session_find(struct ls_session *ret)
{
	const char *own = getenv("SSH_CONNECTION");
	pid_t pid = getpid();

	if (own && read_connection(own, ret))
		return true;
	for (int i = 0; i < ANCESTORS_MAX && (pid = parent_of(pid)) > 0; i++)
		if (read_process(pid, ret))
			return true;
	return false;
}
