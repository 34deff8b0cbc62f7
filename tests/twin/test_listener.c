/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/* Refusal by the listener's accept queue: the rule itself, and who is asked for what. */

#include "tests/twin/twin.h"
#include "loadshed/overload_abi.h"
#include "pure/listener.h"

#define SYN 0x02
#define ACK 0x10
#define TCP_BYTES 54
#define TCP6_BYTES 74

static const char policy[] = "version: 1\n"
			     "allow: [203.0.113.250]\n"
			     "overload: {}\n"
			     "classes:\n"
			     "  - { name: top, match: { ports: [1] }, priority: critical }\n"
			     "  - { name: good, match: { ports: [2] }, priority: high }\n"
			     "  - { name: plain, match: { ports: [3] }, priority: normal }\n"
			     "  - { name: last, match: { ports: [4] }, priority: low }\n"
			     "  - { name: once, match: { ports: [5] },\n"
			     "      limits: [{ count: connections, rate: 1/d, burst: 1 }] }\n";

static uint8_t *frame;
static uint64_t now_ns;

static void start_with(const char *text, uint32_t waiting, uint32_t most)
{
	twin_start(1, text);
	if (!frame)
		frame = ls_host_frame(128);
	now_ns = TWIN_SECOND;
	ls_host_set_clock(now_ns);
	ls_host_listener()->state = BPF_TCP_LISTEN;
	ls_host_listener()->waiting = waiting;
	ls_host_listener()->most = most;
}

static int judge(size_t bytes)
{
	now_ns += 10000;
	ls_host_set_clock(now_ns);
	const int passes = ls_host_judge(frame, bytes) == TWIN_XDP_PASS;
	assert_int_equal(ls_host_listener()->is_held, 0);
	return passes;
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

/* From 2001:db8::1:0:0:2 port 5000 to 2001:db8::a port 3. */
static int tcp6(void)
{
	static const uint8_t base[TCP6_BYTES] = {
		2,    0,    0,	  0,	0,  1, 2,  0,	 0,    0,    0,	   2, 0x86, 0xdd, 0x60,
		0,    0,    0,	  0,	20, 6, 64, 0x20, 0x01, 0x0d, 0xb8, 0, 0,    0,	  0,
		0,    1,    0,	  0,	0,  0, 0,  2, /* source */
		0x20, 0x01, 0x0d, 0xb8, 0,  0, 0,  0,	 0,    0,    0,	   0, 0,    0,	  0,
		10,   0x13, 0x88, 0,	3,  0, 0,  0,	 0,    0,    0,	   0, 0,    0x50, SYN,
	};
	memcpy(frame, base, sizeof(base));
	return judge(TCP6_BYTES);
}

static void the_rule_is_the_one_that_the_manual_has(void **state)
{
	static const struct {
		unsigned waiting, most, coming, at, held;
		int is_late;
		bool refuses;
	} rows[] = {
		/* FIELD: a backlog of 16 and 75 % hold 12. */
		{ 11, 16, 0, 7500, 0, 1, false },
		{ 12, 16, 0, 7500, 0, 1, true },
		/* Nobody waits: always place, even without a backlog, which still holds one. */
		{ 0, 0, 1000, 1, 0, 1, false },
		{ 1, 0, 0, 10000, 0, 1, true },
		{ 0, 128, 100000, 1, 0, 1, false },
		/* Half open ones count, and for no more than half of the place. */
		{ 90, 128, 5, 7500, 0, 1, false },
		{ 90, 128, 6, 7500, 0, 1, true },
		{ 47, 128, 1U << 31, 7500, 0, 1, false },
		{ 48, 128, 1U << 31, 7500, 0, 1, true },
		/* What waits too long is refused however long the backlog is; what is half open does not wait. */
		{ 23, 4096, 1000, 7500, 31, 1, false },
		{ 24, 4096, 0, 7500, 31, 1, true },
		{ 24, 4096, 0, 8750, 31, 1, false },
		{ 12, 16, 0, 7500, 31, 1, true },
		{ 0, 4096, 0, 1, 1, 1, false },
		/* While the level is kept, for near clients alone. */
		{ 24, 4096, 7, 7500, 31, 0, true },
		{ 24, 4096, 8, 7500, 31, 0, false },
		/* No product of two counts wraps. */
		{ 0x7fffffff, 0xffffffff, 0, 7500, 0, 1, false },
		{ 0xffffffff, 0xffffffff, 0xffffffff, 10000, 0, 1, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (ls_listener_refuses(rows[i].waiting, rows[i].most, rows[i].coming, rows[i].at,
					rows[i].held, rows[i].is_late) != rows[i].refuses)
			fail_msg("row %zu: %u wait of %u", i, rows[i].waiting, rows[i].most);
}

static void the_lower_the_priority_the_earlier_it_is_refused(void **state)
{
	(void)state;
	/* Of 16: low from 8, normal from 12, high from 14, critical from 16. */
	static const uint32_t first[] = { [1] = 16, [2] = 14, [3] = 12, [4] = 8 };
	for (uint16_t port = 1; port <= 4; port++) {
		for (uint32_t waiting = 0; waiting <= 17; waiting++) {
			start_with(policy, waiting, 16);
			assert_int_equal(tcp(0xcb007101, port, SYN), waiting < first[port]);
			const struct ls_offered *own = ls_host_offered();
			const unsigned priority = port == 1   ? LS_ABI_CRITICAL
						  : port == 2 ? LS_ABI_HIGH
						  : port == 3 ? LS_ABI_NORMAL
							      : LS_ABI_LOW;
			assert_int_equal(own->refused_queue[priority], waiting >= first[port]);
			assert_int_equal(own->admitted[priority], waiting < first[port]);
		}
	}
	start_with("version: 1\noverload: { accept_queue: 50% }\n", 7, 16);
	assert_true(tcp(0xcb007101, 9, SYN)); /* no class: normal */
	ls_host_listener()->waiting = 8;
	assert_false(tcp(0xcb007101, 9, SYN));
	assert_int_equal(ls_host_offered()->queue_port, 9);
}

static void a_late_controller_leaves_a_queue_no_longer_than_the_wait_shall_be(void **state)
{
	(void)state;
	start_with(policy, 30, 4096);
	struct ls_overload *overload = ls_host_overload();
	overload->queue_most = 31;
	ls_host_listener()->coming = 8;
	overload->queue_from_ns = 2 * TWIN_SECOND;
	overload->guard_until_ns = 3 * TWIN_SECOND;
	assert_true(tcp(0xcb007101, 3, SYN));
	now_ns = 2 * TWIN_SECOND;
	assert_false(tcp(0xcb007101, 3, SYN));
	assert_int_equal(ls_host_offered()->refused_queue[LS_ABI_NORMAL], 1);
	ls_host_listener()->waiting = 23;
	assert_true(tcp(0xcb007101, 3, SYN));
	ls_host_listener()->waiting = 27;
	assert_true(tcp(0xcb007101, 2, SYN)); /* high */
	assert_false(tcp(0xcb007101, 3, SYN));
	/* Off is off, and an hour later nobody knows. */
	overload->queue_most = 0;
	assert_true(tcp(0xcb007101, 3, SYN));
	overload->queue_most = 1;
	now_ns = 3 * TWIN_SECOND;
	assert_true(tcp(0xcb007101, 3, SYN));
	overload->queue_from_ns = overload->guard_until_ns = 0;
}

static void the_listener_is_asked_by_the_connection_as_it_will_be(void **state)
{
	(void)state;
	start_with(policy, 16, 16);
	assert_false(tcp(0xcb007101, 3, SYN));
	const struct ls_host_listener *listener = ls_host_listener();
	assert_int_equal(listener->tuple_bytes, 12);
	static const uint8_t tuple4[12] = { 203, 0, 113, 1, 198, 51, 100, 10, 0x13, 0x88, 0, 3 };
	assert_memory_equal(&listener->tuple, tuple4, sizeof(tuple4));
	assert_false(tcp6());
	assert_int_equal(listener->tuple_bytes, 36);
	assert_memory_equal(listener->tuple.ipv6.saddr, frame + 22, 32);
	assert_memory_equal(&listener->tuple.ipv6.sport, frame + 54, 4);
}

static void only_new_connections_of_this_host_are_refused(void **state)
{
	(void)state;
	start_with(policy, 16, 16);
	struct ls_host_listener *listener = ls_host_listener();
	/* Not asked: work in progress, what is not TCP, who is allowed. */
	assert_true(tcp(0xcb007101, 3, ACK));
	assert_true(tcp(0xcb007101, 3, SYN | ACK));
	twin_udp(frame, 0xcb007101, 3);
	assert_true(judge(TWIN_UDP_BYTES));
	assert_true(tcp(0xcb0071fa, 3, SYN));
	assert_int_equal(listener->look_ups, 0);
	assert_false(tcp(0xcb007101, 3, SYN));
	/* Asked, and nobody's: a connection that is there, one that goes on to another host, no socket. */
	listener->state = BPF_TCP_ESTABLISHED;
	assert_true(tcp(0xcb007101, 3, SYN));
	listener->state = BPF_TCP_LISTEN;
	listener->is_forwarded = 1;
	assert_true(tcp(0xcb007101, 3, SYN));
	listener->is_forwarded = 0;
	listener->state = 0;
	assert_true(tcp(0xcb007101, 3, SYN));
	assert_int_equal(listener->look_ups, 4);
}

static void what_is_refused_has_consumed_nothing(void **state)
{
	(void)state;
	start_with(policy, 16, 16);
	for (int i = 0; i < 10; i++)
		assert_false(tcp(0xcb007101, 5, SYN));
	ls_host_listener()->waiting = 0;
	assert_true(tcp(0xcb007101, 5, SYN));
	/* And what a limit refuses does not ask. */
	const uint32_t before = ls_host_listener()->look_ups;
	assert_false(tcp(0xcb007101, 5, SYN));
	assert_int_equal(ls_host_listener()->look_ups, before);
}

static void it_is_off_where_it_shall_be(void **state)
{
	(void)state;
	static const char *const without[] = {
		"version: 1\n",
		"version: 1\noverload: { accept_queue: off }\n",
		"version: 1\noverload: { max: { packets: 1M/s } }\n",
	};
	for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++) {
		start_with(without[i], 16, 16);
		assert_true(tcp(0xcb007101, 3, SYN));
		assert_int_equal(ls_host_listener()->look_ups, 0);
	}
	/* A kernel where it cannot be read, and a capture, which has no listener. */
	start_with(policy, 16, 16);
	ls_host_set_listeners(0);
	assert_true(tcp(0xcb007101, 3, SYN));
	ls_host_set_listeners(1);
	assert_int_equal(ls_host_replay(frame, TCP_BYTES, TWIN_SECOND).verdict, LS_VERDICT_PASS);
	assert_int_equal(ls_host_listener()->look_ups, 0);
	/* Monitored it counts. */
	start_with("version: 1\noverload: { mode: monitor }\n", 16, 16);
	assert_true(tcp(0xcb007101, 3, SYN));
	assert_int_equal(
		ls_host_counter(LS_COUNTER_GLOBAL(LS_VERDICT_WOULD_DROP, LS_REASON_OVERLOAD))
			.packets,
		1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rule_is_the_one_that_the_manual_has),
		cmocka_unit_test(the_lower_the_priority_the_earlier_it_is_refused),
		cmocka_unit_test(a_late_controller_leaves_a_queue_no_longer_than_the_wait_shall_be),
		cmocka_unit_test(the_listener_is_asked_by_the_connection_as_it_will_be),
		cmocka_unit_test(only_new_connections_of_this_host_are_refused),
		cmocka_unit_test(what_is_refused_has_consumed_nothing),
		cmocka_unit_test(it_is_off_where_it_shall_be),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
