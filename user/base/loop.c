/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/base/loop.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "user/base/cleanup.h"
#include "user/base/error.h"

#define BATCH 64 /* events fetched at once; the rest comes with the next wait */
#define NS_PER_S 1000000000ULL

enum kind {
	KIND_NONE,
	KIND_FD,
	KIND_TIMER,
	KIND_SIGNALS,
};

struct source {
	enum kind kind;
	uint32_t serial; /* of this use of the number: goes with the event */
	union {
		ls_loop_fn fn;
		ls_loop_timer_fn timer;
		ls_loop_signal_fn signal;
	} call;
	void *data;
};

struct ls_loop {
	int epoll_fd;
	uint32_t serial;
	bool stop;
	uint64_t longest_ns;
	struct source *sources; /* by descriptor */
	size_t n_sources;
};

static uint64_t read_clock(clockid_t clock)
{
	struct timespec now = { 0 };

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t ls_loop_monotonic_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t ls_loop_unix_ns(void)
{
	return read_clock(CLOCK_REALTIME);
}

int ls_loop_new(struct ls_loop **ret, struct ls_error *error)
{
	struct ls_loop *loop = calloc(1, sizeof(*loop));

	if (!loop)
		return ls_error_oom(error);
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll_fd < 0) {
		const int code = errno;
		free(loop);
		return ls_error_set_errno(error, code, "cannot make an event loop");
	}
	*ret = loop;
	return 0;
}

void ls_loop_free(struct ls_loop *loop)
{
	if (!loop)
		return;
	for (size_t fd = 0; fd < loop->n_sources; fd++)
		if (loop->sources[fd].kind == KIND_TIMER || loop->sources[fd].kind == KIND_SIGNALS)
			close((int)fd);
	close(loop->epoll_fd);
	free(loop->sources);
	free(loop);
}

static struct source *source_of(struct ls_loop *loop, int fd)
{
	return fd >= 0 && (size_t)fd < loop->n_sources ? &loop->sources[fd] : NULL;
}

static int make_room(struct ls_loop *loop, int fd)
{
	size_t wanted = loop->n_sources ? loop->n_sources : 16;

	if (fd < 0)
		return -EBADF;
	while (wanted <= (size_t)fd)
		wanted *= 2;
	if (wanted == loop->n_sources)
		return 0;
	struct source *more = realloc(loop->sources, wanted * sizeof(*more));
	if (!more)
		return -ENOMEM;
	memset(more + loop->n_sources, 0, (wanted - loop->n_sources) * sizeof(*more));
	loop->sources = more;
	loop->n_sources = wanted;
	return 0;
}

static int add(struct ls_loop *loop, int fd, uint32_t events, const struct source *source)
{
	const int r = make_room(loop, fd);

	if (r < 0)
		return r;
	if (loop->sources[fd].kind != KIND_NONE)
		return -EEXIST;
	const uint32_t serial = ++loop->serial;
	struct epoll_event event = {
		.events = events,
		.data.u64 = (uint64_t)serial << 32 | (uint32_t)fd,
	};
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return -errno;
	loop->sources[fd] = *source;
	loop->sources[fd].serial = serial;
	return 0;
}

int ls_loop_add(struct ls_loop *loop, int fd, uint32_t events, ls_loop_fn fn, void *data)
{
	return add(loop, fd, events,
		   &(struct source){ .kind = KIND_FD, .call.fn = fn, .data = data });
}

int ls_loop_change(struct ls_loop *loop, int fd, uint32_t events)
{
	const struct source *source = source_of(loop, fd);

	if (!source || source->kind == KIND_NONE)
		return -ENOENT;
	struct epoll_event event = {
		.events = events,
		.data.u64 = (uint64_t)source->serial << 32 | (uint32_t)fd,
	};
	return epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, fd, &event) < 0 ? -errno : 0;
}

void ls_loop_remove(struct ls_loop *loop, int fd)
{
	struct source *source = source_of(loop, fd);

	if (!source || source->kind == KIND_NONE)
		return;
	source->kind = KIND_NONE;
	(void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / NS_PER_S),
				  .tv_nsec = (long)(ns % NS_PER_S) };
}

int ls_loop_timer_idle(struct ls_loop *loop, ls_loop_timer_fn fn, void *data)
{
	_cleanup_close_ int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd < 0)
		return -errno;
	const int r = add(loop, fd, EPOLLIN,
			  &(struct source){ .kind = KIND_TIMER, .call.timer = fn, .data = data });
	return r < 0 ? r : TAKE_FD(fd);
}

int ls_loop_timer_set(struct ls_loop *loop, int timer, uint64_t first_ns, uint64_t every_ns)
{
	const struct source *source = source_of(loop, timer);
	const struct itimerspec times = { .it_value = timespec_of(first_ns),
					  .it_interval = timespec_of(every_ns) };

	if (!source || source->kind != KIND_TIMER)
		return -ENOENT;
	return timerfd_settime(timer, 0, &times, NULL) < 0 ? -errno : 0;
}

int ls_loop_timer(struct ls_loop *loop, uint64_t every_ns, ls_loop_timer_fn fn, void *data)
{
	const int timer = ls_loop_timer_idle(loop, fn, data);
	const int r = timer < 0 ? timer : ls_loop_timer_set(loop, timer, every_ns, every_ns);

	if (r < 0)
		ls_loop_timer_stop(loop, timer);
	return r < 0 ? r : timer;
}

void ls_loop_timer_stop(struct ls_loop *loop, int timer)
{
	const struct source *source = source_of(loop, timer);

	if (!source || source->kind != KIND_TIMER)
		return;
	ls_loop_remove(loop, timer);
	close(timer);
}

int ls_loop_signals(struct ls_loop *loop, const sigset_t *signals, ls_loop_signal_fn fn, void *data)
{
	_cleanup_close_ int fd = -1;

	if (sigprocmask(SIG_BLOCK, signals, NULL) < 0)
		return -errno;
	fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	const int r =
		add(loop, fd, EPOLLIN,
		    &(struct source){ .kind = KIND_SIGNALS, .call.signal = fn, .data = data });
	if (r == 0)
		(void)TAKE_FD(fd);
	return r;
}

/* The function may remove its own source, or make the table of sources move: work on a copy. */
static void call(int fd, struct source source, uint32_t events)
{
	struct signalfd_siginfo info;
	uint64_t expired;

	switch (source.kind) {
	case KIND_FD:
		source.call.fn(source.data, events);
		break;
	case KIND_TIMER:
		if (read(fd, &expired, sizeof(expired)) == (ssize_t)sizeof(expired))
			source.call.timer(source.data, ls_loop_monotonic_ns());
		break;
	case KIND_SIGNALS:
		if (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
			source.call.signal(source.data, (int)info.ssi_signo);
		break;
	case KIND_NONE:
		break;
	}
}

static void dispatch(struct ls_loop *loop, const struct epoll_event *event)
{
	const int fd = (int)(uint32_t)event->data.u64;
	const struct source *source = source_of(loop, fd);

	/* Removed by a function that was called before, or another one by now. */
	if (!source || source->serial != (uint32_t)(event->data.u64 >> 32))
		return;
	const uint64_t start_ns = ls_loop_monotonic_ns();
	call(fd, *source, event->events);
	const uint64_t took_ns = ls_loop_monotonic_ns() - start_ns;
	if (took_ns > loop->longest_ns)
		loop->longest_ns = took_ns;
}

int ls_loop_run(struct ls_loop *loop)
{
	struct epoll_event events[BATCH];

	loop->stop = false;
	while (!loop->stop) {
		const int count = epoll_wait(loop->epoll_fd, events, BATCH, -1);
		if (count < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < count && !loop->stop; i++)
			dispatch(loop, &events[i]);
	}
	return 0;
}

void ls_loop_stop(struct ls_loop *loop)
{
	loop->stop = true;
}

uint64_t ls_loop_longest_ns(struct ls_loop *loop)
{
	const uint64_t longest_ns = loop->longest_ns;

	loop->longest_ns = 0;
	return longest_ns;
}
