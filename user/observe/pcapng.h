/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_OBSERVE_PCAPNG_H
#define LOADSHED_USER_OBSERVE_PCAPNG_H

/*
 * Captures in pcapng (draft-ietf-opsawg-pcapng, the blocks of 2024), as far as `capture` needs it: one section, an interface
 * block for each interface when its first packet comes, packets with a comment, statistics at the end. libpcap
 * cannot write comments. (The verdict is in the comment as well: editcap 4.0 writes the option for verdicts, of those
 * that it reads, under another's number, and what it wrote is then taken for damaged.)
 *
 * Everything is appended to a buffer; whoever owns that writes it somewhere and empties it. Each call appends whole blocks,
 * so a file that is cut at any flush can be read. A buffer that ran out of memory says so itself (`failed`).
 */

#include <stddef.h>
#include <stdint.h>

struct ls_buffer;

#define LS_PCAPNG_INTERFACES 256 /* more than that share the last one */

struct ls_pcapng_packet {
	const char *interface; /* its name; "" : not known */
	uint32_t ifindex;
	uint64_t unix_ns;
	const uint8_t *frame;
	uint32_t frame_bytes; /* that are kept */
	uint32_t wire_bytes;  /* that there were; at least frame_bytes */
	uint64_t stands_for;  /* for how many packets it was chosen */
	const char *comment;  /* UTF-8 */
};

struct ls_pcapng_interface {
	uint32_t ifindex;
	char name[32];
	uint64_t packets, stood_for;
};

struct ls_pcapng {
	struct ls_buffer *out;
	struct ls_pcapng_interface interfaces[LS_PCAPNG_INTERFACES];
	size_t n_interfaces;
	uint64_t begin_ns; /* Unix time */
};

/* Starts the section. `application` is what wrote it; snap_bytes what a packet is cut at. */
void ls_pcapng_start(struct ls_pcapng *file, struct ls_buffer *out, const char *application,
		     uint64_t begin_unix_ns);
void ls_pcapng_add(struct ls_pcapng *file, const struct ls_pcapng_packet *packet);

/* Statistics of each interface; `lost`: packets that nobody can say the interface of: noted once, at the first. */
void ls_pcapng_end(struct ls_pcapng *file, uint64_t end_unix_ns, uint64_t lost);

#endif
