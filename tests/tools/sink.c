/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * Counts what arrives on an interface after XDP, exactly, by where it comes from.
 *
 *	sink --interface vs [--class NAME=PREFIX]… [--class NAME=PREFIX@PORT]… [--seconds N] [--live FILE]
 *
 * A packet belongs to the first class whose prefix holds its source (IPv4 or IPv6, through up to 8 tags)
 * and, with @PORT, whose destination port it has. What is in no class is "other", what is no IP "non-ip".
 * --live rewrites FILE with the counts so far every 200 ms, for those who show them.
 *
 * A TPACKET_V3 ring of 64 MiB that takes the first 128 bytes of each frame holds some 300 000 frames, a
 * second or more of a flood, so a noisy machine does not lose any; if it does, `lost` says how many (the
 * kernel's own count), because lost and dropped must never be taken for each other. Merged packets (GRO)
 * count as one; what the interface sends itself does not count.
 *
 * Output, on SIGINT, SIGTERM or after N seconds:
 *	{"packets","bytes","lost","classes":{NAME:{"packets","bytes"}},"other":{…},"non-ip":{…}}
 */

#include <arpa/inet.h>
#include <getopt.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/tools/tool.h"

#define BLOCK_BYTES (1U << 20)
#define BLOCKS 64U
#define SNAP_BYTES 128U
#define CLASSES 32
/* Where the link-layer address of a frame of the ring is: after its header, aligned (packet_mmap). */
#define LINK_OFFSET                                                                                \
	((sizeof(struct tpacket3_hdr) + TPACKET_ALIGNMENT - 1) / TPACKET_ALIGNMENT *               \
	 TPACKET_ALIGNMENT)

struct tally {
	uint64_t packets, bytes;
};

struct class
{
	char name[64];
	struct ls_prefix prefix;
	bool has_port;
	uint16_t port;
	struct tally tally;
};

struct sink {
	int fd;
	uint8_t *ring;
	struct class classes[CLASSES];
	unsigned n_classes;
	struct tally all, other, non_ip;
	uint64_t lost;
};

static void tally_add(struct tally *tally, uint32_t bytes)
{
	tally->packets++;
	tally->bytes += bytes;
}

static unsigned half_at(const uint8_t *bytes)
{
	return (unsigned)bytes[0] << 8 | bytes[1];
}

/* Source and destination port of the frame's first `held` bytes; family 0: no IP. The port is -1 where
 * there is none to see: later fragments, other protocols, extension headers. */
static struct ls_prefix source_of(const uint8_t *frame, uint32_t held, int *ret_port)
{
	struct ls_prefix source = { 0 };
	uint32_t at = 12;

	*ret_port = -1;
	for (unsigned tag = 0; tag < 8 && at + 6 <= held; tag++) {
		const unsigned type = half_at(frame + at);

		if (type != ETH_P_8021Q && type != ETH_P_8021AD && type != 0x9100)
			break;
		at += 4;
	}
	if (at + 2 > held)
		return source;
	const unsigned type = half_at(frame + at);

	at += 2;
	if (type == ETH_P_IP && at + 20 <= held) {
		const uint32_t payload = at + (frame[at] & 15U) * 4;
		const uint8_t protocol = frame[at + 9];

		source.family = LS_IPV4;
		source.length = 32;
		memcpy(source.bytes, frame + at + 12, 4);
		if ((protocol == 6 || protocol == 17) && payload + 4 <= held &&
		    !(half_at(frame + at + 6) & 0x1fff))
			*ret_port = (int)half_at(frame + payload + 2);
	} else if (type == ETH_P_IPV6 && at + 40 <= held) {
		const uint8_t next = frame[at + 6];

		source.family = LS_IPV6;
		source.length = 128;
		memcpy(source.bytes, frame + at + 8, 16);
		if ((next == 6 || next == 17) && at + 44 <= held)
			*ret_port = (int)half_at(frame + at + 42);
	}
	return source;
}

static void packet_count(struct sink *sink, const uint8_t *frame, uint32_t held, uint32_t bytes)
{
	int port;
	const struct ls_prefix source = source_of(frame, held, &port);

	tally_add(&sink->all, bytes);
	if (!source.family) {
		tally_add(&sink->non_ip, bytes);
		return;
	}
	for (unsigned i = 0; i < sink->n_classes; i++) {
		struct class *const class = &sink->classes[i];

		if ((class->has_port && class->port != port) ||
		    !ls_prefix_contains(&class->prefix, &source))
			continue;
		tally_add(&class->tally, bytes);
		return;
	}
	tally_add(&sink->other, bytes);
}

static void block_count(struct sink *sink, struct tpacket_block_desc *block)
{
	const struct tpacket3_hdr *packet =
		(const void *)((uint8_t *)block + block->hdr.bh1.offset_to_first_pkt);

	for (uint32_t i = 0; i < block->hdr.bh1.num_pkts; i++) {
		const struct sockaddr_ll *const link =
			(const void *)((const uint8_t *)packet + LINK_OFFSET);
		/* The kernel takes the outer tag out of the frame before packet sockets see it. */
		const uint32_t tag = packet->tp_status & TP_STATUS_VLAN_VALID ? 4 : 0;

		if (link->sll_pkttype != PACKET_OUTGOING)
			packet_count(sink, (const uint8_t *)packet + packet->tp_mac,
				     packet->tp_snaplen, packet->tp_len + tag);
		packet = (const void *)((const uint8_t *)packet + packet->tp_next_offset);
	}
}

static void ring_open(struct sink *sink, const char *interface)
{
	struct sock_filter take[] = { { BPF_RET | BPF_K, 0, 0, SNAP_BYTES } };
	const struct sock_fprog filter = { 1, take };
	const int version = TPACKET_V3;
	const struct tpacket_req3 ring = {
		.tp_block_size = BLOCK_BYTES,
		.tp_block_nr = BLOCKS,
		.tp_frame_size = 2048,
		.tp_frame_nr = BLOCKS * (BLOCK_BYTES / 2048),
		.tp_retire_blk_tov = 20,
	};
	const struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = (int)if_nametoindex(interface),
	};

	if (!address.sll_ifindex)
		tool_die("cannot listen on '%s': no such interface here", interface);
	sink->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (sink->fd < 0 ||
	    setsockopt(sink->fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) ||
	    setsockopt(sink->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) ||
	    setsockopt(sink->fd, SOL_PACKET, PACKET_RX_RING, &ring, sizeof(ring)))
		tool_die("cannot make a packet ring: %s", strerror(errno));
	sink->ring = mmap(NULL, (size_t)BLOCK_BYTES * BLOCKS, PROT_READ | PROT_WRITE, MAP_SHARED,
			  sink->fd, 0);
	if (sink->ring == MAP_FAILED)
		tool_die("cannot map the packet ring: %s", strerror(errno));
	if (bind(sink->fd, (const struct sockaddr *)&address, sizeof(address)))
		tool_die("cannot bind to '%s': %s", interface, strerror(errno));
}

/* Counts every block that is ours; returns when none is. */
static void ring_drain(struct sink *sink, unsigned *next)
{
	for (;;) {
		struct tpacket_block_desc *const block =
			(void *)(sink->ring + (size_t)*next * BLOCK_BYTES);

		if (!(__atomic_load_n(&block->hdr.bh1.block_status, __ATOMIC_ACQUIRE) &
		      TP_STATUS_USER))
			return;
		block_count(sink, block);
		__atomic_store_n(&block->hdr.bh1.block_status, (uint32_t)TP_STATUS_KERNEL,
				 __ATOMIC_RELEASE);
		*next = (*next + 1) % BLOCKS;
	}
}

/* The kernel's count of what found no place in the ring; reading it resets it. */
static void lost_add(struct sink *sink)
{
	struct tpacket_stats_v3 statistics = { 0 };
	socklen_t length = sizeof(statistics);

	if (!getsockopt(sink->fd, SOL_PACKET, PACKET_STATISTICS, &statistics, &length))
		sink->lost += statistics.tp_drops;
}

static void print_tally(FILE *file, const struct tally *tally)
{
	fprintf(file, "{\"packets\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", tally->packets,
		tally->bytes);
}

static void print(const struct sink *sink, FILE *file)
{
	fprintf(file,
		"{\"packets\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"classes\":{",
		sink->all.packets, sink->all.bytes, sink->lost);
	for (unsigned i = 0; i < sink->n_classes; i++) {
		fprintf(file, "%s\"%s\":", i ? "," : "", sink->classes[i].name);
		print_tally(file, &sink->classes[i].tally);
	}
	fputs("},\"other\":", file);
	print_tally(file, &sink->other);
	fputs(",\"non-ip\":", file);
	print_tally(file, &sink->non_ip);
	fputs("}\n", file);
}

static void print_live(const struct sink *sink, const char *path)
{
	char temporary[4096];
	snprintf(temporary, sizeof(temporary), "%s.new", path);
	FILE *const file = fopen(temporary, "we");

	if (!file)
		return;
	print(sink, file);
	if (fclose(file) == 0)
		rename(temporary, path);
}

static struct class class_parse(const char *text)
{
	struct class class = { 0 };
	char prefix[64] = "";
	unsigned port;
	const int fields = sscanf(text, "%63[^=\"\\]=%63[^@]@%u", class.name, prefix, &port);

	if (fields < 2 || (fields == 3 && port > 65535))
		tool_die("--class: NAME=PREFIX or NAME=PREFIX@PORT, not '%s'", text);
	class.prefix = tool_prefix(prefix);
	if (fields == 3) {
		class.has_port = true;
		class.port = (uint16_t)port;
	}
	return class;
}

int main(int argc, char **argv)
{
	static const struct option known[] = { { "interface", 1, 0, 'i' },
					       { "class", 1, 0, 'c' },
					       { "seconds", 1, 0, 't' },
					       { "live", 1, 0, 'l' },
					       { 0 } };
	static struct sink sink;
	const char *interface = NULL, *live = NULL;
	uint64_t seconds = UINT32_MAX;
	unsigned next = 0;
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case 'i':
			interface = optarg;
			break;
		case 'c':
			if (sink.n_classes == CLASSES)
				tool_die("--class: at most %d", CLASSES);
			sink.classes[sink.n_classes++] = class_parse(optarg);
			break;
		case 't':
			seconds = tool_number(optarg, 86400);
			break;
		case 'l':
			live = optarg;
			break;
		default:
			return 2;
		}
	}
	if (!interface || optind != argc)
		tool_die(
			"usage: sink --interface IFACE [--class NAME=PREFIX[@PORT]]… [--seconds N]");
	tool_catch_signals();
	ring_open(&sink, interface);
	tool_ready();

	const uint64_t end_ns = tool_now_ns() + seconds * 1000000000;
	uint64_t shown_ns = 0;
	while (!tool_ended && tool_now_ns() < end_ns) {
		struct pollfd wait = { .fd = sink.fd, .events = POLLIN };

		poll(&wait, 1, 50);
		ring_drain(&sink, &next);
		if (live && tool_now_ns() - shown_ns > 200000000) {
			shown_ns = tool_now_ns();
			lost_add(&sink);
			print_live(&sink, live);
		}
	}
	/* A block that is not full is given to us only after its timeout. */
	for (unsigned round = 0; round < 10; round++) {
		tool_sleep_until(tool_now_ns() + 20000000);
		ring_drain(&sink, &next);
	}
	lost_add(&sink);
	print(&sink, stdout);
	return 0;
}
