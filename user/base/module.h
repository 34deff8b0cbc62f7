/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BASE_MODULE_H
#define LOADSHED_USER_BASE_MODULE_H

/*
 * What the controller is made of. A module is one concern of `loadshed serve` (metrics, overload, cluster, …): a
 * constant row of functions that user/serve/serve.c lists. It gets a host, which is all that it may know of the
 * controller, and so can be tried with a host of a test's making.
 *
 * All functions of all modules run in one thread, called from the loop. None may block: what takes more
 * than some 10 ms goes to a process of its own.
 *
 * Order: start() of each row from first to last; then, each time the instance comes, goes or is made anew,
 * plane_changed(); tick() in between; stop() from last to first. Capabilities are dropped and seccomp is on after the last
 * start(): what needs more than user/serve/sandbox.h leaves has to be opened there. What stays allowed: sockets of IP, UNIX
 * and netlink, reading files, bpf().
 */

#include <stdbool.h>
#include <stdint.h>

struct ls_conditions;
struct ls_error;
struct ls_facts;
struct ls_listen;
struct ls_loop;
struct ls_metrics;
struct ls_plane;

struct ls_module_host {
	struct ls_loop *loop;
	const char *instance;
	bool may_restore; /* what is saved is attached when nothing is; else it waits */
	/*
	 * Open for reading; NULL while nothing is attached. It is exchanged only between calls to modules, and
	 * plane_changed() tells each at once. The old one is closed after all have been told: nothing
	 * that was taken from it may be kept.
	 */
	struct ls_plane *plane;
	const struct ls_listen *listen; /* where the HTTP listener goes (listen.h); NULL: nowhere */
	struct ls_facts *facts; /* what the controller did and found (facts.h): for all to read */
	struct ls_conditions *conditions; /* what `status` is to show as degraded (conditions.h) */
	/* Writes what all modules export: for the one that is scraped. NULL: nobody else exports. */
	void (*write_metrics)(const struct ls_module_host *host, struct ls_metrics *metrics);
};

struct ls_module {
	const char *name;
	/*
	 * *ret_state is handed to all the others. 0, or negative with a line in `error`: then serve does not start. What
	 * may be missing for a time (a Redis) is no failure to start. host->plane may be NULL.
	 */
	int (*start)(struct ls_module_host *host, void **ret_state, struct ls_error *error);
	void (*plane_changed)(void *state); /* NULL: does not care */
	/* Called every tick_ns, in ns, a multiple of 100 ms; now: CLOCK_MONOTONIC. NULL: no ticks. */
	void (*tick)(void *state, uint64_t now_ns);
	uint64_t tick_ns;
	void (*reload)(void *state); /* SIGHUP: read your files again. NULL: has none */
	/* Writes its own metrics (metrics.h), at each scrape. NULL: has none. */
	void (*metrics)(const void *state, struct ls_metrics *metrics);
	/* Frees the state. Enforcement goes on: nothing is detached, unpinned or undone. */
	void (*stop)(void *state);
};

#define LS_MODULE_TICK_NS 100000000ULL /* 100 ms: the finest */

#endif
