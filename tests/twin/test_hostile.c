/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * Hostile frames through the host build under sanitizers, and the same frames, policies and clock through the
 * kernel's build: both must say the same of each packet. The end of a frame is the end of a page.
 */

#include "tests/twin/twin.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/twin/frames.h"
#include "user/plane/plane.h"
#include "user/plane/sandbox.h"

static const char policy_yaml[] =
	"version: 1\n"
	"sets: { office: [203.0.113.4, '2001:db8:10:2::/64'], cgnat: [203.0.113.3] }\n"
	"allow: [office]\n"
	"deny: [203.0.113.5, '2001:db8:10:1::3']\n"
	"nat: [ { sources: [cgnat], factor: 3 } ]\n"
	"overload: { max: { packets: 300/s, connections: 90/s } }\n"
	"classes:\n"
	"  - name: dns\n    match: { protocol: udp, ports: [53] }\n    priority: high\n"
	"    limits: [ { rate: 30/s, burst: 9 }, { name: f, per: flow, rate: 3/s } ]\n"
	"  - name: tagged\n    match: { vlan: 7, protocol: [tcp, sctp] }\n"
	"    limits: [ { algorithm: sliding-log, limit: 5, window: 2s } ]\n"
	"  - name: web\n    match: { ports: [80, 443], to: [198.51.100.10, '2001:db8:10::1'] }\n"
	"    limits: [ { name: n, count: connections, rate: 20/s, burst: 5 },\n"
	"              { name: b, count: bytes, rate: 40kbit/s, burst: 2kB },\n"
	"              { name: net, per: { ipv4: 24, ipv6: 48 }, count: connections, rate: 30/s },\n"
	"              { name: all, per: class, algorithm: fixed-window, limit: 400, window: 3s } ]\n"
	"    ban: { after: 40, within: 5s, for: 3s }\n"
	"  - name: syn\n    match: { tcp_flags: [syn, no-ack] }\n    mode: monitor\n"
	"    limits: [ { algorithm: sliding-window, limit: 30, window: 4s, per: destination } ]\n"
	"  - name: rest\n    match: any\n    priority: low\n    limits: [ { rate: 50/s } ]\n";

#define PAGE 4096

static uint64_t first_seed(void)
{
	const char *again = getenv("LS_SEED");

	return again ? strtoull(again, NULL, 10) : (uint64_t)time(NULL);
}

static void frames_of_any_kind_get_one_verdict_and_one_count(void **state)
{
	(void)state;
	uint64_t seed = first_seed();
	print_message("# seed %llu\n", (unsigned long long)seed);
	twin_start(1, policy_yaml);
	uint8_t *pages = ls_host_frame(2 * PAGE);
	assert_int_equal(mprotect(pages + PAGE, PAGE, PROT_NONE), 0);
	const uint32_t n = 300000;
	uint64_t now = 1700000000 * TWIN_SECOND, verdicts[LS_VERDICT_MAX] = { 0 };
	uint8_t frame[FRAME_BYTES_MAX + 500];
	ls_host_set_epoch(now, now);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t bytes = frame_make(frame, &seed);
		uint8_t *at = pages + PAGE - bytes;
		memcpy(at, frame, bytes);
		now += twin_random(&seed) % 4000000;
		struct ls_replay_abi said = ls_host_replay(at, bytes, now);
		assert_in_range(said.verdict, 0, LS_VERDICT_MAX - 1);
		assert_in_range(said.reason, 0, LS_REASON_MAX - 1);
		verdicts[said.verdict]++;
		if (said.reason == LS_REASON_MALFORMED || said.reason == LS_REASON_NON_IP)
			assert_int_equal(said.family, 0);
		else
			assert_true(said.family == 4 || said.family == 6);
	}
	uint64_t counted = 0;
	for (uint32_t i = 0; i < LS_COUNTERS; i++)
		counted += ls_host_counter(i).packets;
	assert_int_equal(counted, n);
	for (int i = 0; i < LS_VERDICT_MAX; i++)
		assert_true(verdicts[i] > 0);
	ls_host_stop();
}

static void host_and_kernel_build_agree(void **state)
{
	(void)state;
	if (geteuid()) {
		print_message("# needs root to load the program\n");
		skip();
	}
	struct ls_error error = LS_ERROR_INIT;
	struct ls_policy *policy = NULL;
	struct ls_plane *plane = NULL;
	if (ls_policy_read_memory("test.yaml", policy_yaml, strlen(policy_yaml), NULL, &policy,
				  &error) ||
	    ls_plane_sandbox_open(&(struct ls_plane_sandbox){ .policy = policy }, &plane, &error))
		fail_msg("%s", error.text);
	uint64_t seed = first_seed() * 7, now = 1700000000 * TWIN_SECOND;
	print_message("# seed %llu\n", (unsigned long long)seed);
	twin_start(1, policy_yaml);
	ls_host_set_epoch(now, now);
	ls_plane_sandbox_begin(plane, now);
	uint8_t *frame = ls_host_frame(2 * PAGE);
	for (uint32_t i = 0; i < 200000; i++) {
		uint32_t bytes = frame_make(frame, &seed);
		now += twin_random(&seed) % 4000000;
		struct ls_replay_abi host = ls_host_replay(frame, bytes, now), kernel;
		assert_int_equal(ls_plane_run(plane, frame, bytes, bytes, now, &kernel), 0);
		if (host.verdict != kernel.verdict || host.reason != kernel.reason ||
		    host.class_index != kernel.class_index || host.limit != kernel.limit ||
		    host.family != kernel.family || host.source_high != kernel.source_high ||
		    host.source_low != kernel.source_low)
			fail_msg("packet %u: host %u %u %u %u, kernel %u %u %u %u", i, host.verdict,
				 host.reason, host.class_index, host.limit, kernel.verdict,
				 kernel.reason, kernel.class_index, kernel.limit);
	}
	ls_host_stop();
	ls_plane_close(plane);
	ls_policy_free(policy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_of_any_kind_get_one_verdict_and_one_count),
		cmocka_unit_test(host_and_kernel_build_agree),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
