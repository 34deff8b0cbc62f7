/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_EVENT_RING_H
#define LOADSHED_USER_PLANE_EVENT_RING_H

/*
 * One ring of events as memory: a reader's position in it, and the writer of user space. No library and no plane, so
 * that tests race it against a writer on the host. Nothing outside the folder but tests includes it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "loadshed/event_abi.h"

struct ls_ring_reader {
	const struct ls_event_ring *ring;
	uint64_t next; /* number of the event that comes next */
	uint64_t lost;
};

/* Starts after the last event, or at the oldest that is there. */
void ls_ring_start(struct ls_ring_reader *reader, const struct ls_event_ring *ring,
		   bool from_oldest);

/* The next event, whole, copied to *ret. False: there is none at the moment. What was overwritten before or while it was
 * read is counted in reader->lost. Never loops longer than the ring is. */
bool ls_ring_read(struct ls_ring_reader *reader, struct ls_event_abi *ret);

/* Appends *event; its number is set here. One writer at a time. */
void ls_ring_write(struct ls_event_ring *ring, const struct ls_event_abi *event);

#endif
