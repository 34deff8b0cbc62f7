/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/summary.h"

/*
 * The tables are read where they lie: those of a whole epoch are not written any more. In the end it is looked whether
 * they are still that epoch's.
 *
 * Keys are collected from all parts (a part is an epoch of a CPU), sorted and added up; of the few rows that lead by
 * packets, bytes or refusals the bound is then worked out, for which each part is asked: where the key has a way,
 * its `error`; where it has none, the smallest count of its set, as the key may have lost a way with that.
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pure/summary.h"
#include "user/base/cleanup.h"
#include "user/base/error.h"

#define Z 4.0 /* standard deviations: 6e-5 of all figures are further off */

struct entry {
	uint64_t key;
	uint64_t bytes;
	uint32_t is_ipv6;
	double packets, refused, drops;
};

struct entries {
	struct entry *items; /* owned */
	size_t count, capacity;
};

/* One epoch of one CPU; NULL: that CPU saw no packets in it. */
static const struct ls_top_epoch *part_of(const struct ls_summary_request *request, size_t cpu,
					  uint64_t number)
{
	const struct ls_top_epoch *epoch = &request->cpus[cpu].epoch[number % LS_TOP_EPOCHS];

	return number && __atomic_load_n(&epoch->number, __ATOMIC_ACQUIRE) == number ? epoch : NULL;
}

/* NULL: empty in that epoch. */
static const struct ls_top_set *set_of(const struct ls_summary_request *request, size_t cpu,
				       uint64_t number, unsigned kind, unsigned index)
{
	const struct ls_top_set *set =
		&request->cpus[cpu]
			 .set[(number % LS_TOP_EPOCHS * LS_TOP_KINDS + kind) * LS_TOP_SETS + index];

	return set->epoch == (uint32_t)number ? set : NULL;
}

static bool is_wanted(const struct ls_summary_request *request, uint32_t at)
{
	return !request->ifindex || at >> 1 == request->ifindex;
}

static int add_entry(struct entries *entries, const struct ls_top_set *set, int way, bool refused)
{
	if (entries->count == entries->capacity) {
		const size_t capacity = entries->capacity ? entries->capacity * 2 : 4096;
		struct entry *items = realloc(entries->items, capacity * sizeof(*items));
		if (!items)
			return -ENOMEM;
		entries->items = items;
		entries->capacity = capacity;
	}
	const double sure = (double)set->packets[way] - (double)set->error[way];
	entries->items[entries->count++] = (struct entry){
		.key = set->key[way],
		.is_ipv6 = set->at[way] & 1,
		.bytes = refused ? 0 : set->bytes[way],
		.packets = refused ? 0 : sure,
		.refused = refused ? sure : 0,
		.drops = refused ? (double)set->drops[way] : 0,
	};
	return 0;
}

static int collect(const struct ls_summary_request *request, unsigned first_kind,
		   struct entries *entries)
{
	for (size_t cpu = 0; cpu < request->n_cpus; cpu++) {
		for (unsigned age = 0; age < request->n_epochs; age++) {
			const uint64_t number = request->number - age;
			if (!part_of(request, cpu, number))
				continue;
			for (unsigned i = 0; i < 2 * LS_TOP_SETS; i++) {
				const bool refused = i >= LS_TOP_SETS;
				const struct ls_top_set *set = set_of(request, cpu, number,
								      first_kind + refused,
								      i % LS_TOP_SETS);
				for (int way = 0; set && way < LS_TOP_WAYS; way++)
					if (set->packets[way] && is_wanted(request, set->at[way]) &&
					    add_entry(entries, set, way, refused) < 0)
						return -ENOMEM;
			}
		}
	}
	return 0;
}

static int compare_keys(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;

	if (a->is_ipv6 != b->is_ipv6)
		return a->is_ipv6 < b->is_ipv6 ? -1 : 1;
	return a->key < b->key ? -1 : a->key > b->key;
}

/* Adds up what is of one key: then each is there once. */
static void fold(struct entries *entries)
{
	size_t kept = 0;

	if (entries->count == 0)
		return;
	qsort(entries->items, entries->count, sizeof(entries->items[0]), compare_keys);
	for (size_t i = 1; i < entries->count; i++) {
		struct entry *to = &entries->items[kept];
		const struct entry *from = &entries->items[i];
		if (compare_keys(to, from) != 0) {
			entries->items[++kept] = *from;
			continue;
		}
		to->bytes += from->bytes;
		to->packets += from->packets;
		to->refused += from->refused;
		to->drops += from->drops;
	}
	entries->count = kept + 1;
}

static double rank(const struct entry *entry, enum ls_top_order order)
{
	switch (order) {
	case LS_TOP_BY_PACKETS:
		return entry->packets > entry->refused ? entry->packets : entry->refused;
	case LS_TOP_BY_BYTES:
		return (double)entry->bytes;
	case LS_TOP_BY_DROPS:
	case LS_TOP_ORDER_MAX:
		break;
	}
	return entry->refused;
}

static int compare_entries(const void *left, const void *right, void *order)
{
	const double a = rank(left, *(const enum ls_top_order *)order);
	const double b = rank(right, *(const enum ls_top_order *)order);

	return a > b ? -1 : a < b ? 1 : compare_keys(left, right);
}

/* Leaves those that lead in some order: at most LS_TOP_ROWS for each. */
static void lead(struct entries *entries)
{
	size_t first = 0; /* those before it are chosen */

	if (entries->count == 0)
		return;
	for (enum ls_top_order order = 0; order < LS_TOP_ORDER_MAX; order++) {
		const size_t rest = entries->count - first;
		qsort_r(entries->items + first, rest, sizeof(entries->items[0]), compare_entries,
			&order);
		size_t taken = 0;
		while (taken < rest && taken < LS_TOP_ROWS &&
		       rank(&entries->items[first + taken], order) > 0)
			taken++;
		first += taken;
	}
	entries->count = first;
}

double ls_summary_sampling_error(double variance, uint32_t weight)
{
	const double half = Z * ((double)weight - 1) / 2;

	return weight > 1 ? Z * sqrt(variance + half * half) + Z * half : 0;
}

/* How much one figure of one key can be too low, and how far off by sampling. */
struct bound {
	double slack;
	double variance;
	uint32_t weight;
};

static void ask_part(const struct ls_summary_request *request, const struct ls_top_epoch *part,
		     const struct ls_top_set *set, const struct entry *entry, struct bound *bound)
{
	uint32_t smallest = UINT32_MAX, present = 0;
	double slack = 0, sure = 0;

	for (int way = 0; set && way < LS_TOP_WAYS; way++) {
		smallest = set->packets[way] < smallest ? set->packets[way] : smallest;
		if (!set->packets[way] || set->key[way] != entry->key ||
		    (set->at[way] & 1) != entry->is_ipv6 || !is_wanted(request, set->at[way]))
			continue;
		sure += (double)set->packets[way] - (double)set->error[way];
		slack += (double)set->error[way];
		present++;
	}
	const unsigned possible = request->ifindex ? 1 : request->n_interfaces;
	if (set && present < possible)
		slack += (double)smallest * (possible - present);
	bound->slack += slack;
	bound->variance += ((double)part->weight - 1) * (sure + slack);
	if (part->weight > bound->weight)
		bound->weight = part->weight;
}

static struct bound bound_of(const struct ls_summary_request *request, unsigned kind,
			     const struct entry *entry)
{
	const unsigned index = ls_summary_set(request->hash_key, entry->key, entry->is_ipv6);
	struct bound bound = { 0 };

	for (size_t cpu = 0; cpu < request->n_cpus; cpu++)
		for (unsigned age = 0; age < request->n_epochs; age++) {
			const uint64_t number = request->number - age;
			const struct ls_top_epoch *part = part_of(request, cpu, number);
			if (part)
				ask_part(request, part, set_of(request, cpu, number, kind, index),
					 entry, &bound);
		}
	return bound;
}

static struct ls_prefix prefix_of(const struct entry *entry, unsigned kind)
{
	const bool is_source = kind < LS_TOP_PREFIXES;
	struct ls_prefix prefix = { .family = entry->is_ipv6 ? LS_IPV6 : LS_IPV4 };
	const int bytes = entry->is_ipv6 ? 8 : 4;

	if (entry->is_ipv6)
		prefix.length = is_source ? 64 : LS_TOP_PREFIX6;
	else
		prefix.length = is_source ? 32 : LS_TOP_PREFIX4;
	for (int i = 0; i < bytes; i++)
		prefix.bytes[i] = (uint8_t)(entry->key >> 8 * (bytes - 1 - i));
	return prefix;
}

static struct ls_top_row row_of(const struct ls_summary_request *request, unsigned kind,
				const struct entry *entry, double per_second, double all)
{
	struct bound packets = bound_of(request, kind, entry);
	const struct bound refused = bound_of(request, kind + 1, entry);
	/* Who is refused has sent: it may have lost its way in the summary of all. */
	const double shown = rank(entry, LS_TOP_BY_PACKETS);

	packets.slack -= shown - entry->packets;
	if (packets.slack < 0)
		packets.slack = 0;
	return (struct ls_top_row){
		.prefix = prefix_of(entry, kind),
		.packets = shown * per_second,
		.bytes = (double)entry->bytes * per_second,
		.drops = entry->drops * per_second,
		.would_drops = (entry->refused - entry->drops) * per_second,
		.error = (packets.slack +
			  ls_summary_sampling_error(packets.variance, packets.weight)) *
			 per_second,
		.refused_error = (refused.slack +
				  ls_summary_sampling_error(refused.variance, refused.weight)) *
				 per_second,
		.share = all > 0 ? shown / all : 0,
	};
}

/* One of the two lists; `all`: packets in the interval, for shares. */
static int make_list(const struct ls_summary_request *request, unsigned kind, double per_second,
		     double all, struct ls_top_list *ret, struct ls_error *error)
{
	struct entries entries = { 0 };

	if (collect(request, kind, &entries) < 0) {
		free(entries.items);
		return ls_error_oom(error);
	}
	fold(&entries);
	lead(&entries);
	ret->rows = calloc(entries.count + 1, sizeof(ret->rows[0]));
	if (!ret->rows) {
		free(entries.items);
		return ls_error_oom(error);
	}
	ret->count = entries.count;
	for (size_t i = 0; i < entries.count; i++)
		ret->rows[i] = row_of(request, kind, &entries.items[i], per_second, all);
	free(entries.items);
	ls_top_sort(ret, LS_TOP_BY_PACKETS);
	return 0;
}

/* Sums of all samples. Returns the packets in the interval. */
static double add_totals(const struct ls_summary_request *request, double per_second,
			 struct ls_top_reading *reading)
{
	double packets = 0, bytes = 0, refused = 0, drops = 0, all = 0;
	double variance = 0, refused_variance = 0;

	for (size_t cpu = 0; cpu < request->n_cpus; cpu++)
		for (unsigned age = 0; age < request->n_epochs; age++) {
			const struct ls_top_epoch *part =
				part_of(request, cpu, request->number - age);
			for (int bank = 0; part && bank < LS_BANKS; bank++) {
				const struct ls_top_total *total = &part->total[bank];
				all += (double)total->packets;
				if (request->bank >= 0 && bank != request->bank)
					continue;
				packets += (double)total->packets;
				bytes += (double)total->bytes;
				refused += (double)total->refused;
				drops += (double)total->drops;
				variance += (double)total->packets * ((double)part->weight - 1);
				refused_variance +=
					(double)total->refused * ((double)part->weight - 1);
			}
			if (part && part->weight > reading->weight)
				reading->weight = part->weight;
		}
	reading->total = (struct ls_top_row){
		.packets = packets * per_second,
		.bytes = bytes * per_second,
		.drops = drops * per_second,
		.would_drops = (refused - drops) * per_second,
		.error = ls_summary_sampling_error(variance, reading->weight) * per_second,
		.refused_error =
			ls_summary_sampling_error(refused_variance, reading->weight) * per_second,
		.share = all > 0 ? packets / all : 0,
	};
	return all;
}

/* Whether no place of an epoch has been given to a later one. */
static bool is_still_there(const struct ls_summary_request *request)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	for (size_t cpu = 0; cpu < request->n_cpus; cpu++)
		for (int i = 0; i < LS_TOP_EPOCHS; i++)
			if (__atomic_load_n(&request->cpus[cpu].epoch[i].number, __ATOMIC_RELAXED) +
				    request->n_epochs >
			    request->number + LS_TOP_EPOCHS)
				return false;
	return true;
}

int ls_summary_read(const struct ls_summary_request *request, struct ls_top_reading *ret,
		    struct ls_error *error)
{
	const double epoch_s = (double)(1ULL << LS_TOP_EPOCH_SHIFT) / 1e9;
	const double per_second = 1 / (epoch_s * request->n_epochs);
	struct ls_top_reading reading = {
		.number = request->number,
		.interval_ns = (uint64_t)request->n_epochs << LS_TOP_EPOCH_SHIFT,
	};

	const double all = add_totals(request, per_second, &reading);
	int r = make_list(request, LS_TOP_SOURCES, per_second, all, &reading.sources, error);
	if (r == 0)
		r = make_list(request, LS_TOP_PREFIXES, per_second, all, &reading.prefixes, error);
	if (r == 0 && !is_still_there(request))
		r = -EAGAIN;
	if (r < 0) {
		ls_top_fini(&reading);
		return r;
	}
	*ret = reading;
	return 0;
}

static double amount(const struct ls_top_row *row, enum ls_top_order order)
{
	return order == LS_TOP_BY_PACKETS ? row->packets
	       : order == LS_TOP_BY_BYTES ? row->bytes
					  : row->drops + row->would_drops;
}

static int compare_rows(const void *left, const void *right, void *order)
{
	const struct ls_top_row *a = left, *b = right;
	const double of_a = amount(a, *(const enum ls_top_order *)order);
	const double of_b = amount(b, *(const enum ls_top_order *)order);

	return of_a > of_b ? -1 : of_a < of_b ? 1 : ls_prefix_compare(&a->prefix, &b->prefix);
}

void ls_top_sort(struct ls_top_list *list, enum ls_top_order order)
{
	if (list->count)
		qsort_r(list->rows, list->count, sizeof(list->rows[0]), compare_rows, &order);
}

void ls_top_fini(struct ls_top_reading *reading)
{
	free(reading->sources.rows);
	free(reading->prefixes.rows);
	memset(reading, 0, sizeof(*reading));
}
