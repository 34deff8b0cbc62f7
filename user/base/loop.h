/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BASE_LOOP_H
#define LOADSHED_USER_BASE_LOOP_H

/*
 * The event loop: descriptors, timers and signals of one thread, by the kernel's own epoll, timerfd and signalfd.
 * A library that waits by itself (an HTTP server, a Redis client) hands its descriptor in here instead.
 *
 * Everything is known by its descriptor, so there is nothing to free and nothing that can outlive it: an event
 * that was fetched before ls_loop_remove() is never delivered after it, even if the number has been given
 * to another descriptor meanwhile. Functions may add, change and remove anything, themselves too.
 *
 * A function that works for long makes everybody wait; what takes more than a few milliseconds belongs
 * into a process of its own.
 */

#include <signal.h>
#include <stdint.h>

struct ls_error;
struct ls_loop;

/* events: EPOLLIN, EPOLLOUT, …, as epoll reports them. */
typedef void (*ls_loop_fn)(void *data, uint32_t events);
/* now_ns: CLOCK_MONOTONIC when the function is called. */
typedef void (*ls_loop_timer_fn)(void *data, uint64_t now_ns);
typedef void (*ls_loop_signal_fn)(void *data, int signal);

/* Negative with a line in `error`. */
int ls_loop_new(struct ls_loop **ret, struct ls_error *error);
/* Closes timers and signals; descriptors that were added stay open. NULL is fine. */
void ls_loop_free(struct ls_loop *loop);

/* Calls fn(data, events) whenever `fd` is ready, level-triggered. 0 or negative errno: -EEXIST when it is there. */
int ls_loop_add(struct ls_loop *loop, int fd, uint32_t events, ls_loop_fn fn, void *data);
/* Waits for other events from now on; 0: for errors only. 0 or negative errno. */
int ls_loop_change(struct ls_loop *loop, int fd, uint32_t events);
/* Before `fd` is closed. One that is not there is fine. */
void ls_loop_remove(struct ls_loop *loop, int fd);

/*
 * Calls fn(data, now) every `every_ns` (> 0) from one period after now on. Periods that were missed are made up for by
 * one call. Returns the timer, or negative errno.
 */
int ls_loop_timer(struct ls_loop *loop, uint64_t every_ns, ls_loop_timer_fn fn, void *data);
/* The same, first after `first_ns` (0: never, until it is set) and then every `every_ns` (0: just once). */
int ls_loop_timer_set(struct ls_loop *loop, int timer, uint64_t first_ns, uint64_t every_ns);
/* A timer that is not running yet; ls_loop_timer_set() starts it. Returns the timer, or negative errno. */
int ls_loop_timer_idle(struct ls_loop *loop, ls_loop_timer_fn fn, void *data);
/* Ends a timer; a negative one is fine. */
void ls_loop_timer_stop(struct ls_loop *loop, int timer);

/* Blocks the signals and calls fn(data, signal) for each that arrives. 0 or negative errno. */
int ls_loop_signals(struct ls_loop *loop, const sigset_t *signals, ls_loop_signal_fn fn,
		    void *data);

/* Until ls_loop_stop(). 0, or negative errno when waiting fails. */
int ls_loop_run(struct ls_loop *loop);
void ls_loop_stop(struct ls_loop *loop);

/* The longest that one function has kept the others waiting, in ns, since the last call of this. */
uint64_t ls_loop_longest_ns(struct ls_loop *loop);

/* CLOCK_MONOTONIC and CLOCK_REALTIME in ns. */
uint64_t ls_loop_monotonic_ns(void);
uint64_t ls_loop_unix_ns(void);

#endif
