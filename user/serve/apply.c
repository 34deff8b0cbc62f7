/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/serve/apply.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/buffer.h"
#include "user/base/error.h"
#include "user/base/file.h"
#include "user/plane/plane.h"
#include "user/plane/restore.h"
#include "user/plane/timed.h"
#include "user/policy/check.h"
#include "user/policy/edit.h"
#include "user/policy/policy.h"
#include "user/policy/read.h"

#define TRIES 3 /* somebody published while files were read */

static void report_notes(struct ls_buffer *report, const struct ls_warnings *notes)
{
	for (size_t i = 0; i < notes->count; i++)
		ls_buffer_format(report, "N %s\n", notes->lines[i]);
}

static void report_error(struct ls_buffer *report, const struct ls_error *error)
{
	ls_buffer_format(report, "E %s\n",
			 ls_error_is_set(error) ? error->text : "failed, and nobody said why");
}

/* Opens; a line in the report and false when that does not work. */
static bool open_plane(const char *instance, enum ls_plane_access access, struct ls_plane **ret,
		       struct ls_buffer *report)
{
	struct ls_error error = LS_ERROR_INIT;
	const int r = ls_plane_open(instance, access, ret, &error);

	if (r == LS_PLANE_E_ABSENT)
		ls_error_set(&error, "nothing is attached");
	if (r)
		report_error(report, &error);
	return r == 0;
}

/* Publishes and saves what a worker has made. The plane is open for writing. */
static void publish(struct ls_plane *plane, const struct ls_policy *policy, const char *path,
		    struct ls_buffer *report)
{
	_cleanup_warnings_ struct ls_warnings notes = LS_WARNINGS_INIT;
	struct ls_error error = LS_ERROR_INIT;
	const int r = ls_plane_publish(plane, policy, path, &notes, &error);

	report_notes(report, &notes);
	if (r < 0) {
		report_error(report, &error);
		return;
	}
	ls_buffer_format(report, "%c %" PRIu64 "\n", r == 0 ? 'G' : '=',
			 ls_plane_generation(plane));
	/* What was in force already is saved as well: whoever published it may have been killed before. */
	if (ls_plane_save(plane, &error) < 0)
		ls_buffer_format(report, "N in force, but not saved for the next boot: %s\n",
				 error.text);
}

void ls_apply_reload(const void *argument, struct ls_buffer *report)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	_cleanup_(ls_policy_freep) struct ls_policy *current = NULL;
	_cleanup_(ls_policy_freep) struct ls_policy *policy = NULL;
	_cleanup_free_ char *path = NULL;
	struct ls_error error = LS_ERROR_INIT;

	if (!open_plane(argument, LS_PLANE_READ, &plane, report))
		return;
	if (ls_plane_policy(plane, &current, &path, &error) < 0) {
		report_error(report, &error);
		return;
	}
	ls_plane_close(TAKE_PTR(plane));
	if (!path) {
		ls_buffer_text(
			report,
			"E the policy in force came from no file; 'loadshed policy apply FILE' gives it one\n");
		return;
	}
	ls_buffer_format(report, "P %s\n", path);
	if (ls_policy_read(path, NULL, &policy, &error) < 0) {
		report_error(report, &error);
		return;
	}
	/* The lock is held for the publish only, and not while files are read. */
	if (open_plane(argument, LS_PLANE_WRITE, &plane, report)) {
		if (ls_plane_pending(plane))
			ls_buffer_text(report, "W \n");
		else
			publish(plane, policy, path, report);
	}
}

/* "DIR/file", with DIR that of the policy; what is absolute stays. NULL: out of memory or nowhere. */
static char *list_path(const char *policy_path, const char *file)
{
	struct ls_buffer path = LS_BUFFER_INIT;
	const char *slash = policy_path ? strrchr(policy_path, '/') : NULL;

	if (file[0] == '/')
		return strdup(file);
	if (!slash)
		return NULL;
	ls_buffer_format(&path, "%.*s/%s", (int)(slash - policy_path), policy_path, file);
	return ls_buffer_take(&path, NULL);
}

void ls_apply_inspect(const void *argument, struct ls_buffer *report)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	_cleanup_(ls_policy_freep) struct ls_policy *policy = NULL;
	_cleanup_free_ char *path = NULL;
	struct ls_error error = LS_ERROR_INIT;

	if (!open_plane(argument, LS_PLANE_READ, &plane, report))
		return;
	if (ls_plane_policy(plane, &policy, &path, &error) < 0) {
		report_error(report, &error);
		return;
	}
	if (path)
		ls_buffer_format(report, "P %s\n", path);
	for (size_t i = 0; i < policy->n_sets; i++) {
		const struct ls_set *set = &policy->sets[i];
		_cleanup_free_ char *file = set->file ? list_path(path, set->file) : NULL;
		if (file && !strchr(file, '\n') && !strchr(file, '\t'))
			ls_buffer_format(report, "L %s\t%s\t%zu\n", set->name, file,
					 set->entries.count);
	}
}

/* Reads one list file anew. True when the set has changed. */
static bool refresh_set(struct ls_policy *policy, size_t index, const char *path,
			struct ls_buffer *report)
{
	_cleanup_free_ char *bytes = NULL;
	struct ls_error error = LS_ERROR_INIT;
	const struct ls_set *set = &policy->sets[index];
	const size_t before = set->entries.count;
	size_t length = 0;
	int r = ls_file_read(path, LS_LIST_BYTES_MAX, &bytes, &length, &error);

	if (r == 0)
		r = ls_policy_edit_list(policy, index, path, bytes, length, &error);
	if (r == LS_EDIT_E_PRESENT)
		return false;
	if (r == LS_EDIT_E_ABSENT)
		ls_error_set(
			&error,
			"%s: it has no entry any more, as a feed that was cut off; 'loadshed policy apply' puts it in force if that is meant",
			path);
	if (r != 0) {
		ls_buffer_format(report, "B %s\t%s\n", set->name, error.text);
		return false;
	}
	ls_buffer_format(report, "U %s\t%s: %zu entries, before %zu\n", set->name, path,
			 set->entries.count, before);
	return true;
}

/* One try. False: somebody published meanwhile, so it was for nothing. */
static bool try_lists(const char *instance, struct ls_buffer *report)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	_cleanup_(ls_policy_freep) struct ls_policy *policy = NULL;
	_cleanup_free_ char *path = NULL;
	struct ls_error error = LS_ERROR_INIT;
	bool is_changed = false;

	if (!open_plane(instance, LS_PLANE_READ, &plane, report))
		return true;
	const uint64_t generation = ls_plane_generation(plane);
	if (ls_plane_policy(plane, &policy, &path, &error) < 0) {
		report_error(report, &error);
		return true;
	}
	ls_plane_close(TAKE_PTR(plane));
	for (size_t i = 0; i < policy->n_sets; i++) {
		_cleanup_free_ char *file =
			policy->sets[i].file ? list_path(path, policy->sets[i].file) : NULL;
		if (file && refresh_set(policy, i, file, report))
			is_changed = true;
	}
	if (!is_changed)
		return true;
	if (!open_plane(instance, LS_PLANE_WRITE, &plane, report))
		return true;
	if (ls_plane_generation(plane) != generation)
		return false;
	if (ls_plane_pending(plane))
		ls_buffer_text(report, "W \n");
	else
		publish(plane, policy, path, report);
	return true;
}

void ls_apply_lists(const void *argument, struct ls_buffer *report)
{
	for (int i = 0; i < TRIES; i++) {
		_cleanup_buffer_ struct ls_buffer attempt = LS_BUFFER_INIT;
		if (!try_lists(argument, &attempt))
			continue;
		ls_buffer_add(report, attempt.bytes, attempt.length);
		return;
	}
	ls_buffer_text(report, "W \n");
}

void ls_apply_save(const void *argument, struct ls_buffer *report)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	struct ls_error error = LS_ERROR_INIT;

	if (open_plane(argument, LS_PLANE_WRITE, &plane, report) &&
	    ls_plane_save(plane, &error) < 0)
		report_error(report, &error);
}

void ls_apply_attach(const void *argument, struct ls_buffer *report)
{
	const struct ls_apply_attach *job = argument;
	_cleanup_restore_ struct ls_restore saved = { 0 };
	struct ls_error error = LS_ERROR_INIT, bans_error = LS_ERROR_INIT;
	const int r = ls_restore_read(job->instance, &saved, &bans_error, &error);

	if (r < 0)
		report_error(report, &error);
	if (r != 0)
		return;
	if (saved.bans_failed)
		ls_buffer_format(report, "N the bans are not restored: %s\n", bans_error.text);
	for (unsigned i = 0; i < job->n_names; i++) {
		_cleanup_warnings_ struct ls_warnings notes = LS_WARNINGS_INIT;
		ls_error_clear(&error);
		if (ls_restore_interface(job->instance, &saved, job->names[i], false, &notes,
					 &error) == 0)
			ls_buffer_format(report, "A %s\n", job->names[i]);
		else
			ls_buffer_format(report, "F %s\t%s\n", job->names[i], error.text);
		report_notes(report, &notes);
	}
}
