/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/* The parts of overload shedding that need no server: levels, the control law's edges, breakers, words, and /proc. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "user/overload/ask.h"
#include "user/overload/breaker.h"
#include "user/overload/control.h"
#include "user/overload/host.h"

static const double no_floor[LS_PRIORITIES] = { 0 };

static void heights_and_levels_are_each_others_inverse(void **state)
{
	(void)state;
	for (int percent = 0; percent <= 100; percent++) {
		__u64 admit[LS_PRIORITIES];
		ls_overload_by_height(percent / 100.0, admit);
		assert_true(ls_overload_height(admit) * 100 > percent - 0.001);
		assert_true(ls_overload_height(admit) * 100 < percent + 0.001);
	}
	__u64 admit[LS_PRIORITIES];
	ls_overload_by_height(0.5, admit);
	assert_true(admit[LS_ABI_LOW] == LS_ADMIT(0, 0) && admit[LS_ABI_NORMAL] == LS_ADMIT(0, 0));
	assert_true(admit[LS_ABI_HIGH] == LS_ADMIT_ALL && admit[LS_ABI_CRITICAL] == LS_ADMIT_ALL);
}

/* A period in which `low`, `normal` and `high` came, each spread evenly, and a queue of `delay_s` waited. */
static void step(struct ls_overload_state *state, unsigned low, unsigned normal, unsigned high,
		 double served, double delay_s, struct ls_overload_output *ret)
{
	uint32_t offered[LS_LEVELS] = { 0 };
	struct ls_overload_input input = {
		.period_s = 0.1,
		.offered = offered,
		.served = served,
		.has_waiting = delay_s > 0,
		.signals = { [LS_SIGNAL_ACCEPT_DELAY] = { true, delay_s, 0.02 } },
	};

	for (unsigned i = 0; i < 128; i++) {
		offered[3 * LS_LEVEL_STEPS + i] = low / 128;
		offered[2 * LS_LEVEL_STEPS + i] = normal / 128;
		offered[1 * LS_LEVEL_STEPS + i] = high / 128;
	}
	ls_overload_step(state, &input, ret);
}

static double part(__u64 admit)
{
	return (LS_ADMIT_STEP(admit) + LS_ADMIT_BOUNDARY(admit) / 4294967296.0) / 128;
}

static void priorities_are_filled_from_the_top_and_floors_come_first(void **unused)
{
	static const double floor[LS_PRIORITIES] = { [LS_ABI_LOW] = 0.1 };
	struct ls_overload_state state;
	struct ls_overload_output output;

	(void)unused;
	for (int has_floor = 0; has_floor < 2; has_floor++) {
		ls_overload_init(&state, has_floor ? floor : no_floor);
		/* 1280 + 1280 + 640 came and 1000 get done per period: high whole, of normal what is left. */
		for (int i = 0; i < 20; i++)
			step(&state, 1280, 1280, 640, 1000, i < 3 ? 0.1 : 0.02, &output);
		assert_true(state.sheds);
		assert_true(output.admit[LS_ABI_HIGH] == LS_ADMIT_ALL);
		const double normal = part(output.admit[LS_ABI_NORMAL]) * 1280;
		const double low = part(output.admit[LS_ABI_LOW]) * 1280;
		assert_true(low > (has_floor ? 95 : -1) && low < (has_floor ? 105 : 1));
		assert_true(normal > (has_floor ? 250 : 350) && normal < (has_floor ? 270 : 370));
	}
}

static void a_long_queue_alone_does_not_shed_what_there_is_room_for(void **unused)
{
	struct ls_overload_state state;
	struct ls_overload_output output;

	(void)unused;
	ls_overload_init(&state, no_floor);
	for (int i = 0; i < 20; i++)
		step(&state, 0, 896, 0, 1000, 0.03, &output);
	assert_false(state.sheds);
	for (int p = 0; p < LS_PRIORITIES; p++)
		assert_true(output.admit[p] == LS_ADMIT_ALL);
}

static void it_ends_when_nothing_has_to_be_refused_and_begins_again_at_once(void **unused)
{
	struct ls_overload_state state;
	struct ls_overload_output output;

	(void)unused;
	ls_overload_init(&state, no_floor);
	for (int i = 0; i < 10; i++)
		step(&state, 0, 12800, 0, 1000, 0.1, &output);
	assert_true(state.sheds);
	step(&state, 0, 128, 0, 128, 0, &output);
	for (int i = 0; i < 3; i++) {
		step(&state, 0, 128, 0, 128, 0, &output);
		if (i == 2)
			assert_true(ls_overload_height(output.admit) == 0);
	}
	for (int i = 0; i < 60; i++)
		step(&state, 0, 128, 0, 128, 0, &output);
	assert_false(state.sheds);
	assert_int_equal(state.changes, 2);
	step(&state, 0, 12800, 0, 1000, 0.1, &output);
	assert_true(state.sheds);
}

static void what_came_beyond_a_look_is_taken_back_in_the_next(void **unused)
{
	struct ls_overload_state state;
	struct ls_overload_output output, trimmed;
	struct ls_overload_look look = { .elapsed_s = 0.02,
					 .served = 40,
					 .is_present = true,
					 .id = LS_SIGNAL_ACCEPT_DELAY,
					 .delay_s = 0.02,
					 .target_s = 0.02 };

	(void)unused;
	ls_overload_init(&state, no_floor);
	/* Before it sheds, nothing is trimmed. */
	memset(&trimmed, 0xaa, sizeof(trimmed));
	ls_overload_trim(&state, &look, &trimmed);
	assert_true(trimmed.admit[LS_ABI_NORMAL] == 0xaaaaaaaaaaaaaaaaULL);
	for (int k = 0; k < 20; k++)
		step(&state, 0, 2560, 0, 200, 0.05, &output);
	assert_true(state.sheds);
	/* At its target, as many as wanted: the level is what it is. */
	state.wanted = state.admit = state.capacity;
	look.admitted = state.capacity * 0.02;
	ls_overload_trim(&state, &look, &trimmed);
	const double calm = part(trimmed.admit[LS_ABI_NORMAL]);
	/* Twice as many: fewer next time, and only until they are made up for. */
	look.admitted *= 2;
	ls_overload_trim(&state, &look, &trimmed);
	assert_true(part(trimmed.admit[LS_ABI_NORMAL]) < 0.8 * calm);
	look.admitted = 0;
	ls_overload_trim(&state, &look, &trimmed);
	assert_true(part(trimmed.admit[LS_ABI_NORMAL]) > 0.9 * calm);
	/* A queue above its target is followed at once, down to where it can show that things are better. */
	look.admitted = state.wanted * 0.02;
	look.delay_s = 0.5;
	ls_overload_trim(&state, &look, &trimmed);
	assert_true(part(trimmed.admit[LS_ABI_NORMAL]) < 0.3 * calm);
	assert_true(part(trimmed.admit[LS_ABI_NORMAL]) > 0);
}

static void
who_asks_for_less_than_gets_done_is_not_refused_for_a_queue_near_its_target(void **unused)
{
	struct ls_overload_state state;
	struct ls_overload_output output;
	struct ls_overload_look look = { .elapsed_s = 0.02,
					 .served = 40,
					 .is_present = true,
					 .id = LS_SIGNAL_ACCEPT_DELAY,
					 .delay_s = 0.045,
					 .target_s = 0.02 };

	(void)unused;
	ls_overload_init(&state, no_floor);
	for (int k = 0; k < 30; k++)
		step(&state, 0, 2560, 128, 160, 0.05, &output);
	assert_true(state.sheds);
	ls_overload_trim(&state, &look, &output);
	assert_true(output.admit[LS_ABI_HIGH] == LS_ADMIT_ALL);
	assert_true(part(output.admit[LS_ABI_NORMAL]) < 0.05);
	/* Far above it they are, too. */
	look.delay_s = 0.3;
	ls_overload_trim(&state, &look, &output);
	assert_true(part(output.admit[LS_ABI_HIGH]) < 1);
}

static void capacity_is_learned_from_looks_that_began_with_enough(void **unused)
{
	struct ls_overload_state state;
	struct ls_overload_output output;
	struct ls_overload_look look = { .elapsed_s = 0.02,
					 .is_present = true,
					 .id = LS_SIGNAL_ACCEPT_DELAY,
					 .target_s = 0.02 };

	(void)unused;
	ls_overload_init(&state, no_floor);
	step(&state, 0, 256, 0, 200, 0.02, &output);
	/* Long at each other look: 40 are done in it, and 10 in one that began with nothing. */
	for (int k = 0; k < 200; k++) {
		const bool was_long = k % 2;
		look.served = was_long ? 40 : 10;
		look.delay_s = was_long ? 0 : 0.05;
		ls_overload_watch(&state, &look);
		if (k % 5 == 4)
			step(&state, 0, 256, 0, 125, 0.01, &output);
	}
	assert_true(state.capacity > 1900 && state.capacity < 2100);
}

static void a_probe_is_as_late_as_the_last_and_what_came_in_since(void **unused)
{
	struct ls_overload_state state;

	(void)unused;
	ls_overload_init(&state, no_floor);
	assert_true(ls_overload_probe_delay(&state, 0.1, 50, 0) == 0.1);
	state.capacity = 1000;
	assert_true(ls_overload_probe_delay(&state, 0.1, 50, 0) > 0.149);
	assert_true(ls_overload_probe_delay(&state, 0.1, 50, 0) < 0.151);
	assert_true(ls_overload_probe_delay(&state, 0.1, -500, 0) == 0);
	assert_true(ls_overload_probe_delay(&state, 0.1, -500, 0.3) == 0.3);
}

static void a_guard_gives_way_to_a_server_that_became_faster(void **unused)
{
	struct ls_overload_state state;
	struct ls_overload_output output;
	uint32_t offered[LS_LEVELS] = { [2 * LS_LEVEL_STEPS] = 2000 };

	(void)unused;
	ls_overload_init(&state, no_floor);
	for (int i = 0; i < 10; i++)
		step(&state, 0, 1280, 0, 1000, 0.02, &output);
	assert_true(output.guard > 12000 && output.guard < 13000);
	for (int i = 0; i < 10; i++) {
		const struct ls_overload_input input = {
			.period_s = 0.1,
			.offered = offered,
			.served = 1250,
			.refused_guard = 750,
			.signals = { [LS_SIGNAL_ACCEPT_DELAY] = { true, 0, 0.02 } },
		};
		ls_overload_step(&state, &input, &output);
	}
	assert_true(output.guard > 20000);
}

static void a_queue_has_a_length_only_while_it_sheds(void **unused)
{
	struct ls_overload_state state;
	struct ls_overload_output output;

	(void)unused;
	ls_overload_init(&state, no_floor);
	/* 10000/s, 20 ms: 200 are a target. At half load nothing is known that would be too long. */
	for (int i = 0; i < 10; i++) {
		step(&state, 0, 512, 0, 1000, 0.01, &output);
		assert_int_equal(output.queue_most, 0);
	}
	for (int i = 0; i < 10; i++)
		step(&state, 0, 12800, 0, 1000, 0.1, &output);
	assert_true(state.sheds && output.queue_most > 400 && output.queue_most < 600);
	for (int i = 0; i < 200; i++)
		step(&state, 0, 512, 0, 512, 0, &output);
	assert_false(state.sheds);
	assert_int_equal(output.queue_most, 0);
}

static void a_part_above_its_target_is_brought_back_to_it(void **unused)
{
	struct ls_overload_state state;
	struct ls_overload_output output;
	uint32_t offered[LS_LEVELS] = { 0 };
	double admitted = 2000, cpu = 0;

	(void)unused;
	for (unsigned i = 0; i < 128; i++)
		offered[2 * LS_LEVEL_STEPS + i] = 2048 / 128;
	ls_overload_init(&state, no_floor);
	for (int i = 0; i < 100; i++) {
		cpu = admitted / 2000; /* all of it for 2000 */
		const struct ls_overload_input input = {
			.period_s = 0.1,
			.offered = offered,
			.admitted = admitted,
			.served = -1,
			.signals = { [LS_SIGNAL_CPU] = { true, cpu > 1 ? 1 : cpu, 0.8 } },
		};
		ls_overload_step(&state, &input, &output);
		admitted = state.sheds ? part(output.admit[LS_ABI_NORMAL]) * 2048 : 2048;
		if (admitted > 2048)
			admitted = 2048;
	}
	assert_true(cpu > 0.75 && cpu < 0.85);
	assert_true(state.guard == 0); /* it says nothing about what the server can do */
}

static void a_breaker_opens_at_once_and_closes_in_steps(void **state)
{
	struct ls_breaker breaker;

	(void)state;
	ls_breaker_init(&breaker, 3, 2);
	assert_false(ls_breaker_note(&breaker, false));
	assert_false(ls_breaker_note(&breaker, false));
	assert_false(ls_breaker_note(&breaker, true)); /* not in a row */
	assert_false(ls_breaker_note(&breaker, false));
	assert_false(ls_breaker_note(&breaker, false));
	assert_true(ls_breaker_note(&breaker, false));
	assert_int_equal(breaker.state, LS_BREAKER_OPEN);
	assert_int_equal(ls_breaker_boundary(&breaker), 0);
	assert_false(ls_breaker_note(&breaker, true));
	assert_true(ls_breaker_note(&breaker, true));
	assert_int_equal(ls_breaker_boundary(&breaker) >> 29, 0);
	assert_int_equal(ls_breaker_boundary(&breaker) >> 28, 1);
	assert_false(ls_breaker_note(&breaker, true));
	assert_int_equal(ls_breaker_boundary(&breaker) >> 29, 1);
	assert_true(ls_breaker_note(&breaker, false)); /* half open: one failure */
	assert_int_equal(breaker.state, LS_BREAKER_OPEN);
	for (int i = 0; i < 5; i++)
		ls_breaker_note(&breaker, true);
	assert_int_equal(breaker.state, LS_BREAKER_CLOSED);
	assert_int_equal(breaker.opened, 2);
}

static void an_applications_word_is_a_number_or_one_of_four(void **state)
{
	static const struct {
		const char *text;
		double value; /* < 0: refused */
	} cases[] = {
		{ "0.85\n", 0.85 },
		{ "1", 1 },
		{ "0", 0 },
		{ "healthy\r\n", 0 },
		{ " ok ", 0 },
		{ "unhealthy", 2 },
		{ "overloaded\n", 2 },
		{ "10", 10 },
		{ "11", -1 },
		{ "", -1 },
		{ "\n", -1 },
		{ "-1", -1 },
		{ "nan", -1 },
		{ "inf", -1 },
		{ "0x1", -1 },
		{ "1e0", -1 },
		{ "0,5", -1 },
		{ "1.2.3", -1 },
		{ ".", -1 },
		{ "okay", -1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		double value = -1;
		const bool good = ls_word_parse(cases[i].text, &value);
		if (good != (cases[i].value >= 0) || (good && value != cases[i].value))
			fail_msg("'%s': %d %f", cases[i].text, good, value);
	}
}

/* ---- /proc ---- */

static char folder[64];

static void put(const char *name, const char *text)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void the_host_is_read_as_differences_and_what_is_missing_is_named(void **state)
{
	struct ls_host host;
	double value = 0;
	uint64_t opened = 0, finished = 0, lost = 0;

	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/ls-proc-XXXXXX");
	assert_non_null(mkdtemp(folder));
	char net[80];
	snprintf(net, sizeof(net), "%s/net", folder);
	assert_int_equal(mkdir(net, 0700), 0);
	put("stat", "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 1 1 1\n");
	put("meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    250 kB\n");
	put("net/snmp",
	    "Ip: A B\nIp: 1 2\nTcp: RtoMin ActiveOpens PassiveOpens AttemptFails CurrEstab\n"
	    "Tcp: 200 5 100 0 20\nUdp: X\nUdp: 1\n");
	put("net/netstat", "TcpExt: A ListenOverflows B\nTcpExt: 1 7 3\nIpExt: A\nIpExt: 1\n");
	put("net/softnet_stat", "0000000a 00000001 0\n0000000b 00000002 0\n");
	ls_host_init(&host, folder);
	assert_non_null(ls_host_cpu(&host, &value));
	assert_non_null(ls_host_tcp(&host, &opened, &finished));
	assert_non_null(ls_host_overflows(&host, &lost));
	assert_non_null(ls_host_softnet(&host, &lost));
	assert_null(ls_host_memory(&host, &value));
	assert_true(value > 0.749 && value < 0.751);
	assert_string_equal(ls_host_pressure(&host, 1, &value),
			    "this kernel has no PSI, or it is off");
	put("stat", "cpu  170 0 110 820 0 0 0 0 0 0\n");
	put("net/snmp",
	    "Tcp: RtoMin ActiveOpens PassiveOpens AttemptFails CurrEstab\nTcp: 200 6 150 0 31\n");
	put("net/netstat", "TcpExt: A ListenOverflows B\nTcpExt: 1 9 3\n");
	put("net/softnet_stat", "0000000a 00000001 0\n0000000b 0000000c 0\n");
	assert_null(ls_host_cpu(&host, &value));
	assert_true(value > 0.799 && value < 0.801);
	assert_null(ls_host_tcp(&host, &opened, &finished));
	assert_int_equal(opened, 50);
	assert_int_equal(finished, 40);
	assert_null(ls_host_overflows(&host, &lost));
	assert_int_equal(lost, 2);
	assert_null(ls_host_softnet(&host, &lost));
	assert_int_equal(lost, 10);
	put("net/snmp", "nonsense\n");
	assert_string_equal(ls_host_tcp(&host, &opened, &finished),
			    "/proc/net/snmp is not understood");
	ls_host_fini(&host);
	static const char *const names[] = { "stat", "meminfo", "net/snmp", "net/netstat",
					     "net/softnet_stat" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char path[128];
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		unlink(path);
	}
	rmdir(net);
	rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heights_and_levels_are_each_others_inverse),
		cmocka_unit_test(priorities_are_filled_from_the_top_and_floors_come_first),
		cmocka_unit_test(a_long_queue_alone_does_not_shed_what_there_is_room_for),
		cmocka_unit_test(it_ends_when_nothing_has_to_be_refused_and_begins_again_at_once),
		cmocka_unit_test(what_came_beyond_a_look_is_taken_back_in_the_next),
		cmocka_unit_test(
			who_asks_for_less_than_gets_done_is_not_refused_for_a_queue_near_its_target),
		cmocka_unit_test(capacity_is_learned_from_looks_that_began_with_enough),
		cmocka_unit_test(a_probe_is_as_late_as_the_last_and_what_came_in_since),
		cmocka_unit_test(a_guard_gives_way_to_a_server_that_became_faster),
		cmocka_unit_test(a_queue_has_a_length_only_while_it_sheds),
		cmocka_unit_test(a_part_above_its_target_is_brought_back_to_it),
		cmocka_unit_test(a_breaker_opens_at_once_and_closes_in_steps),
		cmocka_unit_test(an_applications_word_is_a_number_or_one_of_four),
		cmocka_unit_test(the_host_is_read_as_differences_and_what_is_missing_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
