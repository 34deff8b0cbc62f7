/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/bench/rivals.h"

#include <string.h>

#include <linux/bpf.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "rivals.skel.h"
#include "user/base/addr.h"
#include "user/base/error.h"
#include "user/plane/sandbox.h"

struct ls_rivals {
	struct rivals_skeleton *skeleton;
};

static struct bpf_program *program_of(const struct rivals_skeleton *skeleton, enum ls_rival rival)
{
	switch (rival) {
	case LS_RIVAL_LRU:
		return skeleton->progs.rival_by_lru;
	case LS_RIVAL_PERCPU:
		return skeleton->progs.rival_by_percpu;
	case LS_RIVAL_LOCK:
		return skeleton->progs.rival_by_lock;
	case LS_RIVAL_TRIE4:
		return skeleton->progs.rival_list4;
	case LS_RIVAL_TRIE6:
	case LS_RIVAL_MAX:
		break;
	}
	return skeleton->progs.rival_list6;
}

int ls_rivals_open(uint32_t sources, uint32_t prefixes, struct ls_rivals **ret,
		   struct ls_error *error)
{
	_cleanup_(ls_rivals_closep) struct ls_rivals *rivals = calloc(1, sizeof(*rivals));

	if (!rivals)
		return ls_error_oom(error);
	struct rivals_skeleton *skeleton = rivals->skeleton = rivals_skeleton__open();
	if (!skeleton)
		return ls_error_set_errno(error, errno, "cannot read the BPF object of the rivals");
	if (ls_load_has_frags())
		for (enum ls_rival rival = 0; rival < LS_RIVAL_MAX; rival++)
			bpf_program__set_flags(program_of(skeleton, rival), BPF_F_XDP_HAS_FRAGS);
	/* Nothing is evicted below this; in the LRU hash room for what its CPUs hold back. */
	bpf_map__set_max_entries(skeleton->maps.rival_lru, 2 * sources);
	bpf_map__set_max_entries(skeleton->maps.rival_percpu, sources);
	bpf_map__set_max_entries(skeleton->maps.rival_lock, sources);
	bpf_map__set_max_entries(skeleton->maps.rival_trie4, prefixes);
	bpf_map__set_max_entries(skeleton->maps.rival_trie6, prefixes);
	const int r = rivals_skeleton__load(skeleton);
	if (r < 0)
		return ls_error_set_errno(error, -r, "cannot load the rivals");
	*ret = TAKE_PTR(rivals);
	return 0;
}

void ls_rivals_close(struct ls_rivals *rivals)
{
	if (!rivals)
		return;
	rivals_skeleton__destroy(rivals->skeleton);
	free(rivals);
}

int ls_rivals_fd(const struct ls_rivals *rivals, enum ls_rival rival)
{
	return bpf_program__fd(program_of(rivals->skeleton, rival));
}

int ls_rivals_tc_fd(const struct ls_rivals *rivals)
{
	return bpf_program__fd(rivals->skeleton->progs.rival_by_tc);
}

int ls_rivals_list(struct ls_rivals *rivals, const struct ls_prefix *prefixes, size_t count,
		   struct ls_error *error)
{
	const int trie4 = bpf_map__fd(rivals->skeleton->maps.rival_trie4);
	const int trie6 = bpf_map__fd(rivals->skeleton->maps.rival_trie6);
	const __u32 value = 1;

	for (size_t i = 0; i < count; i++) {
		struct {
			__u32 length;
			__u8 bytes[16];
		} key = { .length = prefixes[i].length };
		memcpy(key.bytes, prefixes[i].bytes, sizeof(key.bytes));
		const int r = bpf_map_update_elem(prefixes[i].family == LS_IPV4 ? trie4 : trie6,
						  &key, &value, BPF_ANY);
		if (r < 0)
			return ls_error_set_errno(error, -r, "cannot fill the trie");
	}
	return 0;
}
