/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/compile_match.h"

#include <assert.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/cleanup.h"
#include "user/base/error.h"
#include "user/policy/policy.h"

/*
 * Every dimension of a match says of each value which classes it does not rule out; the kernel
 * looks up one row per dimension and ANDs them. Three rules keep that exact:
 *
 * - A class that does not ask for a dimension is in every row of it, those for "unknown" included.
 * - A class that asks is in no row for "unknown".
 * - Protocol and destination port are one dimension: a port means nothing without its protocol.
 *
 * Ranges become rows by a sweep: each range toggles its class at its first value and behind its
 * last one. That costs one pass over the values, however many classes and ranges there are, and a
 * new row is only looked for where something was toggled.
 */

#define PORTS 65536
#define HASH_ROWS (2 * LS_ROWS) /* slots of the row hash: at most half full */

struct ls_rows {
	struct ls_image *image;
	unsigned words;		  /* of the bitmaps that hold a class */
	uint16_t hash[HASH_ROWS]; /* row + 1; 0: free. LS_ROWS is less than 2^16 */
};

static_assert(LS_ROWS < UINT16_MAX, "row + 1 fits the hash");

static bool row_is(const struct ls_rows *rows, unsigned row, const struct ls_class_set *set)
{
	for (unsigned word = 0; word < rows->words; word++)
		if (rows->image->rows[word][row] != set->word[word])
			return false;
	return true;
}

static unsigned hash_set(const struct ls_class_set *set)
{
	uint64_t hash = 0;

	for (unsigned word = 0; word < LS_CLASS_WORDS; word++)
		hash = (hash ^ set->word[word]) * 0x9E3779B97F4A7C15ULL;
	return (unsigned)((hash ^ hash >> 32) % HASH_ROWS);
}

int ls_rows_intern(struct ls_rows *rows, const struct ls_class_set *set)
{
	struct ls_image *image = rows->image;
	unsigned at = hash_set(set);

	for (; rows->hash[at]; at = (at + 1) % HASH_ROWS)
		if (row_is(rows, rows->hash[at] - 1U, set))
			return rows->hash[at] - 1;
	if (image->n_rows == LS_ROWS)
		return -1;
	for (unsigned word = 0; word < rows->words; word++)
		image->rows[word][image->n_rows] = set->word[word];
	rows->hash[at] = (uint16_t)++image->n_rows;
	return (int)image->n_rows - 1;
}

struct ls_rows *ls_rows_new(struct ls_image *image, const struct ls_policy *policy)
{
	struct ls_rows *rows = calloc(1, sizeof(*rows));
	struct ls_class_set all = { { 0 } };

	if (!rows)
		return NULL;
	rows->image = image;
	rows->words = (unsigned)(policy->n_classes + 63) / 64;
	for (size_t i = 0; i < policy->n_classes; i++)
		ls_class_set_add(&all, i);
	image->n_rows = 0;
	ls_rows_intern(rows, &all);
	return rows;
}

void ls_rows_free(struct ls_rows *rows)
{
	free(rows);
}

int ls_rows_error(struct ls_error *error)
{
	return ls_error_set(
		error,
		"cannot compile the policy: its classes make more than %u different "
		"combinations of ports, tags, flags and lists; use fewer or wider ranges",
		LS_ROWS);
}

/* Toggles of classes by value, one more than there are values: a range may end at the last one. */
struct sweep {
	struct ls_class_set toggle[PORTS + 1];
};

static void sweep_toggle(struct sweep *sweep, unsigned value, size_t class)
{
	sweep->toggle[value].word[class / 64] ^= 1ULL << (class % 64);
}

/* The class is in the rows of these values below `values`; with no ranges in those of all. */
static void sweep_class(struct sweep *sweep, size_t class, const struct ls_ranges *ranges,
			unsigned values)
{
	if (ranges->count == 0) {
		sweep_toggle(sweep, 0, class);
		return;
	}
	for (size_t i = 0; i < ranges->count && ranges->items[i].low < values; i++) {
		const unsigned behind = ranges->items[i].high + 1U;

		sweep_toggle(sweep, ranges->items[i].low, class);
		sweep_toggle(sweep, behind < values ? behind : values, class);
	}
}

/* Writes the rows of `values` values to chunks, and clears the sweep. false: too many rows. */
static bool sweep_rows(struct sweep *sweep, unsigned values, struct ls_rows *rows,
		       struct ls_rows_abi *chunks)
{
	static const struct ls_class_set none;
	struct ls_class_set set = none;
	int row = -1;

	for (unsigned value = 0; value < values; value++) {
		struct ls_class_set *toggle = &sweep->toggle[value];

		if (row < 0 || memcmp(toggle, &none, sizeof(none)) != 0) {
			for (unsigned word = 0; word < LS_CLASS_WORDS; word++)
				set.word[word] ^= toggle->word[word];
			row = ls_rows_intern(rows, &set);
			if (row < 0)
				return false;
			*toggle = none;
		}
		chunks[value / LS_ROW_CHUNK].row[value % LS_ROW_CHUNK] = (uint16_t)row;
	}
	sweep->toggle[values] = none;
	return true;
}

static bool accepts(const struct ls_ranges *ranges, unsigned value)
{
	for (size_t i = 0; i < ranges->count; i++)
		if (value >= ranges->items[i].low && value <= ranges->items[i].high)
			return true;
	return ranges->count == 0;
}

static bool asks_flags(const struct ls_match *match)
{
	return match->flags_set != 0 || match->flags_clear != 0;
}

/* The stage bits of the dimensions that `match` asks for. */
static uint64_t dimensions(const struct ls_match *match)
{
	uint64_t bits = 0;

	if (match->any)
		return 0;
	if (match->protocols.count || match->ports.count)
		bits |= LS_WORD_PORTS;
	if (match->source_ports.count)
		bits |= LS_WORD_SOURCE_PORTS;
	if (match->vlans.count)
		bits |= LS_WORD_VLAN;
	if (asks_flags(match))
		bits |= LS_WORD_FLAGS;
	return bits;
}

/* The classes that do not ask for any dimension of `bits`: those of the rows for "unknown". */
static struct ls_class_set without(const struct ls_policy *policy, uint64_t bits)
{
	struct ls_class_set set = { { 0 } };

	for (size_t i = 0; i < policy->n_classes; i++)
		if (!(dimensions(&policy->classes[i].match) & bits))
			ls_class_set_add(&set, i);
	return set;
}

/* Puts the row of `set` at `index` of LS_CHUNK_OTHER. */
static bool set_other(struct ls_rows *rows, unsigned index, const struct ls_class_set *set)
{
	const int row = ls_rows_intern(rows, set);

	if (row < 0)
		return false;
	rows->image->ports[LS_CHUNK_OTHER].row[index] = (uint16_t)row;
	return true;
}

static bool fill_ports(const struct ls_policy *policy, struct sweep *sweep, struct ls_rows *rows,
		       unsigned protocol, unsigned chunk)
{
	for (size_t i = 0; i < policy->n_classes; i++)
		if (accepts(&policy->classes[i].match.protocols, protocol))
			sweep_class(sweep, i, &policy->classes[i].match.ports, PORTS);
	return sweep_rows(sweep, PORTS, rows, &rows->image->ports[chunk]);
}

/* Packets whose protocol is known but no ports, and those of which not even that is. */
static bool fill_protocols(const struct ls_policy *policy, struct ls_rows *rows)
{
	const struct ls_class_set unknown = without(policy, LS_WORD_PORTS);

	for (unsigned protocol = 0; protocol < 256; protocol++) {
		struct ls_class_set set = { { 0 } };

		for (size_t i = 0; i < policy->n_classes; i++) {
			const struct ls_match *match = &policy->classes[i].match;

			if (match->ports.count == 0 && accepts(&match->protocols, protocol))
				ls_class_set_add(&set, i);
		}
		if (!set_other(rows, LS_OTHER_PROTOCOL + protocol, &set))
			return false;
	}
	return set_other(rows, LS_OTHER_NO_PROTOCOL, &unknown);
}

static bool fill_destination(const struct ls_policy *policy, struct sweep *sweep,
			     struct ls_rows *rows)
{
	return fill_ports(policy, sweep, rows, IPPROTO_TCP, LS_CHUNKS_TCP) &&
	       fill_ports(policy, sweep, rows, IPPROTO_UDP, LS_CHUNKS_UDP) &&
	       fill_ports(policy, sweep, rows, IPPROTO_SCTP, LS_CHUNKS_SCTP) &&
	       fill_protocols(policy, rows);
}

static bool fill_source(const struct ls_policy *policy, struct sweep *sweep, struct ls_rows *rows)
{
	const struct ls_class_set unknown = without(policy, LS_WORD_SOURCE_PORTS);

	for (size_t i = 0; i < policy->n_classes; i++)
		sweep_class(sweep, i, &policy->classes[i].match.source_ports, PORTS);
	return sweep_rows(sweep, PORTS, rows, &rows->image->ports[LS_CHUNKS_SOURCE]) &&
	       set_other(rows, LS_OTHER_NO_SOURCE_PORT, &unknown);
}

static bool fill_vlan(const struct ls_policy *policy, struct sweep *sweep, struct ls_rows *rows)
{
	const struct ls_class_set untagged = without(policy, LS_WORD_VLAN);

	for (size_t i = 0; i < policy->n_classes; i++)
		sweep_class(sweep, i, &policy->classes[i].match.vlans, LS_ROW_CHUNK);
	return sweep_rows(sweep, LS_ROW_CHUNK, rows, &rows->image->ports[LS_CHUNK_VLAN]) &&
	       set_other(rows, LS_OTHER_NO_VLAN, &untagged);
}

static bool fill_flags(const struct ls_policy *policy, struct ls_rows *rows)
{
	const struct ls_class_set unknown = without(policy, LS_WORD_FLAGS);

	for (unsigned flags = 0; flags < 256; flags++) {
		struct ls_class_set set = { { 0 } };

		for (size_t i = 0; i < policy->n_classes; i++) {
			const struct ls_match *match = &policy->classes[i].match;

			if ((flags & match->flags_set) == match->flags_set &&
			    (flags & match->flags_clear) == 0)
				ls_class_set_add(&set, i);
		}
		if (!set_other(rows, LS_OTHER_FLAGS + flags, &set))
			return false;
	}
	return set_other(rows, LS_OTHER_NO_FLAGS, &unknown);
}

/* The first class of a row, or LS_DIRECT_NONE. */
static uint16_t first_class(const struct ls_image *image, unsigned row)
{
	for (unsigned word = 0; word < LS_CLASS_WORDS; word++)
		if (image->rows[word][row])
			return (uint16_t)(64 * word +
					  (unsigned)__builtin_ctzll(image->rows[word][row]));
	return LS_DIRECT_NONE;
}

void ls_compile_direct(struct ls_image *image)
{
	const uint64_t others = LS_WORD_SOURCE_PORTS | LS_WORD_VLAN | LS_WORD_FLAGS | LS_WORD_FROM |
				LS_WORD_TO;

	if (!(image->word & LS_WORD_PORTS) || image->word & others)
		return;
	for (unsigned chunk = 0; chunk < LS_CHUNKS_SOURCE; chunk++)
		for (unsigned i = 0; i < LS_ROW_CHUNK; i++)
			image->ports[chunk].row[i] = first_class(image, image->ports[chunk].row[i]);
	for (unsigned i = 0; i <= LS_OTHER_NO_PROTOCOL; i++) {
		uint16_t *row = &image->ports[LS_CHUNK_OTHER].row[LS_OTHER_PROTOCOL + i];

		*row = first_class(image, *row);
	}
	image->word |= LS_WORD_DIRECT;
}

int ls_compile_match(const struct ls_policy *policy, struct ls_rows *rows, struct ls_image *image,
		     struct ls_error *error)
{
	_cleanup_free_ struct sweep *sweep = NULL;
	uint64_t bits = 0;

	for (size_t i = 0; i < policy->n_classes; i++)
		bits |= dimensions(&policy->classes[i].match);
	image->word |= bits;
	if (!bits)
		return 0;
	sweep = calloc(1, sizeof(*sweep));
	if (!sweep)
		return ls_error_set(error, "cannot compile the policy: out of memory");
	if (bits & LS_WORD_PORTS && !fill_destination(policy, sweep, rows))
		return ls_rows_error(error);
	if (bits & LS_WORD_SOURCE_PORTS && !fill_source(policy, sweep, rows))
		return ls_rows_error(error);
	if (bits & LS_WORD_VLAN && !fill_vlan(policy, sweep, rows))
		return ls_rows_error(error);
	if (bits & LS_WORD_FLAGS && !fill_flags(policy, rows))
		return ls_rows_error(error);
	return 0;
}
