/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/link.h"

/*
 * Attach and detach: all interfaces that were named, or none.
 *
 * A new instance is put together aside: maps, program, policy, links, pins; the last step renames the
 * directory of its pins. Until then everything goes when this process goes. An interface that joins an
 * instance gets a row marked as pending, then its pin, then the mark is taken off; a killed attach leaves the mark, and
 * whoever holds the lock next takes such rows out.
 *
 * A second life: a pinned link keeps program and maps in the kernel. Detaching one takes the program off the interface and the
 * pin away; with the last one the directory goes and with it every map.
 */

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "user/base/error.h"
#include "user/plane/events.h"
#include "user/plane/upgrade.h"
#include "user/policy/check.h"
#include "user/policy/policy.h"

/* One run of attach. */
struct job {
	const struct ls_plane_attach *request;
	struct ls_warnings *notes;
	char root[PATH_MAX];
	struct ls_plane plane;
	bool is_new; /* the instance is being made, in directory "@new" */
	struct ls_target targets[LS_STATE_INTERFACES];
	size_t n_targets;
};

static void job_fini(struct job *job)
{
	for (size_t i = 0; i < job->n_targets; i++)
		ls_target_fini(&job->targets[i]);
	ls_plane_fini(&job->plane);
	free(job);
}

static inline void job_cleanup(struct job **job)
{
	if (*job)
		job_fini(*job);
}

/* The interfaces by index: a name given twice, or a name and its altname, are one. */
static int find_targets(struct job *job, struct ls_error *error)
{
	for (size_t i = 0; i < job->request->n_interfaces; i++) {
		struct ls_device device;
		size_t known = 0;
		const int r = ls_device_find(job->request->interfaces[i], &device, error);
		if (r < 0)
			return r;
		while (known < job->n_targets &&
		       job->targets[known].device.ifindex != device.ifindex)
			known++;
		if (known < job->n_targets)
			continue;
		if (job->n_targets == LS_STATE_INTERFACES)
			return ls_error_set(error, "cannot attach to more than %d interfaces",
					    LS_STATE_INTERFACES);
		ls_target_init(&job->targets[known]);
		job->targets[known].device = device;
		job->n_targets++;
	}
	return 0;
}

bool ls_plane_is_attached(const struct ls_plane *plane, const char *name)
{
	struct ls_device device;
	const struct ls_state_interface *row =
		ls_device_find(name, &device, NULL) == 0 ? ls_row_of(plane, device.ifindex) : NULL;

	return row && ls_row_is_here(plane, row);
}

/* A bank that no row has; 0: all are taken, or another interface has this one's place in the table. */
static uint16_t choose_bank(const struct ls_plane *plane, uint32_t ifindex)
{
	const struct ls_state *state = ls_plane_state(plane);
	bool taken[LS_BANKS] = { true };

	if (ls_plane_control_rw(plane)->bank[ifindex % LS_BANK_SLOTS].ifindex)
		return 0;
	for (int i = 0; i < LS_STATE_INTERFACES; i++)
		if (state->interfaces[i].ifindex)
			taken[state->interfaces[i].bank] = true;
	for (uint16_t bank = 1; bank < LS_BANKS; bank++)
		if (!taken[bank])
			return bank;
	return 0;
}

/* Who is attached already, and whether the others may be. */
static int check_targets(struct job *job, struct ls_error *error)
{
	for (size_t i = 0; i < job->n_targets; i++) {
		struct ls_target *target = &job->targets[i];
		struct ls_state_interface *row =
			job->is_new ? NULL : ls_row_of(&job->plane, target->device.ifindex);
		if (row && ls_row_is_alive(&job->plane, row)) {
			if (!ls_row_is_here(&job->plane, row))
				return ls_error_set(
					error,
					"cannot attach to '%s': its index, %u, is that of '%s', which was moved to another network namespace and runs the program there; 'loadshed detach %s' takes it off",
					target->device.name, row->ifindex, row->name, row->name);
			target->is_attached = true;
			continue;
		}
		if (row)
			ls_row_drop(&job->plane, row); /* the index is another device's now */
		const int r = ls_target_check(target, job->root, job->request->replace, error);
		if (r < 0)
			return r;
	}
	return 0;
}

/* A policy that asks for tags cannot work where they are taken out of the frame. */
static int check_tags(struct job *job, const struct ls_policy *policy, struct ls_error *error)
{
	if (!policy || !ls_policy_uses_vlan(policy))
		return 0;
	for (size_t i = 0; i < job->n_targets; i++) {
		const struct ls_device *device = &job->targets[i].device;
		if (ls_device_takes_tags(device))
			return ls_error_set(
				error,
				"cannot attach to '%s' with a policy that matches 'vlan': it takes the tag out of the frame; 'ethtool -K %s rxvlan off' helps",
				device->name, device->name);
	}
	return 0;
}

static int make_directory(const char *path, struct ls_error *error)
{
	if (mkdir(path, 0700) < 0)
		return ls_error_set_errno(error, errno, "cannot make '%s'", path);
	return 0;
}

/* Maps, program and policy of a new instance. */
static int make_instance(struct job *job, struct ls_error *error)
{
	_cleanup_(ls_policy_freep) struct ls_policy *empty = NULL;
	const struct ls_policy *policy = job->request->policy;
	int r;

	if (!policy)
		policy = empty = ls_policy_new();
	if (!policy)
		return ls_error_oom(error);
	const struct ls_load load = {
		.sources = policy->sources,
		.verbose = job->request->verbose,
	};
	r = ls_load_object(&load, &job->plane, error);
	if (r < 0)
		return r;
	if (job->request->monitor)
		ls_plane_state(&job->plane)->flags |= LS_STATE_MONITOR;
	r = ls_publish(&job->plane, policy, job->request->policy ? job->request->policy_path : NULL,
		       error);
	/* Before the first packet is judged, so that an instance with a policy has its bans, too. */
	if (r == 0)
		r = ls_bans_put(&job->plane, job->request->bans, job->request->n_bans, error);
	return r;
}

/*
 * The program that runs, so that one more interface gets the same; or, when no link is left that leads to it (the
 * last interface was deleted), the same loaded again on the same maps.
 */
static int find_program(struct ls_plane *plane, bool verbose, struct ls_error *error)
{
	const struct ls_state *state = ls_plane_state(plane);

	for (int i = 0; i < LS_STATE_INTERFACES && plane->program_fd < 0; i++) {
		uint32_t ifindex, link_id, program_id;
		if (!state->interfaces[i].ifindex)
			continue;
		_cleanup_close_ int fd =
			ls_pins_get_link(plane->directory, state->interfaces[i].ifindex);
		if (fd >= 0 && ls_link_info(fd, &ifindex, &link_id, &program_id) == 0)
			plane->program_fd = bpf_prog_get_fd_by_id(program_id);
	}
	return plane->program_fd >= 0 ? 0 : ls_load_again(plane, verbose, error);
}

/* Clears an opened instance away, under its lock, so that a new one can take its place. */
static int start_over(struct ls_plane *plane, struct ls_error *error)
{
	const int lock_fd = TAKE_FD(plane->lock_fd);
	char directory[PATH_MAX], instance[LS_NAME_BYTES];

	memcpy(directory, plane->directory, sizeof(directory));
	memcpy(instance, plane->instance, sizeof(instance));
	ls_plane_fini(plane);
	ls_plane_init(plane, instance, LS_PLANE_WRITE);
	plane->lock_fd = lock_fd;
	const int r = ls_pins_remove(directory);
	return r < 0 ? ls_error_set_errno(error, -r, "cannot clear '%s'", directory)
		     : LS_PLANE_E_ABSENT;
}

/* Opens the instance, brings it to this build, or starts a new one. */
static int open_or_make(struct job *job, struct ls_error *error)
{
	struct ls_plane *plane = &job->plane;
	const char *instance = job->request->instance;
	const uint64_t cookie = ls_netns_cookie();
	int r = ls_pins_path(job->root, instance, "", plane->directory, error);

	if (r == 0)
		r = ls_plane_open_pins(plane, error);
	/* Left by a namespace that is gone and whose inode number this one got, or by a killed detach. */
	if (r == 0 && ((cookie && ls_plane_state(plane)->netns_cookie != cookie) ||
		       !ls_plane_has_interfaces(plane)))
		r = start_over(plane, error);
	if (r == LS_PLANE_E_LAYOUT)
		r = ls_upgrade_layout(plane, job->root, job->request->verbose, job->notes, error);
	if (r == LS_PLANE_E_ABSENT) {
		job->is_new = true;
		return ls_pins_path(job->root, instance, "@new", plane->directory, error);
	}
	if (r < 0)
		return r;
	ls_rows_drop_pending(plane);
	return 0;
}

/* Counters first, so that the first packet is counted where it belongs. */
static int attach_one(struct job *job, struct ls_target *target, struct ls_error *error)
{
	struct ls_plane *plane = &job->plane;
	struct ls_state_interface *row = ls_row_of(plane, 0);
	const uint32_t ifindex = target->device.ifindex;

	if (!row)
		return ls_error_set(
			error, "cannot attach to '%s': instance '%s' has %d interfaces already",
			target->device.name, plane->instance, LS_STATE_INTERFACES);
	struct ls_state_interface fresh = {
		.ifindex = ifindex,
		.since_ns = ls_now_unix(),
		.bank = choose_bank(plane, ifindex),
		.flags = LS_STATE_F_PENDING,
	};
	snprintf(fresh.name, sizeof(fresh.name), "%.15s", target->device.name);
	if (fresh.bank)
		ls_row_find_bank(plane, fresh.bank, &target->device);
	*row = fresh;
	int r = ls_target_attach(target, plane->program_fd, job->request->mode, job->notes, error);
	if (r < 0)
		return r;
	row->link_id = target->link_id;
	row->mode = target->mode == LS_PLANE_GENERIC ? LS_STATE_GENERIC : LS_STATE_NATIVE;
	if (target->fell_back)
		row->flags |= LS_STATE_F_FELL_BACK;
	return ls_pins_add_link(target->link_fd, plane->directory, ifindex, error);
}

static void undo_targets(struct job *job)
{
	for (size_t i = 0; i < job->n_targets; i++) {
		struct ls_target *target = &job->targets[i];
		struct ls_state_interface *row = ls_row_of(&job->plane, target->device.ifindex);
		if (target->is_attached || !row)
			continue;
		ls_target_undo(target);
		ls_row_drop(&job->plane, row);
	}
}

/* In which mode, and how to get what was asked for: a mode is for the life of a link. */
static void note_attached(struct job *job, const struct ls_device *device)
{
	const struct ls_state_interface *row = ls_row_of(&job->plane, device->ifindex);
	const enum ls_plane_mode wanted = job->request->mode,
				 mode = row && row->mode == LS_STATE_GENERIC ? LS_PLANE_GENERIC
									     : LS_PLANE_NATIVE;

	if (wanted == LS_PLANE_AUTO || wanted == mode)
		ls_warnings_add(job->notes, "%s: attached already, in %s mode", device->name,
				ls_plane_mode_name(mode));
	else
		ls_warnings_add(
			job->notes,
			"%s: attached already, in %s mode, and stays so; to change it: 'loadshed detach %s', then 'loadshed attach %s --mode %s'",
			device->name, ls_plane_mode_name(mode), device->name, device->name,
			ls_plane_mode_name(wanted));
}

static int attach_targets(struct job *job, struct ls_error *error)
{
	for (size_t i = 0; i < job->n_targets; i++) {
		struct ls_target *target = &job->targets[i];
		if (target->is_attached) {
			note_attached(job, &target->device);
			continue;
		}
		const int r = attach_one(job, target, error);
		if (r < 0)
			return r;
	}
	return 0;
}

static bool all_are_attached(const struct job *job)
{
	for (size_t i = 0; i < job->n_targets; i++)
		if (!job->targets[i].is_attached)
			return false;
	return true;
}

/* From here on the interfaces belong to the instance. */
static int commit(struct job *job, struct ls_error *error)
{
	struct ls_state *state = ls_plane_state(&job->plane);
	char path[PATH_MAX];

	for (int i = 0; i < LS_STATE_INTERFACES; i++)
		state->interfaces[i].flags &= (__u8)~LS_STATE_F_PENDING;
	if (!job->is_new)
		return 0;
	if (ls_pins_path(job->root, job->request->instance, "", path, error) < 0)
		return -ENAMETOOLONG;
	if (rename(job->plane.directory, path) < 0)
		return ls_error_set_errno(error, errno, "cannot rename '%s'", job->plane.directory);
	memcpy(job->plane.directory, path, sizeof(path));
	return 0;
}

static int attach_new(struct job *job, struct ls_error *error)
{
	int r = check_tags(job, job->request->policy, error);

	if (r == 0)
		r = make_instance(job, error);
	if (r == 0)
		r = make_directory(job->plane.directory, error);
	if (r == 0)
		r = ls_pins_add_maps(&job->plane, job->plane.directory, error);
	if (r == 0)
		r = attach_targets(job, error);
	if (r == 0)
		r = commit(job, error);
	if (r < 0 && job->plane.maps[LS_MAP_STATE].fd >= 0) {
		undo_targets(job);
		(void)ls_pins_remove(job->plane.directory);
	}
	return r;
}

/* The policy in force decides about tags, too, when no other comes with the attach. */
static int check_tags_in_force(struct job *job, struct ls_error *error)
{
	_cleanup_(ls_policy_freep) struct ls_policy *current = NULL;
	const struct ls_control *control = ls_plane_control_rw(&job->plane);

	if (job->request->policy && !job->request->restore)
		return check_tags(job, job->request->policy, error);
	if (all_are_attached(job) || !(control->word & LS_WORD_VLAN))
		return 0;
	if (ls_plane_policy(&job->plane, &current, NULL, error) < 0)
		return -EIO;
	return check_tags(job, current, error);
}

static void monitor_existing(struct job *job)
{
	struct ls_state *state = ls_plane_state(&job->plane);

	if (!job->request->monitor || job->request->restore || state->flags & LS_STATE_MONITOR)
		return;
	state->flags |= LS_STATE_MONITOR;
	/* First the word that may come back by itself. */
	__atomic_fetch_or(&ls_plane_control_rw(&job->plane)->previous_word, LS_WORD_MONITOR,
			  __ATOMIC_SEQ_CST);
	__atomic_fetch_or(&ls_plane_control_rw(&job->plane)->word, LS_WORD_MONITOR,
			  __ATOMIC_SEQ_CST);
	ls_journal_write(&job->plane,
			 &(struct ls_journal_entry){ .kind = LS_EVENT_MODE, .action = "monitor" });
	ls_warnings_add(job->notes, "the whole instance drops nothing from now on (--monitor)");
}

static int attach_existing(struct job *job, bool *ret_published, struct ls_error *error)
{
	int r = check_tags_in_force(job, error);

	if (r == 0)
		r = ls_upgrade_program(&job->plane, job->request->verbose, job->notes, error);
	if (r == 0 && !all_are_attached(job))
		r = find_program(&job->plane, job->request->verbose, error);
	if (r == 0)
		r = attach_targets(job, error);
	if (r == 0 && job->request->policy && !job->request->restore) {
		r = ls_plane_publish(&job->plane, job->request->policy, job->request->policy_path,
				     job->notes, error);
		*ret_published = r == 0;
		if (r == LS_PLANE_E_SAME) {
			ls_warnings_add(job->notes,
					"the policy is in force already, as generation %u",
					(unsigned)ls_plane_generation(&job->plane));
			r = 0;
		}
	}
	if (r == 0)
		r = commit(job, error);
	if (r < 0) {
		undo_targets(job);
		return r;
	}
	monitor_existing(job);
	ls_rows_drop_dead(&job->plane);
	return 0;
}

static void tell(struct job *job)
{
	for (size_t i = 0; i < job->n_targets; i++) {
		const struct ls_target *target = &job->targets[i];
		if (!target->is_attached)
			ls_journal_write(&job->plane,
					 &(struct ls_journal_entry){
						 .kind = LS_EVENT_ATTACH,
						 .action = ls_plane_mode_name(target->mode),
						 .name = target->device.name,
						 .ifindex = target->device.ifindex });
	}
}

int ls_plane_attach(const struct ls_plane_attach *request, struct ls_warnings *notes,
		    bool *ret_published, struct ls_error *error)
{
	_cleanup_(job_cleanup) struct job *job = calloc(1, sizeof(*job));
	bool published = false;
	int r;

	if (!job)
		return ls_error_oom(error);
	ls_plane_init(&job->plane, request->instance, LS_PLANE_WRITE);
	job->request = request;
	job->notes = notes;
	ls_said_clear();
	r = find_targets(job, error);
	if (r < 0)
		return r;
	r = ls_pins_root(true, job->root, error);
	if (r < 0)
		return r;
	job->plane.lock_fd = ls_lock_take(request->instance, error);
	if (job->plane.lock_fd < 0)
		return job->plane.lock_fd;
	r = ls_pins_repair(job->root, request->instance, error);
	if (r < 0)
		return r;
	/* Whoever restores may lack the right to see which namespaces are alive. */
	if (!request->restore)
		ls_pins_collect(job->root);
	r = open_or_make(job, error);
	if (r == 0)
		r = check_targets(job, error);
	if (r < 0)
		return r;
	if (job->is_new) {
		r = attach_new(job, error);
		published = r == 0 && request->policy;
	} else {
		r = attach_existing(job, &published, error);
	}
	if (r < 0)
		return r;
	tell(job);
	*ret_published = published;
	if (request->restore)
		return 0;
	r = ls_plane_save(&job->plane, error);
	if (r < 0)
		ls_error_prefix(error, "attached, but not saved for the next boot");
	return r;
}
