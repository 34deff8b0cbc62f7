/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BENCH_INTERNAL_H
#define LOADSHED_USER_BENCH_INTERNAL_H

/* What the groups of rows share. Nothing outside the folder includes it. */

#include <stdbool.h>

#include "user/bench/bench.h"
#include "user/bench/figure.h"
#include "user/bench/gen.h"
#include "user/bench/report.h"
#include "user/bench/rivals.h"

/* Tracked pairs; the tables have the next power of two. */
#define LS_BENCH_CAPACITY 1000000U
#define LS_BENCH_TRACKED (1U << 20)

/* A sandbox and the policy that it was last given. */
struct ls_bench_slot {
	struct ls_plane *plane; /* NULL: not open yet */
	struct ls_recipe recipe;
};

struct ls_bench {
	struct ls_gen *gen;
	struct ls_rivals *rivals;
	struct ls_report *report;
	struct ls_bench_slot slots[2]; /* what is measured, and what it is compared with */
	uint32_t listed[2];	       /* prefixes in the tries, IPv4 and IPv6 */
	uint32_t sources_max; /* more than the memory of this machine holds are not tried */
	uint32_t prefixes_max;
	double million_ns; /* of the row with 1 M sources; 0: not measured */
	unsigned cpu, other_cpu;
};

/* A program, and the frames that it is run on. */
struct ls_bench_side {
	int program_fd;
	struct ls_gen_frame frame;
};

/* The slot's plane with that policy in force, published if it is not. */
int ls_bench_plane_with(struct ls_bench *bench, size_t slot, struct ls_recipe recipe,
			struct ls_plane **ret, struct ls_error *error);

/* Rows of a table of work. */
struct ls_bench_work {
	const char *name;
	struct ls_recipe recipe;
	struct ls_gen_kind frame;
	uint64_t sources;      /* 0: spoofed, all of the address space */
	struct ls_recipe base; /* compared with; LS_RECIPE_NONE: XDP_DROP */
	struct ls_gen_kind base_frame;
	unsigned rivals; /* bits of enum ls_rival, those that the group names, in its order */
	double goal;	 /* ns; 0: none; LS_BENCH_GOAL_MILLION */
};
#define LS_BENCH_GOAL_MILLION (-1) /* 20 ns more than with 1 M sources */

/* `over`: what their figures are differences to, in words. */
int ls_bench_works(struct ls_bench *bench, const char *over, const struct ls_bench_work *works,
		   size_t count, struct ls_error *error);

/* rows_*.c: a group each. */
int ls_bench_limits(struct ls_bench *bench, struct ls_error *error);
int ls_bench_classes(struct ls_bench *bench, struct ls_error *error);
int ls_bench_lists(struct ls_bench *bench, struct ls_error *error);
int ls_bench_bans(struct ls_bench *bench, struct ls_error *error);
int ls_bench_frames(struct ls_bench *bench, struct ls_error *error);
int ls_bench_cpus(struct ls_bench *bench, struct ls_error *error);
int ls_bench_apply(struct ls_bench *bench, struct ls_error *error);

#endif
