/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/serve/serve.h"

/*
 * Composition of the controller: the table of modules, and one loop that they share.
 *
 * It keeps the instance open for reading and looks ten times a second whether what it has open is still what is attached.
 * Nothing attached is no failure: it restores what is saved (adopt.c), or waits for an attach, with metrics that say
 * so. It holds no lock while idle, and everything that changes something or takes long runs in a process of its own
 * (worker.c), so that the loop goes on and the memory of a large policy goes back whole.
 */

#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/conditions.h"
#include "user/base/error.h"
#include "user/base/facts.h"
#include "user/base/listen.h"
#include "user/base/log.h"
#include "user/base/loop.h"
#include "user/base/module.h"
#include "user/cluster/cluster.h"
#include "user/observe/observe.h"
#include "user/overload/overload.h"
#include "user/plane/plane.h"
#include "user/serve/modules.h"
#include "user/serve/notify.h"
#include "user/serve/sandbox.h"

#define SECOND_NS 1000000000ULL
#define OPEN_EVERY_NS 500000000ULL /* looking for an instance walks /proc in some namespaces */

/* In the order of their start. Ends with a NULL. */
static const struct ls_module *const modules[] = {
	&ls_module_adopt,    &ls_module_reload,	 &ls_module_watch,   &ls_module_ended,
	&ls_module_overload, &ls_module_observe, &ls_module_cluster, NULL,
};
#define MODULES (sizeof(modules) / sizeof(modules[0]) - 1)

struct serve {
	struct ls_module_host host;
	struct ls_facts facts;
	void *states[MODULES + 1];
	uint64_t next_ns[MODULES + 1]; /* of each tick */
	size_t n_started;
	uint64_t next_open_ns, next_second_ns;
	bool has_said_waiting;
	struct ls_error said; /* about an instance that cannot be opened: once */
	int stop_signal;
};

/* ---- the instance ---- */

/* Tells everybody, then lets go of the old one. */
static void exchange_plane(struct serve *serve, struct ls_plane *plane)
{
	struct ls_plane *old = serve->host.plane;

	serve->host.plane = plane;
	for (size_t i = 0; i < serve->n_started; i++)
		if (modules[i]->plane_changed)
			modules[i]->plane_changed(serve->states[i]);
	ls_plane_close(old);
}

static void say_open(struct serve *serve)
{
	_cleanup_(ls_plane_status_fini) struct ls_plane_status status = { 0 };

	serve->has_said_waiting = false;
	ls_error_clear(&serve->said);
	if (ls_plane_status(serve->host.plane, &status, NULL) < 0)
		return;
	ls_log(LS_LOG_NOTICE,
	       "instance '%s' is attached to %zu interface%s: generation %" PRIu64 ", %s",
	       serve->host.instance, status.n_interfaces, status.n_interfaces == 1 ? "" : "s",
	       status.generation, status.monitor ? "monitor" : "enforce");
	ls_notify_status("%zu interface%s, generation %" PRIu64 ", %s", status.n_interfaces,
			 status.n_interfaces == 1 ? "" : "s", status.generation,
			 status.monitor ? "monitor" : "enforce");
}

static void say_waiting(struct serve *serve)
{
	if (serve->has_said_waiting)
		return;
	serve->has_said_waiting = true;
	ls_log(LS_LOG_WARNING,
	       "nothing is attached (instance '%s'): waiting; 'loadshed attach IFACE' starts it",
	       serve->host.instance);
	ls_notify_status("not protected: nothing is attached");
}

/* Something that cannot be opened is said once, and again when it says something else. */
static void open_plane(struct serve *serve)
{
	struct ls_error error = LS_ERROR_INIT;
	struct ls_plane *plane = NULL;
	const int r = ls_plane_open(serve->host.instance, LS_PLANE_GLANCE, &plane, &error);

	if (r == 0) {
		exchange_plane(serve, plane);
		say_open(serve);
		return;
	}
	if (r == LS_PLANE_E_ABSENT) {
		say_waiting(serve);
		return;
	}
	if (strcmp(error.text, serve->said.text) != 0)
		ls_log(LS_LOG_ERROR, "%s", error.text);
	serve->said = error;
}

static void look_at_plane(struct serve *serve, uint64_t now_ns)
{
	if (serve->host.plane && !ls_plane_is_current(serve->host.plane)) {
		exchange_plane(serve, NULL);
		serve->next_open_ns = 0;
	}
	if (serve->host.plane || now_ns < serve->next_open_ns)
		return;
	serve->next_open_ns = now_ns + OPEN_EVERY_NS;
	open_plane(serve);
}

/* ---- the loop's functions ---- */

static void tick(void *data, uint64_t now_ns)
{
	struct serve *serve = data;

	look_at_plane(serve, now_ns);
	if (now_ns >= serve->next_second_ns) {
		serve->next_second_ns = now_ns + SECOND_NS;
		serve->facts.loop_longest_ns = ls_loop_longest_ns(serve->host.loop);
		ls_conditions_beat(serve->host.conditions, ls_loop_unix_ns());
	}
	for (size_t i = 0; i < serve->n_started; i++) {
		if (!modules[i]->tick || now_ns < serve->next_ns[i])
			continue;
		/* From when it was due, so that the period holds; not from then, if that is long past. */
		serve->next_ns[i] += modules[i]->tick_ns;
		if (serve->next_ns[i] <= now_ns)
			serve->next_ns[i] = now_ns + modules[i]->tick_ns - LS_MODULE_TICK_NS / 2;
		modules[i]->tick(serve->states[i], now_ns);
	}
}

static void beat(void *data, uint64_t now_ns)
{
	(void)data;
	(void)now_ns;
	ls_notify_watchdog();
}

static void on_signal(void *data, int number)
{
	struct serve *serve = data;

	if (number == SIGHUP) {
		for (size_t i = 0; i < serve->n_started; i++)
			if (modules[i]->reload)
				modules[i]->reload(serve->states[i]);
		return;
	}
	serve->stop_signal = number;
	ls_loop_stop(serve->host.loop);
}

static void write_metrics(const struct ls_module_host *host, struct ls_metrics *metrics)
{
	/* The host is the first member. */
	const struct serve *serve = (const struct serve *)(const void *)host;

	for (size_t i = 0; i < serve->n_started; i++)
		if (modules[i]->metrics)
			modules[i]->metrics(serve->states[i], metrics);
}

/* ---- start and stop ---- */

static int start_loop(struct serve *serve, struct ls_error *error)
{
	sigset_t signals;
	const uint64_t watchdog_ns = ls_notify_watchdog_ns();
	int r = ls_loop_new(&serve->host.loop, error);

	if (r < 0)
		return r;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	r = ls_loop_signals(serve->host.loop, &signals, on_signal, serve);
	if (r == 0)
		r = ls_loop_timer(serve->host.loop, LS_MODULE_TICK_NS, tick, serve);
	if (r >= 0 && watchdog_ns)
		r = ls_loop_timer(serve->host.loop, watchdog_ns / 2 ? watchdog_ns / 2 : 1, beat,
				  serve);
	return r < 0 ? ls_error_set_errno(error, -r, "cannot start the event loop") : 0;
}

static int start_modules(struct serve *serve, struct ls_error *error)
{
	for (size_t i = 0; modules[i]; i++) {
		const int r = modules[i]->start(&serve->host, &serve->states[i], error);
		if (r < 0) {
			ls_error_prefix(error, "cannot start '%s'", modules[i]->name);
			return r;
		}
		serve->n_started = i + 1;
	}
	return 0;
}

static void stop(struct serve *serve)
{
	while (serve->n_started > 0) {
		const size_t i = --serve->n_started;
		if (modules[i]->stop)
			modules[i]->stop(serve->states[i]);
	}
	ls_plane_close(serve->host.plane);
	ls_loop_free(serve->host.loop);
	ls_conditions_close(serve->host.conditions);
	free(serve);
}

static inline void cleanup_serve(struct serve **serve)
{
	if (*serve)
		stop(*serve);
}

static int start(struct serve *serve, struct ls_error *error)
{
	char path[LS_PLANE_RUN_PATH];
	int r = ls_plane_run_make(error);

	if (r < 0)
		return r;
	ls_plane_run_path(serve->host.instance, "serve", path);
	r = ls_conditions_open(path, &serve->host.conditions, error);
	if (r == 0)
		r = start_loop(serve, error);
	if (r < 0)
		return r;
	(void)ls_plane_prepare(false, NULL);
	/* Whoever may not look at all ends here, and does not wait for what it will never see. */
	r = ls_plane_open(serve->host.instance, LS_PLANE_READ, &serve->host.plane, error);
	if (r < 0 && r != -EPROTO)
		return r;
	if (r < 0) {
		ls_log(LS_LOG_ERROR, "%s", error->text);
		serve->said = *error;
		ls_error_clear(error);
	}
	if (serve->host.plane)
		say_open(serve);
	/* While this may still be done. Without it nothing can be restored, and a read-only bpffs is said by attach. */
	if (!serve->host.plane && serve->host.may_restore && ls_plane_prepare(true, error) < 0) {
		ls_log(LS_LOG_WARNING, "%s", error->text);
		ls_error_clear(error);
	}
	r = start_modules(serve, error);
	return r < 0 ? r : ls_sandbox_enter(error);
}

int ls_serve_run(const struct ls_serve_request *request, struct ls_error *error)
{
	_cleanup_(cleanup_serve) struct serve *serve = calloc(1, sizeof(*serve));
	int r;

	if (!serve)
		return ls_error_oom(error);
	serve->host.instance = request->instance;
	serve->host.may_restore = request->may_restore;
	serve->host.listen = request->listen->is_none ? NULL : request->listen;
	serve->host.facts = &serve->facts;
	serve->host.write_metrics = write_metrics;
	serve->facts.start_ns = ls_loop_unix_ns();
	if (serve->host.listen && !serve->host.listen->is_loopback)
		ls_log(LS_LOG_WARNING,
		       "listening on %s: metrics and the live page can be read by whoever reaches it",
		       serve->host.listen->text);
	r = start(serve, error);
	if (r < 0)
		return r;
	ls_notify_ready();
	r = ls_loop_run(serve->host.loop);
	ls_notify_stopping();
	if (r < 0)
		return ls_error_set_errno(error, -r, "cannot wait for events");
	ls_log(LS_LOG_NOTICE, "ended by %s; what is attached goes on as it is",
	       serve->stop_signal == SIGINT ? "SIGINT" : "SIGTERM");
	return 0;
}
