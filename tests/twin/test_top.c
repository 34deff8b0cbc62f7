/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * Who sends most: the whole program on streams whose truth is known, packet for packet, and what the reader makes of its
 * summaries. Every row that is shown is held against its bound. Several seeds; more with LS_LONG=1.
 */

#include "tests/twin/twin.h"

#include <math.h>
#include <sched.h>
#include <unistd.h>

#include "pure/summary.h"
#include "tests/twin/frames.h"
#include "user/plane/internal.h"
#include "user/plane/sandbox.h"
#include "user/plane/summary.h"

#define CPUS 2
#define EPOCH_NS (1ULL << LS_TOP_EPOCH_SHIFT)
#define MILLION 1000000U
#define PORT_FREE 9
#define PORT_LIMITED 53
#define CLIENTS 0x0a000000U /* 10.0.0.0: source number 0 */

static const char policy_yaml[] = "version: 1\n"
				  "classes:\n"
				  "  - name: dns\n"
				  "    match: { protocol: udp, ports: [53] }\n"
				  "    limits: [ { rate: 1/m, burst: 1 } ]\n";

static unsigned seeds(void)
{
	const char *value = getenv("LS_LONG");

	return value && strcmp(value, "1") == 0 ? 40 : 3;
}

static uint64_t first_seed(void)
{
	const char *value = getenv("LS_SEED");

	return value ? strtoull(value, NULL, 10) : 1;
}

/* A stream of packets over two epochs, and what really came. */
struct stream {
	uint64_t seed;
	uint64_t packets; /* in all */
	uint64_t sent;
	uint32_t *truth; /* by source number */
	uint32_t *drops;
	uint32_t sources;
	uint8_t *frame;
};

static void stream_start(struct stream *stream, uint64_t seed, uint64_t packets, uint32_t sources)
{
	static uint8_t *frame;
	const uint64_t begin = 1000 * EPOCH_NS;

	if (!frame)
		frame = ls_host_frame(TWIN_UDP_BYTES);
	twin_start(CPUS, policy_yaml);
	for (unsigned i = 0; i < LS_HASH_KEYS; i++)
		ls_host_control()->hash_key[i] = twin_random(&seed) | 1;
	*stream = (struct stream){ .seed = seed,
				   .packets = packets,
				   .truth = calloc(sources, sizeof(uint32_t)),
				   .drops = calloc(sources, sizeof(uint32_t)),
				   .sources = sources,
				   .frame = frame };
	assert_non_null(stream->truth);
	assert_non_null(stream->drops);
	ls_host_set_epoch(begin, begin);
	twin_udp(frame, 0, PORT_FREE);
}

static void stream_end(struct stream *stream)
{
	free(stream->truth);
	free(stream->drops);
	ls_host_stop();
}

static void send(struct stream *stream, uint32_t source, uint16_t port)
{
	/* Evenly over two epochs, without their last millisecond. */
	const uint64_t at =
		1000 * EPOCH_NS + (2 * EPOCH_NS - 1000000) / stream->packets * stream->sent++;
	const uint32_t address = CLIENTS + source;

	for (int i = 0; i < 4; i++)
		stream->frame[26 + i] = (uint8_t)(address >> (24 - 8 * i));
	stream->frame[36] = (uint8_t)(port >> 8);
	stream->frame[37] = (uint8_t)port;
	ls_host_set_clock(at);
	ls_host_set_jiffies(at / 4000000);
	/* A source stays on its CPU as with receive hashing, but for every eighth. */
	ls_host_set_cpu(source % 8 ? source % CPUS : (unsigned)(stream->sent % CPUS));
	const int verdict = ls_host_judge(stream->frame, TWIN_UDP_BYTES);
	assert_true(source < stream->sources);
	stream->truth[source]++;
	stream->drops[source] += verdict == TWIN_XDP_DROP;
}

static struct ls_top_reading reading_of(uint64_t number, unsigned n_epochs)
{
	const struct ls_summary_request request = { .cpus = ls_host_top(),
						    .n_cpus = CPUS,
						    .hash_key = ls_host_control()->hash_key,
						    .number = number,
						    .n_epochs = n_epochs,
						    .n_interfaces = 1,
						    .bank = -1 };
	struct ls_error error = LS_ERROR_INIT;
	struct ls_top_reading reading;

	if (ls_summary_read(&request, &reading, &error) < 0)
		fail_msg("cannot read: %s", error.text);
	return reading;
}

static uint32_t number_of(const struct ls_top_row *row)
{
	uint32_t address = 0;

	for (int i = 0; i < 4; i++)
		address = address << 8 | row->prefix.bytes[i];
	return address - CLIENTS;
}

/* Every row against the truth; two rows of one source never. Returns the largest error in parts of its bound. */
static void check_bounds(const struct stream *stream, const struct ls_top_reading *reading)
{
	const double seconds = (double)reading->interval_ns / 1e9;
	uint8_t *seen = calloc(stream->sources, 1);

	assert_non_null(seen);
	for (size_t i = 0; i < reading->sources.count; i++) {
		const struct ls_top_row *row = &reading->sources.rows[i];
		const uint32_t number = number_of(row);
		assert_true(number < stream->sources);
		assert_int_equal(seen[number], 0);
		seen[number] = 1;
		const double off = fabs(row->packets * seconds - stream->truth[number]);
		if (off > row->error * seconds + 1e-6)
			fail_msg("source %u: shown %.0f, sent %u, bound %.0f (one in %u)", number,
				 row->packets * seconds, stream->truth[number],
				 row->error * seconds, reading->weight);
		const double drops_off = fabs(row->drops * seconds - stream->drops[number]);
		if (drops_off > row->refused_error * seconds + 1e-6)
			fail_msg("source %u: drops shown %.0f, dropped %u, bound %.0f", number,
				 row->drops * seconds, stream->drops[number],
				 row->refused_error * seconds);
		assert_true(row->would_drops == 0);
		assert_true(row->drops <= row->packets + 1e-6);
	}
	const double total_off = fabs(reading->total.packets * seconds - (double)stream->sent);
	assert_true(total_off <= reading->total.error * seconds + 1e-6);
	free(seen);
}

static bool is_listed(const struct ls_top_reading *reading, uint32_t number)
{
	for (size_t i = 0; i < reading->sources.count; i++)
		if (number_of(&reading->sources.rows[i]) == number)
			return true;
	return false;
}

/* Rank r of n with probability about 1 / r. */
static uint32_t zipf(struct stream *stream)
{
	const double u = (double)(twin_random(&stream->seed) >> 11) / (double)(1ULL << 53);
	const uint32_t rank = (uint32_t)exp(u * log((double)stream->sources)) - 1;

	return rank < stream->sources ? rank : stream->sources - 1;
}

static void few_packets_are_counted_exactly(void **state)
{
	(void)state;
	struct stream stream;

	stream_start(&stream, first_seed(), 5000, 300);
	while (stream.sent < stream.packets)
		send(&stream, (uint32_t)(twin_random(&stream.seed) % 300),
		     stream.sent % 3 ? PORT_FREE : PORT_LIMITED);
	struct ls_top_reading reading = reading_of(2, 2);
	const double seconds = (double)reading.interval_ns / 1e9;
	assert_int_equal(reading.weight, 1);
	check_bounds(&stream, &reading);
	uint64_t drops = 0;
	for (uint32_t i = 0; i < 300; i++)
		drops += stream.drops[i];
	assert_true(drops > 1000);
	assert_true(fabs(reading.total.packets * seconds - 5000) < 1e-6);
	assert_true(fabs(reading.total.drops * seconds - (double)drops) < 1e-6);
	assert_true(fabs(reading.total.bytes * seconds - 5000 * TWIN_UDP_BYTES) < 1e-6);
	for (size_t i = 0; i < reading.sources.count; i++)
		assert_true(reading.sources.rows[i].error == 0);
	/* All are in one /16, and the prefixes are exact as well. */
	assert_int_equal(reading.prefixes.count, 2);
	assert_true(fabs((reading.prefixes.rows[0].packets + reading.prefixes.rows[1].packets) *
				 seconds -
			 5000) < 1e-6);
	ls_top_fini(&reading);
	/* What was is not shown as what is. */
	reading = reading_of(4, 2);
	assert_int_equal(reading.sources.count, 0);
	assert_true(reading.total.packets == 0);
	ls_top_fini(&reading);
	stream_end(&stream);
}

/* Every packet counts, so sampling excuses nothing: what ways take over and lose must be in the bound to the packet. */
static void crowded_sets_keep_their_bound_to_the_packet(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 10 * seeds(); i++) {
		struct stream stream;
		stream_start(&stream, first_seed() + 400 + i, 20000, 20000);
		while (stream.sent < stream.packets)
			send(&stream, zipf(&stream), stream.sent % 2 ? PORT_FREE : PORT_LIMITED);
		struct ls_top_reading reading = reading_of(2, 2);
		assert_int_equal(reading.weight, 1);
		check_bounds(&stream, &reading);
		double error = 0;
		for (size_t k = 0; k < reading.sources.count; k++)
			error += reading.sources.rows[k].error;
		assert_true(error > 0);
		ls_top_fini(&reading);
		stream_end(&stream);
	}
}

static void the_ten_heaviest_of_a_million_are_found_within_their_bounds(void **state)
{
	(void)state;
	for (unsigned i = 0; i < seeds(); i++) {
		struct stream stream;
		stream_start(&stream, first_seed() + i, 1500000, MILLION);
		while (stream.sent < stream.packets)
			send(&stream, zipf(&stream), PORT_FREE);
		struct ls_top_reading reading = reading_of(2, 2);
		assert_true(reading.weight >= 32);
		check_bounds(&stream, &reading);
		for (uint32_t rank = 0; rank < 10; rank++)
			if (!is_listed(&reading, rank))
				fail_msg("seed %llu: source %u of %u packets is not listed",
					 (unsigned long long)(first_seed() + i), rank,
					 stream.truth[rank]);
		ls_top_fini(&reading);
		stream_end(&stream);
	}
}

/*
 * What is meant to push them out: a flood in which no source comes twice in a while, in the order that evicts always, and
 * the heavy ones of 1/400 of the packets each at the worst moments: in step with the windows of 64, in one burst, at the
 * start only, at the end only. A source sits on one of two CPUs, so each has 1/200 of the packets of its CPU.
 */
static void floods_of_new_sources_push_no_heavy_one_out(void **state)
{
	(void)state;
	enum { HEAVY = 8, PACKETS = 1200000, SHARE = PACKETS / 400 };
	for (unsigned i = 0; i < seeds(); i++) {
		struct stream stream;
		uint32_t next = HEAVY;
		stream_start(&stream, first_seed() + 100 + i, PACKETS, MILLION + HEAVY);
		while (stream.sent < stream.packets) {
			const uint64_t at = stream.sent;
			uint32_t source = next;
			if (at % 400 < 2)
				source = (uint32_t)(at % 400); /* evenly */
			else if (at % 64 == 63 && stream.truth[2] < SHARE)
				source = 2;
			else if (at % 128 == 5 && stream.truth[3] < SHARE)
				source = 3;
			else if (at > PACKETS / 2 && stream.truth[4] < SHARE)
				source = 4; /* in one burst */
			else if (at < 60000 && at % 10 == 1 && stream.truth[5] < SHARE)
				source = 5;
			else if (at > PACKETS - 60000 && at % 10 == 1 && stream.truth[6] < SHARE)
				source = 6;
			else if (twin_random(&stream.seed) % 400 == 0)
				source = 7;
			else
				next = next + 1 < MILLION + HEAVY ? next + 1 : HEAVY;
			send(&stream, source, PORT_FREE);
		}
		struct ls_top_reading reading = reading_of(2, 2);
		check_bounds(&stream, &reading);
		for (uint32_t heavy = 0; heavy < HEAVY; heavy++)
			if (!is_listed(&reading, heavy))
				fail_msg("seed %llu: source %u of %u packets is not listed",
					 (unsigned long long)(first_seed() + 100 + i), heavy,
					 stream.truth[heavy]);
		ls_top_fini(&reading);
		stream_end(&stream);
	}
}

static void a_flood_where_no_source_comes_twice_shows_no_row_above_its_bound(void **state)
{
	(void)state;
	struct stream stream;
	stream_start(&stream, first_seed() + 200, 1000000, MILLION);
	while (stream.sent < stream.packets)
		send(&stream, (uint32_t)(stream.sent * 7919 % MILLION), PORT_FREE);
	struct ls_top_reading reading = reading_of(2, 2);
	check_bounds(&stream, &reading);
	assert_true(reading.sources.count <= 3 * LS_TOP_ROWS);
	/* The summary of prefixes sees what that of sources cannot: 3907 /24s of up to 256. */
	const double seconds = (double)reading.interval_ns / 1e9;
	for (size_t i = 0; i < reading.prefixes.count; i++) {
		const struct ls_top_row *row = &reading.prefixes.rows[i];
		assert_int_equal(row->prefix.length, 24);
		const double truth = number_of(row) + 256 > MILLION ? MILLION % 256 : 256;
		assert_true(fabs(row->packets * seconds - truth) <= row->error * seconds + 1e-6);
	}
	ls_top_fini(&reading);
	stream_end(&stream);
}

/* Five that lose nearly all, and are 1/4000 of the packets each: too few for the summary of all. */
static void who_loses_most_is_found_among_many_who_send_more(void **state)
{
	(void)state;
	for (unsigned i = 0; i < seeds(); i++) {
		struct stream stream;
		stream_start(&stream, first_seed() + 300 + i, 800000, MILLION);
		while (stream.sent < stream.packets) {
			const uint64_t at = stream.sent;
			if (at % 800 == 0)
				send(&stream, (uint32_t)(at / 800 % 5), PORT_LIMITED);
			else
				send(&stream, 1000 + (uint32_t)(twin_random(&stream.seed) % 3000),
				     PORT_FREE);
		}
		struct ls_top_reading reading = reading_of(2, 2);
		check_bounds(&stream, &reading);
		ls_top_sort(&reading.sources, LS_TOP_BY_DROPS);
		for (uint32_t rank = 0; rank < 5; rank++)
			assert_true(number_of(&reading.sources.rows[rank]) < 5);
		assert_true(reading.sources.rows[5].drops == 0);
		ls_top_fini(&reading);
		stream_end(&stream);
	}
}

/* Each packet is a sample with probability 2^-shift, whatever became of others at any distance. */
static void samples_are_drawn_independently(void **state)
{
	(void)state;
	enum { PACKETS = 4 << 20 };
	uint8_t *is_sample = calloc(PACKETS + 4096, 1);
	assert_non_null(is_sample);
	for (uint32_t shift = 1; shift <= 8; shift++) {
		struct ls_top_sampler sampler = { .random = first_seed() * 77 + shift,
						  .shift = shift };
		memset(is_sample, 0, PACKETS);
		uint32_t skip = 0;
		uint64_t samples = 0;
		for (uint32_t at = 0; at < PACKETS; at++) {
			if (skip) {
				skip--;
				continue;
			}
			if (!sampler.is_due && (skip = ls_sampler_draw(&sampler))) {
				skip--;
				continue;
			}
			is_sample[at] = 1;
			samples++;
			skip = ls_sampler_draw(&sampler);
		}
		const double p = 1.0 / (double)(1U << shift), n = PACKETS;
		assert_true(fabs((double)samples - n * p) < 5 * sqrt(n * p * (1 - p)));
		static const uint32_t lags[] = { 1, 2, 3, 7, 31, 63, 64, 65, 127, 128, 1000 };
		for (size_t i = 0; i < sizeof(lags) / sizeof(lags[0]); i++) {
			uint64_t pairs = 0;
			for (uint32_t at = 0; at + lags[i] < PACKETS; at++)
				pairs += is_sample[at] & is_sample[at + lags[i]];
			if (fabs((double)pairs - n * p * p) > 6 * sqrt(n * p * p))
				fail_msg("shift %u, lag %u: %llu pairs instead of %.0f", shift,
					 lags[i], (unsigned long long)pairs, n * p * p);
		}
	}
	free(is_sample);
}

/* However fast packets come, samples stay few: that is what it may cost. */
static void the_number_of_samples_follows_no_flood(void **state)
{
	(void)state;
	struct ls_top_sampler sampler = { 0 };
	uint64_t packets = 0;

	ls_sampler_enter(&sampler, 1);
	while (packets < 20000000) { /* 37 Mpps on one CPU, out of nothing */
		const uint32_t weight = 1U << sampler.shift;
		packets += weight;
		ls_sampler_count(&sampler, weight);
	}
	assert_true(sampler.samples < LS_TOP_SAMPLES + 14 * LS_TOP_SAMPLES_MORE);
	ls_sampler_enter(&sampler, 2);
	assert_in_range(packets >> sampler.shift, LS_TOP_EXPECTED / 2, LS_TOP_EXPECTED);
	/* After a pause everything counts again. */
	ls_sampler_enter(&sampler, 9);
	assert_int_equal(sampler.shift, 0);
}

/* The kernel's build and this one make the same summaries of the same frames, as long as every packet counts. */
static void the_kernel_makes_the_same_summaries(void **state)
{
	(void)state;
	struct ls_error error = LS_ERROR_INIT;
	struct ls_policy *policy = NULL;
	struct ls_plane *plane = NULL;
	uint64_t seed = first_seed(), now = 1700000000 * TWIN_SECOND;
	uint8_t frame[FRAME_BYTES_MAX + 500];

	if (geteuid() != 0)
		skip();
	twin_start(CPUS, policy_yaml);
	ls_host_set_cpu(0);
	ls_host_set_epoch(now, now);
	if (ls_policy_read_memory("test.yaml", policy_yaml, strlen(policy_yaml), NULL, &policy,
				  &error))
		fail_msg("%s", error.text);
	const struct ls_plane_sandbox request = { .policy = policy };
	if (ls_plane_sandbox_open(&request, &plane, &error) < 0)
		fail_msg("%s", error.text);
	ls_plane_sandbox_begin(plane, now);
	memcpy(ls_host_control()->hash_key, ls_plane_control(plane)->hash_key,
	       sizeof(ls_host_control()->hash_key));
	uint8_t *host_frame = ls_host_frame(FRAME_BYTES_MAX + 500);
	const struct ls_top *kernel = ls_plane_memory(plane, LS_MAP_TOP, &error);
	assert_non_null(kernel);
	cpu_set_t one;
	const int cpu = sched_getcpu();
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	for (int i = 0; i < 20000; i++) {
		const uint32_t bytes = frame_make(frame, &seed);
		struct ls_replay_abi said;
		now += 100000 + twin_random(&seed) % 2000;
		memcpy(host_frame, frame, bytes);
		ls_host_replay(host_frame, bytes, now);
		assert_int_equal(ls_plane_run(plane, frame, bytes, bytes, now, &said), 0);
	}
	const struct ls_top *host = ls_host_top();
	const uint64_t newest = host->sampler.epoch;
	assert_true(newest >= 4);
	assert_int_equal(kernel[cpu].sampler.epoch, newest);
	unsigned compared = 0;
	for (uint64_t number = newest - LS_TOP_EPOCHS + 1; number <= newest; number++) {
		const unsigned place = number % LS_TOP_EPOCHS;
		struct ls_top_epoch theirs = kernel[cpu].epoch[place];
		struct ls_top_epoch ours = host->epoch[place];
		assert_memory_equal(&theirs, &ours, sizeof(ours) - sizeof(ours.total));
		/* The host has one interface, the sandbox's is in no bank. */
		assert_memory_equal(&theirs.total[0], &ours.total[0], sizeof(ours.total[0]));
		for (unsigned i = 0; i < LS_TOP_KINDS * LS_TOP_SETS; i++) {
			struct ls_top_set a =
				kernel[cpu].set[place * LS_TOP_KINDS * LS_TOP_SETS + i];
			struct ls_top_set b = host->set[place * LS_TOP_KINDS * LS_TOP_SETS + i];
			/* Interfaces differ, families must not. */
			for (int way = 0; way < LS_TOP_WAYS; way++) {
				a.at[way] &= 1;
				b.at[way] &= 1;
				compared += a.packets[way] != 0;
			}
			assert_memory_equal(&a, &b, sizeof(a));
		}
	}
	assert_true(compared > 50);
	ls_plane_close(plane);
	ls_policy_free(policy);
	ls_host_stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_packets_are_counted_exactly),
		cmocka_unit_test(crowded_sets_keep_their_bound_to_the_packet),
		cmocka_unit_test(the_ten_heaviest_of_a_million_are_found_within_their_bounds),
		cmocka_unit_test(floods_of_new_sources_push_no_heavy_one_out),
		cmocka_unit_test(a_flood_where_no_source_comes_twice_shows_no_row_above_its_bound),
		cmocka_unit_test(who_loses_most_is_found_among_many_who_send_more),
		cmocka_unit_test(samples_are_drawn_independently),
		cmocka_unit_test(the_number_of_samples_follows_no_flood),
		cmocka_unit_test(the_kernel_makes_the_same_summaries),
	};

	return cmocka_run_group_tests_name("top", tests, NULL, NULL);
}
