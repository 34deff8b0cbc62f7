/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * A service of known capacity for tests of overload: one thread that takes a connection, reads its request, works for a
 * time, answers and closes.
 *
 *	service [--port N] [--work-us N] [--backlog N] [--early] [--codel]
 *
 *	--early	accepts at once in a thread of its own and queues inside, as many applications do
 *	--codel	drops at the head of the queue while the wait stays above 5 ms for 100 ms (RFC 8289)
 *
 * A request is 8 bytes: when it was sent, ns of CLOCK_MONOTONIC, of this host; so the wait is measured here, whoever gives
 * up meanwhile. `GET …` is answered as HTTP, without work, from the same queue. The work burns CPU and takes exponentially
 * distributed time (seeded), as real work varies.
 */

#include "tests/tools/tool.h"

#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#define QUEUE 65536
#define WAITS 2000000

static struct {
	unsigned port, backlog;
	double work_ns;
	bool is_early, has_codel;
} options = { .port = 8080, .backlog = 4096, .work_ns = 1e6 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static int queue[QUEUE];
static unsigned head, length;

static uint64_t served, dropped, probes, n_waits;
static uint32_t *waits_us;
static double cpu_s;

static uint64_t random_state = 1; /* the seed */

/* Takes the CPU for the time that this piece of work needs. */
static void work(void)
{
	const uint64_t end =
		tool_now_ns() + (uint64_t)(-options.work_ns * log(1 - tool_random(&random_state)));

	while (tool_now_ns() < end)
		;
}

static bool codel_drops(uint64_t wait_ns, uint64_t now)
{
	static uint64_t first, next;
	static unsigned count;
	static bool is_dropping;

	if (wait_ns < 5000000) {
		first = 0;
		is_dropping = false;
		return false;
	}
	if (!first)
		first = now + 100000000;
	if (!is_dropping && now >= first) {
		is_dropping = true;
		count = count > 2 ? count - 2 : 1;
		next = now + (uint64_t)(1e8 / sqrt(count));
		return true;
	}
	if (is_dropping && now >= next) {
		next += (uint64_t)(1e8 / sqrt(++count));
		return true;
	}
	return false;
}

static void answer(int fd)
{
	static const char http[] = "HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nok\n";
	char request[512];
	uint64_t sent = 0;
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	/* A client that says nothing is not waited for. */
	if (poll(&ready, 1, 20) != 1)
		return;
	const ssize_t bytes = recv(fd, request, sizeof(request), MSG_DONTWAIT);
	if (bytes >= 4 && memcmp(request, "GET ", 4) == 0) {
		probes++;
		(void)!send(fd, http, sizeof(http) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		return;
	}
	if (bytes < (ssize_t)sizeof(sent))
		return;
	memcpy(&sent, request, sizeof(sent));
	const uint64_t now = tool_now_ns(), wait = now > sent ? now - sent : 0;
	if (n_waits < WAITS)
		waits_us[n_waits++] = (uint32_t)(wait / 1000);
	if (options.has_codel && codel_drops(wait, now)) {
		dropped++;
		return;
	}
	work();
	(void)!send(fd, "k", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	served++;
}

static void *accept_all(void *data)
{
	const int listener = *(int *)data;

	while (!tool_ended) {
		const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		pthread_mutex_lock(&lock);
		if (length < QUEUE)
			queue[(head + length++) % QUEUE] = fd;
		else
			close(fd);
		pthread_cond_signal(&filled);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static int take_early(void)
{
	struct timespec until;
	int fd = -1;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 100000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&lock);
	if (!length)
		pthread_cond_timedwait(&filled, &lock, &until);
	if (length) {
		fd = queue[head++ % QUEUE];
		head %= QUEUE;
		length--;
	}
	pthread_mutex_unlock(&lock);
	return fd;
}

static int open_listener(void)
{
	const struct sockaddr_in6 address = { .sin6_family = AF_INET6,
					      .sin6_port = htons((uint16_t)options.port) };
	const int one = 1, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(fd, (int)options.backlog) < 0)
		tool_die("cannot listen on port %u: %s", options.port, strerror(errno));
	return fd;
}

static int compare(const void *a, const void *b)
{
	const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return (left > right) - (left < right);
}

static double quantile_ms(double part)
{
	return n_waits ? waits_us[(uint64_t)((double)(n_waits - 1) * part)] / 1000.0 : 0;
}

static void read_options(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *word = argv[i];
		if (strcmp(word, "--early") == 0)
			options.is_early = true;
		else if (strcmp(word, "--codel") == 0)
			options.has_codel = true;
		else if (i + 1 >= argc)
			tool_die("service: %s?", word);
		else if (strcmp(word, "--port") == 0)
			options.port = (unsigned)tool_number(argv[++i], 65535);
		else if (strcmp(word, "--backlog") == 0)
			options.backlog = (unsigned)tool_number(argv[++i], 65535);
		else if (strcmp(word, "--work-us") == 0)
			options.work_ns = (double)tool_number(argv[++i], 1000000) * 1000;
		else
			tool_die("service: %s?", word);
	}
}

int main(int argc, char **argv)
{
	pthread_t thread;
	struct timespec cpu;

	read_options(argc, argv);
	tool_catch_signals();
	waits_us = calloc(WAITS, sizeof(*waits_us));
	int listener = open_listener();
	if (!waits_us || (options.is_early && pthread_create(&thread, NULL, accept_all, &listener)))
		tool_die("service: out of memory");
	fprintf(stderr, "ready\n");
	while (!tool_ended) {
		const int fd = options.is_early ? take_early()
						: accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		answer(fd);
		close(fd);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	cpu_s = (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9;
	qsort(waits_us, n_waits, sizeof(*waits_us), compare);
	printf("{\"served\": %" PRIu64 ", \"dropped\": %" PRIu64 ", \"probes\": %" PRIu64
	       ", \"cpu_s\": %.3f, \"wait_ms\": {\"p50\": %.3f, \"p99\": %.3f, \"max\": %.3f}}\n",
	       served, dropped, probes, cpu_s, quantile_ms(0.5), quantile_ms(0.99), quantile_ms(1));
	return 0;
}
