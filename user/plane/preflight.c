/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/preflight.h"

/* What the facts mean. Reads nothing but them. */

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What fits one buffer of a page, less headroom and tail (veth: 3506). */
#define SINGLE_BUFFER_MTU 3498
#define HEADER_BYTES 40	   /* IPv4 and TCP: in each packet of which one is merged */
#define MERGED_BYTES 65536 /* what is merged where the kernel does not say how much */

const char *ls_finding_level_name(enum ls_finding_level level)
{
	static const char *const names[LS_FINDING_MAX] = { "ok", "warning", "error" };

	return names[level];
}

void ls_findings_fini(struct ls_findings *findings)
{
	free(findings->items);
	memset(findings, 0, sizeof(*findings));
}

/* Adds a finding; its text follows with ls_text(), its fix with ls_fix(). NULL: out of memory. */
static struct ls_finding *add(struct ls_findings *findings, const char *subject, const char *topic,
			      enum ls_finding_level level)
{
	struct ls_finding *more = realloc(findings->items, (findings->count + 1) * sizeof(*more));

	if (!more) {
		findings->failed = true;
		return NULL;
	}
	findings->items = more;
	struct ls_finding *finding = &more[findings->count++];
	memset(finding, 0, sizeof(*finding));
	finding->level = level;
	finding->topic = topic;
	snprintf(finding->subject, sizeof(finding->subject), "%s", subject);
	return finding;
}

__attribute__((format(printf, 2, 3))) static struct ls_finding *say(struct ls_finding *finding,
								    const char *format, ...)
{
	va_list arguments;

	if (!finding)
		return NULL;
	va_start(arguments, format);
	vsnprintf(finding->text, sizeof(finding->text), format, arguments);
	va_end(arguments);
	return finding;
}

__attribute__((format(printf, 2, 3))) static void fix(struct ls_finding *finding,
						      const char *format, ...)
{
	va_list arguments;

	if (!finding)
		return;
	va_start(arguments, format);
	vsnprintf(finding->fix, sizeof(finding->fix), format, arguments);
	va_end(arguments);
}

#define HOST(topic, level) add(findings, "host", topic, LS_FINDING_##level)

/* ---- the host ---- */

static void judge_privileges(const struct ls_host_facts *facts, struct ls_findings *findings)
{
	const char *missing = !facts->has_cap_bpf	  ? "CAP_BPF"
			      : !facts->has_cap_net_admin ? "CAP_NET_ADMIN"
			      : !facts->has_cap_perfmon	  ? "CAP_PERFMON"
							  : NULL;

	if (!missing)
		say(HOST("privileges", OK), "%s", facts->is_root ? "root" : "capabilities suffice");
	else
		fix(say(HOST("privileges", ERROR), "%s is missing%s", missing,
			facts->is_root
				? ", although this is root: a container or a unit took it away"
				: "; what needs it could not be looked at"),
		    "%s", facts->is_root ? "" : "sudo loadshed check");
}

static void judge_bpffs(const struct ls_host_facts *facts, struct ls_findings *findings)
{
	switch (facts->bpffs) {
	case LS_BPFFS_OK:
		say(HOST("bpffs", OK), "mounted at /sys/fs/bpf");
		break;
	case LS_BPFFS_OUTER:
		say(HOST("bpffs", OK),
		    "that of the mount namespace outside of this one, which goes away with its command");
		break;
	case LS_BPFFS_MISSING:
		fix(say(HOST("bpffs", WARNING),
			"not mounted, so no state can be kept; 'loadshed attach' mounts it"),
		    "mount -t bpf bpffs /sys/fs/bpf");
		break;
	case LS_BPFFS_READ_ONLY:
		fix(say(HOST("bpffs", ERROR), "mounted read-only: no state can be kept in it"),
		    "mount -o remount,rw /sys/fs/bpf");
		break;
	}
}

static void judge_kernel(const struct ls_host_facts *facts, struct ls_findings *findings)
{
	if (facts->missing[0])
		say(HOST("kernel", ERROR),
		    "%s does not know %s, which the program calls: 5.15 or later is needed",
		    facts->release, facts->missing);
	else if (facts->load_code == LS_FACT_UNKNOWN)
		say(HOST("kernel", WARNING), "%s; not tried, for lack of privileges",
		    facts->release);
	else if (facts->load_code == 0)
		say(HOST("kernel", OK), "%s loads the program", facts->release);
	else
		say(HOST("kernel", ERROR), "%s",
		    facts->load_text[0] ? facts->load_text : strerror(facts->load_code));
	if (facts->has_frags == 0)
		say(HOST("frags", WARNING),
		    "this kernel has no frames of several buffers (5.18): no native mode above an MTU of about %d",
		    SINGLE_BUFFER_MTU);
	else if (facts->has_frags == 1)
		say(HOST("frags", OK), "frames of several buffers: native mode at every MTU");
}

static void judge_listeners(const struct ls_host_facts *facts, struct ls_findings *findings)
{
	if (!facts->no_listeners)
		return;
	if (*facts->no_listeners)
		say(HOST("listeners", WARNING),
		    "%s: 'accept_queue' of 'overload' is not in force, the signals of 'serve' are",
		    facts->no_listeners);
	else
		say(HOST("listeners", OK), "accept queues can be read in the driver");
}

static void judge_speed(const struct ls_host_facts *facts, struct ls_findings *findings)
{
	if (facts->is_jited == 0)
		fix(say(HOST("jit", WARNING),
			"BPF programs are interpreted, which is several times slower"),
		    "sysctl -w net.core.bpf_jit_enable=1");
	else if (facts->is_jited == 1)
		say(HOST("jit", OK), "the program is compiled");
	if (facts->has_btf == 0)
		say(HOST("btf", WARNING),
		    "/sys/kernel/btf/vmlinux is missing: the program loads without, bpftool shows less of it");
	else if (facts->has_btf == 1)
		say(HOST("btf", OK), "the kernel describes its types");
}

static void judge_memory(const struct ls_host_facts *facts, struct ls_findings *findings)
{
	const uint64_t wanted = facts->memory_wanted >> 20,
		       available = facts->memory_available >> 20;

	if (facts->is_attached)
		say(HOST("memory", OK), "the tables for %" PRIu64 " sources are there",
		    facts->sources);
	else if (!facts->memory_wanted || facts->memory_available == UINT64_MAX)
		say(HOST("memory", WARNING), "how much there is could not be seen");
	else if (facts->memory_wanted > facts->memory_available)
		fix(say(HOST("memory", ERROR),
			"tables for %" PRIu64 " sources take %" PRIu64 " MiB, and %" PRIu64
			" MiB are available",
			facts->sources, wanted, available),
		    "lower 'capacity: { sources: … }' in the policy");
	else
		say(HOST("memory", OK),
		    "tables for %" PRIu64 " sources take %" PRIu64 " of %" PRIu64 " MiB",
		    facts->sources, wanted, available);
	/* Kernels before 5.11 count BPF memory by it; those then refuse the program, whoever is root. */
	if (facts->memlock_bytes != UINT64_MAX && facts->memlock_bytes < facts->memory_wanted &&
	    (facts->load_code == EPERM || facts->load_code == ENOMEM) && facts->has_cap_bpf)
		fix(say(HOST("memlock", ERROR), "locked memory is limited to %" PRIu64 " KiB",
			facts->memlock_bytes >> 10),
		    "ulimit -l unlimited");
	else if (facts->load_code == 0)
		say(HOST("memlock", OK), "no limit that counts here");
}

static void judge_policy(const struct ls_host_facts *facts, struct ls_findings *findings)
{
	if (!facts->is_attached)
		return;
	for (size_t i = 0; i < facts->n_warnings; i++)
		say(HOST("policy", WARNING), "%s", facts->warnings[i]);
	if (facts->unplaced_long)
		fix(say(HOST("policy", WARNING),
			"limits with long windows have been undone: %" PRIu64
			" packets of newcomers found no place in their table and passed",
			facts->unplaced_long),
		    "raise 'capacity: { sources: … }' in the policy, or shorten the windows");
	if (facts->unplaced_short)
		fix(say(HOST("policy", WARNING),
			"%" PRIu64
			" packets of newcomers found no place in the table and were charged to the crowd",
			facts->unplaced_short),
		    "raise 'capacity: { sources: … }' in the policy");
	if (facts->bans_lost)
		say(HOST("policy", WARNING), "%" PRIu64 " bans by classes found no room",
		    facts->bans_lost);
	if (!facts->n_warnings && !facts->unplaced_long && !facts->unplaced_short &&
	    !facts->bans_lost)
		say(HOST("policy", OK), "nothing undoes the one in force");
}

void ls_host_judge(const struct ls_host_facts *facts, struct ls_findings *findings)
{
	judge_privileges(facts, findings);
	judge_bpffs(facts, findings);
	judge_kernel(facts, findings);
	judge_listeners(facts, findings);
	judge_speed(facts, findings);
	judge_memory(facts, findings);
	judge_policy(facts, findings);
}

/* ---- an interface ---- */

#define DEVICE(topic, level) add(findings, facts->name, topic, LS_FINDING_##level)

uint32_t ls_merged_packets(const struct ls_device_facts *facts)
{
	const uint32_t known = facts->gro_max > facts->gso_max ? facts->gro_max : facts->gso_max;
	const uint32_t merged = known ? known : MERGED_BYTES;
	const uint32_t payload = facts->mtu > HEADER_BYTES ? facts->mtu - HEADER_BYTES : 1;

	return merged > payload ? (merged + payload - 1) / payload : 1;
}

static void judge_presence(const struct ls_device_facts *facts, struct ls_findings *findings)
{
	if (!facts->has_ethernet)
		say(DEVICE("link", ERROR),
		    "its frames have no Ethernet header (link type %u), so sources could not be told; attach to the interface below it",
		    facts->type);
	else if (!facts->is_up)
		fix(say(DEVICE("link", WARNING), "the interface is down"), "ip link set %s up",
		    facts->name);
	else
		say(DEVICE("link", OK), "up, driver %s",
		    facts->driver[0] ? facts->driver : "unknown");
}

static const char *program_name(const struct ls_device_facts *facts)
{
	return facts->program_name[0] ? facts->program_name : "unnamed";
}

static void judge_program(const struct ls_device_facts *facts, struct ls_findings *findings)
{
	if (!facts->program_id) {
		say(DEVICE("program", OK), "no XDP program is there");
		return;
	}
	if (facts->is_ours && facts->is_owned) {
		say(DEVICE("program", OK), "ours is attached, %s mode", facts->program_mode);
		return;
	}
	if (facts->is_ours && facts->owner[0]) {
		fix(say(DEVICE("program", ERROR), "instance '%s' is attached there, %s mode",
			facts->owner, facts->program_mode),
		    "loadshed -I %s detach %s", facts->owner, facts->name);
		return;
	}
	struct ls_finding *finding = DEVICE("program", ERROR);
	if (facts->link_id)
		fix(say(finding,
			"XDP program '%s' (id %u) is attached there by BPF link %u, %s; its owner must let go",
			program_name(facts), facts->program_id, facts->link_id,
			facts->program_mode),
		    "bpftool link detach id %u", facts->link_id);
	else
		fix(say(finding, "XDP program '%s' (id %u) is attached there by netlink, %s",
			program_name(facts), facts->program_id, facts->program_mode),
		    "ip link set %s %s off", facts->name,
		    strcmp(facts->program_mode, "generic") == 0	    ? "xdpgeneric"
		    : strcmp(facts->program_mode, "offloaded") == 0 ? "xdpoffload"
								    : "xdpdrv");
}

static bool is_generic(const struct ls_device_facts *facts)
{
	return facts->is_owned ? strcmp(facts->program_mode, "generic") == 0
			       : facts->native == LS_NATIVE_NO;
}

static bool is_veth(const struct ls_device_facts *facts)
{
	return strcmp(facts->driver, "veth") == 0;
}

/* What turns merging off, so that generic mode sees single packets. */
static void fix_merging(const struct ls_device_facts *facts, struct ls_finding *finding)
{
	if (!is_veth(facts))
		fix(finding, "ethtool -K %s gro off lro off", facts->name);
	else
		fix(finding, "ethtool -K %s gro off; ethtool -K %s tso off gso off", facts->name,
		    facts->peer[0] ? facts->peer : "PEER");
}

static void judge_generic(const struct ls_device_facts *facts, struct ls_findings *findings)
{
	const bool merges = facts->has_gro || facts->has_lro ||
			    (is_veth(facts) && facts->peer_merges != 0);
	const char *why = facts->is_owned ? "attached in generic mode, which is slower"
					  : "the driver has no native mode; generic is slower";
	struct ls_finding *finding = DEVICE("mode", WARNING);

	if (!merges)
		say(finding, "%s; merging is off, so packets are counted one by one", why);
	else if (!facts->policy_counts_packets)
		say(finding, "%s, and up to %u packets that the kernel has merged count as one",
		    why, ls_merged_packets(facts));
	else
		fix_merging(
			facts,
			say(finding,
			    "%s, and the policy counts packets: up to %u that the kernel has merged count as one",
			    why, ls_merged_packets(facts)));
}

static void judge_mode(const struct ls_device_facts *facts, struct ls_findings *findings)
{
	if (is_generic(facts))
		judge_generic(facts, findings);
	else if (facts->is_owned)
		say(DEVICE("mode", OK), "attached in native mode");
	else if (facts->native == LS_NATIVE_UNKNOWN)
		say(DEVICE("mode", OK),
		    "whether the driver has a native mode shows at attach; this kernel does not say");
	else
		say(DEVICE("mode", OK), "the driver has a native mode");
}

static void judge_mtu(const struct ls_device_facts *facts, int has_frags,
		      struct ls_findings *findings)
{
	const bool is_peers = facts->peer_mtu > facts->mtu;
	const uint32_t mtu = is_peers ? facts->peer_mtu : facts->mtu;
	const bool one_buffer = has_frags == 0 || facts->native == LS_NATIVE_YES;

	if (mtu <= SINGLE_BUFFER_MTU || !one_buffer || facts->is_owned || is_generic(facts)) {
		say(DEVICE("mtu", OK), "%u%s", facts->mtu,
		    is_peers ? ", its peer's is larger" : "");
		return;
	}
	fix(say(DEVICE("mtu", ERROR),
		"an MTU of %u%s%s is more than native mode takes here, about %u; --mode generic would do",
		mtu, is_peers ? " of its peer" : "",
		is_peers && !facts->peer_is_here ? ", which is in another namespace," : "",
		SINGLE_BUFFER_MTU),
	    "ip link set %s mtu 1500", is_peers && facts->peer[0] ? facts->peer : facts->name);
}

static void judge_queues(const struct ls_device_facts *facts, struct ls_findings *findings)
{
	/* Amazon's driver wants as many queues for sending as there are for receiving, to itself. */
	const bool wants_half = strcmp(facts->driver, "ena") == 0;
	const uint32_t wanted = facts->queues_max < facts->cpus ? facts->queues_max : facts->cpus;

	if (!facts->queues_max)
		return;
	if (wants_half && facts->queues_now > facts->queues_max / 2 && facts->queues_max > 1)
		fix(say(DEVICE("queues", WARNING),
			"%u of %u are in use; its driver needs half of them free for native mode",
			facts->queues_now, facts->queues_max),
		    "ethtool -L %s combined %u", facts->name, facts->queues_max / 2);
	else if (!wants_half && facts->queues_now < facts->queues_max &&
		 facts->queues_now < facts->cpus)
		fix(say(DEVICE("queues", WARNING),
			"%u of %u are in use with %u CPUs: a flood falls on few of them, and some drivers refuse native mode",
			facts->queues_now, facts->queues_max, facts->cpus),
		    is_veth(facts) ? "ethtool -L %s rx %u tx %u" : "ethtool -L %s combined %u",
		    facts->name, wanted, wanted);
	else
		say(DEVICE("queues", OK), "%u of %u, %u CPUs", facts->queues_now, facts->queues_max,
		    facts->cpus);
}

static void judge_offloads(const struct ls_device_facts *facts, struct ls_findings *findings)
{
	if (facts->has_lro)
		fix(say(DEVICE("lro", WARNING),
			"the card merges packets: several count as one, and many drivers refuse native mode"),
		    "ethtool -K %s lro off", facts->name);
	else
		say(DEVICE("lro", OK), "off");
	if (facts->takes_tags && facts->policy_uses_vlan)
		fix(say(DEVICE("vlan", ERROR),
			"the card takes VLAN tags out of the frame, so the classes with 'vlan' never match"),
		    "ethtool -K %s rxvlan off", facts->name);
	else if (facts->takes_tags)
		say(DEVICE("vlan", OK), "tags are taken out of the frame; no class asks for one");
	else
		say(DEVICE("vlan", OK), "tags stay in the frame");
}

void ls_device_judge(const struct ls_device_facts *facts, int has_frags,
		     struct ls_findings *findings)
{
	if (!facts->is_there) {
		fix(say(DEVICE("link", ERROR),
			"there is no such interface in this network namespace"),
		    "ip -br link");
		return;
	}
	judge_presence(facts, findings);
	judge_program(facts, findings);
	if (!facts->has_ethernet)
		return;
	judge_mode(facts, findings);
	judge_mtu(facts, has_frags, findings);
	judge_queues(facts, findings);
	judge_offloads(facts, findings);
}
