/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * What `check` makes of facts, most of which no machine at hand has: each row changes one thing of a host or an
 * interface that is fine, and says which line must follow and which command is offered.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "user/plane/preflight.h"

static struct ls_host_facts good_host(void)
{
	return (struct ls_host_facts){
		.has_cap_bpf = true,
		.has_cap_net_admin = true,
		.has_cap_perfmon = true,
		.is_root = true,
		.has_btf = 1,
		.release = "6.1.0",
		.is_jited = 1,
		.has_frags = 1,
		.memlock_bytes = 8 << 20,
		.sources = 1000000,
		.memory_wanted = 148 << 20,
		.memory_available = 4ULL << 30,
	};
}

static struct ls_device_facts good_device(void)
{
	return (struct ls_device_facts){
		.name = "eth0",
		.is_there = true,
		.driver = "ixgbe",
		.has_ethernet = true,
		.type = 1,
		.is_up = true,
		.mtu = 1500,
		.native = LS_NATIVE_FRAGS,
		.queues_now = 4,
		.queues_max = 63,
		.cpus = 4,
		.has_gro = true,
		.gro_max = 65536,
		.gso_max = 65536,
		.program_mode = "",
		.peer_merges = LS_FACT_UNKNOWN,
	};
}

static const struct ls_finding *find(const struct ls_findings *findings, const char *topic)
{
	for (size_t i = 0; i < findings->count; i++)
		if (strcmp(findings->items[i].topic, topic) == 0)
			return &findings->items[i];
	fail_msg("no line about %s", topic);
	return NULL;
}

/* All but this topic is fine, and this one is as wanted. */
static void expect(struct ls_findings *findings, const char *topic, enum ls_finding_level level,
		   const char *text, const char *fix)
{
	const struct ls_finding *finding = find(findings, topic);

	assert_false(findings->failed);
	if (finding->level != level || !strstr(finding->text, text) ||
	    strcmp(finding->fix, fix) != 0)
		fail_msg("%s: %s: %s (fix: %s)", topic, ls_finding_level_name(finding->level),
			 finding->text, finding->fix);
	for (size_t i = 0; i < findings->count; i++) {
		const struct ls_finding *other = &findings->items[i];
		if (strcmp(other->topic, topic) != 0 && other->level != LS_FINDING_OK)
			fail_msg("also %s: %s", other->topic, other->text);
	}
	ls_findings_fini(findings);
}

#define HOST(change, topic, level, text, command)                                                  \
	do {                                                                                       \
		struct ls_host_facts facts = good_host();                                          \
		struct ls_findings findings = { 0 };                                               \
		change;                                                                            \
		ls_host_judge(&facts, &findings);                                                  \
		expect(&findings, topic, LS_FINDING_##level, text, command);                       \
	} while (0)

#define DEVICE_ON(frags, change, topic, level, text, command)                                      \
	do {                                                                                       \
		struct ls_device_facts facts = good_device();                                      \
		struct ls_findings findings = { 0 };                                               \
		change;                                                                            \
		ls_device_judge(&facts, frags, &findings);                                         \
		expect(&findings, topic, LS_FINDING_##level, text, command);                       \
	} while (0)

#define DEVICE(change, topic, level, text, command)                                                \
	DEVICE_ON(1, change, topic, level, text, command)

static void a_host_lacks_something(void **state)
{
	(void)state;
	HOST(, "privileges", OK, "root", "");
	HOST(facts.has_cap_bpf = false;
	     facts.is_root = false, "privileges", ERROR, "CAP_BPF", "sudo loadshed check");
	HOST(facts.has_cap_net_admin = false, "privileges", ERROR, "container", "");
	HOST(facts.bpffs = LS_BPFFS_MISSING, "bpffs", WARNING, "not mounted",
	     "mount -t bpf bpffs /sys/fs/bpf");
	HOST(facts.bpffs = LS_BPFFS_READ_ONLY, "bpffs", ERROR, "read-only",
	     "mount -o remount,rw /sys/fs/bpf");
	HOST(facts.bpffs = LS_BPFFS_OUTER, "bpffs", OK, "outside", "");
	HOST(facts.has_btf = 0, "btf", WARNING, "vmlinux", "");
	HOST(facts.is_jited = 0, "jit", WARNING, "interpreted",
	     "sysctl -w net.core.bpf_jit_enable=1");
	HOST(facts.has_frags = 0, "frags", WARNING, "several buffers", "");
	HOST(facts.no_listeners = "the kernel does not describe its types (BTF)", "listeners",
	     WARNING, "'accept_queue' of 'overload' is not in force", "");
	HOST(facts.no_listeners = "", "listeners", OK, "can be read", "");
	HOST(strcpy(facts.missing, "bpf_jiffies64"), "kernel", ERROR, "bpf_jiffies64", "");
	HOST(facts.load_code = EINVAL;
	     strcpy(facts.load_text, "cannot load"), "kernel", ERROR, "cannot load", "");
	HOST(facts.load_code = LS_FACT_UNKNOWN, "kernel", WARNING, "privileges", "");
	HOST(facts.memory_available = 100 << 20, "memory", ERROR, "148 MiB, and 100 MiB",
	     "lower 'capacity: { sources: … }' in the policy");
}

static void the_limit_on_locked_memory_is_named_where_it_counts(void **state)
{
	(void)state;
	struct ls_host_facts facts = good_host();
	struct ls_findings findings = { 0 };

	facts.load_code = EPERM;
	strcpy(facts.load_text, "cannot load");
	ls_host_judge(&facts, &findings);
	const struct ls_finding *finding = find(&findings, "memlock");
	assert_int_equal(finding->level, LS_FINDING_ERROR);
	assert_string_equal(finding->fix, "ulimit -l unlimited");
	ls_findings_fini(&findings);
}

static void a_policy_in_force_is_undone(void **state)
{
	(void)state;
	static char warning[1][512] = { "class 'web': limit 'net' undoes the NAT factor" };

	HOST(facts.is_attached = true, "policy", OK, "nothing undoes", "");
	HOST(facts.is_attached = true;
	     facts.unplaced_long = 7, "policy", WARNING, "long windows have been undone: 7",
	     "raise 'capacity: { sources: … }' in the policy, or shorten the windows");
	HOST(facts.is_attached = true; facts.unplaced_short = 7, "policy", WARNING,
				       "charged to the crowd",
				       "raise 'capacity: { sources: … }' in the policy");
	HOST(facts.is_attached = true; facts.bans_lost = 7, "policy", WARNING, "7 bans", "");
	HOST(facts.is_attached = true; facts.warnings = warning;
	     facts.n_warnings = 1, "policy", WARNING, "'net' undoes", "");
	/* What is there already needs no memory. */
	HOST(facts.is_attached = true; facts.memory_available = 0, "memory", OK, "are there", "");
}

static void an_interface_is_not_as_one_would_wish(void **state)
{
	(void)state;
	DEVICE(, "link", OK, "ixgbe", "");
	DEVICE(facts.is_there = false, "link", ERROR, "no such", "ip -br link");
	DEVICE(facts.has_ethernet = false; facts.type = 65534, "link", ERROR, "65534", "");
	DEVICE(facts.is_up = false, "link", WARNING, "down", "ip link set eth0 up");
	DEVICE(facts.queues_now = 1, "queues", WARNING, "1 of 63", "ethtool -L eth0 combined 4");
	DEVICE(facts.queues_now = 1; facts.queues_max = 2; strcpy(facts.driver, "virtio_net"),
							   "queues", WARNING, "1 of 2",
							   "ethtool -L eth0 combined 2");
	DEVICE(strcpy(facts.driver, "ena"); facts.queues_now = 8;
	       facts.queues_max = 8, "queues", WARNING, "half", "ethtool -L eth0 combined 4");
	DEVICE(facts.has_lro = true, "lro", WARNING, "merges", "ethtool -K eth0 lro off");
	DEVICE(facts.takes_tags = true, "vlan", OK, "no class", "");
	DEVICE(facts.takes_tags = true; facts.policy_uses_vlan = true, "vlan", ERROR, "never match",
					"ethtool -K eth0 rxvlan off");
}

static void a_frame_too_large_for_one_buffer(void **state)
{
	(void)state;
	DEVICE(facts.mtu = 9000, "mtu", OK, "9000", "");
	DEVICE_ON(0, facts.mtu = 9000, "mtu", ERROR, "9000", "ip link set eth0 mtu 1500");
	DEVICE(facts.mtu = 9000;
	       facts.native = LS_NATIVE_YES, "mtu", ERROR, "9000", "ip link set eth0 mtu 1500");
	/* Generic mode takes them, and what is attached already is. */
	DEVICE_ON(0, facts.mtu = 9000; facts.program_id = 5; facts.is_ours = facts.is_owned = true;
		  facts.program_mode = "native", "mtu", OK, "9000", "");
	/* Of a veth it is the peer's that counts. */
	DEVICE_ON(0, strcpy(facts.driver, "veth"); facts.peer_mtu = 9000; strcpy(facts.peer, "vc");
		  facts.peer_is_here = true, "mtu", ERROR, "of its peer",
		  "ip link set vc mtu 1500");
	DEVICE_ON(0, strcpy(facts.driver, "veth"); facts.peer_mtu = 9000;
		  strcpy(facts.peer, "vc"), "mtu", ERROR, "another namespace",
		  "ip link set vc mtu 1500");
}

static void generic_mode_counts_merged_packets_as_one(void **state)
{
	(void)state;
	struct ls_device_facts facts = good_device();

	assert_int_equal(ls_merged_packets(&facts), 45);
	facts.gro_max = 180000;
	assert_int_equal(ls_merged_packets(&facts), 124);
	facts.mtu = 9000;
	facts.gro_max = facts.gso_max = 0;
	assert_int_equal(ls_merged_packets(&facts), 8);

	DEVICE(facts.native = LS_NATIVE_NO, "mode", WARNING, "up to 45", "");
	DEVICE(facts.native = LS_NATIVE_NO; facts.policy_counts_packets = true, "mode", WARNING,
					    "up to 45", "ethtool -K eth0 gro off lro off");
	DEVICE(facts.native = LS_NATIVE_NO; facts.policy_counts_packets = true;
	       facts.has_gro = false, "mode", WARNING, "one by one", "");
	DEVICE(strcpy(facts.driver, "veth"); strcpy(facts.peer, "vc"); facts.has_gro = false;
	       facts.policy_counts_packets = true; facts.program_id = 5;
	       facts.is_ours = facts.is_owned = true;
	       facts.program_mode = "generic", "mode", WARNING, "attached in generic",
	       "ethtool -K eth0 gro off; ethtool -K vc tso off gso off");
	DEVICE(facts.native = LS_NATIVE_UNKNOWN, "mode", OK, "does not say", "");
}

static void somebody_else_is_there(void **state)
{
	(void)state;
	DEVICE(facts.program_id = 9; strcpy(facts.program_name, "xdp_pass");
	       facts.program_mode = "native", "program", ERROR,
	       "'xdp_pass' (id 9) is attached there by netlink, native",
	       "ip link set eth0 xdpdrv off");
	DEVICE(facts.program_id = 9; facts.program_mode = "generic", "program", ERROR, "'unnamed'",
				     "ip link set eth0 xdpgeneric off");
	DEVICE(facts.program_id = 9; facts.program_mode = "offloaded", "program", ERROR,
				     "offloaded", "ip link set eth0 xdpoffload off");
	DEVICE(facts.program_id = 9; facts.link_id = 3; facts.program_mode = "native", "program",
							ERROR, "BPF link 3",
							"bpftool link detach id 3");
	DEVICE(facts.program_id = 9; facts.is_ours = true; strcpy(facts.owner, "other");
	       facts.program_mode = "native", "program", ERROR, "instance 'other'",
	       "loadshed -I other detach eth0");
	DEVICE(facts.program_id = 9; facts.is_ours = facts.is_owned = true;
	       facts.program_mode = "native", "program", OK, "ours", "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_lacks_something),
		cmocka_unit_test(the_limit_on_locked_memory_is_named_where_it_counts),
		cmocka_unit_test(a_policy_in_force_is_undone),
		cmocka_unit_test(an_interface_is_not_as_one_would_wish),
		cmocka_unit_test(a_frame_too_large_for_one_buffer),
		cmocka_unit_test(generic_mode_counts_merged_packets_as_one),
		cmocka_unit_test(somebody_else_is_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
