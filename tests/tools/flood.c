/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * Sends packets whose sources are made up, at a paced rate, and says exactly how many left.
 *
 *	flood --interface vc --from PREFIX [options]
 *
 *	--from PREFIX     sources: an address, or a prefix that they are drawn from (repeatable: in turns)
 *	--sources K       how many different ones of each prefix (default 1; 0: a new draw for every packet)
 *	--order sequence|random   how packets go over the K sources (default sequence)
 *	--seed N          of everything that is drawn (default 1); the same seed sends the same packets
 *	--packets N       how many (default: until --seconds or a signal)
 *	--seconds N       for how long at most
 *	--rate N          packets per second (default 10k; 0: as fast as it goes)
 *	--protocol udp|syn|synack|ack|icmp   (default udp; icmp is an echo request of either family)
 *	--to ADDRESS      destination (default 10.9.0.1 or fd00:9::1)
 *	--port N, --port-to N, --from-port N   destination port or range (in turns), source port
 *	                  (default: 7, and 1024 + packet number % 60000)
 *	--size N          bytes of the frame, from the Ethernet header on (default: as small as it gets)
 *	--vlan T          puts an 802.1Q tag in front (repeatable, the outermost first)
 *	--mac A, --from-mac A   (default: those of the lab)
 *	--frame HEX       sends this frame instead; all that makes packets is ignored
 *
 * K different sources of a prefix are found by an odd multiplier over the host bits, a bijection, so K of
 * them really are K. Packets are handed to the device in batches with sendmmsg; what it does not take is
 * tried again or counted as `refused`, never as sent. `device_dropped` is by how much the interface's own
 * count of dropped packets grew meanwhile: what is in it was sent, but did not leave the cable's end.
 *
 * Output: {"sent","bytes","refused","device_dropped","seconds"}
 */

#include <arpa/inet.h>
#include <getopt.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/tools/tool.h"

#define BATCH 32	/* small beside the 256 places of a veth ring */
#define FRAME_MAX 65536 /* larger ones do not fit an interface */
#define PREFIXES 16
#define TAGS 10

enum protocol { UDP, SYN, SYNACK, ACK, ICMP };

struct options {
	const char *interface;
	struct ls_prefix from[PREFIXES];
	unsigned n_from;
	uint64_t sources, packets, seconds, rate, seed;
	bool is_random, has_to, has_from_port;
	enum protocol protocol;
	struct ls_prefix to;
	uint16_t port, port_to, from_port;
	uint32_t size;
	uint16_t tags[TAGS];
	unsigned n_tags;
	uint8_t mac[6], from_mac[6];
	uint8_t *frame; /* given by --frame */
	uint32_t frame_bytes;
};

static uint64_t mixed(uint64_t x) /* splitmix64's finaliser: every bit depends on all */
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

/* Number `index` of the sources of a prefix: its host bits are index * odd + offset. */
static void source_of(const struct ls_prefix *prefix, uint64_t index, uint64_t seed,
		      uint8_t address[static 16])
{
	const unsigned bytes = prefix->family == LS_IPV4 ? 4 : 16;
	const unsigned host_bits = bytes * 8U - prefix->length;
	uint64_t host = index * (mixed(seed) | 1) + mixed(seed + 1);

	memcpy(address, prefix->bytes, 16);
	if (host_bits < 64)
		host &= (1ULL << host_bits) - 1;
	/* With more than 64 host bits, the 64 highest of them: a /48 then yields many /64s. */
	const unsigned low = host_bits > 64 ? host_bits - 64 : 0;
	for (unsigned bit = 0; bit < 64 && bit < host_bits; bit++) {
		const unsigned at = low + bit; /* from the address's end */

		if (host >> bit & 1)
			address[bytes - 1 - at / 8] |= (uint8_t)(1U << at % 8);
	}
}

static uint16_t sum_folded(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

static uint64_t sum_of(const uint8_t *bytes, unsigned length)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i + 1 < length; i += 2)
		sum += (uint64_t)bytes[i] << 8 | bytes[i + 1];
	if (length & 1)
		sum += (uint64_t)bytes[length - 1] << 8;
	return sum;
}

static void put16(uint8_t *at, unsigned value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static void put32(uint8_t *at, uint32_t value)
{
	put16(at, value >> 16);
	put16(at + 2, value & 0xffff);
}

static unsigned transport_bytes(enum protocol protocol)
{
	return protocol == UDP || protocol == ICMP ? 8 : 20;
}

/* Header and checksum of the transport; `pseudo` is the sum of addresses. The payload is zeros. */
static void transport_put(const struct options *options, uint8_t *at, uint32_t bytes, bool is_v6,
			  uint64_t pseudo, uint16_t from_port, uint16_t port, uint64_t number)
{
	const enum protocol protocol = options->protocol;
	unsigned sum_at = 2;
	unsigned next = is_v6 ? 58 : 1;

	memset(at, 0, transport_bytes(protocol));
	if (protocol == ICMP) {
		at[0] = is_v6 ? 128 : 8;
		put16(at + 4, from_port);
		put16(at + 6, (unsigned)number & 0xffff);
		if (!is_v6)
			pseudo = 0;
	} else {
		put16(at, from_port);
		put16(at + 2, port);
	}
	if (protocol == UDP) {
		put16(at + 4, bytes);
		sum_at = 6;
		next = 17;
	} else if (protocol != ICMP) {
		put32(at + 4, (uint32_t)mixed(number));
		if (protocol != SYN)
			put32(at + 8, 1);
		at[12] = 5 << 4;
		at[13] = protocol == SYN ? 0x02 : protocol == SYNACK ? 0x12 : 0x10;
		put16(at + 14, 64240);
		sum_at = 16;
		next = 6;
	}
	if (protocol != ICMP || is_v6)
		pseudo += next + (uint64_t)bytes;
	const uint16_t sum = (uint16_t)~sum_folded(pseudo + sum_of(at, transport_bytes(protocol)));

	put16(at + sum_at, protocol == UDP && sum == 0 ? 0xffff : sum);
}

/* Writes packet `number` (from 0); returns its length. The buffer's payload part is zeros already. */
static uint32_t packet_put(const struct options *options, uint8_t *frame, uint64_t number)
{
	const struct ls_prefix *const prefix = &options->from[number % options->n_from];
	const bool is_v6 = prefix->family == LS_IPV6;
	const uint64_t turn = number / options->n_from;
	const uint64_t drawn = mixed(options->seed * 0x100000001b3ULL + number);
	uint64_t index = drawn;
	uint8_t source[16];

	if (options->sources)
		index = options->is_random ? drawn % options->sources : turn % options->sources;
	source_of(prefix, index, options->seed, source);

	memcpy(frame, options->mac, 6);
	memcpy(frame + 6, options->from_mac, 6);
	unsigned at = 12;
	for (unsigned tag = 0; tag < options->n_tags; tag++) {
		put16(frame + at, ETH_P_8021Q);
		put16(frame + at + 2, options->tags[tag]);
		at += 4;
	}
	put16(frame + at, is_v6 ? ETH_P_IPV6 : ETH_P_IP);
	at += 2;

	const unsigned ip = at;
	const unsigned ip_bytes = is_v6 ? 40 : 20;
	const unsigned least = ip + ip_bytes + transport_bytes(options->protocol);
	const uint32_t size = options->size > least ? options->size : least;
	const unsigned ports = (unsigned)options->port_to - options->port + 1;
	const uint16_t port = (uint16_t)(options->port + turn % ports);
	const uint16_t from_port = options->has_from_port ? options->from_port
							  : (uint16_t)(1024 + number % 60000);
	uint64_t pseudo;

	if (is_v6) {
		put32(frame + ip, 6U << 28);
		put16(frame + ip + 4, size - ip - 40);
		frame[ip + 6] = options->protocol == UDP ? 17 : options->protocol == ICMP ? 58 : 6;
		frame[ip + 7] = 64;
		memcpy(frame + ip + 8, source, 16);
		memcpy(frame + ip + 24, options->to.bytes, 16);
		pseudo = sum_of(frame + ip + 8, 32);
	} else {
		memset(frame + ip, 0, 20);
		frame[ip] = 0x45;
		put16(frame + ip + 2, size - ip);
		put16(frame + ip + 4, (unsigned)number & 0xffff);
		frame[ip + 8] = 64;
		frame[ip + 9] = options->protocol == UDP ? 17 : options->protocol == ICMP ? 1 : 6;
		memcpy(frame + ip + 12, source, 4);
		memcpy(frame + ip + 16, options->to.bytes, 4);
		put16(frame + ip + 10, (uint16_t)~sum_folded(sum_of(frame + ip, 20)));
		pseudo = sum_of(frame + ip + 12, 8);
	}
	transport_put(options, frame + ip + ip_bytes, size - ip - ip_bytes, is_v6, pseudo,
		      from_port, port, number);
	return size;
}

/* /proc/net/dev is always that of our own network namespace; /sys may be another's. */
static uint64_t device_dropped(const char *interface)
{
	FILE *const file = fopen("/proc/net/dev", "re");
	const size_t length = strlen(interface);
	uint64_t dropped = 0;
	char line[512];

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		const char *const name = line + strspn(line, " ");

		if (strncmp(name, interface, length) || name[length] != ':')
			continue;
		/* eight columns of receive, then bytes, packets, errs, drop of transmit */
		sscanf(name + length + 1, "%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %" SCNu64,
		       &dropped);
	}
	fclose(file);
	return dropped;
}

static void mac_parse(const char *text, uint8_t mac[static 6])
{
	unsigned byte[6];
	char rest;

	if (sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%c", &byte[0], &byte[1], &byte[2], &byte[3],
		   &byte[4], &byte[5], &rest) != 6)
		tool_die("'%s' is no MAC address", text);
	for (unsigned i = 0; i < 6; i++)
		mac[i] = (uint8_t)byte[i];
}

static void frame_parse(struct options *options, const char *text)
{
	const size_t length = strlen(text) / 2;

	if (strlen(text) % 2 || length < 14 || length > FRAME_MAX)
		tool_die("--frame: 14 to %d bytes in hexadecimal", FRAME_MAX);
	options->frame = malloc(length);
	options->frame_bytes = (uint32_t)length;
	for (size_t i = 0; options->frame && i < length; i++) {
		unsigned byte;

		if (sscanf(text + 2 * i, "%2x", &byte) != 1)
			tool_die("--frame: '%.2s' is not hexadecimal", text + 2 * i);
		options->frame[i] = (uint8_t)byte;
	}
}

static enum protocol protocol_parse(const char *text)
{
	static const char *const names[] = { "udp", "syn", "synack", "ack", "icmp" };

	for (unsigned i = 0; i < 5; i++)
		if (strcmp(text, names[i]) == 0)
			return (enum protocol)i;
	tool_die("--protocol: udp, syn, synack, ack or icmp, not '%s'", text);
}

static struct options options_parse(int argc, char **argv)
{
	static const struct option known[] = {
		{ "interface", 1, 0, 'i' },
		{ "from", 1, 0, 'f' },
		{ "sources", 1, 0, 'K' },
		{ "order", 1, 0, 'o' },
		{ "seed", 1, 0, 's' },
		{ "packets", 1, 0, 'n' },
		{ "seconds", 1, 0, 't' },
		{ "rate", 1, 0, 'r' },
		{ "protocol", 1, 0, 'P' },
		{ "to", 1, 0, 'T' },
		{ "port", 1, 0, 'p' },
		{ "port-to", 1, 0, 'q' },
		{ "from-port", 1, 0, 'S' },
		{ "size", 1, 0, 'z' },
		{ "vlan", 1, 0, 'v' },
		{ "mac", 1, 0, 'm' },
		{ "from-mac", 1, 0, 'M' },
		{ "frame", 1, 0, 'F' },
		{ 0 },
	};
	struct options options = {
		.sources = 1,
		.packets = UINT64_MAX,
		.seconds = UINT32_MAX,
		.rate = 10000,
		.seed = 1,
		.port = 7,
		.mac = { 2, 0, 0, 0, 9, 1 },
		.from_mac = { 2, 0, 0, 0, 9, 2 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case 'i':
			options.interface = optarg;
			break;
		case 'f':
			if (options.n_from == PREFIXES)
				tool_die("--from: at most %d", PREFIXES);
			options.from[options.n_from++] = tool_prefix(optarg);
			break;
		case 'K':
			options.sources = tool_number(optarg, UINT64_MAX);
			break;
		case 'o':
			options.is_random = strcmp(optarg, "random") == 0;
			break;
		case 's':
			options.seed = tool_number(optarg, UINT64_MAX);
			break;
		case 'n':
			options.packets = tool_number(optarg, UINT64_MAX);
			break;
		case 't':
			options.seconds = tool_number(optarg, 86400);
			break;
		case 'r':
			options.rate = tool_number(optarg, 100000000);
			break;
		case 'P':
			options.protocol = protocol_parse(optarg);
			break;
		case 'T':
			options.to = tool_prefix(optarg);
			options.has_to = true;
			break;
		case 'p':
			options.port = (uint16_t)tool_number(optarg, 65535);
			break;
		case 'q':
			options.port_to = (uint16_t)tool_number(optarg, 65535);
			break;
		case 'S':
			options.from_port = (uint16_t)tool_number(optarg, 65535);
			options.has_from_port = true;
			break;
		case 'z':
			options.size = (uint32_t)tool_number(optarg, FRAME_MAX);
			break;
		case 'v':
			if (options.n_tags == TAGS)
				tool_die("--vlan: at most %d", TAGS);
			options.tags[options.n_tags++] = (uint16_t)tool_number(optarg, 4095);
			break;
		case 'm':
			mac_parse(optarg, options.mac);
			break;
		case 'M':
			mac_parse(optarg, options.from_mac);
			break;
		case 'F':
			frame_parse(&options, optarg);
			break;
		default:
			exit(2);
		}
	}
	if (!options.interface || (!options.n_from && !options.frame) || optind != argc)
		tool_die("usage: flood --interface IFACE --from PREFIX [options]; see flood.c");
	if (options.port_to < options.port)
		options.port_to = options.port;
	for (unsigned i = 1; i < options.n_from; i++)
		if (options.from[i].family != options.from[0].family)
			tool_die("--from: one family at a time");
	if (!options.has_to && options.n_from)
		options.to =
			tool_prefix(options.from[0].family == LS_IPV4 ? "10.9.0.1" : "fd00:9::1");
	return options;
}

static int socket_open(const char *interface)
{
	const struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_ifindex = (int)if_nametoindex(interface),
	};
	const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (!address.sll_ifindex)
		tool_die("cannot send on '%s': no such interface here", interface);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)))
		tool_die("cannot open a packet socket on '%s': %s", interface, strerror(errno));
	return fd;
}

struct counts {
	uint64_t sent, bytes, refused;
};

/* Sends all of a batch; a full queue is waited for, as long as nobody ends us. */
static void batch_send(int fd, struct mmsghdr *messages, unsigned count, struct counts *counts)
{
	unsigned done = 0;

	while (done < count && !tool_ended) {
		const int taken = sendmmsg(fd, messages + done, count - done, 0);

		if (taken > 0) {
			for (int i = 0; i < taken; i++)
				counts->bytes +=
					messages[done + (unsigned)i].msg_hdr.msg_iov->iov_len;
			counts->sent += (uint64_t)taken;
			done += (unsigned)taken;
		} else if (errno == ENOBUFS || errno == EAGAIN || errno == EINTR) {
			tool_sleep_until(tool_now_ns() + 50000);
		} else {
			tool_die("cannot send: %s", strerror(errno));
		}
	}
	counts->refused += count - done;
}

int main(int argc, char **argv)
{
	const struct options options = options_parse(argc, argv);
	const int fd = socket_open(options.interface);
	const size_t frame_room = options.size > 256 ? options.size : 256;
	uint8_t *const frames = calloc(BATCH, frame_room);
	struct mmsghdr messages[BATCH] = { 0 };
	struct iovec pieces[BATCH];
	struct counts counts = { 0 };
	uint64_t number = 0;

	if (!frames)
		tool_die("out of memory");
	tool_catch_signals();
	const uint64_t dropped = device_dropped(options.interface);
	/* Batches of about a millisecond at low rates, so that a slow flood is even and not in lumps. */
	const uint64_t per_ms = options.rate / 1000;
	const unsigned batch = !options.rate || per_ms >= BATCH ? BATCH
			       : per_ms				? (unsigned)per_ms
								: 1;
	const uint64_t start_ns = tool_now_ns();
	uint64_t now_ns = start_ns;

	tool_ready();
	while (number < options.packets && !tool_ended &&
	       now_ns - start_ns < options.seconds * 1000000000) {
		unsigned count = 0;

		for (; count < batch && number < options.packets; count++, number++) {
			uint8_t *const frame = options.frame ? options.frame
							     : frames + count * frame_room;

			pieces[count] = (struct iovec){
				.iov_base = frame,
				.iov_len = options.frame ? options.frame_bytes
							 : packet_put(&options, frame, number),
			};
			messages[count].msg_hdr =
				(struct msghdr){ .msg_iov = &pieces[count], .msg_iovlen = 1 };
		}
		if (options.rate) {
			const uint64_t due_ns = start_ns + (uint64_t)((double)(number - count) *
								      1e9 / (double)options.rate);

			if (due_ns > now_ns)
				tool_sleep_until(due_ns);
			if (tool_ended)
				break;
		}
		batch_send(fd, messages, count, &counts);
		now_ns = tool_now_ns();
	}
	printf("{\"sent\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"refused\":%" PRIu64
	       ",\"device_dropped\":%" PRIu64 ",\"seconds\":%.3f}\n",
	       counts.sent, counts.bytes, counts.refused,
	       device_dropped(options.interface) - dropped,
	       (double)(tool_now_ns() - start_ns) / 1e9);
	free(frames);
	free(options.frame);
	return 0;
}
