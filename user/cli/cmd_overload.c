/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/cli.h"

/* `overload`: what it does and why in a sentence, and a level by hand. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "user/base/output.h"
#include "user/base/units.h"
#include "user/cli/overload_view.h"
#include "user/cli/publish.h"
#include "user/cli/session.h"
#include "user/overload/control.h"
#include "user/plane/events.h"
#include "user/plane/overload.h"
#include "user/plane/plane.h"
#include "user/policy/names.h"

#define SILENT_NS 2000000000ULL
#define DEFAULT_NS (10 * 60 * LS_NS_PER_S)

static void read_counts(struct ls_plane *plane, struct ls_overload_view *view)
{
	unsigned n = 0;
	const struct ls_offered *cpus = ls_plane_offered(plane, &n, NULL);

	for (unsigned cpu = 0; cpu < n; cpu++) {
		for (unsigned p = 0; p < LS_PRIORITIES; p++) {
			view->admitted[p] += cpus[cpu].admitted[p];
			view->refused_guard[p] += cpus[cpu].refused_guard[p];
			view->refused[p] +=
				cpus[cpu].refused_level[p] + cpus[cpu].refused_guard[p] +
				cpus[cpu].refused_breaker[p] + cpus[cpu].refused_queue[p];
		}
	}
}

/* Whether a listener had too little place within the last seconds. */
static bool queue_refuses(const struct ls_overload_view *view)
{
	return view->queue.percent && view->queue.ago_ns < SILENT_NS;
}

/* The listeners come after what the controller says, or stand alone when it says that nothing is shed. */
static void add_queue(struct ls_overload_view *view)
{
	const size_t length = strlen(view->text);

	if (queue_refuses(view))
		snprintf(
			view->text + length, sizeof(view->text) - length,
			"; new connections to port %u are refused in the driver, as the accept queue of its listener is full to %u %% and more (normal priority)",
			view->queue.port, view->queue.percent);
}

static void write_sentence(struct ls_overload_view *view)
{
	char left[LS_HUMAN_TEXT];
	char *text = view->text;

	if (view->has_level && view->is_hand)
		snprintf(
			text, sizeof(view->text),
			"the lowest %.0f %% of all priority levels are refused by hand, for another %s",
			view->height * 100, ls_human_time(view->left_ns, left));
	else if (!view->is_armed)
		snprintf(text, sizeof(view->text),
			 "nothing is shed: the policy in force has no overload signals");
	else if (!view->is_controlled)
		snprintf(
			text, sizeof(view->text),
			"nothing is shed by signals: 'loadshed serve' does not run, which measures them");
	else
		snprintf(text, sizeof(view->text), "%.255s", view->report.text);
	add_queue(view);
}

void ls_overload_view_read(struct ls_plane *plane, struct ls_overload_view *ret)
{
	__u64 admit[LS_PRIORITIES];

	memset(ret, 0, sizeof(*ret));
	ret->is_armed = ls_plane_has_signals(plane);
	ls_plane_accept_queue(plane, &ret->queue);
	if (ls_plane_counts_offers(plane)) {
		ret->is_controlled = ls_plane_overload_report(plane, &ret->report) &&
				     ls_plane_ticking_ns(plane) - ret->report.written_ns <
					     SILENT_NS;
		ret->has_level = ls_plane_level(plane, admit, &ret->is_hand, &ret->left_ns);
		ret->height = ret->has_level ? ls_overload_height(admit) : 0;
		read_counts(plane, ret);
	}
	write_sentence(ret);
}

/* ---- JSON ---- */

static json_t *queue_json(const struct ls_overload_view *view)
{
	const struct ls_accept_queue_view *of = &view->queue;

	return json_pack("{s:o, s:b, s:b, s:I, s:o}", "percent",
			 of->percent ? json_integer(of->percent) : json_null(), "readable",
			 of->is_read, "refusing", queue_refuses(view), "refused",
			 (json_int_t)of->refused, "port",
			 of->ago_ns == UINT64_MAX ? json_null() : json_integer(of->port));
}

static json_t *signals_json(const struct ls_overload_view *view)
{
	json_t *list = json_array();

	for (unsigned i = 0; view->is_controlled && i < view->report.n_signals; i++) {
		const struct ls_overload_signal_abi *of = &view->report.signal[i];
		const double scale = of->scale ? of->scale : 1;
		if (of->flags & LS_SIGNAL_F_PRESENT)
			json_array_append_new(
				list, json_pack("{s:s, s:f, s:f, s:b, s:n}", "name", of->name,
						"value", (double)of->value / scale, "target",
						(double)of->target / scale, "over",
						of->flags & LS_SIGNAL_F_OVER ? 1 : 0, "missing"));
		else
			json_array_append_new(list, json_pack("{s:s, s:n, s:n, s:b, s:s}", "name",
							      of->name, "value", "target", "over",
							      0, "missing", of->why));
	}
	return list;
}

json_t *ls_overload_view_json(const struct ls_overload_view *view)
{
	json_t *priorities = json_array();
	const bool has_numbers = view->is_controlled;

	for (unsigned p = LS_PRIORITIES; p-- > 0;)
		json_array_append_new(
			priorities, json_pack("{s:s, s:I, s:I, s:I}", "name", ls_priority_names[p],
					      "admitted", (json_int_t)view->admitted[p], "refused",
					      (json_int_t)view->refused[p], "refused_by_guard",
					      (json_int_t)view->refused_guard[p]));
	return json_pack(
		"{s:b, s:b, s:b, s:f, s:o, s:o, s:s, s:o, s:o, s:o, s:I, s:o, s:o, s:o}", "armed",
		view->is_armed, "controlled", view->is_controlled, "shedding",
		view->height > 0 || (has_numbers && view->report.sheds) || queue_refuses(view),
		"level", view->height, "by",
		!view->has_level ? json_null() : json_string(view->is_hand ? "hand" : "controller"),
		"level_seconds",
		view->has_level ? json_real((double)view->left_ns / 1e9) : json_null(), "reason",
		view->text, "offered_per_second",
		has_numbers ? json_real((double)view->report.offered_mps / 1000) : json_null(),
		"admitted_per_second",
		has_numbers && view->report.admit_mps
			? json_real((double)view->report.admit_mps / 1000)
			: json_null(),
		"capacity_per_second",
		has_numbers && view->report.capacity_mps
			? json_real((double)view->report.capacity_mps / 1000)
			: json_null(),
		"changes", (json_int_t)(has_numbers ? view->report.changes : 0), "signals",
		signals_json(view), "accept_queue", queue_json(view), "priorities", priorities);
}

/* ---- text ---- */

static void print_amount(const struct ls_overload_signal_abi *of, uint64_t value,
			 struct ls_table *table)
{
	if (of->scale == 1000)
		ls_table_cell(table, "%.1f %%", (double)value / 10);
	else
		ls_table_cell(table, "%.1f ms", (double)value / 1e6);
}

/* There are some. */
static void print_signals(const struct ls_overload_view *view)
{
	_cleanup_table_ struct ls_table table;

	ls_table_init(&table, 4, 0x6);
	ls_table_cell(&table, "SIGNAL");
	ls_table_cell(&table, "VALUE");
	ls_table_cell(&table, "TARGET");
	ls_table_cell(&table, "%s", "");
	for (unsigned i = 0; i < view->report.n_signals && i < LS_OVERLOAD_SIGNALS; i++) {
		const struct ls_overload_signal_abi *of = &view->report.signal[i];
		ls_table_cell(&table, "%.15s", of->name);
		if (!(of->flags & LS_SIGNAL_F_PRESENT)) {
			ls_table_cell(&table, "-");
			ls_table_cell(&table, "-");
			ls_table_cell(&table, "missing: %.39s", of->why);
			continue;
		}
		print_amount(of, of->value, &table);
		print_amount(of, of->target, &table);
		ls_table_cell(&table, "%s", of->flags & LS_SIGNAL_F_OVER ? "too much" : "");
	}
	putchar('\n');
	(void)ls_table_print(&table, stdout);
}

static void print_priorities(const struct ls_overload_view *view)
{
	_cleanup_table_ struct ls_table table;

	ls_table_init(&table, 3, 0x6);
	ls_table_cell(&table, "PRIORITY");
	ls_table_cell(&table, "ADMITTED");
	ls_table_cell(&table, "REFUSED");
	for (unsigned p = LS_PRIORITIES; p-- > 0;) {
		ls_table_cell(&table, "%s", ls_priority_names[p]);
		ls_table_cell(&table, "%" PRIu64, view->admitted[p]);
		ls_table_cell(&table, "%" PRIu64, view->refused[p]);
	}
	putchar('\n');
	(void)ls_table_print(&table, stdout);
}

static int report(const struct ls_cli *cli, struct ls_plane *plane)
{
	struct ls_overload_view view;

	ls_overload_view_read(plane, &view);
	if (cli->json)
		return ls_cli_print_json(ls_overload_view_json(&view));
	printf("%s\n", view.text);
	if (view.is_armed || view.has_level) {
		if (view.is_controlled && view.report.n_signals)
			print_signals(&view);
		print_priorities(&view);
	}
	return ls_cli_flush();
}

int ls_cmd_overload_explain(struct ls_cli *cli)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	const int r = ls_cli_open(cli, LS_PLANE_READ, &plane);

	return r == LS_EXIT_DONE ? report(cli, plane) : r;
}

/* "25%", or a priority: it and all below are refused; "0%": nothing is, whatever the controller says. */
static int parse_level(const struct ls_cli *cli, double *ret_height)
{
	const char *text = cli->arguments[0];
	struct ls_error error = LS_ERROR_INIT;
	uint64_t percent = 0;
	char digits[8];
	const size_t length = strlen(text);

	for (unsigned p = 0; p < LS_PRIORITIES; p++) {
		if (strcmp(text, ls_priority_names[p]) == 0) {
			*ret_height = (p + 1.0) / LS_PRIORITIES;
			return LS_EXIT_DONE;
		}
	}
	if (length >= 2 && length <= 4 && text[length - 1] == '%') {
		snprintf(digits, sizeof(digits), "%.*s", (int)(length - 1), text);
		if (ls_number_parse(digits, 0, 100, &percent, &error) == 0) {
			*ret_height = (double)percent / 100;
			return LS_EXIT_DONE;
		}
	}
	return ls_cli_usage(
		"'%s' is no level: write 0%% (nothing is refused) to 100%% (all new work is), or low, normal, high, critical: that priority and all below are refused",
		text);
}

int ls_cmd_overload_set(struct ls_cli *cli)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	struct ls_error error = LS_ERROR_INIT;
	__u64 admit[LS_PRIORITIES];
	uint64_t for_ns = DEFAULT_NS;
	double height = 0;
	int r = parse_level(cli, &height);

	if (r == LS_EXIT_DONE)
		r = ls_cli_time(cli, LS_OPTION_FOR, DEFAULT_NS, &for_ns);
	if (r == LS_EXIT_DONE)
		r = ls_cli_open(cli, LS_PLANE_WRITE, &plane);
	if (r != LS_EXIT_DONE)
		return r;
	ls_overload_by_height(height, admit);
	if (ls_plane_set_hand(plane, admit, for_ns, &error) < 0)
		return ls_cli_fail(&error);
	ls_journal_write(plane, &(struct ls_journal_entry){ .kind = LS_EVENT_OVERLOAD,
							    .action = "set",
							    .text = "by hand",
							    .value = (uint64_t)(height * 100) });
	return report(cli, plane);
}

int ls_cmd_overload_auto(struct ls_cli *cli)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	struct ls_error error = LS_ERROR_INIT;
	__u64 admit[LS_PRIORITIES];
	const int r = ls_cli_open(cli, LS_PLANE_WRITE, &plane);

	if (r != LS_EXIT_DONE)
		return r;
	ls_overload_by_height(0, admit);
	if (ls_plane_set_hand(plane, admit, 0, &error) < 0)
		return ls_cli_fail(&error);
	return report(cli, plane);
}
