/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/serve/modules.h"

/*
 * Interfaces that come, go, and are taken.
 *
 *	saved, and nothing is attached at all		restored, at once when serve starts
 *	saved, not attached, and it appears		attached, as `restore` does
 *	attached, then gone with its program		said; attached again when one of its name is back
 *	attached, and renamed				saved by its new name
 *	attached, still there, our program is not	said once; not fought over: somebody wanted that
 *
 * The kernel tells of links by rtnetlink; it says nothing when a link of ours is detached by force, so the links are
 * asked twice a second, too: three system calls each. A notification only makes the next look come sooner, so an
 * overflowing socket loses nothing.
 *
 * An interface that is there, saved and without a row is attached only after it has been seen so for two seconds, or when
 * it has just appeared: a detach at this moment takes the row first and what is saved a moment later.
 */

#include <inttypes.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "user/base/conditions.h"
#include "user/base/error.h"
#include "user/base/facts.h"
#include "user/base/log.h"
#include "user/base/loop.h"
#include "user/base/module.h"
#include "user/plane/plane.h"
#include "user/plane/presence.h"
#include "user/plane/save.h"
#include "user/serve/apply.h"
#include "user/serve/worker.h"

#define SECOND_NS 1000000000ULL
#define LOOK_EVERY_NS 500000000ULL
#define SETTLE_NS (2 * SECOND_NS)
#define RETRY_FIRST_NS SECOND_NS
#define RETRY_MOST_NS (60 * SECOND_NS)
#define WANTED LS_PRESENCE_ROWS

/* A saved interface that is not attached. */
struct wanted {
	char name[32];
	bool was_there;	   /* at the last look */
	bool appeared;	   /* since it was wanted */
	uint64_t since_ns; /* of the first look that found it there and not attached */
	uint64_t retry_ns; /* not before */
	uint64_t pause_ns; /* between tries */
	bool is_kept;	   /* seen at this look */
};

struct adopt {
	struct ls_module_host *host;
	struct ls_worker worker;
	int netlink_fd;
	bool is_first; /* no look yet: what is saved is attached at once */
	bool is_dirty;
	uint64_t look_ns;
	struct wanted wanted[WANTED];
	size_t n_wanted;
	/* As of the last look, so that a change is said once, and a detach between two of its steps is not a takeover. */
	struct ls_presence_row rows[LS_PRESENCE_ROWS];
	size_t n_rows;
	struct ls_apply_attach job;
	uint64_t renamed_ns; /* since when a new name is not saved; 0: none */
	uint64_t save_ns;    /* not before */
};

static void key_of(const char *what, const char *name, char key[static LS_CONDITION_KEY_BYTES])
{
	snprintf(key, LS_CONDITION_KEY_BYTES, "%.14s %.31s", what, name);
}

/* ---- what became of the interfaces that are attached ---- */

static void say_taken_off(struct adopt *adopt, const struct ls_presence_row *row)
{
	char key[LS_CONDITION_KEY_BYTES], by[64] = "nothing runs there now";

	if (row->foreign_id)
		snprintf(by, sizeof(by), "program '%s' (id %u) runs there now",
			 row->foreign_name[0] ? row->foreign_name : "unnamed", row->foreign_id);
	key_of("program", row->name, key);
	if (!ls_conditions_since(adopt->host->conditions, key))
		adopt->host->facts->takeovers++;
	if (ls_conditions_set(adopt->host->conditions, key, "%s: our program was taken off; %s",
			      row->name, by))
		ls_log(LS_LOG_ERROR,
		       "%s: not protected: somebody took our program off; %s; left alone: 'loadshed attach %s%s' takes it back, 'loadshed detach %s' forgets it",
		       row->name, by, row->name, row->foreign_id ? " --replace" : "", row->name);
}

static void say_vanished(struct adopt *adopt, const struct ls_presence_row *row)
{
	char key[LS_CONDITION_KEY_BYTES];

	key_of("interface", row->name, key);
	if (ls_conditions_set(adopt->host->conditions, key, "%s: the interface has vanished",
			      row->name))
		ls_log(LS_LOG_WARNING,
		       "%s: the interface has vanished; it is attached again when it is back",
		       row->name);
}

/* Conditions of interfaces that are well, or of which nobody speaks any more. */
static void clear_old(struct adopt *adopt, const struct ls_presence_row *rows, size_t count)
{
	for (size_t i = 0; i < adopt->n_rows; i++) {
		const struct ls_presence_row *old = &adopt->rows[i];
		enum ls_presence now = LS_PRESENCE_RUNS;
		char key[LS_CONDITION_KEY_BYTES];
		for (size_t k = 0; k < count; k++)
			if (strcmp(rows[k].name, old->name) == 0)
				now = rows[k].presence;
		key_of("program", old->name, key);
		if (now != LS_PRESENCE_TAKEN_OFF &&
		    ls_conditions_clear(adopt->host->conditions, key))
			ls_log(LS_LOG_NOTICE, "%s: nobody else's program is in our place any more",
			       old->name);
		key_of("interface", old->name, key);
		if (now != LS_PRESENCE_VANISHED)
			(void)ls_conditions_clear(adopt->host->conditions, key);
	}
}

/* At the last look, too: `detach` takes the link first and the row a moment later. */
static bool was_taken_off(const struct adopt *adopt, const struct ls_presence_row *row)
{
	for (size_t i = 0; i < adopt->n_rows; i++)
		if (adopt->rows[i].ifindex == row->ifindex)
			return adopt->rows[i].presence == LS_PRESENCE_TAKEN_OFF;
	return adopt->is_first;
}

static void look_at_rows(struct adopt *adopt)
{
	struct ls_presence_row rows[LS_PRESENCE_ROWS];
	const size_t count = adopt->host->plane ? ls_presence_read(adopt->host->plane, rows) : 0;

	clear_old(adopt, rows, count);
	for (size_t i = 0; i < count; i++) {
		if (rows[i].presence == LS_PRESENCE_TAKEN_OFF && was_taken_off(adopt, &rows[i]))
			say_taken_off(adopt, &rows[i]);
		else if (rows[i].presence == LS_PRESENCE_VANISHED)
			say_vanished(adopt, &rows[i]);
	}
	memcpy(adopt->rows, rows, count * sizeof(rows[0]));
	adopt->n_rows = count;
}

/* ---- what is to be attached ---- */

static const struct ls_presence_row *row_of(const struct adopt *adopt, const char *name)
{
	for (size_t i = 0; i < adopt->n_rows; i++)
		if (strcmp(adopt->rows[i].name, name) == 0)
			return &adopt->rows[i];
	return NULL;
}

/* A row by another name: the interface was renamed since. */
static bool runs_by_index(const struct adopt *adopt, const char *name)
{
	const unsigned ifindex = if_nametoindex(name);

	for (size_t i = 0; ifindex && i < adopt->n_rows; i++)
		if (adopt->rows[i].ifindex == ifindex)
			return true;
	return false;
}

static struct wanted *find_wanted(struct adopt *adopt, const char *name)
{
	for (size_t i = 0; i < adopt->n_wanted; i++)
		if (strcmp(adopt->wanted[i].name, name) == 0)
			return &adopt->wanted[i];
	if (adopt->n_wanted == WANTED)
		return NULL;
	struct wanted *fresh = &adopt->wanted[adopt->n_wanted++];
	*fresh = (struct wanted){ .pause_ns = RETRY_FIRST_NS };
	snprintf(fresh->name, sizeof(fresh->name), "%.31s", name);
	return fresh;
}

static void want(struct adopt *adopt, const char *name, uint64_t now_ns)
{
	struct wanted *wanted = find_wanted(adopt, name);
	const bool is_there = if_nametoindex(name) != 0;

	if (!wanted)
		return;
	wanted->is_kept = true;
	if (is_there && !wanted->was_there) {
		/* It is known to have been away, or a look just found it wanted. */
		wanted->appeared = wanted->since_ns != 0 || adopt->is_first;
		wanted->since_ns = now_ns;
		wanted->pause_ns = RETRY_FIRST_NS;
		wanted->retry_ns = 0;
	}
	if (!is_there && !wanted->since_ns)
		wanted->since_ns = now_ns;
	wanted->was_there = is_there;
}

static void drop_unwanted(struct adopt *adopt)
{
	size_t kept = 0;

	for (size_t i = 0; i < adopt->n_wanted; i++) {
		if (adopt->wanted[i].is_kept) {
			adopt->wanted[kept] = adopt->wanted[i];
			adopt->wanted[kept++].is_kept = false;
			continue;
		}
		char key[LS_CONDITION_KEY_BYTES];
		key_of("attach", adopt->wanted[i].name, key);
		(void)ls_conditions_clear(adopt->host->conditions, key);
	}
	adopt->n_wanted = kept;
}

/*
 * Nothing is attached, and not just nothing that this build can read: what another version attached runs, and replacing it
 * is for an operator to decide.
 */
static bool is_absent(const struct ls_module_host *host)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;

	return ls_plane_open(host->instance, LS_PLANE_GLANCE, &plane, NULL) == LS_PLANE_E_ABSENT;
}

static void list_wanted(struct adopt *adopt, uint64_t now_ns)
{
	_cleanup_saved_attach_ struct ls_saved_attach saved = { 0 };
	const struct ls_module_host *host = adopt->host;

	if ((host->plane || (host->may_restore && is_absent(host))) &&
	    ls_save_read_attach(host->instance, &saved, NULL) == 0)
		for (size_t i = 0; i < saved.n_interfaces; i++) {
			const char *name = saved.interfaces[i].name;
			const struct ls_presence_row *row = row_of(adopt, name);
			/* Taken off: not ours to decide. */
			if ((row && row->presence != LS_PRESENCE_VANISHED) ||
			    runs_by_index(adopt, name))
				continue;
			want(adopt, name, now_ns);
		}
	drop_unwanted(adopt);
}

/* ---- what was renamed ---- */

static void on_saved(void *data, char *report)
{
	struct adopt *adopt = data;
	char *text = NULL;
	char letter;
	bool is_saved = report != NULL;

	while (report && (letter = ls_report_next(&report, &text)) != '\0')
		if (letter == 'E') {
			ls_log(LS_LOG_ERROR, "cannot save the new name of an interface: %s", text);
			is_saved = false;
		}
	/* What was renamed again meanwhile is told and saved as a new one. */
	if (is_saved)
		adopt->renamed_ns = adopt->save_ns = 0;
	adopt->is_dirty = true;
}

/* A row has the name that was saved last; a save gives it the present one. */
static void save_renamed(struct adopt *adopt, uint64_t now_ns)
{
	const struct ls_presence_row *renamed = NULL;

	for (size_t i = 0; i < adopt->n_rows && !renamed; i++)
		if (adopt->rows[i].presence == LS_PRESENCE_RUNS &&
		    strcmp(adopt->rows[i].name, adopt->rows[i].now) != 0)
			renamed = &adopt->rows[i];
	if (!renamed) {
		adopt->renamed_ns = adopt->save_ns = 0;
		return;
	}
	if (!adopt->renamed_ns) {
		adopt->renamed_ns = now_ns;
		ls_log(LS_LOG_NOTICE, "%s: renamed to %s", renamed->name, renamed->now);
	}
	if (now_ns < adopt->save_ns || ls_worker_is_busy(&adopt->worker))
		return;
	adopt->save_ns = now_ns + RETRY_MOST_NS;
	const int r = ls_worker_start(&adopt->worker, ls_apply_save, adopt->host->instance,
				      on_saved, adopt);
	if (r < 0)
		ls_log(LS_LOG_ERROR, "cannot save the new name of an interface: %s", strerror(-r));
}

static void on_attached(void *data, char *report);

static void attach_wanted(struct adopt *adopt, uint64_t now_ns)
{
	if (ls_worker_is_busy(&adopt->worker))
		return;
	adopt->job.instance = adopt->host->instance;
	adopt->job.n_names = 0;
	for (size_t i = 0; i < adopt->n_wanted; i++) {
		struct wanted *wanted = &adopt->wanted[i];
		if (!wanted->was_there || now_ns < wanted->retry_ns ||
		    (!wanted->appeared && now_ns < wanted->since_ns + SETTLE_NS))
			continue;
		wanted->retry_ns = now_ns + wanted->pause_ns;
		wanted->pause_ns = wanted->pause_ns * 2 < RETRY_MOST_NS ? wanted->pause_ns * 2
									: RETRY_MOST_NS;
		memcpy(adopt->job.names[adopt->job.n_names++], wanted->name, sizeof(wanted->name));
	}
	if (adopt->job.n_names == 0)
		return;
	const int r =
		ls_worker_start(&adopt->worker, ls_apply_attach, &adopt->job, on_attached, adopt);
	if (r < 0)
		ls_log(LS_LOG_ERROR, "cannot attach what is saved: %s", strerror(-r));
}

/* One interface that could not be attached: said once for each reason. */
static void on_failed(struct adopt *adopt, char *text)
{
	char key[LS_CONDITION_KEY_BYTES];
	char *why = strchr(text, '\t');

	if (!why)
		return;
	*why++ = '\0';
	adopt->host->facts->reattach_failed++;
	key_of("attach", text, key);
	if (ls_conditions_set(adopt->host->conditions, key, "%s", why))
		ls_log(LS_LOG_ERROR, "%s", why);
}

static void on_attached(void *data, char *report)
{
	struct adopt *adopt = data;
	char *text = NULL;
	char letter;

	if (!report)
		ls_log(LS_LOG_ERROR, "the process that attached what is saved died");
	while (report && (letter = ls_report_next(&report, &text)) != '\0') {
		char key[LS_CONDITION_KEY_BYTES];
		switch (letter) {
		case 'A':
			adopt->host->facts->reattached++;
			key_of("attach", text, key);
			(void)ls_conditions_clear(adopt->host->conditions, key);
			ls_log(LS_LOG_NOTICE, "%s: attached", text);
			break;
		case 'F':
			on_failed(adopt, text);
			break;
		case 'E':
			if (ls_conditions_set(adopt->host->conditions, "restore", "%s", text))
				ls_log(LS_LOG_ERROR, "cannot attach what is saved: %s", text);
			break;
		default:
			ls_log(LS_LOG_NOTICE, "%s", text);
		}
		if (letter == 'A')
			(void)ls_conditions_clear(adopt->host->conditions, "restore");
	}
	adopt->is_dirty = true;
}

/* ---- the module ---- */

static void on_netlink(void *data, uint32_t events)
{
	struct adopt *adopt = data;
	char bytes[8192];

	(void)events;
	/* What it says is asked of the kernel anyway; ENOBUFS means that there was more of it. */
	while (recv(adopt->netlink_fd, bytes, sizeof(bytes), MSG_DONTWAIT) >= 0 || errno == ENOBUFS)
		adopt->is_dirty = true;
}

static void tick(void *state, uint64_t now_ns)
{
	struct adopt *adopt = state;

	if (!adopt->is_dirty && now_ns < adopt->look_ns)
		return;
	adopt->is_dirty = false;
	adopt->look_ns = now_ns + LOOK_EVERY_NS;
	look_at_rows(adopt);
	list_wanted(adopt, now_ns);
	attach_wanted(adopt, now_ns);
	save_renamed(adopt, now_ns);
	adopt->is_first = false;
}

static void plane_changed(void *state)
{
	struct adopt *adopt = state;

	adopt->is_dirty = true;
}

static int open_netlink(struct ls_error *error)
{
	const struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK };
	_cleanup_close_ int fd =
		socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return ls_error_set_errno(error, errno,
					  "cannot listen to the kernel's news of interfaces");
	return TAKE_FD(fd);
}

static int start(struct ls_module_host *host, void **ret_state, struct ls_error *error)
{
	struct adopt *adopt = calloc(1, sizeof(*adopt));

	if (!adopt)
		return ls_error_oom(error);
	adopt->host = host;
	adopt->is_first = adopt->is_dirty = true;
	ls_worker_init(&adopt->worker, host->loop);
	adopt->netlink_fd = open_netlink(error);
	int r = adopt->netlink_fd;
	if (r >= 0) {
		r = ls_loop_add(host->loop, adopt->netlink_fd, EPOLLIN, on_netlink, adopt);
		if (r < 0)
			close(adopt->netlink_fd);
	}
	if (r < 0) {
		free(adopt);
		return r;
	}
	*ret_state = adopt;
	return 0;
}

static void stop(void *state)
{
	struct adopt *adopt = state;

	ls_worker_fini(&adopt->worker);
	ls_loop_remove(adopt->host->loop, adopt->netlink_fd);
	close(adopt->netlink_fd);
	free(adopt);
}

const struct ls_module ls_module_adopt = {
	.name = "adopt",
	.start = start,
	.plane_changed = plane_changed,
	.tick = tick,
	.tick_ns = LS_MODULE_TICK_NS,
	.stop = stop,
};
