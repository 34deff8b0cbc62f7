/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BASE_OUTPUT_H
#define LOADSHED_USER_BASE_OUTPUT_H

/*
 * What people read: aligned tables, colour where it helps and is wanted, numbers to three digits.
 * For programs there is JSON, which does not pass through here.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "user/base/cleanup.h"

/* Longest text of the ls_human_ functions, with its NUL. */
#define LS_HUMAN_TEXT 32

/*
 * A table: cells are added row by row, from the left; each column is as wide as its widest cell.
 * Columns whose bit is set in `right` are aligned to the right (numbers). Width counts UTF-8
 * characters.
 */
struct ls_table {
	unsigned columns; /* 1 to 64 */
	uint64_t right;
	char **cells; /* owned */
	size_t count, capacity;
	bool failed; /* memory ran out: ls_table_print says so */
};

void ls_table_init(struct ls_table *table, unsigned columns, uint64_t right);
void ls_table_fini(struct ls_table *table);
void ls_table_cell(struct ls_table *table, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Two blanks between columns, none at the end of a line; a last row that is not full is printed as
 * it is. Returns 0 or -ENOMEM.
 */
int ls_table_print(const struct ls_table *table, FILE *file);

#define _cleanup_table_ _cleanup_(ls_table_fini)

#define LS_OUTPUT_COLUMNS 80

/* Columns of a text: its code points, good enough for names and numbers; double-width scripts come out unaligned. */
size_t ls_text_width(const char *text, size_t bytes);

/*
 * Words to stdout, broken at blanks so that no line is longer than LS_OUTPUT_COLUMNS, each line behind `indent` blanks;
 * `column` is where the cursor is. An empty line in it begins a paragraph. Ends with a newline.
 */
void ls_print_wrapped(const char *text, size_t indent, size_t column);

enum ls_color {
	LS_COLOR_RESET,
	LS_COLOR_BOLD,
	LS_COLOR_DIM,
	LS_COLOR_RED,
	LS_COLOR_GREEN,
	LS_COLOR_YELLOW,
	LS_COLOR_MAX,
};

/*
 * Whether `file` is a terminal, TERM is not "dumb" and NO_COLOR is unset or empty (no-color.org).
 */
bool ls_output_has_color(FILE *file);

/* The escape sequence when `file` has colour, else "". */
const char *ls_color(FILE *file, enum ls_color color);

/*
 * Three significant digits: 999, 1.23k, 45.6M, 789G; rounded down, so that nothing looks larger
 * than it is. They return `text`.
 */
char *ls_human_count(uint64_t count, char text[static LS_HUMAN_TEXT]);
char *ls_human_bytes(uint64_t bytes, char text[static LS_HUMAN_TEXT]); /* 1.23 MB: 1000s */
char *ls_human_bits(uint64_t bits_s, char text[static LS_HUMAN_TEXT]); /* 1.23 Mbit/s */
char *ls_human_time(uint64_t ns,
		    char text[static LS_HUMAN_TEXT]); /* two units: 3d 4h, 12m 5s, 1.5s */

#endif
