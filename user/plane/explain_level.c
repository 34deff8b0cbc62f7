/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/explain.h"

/*
 * What breaker, level and guard say to one question (bpf/kern/level.h), without counting it. At the one step that a
 * level splits, the answer is what more than half of such packets get.
 */

#include "pure/hash.h"
#include "pure/level.h"
#include "pure/overload.h"
#include "user/plane/overload.h"
#include "user/plane/view.h"

static bool is_known_flow(const struct ls_view *view)
{
	const struct ls_packet *packet = &view->query->packet;
	struct ls_plane *plane = view->plane;

	if (!ls_is_flow(packet) || !(packet->known & LS_KNOWN_PORTS) ||
	    !view->query->has_destination)
		return false;
	const struct ls_flow_line *lines = plane->maps[LS_MAP_FLOWS].fd < 0
						   ? NULL
						   : ls_plane_memory(plane, LS_MAP_FLOWS, NULL);
	const struct ls_hash hash = ls_hash_other(view->control->hash_key, LS_CLASS_SLOT_FLOWS,
						  LS_ABI_PER_FLOW, 0, 0, packet);
	const uint32_t tag = ls_flow_tag(hash.tag), stamp = ls_flow_stamp(view->now_ns);
	for (unsigned i = 0; lines && i < LS_FLOW_WAYS; i++) {
		const uint32_t way =
			LS_READ_ONCE(lines[(hash.place >> 32) & (LS_FLOW_LINES - 1)].way[i]);
		if ((way & ~0xffU) == tag && ls_flow_age(way, stamp) <= LS_FLOW_AGE)
			return true;
	}
	return false;
}

/* Whether the source is above its fair rate on some CPU. */
static bool is_heavy(const struct ls_view *view, const struct ls_overload *overload,
		     struct ls_hash hash)
{
	const uint64_t after =
		(uint64_t)overload->heavy_after * (view->factor > 1 ? view->factor : 1);
	unsigned n = 0;
	const struct ls_offered *cpus = ls_plane_offered(view->plane, &n, NULL);

	for (unsigned cpu = 0; after && cpu < n; cpu++) {
		/* In copies: the question is not counted. */
		__u64 first = cpus[cpu].sketch[0][(hash.place >> 40) & (LS_SKETCH_CELLS - 1)];
		__u64 second = cpus[cpu].sketch[1][(hash.tag >> 40) & (LS_SKETCH_CELLS - 1)];
		const uint32_t one = ls_sketch_add(&first, view->now_ns),
			       other = ls_sketch_add(&second, view->now_ns);
		if ((one < other ? one : other) > after)
			return true;
	}
	return false;
}

static bool guard_refuses(const struct ls_view *view, const struct ls_overload *overload,
			  unsigned priority)
{
	const struct ls_limit_abi *guard = &overload->guard;
	__u64 next = 0;

	return guard->mult && view->now_ns < LS_READ_ONCE(overload->guard_until_ns) &&
	       !ls_overload_take(LS_READ_ONCE(view->shared[LS_SLOT_GUARD].state), view->now,
				 guard->mult, guard->tau, ls_overload_reserve(guard->tau, priority),
				 1, &next);
}

bool ls_view_level_refuses(const struct ls_view *view, const struct ls_class_abi *class,
			   unsigned priority)
{
	const struct ls_packet *packet = &view->query->packet;
	struct ls_plane *plane = view->plane;
	const struct ls_overload *overload =
		plane->maps[LS_MAP_OVERLOAD].fd < 0 ? NULL : ls_plane_overload(plane, NULL);

	if (!overload || !ls_level_applies(packet) || is_known_flow(view))
		return false;
	if (class && view->word & LS_WORD_BREAKERS) {
		const struct ls_breaker_abi *breaker =
			&overload->breaker[class->slot & (LS_CLASS_SLOTS - 1)];
		if (view->now_ns < LS_READ_ONCE(breaker->until_ns) &&
		    LS_READ_ONCE(breaker->boundary) < 1U << 31)
			return true;
	}
	const struct ls_level_abi *level = &overload->hand;
	if (view->now_ns >= LS_READ_ONCE(level->until_ns))
		level = &overload->level;
	if (view->now_ns < LS_READ_ONCE(level->until_ns)) {
		const struct ls_hash hash = ls_hash_source(
			view->control->hash_key, LS_CLASS_SLOT_LEVEL, LS_ABI_PER_SOURCE, packet);
		__u32 half = 1U << 31;
		if (!ls_level_admits(LS_READ_ONCE(level->admit[priority & 3]),
				     ls_level_step(hash.place, overload->salt,
						   is_heavy(view, overload, hash)),
				     &half))
			return true;
	}
	return guard_refuses(view, overload, priority);
}
