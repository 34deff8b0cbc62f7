/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_PREFLIGHT_H
#define LOADSHED_USER_PLANE_PREFLIGHT_H

/*
 * Whether this host and these interfaces can be protected, and what would help. Facts are gathered in one place
 * (facts_host.c, facts_device.c) and judged in another (preflight.c), which reads nothing but them: so every
 * judgement can be tried with facts that no machine at hand has. Nothing is changed, and nothing is guessed from a
 * version: what the kernel can do is found out by doing it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ls_plane;

enum ls_finding_level {
	LS_FINDING_OK,
	LS_FINDING_WARNING,
	LS_FINDING_ERROR,
	LS_FINDING_MAX,
};

const char *ls_finding_level_name(enum ls_finding_level level);

struct ls_finding {
	enum ls_finding_level level;
	const char *topic; /* one word; static */
	char subject[32];  /* "host", or the interface */
	char text[512];
	char fix[256]; /* a command; "": there is none, or nothing to fix */
};

/* Embedded: zero it. */
struct ls_findings {
	struct ls_finding *items; /* owned */
	size_t count;
	bool failed; /* memory ran out, so something may be missing */
};

void ls_findings_fini(struct ls_findings *findings);

/* Of a question that could not be asked. */
#define LS_FACT_UNKNOWN (-1)

enum ls_bpffs {
	LS_BPFFS_OK,
	LS_BPFFS_OUTER,	  /* not mounted here, but in the mount namespace that outlives this one */
	LS_BPFFS_MISSING, /* attach would mount it */
	LS_BPFFS_READ_ONLY,
};

#define LS_FACTS_MISSING_TEXT 160

struct ls_host_facts {
	bool has_cap_bpf, has_cap_net_admin,
		has_cap_perfmon; /* or CAP_SYS_ADMIN, which stands for them */
	bool is_root;
	enum ls_bpffs bpffs;
	int has_btf;
	char release[66]; /* of the kernel */

	/* The program itself, loaded with tables as small as can be. 0: it loads; LS_FACT_UNKNOWN: not tried. */
	int load_code; /* positive errno */
	char load_text[512];
	int is_jited;
	int has_frags;
	const char
		*no_listeners; /* why accept queues cannot be read; "": they can; NULL: not tried */
	char missing
		[LS_FACTS_MISSING_TEXT]; /* helpers that the kernel does not know, "a, b"; "": none */
	uint64_t memlock_bytes;		 /* soft limit; UINT64_MAX: none */

	bool is_attached; /* this instance is */
	uint64_t sources; /* capacity asked for: by the policy in force, or the default */
	uint64_t memory_wanted, memory_available; /* available: UINT64_MAX, not known */

	/* Of the policy in force. */
	uint64_t
		unplaced_long; /* newcomers to limits of long memory that found no place and passed */
	uint64_t unplaced_short; /* and to others: charged to the crowd */
	uint64_t bans_lost;
	char (*warnings)[512]; /* owned: what ls_policy_check says */
	size_t n_warnings;
};

enum ls_native {
	LS_NATIVE_UNKNOWN, /* the kernel does not say (before 6.3) */
	LS_NATIVE_NO,
	LS_NATIVE_YES,
	LS_NATIVE_FRAGS, /* and frames in several buffers */
};

struct ls_device_facts {
	char name[32];
	bool is_there;
	char driver[32];
	bool has_ethernet; /* frames start with an Ethernet header */
	uint16_t type;	   /* ARPHRD_* */
	bool is_up;
	uint32_t mtu;
	uint32_t peer_mtu; /* of a veth; 0: none or not seen */
	char peer[32];
	bool peer_is_here; /* in this namespace */
	int peer_merges;   /* it hands over packets that it has not cut yet (TSO, GSO) */
	enum ls_native native;
	uint32_t queues_now, queues_max; /* 0: not known */
	uint32_t cpus;
	bool has_lro, has_gro, takes_tags;
	uint32_t gro_max, gso_max; /* bytes; 0: not known */

	uint32_t program_id; /* on it now; 0: none */
	char program_name[16];
	const char *program_mode; /* "native", "generic", "offloaded" */
	uint32_t link_id;	  /* 0: by netlink */
	bool is_ours;
	char owner[32]; /* the instance that has it attached; "": none */
	bool is_owned;	/* by this instance */

	bool policy_uses_vlan;
	bool policy_counts_packets; /* packets or connections: what merging makes fewer of */
};

void ls_host_facts_gather(const char *instance, struct ls_host_facts *ret);
void ls_host_facts_fini(struct ls_host_facts *facts);

/* `name`: an interface or altname. */
void ls_device_facts_gather(const char *instance, const char *name, struct ls_device_facts *ret);

void ls_host_judge(const struct ls_host_facts *facts, struct ls_findings *findings);
/* `has_frags`: as the host's facts say. */
void ls_device_judge(const struct ls_device_facts *facts, int has_frags,
		     struct ls_findings *findings);

/* Packets that generic mode may see as one, at most: from what merging allows and the MTU. */
uint32_t ls_merged_packets(const struct ls_device_facts *facts);

#endif
