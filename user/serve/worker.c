/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/serve/worker.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "user/base/loop.h"

#define REPORT_MAX (4UL << 20) /* a thousand list files with long paths */

void ls_worker_init(struct ls_worker *worker, struct ls_loop *loop)
{
	memset(worker, 0, sizeof(*worker));
	worker->loop = loop;
	worker->pid_fd = worker->pipe_fd = -1;
}

static void close_fd(struct ls_worker *worker, int *fd)
{
	if (*fd < 0)
		return;
	ls_loop_remove(worker->loop, *fd);
	close(*fd);
	*fd = -1;
}

void ls_worker_fini(struct ls_worker *worker)
{
	close_fd(worker, &worker->pid_fd);
	close_fd(worker, &worker->pipe_fd);
	ls_buffer_fini(&worker->report);
	worker->pid = 0;
}

static void write_whole(int fd, const struct ls_buffer *report)
{
	for (size_t sent = 0; sent < report->length;) {
		const ssize_t n = write(fd, report->bytes + sent, report->length - sent);
		if (n < 0 && errno != EINTR)
			return;
		sent += n > 0 ? (size_t)n : 0;
	}
}

/*
 * Nothing of the parent's is kept open: neither its lock, which would make a successor wait, nor connections. The end of
 * the parent (SIGPIPE) must not end the child in the middle of its work.
 */
__attribute__((noreturn)) static void child(int pipe_fd, ls_work_fn work, const void *argument)
{
	struct ls_buffer report = LS_BUFFER_INIT;
	sigset_t none;

	if (dup2(pipe_fd, 3) < 0 || syscall(SYS_close_range, 4U, ~0U, 0) < 0)
		_exit(2);
	signal(SIGPIPE, SIG_IGN);
	/* What ends the parent in an orderly way leaves the child its time. */
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	work(argument, &report);
	write_whole(3, &report);
	_exit(report.failed ? 1 : 0);
}

static void read_pipe(struct ls_worker *worker)
{
	char bytes[16384];
	ssize_t n;

	while ((n = read(worker->pipe_fd, bytes, sizeof(bytes))) > 0)
		if (worker->report.length < REPORT_MAX)
			ls_buffer_add(&worker->report, bytes, (size_t)n);
	if (n == 0 || (errno != EAGAIN && errno != EINTR))
		ls_loop_remove(worker->loop, worker->pipe_fd);
}

static void on_pipe(void *data, uint32_t events)
{
	(void)events;
	read_pipe(data);
}

static void on_exit_of_child(void *data, uint32_t events)
{
	struct ls_worker *worker = data;
	struct ls_buffer report;
	int status = 0;

	(void)events;
	read_pipe(worker);
	while (waitpid(worker->pid, &status, 0) < 0 && errno == EINTR)
		;
	report = worker->report;
	memset(&worker->report, 0, sizeof(worker->report));
	ls_worker_fini(worker);
	const bool is_good = WIFEXITED(status) && WEXITSTATUS(status) == 0 && !report.failed;
	char nothing[1] = "";
	worker->done(worker->data, !is_good ? NULL : report.bytes ? report.bytes : nothing);
	ls_buffer_fini(&report);
}

int ls_worker_start(struct ls_worker *worker, ls_work_fn work, const void *argument,
		    ls_work_done_fn done, void *data)
{
	int ends[2];

	if (worker->pid)
		return -EBUSY;
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	worker->pipe_fd = ends[0];
	worker->done = done;
	worker->data = data;
	const pid_t pid = fork();
	if (pid == 0) {
		(void)fcntl(ends[1], F_SETFL, 0); /* the child waits for its reader */
		child(ends[1], work, argument);
	}
	int r = pid < 0 ? -errno : 0;
	close(ends[1]);
	if (r == 0) {
		worker->pid = pid;
		worker->pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
		r = worker->pid_fd < 0 ? -errno : 0;
	}
	if (r == 0)
		r = ls_loop_add(worker->loop, worker->pipe_fd, EPOLLIN, on_pipe, worker);
	if (r == 0)
		r = ls_loop_add(worker->loop, worker->pid_fd, EPOLLIN, on_exit_of_child, worker);
	if (r < 0)
		ls_worker_fini(worker);
	return r;
}

char ls_report_next(char **report, char **ret_text)
{
	char *line = *report;
	char *end = strchr(line, '\n');

	if (line[0] == '\0' || !end || end - line < 2)
		return '\0';
	*end = '\0';
	*report = end + 1;
	*ret_text = line + 2;
	return line[0];
}
