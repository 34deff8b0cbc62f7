/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/session.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "user/base/cleanup.h"
#include "user/base/process.h"

#define VARIABLE "SSH_CONNECTION="
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

/* The session of a process or of its nearest ancestor that has one. */
static bool find_from(pid_t pid, struct ls_session *ret)
{
	for (int i = 0; i < LS_ANCESTORS_MAX && pid > 0; i++, pid = ls_process_parent(pid))
		if (read_process(pid, ret))
			return true;
	return false;
}

/* Programs that keep a shell running while people come and go: what their clients and servers are called. */
static const struct {
	const char *server, *client;
} multiplexers[] = { { "tmux: server", "tmux: client" }, { "screen", "screen" } };
#define N_MULTIPLEXERS (sizeof(multiplexers) / sizeof(multiplexers[0]))

/* The multiplexer that this process runs under; N_MULTIPLEXERS: none. */
static size_t find_multiplexer(void)
{
	char name[LS_PROCESS_NAME];
	pid_t pid = getpid();

	for (int i = 0; i < LS_ANCESTORS_MAX && (pid = ls_process_parent(pid)) > 0; i++)
		for (size_t k = 0; k < N_MULTIPLEXERS; k++)
			if (ls_process_name(pid, name) && strcmp(name, multiplexers[k].server) == 0)
				return k;
	return N_MULTIPLEXERS;
}

static size_t add(struct ls_session list[static LS_SESSIONS_MAX], size_t count,
		  const struct ls_session *session)
{
	for (size_t i = 0; i < count; i++)
		if (ls_prefix_equal(&list[i].client, &session->client) &&
		    ls_prefix_equal(&list[i].server, &session->server) &&
		    list[i].server_port == session->server_port)
			return count;
	if (count < LS_SESSIONS_MAX)
		list[count++] = *session;
	return count;
}

/* Whoever looks at the shell at this moment may have come by another way than who started it. */
static size_t add_clients(size_t multiplexer, struct ls_session list[static LS_SESSIONS_MAX],
			  size_t count)
{
	DIR *processes = opendir("/proc");
	const struct dirent *entry;
	char name[LS_PROCESS_NAME];
	struct ls_session session;

	while (processes && (entry = readdir(processes))) {
		const pid_t pid = atoi(entry->d_name);
		if (pid > 0 && ls_process_name(pid, name) &&
		    strcmp(name, multiplexers[multiplexer].client) == 0 && find_from(pid, &session))
			count = add(list, count, &session);
	}
	if (processes)
		closedir(processes);
	return count;
}

size_t ls_session_find(struct ls_session list[static LS_SESSIONS_MAX])
{
	const char *own = getenv("SSH_CONNECTION");
	const size_t multiplexer = find_multiplexer();
	struct ls_session session;
	size_t count = 0;

	if ((own && read_connection(own, &session)) ||
	    find_from(ls_process_parent(getpid()), &session))
		count = add(list, count, &session);
	return multiplexer < N_MULTIPLEXERS ? add_clients(multiplexer, list, count) : count;
}
