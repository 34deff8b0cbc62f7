/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/serve/modules.h"

/*
 * The list files of the policy in force: what changes in them is published, so that a feed needs nothing but to write its
 * file.
 *
 * Editors and feeds replace a file by renaming another one over it, so folders are watched and not files: a file that was
 * closed after writing, or that was moved in, out or away, counts. Being modified does not: half a file is not
 * a list. Where inotify does not reach (network file systems, a symbolic link that leads elsewhere, a folder that is made
 * later), files are compared every five seconds, and a change counts when the next look finds the same.
 *
 * Events are gathered until 200 ms pass without one, at most 2 s. A worker then reads all the lists (apply.h); one
 * that is bad keeps what was in force, and is said once, in the log and in `status`, until it is good.
 *
 * The policy file itself is not watched: that one an operator applies, or reloads.
 */

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "user/base/conditions.h"
#include "user/base/error.h"
#include "user/base/facts.h"
#include "user/base/log.h"
#include "user/base/loop.h"
#include "user/base/module.h"
#include "user/plane/plane.h"
#include "user/plane/timed.h"
#include "user/serve/apply.h"
#include "user/serve/debounce.h"
#include "user/serve/worker.h"

#define QUIET_NS 200000000ULL
#define MOST_NS 2000000000ULL
#define POLL_NS 5000000000ULL
#define RETRY_NS 2000000000ULL /* while another policy waits to be confirmed */
#define FILES_MAX 1024	       /* sets of a policy */
#define EVENTS (IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ONLYDIR)

/* What tells one state of a file from another. All zero: it is not there. */
struct signature {
	uint64_t device, inode, size;
	struct timespec modified, changed;
};

struct file {
	char *path;	 /* owned; as the policy means it */
	char *base;	 /* in it: its last part */
	char name[32];	 /* of the set */
	int watches[2];	 /* of its folder, and of that which a symbolic link leads to; -1: none */
	char *link_base; /* owned; last part of where the link leads; NULL: no link */
	struct signature read; /* when it was last read */
	struct signature seen; /* at the last comparison */
};

struct watch {
	struct ls_module_host *host;
	struct ls_worker worker;
	int inotify_fd;
	struct file *files;
	size_t n_files;
	struct ls_debounce debounce;
	uint64_t generation; /* whose files are known; 0: of none */
	uint64_t poll_ns, retry_ns;
	bool is_inspecting; /* else the worker reads lists */
	bool is_pending;    /* refused: to be tried again */
};

/* ---- files ---- */

static struct signature signature_of(const char *path)
{
	struct signature signature = { 0 };
	struct stat status;

	if (stat(path, &status) < 0)
		return signature;
	signature.device = status.st_dev;
	signature.inode = status.st_ino;
	signature.size = (uint64_t)status.st_size;
	signature.modified = status.st_mtim;
	signature.changed = status.st_ctim;
	return signature;
}

static bool is_same(const struct signature *a, const struct signature *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static void free_files(struct watch *watch)
{
	for (size_t i = 0; i < watch->n_files; i++) {
		for (int k = 0; k < 2; k++)
			if (watch->files[i].watches[k] >= 0)
				(void)inotify_rm_watch(watch->inotify_fd,
						       watch->files[i].watches[k]);
		free(watch->files[i].path);
		free(watch->files[i].link_base);
	}
	free(watch->files);
	watch->files = NULL;
	watch->n_files = 0;
}

/* Watches the folder of a path; several files of one folder get the same number. -1: it cannot be watched. */
static int watch_folder(const struct watch *watch, const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];

	if (!slash || slash - path >= PATH_MAX)
		return -1;
	snprintf(folder, sizeof(folder), "%.*s", slash == path ? 1 : (int)(slash - path), path);
	return inotify_add_watch(watch->inotify_fd, folder, EVENTS);
}

static void watch_file(const struct watch *watch, struct file *file)
{
	char *real = realpath(file->path, NULL);
	const char *slash = strrchr(file->path, '/');

	file->base = file->path + (slash ? slash - file->path + 1 : 0);
	file->watches[0] = watch_folder(watch, file->path);
	file->watches[1] = -1;
	if (real && strcmp(real, file->path) != 0) {
		file->watches[1] = watch_folder(watch, real);
		file->link_base = strdup(strrchr(real, '/') + 1);
	}
	free(real);
	file->read = file->seen = signature_of(file->path);
}

/* "NAME TAB PATH TAB ENTRIES". */
static void add_file(struct watch *watch, char *text)
{
	char *path = strchr(text, '\t');
	char *end = path ? strchr(path + 1, '\t') : NULL;
	struct file *more;

	if (!end || watch->n_files == FILES_MAX)
		return;
	*path++ = '\0';
	*end = '\0';
	more = realloc(watch->files, (watch->n_files + 1) * sizeof(*more));
	if (!more)
		return;
	watch->files = more;
	struct file *file = &more[watch->n_files];
	memset(file, 0, sizeof(*file));
	snprintf(file->name, sizeof(file->name), "%.31s", text);
	file->path = strdup(path);
	if (!file->path)
		return;
	watch->n_files++;
	watch_file(watch, file);
}

/* ---- conditions ---- */

static void key_of(const char *set, char key[static LS_CONDITION_KEY_BYTES])
{
	snprintf(key, LS_CONDITION_KEY_BYTES, "list %.31s", set);
}

static void say_bad(struct watch *watch, char *text)
{
	char key[LS_CONDITION_KEY_BYTES];
	char *why = strchr(text, '\t');

	if (!why)
		return;
	*why++ = '\0';
	key_of(text, key);
	if (!ls_conditions_set(watch->host->conditions, key, "list '%s' stays as it was: %s", text,
			       why))
		return;
	watch->host->facts->list_failures++;
	ls_log(LS_LOG_ERROR, "list '%s' stays as it was: %s", text, why);
}

/* Sets that a worker found nothing wrong with, or that the policy has no more. */
static void clear_good(struct watch *watch, const char *bad, const struct file *files, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char key[LS_CONDITION_KEY_BYTES], wanted[40];
		snprintf(wanted, sizeof(wanted), "\n%s\n", files[i].name);
		if (bad && strstr(bad, wanted))
			continue;
		key_of(files[i].name, key);
		if (ls_conditions_clear(watch->host->conditions, key))
			ls_log(LS_LOG_NOTICE, "list '%s' is good again", files[i].name);
	}
}

/* ---- the worker's reports ---- */

static void on_inspected(struct watch *watch, char *report)
{
	struct file *old = watch->files;
	const size_t n_old = watch->n_files;
	char *text = NULL;
	char letter;

	watch->files = NULL;
	watch->n_files = 0;
	while ((letter = ls_report_next(&report, &text)) != '\0')
		if (letter == 'L')
			add_file(watch, text);
	/* Conditions of sets that are no more. */
	for (size_t i = 0; i < n_old; i++) {
		size_t k = 0;
		while (k < watch->n_files && strcmp(watch->files[k].name, old[i].name) != 0)
			k++;
		if (k == watch->n_files)
			clear_good(watch, NULL, &old[i], 1);
	}
	/* The old folders' watches, except those that the new files share. */
	for (size_t i = 0; i < n_old; i++) {
		for (int w = 0; w < 2; w++) {
			bool is_used = old[i].watches[w] < 0;
			for (size_t k = 0; k < watch->n_files && !is_used; k++)
				is_used = watch->files[k].watches[0] == old[i].watches[w] ||
					  watch->files[k].watches[1] == old[i].watches[w];
			if (!is_used)
				(void)inotify_rm_watch(watch->inotify_fd, old[i].watches[w]);
		}
		free(old[i].path);
		free(old[i].link_base);
	}
	free(old);
	/* What changed while nobody watched: the lists are compared with what is in force. */
	if (watch->n_files)
		ls_debounce_event(&watch->debounce, ls_loop_monotonic_ns());
}

static void on_read(struct watch *watch, char *report)
{
	_cleanup_buffer_ struct ls_buffer bad = LS_BUFFER_INIT;
	_cleanup_buffer_ struct ls_buffer updated = LS_BUFFER_INIT;
	char *text = NULL;
	const char *name;
	char letter;

	ls_buffer_text(&bad, "\n");
	while ((letter = ls_report_next(&report, &text)) != '\0') {
		switch (letter) {
		case 'B':
			say_bad(watch, text);
			ls_buffer_format(&bad, "%s\n", text);
			break;
		case 'U':
			name = text;
			text = strchr(text, '\t');
			if (!text)
				break;
			*text++ = '\0';
			ls_buffer_format(&updated, "%slist '%s' from %s",
					 updated.length ? "; " : "", name, text);
			break;
		case 'W':
			watch->is_pending = true;
			break;
		case 'E':
			watch->is_pending = true;
			if (ls_conditions_set(watch->host->conditions, "lists",
					      "list files cannot be published: %s", text))
				ls_log(LS_LOG_ERROR, "list files cannot be published: %s", text);
			break;
		case 'G':
			watch->host->facts->list_publishes++;
			/* Ours: nothing else in it has changed, so nothing has to be looked up again. */
			watch->generation = strtoull(text, NULL, 10);
			ls_log(LS_LOG_NOTICE, "published as generation %s: %s", text,
			       ls_buffer_string(&updated));
			break;
		case 'N':
			ls_log(LS_LOG_NOTICE, "%s", text);
			break;
		default:
			break;
		}
	}
	clear_good(watch, ls_buffer_string(&bad), watch->files, watch->n_files);
	if (!watch->is_pending)
		(void)ls_conditions_clear(watch->host->conditions, "lists");
}

static void done(void *data, char *report)
{
	struct watch *watch = data;

	if (!report) {
		ls_log(LS_LOG_ERROR, "the process that read the list files died");
		watch->is_pending = true;
	} else if (watch->is_inspecting) {
		on_inspected(watch, report);
	} else {
		on_read(watch, report);
	}
	watch->retry_ns = ls_loop_monotonic_ns() + RETRY_NS;
}

static void work(struct watch *watch, bool inspect)
{
	watch->is_inspecting = inspect;
	const int r = ls_worker_start(&watch->worker, inspect ? ls_apply_inspect : ls_apply_lists,
				      watch->host->instance, done, watch);
	if (r < 0)
		ls_log(LS_LOG_ERROR, "cannot look at the list files: %s", strerror(-r));
}

/* ---- events ---- */

/* Whether an event of a folder is about the file itself, or about a link that leads to it. */
static bool is_about(const struct file *file, const struct inotify_event *event)
{
	if (!event->len)
		return false;
	return (event->wd == file->watches[0] && strcmp(event->name, file->base) == 0) ||
	       (event->wd == file->watches[1] && file->link_base &&
		strcmp(event->name, file->link_base) == 0);
}

static void on_event(struct watch *watch, const struct inotify_event *event)
{
	/* A folder that is gone, or more events than fit: the comparison finds out. */
	if (event->mask & (IN_Q_OVERFLOW | IN_IGNORED)) {
		watch->poll_ns = 0;
		return;
	}
	for (size_t i = 0; i < watch->n_files; i++)
		if (is_about(&watch->files[i], event))
			ls_debounce_event(&watch->debounce, ls_loop_monotonic_ns());
}

static void on_inotify(void *data, uint32_t events)
{
	struct watch *watch = data;
	char bytes[16384] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t length;

	(void)events;
	while ((length = read(watch->inotify_fd, bytes, sizeof(bytes))) > 0)
		for (const char *at = bytes; at < bytes + length;) {
			const struct inotify_event *event = (const struct inotify_event *)at;
			on_event(watch, event);
			at += sizeof(*event) + event->len;
		}
}

static void compare(struct watch *watch, uint64_t now_ns)
{
	for (size_t i = 0; i < watch->n_files; i++) {
		struct file *file = &watch->files[i];
		const struct signature now = signature_of(file->path);
		if (!is_same(&now, &file->read) && is_same(&now, &file->seen))
			ls_debounce_event(&watch->debounce, now_ns);
		file->seen = now;
	}
}

static void tick(void *state, uint64_t now_ns)
{
	struct watch *watch = state;
	const struct ls_plane *plane = watch->host->plane;

	if (!plane || ls_worker_is_busy(&watch->worker))
		return;
	if (ls_plane_generation(plane) != watch->generation) {
		watch->generation = ls_plane_generation(plane);
		work(watch, true);
		return;
	}
	if (now_ns >= watch->poll_ns) {
		watch->poll_ns = now_ns + POLL_NS;
		compare(watch, now_ns);
	}
	if (watch->is_pending && now_ns >= watch->retry_ns && !ls_plane_pending(plane))
		ls_debounce_event(&watch->debounce, now_ns);
	if (!ls_debounce_due(&watch->debounce, now_ns, QUIET_NS, MOST_NS))
		return;
	watch->is_pending = false;
	for (size_t i = 0; i < watch->n_files; i++)
		watch->files[i].read = watch->files[i].seen = signature_of(watch->files[i].path);
	work(watch, false);
}

static void plane_changed(void *state)
{
	struct watch *watch = state;

	if (!watch->host->plane) {
		clear_good(watch, NULL, watch->files, watch->n_files);
		free_files(watch);
	}
	watch->generation = 0;
}

static int start(struct ls_module_host *host, void **ret_state, struct ls_error *error)
{
	struct watch *watch = calloc(1, sizeof(*watch));

	if (!watch)
		return ls_error_oom(error);
	watch->host = host;
	ls_worker_init(&watch->worker, host->loop);
	watch->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	int r = watch->inotify_fd < 0 ? -errno : 0;
	if (r == 0)
		r = ls_loop_add(host->loop, watch->inotify_fd, EPOLLIN, on_inotify, watch);
	if (r < 0) {
		if (watch->inotify_fd >= 0)
			close(watch->inotify_fd);
		free(watch);
		return ls_error_set_errno(error, -r, "cannot watch files");
	}
	*ret_state = watch;
	return 0;
}

static void stop(void *state)
{
	struct watch *watch = state;

	ls_worker_fini(&watch->worker);
	free_files(watch);
	ls_loop_remove(watch->host->loop, watch->inotify_fd);
	close(watch->inotify_fd);
	free(watch);
}

const struct ls_module ls_module_watch = {
	.name = "watch",
	.start = start,
	.plane_changed = plane_changed,
	.tick = tick,
	.tick_ns = LS_MODULE_TICK_NS,
	.stop = stop,
};
