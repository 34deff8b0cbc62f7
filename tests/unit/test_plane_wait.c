/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * How long a limit makes wait and how much it has left, held against the `take` of its algorithm: random states,
 * then refused one nanosecond before the end of the wait and admitted at it; as much as remains is admitted and
 * one more is not.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "pure/limit.h"
#include "user/plane/wait.h"

static uint64_t seed;

static uint64_t below(uint64_t n)
{
	uint64_t z = seed += 0x9e3779b97f4a7c15ULL;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return (z ^ z >> 31) % n;
}

static struct ls_instant later(struct ls_instant at, uint64_t ns)
{
	return (struct ls_instant){ at.now + (ns << LS_TICKS_PER_NS_SHIFT), at.wall_ns + ns };
}

static bool takes(const struct ls_standing *standing, struct ls_instant at, uint64_t cost,
		  uint64_t *ret_next)
{
	static const struct ls_log empty;
	__u64 next = 0;
	const bool admitted =
		standing->limit->algorithm == LS_ABI_SLIDING_LOG
			? ls_log_take(standing->log ? standing->log : &empty, standing->state,
				      at.now, standing->limit->window_ns, standing->ceiling, &next)
			: ls_limit_take(standing->limit, at.now, at.wall_ns, standing->state, cost,
					standing->ceiling, &next);

	if (admitted)
		*ret_next = next;
	return admitted;
}

static void check_wait(const struct ls_standing *standing, struct ls_instant at, uint64_t cost)
{
	const uint64_t wait_ns = ls_standing_wait(standing, at, cost);
	uint64_t next;

	if (wait_ns == LS_WAIT_NEVER) {
		for (int i = 0; i < 100; i++)
			assert_false(takes(standing, later(at, below(1ULL << 45)), cost, &next));
		return;
	}
	assert_true(takes(standing, later(at, wait_ns), cost, &next));
	if (wait_ns)
		assert_false(takes(standing, later(at, wait_ns - 1), cost, &next));
}

/* A state that some packets have left, at times up to `at`. */
static struct ls_instant drive(struct ls_standing *standing, struct ls_log *log, uint64_t max_cost)
{
	const uint64_t window_ns = standing->limit->window_ns;
	struct ls_instant at = { 1 + below(1ULL << 40),
				 1700000000000000000ULL + below(1ULL << 50) };

	for (uint64_t i = below(40); i > 0; i--) {
		uint64_t next;
		at = later(at, below(below(4) ? 1 + standing->ceiling / 64 % (1ULL << 33)
					      : 1 + window_ns + window_ns / 8));
		if (!takes(standing, at, 1 + below(max_cost), &next))
			continue;
		if (standing->limit->algorithm == LS_ABI_SLIDING_LOG) {
			log->stamp[(next - 2) & (LS_LOG_STAMPS - 1)] = at.now;
			standing->log = log;
		}
		standing->state = next;
	}
	return later(at,
		     below(1 + (window_ns ? window_ns : standing->ceiling / 64) / (1 + below(9))));
}

static void a_window_admits_after_its_wait_and_not_before(void **context)
{
	(void)context;
	for (int i = 0; i < 100000; i++) {
		struct ls_log log = { 0 };
		const uint8_t algorithm = (uint8_t)(LS_ABI_FIXED_WINDOW + below(3));
		const struct ls_limit_abi limit = {
			.algorithm = algorithm,
			.tau = 1 + below(algorithm == LS_ABI_SLIDING_LOG ? LS_LOG_STAMPS : 60),
			.window_ns = LS_WINDOW_NS_MIN +
				     below(below(3) ? 100 * LS_WINDOW_NS_MIN : LS_WINDOW_NS_MAX),
		};
		struct ls_standing standing = { .limit = &limit, .ceiling = limit.tau };
		const struct ls_instant at =
			drive(&standing, &log, algorithm == LS_ABI_FIXED_WINDOW ? 4 : 1);
		const uint64_t cost = 1 + (algorithm == LS_ABI_FIXED_WINDOW ? below(8) : 0);
		const uint64_t remaining = ls_standing_remaining(&standing, at);
		uint64_t next;

		check_wait(&standing, at, cost);
		assert_true(remaining <= limit.tau);
		assert_int_equal(remaining > 0, takes(&standing, at, 1, &next));
		if (remaining && algorithm != LS_ABI_SLIDING_LOG) {
			assert_true(takes(&standing, at, remaining, &next));
			assert_false(takes(&standing, at, remaining + 1, &next));
		}
	}
}

static void a_bucket_admits_after_its_wait_and_not_before(void **context)
{
	(void)context;
	for (int i = 0; i < 100000; i++) {
		const uint64_t mult = 1 + below(1ULL << (1 + below(38)));
		const uint8_t shift = below(2) ? 0 : (uint8_t)below(20);
		const uint64_t burst = 1 + below(1000);
		const struct ls_limit_abi limit = {
			.algorithm = LS_ABI_TOKEN_BUCKET,
			.mult = mult << shift,
			.shift = shift,
			.cap = 1U << 19,
			.tau = burst * mult,
			.clamp = 2 * burst * mult,
			.per = LS_ABI_PER_SOURCE,
		};
		struct ls_standing standing = { .limit = &limit, .ceiling = limit.tau };
		const struct ls_instant at = drive(&standing, NULL, mult * 2);
		const uint64_t wait_ns = ls_standing_wait(&standing, at, mult);
		uint64_t next, remaining = ls_standing_remaining(&standing, at);

		assert_int_equal(ls_standing_ceiling(&standing), burst);
		assert_true(takes(&standing, later(at, wait_ns), mult, &next));
		if (wait_ns)
			assert_false(takes(&standing, later(at, wait_ns - 1), mult, &next));
		/* Unit by unit. */
		uint64_t admitted = 0;
		while (takes(&standing, at, mult, &next)) {
			standing.state = next;
			admitted++;
		}
		assert_int_equal(remaining, admitted);
	}
}

static void a_nat_factor_multiplies_what_a_bucket_holds(void **context)
{
	(void)context;
	const struct ls_limit_abi limit = { .algorithm = LS_ABI_TOKEN_BUCKET,
					    .mult = 64000,
					    .cap = 1,
					    .tau = 640000,
					    .clamp = 640000 };
	const struct ls_standing standing = { .limit = &limit, .ceiling = limit.tau, .factor = 32 };

	assert_int_equal(ls_standing_ceiling(&standing), 320);
	assert_int_equal(ls_standing_remaining(&standing, (struct ls_instant){ 5, 5 }), 320);
}

/* DESIGN 1.2: limit 50 per 60 s, 42 in the previous window, 15 s into the current one. */
static void the_check_value_of_the_contract(void **context)
{
	(void)context;
	const struct ls_limit_abi limit = { .algorithm = LS_ABI_SLIDING_WINDOW,
					    .tau = 50,
					    .window_ns = 60000000000ULL };
	const uint64_t number = 1000, state = number << 40 | 42ULL << 20 | 17;
	struct ls_standing standing = { .limit = &limit, .ceiling = 50, .state = state };
	const struct ls_instant at = { 1, number * 60000000000ULL + 15000000000ULL };

	assert_int_equal(ls_standing_remaining(&standing, at), 1);
	assert_int_equal(ls_standing_wait(&standing, at, 1), 0);
	standing.state++;
	assert_int_equal(ls_standing_remaining(&standing, at), 0);
	/* 42 * left / 60 + 18 + 1 <= 50: 44.29 s may be left, 45 are. */
	assert_int_equal(ls_standing_wait(&standing, at, 1), 714285715);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_window_admits_after_its_wait_and_not_before),
		cmocka_unit_test(a_bucket_admits_after_its_wait_and_not_before),
		cmocka_unit_test(a_nat_factor_multiplies_what_a_bucket_holds),
		cmocka_unit_test(the_check_value_of_the_contract),
	};

	seed = (uint64_t)time(NULL);
	print_message("# seed %llu\n", (unsigned long long)seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
