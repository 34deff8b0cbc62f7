/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * The states between two stores, which no kill by system call reaches: each is made by hand, must mean the old or the new
 * to packets (the same function that they use) and to user space, and must be settled by the next writer.
 */

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pure/timed.h"
#include "user/base/error.h"
#include "user/plane/internal.h"
#include "user/plane/timed.h"

#define SECOND 1000000000ULL
#define WORD(number, half) ((uint64_t)(number) << LS_WORD_NUMBER_SHIFT | (half))

static struct ls_control control;
static struct ls_state record;
static struct ls_replay_abi replay;
static struct ls_plane plane;
static struct ls_tables tables;
static struct ls_ways ways[2];

/* Generation 5 in half 1 in force, 4 in half 0 before it. */
static int start(void **state)
{
	(void)state;
	memset(&control, 0, sizeof(control));
	memset(&record, 0, sizeof(record));
	memset(&replay, 0, sizeof(replay));
	memset(&tables, 0, sizeof(tables));
	memset(ways, 0, sizeof(ways));
	ls_plane_init(&plane, "test", LS_PLANE_WRITE);
	plane.maps[LS_MAP_CONTROL].memory = &control;
	plane.maps[LS_MAP_STATE].memory = &record;
	plane.maps[LS_MAP_TABLES].memory = &tables;
	plane.maps[LS_MAP_WAYS].memory = ways;
	plane.maps[LS_MAP_WAYS].entries = 2;
	plane.is_replay = true;
	plane.replay = &replay;
	replay.now_ns = 100 * SECOND;
	record.flags = LS_STATE_TIMED;
	record.words[0] = WORD(4, 0);
	record.words[1] = WORD(5, 1);
	record.half[0].number = 4;
	record.half[1].number = 5;
	control.word = WORD(5, 1);
	return 0;
}

static uint64_t in_force(void)
{
	return ls_timed_word(&control, control.word, ls_plane_now(&plane)) & ~LS_WORD_TIMED;
}

static void a_deadline_without_its_flip_means_nothing(void **state)
{
	(void)state;
	/* Of `apply --confirm`, killed before the flip; off holds, so packets do look. */
	for (int off = 0; off < 2; off++) {
		start(NULL);
		if (off)
			assert_int_equal(ls_plane_off(&plane, 1000 * SECOND, NULL), 0);
		const uint64_t before = in_force();
		control.previous_word = control.word;
		control.confirm_until = 110 * SECOND;
		for (replay.now_ns = 109 * SECOND; replay.now_ns < 112 * SECOND;
		     replay.now_ns += SECOND) {
			assert_int_equal(in_force(), before);
			assert_int_equal(ls_plane_pending(&plane), 0);
		}
		ls_timed_settle(&plane);
		assert_int_equal(control.confirm_until, 0);
		assert_int_equal(in_force(), before);
	}
}

static void a_deadline_brings_back_the_word_before_and_the_next_writer_makes_it_so(void **state)
{
	(void)state;
	record.words[0] = WORD(6, 0);
	ls_timed_flip(&plane, WORD(6, 0), 10 * SECOND);
	record.half[0].number = 6;
	assert_int_equal(in_force(), WORD(6, 0));
	assert_int_equal(ls_plane_pending(&plane), 10 * SECOND);
	assert_int_equal(ls_timed_lasting_half(&plane), 1);
	replay.now_ns = 110 * SECOND - 1;
	assert_int_equal(in_force(), WORD(6, 0));
	replay.now_ns = 110 * SECOND;
	assert_int_equal(in_force(), WORD(5, 1));
	assert_int_equal(ls_plane_generation(&plane), 5);
	assert_int_equal(ls_plane_pending(&plane), 0);
	assert_int_equal(ls_plane_previous_number(&plane),
			 0); /* before and after it is written down */
	assert_int_equal(ls_timed_lasting_half(&plane), 1);
	ls_timed_settle(&plane);
	assert_int_equal(control.word, WORD(5, 1));
	assert_int_equal(control.confirm_until, 0);
	assert_int_equal(record.half[0].number, 0); /* never agreed to: no way back */
	assert_int_equal(ls_timed_next_number(&plane), 7);
}

static void a_settle_that_is_killed_is_settled_again(void **state)
{
	(void)state;
	for (int stores = 0; stores <= 3; stores++) {
		start(NULL);
		ls_timed_flip(&plane, WORD(6, 0), 10 * SECOND);
		record.words[0] = WORD(6, 0);
		record.half[0].number = 6;
		replay.now_ns = 200 * SECOND;
		if (stores > 0)
			record.half[0].number = 0;
		if (stores > 1)
			control.word = control.previous_word | LS_WORD_TIMED;
		if (stores > 2)
			control.confirm_until = 0;
		assert_int_equal(in_force(), WORD(5, 1));
		ls_timed_settle(&plane);
		assert_int_equal(control.word, WORD(5, 1));
		assert_int_equal(record.half[0].number, 0);
		assert_int_equal(record.half[1].number, 5);
	}
}

static void a_publish_killed_before_its_flip_leaves_nothing_to_go_back_to(void **state)
{
	(void)state;
	record.half[0].number = 0;
	record.words[0] = WORD(6, 0);
	ls_timed_settle(&plane);
	assert_int_equal(record.half[0].number, 0);
	assert_int_equal(in_force(), WORD(5, 1));
	assert_int_equal(ls_timed_next_number(&plane), 7);
}

static void a_publish_killed_after_its_flip_is_a_generation(void **state)
{
	(void)state;
	record.half[0].number = 0;
	record.words[0] = WORD(6, 0);
	ls_timed_flip(&plane, WORD(6, 0), 0);
	ls_timed_settle(&plane);
	assert_int_equal(record.half[0].number, 6);
	assert_int_equal(in_force(), WORD(6, 0));
}

static void off_and_panic_end_by_themselves_and_at_once_by_on(void **state)
{
	(void)state;
	assert_int_equal(ls_plane_off(&plane, 10 * SECOND, NULL), 0);
	assert_int_equal(ls_plane_panic(&plane, 20 * SECOND, NULL), 0);
	assert_int_equal(in_force(), WORD(5, 1) | LS_WORD_MONITOR | LS_WORD_PANIC);
	replay.now_ns += 10 * SECOND;
	assert_int_equal(in_force(), WORD(5, 1) | LS_WORD_PANIC);
	assert_int_equal(ls_plane_off_left(&plane), 0);
	assert_int_equal(ls_plane_panic_left(&plane), 10 * SECOND);
	replay.now_ns += 10 * SECOND;
	assert_int_equal(in_force(), WORD(5, 1));
	ls_timed_settle(&plane);
	assert_int_equal(control.word, WORD(5, 1));
	assert_int_equal(ls_plane_off(&plane, 10 * SECOND, NULL), 0);
	ls_plane_on(&plane);
	assert_int_equal(in_force(), WORD(5, 1));
	assert_int_equal(ls_plane_off_left(&plane), 0);
}

static void an_until_without_its_flag_is_forgotten_before_another_flag_comes(void **state)
{
	(void)state;
	control.off_until = 1000 * SECOND; /* off, killed before the flag */
	assert_int_equal(in_force(), WORD(5, 1));
	ls_timed_settle(&plane);
	assert_int_equal(ls_plane_panic(&plane, SECOND, NULL), 0);
	assert_int_equal(in_force(), WORD(5, 1) | LS_WORD_PANIC);
}

static void on_keeps_a_confirm_that_is_pending(void **state)
{
	(void)state;
	ls_timed_flip(&plane, WORD(6, 0), 10 * SECOND);
	assert_int_equal(ls_plane_off(&plane, 100 * SECOND, NULL), 0);
	ls_plane_on(&plane);
	assert_int_equal(in_force(), WORD(6, 0));
	assert_int_equal(ls_plane_pending(&plane), 10 * SECOND);
	assert_int_equal(ls_plane_off(&plane, 100 * SECOND, NULL), 0);
	replay.now_ns += 10 * SECOND;
	assert_int_equal(in_force(), WORD(5, 1) | LS_WORD_MONITOR);
	ls_timed_settle(&plane);
	assert_int_equal(in_force(), WORD(5, 1) | LS_WORD_MONITOR);
}

static void confirm_keeps_the_word_and_what_else_holds(void **state)
{
	(void)state;
	struct ls_error error = LS_ERROR_INIT;
	assert_int_equal(ls_plane_confirm(&plane, &error), LS_PLANE_E_NOT_PENDING);
	ls_timed_flip(&plane, WORD(6, 0), 10 * SECOND);
	assert_true(ls_plane_refuse_pending(&plane, &error) < 0);
	assert_int_equal(ls_plane_panic(&plane, 100 * SECOND, NULL), 0);
	assert_int_equal(ls_plane_confirm(&plane, &error), 0);
	replay.now_ns += 50 * SECOND;
	assert_int_equal(in_force(), WORD(6, 0) | LS_WORD_PANIC);
	assert_int_equal(ls_plane_refuse_pending(&plane, &error), 0);
}

static void a_program_that_cannot_judge_it_is_not_asked_to(void **state)
{
	(void)state;
	struct ls_error error = LS_ERROR_INIT;
	record.flags = 0;
	assert_true(ls_plane_off(&plane, SECOND, &error) < 0);
	assert_int_equal(control.word, WORD(5, 1));
}

#define TICKS_PER_S (SECOND << LS_TICKS_PER_NS_SHIFT)
#define DAY 86400
#define SLOT 7

/* The limit of SLOT has `seconds` to fill in that half; a source has taken all of `slow` seconds. */
static void limit_in(unsigned half, uint64_t seconds)
{
	struct ls_class_abi *class = &tables.classes[half * LS_CLASSES + 3];

	class->n_limits = 1;
	class->limit[0] = (struct ls_limit_abi){ .algorithm = LS_ABI_TOKEN_BUCKET,
						 .slot = SLOT,
						 .clamp = seconds * TICKS_PER_S };
}

static void take_all(uint64_t seconds)
{
	const uint64_t state =
		(ls_plane_now(&plane) << LS_TICKS_PER_NS_SHIFT) + seconds * TICKS_PER_S;

	ways[1].way[2].key = 0xabc000 | SLOT;
	ways[1].way[2].state = state;
	ways[1].way[3].key = 0xabc000 | (SLOT + 1); /* another limit's */
	ways[1].way[3].state = state;
	tables.shared[SLOT].state = state;
	tables.shared[SLOT].crowd = state;
}

static void assert_left(uint64_t seconds)
{
	const uint64_t furthest =
		(ls_plane_now(&plane) << LS_TICKS_PER_NS_SHIFT) + seconds * TICKS_PER_S;

	assert_int_equal(ways[1].way[2].state, furthest);
	assert_int_equal(tables.shared[SLOT].state, furthest);
	assert_int_equal(tables.shared[SLOT].crowd, furthest);
}

/* Generation 5, in force, has 1/d; 4 had 1/s: who was refused for a day must not stay out under 4 again. */
static void going_back_to_a_faster_limit_helps_at_once(void **state)
{
	(void)state;
	limit_in(0, 1);
	limit_in(1, DAY);
	take_all(DAY);
	const uint64_t stranger = ways[1].way[3].state;
	ls_timed_flip(&plane, record.words[0], 0);
	assert_int_equal(ls_publish_settle(&plane, 0, NULL), 0);
	assert_left(1);
	assert_int_equal(ways[1].way[3].state, stranger);
	/* And forth again: nothing is further ahead than the slow one allows, nothing is given away. */
	ls_timed_flip(&plane, record.words[1], 0);
	assert_int_equal(ls_publish_settle(&plane, 1, NULL), 0);
	assert_left(1);
}

static void a_deadline_that_brings_back_a_faster_limit_is_settled_by_the_next_writer(void **state)
{
	(void)state;
	/* Also when that writer is killed at any of its stores, or before the table is settled. */
	for (int stores = 0; stores <= 4; stores++) {
		start(NULL);
		limit_in(1, 1);
		limit_in(0, DAY);
		record.words[0] = WORD(6, 0);
		ls_timed_flip(&plane, WORD(6, 0), 10 * SECOND);
		record.half[0].number = 6;
		take_all(DAY);
		replay.now_ns += 20 * SECOND;
		if (stores > 0)
			record.half[0].number = 0;
		if (stores > 1)
			record.half[1].number = 0;
		if (stores > 2)
			control.word = control.previous_word | LS_WORD_TIMED;
		if (stores > 3)
			control.confirm_until = 0;
		ls_timed_settle(&plane);
		assert_left(1);
		assert_int_equal(control.word, WORD(5, 1));
		assert_int_equal(record.half[0].number, 0);
		assert_int_equal(record.half[1].number, 5);
	}
}

static void a_rollback_killed_before_it_settled_is_settled_by_the_next_writer(void **state)
{
	(void)state;
	limit_in(0, 1);
	limit_in(1, DAY);
	take_all(DAY);
	ls_timed_flip(&plane, record.words[0], 0);
	record.half[0].number = 0;
	ls_timed_settle(&plane);
	assert_left(1);
	assert_int_equal(record.half[0].number, 4);
	assert_int_equal(ls_plane_previous_number(&plane), 5);
}

static void a_raised_maximum_of_the_node_helps_at_once(void **state)
{
	struct ls_limit_abi *limit = &control.generation[0].overload_connections;

	(void)state;
	limit->mult = 1;
	limit->clamp = TICKS_PER_S;
	control.generation[1].overload_connections = *limit;
	control.generation[1].overload_connections.clamp = DAY * TICKS_PER_S;
	const uint64_t now = ls_plane_now(&plane) << LS_TICKS_PER_NS_SHIFT;
	tables.shared[LS_SLOT_OVERLOAD_CONNECTIONS].state = now + DAY * TICKS_PER_S;
	ls_timed_flip(&plane, record.words[0], 0);
	assert_int_equal(ls_publish_settle(&plane, 0, NULL), 0);
	assert_int_equal(tables.shared[LS_SLOT_OVERLOAD_CONNECTIONS].state, now + TICKS_PER_S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_deadline_without_its_flip_means_nothing, start),
		cmocka_unit_test_setup(
			a_deadline_brings_back_the_word_before_and_the_next_writer_makes_it_so,
			start),
		cmocka_unit_test_setup(a_settle_that_is_killed_is_settled_again, start),
		cmocka_unit_test_setup(
			a_publish_killed_before_its_flip_leaves_nothing_to_go_back_to, start),
		cmocka_unit_test_setup(a_publish_killed_after_its_flip_is_a_generation, start),
		cmocka_unit_test_setup(off_and_panic_end_by_themselves_and_at_once_by_on, start),
		cmocka_unit_test_setup(
			an_until_without_its_flag_is_forgotten_before_another_flag_comes, start),
		cmocka_unit_test_setup(on_keeps_a_confirm_that_is_pending, start),
		cmocka_unit_test_setup(confirm_keeps_the_word_and_what_else_holds, start),
		cmocka_unit_test_setup(a_program_that_cannot_judge_it_is_not_asked_to, start),
		cmocka_unit_test_setup(going_back_to_a_faster_limit_helps_at_once, start),
		cmocka_unit_test_setup(
			a_deadline_that_brings_back_a_faster_limit_is_settled_by_the_next_writer,
			start),
		cmocka_unit_test_setup(
			a_rollback_killed_before_it_settled_is_settled_by_the_next_writer, start),
		cmocka_unit_test_setup(a_raised_maximum_of_the_node_helps_at_once, start),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
