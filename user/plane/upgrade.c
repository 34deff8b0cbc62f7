/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/upgrade.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "user/base/error.h"
#include "user/plane/events.h"
#include "user/plane/link.h"
#include "user/plane/save.h"
#include "user/plane/timed.h"
#include "user/policy/check.h"
#include "user/policy/compile.h"
#include "user/policy/policy.h"

/* The links that are pinned in a directory and still have a device. */
struct links {
	size_t count;
	uint32_t ifindex[LS_STATE_INTERFACES];
	uint32_t link_id[LS_STATE_INTERFACES];
	int fd[LS_STATE_INTERFACES];
	int program_fd[LS_STATE_INTERFACES]; /* that ran before */
	size_t n_updated;
};

static void links_fini(struct links *links)
{
	for (size_t i = 0; i < links->count; i++) {
		close(links->fd[i]);
		close(links->program_fd[i]);
	}
	links->count = 0;
}
#define _cleanup_links_ _cleanup_(links_fini)

static int links_open(const char *directory, struct links *links, struct ls_error *error)
{
	DIR *list = opendir(directory);
	const struct dirent *entry;

	if (!list)
		return ls_error_set_errno(error, errno, "cannot read '%s'", directory);
	while ((entry = readdir(list)) && links->count < LS_STATE_INTERFACES) {
		uint32_t ifindex = 0, link_id = 0, program_id = 0;
		if (strncmp(entry->d_name, "link_", 5) != 0)
			continue;
		const int fd =
			ls_pins_get_link(directory, (uint32_t)strtoul(entry->d_name + 5, NULL, 10));
		if (fd < 0)
			continue;
		const int program_fd = ls_link_info(fd, &ifindex, &link_id, &program_id) == 0 &&
						       ifindex
					       ? bpf_prog_get_fd_by_id(program_id)
					       : -1;
		if (program_fd < 0) {
			close(fd);
			continue;
		}
		links->ifindex[links->count] = ifindex;
		links->link_id[links->count] = link_id;
		links->fd[links->count] = fd;
		links->program_fd[links->count++] = program_fd;
	}
	closedir(list);
	return 0;
}

/* All links to the new program; on failure all back to their old ones. */
static int links_update(struct links *links, int program_fd, struct ls_error *error)
{
	for (size_t i = 0; i < links->count; i++) {
		if (bpf_link_update(links->fd[i], program_fd, NULL) == 0) {
			links->n_updated = i + 1;
			continue;
		}
		const int code = errno;
		while (i-- > 0)
			(void)bpf_link_update(links->fd[i], links->program_fd[i], NULL);
		return ls_error_set_errno(
			error, code,
			"cannot replace the program by this build's; the old one goes on");
	}
	return 0;
}

/* Maps that the plane did not have because an older build made it: taken over from what was loaded, and pinned. */
static int take_missing(struct ls_plane *plane, struct ls_plane *fresh, struct ls_error *error)
{
	bool is_missing = false;

	for (int map = 0; map < LS_MAP_MAX; map++) {
		if (plane->maps[map].fd >= 0)
			continue;
		plane->maps[map] = fresh->maps[map];
		fresh->maps[map] = (struct ls_plane_map){ .fd = -1 };
		is_missing = true;
	}
	return is_missing ? ls_pins_add_maps(plane, plane->directory, error) : 0;
}

int ls_load_again(struct ls_plane *plane, bool verbose, struct ls_error *error)
{
	struct ls_plane fresh;
	const struct ls_load load = { .sources = ls_plane_state(plane)->sources,
				      .verbose = verbose,
				      .keep = plane };

	ls_plane_init(&fresh, plane->instance, LS_PLANE_WRITE);
	int r = ls_load_object(&load, &fresh, error);
	if (r == 0)
		r = take_missing(plane, &fresh, error);
	if (r == 0) {
		plane->program_fd = TAKE_FD(fresh.program_fd);
		ls_load_note(ls_plane_state(plane), &fresh);
	}
	ls_plane_fini(&fresh);
	return r;
}

/*
 * A policy that a build before `accept_queue` published has it by default as soon as this build reads it, so it gets it
 * now: what is shown is what is enforced. The other half may come back by itself.
 */
static void arm_queues(struct ls_plane *plane)
{
	for (unsigned other = 0; other < 2; other++) {
		_cleanup_(ls_policy_freep) struct ls_policy *policy = NULL;
		_cleanup_free_ char *path = NULL;
		const int r = other ? ls_plane_previous(plane, &policy, &path, NULL)
				    : ls_plane_policy(plane, &policy, &path, NULL);
		if (r == 0)
			ls_compile_queue(policy->signals.accept_queue,
					 ls_plane_control_rw(plane)
						 ->generation[ls_plane_half(plane) ^ other]
						 .queue_at);
	}
}

int ls_upgrade_program(struct ls_plane *plane, bool verbose, struct ls_warnings *notes,
		       struct ls_error *error)
{
	struct ls_state *state = ls_plane_state(plane);
	_cleanup_links_ struct links links = { 0 };
	uint8_t digest[32];
	char version[LS_NAME_BYTES];
	struct ls_plane fresh;

	ls_load_digest(digest);
	if (memcmp(digest, state->object_sha256, sizeof(digest)) == 0)
		return 0;
	ls_plane_init(&fresh, plane->instance, LS_PLANE_WRITE);
	const struct ls_load load = { .sources = state->sources,
				      .verbose = verbose,
				      .keep = plane };
	int r = ls_load_object(&load, &fresh, error);
	/* Before the program runs, so that a process killed here leaves a ring that nobody writes, and not one that
	 * nobody finds. */
	if (r == 0)
		r = take_missing(plane, &fresh, error);
	if (r == 0)
		r = links_open(plane->directory, &links, error);
	if (r == 0)
		r = links_update(&links, fresh.program_fd, error);
	if (r == 0) {
		memcpy(version, state->version, sizeof(version));
		plane->program_fd = TAKE_FD(fresh.program_fd);
		memcpy(state->object_sha256, digest, sizeof(digest));
		snprintf(state->version, sizeof(state->version), "%s", LS_VERSION);
		state->upgraded_ns = ls_now_unix();
		ls_load_note(state, &fresh);
		arm_queues(plane);
		ls_warnings_add(
			notes,
			"the program of another build (%.31s) was replaced by this one's (%s) on %zu interface(s); state kept",
			version, LS_VERSION, links.count);
		ls_journal_write(plane,
				 &(struct ls_journal_entry){
					 .kind = LS_EVENT_NOTE,
					 .action = "upgrade",
					 .name = "attach",
					 .text = "the program of another build was replaced" });
	}
	ls_plane_fini(&fresh);
	return r;
}

/* What the old maps tell, or else what was saved. */
static int old_policy(struct ls_plane *old, struct ls_policy **ret, char **ret_path,
		      struct ls_error *error)
{
	if (old->maps[LS_MAP_STATE].value_bytes == sizeof(struct ls_state) &&
	    old->maps[LS_MAP_CONTROL].value_bytes == sizeof(struct ls_control) &&
	    ls_plane_memory(old, LS_MAP_STATE, NULL) &&
	    ls_plane_memory(old, LS_MAP_CONTROL, NULL) &&
	    ls_plane_policy(old, ret, ret_path, NULL) == 0)
		return 0;
	return ls_save_read_policy(old->instance, ret, ret_path, error);
}

/* A pin that somebody removed takes its map out of what can be read. */
static bool has_bans(const struct ls_plane *old)
{
	static const enum ls_map needed[] = { LS_MAP_BANS, LS_MAP_BAN_INFO, LS_MAP_BAN_TEXTS,
					      LS_MAP_LEDGER };

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		if (old->maps[needed[i]].fd < 0)
			return false;
	return old->maps[LS_MAP_BANS].value_bytes == sizeof(struct ls_bans) &&
	       old->maps[LS_MAP_CONTROL].value_bytes == sizeof(struct ls_control);
}

static int carry_bans(struct ls_plane *old, struct ls_plane *fresh, struct ls_error *error)
{
	if (has_bans(old))
		return ls_bans_carry(old, fresh, error);
	_cleanup_free_ struct ls_ban_entry *saved = NULL;
	size_t count = 0;
	const int r = ls_save_read_bans(old->instance, &saved, &count, error);
	return r < 0 ? r : ls_bans_put(fresh, saved, count, error);
}

/* What holds for a time goes on for the time that is left of it. */
static int carry_timed(struct ls_plane *old, struct ls_plane *fresh, struct ls_error *error)
{
	const uint64_t off_ns = ls_plane_off_left(old), panic_ns = ls_plane_panic_left(old);
	int r = off_ns ? ls_plane_off(fresh, off_ns, error) : 0;

	if (r == 0 && panic_ns)
		r = ls_plane_panic(fresh, panic_ns, error);
	return r;
}

/*
 * The policy in force; one that waits to be confirmed waits on, and the one before it comes first. The generation keeps
 * its number.
 */
static int carry_policy(struct ls_plane *old, struct ls_plane *fresh,
			const struct ls_policy *policy, const char *path, struct ls_error *error)
{
	_cleanup_(ls_policy_freep) struct ls_policy *before = NULL;
	_cleanup_free_ char *before_path = NULL;
	uint64_t number = ls_plane_generation(old);
	const uint64_t confirm_ns = ls_plane_pending(old);
	const bool is_pending = confirm_ns && number > 1 &&
				ls_plane_previous(old, &before, &before_path, NULL) == 0;

	if (number > 0)
		ls_plane_control_rw(fresh)->word = (number - 1 - is_pending)
						   << LS_WORD_NUMBER_SHIFT;
	if (!is_pending)
		return ls_publish(fresh, policy, path, error);
	const int r = ls_publish(fresh, before, before_path, error);
	return r < 0 ? r : ls_plane_publish_for(fresh, policy, path, confirm_ns, NULL, error);
}

/* Rows and banks of the interfaces that move over. */
static void enter_links(struct ls_plane *fresh, const struct links *links)
{
	struct ls_state *state = ls_plane_state(fresh);
	struct ls_control *control = ls_plane_control_rw(fresh);

	for (size_t i = 0; i < links->count; i++) {
		struct ls_state_interface *row = &state->interfaces[i];
		struct ls_bank_abi *bank = &control->bank[links->ifindex[i] % LS_BANK_SLOTS];
		struct ls_device device = { 0 };
		struct ls_resident resident = { 0 };
		(void)ls_device_get(links->ifindex[i], &device);
		(void)ls_device_resident(links->ifindex[i], &resident);
		snprintf(row->name, sizeof(row->name), "%.15s", device.name);
		row->link_id = links->link_id[i];
		row->since_ns = ls_now_unix();
		row->mode = resident.mode == LS_PLANE_GENERIC ? LS_STATE_GENERIC : LS_STATE_NATIVE;
		if (i + 1 < LS_BANKS && !bank->ifindex) {
			row->bank = (__u16)(i + 1);
			device.ifindex = links->ifindex[i];
			ls_row_find_bank(fresh, row->bank, &device);
		}
		row->ifindex = links->ifindex[i];
	}
}

/* The new directory beside the old one, with second pins of the same links. */
static int pin_beside(struct ls_plane *fresh, const struct links *links, struct ls_error *error)
{
	if (mkdir(fresh->directory, 0700) < 0)
		return ls_error_set_errno(error, errno, "cannot make '%s'", fresh->directory);
	int r = ls_pins_add_maps(fresh, fresh->directory, error);
	for (size_t i = 0; r == 0 && i < links->count; i++)
		r = ls_pins_add_link(links->fd[i], fresh->directory, links->ifindex[i], error);
	return r;
}

/* Old aside, new in its place, old away: the links stay by their second pins. */
static int exchange(struct ls_plane *fresh, const char *directory, struct ls_error *error)
{
	char old[PATH_MAX + 8];

	snprintf(old, sizeof(old), "%s@old", directory);
	if (rename(directory, old) < 0 || rename(fresh->directory, directory) < 0)
		return ls_error_set_errno(error, errno, "cannot exchange '%s'", directory);
	(void)ls_pins_remove(old); /* the next command would clear it */
	snprintf(fresh->directory, sizeof(fresh->directory), "%s", directory);
	return 0;
}

static int make_beside(struct ls_plane *old, struct ls_plane *fresh, bool verbose,
		       struct ls_warnings *notes, struct ls_error *error)
{
	_cleanup_(ls_policy_freep) struct ls_policy *policy = NULL;
	_cleanup_free_ char *path = NULL;
	struct ls_load load = { .verbose = verbose };
	bool monitor = false;
	int r = old_policy(old, &policy, &path, error);

	if (r < 0)
		return r;
	load.sources = policy->sources;
	if (old->maps[LS_MAP_STATE].memory) {
		load.sources = ls_plane_state(old)->sources;
		monitor = ls_plane_state(old)->flags & LS_STATE_MONITOR;
	}
	r = ls_load_object(&load, fresh, error);
	if (r < 0)
		return r;
	if (monitor)
		ls_plane_state(fresh)->flags |= LS_STATE_MONITOR;
	const bool is_readable = old->maps[LS_MAP_CONTROL].memory && old->maps[LS_MAP_STATE].memory;
	r = is_readable ? carry_policy(old, fresh, policy, path, error)
			: ls_publish(fresh, policy, path, error);
	if (r == 0)
		r = carry_bans(old, fresh, error);
	if (r == 0 && is_readable)
		r = carry_timed(old, fresh, error);
	if (r == 0 && !is_readable)
		ls_warnings_add(
			notes,
			"'off', 'panic' and a confirm that was pending could not be read and have ended; the policy is the one that was saved");
	return r;
}

int ls_upgrade_layout(struct ls_plane *plane, const char *root, bool verbose,
		      struct ls_warnings *notes, struct ls_error *error)
{
	_cleanup_links_ struct links links = { 0 };
	struct ls_plane fresh;
	int r;

	ls_plane_init(&fresh, plane->instance, LS_PLANE_WRITE);
	r = ls_pins_path(root, plane->instance, "@new", fresh.directory, error);
	if (r == 0)
		r = make_beside(plane, &fresh, verbose, notes, error);
	if (r == 0)
		r = links_open(plane->directory, &links, error);
	if (r == 0) {
		enter_links(&fresh, &links);
		r = pin_beside(&fresh, &links, error);
	}
	if (r == 0)
		r = links_update(&links, fresh.program_fd, error);
	if (r == 0)
		r = exchange(&fresh, plane->directory, error);
	if (r < 0) {
		(void)ls_pins_remove(fresh.directory);
		ls_plane_fini(&fresh);
		ls_error_prefix(error, "cannot carry instance '%s' over from another version",
				plane->instance);
		return r;
	}
	ls_warnings_add(
		notes,
		"the tables of another version were made anew: policy, bans and what ends by itself were carried over, counters and the state of limits start from zero");
	fresh.lock_fd = TAKE_FD(plane->lock_fd);
	ls_plane_fini(plane);
	*plane = fresh;
	return 0;
}
