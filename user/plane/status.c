/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/internal.h"

/* What is attached, in force and not as one would wish, and since when. */

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "user/base/conditions.h"
#include "user/base/error.h"
#include "user/base/output.h"
#include "user/base/stamp.h"
#include "user/plane/link.h"
#include "user/plane/overload.h"
#include "user/plane/presence.h"
#include "user/plane/timed.h"
#include "user/plane/save.h"

__attribute__((format(printf, 2, 3))) static void degrade(struct ls_plane_status *status,
							  const char *format, ...)
{
	va_list arguments;
	char(*more)[LS_PLANE_NOTE_BYTES] =
		realloc(status->degraded, (status->n_degraded + 1) * sizeof(*more));

	if (!more)
		return;
	status->degraded = more;
	va_start(arguments, format);
	vsnprintf(more[status->n_degraded++], LS_PLANE_NOTE_BYTES, format, arguments);
	va_end(arguments);
}

/* What the kernel says about the link of a row. */
static void read_interface(struct ls_plane *plane, const struct ls_state_interface *row,
			   struct ls_plane_interface *ret)
{
	struct ls_device device = { 0 };
	uint32_t ifindex = 0;
	_cleanup_close_ int fd = ls_pins_get_link(plane->directory, row->ifindex);

	/* A pin on a read-only file system cannot be opened; its link has an id as well. */
	if (fd < 0)
		fd = bpf_link_get_fd_by_id(row->link_id);
	snprintf(ret->name, sizeof(ret->name), "%.15s", row->name);
	ret->ifindex = row->ifindex;
	ret->mode = row->mode == LS_STATE_GENERIC ? LS_PLANE_GENERIC : LS_PLANE_NATIVE;
	ret->bank = row->bank;
	ret->since_ns = row->since_ns;
	ret->link_id = row->link_id;
	if (fd < 0 || ls_link_info(fd, &ifindex, &ret->link_id, &ret->program_id) < 0 ||
	    !ls_link_is_here(fd, row->ifindex) || ls_device_get(row->ifindex, &device) < 0) {
		ret->is_elsewhere = fd >= 0 && ifindex != 0;
		ret->program_id = 0;
		return;
	}
	snprintf(ret->name, sizeof(ret->name), "%.31s", device.name);
	ret->mtu = device.mtu;
}

/* What the controller says about `what` of an interface; NULL: nothing. */
static const struct ls_condition *condition_of(const struct ls_conditions_view *controller,
					       const char *what, const char *name)
{
	char key[LS_CONDITION_KEY_BYTES];

	snprintf(key, sizeof(key), "%.14s %.31s", what, name);
	for (size_t i = 0; i < controller->count; i++)
		if (strcmp(controller->rows[i].key, key) == 0)
			return &controller->rows[i];
	return NULL;
}

/* " since …" where the controller saw it happen; else "". */
static const char *seen_since(const struct ls_condition *condition, char text[static 48])
{
	char since[LS_STAMP_TEXT];

	text[0] = '\0';
	if (condition)
		snprintf(text, 48, " since %s", ls_stamp_format(condition->since_ns, since));
	return text;
}

/* An interface that does not run the program: why. */
static void note_absence(const struct ls_plane *plane, const struct ls_state_interface *row,
			 const struct ls_conditions_view *controller,
			 struct ls_plane_status *status)
{
	struct ls_presence_row presence;
	char attached[LS_STAMP_TEXT], since[48], by[80] = "and nothing runs there now";

	ls_stamp_format(row->since_ns, attached);
	ls_row_presence(plane, row, &presence);
	if (presence.presence == LS_PRESENCE_MOVED) {
		degrade(status,
			"%s: moved to another network namespace (attached %s), where the program goes on judging; 'loadshed detach %s' takes it off",
			presence.name, attached, presence.name);
		return;
	}
	if (presence.presence != LS_PRESENCE_TAKEN_OFF) {
		degrade(status,
			"%s: the interface has vanished%s (attached %s); attach it again when it is back, or detach it",
			presence.name,
			seen_since(condition_of(controller, "interface", presence.name), since),
			attached);
		return;
	}
	if (presence.foreign_id)
		snprintf(by, sizeof(by), "and program '%s' (id %u) runs there",
			 presence.foreign_name[0] ? presence.foreign_name : "unnamed",
			 presence.foreign_id);
	degrade(status,
		"%s: not protected%s: somebody took our program off (attached %s), %s; 'loadshed attach %s%s' takes it back, 'loadshed detach %s' forgets it",
		presence.name,
		seen_since(condition_of(controller, "program", presence.name), since), attached, by,
		presence.name, presence.foreign_id ? " --replace" : "", presence.name);
}

static void note_interface(const struct ls_plane *plane, const struct ls_state_interface *row,
			   const struct ls_plane_interface *interface,
			   const struct ls_conditions_view *controller,
			   struct ls_plane_status *status)
{
	char since[LS_STAMP_TEXT];

	ls_stamp_format(row->since_ns, since);
	if (row->flags & LS_STATE_F_PENDING)
		degrade(status, "%s: an attach was killed half-way; attach or detach it again",
			interface->name);
	if (!interface->program_id)
		note_absence(plane, row, controller, status);
	else if (row->mode == LS_STATE_GENERIC)
		degrade(status,
			"%s: generic mode since %s%s: slower, and merged packets count as one",
			interface->name, since,
			row->flags & LS_STATE_F_FELL_BACK ? ", as the driver has no native mode"
							  : "");
	if (interface->program_id && !interface->bank)
		degrade(status,
			"%s: shares its counters with other interfaces since %s: an instance counts %d apart",
			interface->name, since, LS_BANKS - 1);
}

static void note_timed(struct ls_plane_status *status)
{
	char left[LS_HUMAN_TEXT];

	if (status->off_ns)
		degrade(status,
			"off for another %s: nothing is dropped; 'loadshed on' ends it at once",
			ls_human_time(status->off_ns, left));
	if (status->panic_ns)
		degrade(status,
			"panic for another %s: a strict preset beside the policy; 'loadshed on' ends it at once",
			ls_human_time(status->panic_ns, left));
	if (status->confirm_ns)
		degrade(status,
			"generation %" PRIu64
			" waits to be confirmed for another %s, else the previous policy is back; 'loadshed policy confirm' keeps it",
			status->generation, ls_human_time(status->confirm_ns, left));
}

static void note_instance(struct ls_plane *plane, struct ls_plane_status *status)
{
	const struct ls_control *control = ls_plane_control_rw(plane);
	const struct ls_state *state = ls_plane_state(plane);
	const struct ls_state_half *half = &state->half[ls_plane_half(plane)];
	char since[LS_STAMP_TEXT];

	note_timed(status);
	if (status->attach_monitor)
		degrade(status, "nothing is dropped since %s: attached with --monitor",
			ls_stamp_format(state->made_ns, since));
	if (status->other_build)
		degrade(status,
			"the program that runs is another build (%s) than this one (%s); 'loadshed attach' replaces it",
			status->version, LS_VERSION);
	if (half->sources && half->sources != state->sources)
		degrade(status,
			"capacity is %" PRIu64 " sources as at attach, the policy asks for %" PRIu64
			" since %s; detach and attach to change it",
			(uint64_t)state->sources, (uint64_t)half->sources,
			ls_stamp_format(half->since_ns, since));
	if (control->bans_lost)
		degrade(status, "%" PRIu64 " bans by classes found no room since %s",
			(uint64_t)control->bans_lost, ls_stamp_format(state->made_ns, since));
	if (control->contended)
		degrade(status,
			"%" PRIu64
			" packets passed uncharged since %s: too many CPUs at one bucket at once",
			(uint64_t)control->contended, ls_stamp_format(state->made_ns, since));
}

/* What only the controller knows, but for what the lines about interfaces say already. */
static void note_controller(const struct ls_conditions_view *controller,
			    struct ls_plane_status *status)
{
	char since[LS_STAMP_TEXT], left[LS_HUMAN_TEXT];
	const uint64_t now_ns = ls_now_unix();

	if (!controller->is_alive)
		return;
	if (now_ns > controller->beat_ns + LS_CONDITIONS_STALE_NS)
		degrade(status,
			"'loadshed serve' (process %d) has not moved for %s: metrics, list files and interfaces that come back are not looked after",
			controller->pid, ls_human_time(now_ns - controller->beat_ns, left));
	for (size_t i = 0; i < controller->count; i++) {
		const struct ls_condition *row = &controller->rows[i];
		if (strncmp(row->key, "interface ", 10) != 0 &&
		    strncmp(row->key, "program ", 8) != 0)
			degrade(status, "since %s: %s", ls_stamp_format(row->since_ns, since),
				row->text);
	}
	if (controller->dropped)
		degrade(status, "%zu more, see the log of 'loadshed serve'", controller->dropped);
}

/* The present name of a running interface that had `name` when it was saved; NULL if there is none. It lies in `ret`. */
static const char *renamed_to(const struct ls_plane *plane, const char *name,
			      struct ls_presence_row *ret)
{
	const struct ls_state *state = ls_plane_state(plane);

	for (int i = 0; i < LS_STATE_INTERFACES; i++) {
		const struct ls_state_interface *row = &state->interfaces[i];
		if (!row->ifindex || strcmp(row->name, name) != 0)
			continue;
		ls_row_presence(plane, row, ret);
		if (ret->presence == LS_PRESENCE_RUNS && strcmp(ret->now, name) != 0)
			return ret->now;
	}
	return NULL;
}

/* What would be attached at boot and is not attached now. */
static void note_saved(const struct ls_plane *plane, struct ls_plane_status *status)
{
	_cleanup_saved_attach_ struct ls_saved_attach saved = { 0 };

	if (ls_save_read_attach(plane->instance, &saved, NULL) < 0)
		return;
	for (size_t i = 0; i < saved.n_interfaces; i++) {
		const char *name = saved.interfaces[i].name;
		struct ls_presence_row row;
		size_t k = 0;
		while (k < status->n_interfaces && strcmp(status->interfaces[k].name, name) != 0)
			k++;
		const char *now = k < status->n_interfaces ? NULL : renamed_to(plane, name, &row);
		if (now)
			degrade(status,
				"%s: renamed to %s, but still saved by its old name; 'loadshed attach %s' saves it by the new one",
				name, now, now);
		else if (k == status->n_interfaces)
			degrade(status,
				"%s: saved, but not attached; 'loadshed restore' attaches it, 'loadshed detach %s' forgets it",
				name, name);
	}
}

int ls_plane_status(struct ls_plane *plane, struct ls_plane_status *ret, struct ls_error *error)
{
	const struct ls_state *state = ls_plane_state(plane);
	const struct ls_state_half *half = &state->half[ls_plane_half(plane)];
	struct ls_conditions_view controller;
	struct ls_accept_queue_view queue;
	struct ls_plane_status status = { 0 };
	char path[LS_PLANE_RUN_PATH];
	uint8_t digest[32];

	status.interfaces = calloc(LS_STATE_INTERFACES, sizeof(*status.interfaces));
	if (!status.interfaces)
		return ls_error_oom(error);
	ls_load_digest(digest);
	snprintf(status.instance, sizeof(status.instance), "%.31s", state->instance);
	snprintf(status.version, sizeof(status.version), "%.31s", state->version);
	status.generation = ls_plane_generation(plane);
	status.monitor = ls_plane_word(plane) & LS_WORD_MONITOR;
	status.attach_monitor = state->flags & LS_STATE_MONITOR;
	status.other_build = memcmp(digest, state->object_sha256, sizeof(digest)) != 0;
	memcpy(status.policy_sha256, half->sha256, sizeof(status.policy_sha256));
	status.published_ns = half->since_ns;
	status.made_ns = state->made_ns;
	status.program_ns = state->upgraded_ns ? state->upgraded_ns : state->made_ns;
	status.sources = state->sources;
	status.confirm_ns = ls_plane_pending(plane);
	status.off_ns = ls_plane_off_left(plane);
	status.panic_ns = ls_plane_panic_left(plane);
	status.previous = ls_plane_previous_number(plane);
	ls_plane_run_path(plane->instance, "serve", path);
	ls_conditions_read(path, &controller);
	status.serve_pid = controller.pid;
	status.serve_since_ns = controller.start_ns;
	note_instance(plane, &status);
	for (int i = 0; i < LS_STATE_INTERFACES; i++) {
		if (!state->interfaces[i].ifindex)
			continue;
		struct ls_plane_interface *interface = &status.interfaces[status.n_interfaces++];
		read_interface(plane, &state->interfaces[i], interface);
		note_interface(plane, &state->interfaces[i], interface, &controller, &status);
	}
	note_saved(plane, &status);
	note_controller(&controller, &status);
	if (ls_plane_has_signals(plane) && !controller.pid)
		degrade(&status,
			"overload: the policy has signals or checks, and 'loadshed serve' does not run, which measures them; limits and 'max' hold without it");
	ls_plane_accept_queue(plane, &queue);
	if (queue.percent && !queue.is_read && !status.other_build)
		degrade(&status,
			"overload: 'accept_queue' is not in force: the program cannot read accept queues on this kernel, and 'loadshed check' says why; what 'serve' measures holds without it");
	*ret = status;
	return 0;
}

void ls_plane_status_fini(struct ls_plane_status *status)
{
	free(status->interfaces);
	free(status->degraded);
	memset(status, 0, sizeof(*status));
}
