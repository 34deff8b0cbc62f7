/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/save.h"

/*
 * Interfaces and bans are lines of words, for people to look at; the last line says how long the rest is and
 * gives its SHA-256:
 *	loadshed bans 1
 *	saved 1796063400000000000
 *	203.0.113.7 1796064000000000000 operator scanned us
 *	end 62 2c26b46b…
 */

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "user/base/addr.h"
#include "user/base/buffer.h"
#include "user/base/error.h"
#include "user/base/file.h"
#include "user/base/sha256.h"
#include "user/plane/bans.h"
#include "user/plane/internal.h"
#include "user/plane/link.h"
#include "user/policy/blob.h"
#include "user/policy/policy.h"

#define FILE_MODE 0600 /* a policy names addresses that are nobody's business */
#define BLOB_MAX (1UL << 30)
#define LINES_MAX (256UL << 20)

static void path_of(const char *instance, const char *name, char path[static PATH_MAX])
{
	size_t length;

	ls_save_place(instance, path);
	length = strlen(path);
	snprintf(path + length, PATH_MAX - length, "/%s", name);
}

/* Adds the last line and replaces the file. */
static int write_lines(const char *instance, const char *name, struct ls_buffer *lines,
		       struct ls_error *error)
{
	char path[PATH_MAX], sha256[LS_SHA256_TEXT];
	uint8_t digest[LS_SHA256_BYTES];

	ls_sha256(lines->bytes, lines->length, digest);
	ls_buffer_format(lines, "end %zu %s\n", lines->length, ls_sha256_format(digest, sha256));
	if (lines->failed)
		return ls_error_oom(error);
	path_of(instance, name, path);
	return ls_file_replace(path, lines->bytes, lines->length, FILE_MODE, error);
}

/*
 * Reads such a file and cuts its last line off. *ret_text is owned by the caller, *ret_rows points behind the
 * first line, which must be `head`.
 */
static int read_lines(const char *instance, const char *name, const char *head, char **ret_text,
		      char **ret_rows, struct ls_error *error)
{
	char path[PATH_MAX], sha256[LS_SHA256_TEXT], wanted[128];
	uint8_t digest[LS_SHA256_BYTES];
	_cleanup_free_ char *text = NULL;
	size_t length = 0, body;

	path_of(instance, name, path);
	const int r = ls_file_read(path, LINES_MAX, &text, &length, error);
	if (r < 0)
		return r;
	for (body = length > 0 ? length - 1 : 0; body > 0 && text[body - 1] != '\n'; body--)
		;
	ls_sha256(text, body, digest);
	snprintf(wanted, sizeof(wanted), "end %zu %s\n", body, ls_sha256_format(digest, sha256));
	if (strcmp(text + body, wanted) != 0)
		return ls_error_set(error, "cannot read '%s': it is cut off or damaged", path);
	text[body] = '\0';
	if (strncmp(text, head, strlen(head)) != 0)
		return ls_error_set(error, "cannot read '%s': it is of another version", path);
	*ret_rows = text + strlen(head);
	*ret_text = TAKE_PTR(text);
	return 0;
}

/* The next line of *at without its line feed, or NULL; *at moves behind it. */
static char *next_line(char **at)
{
	char *line = *at;
	char *end = strchr(line, '\n');

	if (!end)
		return NULL;
	*end = '\0';
	*at = end + 1;
	return line;
}

#define BANS_HEAD "loadshed bans 1\n"
#define ATTACH_HEAD "loadshed attach 1\n"

static const char *const origins[] = {
#define ORIGIN_TEXT(id, text) [LS_ORIGIN_##id] = text,
	LS_ORIGINS(ORIGIN_TEXT)
#undef ORIGIN_TEXT
};

int ls_save_bans(struct ls_plane *plane, struct ls_error *error)
{
	_cleanup_free_ struct ls_ban_entry *bans = NULL;
	_cleanup_buffer_ struct ls_buffer lines = LS_BUFFER_INIT;
	size_t count = 0;
	char text[LS_PREFIX_TEXT];
	const uint64_t now_ns = ls_now_unix();

	int r = ls_save_make_place(plane->instance, error);
	if (r == 0)
		r = ls_ban_list(plane, &bans, &count, error);
	if (r < 0)
		return r;
	ls_buffer_text(&lines, BANS_HEAD);
	ls_buffer_format(&lines, "saved %" PRIu64 "\n", now_ns);
	for (size_t i = 0; i < count; i++)
		ls_buffer_format(
			&lines, "%s %" PRIu64 " %s %s\n", ls_prefix_format(&bans[i].prefix, text),
			now_ns + bans[i].remaining_ns, origins[bans[i].origin], bans[i].reason);
	return write_lines(plane->instance, "bans", &lines, error);
}

static int save_policy(struct ls_plane *plane, struct ls_error *error)
{
	_cleanup_free_ char *bytes = NULL;
	size_t length = 0;
	char path[PATH_MAX];
	const int r = ls_plane_text_lasting(plane, &bytes, &length, error);

	if (r < 0)
		return r;
	path_of(plane->instance, "policy.blob", path);
	return ls_file_replace(path, bytes, length, FILE_MODE, error);
}

static void add_interface(struct ls_buffer *lines, const char *mode, const char *name)
{
	ls_buffer_format(lines, "interface %s %s\n", mode, name);
}

/* An interface that was renamed is known by its present name from the next save on: so it is found again. */
static void follow_names(struct ls_plane *plane)
{
	struct ls_state *state = ls_plane_state(plane);

	for (int i = 0; i < LS_STATE_INTERFACES; i++) {
		struct ls_state_interface *row = &state->interfaces[i];
		struct ls_device device;
		if (!row->ifindex || !ls_row_is_alive(plane, row) ||
		    ls_device_get(row->ifindex, &device) < 0 || strcmp(row->name, device.name) == 0)
			continue;
		ls_plane_forget(plane, row->name);
		snprintf(row->name, sizeof(row->name), "%.15s", device.name);
	}
}

static void add_row(struct ls_buffer *lines, const struct ls_state_interface *row)
{
	const enum ls_plane_mode mode = row->flags & LS_STATE_F_FELL_BACK ? LS_PLANE_AUTO
					: row->mode == LS_STATE_GENERIC	  ? LS_PLANE_GENERIC
									  : LS_PLANE_NATIVE;

	add_interface(lines, ls_plane_mode_name(mode), row->name);
}

/* Whether an interface is attached that has the name, or had it when it was attached. */
static bool has_row(const struct ls_plane *plane, const char *name)
{
	const struct ls_state *state = ls_plane_state(plane);

	for (int i = 0; i < LS_STATE_INTERFACES; i++) {
		const struct ls_state_interface *row = &state->interfaces[i];
		struct ls_device device;
		if (row->ifindex &&
		    (strcmp(row->name, name) == 0 ||
		     (ls_device_get(row->ifindex, &device) == 0 && strcmp(device.name, name) == 0)))
			return true;
	}
	return false;
}

/*
 * What is attached, and what was saved and is not: an interface that was not there at boot stays saved until
 * it comes, or until somebody detaches it.
 */
static int save_attach(const struct ls_plane *plane, struct ls_error *error)
{
	const struct ls_state *state = ls_plane_state(plane);
	_cleanup_saved_attach_ struct ls_saved_attach saved = { 0 };
	_cleanup_buffer_ struct ls_buffer lines = LS_BUFFER_INIT;
	size_t count = 0;

	ls_buffer_text(&lines, ATTACH_HEAD);
	ls_buffer_format(&lines, "monitor %d\n", state->flags & LS_STATE_MONITOR ? 1 : 0);
	for (int i = 0; i < LS_STATE_INTERFACES; i++) {
		if (!state->interfaces[i].ifindex)
			continue;
		add_row(&lines, &state->interfaces[i]);
		count++;
	}
	(void)ls_save_read_attach(plane->instance, &saved,
				  NULL); /* none, or damaged: nothing to keep */
	for (size_t i = 0; i < saved.n_interfaces && count < LS_STATE_INTERFACES; i++) {
		const struct ls_saved_interface *old = &saved.interfaces[i];
		if (has_row(plane, old->name) || ls_plane_has_forgotten(plane, old->name))
			continue;
		add_interface(&lines, old->mode, old->name);
		count++;
	}
	return write_lines(plane->instance, "attach", &lines, error);
}

int ls_plane_save(struct ls_plane *plane, struct ls_error *error)
{
	int r = ls_save_make_place(plane->instance, error);

	follow_names(plane);
	if (r == 0)
		r = save_policy(plane, error);
	if (r == 0)
		r = save_attach(plane, error);
	if (r == 0)
		r = ls_save_bans(plane, error);
	return r;
}

int ls_save_forget(const struct ls_plane *plane, bool all, size_t *ret_count,
		   struct ls_error *error)
{
	_cleanup_saved_attach_ struct ls_saved_attach saved = { 0 };
	_cleanup_buffer_ struct ls_buffer lines = LS_BUFFER_INIT;
	const int r = ls_save_read_attach(plane->instance, &saved, NULL);
	size_t kept = 0;

	*ret_count = 0;
	if (r == -ENOENT)
		return 0;
	ls_buffer_text(&lines, ATTACH_HEAD);
	ls_buffer_format(&lines, "monitor %d\n", saved.monitor ? 1 : 0);
	for (size_t i = 0; i < saved.n_interfaces; i++) {
		const struct ls_saved_interface *old = &saved.interfaces[i];
		if (all || ls_plane_has_forgotten(plane, old->name))
			continue;
		add_interface(&lines, old->mode, old->name);
		kept++;
	}
	*ret_count = saved.n_interfaces - kept;
	return r == 0 && *ret_count == 0 ? 0
					 : write_lines(plane->instance, "attach", &lines, error);
}

int ls_save_read_policy(const char *instance, struct ls_policy **ret, char **ret_path,
			struct ls_error *error)
{
	char path[PATH_MAX];
	_cleanup_free_ char *bytes = NULL;
	size_t length = 0;

	path_of(instance, "policy.blob", path);
	const int r = ls_file_read(path, BLOB_MAX, &bytes, &length, error);
	return r < 0 ? r : ls_blob_read(path, bytes, length, ret, ret_path, error);
}

static int origin_of(const char *text)
{
	for (int origin = 0; origin < LS_ORIGIN_MAX; origin++)
		if (strcmp(text, origins[origin]) == 0)
			return origin;
	return -1;
}

/* "SOURCE END ORIGIN REASON…"; a remaining_ns of 0 for one that has ended. */
static int read_ban(char *line, uint64_t now_ns, struct ls_ban_entry *ret, struct ls_error *error)
{
	char *rest = line;
	const char *source = strsep(&rest, " ");
	const char *end = strsep(&rest, " ");
	const char *origin_text = strsep(&rest, " ");
	const int origin = origin_text ? origin_of(origin_text) : -1;
	const uint64_t end_ns = end ? strtoull(end, NULL, 10) : 0;

	memset(ret, 0, sizeof(*ret));
	if (origin < 0 || ls_prefix_parse(source, strlen(source), &ret->prefix) != LS_PREFIX_OK)
		return ls_error_set(error, "cannot read the saved bans: '%s' is no ban", source);
	ret->remaining_ns = end_ns > now_ns ? end_ns - now_ns : 0;
	ret->origin = (enum ls_origin)origin;
	snprintf(ret->reason, sizeof(ret->reason), "%s", rest ? rest : "");
	return 0;
}

/*
 * The rows of the file. A clock that shows a time before the save is wrong, as after a boot without a
 * battery; then a ban has what it had left when it was saved, and not years more.
 */
static int read_bans(char *at, struct ls_ban_entry *entries, size_t *ret_count,
		     struct ls_error *error)
{
	uint64_t now_ns = ls_now_unix();
	size_t count = 0;
	char *line;

	while ((line = next_line(&at))) {
		if (strncmp(line, "saved ", 6) == 0) {
			const uint64_t saved_ns = strtoull(line + 6, NULL, 10);
			now_ns = saved_ns > now_ns ? saved_ns : now_ns;
			continue;
		}
		const int r = read_ban(line, now_ns, &entries[count], error);
		if (r < 0)
			return r;
		count += entries[count].remaining_ns > 0;
	}
	*ret_count = count;
	return 0;
}

int ls_save_read_bans(const char *instance, struct ls_ban_entry **ret, size_t *ret_count,
		      struct ls_error *error)
{
	_cleanup_free_ struct ls_ban_entry *entries = NULL;
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	char *at = NULL;
	size_t lines = 1;

	path_of(instance, "bans", path);
	if (access(path, F_OK) < 0 && errno == ENOENT) {
		*ret = NULL;
		*ret_count = 0;
		return 0;
	}
	int r = read_lines(instance, "bans", BANS_HEAD, &text, &at, error);
	if (r < 0)
		return r;
	for (const char *c = at; *c; c++)
		lines += *c == '\n';
	entries = calloc(lines, sizeof(*entries));
	if (!entries)
		return ls_error_oom(error);
	r = read_bans(at, entries, ret_count, error);
	if (r == 0)
		*ret = TAKE_PTR(entries);
	return r;
}

int ls_save_read_attach(const char *instance, struct ls_saved_attach *ret, struct ls_error *error)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ struct ls_saved_interface *rows = NULL;
	struct ls_saved_attach saved = { 0 };
	char *at = NULL, *line;
	const int r = read_lines(instance, "attach", ATTACH_HEAD, &text, &at, error);

	if (r < 0)
		return r;
	rows = calloc(LS_STATE_INTERFACES, sizeof(*rows));
	if (!rows)
		return ls_error_oom(error);
	while ((line = next_line(&at))) {
		struct ls_saved_interface *row = &rows[saved.n_interfaces];
		if (strcmp(line, "monitor 1") == 0)
			saved.monitor = true;
		else if (saved.n_interfaces < LS_STATE_INTERFACES &&
			 sscanf(line, "interface %7s %31s", row->mode, row->name) == 2)
			saved.n_interfaces++;
	}
	saved.interfaces = TAKE_PTR(rows);
	*ret = saved;
	return 0;
}
