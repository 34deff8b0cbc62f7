/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/event_ring.h"

#include <string.h>

void ls_ring_start(struct ls_ring_reader *reader, const struct ls_event_ring *ring,
		   bool from_oldest)
{
	const uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);

	reader->ring = ring;
	reader->lost = 0;
	reader->next = head + 1;
	if (from_oldest)
		reader->next = head > LS_EVENT_SLOTS ? head - LS_EVENT_SLOTS + 1 : 1;
}

/* Copies slot of event `number`; false: it is not, or no longer, that event. */
static bool copy_slot(const struct ls_event_ring *ring, uint64_t number, struct ls_event_abi *ret)
{
	const struct ls_event_abi *slot = &ring->slots[number % LS_EVENT_SLOTS];

	if (__atomic_load_n(&slot->number, __ATOMIC_ACQUIRE) != number)
		return false;
	memcpy(ret, slot, sizeof(*ret));
	/* The copy is complete before the number is looked at again. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&slot->number, __ATOMIC_RELAXED) == number;
}

bool ls_ring_read(struct ls_ring_reader *reader, struct ls_event_abi *ret)
{
	const struct ls_event_ring *ring = reader->ring;
	const uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);

	if (head - reader->next + 1 > LS_EVENT_SLOTS && head >= reader->next) {
		reader->lost += head - LS_EVENT_SLOTS + 1 - reader->next;
		reader->next = head - LS_EVENT_SLOTS + 1;
	}
	while (reader->next <= head) {
		if (copy_slot(ring, reader->next++, ret))
			return true;
		reader->lost++;
	}
	return false;
}

void ls_ring_write(struct ls_event_ring *ring, const struct ls_event_abi *event)
{
	const uint64_t number = ring->head + 1;
	struct ls_event_abi *slot = &ring->slots[number % LS_EVENT_SLOTS];
	const size_t at = sizeof(slot->number);

	(void)__atomic_exchange_n(&slot->number, 0, __ATOMIC_SEQ_CST);
	memcpy((char *)slot + at, (const char *)event + at, sizeof(*slot) - at);
	(void)__atomic_exchange_n(&slot->number, number, __ATOMIC_SEQ_CST);
	__atomic_store_n(&ring->head, number, __ATOMIC_RELEASE);
}
