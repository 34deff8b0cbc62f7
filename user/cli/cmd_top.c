/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/cli.h"

/*
 * top: the sources and prefixes with most packets and most drops. On a terminal a full screen; into a pipe a table, once;
 * with -o json one document. --ban bans those that lose most.
 */

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "user/base/output.h"
#include "user/base/units.h"
#include "user/cli/publish.h"
#include "user/cli/top_ban.h"
#include "user/observe/top_screen.h"
#include "user/plane/bans.h"
#include "user/plane/counters.h"
#include "user/plane/explain.h"
#include "user/plane/plane.h"
#include "user/plane/top.h"

#define TABLE_ROWS 20
#define BAN_MAX 1000

static const char *const reasons[] = {
#define REASON_TEXT(id, text) [LS_REASON_##id] = text,
	LS_REASONS(REASON_TEXT)
#undef REASON_TEXT
};

/* ---- one measured interval ---- */

static void sleep_ns(uint64_t ns)
{
	const struct timespec span = { .tv_sec = (time_t)(ns / LS_NS_PER_S),
				       .tv_nsec = (long)(ns % LS_NS_PER_S) };

	nanosleep(&span, NULL);
}

/* Waits for the end of the epoch that is, so that what began half a second ago is in the figures: 0.6 s at most. */
static int read_once(struct ls_cli *cli, struct ls_plane *plane, struct ls_top_reading *ret)
{
	struct ls_error error = LS_ERROR_INIT;

	for (;;) {
		if (ls_top_read(plane, cli->interface, ret, &error) < 0)
			return ls_cli_fail(&error);
		const uint64_t number = ret->number;
		const bool is_first = ret->interval_ns == 0;
		ls_top_fini(ret);
		sleep_ns(ls_top_wait_ns(plane, number));
		if (ls_top_read(plane, cli->interface, ret, &error) < 0)
			return ls_cli_fail(&error);
		/* Younger than two epochs: a moment more makes it a second. */
		if (!is_first || ret->interval_ns > 1ULL << 29)
			return LS_EXIT_DONE;
		ls_top_fini(ret);
	}
}

/* ---- JSON ---- */

static json_t *rate_json(double rate)
{
	return json_integer(rate > 0 ? (json_int_t)llround(rate) : 0);
}

/* The figures of a row, under its name. */
static json_t *row_json(const char *key, const struct ls_top_row *row)
{
	char text[LS_PREFIX_TEXT];
	json_t *object = json_object();

	if (key)
		json_object_set_new(object, key, json_string(ls_prefix_format(&row->prefix, text)));
	json_object_set_new(object, "packets_per_second", rate_json(row->packets));
	json_object_set_new(object, "bytes_per_second", rate_json(row->bytes));
	json_object_set_new(object, "drops_per_second", rate_json(row->drops));
	json_object_set_new(object, "would_drops_per_second", rate_json(row->would_drops));
	json_object_set_new(object, "error_packets_per_second", rate_json(ceil(row->error)));
	json_object_set_new(object, "error_drops_per_second", rate_json(ceil(row->refused_error)));
	json_object_set_new(object, "share", json_real(row->share));
	return object;
}

static json_t *rows_json(const char *key, const struct ls_top_list *list)
{
	json_t *array = json_array();

	for (size_t i = 0; i < list->count; i++)
		json_array_append_new(array, row_json(key, &list->rows[i]));
	return array;
}

static json_t *seconds_json(uint64_t ns)
{
	return json_real((double)ns / 1e9);
}

static int print_json(const struct ls_cli *cli, const struct ls_top_reading *reading)
{
	json_t *document = json_object();
	json_t *total = row_json(NULL, &reading->total);

	json_object_set_new(document, "interval_seconds", seconds_json(reading->interval_ns));
	json_object_set_new(document, "interface", ls_cli_text_json(cli->interface));
	json_object_set_new(document, "one_in",
			    json_integer(reading->weight ? reading->weight : 1));
	json_object_update(document, total);
	json_decref(total);
	json_object_set_new(document, "sources", rows_json("source", &reading->sources));
	json_object_set_new(document, "prefixes", rows_json("prefix", &reading->prefixes));
	return ls_cli_print_json(document);
}

/* ---- what a source is ---- */

/* In a word; "" : nothing is known of it. */
static void describe(struct ls_plane *plane, const struct ls_prefix *prefix,
		     char text[static LS_TOP_WORD])
{
	struct ls_ban_entry ban;
	struct ls_explain said = { 0 };
	char left[LS_HUMAN_TEXT];
	const uint8_t source_length = prefix->family == LS_IPV4 ? 32 : 64;
	struct ls_prefix first = *prefix;

	text[0] = '\0';
	first.length = ls_prefix_full_length(prefix->family);
	const bool is_banned = ls_ban_lookup(plane, &first, &ban, NULL) == 0 &&
			       ls_prefix_contains(&ban.prefix, prefix);
	if (prefix->length == source_length) {
		const struct ls_query_words words = {
			.source = first, .protocol = -1, .port = -1, .source_port = -1
		};
		const struct ls_query query = ls_query_make(&words);
		if (ls_explain(plane, &query, &said, NULL) < 0)
			return;
	}
	if (said.reason == LS_REASON_ALLOW)
		snprintf(text, LS_TOP_WORD, "allow");
	else if (is_banned)
		snprintf(text, LS_TOP_WORD, "ban %s",
			 ls_human_time((ban.remaining_ns + LS_NS_PER_S - 1) / LS_NS_PER_S *
					       LS_NS_PER_S,
				       left));
	else if (said.reason == LS_REASON_DENY)
		snprintf(text, LS_TOP_WORD, "deny");
	else if (said.factor > 1)
		snprintf(text, LS_TOP_WORD, "nat x%u", said.factor);
}

/* ---- the table ---- */

static void human_cell(struct ls_table *table, double count)
{
	char text[LS_HUMAN_TEXT];

	ls_table_cell(table, "%s", ls_human_count((uint64_t)llround(count), text));
}

static void print_rows(struct ls_plane *plane, const char *head, const struct ls_top_list *list,
		       bool only_refused)
{
	static const char *const heads[] = { "PACKETS/S", "+-",	   "BIT/S", "DROPS/S",
					     "WOULD/S",	  "SHARE", "IS" };
	_cleanup_table_ struct ls_table table;
	char text[LS_PREFIX_TEXT], word[LS_TOP_WORD];

	ls_table_init(&table, 8, 0x7e);
	ls_table_cell(&table, "%s", head);
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		ls_table_cell(&table, "%s", heads[i]);
	for (size_t i = 0; i < list->count && i < TABLE_ROWS; i++) {
		const struct ls_top_row *row = &list->rows[i];
		if (only_refused && row->drops + row->would_drops <= 0)
			break;
		describe(plane, &row->prefix, word);
		ls_table_cell(&table, "%s", ls_prefix_format(&row->prefix, text));
		human_cell(&table, row->packets);
		human_cell(&table, row->error);
		human_cell(&table, row->bytes * 8);
		human_cell(&table, row->drops);
		human_cell(&table, row->would_drops);
		ls_table_cell(&table, "%.1f%%", row->share * 100);
		ls_table_cell(&table, "%s", word[0] ? word : "-");
	}
	(void)ls_table_print(&table, stdout);
}

static int print_table(struct ls_plane *plane, struct ls_top_reading *reading)
{
	const struct ls_top_row *total = &reading->total;
	char packets[LS_HUMAN_TEXT], bits[LS_HUMAN_TEXT], drops[LS_HUMAN_TEXT],
		would[LS_HUMAN_TEXT];

	printf("%s packets/s, %s; dropped %s/s, would drop %s/s; measured over %.1f s, one packet in %u looked at\n",
	       ls_human_count((uint64_t)total->packets, packets),
	       ls_human_bits((uint64_t)(total->bytes * 8), bits),
	       ls_human_count((uint64_t)total->drops, drops),
	       ls_human_count((uint64_t)total->would_drops, would),
	       (double)reading->interval_ns / 1e9, reading->weight ? reading->weight : 1);
	if (!reading->sources.count)
		return ls_cli_flush();
	putchar('\n');
	print_rows(plane, "MOST PACKETS", &reading->sources, false);
	ls_top_sort(&reading->sources, LS_TOP_BY_DROPS);
	if (reading->sources.rows[0].drops + reading->sources.rows[0].would_drops > 0) {
		putchar('\n');
		print_rows(plane, "MOST DROPS", &reading->sources, true);
	}
	putchar('\n');
	print_rows(plane, "PREFIX", &reading->prefixes, false);
	return ls_cli_flush();
}

/* ---- --ban ---- */

struct banned {
	json_t *banned, *left_out;
	size_t n_banned;
	bool json;
};

static void note_banned(struct banned *result, const struct ls_top_row *row, uint64_t for_ns,
			bool longer)
{
	char text[LS_PREFIX_TEXT], left[LS_HUMAN_TEXT], rate[LS_HUMAN_TEXT];

	ls_prefix_format(&row->prefix, text);
	result->n_banned++;
	json_array_append_new(result->banned,
			      json_pack("{s:s, s:o, s:o, s:b}", "source", text, "drops_per_second",
					rate_json(row->drops), "would_drops_per_second",
					rate_json(row->would_drops), "longer_already", longer));
	if (result->json)
		return;
	ls_human_count((uint64_t)llround(row->drops + row->would_drops), rate);
	if (longer)
		printf("%s: banned for longer already (loses %s/s)\n", text, rate);
	else
		printf("%s: banned for %s (loses %s/s)\n", text, ls_human_time(for_ns, left), rate);
}

static void note_left_out(struct banned *result, const struct ls_top_row *row, const char *why)
{
	char text[LS_PREFIX_TEXT];

	ls_prefix_format(&row->prefix, text);
	json_array_append_new(result->left_out,
			      json_pack("{s:s, s:s}", "source", text, "why", why));
	ls_cli_note("%s is not banned: %s", text, why);
}

/*
 * Bans the `wanted` sources that lose most. One that may be in the list by chance, of whom one packet in 64 was looked at
 * for one, is not banned for that: its refusals must exceed their own bound.
 */
static int ban_worst(struct ls_top_ban *ban, struct ls_top_reading *reading, uint64_t wanted,
		     uint64_t for_ns, struct banned *result, struct ls_error *error)
{
	char why[LS_TOP_BAN_WHY];

	ls_top_sort(&reading->sources, LS_TOP_BY_DROPS);
	for (size_t i = 0; i < reading->sources.count && result->n_banned < wanted; i++) {
		const struct ls_top_row *row = &reading->sources.rows[i];
		const double refused = row->drops + row->would_drops;
		if (refused <= 0)
			break;
		if (refused <= row->refused_error)
			continue;
		const int r = ls_top_ban_put(ban, &row->prefix, for_ns, why, error);
		if (r < 0)
			return r;
		if (r == LS_BAN_E_ALLOWED)
			note_left_out(result, row, why);
		else
			note_banned(result, row, for_ns, r == LS_BAN_E_LONGER);
	}
	return ls_top_ban_save(ban, error);
}

static int ban_and_report(struct ls_cli *cli, struct ls_top_reading *reading, uint64_t wanted,
			  uint64_t for_ns)
{
	_cleanup_top_ban_ struct ls_top_ban ban = { 0 };
	_cleanup_json_ json_t *banned = json_array();
	_cleanup_json_ json_t *left_out = json_array();
	struct banned result = { .banned = banned, .left_out = left_out, .json = cli->json };
	struct ls_error error = LS_ERROR_INIT;
	const int r = ls_top_ban_open(cli, &ban, &error);

	if (r == LS_PLANE_E_ABSENT)
		return ls_cli_absent(cli);
	if (r < 0 || ban_worst(&ban, reading, wanted, for_ns, &result, &error) < 0)
		return ls_cli_fail(&error);
	if (cli->json)
		return ls_cli_print_json(json_pack("{s:o, s:I, s:O, s:O}", "interval_seconds",
						   seconds_json(reading->interval_ns),
						   "for_seconds",
						   (json_int_t)(for_ns / LS_NS_PER_S), "banned",
						   banned, "left_out", left_out));
	if (!result.n_banned)
		printf("no source loses enough to be sure of it: nothing was banned\n");
	return ls_cli_flush();
}

/* ---- the screen ---- */

struct live {
	struct ls_cli *cli;
	struct ls_plane *plane; /* opened anew for each frame: once detached it is gone */
	struct ls_stats before;
};

static double per_second(uint64_t now, uint64_t before, double seconds)
{
	return now > before && seconds > 0 ? (double)(now - before) / seconds : 0;
}

static void sum_reasons(const struct ls_stats *stats, uint64_t sums[static LS_REASON_MAX])
{
	memset(sums, 0, sizeof(sums[0]) * LS_REASON_MAX);
	for (size_t i = 0; i < stats->n_classes; i++)
		for (size_t k = 0; k < stats->classes[i].n_verdicts; k++) {
			const struct ls_stats_verdict *row = &stats->classes[i].verdicts[k];
			if (row->verdict != LS_VERDICT_PASS)
				sums[row->reason] += row->tally.packets;
		}
}

static void fill_reasons(const struct ls_stats *now, const struct ls_stats *before, double seconds,
			 struct ls_top_frame *frame)
{
	uint64_t sums[LS_REASON_MAX], old[LS_REASON_MAX];
	size_t length = (size_t)snprintf(frame->reasons, sizeof(frame->reasons), "refused by");

	sum_reasons(now, sums);
	sum_reasons(before, old);
	bool any = false;
	for (int shown = 0; shown < 4; shown++) {
		char text[LS_HUMAN_TEXT];
		int most = -1;
		for (int i = 0; i < LS_REASON_MAX; i++) {
			if (sums[i] > old[i] &&
			    (most < 0 || sums[i] - old[i] > sums[most] - old[most]))
				most = i;
		}
		if (most < 0)
			break;
		ls_human_count((uint64_t)per_second(sums[most], old[most], seconds), text);
		length += (size_t)snprintf(frame->reasons + length, sizeof(frame->reasons) - length,
					   "%s %s %s/s", any ? "," : "", reasons[most], text);
		sums[most] = old[most];
		any = true;
	}
	if (!any)
		snprintf(frame->reasons, sizeof(frame->reasons), "nothing is refused");
}

/* Exact, from the counters; the first time there is nothing to compare with. */
static void fill_rates(const struct ls_stats *now, const struct ls_stats *before,
		       struct ls_top_frame *frame)
{
	const double seconds = (double)(now->read_ns - before->read_ns) / 1e9;
	char seen[LS_HUMAN_TEXT], bits[LS_HUMAN_TEXT], pass[LS_HUMAN_TEXT], drop[LS_HUMAN_TEXT],
		would[LS_HUMAN_TEXT];

	if (!before->read_ns) {
		snprintf(frame->rates, sizeof(frame->rates), "measuring");
		return;
	}
#define RATE(field, what) ((uint64_t)per_second(now->field.what, before->field.what, seconds))
	snprintf(frame->rates, sizeof(frame->rates),
		 "seen %s/s, %s  passed %s/s  dropped %s/s  would drop %s/s",
		 ls_human_count(RATE(seen, packets), seen),
		 ls_human_bits(RATE(seen, bytes) * 8, bits),
		 ls_human_count(RATE(pass, packets), pass),
		 ls_human_count(RATE(drop, packets), drop),
		 ls_human_count(RATE(would_drop, packets), would));
#undef RATE
	fill_reasons(now, before, seconds, frame);
}

static int fill_title(struct live *live, struct ls_top_frame *frame, struct ls_error *error)
{
	_cleanup_(ls_plane_status_fini) struct ls_plane_status status = { 0 };
	const struct ls_cli *cli = live->cli;

	if (ls_plane_status(live->plane, &status, error) < 0)
		return -1;
	snprintf(frame->title, sizeof(frame->title),
		 "loadshed top  %s%s%s  generation %" PRIu64 "  %s  one packet in %u looked at",
		 cli->instance, cli->interface ? " " : "", cli->interface ? cli->interface : "",
		 status.generation, status.monitor ? "monitor: drops nothing" : "enforce",
		 frame->reading.weight ? frame->reading.weight : 1);
	if (status.n_degraded)
		snprintf(frame->state, sizeof(frame->state), "degraded (%zu): %s",
			 status.n_degraded, status.degraded[0]);
	return 0;
}

static int live_read(void *context, struct ls_top_frame *ret, struct ls_error *error)
{
	struct live *live = context;
	struct ls_stats now = { 0 };

	ls_plane_close(TAKE_PTR(live->plane));
	const int r = ls_plane_open(live->cli->instance, LS_PLANE_READ, &live->plane, error);
	if (r == LS_PLANE_E_ABSENT)
		return ls_error_set(error, "nothing is attached any more (instance '%s')",
				    live->cli->instance);
	if (r < 0 || ls_top_read(live->plane, live->cli->interface, &ret->reading, error) < 0 ||
	    ls_stats_read(live->plane, live->cli->interface, &now, error) < 0)
		return -1;
	fill_rates(&now, &live->before, ret);
	ls_stats_fini(&live->before);
	live->before = now;
	return fill_title(live, ret, error);
}

static uint64_t live_wait_ns(void *context, uint64_t number)
{
	const struct live *live = context;

	return ls_top_wait_ns(live->plane, number);
}

static void live_describe(void *context, const struct ls_prefix *prefix,
			  char text[static LS_TOP_WORD])
{
	const struct live *live = context;

	describe(live->plane, prefix, text);
}

/* Bans what is marked, and says the first that was left out. */
static void live_ban(void *context, const struct ls_prefix *prefixes, size_t count,
		     const char *time, char message[static LS_TOP_MESSAGE])
{
	_cleanup_top_ban_ struct ls_top_ban ban = { 0 };
	struct live *live = context;
	struct ls_error error = LS_ERROR_INIT;
	char why[LS_TOP_BAN_WHY], text[LS_PREFIX_TEXT], refused[160] = "";
	uint64_t for_ns = 0;
	size_t put = 0;

	int r = ls_time_parse(time, LS_NS_PER_S, LS_TIME_MAX_NS, &for_ns, &error);
	if (r == 0)
		r = ls_top_ban_open(live->cli, &ban, &error);
	if (r == LS_PLANE_E_ABSENT)
		ls_error_set(&error, "nothing is attached");
	for (size_t i = 0; r == 0 && i < count; i++) {
		const int done = ls_top_ban_put(&ban, &prefixes[i], for_ns, why, &error);
		r = done < 0 ? done : 0;
		put += done == 0 || done == LS_BAN_E_LONGER;
		if (done == LS_BAN_E_ALLOWED && !refused[0])
			snprintf(refused, sizeof(refused), "%s is not banned: %s",
				 ls_prefix_format(&prefixes[i], text), why);
	}
	if (put && ls_top_ban_save(&ban, &error) < 0)
		r = -1;
	if (r)
		snprintf(message, LS_TOP_MESSAGE, "%.200s", error.text);
	else if (refused[0] && put)
		snprintf(message, LS_TOP_MESSAGE, "%zu banned for %s; %s", put, time, refused);
	else if (refused[0])
		snprintf(message, LS_TOP_MESSAGE, "%s", refused);
	else
		snprintf(message, LS_TOP_MESSAGE, "%s%s banned for %s",
			 count == 1 ? ls_prefix_format(&prefixes[0], text) : "all marked",
			 count == 1 ? "" : " are", time);
}

static int run_screen(struct ls_cli *cli, struct ls_plane **plane)
{
	struct live live = { .cli = cli, .plane = TAKE_PTR(*plane) };
	const struct ls_top_screen screen = { .context = &live,
					      .read = live_read,
					      .wait_ns = live_wait_ns,
					      .describe = live_describe,
					      .ban = live_ban };
	struct ls_error error = LS_ERROR_INIT;
	int ended_by = 0;
	const int r = ls_top_screen_run(&screen, &ended_by, &error);

	ls_plane_close(live.plane);
	ls_stats_fini(&live.before);
	if (r < 0)
		return ls_cli_fail(&error);
	if (ended_by)
		raise(ended_by);
	return LS_EXIT_DONE;
}

int ls_cmd_top(struct ls_cli *cli)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	_cleanup_top_ struct ls_top_reading reading = { 0 };
	struct ls_error error = LS_ERROR_INIT;
	uint64_t wanted = 0, for_ns = 0;
	const bool bans = ls_cli_has(cli, LS_OPTION_BAN);

	if (bans != ls_cli_has(cli, LS_OPTION_FOR))
		return ls_cli_usage(bans ? "--ban needs --for TIME: how long they are banned"
					 : "--for needs --ban N: how many sources are banned");
	if (bans && ls_number_parse(cli->values[LS_OPTION_BAN], 1, BAN_MAX, &wanted, &error) < 0)
		return ls_cli_usage("--ban: %s", error.text);
	int r = ls_cli_time(cli, LS_OPTION_FOR, 0, &for_ns);
	if (r == LS_EXIT_DONE)
		r = ls_cli_open(cli, LS_PLANE_READ, &plane);
	if (r != LS_EXIT_DONE)
		return r;
	if (!bans && !cli->json && !cli->table && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO))
		return run_screen(cli, &plane);
	r = read_once(cli, plane, &reading);
	if (r != LS_EXIT_DONE)
		return r;
	if (bans)
		return ban_and_report(cli, &reading, wanted, for_ns);
	return cli->json ? print_json(cli, &reading) : print_table(plane, &reading);
}
