/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/internal.h"

/*
 * The BPF object, from bytes in this program to maps and a loaded program.
 *
 * One of two programs is loaded, which are the same code: the one that takes frames in several buffers where
 * the kernel knows such programs, found out by loading two instructions of that kind.
 *
 * Sizes, for a capacity of S tracked (source, limit) pairs; a way is 16 bytes, a set eight ways. S = 1 M:
 *	short	4 S ways in S/2 sets, because crowding starts above 25 % fill	64 MiB
 *	long	half as many						32 MiB
 *	log	S/32 ways, each with 64 stamps of its own		17 MiB
 *	strikes	S/16 ways						1.3 MiB
 *	bans	524 288, whatever S					10 MiB
 *	shared	4096 sources with counts for each possible CPU		0.8 MiB + 0.2 MiB per CPU
 *	events	512 for each possible CPU				0.2 MiB per CPU
 */

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "kern/cpu.h" /* the skeleton names the type of the section .bss */
#include "loadshed.skel.h"
#include "user/base/error.h"
#include "user/base/sha256.h"
#include "user/plane/sandbox.h"

#define SETS_MIN 64
#define SETS_MAX (1U << 26) /* 8 GiB of one table: the sum of four fits 32 bits */
#define BAN_SETS 65536
#define BAN_SETS_SMALL 4096
#define LOG_BYTES (4U << 20) /* of the verifier's log: enough for its last lines */
#define SPARE_BYTES                                                                                \
	(16ULL << 20) /* program, lists of a policy, page tables: kept free beside the maps */

DEFINE_CLEANUP(struct ls_skeleton *, ls_skeleton__destroy);

static char said[512];
static bool is_verbose;

/* libbpf prints what it and the kernel have to say; the last line is kept for the one that we show. */
static int listen_to_libbpf(enum libbpf_print_level level, const char *format, va_list arguments)
{
	if (is_verbose && level != LIBBPF_DEBUG)
		return vfprintf(stderr, format, arguments);
	if (level == LIBBPF_WARN && said[0] == '\0') {
		static const char prefix[] = "Kernel error message: ";
		char line[512];
		vsnprintf(line, sizeof(line), format, arguments);
		line[strcspn(line, "\n")] = '\0';
		const char *text = strstr(line, prefix);
		if (text)
			snprintf(said, sizeof(said), "%s", text + sizeof(prefix) - 1);
	}
	return 0;
}

void ls_said_clear(void)
{
	libbpf_set_print(listen_to_libbpf);
	said[0] = '\0';
}

const char *ls_said(void)
{
	return said;
}

void ls_load_digest(uint8_t ret_digest[static 32])
{
	/* It takes 2 ms, and serve asks each second. */
	static uint8_t digest[32];
	static bool is_known;

	if (!is_known) {
		size_t length = 0;
		const void *bytes = ls_skeleton__elf_bytes(&length);
		ls_sha256(bytes, length, digest);
		is_known = true;
	}
	memcpy(ret_digest, digest, sizeof(digest));
}

/* Whether the kernel loads programs that take frames in several buffers (5.18). */
bool ls_load_has_frags(void)
{
	static const struct bpf_insn pass[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K,
		  .dst_reg = BPF_REG_0,
		  .imm = 2 /* XDP_PASS */ },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .prog_flags = BPF_F_XDP_HAS_FRAGS);
	_cleanup_close_ int fd =
		bpf_prog_load(BPF_PROG_TYPE_XDP, "ls_probe", "GPL", pass, 2, &opts);

	return fd >= 0;
}

/* `ways` in sets of eight, as many as the next power of two. */
static uint32_t sets_for(uint64_t ways)
{
	uint64_t sets = SETS_MIN;

	while (sets * LS_WAYS < ways && sets < SETS_MAX)
		sets *= 2;
	return (uint32_t)sets;
}

struct table_sizes {
	uint32_t sets[LS_TABLES];
	uint32_t ban_sets;
};

static struct table_sizes sizes_for(const struct ls_load *request)
{
	const uint64_t sources = request->sources;
	const struct table_sizes sizes = {
		.sets = { [LS_TABLE_SHORT] = sets_for(sources * 4),
			  [LS_TABLE_LONG] = sets_for(sources * 2),
			  [LS_TABLE_LOG] = sets_for(sources / 32),
			  [LS_TABLE_STRIKE] = sets_for(sources / 16) },
		.ban_sets = request->small ? BAN_SETS_SMALL : BAN_SETS,
	};

	return sizes;
}

/* What is there already decides, so that a new program fits the tables it goes on with. */
static struct table_sizes sizes_of(const struct ls_plane *plane)
{
	struct table_sizes sizes = { .ban_sets = plane->maps[LS_MAP_BANS].entries };

	memcpy(sizes.sets, ls_plane_state(plane)->sets, sizeof(sizes.sets));
	return sizes;
}

static struct bpf_map *map_of(struct ls_skeleton *skeleton, enum ls_map map)
{
	switch (map) {
#define MAP_CASE(id, member)                                                                       \
	case LS_MAP_##id:                                                                          \
		return skeleton->maps.member;
		LS_PLANE_MAPS(MAP_CASE)
#undef MAP_CASE
	case LS_MAP_MAX:
		break;
	}
	return NULL;
}

static int set_sizes(struct ls_skeleton *skeleton, const struct table_sizes *sizes, uint32_t cpus,
		     bool is_replay)
{
	uint32_t sets = 0;

	for (int table = 0; table < LS_TABLES; table++) {
		skeleton->rodata->ls_table_base[table] = sets;
		skeleton->rodata->ls_table_mask[table] = sizes->sets[table] - 1;
		sets += sizes->sets[table];
	}
	skeleton->rodata->ls_ban_mask = sizes->ban_sets - 1;
	skeleton->rodata->ls_banks = LS_BANKS;

	const struct {
		struct bpf_map *map;
		uint32_t entries;
	} rows[] = {
		{ skeleton->maps.ls_ways, sets },
		{ skeleton->maps.ls_logs, sizes->sets[LS_TABLE_LOG] * LS_WAYS },
		{ skeleton->maps.ls_strikes, sizes->sets[LS_TABLE_STRIKE] },
		{ skeleton->maps.ls_bans, sizes->ban_sets },
		{ skeleton->maps.ls_ban_info, sizes->ban_sets },
		{ skeleton->maps.ls_ban_texts, sizes->ban_sets * LS_WAYS },
		{ skeleton->maps.ls_counters, cpus * LS_BANKS },
		{ skeleton->maps.ls_hot_cpus, cpus },
		{ skeleton->maps.ls_events, is_replay ? 1 : cpus + 1 },
		{ skeleton->maps.ls_offered, cpus },
		{ skeleton->maps.ls_top, cpus },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const int r = bpf_map__set_max_entries(rows[i].map, rows[i].entries);
		if (r < 0)
			return r;
	}
	return 0;
}

/* MemAvailable; UINT64_MAX when it is not known. */
static uint64_t memory_available(void)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/meminfo", "re");
	char line[128];
	uint64_t kib;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1)
			return kib * 1024;
	return UINT64_MAX;
}

/* What the arrays that are not there yet will take. */
static uint64_t memory_wanted(struct ls_skeleton *skeleton, const struct ls_plane *keep)
{
	uint64_t wanted = SPARE_BYTES;

	for (int map = 0; map < LS_MAP_MAX; map++) {
		const struct bpf_map *of = map_of(skeleton, map);
		if ((keep && keep->maps[map].fd >= 0) || map == LS_MAP_BAN_TEXTS)
			continue;
		wanted +=
			(uint64_t)((bpf_map__value_size(of) + 7) & ~7U) * bpf_map__max_entries(of);
	}
	return wanted;
}

int ls_load_memory(uint64_t sources, uint64_t *ret_wanted, uint64_t *ret_available)
{
	_cleanup_(ls_skeleton__destroyp) struct ls_skeleton *skeleton = NULL;
	const struct ls_load request = { .sources = sources };
	const struct table_sizes sizes = sizes_for(&request);
	const int cpus = libbpf_num_possible_cpus();

	ls_said_clear();
	skeleton = ls_skeleton__open();
	if (cpus < 0 || !skeleton || set_sizes(skeleton, &sizes, (uint32_t)cpus, false) < 0)
		return -ENOMEM;
	*ret_wanted = memory_wanted(skeleton, NULL);
	*ret_available = memory_available();
	return 0;
}

static int check_memory(struct ls_skeleton *skeleton, const struct ls_load *request,
			struct ls_error *error)
{
	const uint64_t wanted = memory_wanted(skeleton, request->keep);
	const uint64_t available = memory_available();

	if (wanted <= available)
		return 0;
	ls_error_set(error,
		     "cannot make tables for %" PRIu64 " sources: they take %" PRIu64
		     " MiB and %" PRIu64
		     " MiB of memory are available; lower 'capacity: { sources: … }' in the policy",
		     request->sources, wanted >> 20, available >> 20);
	return -ENOMEM;
}

static int keep_maps(struct ls_skeleton *skeleton, const struct ls_plane *keep)
{
	for (int map = 0; map < LS_MAP_MAX; map++) {
		if (keep->maps[map].fd < 0)
			continue;
		const int r = bpf_map__reuse_fd(map_of(skeleton, map), keep->maps[map].fd);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The line of the verifier's log that says why: the last one before its statistics. */
static const char *reason_in_log(char *log)
{
	char *why = NULL;
	char *rest = NULL;

	for (char *line = strtok_r(log, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (strncmp(line, "processed ", 10) == 0 ||
		    strncmp(line, "verification time", 17) == 0 ||
		    strncmp(line, "stack depth", 11) == 0)
			continue;
		if (strncmp(line, "-- ", 3) == 0)
			continue;
		why = line;
	}
	return why ? why : "";
}

int ls_load_explain(int code, char *log, struct ls_error *error)
{
	struct utsname system = { 0 };
	const char *why = reason_in_log(log);

	uname(&system);
	if (code == EPERM)
		return ls_error_set_errno(
			error, code,
			"cannot load the BPF program; run as root, or with CAP_BPF and CAP_NET_ADMIN");
	if (code == ENOMEM)
		return ls_error_set_errno(
			error, code,
			"cannot make the tables; lower 'capacity: { sources: … }' in the policy");
	return ls_error_set_errno(
		error, code,
		"cannot load the BPF program on kernel %s (5.15 or later is needed)%s%s; -v shows the verifier's log",
		system.release, *why ? ": " : "", why);
}

void ls_load_note(struct ls_state *state, const struct ls_plane *loaded)
{
	state->flags |= LS_STATE_TIMED;
	state->flags &= ~LS_STATE_LISTENERS;
	if (loaded->reads_listeners)
		state->flags |= LS_STATE_LISTENERS;
}

/* First values of what cannot be all zero. */
static int fill_new(struct ls_plane *plane, const struct ls_load *request,
		    const struct table_sizes *sizes, struct ls_error *error)
{
	struct ls_control *control = ls_plane_memory(plane, LS_MAP_CONTROL, error);
	struct ls_state *state = ls_plane_memory(plane, LS_MAP_STATE, error);

	if (!control || !state)
		return -ENOMEM;
	if (getrandom(control->hash_key, sizeof(control->hash_key), 0) !=
	    (ssize_t)sizeof(control->hash_key))
		return ls_error_set_errno(error, errno, "cannot draw the secret of the tables");
	for (int i = 0; i < LS_HASH_KEYS; i++)
		control->hash_key[i] |= 1;
	control->epoch_ns = ls_now_monotonic();
	control->wall_ns = ls_now_unix();
	control->abi_version = LS_ABI_VERSION;

	state->abi_version = LS_ABI_VERSION;
	state->bytes = sizeof(*state);
	snprintf(state->instance, sizeof(state->instance), "%s", plane->instance);
	snprintf(state->version, sizeof(state->version), "%s", LS_VERSION);
	ls_load_digest(state->object_sha256);
	state->netns_cookie = ls_netns_cookie();
	state->made_ns = ls_now_unix();
	state->sources = request->sources;
	ls_load_note(state, plane);
	memcpy(state->sets, sizes->sets, sizeof(state->sets));
	return 0;
}

/* A file descriptor of our own: those of libbpf close with its object. */
static int duplicate(int fd)
{
	const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	return copy < 0 ? -errno : copy;
}

/* Hands maps, program and memory over to the plane. */
static int take_over(struct ls_plane *plane, struct ls_skeleton *skeleton,
		     struct bpf_program *program, struct ls_error *error)
{
	for (int map = 0; map < LS_MAP_MAX; map++) {
		const int fd = duplicate(bpf_map__fd(map_of(skeleton, map)));
		const int r = fd < 0 ? fd : ls_plane_adopt(plane, map, fd);
		if (r < 0)
			return ls_error_set_errno(error, -r, "cannot take over map '%s'",
						  ls_map_name(map));
	}
	plane->program_fd = duplicate(bpf_program__fd(program));
	if (plane->program_fd < 0)
		return ls_error_set_errno(error, -plane->program_fd,
					  "cannot take over the program");
	return 0;
}

int ls_load_object(const struct ls_load *request, struct ls_plane *plane, struct ls_error *error)
{
	_cleanup_(ls_skeleton__destroyp) struct ls_skeleton *skeleton = NULL;
	_cleanup_free_ char *log = calloc(1, LOG_BYTES);
	const int cpus = libbpf_num_possible_cpus();
	int r;

	ls_said_clear();
	is_verbose = request->verbose;
	if (!log)
		return ls_error_oom(error);
	if (cpus < 0)
		return ls_error_set_errno(error, -cpus, "cannot count the possible CPUs");
	if (cpus > LS_CPUS)
		return ls_error_set(error,
				    "cannot run on %d possible CPUs: this build has records for %d",
				    cpus, LS_CPUS);
	skeleton = ls_skeleton__open();
	if (!skeleton)
		return ls_error_set_errno(error, errno, "cannot read the BPF object");

	const bool frags = ls_load_has_frags();
	struct bpf_program *program = frags ? skeleton->progs.ls_xdp_frags : skeleton->progs.ls_xdp;
	bpf_program__set_autoload(skeleton->progs.ls_xdp, !frags);
	bpf_program__set_autoload(skeleton->progs.ls_xdp_frags, frags);
	bpf_program__set_log_buf(program, log, LOG_BYTES);

	const struct table_sizes sizes = request->keep ? sizes_of(request->keep)
						       : sizes_for(request);
	r = set_sizes(skeleton, &sizes, (uint32_t)cpus, request->is_replay);
	if (r < 0)
		return ls_error_set_errno(error, -r, "cannot set the sizes of the tables");
	skeleton->rodata->ls_is_replay = request->is_replay;
	/* A recorded packet has no listener. */
	plane->reads_listeners = !request->is_replay &&
				 !ls_fields_find(&skeleton->rodata->ls_listener_fields);
	ls_said_clear();
	r = check_memory(skeleton, request, error);
	if (r < 0)
		return r;
	if (request->keep) {
		r = keep_maps(skeleton, request->keep);
		if (r < 0)
			return ls_error_set_errno(error, -r, "cannot go on with the pinned maps");
	}
	r = ls_skeleton__load(skeleton);
	is_verbose = false;
	if (r < 0) {
		if (request->verbose && log[0] != '\0')
			fprintf(stderr, "%s\n", log);
		return ls_load_explain(-r, log, error);
	}
	r = take_over(plane, skeleton, program, error);
	if (r < 0)
		return r;
	plane->is_replay = request->is_replay;
	plane->replay = &skeleton->data_replay->ls_replay;
	plane->skeleton = TAKE_PTR(skeleton);
	return request->keep ? 0 : fill_new(plane, request, &sizes, error);
}
