/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/cli.h"

/* explain: what the next packet of a source would get, and why, on one screen. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "loadshed/policy_abi.h"
#include "user/base/addr.h"
#include "user/base/output.h"
#include "user/base/reason.h"
#include "user/base/units.h"
#include "user/plane/explain.h"
#include "user/plane/plane.h"
#include "user/policy/names.h"

/* By LS_LIST_*. */
static const char *const lists[] = { NULL, "allow", "deny" };

static const char *per_name(unsigned per)
{
	return per == LS_ABI_PER_PREFIX ? "prefix" : ls_per_names[per % LS_PER_MAX];
}

/* ---- the question ---- */

static int read_address(const char *what, const char *text, struct ls_prefix *ret)
{
	char clause[256];
	const enum ls_prefix_error reason = ls_prefix_parse(text, strlen(text), ret);

	if (reason != LS_PREFIX_OK)
		return ls_cli_usage(
			"%s: %s", what,
			ls_prefix_explain(reason, text, strlen(text), clause, sizeof(clause)));
	if (!ls_prefix_is_host(ret))
		return ls_cli_usage("%s: '%s' is many addresses; a packet has one", what, text);
	return LS_EXIT_DONE;
}

static int read_port(const struct ls_cli *cli, enum ls_option option, int *ret)
{
	struct ls_error error = LS_ERROR_INIT;
	uint64_t port = 0;

	if (!ls_cli_has(cli, option))
		return LS_EXIT_DONE;
	if (ls_number_parse(cli->values[option], 0, 65535, &port, &error) < 0)
		return ls_cli_usage("--%s: %s", ls_option_name(option), error.text);
	*ret = (int)port;
	return LS_EXIT_DONE;
}

/* "syn,no-ack" */
static int read_flags(const char *text, struct ls_query_words *words)
{
	char word[16];

	for (const char *at = text;; at++) {
		const size_t length = strcspn(at, ",");
		snprintf(word, sizeof(word), "%.*s", (int)(length < 15 ? length : 15), at);
		if (!ls_tcp_flag_parse(word, &words->flags_set, &words->flags_clear))
			return ls_cli_usage(
				"--flags: '%s' is no flag; fin, syn, rst, psh, ack, urg, ece, cwr, or no-syn and so on, with commas between",
				word);
		at += length;
		if (*at == '\0')
			break;
	}
	if (words->flags_set & words->flags_clear)
		return ls_cli_usage("--flags: '%s' asks for a flag both ways", text);
	return LS_EXIT_DONE;
}

static bool has_ports(int protocol)
{
	return protocol < 0 || protocol == LS_PROTOCOL_TCP || protocol == LS_PROTOCOL_UDP ||
	       protocol == LS_PROTOCOL_SCTP;
}

/* *ret_to is what words->destination points to. */
static int read_question(const struct ls_cli *cli, struct ls_query_words *words,
			 struct ls_prefix *ret_to)
{
	const char *to = cli->values[LS_OPTION_TO], *flags = cli->values[LS_OPTION_FLAGS];
	const char *protocol = cli->values[LS_OPTION_PROTOCOL];
	int r;

	*words = (struct ls_query_words){ .protocol = -1, .port = -1, .source_port = -1 };
	if ((r = read_address("SRC", cli->arguments[0], &words->source)) != LS_EXIT_DONE ||
	    (to && (r = read_address("--to", to, ret_to)) != LS_EXIT_DONE) ||
	    (r = read_port(cli, LS_OPTION_PORT, &words->port)) != LS_EXIT_DONE ||
	    (r = read_port(cli, LS_OPTION_FROM_PORT, &words->source_port)) != LS_EXIT_DONE ||
	    (flags && (r = read_flags(flags, words)) != LS_EXIT_DONE))
		return r;
	words->destination = to ? ret_to : NULL;
	if (to && ret_to->family != words->source.family)
		return ls_cli_usage("--to: '%s' and the source are of different families", to);
	if (protocol && (words->protocol = ls_protocol_parse(protocol)) < 0)
		return ls_cli_usage(
			"--protocol: '%s' is no protocol: tcp, udp, icmp, icmpv6, sctp, gre, esp or a number",
			protocol);
	if (flags && protocol && words->protocol != LS_PROTOCOL_TCP)
		return ls_cli_usage("--flags does not apply: the protocol is not tcp");
	if (flags)
		words->protocol = LS_PROTOCOL_TCP; /* nothing else has them */
	if ((words->port >= 0 || words->source_port >= 0) && !has_ports(words->protocol))
		return ls_cli_usage("%s does not apply: protocol %s has no ports",
				    words->port >= 0 ? "--port" : "--from-port", protocol);
	return LS_EXIT_DONE;
}

/* ---- JSON ---- */

/* Seconds with three decimals, rounded up; null: never. */
static json_t *seconds_json(uint64_t ns)
{
	if (ns == LS_EXPLAIN_NEVER)
		return json_null();
	const uint64_t ms = (ns + 999999) / 1000000;
	return ms % 1000 ? json_real((double)ms / 1000) : json_integer((json_int_t)(ms / 1000));
}

static json_t *limits_json(const struct ls_explain_limit *limits, size_t n)
{
	static const char *const places[] = { "own", "new", "crowd", "unseen" };
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		const struct ls_explain_limit *limit = &limits[i];
		json_array_append_new(
			list,
			json_pack("{s:s, s:s, s:s, s:I, s:o, s:s, s:s, s:I, s:b, s:b, s:s, s:o}",
				  "name", limit->name, "per", per_name(limit->per), "key",
				  limit->key, "remaining", (json_int_t)limit->remaining,
				  "retry_after_seconds", seconds_json(limit->wait_ns), "count",
				  ls_count_names[limit->count % LS_COUNT_MAX], "algorithm",
				  ls_algorithm_names[limit->algorithm % LS_ALGORITHM_MAX], "of",
				  (json_int_t)limit->ceiling, "counted", limit->is_charged,
				  "refuses", limit->refuses || limit->thins, "state",
				  places[limit->place], "cluster_admits",
				  limit->is_shared ? json_real(limit->admit) : json_null()));
	}
	return list;
}

static json_t *ban_json(const struct ls_explain *said)
{
	char text[LS_PREFIX_TEXT];

	if (!said->is_banned)
		return json_null();
	return json_pack("{s:o, s:o, s:s, s:s}", "remaining_seconds",
			 json_integer((json_int_t)((said->ban.remaining_ns + LS_NS_PER_S - 1) /
						   LS_NS_PER_S)),
			 "reason", ls_cli_text_json(said->ban.reason), "origin",
			 ls_origin_name(said->ban.origin), "source",
			 ls_prefix_format(&said->ban.prefix, text));
}

static json_t *overload_json(const struct ls_explain *said)
{
	json_t *object = json_object();

	for (int kind = 0; kind < 2; kind++) {
		const struct ls_explain_overload *of = &said->overload[kind];
		if (of->is_given)
			json_object_set_new(
				object, kind ? "connections" : "packets",
				json_pack("{s:I, s:I, s:b}", "remaining", (json_int_t)of->remaining,
					  "of", (json_int_t)of->ceiling, "refuses", of->refuses));
	}
	return object;
}

static const char *limit_name(const struct ls_explain *said)
{
	return said->limit >= 0 ? said->limits[said->limit].name : NULL;
}

static json_t *verdict_json(const struct ls_explain *said)
{
	return json_pack("{s:s, s:s, s:o, s:o}", "verdict", ls_verdict_name(said->verdict),
			 "reason", ls_reason_name(said->reason), "class",
			 ls_cli_text_json(said->class_name), "limit",
			 ls_cli_text_json(limit_name(said)));
}

static json_t *explain_json(const struct ls_query_words *words, const struct ls_explain *said,
			    const struct ls_explain *opening)
{
	char text[LS_PREFIX_TEXT];
	json_t *document = json_pack("{s:s}", "source", ls_address_format(&words->source, text));

	json_t *verdict = verdict_json(said);
	json_object_update(document, verdict);
	json_decref(verdict);
	json_object_set_new(document, "limits", limits_json(said->limits, said->n_limits));
	json_object_set_new(document, "ban", ban_json(said));
	json_object_set_new(document, "list", ls_cli_text_json(lists[said->list % 3]));
	json_object_set_new(document, "nat_factor",
			    said->factor ? json_integer(said->factor) : json_null());
	json_object_set_new(document, "generation", json_integer((json_int_t)said->generation));
	json_object_set_new(document, "mode",
			    json_string(said->is_monitor ? "monitor" : "enforce"));
	json_object_set_new(document, "off_seconds", ls_cli_seconds_json(said->off_ns));
	json_object_set_new(document, "panic_seconds", ls_cli_seconds_json(said->panic_ns));
	json_object_set_new(document, "confirm_seconds", ls_cli_seconds_json(said->confirm_ns));
	json_object_set_new(document, "panic", limits_json(said->panic, said->n_panic));
	json_object_set_new(document, "overload", overload_json(said));
	json_object_set_new(document, "connection", opening ? verdict_json(opening) : json_null());
	return document;
}

/* ---- the screen ---- */

static const char *time_text(uint64_t ns, char text[static LS_HUMAN_TEXT])
{
	if (ns == LS_EXPLAIN_NEVER)
		return "never";
	/* Above ten seconds whole ones, rounded up as by `ban list`. */
	if (ns >= 10 * LS_NS_PER_S)
		ns = (ns + LS_NS_PER_S - 1) / LS_NS_PER_S * LS_NS_PER_S;
	return ls_human_time(ns < 1000000 ? 1000000 : ns, text);
}

/* What was asked, in the words of the command line. */
static void print_question(const struct ls_query_words *words)
{
	char address[LS_PREFIX_TEXT], protocol[LS_PROTOCOL_TEXT];

	printf("packet    %s", ls_address_format(&words->source, address));
	if (words->source_port >= 0)
		printf(" port %d", words->source_port);
	if (words->destination)
		printf(" to %s", ls_address_format(words->destination, address));
	if (words->port >= 0)
		printf("%s port %d", words->destination ? "" : " to", words->port);
	if (words->protocol >= 0)
		printf(", %s", ls_protocol_format((unsigned)words->protocol, protocol));
	for (unsigned bit = 0; bit < 8; bit++)
		if ((words->flags_set | words->flags_clear) >> bit & 1)
			printf("%s%s", words->flags_clear >> bit & 1 ? " no-" : " ",
			       ls_tcp_flag_name(bit));
	putchar('\n');
}

/* The sentence behind the verdict. */
static void print_why(const struct ls_explain *said)
{
	const struct ls_explain_limit *limit = said->limit >= 0 ? &said->limits[said->limit] : NULL;
	char left[LS_HUMAN_TEXT];

	switch (said->reason) {
	case LS_REASON_CONTROL:
		printf("it keeps the link alive");
		break;
	case LS_REASON_ALLOW:
		printf("the source is in 'allow'");
		break;
	case LS_REASON_DENY:
		printf("the source is in 'deny'");
		break;
	case LS_REASON_BAN:
		printf("the source is banned for %s", time_text(said->ban.remaining_ns, left));
		break;
	case LS_REASON_UNMATCHED:
		printf("no class matches");
		break;
	case LS_REASON_LIMIT:
	case LS_REASON_CROWD:
		if (limit->thins && !limit->refuses) {
			printf("limit '%s' of class '%s' holds for all nodes together, which admit %.1f %% now",
			       limit->name, said->class_name, limit->admit * 100);
			break;
		}
		printf("limit '%s' of class '%s' admits one again in %s", limit->name,
		       said->class_name, time_text(limit->wait_ns, left));
		break;
	case LS_REASON_OVERLOAD:
		printf("'overload: max' has no room for new work of this priority");
		break;
	case LS_REASON_PANIC:
		printf("panic holds for another %s", time_text(said->panic_ns, left));
		break;
	default:
		printf("class '%s' has room", said->class_name);
	}
}

static void print_verdict(const char *head, const struct ls_explain *said)
{
	const enum ls_color color = said->verdict == LS_VERDICT_PASS   ? LS_COLOR_GREEN
				    : said->verdict == LS_VERDICT_DROP ? LS_COLOR_RED
								       : LS_COLOR_YELLOW;

	printf("%-8s  %s%s%s (%s): ", head, ls_color(stdout, color), ls_verdict_name(said->verdict),
	       ls_color(stdout, LS_COLOR_RESET), ls_reason_name(said->reason));
	print_why(said);
	putchar('\n');
}

static void print_source(const struct ls_explain *said)
{
	char left[LS_HUMAN_TEXT], prefix[LS_PREFIX_TEXT];

	printf("source    %s%s", said->list ? "in '" : "neither in 'allow' nor in 'deny'",
	       said->list ? lists[said->list % 3] : "");
	printf("%s", said->list ? "'" : "");
	if (said->factor)
		printf(", shared address: factor %u", said->factor);
	putchar('\n');
	if (!said->is_banned) {
		printf("ban       none\n");
		return;
	}
	printf("ban       %s for %s, by %s%s%s%s\n", ls_prefix_format(&said->ban.prefix, prefix),
	       time_text(said->ban.remaining_ns, left), ls_origin_name(said->ban.origin),
	       said->ban.reason[0] ? ": " : "", said->ban.reason,
	       said->list == 1 ? " ('allow' overrules it)" : "");
}

static void print_policy(const struct ls_explain *said)
{
	char left[LS_HUMAN_TEXT];

	printf("policy    generation %" PRIu64 ", %s", said->generation,
	       said->is_monitor ? "monitor: drops nothing" : "enforce");
	if (said->off_ns)
		printf(", off for %s", time_text(said->off_ns, left));
	if (said->panic_ns)
		printf(", panic for %s", time_text(said->panic_ns, left));
	if (said->confirm_ns)
		printf(", undone in %s unless confirmed", time_text(said->confirm_ns, left));
	putchar('\n');
}

static void print_class(const struct ls_explain *said)
{
	if (said->class_index >= 0)
		printf("class     %s, priority %s%s\n", said->class_name,
		       ls_priority_names[said->priority % LS_PRIORITY_MAX],
		       said->class_monitors ? ", monitor: drops nothing" : "");
	for (int kind = 0; kind < 2; kind++) {
		const struct ls_explain_overload *of = &said->overload[kind];
		char left[LS_HUMAN_TEXT], most[LS_HUMAN_TEXT];
		if (of->is_given)
			printf("overload  %s: room for %s of %s%s\n",
			       kind ? "connections" : "packets",
			       ls_human_count(of->remaining, left),
			       ls_human_count(of->ceiling, most),
			       of->refuses ? ", refuses this packet" : "");
	}
}

static char *amount_text(const struct ls_explain_limit *limit, uint64_t amount,
			 char text[static LS_HUMAN_TEXT])
{
	if (limit->count == LS_ABI_BYTES)
		return ls_human_bytes(amount, text);
	return ls_human_count(amount, text);
}

static void add_rows(struct ls_table *table, const struct ls_explain_limit *limits, size_t n,
		     const char *of)
{
	char left[LS_HUMAN_TEXT], most[LS_HUMAN_TEXT], wait[LS_HUMAN_TEXT];

	for (size_t i = 0; i < n; i++) {
		const struct ls_explain_limit *limit = &limits[i];
		ls_table_cell(table, "%s%s", of, limit->name);
		ls_table_cell(table, "%s",
			      limit->refuses || limit->thins   ? "refuses"
			      : !limit->is_charged	       ? "not asked"
			      : limit->place == LS_PLACE_CROWD ? "crowd"
							       : "admits");
		ls_table_cell(table, "%s", amount_text(limit, limit->remaining, left));
		ls_table_cell(table, "%s", amount_text(limit, limit->ceiling, most));
		ls_table_cell(table, "%s", ls_count_names[limit->count % LS_COUNT_MAX]);
		ls_table_cell(table, "%s", limit->wait_ns ? time_text(limit->wait_ns, wait) : "-");
		ls_table_cell(table, "%s", per_name(limit->per));
		ls_table_cell(table, "%s",
			      limit->per == LS_ABI_PER_FLOW ? "this flow" : limit->key);
	}
}

static void print_limits(const struct ls_explain *said)
{
	static const char *const heads[] = { "LIMIT", "NOW",  "LEFT", "OF",
					     "COUNT", "WAIT", "PER",  "WHO" };
	_cleanup_table_ struct ls_table table;

	if (said->n_limits + said->n_panic == 0)
		return;
	ls_table_init(&table, 8, 0x2c);
	for (size_t i = 0; i < 8; i++)
		ls_table_cell(&table, "%s", heads[i]);
	add_rows(&table, said->limits, said->n_limits, "");
	add_rows(&table, said->panic, said->n_panic, "panic ");
	putchar('\n');
	(void)ls_table_print(&table, stdout);
}

/* What a reader of the screen might miss. */
static void print_notes(const struct ls_query_words *words, const struct ls_explain *said)
{
	bool has_crowd = false, has_bytes = false;

	for (size_t i = 0; i < said->n_limits; i++) {
		has_crowd |= said->limits[i].place == LS_PLACE_CROWD;
		has_bytes |= said->limits[i].count == LS_ABI_BYTES;
	}
	if (has_crowd)
		puts("\nThe table of sources has no place for this one, so it shares a bucket with all others\n"
		     "that found none; a larger 'capacity' in the policy helps.");
	if (has_bytes)
		printf("\nA frame of %d bytes is assumed.\n", LS_QUERY_BYTES);
	if (words->flags_set & LS_TCP_SYN && !(words->flags_clear & LS_TCP_ACK))
		puts("\nWhether ack is set was left open; what opens a connection is --flags syn,no-ack.");
}

static int print_explain(const struct ls_query_words *words, const struct ls_explain *said,
			 const struct ls_explain *opening)
{
	print_question(words);
	print_verdict("verdict", said);
	if (opening)
		print_verdict("new conn", opening);
	print_policy(said);
	print_source(said);
	print_class(said);
	print_limits(said);
	print_notes(words, said);
	return ls_cli_flush();
}

int ls_cmd_explain(struct ls_cli *cli)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	struct ls_error error = LS_ERROR_INIT;
	struct ls_query_words words;
	struct ls_prefix to;
	struct ls_explain said, opening;
	int r = read_question(cli, &words, &to);

	if (r != LS_EXIT_DONE)
		return r;
	r = ls_plane_open(cli->instance, LS_PLANE_READ, &plane, &error);
	if (r == LS_PLANE_E_ABSENT)
		return ls_cli_absent(cli);
	struct ls_query query = ls_query_make(&words);
	if (r < 0 || ls_explain(plane, &query, &said, &error) < 0)
		return ls_cli_fail(&error);
	/* TCP of which no flag is given: what opens a connection is asked about as well. */
	const bool is_open = words.protocol == LS_PROTOCOL_TCP && !query.flags_known;
	if (is_open) {
		struct ls_query_words syn = words;
		syn.flags_set = LS_TCP_SYN;
		syn.flags_clear = (uint8_t)~LS_TCP_SYN;
		query = ls_query_make(&syn);
		if (ls_explain(plane, &query, &opening, &error) < 0)
			return ls_cli_fail(&error);
	}
	if (cli->json)
		return ls_cli_print_json(explain_json(&words, &said, is_open ? &opening : NULL));
	return print_explain(&words, &said, is_open ? &opening : NULL);
}
