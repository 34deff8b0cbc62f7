/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/diff.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "user/base/buffer.h"
#include "user/base/units.h"
#include "user/policy/print.h"

/* Entries that a line names one by one; more are counted. */
#define NAMED 8

struct diff {
	const struct ls_policy *from, *to;
	struct ls_buffer *buffer; /* may be NULL */
	bool differs;
};

static void line(struct diff *diff, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void line(struct diff *diff, const char *format, ...)
{
	char text[1024];
	va_list arguments;

	diff->differs = true;
	if (!diff->buffer)
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	ls_buffer_text(diff->buffer, text);
	ls_buffer_text(diff->buffer, "\n");
}

/* A member that can be compared across policies: by the set's name, not by its index. */
struct entry {
	const char *set; /* NULL: the prefix */
	struct ls_prefix prefix;
};

struct entries {
	struct entry *items;
	size_t count;
};

static int compare_entries(const void *a, const void *b)
{
	const struct entry *const left = a, *const right = b;

	if (left->set && right->set)
		return strcmp(left->set, right->set);
	if (left->set || right->set)
		return left->set ? -1 : 1;
	return ls_prefix_compare(&left->prefix, &right->prefix);
}

static bool sorted_entries(const struct ls_policy *policy, const struct ls_members *members,
			   struct entries *ret)
{
	ret->items = calloc(members->count + 1, sizeof(*ret->items));
	if (!ret->items)
		return false;
	for (size_t i = 0; i < members->count; i++) {
		const struct ls_member *const member = &members->items[i];

		ret->items[i] = (struct entry){
			.set = member->set >= 0 ? policy->sets[member->set].name : NULL,
			.prefix = member->prefix,
		};
	}
	ret->count = members->count;
	qsort(ret->items, ret->count, sizeof(*ret->items), compare_entries);
	return true;
}

/* What was added and removed so far: the first ones by name. */
struct changes {
	size_t added, removed;
	struct ls_buffer names;
};

static void note_change(struct changes *changes, char sign, const char *kind, const char *name)
{
	*(sign == '+' ? &changes->added : &changes->removed) += 1;
	if (changes->added + changes->removed <= NAMED)
		ls_buffer_format(&changes->names, " %c%s%s", sign, kind, name);
}

static void note_entry(struct changes *changes, char sign, const struct entry *entry)
{
	char text[LS_PREFIX_TEXT];

	note_change(changes, sign, entry->set ? "set " : "",
		    entry->set ? entry->set : ls_prefix_format(&entry->prefix, text));
}

/* "what: +203.0.113.7 -set blocked", or "what: +300 -2 entries" when those are many. */
static void report_changes(struct diff *diff, const char *what, struct changes *changes)
{
	const size_t all = changes->added + changes->removed;

	if (all > 0 && all <= NAMED)
		line(diff, "%s:%s", what, ls_buffer_string(&changes->names));
	else if (all > 0)
		line(diff, "%s: +%zu -%zu entries", what, changes->added, changes->removed);
	ls_buffer_fini(&changes->names);
}

static void diff_members(struct diff *diff, const char *what, const struct ls_members *from,
			 const struct ls_members *to)
{
	struct entries old = { 0 }, new = { 0 };
	struct changes changes = { 0 };
	_cleanup_free_ struct entry *old_items = NULL, *new_items = NULL;
	bool complete;

	complete = sorted_entries(diff->from, from, &old);
	old_items = old.items;
	complete = sorted_entries(diff->to, to, &new) && complete;
	new_items = new.items;
	if (!complete) {
		/* Applying once more than needed is harmless; saying "no difference" is not. */
		line(diff, "%s: out of memory, so it counts as different", what);
		return;
	}
	for (size_t i = 0, j = 0; i < old.count || j < new.count;) {
		const int order = i == old.count   ? 1
				  : j == new.count ? -1
						   : compare_entries(&old.items[i], &new.items[j]);

		if (order < 0)
			note_entry(&changes, '-', &old.items[i]);
		if (order > 0)
			note_entry(&changes, '+', &new.items[j]);
		i += order <= 0;
		j += order >= 0;
	}
	report_changes(diff, what, &changes);
}

static void diff_prefixes(struct diff *diff, const char *what, const struct ls_prefixes *from,
			  const struct ls_prefixes *to)
{
	struct changes changes = { 0 };

	for (size_t i = 0, j = 0; i < from->count || j < to->count;) {
		const int order = i == from->count ? 1
				  : j == to->count
					  ? -1
					  : ls_prefix_compare(&from->items[i], &to->items[j]);
		char text[LS_PREFIX_TEXT];

		if (order < 0)
			note_change(&changes, '-', "", ls_prefix_format(&from->items[i], text));
		if (order > 0)
			note_change(&changes, '+', "", ls_prefix_format(&to->items[j], text));
		i += order <= 0;
		j += order >= 0;
	}
	report_changes(diff, what, &changes);
}

static const struct ls_set *find_set(const struct ls_policy *policy, const char *name)
{
	for (size_t i = 0; i < policy->n_sets; i++) {
		if (strcmp(policy->sets[i].name, name) == 0)
			return &policy->sets[i];
	}
	return NULL;
}

static void diff_set(struct diff *diff, const struct ls_set *from, const struct ls_set *to)
{
	char what[LS_NAME_BYTES + 8];
	const char *const old_file = from->file ? from->file : "none, inline";
	const char *const new_file = to->file ? to->file : "none, inline";

	snprintf(what, sizeof(what), "set %s", from->name);
	if (strcmp(old_file, new_file) != 0)
		line(diff, "%s: file %.400s -> %.400s", what, old_file, new_file);
	if (from->skip_errors != to->skip_errors)
		line(diff, "%s: on_error %s -> %s", what, from->skip_errors ? "skip" : "refuse",
		     to->skip_errors ? "skip" : "refuse");
	diff_prefixes(diff, what, &from->entries, &to->entries);
}

static void diff_sets(struct diff *diff)
{
	for (size_t i = 0; i < diff->from->n_sets; i++) {
		const struct ls_set *const old = &diff->from->sets[i];
		const struct ls_set *const new = find_set(diff->to, old->name);

		if (new)
			diff_set(diff, old, new);
		else
			line(diff, "set %s: removed (%zu entries)", old->name, old->entries.count);
	}
	for (size_t i = 0; i < diff->to->n_sets; i++) {
		const struct ls_set *const new = &diff->to->sets[i];

		if (!find_set(diff->from, new->name))
			line(diff, "set %s: added (%zu entries)", new->name, new->entries.count);
	}
}

static void diff_nats(struct diff *diff)
{
	const size_t n_old = diff->from->n_nats, n_new = diff->to->n_nats;

	/* By position, because of two entries with the same prefix the first counts. */
	for (size_t i = 0; i < n_old || i < n_new; i++) {
		char what[40];

		snprintf(what, sizeof(what), "nat entry %zu", i + 1);
		if (i >= n_new) {
			line(diff, "%s: removed", what);
			continue;
		}
		if (i >= n_old) {
			line(diff, "%s: added, factor %u", what, diff->to->nats[i].factor);
			continue;
		}
		if (diff->from->nats[i].factor != diff->to->nats[i].factor)
			line(diff, "%s: factor %u -> %u", what, diff->from->nats[i].factor,
			     diff->to->nats[i].factor);
		diff_members(diff, what, &diff->from->nats[i].sources, &diff->to->nats[i].sources);
	}
}

static void diff_max(struct diff *diff, const char *kind, bool had, struct ls_rate old, bool has,
		     struct ls_rate new)
{
	char old_text[LS_UNIT_TEXT] = "none", new_text[LS_UNIT_TEXT] = "none";

	if (had == has && (!had || ls_rate_equal(old, new)))
		return;
	if (had)
		ls_rate_items_format(old, old_text);
	if (has)
		ls_rate_items_format(new, new_text);
	line(diff, "overload: max %s %s -> %s", kind, old_text, new_text);
}

/* Texts of one dimension of a match, "any" where it is not given; reported when they differ. */
static void diff_texts(struct diff *diff, const char *class, const char *what,
		       struct ls_buffer *old, struct ls_buffer *new)
{
	if (strcmp(ls_buffer_string(old), ls_buffer_string(new)) != 0 || old->failed || new->failed)
		line(diff, "class %s: match %s %.400s -> %.400s", class, what,
		     ls_buffer_string(old), ls_buffer_string(new));
}

typedef void print_ranges_function(struct ls_buffer *buffer, const struct ls_ranges *ranges);

static void diff_ranges(struct diff *diff, const char *class, const char *what,
			print_ranges_function *print, const struct ls_ranges *from,
			const struct ls_ranges *to)
{
	_cleanup_buffer_ struct ls_buffer old = LS_BUFFER_INIT, new = LS_BUFFER_INIT;

	if (from->count > 0)
		print(&old, from);
	else
		ls_buffer_text(&old, "any");
	if (to->count > 0)
		print(&new, to);
	else
		ls_buffer_text(&new, "any");
	diff_texts(diff, class, what, &old, &new);
}

static void diff_match(struct diff *diff, const char *class, const struct ls_match *from,
		       const struct ls_match *to)
{
	char what[LS_NAME_BYTES + 24];

	if (from->any != to->any)
		line(diff, "class %s: match %s", class,
		     to->any ? "is now any" : "is no longer any");
	diff_ranges(diff, class, "protocol", ls_print_protocols, &from->protocols, &to->protocols);
	diff_ranges(diff, class, "ports", ls_print_ranges, &from->ports, &to->ports);
	diff_ranges(diff, class, "source_ports", ls_print_ranges, &from->source_ports,
		    &to->source_ports);
	diff_ranges(diff, class, "vlan", ls_print_ranges, &from->vlans, &to->vlans);
	if (from->flags_set != to->flags_set || from->flags_clear != to->flags_clear) {
		_cleanup_buffer_ struct ls_buffer old = LS_BUFFER_INIT, new = LS_BUFFER_INIT;

		ls_print_flags(&old, from);
		ls_print_flags(&new, to);
		diff_texts(diff, class, "tcp_flags", &old, &new);
	}
	/* From none to some entries, "any" becomes "only these": the entries say it well enough. */
	snprintf(what, sizeof(what), "class %s: match to", class);
	diff_members(diff, what, &from->to, &to->to);
	snprintf(what, sizeof(what), "class %s: match from", class);
	diff_members(diff, what, &from->from, &to->from);
}

static bool same_identity(const struct ls_limit *a, const struct ls_limit *b)
{
	return a->per == b->per && a->count == b->count && a->algorithm == b->algorithm &&
	       a->window_ns == b->window_ns &&
	       (a->per != LS_PER_PREFIX ||
		(a->per_ipv4 == b->per_ipv4 && a->per_ipv6 == b->per_ipv6));
}

/* "rate 50/s -> 100/s", but "rate 50/s -> window 1m". */
static void diff_amount(struct diff *diff, const char *class, const char *limit, const char *old,
			const char *new, const char *fresh)
{
	const size_t word = strcspn(old, " ") + 1;

	line(diff, "class %s: limit %s: %s -> %s%s", class, limit, old,
	     new + (strncmp(old, new, word) == 0 ? word : 0), fresh);
}

static void diff_limit(struct diff *diff, const char *class, const struct ls_limit *from,
		       const struct ls_limit *to)
{
	char old[LS_AMOUNT_TEXT], new[LS_AMOUNT_TEXT], old_per[LS_PER_TEXT], new_per[LS_PER_TEXT];
	const char *const fresh = same_identity(from, to) ? "" : " (starts fresh)";

	ls_per_format(from, old_per);
	ls_per_format(to, new_per);
	if (strcmp(old_per, new_per) != 0)
		line(diff, "class %s: limit %s: per %s -> %s%s", class, to->name, old_per, new_per,
		     fresh);
	if (from->count != to->count)
		line(diff, "class %s: limit %s: count %s -> %s%s", class, to->name,
		     ls_count_names[from->count], ls_count_names[to->count], fresh);
	if (from->algorithm != to->algorithm)
		line(diff, "class %s: limit %s: algorithm %s -> %s%s", class, to->name,
		     ls_algorithm_names[from->algorithm], ls_algorithm_names[to->algorithm], fresh);
	if (!ls_rate_equal(from->rate, to->rate) || from->window_ns != to->window_ns)
		diff_amount(diff, class, to->name, ls_limit_rate_format(from, old),
			    ls_limit_rate_format(to, new), fresh);
	if (from->cluster != to->cluster)
		line(diff, "class %s: limit %s: scope %s", class, to->name,
		     to->cluster ? "node -> cluster" : "cluster -> node");
	else if (from->cluster && from->on_loss != to->on_loss)
		line(diff, "class %s: limit %s: on_loss %s -> %s", class, to->name,
		     ls_loss_names[from->on_loss], ls_loss_names[to->on_loss]);
	if (from->burst != to->burst || from->limit != to->limit)
		diff_amount(diff, class, to->name, ls_limit_amount_format(from, old),
			    ls_limit_amount_format(to, new), fresh);
}

static size_t find_limit(const struct ls_class *class, const char *name)
{
	size_t i = 0;

	while (i < class->n_limits && strcmp(class->limits[i].name, name) != 0)
		i++;
	return i;
}

static void diff_limits(struct diff *diff, const struct ls_class *from, const struct ls_class *to)
{
	size_t last = 0;
	bool moved = false;

	for (size_t i = 0; i < from->n_limits; i++) {
		const struct ls_limit *const old = &from->limits[i];
		const size_t at = find_limit(to, old->name);

		if (at == to->n_limits) {
			line(diff, "class %s: limit %s: removed", from->name, old->name);
			continue;
		}
		diff_limit(diff, from->name, old, &to->limits[at]);
		moved = moved || at < last;
		last = at;
	}
	for (size_t i = 0; i < to->n_limits; i++) {
		const struct ls_limit *const new = &to->limits[i];
		char rate[LS_AMOUNT_TEXT], amount[LS_AMOUNT_TEXT];

		if (find_limit(from, new->name) == from->n_limits)
			line(diff, "class %s: limit %s: added, %s, %s", from->name, new->name,
			     ls_limit_rate_format(new, rate), ls_limit_amount_format(new, amount));
	}
	if (moved)
		line(diff, "class %s: limits are asked in another order", from->name);
}

static void format_ban(const struct ls_ban_rule *ban, char text[static 160])
{
	char after[LS_UNIT_TEXT], within[LS_UNIT_TEXT], duration[LS_UNIT_TEXT];

	if (!ban->given)
		snprintf(text, 160, "none");
	else
		snprintf(text, 160, "after %s within %s for %s", ls_count_format(ban->after, after),
			 ls_time_format(ban->within_ns, within),
			 ls_time_format(ban->for_ns, duration));
}

/* A value as `show` prints it; "none" for what is not there. */
static void diff_values(struct diff *diff, const char *what, const char *key, struct ls_buffer *old,
			struct ls_buffer *new)
{
	if (strcmp(ls_buffer_string(old), ls_buffer_string(new)) != 0 || old->failed || new->failed)
		line(diff, "%s: %s %.300s -> %.300s", what, key,
		     old->length ? ls_buffer_string(old) : "none",
		     new->length ? ls_buffer_string(new) : "none");
}

static void diff_signals(struct diff *diff)
{
	for (unsigned i = 0;; i++) {
		_cleanup_buffer_ struct ls_buffer old = LS_BUFFER_INIT, new = LS_BUFFER_INIT;
		const char *key = ls_print_signal(&diff->from->signals, i, &old);
		if (!key)
			return;
		ls_print_signal(&diff->to->signals, i, &new);
		diff_values(diff, "overload", key, &old, &new);
	}
}

static void diff_check(struct diff *diff, const struct ls_class *from, const struct ls_class *to)
{
	_cleanup_buffer_ struct ls_buffer old = LS_BUFFER_INIT, new = LS_BUFFER_INIT;
	char what[LS_NAME_BYTES + 8];

	snprintf(what, sizeof(what), "class %s", from->name);
	ls_print_check(&from->check, &old);
	ls_print_check(&to->check, &new);
	diff_values(diff, what, "check", &old, &new);
}

static void diff_class(struct diff *diff, const struct ls_class *from, const struct ls_class *to)
{
	char old[160], new[160];

	diff_match(diff, from->name, &from->match, &to->match);
	if (from->mode != to->mode)
		line(diff, "class %s: mode %s -> %s", from->name, ls_mode_names[from->mode],
		     ls_mode_names[to->mode]);
	if (from->priority != to->priority)
		line(diff, "class %s: priority %s -> %s", from->name,
		     ls_priority_names[from->priority], ls_priority_names[to->priority]);
	diff_limits(diff, from, to);
	format_ban(&from->ban, old);
	format_ban(&to->ban, new);
	if (strcmp(old, new) != 0)
		line(diff, "class %s: ban %s -> %s", from->name, old, new);
	diff_check(diff, from, to);
}

static size_t find_class(const struct ls_policy *policy, const char *name)
{
	size_t i = 0;

	while (i < policy->n_classes && strcmp(policy->classes[i].name, name) != 0)
		i++;
	return i;
}

static void diff_classes(struct diff *diff)
{
	const struct ls_policy *const from = diff->from, *const to = diff->to;
	size_t last = 0;

	for (size_t i = 0; i < from->n_classes; i++) {
		const struct ls_class *const old = &from->classes[i];
		const size_t at = find_class(to, old->name);

		if (at == to->n_classes) {
			line(diff, "class %s: removed", old->name);
			continue;
		}
		diff_class(diff, old, &to->classes[at]);
		if (at < last)
			line(diff, "class %s: now before class %s", old->name,
			     to->classes[last].name);
		else
			last = at;
	}
	for (size_t i = 0; i < to->n_classes; i++) {
		if (find_class(from, to->classes[i].name) == from->n_classes)
			line(diff, "class %s: added", to->classes[i].name);
	}
}

/* The sections' lines, one against the other: the printer gives each key one line, in a fixed order. */
static void diff_cluster(struct diff *diff)
{
	_cleanup_buffer_ struct ls_buffer old = LS_BUFFER_INIT, new = LS_BUFFER_INIT;
	_cleanup_buffer_ struct ls_buffer old_secret = LS_BUFFER_INIT, new_secret = LS_BUFFER_INIT;
	const struct ls_cluster_rule *const from = &diff->from->cluster, *const to =
										 &diff->to->cluster;
	char *old_rest = NULL, *new_rest = NULL;

	if (from->given != to->given) {
		line(diff, "cluster: %s", to->given ? "added" : "removed");
		return;
	}
	ls_print_cluster(&old, from, LS_SECRETS_MASKED);
	ls_print_cluster(&new, to, LS_SECRETS_MASKED);
	ls_print_cluster(&old_secret, from, LS_SECRETS_DIGESTED);
	ls_print_cluster(&new_secret, to, LS_SECRETS_DIGESTED);
	if (strcmp(ls_buffer_string(&old), ls_buffer_string(&new)) == 0) {
		if (strcmp(ls_buffer_string(&old_secret), ls_buffer_string(&new_secret)) != 0)
			line(diff, "cluster: redis has another password");
		return;
	}
	char *a = strtok_r(old.bytes, "\n", &old_rest), *b = strtok_r(new.bytes, "\n", &new_rest);
	for (; a && b; a = strtok_r(NULL, "\n", &old_rest), b = strtok_r(NULL, "\n", &new_rest))
		if (strcmp(a, b) != 0)
			line(diff, "cluster: %s -> %s", a + strspn(a, " "),
			     b + strcspn(b, ":") + 2);
}

bool ls_policy_diff(const struct ls_policy *from, const struct ls_policy *to,
		    struct ls_buffer *buffer)
{
	struct diff diff = { .from = from, .to = to, .buffer = buffer };
	char old[LS_UNIT_TEXT], new[LS_UNIT_TEXT];

	if (from->mode != to->mode)
		line(&diff, "mode: %s -> %s", ls_mode_names[from->mode], ls_mode_names[to->mode]);
	if (from->malformed_pass != to->malformed_pass)
		line(&diff, "malformed: %s -> %s", from->malformed_pass ? "pass" : "drop",
		     to->malformed_pass ? "pass" : "drop");
	if (from->sources != to->sources)
		line(&diff, "capacity: sources %s -> %s", ls_count_format(from->sources, old),
		     ls_count_format(to->sources, new));
	diff_sets(&diff);
	diff_members(&diff, "allow", &from->allow, &to->allow);
	diff_members(&diff, "deny", &from->deny, &to->deny);
	diff_nats(&diff);
	diff_max(&diff, "packets", from->overload.has_packets, from->overload.packets,
		 to->overload.has_packets, to->overload.packets);
	if (from->overload_mode != to->overload_mode)
		line(&diff, "overload: mode %s -> %s", ls_mode_names[from->overload_mode],
		     ls_mode_names[to->overload_mode]);
	diff_signals(&diff);
	diff_max(&diff, "connections", from->overload.has_connections, from->overload.connections,
		 to->overload.has_connections, to->overload.connections);
	diff_cluster(&diff);
	diff_classes(&diff);
	return diff.differs;
}

bool ls_policy_equal(const struct ls_policy *a, const struct ls_policy *b)
{
	return !ls_policy_diff(a, b, NULL);
}
