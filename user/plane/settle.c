/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/internal.h"

/*
 * A raised rate helps at once.
 *
 * A token bucket's state is the time at which it will be full. Under a slow rate that may be a day ahead, and the
 * program reads a state further ahead than the limit in force allows as an empty bucket; but a refusal writes nothing,
 * so it would be read as empty until the time that the slow rate had set: a source refused under 1/d would stay out
 * for a day. So after each flip to another half (a publish, a rollback, a confirm that was not given in time) the
 * states of the limits that became faster are pulled back to what their bucket can be without.
 *
 * It costs a pass over the table of sources, as long as a purge of it, and only when some limit is faster than before.
 */

#include <errno.h>
#include <string.h>

/* How far ahead the state of each slot may lie under one half. 0: not a token bucket, or not there. */
static void find_clamps(const struct ls_tables *tables, const struct ls_generation_abi *generation,
			unsigned half, uint64_t clamp[static LS_SLOTS])
{
	memset(clamp, 0, LS_SLOTS * sizeof(*clamp));
	for (unsigned class = 0; class < LS_CLASSES; class ++) {
		const struct ls_class_abi *of = &tables->classes[half * LS_CLASSES + class];
		for (unsigned i = 0; i < of->n_limits && i < LS_CLASS_LIMITS; i++)
			if (of->limit[i].algorithm == LS_ABI_TOKEN_BUCKET)
				clamp[of->limit[i].slot & (LS_SLOTS - 1)] = of->limit[i].clamp;
	}
	if (generation->overload_packets.mult)
		clamp[LS_SLOT_OVERLOAD_PACKETS] = generation->overload_packets.clamp;
	if (generation->overload_connections.mult)
		clamp[LS_SLOT_OVERLOAD_CONNECTIONS] = generation->overload_connections.clamp;
}

/*
 * The clamps of the slots whose states an edit or an absence may have left further ahead; 0 for all others.
 * Whether there is any.
 */
static bool find_faster(const struct ls_plane *plane, const struct ls_tables *tables, unsigned half,
			uint64_t clamp[static LS_SLOTS])
{
	const struct ls_control *control = ls_plane_control_rw(plane);
	uint64_t before[LS_SLOTS];
	bool any = false;

	find_clamps(tables, &control->generation[half], half, clamp);
	find_clamps(tables, &control->generation[1 - half], 1 - half, before);
	for (unsigned slot = 0; slot < LS_SLOTS; slot++) {
		if (before[slot] && before[slot] <= clamp[slot])
			clamp[slot] = 0;
		any = any || clamp[slot];
	}
	return any;
}

/* As a packet would: state, then the key once more, then compare and swap. No key: the slot's own place. */
static void pull_back(uint64_t *place, const uint64_t *key, unsigned slot, uint64_t furthest,
		      uint64_t now)
{
	uint64_t state = __atomic_load_n(place, __ATOMIC_ACQUIRE);

	while (state != 0 && state != LS_STATE_BUSY && (int64_t)(state - now) > (int64_t)furthest &&
	       (!key || (__atomic_load_n(key, __ATOMIC_ACQUIRE) & (LS_SLOTS - 1)) == slot) &&
	       !__atomic_compare_exchange_n(place, &state, now + furthest, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE))
		;
}

static void settle(struct ls_tables *tables, struct ls_ways *sets, uint32_t n_sets,
		   const uint64_t clamp[static LS_SLOTS], uint64_t now)
{
	for (unsigned slot = 0; slot < LS_SLOTS; slot++) {
		if (!clamp[slot])
			continue;
		pull_back((uint64_t *)&tables->shared[slot].state, NULL, slot, clamp[slot], now);
		pull_back((uint64_t *)&tables->shared[slot].crowd, NULL, slot, clamp[slot], now);
	}
	for (uint32_t set = 0; set < n_sets; set++) {
		for (unsigned i = 0; i < LS_WAYS; i++) {
			struct ls_way *way = &sets[set].way[i];
			const unsigned slot = __atomic_load_n(&way->key, __ATOMIC_RELAXED) &
					      (LS_SLOTS - 1);
			if (clamp[slot])
				pull_back((uint64_t *)&way->state, (const uint64_t *)&way->key,
					  slot, clamp[slot], now);
		}
	}
}

int ls_publish_settle(struct ls_plane *plane, unsigned half, struct ls_error *error)
{
	struct ls_tables *tables = ls_plane_memory(plane, LS_MAP_TABLES, error);
	uint64_t clamp[LS_SLOTS];

	if (!tables)
		return -EIO;
	if (!find_faster(plane, tables, half, clamp))
		return 0;
	struct ls_ways *sets = ls_plane_memory(plane, LS_MAP_WAYS, error);
	if (!sets)
		return -EIO;
	/* No packet may be judged by the slower rate any more: it would put its state ahead again. */
	if (!plane->is_sandbox)
		ls_grace_period();
	settle(tables, sets, plane->maps[LS_MAP_WAYS].entries, clamp,
	       ls_plane_now(plane) << LS_TICKS_PER_NS_SHIFT);
	return 0;
}
