/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/view.h"

/* One limit of the class: whose state it is, whether there is one, what it admits, and how long to wait. */

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "pure/hash.h"
#include "pure/hot.h"
#include "pure/limit.h"
#include "user/plane/wait.h"

static struct ls_instant instant_of(const struct ls_view *view)
{
	return (struct ls_instant){ .now = view->now, .wall_ns = view->wall_ns };
}

/* ---- who is limited, as text ---- */

struct ls_prefix ls_view_prefix(struct ls_address address, uint8_t family, uint8_t length)
{
	struct ls_prefix prefix = { .family = family, .length = ls_prefix_full_length(family) };
	const int bytes = family == 6 ? 16 : 4;

	for (int i = 0; i < bytes; i++) {
		const int from_end = bytes - 1 - i;
		const uint64_t word = from_end >= 8 ? address.high : address.low;
		prefix.bytes[i] = (uint8_t)(word >> (8 * (from_end & 7)));
	}
	return ls_prefix_widen(prefix, length);
}

static const char *address_text(struct ls_address address, uint8_t family,
				char text[static LS_PREFIX_TEXT])
{
	const struct ls_prefix prefix = ls_view_prefix(address, family, 128);

	return ls_address_format(&prefix, text);
}

/* "203.0.113.7 port 1234 to 198.51.100.10 port 443, protocol 6" */
static void flow_text(const struct ls_query *query, char text[static LS_EXPLAIN_KEY_TEXT])
{
	const struct ls_packet *packet = &query->packet;
	char source[LS_PREFIX_TEXT], destination[LS_PREFIX_TEXT], protocol[16] = "";

	if (packet->known & LS_KNOWN_PROTOCOL)
		snprintf(protocol, sizeof(protocol), ", protocol %u", packet->protocol);
	snprintf(text, LS_EXPLAIN_KEY_TEXT, "%s port %u to %s port %u%s",
		 address_text(packet->source, packet->family, source), packet->source_port,
		 query->has_destination
			 ? address_text(packet->destination, packet->family, destination)
			 : "(no --to)",
		 packet->port, protocol);
}

static void name_subject(const struct ls_view *view, const struct ls_limit_abi *limit,
			 char text[static LS_EXPLAIN_KEY_TEXT])
{
	const struct ls_packet *packet = &view->query->packet;
	char address[LS_PREFIX_TEXT];
	const uint8_t prefix_bits = packet->family == 6 ? limit->bits6 : limit->bits4;
	const uint8_t source_bits = packet->family == 6 ? 64 : 32;
	const struct ls_prefix source =
		ls_view_prefix(packet->source, packet->family,
			       limit->per == LS_ABI_PER_SOURCE ? source_bits : prefix_bits);

	switch (limit->per) {
	case LS_ABI_PER_SOURCE:
	case LS_ABI_PER_PREFIX:
		snprintf(text, LS_EXPLAIN_KEY_TEXT, "%s", ls_prefix_format(&source, address));
		break;
	case LS_ABI_PER_DESTINATION:
		snprintf(text, LS_EXPLAIN_KEY_TEXT, "%s",
			 view->query->has_destination
				 ? address_text(packet->destination, packet->family, address)
				 : "(no --to)");
		break;
	case LS_ABI_PER_FLOW:
		flow_text(view->query, text);
		break;
	default: /* the class itself, whose name the caller knows */
		text[0] = '\0';
	}
}

/* ---- where its state is ---- */

/* The share of a way's limit that it has used; 0: dead; -1: it is being claimed. */
static int share_at(const struct ls_view *view, unsigned table, uint32_t set, uint32_t way,
		    unsigned *ret_full)
{
	const struct ls_way *of = &view->ways[set].way[way];
	const uint64_t state = LS_READ_ONCE(of->state), key = LS_READ_ONCE(of->key);
	const struct ls_slot_abi *slot =
		&view->slots[view->half * LS_SLOTS + (key & (LS_SLOTS - 1))];

	*ret_full = slot->full_share;
	if (state == LS_STATE_BUSY)
		return -1;
	if (!key)
		return 0;
	return (int)ls_state_share(
		(struct ls_instant){ .now = view->now, .wall_ns = view->wall_ns }, slot, table,
		state,
		table == LS_TABLE_LOG ? &view->logs[(set - view->table_base[table]) * LS_WAYS + way]
				      : NULL);
}

static bool is_taken(const struct ls_view *view, uint64_t place)
{
	for (unsigned i = 0; i < view->n_taken; i++)
		if (view->taken[i] == place)
			return true;
	return false;
}

/*
 * The way that a newcomer with `key` would claim: the first dead one, or, outside the short table, the least used
 * that may be evicted; LS_WAYS: none (kern/table.h, ls_way_to_claim).
 */
static uint32_t way_to_claim(const struct ls_view *view, unsigned table, uint32_t set, uint64_t key)
{
	unsigned best_share = 256;
	uint32_t best = LS_WAYS;

	for (uint32_t i = 0; i < LS_WAYS; i++) {
		const uint64_t other = LS_READ_ONCE(view->ways[set].way[i].key);
		unsigned full = 0;
		const int share = share_at(view, table, set, i, &full);
		if (share < 0 || is_taken(view, (uint64_t)set * LS_WAYS + i) ||
		    (other && (other ^ key) < LS_SLOTS &&
		     view->slots[view->half * LS_SLOTS + (other & (LS_SLOTS - 1))].known))
			continue;
		if (share == 0)
			return i;
		if (table != LS_TABLE_SHORT && (unsigned)share < best_share &&
		    (unsigned)share * 8 <= full) {
			best = i;
			best_share = (unsigned)share;
		}
	}
	return best;
}

static int find_way(const struct ls_ways *ways, uint64_t key, uint64_t *ret_state)
{
	for (int i = 0; i < LS_WAYS; i++) {
		if (LS_READ_ONCE(ways->way[i].key) != key)
			continue;
		*ret_state = LS_READ_ONCE(ways->way[i].state);
		if (*ret_state != LS_STATE_BUSY)
			return i;
	}
	*ret_state = 0;
	return -1;
}

/* Set and key of the limit's subject. */
static uint32_t set_of(const struct ls_view *view, const struct ls_limit_abi *limit,
		       unsigned class_slot, uint64_t *ret_key)
{
	const __u64 *keys = view->control->hash_key;
	const struct ls_packet *packet = &view->query->packet;
	const unsigned table = limit->table & (LS_TABLES - 1);
	const struct ls_hash hash =
		limit->per == LS_ABI_PER_SOURCE
			? ls_hash_source(keys, class_slot, LS_ABI_PER_SOURCE, packet)
			: ls_hash_other(keys, class_slot, limit->per, limit->bits4, limit->bits6,
					packet);

	*ret_key = ls_hash_key(hash, limit->slot);
	return view->table_base[table] + ls_hash_set(hash, view->table_mask[table]);
}

static bool is_in_shared(const struct ls_limit_abi *limit)
{
	return limit->per == LS_ABI_PER_CLASS && limit->table != LS_TABLE_LOG;
}

/*
 * Finds the state and says where; a newcomer's is 0. *ret_way is the way that would be charged, set * LS_WAYS + way, or
 * UINT64_MAX.
 */
static enum ls_explain_place find_state(const struct ls_view *view,
					const struct ls_limit_abi *limit, unsigned class_slot,
					struct ls_standing *standing, uint64_t *ret_way)
{
	const unsigned table = limit->table & (LS_TABLES - 1);
	uint64_t key;

	*ret_way = UINT64_MAX;
	if (is_in_shared(limit)) {
		standing->state = LS_READ_ONCE(view->shared[limit->slot].state);
		return LS_PLACE_OWN;
	}
	const uint32_t set = set_of(view, limit, class_slot, &key);
	const int way = find_way(&view->ways[set], key, &standing->state);
	if (way >= 0) {
		if (table == LS_TABLE_LOG)
			standing->log = &view->logs[(set - view->table_base[table]) * LS_WAYS +
						    (unsigned)way];
		*ret_way = (uint64_t)set * LS_WAYS + (unsigned)way;
		return LS_PLACE_OWN;
	}
	const uint32_t claimed = way_to_claim(view, table, set, key);
	if (claimed < LS_WAYS) {
		*ret_way = (uint64_t)set * LS_WAYS + claimed;
		return LS_PLACE_NONE;
	}
	return table == LS_TABLE_SHORT ? LS_PLACE_CROWD : LS_PLACE_UNSEEN;
}

/* ---- what it says ---- */

/* What such a packet costs; 0: nothing. */
static uint64_t units_of(const struct ls_query *query, const struct ls_limit_abi *limit)
{
	if (limit->count == LS_ABI_BYTES)
		return query->bytes;
	return limit->count != LS_ABI_CONNECTIONS || ls_is_connection(&query->packet);
}

static bool admits(const struct ls_view *view, const struct ls_standing *standing, uint64_t cost)
{
	static const struct ls_log empty;
	__u64 next = 0;

	if (standing->limit->algorithm == LS_ABI_SLIDING_LOG)
		return ls_log_take(standing->log ? standing->log : &empty, standing->state,
				   view->now, standing->limit->window_ns, standing->ceiling, &next);
	return ls_limit_take(standing->limit, view->now, view->wall_ns, standing->state, cost,
			     standing->ceiling, &next);
}

/* The live entry of the key in the side table, from 1; 0: none (kern/hot.h). */
static uint32_t find_shared(const struct ls_view *view, uint64_t key)
{
	const uint32_t set = ls_hot_set_of(key);

	for (uint32_t i = 0; i < LS_HOT_WAYS; i++) {
		const struct ls_hot_way *const way = &view->hot->sets[set].way[i];
		if (LS_READ_ONCE(way->key) == key &&
		    ls_hot_is_live(LS_READ_ONCE(way->until), view->now_ns))
			return set * LS_HOT_WAYS + i + 1;
	}
	return 0;
}

/*
 * What all nodes together make of the cost, the ceiling and the answer. The remainder of the error diffusion is each CPU's: the
 * next packet is taken to come to that which had most of this source.
 */
static void share(const struct ls_view *view, const struct ls_limit_abi *limit, unsigned class_slot,
		  __u64 *cost, __u64 *ceiling, struct ls_explain_limit *ret)
{
	uint64_t key = 0;

	if (!view->hot || !(limit->flags & LS_LIMIT_F_CLUSTER))
		return;
	(void)set_of(view, limit, class_slot, &key);
	const uint32_t entry = find_shared(view, key);
	const struct ls_hot_limit *const of = &view->hot->limits[limit->slot];
	struct ls_hot_standing standing = { *cost, *ceiling,
					    limit->per == LS_ABI_PER_SOURCE ? view->factor : 0 };

	ret->admit = 1;
	ls_hot_apply(view->hot, limit, entry, view->now_ns, view->wall_ns, &standing);
	*cost = standing.cost;
	*ceiling = standing.ceiling;
	if (!entry) {
		if (of->until & LS_HOT_F_CLOSED && ls_hot_is_live(of->until, view->now_ns)) {
			ret->is_shared = ret->thins = ret->is_charged;
			ret->admit = 0;
		}
		return;
	}
	const uint32_t admit =
		view->hot->sets[(entry - 1) / LS_HOT_WAYS].way[(entry - 1) % LS_HOT_WAYS].admit;
	const struct ls_hot_count *count = &view->hot_cpus[0].count[entry - 1];
	for (uint32_t cpu = 1; cpu < view->n_cpus; cpu++)
		if (view->hot_cpus[cpu].count[entry - 1].offered > count->offered)
			count = &view->hot_cpus[cpu].count[entry - 1];
	__u32 frac = count->frac;
	ret->is_shared = true;
	ret->admit = admit == LS_HOT_ADMIT_ALL ? 1 : (double)admit / 4294967296.0;
	ret->thins = ret->is_charged && ls_hot_thins(admit, &frac);
}

/* Numbers and answer of a state that was found at ret->place. */
static void judge(const struct ls_view *view, struct ls_standing *standing, unsigned class_slot,
		  struct ls_explain_limit *ret)
{
	const struct ls_limit_abi *limit = standing->limit;
	const uint64_t units = units_of(view->query, limit);
	__u64 cost = ls_limit_price(limit, units ? units : 1), ceiling = limit->tau;

	ret->is_charged = units && cost;
	if (ret->place == LS_PLACE_CROWD) {
		/* The crowd pays the limit's own price, whoever is charged. */
		standing->state = LS_READ_ONCE(view->shared[limit->slot].crowd);
	} else {
		ls_limit_scale(limit, view->factor, &cost, &ceiling);
		standing->factor = limit->per == LS_ABI_PER_SOURCE ? view->factor : 0;
		share(view, limit, class_slot, &cost, &ceiling, ret);
	}
	standing->ceiling = ceiling;
	ret->ceiling = ls_standing_ceiling(standing);
	ret->remaining = ls_standing_remaining(standing, instant_of(view));
	ret->refuses = false;
	ret->wait_ns = 0;
	if (ret->place == LS_PLACE_UNSEEN)
		return;
	ret->refuses = ret->is_charged && !admits(view, standing, cost);
	ret->wait_ns = ls_standing_wait(standing, instant_of(view), cost);
}

bool ls_view_limit(struct ls_view *view, const struct ls_limit_abi *limit, unsigned class_slot,
		   struct ls_explain_limit *ret)
{
	struct ls_standing standing = { .limit = limit };
	uint64_t way;

	memset(ret, 0, sizeof(*ret));
	ret->per = limit->per;
	ret->count = limit->count;
	ret->algorithm = limit->algorithm;
	name_subject(view, limit, ret->key);
	ret->place = find_state(view, limit, class_slot, &standing, &way);
	judge(view, &standing, class_slot, ret);
	if (ret->is_charged && way != UINT64_MAX && view->n_taken < LS_VIEW_TAKEN)
		view->taken[view->n_taken++] = way;
	return ret->refuses;
}
