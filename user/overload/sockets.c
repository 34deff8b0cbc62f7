/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/overload/sockets.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "user/base/cleanup.h"
#include "user/base/error.h"

#define STATE_LISTEN 10 /* TCP_LISTEN of include/net/tcp_states.h */
#define ANSWER_MS 200	/* the kernel answers at once; this is for a machine that stands still */

int ls_sockets_open(struct ls_error *error)
{
	const struct timeval patience = { .tv_usec = ANSWER_MS * 1000 };
	_cleanup_close_ int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0)
		return ls_error_set_errno(error, errno, "cannot ask for the accept queues");
	return TAKE_FD(fd);
}

static void add_listener(const struct inet_diag_msg *listener, struct ls_accept_queues *sum)
{
	const uint32_t waiting = listener->idiag_rqueue, most = listener->idiag_wqueue;

	sum->listeners++;
	sum->waiting += waiting;
	if ((uint64_t)waiting * sum->worst_most > (uint64_t)sum->worst_waiting * most ||
	    sum->worst_most == 0) {
		sum->worst_waiting = waiting;
		sum->worst_most = most;
		sum->port = ntohs(listener->id.idiag_sport);
	}
}

/* Reads answers until the dump is done. */
static int read_answers(int fd, struct ls_accept_queues *sum)
{
	char buffer[16384] __attribute__((aligned(NLMSG_ALIGNTO)));

	for (;;) {
		const ssize_t bytes = recv(fd, buffer, sizeof(buffer), 0);
		if (bytes < 0)
			return -errno;
		size_t left = (size_t)bytes;
		for (const struct nlmsghdr *message = (const void *)buffer; NLMSG_OK(message, left);
		     message = NLMSG_NEXT(message, left)) {
			if (message->nlmsg_type == NLMSG_DONE)
				return 0;
			if (message->nlmsg_type == NLMSG_ERROR)
				return ((const struct nlmsgerr *)NLMSG_DATA(message))->error;
			add_listener(NLMSG_DATA(message), sum);
		}
	}
}

static int ask(int fd, uint8_t family, struct ls_accept_queues *sum)
{
	const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct {
		struct nlmsghdr header;
		struct inet_diag_req_v2 request;
	} message = {
		.header = { .nlmsg_len = sizeof(message),
			    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.request = { .sdiag_family = family,
			     .sdiag_protocol = IPPROTO_TCP,
			     .idiag_states = 1U << STATE_LISTEN },
	};

	if (sendto(fd, &message, sizeof(message), 0, (const struct sockaddr *)&kernel,
		   sizeof(kernel)) < 0)
		return -errno;
	return read_answers(fd, sum);
}

int ls_sockets_read(int fd, struct ls_accept_queues *ret)
{
	struct ls_accept_queues sum = { 0 };
	int r = ask(fd, AF_INET, &sum);

	if (r == 0)
		r = ask(fd, AF_INET6, &sum);
	if (r == 0)
		*ret = sum;
	return r;
}
