/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * Events as the program writes them: the arithmetic of sampling on a clock that the test moves, and the whole host
 * build under sanitizers.
 */

#include "tests/twin/twin.h"

#include <sys/mman.h>

#include "pure/sample.h"

static const char policy_yaml[] =
	"version: 1\n"
	"deny: [203.0.113.0/24]\n"
	"classes:\n"
	"  - name: web\n    match: { protocol: udp, ports: [80] }\n"
	"    limits: [ { name: first, rate: 1k/s }, { name: second, rate: 1/h, burst: 1 } ]\n"
	"  - name: tried\n    match: { protocol: udp, ports: [81] }\n    mode: monitor\n"
	"    limits: [ { name: only, rate: 1/h, burst: 1 } ]\n"
	"  - name: login\n    match: { protocol: udp, ports: [82] }\n"
	"    limits: [ { name: few, rate: 1/h, burst: 1 } ]\n"
	"    ban: { after: 3, within: 10s, for: 77s }\n";

#define DENIED 0xcb007107U /* 203.0.113.7 */
#define ALIEN 0x0a000007U

static uint64_t now_ns;

static void at(uint64_t ns, uint64_t jiffy_ns)
{
	now_ns = ns;
	ls_host_set_clock(ns);
	ls_host_set_jiffies(1 + ns / jiffy_ns);
}

static const struct ls_event_abi *event(const struct ls_event_ring *ring, uint64_t number)
{
	const struct ls_event_abi *slot = &ring->slots[number % LS_EVENT_SLOTS];

	assert_int_equal(slot->number, number);
	return slot;
}

/* Refusals at `gap_ns` for `span_ns` on one budget: how many become events. */
static uint64_t sampled(uint64_t gap_ns, uint64_t span_ns, uint64_t jiffy_ns, uint64_t *ret_counted)
{
	struct ls_sample sample = { 0 };
	__u64 bucket = 0;
	uint64_t events = 0;

	*ret_counted = 0;
	for (uint64_t now = 1000000000; now < 1000000000 + span_ns; now += gap_ns) {
		const uint64_t jiffies = now / jiffy_ns;
		if (!ls_sample_counts(&sample, jiffies) ||
		    !ls_sample_takes(&sample, &bucket, now, jiffies))
			continue;
		*ret_counted += sample.refused;
		sample.refused = 0;
		events++;
	}
	return events;
}

static void below_the_rate_every_refusal_is_an_event(void **state)
{
	(void)state;
	static const uint64_t jiffies[] = { 1000000, 4000000, 10000000 };

	for (size_t i = 0; i < 3; i++) {
		uint64_t counted;
		assert_int_equal(sampled(200000000, 20 * TWIN_SECOND, jiffies[i], &counted), 100);
		assert_int_equal(counted, 100);
		/* 100 a second are below the rate of 128, whatever the phase. */
		assert_int_equal(sampled(10000000, 20 * TWIN_SECOND, jiffies[i], &counted), 2000);
	}
}

static void above_the_rate_events_are_bounded_and_stand_for_all(void **state)
{
	(void)state;
	static const uint64_t jiffies[] = { 1000000, 4000000, 10000000 };
	static const uint64_t gaps[] = { 3000, 10000, 1000000 };

	for (size_t i = 0; i < 9; i++) {
		const uint64_t gap = gaps[i / 3], jiffy = jiffies[i % 3], span = 10 * TWIN_SECOND;
		uint64_t counted;
		const uint64_t events = sampled(gap, span, jiffy, &counted);
		assert_true(events <= LS_SAMPLE_BURST + 10 * LS_SAMPLE_RATE + 1);
		/* A jiffy that is longer than a refill costs what comes in the rest of it. */
		const uint64_t least = jiffy > TWIN_SECOND / LS_SAMPLE_RATE ? 10 * 100
									    : 10 * LS_SAMPLE_RATE;
		assert_true(events >= least);
		/* The rest came after the last event: less than a refill and a jiffy ago. */
		const uint64_t refusals = (span + gap - 1) / gap;
		assert_true(counted <= refusals);
		assert_true((refusals - counted) * gap <= TWIN_SECOND / LS_SAMPLE_RATE + jiffy);
	}
}

/* One flooded and one rare reason, drop and would-drop, on two CPUs. */
static void a_flood_of_one_reason_hides_no_other(void **state)
{
	(void)state;
	twin_start(2, policy_yaml);
	uint8_t *frame = ls_host_frame(4096);
	uint64_t rare[2] = { 0 }, denied[2] = { 0 };

	/* 200 000 a second in the flood, on both CPUs; every 40 000th packet is a rare one. */
	for (uint64_t i = 0; i < 800000; i++) {
		const unsigned cpu = i & 1;
		at(TWIN_SECOND + i * 5000, 4000000);
		ls_host_set_cpu(cpu);
		const bool is_rare = i / 2 % 20000 == 7;
		twin_udp(frame, is_rare ? ALIEN : DENIED, 81);
		assert_int_equal(ls_host_judge(frame, TWIN_UDP_BYTES),
				 is_rare ? TWIN_XDP_PASS : TWIN_XDP_DROP);
		/* The first of the source is admitted. */
		rare[cpu] += is_rare;
		denied[cpu] += !is_rare;
	}
	uint64_t seen_rare = 0;
	for (unsigned cpu = 0; cpu < 2; cpu++) {
		const struct ls_event_ring *ring = ls_host_ring(cpu);
		uint64_t last = 0;
		assert_true(ring->head <= 2 * LS_SAMPLE_BURST + 5 * LS_SAMPLE_RATE);
		const uint64_t oldest =
			ring->head > LS_EVENT_SLOTS ? ring->head - LS_EVENT_SLOTS + 1 : 1;
		for (uint64_t n = oldest; n <= ring->head; n++)
			if (event(ring, n)->reason == LS_REASON_DENY)
				last = event(ring, n)->total;
		seen_rare += ring->total[LS_EVENT_BUDGET(LS_VERDICT_WOULD_DROP, LS_REASON_LIMIT)];
		/* What the last event counts lies less than a refill and a jiffy back: 12 ms of 100 000/s. */
		assert_true(last <= denied[cpu] && denied[cpu] - last < 1200);
	}
	assert_int_equal(seen_rare, rare[0] + rare[1] - 1);
	ls_host_set_cpu(0);
	ls_host_stop();
}

static void an_event_says_what_was_refused_and_why(void **state)
{
	(void)state;
	twin_start(1, policy_yaml);
	uint8_t *frame = ls_host_frame(4096);
	at(TWIN_SECOND, 4000000);
	twin_udp(frame, ALIEN, 80);
	assert_int_equal(ls_host_judge(frame, TWIN_UDP_BYTES), TWIN_XDP_PASS);
	assert_int_equal(ls_host_ring(0)->head, 0);
	assert_int_equal(ls_host_judge(frame, TWIN_UDP_BYTES), TWIN_XDP_DROP);
	twin_udp(frame, DENIED, 9);
	ls_host_judge(frame, TWIN_UDP_BYTES);

	const struct ls_event_abi *limit = event(ls_host_ring(0), 1);
	assert_int_equal(limit->kind, LS_EVENT_PACKET);
	assert_int_equal(limit->verdict, LS_VERDICT_DROP);
	assert_int_equal(limit->reason, LS_REASON_LIMIT);
	assert_string_equal(twin_ledger.classes[limit->class_slot].name, "web");
	assert_string_equal(twin_ledger.limits[limit->limit_slot].name, "second");
	assert_int_equal(limit->class_index, 0);
	assert_int_equal(limit->generation, 1);
	assert_int_equal(limit->time_ns, now_ns);
	assert_int_equal(limit->bytes, TWIN_UDP_BYTES);
	assert_int_equal(limit->ifindex, 1);
	assert_int_equal(limit->source_low, ALIEN);
	assert_int_equal(limit->destination_low, 0xc633640aU);
	assert_int_equal(limit->port, 80);
	assert_int_equal(limit->source_port, 5000);
	assert_int_equal(limit->protocol, 17);
	assert_int_equal(limit->since, 1);
	const struct ls_event_abi *deny = event(ls_host_ring(0), 2);
	assert_int_equal(deny->reason, LS_REASON_DENY);
	assert_int_equal(deny->class_slot, LS_EVENT_NO_SLOT);
	assert_int_equal(deny->limit_slot, LS_EVENT_NO_SLOT);

	/* The class goes from the policy; whoever reads the event later still finds its name. */
	twin_publish("version: 1\nclasses:\n  - { name: new, match: any }\n", 1);
	assert_string_equal(twin_ledger.classes[limit->class_slot].name, "web");
	assert_string_equal(twin_ledger.limits[limit->limit_slot].name, "second");
	ls_host_stop();
}

static void a_malformed_packet_says_nothing_of_addresses(void **state)
{
	(void)state;
	twin_start(1, policy_yaml);
	uint8_t *frame = ls_host_frame(4096);
	at(TWIN_SECOND, 4000000);
	twin_udp(frame, DENIED, 80);
	ls_host_judge(frame, TWIN_UDP_BYTES);
	frame[14] = 0x42; /* IHL 2 */
	assert_int_equal(ls_host_judge(frame, TWIN_UDP_BYTES), TWIN_XDP_DROP);

	const struct ls_event_abi *malformed = event(ls_host_ring(0), 2);
	assert_int_equal(malformed->reason, LS_REASON_MALFORMED);
	assert_int_equal(malformed->family, 0);
	assert_int_equal(malformed->source_low | malformed->source_high, 0);
	assert_int_equal(malformed->destination_low | malformed->destination_high, 0);
	assert_int_equal(malformed->known | malformed->protocol | malformed->port, 0);
	assert_int_equal(malformed->frame_bytes, TWIN_UDP_BYTES);
	assert_memory_equal(malformed->frame, frame, TWIN_UDP_BYTES);
	ls_host_stop();
}

/* Of every length, at the end of a page; by the program that sees all buffers and by the one that sees the first. */
static void frames_are_kept_up_to_their_bound_and_not_beyond_their_end(void **state)
{
	(void)state;
	twin_start(1, policy_yaml);
	uint8_t *pages = ls_host_frame(2 * 4096);
	assert_int_equal(mprotect(pages + 4096, 4096, PROT_NONE), 0);
	uint64_t number = 0;

	for (size_t bytes = 14; bytes <= 600; bytes++) {
		uint8_t *frame = pages + 4096 - bytes;
		memset(frame, (int)bytes, bytes);
		/* IPv4 that ends before its header does, or a denied source. */
		uint8_t base[TWIN_UDP_BYTES];
		twin_udp(base, DENIED, 80);
		memcpy(frame, base, bytes < sizeof(base) ? bytes : sizeof(base));
		for (int linear = 0; linear < 2; linear++) {
			at(TWIN_SECOND + ++number * TWIN_SECOND, 4000000);
			assert_int_equal(linear ? ls_host_judge_linear(frame, bytes)
						: ls_host_judge(frame, bytes),
					 TWIN_XDP_DROP);
			const struct ls_event_abi *kept = event(ls_host_ring(0), number);
			const size_t wanted = bytes < LS_EVENT_FRAME ? bytes : LS_EVENT_FRAME;
			assert_int_equal(kept->frame_bytes, wanted);
			assert_int_equal(kept->bytes, bytes);
			assert_memory_equal(kept->frame, frame, wanted);
		}
	}
	ls_host_stop();
}

static void a_class_ban_is_an_event(void **state)
{
	(void)state;
	twin_start(1, policy_yaml);
	uint8_t *frame = ls_host_frame(4096);
	unsigned bans = 0;

	at(TWIN_SECOND, 4000000);
	twin_udp(frame, ALIEN, 82);
	for (int i = 0; i < 10; i++)
		ls_host_judge(frame, TWIN_UDP_BYTES);
	for (uint64_t n = 1; n <= ls_host_ring(0)->head; n++) {
		const struct ls_event_abi *ban = event(ls_host_ring(0), n);
		if (ban->kind != LS_EVENT_BAN)
			continue;
		bans++;
		assert_int_equal(ban->value, 77 * TWIN_SECOND);
		assert_int_equal(ban->source_low, ALIEN);
		assert_int_equal(ban->length, 32);
		assert_int_equal(ban->origin, LS_ORIGIN_CLASS);
		assert_string_equal(twin_ledger.classes[ban->class_slot].name, "login");
	}
	assert_int_equal(bans, 1);
	/* 1 admitted, 3 refused, 6 banned, and the ban itself. */
	assert_int_equal(ls_host_ring(0)->head, 10);
	ls_host_stop();
}

static void replay_writes_no_events(void **state)
{
	(void)state;
	twin_start(1, policy_yaml);
	uint8_t *frame = ls_host_frame(4096);
	at(TWIN_SECOND, 4000000);
	twin_udp(frame, DENIED, 80);
	assert_int_equal(ls_host_replay(frame, TWIN_UDP_BYTES, 1700000000 * TWIN_SECOND).verdict,
			 LS_VERDICT_DROP);
	assert_int_equal(ls_host_ring(0)->head, 0);
	ls_host_stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(below_the_rate_every_refusal_is_an_event),
		cmocka_unit_test(above_the_rate_events_are_bounded_and_stand_for_all),
		cmocka_unit_test(a_flood_of_one_reason_hides_no_other),
		cmocka_unit_test(an_event_says_what_was_refused_and_why),
		cmocka_unit_test(a_malformed_packet_says_nothing_of_addresses),
		cmocka_unit_test(frames_are_kept_up_to_their_bound_and_not_beyond_their_end),
		cmocka_unit_test(a_class_ban_is_an_event),
		cmocka_unit_test(replay_writes_no_events),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
