/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/counters.h"

/*
 * The sums. Each counter of the ledger's books is read once per CPU and bank, added to the row that it
 * belongs to and to the totals at the same time; nothing is subtracted, so nothing can go negative.
 *
 * Several limits of one name, past and present, share their counters, which are counted once. A name that the ledger
 * forgets leaves its block to another one: what was counted under it is folded into the verdicts of no class.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loadshed/policy_abi.h"
#include "user/base/error.h"
#include "user/plane/internal.h"
#include "user/policy/compile.h"

/* What the counters of a block stand for. */
struct meaning {
	uint32_t offset;
	enum ls_verdict verdict;
	enum ls_reason reason;
};

static const struct meaning class_counters[] = {
	{ LS_CLASS_COUNTER_ADMITTED, LS_VERDICT_PASS, LS_REASON_ADMITTED },
	{ LS_CLASS_COUNTER_INTERNAL, LS_VERDICT_PASS, LS_REASON_INTERNAL },
	{ LS_CLASS_COUNTER_OVERLOAD_DROP, LS_VERDICT_DROP, LS_REASON_OVERLOAD },
	{ LS_CLASS_COUNTER_OVERLOAD_WOULD, LS_VERDICT_WOULD_DROP, LS_REASON_OVERLOAD },
	{ LS_CLASS_COUNTER_PANIC_DROP, LS_VERDICT_DROP, LS_REASON_PANIC },
	{ LS_CLASS_COUNTER_PANIC_WOULD, LS_VERDICT_WOULD_DROP, LS_REASON_PANIC },
};

static const struct meaning limit_counters[] = {
	{ LS_LIMIT_COUNTER_DROP, LS_VERDICT_DROP, LS_REASON_LIMIT },
	{ LS_LIMIT_COUNTER_CROWD_DROP, LS_VERDICT_DROP, LS_REASON_CROWD },
	{ LS_LIMIT_COUNTER_WOULD, LS_VERDICT_WOULD_DROP, LS_REASON_LIMIT },
	{ LS_LIMIT_COUNTER_CROWD_WOULD, LS_VERDICT_WOULD_DROP, LS_REASON_CROWD },
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

_Static_assert(LS_REASON_PANIC + 8 - 16 < LS_REASON_MALFORMED &&
		       LS_REASON_ADMITTED + 8 > LS_REASON_MALFORMED,
	       "LS_COUNTER_FOLDED meets no counter of packets");

/* A reading under way. */
struct reading {
	struct ls_plane *plane;
	const struct ls_counters *live; /* CPU * LS_BANKS + bank */
	const struct ls_counters *retired;
	uint32_t cpus;
	int bank; /* -1: all, and the retired */
	struct ls_stats *stats;
	struct ls_tally bank_pass[LS_BANKS], bank_drop[LS_BANKS];
	bool failed;
};

static void add(struct ls_tally *to, struct ls_tally what)
{
	to->packets += what.packets;
	to->bytes += what.bytes;
}

static struct ls_tally load(const struct ls_counter *counter)
{
	return (struct ls_tally){
		.packets = __atomic_load_n(&counter->packets, __ATOMIC_RELAXED),
		.bytes = __atomic_load_n(&counter->bytes, __ATOMIC_RELAXED),
	};
}

/* Reads one counter everywhere and adds it to the totals. */
static struct ls_tally take(struct reading *reading, uint32_t number, enum ls_verdict verdict)
{
	struct ls_stats *stats = reading->stats;
	struct ls_tally sum = { 0 };

	if (number >= LS_COUNTERS)
		return sum;
	for (uint32_t bank = 0; bank < LS_BANKS; bank++) {
		struct ls_tally here = { 0 };
		if (reading->bank >= 0 && (uint32_t)reading->bank != bank)
			continue;
		for (uint32_t cpu = 0; cpu < reading->cpus; cpu++)
			add(&here, load(&reading->live[cpu * LS_BANKS + bank].counter[number]));
		add(&sum, here);
		add(verdict == LS_VERDICT_DROP ? &reading->bank_drop[bank]
					       : &reading->bank_pass[bank],
		    here);
	}
	if (reading->bank < 0)
		add(&sum, load(&reading->retired->counter[number]));
	add(&stats->seen, sum);
	add(verdict == LS_VERDICT_DROP ? &stats->drop : &stats->pass, sum);
	if (verdict == LS_VERDICT_WOULD_DROP)
		add(&stats->would_drop, sum);
	return sum;
}

/* Gives what was counted a row, if it is not zero. */
static void add_row(struct reading *reading, struct ls_stats_class *class, struct ls_tally tally,
		    enum ls_verdict verdict, enum ls_reason reason, const char *limit)
{
	if (tally.packets == 0 && tally.bytes == 0)
		return;
	struct ls_stats_verdict *rows =
		realloc(class->verdicts, (class->n_verdicts + 1) * sizeof(*rows));
	if (!rows) {
		reading->failed = true;
		return;
	}
	class->verdicts = rows;
	struct ls_stats_verdict *row = &rows[class->n_verdicts++];
	*row = (struct ls_stats_verdict){ .verdict = verdict, .reason = reason, .tally = tally };
	snprintf(row->limit, sizeof(row->limit), "%s", limit);
}

/* Other places among the global counters hold what was folded. */
static bool can_happen(unsigned verdict, unsigned reason)
{
	if (verdict == LS_VERDICT_PASS)
		return !LS_REASON_DROPS(reason) || reason == LS_REASON_MALFORMED;
	return LS_REASON_DROPS(reason);
}

static void take_global(struct reading *reading, struct ls_stats_class *class)
{
	for (unsigned verdict = 0; verdict < LS_VERDICT_MAX; verdict++) {
		for (unsigned reason = 0; reason < LS_REASON_MAX; reason++) {
			if (!can_happen(verdict, reason))
				continue;
			struct ls_tally sum = take(reading, LS_COUNTER_GLOBAL(verdict, reason),
						   (enum ls_verdict)verdict);
			add(&sum, take(reading, LS_COUNTER_FOLDED(verdict, reason),
				       (enum ls_verdict)verdict));
			add_row(reading, class, sum, (enum ls_verdict)verdict,
				(enum ls_reason)reason, "");
		}
	}
}

static void take_limit(struct reading *reading, struct ls_stats_class *class,
		       const struct ls_ledger_limit *limit)
{
	for (size_t i = 0; i < LENGTH(limit_counters); i++) {
		const struct meaning *means = &limit_counters[i];
		add_row(reading, class,
			take(reading, limit->counter + means->offset, means->verdict),
			means->verdict, means->reason, limit->name);
	}
}

/* The ledger's limits, those of a class together and in the order of their slots. */
struct limits {
	const struct ls_ledger_limit *rows[LS_SLOTS];
	size_t count;
};

static int compare_limits(const void *a, const void *b)
{
	const struct ls_ledger_limit *left = *(const struct ls_ledger_limit *const *)a;
	const struct ls_ledger_limit *right = *(const struct ls_ledger_limit *const *)b;
	const int order = strncmp(left->class_name, right->class_name, LS_NAME_BYTES);

	return order ? order : (left > right) - (left < right);
}

static void sort_limits(const struct ls_ledger *ledger, struct limits *ret)
{
	ret->count = 0;
	for (unsigned i = 0; i < LS_SLOTS; i++)
		if (ledger->limits[i].class_name[0] && ledger->limits[i].name[0])
			ret->rows[ret->count++] = &ledger->limits[i];
	qsort(ret->rows, ret->count, sizeof(ret->rows[0]), compare_limits);
}

/* The first of a class; ret->count: there is none. */
static size_t find_limits(const struct limits *limits, const char *class_name)
{
	size_t low = 0, high = limits->count;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (strncmp(limits->rows[middle]->class_name, class_name, LS_NAME_BYTES) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Whether a row from `first` on and before `index` has the same counters: another identity of the same name. */
static bool is_repeated(const struct limits *limits, size_t first, size_t index)
{
	for (size_t i = first; i < index; i++)
		if (limits->rows[i]->counter == limits->rows[index]->counter)
			return true;
	return false;
}

static void take_class(struct reading *reading, struct ls_stats_class *class,
		       const struct limits *limits, const struct ls_ledger_class *entry)
{
	snprintf(class->name, sizeof(class->name), "%.31s", entry->name);
	for (size_t i = 0; i < LENGTH(class_counters); i++) {
		const struct meaning *means = &class_counters[i];
		add_row(reading, class,
			take(reading, entry->counter + means->offset, means->verdict),
			means->verdict, means->reason, "");
	}
	const size_t first = find_limits(limits, entry->name);
	for (size_t i = first; i < limits->count; i++) {
		if (strncmp(limits->rows[i]->class_name, entry->name, LS_NAME_BYTES) != 0)
			break;
		if (!is_repeated(limits, first, i))
			take_limit(reading, class, limits->rows[i]);
	}
}

/* The policy's classes in its order, then those of the past that counted something. */
static int take_classes(struct reading *reading, struct ls_error *error)
{
	struct ls_plane *plane = reading->plane;
	struct ls_stats *stats = reading->stats;
	const unsigned half = ls_plane_half(plane);
	const struct ls_ledger *ledger = ls_plane_memory(plane, LS_MAP_LEDGER, error);
	const struct ls_tables *tables = ls_plane_memory(plane, LS_MAP_TABLES, error);
	bool done[LS_CLASS_SLOTS] = { false };
	struct limits limits;

	if (!ledger || !tables)
		return -EIO;
	sort_limits(ledger, &limits);
	stats->classes = calloc(1 + LS_CLASS_SLOTS, sizeof(*stats->classes));
	if (!stats->classes)
		return ls_error_oom(error);
	take_global(reading, &stats->classes[stats->n_classes++]);
	const uint32_t n_classes = ls_plane_control_rw(plane)->generation[half].n_classes;
	for (uint32_t i = 0; i < n_classes && i < LS_CLASSES; i++) {
		const unsigned slot = tables->classes[half * LS_CLASSES + i].slot;
		if (slot >= LS_CLASS_SLOTS || done[slot])
			continue;
		done[slot] = true;
		take_class(reading, &stats->classes[stats->n_classes++], &limits,
			   &ledger->classes[slot]);
	}
	stats->n_current = stats->n_classes;
	for (unsigned slot = 0; slot < LS_CLASS_SLOTS; slot++) {
		struct ls_stats_class *class = &stats->classes[stats->n_classes];
		if (done[slot] || !ledger->classes[slot].name[0])
			continue;
		take_class(reading, class, &limits, &ledger->classes[slot]);
		if (class->n_verdicts)
			stats->n_classes++;
		else
			memset(class, 0, sizeof(*class));
	}
	return reading->failed ? ls_error_oom(error) : 0;
}

/* A row for each interface with counters of its own, and one for all that share. */
static int fill_interfaces(struct reading *reading, const char *only, struct ls_error *error)
{
	const struct ls_state *state = ls_plane_state(reading->plane);
	struct ls_stats *stats = reading->stats;
	struct ls_stats_interface shared = { .pass = reading->bank_pass[0],
					     .drop = reading->bank_drop[0] };

	stats->interfaces = calloc(LS_STATE_INTERFACES + 1, sizeof(*stats->interfaces));
	if (!stats->interfaces)
		return ls_error_oom(error);
	for (int i = 0; i < LS_STATE_INTERFACES; i++) {
		const struct ls_state_interface *row = &state->interfaces[i];
		struct ls_device device = { 0 };
		if (!row->ifindex)
			continue;
		if (ls_device_get(row->ifindex, &device) < 0)
			snprintf(device.name, sizeof(device.name), "%.15s", row->name);
		if (row->bank == 0) {
			const size_t used = strlen(shared.name);
			snprintf(shared.name + used, sizeof(shared.name) - used, "%s%s",
				 used ? "," : "", device.name);
			continue;
		}
		if (only && row->bank != reading->bank)
			continue;
		struct ls_stats_interface *to = &stats->interfaces[stats->n_interfaces++];
		snprintf(to->name, sizeof(to->name), "%s", device.name);
		to->ifindex = row->ifindex;
		to->pass = reading->bank_pass[row->bank];
		to->drop = reading->bank_drop[row->bank];
	}
	if (shared.name[0] && (!only || reading->bank == 0))
		stats->interfaces[stats->n_interfaces++] = shared;
	return 0;
}

/* A row that has lost its device and had this name at attach, which is what status and stats call it. */
static bool is_vanished(const struct ls_state_interface *row, const char *name)
{
	struct ls_device device;

	return row->ifindex && strcmp(row->name, name) == 0 &&
	       ls_device_get(row->ifindex, &device) < 0;
}

int ls_row_find(const struct ls_plane *plane, const char *name,
		const struct ls_state_interface **ret, struct ls_error *error)
{
	const struct ls_state *state = ls_plane_state(plane);
	struct ls_device device = { 0 };
	const int r = ls_device_find(name, &device, error);

	for (int i = 0; i < LS_STATE_INTERFACES; i++) {
		const struct ls_state_interface *row = &state->interfaces[i];
		if (r < 0 ? is_vanished(row, name) : row->ifindex == device.ifindex) {
			*ret = row;
			return 0;
		}
	}
	if (r < 0)
		return r;
	return ls_error_set(error, "cannot watch '%s': instance '%s' is not attached there", name,
			    plane->instance);
}

/* Counters move to the retired for microseconds, when an interface is detached. */
#define READ_TRIES 100

int ls_stats_read(struct ls_plane *plane, const char *interface, struct ls_stats *ret,
		  struct ls_error *error)
{
	_cleanup_free_ struct reading *reading = NULL;
	struct ls_stats stats = { 0 };
	const struct ls_state_interface *row = NULL;
	int r = interface ? ls_row_find(plane, interface, &row, error) : 0;

	if (r < 0)
		return r;
	const int bank = row ? row->bank : -1;
	const struct ls_counters *live = ls_plane_memory(plane, LS_MAP_COUNTERS, error);
	const struct ls_counters *retired = ls_plane_memory(plane, LS_MAP_RETIRED, error);
	if (!live || !retired)
		return -EIO;
	const struct ls_state *state = ls_plane_state(plane);
	for (int i = 0; i < READ_TRIES; i++) {
		const uint32_t before = __atomic_load_n(&state->folding, __ATOMIC_ACQUIRE);
		free(reading);
		ls_stats_fini(&stats);
		reading = calloc(1, sizeof(*reading));
		if (!reading)
			return ls_error_oom(error);
		reading->plane = plane;
		reading->live = live;
		reading->retired = retired;
		reading->cpus = plane->maps[LS_MAP_COUNTERS].entries / LS_BANKS;
		reading->bank = bank;
		reading->stats = &stats;
		stats.read_ns = ls_now_monotonic();
		r = take_classes(reading, error);
		if (r == 0)
			r = fill_interfaces(reading, interface, error);
		if (r < 0) {
			ls_stats_fini(&stats);
			return r;
		}
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (!(before & 1) && __atomic_load_n(&state->folding, __ATOMIC_ACQUIRE) == before)
			break;
	}
	*ret = stats;
	return 0;
}

void ls_stats_fini(struct ls_stats *stats)
{
	for (size_t i = 0; stats->classes && i < stats->n_classes; i++)
		free(stats->classes[i].verdicts);
	free(stats->classes);
	free(stats->interfaces);
	memset(stats, 0, sizeof(*stats));
}

/*
 * Around every move of counts from one place to another: readers that meet it read again. An odd number may stand from
 * a process that was killed here: the parity is what counts.
 */
static void fold_begin(struct ls_state *state)
{
	__atomic_store_n(&state->folding, (state->folding + 1) | 1, __ATOMIC_SEQ_CST);
}

static void fold_end(struct ls_state *state)
{
	__atomic_store_n(&state->folding, state->folding + 1, __ATOMIC_SEQ_CST);
}

static void move(struct ls_counter *from, struct ls_counter *to)
{
	to->packets += from->packets;
	to->bytes += from->bytes;
	*from = (struct ls_counter){ 0 };
}

void ls_counters_retire(struct ls_plane *plane, unsigned bank)
{
	struct ls_state *state = ls_plane_state(plane);
	struct ls_counters *live = ls_plane_memory(plane, LS_MAP_COUNTERS, NULL);
	struct ls_counters *retired = ls_plane_memory(plane, LS_MAP_RETIRED, NULL);
	const uint32_t cpus = plane->maps[LS_MAP_COUNTERS].entries / LS_BANKS;

	if (!live || !retired)
		return;
	fold_begin(state);
	for (uint32_t cpu = 0; cpu < cpus; cpu++)
		for (uint32_t i = 0; i < LS_COUNTERS; i++)
			move(&live[cpu * LS_BANKS + bank].counter[i], &retired->counter[i]);
	fold_end(state);
}

static void fold(struct ls_counters *in, const struct ls_reused_counters *block)
{
	const bool is_class = block->count == LS_CLASS_COUNTERS;
	const struct meaning *means = is_class ? class_counters : limit_counters;
	const size_t count = is_class ? LENGTH(class_counters) : LENGTH(limit_counters);

	for (size_t i = 0; i < count; i++)
		move(&in->counter[block->counter + means[i].offset],
		     &in->counter[LS_COUNTER_FOLDED(means[i].verdict, means[i].reason)]);
}

int ls_counters_fold(struct ls_plane *plane, const struct ls_reused_counters *blocks, size_t count,
		     struct ls_error *error)
{
	struct ls_state *state = ls_plane_state(plane);

	if (count == 0)
		return 0;
	struct ls_counters *live = ls_plane_memory(plane, LS_MAP_COUNTERS, error);
	struct ls_counters *retired = ls_plane_memory(plane, LS_MAP_RETIRED, error);
	if (!live || !retired)
		return -EIO;
	fold_begin(state);
	for (size_t i = 0; i < count; i++) {
		for (uint32_t k = 0; k < plane->maps[LS_MAP_COUNTERS].entries; k++)
			fold(&live[k], &blocks[i]);
		fold(retired, &blocks[i]);
	}
	fold_end(state);
	return 0;
}
