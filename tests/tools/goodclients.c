/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * Well-behaved clients, each an address of its own, far within any sane limit; what they lose is collateral
 * damage.
 *
 *	goodclients [--ipv4 N] [--ipv6 N] [--udp RATE] [--tcp RATE] [--udp-port P] [--tcp-port P]
 *	            [--seconds N] [--live FILE]
 *
 * N clients of each family (default 10), at the addresses that `lab.sh up --clients` gives. Each sends
 * --udp requests and opens --tcp connections per second (default 5 and 1), evenly spread over all clients,
 * to 10.9.0.1 or fd00:9::1. A UDP request is lost if no answer has come when all is over, five
 * seconds later. A TCP connection sends 16 bytes, gets them back and closes; it is lost if that
 * takes more than five seconds or fails. TCP hides single losses by sending again, so those are counted
 * as `retransmitted` (first packets of connections included).
 *
 * --live rewrites FILE every 200 ms; there a request is lost that is unanswered for a second.
 *
 * Output: {"udp":{"sent","answered","lost"},"tcp":{"sent","answered","lost","retransmitted"},
 *          "ipv4_lost","ipv6_lost","slowest_ms"}
 */

#include <arpa/inet.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/tools/tool.h"

#define LIVE_PATIENCE_NS 1000000000ULL
#define TCP_PATIENCE_NS 5000000000ULL
#define MESSAGE_BYTES 16

enum state { WAITING, ANSWERED, FAILED };

/* One request or one connection; both kinds are in one array, in the order in which they were sent. */
struct exchange {
	uint64_t sent_ns;
	int fd; /* of a connection, -1 once it is closed */
	enum state state;
	bool is_tcp, is_ipv6, is_connected;
};

struct clients {
	unsigned n_ipv4, n_ipv6;
	uint16_t udp_port, tcp_port;
	int *udp_fds; /* one for each client */
	int epoll;
	struct exchange *exchanges;
	size_t count, capacity;
	size_t overdue; /* exchanges before this one have been looked at by connections_expire() */
	uint64_t retransmitted;
	uint64_t slowest_ns;
};

struct address {
	struct sockaddr_storage storage;
	socklen_t length;
};

/* Client `k` of its family, from 1; or, with k = 0, the server. */
static struct address address_of(bool is_ipv6, unsigned k, uint16_t port)
{
	struct address address = { 0 };
	char text[64];

	if (is_ipv6) {
		struct sockaddr_in6 *const six = (void *)&address.storage;

		snprintf(text, sizeof(text), k ? "fd00:a:0:%x::1" : "fd00:9::1", k);
		six->sin6_family = AF_INET6;
		six->sin6_port = htons(port);
		inet_pton(AF_INET6, text, &six->sin6_addr);
		address.length = sizeof(*six);
	} else {
		struct sockaddr_in *const four = (void *)&address.storage;

		snprintf(text, sizeof(text), k ? "10.10.%u.%u" : "10.9.0.1", k / 256, k % 256);
		four->sin_family = AF_INET;
		four->sin_port = htons(port);
		inet_pton(AF_INET, text, &four->sin_addr);
		address.length = sizeof(*four);
	}
	return address;
}

/* A socket of client number `client` (from 0), on its way to the server's port. -1: errno. */
static int client_socket(const struct clients *clients, unsigned client, int type, uint16_t port)
{
	const bool is_ipv6 = client >= clients->n_ipv4;
	const unsigned k = (is_ipv6 ? client - clients->n_ipv4 : client) + 1;
	const struct address own = address_of(is_ipv6, k, 0);
	const struct address server = address_of(is_ipv6, 0, port);
	const int fd = socket(is_ipv6 ? AF_INET6 : AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	const int yes = 1;

	if (fd < 0)
		return -1;
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof(yes));
	if (bind(fd, (const struct sockaddr *)&own.storage, own.length) ||
	    (connect(fd, (const struct sockaddr *)&server.storage, server.length) &&
	     errno != EINPROGRESS)) {
		close(fd);
		return -1;
	}
	return fd;
}

static void watch(const struct clients *clients, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event event = { .events = events, .data.u64 = data };

	if (epoll_ctl(clients->epoll, EPOLL_CTL_ADD, fd, &event))
		tool_die("cannot watch a socket: %s", strerror(errno));
}

/* epoll data: UDP sockets by client number, connections by exchange number, told apart by the top bit. */
#define IS_TCP (1ULL << 63)

static struct exchange *exchange_new(struct clients *clients, unsigned client, bool is_tcp)
{
	if (clients->count == clients->capacity) {
		clients->capacity = clients->capacity ? clients->capacity * 2 : 4096;
		clients->exchanges = realloc(clients->exchanges,
					     clients->capacity * sizeof(*clients->exchanges));
		if (!clients->exchanges)
			tool_die("out of memory");
	}
	struct exchange *const exchange = &clients->exchanges[clients->count++];

	*exchange = (struct exchange){ .sent_ns = tool_now_ns(),
				       .fd = -1,
				       .is_tcp = is_tcp,
				       .is_ipv6 = client >= clients->n_ipv4 };
	return exchange;
}

static void exchange_answered(struct clients *clients, struct exchange *exchange)
{
	const uint64_t took_ns = tool_now_ns() - exchange->sent_ns;

	exchange->state = ANSWERED;
	if (took_ns > clients->slowest_ns)
		clients->slowest_ns = took_ns;
}

static void request_send(struct clients *clients, unsigned client)
{
	const uint64_t message[2] = { clients->count, client };

	exchange_new(clients, client, false);
	send(clients->udp_fds[client], message, sizeof(message), 0);
}

static void connection_end(struct clients *clients, struct exchange *exchange, enum state state)
{
	struct tcp_info info = { 0 };
	socklen_t length = sizeof(info);

	if (exchange->fd < 0)
		return;
	if (!getsockopt(exchange->fd, IPPROTO_TCP, TCP_INFO, &info, &length))
		clients->retransmitted += info.tcpi_total_retrans;
	close(exchange->fd);
	exchange->fd = -1;
	if (state == ANSWERED)
		exchange_answered(clients, exchange);
	else
		exchange->state = state;
}

static void connection_start(struct clients *clients, unsigned client)
{
	const uint64_t number = clients->count;
	struct exchange *const exchange = exchange_new(clients, client, true);

	exchange->fd = client_socket(clients, client, SOCK_STREAM, clients->tcp_port);
	if (exchange->fd < 0)
		exchange->state = FAILED;
	else
		watch(clients, exchange->fd, EPOLLOUT | EPOLLIN, number | IS_TCP);
}

static void connection_go_on(struct clients *clients, uint64_t number)
{
	struct exchange *const exchange = &clients->exchanges[number];
	char message[MESSAGE_BYTES] = { 0 };

	if (exchange->fd < 0)
		return;
	if (!exchange->is_connected) {
		struct epoll_event event = { .events = EPOLLIN, .data.u64 = number | IS_TCP };

		if (send(exchange->fd, message, sizeof(message), MSG_NOSIGNAL) != sizeof(message)) {
			connection_end(clients, exchange, FAILED);
			return;
		}
		exchange->is_connected = true;
		epoll_ctl(clients->epoll, EPOLL_CTL_MOD, exchange->fd, &event);
		return;
	}
	/* 16 bytes that were sent at once come back at once. */
	const ssize_t size = recv(exchange->fd, message, sizeof(message), 0);
	if (size < 0 && errno == EAGAIN)
		return;
	connection_end(clients, exchange, size == sizeof(message) ? ANSWERED : FAILED);
}

static void answers_take(struct clients *clients, unsigned client)
{
	uint64_t message[2];

	while (recv(clients->udp_fds[client], message, sizeof(message), 0) == sizeof(message))
		if (message[0] < clients->count && clients->exchanges[message[0]].state != ANSWERED)
			exchange_answered(clients, &clients->exchanges[message[0]]);
}

static void connections_expire(struct clients *clients, uint64_t now_ns)
{
	while (clients->overdue < clients->count) {
		struct exchange *const exchange = &clients->exchanges[clients->overdue];

		if (now_ns - exchange->sent_ns < TCP_PATIENCE_NS)
			return;
		if (exchange->is_tcp && exchange->state == WAITING)
			connection_end(clients, exchange, FAILED);
		clients->overdue++;
	}
}

/* Lost: failed, or unanswered for longer than `patience_ns`. */
static void print(const struct clients *clients, FILE *file, uint64_t patience_ns)
{
	uint64_t sent[2] = { 0 }, answered[2] = { 0 }, lost[2] = { 0 }, family_lost[2] = { 0 };
	const uint64_t now_ns = tool_now_ns();

	for (size_t i = 0; i < clients->count; i++) {
		const struct exchange *const exchange = &clients->exchanges[i];
		const bool is_lost =
			exchange->state == FAILED ||
			(exchange->state == WAITING && now_ns - exchange->sent_ns > patience_ns);

		sent[exchange->is_tcp]++;
		answered[exchange->is_tcp] += exchange->state == ANSWERED;
		lost[exchange->is_tcp] += is_lost;
		family_lost[exchange->is_ipv6] += is_lost;
	}
	fprintf(file,
		"{\"udp\":{\"sent\":%" PRIu64 ",\"answered\":%" PRIu64 ",\"lost\":%" PRIu64
		"},\"tcp\":{\"sent\":%" PRIu64 ",\"answered\":%" PRIu64 ",\"lost\":%" PRIu64
		",\"retransmitted\":%" PRIu64 "},\"ipv4_lost\":%" PRIu64 ",\"ipv6_lost\":%" PRIu64
		",\"slowest_ms\":%.1f}\n",
		sent[0], answered[0], lost[0], sent[1], answered[1], lost[1],
		clients->retransmitted, family_lost[0], family_lost[1],
		(double)clients->slowest_ns / 1e6);
}

static void print_live(const struct clients *clients, const char *path)
{
	char temporary[4096];
	snprintf(temporary, sizeof(temporary), "%s.new", path);
	FILE *const file = fopen(temporary, "we");

	if (!file)
		return;
	print(clients, file, LIVE_PATIENCE_NS);
	if (fclose(file) == 0)
		rename(temporary, path);
}

/* Handles what has come in, and waits at most until `until_ns` for it. */
static void events_handle(struct clients *clients, uint64_t until_ns)
{
	struct epoll_event events[128];
	const uint64_t now_ns = tool_now_ns();
	const uint64_t wait_ns = until_ns > now_ns ? until_ns - now_ns : 0;
	const int count =
		epoll_wait(clients->epoll, events, 128, (int)((wait_ns + 999999) / 1000000));

	for (int i = 0; i < count; i++) {
		const uint64_t data = events[i].data.u64;

		if (data & IS_TCP)
			connection_go_on(clients, data & ~IS_TCP);
		else
			answers_take(clients, (unsigned)data);
	}
	connections_expire(clients, tool_now_ns());
}

static bool is_something_waiting(const struct clients *clients)
{
	for (size_t i = clients->overdue; i < clients->count; i++)
		if (clients->exchanges[i].state == WAITING)
			return true;
	return false;
}

struct options {
	uint64_t udp_rate, tcp_rate, seconds;
	const char *live;
};

static struct options options_parse(int argc, char **argv, struct clients *clients)
{
	static const struct option known[] = {
		{ "ipv4", 1, 0, '4' },	  { "ipv6", 1, 0, '6' },     { "udp", 1, 0, 'u' },
		{ "tcp", 1, 0, 't' },	  { "udp-port", 1, 0, 'U' }, { "tcp-port", 1, 0, 'T' },
		{ "seconds", 1, 0, 's' }, { "live", 1, 0, 'l' },     { 0 },
	};
	struct options options = { .udp_rate = 5, .tcp_rate = 1, .seconds = 10 };
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case '4':
			clients->n_ipv4 = (unsigned)tool_number(optarg, 65000);
			break;
		case '6':
			clients->n_ipv6 = (unsigned)tool_number(optarg, 65000);
			break;
		case 'u':
			options.udp_rate = tool_number(optarg, 100000);
			break;
		case 't':
			options.tcp_rate = tool_number(optarg, 10000);
			break;
		case 'U':
			clients->udp_port = (uint16_t)tool_number(optarg, 65535);
			break;
		case 'T':
			clients->tcp_port = (uint16_t)tool_number(optarg, 65535);
			break;
		case 's':
			options.seconds = tool_number(optarg, 86400);
			break;
		case 'l':
			options.live = optarg;
			break;
		default:
			exit(2);
		}
	}
	if (clients->n_ipv4 + clients->n_ipv6 == 0 || optind != argc)
		tool_die("usage: goodclients [options]; see goodclients.c");
	return options;
}

static void clients_open(struct clients *clients)
{
	const unsigned n = clients->n_ipv4 + clients->n_ipv6;

	clients->epoll = epoll_create1(EPOLL_CLOEXEC);
	clients->udp_fds = calloc(n, sizeof(int));
	for (unsigned client = 0; client < n; client++) {
		const int fd = client_socket(clients, client, SOCK_DGRAM, clients->udp_port);

		if (fd < 0)
			tool_die("client %u has no address here: %s; lab.sh up NAME --clients %u",
				 client, strerror(errno), n);
		clients->udp_fds[client] = fd;
		watch(clients, fd, EPOLLIN, client);
	}
}

/* Requests number i and connections number i are due at i / (clients * rate). */
static void clients_run(struct clients *clients, const struct options *options)
{
	const unsigned n = clients->n_ipv4 + clients->n_ipv6;
	const uint64_t start_ns = tool_now_ns();
	const uint64_t end_ns = start_ns + options->seconds * 1000000000;
	const double udp_step_ns = options->udp_rate ? 1e9 / (double)(options->udp_rate * n) : 1e18;
	const double tcp_step_ns = options->tcp_rate ? 1e9 / (double)(options->tcp_rate * n) : 1e18;
	uint64_t n_udp = 0, n_tcp = 0, shown_ns = 0;

	while (!tool_ended) {
		const uint64_t now_ns = tool_now_ns();
		const uint64_t udp_due_ns = start_ns + (uint64_t)((double)n_udp * udp_step_ns);
		const uint64_t tcp_due_ns = start_ns + (uint64_t)((double)n_tcp * tcp_step_ns);

		if (now_ns >= end_ns)
			break;
		if (udp_due_ns <= now_ns && options->udp_rate)
			request_send(clients, (unsigned)(n_udp++ % n));
		if (tcp_due_ns <= now_ns && options->tcp_rate)
			connection_start(clients, (unsigned)(n_tcp++ % n));
		const uint64_t due_ns = udp_due_ns < tcp_due_ns ? udp_due_ns : tcp_due_ns;
		events_handle(clients, due_ns < end_ns ? due_ns : end_ns);
		if (options->live && now_ns - shown_ns > 200000000) {
			shown_ns = now_ns;
			print_live(clients, options->live);
		}
	}
}

/* Waits until all is answered, or patience is over, or somebody ends us a second time. */
static void clients_settle(struct clients *clients)
{
	const uint64_t over_ns = tool_now_ns() + TCP_PATIENCE_NS;

	tool_ended = 0;
	while (!tool_ended && is_something_waiting(clients) && tool_now_ns() < over_ns)
		events_handle(clients, tool_now_ns() + 10000000);
	for (size_t i = 0; i < clients->count; i++)
		if (clients->exchanges[i].is_tcp && clients->exchanges[i].state == WAITING)
			connection_end(clients, &clients->exchanges[i], FAILED);
}

int main(int argc, char **argv)
{
	const struct rlimit files = { 65536, 65536 };
	static struct clients clients = {
		.n_ipv4 = 10, .n_ipv6 = 10, .udp_port = 7, .tcp_port = 7
	};
	const struct options options = options_parse(argc, argv, &clients);

	setrlimit(RLIMIT_NOFILE, &files);
	tool_catch_signals();
	clients_open(&clients);
	tool_ready();
	clients_run(&clients, &options);
	clients_settle(&clients);
	print(&clients, stdout, 0);
	return 0;
}
