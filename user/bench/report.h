/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BENCH_REPORT_H
#define LOADSHED_USER_BENCH_REPORT_H

/*
 * What the bench says: text as it comes, a line per row, and one JSON document from the same rows at the end.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "user/base/cleanup.h"
#include "user/bench/figure.h"
#include "user/bench/rivals.h"

#define LS_REPORT_RIVALS 3

struct ls_report;

struct ls_report_group {
	const char *name;		      /* for JSON: limits, classes, … */
	const char *title;		      /* what the figures are: "ns over XDP_DROP" */
	const char *rivals[LS_REPORT_RIVALS]; /* heads of their columns; NULL: none */
	size_t n_rivals;
};

struct ls_report_row {
	const char *name;
	const char *unit; /* ns, ms, %, bytes, times */
	const char *over; /* what `ours` is a difference to; NULL: it is none */
	struct ls_figure ours;
	struct {
		bool is_known; /* false: not measured */
		struct ls_figure figure;
	} rivals[LS_REPORT_RIVALS]; /* as the group names them */
	double goal;		    /* DESIGN's; NAN: none */
	bool is_at_least;	    /* the goal is a lower bound */
};

/* `text`: where the lines go; NULL: nowhere. `with_goals`: a column for them. NULL: out of memory. */
struct ls_report *ls_report_new(FILE *text, bool with_goals);
void ls_report_free(struct ls_report *report);
DEFINE_CLEANUP(struct ls_report *, ls_report_free);

/* Begins a group; the strings must outlive its rows. */
void ls_report_group(struct ls_report *report, const struct ls_report_group *group);
void ls_report_row(struct ls_report *report, const struct ls_report_row *row);
/* A row that could not be measured. */
void ls_report_skip(struct ls_report *report, const char *name, const char *why);
/* A line beside the rows, and a fact of the machine: takes over `value`. */
void ls_report_line(struct ls_report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void ls_report_machine(struct ls_report *report, const char *key, json_t *value);

unsigned ls_report_missed(const struct ls_report *report);
/* The document, to be released by the caller; NULL: out of memory. */
json_t *ls_report_json(const struct ls_report *report);

#endif
