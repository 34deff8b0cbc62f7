/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tests/twin/host.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define LS_LOAD_CONSTANT volatile
/* A global function of the kernel build is a plain external one here; no header declares them. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#include "bpf/loadshed.bpf.c"
#pragma GCC diagnostic pop

/* What stands behind the address of a map object. */
struct host_map {
	const void *map;
	uint8_t *elements;
	size_t bytes; /* of an element */
	uint32_t count;
};

#define HOST_MAPS 24
static struct host_map maps[HOST_MAPS];
static size_t n_maps;
static struct host_map lists[2]; /* the inner maps, which are their own "map" */

static uint64_t clock_ns, jiffies;
static __thread unsigned this_cpu;

static uint64_t splitmix(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

void *bpf_map_lookup_elem(const void *map, const void *key)
{
	uint32_t index;
	memcpy(&index, key, sizeof(index));
	if (map == &ls_lists)
		return index < 2 && lists[index].elements ? &lists[index] : NULL;
	if (map == &lists[0] || map == &lists[1]) {
		const struct host_map *inner = map;
		return index < inner->count ? inner->elements + index * inner->bytes : NULL;
	}
	for (size_t i = 0; i < n_maps; i++)
		if (maps[i].map == map)
			return index < maps[i].count ? maps[i].elements + index * maps[i].bytes
						     : NULL;
	assert(!"a map that the host does not have");
	return NULL;
}

__u64 bpf_ktime_get_ns(void)
{
	return __atomic_load_n(&clock_ns, __ATOMIC_RELAXED);
}

__u64 bpf_jiffies64(void)
{
	return __atomic_load_n(&jiffies, __ATOMIC_RELAXED);
}

/* From one seed on each thread, so that a run can be repeated. */
__u32 bpf_get_prandom_u32(void)
{
	static __thread uint64_t state = 1;
	return (__u32)splitmix(&state);
}

__u32 bpf_get_smp_processor_id(void)
{
	return this_cpu;
}

__u64 bpf_xdp_get_buff_len(struct xdp_md *ctx)
{
	return ctx->data_end - ctx->data;
}

long bpf_xdp_load_bytes(struct xdp_md *ctx, __u32 offset, void *to, __u32 bytes)
{
	if ((uint64_t)offset + bytes > ctx->data_end - ctx->data)
		return -1;
	memcpy(to, (const uint8_t *)(uintptr_t)ctx->data + offset, bytes);
	return 0;
}

static struct ls_host_listener listener;
static struct bpf_sock found;

struct bpf_sock *bpf_skc_lookup_tcp(void *ctx, struct bpf_sock_tuple *tuple, __u32 bytes,
				    __u64 netns, __u64 flags)
{
	assert(ctx && netns == (__u64)BPF_F_CURRENT_NETNS && !flags && !listener.is_held);
	listener.look_ups++;
	memcpy(&listener.tuple, tuple, bytes);
	listener.tuple_bytes = bytes;
	if (!listener.state)
		return NULL;
	listener.is_held = 1;
	found.state = listener.state;
	return &found;
}

struct tcp_sock *bpf_skc_to_tcp_sock(void *socket)
{
	assert(socket == &found && listener.is_held);
	return (struct tcp_sock *)&listener;
}

long bpf_sk_release(void *socket)
{
	assert(socket == &found && listener.is_held);
	listener.is_held = 0;
	return 0;
}

long bpf_fib_lookup(void *ctx, struct bpf_fib_lookup *route, int bytes, __u32 flags)
{
	assert(ctx && bytes == sizeof(*route) && !flags && route->ifindex == 1);
	assert(route->family == AF_INET || route->family == AF_INET6);
	return listener.is_forwarded ? BPF_FIB_LKUP_RET_NO_NEIGH : BPF_FIB_LKUP_RET_NOT_FWDED;
}

struct ls_host_listener *ls_host_listener(void)
{
	return &listener;
}

void ls_host_set_listeners(int are_read)
{
	ls_listener_fields.waiting = are_read ? offsetof(struct ls_host_listener, waiting) : 0;
	ls_listener_fields.most = are_read ? offsetof(struct ls_host_listener, most) : 0;
	ls_listener_fields.coming = are_read ? offsetof(struct ls_host_listener, coming) : 0;
}

static void *host_map_new(const void *map, size_t bytes, uint32_t count)
{
	assert(n_maps < HOST_MAPS);
	uint8_t *elements = aligned_alloc(64, (bytes * count + 63) / 64 * 64);
	assert(elements);
	memset(elements, 0, (bytes * count + 63) / 64 * 64);
	maps[n_maps++] = (struct host_map){ map, elements, bytes, count };
	return elements;
}

void ls_host_start(unsigned cpus, uint32_t sets, uint64_t seed)
{
	ls_host_stop();
	memset(&ls_control, 0, sizeof(ls_control));
	memset(&ls_static, 0, sizeof(ls_static));
	memset(ls_samples, 0, sizeof(ls_samples));
	memset(&ls_overload, 0, sizeof(ls_overload));
	memset(&listener, 0, sizeof(listener));
	ls_host_set_listeners(1);
	for (int i = 0; i < LS_HASH_KEYS; i++)
		ls_control.hash_key[i] = splitmix(&seed) | 1;
	for (uint32_t table = 0; table < LS_TABLES; table++) {
		ls_table_base[table] = table * sets;
		ls_table_mask[table] = sets - 1;
	}
	ls_ban_mask = sets - 1;
	ls_banks = 1;
	host_map_new(&ls_ways, sizeof(struct ls_ways), LS_TABLES * sets);
	host_map_new(&ls_logs, sizeof(struct ls_log), sets * LS_WAYS);
	host_map_new(&ls_strikes, sizeof(struct ls_strikes), sets);
	host_map_new(&ls_bans, sizeof(struct ls_bans), sets);
	host_map_new(&ls_ban_info, sizeof(struct ls_ban_info), sets);
	host_map_new(&ls_hot, sizeof(struct ls_hot), 1);
	host_map_new(&ls_hot_cpus, sizeof(struct ls_hot_cpu), cpus);
	host_map_new(&ls_counters, sizeof(struct ls_counters), cpus);
	host_map_new(&ls_events, sizeof(struct ls_event_ring), cpus);
	host_map_new(&ls_offered, sizeof(struct ls_offered), cpus);
	host_map_new(&ls_flows, sizeof(struct ls_flow_line), LS_FLOW_LINES);
	host_map_new(&ls_top, sizeof(struct ls_top), cpus);
}

void ls_host_stop(void)
{
	for (size_t i = 0; i < n_maps; i++)
		free(maps[i].elements);
	n_maps = 0;
	for (int i = 0; i < 2; i++) {
		free(lists[i].elements);
		lists[i] = (struct host_map){ 0 };
	}
	ls_is_replay = 0;
}

static void *host_elements(const void *map)
{
	for (size_t i = 0; i < n_maps; i++)
		if (maps[i].map == map)
			return maps[i].elements;
	assert(!"no such map");
	return NULL;
}

void ls_host_publish(const struct ls_image *image, unsigned half)
{
	struct ls_tables *tables = &ls_static.tables;
	memcpy(tables->classes + half * LS_CLASSES, image->classes, sizeof(image->classes));
	memcpy(tables->slots + half * LS_SLOTS, image->slots, sizeof(image->slots));
	memcpy(tables->labels + half * LS_LABELS, image->labels, sizeof(image->labels));
	memcpy(tables->ports + half * LS_CHUNKS, image->ports, sizeof(image->ports));
	memcpy(tables->rows + half * LS_CLASS_WORDS * LS_ROWS, image->rows, sizeof(image->rows));
	memcpy(tables->nets4 + half * LS_NETS4, image->nets4, sizeof(image->nets4));
	free(lists[half].elements);
	lists[half] = (struct host_map){ 0 };
	if (image->n_lines) {
		size_t bytes = image->n_lines * sizeof(struct ls_line);
		lists[half] = (struct host_map){
			.elements = aligned_alloc(64, bytes),
			.bytes = sizeof(struct ls_line),
			.count = (uint32_t)image->n_lines,
		};
		assert(lists[half].elements);
		memcpy(lists[half].elements, image->lines, bytes);
	}
	ls_control.generation[half] = image->generation;
	uint64_t number = (ls_control.word >> LS_WORD_NUMBER_SHIFT) + 1;
	__atomic_store_n(&ls_control.word, image->word | half | number << LS_WORD_NUMBER_SHIFT,
			 __ATOMIC_SEQ_CST);
}

struct ls_hot *ls_host_share(uint64_t until_ns)
{
	ls_control.hot_until = until_ns;
	return host_elements(&ls_hot);
}

struct ls_hot_cpu *ls_host_shares(void)
{
	return host_elements(&ls_hot_cpus);
}

uint64_t ls_host_source_key(uint32_t source, unsigned half, unsigned class_index, unsigned limit)
{
	const struct ls_class_abi *class =
		&ls_static.tables.classes[half * LS_CLASSES + class_index];
	const struct ls_packet packet = { .family = 4, .source = { .low = source } };
	struct ls_hash hash =
		ls_hash_source(ls_control.hash_key, class->slot, LS_ABI_PER_SOURCE, &packet);
	return ls_hash_key(hash, class->limit[limit].slot);
}

void ls_host_set_epoch(uint64_t now_ns, uint64_t wall_ns)
{
	ls_control.epoch_ns = now_ns;
	ls_control.wall_ns = wall_ns;
}

void ls_host_set_clock(uint64_t now_ns)
{
	__atomic_store_n(&clock_ns, now_ns, __ATOMIC_RELAXED);
}

void ls_host_set_jiffies(uint64_t now)
{
	__atomic_store_n(&jiffies, now, __ATOMIC_RELAXED);
}

void ls_host_set_cpu(unsigned cpu)
{
	this_cpu = cpu;
}

uint8_t *ls_host_frame(size_t bytes)
{
	void *frame = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	assert(frame != MAP_FAILED);
	return frame;
}

int ls_host_judge(uint8_t *frame, size_t bytes)
{
	struct xdp_md ctx = {
		.data = (uint32_t)(uintptr_t)frame,
		.data_end = (uint32_t)((uintptr_t)frame + bytes),
		.ingress_ifindex = 1,
	};
	return ls_xdp_frags(&ctx);
}

int ls_host_judge_linear(uint8_t *frame, size_t bytes)
{
	struct xdp_md ctx = {
		.data = (uint32_t)(uintptr_t)frame,
		.data_end = (uint32_t)((uintptr_t)frame + bytes),
		.ingress_ifindex = 1,
	};
	return ls_xdp(&ctx);
}

struct ls_replay_abi ls_host_replay(uint8_t *frame, size_t bytes, uint64_t unix_ns)
{
	ls_is_replay = 1;
	ls_replay = (struct ls_replay_abi){ .now_ns = unix_ns, .wire_bytes = (uint32_t)bytes };
	ls_host_judge(frame, bytes);
	return ls_replay;
}

struct ls_counter ls_host_counter(uint32_t number)
{
	struct ls_counter sum = { 0 };
	for (size_t i = 0; i < n_maps; i++)
		if (maps[i].map == &ls_counters)
			for (uint32_t cpu = 0; cpu < maps[i].count; cpu++) {
				const struct ls_counters *all = (const void *)maps[i].elements;
				sum.packets += all[cpu].counter[number].packets;
				sum.bytes += all[cpu].counter[number].bytes;
			}
	return sum;
}

struct ls_control *ls_host_control(void)
{
	return &ls_control;
}

const struct ls_event_ring *ls_host_ring(unsigned cpu)
{
	return (const struct ls_event_ring *)host_elements(&ls_events) + cpu;
}

struct ls_overload *ls_host_overload(void)
{
	return &ls_overload;
}

struct ls_offered *ls_host_offered(void)
{
	return host_elements(&ls_offered);
}

struct ls_ways *ls_host_ways(size_t *ret_sets)
{
	for (size_t i = 0; i < n_maps; i++)
		if (maps[i].map == &ls_ways)
			*ret_sets = maps[i].count;
	return host_elements(&ls_ways);
}

const struct ls_top *ls_host_top(void)
{
	return host_elements(&ls_top);
}
