/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/* Claiming ways: several limits of one packet share a set and must not get into each other's way. */

#include "tests/twin/twin.h"

#define CLASS "version: 1\nclasses:\n  - name: all\n    match: any\n    limits:\n"

/* A TCP SYN from the source of twin_udp(). */
static void make_syn(uint8_t *frame, uint32_t source)
{
	twin_udp(frame, source, 80);
	frame[17] = 40;
	frame[23] = 6;
	memset(frame + 38, 0, 16);
	frame[46] = 0x50;
	frame[47] = 2;
}

#define SYN_BYTES 54

static void newcomers_of_one_packet_get_a_way_each(void **state)
{
	(void)state;
	twin_start(1, CLASS "      - { name: a, rate: 1/h, burst: 1 }\n"
			    "      - { name: b, rate: 1/h, burst: 2 }\n"
			    "      - { name: c, algorithm: fixed-window, limit: 3, window: 1s }\n");
	uint8_t *frame = ls_host_frame(4096);
	uint64_t now = 1700000000 * TWIN_SECOND;
	ls_host_set_epoch(now, now);
	for (uint32_t source = 1; source <= 500; source++) {
		twin_udp(frame, source, 53);
		assert_int_equal(ls_host_replay(frame, TWIN_UDP_BYTES, now).verdict,
				 LS_VERDICT_PASS);
		struct ls_replay_abi said = ls_host_replay(frame, TWIN_UDP_BYTES, now);
		assert_int_equal(said.verdict, LS_VERDICT_DROP);
		assert_int_equal(said.limit, 0);
	}
	assert_int_equal(ls_host_control()->contended, 0);
	size_t sets;
	const struct ls_ways *ways = ls_host_ways(&sets);
	unsigned used = 0;
	for (size_t set = 0; set < sets; set++)
		for (int way = 0; way < LS_WAYS; way++)
			used += ways[set].way[way].key != 0;
	assert_int_equal(used, 3 * 500);
	ls_host_stop();
}

/* The first packet leaves a state of `all` only; when that is dead, `new` must not take its way. */
static void a_newcomer_leaves_the_dead_way_of_its_own_subject_alone(void **state)
{
	(void)state;
	twin_start(
		1, CLASS
		"      - { name: new, count: connections, algorithm: sliding-log, limit: 1, window: 5s }\n"
		"      - { name: all, algorithm: sliding-log, limit: 1, window: 5s }\n"
		"      - { name: more, rate: 1/h, burst: 5 }\n");
	uint8_t *frame = ls_host_frame(4096);
	uint64_t now = 1700000000 * TWIN_SECOND;
	ls_host_set_epoch(now, now);
	twin_udp(frame, 7, 80);
	assert_int_equal(ls_host_replay(frame, TWIN_UDP_BYTES, now).verdict, LS_VERDICT_PASS);
	make_syn(frame, 7);
	now += 16 * TWIN_SECOND;
	assert_int_equal(ls_host_replay(frame, SYN_BYTES, now).verdict, LS_VERDICT_PASS);
	struct ls_replay_abi said = ls_host_replay(frame, SYN_BYTES, now);
	assert_int_equal(said.verdict, LS_VERDICT_DROP);
	assert_int_equal(said.limit, 0);
	ls_host_stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(newcomers_of_one_packet_get_a_way_each),
		cmocka_unit_test(a_newcomer_leaves_the_dead_way_of_its_own_subject_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
