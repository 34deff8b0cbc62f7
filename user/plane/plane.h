/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_PLANE_H
#define LOADSHED_USER_PLANE_PLANE_H

/*
 * The door to the kernel. What is attached and in force lives in pinned maps and links; a plane is one
 * instance of that, opened by a process for as long as it looks at it or changes it. Closing it changes
 * nothing: the kernel goes on by itself.
 *
 * Whoever changes something opens with LS_PLANE_WRITE and so holds the instance's lock until it closes;
 * readers take none. No library type passes through here.
 *
 * All functions return 0, a positive LS_PLANE_E_* where the comment says so, or a negative number with one
 * line in `error`; results are set only on success.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "user/base/cleanup.h"

struct ls_ban_entry;
struct ls_control;
struct ls_error;
struct ls_ledger;
struct ls_plane;
struct ls_policy;
struct ls_prefix;
struct ls_warnings;

#define LS_PLANE_INSTANCE "default"
#define LS_PLANE_NOTE_BYTES 256

#define LS_PLANE_E_ABSENT 1 /* nothing is attached under that name in this network namespace */
#define LS_PLANE_E_SAME 2   /* publish: exactly this policy is in force, so nothing was changed */
#define LS_PLANE_E_NO_PREVIOUS 7 /* there is no previous generation to go back to */
#define LS_PLANE_E_NOT_PENDING 8 /* no policy waits to be confirmed */

enum ls_plane_access {
	LS_PLANE_READ,
	LS_PLANE_GLANCE, /* reads, and never waits: what a killed attach has left is for others to clear */
	LS_PLANE_WRITE, /* waits for the lock for at most five seconds */
};

/* A name that `-I` accepts: [a-z][a-z0-9_-]*, at most 31 characters. */
bool ls_plane_instance_valid(const char *instance);

/* Opens an instance. LS_PLANE_E_ABSENT when there is none; -EPROTO when another version made it. */
int ls_plane_open(const char *instance, enum ls_plane_access access, struct ls_plane **ret_plane,
		  struct ls_error *error);
void ls_plane_close(struct ls_plane *plane);
DEFINE_CLEANUP(struct ls_plane *, ls_plane_close);

/*
 * Whether its pins are still those of the instance: no after a last detach, and when another version has made
 * the tables anew. Two cheap system calls. Whoever keeps a plane open asks often, for what it shows is then history, and
 * the memory of tables that are gone stays until it is closed.
 */
bool ls_plane_is_current(const struct ls_plane *plane);

/*
 * For a process that will live long and give its rights away: finds out now where things are, and moves to
 * the mount namespace that has bpffs, if this one (of `ip netns exec`) has none; the working directory is / then. With `create`, mounts it where it is missing, which an
 * attach would do later. Before the instance is opened. Negative with a line: there is no bpffs.
 */
int ls_plane_prepare(bool create, struct ls_error *error);
/* Whether that did not work, so that pins are found only through other processes' namespaces (CAP_SYS_PTRACE). */
bool ls_plane_looks_outside(void);

/* A file of this instance and network namespace that means nothing after a reboot, and its directory. */
#define LS_PLANE_RUN_PATH 128
void ls_plane_run_path(const char *instance, const char *suffix,
		       char ret_path[static LS_PLANE_RUN_PATH]);
int ls_plane_run_make(struct ls_error *error);

enum ls_plane_mode {
	LS_PLANE_AUTO, /* native; generic only where the driver has no native mode */
	LS_PLANE_NATIVE,
	LS_PLANE_GENERIC,
	LS_PLANE_MODE_MAX,
};

const char *ls_plane_mode_name(enum ls_plane_mode mode);
/* LS_PLANE_MODE_MAX for anything that is no mode. */
enum ls_plane_mode ls_plane_mode_parse(const char *text);

struct ls_plane_attach {
	const char *instance;
	const char *const *interfaces; /* names or altnames; naming one twice is naming it once */
	size_t n_interfaces;
	enum ls_plane_mode mode;
	bool monitor; /* drop nothing, whatever the policy says: holds for the whole instance */
	bool replace; /* take over from a foreign program */
	bool verbose; /* the verifier's log to stderr when the program does not load */
	const struct ls_policy
		*policy; /* NULL: none; then what is in force stays, or all is `unmatched` */
	const char *policy_path; /* where it came from, absolute; NULL: nowhere */
	/* What was saved comes back: policy, `monitor` and bans are for an instance that has to be made, what is
	 * in force in one that is there stays, and nothing is saved anew. */
	bool restore;
	const struct ls_ban_entry *bans;
	size_t n_bans;
};

/*
 * Attaches to all the interfaces or to none, and publishes the policy before the first packet is judged.
 * What is attached already stays; then a policy is published as by ls_plane_publish, and a program of
 * another build is replaced by link update with its state kept. `notes` gets a line for each thing that
 * the operator should know (attached already, fell back to generic, capacity kept, …).
 * *ret_published says whether a policy went into force (false also when it was in force already).
 */
int ls_plane_attach(const struct ls_plane_attach *request, struct ls_warnings *notes,
		    bool *ret_published, struct ls_error *error);

/*
 * Detaches what is ours from the interfaces (n = 0: from all); with the last one the pins go, and with
 * them policy, bans and counters. Interfaces that are not ours are named in `notes` and left alone.
 * *ret_detached is how many were detached. Nothing attached: 0 and a note.
 */
int ls_plane_detach(const char *instance, const char *const *interfaces, size_t n_interfaces,
		    struct ls_warnings *notes, size_t *ret_detached, struct ls_error *error);

/* Whether the interface of that name or altname runs the program of this instance. */
bool ls_plane_is_attached(const struct ls_plane *plane, const char *name);

struct ls_plane_interface {
	char name[32]; /* current name; of a vanished one, that at attach */
	uint32_t ifindex;
	enum ls_plane_mode mode; /* native or generic */
	uint32_t program_id;	 /* 0: the interface has vanished, or is … */
	bool is_elsewhere;	 /* … in another network namespace, where the program runs */
	uint32_t link_id;
	uint32_t mtu; /* 0: vanished */
	uint16_t bank;
	uint64_t since_ns; /* Unix time of the attach */
};

struct ls_plane_status {
	char instance[32];
	char version[32]; /* of the program that runs */
	uint64_t generation;
	bool monitor;	     /* nothing is dropped: by the policy's mode or by attach --monitor */
	bool attach_monitor; /* … by the latter */
	bool other_build;    /* what runs was built from another object than this program's */
	uint8_t policy_sha256[32];
	uint64_t published_ns; /* Unix time */
	uint64_t made_ns;      /* Unix time when the tables were made: counters count from there */
	uint64_t program_ns;   /* Unix time since when this program runs */
	uint64_t sources;      /* capacity that is held */
	uint64_t confirm_ns;   /* left to confirm; 0: nothing is pending */
	uint64_t off_ns;       /* left of `off`; 0: not off */
	uint64_t panic_ns;     /* left of `panic`; 0: no panic */
	int serve_pid;	       /* of the controller; 0: none runs */
	uint64_t serve_since_ns;
	uint64_t previous; /* number of the generation that rollback goes to; 0: none */
	struct ls_plane_interface *interfaces; /* owned */
	size_t n_interfaces;
	char (*degraded)[LS_PLANE_NOTE_BYTES]; /* owned; one line each */
	size_t n_degraded;
};

int ls_plane_status(struct ls_plane *plane, struct ls_plane_status *ret, struct ls_error *error);
void ls_plane_status_fini(struct ls_plane_status *status);

/*
 * For "nothing is attached" to be true and not just what the pins say: names the interfaces of this network
 * namespace that run our program although no pin that can be seen belongs to it. Returns how many; `list`
 * gets their names, cut at `size`.
 */
int ls_plane_ghosts(char *list, size_t size);

/*
 * Makes `policy` what is enforced, whole, with one store; or changes nothing. LS_PLANE_E_SAME when it is in
 * force already. The plane must be open for writing. `path` as in ls_plane_attach; notes as there.
 */
int ls_plane_publish(struct ls_plane *plane, const struct ls_policy *policy, const char *path,
		     struct ls_warnings *notes, struct ls_error *error);

/* The policy in force and where it came from (NULL: nowhere; pointer may be NULL), owned by the caller. */
int ls_plane_policy(struct ls_plane *plane, struct ls_policy **ret_policy, char **ret_path,
		    struct ls_error *error);

/* The number of the generation in force, from 1. */
uint64_t ls_plane_generation(const struct ls_plane *plane);

/*
 * Saves policy, interfaces, mode and bans, each file whole or not at all, where ls_save_place() says.
 * The plane must be open for writing.
 */
int ls_plane_save(struct ls_plane *plane, struct ls_error *error);

/* For those who evaluate what the kernel sees; valid until the plane is closed. */
const struct ls_control *ls_plane_control(const struct ls_plane *plane);
const struct ls_ledger *ls_plane_ledger(const struct ls_plane *plane);

#endif
