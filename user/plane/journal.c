/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/events.h"

/* Writing events of user space into the last ring. */

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "user/base/error.h"
#include "user/plane/event_ring.h"
#include "user/plane/internal.h"

static void put_text(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from ? from : "");
}

static uint64_t word_of(const uint8_t *bytes, int count)
{
	uint64_t word = 0;

	for (int i = 0; i < count; i++)
		word = word << 8 | bytes[i];
	return word;
}

static void put_subject(struct ls_event_abi *event, const struct ls_prefix *subject)
{
	event->family = subject->family == LS_IPV6 ? 6 : 4;
	event->length = subject->length;
	if (subject->family == LS_IPV6) {
		event->source_high = word_of(subject->bytes, 8);
		event->source_low = word_of(subject->bytes + 8, 8);
	} else {
		event->source_low = word_of(subject->bytes, 4);
	}
}

static void append(struct ls_plane *plane, struct ls_event_ring *rings,
		   const struct ls_event_abi *event)
{
	_cleanup_close_ int lock_fd = ls_lock_journal(plane->instance);

	if (lock_fd >= 0)
		ls_ring_write(&rings[plane->maps[LS_MAP_EVENTS].entries - 1], event);
}

void ls_journal_write(struct ls_plane *plane, const struct ls_journal_entry *entry)
{
	const struct ls_plane_map *map = &plane->maps[LS_MAP_EVENTS];
	struct ls_event_abi event = {
		.time_ns = ls_now_monotonic(),
		.kind = (__u8)entry->kind,
		.verdict = LS_VERDICT_PASS,
		.reason = LS_REASON_INTERNAL,
		.value = entry->value,
		.origin = (__u8)entry->origin,
		.ifindex = entry->ifindex,
		.class_slot = LS_EVENT_NO_SLOT,
		.limit_slot = LS_EVENT_NO_SLOT,
		.class_index = LS_EVENT_NO_SLOT,
	};

	if (map->fd < 0 || plane->is_sandbox)
		return;
	event.generation = (__u32)ls_plane_generation(plane);
	put_text(event.text.action, sizeof(event.text.action), entry->action);
	put_text(event.text.name, sizeof(event.text.name), entry->name);
	put_text(event.text.text, sizeof(event.text.text), entry->text);
	if (entry->subject)
		put_subject(&event, entry->subject);
	if (plane->access == LS_PLANE_WRITE) {
		struct ls_event_ring *rings = ls_plane_memory(plane, LS_MAP_EVENTS, NULL);
		if (rings)
			append(plane, rings, &event);
		return;
	}
	/* The plane's own mapping is for reading. */
	const size_t bytes = (size_t)map->entries * sizeof(struct ls_event_ring);
	struct ls_event_ring *rings =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, map->fd, 0);
	if (rings == MAP_FAILED)
		return;
	append(plane, rings, &event);
	munmap(rings, bytes);
}
