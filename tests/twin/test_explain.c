/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * What `explain` says of a packet is what the kernel then does with it. Random policies and packets drive a plane
 * into all kinds of states; before each packet it is asked about, then it is sent, and verdict, reason, class and
 * limit must be the same.
 */

#include "tests/twin/twin.h"

#include <time.h>
#include <unistd.h>

#include "tests/twin/frames.h"
#include "tests/twin/policies.h"
#include "user/plane/bans.h"
#include "user/plane/explain.h"
#include "user/plane/internal.h"
#include "user/plane/sandbox.h"

#define POLICIES 24
#define PACKETS 2500
#define START_NS (1700000000 * TWIN_SECOND)

struct span {
	const uint8_t *bytes;
	uint32_t length;
};

static int read_span(void *context, __u32 offset, __u8 *to, __u32 bytes)
{
	const struct span *span = context;

	if (offset + bytes > span->length)
		return -1;
	memcpy(to, span->bytes + offset, bytes);
	return 0;
}

/* The packet in a frame; false: it has no source that could be asked about. */
static bool parse(const uint8_t *frame, uint32_t length, struct ls_packet *ret)
{
	struct span span = { frame, length };
	enum ls_parse parse = ls_parse(frame, frame + length, ret);

	if (parse == LS_PARSE_EXTENSIONS)
		parse = ls_parse_extensions(read_span, &span, length, LS_EXTENSIONS_AT(ret), ret,
					    0);
	return parse == LS_PARSE_IP;
}

struct world {
	struct ls_plane *plane;
	char *text;
	uint64_t seed, now_ns;
	bool is_crowded; /* many sources, more than the tables hold */
	bool is_first;
	uint64_t asked, by_reason[LS_REASON_MAX];
};

static uint32_t below(struct world *world, uint32_t n)
{
	return (uint32_t)(twin_random(&world->seed) % n);
}

/* Under which many sources fill both tables. */
static const char crowd_yaml[] =
	"version: 1\nclasses:\n  - name: c0\n    match: any\n    limits:\n"
	"      - { name: short, rate: 1/s, burst: 3 }\n"
	"      - { name: long, algorithm: fixed-window, limit: 2, window: 30s }\n";

static struct ls_policy *read_policy(struct world *world)
{
	struct ls_error error = LS_ERROR_INIT;
	struct ls_policy *policy = NULL;

	free(world->text);
	world->text = world->is_crowded && (world->is_first || below(world, 2))
			      ? strdup(crowd_yaml)
			      : policy_make(&world->seed, 6);
	if (ls_policy_read_memory("random", world->text, strlen(world->text), NULL, &policy,
				  &error))
		fail_msg("%s\n%s", error.text, world->text);
	return policy;
}

/* Moves what is temporary, as the verbs would. */
static void disturb(struct world *world)
{
	struct ls_control *control = ls_plane_control_rw(world->plane);
	const uint64_t now_ns = world->now_ns - START_NS, span_ns = 1 + below(world, 2000000000);
	const struct ls_prefix victim = {
		.family = LS_IPV4,
		.length = below(world, 2) ? 32 : 31,
		.bytes = { 203, 0, 113, (uint8_t)(below(world, 3) * 2) },
	};
	struct ls_error error = LS_ERROR_INIT;

	switch (below(world, 5)) {
	case 0:
		control->off_until = now_ns + span_ns;
		control->word |= LS_WORD_TIMED;
		break;
	case 1:
		control->panic_until = now_ns + span_ns;
		control->word |= LS_WORD_TIMED;
		break;
	case 2: {
		struct ls_policy *policy = read_policy(world);
		const uint64_t before = control->word;
		if (ls_publish(world->plane, policy, NULL, &error) < 0)
			fail_msg("%s", error.text);
		ls_policy_free(policy);
		control->confirm_until = now_ns + span_ns;
		control->previous_word = before;
		control->word |= LS_WORD_TIMED;
		break;
	}
	case 3:
		if (ls_ban_add(world->plane, NULL, &victim, span_ns, LS_ORIGIN_OPERATOR, "test",
			       &error) < 0)
			fail_msg("%s", error.text);
		break;
	default:
		world->now_ns += span_ns * 8;
	}
}

/* About a packet that has been parsed: nothing is open. */
static struct ls_query query_of(const struct ls_packet *packet, uint64_t bytes)
{
	const bool has_ports = packet->known & LS_KNOWN_PORTS;

	return (struct ls_query){
		.packet = *packet,
		.bytes = bytes,
		.has_destination = true,
		.has_port = has_ports,
		.has_source_port = has_ports,
		.flags_known = packet->known & LS_KNOWN_FLAGS ? 0xff : 0,
	};
}

static void ask_and_send(struct world *world)
{
	uint8_t frame[FRAME_BYTES_MAX + 500];
	const uint32_t length = frame_make(frame, &world->seed);
	struct ls_error error = LS_ERROR_INIT;
	struct ls_packet packet;
	struct ls_explain said;
	struct ls_replay_abi got;

	/* In a crowd states must live on while others come. */
	world->now_ns += twin_random(&world->seed) % (world->is_crowded ? 100000 : 4000000);
	if (world->is_crowded && length > 30 && frame[12] == 8 && frame[13] == 0)
		memcpy(frame + 27,
		       (uint8_t[]){ 0, (uint8_t)below(world, 16), (uint8_t)below(world, 256) }, 3);
	const bool is_asked = parse(frame, length, &packet);
	if (is_asked) {
		const struct ls_query query = query_of(&packet, length);
		world->plane->replay->now_ns = world->now_ns;
		if (ls_explain(world->plane, &query, &said, &error) < 0)
			fail_msg("%s", error.text);
	}
	assert_int_equal(ls_plane_run(world->plane, frame, length, length, world->now_ns, &got), 0);
	if (!is_asked)
		return;
	const int class = got.class_index == UINT16_MAX ? -1 : got.class_index;
	const int limit = got.limit == UINT8_MAX ? -1 : got.limit;
	if (said.verdict != got.verdict || said.reason != got.reason || said.class_index != class ||
	    said.limit != limit)
		fail_msg(
			"said %d %d class %d limit %d, got %u %u class %d limit %d, packet %lu\n%s",
			said.verdict, said.reason, said.class_index, said.limit, got.verdict,
			got.reason, class, limit, (unsigned long)world->asked, world->text);
	if (said.limit >= 0 && said.limits[said.limit].wait_ns == 0)
		fail_msg("a limit that refuses says that it would admit now");
	world->asked++;
	world->by_reason[got.reason]++;
}

static void the_next_packet_gets_what_was_said(void **state)
{
	(void)state;
	const char *again = getenv("LS_SEED");
	struct world world = { .seed = again ? strtoull(again, NULL, 10)
					     : (uint64_t)time(NULL) * 11 };

	if (geteuid()) {
		print_message("# needs root to load the program\n");
		skip();
	}
	print_message("# seed %llu\n", (unsigned long long)world.seed);
	for (int i = 0; i < POLICIES; i++) {
		struct ls_error error = LS_ERROR_INIT;
		world.is_crowded = i % 3 == 0;
		world.is_first = i == 0;
		struct ls_policy *policy = read_policy(&world);
		/* The smallest tables that there are: 64 sets of 8. */
		const struct ls_plane_sandbox request = { .policy = policy, .sources = 1 };
		if (ls_plane_sandbox_open(&request, &world.plane, &error) < 0)
			fail_msg("%s\n%s", error.text, world.text);
		ls_policy_free(policy);
		world.now_ns = START_NS + below(&world, 1000000000);
		ls_plane_sandbox_begin(world.plane, START_NS);
		for (int k = 0; k < PACKETS; k++) {
			if (!world.is_first && below(&world, 100) == 0)
				disturb(&world);
			ask_and_send(&world);
		}
		ls_plane_close(world.plane);
	}
	free(world.text);
	print_message("# %lu questions:", (unsigned long)world.asked);
	for (int i = 0; i < LS_REASON_MAX; i++)
		print_message(" %lu", (unsigned long)world.by_reason[i]);
	print_message("\n");
	assert_true(world.asked >= 10000);
	/* Every reason that a packet with a source can have. */
	static const enum ls_reason wanted[] = { LS_REASON_CONTROL,   LS_REASON_ALLOW,
						 LS_REASON_UNMATCHED, LS_REASON_ADMITTED,
						 LS_REASON_DENY,      LS_REASON_BAN,
						 LS_REASON_LIMIT,     LS_REASON_CROWD,
						 LS_REASON_OVERLOAD,  LS_REASON_PANIC };
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (!world.by_reason[wanted[i]])
			fail_msg("no packet got reason %d, so nothing is known about it",
				 wanted[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_next_packet_gets_what_was_said),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
