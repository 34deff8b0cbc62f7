/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * What one would write without loadshed, each as short as it can be: it parses one IPv4 or IPv6 header and
 * nothing else, and has one limit or one list. So it is a rival at its best. The loader sets the sizes.
 */

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#define INLINE static inline __attribute__((always_inline))

#define RATE_NS 10ULL /* one token each: 100 M/s */
#define BURST 1000000ULL
#define REFUSING_NS 60000000000ULL /* one token a minute: refuses nearly everything */

struct bucket {
	__u64 tokens;
	__u64 stamp_ns;
};

struct locked_bucket {
	struct bpf_spin_lock lock;
	struct bucket bucket;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct bucket);
} rival_lru SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct bucket);
} rival_percpu SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct locked_bucket);
} rival_lock SEC(".maps");

struct lpm4 {
	__u32 length;
	__u32 address;
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct lpm4);
	__type(value, __u32);
} rival_trie4 SEC(".maps");

struct lpm6 {
	__u32 length;
	__u32 address[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct lpm6);
	__type(value, __u32);
} rival_trie6 SEC(".maps");

/* The source as a number; 0: not IP. */
INLINE __u64 source(const __u8 *frame, const __u8 *end)
{
	if (frame + 34 > end)
		return 0;
	if (*(const __u16 *)(frame + 12) == __builtin_bswap16(0x0800))
		return *(const __u32 *)(frame + 26);
	if (*(const __u16 *)(frame + 12) == __builtin_bswap16(0x86dd) && frame + 54 <= end)
		return (__u64) * (const __u32 *)(frame + 22) << 32 | *(const __u32 *)(frame + 26);
	return 0;
}

/* What is left after a packet at `now`; 0: it is refused. Tokens grow in whole ones. */
INLINE int take(struct bucket *bucket, __u64 now, __u64 token_ns, __u64 burst)
{
	__u64 grown = (now - bucket->stamp_ns) / token_ns;
	__u64 tokens = bucket->tokens + grown;
	if (tokens > burst)
		tokens = burst;
	bucket->stamp_ns += grown * token_ns;
	if (!tokens)
		return XDP_DROP;
	bucket->tokens = tokens - 1;
	return XDP_PASS;
}

INLINE __u64 source_of(const struct xdp_md *ctx)
{
	return source((const __u8 *)(long)ctx->data, (const __u8 *)(long)ctx->data_end);
}

/* A token bucket per source, racy as such programs are. */
SEC("xdp")
int rival_by_lru(struct xdp_md *ctx)
{
	__u64 key = source_of(ctx);
	if (!key)
		return XDP_PASS;
	__u64 now = bpf_ktime_get_ns();
	struct bucket *bucket = bpf_map_lookup_elem(&rival_lru, &key);
	if (bucket)
		return take(bucket, now, RATE_NS, BURST);
	struct bucket fresh = { BURST - 1, now };
	bpf_map_update_elem(&rival_lru, &key, &fresh, BPF_ANY);
	return XDP_PASS;
}

/* A bucket per source and CPU: nothing to race for, and a limit that grows with the CPUs. */
SEC("xdp")
int rival_by_percpu(struct xdp_md *ctx)
{
	__u64 key = source_of(ctx);
	if (!key)
		return XDP_PASS;
	__u64 now = bpf_ktime_get_ns();
	struct bucket *bucket = bpf_map_lookup_elem(&rival_percpu, &key);
	if (bucket)
		return take(bucket, now, RATE_NS, BURST);
	struct bucket fresh = { BURST - 1, now };
	bpf_map_update_elem(&rival_percpu, &key, &fresh, BPF_NOEXIST);
	return XDP_PASS;
}

/* Exact on any number of CPUs, and they wait for each other. */
SEC("xdp")
int rival_by_lock(struct xdp_md *ctx)
{
	__u64 key = source_of(ctx);
	if (!key)
		return XDP_PASS;
	__u64 now = bpf_ktime_get_ns();
	struct locked_bucket *locked = bpf_map_lookup_elem(&rival_lock, &key);
	if (locked) {
		bpf_spin_lock(&locked->lock);
		int verdict = take(&locked->bucket, now, RATE_NS, BURST);
		bpf_spin_unlock(&locked->lock);
		return verdict;
	}
	struct locked_bucket fresh = { .bucket = { BURST - 1, now } };
	bpf_map_update_elem(&rival_lock, &key, &fresh, BPF_NOEXIST);
	return XDP_PASS;
}

/* The same at the other place where a program can stand without XDP: tc ingress, direct action. */
SEC("tc")
int rival_by_tc(struct __sk_buff *skb)
{
	__u64 key = source((const __u8 *)(long)skb->data, (const __u8 *)(long)skb->data_end);
	if (!key)
		return TC_ACT_OK;
	__u64 now = bpf_ktime_get_ns();
	struct bucket *bucket = bpf_map_lookup_elem(&rival_lru, &key);
	if (bucket)
		return take(bucket, now, REFUSING_NS, 1) == XDP_DROP ? TC_ACT_SHOT : TC_ACT_OK;
	struct bucket fresh = { 0, now };
	bpf_map_update_elem(&rival_lru, &key, &fresh, BPF_ANY);
	return TC_ACT_OK;
}

SEC("xdp")
int rival_list4(struct xdp_md *ctx)
{
	__u64 address = source_of(ctx);
	struct lpm4 key = { 32, (__u32)address };
	return bpf_map_lookup_elem(&rival_trie4, &key) ? XDP_DROP : XDP_PASS;
}

SEC("xdp")
int rival_list6(struct xdp_md *ctx)
{
	const __u8 *frame = (const __u8 *)(long)ctx->data;
	if (frame + 54 > (const __u8 *)(long)ctx->data_end)
		return XDP_PASS;
	struct lpm6 key = { .length = 128 };
	for (int i = 0; i < 4; i++)
		key.address[i] = *(const __u32 *)(frame + 22 + 4 * i);
	return bpf_map_lookup_elem(&rival_trie6, &key) ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
