/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/serve/modules.h"

/*
 * Tells the journal what has ended by itself. A panic, an `off` and a level that was set by hand carry their end in the
 * kernel, where no program is called when it comes: who follows `events` would see them begin and never end. What a
 * verb ends has its event from the verb.
 *
 * A look every 100 ms; an end is taken for one by itself when the last look saw less left than until the next but one.
 * One that began and ended between two looks is not seen. Bans are left out: there may be a million.
 */

#include <stdlib.h>

#include "user/base/error.h"
#include "user/base/module.h"
#include "user/plane/events.h"
#include "user/plane/overload.h"
#include "user/plane/timed.h"

enum { ENDED_PANIC, ENDED_OFF, ENDED_LEVEL, ENDED_MAX };

struct ended {
	struct ls_module_host *host;
	uint64_t left_ns[ENDED_MAX]; /* at the last look; 0: it was not on */
	uint64_t looked_ns;
};

static int start(struct ls_module_host *host, void **ret_state, struct ls_error *error)
{
	struct ended *ended = calloc(1, sizeof(*ended));

	if (!ended)
		return ls_error_oom(error);
	ended->host = host;
	*ret_state = ended;
	return 0;
}

static void plane_changed(void *state)
{
	struct ended *ended = state;

	*ended = (struct ended){ .host = ended->host };
}

static void tick(void *state, uint64_t now_ns)
{
	static const struct {
		enum ls_event_kind kind;
		const char *action, *text;
	} events[ENDED_MAX] = {
		[ENDED_PANIC] = { LS_EVENT_MODE, "panic-end", NULL },
		[ENDED_OFF] = { LS_EVENT_MODE, "off-end", NULL },
		[ENDED_LEVEL] = { LS_EVENT_OVERLOAD, "end", "by hand" },
	};
	struct ended *ended = state;
	struct ls_plane *plane = ended->host->plane;

	if (!plane)
		return;
	const uint64_t left_ns[ENDED_MAX] = {
		[ENDED_PANIC] = ls_plane_panic_left(plane),
		[ENDED_OFF] = ls_plane_off_left(plane),
		[ENDED_LEVEL] = ls_plane_hand_left(plane),
	};
	const uint64_t passed_ns = now_ns - ended->looked_ns + LS_MODULE_TICK_NS;

	for (int i = 0; i < ENDED_MAX; i++) {
		const uint64_t before_ns = ended->left_ns[i];
		ended->left_ns[i] = left_ns[i];
		if (!left_ns[i] && before_ns && before_ns <= passed_ns)
			ls_journal_write(plane,
					 &(struct ls_journal_entry){ .kind = events[i].kind,
								     .action = events[i].action,
								     .text = events[i].text });
	}
	ended->looked_ns = now_ns;
}

static void stop(void *state)
{
	free(state);
}

const struct ls_module ls_module_ended = {
	.name = "ended",
	.start = start,
	.plane_changed = plane_changed,
	.tick = tick,
	.tick_ns = LS_MODULE_TICK_NS,
	.stop = stop,
};
