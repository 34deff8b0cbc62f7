/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/base/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 4096

/* JOURNAL_STREAM is inherited by what a service starts; it means us only while our stderr is that stream. */
static bool is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	uintmax_t device = 0, inode = 0;
	struct stat status;

	return stream && sscanf(stream, "%" SCNuMAX ":%" SCNuMAX, &device, &inode) == 2 &&
	       fstat(STDERR_FILENO, &status) == 0 && status.st_dev == device &&
	       status.st_ino == inode;
}

static size_t start_line(char *line, size_t size, enum ls_log_priority priority)
{
	const time_t now = time(NULL);
	struct tm fields;

	if (is_journal())
		return (size_t)snprintf(line, size, "<%d>", (int)priority);
	if (!gmtime_r(&now, &fields))
		return 0;
	return strftime(line, size, "%Y-%m-%dT%H:%M:%SZ loadshed: ", &fields);
}

void ls_log(enum ls_log_priority priority, const char *format, ...)
{
	char line[LINE_BYTES];
	va_list arguments;
	const size_t start = start_line(line, sizeof(line), priority);
	const size_t room = sizeof(line) - start - 1; /* for the line feed */

	va_start(arguments, format);
	const int length = vsnprintf(line + start, room, format, arguments);
	va_end(arguments);
	size_t end = start + (length < 0 ? 0 : (size_t)length < room ? (size_t)length : room - 1);
	for (char *c = line + start; c < line + end; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	line[end++] = '\n';
	/* At once, so that lines of a process and its children do not mix. */
	const ssize_t written = write(STDERR_FILENO, line, end);
	(void)written;
}
