/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_KERN_CLASSIFY_H
#define LOADSHED_KERN_CLASSIFY_H

/*
 * The first class that matches, in the same time for 1 class and for 256: each dimension that some class
 * asks for yields a row, a bitmap of the classes that it does not rule out; their conjunction's lowest bit
 * is the class. Dimensions that no class asks for are not looked at, and 64 classes need one word.
 */

#include "kern/job.h"
#include "kern/lists.h"

LS_INLINE __u32 ls_row_at(const struct ls_job *job, __u32 chunk, __u32 place)
{
	__u64 index = ls_bounded((job->half & 1) * LS_CHUNKS + chunk, 256);
	if (index >= 2 * LS_CHUNKS)
		return 0;
	return ls_static.tables.ports[index].row[place & (LS_ROW_CHUNK - 1)];
}

LS_INLINE __u32 ls_row_port(const struct ls_job *job)
{
	const struct ls_packet *packet = &job->packet;
	if (LS_LIKELY(packet->known & LS_KNOWN_PORTS)) {
		__u32 base = packet->protocol == LS_PROTOCOL_TCP   ? LS_CHUNKS_TCP
			     : packet->protocol == LS_PROTOCOL_UDP ? LS_CHUNKS_UDP
								   : LS_CHUNKS_SCTP;
		return ls_row_at(job, base + (packet->port >> 12), packet->port);
	}
	return ls_row_at(job, LS_CHUNK_OTHER,
			 packet->known & LS_KNOWN_PROTOCOL ? LS_OTHER_PROTOCOL + packet->protocol
							   : LS_OTHER_NO_PROTOCOL);
}

LS_INLINE __u32 ls_row_source_port(const struct ls_job *job)
{
	__u16 port = job->packet.source_port;
	if (job->packet.known & LS_KNOWN_PORTS)
		return ls_row_at(job, LS_CHUNKS_SOURCE + (port >> 12), port);
	return ls_row_at(job, LS_CHUNK_OTHER, LS_OTHER_NO_SOURCE_PORT);
}

LS_INLINE __u32 ls_row_vlan(const struct ls_job *job)
{
	if (job->packet.vlan == LS_NO_VLAN)
		return ls_row_at(job, LS_CHUNK_OTHER, LS_OTHER_NO_VLAN);
	return ls_row_at(job, LS_CHUNK_VLAN, job->packet.vlan);
}

LS_INLINE __u32 ls_row_flags(const struct ls_job *job)
{
	return ls_row_at(job, LS_CHUNK_OTHER,
			 job->packet.known & LS_KNOWN_FLAGS ? LS_OTHER_FLAGS + job->packet.flags
							    : LS_OTHER_NO_FLAGS);
}

LS_INLINE __u64 ls_row_word(__u32 half, __u32 word, __u32 row)
{
	return ls_static.tables
		.rows[ls_bounded((half * LS_CLASS_WORDS + word) * LS_ROWS + (row & (LS_ROWS - 1)),
				 2 * LS_CLASS_WORDS * LS_ROWS)];
}

/* The rarer dimensions, of a job whose first row left `bits` of `word`. */
__attribute__((noinline)) __u64 ls_classify_more(const struct ls_job *job, __u64 bits, __u32 word,
						 __u32 from_row)
{
	if (!job)
		return 0;
	__u64 stages = job->word;
	if (stages & LS_WORD_SOURCE_PORTS)
		bits &= ls_row_word(job->half, word & 3, ls_row_source_port(job));
	if (stages & LS_WORD_VLAN)
		bits &= ls_row_word(job->half, word & 3, ls_row_vlan(job));
	if (stages & LS_WORD_FLAGS)
		bits &= ls_row_word(job->half, word & 3, ls_row_flags(job));
	if (stages & LS_WORD_FROM)
		bits &= ls_row_word(job->half, word & 3, from_row & 0xffff);
	if (stages & LS_WORD_TO) {
		struct ls_label_abi *label =
			ls_label_of(job, ls_label(job, &job->packet.destination));
		bits &= ls_row_word(job->half, word & 3, label->to_row);
	}
	return bits;
}

_Static_assert(LS_DIRECT_NONE == LS_NO_CLASS, "a row that holds a class is the answer");

#define LS_WORD_MORE                                                                               \
	(LS_WORD_SOURCE_PORTS | LS_WORD_VLAN | LS_WORD_FLAGS | LS_WORD_FROM | LS_WORD_TO)

/* Index of the first class that matches, or LS_NO_CLASS. from_row: of the source's label. */
LS_INLINE __u32 ls_classify(const struct ls_job *job, __u32 from_row)
{
	if (LS_LIKELY(job->word & LS_WORD_DIRECT))
		return ls_row_port(job); /* LS_DIRECT_NONE is LS_NO_CLASS */
	__u32 words = job->word >> LS_WORD_WORDS_SHIFT & 7;
	__u32 row = job->word & LS_WORD_PORTS ? ls_row_port(job) : 0;
#pragma clang loop unroll(disable)
	for (__u32 word = 0; word < LS_CLASS_WORDS; word++) {
		if (word >= words)
			break;
		__u64 bits = ls_row_word(job->half, word, row);
		if (bits && job->word & LS_WORD_MORE)
			bits = ls_classify_more(job, bits, word, from_row);
		if (bits)
			return word * 64 + ls_lowest_bit(bits);
	}
	return LS_NO_CLASS;
}

#endif
