/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/observe/steady.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ls_steady_fini(struct ls_steady *steady)
{
	for (size_t i = 0; i < steady->count; i++)
		free(steady->rows[i]);
	free(steady->rows);
	memset(steady, 0, sizeof(*steady));
}

static void add(struct ls_tally *to, struct ls_tally what)
{
	to->packets += what.packets;
	to->bytes += what.bytes;
}

static int compare(const struct ls_steady_row *row, const char *name, unsigned number,
		   const char *detail)
{
	const int order = strncmp(row->name, name, LS_NAME_BYTES - 1);

	if (order)
		return order;
	if (row->number != number)
		return row->number < number ? -1 : 1;
	return strncmp(row->detail, detail, LS_NAME_BYTES - 1);
}

/* The row, or where it belongs. */
static size_t find(const struct ls_steady *steady, const char *name, unsigned number,
		   const char *detail, bool *ret_found)
{
	size_t low = 0, high = steady->count;

	*ret_found = false;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		const int order = compare(steady->rows[middle], name, number, detail);
		if (order == 0) {
			*ret_found = true;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct ls_steady_row *insert(struct ls_steady *steady, const char *name, unsigned number,
				    const char *detail)
{
	bool is_there;
	const size_t at = find(steady, name, number, detail, &is_there);
	struct ls_steady_row *row;

	if (is_there)
		return steady->rows[at];
	if (steady->count == steady->capacity) {
		const size_t capacity = steady->capacity ? 2 * steady->capacity : 64;
		struct ls_steady_row **rows = realloc(steady->rows, capacity * sizeof(*rows));
		if (!rows) {
			steady->failed = true;
			return NULL;
		}
		steady->rows = rows;
		steady->capacity = capacity;
	}
	row = calloc(1, sizeof(*row));
	if (!row) {
		steady->failed = true;
		return NULL;
	}
	snprintf(row->name, sizeof(row->name), "%s", name);
	snprintf(row->detail, sizeof(row->detail), "%s", detail);
	row->number = number;
	memmove(&steady->rows[at + 1], &steady->rows[at],
		(steady->count - at) * sizeof(*steady->rows));
	steady->rows[at] = row;
	steady->count++;
	return row;
}

static bool is_past(const struct ls_steady_row *row)
{
	return strcmp(row->name, LS_STEADY_PAST) == 0;
}

/* Adds the rows that are read no longer up under one name. */
static void compact(struct ls_steady *steady)
{
	for (size_t i = 0; i < steady->count; i++) {
		const struct ls_steady_row gone = *steady->rows[i];
		if (gone.is_read || is_past(&gone))
			continue;
		struct ls_steady_row *past = insert(steady, LS_STEADY_PAST, gone.number, "");
		if (!past)
			return;
		add(&past->base, gone.value);
		add(&past->value, gone.value);
		add(&past->before, gone.before);
		/* The insertion may have moved it. */
		bool found;
		i = find(steady, gone.name, gone.number, gone.detail, &found);
		free(steady->rows[i]);
		memmove(&steady->rows[i], &steady->rows[i + 1],
			(--steady->count - i) * sizeof(*steady->rows));
		i--;
	}
}

void ls_steady_begin(struct ls_steady *steady, uint64_t epoch)
{
	const bool is_anew = steady->epoch != epoch;

	/* Between two passes, when it is known which rows are read no longer. */
	if (steady->count > LS_STEADY_ROWS)
		compact(steady);
	steady->epoch = epoch;
	for (size_t i = 0; i < steady->count; i++) {
		struct ls_steady_row *row = steady->rows[i];
		row->is_read = false;
		row->sum = (struct ls_tally){ 0 };
		if (!is_anew)
			continue;
		row->base = row->value;
		row->last = (struct ls_tally){ 0 };
	}
}

void ls_steady_read(struct ls_steady *steady, const char *name, unsigned number, const char *detail,
		    struct ls_tally now)
{
	struct ls_steady_row *row = insert(steady, name, number, detail);

	if (!row)
		return;
	row->is_read = true;
	add(&row->sum, now);
}

void ls_steady_end(struct ls_steady *steady)
{
	for (size_t i = 0; i < steady->count; i++) {
		struct ls_steady_row *row = steady->rows[i];
		if (row->sum.packets < row->last.packets || row->sum.bytes < row->last.bytes)
			row->base = row->value;
		row->last = row->sum;
		row->value = row->base;
		add(&row->value, row->last);
	}
}

/* Per second, rounded to the nearest; 128 bits, so that no count of bytes can overflow. */
static uint64_t per_second(uint64_t count, uint64_t span_ns)
{
	return (uint64_t)(((unsigned __int128)count * 1000000000U + span_ns / 2) / span_ns);
}

void ls_steady_rates(struct ls_steady *steady, uint64_t span_ns)
{
	for (size_t i = 0; i < steady->count; i++) {
		struct ls_steady_row *row = steady->rows[i];
		row->rate = (struct ls_tally){ 0 };
		if (span_ns) {
			row->rate.packets =
				per_second(row->value.packets - row->before.packets, span_ns);
			row->rate.bytes = per_second(row->value.bytes - row->before.bytes, span_ns);
		}
		row->before = row->value;
	}
}
