/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_KERN_LISTENER_H
#define LOADSHED_KERN_LISTENER_H

/*
 * The accept queue of the listener that a SYN is for, read where the SYN is: new connections are refused before the
 * kernel has to, who would do so after a handshake and whoever it was. It needs nobody in user space.
 *
 * The look-up is the one that the kernel does for the same SYN: in the namespace of the device, by addresses, ports and
 * device, and the member of an SO_REUSEPORT group that its hash picks (a program that was attached to the group is not
 * asked: it wants the packet as the stack has it). It takes no reference of a listener. 25 ns of a SYN: 60 where it is
 * 35 without, and 67 of one that is refused (tests/kern/run.sh listener); where no policy asks for it, nothing.
 *
 * Where the fields are differs from kernel to kernel; user space finds them in the kernel's own types (plane/fields.c)
 * and sets them before loading. CO-RE would do the same, but makes libbpf refuse the whole object where the kernel has
 * no types to tell.
 */

#include "kern/level.h"
#include "kern/lists.h"
#include "pure/listener.h"

#define LS_FAMILY_INET 2
#define LS_FAMILY_INET6 10

LS_INLINE void ls_put_address6(__u32 *to, struct ls_address address)
{
	to[0] = __builtin_bswap32((__u32)(address.high >> 32));
	to[1] = __builtin_bswap32((__u32)address.high);
	to[2] = __builtin_bswap32((__u32)(address.low >> 32));
	to[3] = __builtin_bswap32((__u32)address.low);
}

/*
 * Whether the stack would send the packet on: a wildcard listener of a router is not who a connection through it is for.
 * Asked only of what would be refused.
 */
__attribute__((noinline)) int ls_is_forwarded(struct xdp_md *ctx, struct ls_job *job)
{
	if (!job)
		return 0;
	const struct ls_packet *packet = &job->packet;
	struct bpf_fib_lookup route = { .l4_protocol = LS_PROTOCOL_TCP };
	route.ifindex = ctx->ingress_ifindex;
	if (packet->family == 4) {
		route.family = LS_FAMILY_INET;
		route.ipv4_src = __builtin_bswap32((__u32)packet->source.low);
		route.ipv4_dst = __builtin_bswap32((__u32)packet->destination.low);
	} else {
		route.family = LS_FAMILY_INET6;
		ls_put_address6(route.ipv6_src, packet->source);
		ls_put_address6(route.ipv6_dst, packet->destination);
	}
	long answer = bpf_fib_lookup(ctx, &route, sizeof(route), 0);
	return answer == BPF_FIB_LKUP_RET_SUCCESS || answer >= BPF_FIB_LKUP_RET_UNSUPP_LWT;
}

/* Reads a field of a socket at an offset that is a constant to the verifier. */
LS_INLINE __u32 ls_field(const void *socket, __u32 offset)
{
	return *(const volatile __u32 *)((const char *)socket + offset);
}

LS_INLINE int ls_socket_refuses(struct bpf_sock *found, __u32 at, __u32 held, int is_late)
{
	if (found->state != BPF_TCP_LISTEN)
		return 0;
	const void *socket = bpf_skc_to_tcp_sock(found);
	return socket &&
	       ls_listener_refuses(ls_field(socket, ls_listener_fields.waiting),
				   ls_field(socket, ls_listener_fields.most),
				   ls_field(socket, ls_listener_fields.coming), at, held, is_late);
}

/* How many may wait so that none waits too long; 0: the backlog alone says. */
LS_INLINE __u32 ls_queue_held(const struct ls_job *job)
{
	return job->now_ns < LS_READ_ONCE(ls_overload.guard_until_ns)
		       ? LS_READ_ONCE(ls_overload.queue_most)
		       : 0;
}

/* Asks the listener of a SYN. */
__attribute__((noinline)) int ls_listener_ask(struct xdp_md *ctx, struct ls_job *job,
					      __u32 priority)
{
	if (!job || !ls_listener_fields.waiting || ls_is_replay)
		return LS_ASK_OK;
	const struct ls_packet *packet = &job->packet;
	__u32 at = ls_generation(job->half)->queue_at[ls_bounded(priority, LS_PRIORITIES)];
	if (!at || !ls_is_connection(packet))
		return LS_ASK_OK;
	struct bpf_sock_tuple tuple;
	__builtin_memset(&tuple, 0, sizeof(tuple));
	__u32 bytes = sizeof(tuple.ipv4);
	if (packet->family == 4) {
		tuple.ipv4.saddr = __builtin_bswap32((__u32)packet->source.low);
		tuple.ipv4.daddr = __builtin_bswap32((__u32)packet->destination.low);
		tuple.ipv4.sport = __builtin_bswap16(packet->source_port);
		tuple.ipv4.dport = __builtin_bswap16(packet->port);
	} else {
		bytes = sizeof(tuple.ipv6);
		ls_put_address6(tuple.ipv6.saddr, packet->source);
		ls_put_address6(tuple.ipv6.daddr, packet->destination);
		tuple.ipv6.sport = __builtin_bswap16(packet->source_port);
		tuple.ipv6.dport = __builtin_bswap16(packet->port);
	}
	struct bpf_sock *found = bpf_skc_lookup_tcp(ctx, &tuple, bytes, BPF_F_CURRENT_NETNS, 0);
	if (!found)
		return LS_ASK_OK;
	int refuses = ls_socket_refuses(found, at, ls_queue_held(job),
					job->now_ns >= LS_READ_ONCE(ls_overload.queue_from_ns));
	bpf_sk_release(found);
	if (!refuses || ls_is_forwarded(ctx, job))
		return LS_ASK_OK;
	struct ls_offered *own = ls_offered_of(job);
	if (own) {
		own->refused_queue[ls_bounded(priority, LS_PRIORITIES)]++;
		own->queue_ns = job->now_ns;
		own->queue_port = packet->port;
	}
	return LS_ASK_REFUSED;
}

#endif
