/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/* Overload shedding as the program does it: who is refused by a level, by the guard, by a breaker, and who is not. */

#include "tests/twin/twin.h"
#include "loadshed/overload_abi.h"

#define SYN 0x02
#define ACK 0x10
#define TCP_BYTES 54

static const char policy[] = "version: 1\n"
			     "allow: [203.0.113.250]\n"
			     "overload: {}\n"
			     "classes:\n"
			     "  - { name: top, match: { ports: [1] }, priority: critical }\n"
			     "  - { name: good, match: { ports: [2] }, priority: high }\n"
			     "  - { name: plain, match: { ports: [3] }, priority: normal,\n"
			     "      check: { tcp: \"192.0.2.1:3\" } }\n"
			     "  - { name: last, match: { ports: [4, 53] }, priority: low }\n"
			     "  - { name: held, match: { ports: [5] },\n"
			     "      limits: [{ rate: 1/d, burst: 1 }] }\n";

static uint8_t *frame;
static uint64_t now_ns;

static void start(void)
{
	twin_start(1, policy);
	if (!frame)
		frame = ls_host_frame(128);
	now_ns = TWIN_SECOND;
	ls_host_set_clock(now_ns);
}

/* Each a little later, so that no reading of the clock is reused. */
static int judge(size_t bytes)
{
	now_ns += 10000;
	ls_host_set_clock(now_ns);
	return ls_host_judge(frame, bytes) == TWIN_XDP_PASS;
}

static int udp(uint32_t source, uint16_t port)
{
	twin_udp(frame, source, port);
	return judge(TWIN_UDP_BYTES);
}

static int tcp(uint32_t source, uint16_t port, uint8_t flags)
{
	twin_udp(frame, source, port);
	memset(frame + 38, 0, TCP_BYTES - 38);
	frame[17] = 40; /* IPv4 total length */
	frame[23] = 6;
	frame[46] = 0x50;
	frame[47] = flags;
	return judge(TCP_BYTES);
}

static void set_level(const __u64 *admit, uint64_t for_ns)
{
	struct ls_level_abi *level = &ls_host_overload()->level;
	memcpy(level->admit, admit, sizeof(level->admit));
	level->until_ns = now_ns + for_ns;
}

#define NONE LS_ADMIT(0, 0)
static const __u64 only_high[LS_PRIORITIES] = { NONE, NONE, LS_ADMIT_ALL, LS_ADMIT_ALL };

static void without_a_level_nothing_is_refused_and_all_is_counted(void **state)
{
	(void)state;
	start();
	for (uint32_t i = 0; i < 100; i++)
		assert_true(tcp(0xcb007100 + i, (uint16_t)(1 + i % 4), SYN));
	const struct ls_offered *own = ls_host_offered();
	uint64_t sum = 0, admitted = 0;
	for (unsigned i = 0; i < LS_LEVELS; i++)
		sum += own->offered[i];
	for (unsigned p = 0; p < LS_PRIORITIES; p++) {
		admitted += own->admitted[p];
		uint64_t of = 0;
		for (unsigned i = 0; i < LS_LEVEL_STEPS; i++)
			of += own->offered[(LS_ABI_CRITICAL - p) * LS_LEVEL_STEPS + i];
		assert_int_equal(of, 25);
	}
	assert_int_equal(sum, 100);
	assert_int_equal(admitted, 100);
	assert_int_equal(own->admitted_tcp, 100);
}

static void a_level_refuses_new_work_of_low_priority_and_nothing_else(void **state)
{
	(void)state;
	start();
	set_level(only_high, TWIN_SECOND);
	for (uint32_t i = 0; i < 50; i++) {
		const uint32_t source = 0xcb007100 + i;
		assert_true(tcp(source, 1, SYN));
		assert_true(tcp(source, 2, SYN));
		assert_false(tcp(source, 3, SYN));
		assert_false(tcp(source, 4, SYN));
		assert_false(tcp(source, 9, SYN)); /* no class: normal */
		assert_true(tcp(source, 3, ACK));
		assert_true(tcp(source, 4, SYN | ACK));
	}
	assert_true(tcp(0xcb0071fa, 4, SYN)); /* allowed */
	assert_int_equal(
		ls_host_counter(LS_COUNTER_GLOBAL(LS_VERDICT_DROP, LS_REASON_OVERLOAD)).packets,
		50);
	assert_int_equal(ls_host_offered()->refused_level[LS_ABI_NORMAL], 100);
	assert_int_equal(ls_host_offered()->refused_level[LS_ABI_LOW], 50);
}

static void a_level_ends_by_itself(void **state)
{
	(void)state;
	start();
	set_level(only_high, TWIN_SECOND);
	const uint64_t end = ls_host_overload()->level.until_ns;
	assert_false(tcp(0xcb007101, 3, SYN));
	now_ns = end - 20000;
	assert_false(tcp(0xcb007101, 3, SYN));
	now_ns = end;
	assert_true(tcp(0xcb007101, 3, SYN));
}

static void the_hand_comes_before_the_controller(void **state)
{
	(void)state;
	start();
	set_level(only_high, 10 * TWIN_SECOND);
	struct ls_level_abi *hand = &ls_host_overload()->hand;
	for (int p = 0; p < LS_PRIORITIES; p++)
		hand->admit[p] = LS_ADMIT_ALL;
	hand->until_ns = now_ns + TWIN_SECOND;
	assert_true(tcp(0xcb007101, 3, SYN));
	now_ns += TWIN_SECOND;
	assert_false(tcp(0xcb007101, 3, SYN));
}

static void the_same_sources_fail_together(void **state)
{
	(void)state;
	start();
	const __u64 half[LS_PRIORITIES] = { NONE, LS_ADMIT(64, 0), LS_ADMIT_ALL, LS_ADMIT_ALL };
	set_level(half, 100 * TWIN_SECOND);
	unsigned admitted = 0;
	for (uint32_t i = 0; i < 1000; i++) {
		const int first = tcp(0x0a000000 + i, 3, SYN);
		admitted += (unsigned)first;
		for (int again = 0; again < 3; again++)
			assert_int_equal(tcp(0x0a000000 + i, 3, SYN), first);
	}
	assert_in_range(admitted, 430, 570);
	/* Another hour: others. */
	ls_host_overload()->salt = 0x12345678;
	unsigned same = 0;
	for (uint32_t i = 0; i < 1000; i++) {
		ls_host_overload()->salt = 0;
		const int before = tcp(0x0a000000 + i, 3, SYN);
		ls_host_overload()->salt = 0x12345678;
		same += tcp(0x0a000000 + i, 3, SYN) == before;
	}
	assert_in_range(same, 400, 600);
}

static void the_edge_is_split_exactly(void **state)
{
	(void)state;
	start();
	for (unsigned step = 0; step < LS_LEVEL_STEPS / 2; step += 9) {
		/* A source of just this step. */
		uint32_t source = 0;
		for (uint32_t i = 0; i < 100000 && !source; i++) {
			const __u64 up_to[LS_PRIORITIES] = { NONE, LS_ADMIT(step + 1, 0), 0, 0 };
			const __u64 below[LS_PRIORITIES] = { NONE, LS_ADMIT(step, 0), 0, 0 };
			set_level(up_to, TWIN_SECOND);
			if (!tcp(0x0a000000 + i, 3, SYN))
				continue;
			set_level(below, TWIN_SECOND);
			if (!tcp(0x0a000000 + i, 3, SYN))
				source = 0x0a000000 + i;
		}
		assert_true(source);
		const __u64 edge[LS_PRIORITIES] = { NONE, LS_ADMIT(step, 0x40000000), 0, 0 };
		unsigned admitted = 0;
		set_level(edge, TWIN_SECOND);
		for (int i = 0; i < 400; i++)
			admitted += (unsigned)tcp(source, 3, SYN);
		assert_in_range(admitted, 99, 101);
	}
}

static void what_a_limit_refuses_is_no_offer_and_what_a_level_refuses_costs_nothing(void **state)
{
	(void)state;
	start();
	set_level(only_high, TWIN_SECOND);
	assert_false(tcp(0xcb007101, 5, SYN)); /* by the level: the limit's one token stays */
	ls_host_overload()->level.until_ns = 0;
	const uint32_t before = ls_host_offered()->refused_level[LS_ABI_NORMAL];
	assert_int_equal(before, 1);
	assert_true(tcp(0xcb007101, 5, SYN));
	uint64_t sum = 0, again = 0;
	for (unsigned i = 0; i < LS_LEVELS; i++)
		sum += ls_host_offered()->offered[i];
	assert_false(tcp(0xcb007101, 5, SYN)); /* by the limit */
	for (unsigned i = 0; i < LS_LEVELS; i++)
		again += ls_host_offered()->offered[i];
	assert_int_equal(sum, 2);
	assert_int_equal(again, sum);
}

static void a_flow_that_was_admitted_goes_on(void **state)
{
	(void)state;
	start();
	assert_true(udp(0xcb007101, 3));
	set_level(only_high, 1000 * TWIN_SECOND);
	assert_true(udp(0xcb007101, 3));
	assert_false(udp(0xcb007102, 3));
	assert_false(udp(0xcb007102, 3));
	/* It is kept alive by its packets, and forgotten a minute after the last. */
	for (int i = 0; i < 20; i++) {
		now_ns += 20 * TWIN_SECOND;
		assert_true(udp(0xcb007101, 3));
	}
	now_ns += 70 * TWIN_SECOND;
	assert_false(udp(0xcb007101, 3));
	/* Each query to a DNS server is work of its own. */
	ls_host_overload()->level.until_ns = 0;
	assert_true(udp(0xcb007103, 53));
	set_level(only_high, TWIN_SECOND);
	assert_false(udp(0xcb007103, 53));
}

static void many_flows_do_not_push_out_one_that_is_used(void **state)
{
	(void)state;
	start();
	assert_true(udp(0xcb007101, 3));
	for (uint32_t i = 0; i < 400000; i++) {
		udp(0x0a000000 + i, 3);
		if (i % 1000 == 0) {
			now_ns += TWIN_SECOND / 10;
			assert_true(udp(0xcb007101, 3));
		}
	}
	set_level(only_high, TWIN_SECOND);
	assert_true(udp(0xcb007101, 3));
}

static void a_source_above_its_fair_rate_comes_last(void **state)
{
	(void)state;
	start();
	ls_host_overload()->heavy_after = 10;
	/* Normal as far as those within their rate reach. */
	const __u64 light[LS_PRIORITIES] = { NONE, LS_ADMIT(LS_LEVEL_STEPS / 2, 0), LS_ADMIT_ALL,
					     LS_ADMIT_ALL };
	set_level(light, TWIN_SECOND);
	for (int i = 0; i < 100; i++)
		assert_int_equal(tcp(0xcb007101, 3, SYN), i < 10);
	for (uint32_t i = 0; i < 100; i++)
		assert_true(tcp(0x0a000000 + i, 3, SYN));
	/* A window of silence, and it is one like others. */
	now_ns += 3 * TWIN_SECOND;
	set_level(light, TWIN_SECOND);
	assert_true(tcp(0xcb007101, 3, SYN));
}

static void the_guard_holds_its_rate_and_leaves_room_for_those_above(void **state)
{
	(void)state;
	start();
	struct ls_overload *overload = ls_host_overload();
	overload->guard.mult = 64000000; /* 1000/s in ticks */
	overload->guard.tau = 50 * 64000000ULL;
	overload->guard.clamp = overload->guard.tau;
	overload->guard_until_ns = now_ns + 100 * TWIN_SECOND;
	unsigned low = 0, critical = 0;
	for (uint32_t i = 0; i < 200; i++)
		low += (unsigned)tcp(0x0a000000 + i, 4, SYN);
	for (uint32_t i = 0; i < 200; i++)
		critical += (unsigned)tcp(0x0a000000 + i, 1, SYN);
	assert_in_range(low, 25, 28);
	assert_in_range(critical, 25, 30);
	assert_int_equal(ls_host_offered()->refused_guard[LS_ABI_LOW], 200 - low);
	assert_true(tcp(0x0a000001, 4, ACK));
	overload->guard_until_ns = now_ns;
	assert_true(tcp(0x0a000001, 4, SYN));
}

static void a_breaker_refuses_its_class_alone_and_half_open_lets_a_part_through(void **state)
{
	(void)state;
	start();
	unsigned slot = LS_CLASS_SLOTS;
	for (unsigned i = 0; i < LS_CLASS_SLOTS; i++)
		if (strcmp(twin_ledger.classes[i].name, "plain") == 0)
			slot = i;
	assert_true(slot < LS_CLASS_SLOTS);
	struct ls_breaker_abi *breaker = &ls_host_overload()->breaker[slot];
	*breaker = (struct ls_breaker_abi){ .until_ns = now_ns + TWIN_SECOND };
	assert_false(tcp(0xcb007101, 3, SYN));
	assert_true(tcp(0xcb007101, 3, ACK));
	assert_true(tcp(0xcb007101, 4, SYN));
	breaker->boundary = 0x10000000; /* 1/16 */
	unsigned admitted = 0;
	for (int i = 0; i < 160; i++)
		admitted += (unsigned)tcp(0xcb007101, 3, SYN);
	assert_in_range(admitted, 9, 11);
	now_ns += 2 * TWIN_SECOND;
	assert_true(tcp(0xcb007101, 3, SYN));
}

static void in_monitor_mode_it_is_only_counted(void **state)
{
	(void)state;
	start();
	twin_publish("version: 1\noverload: { mode: monitor }\n", 1);
	set_level(only_high, TWIN_SECOND);
	assert_true(tcp(0xcb007101, 3, SYN));
	assert_int_equal(
		ls_host_counter(LS_COUNTER_GLOBAL(LS_VERDICT_WOULD_DROP, LS_REASON_OVERLOAD))
			.packets,
		1);
}

static void a_policy_without_it_counts_nothing(void **state)
{
	(void)state;
	start();
	twin_publish("version: 1\n", 1);
	set_level(only_high, TWIN_SECOND);
	assert_true(tcp(0xcb007101, 3, SYN));
	for (unsigned i = 0; i < LS_LEVELS; i++)
		assert_int_equal(ls_host_offered()->offered[i], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_level_nothing_is_refused_and_all_is_counted),
		cmocka_unit_test(a_level_refuses_new_work_of_low_priority_and_nothing_else),
		cmocka_unit_test(a_level_ends_by_itself),
		cmocka_unit_test(the_hand_comes_before_the_controller),
		cmocka_unit_test(the_same_sources_fail_together),
		cmocka_unit_test(the_edge_is_split_exactly),
		cmocka_unit_test(
			what_a_limit_refuses_is_no_offer_and_what_a_level_refuses_costs_nothing),
		cmocka_unit_test(a_flow_that_was_admitted_goes_on),
		cmocka_unit_test(many_flows_do_not_push_out_one_that_is_used),
		cmocka_unit_test(a_source_above_its_fair_rate_comes_last),
		cmocka_unit_test(the_guard_holds_its_rate_and_leaves_room_for_those_above),
		cmocka_unit_test(
			a_breaker_refuses_its_class_alone_and_half_open_lets_a_part_through),
		cmocka_unit_test(in_monitor_mode_it_is_only_counted),
		cmocka_unit_test(a_policy_without_it_counts_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
