/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/link.h"

/*
 * Detach: what is ours, and only that. A row goes with its link; with the last one the pins go, at once, and
 * every map with them. What is detached is saved no longer, so that it does not come back at boot.
 */

#include <stdio.h>
#include <string.h>

#include <bpf/bpf.h>

#include "user/base/error.h"
#include "user/plane/events.h"
#include "user/plane/save.h"
#include "user/policy/check.h"

/* By the name that it is saved under, which is its present one while it is there. */
static void forget_row(struct ls_plane *plane, const struct ls_state_interface *row)
{
	struct ls_device device;

	ls_plane_forget(plane, ls_device_get(row->ifindex, &device) == 0 ? device.name : row->name);
	ls_plane_forget(plane, row->name);
}

/* Takes the program off one interface and forgets it. */
static int detach_row(struct ls_plane *plane, struct ls_state_interface *row,
		      struct ls_error *error)
{
	_cleanup_close_ int fd = ls_pins_get_link(plane->directory, row->ifindex);

	if (fd >= 0 && bpf_link_detach(fd) < 0 && errno != ENOLINK && errno != ENODEV &&
	    errno != EINVAL)
		return ls_error_set_errno(error, errno, "cannot detach from '%s'", row->name);
	ls_journal_write(plane, &(struct ls_journal_entry){ .kind = LS_EVENT_DETACH,
							    .name = row->name,
							    .ifindex = row->ifindex });
	forget_row(plane, row);
	ls_row_drop(plane, row);
	return 0;
}

/* The row that a name means: the interface of that name, or one of ours that has vanished, or gone elsewhere. */
static struct ls_state_interface *row_by_name(const struct ls_plane *plane, const char *name)
{
	struct ls_state *state = ls_plane_state(plane);
	struct ls_device device;

	if (ls_device_find(name, &device, NULL) == 0) {
		struct ls_state_interface *row = ls_row_of(plane, device.ifindex);
		if (row && (strcmp(row->name, name) == 0 || !ls_row_is_alive(plane, row) ||
			    ls_row_is_here(plane, row)))
			return row;
	}
	for (int i = 0; i < LS_STATE_INTERFACES; i++) {
		struct ls_state_interface *row = &state->interfaces[i];
		if (row->ifindex && strcmp(row->name, name) == 0 && !ls_row_is_here(plane, row))
			return row;
	}
	return NULL;
}

static bool is_saved(const struct ls_saved_attach *saved, const char *name)
{
	for (size_t i = 0; i < saved->n_interfaces; i++)
		if (strcmp(saved->interfaces[i].name, name) == 0)
			return true;
	return false;
}

/* One that is not attached may still be waited for at boot. */
static void forget_saved(struct ls_plane *plane, const struct ls_saved_attach *saved,
			 const char *name, struct ls_warnings *notes)
{
	if (!is_saved(saved, name)) {
		ls_warnings_add(notes, "%s: not attached by instance '%s'", name, plane->instance);
		return;
	}
	ls_plane_forget(plane, name);
	ls_warnings_add(notes, "%s: not attached by instance '%s'; it is saved no longer", name,
			plane->instance);
}

/* Ours are all named before the first is detached, so that a wrong name changes nothing. */
static int detach_named(struct ls_plane *plane, const char *const *names, size_t n_names,
			struct ls_warnings *notes, size_t *detached, struct ls_error *error)
{
	_cleanup_saved_attach_ struct ls_saved_attach saved = { 0 };

	(void)ls_save_read_attach(plane->instance, &saved, NULL);
	for (size_t i = 0; i < n_names; i++) {
		struct ls_device device;
		if (!row_by_name(plane, names[i]) && !is_saved(&saved, names[i]) &&
		    ls_device_find(names[i], &device, error) < 0)
			return -ENODEV;
	}
	for (size_t i = 0; i < n_names; i++) {
		struct ls_state_interface *row = row_by_name(plane, names[i]);
		if (!row) {
			forget_saved(plane, &saved, names[i], notes);
			continue;
		}
		const int r = detach_row(plane, row, error);
		if (r < 0)
			return r;
		(*detached)++;
	}
	return 0;
}

static int detach_all(struct ls_plane *plane, size_t *detached, struct ls_error *error)
{
	struct ls_state *state = ls_plane_state(plane);

	for (int i = 0; i < LS_STATE_INTERFACES; i++) {
		if (!state->interfaces[i].ifindex)
			continue;
		const int r = detach_row(plane, &state->interfaces[i], error);
		if (r < 0)
			return r;
		(*detached)++;
	}
	return 0;
}

/* What has been detached stays so when the disk is full or can only be read. */
static int still_saved(int r, struct ls_error *error)
{
	if (r < 0)
		ls_error_prefix(error, "detached, but still saved for the next boot");
	return r;
}

/* The last interface is gone: so are the pins, at once for whoever looks for them. */
static int remove_instance(struct ls_plane *plane, bool all, struct ls_error *error)
{
	char old[PATH_MAX + 8];
	size_t count;

	snprintf(old, sizeof(old), "%s@old", plane->directory);
	if (rename(plane->directory, old) < 0)
		return ls_error_set_errno(error, errno, "cannot rename '%s'", plane->directory);
	const int r = ls_pins_remove(old);
	if (r < 0)
		return ls_error_set_errno(error, -r, "cannot remove '%s'", old);
	return still_saved(ls_save_forget(plane, all, &count, error), error);
}

/* What another version attached, of which only the pins can be understood: all or nothing. */
static int detach_pins(struct ls_plane *plane, size_t n_names, size_t *detached,
		       struct ls_error *error)
{
	uint32_t ifindex;

	if (n_names)
		return ls_error_set(
			error,
			"cannot detach single interfaces of instance '%s': another version of loadshed attached it; use --all, or 'loadshed attach' to carry it over",
			plane->instance);
	while (ls_pins_next_link(plane->directory, &ifindex)) {
		_cleanup_close_ int fd = ls_pins_get_link(plane->directory, ifindex);
		if (fd >= 0)
			(void)bpf_link_detach(fd); /* it may have lost its device already */
		const int r = ls_pins_remove_link(plane->directory, ifindex);
		if (r < 0)
			return ls_error_set_errno(error, -r,
						  "cannot remove a link of instance '%s'",
						  plane->instance);
		(*detached)++;
	}
	return remove_instance(plane, true, error);
}

static int detach_opened(struct ls_plane *plane, const char *const *names, size_t n_names,
			 struct ls_warnings *notes, size_t *detached, struct ls_error *error)
{
	ls_rows_drop_pending(plane);
	const int r = n_names ? detach_named(plane, names, n_names, notes, detached, error)
			      : detach_all(plane, detached, error);
	if (r < 0)
		return r;
	if (!ls_plane_has_interfaces(plane))
		return remove_instance(plane, n_names == 0, error);
	return plane->n_forgotten ? still_saved(ls_plane_save(plane, error), error) : 0;
}

/* Nothing is attached, but something may be saved that would be at the next boot. */
static int detach_absent(struct ls_plane *plane, const char *const *names, size_t n_names,
			 struct ls_warnings *notes, struct ls_error *error)
{
	size_t count = 0;

	if (plane->lock_fd < 0)
		plane->lock_fd = ls_lock_take(plane->instance, error);
	if (plane->lock_fd < 0)
		return plane->lock_fd;
	for (size_t i = 0; i < n_names; i++)
		ls_plane_forget(plane, names[i]);
	const int r = ls_save_forget(plane, n_names == 0, &count, error);
	if (r == 0)
		ls_warnings_add(notes, "nothing is attached (instance '%s')%s", plane->instance,
				count ? "; what was saved of it does not come back at boot" : "");
	return r;
}

int ls_plane_detach(const char *instance, const char *const *interfaces, size_t n_interfaces,
		    struct ls_warnings *notes, size_t *ret_detached, struct ls_error *error)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = calloc(1, sizeof(*plane));
	size_t detached = 0;

	if (!plane)
		return ls_error_oom(error);
	ls_plane_init(plane, instance, LS_PLANE_WRITE);
	int r = ls_plane_open_into(plane, error);
	if (r == LS_PLANE_E_ABSENT)
		r = detach_absent(plane, interfaces, n_interfaces, notes, error);
	else if (r == LS_PLANE_E_LAYOUT)
		r = detach_pins(plane, n_interfaces, &detached, error);
	else if (r == 0)
		r = detach_opened(plane, interfaces, n_interfaces, notes, &detached, error);
	if (r == 0)
		*ret_detached = detached;
	return r;
}
