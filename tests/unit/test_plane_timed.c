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

/* Generation 5 in half 1 in force, 4 in half 0 before it. */
static int start(void **state)
{
	(void)state;
	memset(&control, 0, sizeof(control));
	memset(&record, 0, sizeof(record));
	memset(&replay, 0, sizeof(replay));
	ls_plane_init(&plane, "test", LS_PLANE_WRITE);
	plane.maps[LS_MAP_CONTROL].memory = &control;
	plane.maps[LS_MAP_STATE].memory = &record;
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
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
