/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/cli.h"

/* stats: what happened, in sums or, with --watch, per second. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "user/base/output.h"
#include "user/base/reason.h"
#include "user/cli/follow.h"
#include "user/plane/counters.h"
#include "user/plane/plane.h"

static json_t *tally_json(const struct ls_tally *tally)
{
	return json_pack("{s:I, s:I}", "packets", (json_int_t)tally->packets, "bytes",
			 (json_int_t)tally->bytes);
}

static json_t *class_json(const struct ls_stats_class *class)
{
	json_t *list = json_array();

	for (size_t i = 0; i < class->n_verdicts; i++) {
		const struct ls_stats_verdict *row = &class->verdicts[i];
		json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:I, s:I}", "verdict",
						      ls_verdict_name(row->verdict), "reason",
						      ls_reason_name(row->reason), "limit",
						      ls_cli_text_json(row->limit), "packets",
						      (json_int_t)row->tally.packets, "bytes",
						      (json_int_t)row->tally.bytes));
	}
	return json_pack("{s:o, s:o}", "name", ls_cli_text_json(class->name), "verdicts", list);
}

static json_t *stats_json(const struct ls_stats *stats)
{
	json_t *classes = json_array(), *interfaces = json_array();

	for (size_t i = 0; i < stats->n_classes; i++)
		json_array_append_new(classes, class_json(&stats->classes[i]));
	for (size_t i = 0; i < stats->n_interfaces; i++) {
		const struct ls_stats_interface *interface = &stats->interfaces[i];
		json_array_append_new(interfaces, json_pack("{s:o, s:o, s:o}", "name",
							    ls_cli_text_json(interface->name),
							    "pass", tally_json(&interface->pass),
							    "drop", tally_json(&interface->drop)));
	}
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "seen", tally_json(&stats->seen), "pass",
			 tally_json(&stats->pass), "drop", tally_json(&stats->drop), "would_drop",
			 tally_json(&stats->would_drop), "classes", classes, "interfaces",
			 interfaces);
}

/* Two cells: totals, or what came per second since `before`. */
static void tally_cells(struct ls_table *table, struct ls_tally now, struct ls_tally before,
			uint64_t span_ns)
{
	char text[LS_HUMAN_TEXT];

	if (!span_ns) {
		ls_table_cell(table, "%" PRIu64, now.packets);
		ls_table_cell(table, "%" PRIu64, now.bytes);
		return;
	}
	const double seconds = (double)span_ns / 1e9;
	ls_table_cell(
		table, "%s",
		ls_human_count((uint64_t)((double)(now.packets - before.packets) / seconds), text));
	ls_table_cell(
		table, "%s",
		ls_human_bits((uint64_t)((double)(now.bytes - before.bytes) * 8 / seconds), text));
}

/* The same row of an earlier reading; zero when there was none. */
static struct ls_tally earlier(const struct ls_stats *before, const char *class,
			       const struct ls_stats_verdict *row)
{
	for (size_t i = 0; i < before->n_classes; i++) {
		const struct ls_stats_class *of = &before->classes[i];
		if (strcmp(of->name, class) != 0)
			continue;
		for (size_t k = 0; k < of->n_verdicts; k++)
			if (of->verdicts[k].verdict == row->verdict &&
			    of->verdicts[k].reason == row->reason &&
			    strcmp(of->verdicts[k].limit, row->limit) == 0)
				return of->verdicts[k].tally;
	}
	return (struct ls_tally){ 0 };
}

static void print_totals(const struct ls_stats *now, const struct ls_stats *before,
			 uint64_t span_ns)
{
	_cleanup_table_ struct ls_table table;
	const struct {
		const char *name;
		struct ls_tally now, before;
	} rows[] = {
		{ "seen", now->seen, before->seen },
		{ "pass", now->pass, before->pass },
		{ "drop", now->drop, before->drop },
		{ "would-drop", now->would_drop, before->would_drop },
	};

	ls_table_init(&table, 3, 0x6);
	ls_table_cell(&table, "TOTAL");
	ls_table_cell(&table, span_ns ? "PACKETS/S" : "PACKETS");
	ls_table_cell(&table, span_ns ? "BIT/S" : "BYTES");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ls_table_cell(&table, "%s", rows[i].name);
		tally_cells(&table, rows[i].now, rows[i].before, span_ns);
	}
	(void)ls_table_print(&table, stdout);
}

static void print_classes(const struct ls_stats *now, const struct ls_stats *before,
			  uint64_t span_ns)
{
	_cleanup_table_ struct ls_table table;
	static const char *const heads[] = { "CLASS", "VERDICT", "REASON", "LIMIT" };

	ls_table_init(&table, 6, 0x30);
	for (size_t i = 0; i < 4; i++)
		ls_table_cell(&table, "%s", heads[i]);
	ls_table_cell(&table, span_ns ? "PACKETS/S" : "PACKETS");
	ls_table_cell(&table, span_ns ? "BIT/S" : "BYTES");
	for (size_t i = 0; i < now->n_classes; i++) {
		const struct ls_stats_class *class = &now->classes[i];
		const char *name = class->name[0] ? class->name : "-";
		if (class->n_verdicts == 0 && class->name[0]) {
			ls_table_cell(&table, "%s", name);
			for (int k = 0; k < 3; k++)
				ls_table_cell(&table, "-");
			tally_cells(&table, (struct ls_tally){ 0 }, (struct ls_tally){ 0 },
				    span_ns);
		}
		for (size_t k = 0; k < class->n_verdicts; k++) {
			const struct ls_stats_verdict *row = &class->verdicts[k];
			ls_table_cell(&table, "%s", name);
			ls_table_cell(&table, "%s", ls_verdict_name(row->verdict));
			ls_table_cell(&table, "%s", ls_reason_name(row->reason));
			ls_table_cell(&table, "%s", row->limit[0] ? row->limit : "-");
			tally_cells(&table, row->tally, earlier(before, class->name, row), span_ns);
		}
	}
	(void)ls_table_print(&table, stdout);
}

static void print_interfaces(const struct ls_stats *now, const struct ls_stats *before,
			     uint64_t span_ns)
{
	_cleanup_table_ struct ls_table table;
	static const char *const sums[] = { "INTERFACE", "PASS", "BYTES", "DROP", "BYTES" };
	static const char *const rates[] = { "INTERFACE", "PASS/S", "BIT/S", "DROP/S", "BIT/S" };
	const char *const *heads = span_ns ? rates : sums;

	ls_table_init(&table, 5, 0x1e);
	for (size_t i = 0; i < 5; i++)
		ls_table_cell(&table, "%s", heads[i]);
	for (size_t i = 0; i < now->n_interfaces; i++) {
		const struct ls_stats_interface *row = &now->interfaces[i];
		struct ls_stats_interface old = { 0 };
		for (size_t k = 0; k < before->n_interfaces; k++)
			if (strcmp(before->interfaces[k].name, row->name) == 0)
				old = before->interfaces[k];
		ls_table_cell(&table, "%s", row->name);
		tally_cells(&table, row->pass, old.pass, span_ns);
		tally_cells(&table, row->drop, old.drop, span_ns);
	}
	(void)ls_table_print(&table, stdout);
	for (size_t i = 0; i < now->n_interfaces; i++)
		if (!now->interfaces[i].ifindex && strchr(now->interfaces[i].name, ','))
			printf("%s: in one row, as an instance counts %d interfaces apart\n",
			       now->interfaces[i].name, LS_BANKS - 1);
}

static int print_stats(const struct ls_stats *now, const struct ls_stats *before, uint64_t span_ns)
{
	print_totals(now, before, span_ns);
	putchar('\n');
	print_classes(now, before, span_ns);
	if (now->n_interfaces) {
		putchar('\n');
		print_interfaces(now, before, span_ns);
	}
	return ls_cli_flush();
}

/* One reading, and when the tables that it is of were made. */
static int read_once(struct ls_cli *cli, struct ls_stats *ret, uint64_t *ret_made_ns)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	_cleanup_(ls_plane_status_fini) struct ls_plane_status status = { 0 };
	struct ls_error error = LS_ERROR_INIT;
	const int r = ls_plane_open(cli->instance, LS_PLANE_READ, &plane, &error);

	if (r == LS_PLANE_E_ABSENT)
		return ls_cli_absent(cli);
	if (r < 0 || ls_plane_status(plane, &status, &error) < 0 ||
	    ls_stats_read(plane, cli->interface, ret, &error) < 0)
		return ls_cli_fail(&error);
	*ret_made_ns = status.made_ns;
	return LS_EXIT_DONE;
}

/*
 * A reading each second until the reader goes away or the process is ended. The instance is opened each time:
 * once detached it is gone, and what is attached after that counts from zero.
 */
static int watch(struct ls_cli *cli)
{
	_cleanup_stats_ struct ls_stats before = { 0 };
	uint64_t before_made_ns = 0, now_made_ns = 0;
	const bool is_terminal = isatty(STDOUT_FILENO);
	int r = read_once(cli, &before, &before_made_ns);

	ls_follow_catch();
	while (r == LS_EXIT_DONE) {
		_cleanup_stats_ struct ls_stats now = { 0 };
		nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL);
		if (ls_follow_is_over())
			return LS_EXIT_DONE;
		r = read_once(cli, &now, &now_made_ns);
		if (r != LS_EXIT_DONE)
			return r;
		if (now_made_ns != before_made_ns) {
			const uint64_t read_ns = before.read_ns;
			ls_stats_fini(&before);
			before.read_ns = read_ns;
			before_made_ns = now_made_ns;
		}
		if (is_terminal)
			fputs("\033[H\033[J", stdout);
		r = print_stats(&now, &before, now.read_ns - before.read_ns);
		if (!is_terminal)
			putchar('\n');
		ls_stats_fini(&before);
		before = now;
		now = (struct ls_stats){ 0 };
	}
	return r;
}

int ls_cmd_stats(struct ls_cli *cli)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	_cleanup_stats_ struct ls_stats stats = { 0 };
	const struct ls_stats none = { 0 };
	struct ls_error error = LS_ERROR_INIT;

	if (cli->json && ls_cli_has(cli, LS_OPTION_WATCH))
		return ls_cli_usage(
			"--watch shows tables; for JSON, call 'stats -o json' again and again");
	if (ls_cli_has(cli, LS_OPTION_WATCH))
		return watch(cli);
	const int r = ls_plane_open(cli->instance, LS_PLANE_READ, &plane, &error);
	if (r == LS_PLANE_E_ABSENT)
		return ls_cli_absent(cli);
	if (r < 0)
		return ls_cli_fail(&error);
	if (ls_stats_read(plane, cli->interface, &stats, &error) < 0)
		return ls_cli_fail(&error);
	return cli->json ? ls_cli_print_json(stats_json(&stats)) : print_stats(&stats, &none, 0);
}
