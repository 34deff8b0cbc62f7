/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_INTERNAL_H
#define LOADSHED_USER_PLANE_INTERNAL_H

/*
 * What the files of this folder share: the maps of an instance, where they are pinned, and the steps that
 * attach, publish and status are made of. Nothing outside the folder includes it.
 *
 * Pins of instance I in the network namespace with inode N:
 *	BPFFS/loadshed/I@N/ls_control …	every map by its name
 *	BPFFS/loadshed/I@N/link_X	the link of the interface with index X
 * ('@', because bpffs reserves names with a dot.) A directory is built as I@N@new and renamed when it is
 * complete, and renamed to I@N@old before it is taken apart, so that a process killed at any point leaves
 * one that is whole or one that says by its name that it is not. Whoever next holds the lock clears those.
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loadshed/bounds.h"
#include "loadshed/control_abi.h"
#include "loadshed/event_abi.h"
#include "loadshed/hot_abi.h"
#include "loadshed/ledger_abi.h"
#include "loadshed/overload_abi.h"
#include "loadshed/state_abi.h"
#include "loadshed/table_abi.h"
#include "loadshed/tables_abi.h"
#include "loadshed/top_abi.h"
#include "user/plane/plane.h"
#include "user/plane/version.h"

/* The maps: name here, member of the skeleton's maps, which is the name of the pin as well. */
#define LS_PLANE_MAPS(X)                                                                           \
	X(TABLES, bss)                                                                             \
	X(LISTS, ls_lists)                                                                         \
	X(WAYS, ls_ways)                                                                           \
	X(LOGS, ls_logs)                                                                           \
	X(STRIKES, ls_strikes)                                                                     \
	X(BANS, ls_bans)                                                                           \
	X(BAN_INFO, ls_ban_info)                                                                   \
	X(BAN_TEXTS, ls_ban_texts)                                                                 \
	X(OVERLOAD, data_overload)                                                                 \
	X(OFFERED, ls_offered)                                                                     \
	X(FLOWS, ls_flows)                                                                         \
	X(COUNTERS, ls_counters)                                                                   \
	X(TOP, ls_top)                                                                             \
	X(RETIRED, ls_retired)                                                                     \
	X(LEDGER, ls_ledger)                                                                       \
	X(TEXTS, ls_texts)                                                                         \
	X(HOT, ls_hot)                                                                             \
	X(HOT_CPUS, ls_hot_cpus)                                                                   \
	X(EVENTS, ls_events)                                                                       \
	X(STATE, ls_state)                                                                         \
	X(CONTROL, data_control)

enum ls_map {
#define LS_MAP_ENUM(id, member) LS_MAP_##id,
	LS_PLANE_MAPS(LS_MAP_ENUM)
#undef LS_MAP_ENUM
		LS_MAP_MAX,
};

/* Name of the pin. */
const char *ls_map_name(enum ls_map map);

struct ls_plane_map {
	int fd; /* -1: not open */
	uint32_t value_bytes;
	uint32_t entries;
	void *memory; /* mapped on first use */
	size_t mapped_bytes;
};

struct ls_ban_entry;
struct ls_skeleton;

struct ls_plane {
	char instance[LS_NAME_BYTES];
	enum ls_plane_access access;
	bool is_sandbox;
	bool is_replay;
	char directory[PATH_MAX]; /* of the pins; "" for a sandbox */
	uint64_t directory_inode; /* when they were opened */
	int lock_fd;
	/* Interfaces that were detached by this process: they are saved no longer. */
	char forgotten[LS_STATE_INTERFACES][16];
	size_t n_forgotten;
	struct ls_skeleton *skeleton; /* when this process loaded the object; else NULL */
	struct ls_replay_abi *replay; /* of the skeleton */
	int program_fd;		      /* -1: not known */
	struct ls_plane_map maps[LS_MAP_MAX];
};

/* An empty plane: every fd is -1. */
void ls_plane_init(struct ls_plane *plane, const char *instance, enum ls_plane_access access);
/* Lets go of everything but the pins. Can run twice. */
void ls_plane_fini(struct ls_plane *plane);

/* Whether the interface of that name was detached through this plane, and noting that. */
bool ls_plane_has_forgotten(const struct ls_plane *plane, const char *name);
void ls_plane_forget(struct ls_plane *plane, const char *name);

/* The memory of an array, mapped on first use: writable if the plane is. NULL with a line in `error`. */
void *ls_plane_memory(struct ls_plane *plane, enum ls_map map, struct ls_error *error);

/* The maps that everything needs, mapped when the plane is opened. */
static inline struct ls_control *ls_plane_control_rw(const struct ls_plane *plane)
{
	return plane->maps[LS_MAP_CONTROL].memory;
}

static inline struct ls_state *ls_plane_state(const struct ls_plane *plane)
{
	return plane->maps[LS_MAP_STATE].memory;
}

/* The control word that packets go by at this moment: with what is temporary put into it. */
uint64_t ls_plane_word(const struct ls_plane *plane);

/* Half of the tables that is in force. */
unsigned ls_plane_half(const struct ls_plane *plane);

/* Takes over fd and sizes of an open map. Negative errno. */
int ls_plane_adopt(struct ls_plane *plane, enum ls_map map, int fd);

/* The blob of the policy in force for good (one that waits to be confirmed is not), owned by the caller. */
int ls_plane_text_lasting(struct ls_plane *plane, char **ret_bytes, size_t *ret_length,
			  struct ls_error *error);

/* The blob of the policy in force, owned by the caller. */
int ls_plane_text(struct ls_plane *plane, char **ret_bytes, size_t *ret_length,
		  struct ls_error *error);

/*
 * As ls_plane_open, but into an empty plane, and LS_PLANE_E_LAYOUT as ls_plane_open_pins says it. With
 * LS_PLANE_WRITE the lock is held in that case, too.
 */
int ls_plane_open_into(struct ls_plane *plane, struct ls_error *error);

/* Opens every map that is pinned in plane->directory; checks that their layout is this build's.
 * 0, LS_PLANE_E_ABSENT, LS_PLANE_E_LAYOUT (then state and control at least are open), or negative. */
#define LS_PLANE_E_LAYOUT 6
int ls_plane_open_pins(struct ls_plane *plane, struct ls_error *error);

/* Whether any interface has a row: one that runs the program, has vanished, or is pending. */
bool ls_plane_has_interfaces(const struct ls_plane *plane);

/* ---- clock.c: the outermost functions that read the world ---- */
uint64_t ls_now_monotonic(void);
uint64_t ls_now_unix(void);
/* Nanoseconds since the plane's epoch, on the clock that its program goes by. */
uint64_t ls_plane_now(const struct ls_plane *plane);

/* ---- pins.c ---- */

/* Directory of instances, "…/loadshed". With `create`, mounts bpffs and makes it where needed, and refuses
 * a read-only one. 0, LS_PLANE_E_ABSENT (only without `create`: no bpffs can be seen, or nothing is in it),
 * or negative with a line. */
int ls_pins_root(bool create, char ret_root[static PATH_MAX], struct ls_error *error);

/* Where bpffs is: here, or in the mount namespace that outlives this one. False: nowhere; *ret_path is then where it
 * would be mounted. */
bool ls_pins_bpffs(char ret_path[static PATH_MAX], bool *ret_is_here);

uint64_t ls_netns_inode(void);
/* That of our oldest ancestor whose namespace may be looked at. */
uint64_t ls_netns_inode_oldest(void);
uint64_t ls_netns_cookie(void); /* 0: the kernel has none */

/* "ROOT/INSTANCE@NETNS" and `suffix` ("", "@new", "@old"). Negative with a line if it gets too long. */
int ls_pins_path(const char *root, const char *instance, const char *suffix,
		 char ret_path[static PATH_MAX], struct ls_error *error);

/* Unlinks everything in it and the directory itself; absent is fine. 0 or negative errno. */
int ls_pins_remove(const char *directory);

/* Clears what a killed process left of this instance. 0 or negative with a line. */
int ls_pins_repair(const char *root, const char *instance, struct ls_error *error);

/* Removes instances of network namespaces that are gone, whose links have lost their devices. */
void ls_pins_collect(const char *root);

/* Instance of this namespace that holds a link pin of the interface; false: none. */
bool ls_pins_find_owner(const char *root, uint32_t ifindex,
			char ret_instance[static LS_NAME_BYTES]);

/* Pins every map of the plane into `directory`. */
int ls_pins_add_maps(const struct ls_plane *plane, const char *directory, struct ls_error *error);
int ls_pins_add_link(int link_fd, const char *directory, uint32_t ifindex, struct ls_error *error);
/* fd of the link, or negative errno. */
int ls_pins_get_link(const char *directory, uint32_t ifindex);
int ls_pins_remove_link(const char *directory, uint32_t ifindex);
/* Interface of some link that is pinned there; false: there is none. */
bool ls_pins_next_link(const char *directory, uint32_t *ret_ifindex);

/* ---- lock.c ---- */

/* fd that holds the lock of the instance until it is closed; or negative with a line that names who has it. */
int ls_lock_take(const char *instance, struct ls_error *error);
/* Takes its file away; only by who holds it. */
void ls_lock_remove(const char *instance);

/* The lock of the journal alone, held for microseconds; negative when it cannot be had at once. */
int ls_lock_journal(const char *instance);

/* ---- load.c ---- */

struct ls_load {
	uint64_t sources;
	bool is_replay;
	bool small; /* a sandbox: room for fewer bans */
	bool verbose;
	const struct ls_plane *keep; /* maps to go on with; NULL: all new */
};

/* Makes (or keeps) the maps and loads the program into `plane`, which must be empty. New maps are filled
 * with the first values; nothing is pinned. */
int ls_load_object(const struct ls_load *request, struct ls_plane *plane, struct ls_error *error);

/*
 * One line about a program that the kernel does not take, whatever it wrote about it; returns -code. `log`, the
 * verifier's, is taken apart. Public for tests.
 */
int ls_load_explain(int code, char *log, struct ls_error *error);

/* SHA-256 of the object that this program carries. */
void ls_load_digest(uint8_t ret_digest[static 32]);

/* Text that libbpf last said, such as the kernel's own message; "" : none. Cleared by ls_said_clear(). */
void ls_said_clear(void);
const char *ls_said(void);

/* ---- device.c ---- */

struct ls_device {
	char name[32]; /* its real name */
	uint32_t ifindex;
	uint32_t mtu;
	uint16_t type; /* ARPHRD_* */
	char driver[32];
};

/* A name or altname of this namespace. Negative with a line. */
int ls_device_find(const char *name, struct ls_device *ret, struct ls_error *error);
/* By index; -ENODEV without a line when it is gone. */
int ls_device_get(uint32_t ifindex, struct ls_device *ret);
/* Whether frames start with an Ethernet header; else a line. */
int ls_device_check(const struct ls_device *device, struct ls_error *error);
/* Whether the device takes VLAN tags out of the frame. */
bool ls_device_takes_tags(const struct ls_device *device);
/* What an ETHTOOL_G… command that answers with bits says of `bits`: 1 or 0; -1: unknown. */
int ls_device_offload(const char *name, uint32_t command, uint32_t bits);
/*
 * The devices that a bond is made of: packets come in with their indexes, not with the bond's. At most `room`; returns
 * how many, 0 for what is no bond.
 */
size_t ls_device_members(const char *name, uint32_t *list, size_t room);
/* Current and largest number of queues (combined, else rx); false: unknown. */
bool ls_device_queues(const struct ls_device *device, uint32_t *ret_now, uint32_t *ret_max);

/* An XDP program that is on an interface. */
struct ls_resident {
	uint32_t program_id; /* 0: none */
	char program_name[16];
	enum ls_plane_mode mode; /* native, generic; LS_PLANE_MODE_MAX: offloaded */
	uint32_t link_id;	 /* 0: attached by netlink */
};

/* 0 or negative errno. */
int ls_device_resident(uint32_t ifindex, struct ls_resident *ret);

/* Whether a program of that name is this project's. */
bool ls_program_is_ours(const char *name);

/* ---- attach.c, publish.c ---- */

/* Moves the counters of a bank to ls_retired and clears it; nobody counts into it any more. */
void ls_counters_retire(struct ls_plane *plane, unsigned bank);

/*
 * Adds what blocks of counters hold to the verdicts that belong to no class, on the same CPU and bank, and clears them:
 * their names are forgotten, the sums stay. No packet counts into them. 0 or negative with a line.
 */
struct ls_reused_counters;
int ls_counters_fold(struct ls_plane *plane, const struct ls_reused_counters *blocks, size_t count,
		     struct ls_error *error);

/* Waits until every program that is running now has ended. */
void ls_grace_period(void);

/* The row of an interface by name or altname, or of one that has vanished by its name at attach. Negative with a
 * line. */
int ls_row_find(const struct ls_plane *plane, const char *name,
		const struct ls_state_interface **ret, struct ls_error *error);

/* Whether a class of the policy asks for a VLAN tag. */
bool ls_policy_uses_vlan(const struct ls_policy *policy);

/* The publish without the question whether it is in force already. */
int ls_publish(struct ls_plane *plane, const struct ls_policy *policy, const char *path,
	       struct ls_error *error);

/* ---- settle.c ---- */

/*
 * After a flip to `half`: pulls back what the rates of the other half have put further ahead than those of this one
 * allow. Waits for running packets where there is anything to do. 0 or negative with a line; then it can be done again.
 */
int ls_publish_settle(struct ls_plane *plane, unsigned half, struct ls_error *error);

/* A policy that asks for VLAN tags is refused where an interface of ours takes them out of the frame. */
int ls_publish_check_tags(const struct ls_plane *plane, const struct ls_policy *policy,
			  struct ls_error *error);

/* The wall clock at tick 0, from both clocks as they are now: it follows steps and drift. */
void ls_publish_refresh_clock(struct ls_plane *plane);

/* ---- timed.c: who writes the control word ---- */

/* The number of the next generation: no number is ever given to two. */
uint64_t ls_timed_next_number(const struct ls_plane *plane);

/*
 * Makes the half of `base` (a word of struct ls_state) what is in force, with one store. confirm_ns > 0: for that
 * long, unless it is confirmed. Nothing may be pending.
 */
void ls_timed_flip(struct ls_plane *plane, uint64_t base, uint64_t confirm_ns);

/*
 * What comes after every flip, when the half in force is whole: its tables are settled, and only then it has a number,
 * so that a process that is killed in between leaves it to the next writer.
 */
void ls_timed_finish(struct ls_plane *plane);

/*
 * What whoever takes the lock does first: makes permanent what packets have done already when a deadline passed, and
 * forgets what a killed process left half done. Packets notice nothing.
 */
void ls_timed_settle(struct ls_plane *plane);

/* The half that is in force when nothing more is confirmed: what is saved. */
unsigned ls_timed_lasting_half(const struct ls_plane *plane);

/* Refuses with a line when the program that runs is too old to judge what is temporary. */
int ls_timed_check_program(const struct ls_plane *plane, struct ls_error *error);

/* ---- bans.c ---- */

/* Puts bans into a plane whatever its policy allows; those that end later there stay. 0 or negative with a line. */
int ls_bans_put(struct ls_plane *plane, const struct ls_ban_entry *entries, size_t count,
		struct ls_error *error);

/* Puts the bans of `from` into `to`, whose layout of maps is another. 0 or negative with a line. */
int ls_bans_carry(struct ls_plane *from, struct ls_plane *to, struct ls_error *error);

/* ---- save.c ---- */

/* Takes interfaces out of what is saved: `all`, or those that ls_plane_forget() named. Policy and bans stay,
 * to be looked up. *ret_count is how many went. */
int ls_save_forget(const struct ls_plane *plane, bool all, size_t *ret_count,
		   struct ls_error *error);

/* ---- place.c ---- */

/* Directory of an instance's saved files, as seen from this network namespace. */
void ls_save_place(const char *instance, char ret_path[static PATH_MAX]);
/* Makes it where it is missing and clears what a killed process left. The caller holds the lock. */
int ls_save_make_place(const char *instance, struct ls_error *error);

#endif
