/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Classification tables against a matcher that asks each class in turn. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lookup.h"
#include "policy_builder.h"
#include "user/base/error.h"

/* Values where tables and chunks begin and end, so that random classes and packets meet there. */
static const uint16_t port_pool[] = {
	0,    1,    52,	  53,	 54,	80,    443,   4095,  4096,
	4097, 8000, 8099, 32767, 32768, 61439, 61440, 65534, 65535,
};
static const uint8_t protocol_pool[] = { 0, 1, 6, 17, 47, 50, 58, 132, 255 };
static const uint16_t vlan_pool[] = { 0, 1, 2, 99, 100, 101, 4094, 4095 };

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static bool asked(const struct ls_ranges *ranges, bool known, unsigned value)
{
	if (ranges->count == 0)
		return true;
	for (size_t i = 0; known && i < ranges->count; i++)
		if (value >= ranges->items[i].low && value <= ranges->items[i].high)
			return true;
	return false;
}

static bool in_members(const struct ls_policy *policy, const struct ls_members *members,
		       const struct ls_prefix *address)
{
	if (members->count == 0)
		return true;
	for (size_t i = 0; i < members->count; i++) {
		const struct ls_member *member = &members->items[i];

		if (member->set < 0) {
			if (ls_prefix_contains(&member->prefix, address))
				return true;
			continue;
		}
		for (size_t j = 0; j < policy->sets[member->set].entries.count; j++)
			if (ls_prefix_contains(&policy->sets[member->set].entries.items[j],
					       address))
				return true;
	}
	return false;
}

static bool matches(const struct ls_policy *policy, const struct ls_match *match,
		    const struct lookup_packet *packet, const struct ls_prefix *from,
		    const struct ls_prefix *to)
{
	if (match->any)
		return true;
	if (match->flags_set || match->flags_clear) {
		if (packet->flags < 0 || (packet->flags & match->flags_set) != match->flags_set ||
		    packet->flags & match->flags_clear)
			return false;
	}
	return asked(&match->protocols, packet->has_protocol, packet->protocol) &&
	       asked(&match->ports, packet->has_ports, packet->port) &&
	       asked(&match->source_ports, packet->has_ports, packet->source_port) &&
	       asked(&match->vlans, packet->vlan >= 0, (unsigned)packet->vlan) &&
	       in_members(policy, &match->from, from) && in_members(policy, &match->to, to);
}

/* One to three ranges with borders from the pool (which is sorted), neither overlapping nor
 * adjacent. */
static void random_ranges(uint64_t *chance, struct ls_ranges *ranges, const uint16_t *pool,
			  size_t pool_size)
{
	size_t at = chance_below(chance, (unsigned)pool_size);

	for (unsigned i = 0; i < 3 && at < pool_size; i++) {
		const size_t last = at + chance_below(chance, 2);
		const unsigned high = pool[last < pool_size ? last : at];

		build_range(ranges, pool[at], high);
		for (at++; at < pool_size && pool[at] <= high + 1U; at++)
			;
		at += chance_below(chance, 4);
	}
}

static void build_protocols(struct ls_ranges *ranges, const uint8_t *protocols, size_t count)
{
	for (size_t i = 0; i < count; i++)
		build_range(ranges, protocols[i], protocols[i]);
}

static void random_protocols(uint64_t *chance, struct ls_match *match, bool needs_tcp)
{
	static const uint8_t with_ports[] = { 6, 17, 132 };

	if (match->ports.count) {
		match->protocols_implied = chance_below(chance, 2);
		if (match->protocols_implied || needs_tcp)
			build_protocols(&match->protocols, with_ports, 3);
		else
			build_protocols(&match->protocols, &with_ports[chance_below(chance, 3)], 1);
	} else if (chance_below(chance, 2)) {
		const uint8_t one = protocol_pool[chance_below(chance, COUNT(protocol_pool))];

		build_protocols(&match->protocols, needs_tcp ? with_ports : &one, 1);
	}
}

static struct ls_prefix random_prefix(uint64_t *chance, uint8_t length4, uint8_t length6)
{
	struct ls_prefix prefix;

	if (chance_below(chance, 2)) {
		prefix = build_prefix("198.51.100.0");
		prefix.bytes[3] = (uint8_t)chance_below(chance, 16);
		return ls_prefix_widen(prefix, length4);
	}
	prefix = build_prefix("2001:db8::");
	prefix.bytes[15] = (uint8_t)chance_below(chance, 16);
	return ls_prefix_widen(prefix, length6);
}

static void random_members(uint64_t *chance, const struct ls_policy *policy,
			   struct ls_members *members)
{
	const unsigned count = 1 + chance_below(chance, 2);

	for (unsigned i = 0; i < count; i++) {
		if (chance_below(chance, 2))
			build_member_set(members,
					 (int)chance_below(chance, (unsigned)policy->n_sets));
		else
			build_member_prefix(members, random_prefix(chance, 31, 126));
	}
}

/* `rare`: dimensions are asked for with a chance of 1 / rare, so that later classes are reached,
 * too. */
static void random_match(uint64_t *chance, const struct ls_policy *policy, unsigned rare,
			 unsigned allowed, struct ls_match *match)
{
	if (allowed & 1 && chance_below(chance, rare) == 0)
		random_ranges(chance, &match->ports, port_pool, COUNT(port_pool));
	if (allowed & 2 && chance_below(chance, rare) == 0)
		random_ranges(chance, &match->source_ports, port_pool, COUNT(port_pool));
	if (allowed & 4 && chance_below(chance, rare) == 0)
		random_ranges(chance, &match->vlans, vlan_pool, COUNT(vlan_pool));
	if (allowed & 8 && chance_below(chance, rare) == 0) {
		match->flags_set = (uint8_t)(1U << chance_below(chance, 8));
		match->flags_clear = (uint8_t)(1U << chance_below(chance, 8) & ~match->flags_set);
	}
	if (allowed & 16 && chance_below(chance, rare) == 0)
		random_members(chance, policy, &match->from);
	if (allowed & 32 && chance_below(chance, rare) == 0)
		random_members(chance, policy, &match->to);
	if (allowed & 1)
		random_protocols(chance, match, match->flags_set || match->flags_clear);
}

static struct ls_policy *random_policy(uint64_t *chance, unsigned n_classes, unsigned allowed)
{
	struct ls_policy *policy = build_policy();

	for (unsigned i = 0; i < 4; i++) {
		const unsigned count = chance_below(chance, 4); /* a set may be empty */
		struct ls_prefix *items = calloc(count + 1, sizeof(*items));

		assert_non_null(items);
		for (unsigned j = 0; j < count; j++)
			items[j] = random_prefix(chance, 32, 128);
		build_set(policy, items, count);
	}
	for (unsigned i = 0; i < n_classes; i++) {
		char name[LS_NAME_BYTES];
		struct ls_class *class;

		snprintf(name, sizeof(name), "c-%u", i);
		class = build_class(policy, name);
		if (chance_below(chance, 200) == 0)
			class->match.any = true;
		else
			random_match(chance, policy, 1 + i % 4, allowed, &class->match);
	}
	return policy;
}

static struct lookup_packet random_packet(uint64_t *chance)
{
	struct lookup_packet packet = { .vlan = -1, .flags = -1 };

	packet.has_protocol = chance_below(chance, 16) != 0;
	if (packet.has_protocol)
		packet.protocol =
			chance_below(chance, 2)
				? (const uint8_t[]){ 6, 17, 132 }[chance_below(chance, 3)]
				: protocol_pool[chance_below(chance, COUNT(protocol_pool))];
	if (packet.protocol == 6 || packet.protocol == 17 || packet.protocol == 132)
		packet.has_ports = chance_below(chance, 8) != 0;
	if (packet.has_ports) {
		packet.port = port_pool[chance_below(chance, COUNT(port_pool))];
		packet.source_port = chance_below(chance, 4)
					     ? port_pool[chance_below(chance, COUNT(port_pool))]
					     : (uint16_t)chance_next(chance);
		if (packet.protocol == 6)
			packet.flags = (int)chance_below(chance, 256);
	}
	if (chance_below(chance, 4))
		packet.vlan = vlan_pool[chance_below(chance, COUNT(vlan_pool))];
	return packet;
}

static unsigned label_of(const struct ls_image *image, const struct ls_prefix *address)
{
	uint64_t high = 0, low = 0;

	for (unsigned i = 0; i < 8; i++) {
		high = high << 8 | address->bytes[i];
		low = low << 8 | address->bytes[8 + i];
	}
	if (address->family == LS_IPV4)
		return lookup_label4(image, (uint32_t)(high >> 32));
	return lookup_label6(image, high, low, NULL);
}

static struct ls_image *compile(const struct ls_policy *policy, struct ls_error *error)
{
	struct ls_ledger *ledger = calloc(1, sizeof(*ledger));
	struct ls_image *image = NULL;
	uint64_t chance = 1;

	assert_non_null(ledger);
	ls_policy_compile(policy, 0, ledger, chance_next, &chance, &image, error);
	free(ledger);
	return image;
}

static void check_policy(uint64_t *chance, unsigned n_classes, unsigned allowed)
{
	struct ls_policy *policy = random_policy(chance, n_classes, allowed);
	struct ls_image *image = compile(policy, NULL);

	assert_non_null(image);
	for (unsigned i = 0; i < 3000; i++) {
		struct lookup_packet packet = random_packet(chance);
		struct ls_prefix from = random_prefix(chance, 32, 128);
		struct ls_prefix to = random_prefix(chance, 32, 128);
		int expected = -1;

		packet.from_label = label_of(image, &from);
		packet.to_label = label_of(image, &to);
		for (size_t c = 0; expected < 0 && c < policy->n_classes; c++)
			if (matches(policy, &policy->classes[c].match, &packet, &from, &to))
				expected = (int)c;
		assert_int_equal(lookup_class(image, &packet), expected);
	}
	ls_image_free(image);
	ls_policy_free(policy);
}

static void the_first_class_that_matches_is_found(void **state)
{
	static const unsigned sizes[] = { 1, 2, 5, 63, 64, 65, 128, 200, 256 };
	uint64_t chance = chance_seed(__func__);

	(void)state;
	for (unsigned round = 0; round < 3; round++)
		for (size_t i = 0; i < COUNT(sizes); i++)
			check_policy(&chance, sizes[i], 63);
	/* every combination of dimensions by itself */
	for (unsigned allowed = 0; allowed < 64; allowed++)
		check_policy(&chance, 6, allowed);
}

/* Only what is asked for is switched on. */
static void the_word_names_the_dimensions_in_use(void **state)
{
	struct ls_policy *policy = build_policy();
	struct ls_class *class = build_class(policy, "a");
	struct ls_image *image;

	(void)state;
	class->match.any = true;
	image = compile(policy, NULL);
	assert_true(image->word == 1ULL << LS_WORD_WORDS_SHIFT);
	assert_int_equal(image->n_rows, 1);
	assert_true(image->rows[0][0] == 1);
	assert_null(image->lines);
	ls_image_free(image);
	class = build_class(policy, "b");
	build_range(&class->match.protocols, 17, 17);
	build_range(&class->match.vlans, 7, 7);
	build_member_prefix(&class->match.to, build_prefix("198.51.100.0/24"));
	policy->mode = LS_MODE_MONITOR;
	policy->malformed_pass = true;
	policy->overload.has_packets = true;
	policy->overload.packets = (struct ls_rate){ 1, 1000 };
	image = compile(policy, NULL);
	assert_true(image->word ==
		    (1ULL << LS_WORD_WORDS_SHIFT | LS_WORD_PORTS | LS_WORD_VLAN | LS_WORD_TO |
		     LS_WORD_LISTS4 | LS_WORD_MONITOR | LS_WORD_MALFORMED_PASS | LS_WORD_OVERLOAD));
	assert_int_equal(image->generation.overload_packets.slot, LS_SLOT_OVERLOAD_PACKETS);
	assert_int_equal(image->generation.overload_connections.mult, 0);
	ls_image_free(image);
	ls_policy_free(policy);
}

static void a_policy_without_classes_has_no_words(void **state)
{
	struct ls_policy *policy = build_policy();
	struct ls_image *image = compile(policy, NULL);

	(void)state;
	assert_true(image->word == 0);
	assert_null(image->lines);
	ls_image_free(image);
	ls_policy_free(policy);
}

/* Class b takes the ports whose bit b is set: 2^classes different rows. */
static struct ls_policy *policy_with_rows(unsigned classes)
{
	struct ls_policy *policy = build_policy();

	for (unsigned b = 0; b < classes; b++) {
		char name[LS_NAME_BYTES];
		struct ls_class *class;

		snprintf(name, sizeof(name), "c-%u", b);
		class = build_class(policy, name);
		build_range(&class->match.protocols, 17, 17);
		for (unsigned low = 1U << b; low < 65536; low += 2U << b)
			build_range(&class->match.ports, low, low + (1U << b) - 1);
	}
	return policy;
}

static void more_rows_than_there_are_is_an_error(void **state)
{
	struct ls_policy *policy = policy_with_rows(14);
	struct ls_error error = LS_ERROR_INIT;
	struct ls_image *image = compile(policy, &error);

	(void)state;
	assert_non_null(image);
	assert_int_equal(image->n_rows, 16384);
	for (unsigned port = 1; port < 65536; port += 7) {
		const struct lookup_packet packet = { .has_protocol = true,
						      .has_ports = true,
						      .protocol = 17,
						      .port = (uint16_t)port,
						      .vlan = -1,
						      .flags = -1 };

		assert_int_equal(lookup_class(image, &packet),
				 port & 16383 ? __builtin_ctz(port) : -1);
	}
	ls_image_free(image);
	ls_policy_free(policy);
	policy = policy_with_rows(15);
	assert_null(compile(policy, &error));
	assert_non_null(strstr(error.text, "16384"));
	ls_policy_free(policy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_class_that_matches_is_found),
		cmocka_unit_test(the_word_names_the_dimensions_in_use),
		cmocka_unit_test(a_policy_without_classes_has_no_words),
		cmocka_unit_test(more_rows_than_there_are_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
