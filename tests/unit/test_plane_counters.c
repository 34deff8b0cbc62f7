/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * Counters of names that come and go: a class that is given the block of another begins at zero, and no sum
 * ever goes down, neither of the host nor of an interface.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/policy_builder.h"
#include "user/base/error.h"
#include "user/plane/counters.h"
#include "user/plane/internal.h"
#include "user/plane/link.h"
#include "user/policy/compile.h"
#include "user/policy/read.h"

#define CPUS 2
#define ROUNDS 9 /* of 100 new names each: places of the first are given anew after five */

static struct ls_plane plane;
static struct ls_control control;
static struct ls_state record;
static struct ls_ledger ledger;
static struct ls_tables tables;
static struct ls_counters live[CPUS * LS_BANKS], retired;

static int start(void **state)
{
	(void)state;
	ls_plane_init(&plane, "test", LS_PLANE_WRITE);
	plane.maps[LS_MAP_CONTROL].memory = &control;
	plane.maps[LS_MAP_STATE].memory = &record;
	plane.maps[LS_MAP_LEDGER].memory = &ledger;
	plane.maps[LS_MAP_TABLES].memory = &tables;
	plane.maps[LS_MAP_COUNTERS].memory = live;
	plane.maps[LS_MAP_COUNTERS].entries = CPUS * LS_BANKS;
	plane.maps[LS_MAP_RETIRED].memory = &retired;
	record.interfaces[0] =
		(struct ls_state_interface){ .name = "ls-none", .ifindex = 1u << 30, .bank = 1 };
	return 0;
}

static uint64_t random_bits(void *seed)
{
	return chance_next(seed);
}

static struct ls_policy *policy_of(int round)
{
	static char text[100000];
	struct ls_policy *policy = NULL;
	struct ls_error error = LS_ERROR_INIT;
	int used = snprintf(text, sizeof(text), "version: 1\nclasses:\n");

	for (int i = 0; i < 100; i++)
		used += snprintf(text + used, sizeof(text) - (size_t)used,
				 "  - name: c%d-%d\n    match: { protocol: udp, ports: [%d] }\n"
				 "    limits: [ { name: l, rate: 1k/s } ]\n",
				 round, i, i + 1);
	assert_int_equal(ls_policy_read_memory("p", text, (size_t)used, NULL, &policy, &error), 0);
	return policy;
}

static void count_once(uint32_t number)
{
	for (unsigned cpu = 0; cpu < CPUS; cpu++) {
		struct ls_counter *counter = &live[cpu * LS_BANKS + 1].counter[number];
		counter->packets += 1;
		counter->bytes += 100;
	}
}

/* A packet of every kind on every CPU, all by interface 0, of which some was detached before. */
static uint64_t count_all(const struct ls_image *image, size_t n_classes)
{
	uint64_t counted = 0;

	for (size_t i = 0; i < n_classes; i++) {
		for (uint32_t k = 0; k <= LS_CLASS_COUNTER_PANIC_WOULD; k++, counted += CPUS)
			count_once(image->classes[i].counter + k);
		for (uint32_t k = 0; k < LS_LIMIT_COUNTERS; k++, counted += CPUS)
			count_once(image->classes[i].limit[0].counter + k);
	}
	return counted;
}

static void check(const struct ls_stats *stats, uint64_t counted, uint64_t kept)
{
	assert_int_equal(stats->seen.packets, counted);
	assert_int_equal(stats->seen.bytes, 100 * counted);
	assert_int_equal(stats->pass.packets + stats->drop.packets, counted);
	/* Of ten kinds per class two pass, four drop, four would: each sum is exact. */
	assert_int_equal(stats->drop.packets, counted / 10 * 4);
	assert_int_equal(stats->would_drop.packets, counted / 10 * 4);
	assert_string_equal(stats->interfaces[0].name, "ls-none");
	assert_int_equal(stats->interfaces[0].pass.packets + stats->interfaces[0].drop.packets,
			 counted - kept);
	for (size_t i = 1; i < stats->n_classes; i++) {
		const struct ls_stats_class *class = &stats->classes[i];
		for (size_t k = 0; k < class->n_verdicts; k++)
			assert_int_equal(class->verdicts[k].tally.packets, CPUS);
	}
	for (size_t k = 0; k < stats->classes[0].n_verdicts; k++)
		assert_int_equal(LS_REASON_DROPS(stats->classes[0].verdicts[k].reason),
				 stats->classes[0].verdicts[k].verdict != LS_VERDICT_PASS);
}

static void a_name_that_gets_anothers_counters_starts_at_zero_and_no_sum_goes_down(void **state)
{
	uint64_t seed = chance_seed("counters"), counted = 0, kept = 0;
	size_t folded = 0;

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct ls_policy *policy = policy_of(round);
		struct ls_image *image = NULL;
		struct ls_error error = LS_ERROR_INIT;
		struct ls_stats stats = { 0 };
		const unsigned half = round & 1;

		assert_int_equal(ls_policy_compile(policy, half, &ledger, random_bits, &seed,
						   &image, &error),
				 0);
		folded += image->n_reused_counters;
		assert_int_equal(ls_counters_fold(&plane, image->reused_counters,
						  image->n_reused_counters, &error),
				 0);
		memcpy(tables.classes + half * LS_CLASSES, image->classes, sizeof(image->classes));
		control.generation[half] = image->generation;
		control.word = half;
		assert_int_equal(ls_stats_read(&plane, NULL, &stats, &error), 0);
		check(&stats, counted, kept);
		ls_stats_fini(&stats);
		counted += count_all(image, policy->n_classes);
		assert_int_equal(ls_stats_read(&plane, NULL, &stats, &error), 0);
		check(&stats, counted, kept);
		ls_stats_fini(&stats);
		if (round ==
		    2) { /* the interface goes: what it counted is kept under no interface */
			ls_counters_retire(&plane, 1);
			kept = counted;
		}
		ls_image_free(image);
		ls_policy_free(policy);
	}
	assert_true(folded > 0);
}

/*
 * FIELD A-11: the packets of a bond come in with the indexes of its members (the kernel of most test machines has no
 * bonds). They lead to the bond's counters, and no more once it is detached; what is somebody else's stays that.
 */
static void packets_of_a_bonds_members_are_counted_under_the_bond(void **state)
{
	static const uint32_t members[] = { 5, 6, 300, 7 };
	const struct ls_bank_abi *bank = control.bank;

	(void)state;
	memset(&control, 0, sizeof(control));
	ls_row_set_bank(&plane, 2, 44, NULL, 0); /* at the place of 300 */
	ls_row_set_bank(&plane, 3, 9, members, 4);
	assert_int_equal(bank[9].ifindex, 9);
	for (unsigned i = 5; i <= 7; i++) {
		assert_int_equal(bank[i].ifindex, i);
		assert_int_equal(bank[i].bank, 3);
	}
	assert_int_equal(bank[300 % LS_BANK_SLOTS].ifindex, 44);
	assert_int_equal(bank[300 % LS_BANK_SLOTS].bank, 2);
	struct ls_state_interface row = { .ifindex = 9, .bank = 3 };
	ls_row_drop(&plane, &row);
	for (unsigned i = 5; i <= 9; i++)
		assert_int_equal(bank[i].ifindex, 0);
	assert_int_equal(bank[44].ifindex, 44);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(
			a_name_that_gets_anothers_counters_starts_at_zero_and_no_sum_goes_down,
			start),
		cmocka_unit_test_setup(packets_of_a_bonds_members_are_counted_under_the_bond,
				       start),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
