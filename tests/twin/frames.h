/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_TWIN_FRAMES_H
#define LOADSHED_TWIN_FRAMES_H

/*
 * Hostile frames: valid ones of every kind, then cut, with lying lengths, and with bytes turned over. Seeded.
 * Few sources and ports, so that limits bite.
 */

#include <stdint.h>
#include <string.h>

#define FRAME_BYTES_MAX 1500

struct frame_writer {
	uint8_t *at;
	uint64_t seed;
};

static inline uint32_t frame_random(struct frame_writer *writer, uint32_t below)
{
	uint64_t z = writer->seed += 0x9e3779b97f4a7c15ULL;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return (uint32_t)((z ^ z >> 31) % below);
}

static inline void frame_u8(struct frame_writer *writer, uint32_t value)
{
	*writer->at++ = (uint8_t)value;
}

static inline void frame_u16(struct frame_writer *writer, uint32_t value)
{
	frame_u8(writer, value >> 8);
	frame_u8(writer, value);
}

static inline void frame_fill(struct frame_writer *writer, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		frame_u8(writer, frame_random(writer, 256));
}

static inline uint8_t frame_protocol(struct frame_writer *writer)
{
	static const uint8_t protocols[] = { 6, 6, 6, 17, 17, 17, 1, 58, 132, 2, 47, 50, 59, 253 };
	return protocols[frame_random(writer, sizeof(protocols))];
}

static inline void frame_transport(struct frame_writer *writer, uint8_t protocol)
{
	static const uint16_t ports[] = { 53, 80, 443, 67, 68, 546, 547, 8443, 40000 };
	static const uint8_t types[] = { 0, 3, 8, 11, 12, 1, 2, 4, 130, 133, 135, 136, 143 };
	if (protocol == 1 || protocol == 58) {
		frame_u8(writer, types[frame_random(writer, sizeof(types))]);
		frame_fill(writer, 7);
	} else {
		frame_u16(writer, ports[frame_random(writer, 9)]);
		frame_u16(writer, ports[frame_random(writer, 9)]);
		frame_fill(writer, 9);
		frame_u8(writer, frame_random(writer, 2) ? 2 : frame_random(writer, 64));
		frame_fill(writer, 6);
	}
	frame_fill(writer, frame_random(writer, 60));
}

static inline void frame_ipv4(struct frame_writer *writer)
{
	uint8_t protocol = frame_protocol(writer);
	uint32_t options = frame_random(writer, 4) ? 0 : frame_random(writer, 11);
	uint8_t *ip = writer->at;
	frame_u8(writer, 0x45 + options);
	frame_u8(writer, 0);
	frame_u16(writer, 40 + 4 * options);
	frame_u16(writer, 7);
	static const uint16_t fragments[] = { 0, 0, 0, 0, 0x4000, 0x2000, 0x2010, 0x0010, 1 };
	frame_u16(writer, fragments[frame_random(writer, 9)]);
	frame_u8(writer, frame_random(writer, 3) ? 64 : 1);
	frame_u8(writer, protocol);
	frame_u16(writer, 0);
	memcpy(writer->at, (uint8_t[]){ 203, 0, 113, (uint8_t)frame_random(writer, 6) }, 4);
	memcpy(writer->at + 4, (uint8_t[]){ 198, 51, 100, (uint8_t)(10 + frame_random(writer, 2)) },
	       4);
	writer->at += 8;
	frame_fill(writer, 4 * options);
	frame_transport(writer, protocol);
	if (!frame_random(writer, 16))
		frame_fill(&(struct frame_writer){ ip, writer->seed }, 1);
}

static inline void frame_ipv6(struct frame_writer *writer)
{
	static const uint8_t chain[] = { 0, 43, 44, 51, 60, 135, 139, 140 };
	uint32_t extensions = frame_random(writer, 3) ? 0 : frame_random(writer, 11);
	uint8_t protocol = frame_protocol(writer);
	uint8_t next[12];
	for (uint32_t i = 0; i < extensions; i++)
		next[i] = chain[frame_random(writer, 8)];
	next[extensions] = protocol;
	frame_u16(writer, 0x6000);
	frame_u16(writer, 0);
	frame_u16(writer, 100);
	frame_u8(writer, next[0]);
	frame_u8(writer, frame_random(writer, 3) ? 255 : 1);
	static const uint8_t prefix[15] = { 0x20, 1, 0xd, 0xb8, 0, 0x10 };
	memcpy(writer->at, prefix, 15);
	writer->at += 7;
	frame_u8(writer, frame_random(writer, 3));
	writer->at += 7;
	frame_u8(writer, frame_random(writer, 4));
	memcpy(writer->at, prefix, 15);
	writer->at += 15;
	frame_u8(writer, frame_random(writer, 2));
	for (uint32_t i = 0; i < extensions; i++) {
		uint32_t words = frame_random(writer, 3);
		frame_u8(writer, next[i + 1]);
		frame_u8(writer, next[i] == 51 ? words * 2 : words);
		if (next[i] == 44) { /* mostly atomic */
			frame_u16(writer,
				  frame_random(writer, 3) ? 0 : frame_random(writer, 65536));
			frame_fill(writer, 4);
		} else {
			frame_fill(writer, 6 + 8 * words);
		}
	}
	frame_transport(writer, protocol);
}

/* Writes a frame of at most FRAME_BYTES_MAX bytes to `frame`; returns how long it is, 14 or more. */
static inline uint32_t frame_make(uint8_t *frame, uint64_t *seed)
{
	struct frame_writer writer = { frame, *seed };
	static const uint16_t tags[] = { 0x8100, 0x88a8, 0x9100 };
	frame_fill(&writer, 12);
	uint32_t n_tags = frame_random(&writer, 4) ? 0 : frame_random(&writer, 5);
	for (uint32_t i = 0; i < n_tags; i++) {
		frame_u16(&writer, tags[frame_random(&writer, 3)]);
		frame_u16(&writer, frame_random(&writer, 4) ? 7 : frame_random(&writer, 65536));
	}
	uint32_t kind = frame_random(&writer, 20);
	int is_ipv6 = kind >= 10;
	static const uint16_t others[] = { 0x0806, 0x88cc, 0x0800, 0x86dd, 46 };
	frame_u16(&writer, kind == 0 ? others[frame_random(&writer, 5)]
			   : is_ipv6 ? 0x86dd
				     : 0x0800);
	if (is_ipv6)
		frame_ipv6(&writer);
	else
		frame_ipv4(&writer);
	uint32_t bytes = (uint32_t)(writer.at - frame);
	if (!frame_random(&writer, 4))
		bytes = 14 + frame_random(&writer, bytes - 13);
	if (!frame_random(&writer, 6))
		frame[frame_random(&writer, bytes)] = (uint8_t)frame_random(&writer, 256);
	*seed = writer.seed;
	return bytes;
}

#endif
