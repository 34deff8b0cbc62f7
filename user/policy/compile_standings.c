/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/compile_standings.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "loadshed/bounds.h"

static bool standing_equal(const struct ls_standing *a, const struct ls_standing *b)
{
	return a->list == b->list && a->factor == b->factor &&
	       memcmp(&a->from, &b->from, sizeof(a->from)) == 0 &&
	       memcmp(&a->to, &b->to, sizeof(a->to)) == 0;
}

static size_t standing_hash(const struct ls_standing *standing)
{
	uint64_t hash = (uint64_t)standing->list << 32 | standing->factor;

	for (unsigned word = 0; word < LS_CLASS_WORDS; word++) {
		hash = (hash ^ standing->from.word[word]) * 0x9E3779B97F4A7C15ULL;
		hash = (hash ^ hash >> 32 ^ standing->to.word[word]) * 0xD6E8FEB86659FD93ULL;
	}
	return (size_t)(hash ^ hash >> 32);
}

static uint32_t *standings_find(const struct ls_standings *standings,
				const struct ls_standing *standing)
{
	const size_t mask = standings->hash_size - 1;
	size_t at = standing_hash(standing) & mask;

	while (standings->hash[at] &&
	       !standing_equal(&standings->items[standings->hash[at] - 1], standing))
		at = (at + 1) & mask;
	return &standings->hash[at];
}

static int standings_grow(struct ls_standings *standings)
{
	const size_t capacity = standings->capacity ? 2 * standings->capacity : LS_LABELS;
	struct ls_standing *items =
		reallocarray(standings->items, capacity, sizeof(*standings->items));
	uint32_t *hash;

	if (!items)
		return -ENOMEM;
	standings->items = items;
	hash = calloc(2 * capacity, sizeof(*hash));
	if (!hash)
		return -ENOMEM;
	free(standings->hash);
	standings->hash = hash;
	standings->hash_size = 2 * capacity;
	standings->capacity = capacity;
	for (size_t label = 0; label < standings->count; label++)
		*standings_find(standings, &items[label]) = (uint32_t)label + 1;
	return 0;
}

int ls_standings_intern(struct ls_standings *standings, const struct ls_standing *standing,
			uint32_t *ret_label)
{
	uint32_t *slot;

	if (standings->count == standings->capacity && standings_grow(standings) < 0)
		return -ENOMEM;
	slot = standings_find(standings, standing);
	if (!*slot) {
		standings->items[standings->count] = *standing;
		*slot = (uint32_t)++standings->count;
	}
	*ret_label = *slot - 1;
	return 0;
}

void ls_standings_fini(struct ls_standings *standings)
{
	free(standings->items);
	free(standings->hash);
}
