/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/follow.h"

/* events: what happens, one JSON object per line, or one line for people with -o table. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "user/base/output.h"
#include "user/base/reason.h"
#include "user/base/stamp.h"
#include "user/base/units.h"
#include "user/policy/names.h"

static json_t *seconds_or_null(uint64_t ns)
{
	return ns ? json_integer((json_int_t)((ns + LS_NS_PER_S - 1) / LS_NS_PER_S)) : json_null();
}

static json_t *number_or_null(bool is_known, unsigned number)
{
	return is_known ? json_integer(number) : json_null();
}

/* "syn,ack"; "" : none is set. */
static char *flags_text(uint8_t flags, char text[static 40])
{
	static const char *const names[] = {
		"fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"
	};
	size_t length = 0;

	text[0] = '\0';
	for (size_t i = 0; i < 8; i++)
		if (flags >> i & 1)
			length += (size_t)snprintf(text + length, 40 - length, "%s%s",
						   length ? "," : "", names[i]);
	return text;
}

static void add_packet(json_t *json, const struct ls_event *event)
{
	char source[LS_PREFIX_TEXT] = "", destination[LS_PREFIX_TEXT] = "", flags[40];
	char protocol[LS_PROTOCOL_TEXT] = "";
	const bool has_ports = event->known & LS_EVENT_F_PORTS;

	if (event->has_source) {
		ls_prefix_format(&event->source, source);
		ls_prefix_format(&event->destination, destination);
	}
	if (event->known & LS_EVENT_F_PROTOCOL)
		ls_protocol_format(event->protocol, protocol);
	json_object_set_new(json, "reason", json_string(ls_reason_name(event->reason)));
	json_object_set_new(json, "class", ls_cli_text_json(event->class));
	json_object_set_new(json, "limit", ls_cli_text_json(event->limit));
	json_object_set_new(json, "source", ls_cli_text_json(source));
	json_object_set_new(json, "destination", ls_cli_text_json(destination));
	json_object_set_new(json, "protocol", ls_cli_text_json(protocol));
	json_object_set_new(json, "source_port", number_or_null(has_ports, event->source_port));
	json_object_set_new(json, "port", number_or_null(has_ports, event->port));
	if (event->known & LS_EVENT_F_TCP)
		json_object_set_new(json, "flags",
				    json_string(flags_text(event->tcp_flags, flags)));
	if (event->known & LS_EVENT_F_ICMP)
		json_object_set_new(json, "icmp_type", json_integer(event->icmp_type));
	json_object_set_new(json, "interface", ls_cli_text_json(event->interface));
	json_object_set_new(json, "bytes", json_integer(event->bytes));
	json_object_set_new(json, "sampled_of", json_integer((json_int_t)event->stands_for));
	json_object_set_new(json, "generation", json_integer(event->generation));
}

static void add_ban(json_t *json, const struct ls_event *event)
{
	char source[LS_PREFIX_TEXT] = "";
	const bool is_class = event->origin == LS_ORIGIN_CLASS;

	if (event->has_source)
		ls_prefix_format(&event->source, source);
	json_object_set_new(json, "source", ls_cli_text_json(source));
	if (event->kind == LS_EVENT_BAN)
		json_object_set_new(json, "seconds", seconds_or_null(event->value));
	json_object_set_new(json, "origin", json_string(ls_origin_name(event->origin)));
	json_object_set_new(json, "reason",
			    is_class ? ls_cli_text_json(event->class)
				     : ls_cli_text_json(event->text.text));
}

static void add_rest(json_t *json, const struct ls_event *event)
{
	const char *action = event->text.action, *name = event->text.name;

	switch (event->kind) {
	case LS_EVENT_POLICY:
		json_object_set_new(json, "action", json_string(action));
		json_object_set_new(json, "generation", json_integer(event->generation));
		json_object_set_new(json, "path", ls_cli_text_json(event->text.text));
		json_object_set_new(json, "confirm_seconds", seconds_or_null(event->value));
		break;
	case LS_EVENT_MODE:
		json_object_set_new(json, "action", json_string(action));
		json_object_set_new(json, "seconds", seconds_or_null(event->value));
		break;
	case LS_EVENT_ATTACH:
	case LS_EVENT_DETACH:
		json_object_set_new(json, "interface", ls_cli_text_json(name));
		if (event->kind == LS_EVENT_ATTACH)
			json_object_set_new(json, "mode", ls_cli_text_json(action));
		break;
	case LS_EVENT_OVERLOAD:
		json_object_set_new(json, "action", ls_cli_text_json(action));
		json_object_set_new(json, "level", json_integer((json_int_t)event->value));
		json_object_set_new(json, "text", ls_cli_text_json(event->text.text));
		break;
	default:
		json_object_set_new(json, "action", ls_cli_text_json(action));
		json_object_set_new(json, "name", ls_cli_text_json(name));
		json_object_set_new(json, "text", ls_cli_text_json(event->text.text));
		break;
	}
}

static json_t *event_json(const struct ls_event *event)
{
	char time[LS_STAMP_NS_TEXT], id[40];
	json_t *json = json_object();

	snprintf(id, sizeof(id), "%u:%" PRIu64, event->ring, event->number);

	json_object_set_new(json, "time", json_string(ls_stamp_format_ns(event->unix_ns, time)));
	json_object_set_new(json, "event",
			    json_string(event->kind == LS_EVENT_PACKET
						? ls_verdict_name(event->verdict)
						: ls_event_kind_name(event->kind)));
	json_object_set_new(json, "id", json_string(id));
	if (event->kind == LS_EVENT_PACKET)
		add_packet(json, event);
	else if (event->kind == LS_EVENT_BAN || event->kind == LS_EVENT_UNBAN)
		add_ban(json, event);
	else
		add_rest(json, event);
	return json;
}

/* One line, and out with it: whoever reads this acts on it. */
static bool print_line(json_t *json)
{
	_cleanup_free_ char *line = json ? json_dumps(json, JSON_COMPACT) : NULL;

	json_decref(json);
	if (!line) {
		errno = ENOMEM;
		return false;
	}
	puts(line);
	return fflush(stdout) == 0;
}

static bool show_json(void *context, const struct ls_event *event)
{
	(void)context;
	return print_line(event_json(event));
}

static bool lost_json(void *context, uint64_t events)
{
	char time[LS_STAMP_NS_TEXT];

	*(uint64_t *)context += events;
	return print_line(json_pack("{s:s, s:s, s:I}", "time",
				    ls_stamp_format_ns(ls_follow_now(), time), "event", "lost",
				    "events", (json_int_t)events));
}

/* ---- for people ---- */

static void print_endpoint(const struct ls_prefix *address, bool has_port, unsigned port)
{
	char text[LS_PREFIX_TEXT];
	const bool is_ipv6 = address->family == LS_IPV6;

	ls_prefix_format(address, text);
	if (has_port)
		printf(is_ipv6 ? "[%s]:%u" : "%s:%u", text, port);
	else
		fputs(text, stdout);
}

static void print_packet(const struct ls_event *event)
{
	char protocol[LS_PROTOCOL_TEXT], flags[40];
	const bool has_ports = event->known & LS_EVENT_F_PORTS;

	printf("%-10s %-9s ", ls_verdict_name(event->verdict), ls_reason_name(event->reason));
	if (event->class[0])
		printf("%s%s%s ", event->class, event->limit[0] ? "/" : "", event->limit);
	if (event->has_source) {
		print_endpoint(&event->source, has_ports, event->source_port);
		fputs(" > ", stdout);
		print_endpoint(&event->destination, has_ports, event->port);
		putchar(' ');
	}
	if (event->known & LS_EVENT_F_PROTOCOL)
		printf("%s ", ls_protocol_format(event->protocol, protocol));
	if (event->known & LS_EVENT_F_TCP && event->tcp_flags)
		printf("%s ", flags_text(event->tcp_flags, flags));
	printf("%u B %s", event->bytes, event->interface);
	if (event->stands_for > 1)
		printf(" (1 of %" PRIu64 ")", event->stands_for);
}

/* Text of an operator or of another node: a terminal must not obey it. */
static void print_text(const char *text)
{
	putchar(' ');
	for (; *text; text++)
		putchar((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text);
}

static void print_other(const struct ls_event *event)
{
	const struct ls_event_text *text = &event->text;
	char source[LS_PREFIX_TEXT], time[LS_HUMAN_TEXT];

	fputs(ls_event_kind_name(event->kind), stdout);
	if (event->has_source)
		printf(" %s", ls_prefix_format(&event->source, source));
	if (text->name[0])
		print_text(text->name);
	if (text->action[0])
		print_text(text->action);
	if (event->kind == LS_EVENT_POLICY)
		printf(" generation %u", event->generation);
	if (event->kind == LS_EVENT_OVERLOAD)
		printf(" level %" PRIu64, event->value);
	else if (event->value)
		printf(" for %s", ls_human_time(event->value, time));
	if (event->kind == LS_EVENT_BAN || event->kind == LS_EVENT_UNBAN)
		printf(" by %s", ls_origin_name(event->origin));
	if (event->class[0])
		printf(" %s", event->class);
	if (text->text[0])
		print_text(text->text);
}

static bool show_line(void *context, const struct ls_event *event)
{
	char time[LS_STAMP_NS_TEXT];

	(void)context;
	/* Hours to milliseconds: the day is known to whoever looks at it. */
	ls_stamp_format_ns(event->unix_ns, time);
	printf("%.12s ", time + strcspn(time, "T") + 1);
	if (event->kind == LS_EVENT_PACKET)
		print_packet(event);
	else
		print_other(event);
	putchar('\n');
	return fflush(stdout) == 0;
}

static bool lost_line(void *context, uint64_t events)
{
	*(uint64_t *)context += events;
	printf("lost %" PRIu64 " events: this reader was too slow for them\n", events);
	return fflush(stdout) == 0;
}

static bool drained(void *context)
{
	(void)context;
	return true;
}

static bool ready(void *context)
{
	(void)context;
	return true;
}

/* With -v, for scripts that start what they want to see events of. */
static bool ready_aloud(void *context)
{
	(void)context;
	ls_cli_note("what happens from now on is shown");
	return true;
}

int ls_cmd_events(struct ls_cli *cli)
{
	uint64_t lost = 0;
	const struct ls_follow what = {
		.context = &lost,
		.out_fd = STDOUT_FILENO,
		.show = cli->table ? show_line : show_json,
		.lost = cli->table ? lost_line : lost_json,
		.drained = drained,
	};
	const int r = ls_follow(cli, &what, cli->verbose ? ready_aloud : ready);

	if (lost)
		ls_cli_note(
			"%" PRIu64
			" events were lost because this reader was too slow; the packets that they stood for are in 'sampled_of' of later ones",
			lost);
	return r;
}
