/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/bench/report.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#define NAME_COLUMNS 42
#define COLUMNS 12

struct ls_report {
	FILE *text;
	bool with_goals;
	struct ls_report_group group;
	json_t *machine, *rows;
	unsigned missed;
};

struct ls_report *ls_report_new(FILE *text, bool with_goals)
{
	_cleanup_(ls_report_freep) struct ls_report *report = calloc(1, sizeof(*report));

	if (!report)
		return NULL;
	report->text = text;
	report->with_goals = with_goals;
	report->machine = json_object();
	report->rows = json_array();
	return report->machine && report->rows ? TAKE_PTR(report) : NULL;
}

void ls_report_free(struct ls_report *report)
{
	if (!report)
		return;
	json_decref(report->machine);
	json_decref(report->rows);
	free(report);
}

/* Right-aligned; the widths of printf count bytes, and the marks used here have three bytes for a column. */
static void put_cell(FILE *file, const char *text)
{
	int columns = 0;

	for (const char *at = text; *at; at++)
		columns += ((unsigned char)*at & 0xc0) != 0x80;
	fprintf(file, "%*s%s", columns < COLUMNS ? COLUMNS - columns : 1, "", text);
}

void ls_report_group(struct ls_report *report, const struct ls_report_group *group)
{
	report->group = *group;
	if (!report->text)
		return;
	fprintf(report->text, "\n%-*s", NAME_COLUMNS, group->title);
	put_cell(report->text, "loadshed");
	put_cell(report->text, "from…to");
	for (size_t i = 0; i < group->n_rivals; i++)
		put_cell(report->text, group->rivals[i]);
	if (report->with_goals)
		put_cell(report->text, "goal");
	fputc('\n', report->text);
	fflush(report->text);
}

static json_t *figure_json(const struct ls_figure *figure)
{
	return json_pack("{s:f,s:f,s:f}", "median", figure->median, "low", figure->low, "high",
			 figure->high);
}

/* Of nanoseconds nobody needs a decimal; a ratio or a few milliseconds have one. */
static int digits_of(const struct ls_report_row *row)
{
	return strcmp(row->unit, "ns") != 0 && fabs(row->ours.high) < 9.95 ? 1 : 0;
}

/* No "-0": what rounds to nothing is nothing. */
static double shown(double value, int digits)
{
	return fabs(value) < (digits ? 0.05 : 0.5) ? 0 : value;
}

static void put_row(const struct ls_report *report, const struct ls_report_row *row, bool is_met)
{
	FILE *file = report->text;
	const int digits = digits_of(row);
	char text[64];

	fprintf(file, "%-*s", NAME_COLUMNS, row->name);
	snprintf(text, sizeof(text), "%.*f", digits, shown(row->ours.median, digits));
	put_cell(file, text);
	snprintf(text, sizeof(text), "%.*f…%.*f", digits, shown(row->ours.low, digits), digits,
		 shown(row->ours.high, digits));
	put_cell(file, text);
	for (size_t i = 0; i < report->group.n_rivals; i++) {
		snprintf(text, sizeof(text), "%.0f", row->rivals[i].figure.median);
		put_cell(file, row->rivals[i].is_known ? text : "");
	}
	if (report->with_goals && !isnan(row->goal)) {
		snprintf(text, sizeof(text), "%s %.*f", row->is_at_least ? "≥" : "≤",
			 fmod(row->goal, 1) != 0 ? 1 : 0, row->goal);
		put_cell(file, text);
		fprintf(file, "  %s", is_met ? "met" : "MISSED");
	}
	fputc('\n', file);
	fflush(file);
}

void ls_report_row(struct ls_report *report, const struct ls_report_row *row)
{
	const bool is_met = row->is_at_least ? row->ours.median >= row->goal
					     : row->ours.median <= row->goal;
	json_t *object = json_pack("{s:s,s:s,s:s,s:s?,s:o}", "group", report->group.name, "name",
				   row->name, "unit", row->unit, "over", row->over, "loadshed",
				   figure_json(&row->ours));
	json_t *rivals = json_object();

	for (size_t i = 0; i < report->group.n_rivals; i++)
		if (row->rivals[i].is_known)
			json_object_set_new(rivals, report->group.rivals[i],
					    figure_json(&row->rivals[i].figure));
	json_object_set_new(object, "rivals", rivals);
	if (!isnan(row->goal)) {
		json_object_set_new(object, "goal", json_real(row->goal));
		json_object_set_new(object, "met", json_boolean(is_met));
		report->missed += !is_met;
	}
	json_array_append_new(report->rows, object);
	if (report->text)
		put_row(report, row, is_met);
}

void ls_report_skip(struct ls_report *report, const char *name, const char *why)
{
	json_array_append_new(report->rows, json_pack("{s:s,s:s,s:s}", "group", report->group.name,
						      "name", name, "skipped", why));
	ls_report_line(report, "%-*s skipped: %s", NAME_COLUMNS, name, why);
}

void ls_report_line(struct ls_report *report, const char *format, ...)
{
	va_list arguments;

	if (!report->text)
		return;
	va_start(arguments, format);
	vfprintf(report->text, format, arguments);
	va_end(arguments);
	fputc('\n', report->text);
	fflush(report->text);
}

void ls_report_machine(struct ls_report *report, const char *key, json_t *value)
{
	json_object_set_new(report->machine, key, value);
}

unsigned ls_report_missed(const struct ls_report *report)
{
	return report->missed;
}

json_t *ls_report_json(const struct ls_report *report)
{
	return json_pack("{s:O,s:O}", "machine", report->machine, "rows", report->rows);
}
