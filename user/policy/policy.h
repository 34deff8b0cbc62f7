/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_POLICY_POLICY_H
#define LOADSHED_USER_POLICY_POLICY_H

/*
 * The policy as a value.
 *
 * One model stands between the four things that are done with a policy: read (YAML in, or one line
 * of refusal), print (canonical YAML out), diff (two models in) and compile (records for the kernel
 * out). None of them knows another. Everything here is resolved and normalised: defaults are filled
 * in, units are base units, references to sets are indices, files have been read. Not-given differs
 * from zero only where it matters to a person (`has_…` members).
 *
 * Ownership: the policy owns everything that it points to; ls_policy_free() frees it whole.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loadshed/bounds.h"
#include "user/base/addr.h"
#include "user/base/cleanup.h"
#include "user/base/units.h"
#include "user/policy/redis_url.h"

enum ls_mode {
	LS_MODE_ENFORCE,
	LS_MODE_MONITOR,
	LS_MODE_MAX,
};

enum ls_priority {
	LS_PRIORITY_LOW,
	LS_PRIORITY_NORMAL,
	LS_PRIORITY_HIGH,
	LS_PRIORITY_CRITICAL,
	LS_PRIORITY_MAX,
};

enum ls_algorithm {
	LS_TOKEN_BUCKET,
	LS_FIXED_WINDOW,
	LS_SLIDING_WINDOW,
	LS_SLIDING_LOG,
	LS_ALGORITHM_MAX,
};

enum ls_count {
	LS_COUNT_PACKETS,
	LS_COUNT_BYTES,
	LS_COUNT_CONNECTIONS,
	LS_COUNT_MAX,
};

enum ls_per {
	LS_PER_SOURCE, /* IPv4 /32, IPv6 /64 */
	LS_PER_PREFIX, /* per_ipv4 and per_ipv6 bits of the source */
	LS_PER_FLOW,
	LS_PER_DESTINATION,
	LS_PER_CLASS,
	LS_PER_MAX,
};

/* What becomes of a limit in cluster scope while the store does not answer. */
enum ls_loss {
	LS_LOSS_LOCAL,	/* each node keeps to its share */
	LS_LOSS_OPEN,	/* each node admits the whole limit */
	LS_LOSS_CLOSED, /* nothing is admitted */
	LS_LOSS_MAX,
};

/* A list of prefixes, sorted by (family, address, length), without duplicates. */
struct ls_prefixes {
	struct ls_prefix *items;
	size_t count;
};

/* A named set, inline or from a file. */
struct ls_set {
	char name[LS_NAME_BYTES];
	char *file;	    /* as written in the policy, relative to it; NULL for an inline set */
	bool skip_errors;   /* on_error: skip */
	size_t skipped;	    /* lines of the file that were skipped */
	uint8_t sha256[32]; /* of the file's bytes; only with a file */
	struct ls_prefixes entries; /* what it holds */
};

/* One entry of `allow`, `deny`, `to`, `from` or `sources`: a set or a prefix of its own. */
struct ls_member {
	int set; /* index into ls_policy.sets, or -1 */
	struct ls_prefix prefix;
};

struct ls_members {
	struct ls_member *items; /* in the order of the file */
	size_t count;
};

/* An inclusive range of ports or protocol numbers or VLAN tags. */
struct ls_range {
	uint16_t low, high;
};

struct ls_ranges {
	struct ls_range *items; /* sorted, merged: neither overlapping nor adjacent */
	size_t count;
};

/* What a class asks for; an absent dimension has count 0 and rules nothing out. */
struct ls_match {
	bool any; /* `match: any`; then all else is empty */
	struct ls_ranges
		protocols;	/* includes the implied tcp, udp, sctp when only ports are given */
	bool protocols_implied; /* they were: do not print them */
	struct ls_ranges ports;
	struct ls_ranges source_ports;
	struct ls_members to;
	struct ls_members from;
	struct ls_ranges vlans; /* of the outer tag; an untagged packet matches none */
	uint8_t flags_set;	/* TCP flag bits that must be 1, as in byte 13 of the header */
	uint8_t flags_clear;	/* and those that must be 0 */
};

struct ls_limit {
	char name[LS_NAME_BYTES];
	enum ls_per per;
	uint8_t per_ipv4, per_ipv6; /* bits; only for LS_PER_PREFIX */
	enum ls_count count;
	enum ls_algorithm algorithm;
	struct ls_rate rate;  /* token bucket only */
	uint64_t burst;	      /* token bucket only: items or bytes, the default filled in */
	uint64_t limit;	      /* the window algorithms only: items or bytes */
	uint64_t window_ns;   /* the same */
	bool cluster;	      /* scope: cluster */
	enum ls_loss on_loss; /* with cluster; that of the section filled in */
};

struct ls_ban_rule {
	bool given;
	uint64_t after; /* refusals */
	uint64_t within_ns;
	uint64_t for_ns;
};

/* Where something can be asked. */
enum ls_endpoint_kind {
	LS_ENDPOINT_NONE,
	LS_ENDPOINT_FILE, /* a file that holds the answer */
	LS_ENDPOINT_TCP,  /* connects */
	LS_ENDPOINT_HTTP, /* GET */
	LS_ENDPOINT_UNIX, /* connects to a socket; `load` reads from it, too */
	LS_ENDPOINT_MAX,
};

struct ls_endpoint {
	enum ls_endpoint_kind kind;
	char *text; /* as written: a path, ADDRESS:PORT or http://ADDRESS:PORT/PATH; owned */
	struct ls_prefix address; /* tcp and http */
	uint16_t port;
};

/* What a class's service is asked, so that a breaker opens when it fails. */
struct ls_check {
	struct ls_endpoint endpoint; /* LS_ENDPOINT_NONE: there is no check */
	uint64_t interval_ns;
	uint64_t timeout_ns;
	unsigned fall; /* failures in a row that open the breaker */
	unsigned rise; /* successes in a row that close it by half */
};

struct ls_class {
	char name[LS_NAME_BYTES];
	enum ls_mode mode;
	enum ls_priority priority;
	struct ls_match match;
	struct ls_limit limits[LS_CLASS_LIMITS];
	size_t n_limits;
	struct ls_ban_rule ban;
	struct ls_check check;
};

struct ls_nat {
	struct ls_members sources;
	uint32_t factor; /* 1 to 10 000 */
};

/* `overload.max`: one token bucket per kind, burst 100 ms of the rate. */
struct ls_overload_max {
	bool has_packets, has_connections;
	struct ls_rate packets, connections;
};

#define LS_CLUSTER_URLS 16
#define LS_CLUSTER_PREFIX "ls:"

/* The section `cluster`. */
struct ls_cluster_rule {
	bool given;
	struct ls_redis_url redis[LS_CLUSTER_URLS];
	size_t n_redis;
	char node[64];	    /* "": the name of the host */
	uint64_t period_ns; /* 0: automatic */
	char key_prefix[32];
	char *password_file; /* NULL: none */
	enum ls_loss on_loss;
	bool share_bans;
};

/* The signals of `overload`: what `serve` measures, and how new work is refused by it. 0: that signal is off. */
struct ls_signals {
	bool given; /* new work is counted and may be refused */
	uint64_t accept_delay_ns;
	unsigned
		accept_queue; /* per cent of its backlog at which a listener gets no more; no signal: in the kernel alone */
	unsigned cpu, pressure, memory; /* per cent */
	bool softnet;
	struct ls_endpoint load;
	unsigned load_target; /* per cent */
	struct ls_endpoint probe;
	uint64_t probe_target_ns;
	unsigned floor
		[LS_PRIORITY_MAX]; /* per cent of what is admitted that a priority always gets */
};

struct ls_policy {
	enum ls_mode mode;
	bool malformed_pass; /* malformed: pass */
	uint64_t sources;    /* capacity.sources: tracked (source, limit) pairs */
	struct ls_set *sets;
	size_t n_sets;
	struct ls_members allow;
	struct ls_members deny;
	struct ls_nat *nats;
	size_t n_nats;
	struct ls_overload_max overload;
	struct ls_cluster_rule cluster;
	enum ls_mode overload_mode; /* monitor: what `overload` refuses is only counted */
	struct ls_signals signals;
	struct ls_class *classes;
	size_t n_classes;
};

/* Frees the policy and all that it owns; NULL is accepted. */
void ls_policy_free(struct ls_policy *policy);

DEFINE_CLEANUP(struct ls_policy *, ls_policy_free);
#define _cleanup_policy_ _cleanup_(ls_policy_freep)

/*
 * The policy of an attachment without a file: no lists, no classes, everything `unmatched`. NULL:
 * ENOMEM.
 */
struct ls_policy *ls_policy_new(void);

#endif
