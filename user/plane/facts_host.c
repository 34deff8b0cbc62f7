/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/preflight.h"

/* What the host is like: what `check` knows before it judges. Changes nothing. */

#include <linux/capability.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "user/base/error.h"
#include "user/plane/internal.h"
#include "user/plane/sandbox.h"
#include "user/policy/check.h"
#include "user/policy/policy.h"

#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif
#ifndef CAP_BPF
#define CAP_BPF 39
#endif

static uint64_t effective_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (syscall(SYS_capget, &header, data) < 0)
		return 0;
	return (uint64_t)data[1].effective << 32 | data[0].effective;
}

static void gather_privileges(struct ls_host_facts *facts)
{
	const uint64_t own = effective_capabilities();
	const bool has_admin = own >> CAP_SYS_ADMIN & 1;

	facts->is_root = geteuid() == 0;
	facts->has_cap_bpf = has_admin || own >> CAP_BPF & 1;
	facts->has_cap_perfmon = has_admin || own >> CAP_PERFMON & 1;
	facts->has_cap_net_admin = own >> CAP_NET_ADMIN & 1;
}

static void gather_bpffs(struct ls_host_facts *facts)
{
	char path[PATH_MAX];
	struct statvfs fs;
	bool is_here = false;

	if (!ls_pins_bpffs(path, &is_here)) {
		facts->bpffs = LS_BPFFS_MISSING;
		return;
	}
	facts->bpffs = is_here ? LS_BPFFS_OK : LS_BPFFS_OUTER;
	if (statvfs(path, &fs) == 0 && fs.f_flag & ST_RDONLY)
		facts->bpffs = LS_BPFFS_READ_ONLY;
}

/* Helpers that the program calls and an old kernel may lack; the last two only where it has frags. */
static void gather_helpers(struct ls_host_facts *facts)
{
	static const struct {
		enum bpf_func_id id;
		const char *name;
		bool only_frags;
	} helpers[] = {
		{ BPF_FUNC_map_lookup_elem, "bpf_map_lookup_elem", false },
		{ BPF_FUNC_ktime_get_ns, "bpf_ktime_get_ns", false },
		{ BPF_FUNC_get_smp_processor_id, "bpf_get_smp_processor_id", false },
		{ BPF_FUNC_jiffies64, "bpf_jiffies64", false },
		{ BPF_FUNC_xdp_get_buff_len, "bpf_xdp_get_buff_len", true },
		{ BPF_FUNC_xdp_load_bytes, "bpf_xdp_load_bytes", true },
	};
	size_t used = 0;

	for (size_t i = 0; i < sizeof(helpers) / sizeof(helpers[0]); i++) {
		if ((helpers[i].only_frags && facts->has_frags != 1) ||
		    libbpf_probe_bpf_helper(BPF_PROG_TYPE_XDP, helpers[i].id, NULL) != 0 ||
		    used >= sizeof(facts->missing))
			continue;
		const int n = snprintf(facts->missing + used, sizeof(facts->missing) - used, "%s%s",
				       used ? ", " : "", helpers[i].name);
		used += n > 0 ? (size_t)n : 0;
	}
}

/* Loads the program itself, with tables as small as can be and for this process alone. */
static void gather_program(struct ls_host_facts *facts)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	const struct ls_plane_sandbox request = { .sources = 1 };
	struct ls_error error = LS_ERROR_INIT;
	struct bpf_prog_info info = { 0 };
	struct ls_listener_fields fields;
	__u32 length = sizeof(info);

	facts->has_frags = ls_load_has_frags();
	gather_helpers(facts);
	facts->no_listeners = ls_fields_find(&fields);
	if (!facts->no_listeners)
		facts->no_listeners = "";
	const int r = ls_plane_sandbox_open(&request, &plane, &error);
	facts->load_code = r < 0 ? -r : 0;
	if (r < 0) {
		snprintf(facts->load_text, sizeof(facts->load_text), "%.500s", error.text);
		return;
	}
	if (bpf_obj_get_info_by_fd(ls_plane_program_fd(plane), &info, &length) == 0)
		facts->is_jited = info.jited_prog_len > 0;
}

static void gather_warnings(struct ls_plane *plane, struct ls_host_facts *facts)
{
	_cleanup_(ls_policy_freep) struct ls_policy *policy = NULL;
	_cleanup_warnings_ struct ls_warnings warnings = LS_WARNINGS_INIT;

	if (ls_plane_policy(plane, &policy, NULL, NULL) < 0)
		return;
	facts->sources = policy->sources;
	if (ls_policy_check(policy, &warnings) < 0 || warnings.count == 0)
		return;
	facts->warnings = calloc(warnings.count, sizeof(*facts->warnings));
	for (size_t i = 0; facts->warnings && i < warnings.count; i++)
		snprintf(facts->warnings[facts->n_warnings++], sizeof(*facts->warnings), "%.500s",
			 warnings.lines[i]);
}

static void gather_instance(const char *instance, struct ls_host_facts *facts)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	_cleanup_(ls_policy_freep) struct ls_policy *empty = ls_policy_new();

	facts->sources = empty ? empty->sources : 0;
	if (ls_plane_open(instance, LS_PLANE_READ, &plane, NULL) != 0)
		return;
	const struct ls_control *control = ls_plane_control(plane);
	const struct ls_tables *tables = ls_plane_memory(plane, LS_MAP_TABLES, NULL);
	facts->is_attached = true;
	facts->unplaced_long = control->unplaced_long;
	facts->bans_lost = control->bans_lost;
	for (unsigned slot = 0; tables && slot < LS_SLOTS; slot++)
		facts->unplaced_short += tables->shared[slot].unplaced;
	gather_warnings(plane, facts);
}

void ls_host_facts_gather(const char *instance, struct ls_host_facts *ret)
{
	struct utsname system = { 0 };
	struct rlimit memlock = { 0 };

	memset(ret, 0, sizeof(*ret));
	ret->load_code = LS_FACT_UNKNOWN;
	ret->is_jited = LS_FACT_UNKNOWN;
	ret->has_frags = LS_FACT_UNKNOWN;
	uname(&system);
	snprintf(ret->release, sizeof(ret->release), "%s", system.release);
	ret->memlock_bytes = getrlimit(RLIMIT_MEMLOCK, &memlock) == 0 &&
					     memlock.rlim_cur != RLIM_INFINITY
				     ? memlock.rlim_cur
				     : UINT64_MAX;
	ret->has_btf = access("/sys/kernel/btf/vmlinux", R_OK) == 0;
	gather_privileges(ret);
	gather_bpffs(ret);
	gather_instance(instance, ret);
	ret->memory_available = UINT64_MAX;
	if (ls_load_memory(ret->sources, &ret->memory_wanted, &ret->memory_available) < 0)
		ret->memory_wanted = 0;
	if (ret->has_cap_bpf && ret->has_cap_net_admin)
		gather_program(ret);
}

void ls_host_facts_fini(struct ls_host_facts *facts)
{
	free(facts->warnings);
	facts->warnings = NULL;
	facts->n_warnings = 0;
}
