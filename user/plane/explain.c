/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/explain.h"

/*
 * The order of judgement, as bpf/loadshed.bpf.c has it on one page, for one question. The look-ups are in view.c,
 * the limits in explain_limit.c; what is arithmetic is in bpf/pure, and the kernel goes by the same.
 *
 * Packets go on meanwhile, so a state may be newer by a few packets than another. A policy that is published in
 * the middle is noticed, and the question is asked again.
 */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "pure/builtin.h"
#include "pure/limit.h"
#include "pure/overload.h"
#include "pure/timed.h"
#include "user/base/error.h"
#include "user/plane/view.h"

#define ORDINARY_HOPS 64 /* no link's own traffic, whose hop limit is 1 or 255 */

static struct ls_address address_of(const struct ls_prefix *prefix)
{
	struct ls_address address = { 0 };
	const int bytes = prefix->family == LS_IPV6 ? 16 : 4;

	for (int i = 0; i < bytes; i++) {
		address.high = address.high << 8 | address.low >> 56;
		address.low = address.low << 8 | prefix->bytes[i];
	}
	return address;
}

struct ls_query ls_query_make(const struct ls_query_words *words)
{
	struct ls_query query = {
		.packet = { .family = words->source.family,
			    .source = address_of(&words->source),
			    .vlan = LS_NO_VLAN,
			    .hops = ORDINARY_HOPS },
		.bytes = LS_QUERY_BYTES,
		.has_destination = words->destination != NULL,
		.has_port = words->port >= 0,
		.has_source_port = words->source_port >= 0,
		.flags_known = words->flags_set | words->flags_clear,
	};
	struct ls_packet *packet = &query.packet;

	if (words->destination)
		packet->destination = address_of(words->destination);
	if (query.has_port)
		packet->port = (uint16_t)words->port;
	if (query.has_source_port)
		packet->source_port = (uint16_t)words->source_port;
	if (query.has_port && query.has_source_port)
		packet->known |= LS_KNOWN_PORTS;
	if (words->protocol >= 0) {
		packet->protocol = (uint8_t)words->protocol;
		packet->known |= LS_KNOWN_PROTOCOL;
	}
	packet->flags = words->flags_set;
	/* Whether it opens a connection is known when both of these are. */
	if ((query.flags_known & (LS_TCP_SYN | LS_TCP_ACK)) == (LS_TCP_SYN | LS_TCP_ACK))
		packet->known |= LS_KNOWN_FLAGS;
	return query;
}

/* ---- the view ---- */

static int open_lists(struct ls_view *view)
{
	const __u32 key = view->half;
	__u32 id = 0;

	view->lists_fd = -1;
	if (!(view->word & (LS_WORD_LISTS4 | LS_WORD_LISTS6)))
		return 0;
	if (bpf_map_lookup_elem(view->plane->maps[LS_MAP_LISTS].fd, &key, &id) < 0)
		return errno == ENOENT ? 0 : -errno;
	view->lists_fd = bpf_map_get_fd_by_id(id);
	return view->lists_fd < 0 ? -errno : 0;
}

static int map_tables(struct ls_view *view, struct ls_error *error)
{
	struct ls_plane *plane = view->plane;
	const struct ls_state *state = ls_plane_state(plane);
	uint32_t sets = 0;

	const struct ls_tables *tables = ls_plane_memory(plane, LS_MAP_TABLES, error);

	view->ways = ls_plane_memory(plane, LS_MAP_WAYS, error);
	view->logs = ls_plane_memory(plane, LS_MAP_LOGS, error);
	if (!tables || !view->ways || !view->logs)
		return -EIO;
	view->classes = tables->classes;
	view->slots = tables->slots;
	view->labels = tables->labels;
	view->ports = tables->ports;
	view->rows = (const uint64_t *)tables->rows;
	view->shared = tables->shared;
	view->hot = NULL;
	if (plane->maps[LS_MAP_HOT].fd >= 0 && plane->maps[LS_MAP_HOT_CPUS].fd >= 0 &&
	    view->now_ns < LS_READ_ONCE(view->control->hot_until)) {
		view->hot_cpus = ls_plane_memory(plane, LS_MAP_HOT_CPUS, error);
		view->n_cpus = plane->maps[LS_MAP_HOT_CPUS].entries;
		view->hot = view->hot_cpus ? ls_plane_memory(plane, LS_MAP_HOT, error) : NULL;
	}
	for (int table = 0; table < LS_TABLES; table++) {
		view->table_base[table] = sets;
		view->table_mask[table] = state->sets[table] - 1;
		sets += state->sets[table];
	}
	return 0;
}

/* ---- the steps ---- */

static void refuse(const struct ls_view *view, enum ls_reason reason, bool monitors,
		   struct ls_explain *ret)
{
	ret->verdict = monitors || view->word & LS_WORD_MONITOR ? LS_VERDICT_WOULD_DROP
								: LS_VERDICT_DROP;
	ret->reason = reason;
}

static bool control_admits(const struct ls_view *view)
{
	__u64 next = 0;

	return ls_bucket_take(LS_READ_ONCE(view->shared[LS_SLOT_CONTROL].state), view->now,
			      LS_CONTROL_COST, LS_CONTROL_TAU, LS_CONTROL_TAU, &next);
}

/* The budget is the program's, not the policy's: NAT does not change it. */
static bool icmp_admits(const struct ls_view *view)
{
	static const struct ls_limit_abi limit = LS_ICMP_LIMIT;
	struct ls_view plain = *view;
	struct ls_explain_limit ignored;

	plain.factor = 0;
	return !ls_view_limit(&plain, &limit, LS_CLASS_SLOT_ICMP_ERRORS, &ignored) &&
	       (ignored.place == LS_PLACE_OWN || ignored.place == LS_PLACE_NONE);
}

/* Steps 3 to 7; true: the packet has its verdict. *ret_row: the classes that the source does not rule out. */
static bool judge_source(struct ls_view *view, struct ls_explain *ret, unsigned *ret_row)
{
	const struct ls_packet *packet = &view->query->packet;
	const unsigned number = ls_view_label(view, packet->source);
	const struct ls_label_abi *label = &view->labels[view->half * LS_LABELS + number];

	if (number || view->word & LS_WORD_FROM) {
		ret->list = label->list;
		ret->factor = label->factor;
		*ret_row = label->from_row;
	}
	view->factor = ret->factor;
	ret->verdict = LS_VERDICT_PASS;
	ret->reason = LS_REASON_CONTROL;
	if (ls_is_control(packet) && control_admits(view))
		return true;
	ret->reason = LS_REASON_ALLOW;
	if (ret->list == LS_LIST_ALLOW)
		return true;
	if (ret->is_banned) {
		refuse(view, LS_REASON_BAN, false, ret);
		return true;
	}
	if (ret->list == LS_LIST_DENY) {
		refuse(view, LS_REASON_DENY, false, ret);
		return true;
	}
	ret->reason = LS_REASON_CONTROL;
	return ls_is_icmp_error(packet) && icmp_admits(view);
}

/* The limits of the class; the first that refuses names the verdict. */
static void ask_class(struct ls_view *view, const struct ls_class_abi *class,
		      const struct ls_ledger *ledger, struct ls_explain *ret)
{
	snprintf(ret->class_name, sizeof(ret->class_name), "%.31s",
		 ledger->classes[class->slot % LS_CLASS_SLOTS].name);
	ret->priority = class->priority;
	ret->class_monitors = class->flags & LS_CLASS_F_MONITOR;
	ret->n_limits = class->n_limits < LS_CLASS_LIMITS ? class->n_limits : LS_CLASS_LIMITS;
	for (size_t i = 0; i < ret->n_limits; i++) {
		const struct ls_limit_abi *limit = &class->limit[i];
		struct ls_explain_limit *of = &ret->limits[i];
		if (ls_view_limit(view, limit, class->slot, of) && ret->limit < 0)
			ret->limit = (int)i;
		snprintf(of->name, sizeof(of->name), "%.31s",
			 ledger->limits[limit->slot % LS_SLOTS].name);
		if (limit->per == LS_ABI_PER_CLASS)
			snprintf(of->key, sizeof(of->key), "%s", ret->class_name);
	}
}

static const struct ls_limit_abi panic_limits[2] = {
	LS_PANIC_LIMIT(LS_ABI_PACKETS, LS_PANIC_PACKET_COST, LS_SLOT_PANIC_PACKETS),
	LS_PANIC_LIMIT(LS_ABI_CONNECTIONS, LS_PANIC_CONNECTION_COST, LS_SLOT_PANIC_CONNECTIONS),
};

/* Whether panic refuses; in any case what its two buckets say. */
static bool ask_panic(struct ls_view *view, struct ls_explain *ret)
{
	bool refuses = ret->priority == LS_ABI_LOW && ls_is_new_work(&view->query->packet);

	ret->n_panic = 2;
	for (int kind = 0; kind < 2; kind++) {
		refuses |= ls_view_limit(view, &panic_limits[kind], LS_CLASS_SLOT_PANIC,
					 &ret->panic[kind]);
		snprintf(ret->panic[kind].name, LS_NAME_BYTES, "%s",
			 kind ? "connections" : "packets");
	}
	return refuses;
}

static bool ask_overload_kind(const struct ls_view *view, const struct ls_limit_abi *limit,
			      unsigned slot, struct ls_explain *ret, bool is_charged,
			      struct ls_explain_overload *of)
{
	const uint64_t state = LS_READ_ONCE(view->shared[slot].state);
	const uint64_t reserve = ls_overload_reserve(limit->tau, ret->priority & 3);
	const uint64_t used = ls_bucket_used(state, view->now, limit->tau);
	__u64 next = 0;

	if (!limit->mult)
		return false;
	of->is_given = true;
	of->ceiling = limit->tau / limit->mult;
	of->remaining = used + reserve < limit->tau ? (limit->tau - used - reserve) / limit->mult
						    : 0;
	of->refuses = is_charged &&
		      !ls_overload_take(state, view->now, limit->mult, limit->tau, reserve,
					ls_is_new_work(&view->query->packet), &next);
	return of->refuses;
}

static bool ask_overload(const struct ls_view *view, struct ls_explain *ret)
{
	const struct ls_generation_abi *generation = &view->control->generation[view->half];
	const bool opens = ls_is_connection(&view->query->packet);
	const bool packets = ask_overload_kind(view, &generation->overload_packets,
					       LS_SLOT_OVERLOAD_PACKETS, ret, true,
					       &ret->overload[0]);
	const bool connections = ask_overload_kind(view, &generation->overload_connections,
						   LS_SLOT_OVERLOAD_CONNECTIONS, ret, opens,
						   &ret->overload[1]);

	return packets || connections;
}

/* Steps 8 to 10. */
static void judge_class(struct ls_view *view, const struct ls_ledger *ledger, unsigned from_row,
			struct ls_explain *ret)
{
	const struct ls_query *query = view->query;
	unsigned to_row = 0;

	if (view->word & LS_WORD_TO) {
		const unsigned label =
			query->has_destination ? ls_view_label(view, query->packet.destination) : 0;
		to_row = view->labels[view->half * LS_LABELS + label].to_row;
	}
	const unsigned class = ls_view_class(view, from_row, to_row);
	const struct ls_class_abi *of = &view->classes[view->half * LS_CLASSES];
	ret->reason = LS_REASON_UNMATCHED;
	if (class < LS_CLASSES) {
		ret->reason = LS_REASON_ADMITTED;
		ret->class_index = (int)class;
		ask_class(view, &of[class], ledger, ret);
	}
	const bool panic = view->word & LS_WORD_PANIC && ask_panic(view, ret);
	const bool overload = view->word & LS_WORD_OVERLOAD && ask_overload(view, ret);
	const bool level =
		view->word & LS_WORD_LEVEL &&
		ls_view_level_refuses(view, class < LS_CLASSES ? &of[class] : NULL, ret->priority);
	const bool overload_monitors = view->word & LS_WORD_OVERLOAD_MONITOR;
	/* What all nodes share is asked last: what else refuses does not count there. */
	for (size_t i = 0; ret->limit < 0 && !panic && !overload && !level && i < ret->n_limits;
	     i++)
		if (ret->limits[i].thins)
			ret->limit = (int)i;
	if (ret->limit >= 0)
		refuse(view,
		       ret->limits[ret->limit].place == LS_PLACE_CROWD ? LS_REASON_CROWD
								       : LS_REASON_LIMIT,
		       ret->class_monitors, ret);
	else if (panic)
		refuse(view, LS_REASON_PANIC, ret->class_monitors, ret);
	else if (overload || level)
		refuse(view, LS_REASON_OVERLOAD, ret->class_monitors || overload_monitors, ret);
}

static uint64_t left(uint64_t until, uint64_t now_ns)
{
	return until > now_ns ? until - now_ns : 0;
}

static void read_word(struct ls_view *view, uint64_t word, struct ls_explain *ret)
{
	const struct ls_control *control = view->control;
	const bool is_timed = word & LS_WORD_TIMED;

	view->now_ns = ls_plane_now(view->plane);
	view->now = view->now_ns << LS_TICKS_PER_NS_SHIFT;
	view->wall_ns = control->wall_ns + view->now_ns;
	view->word = ls_timed_word(control, word, view->now_ns);
	view->half = view->word & LS_WORD_GENERATION;
	*ret = (struct ls_explain){
		.class_index = -1,
		.limit = -1,
		.priority = LS_ABI_NORMAL,
		.generation = view->word >> LS_WORD_NUMBER_SHIFT,
		.is_monitor = view->word & LS_WORD_MONITOR,
		.off_ns = is_timed ? left(control->off_until, view->now_ns) : 0,
		.panic_ns = is_timed ? left(control->panic_until, view->now_ns) : 0,
		.confirm_ns = is_timed ? left(control->confirm_until, view->now_ns) : 0,
	};
}

/* One try; `word` is what the control record said. */
static int explain_once(struct ls_view *view, uint64_t word, struct ls_explain *ret,
			struct ls_error *error)
{
	const struct ls_packet *packet = &view->query->packet;
	const struct ls_prefix source = ls_view_prefix(packet->source, packet->family, 128);
	const struct ls_ledger *ledger = ls_plane_ledger(view->plane);
	unsigned from_row = 0;

	read_word(view, word, ret);
	view->n_taken = 0;
	int r = ledger ? map_tables(view, error) : -EIO;
	if (r == 0 && (r = open_lists(view)) < 0)
		return ls_error_set_errno(error, -r, "cannot open the lists of the policy");
	if (r < 0)
		return ls_error_set(error, "cannot map the tables of the instance");
	r = ls_ban_lookup(view->plane, &source, &ret->ban, error);
	ret->is_banned = r == 0;
	if (r >= 0 && !judge_source(view, ret, &from_row))
		judge_class(view, ledger, from_row, ret);
	if (view->lists_fd >= 0)
		close(view->lists_fd);
	return r < 0 ? r : 0;
}

#define TRIES 8

int ls_explain(struct ls_plane *plane, const struct ls_query *query, struct ls_explain *ret,
	       struct ls_error *error)
{
	struct ls_view view = {
		.plane = plane,
		.control = ls_plane_control(plane),
		.query = query,
		.lists_fd = -1,
	};

	for (int i = 0; i < TRIES; i++) {
		struct ls_error local = LS_ERROR_INIT;
		const uint64_t word = LS_READ_ONCE(view.control->word);
		const int r = explain_once(&view, word, ret, &local);
		if (LS_READ_ONCE(view.control->word) != word)
			continue;
		return r < 0 ? ls_error_set(error, "%s", local.text) : 0;
	}
	return ls_error_set(error, "cannot answer: the policy changes all the time");
}
