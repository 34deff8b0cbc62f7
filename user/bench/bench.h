/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BENCH_BENCH_H
#define LOADSHED_USER_BENCH_BENCH_H

/*
 * What this host can do: the whole verdict of the real program against a bare XDP_DROP, and against what one would
 * write instead, on the same packets.
 *
 * The instrument is BPF_PROG_TEST_RUN: a generator in the kernel (gen.h) hands packets to the program under test
 * by tail call. A sample is the lowest of three runs (interruptions only add), a figure the median of five
 * samples, each taken as a difference to XDP_DROP or to another program in the same round, so that a slow machine
 * slows both. What it cannot see is the driver, and it lets the cache misses of consecutive packets overlap, which
 * flatters short programs with many sources; for that `make bench` has a second instrument (tests/bench/bench.c).
 *
 * No live state and no interface is touched. What is used (programs, maps, a network namespace without a name) goes
 * with the process, however it ends.
 *
 * Functions return 0, or negative with a line in `error`.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "user/base/cleanup.h"
#include "user/bench/recipe.h"

struct ls_bench;
struct ls_error;
struct ls_gen;
struct ls_plane;
struct ls_report;
struct ls_rivals;

/* The groups of rows: name, what it is about. */
struct ls_bench_group {
	const char *name, *help;
};
extern const struct ls_bench_group ls_bench_groups[];
extern const size_t ls_n_bench_groups;

/* `report` gets machine and rows; it must outlive the bench. */
int ls_bench_open(struct ls_report *report, struct ls_bench **ret, struct ls_error *error);
void ls_bench_close(struct ls_bench *bench);
DEFINE_CLEANUP(struct ls_bench *, ls_bench_close);

/* Measures one group, by its place in ls_bench_groups. */
int ls_bench_run(struct ls_bench *bench, size_t group, struct ls_error *error);

/* For whoever measures more with the same generator, and the same kind of sandbox. */
struct ls_gen *ls_bench_gen(struct ls_bench *bench);
const struct ls_rivals *ls_bench_rivals(const struct ls_bench *bench);
int ls_bench_plane(struct ls_recipe recipe, struct ls_plane **ret, struct ls_error *error);

#endif
