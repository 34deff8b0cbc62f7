/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * What it costs a SYN that its listener's accept queue is looked at (bpf/kern/listener.h): the real program on one
 * frame, over and over, in a namespace of its own with a listener that has place, and then with one that has none.
 * Prints ns a SYN; off, on, and on with nobody listening. The bounds are wide: this machine may be busy.
 */

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "tests/kern/common.h"

#define PORT 7777
#define BACKLOG 16
#define OTHERS 1000 /* listeners on other ports: the look-up is by hash */
#define RUNS 7
#define TIMES 200000

static int loopback_up(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	const int fd = socket(AF_INET, SOCK_DGRAM, 0);
	const int r = fd < 0 ? -1 : ioctl(fd, SIOCSIFFLAGS, &request);

	close(fd);
	return r;
}

static struct sockaddr_in here(uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static int listen_on(uint16_t port)
{
	const struct sockaddr_in address = here(port);
	const int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (const void *)&address, sizeof(address)) < 0 ||
	    listen(fd, BACKLOG) < 0)
		return -1;
	return fd;
}

static bool fill_queue(void)
{
	const struct sockaddr_in address = here(PORT);

	for (int i = 0; i < BACKLOG; i++) {
		const int fd = socket(AF_INET, SOCK_STREAM, 0);
		if (fd < 0 || connect(fd, (const void *)&address, sizeof(address)) < 0)
			return false;
	}
	return true;
}

/* A SYN from 127.0.0.2 to 127.0.0.1 and a port. */
static void make_syn(uint8_t frame[static 54], uint16_t port)
{
	static const uint8_t syn[54] = { 2,
					 0,
					 0,
					 0,
					 0,
					 1,
					 2,
					 0,
					 0,
					 0,
					 0,
					 2,
					 8,
					 0,
					 /* IPv4 */ 0x45,
					 0,
					 0,
					 40,
					 0,
					 1,
					 0,
					 0,
					 64,
					 6,
					 0,
					 0,
					 127,
					 0,
					 0,
					 2,
					 127,
					 0,
					 0,
					 1,
					 /* TCP */ 0x9c,
					 0x40,
					 0,
					 0,
					 0,
					 0,
					 0,
					 0,
					 0,
					 0,
					 0,
					 0,
					 0x50,
					 2 };
	memcpy(frame, syn, sizeof(syn));
	frame[36] = (uint8_t)(port >> 8);
	frame[37] = (uint8_t)port;
}

/* ns of the fastest run: what disturbs only adds. */
static unsigned measure(struct ls_plane *plane, uint16_t port, unsigned *ret_verdict)
{
	uint8_t frame[54];
	unsigned best = UINT32_MAX;

	make_syn(frame, port);
	for (int i = 0; i < RUNS; i++) {
		LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = frame,
			    .data_size_in = sizeof(frame), .repeat = TIMES);
		if (bpf_prog_test_run_opts(plane->program_fd, &opts) < 0) {
			perror("cannot run a frame");
			exit(1);
		}
		*ret_verdict = opts.retval;
		if (opts.duration < best)
			best = opts.duration;
	}
	return best;
}

static unsigned measure_with(const char *policy, uint16_t port, unsigned *ret_verdict)
{
	struct ls_plane *plane = kern_sandbox(policy, 1000, true);
	const unsigned ns = measure(plane, port, ret_verdict);

	ls_plane_close(plane);
	return ns;
}

int main(void)
{
	struct ls_listener_fields fields;
	unsigned verdict[4];

	const char *why = ls_fields_find(&fields);
	if (why || unshare(CLONE_NEWNET) < 0 || loopback_up() < 0 || listen_on(PORT) < 0) {
		kern_skip("listener", why ? why : "no network namespace to be had");
		return kern_status();
	}
	for (uint16_t i = 0; i < OTHERS; i++)
		if (listen_on((uint16_t)(20000 + i)) < 0)
			break;
	const unsigned off =
		measure_with("version: 1\noverload: { accept_queue: off }\n", PORT, &verdict[0]);
	const unsigned room = measure_with("version: 1\noverload: {}\n", PORT, &verdict[1]);
	const unsigned nobody = measure_with("version: 1\noverload: {}\n", 7, &verdict[2]);
	if (!fill_queue()) {
		kern_skip("listener", "cannot fill its accept queue");
		return kern_status();
	}
	const unsigned full = measure_with("version: 1\noverload: {}\n", PORT, &verdict[3]);
	printf("# ns a SYN: %u without, %u with a listener that has place, %u with none, %u refused\n",
	       off, room, nobody, full);
	kern_result(verdict[0] == XDP_PASS_CODE && verdict[1] == XDP_PASS_CODE &&
			    verdict[2] == XDP_PASS_CODE && verdict[3] == XDP_DROP_CODE,
		    "listener_refuses_when_full", "%u %u %u %u", verdict[0], verdict[1], verdict[2],
		    verdict[3]);
	kern_result(room < off + 150, "listener_costs_little", "%u ns more", room - off);
	return kern_status();
}
