/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_PURE_LISTENER_H
#define LOADSHED_PURE_LISTENER_H

/*
 * When a listener's accept queue is too full for one more connection.
 *
 * Only what has gone through the handshake counts in full. A connection that is half open is on its way into the queue,
 * and many of them can be within one round trip; but anybody can leave as many as he likes behind, with forged
 * addresses. So they count for at most half of the place: a flood of them makes the queue half as long, and cannot
 * close a listener whose server keeps up.
 */

#include "loadshed/overload_abi.h"
#include "pure/base.h"

/* Clients are near where at most this part of the queue is half open: a quarter. */
#define LS_QUEUE_NEAR 4

/*
 * waiting: connections to be accepted (sk_ack_backlog). most: the backlog (sk_max_ack_backlog; the kernel holds one
 * more). coming: half open, not older than the first repetition of their SYN-ACK (young of the request queue).
 * at: of LS_QUEUE_WHOLE. held: what may wait so that it does not wait too long, of which the same part counts; 0: not
 * known. Near clients alone are held to it while the level is kept (is_late: it is not): what far ones have half open
 * all the time comes whatever is refused now, and would come in waves.
 */
LS_INLINE int ls_listener_refuses(__u32 waiting, __u32 most, __u32 coming, __u32 at, __u32 held,
				  int is_late)
{
	__u64 place = (__u64)most * at;
	__u64 half_open = (__u64)coming * LS_QUEUE_WHOLE;
	if (half_open > place / 2)
		half_open = place / 2;
	/* A backlog of 0 still has the kernel's one. */
	__u64 whole = (__u64)waiting * LS_QUEUE_WHOLE;
	int is_held = held && (is_late || coming <= held / LS_QUEUE_NEAR);
	return waiting && (whole + half_open >= place || (is_held && whole >= (__u64)held * at));
}

#endif
