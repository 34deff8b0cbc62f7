/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/compile_ledger.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/cleanup.h"
#include "user/base/error.h"
#include "user/policy/compile_limit.h"
#include "user/policy/policy.h"

/*
 * The ledger remembers names that no policy has any more, so that a class or limit that comes back
 * finds its slot, its state and its counters. It forgets one only to give its place to another
 * name.
 *
 * Both passes go over the whole policy: first every name that the ledger knows is marked as live,
 * and counters of a name that returns with another identity are held, then the others are given
 * places that are not live. In one pass a new name could take the place or the counters of an old
 * one that the policy has further down.
 *
 * Class slots: there are twice as many as classes, so one that neither generation has always
 * exists. The counters of a class are those of its slot, at a fixed place. A class that is forgotten takes its limits
 * with it.
 *
 * Limit slots: round robin, skipping what lives in either generation. A freed slot thus rests as
 * long as possible, and the states under it are dead by themselves before it is used again; they
 * are purged nevertheless (fresh_slots).
 *
 * Counters of limits go by (class, name) and outlive a change of identity, so they are a pool apart
 * from the slots. A block is in use while some entry of the ledger refers to it. There are at least
 * as many blocks as limit slots, hence one is always free; those never given come first. A block
 * that loses its last entry holds counts that no name claims: it is listed in `reused_counters`, so
 * that the plane adds them to the verdicts of no class and clears the block. Its former name is live in no
 * generation, so nobody counts there meanwhile.
 */

#define LIMIT_COUNTERS_FIRST (LS_COUNTERS_GLOBAL + LS_CLASS_SLOTS * LS_CLASS_COUNTERS)
#define LIMIT_BLOCKS ((LS_COUNTERS - LIMIT_COUNTERS_FIRST) / LS_LIMIT_COUNTERS)

static_assert(LIMIT_BLOCKS >= LS_SLOTS_POLICY, "every limit slot can have counters of its own");
static_assert(LS_COUNTER_GLOBAL(3, 0) <= LS_COUNTERS_GLOBAL, "three verdicts, 16 reasons");

/* Entries are found by a chained hash of names: 2304 names times 4096 entries would be slow. */
#define CHAINS 4096

struct book {
	struct ls_ledger *ledger;
	struct ls_image *image;
	uint16_t live_bit;
	uint16_t head[CHAINS]; /* limit slots; 0 ends a chain */
	uint16_t next[LS_SLOTS];
	uint16_t references[LIMIT_BLOCKS]; /* ledger entries by counter block */
	unsigned block_hint;		   /* blocks below it are in use */
};

/* What wants a limit slot: a limit, or (with an empty name) the strike counter of a class's ban. */
struct claim {
	const char *class_name;
	const char *name;
	struct ls_limit_abi *record;
	uint16_t slot;	  /* 0: not found in the ledger */
	uint32_t counter; /* of another identity of its name, held by a reference; 0: none */
};

static unsigned chain_of(const char *class_name, const char *name)
{
	uint32_t hash = 2166136261U; /* FNV-1a: names come from the operator, not an attacker */

	for (; *class_name; class_name++)
		hash = (hash ^ (uint8_t)*class_name) * 16777619U;
	hash = (hash ^ '/') * 16777619U;
	for (; *name; name++)
		hash = (hash ^ (uint8_t)*name) * 16777619U;
	return (hash ^ hash >> 16) % CHAINS;
}

static void chain_add(struct book *book, uint16_t slot)
{
	const struct ls_ledger_limit *entry = &book->ledger->limits[slot];
	const unsigned chain = chain_of(entry->class_name, entry->name);

	book->next[slot] = book->head[chain];
	book->head[chain] = slot;
}

static void chain_remove(struct book *book, uint16_t slot)
{
	const struct ls_ledger_limit *entry = &book->ledger->limits[slot];
	uint16_t *link = &book->head[chain_of(entry->class_name, entry->name)];

	while (*link != slot)
		link = &book->next[*link];
	*link = book->next[slot];
}

static bool same_name(const struct ls_ledger_limit *entry, const struct claim *claim)
{
	return strcmp(entry->class_name, claim->class_name) == 0 &&
	       strcmp(entry->name, claim->name) == 0;
}

static bool same_identity(const struct ls_ledger_limit *entry, const struct claim *claim)
{
	const struct ls_limit_abi *record = claim->record;

	return same_name(entry, claim) && entry->algorithm == record->algorithm &&
	       entry->per == record->per && entry->count == record->count &&
	       entry->bits4 == record->bits4 && entry->bits6 == record->bits6 &&
	       entry->window_ns == record->window_ns;
}

/* The counter block of an entry, or -1 for a strike counter, which has none. */
static int block_of(const struct ls_ledger_limit *entry)
{
	if (entry->counter < LIMIT_COUNTERS_FIRST)
		return -1;
	return (int)((entry->counter - LIMIT_COUNTERS_FIRST) / LS_LIMIT_COUNTERS);
}

static void book_open(struct book *book)
{
	struct ls_ledger *ledger = book->ledger;

	if (ledger->next_counter < LIMIT_COUNTERS_FIRST)
		ledger->next_counter = LIMIT_COUNTERS_FIRST;
	if (ledger->next_slot < 1 || ledger->next_slot >= LS_SLOTS_POLICY)
		ledger->next_slot = 1;
	for (unsigned i = 0; i < LS_CLASS_SLOTS; i++)
		ledger->classes[i].live &= (uint16_t)~book->live_bit;
	for (uint16_t slot = 1; slot < LS_SLOTS_POLICY; slot++) {
		struct ls_ledger_limit *entry = &ledger->limits[slot];

		if (entry->class_name[0] == '\0')
			continue;
		entry->live &= (uint8_t)~book->live_bit;
		chain_add(book, slot);
		if (block_of(entry) >= 0)
			book->references[block_of(entry)]++;
	}
}

static void retire_counters(struct book *book, uint32_t counter, uint32_t count)
{
	struct ls_image *image = book->image;

	image->reused_counters[image->n_reused_counters++] =
		(struct ls_reused_counters){ .counter = counter, .count = count };
}

static struct ls_ledger_class *find_class(struct ls_ledger *ledger, const char *name)
{
	for (unsigned i = 0; i < LS_CLASS_SLOTS; i++)
		if (strcmp(ledger->classes[i].name, name) == 0)
			return &ledger->classes[i];
	return NULL;
}

static void forget_limit(struct book *book, uint16_t slot)
{
	struct ls_ledger_limit *entry = &book->ledger->limits[slot];
	const int block = block_of(entry);

	book->image->fresh_slots[book->image->n_fresh_slots++] = slot;
	chain_remove(book, slot);
	if (block < 0)
		return;
	if (--book->references[block] == 0) {
		retire_counters(book, entry->counter, LS_LIMIT_COUNTERS);
		if ((unsigned)block < book->block_hint)
			book->block_hint = (unsigned)block;
	}
}

/* The limits of a class that is forgotten: no name leads to their counts any more. */
static void forget_limits_of(struct book *book, const char *class_name)
{
	for (uint16_t slot = 1; slot < LS_SLOTS_POLICY; slot++) {
		struct ls_ledger_limit *entry = &book->ledger->limits[slot];

		if (strcmp(entry->class_name, class_name) != 0)
			continue;
		forget_limit(book, slot);
		memset(entry, 0, sizeof(*entry));
	}
}

/* A place for a new class: one that never was used, else one that neither generation has. */
static struct ls_ledger_class *take_class(struct book *book, const char *name)
{
	struct ls_ledger *ledger = book->ledger;
	struct ls_ledger_class *entry = find_class(ledger, "");

	for (unsigned i = 0; !entry && i < LS_CLASS_SLOTS; i++)
		if (ledger->classes[i].live == 0)
			entry = &ledger->classes[i];
	assert(entry);
	if (entry->name[0] != '\0') {
		retire_counters(book, entry->counter, LS_CLASS_COUNTERS);
		forget_limits_of(book, entry->name);
	}
	entry->slot = (uint16_t)(entry - ledger->classes);
	entry->counter = LS_COUNTERS_GLOBAL + entry->slot * (uint32_t)LS_CLASS_COUNTERS;
	entry->live = 0;
	memset(entry->name, 0, sizeof(entry->name));
	memcpy(entry->name, name, strlen(name));
	return entry;
}

static void settle_classes(struct book *book, const struct ls_policy *policy)
{
	struct ls_ledger_class *found[LS_CLASSES] = { NULL };

	for (size_t i = 0; i < policy->n_classes; i++) {
		found[i] = find_class(book->ledger, policy->classes[i].name);
		if (found[i])
			found[i]->live |= book->live_bit;
	}
	for (size_t i = 0; i < policy->n_classes; i++) {
		if (!found[i])
			found[i] = take_class(book, policy->classes[i].name);
		found[i]->live |= book->live_bit;
		book->image->classes[i].slot = found[i]->slot;
		book->image->classes[i].counter = found[i]->counter;
	}
}

static uint16_t find_limit(const struct book *book, const struct claim *claim)
{
	uint16_t slot = book->head[chain_of(claim->class_name, claim->name)];

	while (slot && !same_identity(&book->ledger->limits[slot], claim))
		slot = book->next[slot];
	return slot;
}

/* The next slot that neither generation has, round robin; 0: all are live. */
static uint16_t next_slot(struct ls_ledger *ledger)
{
	for (unsigned tries = 1; tries < LS_SLOTS_POLICY; tries++) {
		const unsigned slot = ledger->next_slot;

		ledger->next_slot = slot + 1 < LS_SLOTS_POLICY ? slot + 1 : 1;
		if (ledger->limits[slot].class_name[0] == '\0' || ledger->limits[slot].live == 0)
			return (uint16_t)slot;
	}
	return 0;
}

/* Lets `claim` hold the counters of another identity of its name, if there is one. */
static void hold_counter(struct book *book, struct claim *claim)
{
	uint16_t slot = book->head[chain_of(claim->class_name, claim->name)];

	while (slot && !same_name(&book->ledger->limits[slot], claim))
		slot = book->next[slot];
	if (!slot || block_of(&book->ledger->limits[slot]) < 0)
		return;
	claim->counter = book->ledger->limits[slot].counter;
	book->references[block_of(&book->ledger->limits[slot])]++;
}

static uint32_t take_counter(struct book *book)
{
	struct ls_ledger *ledger = book->ledger;

	if (ledger->next_counter + LS_LIMIT_COUNTERS <= LS_COUNTERS) {
		ledger->next_counter += LS_LIMIT_COUNTERS;
		return ledger->next_counter - LS_LIMIT_COUNTERS;
	}
	while (book->references[book->block_hint] != 0) {
		book->block_hint++;
		assert(book->block_hint < LIMIT_BLOCKS);
	}
	return LIMIT_COUNTERS_FIRST + book->block_hint * LS_LIMIT_COUNTERS;
}

/* Gives `claim` a slot of its own. false: there is none. */
static bool take_limit(struct book *book, struct claim *claim)
{
	const struct ls_limit_abi *record = claim->record;
	struct ls_ledger_limit entry = {
		.window_ns = record->window_ns,
		.algorithm = record->algorithm,
		.per = record->per,
		.count = record->count,
		.bits4 = record->bits4,
		.bits6 = record->bits6,
		.table = record->table,
		.tau = record->tau,
		.mult = record->mult,
		.shift = record->shift,
		.counter = claim->counter,
	};

	claim->slot = next_slot(book->ledger);
	if (!claim->slot)
		return false;
	memcpy(entry.class_name, claim->class_name, strlen(claim->class_name));
	memcpy(entry.name, claim->name, strlen(claim->name));
	if (book->ledger->limits[claim->slot].class_name[0] != '\0')
		forget_limit(book, claim->slot);
	if (entry.name[0] != '\0' && !entry.counter) {
		entry.counter = take_counter(book);
		book->references[block_of(&entry)]++;
	}
	book->ledger->limits[claim->slot] = entry;
	chain_add(book, claim->slot);
	return true;
}

/*
 * An identity that was there before. It keeps its table even if an edited rate suits another one
 * better: moving would forget the state of everybody who is being limited at this moment.
 */
static void keep_limit(const struct claim *claim, struct ls_ledger_limit *entry)
{
	struct ls_limit_abi *record = claim->record;

	if (entry->tau != record->tau || entry->mult != record->mult ||
	    entry->shift != record->shift)
		entry->edited = 1;
	entry->tau = record->tau;
	entry->mult = record->mult;
	entry->shift = record->shift;
	record->table = entry->table;
	if (entry->edited)
		ls_compile_limit_narrow(record);
}

static int settle_limits(struct book *book, struct claim *claims, size_t count,
			 struct ls_error *error)
{
	size_t found = 0;

	for (size_t i = 0; i < count; i++) {
		struct ls_ledger_limit *entry;

		claims[i].slot = find_limit(book, &claims[i]);
		if (!claims[i].slot) {
			hold_counter(book, &claims[i]);
			continue;
		}
		entry = &book->ledger->limits[claims[i].slot];
		entry->live |= (uint8_t)book->live_bit;
		keep_limit(&claims[i], entry);
		found++;
	}
	for (size_t i = 0; i < count; i++) {
		struct ls_ledger_limit *entry;

		if (!claims[i].slot && !take_limit(book, &claims[i]))
			return ls_error_set(
				error,
				"cannot give %zu new limits a slot beside those of the "
				"policy in force: %u exist for both together; apply the "
				"changes in smaller steps",
				count - found, LS_SLOTS_POLICY - 1);
		entry = &book->ledger->limits[claims[i].slot];
		entry->live |= (uint8_t)book->live_bit;
		claims[i].record->slot = claims[i].slot;
		claims[i].record->counter = entry->counter;
	}
	return 0;
}

/*
 * The strike counter of a ban goes by the class alone: editing the ban rule forgets nobody's
 * refusals. Its record exists for the ledger only; what the kernel needs is in the class.
 */
static struct ls_limit_abi strike_record(void)
{
	return (struct ls_limit_abi){
		.algorithm = LS_ABI_FIXED_WINDOW,
		.count = LS_ABI_PACKETS,
		.per = LS_ABI_PER_SOURCE,
		.bits4 = 32,
		.bits6 = 64,
	};
}

int ls_compile_ledger(const struct ls_policy *policy, unsigned half, struct ls_ledger *ledger,
		      struct ls_image *image, struct ls_error *error)
{
	_cleanup_free_ struct book *book = calloc(1, sizeof(*book));
	_cleanup_free_ struct claim *claims =
		calloc((size_t)LS_CLASSES * (LS_CLASS_LIMITS + 1), sizeof(*claims));
	struct ls_limit_abi strikes = strike_record();
	size_t count = 0;

	if (!book || !claims)
		return ls_error_set(error, "cannot compile the policy: out of memory");
	book->ledger = ledger;
	book->image = image;
	book->live_bit = (uint16_t)(1U << half);
	book_open(book);
	settle_classes(book, policy);
	for (size_t i = 0; i < policy->n_classes; i++) {
		const struct ls_class *class = &policy->classes[i];

		for (size_t j = 0; j < class->n_limits; j++)
			claims[count++] = (struct claim){
				.class_name = class->name,
				.name = class->limits[j].name,
				.record = &image->classes[i].limit[j],
			};
		if (class->ban.given)
			claims[count++] = (struct claim){ .class_name = class->name,
							  .name = "",
							  .record = &strikes };
	}
	if (settle_limits(book, claims, count, error) < 0)
		return -1;
	for (size_t i = 0, claim = 0; i < policy->n_classes; i++) {
		claim += policy->classes[i].n_limits;
		if (policy->classes[i].ban.given)
			image->classes[i].ban_slot = claims[claim++].slot;
	}
	return 0;
}
