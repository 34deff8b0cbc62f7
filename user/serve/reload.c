/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/serve/modules.h"

/*
 * SIGHUP: the file that the policy in force came from is applied again. A bad file changes nothing; it is said in
 * the log, in `status` until a reload or another apply succeeds, and in metrics. While a policy waits to be confirmed it is
 * refused, as every publish is. Signals that arrive during a reload make one more after it.
 */

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/conditions.h"
#include "user/base/error.h"
#include "user/base/facts.h"
#include "user/base/log.h"
#include "user/base/loop.h"
#include "user/base/module.h"
#include "user/plane/plane.h"
#include "user/serve/apply.h"
#include "user/serve/notify.h"
#include "user/serve/worker.h"

#define CONDITION "reload"

struct reload {
	struct ls_module_host *host;
	struct ls_worker worker;
	bool again;
	uint64_t
		failed_generation; /* in force when it failed: another one means that somebody applied */
};

static void begin(struct reload *reload);

static void fail(struct reload *reload, const char *path, const char *why)
{
	struct ls_module_host *host = reload->host;

	host->facts->reloads_failed++;
	reload->failed_generation = host->plane ? ls_plane_generation(host->plane) : 0;
	if (path)
		ls_log(LS_LOG_ERROR, "cannot reload '%s': %s; the policy before stays in force",
		       path, why);
	else
		ls_log(LS_LOG_ERROR, "cannot reload: %s; nothing was changed", why);
	(void)ls_conditions_set(host->conditions, CONDITION,
				"the reload failed, the policy before stays in force: %s", why);
}

static void succeed(struct reload *reload, const char *path, const char *number, bool changed)
{
	struct ls_module_host *host = reload->host;

	host->facts->reloads++;
	host->facts->reload_ns = ls_loop_unix_ns();
	(void)ls_conditions_clear(host->conditions, CONDITION);
	ls_log(LS_LOG_NOTICE,
	       changed ? "reloaded '%s' as generation %s"
		       : "reloaded '%s': it is in force already, as generation %s",
	       path, number);
}

static void done(void *data, char *report)
{
	struct reload *reload = data;
	const char *path = NULL;
	char *text = NULL;
	char letter;

	if (!report)
		fail(reload, NULL, "the process that did it died");
	while (report && (letter = ls_report_next(&report, &text)) != '\0') {
		if (letter == 'P')
			path = text;
		else if (letter == 'N')
			ls_log(LS_LOG_NOTICE, "%s", text);
		else if (letter == 'E')
			fail(reload, path, text);
		else if (letter == 'W')
			fail(reload, path,
			     "another policy waits to be confirmed; 'loadshed policy confirm' or 'policy rollback' first");
		else if (letter == 'G' || letter == '=')
			succeed(reload, path ? path : "?", text, letter == 'G');
	}
	if (reload->again)
		begin(reload);
	else
		ls_notify_ready();
}

static void begin(struct reload *reload)
{
	reload->again = false;
	const int r = ls_worker_start(&reload->worker, ls_apply_reload, reload->host->instance,
				      done, reload);
	if (r == 0)
		return;
	fail(reload, NULL, strerror(-r));
	ls_notify_ready();
}

static void on_hangup(void *state)
{
	struct reload *reload = state;

	if (ls_worker_is_busy(&reload->worker)) {
		reload->again = true;
		return;
	}
	ls_notify_reloading(ls_loop_monotonic_ns());
	begin(reload);
}

/* Somebody applied a policy since: what failed then says nothing about what is in force now. */
static void tick(void *state, uint64_t now_ns)
{
	struct reload *reload = state;
	const struct ls_module_host *host = reload->host;

	(void)now_ns;
	if (host->plane && ls_conditions_since(host->conditions, CONDITION) &&
	    ls_plane_generation(host->plane) != reload->failed_generation)
		(void)ls_conditions_clear(host->conditions, CONDITION);
}

static int start(struct ls_module_host *host, void **ret_state, struct ls_error *error)
{
	struct reload *reload = calloc(1, sizeof(*reload));

	if (!reload)
		return ls_error_oom(error);
	reload->host = host;
	ls_worker_init(&reload->worker, host->loop);
	*ret_state = reload;
	return 0;
}

static void stop(void *state)
{
	struct reload *reload = state;

	ls_worker_fini(&reload->worker);
	free(reload);
}

const struct ls_module ls_module_reload = {
	.name = "reload",
	.start = start,
	.reload = on_hangup,
	.tick = tick,
	.tick_ns = 1000000000,
	.stop = stop,
};
