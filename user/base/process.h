/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BASE_PROCESS_H
#define LOADSHED_USER_BASE_PROCESS_H

/* What /proc tells of processes. They come and go meanwhile: what cannot be read is absent. */

#include <stdbool.h>
#include <sys/types.h>

/* Whoever follows parents stops here: a chain that is longer has changed while it was followed. */
#define LS_ANCESTORS_MAX 64

/* Parent of a process; 0: none or unknown. */
pid_t ls_process_parent(pid_t pid);

#define LS_PROCESS_NAME 16

/* Its name as the kernel has it, cut at 15 bytes; false: no such process. */
bool ls_process_name(pid_t pid, char ret_name[static LS_PROCESS_NAME]);

#endif
