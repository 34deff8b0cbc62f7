/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * An open-loop crowd of clients: they come at a rate, whatever becomes of those before them.
 *
 *	crowd --to ADDRESS --rate N --seconds N [--port N] [--sources N] [--high N] [--base-rate N] [--before N] [--after N]
 *
 * Each visitor opens a connection from one of 10.10.0.1 to 10.10.0.SOURCES (those up to HIGH are the high ones: 10.10.0.k),
 * sends what time it is when it stands, and waits for the answer; after 0.97 s it gives up, and tries again after 1, 2 and 4 s. `before` and
 * `after` the `seconds` visitors come at the base rate. Arrivals are Poisson, seeded.
 *
 * Printed: visitors, and how many were served, high and others, of those who came while the rate was on; attempts; the
 * answers per 100 ms from the start; how many attempts were not answered by 100 ms.
 */

#include "tests/tools/tool.h"

#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

#define SLOTS 65536 /* attempts at once */
#define TRIES 4
/* Before the kernel sends a refused SYN again at 1 s, which would make one visitor two when the crowd is late. */
#define TIMEOUT_NS 970000000ULL
#define AT_ONCE 16 /* new visitors between two looks at those who are there */
#define BIN_NS 100000000ULL
#define BINS 4096
#define WHEEL 16384 /* of 1 ms: retries lie at most 4 s ahead */

struct visitor {
	uint32_t source;
	uint8_t try;
	bool is_high, counts;
};

struct attempt {
	int fd; /* -1: free */
	bool is_sent;
	uint64_t started_ns;
	struct visitor visitor;
};

struct bucket {
	struct visitor *visitors;
	unsigned n, room;
};

static struct {
	struct sockaddr_in to;
	double rate, base_rate, seconds, before, after;
	unsigned sources, high;
} options = { .sources = 500, .high = 40, .rate = 100, .seconds = 10 };

static struct attempt attempts[SLOTS];
static unsigned free_slots[SLOTS], n_free;
static struct bucket wheel[WHEEL];
static uint64_t wheel_at_ms;
/* In the order of their start, so that the oldest is at the head. */
static unsigned order[SLOTS * 4];
static uint64_t order_started[SLOTS * 4];
static uint64_t order_head, order_tail;
static int epoll_fd;
static uint64_t start_ns;
static uint64_t started[2], succeeded[2], n_attempts, n_timeouts, n_no_slot, n_failed;
static uint32_t answers[BINS], unanswered[BINS], asked[BINS];

static uint64_t random_state = 7; /* the seed */

static unsigned bin_of(uint64_t ns)
{
	const uint64_t bin = (ns - start_ns) / BIN_NS;

	return bin < BINS ? (unsigned)bin : BINS - 1;
}

static void try_later(struct visitor visitor, uint64_t at_ns)
{
	static const unsigned wait_ms[TRIES] = { 1000, 2000, 4000, 0 };

	if (visitor.try + 1 >= TRIES)
		return;
	struct bucket *bucket = &wheel[(at_ns / 1000000 + wait_ms[visitor.try++]) % WHEEL];
	if (bucket->n == bucket->room) {
		bucket->room = bucket->room ? 2 * bucket->room : 16;
		bucket->visitors =
			realloc(bucket->visitors, bucket->room * sizeof(*bucket->visitors));
		if (!bucket->visitors)
			tool_die("crowd: out of memory");
	}
	bucket->visitors[bucket->n++] = visitor;
}

static void end(struct attempt *attempt)
{
	close(attempt->fd);
	attempt->fd = -1;
	free_slots[n_free++] = (unsigned)(attempt - attempts);
}

static void visit(struct visitor visitor, uint64_t now)
{
	static const int one = 1;
	struct sockaddr_in from = { .sin_family = AF_INET };

	n_attempts++;
	asked[bin_of(now)]++;
	if (!n_free) {
		n_no_slot++;
		try_later(visitor, now + TIMEOUT_NS);
		return;
	}
	const unsigned slot = free_slots[--n_free];
	struct attempt *attempt = &attempts[slot];
	from.sin_addr.s_addr = htonl(0x0a0a0000 + visitor.source);
	*attempt = (struct attempt){ .fd = socket(AF_INET,
						  SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
				     .started_ns = now,
				     .visitor = visitor };
	struct epoll_event event = { .events = EPOLLOUT, .data.u32 = slot };
	if (attempt->fd < 0 ||
	    setsockopt(attempt->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one)) < 0 ||
	    bind(attempt->fd, (const struct sockaddr *)&from, sizeof(from)) < 0 ||
	    (connect(attempt->fd, (const struct sockaddr *)&options.to, sizeof(options.to)) < 0 &&
	     errno != EINPROGRESS) ||
	    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, attempt->fd, &event) < 0) {
		n_failed++;
		if (attempt->fd >= 0)
			close(attempt->fd);
		attempt->fd = -1;
		free_slots[n_free++] = slot;
		return;
	}
	order_started[order_tail % (SLOTS * 4)] = now;
	order[order_tail++ % (SLOTS * 4)] = slot;
}

static void on_event(unsigned slot)
{
	struct attempt *attempt = &attempts[slot];
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = slot };
	char byte;

	if (attempt->fd < 0)
		return;
	if (!attempt->is_sent) {
		const uint64_t now = tool_now_ns();
		if (send(attempt->fd, &now, sizeof(now), MSG_NOSIGNAL) == sizeof(now)) {
			attempt->is_sent = true;
			epoll_ctl(epoll_fd, EPOLL_CTL_MOD, attempt->fd, &event);
			return;
		}
	} else if (recv(attempt->fd, &byte, 1, MSG_DONTWAIT) == 1) {
		answers[bin_of(tool_now_ns())]++;
		succeeded[attempt->visitor.is_high] += attempt->visitor.counts;
		end(attempt);
		return;
	}
	/* Reset, refused or closed without an answer: like a timeout, and later, as a person would. */
	unanswered[bin_of(attempt->started_ns)]++;
	try_later(attempt->visitor, attempt->started_ns + TIMEOUT_NS);
	end(attempt);
}

static void give_up(uint64_t now)
{
	while (order_head < order_tail) {
		const uint64_t at = order_head % (SLOTS * 4);
		struct attempt *attempt = &attempts[order[at]];
		if (now - order_started[at] < TIMEOUT_NS)
			return;
		order_head++;
		if (attempt->fd < 0 || attempt->started_ns != order_started[at])
			continue; /* ended long ago */
		n_timeouts++;
		unanswered[bin_of(attempt->started_ns)]++;
		try_later(attempt->visitor, now);
		end(attempt);
	}
}

static void come_back(uint64_t now, bool is_over)
{
	for (; wheel_at_ms < now / 1000000; wheel_at_ms++) {
		struct bucket *bucket = &wheel[wheel_at_ms % WHEEL];
		const unsigned n = bucket->n;
		/* Where the load ends, those whom it left out end with it. */
		for (unsigned i = 0; i < n && !is_over; i++)
			visit(bucket->visitors[i], now);
		bucket->n = 0;
	}
}

static void read_options(int argc, char **argv)
{
	options.to.sin_family = AF_INET;
	options.to.sin_port = htons(8080);
	for (int i = 1; i + 1 < argc; i += 2) {
		const char *word = argv[i], *value = argv[i + 1];
		if (strcmp(word, "--to") == 0 &&
		    inet_pton(AF_INET, value, &options.to.sin_addr) == 1)
			continue;
		if (strcmp(word, "--port") == 0)
			options.to.sin_port = htons((uint16_t)tool_number(value, 65535));
		else if (strcmp(word, "--rate") == 0)
			options.rate = (double)tool_number(value, 1000000);
		else if (strcmp(word, "--base-rate") == 0)
			options.base_rate = (double)tool_number(value, 1000000);
		else if (strcmp(word, "--seconds") == 0)
			options.seconds = (double)tool_number(value, 3600);
		else if (strcmp(word, "--before") == 0)
			options.before = (double)tool_number(value, 3600);
		else if (strcmp(word, "--after") == 0)
			options.after = (double)tool_number(value, 3600);
		else if (strcmp(word, "--sources") == 0)
			options.sources = (unsigned)tool_number(value, 65000);
		else if (strcmp(word, "--high") == 0)
			options.high = (unsigned)tool_number(value, 65000);
		else
			tool_die("crowd: %s?", word);
	}
}

static void prepare(void)
{
	struct rlimit files = { SLOTS + 64, SLOTS + 64 };

	/* Where more than the hard limit is not to be had, that is what there is: too few of them are printed. */
	if (setrlimit(RLIMIT_NOFILE, &files) < 0) {
		getrlimit(RLIMIT_NOFILE, &files);
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	const unsigned slots = files.rlim_cur - 64 < SLOTS ? (unsigned)files.rlim_cur - 64 : SLOTS;
	for (unsigned slot = 0; slot < slots; slot++) {
		attempts[slot].fd = -1;
		free_slots[n_free++] = slot;
	}
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	start_ns = tool_now_ns();
	wheel_at_ms = start_ns / 1000000;
}

static void print_bins(const char *name, const uint32_t *bins, unsigned n)
{
	printf(", \"%s\": [", name);
	for (unsigned i = 0; i < n; i++)
		printf("%s%u", i ? ", " : "", bins[i]);
	printf("]");
}

int main(int argc, char **argv)
{
	struct epoll_event events[256];
	double next_s = 0;

	read_options(argc, argv);
	tool_catch_signals();
	prepare();
	fprintf(stderr, "ready\n");
	const double total_s = options.before + options.seconds + options.after;
	while (!tool_ended) {
		uint64_t now = tool_now_ns();
		const double now_s = (double)(now - start_ns) / 1e9;
		if (now_s >= total_s)
			break;
		const bool is_on = now_s >= options.before &&
				   now_s < options.before + options.seconds;
		const bool is_over = now_s >= options.before + options.seconds;
		const double rate = is_on ? options.rate : options.base_rate;
		if (next_s < now_s - 0.5)
			next_s = now_s - 0.5; /* a stall is not made up for all at once */
		for (unsigned k = 0; k < AT_ONCE && rate > 0 && next_s <= now_s; k++) {
			struct visitor visitor = {
				.source = 1 +
					  (unsigned)(tool_random(&random_state) * options.sources),
				.counts = is_on,
			};
			visitor.is_high = visitor.source <= options.high;
			started[visitor.is_high] += is_on;
			next_s += -log(1 - tool_random(&random_state)) / rate;
			visit(visitor, now);
		}
		if (rate <= 0)
			next_s = now_s;
		come_back(now, is_over);
		give_up(now);
		const int n =
			epoll_wait(epoll_fd, events, 256, rate > 0 && next_s <= now_s ? 0 : 1);
		for (int i = 0; i < n; i++)
			on_event(events[i].data.u32);
	}
	const unsigned bins = (unsigned)(total_s * 10) < BINS ? (unsigned)(total_s * 10) : BINS;
	printf("{\"high\": {\"visitors\": %" PRIu64 ", \"served\": %" PRIu64
	       "}, \"others\": {\"visitors\": %" PRIu64 ", \"served\": %" PRIu64
	       "}, \"attempts\": %" PRIu64 ", \"timeouts\": %" PRIu64 ", \"no_slot\": %" PRIu64
	       ", \"failed\": %" PRIu64,
	       started[1], succeeded[1], started[0], succeeded[0], n_attempts, n_timeouts,
	       n_no_slot, n_failed);
	print_bins("answers", answers, bins);
	print_bins("asked", asked, bins);
	print_bins("unanswered", unanswered, bins);
	printf("}\n");
	return 0;
}
