/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/events.h"

/*
 * Reading events: the rings of all CPUs and the journal as one sequence.
 *
 * The next event of each ring is copied out and held, and the earliest of them is handed on, so the order is right
 * as far as the events were there. Asking costs one load per ring; no system call but one each second, for
 * names of interfaces and the wall clock.
 */

#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "user/base/error.h"
#include "user/plane/event_ring.h"
#include "user/plane/internal.h"

#define NAMES 16 /* interfaces whose names are remembered */
#define START_TRIES 16
#define FRESH_NS 1000000000ULL /* how long a name or the offset of the wall clock is believed */

struct ring {
	struct ls_ring_reader reader;
	bool is_held;
	struct ls_event_abi held;
	/* Refusals that events so far have stood for; valid where `is_known`. */
	uint64_t total[LS_EVENT_BUDGETS];
	bool is_known[LS_EVENT_BUDGETS];
};

struct name {
	uint32_t ifindex;
	uint64_t read_ns;
	char text[IF_NAMESIZE];
};

struct ls_events {
	struct ls_plane *plane;
	const struct ls_ledger *ledger;
	uint32_t map_id;
	uint64_t wall_ns; /* CLOCK_REALTIME at CLOCK_MONOTONIC 0 */
	uint64_t wall_read_ns;
	struct name names[NAMES];
	uint32_t n_rings;
	struct ring rings[];
};

static const char *const kind_names[] = {
#define KIND_NAME(id, text) [LS_EVENT_##id] = text,
	LS_EVENTS(KIND_NAME)
#undef KIND_NAME
};
_Static_assert(sizeof(kind_names) / sizeof(kind_names[0]) == LS_EVENT_MAX, "one name each");

const char *ls_event_kind_name(enum ls_event_kind kind)
{
	return kind < LS_EVENT_MAX ? kind_names[kind] : "unknown";
}

static uint32_t id_of(int fd)
{
	struct bpf_map_info info = { 0 };
	__u32 length = sizeof(info);

	return fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &length) == 0 ? info.id : 0;
}

/*
 * Who starts with what comes now starts counting there, too, so that what it is too slow for is not missing in
 * what later ones stand for. An event that is being written meanwhile has counted already: see stands_for().
 */
static void start_ring(struct ring *ring, const struct ls_event_ring *memory, bool from_oldest)
{
	for (int i = 0; i < START_TRIES; i++) {
		ls_ring_start(&ring->reader, memory, from_oldest);
		for (int budget = 0; budget < LS_EVENT_BUDGETS; budget++) {
			ring->total[budget] =
				__atomic_load_n(&memory->total[budget], __ATOMIC_ACQUIRE);
			ring->is_known[budget] = !from_oldest;
		}
		if (from_oldest ||
		    __atomic_load_n(&memory->head, __ATOMIC_ACQUIRE) + 1 == ring->reader.next)
			return;
	}
}

int ls_events_open(struct ls_plane *plane, bool from_oldest, struct ls_events **ret,
		   struct ls_error *error)
{
	const struct ls_plane_map *map = &plane->maps[LS_MAP_EVENTS];

	if (map->fd < 0)
		return ls_error_set(
			error,
			"cannot read events: the program that runs (%.31s) is too old to write them; 'loadshed attach IFACE' replaces it and keeps the state",
			ls_plane_state(plane)->version);
	const struct ls_event_ring *rings = ls_plane_memory(plane, LS_MAP_EVENTS, error);
	const struct ls_ledger *ledger = ls_plane_memory(plane, LS_MAP_LEDGER, error);
	if (!rings || !ledger)
		return -EIO;
	struct ls_events *events =
		calloc(1, sizeof(*events) + map->entries * sizeof(events->rings[0]));
	if (!events)
		return ls_error_oom(error);
	events->plane = plane;
	events->ledger = ledger;
	events->map_id = id_of(map->fd);
	events->n_rings = map->entries;
	for (uint32_t i = 0; i < map->entries; i++)
		start_ring(&events->rings[i], &rings[i], from_oldest);
	*ret = events;
	return 0;
}

void ls_events_close(struct ls_events *events)
{
	free(events);
}

bool ls_events_is_current(const struct ls_events *events)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s", events->plane->directory, ls_map_name(LS_MAP_EVENTS));
	LIBBPF_OPTS(bpf_obj_get_opts, read_only, .file_flags = BPF_F_RDONLY);
	_cleanup_close_ int fd = bpf_obj_get_opts(path, &read_only);
	return fd >= 0 && id_of(fd) == events->map_id;
}

uint64_t ls_events_lost(const struct ls_events *events)
{
	uint64_t lost = 0;

	for (uint32_t i = 0; i < events->n_rings; i++)
		lost += events->rings[i].reader.lost;
	return lost;
}

int ls_events_interface(const struct ls_plane *plane, const char *name, uint32_t *ret_ifindex,
			struct ls_error *error)
{
	const struct ls_state_interface *row;
	const int r = ls_row_find(plane, name, &row, error);

	if (r == 0)
		*ret_ifindex = row->ifindex;
	return r;
}

/* Its present name; of one that has vanished the one at attach, or else its index. */
static void read_name(const struct ls_plane *plane, struct name *name)
{
	const struct ls_state *state = ls_plane_state(plane);

	if (if_indextoname(name->ifindex, name->text))
		return;
	snprintf(name->text, sizeof(name->text), "%u", name->ifindex);
	for (int i = 0; i < LS_STATE_INTERFACES; i++)
		if (state->interfaces[i].ifindex == name->ifindex)
			snprintf(name->text, sizeof(name->text), "%.15s",
				 state->interfaces[i].name);
}

static const char *name_of(struct ls_events *events, uint32_t ifindex)
{
	struct name *name = &events->names[ifindex % NAMES];
	const uint64_t now_ns = ls_now_monotonic();

	if (!ifindex)
		return "";
	if (name->ifindex != ifindex || now_ns - name->read_ns > FRESH_NS) {
		name->ifindex = ifindex;
		name->read_ns = now_ns;
		read_name(events->plane, name);
	}
	return name->text;
}

/* The wall clock follows steps, but does not jitter from event to event. */
static uint64_t unix_of(struct ls_events *events, uint64_t monotonic_ns)
{
	const uint64_t now_ns = ls_now_monotonic();

	if (!events->wall_ns || now_ns - events->wall_read_ns > FRESH_NS) {
		events->wall_ns = ls_now_unix() - now_ns;
		events->wall_read_ns = now_ns;
	}
	return events->wall_ns + monotonic_ns;
}

static struct ls_prefix prefix_of(uint8_t family, uint64_t high, uint64_t low, uint8_t length)
{
	struct ls_prefix prefix = { .family = family == 6 ? LS_IPV6 : LS_IPV4, .length = length };

	for (int i = 0; i < 4 && family == 4; i++)
		prefix.bytes[i] = (uint8_t)(low >> (24 - 8 * i));
	for (int i = 0; i < 8 && family == 6; i++) {
		prefix.bytes[i] = (uint8_t)(high >> (56 - 8 * i));
		prefix.bytes[8 + i] = (uint8_t)(low >> (56 - 8 * i));
	}
	return length < ls_prefix_full_length(prefix.family) ? ls_prefix_widen(prefix, length)
							     : prefix;
}

/* What its number did not rule out: lengths and kinds are looked at before they are believed. */
static void fill_subject(const struct ls_event_abi *from, struct ls_event *to)
{
	to->has_source = from->family == 4 || from->family == 6;
	if (!to->has_source)
		return;
	const uint8_t full = from->family == 6 ? 128 : 32;
	to->source = prefix_of(from->family, from->source_high, from->source_low,
			       from->length < full ? from->length : full);
	to->destination =
		prefix_of(from->family, from->destination_high, from->destination_low, full);
}

static void fill_names(const struct ls_ledger *ledger, const struct ls_event_abi *from,
		       struct ls_event *to)
{
	if (from->class_slot < LS_CLASS_SLOTS)
		snprintf(to->class, sizeof(to->class), "%.31s",
			 ledger->classes[from->class_slot].name);
	if (from->limit_slot < LS_SLOTS)
		snprintf(to->limit, sizeof(to->limit), "%.31s",
			 ledger->limits[from->limit_slot].name);
}

static void fill_text(const struct ls_event_text *from, struct ls_event_text *to)
{
	snprintf(to->action, sizeof(to->action), "%.31s", from->action);
	snprintf(to->name, sizeof(to->name), "%.31s", from->name);
	snprintf(to->text, sizeof(to->text), "%.*s", (int)sizeof(to->text) - 1, from->text);
}

/* For how many refusals a packet's event stands: what its ring has counted since the last that was seen. */
static uint64_t stands_for(struct ring *ring, const struct ls_event_abi *event)
{
	const uint32_t budget = LS_EVENT_BUDGET(event->verdict, event->reason);
	const bool is_known = ring->is_known[budget] && event->total > ring->total[budget];
	const uint64_t count = is_known ? event->total - ring->total[budget] : event->since;

	ring->is_known[budget] = true;
	ring->total[budget] = event->total;
	return count;
}

static void fill(struct ls_events *events, struct ring *ring, struct ls_event *ret)
{
	const struct ls_event_abi *from = &ring->held;

	memset(ret, 0, sizeof(*ret));
	ret->kind = from->kind < LS_EVENT_MAX ? from->kind : LS_EVENT_NOTE;
	ret->unix_ns = unix_of(events, from->time_ns);
	ret->ring = (uint32_t)(ring - events->rings);
	ret->number = from->number;
	ret->verdict = from->verdict < LS_VERDICT_MAX ? from->verdict : LS_VERDICT_PASS;
	ret->reason = from->reason < LS_REASON_MAX ? from->reason : LS_REASON_INTERNAL;
	ret->value = from->value;
	ret->known = from->known;
	ret->protocol = from->protocol;
	ret->tcp_flags = from->tcp_flags;
	ret->icmp_type = from->icmp_type;
	ret->source_port = from->source_port;
	ret->port = from->port;
	ret->origin = from->origin < LS_ORIGIN_MAX ? from->origin : LS_ORIGIN_OPERATOR;
	ret->generation = from->generation;
	ret->ifindex = from->ifindex;
	ret->bytes = from->bytes;
	snprintf(ret->interface, sizeof(ret->interface), "%s", name_of(events, from->ifindex));
	fill_subject(from, ret);
	fill_names(events->ledger, from, ret);
	if (from->kind == LS_EVENT_PACKET) {
		ret->stands_for = stands_for(ring, from);
		ret->frame_bytes = from->frame_bytes < LS_EVENT_FRAME ? from->frame_bytes
								      : LS_EVENT_FRAME;
		memcpy(ret->frame, from->frame, ret->frame_bytes);
	} else if (ring == &events->rings[events->n_rings - 1]) {
		fill_text(&from->text, &ret->text);
	}
}

bool ls_events_next(struct ls_events *events, struct ls_event *ret)
{
	struct ring *first = NULL;

	for (uint32_t i = 0; i < events->n_rings; i++) {
		struct ring *ring = &events->rings[i];
		if (!ring->is_held)
			ring->is_held = ls_ring_read(&ring->reader, &ring->held);
		if (ring->is_held && (!first || ring->held.time_ns < first->held.time_ns))
			first = ring;
	}
	if (!first)
		return false;
	fill(events, first, ret);
	first->is_held = false;
	return true;
}
