/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_CENSUS_H
#define LOADSHED_USER_PLANE_CENSUS_H

/*
 * How full the tables are, without reading all of them: 1 M sources take 96 MiB, and mapping an array counts
 * every page of it as memory of ours. A census looks at one slice of each table, at most 1 MiB, maps it for that
 * long, and goes on to the next slice the next time. Sets are chosen by a keyed hash, so any slice is a fair
 * sample.
 *
 * The count of a table with at most LS_CENSUS_SETS sets is exact. Of a larger one it is an estimate from the last
 * LS_CENSUS_SLICES slices: a part f of all sets, whose standard error is sqrt(n (1 - f) / f), for n live states: with 1 M
 * sources of capacity (f = 1/8) 2 600 of 1 M live ones, and 84 of 1 000.
 */

#include <stdbool.h>
#include <stdint.h>

#include "loadshed/policy_abi.h"

struct ls_error;
struct ls_plane;

#define LS_CENSUS_SETS 8192
#define LS_CENSUS_SLICES 8

struct ls_census_slice {
	uint32_t live, sets;
};

/* Zero to begin with, and again when the tables are other ones. */
struct ls_census {
	struct ls_census_slice slices[LS_TABLES][LS_CENSUS_SLICES];
	uint32_t next_set[LS_TABLES];
	unsigned next_slice;
};

/* Looks at the next slices: under a millisecond or two. 0, or negative with a line. */
int ls_census_take(struct ls_plane *plane, struct ls_census *census, struct ls_error *error);

struct ls_occupancy {
	uint64_t live[LS_TABLES]; /* states that hold something */
	uint64_t ways[LS_TABLES]; /* places */
};

/* What the slices looked at so far say; ways are 0 before the first. */
void ls_census_read(const struct ls_plane *plane, const struct ls_census *census,
		    struct ls_occupancy *ret);

/* Trouble and pressure since the tables were made. */
struct ls_pressure {
	uint64_t evicted;	 /* long table: the least used share gave way to a newcomer */
	uint64_t unplaced_short; /* newcomers charged to their limit's crowd bucket */
	uint64_t unplaced_long;	 /* newcomers of the other tables that passed untracked */
	uint64_t contended;	 /* packets let through because other CPUs were faster each time */
	uint64_t bans_lost;	 /* class bans that found no room */
};

int ls_pressure_read(struct ls_plane *plane, struct ls_pressure *ret, struct ls_error *error);

const char *ls_table_name(unsigned table);

#endif
