/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The arithmetic of limits against exact fractions. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "policy_builder.h"
#include "user/policy/compile_limit.h"

typedef unsigned __int128 u128;

#define TICKS_PER_S (64ULL * LS_NS_PER_S)

/* 64 * period: what `units` units cost, exactly. */
static u128 period_ticks(struct ls_rate rate)
{
	return (u128)rate.period_ns * 64;
}

static uint64_t cost(const struct ls_limit_abi *record, uint64_t units)
{
	return (units < record->cap ? units : record->cap) * record->mult >> record->shift;
}

static struct ls_limit bucket(enum ls_count count, struct ls_rate rate, uint64_t burst)
{
	return (struct ls_limit){ .name = "l",
				  .count = count,
				  .algorithm = LS_TOKEN_BUCKET,
				  .rate = rate,
				  .burst = burst };
}

/* Rates from one end to the other, log-uniform, over all the periods that there are. */
static struct ls_rate random_rate(uint64_t *chance, enum ls_count count)
{
	static const uint64_t periods[] = { 1, 60, 3600, 86400 };
	const uint64_t max = count == LS_COUNT_BYTES ? LS_RATE_BYTES_MAX : LS_RATE_ITEMS_MAX;

	for (;;) {
		const uint64_t units = (chance_next(chance) >> chance_below(chance, 64)) | 1;
		const uint64_t period_s = periods[chance_below(chance, 4)];
		/* bytes: 0.001 bit/s is the slowest, 1 byte in 8000 s */
		const uint64_t period = count == LS_COUNT_BYTES ? 8000 : period_s;

		if (units / period < max)
			return ls_rate_make(units, period * LS_NS_PER_S);
	}
}

static uint64_t random_burst(uint64_t *chance, struct ls_rate rate)
{
	const u128 max = (u128)LS_TAU_TICKS_MAX * rate.units / period_ticks(rate);
	const uint64_t burst = chance_next(chance) >> chance_below(chance, 64);

	if (max < 1)
		return 0;
	return burst < 1 ? 1 : burst < max ? burst : (uint64_t)max;
}

static void items_cost_whole_ticks_rounded_down(void **state)
{
	uint64_t chance = chance_seed(__func__);

	(void)state;
	for (int i = 0; i < 200000; i++) {
		const struct ls_rate rate = random_rate(&chance, LS_COUNT_PACKETS);
		const uint64_t burst = random_burst(&chance, rate);
		const struct ls_limit limit = bucket(LS_COUNT_PACKETS, rate, burst);
		struct ls_limit_abi record;

		if (!burst)
			continue;
		record = ls_compile_limit(&limit);
		assert_int_equal(record.shift, 0);
		assert_int_equal(record.cap, 1);
		assert_true(record.mult == period_ticks(rate) / rate.units);
		/* exactly the burst fits, and no more than the exact burst in ticks */
		assert_true(record.tau / record.mult == burst && record.tau % record.mult == 0);
		assert_true((u128)record.tau * rate.units <= burst * period_ticks(rate));
		assert_true((u128)record.tau * rate.units + (u128)burst * rate.units >=
			    burst * period_ticks(rate));
		assert_true(record.tau <= LS_TAU_TICKS_MAX);
		assert_true(record.clamp == record.tau);
	}
}

static void bytes_are_as_precise_as_the_largest_frame_allows(void **state)
{
	uint64_t chance = chance_seed(__func__);

	(void)state;
	for (int i = 0; i < 200000; i++) {
		const struct ls_rate rate = random_rate(&chance, LS_COUNT_BYTES);
		const uint64_t burst = random_burst(&chance, rate);
		const struct ls_limit limit = bucket(LS_COUNT_BYTES, rate, burst);
		struct ls_limit_abi record;
		u128 exact; /* of mult * units */

		if (!burst)
			continue;
		record = ls_compile_limit(&limit);
		exact = period_ticks(rate) << record.shift;
		assert_true(record.mult == exact / rate.units);
		assert_true((u128)record.cap * record.mult <= LS_COST_TICKS_MAX);
		if (record.shift > 0) {
			assert_int_equal(record.cap, LS_FRAME_BYTES_MAX);
			assert_true(record.mult > LS_COST_TICKS_MAX / LS_FRAME_BYTES_MAX / 2 - 1);
		} else {
			assert_true(((u128)record.cap + 1) * record.mult > LS_COST_TICKS_MAX ||
				    record.cap == LS_FRAME_BYTES_MAX);
		}
		/* The burst's price, rounded down twice: by less than burst / 2^shift + 1 ticks. */
		assert_true((u128)record.tau * rate.units <= burst * period_ticks(rate) ||
			    record.tau == 1);
		assert_true(((u128)record.tau + 1 + (burst >> record.shift) + 1) * rate.units >=
			    burst * period_ticks(rate));
		assert_true(record.clamp >= record.tau);
		assert_true(record.clamp >= cost(&record, LS_FRAME_BYTES_MAX));
		assert_true(record.clamp == record.tau ||
			    record.clamp == cost(&record, LS_FRAME_BYTES_MAX));
	}
}

/* A bucket as the kernel has it: TAT, now and cost in ticks. */
static bool admit(const struct ls_limit_abi *record, uint64_t *tat, uint64_t now, uint64_t units)
{
	const uint64_t price = cost(record, units);
	const uint64_t base = *tat > now ? *tat : now;

	if (base + (price < record->tau ? price : record->tau) - now > record->tau)
		return false;
	*tat = base + price;
	return true;
}

/*
 * What an exact bucket admits, the compiled one admits, too. The exact one counts in units of
 * 1 / rate.units tick, so that nothing is rounded.
 */
static void no_conforming_packet_is_refused(void **state)
{
	uint64_t chance = chance_seed(__func__);

	(void)state;
	for (int round = 0; round < 3000; round++) {
		const enum ls_count count = round % 2 ? LS_COUNT_BYTES : LS_COUNT_PACKETS;
		const struct ls_rate rate =
			ls_rate_make(1 + (chance_next(&chance) >> 32) % 3000000, LS_NS_PER_S);
		const uint64_t burst = 1 + chance_below(&chance, 3000);
		const struct ls_limit limit = bucket(count, rate, burst);
		const struct ls_limit_abi record = ls_compile_limit(&limit);
		const u128 full = burst * period_ticks(rate);
		u128 used = 0;
		uint64_t now = 0, tat = 0;

		for (int i = 0; i < 300; i++) {
			const uint64_t units =
				count == LS_COUNT_BYTES ? 1 + chance_below(&chance, 9000) : 1;
			const uint64_t passed =
				chance_next(&chance) % (2 * record.mult * 500 >> record.shift | 1);
			const u128 price = units * period_ticks(rate);

			now += passed;
			used -= used < (u128)passed * rate.units ? used : (u128)passed * rate.units;
			if (used + (price < full ? price : full) > full)
				continue;
			used += price;
			assert_true(admit(&record, &tat, now, units));
		}
	}
}

static void a_burst_is_admitted_and_not_one_more(void **state)
{
	static const struct ls_rate rates[] = {
		{ 3000000, LS_NS_PER_S }, { 7, LS_NS_PER_S }, { 1, LS_NS_PER_DAY }, { 3, 1 }
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rates) / sizeof(*rates); i++) {
		const struct ls_limit limit =
			bucket(LS_COUNT_CONNECTIONS,
			       ls_rate_make(rates[i].units, rates[i].period_ns), 100);
		const struct ls_limit_abi record = ls_compile_limit(&limit);
		uint64_t tat = 0;
		int admitted = 0;

		while (admit(&record, &tat, 1000, 1))
			admitted++;
		assert_int_equal(admitted, 100);
	}
}

static void an_edited_byte_limit_forgives_the_debt_of_a_super_packet(void **state)
{
	/* 1 MB/s, 64 ticks * 1000 per byte; burst 1000 bytes */
	const struct ls_limit bytes = bucket(LS_COUNT_BYTES, (struct ls_rate){ 1, 1000 }, 1000);
	const struct ls_limit large = bucket(LS_COUNT_BYTES, (struct ls_rate){ 1, 1000 }, 1 << 20);
	const struct ls_limit items = bucket(LS_COUNT_PACKETS, (struct ls_rate){ 1, 1000 }, 10);
	struct ls_limit_abi record = ls_compile_limit(&bytes);

	(void)state;
	assert_int_equal(record.clamp, 64000ULL << 19);
	ls_compile_limit_narrow(&record);
	assert_int_equal(record.clamp, 64000ULL << 16);
	record = ls_compile_limit(&large);
	assert_int_equal(record.clamp, record.tau);
	ls_compile_limit_narrow(&record);
	assert_int_equal(record.clamp, record.tau);
	record = ls_compile_limit(&items);
	ls_compile_limit_narrow(&record);
	assert_int_equal(record.clamp, record.tau);
}

static void states_that_live_longer_than_10_s_go_to_the_long_table(void **state)
{
	static const struct {
		enum ls_algorithm algorithm;
		uint64_t burst_or_window_s; /* the bucket fills with 1/s */
		uint8_t table;
	} cases[] = {
		{ LS_TOKEN_BUCKET, 10, LS_TABLE_SHORT },  { LS_TOKEN_BUCKET, 11, LS_TABLE_LONG },
		{ LS_FIXED_WINDOW, 10, LS_TABLE_SHORT },  { LS_FIXED_WINDOW, 11, LS_TABLE_LONG },
		{ LS_SLIDING_WINDOW, 5, LS_TABLE_SHORT }, { LS_SLIDING_WINDOW, 6, LS_TABLE_LONG },
		{ LS_SLIDING_LOG, 1, LS_TABLE_LOG },	  { LS_SLIDING_LOG, 3600, LS_TABLE_LOG },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct ls_limit limit = {
			.algorithm = cases[i].algorithm,
			.rate = { 1, LS_NS_PER_S },
			.burst = cases[i].burst_or_window_s,
			.limit = 50,
			.window_ns = cases[i].burst_or_window_s * LS_NS_PER_S,
		};
		const struct ls_limit_abi record = ls_compile_limit(&limit);

		assert_int_equal(record.table, cases[i].table);
		if (cases[i].algorithm != LS_TOKEN_BUCKET) {
			assert_int_equal(record.tau, 50);
			assert_int_equal(record.mult, 0);
			assert_int_equal(record.window_ns, limit.window_ns);
		}
	}
}

static void subjects_have_their_bits_and_shared_ones_their_flag(void **state)
{
	static const struct {
		enum ls_per per;
		uint8_t bits4, bits6, flags;
	} cases[] = {
		{ LS_PER_SOURCE, 32, 64, 0 },
		{ LS_PER_PREFIX, 24, 48, LS_LIMIT_F_SHARED },
		{ LS_PER_FLOW, 32, 128, 0 },
		{ LS_PER_DESTINATION, 32, 128, LS_LIMIT_F_SHARED },
		{ LS_PER_CLASS, 0, 0, LS_LIMIT_F_SHARED },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct ls_limit limit = { .per = cases[i].per,
						.per_ipv4 = 24,
						.per_ipv6 = 48,
						.rate = { 1, 1000 },
						.burst = 1 };
		const struct ls_limit_abi record = ls_compile_limit(&limit);

		assert_int_equal(record.per, cases[i].per);
		assert_int_equal(record.bits4, cases[i].bits4);
		assert_int_equal(record.bits6, cases[i].bits6);
		assert_int_equal(record.flags, cases[i].flags);
	}
}

static void a_full_share_is_between_128_and_255_or_the_limit_itself(void **state)
{
	uint64_t chance = chance_seed(__func__);

	(void)state;
	for (int i = 0; i < 100000; i++) {
		const uint64_t tau = 1 + (chance_next(&chance) >> (3 + chance_below(&chance, 61)));
		const struct ls_limit_abi record = { .algorithm = LS_ABI_FIXED_WINDOW,
						     .tau = tau,
						     .window_ns = 5 };
		const struct ls_slot_abi bucket_slot = ls_compile_slot_bucket(tau);
		const struct ls_slot_abi slot = ls_compile_slot(&record);

		assert_int_equal(slot.full_share, tau >> slot.share_shift);
		assert_true(slot.share_shift == 0 ? tau <= 255 : slot.full_share >= 128);
		assert_int_equal(bucket_slot.full_share, slot.full_share);
		assert_int_equal(bucket_slot.limit, 0);
		assert_int_equal(slot.limit, tau);
		assert_int_equal(slot.window_ns, 5);
		assert_int_equal(slot.known, 1);
	}
}

static void overload_has_a_burst_of_100_ms_whatever_the_rate(void **state)
{
	const struct ls_rate fast = { 2000000, LS_NS_PER_S }, slow = { 1, LS_NS_PER_DAY };
	const struct ls_limit_abi packets = ls_compile_overload(&fast, LS_ABI_PACKETS, 7);
	const struct ls_limit_abi connections = ls_compile_overload(&slow, LS_ABI_CONNECTIONS, 8);

	(void)state;
	assert_int_equal(packets.mult, 32000);
	assert_int_equal(packets.tau, TICKS_PER_S / 10);
	assert_int_equal(packets.clamp, packets.tau);
	assert_int_equal(packets.slot, 7);
	assert_int_equal(packets.flags, LS_LIMIT_F_SHARED);
	assert_int_equal(connections.mult, 86400 * TICKS_PER_S);
	assert_int_equal(connections.tau, TICKS_PER_S / 10);
	assert_int_equal(connections.count, LS_ABI_CONNECTIONS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(items_cost_whole_ticks_rounded_down),
		cmocka_unit_test(bytes_are_as_precise_as_the_largest_frame_allows),
		cmocka_unit_test(no_conforming_packet_is_refused),
		cmocka_unit_test(a_burst_is_admitted_and_not_one_more),
		cmocka_unit_test(an_edited_byte_limit_forgives_the_debt_of_a_super_packet),
		cmocka_unit_test(states_that_live_longer_than_10_s_go_to_the_long_table),
		cmocka_unit_test(subjects_have_their_bits_and_shared_ones_their_flag),
		cmocka_unit_test(a_full_share_is_between_128_and_255_or_the_limit_itself),
		cmocka_unit_test(overload_has_a_burst_of_100_ms_whatever_the_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
