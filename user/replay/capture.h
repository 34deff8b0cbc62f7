/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_REPLAY_CAPTURE_H
#define LOADSHED_USER_REPLAY_CAPTURE_H

/* Captures, packet by packet: pcap and pcapng of Ethernet, from a file or a pipe. */

#include <stdint.h>

#include "user/base/cleanup.h"

struct ls_capture;
struct ls_error;

/* One record. */
struct ls_capture_packet {
	uint64_t number; /* from 1 */
	uint64_t
		time_ns; /* Unix time as written in the capture; saturates at LS_CAPTURE_TIME_MAX_NS */
	uint32_t wire_bytes; /* as claimed by the record, at least held_bytes */
	uint32_t held_bytes; /* what the file holds of it */
	const uint8_t *held; /* borrowed, until the next call */
};

/* The year 2262: what fits a signed count of ns, so that differences fit, too. */
#define LS_CAPTURE_TIME_MAX_NS ((uint64_t)INT64_MAX)

/*
 * Opens `path` ("-": standard input). Returns 0, or a negative errno with a line in `error`: the file
 * cannot be read, is no capture, or is not of Ethernet; *ret_capture is then unchanged.
 */
int ls_capture_open(const char *path, struct ls_capture **ret_capture, struct ls_error *error);

/* NULL is accepted. */
void ls_capture_close(struct ls_capture *capture);
DEFINE_CLEANUP(struct ls_capture *, ls_capture_close);

/*
 * Returns 1 and a record, 0 at the end of the capture, or a negative errno with a line in `error` that
 * tells how many packets were read before; *ret_packet changes only with 1.
 */
int ls_capture_next(struct ls_capture *capture, struct ls_capture_packet *ret_packet,
		    struct ls_error *error);

/* Decimals of a second in the file's own stamps: 6 or 9, or what a pcapng interface says, up to 9. */
unsigned ls_capture_digits(const struct ls_capture *capture);

#endif
