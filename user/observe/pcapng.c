/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/observe/pcapng.h"

#include <stdio.h>
#include <string.h>

#include "loadshed/event_abi.h"
#include "user/base/buffer.h"

/*
 * A block: type, length, body, length again; all padded to 32 bits. Numbers are little endian, and the section says so.
 * The numbers below are those of the draft's sections 4 and 3.5.
 */
enum {
	BLOCK_SECTION = 0x0a0d0d0a,
	BLOCK_INTERFACE = 1,
	BLOCK_STATISTICS = 5,
	BLOCK_PACKET = 6,
	ORDER_MAGIC = 0x1a2b3c4d,

	OPTION_END = 0,
	OPTION_COMMENT = 1,
	SECTION_APPLICATION = 4,
	INTERFACE_NAME = 2,
	INTERFACE_RESOLUTION = 9,
	STATISTICS_BEGIN = 2,
	STATISTICS_END = 3,
	STATISTICS_RECEIVED = 4,
	STATISTICS_ACCEPTED = 6,
	STATISTICS_LOST = 7,
	STATISTICS_DELIVERED = 8,

	LINK_ETHERNET = 1,
	NANOSECONDS = 9, /* 10^-9 */
	OPTION_BYTES_MAX = 65535 & ~3,
};

static void put_u16(struct ls_buffer *out, uint16_t value)
{
	ls_buffer_u8(out, (uint8_t)value);
	ls_buffer_u8(out, (uint8_t)(value >> 8));
}

/* Upper half first, each in the section's order. */
static void put_stamp(struct ls_buffer *out, uint64_t unix_ns)
{
	ls_buffer_u32(out, (uint32_t)(unix_ns >> 32));
	ls_buffer_u32(out, (uint32_t)unix_ns);
}

static void put_padded(struct ls_buffer *out, const void *bytes, size_t length)
{
	static const uint8_t zeros[4];

	ls_buffer_add(out, bytes, length);
	ls_buffer_add(out, zeros, (4 - length % 4) % 4);
}

static void put_option(struct ls_buffer *out, uint16_t code, const void *bytes, size_t length)
{
	if (length > OPTION_BYTES_MAX)
		length = OPTION_BYTES_MAX;
	put_u16(out, code);
	put_u16(out, (uint16_t)length);
	put_padded(out, bytes, length);
}

static void put_option_u64(struct ls_buffer *out, uint16_t code, uint64_t value)
{
	put_u16(out, code);
	put_u16(out, 8);
	ls_buffer_u64(out, value);
}

static void put_option_stamp(struct ls_buffer *out, uint16_t code, uint64_t unix_ns)
{
	put_u16(out, code);
	put_u16(out, 8);
	put_stamp(out, unix_ns);
}

/* Its length comes when it is known. Returns where the block begins. */
static size_t begin(struct ls_buffer *out, uint32_t type)
{
	const size_t at = out->length;

	ls_buffer_u32(out, type);
	ls_buffer_u32(out, 0);
	return at;
}

static void end(struct ls_buffer *out, size_t at)
{
	ls_buffer_u32(out, OPTION_END); /* code and length, both 0 */
	const uint32_t length = (uint32_t)(out->length - at + 4);
	ls_buffer_u32(out, length);
	if (out->failed)
		return;
	for (int i = 0; i < 4; i++)
		out->bytes[at + 4 + (size_t)i] = (char)(length >> (8 * i));
}

void ls_pcapng_start(struct ls_pcapng *file, struct ls_buffer *out, const char *application,
		     uint64_t begin_unix_ns)
{
	*file = (struct ls_pcapng){ .out = out, .begin_ns = begin_unix_ns };
	const size_t at = begin(out, BLOCK_SECTION);
	ls_buffer_u32(out, ORDER_MAGIC);
	put_u16(out, 1); /* version 1.0 */
	put_u16(out, 0);
	ls_buffer_u64(out, UINT64_MAX); /* length of the section: not known */
	put_option(out, SECTION_APPLICATION, application, strlen(application));
	end(out, at);
}

static void put_interface(struct ls_buffer *out, const struct ls_pcapng_interface *interface)
{
	const uint8_t resolution = NANOSECONDS;
	const size_t at = begin(out, BLOCK_INTERFACE);

	put_u16(out, LINK_ETHERNET);
	put_u16(out, 0);
	ls_buffer_u32(out, LS_EVENT_FRAME);
	if (interface->name[0])
		put_option(out, INTERFACE_NAME, interface->name, strlen(interface->name));
	put_option(out, INTERFACE_RESOLUTION, &resolution, 1);
	end(out, at);
}

/* Number of the packet's interface in the file; its block is written when it is new. */
static size_t find_interface(struct ls_pcapng *file, const struct ls_pcapng_packet *packet)
{
	for (size_t i = 0; i < file->n_interfaces; i++)
		if (file->interfaces[i].ifindex == packet->ifindex &&
		    strcmp(file->interfaces[i].name, packet->interface) == 0)
			return i;
	if (file->n_interfaces == LS_PCAPNG_INTERFACES)
		return LS_PCAPNG_INTERFACES - 1;
	struct ls_pcapng_interface *interface = &file->interfaces[file->n_interfaces];
	*interface = (struct ls_pcapng_interface){ .ifindex = packet->ifindex };
	snprintf(interface->name, sizeof(interface->name), "%s", packet->interface);
	put_interface(file->out, interface);
	return file->n_interfaces++;
}

void ls_pcapng_add(struct ls_pcapng *file, const struct ls_pcapng_packet *packet)
{
	struct ls_buffer *out = file->out;
	const size_t number = find_interface(file, packet);

	file->interfaces[number].packets++;
	file->interfaces[number].stood_for += packet->stands_for;
	const size_t at = begin(out, BLOCK_PACKET);
	ls_buffer_u32(out, (uint32_t)number);
	put_stamp(out, packet->unix_ns);
	ls_buffer_u32(out, packet->frame_bytes);
	ls_buffer_u32(out, packet->wire_bytes);
	put_padded(out, packet->frame, packet->frame_bytes);
	put_option(out, OPTION_COMMENT, packet->comment, strlen(packet->comment));
	end(out, at);
}

void ls_pcapng_end(struct ls_pcapng *file, uint64_t end_unix_ns, uint64_t lost)
{
	struct ls_buffer *out = file->out;

	for (size_t i = 0; i < file->n_interfaces; i++) {
		const struct ls_pcapng_interface *interface = &file->interfaces[i];
		const size_t at = begin(out, BLOCK_STATISTICS);
		ls_buffer_u32(out, (uint32_t)i);
		put_stamp(out, end_unix_ns);
		put_option_stamp(out, STATISTICS_BEGIN, file->begin_ns);
		put_option_stamp(out, STATISTICS_END, end_unix_ns);
		put_option_u64(out, STATISTICS_RECEIVED, interface->stood_for);
		put_option_u64(out, STATISTICS_ACCEPTED, interface->packets);
		put_option_u64(out, STATISTICS_LOST, i == 0 ? lost : 0);
		put_option_u64(out, STATISTICS_DELIVERED, interface->packets);
		end(out, at);
	}
}
