/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Slots and counters: kept over edits, fresh where the identity is, never shared, never lost. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "policy_builder.h"
#include "user/base/error.h"
#include "user/policy/compile.h"

static struct ls_ledger *new_ledger(void)
{
	struct ls_ledger *ledger = calloc(1, sizeof(*ledger));

	assert_non_null(ledger);
	return ledger;
}

static struct ls_image *compile(const struct ls_policy *policy, unsigned half,
				struct ls_ledger *ledger, struct ls_error *error)
{
	struct ls_image *image = NULL;
	uint64_t chance = 1;

	ls_policy_compile(policy, half, ledger, chance_next, &chance, &image, error);
	return image;
}

static struct ls_image *compile_well(const struct ls_policy *policy, unsigned half,
				     struct ls_ledger *ledger)
{
	struct ls_image *image = compile(policy, half, ledger, NULL);

	assert_non_null(image);
	return image;
}

static struct ls_class *any_class(struct ls_policy *policy, const char *name)
{
	struct ls_class *class = build_class(policy, name);

	class->match.any = true;
	return class;
}

/* Classes `web` (limits `new` and `bulk`) and `rest` (limit `limit-1`, ban). */
static struct ls_policy *example(void)
{
	struct ls_policy *policy = build_policy();
	struct ls_class *class = any_class(policy, "web");
	struct ls_limit *limit;

	build_limit(class, "new")->count = LS_COUNT_CONNECTIONS;
	limit = build_limit(class, "bulk");
	limit->count = LS_COUNT_BYTES;
	class = any_class(policy, "rest");
	build_limit(class, "limit-1");
	class->ban = (struct ls_ban_rule){ .given = true,
					   .after = 100,
					   .within_ns = 10 * LS_NS_PER_S,
					   .for_ns = 600 * LS_NS_PER_S };
	return policy;
}

static void insert_class_first(struct ls_policy *policy, const char *name)
{
	struct ls_class inserted;

	build_limit(any_class(policy, name), "limit-1");
	inserted = policy->classes[policy->n_classes - 1];
	memmove(&policy->classes[1], &policy->classes[0],
		(policy->n_classes - 1) * sizeof(*policy->classes));
	policy->classes[0] = inserted;
}

static void names_keep_slots_and_counters_when_a_class_is_inserted(void **state)
{
	struct ls_policy *policy = example();
	struct ls_ledger *ledger = new_ledger();
	struct ls_image *before = compile_well(policy, 0, ledger), *after;

	(void)state;
	insert_class_first(policy, "new-one");
	after = compile_well(policy, 1, ledger);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(after->classes[i + 1].slot, before->classes[i].slot);
		assert_int_equal(after->classes[i + 1].counter, before->classes[i].counter);
		assert_int_equal(after->classes[i + 1].ban_slot, before->classes[i].ban_slot);
		assert_memory_equal(after->classes[i + 1].limit, before->classes[i].limit,
				    sizeof(before->classes[i].limit));
	}
	assert_int_equal(after->n_fresh_slots, 0);
	assert_int_equal(after->n_reused_counters, 0);
	assert_int_not_equal(after->classes[0].limit[0].slot, before->classes[1].limit[0].slot);
	assert_int_not_equal(after->classes[0].limit[0].counter,
			     before->classes[1].limit[0].counter);
	ls_image_free(before);
	ls_image_free(after);
	ls_policy_free(policy);
	free(ledger);
}

static void bans_have_a_slot_that_survives_an_edited_rule(void **state)
{
	struct ls_policy *policy = example();
	struct ls_ledger *ledger = new_ledger();
	struct ls_image *image = compile_well(policy, 0, ledger);
	const uint16_t slot = image->classes[1].ban_slot;

	(void)state;
	assert_int_equal(image->classes[0].ban_slot, 0);
	assert_int_not_equal(slot, 0);
	assert_int_not_equal(slot, image->classes[1].limit[0].slot);
	assert_int_equal(image->classes[1].flags & LS_CLASS_F_BAN, LS_CLASS_F_BAN);
	assert_int_equal(image->classes[1].ban_after, 100);
	assert_true(image->classes[1].ban_within_ticks == 640 * LS_NS_PER_S);
	assert_true(image->classes[1].ban_for_ns == 600 * LS_NS_PER_S);
	assert_int_equal(image->slots[slot].known, 1);
	assert_int_equal(image->slots[slot].limit, 100);
	assert_int_equal(image->slots[slot].algorithm, LS_ABI_FIXED_WINDOW);
	assert_true(image->slots[slot].window_ns == 10 * LS_NS_PER_S);
	ls_image_free(image);
	policy->classes[1].ban.within_ns = LS_TIME_MAX_NS;
	policy->classes[1].ban.after = UINT64_MAX;
	image = compile_well(policy, 1, ledger);
	assert_int_equal(image->classes[1].ban_slot, slot);
	assert_int_equal(image->classes[1].ban_after, LS_BAN_AFTER_MAX);
	assert_true(image->classes[1].ban_within_ticks == LS_COST_TICKS_MAX);
	ls_image_free(image);
	ls_policy_free(policy);
	free(ledger);
}

static void an_edited_rate_keeps_slot_and_table_and_narrows_the_clamp(void **state)
{
	struct ls_policy *policy = example();
	struct ls_ledger *ledger = new_ledger();
	struct ls_limit *bulk = &policy->classes[0].limits[1];
	struct ls_image *before = compile_well(policy, 0, ledger), *after;
	struct ls_limit_abi expected = before->classes[0].limit[1];

	(void)state;
	assert_int_equal(expected.table, LS_TABLE_SHORT);
	assert_int_equal(expected.clamp, 64000000ULL << 19);
	/* half the rate and half the burst: mult and tau stay, only the shift tells them apart */
	bulk->rate.period_ns *= 2;
	bulk->burst /= 2;
	after = compile_well(policy, 1, ledger);
	assert_true(after->classes[0].limit[1].mult == expected.mult);
	assert_true(after->classes[0].limit[1].tau == expected.tau);
	assert_int_equal(after->classes[0].limit[1].clamp, 128000000ULL << 16);
	assert_int_equal(after->classes[0].limit[1].slot, expected.slot);
	assert_int_equal(after->classes[0].limit[1].counter, expected.counter);
	ls_image_free(after);
	/* so slow that a new limit would go to the long table; and back: still edited */
	bulk->rate.period_ns = LS_NS_PER_S;
	after = compile_well(policy, 0, ledger);
	assert_int_equal(after->classes[0].limit[1].table, LS_TABLE_SHORT);
	ls_image_free(after);
	bulk->rate.period_ns = 1000000;
	bulk->burst = 1000;
	after = compile_well(policy, 1, ledger);
	expected.clamp = 64000000ULL << 16;
	assert_memory_equal(&after->classes[0].limit[1], &expected, sizeof(expected));
	assert_int_equal(after->n_fresh_slots, 0);
	ls_image_free(before);
	ls_image_free(after);
	ls_policy_free(policy);
	free(ledger);
}

static void set_window(struct ls_limit *limit)
{
	limit->algorithm = LS_FIXED_WINDOW;
	limit->limit = 10;
	limit->window_ns = LS_NS_PER_S;
}

static void set_longer_window(struct ls_limit *limit)
{
	set_window(limit);
	limit->window_ns = 2 * LS_NS_PER_S;
}

static void set_flow(struct ls_limit *limit)
{
	limit->per = LS_PER_FLOW;
}

static void set_prefix(struct ls_limit *limit)
{
	limit->per = LS_PER_PREFIX;
	limit->per_ipv4 = 24;
	limit->per_ipv6 = 64;
}

static void set_wider_prefix(struct ls_limit *limit)
{
	set_prefix(limit);
	limit->per_ipv6 = 48;
}

static void set_connections(struct ls_limit *limit)
{
	limit->count = LS_COUNT_CONNECTIONS;
}

static void a_changed_identity_starts_fresh_but_goes_on_counting(void **state)
{
	static void (*const edits[])(struct ls_limit * limit) = {
		set_window, set_longer_window, set_flow,
		set_prefix, set_wider_prefix,  set_connections,
	};
	struct ls_policy *policy = example();
	struct ls_ledger *ledger = new_ledger();
	struct ls_image *image = compile_well(policy, 0, ledger);
	const struct ls_limit original = policy->classes[1].limits[0];
	const uint32_t counter = image->classes[1].limit[0].counter;
	const uint16_t slot = image->classes[1].limit[0].slot;
	bool used[LS_SLOTS] = { false };

	(void)state;
	ls_image_free(image);
	used[slot] = true;
	for (unsigned i = 0; i < sizeof(edits) / sizeof(*edits); i++) {
		policy->classes[1].limits[0] = original;
		edits[i](&policy->classes[1].limits[0]);
		image = compile_well(policy, i % 2, ledger);
		assert_false(used[image->classes[1].limit[0].slot]);
		used[image->classes[1].limit[0].slot] = true;
		assert_int_equal(image->classes[1].limit[0].counter, counter);
		assert_int_equal(image->n_fresh_slots, 0); /* no other identity had it before */
		assert_int_equal(image->slots[slot].known, 0);
		ls_image_free(image);
	}
	/* the first identity is remembered, though live in neither generation */
	policy->classes[1].limits[0] = original;
	image = compile_well(policy, 0, ledger);
	assert_int_equal(image->classes[1].limit[0].slot, slot);
	ls_image_free(image);
	ls_policy_free(policy);
	free(ledger);
}

static void names_that_come_back_find_their_own(void **state)
{
	struct ls_policy *policy = example(), *empty = build_policy();
	struct ls_ledger *ledger = new_ledger();
	struct ls_image *before = compile_well(policy, 0, ledger), *after;

	(void)state;
	for (unsigned half = 0; half < 2; half++)
		ls_image_free(compile_well(empty, half, ledger));
	after = compile_well(policy, 0, ledger);
	assert_memory_equal(after->classes, before->classes, sizeof(before->classes));
	ls_image_free(before);
	ls_image_free(after);
	ls_policy_free(policy);
	ls_policy_free(empty);
	free(ledger);
}

/* A name that is in no generation any more, but whose counters the ledger still has. */
static void a_returning_name_keeps_its_counters_from_new_ones_before_it(void **state)
{
	struct ls_policy *policy = build_policy(), *empty = build_policy();
	struct ls_ledger *ledger = new_ledger();
	struct ls_image *image;
	uint32_t counter;

	(void)state;
	build_limit(any_class(policy, "old"), "limit-1");
	image = compile_well(policy, 0, ledger);
	counter = image->classes[0].limit[0].counter;
	/* its slot is the next to be given, and no counters are left but used ones */
	ledger->next_slot = image->classes[0].limit[0].slot;
	ledger->next_counter = LS_COUNTERS;
	ls_image_free(image);
	for (unsigned half = 0; half < 2; half++)
		ls_image_free(compile_well(empty, half, ledger));
	policy->classes[0].limits[0].per = LS_PER_FLOW;
	insert_class_first(policy, "new");
	image = compile_well(policy, 0, ledger);
	assert_int_equal(image->classes[1].limit[0].counter, counter);
	assert_int_not_equal(image->classes[0].limit[0].counter, counter);
	assert_int_equal(image->n_fresh_slots, 1);
	assert_int_equal(image->n_reused_counters, 0);
	ls_image_free(image);
	ls_policy_free(policy);
	ls_policy_free(empty);
	free(ledger);
}

/* ---- random edits ---- */

/*
 * A model of the counters: each publish counts one for every class and limit that it has. Reused
 * blocks are retired as the plane does it; then whatever was counted is either under a name or
 * retired.
 */
struct model {
	struct ls_ledger *ledger;
	uint64_t counts[LS_COUNTERS];
	uint64_t counted, retired;
};

static struct ls_policy *random_policy(uint64_t *chance, unsigned names, unsigned classes)
{
	struct ls_policy *policy = build_policy();
	const unsigned start = chance_below(chance, names);

	for (unsigned i = 0; i < classes; i++) {
		char name[LS_NAME_BYTES];
		struct ls_class *class;
		const unsigned limits = chance_below(chance, LS_CLASS_LIMITS + 1);

		snprintf(name, sizeof(name), "c-%u", (start + i * 7) % names);
		class = any_class(policy, name);
		class->ban.given = chance_below(chance, 2);
		class->ban.after = class->ban.within_ns = 1;
		for (unsigned j = 0; j < limits; j++) {
			struct ls_limit *limit;

			snprintf(name, sizeof(name), "l-%u", j);
			limit = build_limit(class, name);
			limit->count = chance_below(chance, 2) ? LS_COUNT_BYTES : LS_COUNT_PACKETS;
			limit->burst = 1000 + chance_below(chance, 2);
		}
	}
	return policy;
}

static void check_block(bool *used, uint32_t counter, uint32_t count)
{
	assert_true(counter >= LS_COUNTERS_GLOBAL && counter + count <= LS_COUNTERS);
	for (uint32_t i = 0; i < count; i++) {
		assert_false(used[counter + i]);
		used[counter + i] = true;
	}
}

/* No two names share a counter, no two identities a slot. */
static void check_image(const struct ls_policy *policy, const struct ls_image *image)
{
	bool counters[LS_COUNTERS] = { false }, slots[LS_SLOTS] = { false };
	bool class_slots[LS_CLASS_SLOTS] = { false };

	for (size_t i = 0; i < policy->n_classes; i++) {
		const struct ls_class_abi *class = &image->classes[i];

		check_block(counters, class->counter, LS_CLASS_COUNTERS);
		assert_false(class_slots[class->slot]);
		class_slots[class->slot] = true;
		for (unsigned j = 0; j <= class->n_limits; j++) {
			const uint16_t slot = j < class->n_limits ? class->limit[j].slot
								  : class->ban_slot;

			if (j < class->n_limits)
				check_block(counters, class->limit[j].counter, LS_LIMIT_COUNTERS);
			else if (!policy->classes[i].ban.given)
				break;
			assert_true(slot >= 1 && slot < LS_SLOTS_POLICY);
			assert_false(slots[slot]);
			slots[slot] = true;
			assert_int_equal(image->slots[slot].known, 1);
		}
	}
	for (unsigned slot = 0; slot < LS_SLOTS_POLICY; slot++)
		assert_int_equal(image->slots[slot].known, slots[slot]);
}

static bool same_limit(const struct ls_ledger_limit *a, const struct ls_ledger_limit *b)
{
	return strcmp(a->class_name, b->class_name) == 0 && strcmp(a->name, b->name) == 0 &&
	       a->algorithm == b->algorithm && a->per == b->per && a->count == b->count &&
	       a->bits4 == b->bits4 && a->bits6 == b->bits6 && a->window_ns == b->window_ns;
}

static void check_ledger_step(const struct ls_ledger *before, const struct ls_ledger *after,
			      const struct ls_image *image, unsigned half)
{
	bool fresh[LS_SLOTS] = { false };

	for (size_t i = 0; i < image->n_fresh_slots; i++)
		fresh[image->fresh_slots[i]] = true;
	for (unsigned slot = 0; slot < LS_SLOTS; slot++) {
		const struct ls_ledger_limit *old = &before->limits[slot];
		const struct ls_ledger_limit *new = &after->limits[slot];
		const bool changed = old->class_name[0] && !same_limit(old, new);

		assert_int_equal(fresh[slot], changed);
		if (changed) /* what the generation in force has is never touched */
			assert_false(old->live & 1U << (1 - half));
		if (old->live & 1U << (1 - half))
			assert_true(new->live & 1U << (1 - half) && new->counter == old->counter);
		assert_int_equal(!!(new->live & 1U << half),
				 image->slots[slot].known && slot < LS_SLOTS_POLICY);
	}
}

/* Who counts in the block that starts at each counter: "class" or "class/limit"; "": nobody. */
static void find_owners(const struct ls_ledger *ledger, char (*ret_owners)[2 * LS_NAME_BYTES])
{
	memset(ret_owners, 0, sizeof(*ret_owners) * LS_COUNTERS);
	for (unsigned i = 0; i < LS_CLASS_SLOTS; i++)
		if (ledger->classes[i].name[0])
			snprintf(ret_owners[ledger->classes[i].counter], 2 * LS_NAME_BYTES, "%s",
				 ledger->classes[i].name);
	for (unsigned slot = 0; slot < LS_SLOTS; slot++) {
		const struct ls_ledger_limit *limit = &ledger->limits[slot];
		char owner[2 * LS_NAME_BYTES];

		if (!limit->counter)
			continue;
		snprintf(owner, sizeof(owner), "%s/%s", limit->class_name, limit->name);
		if (ret_owners[limit->counter][0])
			assert_string_equal(ret_owners[limit->counter], owner);
		memcpy(ret_owners[limit->counter], owner, sizeof(owner));
	}
}

/* A block changes hands, or loses its owner, if and only if it is listed: nobody inherits a
 * stranger's counts. */
static void check_owners(const struct ls_ledger *before, const struct ls_ledger *after,
			 const struct ls_image *image)
{
	static char old[LS_COUNTERS][2 * LS_NAME_BYTES], new[LS_COUNTERS][2 * LS_NAME_BYTES];
	bool listed[LS_COUNTERS] = { false };

	find_owners(before, old);
	find_owners(after, new);
	for (size_t i = 0; i < image->n_reused_counters; i++) {
		assert_false(listed[image->reused_counters[i].counter]);
		listed[image->reused_counters[i].counter] = true;
	}
	for (unsigned i = 0; i < LS_COUNTERS; i++)
		assert_int_equal(listed[i], old[i][0] && strcmp(old[i], new[i]) != 0);
}

static void count(struct model *model, const struct ls_policy *policy, const struct ls_image *image)
{
	for (size_t i = 0; i < image->n_reused_counters; i++) {
		const struct ls_reused_counters *reused = &image->reused_counters[i];

		for (uint32_t j = 0; j < reused->count; j++) {
			model->retired += model->counts[reused->counter + j];
			model->counts[reused->counter + j] = 0;
		}
	}
	for (size_t i = 0; i < policy->n_classes; i++) {
		model->counts[image->classes[i].counter + LS_CLASS_COUNTERS - 1]++;
		model->counted++;
		for (unsigned j = 0; j < image->classes[i].n_limits; j++) {
			model->counts[image->classes[i].limit[j].counter + LS_LIMIT_COUNTERS - 1]++;
			model->counted++;
		}
	}
}

/* What names find: everything that was counted and not retired. */
static uint64_t sum_named(const struct model *model)
{
	bool seen[LS_COUNTERS] = { false };
	uint64_t sum = 0;

	for (unsigned i = 0; i < LS_CLASS_SLOTS; i++)
		if (model->ledger->classes[i].name[0])
			for (uint32_t j = 0; j < LS_CLASS_COUNTERS; j++)
				sum += model->counts[model->ledger->classes[i].counter + j];
	for (unsigned slot = 0; slot < LS_SLOTS; slot++) {
		const uint32_t counter = model->ledger->limits[slot].counter;

		if (!counter || seen[counter])
			continue;
		seen[counter] = true;
		for (uint32_t j = 0; j < LS_LIMIT_COUNTERS; j++)
			sum += model->counts[counter + j];
	}
	return sum;
}

/* Returns what was retired. */
static uint64_t run_edits(unsigned names, unsigned max_classes, unsigned steps)
{
	uint64_t chance = chance_seed(__func__);
	struct model *model = calloc(1, sizeof(*model));
	struct ls_ledger *before = new_ledger();
	unsigned half = 0, published = 0;
	uint64_t retired;

	assert_non_null(model);
	model->ledger = new_ledger();
	for (unsigned step = 0; step < steps; step++) {
		struct ls_policy *policy =
			random_policy(&chance, names, 1 + chance_below(&chance, max_classes));
		struct ls_image *image;

		*before = *model->ledger;
		image = compile(policy, half, model->ledger, NULL);
		if (!image) { /* too many slots live: the copy is dropped */
			*model->ledger = *before;
		} else {
			check_image(policy, image);
			check_ledger_step(before, model->ledger, image, half);
			check_owners(before, model->ledger, image);
			count(model, policy, image);
			assert_true(sum_named(model) + model->retired == model->counted);
			half = 1 - half;
			published++;
		}
		ls_image_free(image);
		ls_policy_free(policy);
	}
	assert_true(published > steps / 2);
	retired = model->retired;
	free(model->ledger);
	free(model);
	free(before);
	return retired;
}

static void nothing_is_shared_or_lost_over_random_edits(void **state)
{
	(void)state;
	/* few names: they come back */
	assert_int_equal(run_edits(40, 8, 150), 0);
	/* many: slots and counters are used up and given again */
	assert_int_not_equal(run_edits(1500, 130, 120), 0);
}

static void more_live_limits_than_slots_are_refused(void **state)
{
	struct ls_policy *policy[2] = { build_policy(), build_policy() };
	struct ls_ledger *ledger = new_ledger();
	struct ls_error error = LS_ERROR_INIT;
	struct ls_image *image;

	(void)state;
	for (unsigned half = 0; half < 2; half++) {
		for (unsigned i = 0; i < LS_CLASSES; i++) {
			char name[LS_NAME_BYTES];
			struct ls_class *class;

			snprintf(name, sizeof(name), "%c-%u", 'a' + (int)half, i);
			class = any_class(policy[half], name);
			for (unsigned j = 0; j < LS_CLASS_LIMITS; j++) {
				snprintf(name, sizeof(name), "limit-%u", j);
				build_limit(class, name);
			}
		}
	}
	image = compile_well(policy[0], 0, ledger);
	check_image(policy[0], image);
	ls_image_free(image);
	assert_null(compile(policy[1], 1, ledger, &error));
	assert_non_null(strstr(error.text, "2048 new limits"));
	ls_policy_free(policy[0]);
	ls_policy_free(policy[1]);
	free(ledger);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_keep_slots_and_counters_when_a_class_is_inserted),
		cmocka_unit_test(bans_have_a_slot_that_survives_an_edited_rule),
		cmocka_unit_test(an_edited_rate_keeps_slot_and_table_and_narrows_the_clamp),
		cmocka_unit_test(a_changed_identity_starts_fresh_but_goes_on_counting),
		cmocka_unit_test(names_that_come_back_find_their_own),
		cmocka_unit_test(a_returning_name_keeps_its_counters_from_new_ones_before_it),
		cmocka_unit_test(nothing_is_shared_or_lost_over_random_edits),
		cmocka_unit_test(more_live_limits_than_slots_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
