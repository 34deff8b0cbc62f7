/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/census.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "user/base/error.h"
#include "user/plane/internal.h"
#include "user/plane/wait.h"

/* Part of an array, mapped for a moment. */
struct window {
	void *memory; /* NULL: not mapped */
	size_t bytes;
	const char *at; /* the element asked for */
};

static void window_close(struct window *window)
{
	if (window->memory)
		munmap(window->memory, window->bytes);
}

/* `count` elements of `element_bytes` from number `first` on. */
static int window_open(const struct ls_plane *plane, enum ls_map map, size_t element_bytes,
		       uint64_t first, uint64_t count, struct window *ret, struct ls_error *error)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const size_t from = (size_t)first * element_bytes, until = from + count * element_bytes;
	const size_t start = from / page * page;
	const size_t bytes = (until - start + page - 1) / page * page;
	void *memory = mmap(NULL, bytes, PROT_READ, MAP_SHARED, plane->maps[map].fd, (off_t)start);

	if (memory == MAP_FAILED)
		return ls_error_set_errno(error, errno, "cannot map a part of '%s'",
					  ls_map_name(map));
	*ret = (struct window){ memory, bytes, (const char *)memory + (from - start) };
	return 0;
}

struct looker {
	struct ls_instant at;
	const struct ls_slot_abi *slots; /* of the generation in force */
	unsigned table;
	const struct ls_ways *sets;
	const struct ls_log *logs; /* of the first set's first way; NULL: not the log table */
};

static uint32_t count_live(const struct looker *looker, uint32_t sets)
{
	uint32_t live = 0;

	for (uint32_t i = 0; i < sets * LS_WAYS; i++) {
		const struct ls_way *way = &looker->sets[i / LS_WAYS].way[i % LS_WAYS];
		const uint64_t state = __atomic_load_n(&way->state, __ATOMIC_RELAXED);
		const uint64_t key = __atomic_load_n(&way->key, __ATOMIC_RELAXED);
		if (!key || !state || state == LS_STATE_BUSY)
			continue;
		live += ls_state_share(looker->at, &looker->slots[key & (LS_SLOTS - 1)],
				       looker->table, state,
				       looker->logs ? &looker->logs[i] : NULL) != 0;
	}
	return live;
}

static int take_slice(struct ls_plane *plane, unsigned table, uint32_t base,
		      const struct ls_slot_abi *slots, struct ls_census *census,
		      struct ls_error *error)
{
	__attribute__((cleanup(window_close))) struct window ways = { 0 };
	__attribute__((cleanup(window_close))) struct window logs = { 0 };
	const struct ls_control *control = ls_plane_control_rw(plane);
	const uint32_t total = ls_plane_state(plane)->sets[table];
	/* The stamps of a log set are 4 KiB. */
	const uint32_t most = table == LS_TABLE_LOG ? LS_CENSUS_SETS / 32 : LS_CENSUS_SETS;
	const uint32_t sets = total < most ? total : most;
	const uint32_t first = census->next_set[table] < total ? census->next_set[table] : 0;
	struct looker looker = { .slots = slots, .table = table };

	if (!sets)
		return 0;
	int r = window_open(plane, LS_MAP_WAYS, sizeof(struct ls_ways), base + first, sets, &ways,
			    error);
	if (r == 0 && table == LS_TABLE_LOG)
		r = window_open(plane, LS_MAP_LOGS, sizeof(struct ls_log),
				(uint64_t)first * LS_WAYS, (uint64_t)sets * LS_WAYS, &logs, error);
	if (r < 0)
		return r;
	looker.at.now = ls_plane_now(plane) << LS_TICKS_PER_NS_SHIFT;
	looker.at.wall_ns = control->wall_ns + ls_plane_now(plane);
	looker.sets = (const struct ls_ways *)(const void *)ways.at;
	looker.logs = (const struct ls_log *)(const void *)logs.at;
	census->slices[table][census->next_slice] =
		(struct ls_census_slice){ .live = count_live(&looker, sets), .sets = sets };
	/* Powers of two both: slices never overlap an end. */
	census->next_set[table] = first + sets < total ? first + sets : 0;
	return 0;
}

int ls_census_take(struct ls_plane *plane, struct ls_census *census, struct ls_error *error)
{
	const struct ls_tables *tables = ls_plane_memory(plane, LS_MAP_TABLES, error);
	uint32_t base = 0;

	if (!tables)
		return -EIO;
	const struct ls_slot_abi *slots = &tables->slots[ls_plane_half(plane) * LS_SLOTS];
	for (unsigned table = 0; table < LS_TABLES; table++) {
		const int r = take_slice(plane, table, base, slots, census, error);
		if (r < 0)
			return r;
		base += ls_plane_state(plane)->sets[table];
	}
	census->next_slice = (census->next_slice + 1) % LS_CENSUS_SLICES;
	return 0;
}

void ls_census_read(const struct ls_plane *plane, const struct ls_census *census,
		    struct ls_occupancy *ret)
{
	for (unsigned table = 0; table < LS_TABLES; table++) {
		const uint64_t total = ls_plane_state(plane)->sets[table];
		uint64_t live = 0, sets = 0;
		for (unsigned i = 0; i < LS_CENSUS_SLICES; i++) {
			const unsigned slice = (census->next_slice + 2 * LS_CENSUS_SLICES - 1 - i) %
					       LS_CENSUS_SLICES;
			/* The newest first, and none that shows the same sets again. */
			if (sets >= total)
				break;
			live += census->slices[table][slice].live;
			sets += census->slices[table][slice].sets;
		}
		ret->ways[table] = sets ? total * LS_WAYS : 0;
		ret->live[table] = sets ? (live * total + sets / 2) / sets : 0;
	}
}

int ls_pressure_read(struct ls_plane *plane, struct ls_pressure *ret, struct ls_error *error)
{
	const struct ls_control *control = ls_plane_control_rw(plane);
	const struct ls_tables *tables = ls_plane_memory(plane, LS_MAP_TABLES, error);
	struct ls_pressure pressure = {
		.evicted = control->evicted,
		.unplaced_long = control->unplaced_long,
		.contended = control->contended,
		.bans_lost = control->bans_lost,
	};

	if (!tables)
		return -EIO;
	for (unsigned slot = 0; slot < LS_SLOTS; slot++)
		pressure.unplaced_short +=
			__atomic_load_n(&tables->shared[slot].unplaced, __ATOMIC_RELAXED);
	*ret = pressure;
	return 0;
}

const char *ls_table_name(unsigned table)
{
	static const char *const names[LS_TABLES] = {
		[LS_TABLE_SHORT] = "short",
		[LS_TABLE_LONG] = "long",
		[LS_TABLE_LOG] = "log",
		[LS_TABLE_STRIKE] = "strike",
	};

	assert(table < LS_TABLES);
	return names[table];
}
