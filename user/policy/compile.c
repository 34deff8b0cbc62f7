/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/compile.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "loadshed/overload_abi.h"
#include "user/base/cleanup.h"
#include "user/base/error.h"
#include "user/policy/compile_ledger.h"
#include "user/policy/compile_limit.h"
#include "user/policy/compile_lists.h"
#include "user/policy/compile_match.h"
#include "user/policy/policy.h"

/*
 * The order of the compile step. Each part is a file of its own:
 *
 *   compile_limit.c    a limit's numbers, in ticks
 *   compile_ledger.c   which slot and counters a name has
 *   compile_match.c    which row of classes a port, tag or flag byte has
 *   compile_lists.c    which combinations of lists exist, and where
 *   compile_tables.c   the tables that find an address's combination
 *
 * Nothing here knows a map or a system call, so all of it is tested on the host against plain
 * models.
 */

/* The model's enums are written into records as they are. */
static_assert(LS_TOKEN_BUCKET == LS_ABI_TOKEN_BUCKET, "ABI");
static_assert(LS_FIXED_WINDOW == LS_ABI_FIXED_WINDOW, "ABI");
static_assert(LS_SLIDING_WINDOW == LS_ABI_SLIDING_WINDOW, "ABI");
static_assert(LS_SLIDING_LOG == LS_ABI_SLIDING_LOG, "ABI");
static_assert((int)LS_COUNT_PACKETS == LS_ABI_PACKETS, "ABI");
static_assert((int)LS_COUNT_BYTES == LS_ABI_BYTES, "ABI");
static_assert((int)LS_COUNT_CONNECTIONS == LS_ABI_CONNECTIONS, "ABI");
static_assert((int)LS_PER_SOURCE == LS_ABI_PER_SOURCE, "ABI");
static_assert((int)LS_PER_PREFIX == LS_ABI_PER_PREFIX, "ABI");
static_assert((int)LS_PER_FLOW == LS_ABI_PER_FLOW, "ABI");
static_assert((int)LS_PER_DESTINATION == LS_ABI_PER_DESTINATION, "ABI");
static_assert((int)LS_PER_CLASS == LS_ABI_PER_CLASS, "ABI");
static_assert((int)LS_PRIORITY_LOW == LS_ABI_LOW, "ABI");
static_assert((int)LS_PRIORITY_NORMAL == LS_ABI_NORMAL, "ABI");
static_assert((int)LS_PRIORITY_HIGH == LS_ABI_HIGH, "ABI");
static_assert((int)LS_PRIORITY_CRITICAL == LS_ABI_CRITICAL, "ABI");

#define TICKS_PER_NS (1ULL << LS_TICKS_PER_NS_SHIFT)
#define TICKS_PER_S (1000000000ULL * TICKS_PER_NS)

DEFINE_CLEANUP(struct ls_image *, ls_image_free);
DEFINE_CLEANUP(struct ls_rows *, ls_rows_free);
DEFINE_CLEANUP(struct ls_lists *, ls_lists_free);

static void compile_ban(struct ls_class_abi *record, const struct ls_ban_rule *ban)
{
	/* Longer than 2.3 years is for good, and ticks could not count it. */
	const uint64_t within_ns_max = LS_COST_TICKS_MAX / TICKS_PER_NS;

	record->flags |= LS_CLASS_F_BAN;
	record->ban_after =
		(uint32_t)(ban->after < LS_BAN_AFTER_MAX ? ban->after : LS_BAN_AFTER_MAX);
	record->ban_within_ticks =
		(ban->within_ns < within_ns_max ? ban->within_ns : within_ns_max) * TICKS_PER_NS;
	record->ban_for_ns = ban->for_ns;
}

static void compile_class(struct ls_class_abi *record, const struct ls_class *class)
{
	if (class->mode == LS_MODE_MONITOR)
		record->flags |= LS_CLASS_F_MONITOR;
	record->priority = (uint8_t) class->priority;
	record->n_limits = (uint8_t) class->n_limits;
	for (size_t i = 0; i < class->n_limits; i++) {
		record->limit[i] = ls_compile_limit(&class->limits[i]);
		if (class->limits[i].cluster)
			record->flags |= LS_CLASS_F_CLUSTER;
	}
	if (class->ban.given)
		compile_ban(record, &class->ban);
}

void ls_compile_queue(unsigned percent, __u16 at[static 4])
{
	if (!percent)
		return;
	at[LS_ABI_LOW] = (uint16_t)(percent * LS_QUEUE_WHOLE * 2 / 300);
	at[LS_ABI_NORMAL] = (uint16_t)(percent * LS_QUEUE_WHOLE / 100);
	at[LS_ABI_HIGH] = (uint16_t)((percent + 100) * LS_QUEUE_WHOLE / 200);
	at[LS_ABI_CRITICAL] = LS_QUEUE_WHOLE;
}

static void compile_overload(const struct ls_policy *policy, struct ls_image *image)
{
	const struct ls_overload_max *max = &policy->overload;

	if (max->has_packets)
		image->generation.overload_packets = ls_compile_overload(
			&max->packets, LS_ABI_PACKETS, LS_SLOT_OVERLOAD_PACKETS);
	if (max->has_connections)
		image->generation.overload_connections = ls_compile_overload(
			&max->connections, LS_ABI_CONNECTIONS, LS_SLOT_OVERLOAD_CONNECTIONS);
	if (max->has_packets || max->has_connections)
		image->word |= LS_WORD_OVERLOAD;
	if (policy->overload_mode == LS_MODE_MONITOR)
		image->word |= LS_WORD_OVERLOAD_MONITOR;
	if (policy->signals.given)
		image->word |= LS_WORD_LEVEL;
	ls_compile_queue(policy->signals.accept_queue, image->generation.queue_at);
	for (size_t i = 0; i < policy->n_classes; i++)
		if (policy->classes[i].check.endpoint.kind)
			image->word |= LS_WORD_LEVEL | LS_WORD_BREAKERS;
}

/* After the ledger, which has the last word on tables. */
static void mark_quick(struct ls_class_abi *class)
{
	for (unsigned i = 0; i < class->n_limits; i++) {
		const struct ls_limit_abi *limit = &class->limit[i];

		if (limit->per != LS_ABI_PER_SOURCE || limit->algorithm != LS_ABI_TOKEN_BUCKET ||
		    limit->table != LS_TABLE_SHORT)
			return;
	}
	class->flags |= LS_CLASS_F_QUICK;
}

/* Whatever has states in the tables: limits and strikes of the policy, the program's own limits. */
static void compile_slots(struct ls_image *image)
{
	for (uint32_t i = 0; i < image->generation.n_classes; i++) {
		const struct ls_class_abi *class = &image->classes[i];

		for (unsigned j = 0; j < class->n_limits; j++)
			image->slots[class->limit[j].slot] = ls_compile_slot(&class->limit[j]);
		if (class->flags & LS_CLASS_F_BAN)
			image->slots[class->ban_slot] = ls_compile_slot_strikes(
				class->ban_after, class->ban_within_ticks / TICKS_PER_NS);
	}
	/* ICMP errors: 10/s, burst 20. Panic: bursts of one second. Both are per source. */
	image->slots[LS_SLOT_ICMP_ERRORS] = ls_compile_slot_bucket(2 * TICKS_PER_S);
	image->slots[LS_SLOT_PANIC_CONNECTIONS] = ls_compile_slot_bucket(TICKS_PER_S);
	image->slots[LS_SLOT_PANIC_PACKETS] = ls_compile_slot_bucket(TICKS_PER_S);
}

/* The classes that do not ask for `from` and for `to`, and the stages that the others need. */
struct list_askers {
	struct ls_class_set no_from, no_to;
	uint64_t word;
};

static struct list_askers find_askers(const struct ls_policy *policy)
{
	struct list_askers askers = { .word = 0 };

	for (size_t i = 0; i < policy->n_classes; i++) {
		const struct ls_match *match = &policy->classes[i].match;

		if (match->from.count)
			askers.word |= LS_WORD_FROM;
		else
			ls_class_set_add(&askers.no_from, i);
		if (match->to.count)
			askers.word |= LS_WORD_TO;
		else
			ls_class_set_add(&askers.no_to, i);
	}
	return askers;
}

static int row_of(struct ls_rows *rows, struct ls_class_set set, const struct ls_class_set *more)
{
	for (unsigned word = 0; word < LS_CLASS_WORDS; word++)
		set.word[word] |= more->word[word];
	return ls_rows_intern(rows, &set);
}

/* Label 0 included: an address in no list is ruled out by every class that asks for one. */
static int compile_labels(const struct ls_policy *policy, const struct ls_lists *lists,
			  struct ls_rows *rows, struct ls_image *image, struct ls_error *error)
{
	const struct list_askers askers = find_askers(policy);

	if (lists->n_standings > LS_LABELS)
		return ls_lists_error(lists, policy, error);
	for (size_t i = 0; i < lists->n_standings; i++) {
		const struct ls_standing *standing = &lists->standings[i];
		const int from_row = row_of(rows, askers.no_from, &standing->from);
		const int to_row = row_of(rows, askers.no_to, &standing->to);

		if (from_row < 0 || to_row < 0)
			return ls_rows_error(error);
		image->labels[i] = (struct ls_label_abi){
			.list = standing->list,
			.factor = standing->factor,
			.from_row = (uint16_t)from_row,
			.to_row = (uint16_t)to_row,
		};
	}
	image->word |= askers.word;
	return 0;
}

static int compile_lists(const struct ls_policy *policy, struct ls_rows *rows,
			 uint64_t (*random)(void *context), void *context, struct ls_image *image,
			 struct ls_error *error)
{
	_cleanup_(ls_lists_freep) struct ls_lists *lists = NULL;

	if (ls_lists_resolve(policy, &lists) < 0)
		return ls_error_set(error, "cannot compile the lists of the policy: out of memory");
	if (compile_labels(policy, lists, rows, image, error) < 0)
		return -1;
	if (ls_lists_build(lists, random, context, image) < 0)
		return ls_error_set(error, "cannot compile the lists of the policy: out of memory");
	return 0;
}

static void compile_head(const struct ls_policy *policy, struct ls_image *image)
{
	const unsigned words = (unsigned)(policy->n_classes + 63) / 64;

	image->generation.n_classes = (uint32_t)policy->n_classes;
	image->word = (uint64_t)words << LS_WORD_WORDS_SHIFT;
	if (policy->mode == LS_MODE_MONITOR)
		image->word |= LS_WORD_MONITOR;
	if (policy->malformed_pass)
		image->word |= LS_WORD_MALFORMED_PASS;
}

int ls_policy_compile(const struct ls_policy *policy, unsigned half, struct ls_ledger *ledger,
		      uint64_t (*random)(void *context), void *context, struct ls_image **ret_image,
		      struct ls_error *error)
{
	_cleanup_(ls_image_freep) struct ls_image *image = calloc(1, sizeof(*image));
	_cleanup_(ls_rows_freep) struct ls_rows *rows = NULL;

	assert(half <= 1 && policy->n_classes <= LS_CLASSES);
	if (image)
		rows = ls_rows_new(image, policy);
	if (!rows)
		return ls_error_set(error, "cannot compile the policy: out of memory");
	compile_head(policy, image);
	for (size_t i = 0; i < policy->n_classes; i++)
		compile_class(&image->classes[i], &policy->classes[i]);
	if (ls_compile_ledger(policy, half, ledger, image, error) < 0)
		return -1;
	for (size_t i = 0; i < policy->n_classes; i++)
		mark_quick(&image->classes[i]);
	compile_slots(image);
	compile_overload(policy, image);
	if (ls_compile_match(policy, rows, image, error) < 0)
		return -1;
	if (compile_lists(policy, rows, random, context, image, error) < 0)
		return -1;
	ls_compile_direct(image);
	*ret_image = TAKE_PTR(image);
	return 0;
}

void ls_image_free(struct ls_image *image)
{
	if (!image)
		return;
	free(image->lines);
	free(image);
}

int ls_policy_count_labels(const struct ls_policy *policy)
{
	_cleanup_(ls_lists_freep) struct ls_lists *lists = NULL;

	if (ls_lists_resolve(policy, &lists) < 0)
		return -1;
	return (int)(lists->n_standings - 1);
}
