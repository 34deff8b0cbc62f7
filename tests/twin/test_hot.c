/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/* Limits that hold for all nodes, through the whole program: what is thinned, counted, told, and when it ends. */

#include "tests/twin/twin.h"

#include "pure/hot.h"

#define SOURCE 0xcb007107U
#define BYTES TWIN_UDP_BYTES

static const char bucket_policy[] =
	"version: 1\n"
	"cluster: { redis: redis://h }\n"
	"classes:\n"
	"  - name: a\n"
	"    match: { protocol: udp, ports: [5000] }\n"
	"    limits:\n"
	"      - { name: own, rate: 100/s, burst: 100 }\n"
	"      - { name: all, rate: 1k/s, burst: 1k, scope: cluster }\n"
	"  - name: b\n"
	"    match: { protocol: udp, ports: [5001] }\n"
	"    limits:\n"
	"      - { name: all, rate: 10k/s, burst: 10k, scope: cluster }\n";

static uint8_t *frame;

static int send(uint32_t source, uint16_t port, unsigned n)
{
	int passed = 0;

	twin_udp(frame, source, port);
	for (unsigned i = 0; i < n; i++)
		passed += ls_host_judge(frame, BYTES) == TWIN_XDP_PASS;
	return passed;
}

static void clock_at(uint64_t now_ns)
{
	ls_host_set_clock(now_ns);
	ls_host_set_jiffies(now_ns / 4000000);
}

/* An entry for the source under limit `limit` of class `class`; its number. */
static uint32_t enter(struct ls_hot *hot, unsigned class, unsigned limit, uint32_t admit,
		      uint64_t until_ns)
{
	const uint64_t key = ls_host_source_key(SOURCE, 0, class, limit);
	const uint32_t set = ls_hot_set_of(key);

	hot->sets[set].way[1] = (struct ls_hot_way){
		.key = key, .admit = admit, .until = ls_hot_time(until_ns) & ~LS_HOT_F_MORE
	};
	return set * LS_HOT_WAYS + 1;
}

static void a_part_passes_exactly_and_the_rest_consumes_nothing(void **state)
{
	(void)state;
	twin_start(1, bucket_policy);
	clock_at(TWIN_SECOND);
	struct ls_hot *const hot = ls_host_share(100 * TWIN_SECOND);
	const uint32_t entry = enter(hot, 0, 1, 0x40000000, 50 * TWIN_SECOND);
	/* A quarter of 100 packets; `own` holds 100, so what is refused has taken nothing from it. */
	assert_int_equal(send(SOURCE, 5000, 400), 100);
	assert_int_equal(send(SOURCE, 5000, 400), 0);
	const struct ls_hot_count *const count = &ls_host_shares()->count[entry];
	assert_int_equal(count->admitted, 100);
	/* What `own` refuses does not count as demand of `all`: 400 were offered before it was empty. */
	assert_in_range(count->offered, 397, 400);
	/* Another source is not touched. */
	assert_int_equal(send(SOURCE + 1, 5000, 100), 100);
}

static void the_quick_way_thins_as_well(void **state)
{
	(void)state;
	twin_start(1, bucket_policy);
	clock_at(TWIN_SECOND);
	struct ls_hot *const hot = ls_host_share(100 * TWIN_SECOND);
	const uint32_t entry = enter(hot, 1, 0, 0x55555555, 50 * TWIN_SECOND);
	assert_in_range(send(SOURCE, 5001, 3000), 999, 1001);
	const struct ls_hot_count *const count = &ls_host_shares()->count[entry];
	assert_int_equal(count->offered, 3000);
	assert_in_range(count->admitted, 999, 1001);
}

static void the_limits_own_refusals_are_demand(void **state)
{
	(void)state;
	twin_start(1, bucket_policy);
	clock_at(TWIN_SECOND);
	struct ls_hot *const hot = ls_host_share(100 * TWIN_SECOND);
	const uint32_t entry = enter(hot, 1, 0, LS_HOT_ADMIT_ALL, 50 * TWIN_SECOND);
	assert_int_equal(send(SOURCE, 5001, 15000), 10000);
	assert_int_equal(ls_host_shares()->count[entry].offered, 15000);
	assert_int_equal(ls_host_shares()->count[entry].admitted, 10000);
}

static void everything_ends_by_itself(void **state)
{
	(void)state;
	twin_start(1, bucket_policy);
	struct ls_hot *const hot = ls_host_share(100 * TWIN_SECOND);
	enter(hot, 1, 0, 0, 50 * TWIN_SECOND);
	clock_at(49 * TWIN_SECOND);
	assert_int_equal(send(SOURCE, 5001, 100), 0);
	clock_at(51 * TWIN_SECOND);
	assert_int_equal(send(SOURCE, 5001, 100), 100);
	/* serve is gone: nothing is looked at, whatever an entry says. */
	enter(hot, 1, 0, 0, 500 * TWIN_SECOND);
	assert_int_equal(send(SOURCE, 5001, 100), 0);
	clock_at(101 * TWIN_SECOND);
	assert_int_equal(send(SOURCE, 5001, 100), 100);
}

static void a_share_of_the_limit_is_a_slower_bucket(void **state)
{
	(void)state;
	twin_start(1, bucket_policy);
	clock_at(TWIN_SECOND);
	struct ls_hot *const hot = ls_host_share(1000 * TWIN_SECOND);
	const uint64_t key = ls_host_source_key(SOURCE, 0, 1, 0);
	struct ls_hot_limit *const limit = &hot->limits[key & (LS_SLOTS - 1)];
	/* Not shared, and the store is away: a quarter of 10k/s. */
	limit->scale = 4 * LS_HOT_SCALE_ONE;
	limit->until = ls_hot_time(500 * TWIN_SECOND) & ~LS_HOT_F_MORE;
	assert_int_equal(send(SOURCE, 5001, 10000), 2500);
	clock_at(2 * TWIN_SECOND);
	assert_in_range(send(SOURCE, 5001, 10000), 2499, 2501);
	/* on_loss: closed. */
	limit->until |= LS_HOT_F_CLOSED;
	clock_at(20 * TWIN_SECOND);
	assert_int_equal(send(SOURCE, 5001, 1000), 0);
	assert_int_equal(send(SOURCE, 5000, 50), 50);
}

static void a_window_stops_at_this_nodes_part(void **state)
{
	(void)state;
	twin_start(
		1,
		"version: 1\n"
		"cluster: { redis: redis://h }\n"
		"classes:\n"
		"  - name: a\n"
		"    match: any\n"
		"    limits: [{ algorithm: fixed-window, limit: 100, window: 60s, scope: cluster }]\n");
	clock_at(TWIN_SECOND);
	struct ls_hot *const hot = ls_host_share(1000 * TWIN_SECOND);
	const uint32_t entry = enter(hot, 0, 0, LS_HOT_ADMIT_ALL, 500 * TWIN_SECOND);
	hot->sets[entry / LS_HOT_WAYS].way[entry % LS_HOT_WAYS].until |= LS_HOT_F_MORE;
	hot->more[entry] = (struct ls_hot_more){ .ceiling = 30, .number = 0 };
	assert_int_equal(send(SOURCE, 5001, 1000), 30);
	hot->more[entry].ceiling = 45;
	assert_int_equal(send(SOURCE, 5001, 1000), 15);
	/* The next window has nothing to do with that. */
	clock_at(61 * TWIN_SECOND);
	assert_int_equal(send(SOURCE, 5001, 1000), 100);
}

static void a_busy_source_is_told_once_an_epoch_and_a_flood_hides_nobody(void **state)
{
	(void)state;
	twin_start(1, bucket_policy);
	clock_at(TWIN_SECOND);
	struct ls_hot *const hot = ls_host_share(1000 * TWIN_SECOND);
	const uint64_t key = ls_host_source_key(SOURCE, 0, 1, 0);
	struct ls_hot_limit *const limit = &hot->limits[key & (LS_SLOTS - 1)];
	limit->report_at = 50;
	limit->epoch_shift = 30;
	uint64_t seed = 3;
	/* Twenty strangers for each of its packets: 20 000 over 1024 places, so about 20 in its own, against 1000. */
	for (int i = 0; i < 1000; i++) {
		send(SOURCE, 5001, 1);
		for (int j = 0; j < 20; j++)
			send((uint32_t)twin_random(&seed), 5001, 1);
	}
	const struct ls_hot_cpu *const own = ls_host_shares();
	unsigned told = 0;
	for (uint64_t i = 0; i < own->head; i++) {
		const struct ls_hot_news *const news = &own->ring[i % LS_HOT_RING];
		told += news->key == key && news->source_low == SOURCE && news->family == 4;
	}
	assert_int_equal(told, 1);
	assert_int_equal(own->head, 1);
	clock_at(4 * TWIN_SECOND);
	send(SOURCE, 5001, 60);
	assert_int_equal(own->head, 2);
}

static void while_nothing_is_shared_one_packet_in_eight_is_looked_at(void **state)
{
	(void)state;
	twin_start(1, bucket_policy);
	clock_at(TWIN_SECOND);
	struct ls_hot *const hot = ls_host_share(1000 * TWIN_SECOND | LS_HOT_F_SAMPLED);
	const uint64_t key = ls_host_source_key(SOURCE, 0, 1, 0);
	struct ls_hot_limit *const limit = &hot->limits[key & (LS_SLOTS - 1)];
	const struct ls_hot_cpu *const own = ls_host_shares();
	limit->report_at = 4000;
	limit->epoch_shift = 30;
	/* 2 000 packets are 250 samples of eight, give or take 80: far from 4 000, and from what 8 000 are. */
	assert_int_equal(send(SOURCE, 5001, 2000), 2000);
	assert_int_equal(own->head, 0);
	const struct ls_hot_warm *const warm = &own->warm[(key >> 20) % LS_HOT_WARM];
	assert_true(warm->key == key);
	assert_in_range(warm->count, 1300, 2700);
	assert_int_equal(warm->count % LS_HOT_SAMPLE, 0);
	assert_int_equal(send(SOURCE, 5001, 6000), 6000);
	assert_int_equal(own->head, 1);
	assert_int_equal(own->ring[0].source_low, SOURCE);
}

static int setup(void **state)
{
	(void)state;
	frame = ls_host_frame(4096);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_part_passes_exactly_and_the_rest_consumes_nothing),
		cmocka_unit_test(the_quick_way_thins_as_well),
		cmocka_unit_test(the_limits_own_refusals_are_demand),
		cmocka_unit_test(everything_ends_by_itself),
		cmocka_unit_test(a_share_of_the_limit_is_a_slower_bucket),
		cmocka_unit_test(a_window_stops_at_this_nodes_part),
		cmocka_unit_test(while_nothing_is_shared_one_packet_in_eight_is_looked_at),
		cmocka_unit_test(a_busy_source_is_told_once_an_epoch_and_a_flood_hides_nobody),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
