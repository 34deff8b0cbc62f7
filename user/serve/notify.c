/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/serve/notify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "user/base/cleanup.h"

#define MESSAGE_BYTES 512

int ls_notify_send(const char *socket_name, const char *message)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const size_t length = strlen(socket_name);
	_cleanup_close_ int fd = -1;

	if ((socket_name[0] != '/' && socket_name[0] != '@') || length < 2)
		return -EAFNOSUPPORT;
	if (length >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, socket_name, length + 1);
	if (socket_name[0] == '@')
		address.sun_path[0] = '\0';
	/* A manager that does not read must not stop us. */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* An abstract name is exactly as long as it says; a path ends at its NUL. */
	if (sendto(fd, message, strlen(message), MSG_NOSIGNAL, (struct sockaddr *)&address,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length +
			       (socket_name[0] == '/'))) < 0)
		return -errno;
	return 0;
}

static void tell(const char *message)
{
	const char *name = getenv("NOTIFY_SOCKET");

	if (name && name[0])
		(void)ls_notify_send(name, message); /* nobody there: nobody to tell */
}

void ls_notify_ready(void)
{
	tell("READY=1");
}

void ls_notify_reloading(uint64_t monotonic_ns)
{
	char message[MESSAGE_BYTES];

	snprintf(message, sizeof(message), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
		 monotonic_ns / 1000);
	tell(message);
}

void ls_notify_stopping(void)
{
	tell("STOPPING=1");
}

void ls_notify_watchdog(void)
{
	tell("WATCHDOG=1");
}

void ls_notify_status(const char *format, ...)
{
	static const char key[] = "STATUS=";
	char message[MESSAGE_BYTES];
	va_list arguments;

	memcpy(message, key, sizeof(key));
	va_start(arguments, format);
	vsnprintf(message + sizeof(key) - 1, sizeof(message) - sizeof(key) + 1, format, arguments);
	va_end(arguments);
	message[strcspn(message, "\n")] = '\0'; /* the value ends with its line */
	tell(message);
}

uint64_t ls_notify_watchdog_ns(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	char *end = NULL;

	if (!usec || !usec[0] || (pid && strtoll(pid, NULL, 10) != getpid()))
		return 0;
	const uint64_t value = strtoull(usec, &end, 10);
	return *end == '\0' && value < UINT64_MAX / 1000 ? value * 1000 : 0;
}
