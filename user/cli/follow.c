/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/follow.h"

/*
 * The rings are looked at ten times a second; in between the process sleeps in poll(), which also tells when nobody
 * reads what it writes, although nothing happens that could be written.
 *
 * Once a second it is looked whether the instance is still the one that was opened: an attach that made it anew is
 * followed to its new rings, from their beginning; a detach ends it.
 */

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "user/base/reason.h"
#include "user/base/units.h"
#include "user/plane/plane.h"

#define PAUSE_MS 100
#define LOOKS_PER_CHECK 10

static volatile sig_atomic_t is_told_to_end;

bool ls_follow_is_over(void)
{
	return is_told_to_end;
}

static void note_signal(int number)
{
	(void)number;
	is_told_to_end = 1;
}

void ls_follow_catch(void)
{
	struct sigaction action = { .sa_handler = note_signal };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

bool ls_reason_refuses(enum ls_reason reason)
{
	return reason >= LS_REASON_MALFORMED;
}

uint64_t ls_follow_now(void)
{
	struct timespec now = { 0 };

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * LS_NS_PER_S + (uint64_t)now.tv_nsec;
}

struct run {
	struct ls_cli *cli;
	const struct ls_follow *what;
	struct ls_plane *plane;
	struct ls_events *events;
	uint64_t lost; /* that were told */
	uint64_t left; /* of --count; UINT64_MAX: not given */
	uint32_t ifindex;
	enum ls_reason reason; /* LS_REASON_MAX: any */
};

static void run_fini(struct run *run)
{
	ls_events_close(run->events);
	ls_plane_close(run->plane);
	run->events = NULL;
	run->plane = NULL;
}

static int read_options(struct run *run)
{
	const char *reason = run->cli->values[LS_OPTION_REASON];
	const char *count = run->cli->values[LS_OPTION_COUNT];
	char names[160] = "";

	run->left = UINT64_MAX;
	run->reason = LS_REASON_MAX;
	for (unsigned i = 0; reason && i < LS_REASON_MAX; i++) {
		if (!ls_reason_refuses(i))
			continue;
		if (strcmp(reason, ls_reason_name(i)) == 0)
			run->reason = i;
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
			 names[0] ? ", " : "", ls_reason_name(i));
	}
	if (reason && run->reason == LS_REASON_MAX)
		return ls_cli_usage("'%s' is no reason that packets are dropped for: %s", reason,
				    names);
	if (count && (strlen(count) > 18 || strspn(count, "0123456789") != strlen(count) ||
		      (run->left = strtoull(count, NULL, 10)) == 0))
		return ls_cli_usage("'%s' is no number of events: --count takes 1 or more", count);
	return LS_EXIT_DONE;
}

/* Its index may change: an interface that is made anew keeps its name only. */
static int find_interface(struct run *run, struct ls_error *error)
{
	return run->cli->interface ? ls_events_interface(run->plane, run->cli->interface,
							 &run->ifindex, error)
				   : 0;
}

/* An older build's program that took over maps of this one's would leave the rings silent: that must not look like
 * a quiet network. */
static void tell_build(const struct run *run)
{
	_cleanup_(ls_plane_status_fini) struct ls_plane_status status = { 0 };

	if (ls_plane_status(run->plane, &status, NULL) == 0 && status.other_build)
		ls_cli_note(
			"the program that runs is another build's (%s); if that is too old to write events, none will come; 'loadshed attach IFACE' replaces it and keeps the state",
			status.version);
}

static int open_events(struct run *run, bool from_oldest)
{
	struct ls_error error = LS_ERROR_INIT;
	int r = ls_plane_open(run->cli->instance, LS_PLANE_READ, &run->plane, &error);

	if (r == LS_PLANE_E_ABSENT)
		return ls_cli_absent(run->cli);
	if (r == 0)
		r = find_interface(run, &error);
	if (r == 0)
		r = ls_events_open(run->plane, from_oldest, &run->events, &error);
	run->lost = 0;
	if (r < 0)
		return ls_cli_fail(&error);
	tell_build(run);
	return LS_EXIT_DONE;
}

/* Whether the command line asks for it. What belongs to no interface belongs to all. */
static bool is_wanted(const struct run *run, const struct ls_event *event)
{
	if (run->cli->interface && event->ifindex && event->ifindex != run->ifindex)
		return false;
	if (event->kind != LS_EVENT_PACKET)
		return !run->what->only_packets && run->reason == LS_REASON_MAX;
	return run->reason == LS_REASON_MAX || event->reason == run->reason;
}

/* Tells what was lost since it was told last. */
static bool tell_lost(struct run *run)
{
	const uint64_t lost = ls_events_lost(run->events), before = run->lost;

	run->lost = lost;
	return lost == before || run->what->lost(run->what->context, lost - before);
}

/* All that is there, or as much as is asked for. */
static bool drain(struct run *run)
{
	struct ls_event event;

	while (run->left && !is_told_to_end && ls_events_next(run->events, &event)) {
		if (!tell_lost(run))
			return false;
		if (!is_wanted(run, &event))
			continue;
		if (!run->what->show(run->what->context, &event))
			return false;
		run->left -= run->left != UINT64_MAX;
	}
	return tell_lost(run) && run->what->drained(run->what->context);
}

/* Whether the rings are still those that packets are written to; asked once a second. */
static bool is_current(struct run *run, unsigned looks)
{
	if (looks % LOOKS_PER_CHECK != 0)
		return true;
	(void)find_interface(run, NULL); /* one that is away for now keeps its old index */
	return ls_events_is_current(run->events);
}

static int end_of_output(void)
{
	if (errno == EPIPE || (errno == EINTR && is_told_to_end))
		return LS_EXIT_DONE;
	ls_cli_note("cannot write what happens: %s", strerror(errno));
	return LS_EXIT_FAILED;
}

static int follow(struct run *run)
{
	for (unsigned looks = 1;; looks++) {
		struct pollfd out = { .fd = run->what->out_fd };
		/* Asked before, so that the last events of an instance are shown. */
		const bool goes_on = is_current(run, looks);
		if (!drain(run))
			return end_of_output();
		if (!run->left || is_told_to_end)
			return LS_EXIT_DONE;
		if (!goes_on) {
			run_fini(run);
			const int r = open_events(run, true);
			if (r != LS_EXIT_DONE)
				return r;
		}
		if (poll(&out, 1, PAUSE_MS) > 0 && out.revents & POLLERR)
			return LS_EXIT_DONE;
	}
}

int ls_follow(struct ls_cli *cli, const struct ls_follow *what, bool (*ready)(void *context))
{
	_cleanup_(run_fini) struct run run = { .cli = cli, .what = what };
	int r = read_options(&run);

	if (r == LS_EXIT_DONE)
		r = open_events(&run, false);
	if (r != LS_EXIT_DONE)
		return r;
	ls_follow_catch();
	return ready(what->context) ? follow(&run) : LS_EXIT_FAILED;
}
