/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/internal.h"

/*
 * An opened instance: the pinned maps of one directory, mapped into this process as far as they are looked
 * at. Mapping a table costs a page table entry for each of its pages, 2 ms for 64 MiB, so only control and
 * state are mapped at once and the rest when somebody asks.
 */

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "kern/cpu.h" /* the skeleton names the type of the section .bss */
#include "loadshed.skel.h"
#include "pure/timed.h"
#include "user/base/error.h"
#include "user/plane/timed.h"
#include "user/policy/blob.h"
#include "user/policy/policy.h"

const char *ls_map_name(enum ls_map map)
{
	static const char *const names[] = {
#define MAP_NAME(id, member) [LS_MAP_##id] = #member,
		LS_PLANE_MAPS(MAP_NAME)
#undef MAP_NAME
	};

	/* Three are sections of the object. */
	return map == LS_MAP_CONTROL	? "ls_control"
	       : map == LS_MAP_TABLES	? "ls_tables"
	       : map == LS_MAP_OVERLOAD ? "ls_overload"
					: names[map];
}

/* Maps that came after the first layout: a program without them goes on, and an upgrade makes them. */
static bool is_optional(enum ls_map map)
{
	return map == LS_MAP_EVENTS || map == LS_MAP_TOP || map == LS_MAP_OVERLOAD ||
	       map == LS_MAP_OFFERED || map == LS_MAP_FLOWS || map == LS_MAP_HOT ||
	       map == LS_MAP_HOT_CPUS;
}

/* Bytes of an element that this build expects; 0: an outer map, of which only the type counts. */
static uint32_t expected_bytes(enum ls_map map)
{
	switch (map) {
	case LS_MAP_WAYS:
		return sizeof(struct ls_ways);
	case LS_MAP_LOGS:
		return sizeof(struct ls_log);
	case LS_MAP_STRIKES:
		return sizeof(struct ls_strikes);
	case LS_MAP_BANS:
		return sizeof(struct ls_bans);
	case LS_MAP_BAN_INFO:
		return sizeof(struct ls_ban_info);
	case LS_MAP_BAN_TEXTS:
		return sizeof(struct ls_ban_text);
	case LS_MAP_COUNTERS:
	case LS_MAP_RETIRED:
		return sizeof(struct ls_counters);
	case LS_MAP_EVENTS:
		return sizeof(struct ls_event_ring);
	case LS_MAP_HOT:
		return sizeof(struct ls_hot);
	case LS_MAP_HOT_CPUS:
		return sizeof(struct ls_hot_cpu);
	case LS_MAP_OVERLOAD:
		return sizeof(struct ls_overload);
	case LS_MAP_OFFERED:
		return sizeof(struct ls_offered);
	case LS_MAP_FLOWS:
		return sizeof(struct ls_flow_line);
	case LS_MAP_TOP:
		return sizeof(struct ls_top);
	case LS_MAP_LEDGER:
		return sizeof(struct ls_ledger);
	case LS_MAP_STATE:
		return sizeof(struct ls_state);
	case LS_MAP_CONTROL:
		return sizeof(struct ls_control);
	case LS_MAP_TABLES: /* with records behind them that are private to the program */
		return sizeof(struct ls_static);
	case LS_MAP_LISTS:
	case LS_MAP_TEXTS:
	case LS_MAP_MAX:
		break;
	}
	return 0;
}

bool ls_plane_instance_valid(const char *instance)
{
	static const char rest[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
	const size_t length = strlen(instance);

	return length > 0 && length < LS_NAME_BYTES && instance[0] >= 'a' && instance[0] <= 'z' &&
	       strspn(instance, rest) == length;
}

void ls_plane_init(struct ls_plane *plane, const char *instance, enum ls_plane_access access)
{
	memset(plane, 0, sizeof(*plane));
	snprintf(plane->instance, sizeof(plane->instance), "%s", instance);
	plane->access = access;
	plane->lock_fd = -1;
	plane->program_fd = -1;
	for (int map = 0; map < LS_MAP_MAX; map++)
		plane->maps[map].fd = -1;
}

bool ls_plane_has_forgotten(const struct ls_plane *plane, const char *name)
{
	for (size_t i = 0; i < plane->n_forgotten; i++)
		if (strcmp(plane->forgotten[i], name) == 0)
			return true;
	return false;
}

void ls_plane_forget(struct ls_plane *plane, const char *name)
{
	if (plane->n_forgotten < LS_STATE_INTERFACES && !ls_plane_has_forgotten(plane, name))
		snprintf(plane->forgotten[plane->n_forgotten++], sizeof(plane->forgotten[0]),
			 "%.15s", name);
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void ls_plane_fini(struct ls_plane *plane)
{
	for (int map = 0; map < LS_MAP_MAX; map++) {
		struct ls_plane_map *of = &plane->maps[map];
		if (of->memory)
			munmap(of->memory, of->mapped_bytes);
		of->memory = NULL;
		close_fd(&of->fd);
	}
	close_fd(&plane->program_fd);
	ls_skeleton__destroy(plane->skeleton);
	plane->skeleton = NULL;
	plane->replay = NULL;
	if (plane->lock_fd >= 0 && access(plane->directory, F_OK) < 0)
		ls_lock_remove(plane->instance);
	close_fd(&plane->lock_fd);
}

void ls_plane_close(struct ls_plane *plane)
{
	if (!plane)
		return;
	ls_plane_fini(plane);
	free(plane);
}

int ls_plane_adopt(struct ls_plane *plane, enum ls_map map, int fd)
{
	struct bpf_map_info info = { 0 };
	__u32 length = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &length) < 0) {
		const int code = errno;
		close(fd);
		return -code;
	}
	plane->maps[map].fd = fd;
	plane->maps[map].value_bytes = info.value_size;
	plane->maps[map].entries = info.max_entries;
	return 0;
}

void *ls_plane_memory(struct ls_plane *plane, enum ls_map map, struct ls_error *error)
{
	struct ls_plane_map *of = &plane->maps[map];

	if (of->memory)
		return of->memory;
	if (of->fd < 0) {
		ls_error_set(
			error,
			"cannot do this: the program that runs is of an earlier build, which has no '%s'; 'loadshed attach IFACE' replaces it and keeps the state",
			ls_map_name(map));
		return NULL;
	}
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const size_t bytes = (size_t)((of->value_bytes + 7U) & ~7U) * of->entries;
	/* The controller's records have a writer that holds no lock (overload.h). */
	const bool is_written = plane->access == LS_PLANE_WRITE || map == LS_MAP_OVERLOAD;
	const int protection = is_written ? PROT_READ | PROT_WRITE : PROT_READ;
	const size_t rounded = (bytes + page - 1) / page * page;
	void *memory = mmap(NULL, rounded, protection, MAP_SHARED, of->fd, 0);
	if (memory == MAP_FAILED) {
		ls_error_set_errno(error, errno, "cannot map '%s'", ls_map_name(map));
		return NULL;
	}
	of->memory = memory;
	of->mapped_bytes = rounded;
	return memory;
}

/*
 * Opens one pin. The kernel maps an array only through a descriptor that may write, even for reading; and a
 * pin on a read-only file system opens only for reading. Then the map's number leads to it.
 */
static int open_pin(const struct ls_plane *plane, enum ls_map map)
{
	char path[PATH_MAX + 64];
	LIBBPF_OPTS(bpf_obj_get_opts, read_only, .file_flags = BPF_F_RDONLY);
	struct bpf_map_info info = { 0 };
	__u32 length = sizeof(info);

	snprintf(path, sizeof(path), "%s/%s", plane->directory, ls_map_name(map));
	int fd = bpf_obj_get(path);
	if (fd >= 0 || errno != EROFS || plane->access == LS_PLANE_WRITE)
		return fd < 0 ? -errno : fd;
	_cleanup_close_ int looking = bpf_obj_get_opts(path, &read_only);
	if (looking < 0 || bpf_obj_get_info_by_fd(looking, &info, &length) < 0)
		return -errno;
	fd = bpf_map_get_fd_by_id(info.id);
	return fd < 0 ? -errno : fd;
}

/* 0: it cannot be looked at. */
static uint64_t inode_of(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 ? status.st_ino : 0;
}

bool ls_plane_is_current(const struct ls_plane *plane)
{
	return plane->directory_inode && inode_of(plane->directory) == plane->directory_inode;
}

int ls_plane_open_pins(struct ls_plane *plane, struct ls_error *error)
{
	bool is_other_layout = false;

	plane->directory_inode = inode_of(plane->directory);
	if (!plane->directory_inode && errno == ENOENT)
		return LS_PLANE_E_ABSENT;
	for (int map = 0; map < LS_MAP_MAX; map++) {
		const int fd = open_pin(plane, map);
		if (fd == -ENOENT) {
			is_other_layout = is_other_layout || !is_optional(map);
			continue;
		}
		const int r = fd < 0 ? fd : ls_plane_adopt(plane, map, fd);
		if (r < 0)
			return ls_error_set_errno(error, -r, "cannot open '%s/%s'",
						  plane->directory, ls_map_name(map));
		const uint32_t wanted = expected_bytes(map);
		if (wanted && plane->maps[map].value_bytes != wanted)
			is_other_layout = true;
	}
	/* Taken apart by another process since we looked. */
	if (plane->maps[LS_MAP_CONTROL].fd < 0 && access(plane->directory, F_OK) < 0)
		return LS_PLANE_E_ABSENT;
	if (is_other_layout)
		return LS_PLANE_E_LAYOUT;
	if (!ls_plane_memory(plane, LS_MAP_CONTROL, error) ||
	    !ls_plane_memory(plane, LS_MAP_STATE, error))
		return -EIO;
	if (ls_plane_control_rw(plane)->abi_version != LS_ABI_VERSION ||
	    ls_plane_state(plane)->abi_version != LS_ABI_VERSION)
		return LS_PLANE_E_LAYOUT;
	if (plane->access == LS_PLANE_WRITE)
		ls_timed_settle(plane);
	return 0;
}

/* A namespace that got the inode of one that is gone finds the pins of the other: not ours. */
static bool is_of_this_namespace(const struct ls_plane *plane)
{
	const uint64_t cookie = ls_netns_cookie();
	const struct ls_state *state = ls_plane_state(plane);

	return !cookie || !state->netns_cookie || state->netns_cookie == cookie;
}

bool ls_plane_has_interfaces(const struct ls_plane *plane)
{
	const struct ls_state *state = ls_plane_state(plane);

	for (int i = 0; i < LS_STATE_INTERFACES; i++)
		if (state->interfaces[i].ifindex)
			return true;
	return false;
}

/* Who lacks the right to list programs cannot see pins and links of others either. */
static bool may_look(void)
{
	__u32 id = 0;

	return bpf_prog_get_next_id(0, &id) == 0 || (errno != EPERM && errno != EACCES);
}

/* Nothing is attached that this process can see; whether that means anything. */
static int check_absent(const struct ls_plane *plane, struct ls_error *error)
{
	if (may_look())
		return LS_PLANE_E_ABSENT;
	ls_error_set(
		error,
		"cannot see whether instance '%s' is attached: that needs the rights of root; run it as root",
		plane->instance);
	return -EPERM;
}

/*
 * An attach that was killed half-way leaves a program that runs and pins that no reader looks at. What a reader says
 * would then depend on whether somebody writes first; so whoever finds that clears it, when nobody is at work.
 */
static int clear_half_done(const struct ls_plane *plane, const char *root, struct ls_error *error)
{
	char fresh[PATH_MAX];
	int r = ls_pins_path(root, plane->instance, "@new", fresh, error);

	if (r < 0 || access(fresh, F_OK) < 0)
		return r;
	_cleanup_close_ int lock_fd = ls_lock_take(plane->instance, error);
	return lock_fd < 0 ? lock_fd : ls_pins_repair(root, plane->instance, error);
}

static int find_and_open(struct ls_plane *plane, struct ls_error *error)
{
	char root[PATH_MAX], ghosts[128];
	int r;

	ls_said_clear();
	r = ls_pins_root(false, root, error);
	if (r == LS_PLANE_E_ABSENT && plane->access != LS_PLANE_GLANCE &&
	    ls_plane_ghosts(ghosts, sizeof(ghosts)) > 0)
		return ls_error_set(
			error,
			"cannot see the pins of what is attached to %s: no bpffs with them is mounted at /sys/fs/bpf of this mount namespace; run it where 'loadshed attach' was run",
			ghosts);
	if (r)
		return r;
	if (plane->access == LS_PLANE_WRITE) {
		plane->lock_fd = ls_lock_take(plane->instance, error);
		if (plane->lock_fd < 0)
			return plane->lock_fd;
		r = ls_pins_repair(root, plane->instance, error);
		if (r < 0)
			return r;
	}
	r = ls_pins_path(root, plane->instance, "", plane->directory, error);
	if (r == 0)
		r = ls_plane_open_pins(plane, error);
	if (r == LS_PLANE_E_ABSENT && plane->access == LS_PLANE_READ) {
		r = clear_half_done(plane, root, error);
		if (r == 0)
			r = ls_plane_open_pins(plane, error);
	}
	if (r)
		return r;
	return is_of_this_namespace(plane) ? 0 : LS_PLANE_E_ABSENT;
}

int ls_plane_open_into(struct ls_plane *plane, struct ls_error *error)
{
	const int r = find_and_open(plane, error);

	return r == LS_PLANE_E_ABSENT ? check_absent(plane, error) : r;
}

int ls_plane_open(const char *instance, enum ls_plane_access access, struct ls_plane **ret_plane,
		  struct ls_error *error)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = calloc(1, sizeof(*plane));

	if (!plane)
		return ls_error_oom(error);
	ls_plane_init(plane, instance, access);
	const int r = ls_plane_open_into(plane, error);
	if (r == LS_PLANE_E_LAYOUT) {
		ls_error_set(
			error,
			"cannot read the state of instance '%s': another version of loadshed made it; 'loadshed attach' of this version carries it over",
			instance);
		return -EPROTO;
	}
	if (r)
		return r;
	/* What a killed detach leaves: tables that no interface has. The next attach or detach clears them. */
	if (!ls_plane_has_interfaces(plane))
		return LS_PLANE_E_ABSENT;
	*ret_plane = TAKE_PTR(plane);
	return 0;
}

uint64_t ls_plane_word(const struct ls_plane *plane)
{
	const struct ls_control *control = ls_plane_control_rw(plane);
	const uint64_t word = __atomic_load_n(&control->word, __ATOMIC_ACQUIRE);

	return ls_timed_word(control, word, ls_plane_now(plane));
}

unsigned ls_plane_half(const struct ls_plane *plane)
{
	return (unsigned)(ls_plane_word(plane) & LS_WORD_GENERATION);
}

uint64_t ls_plane_generation(const struct ls_plane *plane)
{
	return ls_plane_word(plane) >> LS_WORD_NUMBER_SHIFT;
}

const struct ls_control *ls_plane_control(const struct ls_plane *plane)
{
	return ls_plane_control_rw(plane);
}

const struct ls_ledger *ls_plane_ledger(const struct ls_plane *plane)
{
	/* The mapping is a cache: making it changes nothing that a caller can see. */
	return ls_plane_memory((struct ls_plane *)plane, LS_MAP_LEDGER, NULL);
}

/* Copies the blob out of the inner map of a half. */
static int read_text(struct ls_plane *plane, unsigned half, char **ret_bytes, size_t *ret_length,
		     struct ls_error *error)
{
	_cleanup_free_ char *bytes = NULL;
	const size_t length = ls_plane_state(plane)->half[half].text_bytes;
	const __u32 key = half;
	__u32 id = 0;

	if (bpf_map_lookup_elem(plane->maps[LS_MAP_TEXTS].fd, &key, &id) < 0)
		return ls_error_set_errno(error, errno, "cannot find the text of the policy");
	_cleanup_close_ int fd = bpf_map_get_fd_by_id(id);
	struct bpf_map_info info = { 0 };
	__u32 info_length = sizeof(info);
	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &info_length) < 0)
		return ls_error_set_errno(error, errno, "cannot open the text of the policy");
	const size_t mapped = (size_t)info.max_entries * LS_TEXT_CHUNK;
	if (length > mapped)
		return ls_error_set(error, "the text of the policy is shorter than recorded");
	bytes = malloc(length + 1);
	if (!bytes)
		return ls_error_oom(error);
	const char *memory = mmap(NULL, mapped, PROT_READ, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return ls_error_set_errno(error, errno, "cannot map the text of the policy");
	memcpy(bytes, memory, length);
	bytes[length] = '\0';
	munmap((void *)memory, mapped);
	*ret_bytes = TAKE_PTR(bytes);
	*ret_length = length;
	return 0;
}

/* Publishes between the reading of word and text are noticed; this many in a row do not happen. */
#define READ_TRIES 8

int ls_plane_text(struct ls_plane *plane, char **ret_bytes, size_t *ret_length,
		  struct ls_error *error)
{
	for (int i = 0; i < READ_TRIES; i++) {
		_cleanup_free_ char *bytes = NULL;
		struct ls_error local = LS_ERROR_INIT;
		const uint64_t number = ls_plane_generation(plane);
		const int r = read_text(plane, ls_plane_half(plane), &bytes, ret_length, &local);
		if (ls_plane_generation(plane) != number)
			continue;
		if (r < 0)
			return ls_error_set(error, "%s", local.text);
		*ret_bytes = TAKE_PTR(bytes);
		return 0;
	}
	return ls_error_set(error, "cannot read the policy: it changes all the time");
}

int ls_plane_text_lasting(struct ls_plane *plane, char **ret_bytes, size_t *ret_length,
			  struct ls_error *error)
{
	return read_text(plane, ls_timed_lasting_half(plane), ret_bytes, ret_length, error);
}

int ls_plane_previous(struct ls_plane *plane, struct ls_policy **ret_policy, char **ret_path,
		      struct ls_error *error)
{
	_cleanup_free_ char *bytes = NULL;
	size_t length = 0;
	const unsigned half = !ls_plane_half(plane);

	if (!ls_plane_previous_number(plane))
		return LS_PLANE_E_NO_PREVIOUS;
	const int r = read_text(plane, half, &bytes, &length, error);
	return r < 0 ? r
		     : ls_blob_read("the previous policy", bytes, length, ret_policy, ret_path,
				    error);
}

int ls_plane_policy(struct ls_plane *plane, struct ls_policy **ret_policy, char **ret_path,
		    struct ls_error *error)
{
	_cleanup_free_ char *bytes = NULL;
	size_t length = 0;
	const int r = ls_plane_text(plane, &bytes, &length, error);

	return r < 0 ? r
		     : ls_blob_read("the policy in force", bytes, length, ret_policy, ret_path,
				    error);
}
