/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * Readers of events: whole slots or none beside a writer that overtakes them, what was lost counted exactly, several
 * rings in order of time, and slots that say what no writer of ours writes.
 */

#include <pthread.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "user/base/error.h"
#include "user/plane/event_ring.h"
#include "user/plane/events.h"
#include "user/plane/internal.h"

static struct ls_event_ring *rings;
static struct ls_ledger *ledger;
static struct ls_state record;
static struct ls_plane plane;

#define RINGS 3 /* two CPUs and the journal */

static int start(void **state)
{
	(void)state;
	rings = calloc(RINGS, sizeof(*rings));
	ledger = calloc(1, sizeof(*ledger));
	memset(&record, 0, sizeof(record));
	ls_plane_init(&plane, "test", LS_PLANE_READ);
	plane.maps[LS_MAP_EVENTS] = (struct ls_plane_map){ .fd = 1000, /* of nothing */
							   .entries = RINGS,
							   .memory = rings };
	plane.maps[LS_MAP_LEDGER].memory = ledger;
	plane.maps[LS_MAP_STATE].memory = &record;
	return rings && ledger ? 0 : -1;
}

static int stop(void **state)
{
	(void)state;
	free(rings);
	free(ledger);
	return 0;
}

/* An event all of whose words tell which it is. */
static struct ls_event_abi marked(uint64_t mark)
{
	struct ls_event_abi event;
	uint64_t words[sizeof(event) / 8];

	for (size_t i = 0; i < sizeof(event) / 8; i++)
		words[i] = mark * 0x9e3779b97f4a7c15ULL + i;
	memcpy(&event, words, sizeof(event));
	return event;
}

static void check_marked(const struct ls_event_abi *event)
{
	const struct ls_event_abi wanted = marked(event->number);
	const size_t at = sizeof(event->number);

	assert_memory_equal((const char *)event + at, (const char *)&wanted + at,
			    sizeof(wanted) - at);
}

static void a_reader_gets_each_event_once_and_counts_what_it_missed(void **state)
{
	(void)state;
	struct ls_ring_reader now, oldest;
	struct ls_event_abi event;

	ls_ring_start(&now, rings, false);
	for (uint64_t n = 1; n <= 100; n++) {
		event = marked(n);
		ls_ring_write(rings, &event);
	}
	ls_ring_start(&oldest, rings, true);
	for (uint64_t n = 1; n <= 100; n++) {
		assert_true(ls_ring_read(&now, &event));
		assert_int_equal(event.number, n);
		check_marked(&event);
		assert_true(ls_ring_read(&oldest, &event));
		assert_int_equal(event.number, n);
	}
	assert_false(ls_ring_read(&now, &event));
	for (uint64_t n = 101; n <= 3000; n++) {
		event = marked(n);
		ls_ring_write(rings, &event);
	}
	for (uint64_t n = 3000 - LS_EVENT_SLOTS + 1; n <= 3000; n++) {
		assert_true(ls_ring_read(&now, &event));
		assert_int_equal(event.number, n);
		check_marked(&event);
	}
	assert_false(ls_ring_read(&now, &event));
	assert_int_equal(now.lost, 2900 - LS_EVENT_SLOTS);
	/* Who comes later finds what is there. */
	ls_ring_start(&oldest, rings, true);
	assert_true(ls_ring_read(&oldest, &event));
	assert_int_equal(event.number, 3000 - LS_EVENT_SLOTS + 1);
	assert_int_equal(oldest.lost, 0);
}

static void a_slot_that_is_being_written_is_lost_and_not_shown(void **state)
{
	(void)state;
	struct ls_ring_reader reader;
	struct ls_event_abi event;

	ls_ring_start(&reader, rings, false);
	for (uint64_t n = 1; n <= 5; n++) {
		event = marked(n);
		ls_ring_write(rings, &event);
	}
	rings->slots[2].number = 0;			 /* the writer is in the middle of it */
	rings->slots[4].number = 4 + 3 * LS_EVENT_SLOTS; /* or has been there already */
	for (uint64_t n = 1; n <= 5; n += 2) {
		assert_true(ls_ring_read(&reader, &event));
		assert_int_equal(event.number, n);
	}
	assert_false(ls_ring_read(&reader, &event));
	assert_int_equal(reader.lost, 2);
}

/* A writer that was killed in the middle of one leaves a ring that the next goes on with. */
static void a_writer_that_died_leaves_no_hole(void **state)
{
	(void)state;
	struct ls_ring_reader reader;
	struct ls_event_abi event = marked(1);

	ls_ring_start(&reader, rings, false);
	ls_ring_write(rings, &event);
	rings->slots[2].number = 0;
	assert_true(ls_ring_read(&reader, &event));
	assert_false(ls_ring_read(&reader, &event));
	event = marked(2);
	ls_ring_write(rings, &event);
	assert_true(ls_ring_read(&reader, &event));
	check_marked(&event);
	assert_int_equal(reader.lost, 0);
}

#define RACE_EVENTS 300000

static void *write_many(void *unused)
{
	(void)unused;
	for (uint64_t n = 1; n <= RACE_EVENTS; n++) {
		const struct ls_event_abi event = marked(n);
		ls_ring_write(rings, &event);
	}
	return NULL;
}

struct racer {
	pthread_t thread;
	unsigned pause; /* reads in a row before it looks away for as long */
	uint64_t read, lost, last;
	bool failed;
};

static void *read_many(void *context)
{
	struct racer *racer = context;
	struct ls_ring_reader reader;
	struct ls_event_abi event;

	reader = (struct ls_ring_reader){ .ring = rings, .next = 1 };
	while (reader.next <= RACE_EVENTS) {
		for (unsigned i = 0; i < racer->pause; i++) {
			if (!ls_ring_read(&reader, &event))
				break;
			const struct ls_event_abi wanted = marked(event.number);
			racer->failed = racer->failed || event.number <= racer->last ||
					memcmp((const char *)&event + 8, (const char *)&wanted + 8,
					       sizeof(event) - 8) != 0;
			racer->last = event.number;
			racer->read++;
		}
		for (volatile unsigned i = 0; i < racer->pause; i++)
			;
	}
	racer->lost = reader.lost;
	return NULL;
}

static void readers_beside_a_fast_writer_see_whole_events_and_lose_none_unsaid(void **state)
{
	(void)state;
	struct racer racers[3] = { { .pause = 1 }, { .pause = 100 }, { .pause = 20000 } };
	pthread_t writer;

	for (size_t i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&racers[i].thread, NULL, read_many, &racers[i]), 0);
	assert_int_equal(pthread_create(&writer, NULL, write_many, NULL), 0);
	pthread_join(writer, NULL);
	for (size_t i = 0; i < 3; i++) {
		pthread_join(racers[i].thread, NULL);
		assert_false(racers[i].failed);
		assert_int_equal(racers[i].read + racers[i].lost, RACE_EVENTS);
		assert_true(racers[i].read > 0);
	}
}

static struct ls_event_abi refused(uint64_t time_ns, uint64_t total, uint32_t since)
{
	return (struct ls_event_abi){
		.time_ns = time_ns,
		.total = total,
		.since = since,
		.kind = LS_EVENT_PACKET,
		.verdict = LS_VERDICT_DROP,
		.reason = LS_REASON_LIMIT,
		.class_slot = 3,
		.limit_slot = 9,
		.family = 4,
		.length = 32,
		.source_low = 0xcb007107,
	};
}

static void events_of_several_rings_come_in_order_of_time(void **state)
{
	(void)state;
	struct ls_error error = LS_ERROR_INIT;
	struct ls_events *events = NULL;
	struct ls_event event;
	uint64_t last = 0;
	unsigned count = 0;

	strcpy(ledger->classes[3].name, "web");
	strcpy(ledger->limits[9].name, "new");
	assert_int_equal(ls_events_open(&plane, false, &events, &error), 0);
	for (uint64_t i = 0; i < 300; i++) {
		struct ls_event_abi one = refused(1000 + i * 7919 % 300, i, 1);
		one.time_ns = 1000 + i; /* each ring by itself is in order */
		ls_ring_write(&rings[i * 7919 % RINGS], &one);
	}
	while (ls_events_next(events, &event)) {
		assert_true(event.unix_ns > last);
		last = event.unix_ns;
		assert_string_equal(event.class, "web");
		assert_string_equal(event.limit, "new");
		count++;
	}
	assert_int_equal(count, 300);
	ls_events_close(events);
}

static void what_was_lost_is_in_what_the_next_stands_for(void **state)
{
	(void)state;
	struct ls_error error = LS_ERROR_INIT;
	struct ls_events *events = NULL;
	struct ls_event event;
	uint64_t stood_for = 0, shown = 0;

	assert_int_equal(ls_events_open(&plane, false, &events, &error), 0);
	struct ls_event_abi one = refused(1, 5, 5);
	ls_ring_write(&rings[0], &one);
	assert_true(ls_events_next(events, &event));
	assert_int_equal(event.stands_for, 5);
	for (uint64_t i = 1; i <= 2000; i++) {
		one = refused(1 + i, 5 + i * 10, 10);
		ls_ring_write(&rings[0], &one);
	}
	while (ls_events_next(events, &event)) {
		stood_for += event.stands_for;
		shown++;
	}
	assert_int_equal(shown, LS_EVENT_SLOTS);
	assert_int_equal(ls_events_lost(events), 2000 - LS_EVENT_SLOTS);
	assert_int_equal(stood_for, 20000);
	ls_events_close(events);
}

static void slots_of_any_bytes_are_shown_within_bounds(void **state)
{
	(void)state;
	struct ls_error error = LS_ERROR_INIT;
	struct ls_events *events = NULL;
	struct ls_event event;
	uint64_t seed = 12345;

	assert_int_equal(ls_events_open(&plane, false, &events, &error), 0);
	for (unsigned round = 0; round < 20000; round++) {
		struct ls_event_abi one;
		for (size_t i = 0; i < sizeof(one); i++) {
			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
			((uint8_t *)&one)[i] = (uint8_t)(seed >> 56);
		}
		one.kind = (uint8_t)(one.kind % (LS_EVENT_MAX + 2));
		one.ifindex %= 40;
		if (round % 2)
			one.family = round % 4 == 1 ? 4 : 6;
		ls_ring_write(&rings[round % RINGS], &one);
		assert_true(ls_events_next(events, &event));
		assert_true(event.kind < LS_EVENT_MAX);
		assert_true(event.verdict < LS_VERDICT_MAX);
		assert_true(event.reason < LS_REASON_MAX);
		assert_true(event.frame_bytes <= LS_EVENT_FRAME);
		assert_true(strlen(event.text.text) < sizeof(event.text.text));
		assert_true(strlen(event.text.action) < sizeof(event.text.action));
		assert_true(event.source.length <= 128);
		assert_true(event.source.family != LS_IPV4 || event.source.length <= 32);
	}
	assert_int_equal(ls_events_lost(events), 0);
	ls_events_close(events);
}

static void a_program_that_is_too_old_is_named_with_what_helps(void **state)
{
	(void)state;
	struct ls_error error = LS_ERROR_INIT;
	struct ls_events *events = NULL;

	plane.maps[LS_MAP_EVENTS].fd = -1;
	strcpy(record.version, "0.0.9");
	assert_true(ls_events_open(&plane, false, &events, &error) < 0);
	assert_non_null(strstr(error.text, "0.0.9"));
	assert_non_null(strstr(error.text, "loadshed attach"));
	/* And what is told is told to nobody. */
	ls_journal_write(&plane, &(struct ls_journal_entry){ .kind = LS_EVENT_NOTE });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_reader_gets_each_event_once_and_counts_what_it_missed, start, stop),
		cmocka_unit_test_setup_teardown(a_slot_that_is_being_written_is_lost_and_not_shown,
						start, stop),
		cmocka_unit_test_setup_teardown(a_writer_that_died_leaves_no_hole, start, stop),
		cmocka_unit_test_setup_teardown(
			readers_beside_a_fast_writer_see_whole_events_and_lose_none_unsaid, start,
			stop),
		cmocka_unit_test_setup_teardown(events_of_several_rings_come_in_order_of_time,
						start, stop),
		cmocka_unit_test_setup_teardown(what_was_lost_is_in_what_the_next_stands_for, start,
						stop),
		cmocka_unit_test_setup_teardown(slots_of_any_bytes_are_shown_within_bounds, start,
						stop),
		cmocka_unit_test_setup_teardown(a_program_that_is_too_old_is_named_with_what_helps,
						start, stop),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
