/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/compile_limit.h"

#include <assert.h>
#include <stdbool.h>

#include "user/policy/policy.h"

/*
 * A rate of `units` per `period_ns` makes one unit cost x = 64 * period_ns / units ticks, a
 * fraction. The kernel has only a multiplication and a shift for it: cost(c) = c * mult >> shift
 * with mult = floor(x * 2^shift).
 *
 * Items are asked for one at a time, so a cost is a whole number of ticks whatever the shift, and
 * the shift is 0. Rounding down makes the enforced rate too high by less than 1/mult: 1.6 % at
 * 3 G/s (mult 21), 0.16 % at most at 100 M/s, nothing that matters below.
 *
 * Bytes come in thousands, where a rounded whole tick per byte would be wrong by 2.4 % at 100
 * Gbit/s. The shift is as large as a frame of LS_FRAME_BYTES_MAX allows without its product passing
 * 2^62, so mult has 43 significant bits and the rate is exact to 2^-42; then less than a tick per
 * packet is lost. Only below about 1 bit per 17 s is a byte dearer than 2^43 ticks; there `cap`
 * bounds c instead.
 *
 * tau, the burst in ticks, is the price of `burst` units by the same rounded price, not by x. Then
 * exactly `burst` units fit into a full bucket, neither one less nor, as with floor(burst * x),
 * some more (3 000 046 of 3 M). No conforming packet is refused: a bucket of the same capacity that
 * fills no slower than the exact one always holds at least as much.
 */

#define TICKS_PER_NS (1ULL << LS_TICKS_PER_NS_SHIFT)
#define MULT_MAX (LS_COST_TICKS_MAX / LS_FRAME_BYTES_MAX) /* 2^43 */

/* The largest packet that is not merged from several, for the clamp after an edit. */
#define PACKET_BYTES_MAX 65536

/* 100 ms: `overload.max` has a burst of this much of its rate. */
#define OVERLOAD_TAU_TICKS (100000000ULL * TICKS_PER_NS)

static_assert((LS_FRAME_BYTES_MAX & (LS_FRAME_BYTES_MAX - 1)) == 0, "MULT_MAX is exact");

static unsigned __int128 ticks_of_period(const struct ls_rate *rate, unsigned shift)
{
	assert(rate->units > 0 && rate->period_ns > 0);
	/* 64 bits of period, 6 of ticks and at most 57 of shift fit. */
	return ((unsigned __int128)rate->period_ns * TICKS_PER_NS) << shift;
}

static void price_items(struct ls_limit_abi *record, const struct ls_rate *rate)
{
	const unsigned __int128 mult = ticks_of_period(rate, 0) / rate->units;

	/* Above 64 G/s a packet would be free; the reader takes 1/d to 4 G/s. */
	assert(mult >= 1 && mult <= LS_TAU_TICKS_MAX);
	record->mult = (uint64_t)mult;
	record->shift = 0;
	record->cap = 1;
}

static void price_bytes(struct ls_limit_abi *record, const struct ls_rate *rate)
{
	unsigned shift = 0;
	unsigned __int128 mult = ticks_of_period(rate, 0) / rate->units;

	while (shift < 57) {
		const unsigned __int128 finer = ticks_of_period(rate, shift + 1) / rate->units;

		if (finer > MULT_MAX)
			break;
		mult = finer;
		shift++;
	}
	assert(mult >= 1 && mult <= LS_TAU_TICKS_MAX);
	record->mult = (uint64_t)mult;
	record->shift = (uint8_t)shift;
	record->cap = LS_COST_TICKS_MAX / record->mult;
	if (record->cap > LS_FRAME_BYTES_MAX)
		record->cap = LS_FRAME_BYTES_MAX;
}

/* What a frame of `units` is charged; at most 2^62 because of the cap. */
static uint64_t cost(const struct ls_limit_abi *record, uint64_t units)
{
	return (units < record->cap ? units : record->cap) * record->mult >> record->shift;
}

static uint64_t max64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t tau_of_burst(const struct ls_limit_abi *record, uint64_t burst)
{
	const unsigned __int128 tau = (unsigned __int128)burst * record->mult >> record->shift;

	assert(tau <= LS_TAU_TICKS_MAX);
	return max64((uint64_t)tau, 1); /* one byte at 1 Tbit/s costs half a tick */
}

static void compile_bucket(struct ls_limit_abi *record, const struct ls_limit *limit)
{
	if (limit->count == LS_COUNT_BYTES)
		price_bytes(record, &limit->rate);
	else
		price_items(record, &limit->rate);
	record->tau = tau_of_burst(record, limit->burst);
	record->clamp = max64(record->tau, cost(record, LS_FRAME_BYTES_MAX));
	if (record->tau > LS_SHORT_NS_MAX * TICKS_PER_NS)
		record->table = LS_TABLE_LONG;
}

static void compile_window(struct ls_limit_abi *record, const struct ls_limit *limit)
{
	/* A sliding window looks back on the one before it, so it remembers two. */
	const uint64_t windows = limit->algorithm == LS_SLIDING_WINDOW ? 2 : 1;

	record->tau = limit->limit;
	record->window_ns = limit->window_ns;
	if (limit->algorithm == LS_SLIDING_LOG)
		record->table = LS_TABLE_LOG;
	else if (limit->window_ns > LS_SHORT_NS_MAX / windows)
		record->table = LS_TABLE_LONG;
}

static void compile_subject(struct ls_limit_abi *record, const struct ls_limit *limit)
{
	switch (limit->per) {
	case LS_PER_SOURCE:
		record->bits4 = 32;
		record->bits6 = 64;
		break;
	case LS_PER_PREFIX:
		record->bits4 = limit->per_ipv4;
		record->bits6 = limit->per_ipv6;
		break;
	case LS_PER_FLOW:
	case LS_PER_DESTINATION:
		record->bits4 = 32;
		record->bits6 = 128;
		break;
	case LS_PER_CLASS:
		break;
	case LS_PER_MAX:
		assert(false);
	}
	if (limit->per == LS_PER_PREFIX || limit->per == LS_PER_DESTINATION ||
	    limit->per == LS_PER_CLASS)
		record->flags |= LS_LIMIT_F_SHARED;
}

struct ls_limit_abi ls_compile_limit(const struct ls_limit *limit)
{
	struct ls_limit_abi record = {
		.algorithm = (uint8_t)limit->algorithm,
		.count = (uint8_t)limit->count,
		.per = (uint8_t)limit->per,
		.table = LS_TABLE_SHORT,
	};

	compile_subject(&record, limit);
	if (limit->cluster)
		record.flags |= LS_LIMIT_F_CLUSTER;
	if (limit->algorithm == LS_TOKEN_BUCKET)
		compile_bucket(&record, limit);
	else
		compile_window(&record, limit);
	return record;
}

void ls_compile_limit_narrow(struct ls_limit_abi *record)
{
	if (record->algorithm == LS_ABI_TOKEN_BUCKET && record->count == LS_ABI_BYTES)
		record->clamp = max64(record->tau, cost(record, PACKET_BYTES_MAX));
}

struct ls_limit_abi ls_compile_overload(const struct ls_rate *rate, uint8_t count, uint16_t slot)
{
	struct ls_limit_abi record = {
		.algorithm = LS_ABI_TOKEN_BUCKET,
		.count = count,
		.per = LS_ABI_PER_CLASS,
		.flags = LS_LIMIT_F_SHARED,
		.slot = slot,
	};

	/*
	 * Below 10/s the burst is less than one packet, so `tokens - 1 >= reserve * burst` cannot
	 * hold and all new work is refused: that is what the contract's arithmetic says of such a
	 * rate.
	 */
	price_items(&record, rate);
	record.tau = OVERLOAD_TAU_TICKS;
	record.clamp = record.tau;
	return record;
}

/* The smallest shift that brings a full state to 255 or less: to 128 or more if any is needed. */
static void set_share(struct ls_slot_abi *slot, uint64_t full)
{
	while (full >> slot->share_shift > 255)
		slot->share_shift++;
	slot->full_share = (uint8_t)(full >> slot->share_shift);
}

struct ls_slot_abi ls_compile_slot_bucket(uint64_t tau)
{
	struct ls_slot_abi slot = { .algorithm = LS_ABI_TOKEN_BUCKET, .known = 1 };

	set_share(&slot, tau);
	return slot;
}

struct ls_slot_abi ls_compile_slot(const struct ls_limit_abi *record)
{
	struct ls_slot_abi slot = { .algorithm = record->algorithm, .known = 1 };

	if (record->algorithm == LS_ABI_TOKEN_BUCKET)
		return ls_compile_slot_bucket(record->tau);
	slot.window_ns = record->window_ns;
	slot.limit = record->tau;
	set_share(&slot, record->tau);
	return slot;
}

struct ls_slot_abi ls_compile_slot_strikes(uint64_t after, uint64_t window_ns)
{
	const struct ls_limit_abi strikes = { .algorithm = LS_ABI_FIXED_WINDOW,
					      .tau = after,
					      .window_ns = window_ns };

	return ls_compile_slot(&strikes);
}
