/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/observe/steady.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct ls_tally tally(uint64_t packets)
{
	return (struct ls_tally){ .packets = packets, .bytes = 100 * packets };
}

/* One pass with one row. */
static void pass(struct ls_steady *steady, uint64_t epoch, const char *name, uint64_t packets)
{
	ls_steady_begin(steady, epoch);
	ls_steady_read(steady, name, 1, "", tally(packets));
	ls_steady_end(steady);
}

static uint64_t value_of(const struct ls_steady *steady, const char *name)
{
	for (size_t i = 0; i < steady->count; i++)
		if (strcmp(steady->rows[i]->name, name) == 0)
			return steady->rows[i]->value.packets;
	return UINT64_MAX;
}

static void counters_that_begin_anew_go_on(void **state)
{
	static const struct {
		const char *what;
		uint64_t epoch, packets, shown;
	} rows[] = {
		{ "first", 1, 10, 10 },
		{ "grows", 1, 25, 25 },
		{ "fell in the same epoch: an interface attached again", 1, 5, 30 },
		{ "grows from there", 1, 7, 32 },
		{ "another epoch, fewer", 2, 1, 33 },
		{ "another epoch, more than before: all of it is new", 3, 100, 133 },
	};
	struct ls_steady steady = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		pass(&steady, rows[i].epoch, "a", rows[i].packets);
		assert_int_equal(value_of(&steady, "a"), rows[i].shown);
	}
	ls_steady_fini(&steady);
}

static void rows_that_are_gone_keep_what_they_had(void **state)
{
	struct ls_steady steady = { 0 };

	(void)state;
	pass(&steady, 1, "a", 10);
	pass(&steady, 1, "b", 3);
	assert_int_equal(value_of(&steady, "a"), 10);
	pass(&steady, 1, "b", 4);
	assert_int_equal(value_of(&steady, "a"), 10);
	pass(&steady, 1, "a", 2);
	assert_int_equal(value_of(&steady, "a"), 12);
	assert_int_equal(value_of(&steady, "b"), 4);
	ls_steady_fini(&steady);
}

static void rows_read_twice_are_summed_and_sorted(void **state)
{
	struct ls_steady steady = { 0 };

	(void)state;
	for (int i = 0; i < 2; i++) {
		ls_steady_begin(&steady, 1);
		ls_steady_read(&steady, "b", 2, "x", tally(0));
		ls_steady_read(&steady, "b", 1, "y", tally(4));
		ls_steady_read(&steady, "a", 9, "", tally(1));
		ls_steady_read(&steady, "b", 2, "x", tally(7));
		ls_steady_end(&steady);
	}
	assert_int_equal(steady.count, 3);
	assert_string_equal(steady.rows[0]->name, "a");
	assert_int_equal(steady.rows[1]->number, 1);
	assert_int_equal(steady.rows[2]->value.packets, 7);
	ls_steady_fini(&steady);
}

static void rates_are_per_second(void **state)
{
	struct ls_steady steady = { 0 };

	(void)state;
	pass(&steady, 1, "a", 10);
	ls_steady_rates(&steady, 0);
	assert_int_equal(steady.rows[0]->rate.packets, 0);
	pass(&steady, 1, "a", 60);
	ls_steady_rates(&steady, 500000000);
	assert_int_equal(steady.rows[0]->rate.packets, 100);
	assert_int_equal(steady.rows[0]->rate.bytes, 10000);
	/* A line rate of bytes for ten years does not overflow. */
	steady.rows[0]->value.bytes = UINT64_MAX / 2;
	ls_steady_rates(&steady, 1000000000);
	assert_true(steady.rows[0]->rate.bytes > UINT64_MAX / 4);
	ls_steady_fini(&steady);
}

static void memory_is_bounded_and_sums_stay(void **state)
{
	struct ls_steady steady = { 0 };
	uint64_t sum = 0;
	char name[LS_NAME_BYTES];

	(void)state;
	/* Every pass has names that were never there, as a policy does that is edited for years. */
	for (int i = 0; i < 60; i++) {
		ls_steady_begin(&steady, 1);
		for (int k = 0; k < 1000; k++) {
			snprintf(name, sizeof(name), "class-%d-%d", i, k);
			ls_steady_read(&steady, name, 1, "", tally(1));
		}
		ls_steady_end(&steady);
		assert_true(steady.count <= LS_STEADY_ROWS + 2000);
	}
	for (size_t i = 0; i < steady.count; i++)
		sum += steady.rows[i]->value.packets;
	assert_int_equal(sum, 60000);
	assert_true(value_of(&steady, LS_STEADY_PAST) > 30000);
	ls_steady_fini(&steady);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counters_that_begin_anew_go_on),
		cmocka_unit_test(rows_that_are_gone_keep_what_they_had),
		cmocka_unit_test(rows_read_twice_are_summed_and_sorted),
		cmocka_unit_test(rates_are_per_second),
		cmocka_unit_test(memory_is_bounded_and_sums_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
