/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/print.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "user/base/buffer.h"
#include "user/base/sha256.h"
#include "user/base/units.h"

/* Lists of more members than this get a line for each. */
#define FLOW_MEMBERS 8

/* YAML takes a colon at either end of an address for the end of a key. */
static void print_scalar(struct ls_buffer *buffer, const char *text)
{
	const bool quoted = text[0] == ':' || text[strlen(text) - 1] == ':';

	ls_buffer_text(buffer, quoted ? "'" : "");
	ls_buffer_text(buffer, text);
	ls_buffer_text(buffer, quoted ? "'" : "");
}

static void print_member(const struct ls_policy *policy, const struct ls_member *member,
			 struct ls_buffer *buffer)
{
	char text[LS_PREFIX_TEXT];

	print_scalar(buffer, member->set >= 0 ? policy->sets[member->set].name
					      : ls_prefix_format(&member->prefix, text));
}

static void print_entries(const struct ls_prefixes *entries, struct ls_buffer *buffer)
{
	char text[LS_PREFIX_TEXT];

	for (size_t i = 0; i < entries->count; i++) {
		ls_buffer_text(buffer, "    - ");
		print_scalar(buffer, ls_prefix_format(&entries->items[i], text));
		ls_buffer_text(buffer, "\n");
	}
}

static void print_origin(const struct ls_set *set, struct ls_buffer *buffer)
{
	char sha[LS_SHA256_TEXT];

	ls_buffer_format(buffer, "%zu entr%s, sha256 %s", set->entries.count,
			 set->entries.count == 1 ? "y" : "ies", ls_sha256_format(set->sha256, sha));
	if (set->skipped > 0)
		ls_buffer_format(buffer, ", %zu line%s skipped", set->skipped,
				 set->skipped == 1 ? "" : "s");
	ls_buffer_text(buffer, "\n");
}

static void print_set(const struct ls_set *set, bool expand, struct ls_buffer *buffer)
{
	ls_buffer_format(buffer, "  %s:", set->name);
	if (set->file && !expand) {
		ls_buffer_text(buffer, " { file: ");
		ls_print_text(buffer, set->file);
		ls_buffer_format(buffer, ", on_error: %s }  # ",
				 set->skip_errors ? "skip" : "refuse");
		print_origin(set, buffer);
		return;
	}
	if (set->entries.count == 0)
		ls_buffer_text(buffer, " []");
	if (set->file) {
		ls_buffer_format(buffer, "  # from %s: ", set->file);
		print_origin(set, buffer);
	} else {
		ls_buffer_text(buffer, "\n");
	}
	print_entries(&set->entries, buffer);
}

/* In brackets, with no line feed after it. */
static void print_flow(const struct ls_policy *policy, const struct ls_members *members,
		       struct ls_buffer *buffer)
{
	bool first = true;

	for (size_t i = 0; i < members->count; i++) {
		ls_print_comma(buffer, &first);
		print_member(policy, &members->items[i], buffer);
	}
	ls_buffer_text(buffer, first ? "[]" : "]");
}

/* An empty list is left out: written out, it is something that `policy check` asks about. */
static void print_list(const struct ls_policy *policy, const char *key,
		       const struct ls_members *members, struct ls_buffer *buffer)
{
	if (members->count == 0)
		return;
	ls_buffer_format(buffer, "%s:", key);
	if (members->count <= FLOW_MEMBERS) {
		ls_buffer_text(buffer, " ");
		print_flow(policy, members, buffer);
	} else {
		for (size_t i = 0; i < members->count; i++) {
			ls_buffer_text(buffer, "\n  - ");
			print_member(policy, &members->items[i], buffer);
		}
	}
	ls_buffer_text(buffer, "\n");
}

/* { http: http://127.0.0.1:8080/load, target: 80% } */
static void print_endpoint(const struct ls_endpoint *endpoint, struct ls_buffer *buffer)
{
	ls_buffer_format(buffer, "{ %s: ", ls_endpoint_names[endpoint->kind]);
	if (endpoint->kind == LS_ENDPOINT_FILE || endpoint->kind == LS_ENDPOINT_UNIX) {
		ls_print_text(buffer, endpoint->text);
		return;
	}
	ls_buffer_format(buffer, "\"%s\"", endpoint->text);
}

static void print_percent(unsigned percent, struct ls_buffer *buffer)
{
	if (percent)
		ls_buffer_format(buffer, "%u%%", percent);
	else
		ls_buffer_text(buffer, "off");
}

static void print_floor(const struct ls_signals *signals, struct ls_buffer *buffer)
{
	const char *before = "{ ";

	for (unsigned p = LS_PRIORITY_MAX; p-- > 0;) {
		if (!signals->floor[p])
			continue;
		ls_buffer_format(buffer, "%s%s: %u%%", before, ls_priority_names[p],
				 signals->floor[p]);
		before = ", ";
	}
	ls_buffer_text(buffer, *before == '{' ? "" : " }");
}

const char *ls_print_signal(const struct ls_signals *signals, unsigned number,
			    struct ls_buffer *buffer)
{
	static const char *const keys[] = { "accept_delay", "accept_queue", "cpu",
					    "pressure",	    "memory",	    "softnet",
					    "load",	    "probe",	    "floor" };
	char text[LS_UNIT_TEXT];

	if (number >= sizeof(keys) / sizeof(keys[0]))
		return NULL;
	if (!signals->given)
		return keys[number];
	if (number == 0)
		ls_buffer_text(buffer, signals->accept_delay_ns
					       ? ls_time_format(signals->accept_delay_ns, text)
					       : "off");
	else if (number <= 4)
		print_percent(number == 1   ? signals->accept_queue
			      : number == 2 ? signals->cpu
			      : number == 3 ? signals->pressure
					    : signals->memory,
			      buffer);
	else if (number == 5)
		ls_buffer_text(buffer, signals->softnet ? "on" : "off");
	else if (number == 6 && signals->load.kind) {
		print_endpoint(&signals->load, buffer);
		ls_buffer_format(buffer, ", target: %u%% }", signals->load_target);
	} else if (number == 7 && signals->probe.kind) {
		print_endpoint(&signals->probe, buffer);
		ls_buffer_format(buffer, ", target: %s }",
				 ls_time_format(signals->probe_target_ns, text));
	} else if (number == 8) {
		print_floor(signals, buffer);
	}
	return keys[number];
}

static void print_signals(const struct ls_signals *signals, struct ls_buffer *buffer)
{
	const char *key;

	for (unsigned i = 0;; i++) {
		_cleanup_buffer_ struct ls_buffer value = LS_BUFFER_INIT;
		key = ls_print_signal(signals, i, &value);
		if (!key)
			return;
		if (value.length)
			ls_buffer_format(buffer, "  %s: %s\n", key, ls_buffer_string(&value));
		buffer->failed |= value.failed;
	}
}

static void print_max(const struct ls_overload_max *max, struct ls_buffer *buffer)
{
	char rate[LS_UNIT_TEXT];

	if (!max->has_packets && !max->has_connections)
		return;
	ls_buffer_text(buffer, "  max: { ");
	if (max->has_packets)
		ls_buffer_format(buffer, "packets: %s%s", ls_rate_items_format(max->packets, rate),
				 max->has_connections ? ", " : "");
	if (max->has_connections)
		ls_buffer_format(buffer, "connections: %s",
				 ls_rate_items_format(max->connections, rate));
	ls_buffer_text(buffer, " }\n");
}

static void print_overload(const struct ls_policy *policy, struct ls_buffer *buffer)
{
	const struct ls_overload_max *max = &policy->overload;

	if (!policy->signals.given && !max->has_packets && !max->has_connections)
		return;
	ls_buffer_text(buffer, "\noverload:\n");
	if (policy->signals.given || policy->overload_mode != LS_MODE_ENFORCE)
		ls_buffer_format(buffer, "  mode: %s\n", ls_mode_names[policy->overload_mode]);
	print_max(max, buffer);
	print_signals(&policy->signals, buffer);
}

void ls_print_check(const struct ls_check *check, struct ls_buffer *buffer)
{
	char interval[LS_UNIT_TEXT], timeout[LS_UNIT_TEXT];

	if (!check->endpoint.kind)
		return;
	print_endpoint(&check->endpoint, buffer);
	ls_buffer_format(buffer, ", interval: %s, timeout: %s, fall: %u, rise: %u }",
			 ls_time_format(check->interval_ns, interval),
			 ls_time_format(check->timeout_ns, timeout), check->fall, check->rise);
}

static void print_match(const struct ls_policy *policy, const struct ls_match *match,
			struct ls_buffer *buffer)
{
	static const char indent[] = "      ";

	if (match->any) {
		ls_buffer_text(buffer, "    match: any\n");
		return;
	}
	ls_buffer_text(buffer, "    match:\n");
	if (match->protocols.count > 0 && !match->protocols_implied) {
		ls_buffer_format(buffer, "%sprotocol: ", indent);
		ls_print_protocols(buffer, &match->protocols);
		ls_buffer_text(buffer, "\n");
	}
	if (match->ports.count > 0) {
		ls_buffer_format(buffer, "%sports: ", indent);
		ls_print_ranges(buffer, &match->ports);
		ls_buffer_text(buffer, "\n");
	}
	if (match->source_ports.count > 0) {
		ls_buffer_format(buffer, "%ssource_ports: ", indent);
		ls_print_ranges(buffer, &match->source_ports);
		ls_buffer_text(buffer, "\n");
	}
	if (match->to.count > 0) {
		ls_buffer_format(buffer, "%sto: ", indent);
		print_flow(policy, &match->to, buffer);
		ls_buffer_text(buffer, "\n");
	}
	if (match->from.count > 0) {
		ls_buffer_format(buffer, "%sfrom: ", indent);
		print_flow(policy, &match->from, buffer);
		ls_buffer_text(buffer, "\n");
	}
	if (match->vlans.count > 0) {
		ls_buffer_format(buffer, "%svlan: ", indent);
		ls_print_ranges(buffer, &match->vlans);
		ls_buffer_text(buffer, "\n");
	}
	if (match->flags_set || match->flags_clear) {
		ls_buffer_format(buffer, "%stcp_flags: ", indent);
		ls_print_flags(buffer, match);
		ls_buffer_text(buffer, "\n");
	}
}

/* "rate 50/s" as "rate: 50/s". */
static void print_amount(const char *text, struct ls_buffer *buffer)
{
	const char *const blank = strchr(text, ' ');

	ls_buffer_format(buffer, ", %.*s: %s", (int)(blank - text), text, blank + 1);
}

static void print_limit(const struct ls_limit *limit, struct ls_buffer *buffer)
{
	const bool bucket = limit->algorithm == LS_TOKEN_BUCKET;
	char per[LS_PER_TEXT], rate[LS_AMOUNT_TEXT], amount[LS_AMOUNT_TEXT], other[LS_UNIT_TEXT];

	ls_limit_rate_format(limit, rate);
	ls_limit_amount_format(limit, amount);
	ls_buffer_format(buffer, "      - { name: %s, per: %s, count: %s, algorithm: %s",
			 limit->name, ls_per_format(limit, per), ls_count_names[limit->count],
			 ls_algorithm_names[limit->algorithm]);
	print_amount(bucket ? rate : amount, buffer);
	print_amount(bucket ? amount : rate, buffer);
	if (limit->cluster)
		ls_buffer_format(buffer, ", scope: cluster, on_loss: %s",
				 ls_loss_names[limit->on_loss]);
	ls_buffer_text(buffer, " }");
	/* Bits or bytes is the commonest mistake, so both are shown. */
	if (bucket && limit->count == LS_COUNT_BYTES &&
	    *ls_rate_bytes_format_other(limit->rate, other))
		ls_buffer_format(buffer, "  # %s", other);
	ls_buffer_text(buffer, "\n");
}

static void print_class(const struct ls_policy *policy, const struct ls_class *class,
			struct ls_buffer *buffer)
{
	char after[LS_UNIT_TEXT], within[LS_UNIT_TEXT], duration[LS_UNIT_TEXT];

	ls_buffer_format(buffer, "  - name: %s\n", class->name);
	print_match(policy, &class->match, buffer);
	ls_buffer_format(buffer, "    mode: %s\n    priority: %s\n    limits:%s\n",
			 ls_mode_names[class->mode], ls_priority_names[class->priority],
			 class->n_limits == 0 ? " []" : "");
	for (size_t i = 0; i < class->n_limits; i++)
		print_limit(&class->limits[i], buffer);
	if (class->ban.given)
		ls_buffer_format(buffer, "    ban: { after: %s, within: %s, for: %s }\n",
				 ls_count_format(class->ban.after, after),
				 ls_time_format(class->ban.within_ns, within),
				 ls_time_format(class->ban.for_ns, duration));
	if (class->check.endpoint.kind) {
		ls_buffer_text(buffer, "    check: ");
		ls_print_check(&class->check, buffer);
		ls_buffer_text(buffer, "\n");
	}
}

static void print_policy(const struct ls_policy *policy, bool expand, enum ls_secrets secrets,
			 struct ls_buffer *buffer)
{
	char sources[LS_UNIT_TEXT];

	ls_buffer_format(buffer, "version: 1\nmode: %s\nmalformed: %s\ncapacity: { sources: %s }\n",
			 ls_mode_names[policy->mode], policy->malformed_pass ? "pass" : "drop",
			 ls_count_format(policy->sources, sources));
	if (policy->n_sets > 0)
		ls_buffer_text(buffer, "\nsets:\n");
	for (size_t i = 0; i < policy->n_sets; i++)
		print_set(&policy->sets[i], expand, buffer);
	if (policy->allow.count > 0 || policy->deny.count > 0)
		ls_buffer_text(buffer, "\n");
	print_list(policy, "allow", &policy->allow, buffer);
	print_list(policy, "deny", &policy->deny, buffer);
	if (policy->n_nats > 0)
		ls_buffer_text(buffer, "\nnat:\n");
	for (size_t i = 0; i < policy->n_nats; i++) {
		ls_buffer_text(buffer, "  - { sources: ");
		print_flow(policy, &policy->nats[i].sources, buffer);
		ls_buffer_format(buffer, ", factor: %s }\n",
				 ls_count_format(policy->nats[i].factor, sources));
	}
	print_overload(policy, buffer);
	ls_print_cluster(buffer, &policy->cluster, secrets);
	ls_buffer_format(buffer, "\nclasses:%s\n", policy->n_classes == 0 ? " []" : "");
	for (size_t i = 0; i < policy->n_classes; i++)
		print_class(policy, &policy->classes[i], buffer);
}

void ls_policy_print(const struct ls_policy *policy, bool expand, struct ls_buffer *buffer)
{
	print_policy(policy, expand, LS_SECRETS_MASKED, buffer);
}

void ls_policy_print_secrets(const struct ls_policy *policy, enum ls_secrets secrets,
			     struct ls_buffer *buffer)
{
	print_policy(policy, false, secrets, buffer);
}

int ls_policy_digest(const struct ls_policy *policy, uint8_t ret_digest[static 32])
{
	_cleanup_buffer_ struct ls_buffer text = LS_BUFFER_INIT;

	print_policy(policy, false, LS_SECRETS_DIGESTED, &text);
	if (text.failed)
		return -ENOMEM;
	ls_sha256(text.bytes, text.length, ret_digest);
	return 0;
}
