/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_SERVE_WORKER_H
#define LOADSHED_USER_SERVE_WORKER_H

/*
 * Work in a process of its own: whatever takes the instance's lock, reads a policy or loads the program. The loop
 * goes on meanwhile, a fault in it is one line in the log, and the memory that a list of a million entries takes
 * goes back whole. The child is a fork without exec, so capabilities and seccomp hold for it too.
 *
 * It reports in lines, each a letter, a blank and a text; done() gets them when it has ended.
 */

#include <stdbool.h>

#include "user/base/buffer.h"

struct ls_loop;

/* Runs in the child. May block and may allocate; what it adds to `report` reaches done(). */
typedef void (*ls_work_fn)(const void *argument, struct ls_buffer *report);
/* NUL-terminated report; NULL: the child died before it had reported. */
typedef void (*ls_work_done_fn)(void *data, char *report);

struct ls_worker {
	struct ls_loop *loop;
	int pid_fd, pipe_fd;
	int pid; /* 0: idle */
	struct ls_buffer report;
	ls_work_done_fn done;
	void *data;
};

void ls_worker_init(struct ls_worker *worker, struct ls_loop *loop);
/* Lets a child that runs go on to its end, without a listener: nothing that it does is left half done. */
void ls_worker_fini(struct ls_worker *worker);

static inline bool ls_worker_is_busy(const struct ls_worker *worker)
{
	return worker->pid != 0;
}

/* One at a time for each worker. `argument` is read in the child. 0 or negative errno. */
int ls_worker_start(struct ls_worker *worker, ls_work_fn work, const void *argument,
		    ls_work_done_fn done, void *data);

/* Splits the first line off *report: its letter, with *ret_text the rest; '\0' at the end. */
char ls_report_next(char **report, char **ret_text);

#endif
