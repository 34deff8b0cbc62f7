/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/base/process.h"

#include <stdio.h>
#include <string.h>

#include "user/base/cleanup.h"

static bool read_line(pid_t pid, const char *file, char *line, int size)
{
	char path[64];
	_cleanup_fclose_ FILE *stream = NULL;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	stream = fopen(path, "re");
	return stream && fgets(line, size, stream);
}

pid_t ls_process_parent(pid_t pid)
{
	char line[512];
	int parent = 0;

	if (!read_line(pid, "stat", line, sizeof(line)))
		return 0;
	/* The name in brackets may hold anything, brackets too. */
	const char *rest = strrchr(line, ')');
	return rest && sscanf(rest + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

bool ls_process_name(pid_t pid, char ret_name[static LS_PROCESS_NAME])
{
	if (!read_line(pid, "comm", ret_name, LS_PROCESS_NAME))
		return false;
	ret_name[strcspn(ret_name, "\n")] = '\0';
	return true;
}
