/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * Answers: the server that goodclients talk to.
 *
 *	echo [--udp PORT] [--tcp PORT]       (7 and 7)
 *
 * UDP: sends every datagram back to where it came from, from the address that it was sent to. TCP: sends
 * back what comes in until the peer closes. Both on all IPv4 and IPv6 addresses.
 *
 * Output: {"datagrams","connections"}
 */

#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/tools/tool.h"

static int listener(int type, uint16_t port)
{
	const struct sockaddr_in6 address = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	const int fd = socket(AF_INET6, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const int no = 0, yes = 1, bytes = 32 << 20;

	if (fd < 0)
		tool_die("cannot open a socket: %s", strerror(errno));
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (type == SOCK_DGRAM)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) ||
	    (type == SOCK_STREAM && listen(fd, 4096)))
		tool_die("cannot listen on port %u: %s", port, strerror(errno));
	return fd;
}

static uint64_t datagrams_answer(int fd)
{
	struct sockaddr_in6 peer;
	socklen_t length = sizeof(peer);
	char bytes[65536];
	ssize_t size;
	uint64_t count = 0;

	while ((size = recvfrom(fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&peer, &length)) >=
	       0) {
		sendto(fd, bytes, (size_t)size, 0, (const struct sockaddr *)&peer, length);
		length = sizeof(peer);
		count++;
	}
	return count;
}

static uint64_t connections_accept(int fd, int epoll)
{
	uint64_t count = 0;
	int peer;

	while ((peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		struct epoll_event event = { .events = EPOLLIN, .data.fd = peer };

		if (epoll_ctl(epoll, EPOLL_CTL_ADD, peer, &event))
			close(peer);
		count++;
	}
	return count;
}

static void connection_answer(int fd)
{
	char bytes[65536];
	ssize_t size;

	while ((size = recv(fd, bytes, sizeof(bytes), 0)) > 0)
		if (send(fd, bytes, (size_t)size, MSG_NOSIGNAL) != size)
			break;
	if (size == 0 || (size < 0 && errno != EAGAIN))
		close(fd); /* leaves epoll, too */
}

int main(int argc, char **argv)
{
	static const struct option known[] = { { "udp", 1, 0, 'u' }, { "tcp", 1, 0, 't' }, { 0 } };
	const struct rlimit files = { 65536, 65536 };
	uint16_t udp = 7, tcp = 7;
	uint64_t datagrams = 0, connections = 0;
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case 'u':
			udp = (uint16_t)tool_number(optarg, 65535);
			break;
		case 't':
			tcp = (uint16_t)tool_number(optarg, 65535);
			break;
		default:
			return 2;
		}
	}
	setrlimit(RLIMIT_NOFILE, &files);
	tool_catch_signals();
	const int datagram_fd = listener(SOCK_DGRAM, udp);
	const int stream_fd = listener(SOCK_STREAM, tcp);
	const int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event events[256];

	events[0] = (struct epoll_event){ .events = EPOLLIN, .data.fd = datagram_fd };
	epoll_ctl(epoll, EPOLL_CTL_ADD, datagram_fd, &events[0]);
	events[0].data.fd = stream_fd;
	epoll_ctl(epoll, EPOLL_CTL_ADD, stream_fd, &events[0]);
	tool_ready();
	while (!tool_ended) {
		const int count = epoll_wait(epoll, events, 256, 1000);

		for (int i = 0; i < count; i++) {
			const int fd = events[i].data.fd;

			if (fd == datagram_fd)
				datagrams += datagrams_answer(fd);
			else if (fd == stream_fd)
				connections += connections_accept(fd, epoll);
			else
				connection_answer(fd);
		}
	}
	printf("{\"datagrams\":%" PRIu64 ",\"connections\":%" PRIu64 "}\n", datagrams, connections);
	return 0;
}
