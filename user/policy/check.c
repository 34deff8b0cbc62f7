/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "user/base/buffer.h"
#include "user/policy/members.h"
#include "user/policy/print.h"

#define TCP 6
#define FLAG_SYN 0x02
#define FLAG_ACK 0x10

/* An Ethernet frame of full size, without its checksum. */
#define FRAME_BYTES 1514

void ls_warnings_fini(struct ls_warnings *warnings)
{
	for (size_t i = 0; i < warnings->count; i++)
		free(warnings->lines[i]);
	free(warnings->lines);
	*warnings = (struct ls_warnings)LS_WARNINGS_INIT;
}

void ls_warnings_add(struct ls_warnings *warnings, const char *format, ...)
{
	char line[1024];
	va_list arguments;
	char *copy;

	if (!warnings)
		return;
	if (!warnings->lines)
		warnings->lines = calloc(LS_WARNINGS_MAX, sizeof(*warnings->lines));
	if (!warnings->lines || warnings->count == LS_WARNINGS_MAX) {
		warnings->dropped++;
		return;
	}
	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	copy = strdup(line);
	if (copy)
		warnings->lines[warnings->count++] = copy;
	else
		warnings->dropped++;
}

struct check {
	const struct ls_policy *policy;
	struct ls_warnings *warnings;
	/* INCLUDES_*, by outer and inner set: asked once, as sets may be large. */
	uint8_t *set_in_set;
};

#define INCLUDES_UNKNOWN 0
#define INCLUDES_NO 1
#define INCLUDES_YES 2

static bool ranges_include(const struct ls_ranges *outer, const struct ls_ranges *inner)
{
	if (outer->count == 0)
		return true;
	if (inner->count == 0)
		return false;
	for (size_t i = 0, o = 0; i < inner->count; i++) {
		while (o < outer->count && outer->items[o].high < inner->items[i].low)
			o++;
		if (o == outer->count || outer->items[o].low > inner->items[i].low ||
		    outer->items[o].high < inner->items[i].high)
			return false;
	}
	return true;
}

static bool set_includes_set(const struct check *check, int outer, int inner)
{
	const struct ls_policy *const policy = check->policy;
	uint8_t *const known = &check->set_in_set[(size_t)outer * policy->n_sets + (size_t)inner];

	if (*known == INCLUDES_UNKNOWN)
		*known = ls_prefixes_include(&policy->sets[outer].entries,
					     &policy->sets[inner].entries)
				 ? INCLUDES_YES
				 : INCLUDES_NO;
	return *known == INCLUDES_YES;
}

static bool member_includes(const struct check *check, const struct ls_member *outer,
			    const struct ls_member *inner)
{
	const struct ls_set *const sets = check->policy->sets;
	const struct ls_prefixes outer_one = { (struct ls_prefix *)&outer->prefix, 1 };

	if (outer->set >= 0 && inner->set >= 0)
		return outer->set == inner->set || set_includes_set(check, outer->set, inner->set);
	if (outer->set >= 0)
		return ls_prefixes_hold(&sets[outer->set].entries, &inner->prefix) ||
		       ls_prefixes_cover(&sets[outer->set].entries, &inner->prefix);
	if (inner->set >= 0)
		return ls_prefixes_include(&outer_one, &sets[inner->set].entries);
	return ls_prefix_contains(&outer->prefix, &inner->prefix);
}

/*
 * Pairs of entries that are compared at most, so that long lists do not make a check take minutes.
 */
#define PAIRS_MAX (1UL << 20)

/* Whether each member of `inner` lies in one of `outer`. */
static bool endpoints_include(const struct check *check, const struct ls_members *outer,
			      const struct ls_members *inner)
{
	if (outer->count == 0)
		return true;
	if (inner->count == 0 || outer->count > PAIRS_MAX / inner->count)
		return false;
	for (size_t i = 0; i < inner->count; i++) {
		bool included = false;

		for (size_t o = 0; o < outer->count && !included; o++)
			included = member_includes(check, &outer->items[o], &inner->items[i]);
		if (!included)
			return false;
	}
	return true;
}

/* Whether every packet of class `later` also matches class `earlier`. */
static bool class_hides(const struct check *check, size_t earlier, size_t later)
{
	const struct ls_match *const a = &check->policy->classes[earlier].match;
	const struct ls_match *const b = &check->policy->classes[later].match;
	const struct ls_range tcp_only = { TCP, TCP };
	struct ls_ranges protocols = b->protocols;

	if (a->any)
		return true;
	if (b->any)
		return false;
	/* Flags narrow it to TCP, whatever else is asked. */
	if (b->flags_set || b->flags_clear)
		protocols = (struct ls_ranges){ (struct ls_range *)&tcp_only, 1 };
	return ranges_include(&a->protocols, &protocols) && ranges_include(&a->ports, &b->ports) &&
	       ranges_include(&a->source_ports, &b->source_ports) &&
	       ranges_include(&a->vlans, &b->vlans) && (a->flags_set & ~b->flags_set) == 0 &&
	       (a->flags_clear & ~b->flags_clear) == 0 &&
	       endpoints_include(check, &a->to, &b->to) &&
	       endpoints_include(check, &a->from, &b->from);
}

static void check_order(const struct check *check, size_t later)
{
	const struct ls_class *const classes = check->policy->classes;

	for (size_t earlier = 0; earlier < later; earlier++) {
		if (class_hides(check, earlier, later)) {
			ls_warnings_add(check->warnings,
					"class '%s' can never match: class '%s' before it takes "
					"all that it asks for",
					classes[later].name, classes[earlier].name);
			return;
		}
	}
}

static void check_empty_endpoint(const struct check *check, const struct ls_class *class,
				 const char *key, const struct ls_members *members)
{
	for (size_t i = 0; i < members->count; i++) {
		const int set = members->items[i].set;

		if (set < 0 || check->policy->sets[set].entries.count > 0)
			return;
	}
	if (members->count > 0)
		ls_warnings_add(check->warnings,
				"class '%s' can never match: its '%s' names only empty sets",
				class->name, key);
}

static unsigned family_bit(const struct ls_prefix *prefix)
{
	return prefix->family == LS_IPV4 ? 1 : 2;
}

/* 1: IPv4, 2: IPv6, 3: both. Entries of a set are sorted, IPv4 first. */
static unsigned families(const struct check *check, const struct ls_members *members)
{
	unsigned found = 0;

	for (size_t i = 0; i < members->count; i++) {
		const struct ls_member *const member = &members->items[i];

		if (member->set < 0) {
			found |= family_bit(&member->prefix);
			continue;
		}
		const struct ls_prefixes *const entries = &check->policy->sets[member->set].entries;
		if (entries->count > 0)
			found |= family_bit(&entries->items[0]) |
				 family_bit(&entries->items[entries->count - 1]);
	}
	return found;
}

/* A packet's two addresses are of one family. */
static void check_families(const struct check *check, const struct ls_class *class)
{
	const unsigned to = families(check, &class->match.to);
	const unsigned from = families(check, &class->match.from);

	if (to && from && !(to & from))
		ls_warnings_add(
			check->warnings,
			"class '%s' can never match: its 'to' is IPv%d and its 'from' is IPv%d",
			class->name, to == 1 ? 4 : 6, from == 1 ? 4 : 6);
}

static bool list_includes(const struct check *check, const struct ls_members *list,
			  const struct ls_member *member)
{
	for (size_t i = 0; i < list->count; i++)
		if (member_includes(check, &list->items[i], member))
			return true;
	return false;
}

/* Whoever is in a list is judged by it, before any class is asked. */
static void check_listed(const struct check *check, const struct ls_class *class)
{
	const struct ls_members *const allow = &check->policy->allow, *const deny =
									      &check->policy->deny;
	const struct ls_members *const from = &class->match.from;
	bool by_allow = false, by_deny = false;

	if (from->count == 0 || allow->count + deny->count > PAIRS_MAX / from->count)
		return;
	for (size_t i = 0; i < from->count; i++) {
		const bool is_denied = list_includes(check, deny, &from->items[i]);

		if (!is_denied && !list_includes(check, allow, &from->items[i]))
			return;
		by_deny = by_deny || is_denied;
		by_allow = by_allow || !is_denied;
	}
	ls_warnings_add(check->warnings,
			"class '%s' can never match: all of its 'from' is in %s, which %s first",
			class->name,
			by_allow && by_deny ? "'allow' and 'deny'"
			: by_deny	    ? "'deny'"
					    : "'allow'",
			by_allow && by_deny ? "are asked" : "is asked");
}

/* A limit as a rate, for comparing different kinds. */
static struct ls_rate average_rate(const struct ls_limit *limit)
{
	return limit->algorithm == LS_TOKEN_BUCKET ? limit->rate
						   : ls_rate_make(limit->limit, limit->window_ns);
}

static void check_nat(const struct check *check, const struct ls_class *class)
{
	uint32_t factor = 1;

	for (size_t i = 0; i < check->policy->n_nats; i++) {
		if (check->policy->nats[i].factor > factor)
			factor = check->policy->nats[i].factor;
	}
	if (factor == 1)
		return;
	for (size_t s = 0; s < class->n_limits; s++) {
		const struct ls_limit *const source = &class->limits[s];

		for (size_t p = 0; p < class->n_limits; p++) {
			const struct ls_limit *const prefix = &class->limits[p];

			if (source->per != LS_PER_SOURCE || prefix->per != LS_PER_PREFIX ||
			    source->count != prefix->count)
				continue;
			if (ls_rate_compare(ls_rate_scale(average_rate(source), factor, 1),
					    average_rate(prefix)) > 0)
				ls_warnings_add(check->warnings,
						"class '%s': limit '%s' holds a whole prefix below "
						"%u times limit '%s', so it undoes the NAT factor",
						class->name, prefix->name, factor, source->name);
		}
	}
}

static void check_limit(const struct check *check, const struct ls_class *class,
			const struct ls_limit *limit)
{
	if (limit->count == LS_COUNT_CONNECTIONS &&
	    (class->match.flags_clear & FLAG_SYN || class->match.flags_set & FLAG_ACK))
		ls_warnings_add(check->warnings,
				"class '%s': limit '%s' never counts anything: a connection is a "
				"packet with SYN and without ACK, and tcp_flags rules those out",
				class->name, limit->name);
	if (limit->count == LS_COUNT_BYTES && limit->algorithm == LS_TOKEN_BUCKET &&
	    limit->burst < FRAME_BYTES)
		ls_warnings_add(check->warnings,
				"class '%s': the burst of limit '%s' is smaller than a full frame "
				"(%d bytes), so each one leaves the bucket in debt",
				class->name, limit->name, FRAME_BYTES);
	if (limit->count == LS_COUNT_BYTES && limit->algorithm == LS_FIXED_WINDOW &&
	    limit->limit < FRAME_BYTES)
		ls_warnings_add(
			check->warnings,
			"class '%s': limit '%s' is smaller than a full frame (%d bytes), so "
			"such frames are always refused",
			class->name, limit->name, FRAME_BYTES);
}

static void check_class(const struct check *check, size_t index)
{
	const struct ls_class *const class = &check->policy->classes[index];

	check_order(check, index);
	check_empty_endpoint(check, class, "to", &class->match.to);
	check_empty_endpoint(check, class, "from", &class->match.from);
	check_families(check, class);
	check_listed(check, class);
	check_nat(check, class);
	for (size_t i = 0; i < class->n_limits; i++)
		check_limit(check, class, &class->limits[i]);
	if (class->ban.given)
		ls_warnings_add(check->warnings,
				"class '%s': its ban can be provoked by packets with a forged "
				"source, so that a victim is banned; put sources that must not be "
				"cut off into allow",
				class->name);
}

/* How many entries of a list lie in others of it, with one shown. */
static void check_hidden(const struct check *check, const char *what,
			 const struct ls_prefixes *prefixes)
{
	struct ls_prefix first, cover;
	char first_text[LS_PREFIX_TEXT], cover_text[LS_PREFIX_TEXT];
	const size_t hidden = ls_prefixes_count_hidden(prefixes, &first, &cover);

	if (hidden == 1)
		ls_warnings_add(check->warnings, "%s: %s lies in %s, so it changes nothing", what,
				ls_prefix_format(&first, first_text),
				ls_prefix_format(&cover, cover_text));
	else if (hidden > 1)
		ls_warnings_add(check->warnings,
				"%s: %zu entries lie in others and change nothing, the first %s in "
				"%s",
				what, hidden, ls_prefix_format(&first, first_text),
				ls_prefix_format(&cover, cover_text));
}

/* A set of the list that has exactly this prefix, or NULL. `sets` are its members that are sets. */
static const struct ls_set *find_in_sets(const struct ls_policy *policy,
					 const struct ls_members *sets,
					 const struct ls_prefix *prefix)
{
	for (size_t i = 0; i < sets->count; i++) {
		const struct ls_set *const set = &policy->sets[sets->items[i].set];

		if (ls_prefixes_hold(&set->entries, prefix))
			return set;
	}
	return NULL;
}

/* Single entries of a list that a set of the same list has too, or that another covers. */
static int check_members(const struct check *check, const char *what,
			 const struct ls_members *members, const struct ls_prefixes *all)
{
	_cleanup_free_ struct ls_member *items = calloc(members->count + 1, sizeof(*items));
	struct ls_members sets = { items, 0 };

	if (!items)
		return -ENOMEM;
	for (size_t i = 0; i < members->count; i++) {
		if (members->items[i].set >= 0)
			items[sets.count++] = members->items[i];
	}
	for (size_t i = 0; i < members->count; i++) {
		const struct ls_prefix *const prefix = &members->items[i].prefix, *cover;
		char text[LS_PREFIX_TEXT], cover_text[LS_PREFIX_TEXT];
		const struct ls_set *set;

		if (members->items[i].set >= 0)
			continue;
		cover = ls_prefixes_cover(all, prefix);
		set = cover ? NULL : find_in_sets(check->policy, &sets, prefix);
		if (cover)
			ls_warnings_add(check->warnings, "%s: %s lies in %s, so it changes nothing",
					what, ls_prefix_format(prefix, text),
					ls_prefix_format(cover, cover_text));
		else if (set)
			ls_warnings_add(check->warnings, "%s: %s is in set '%s' already", what,
					ls_prefix_format(prefix, text), set->name);
	}
	return 0;
}

static void check_everybody(const struct check *check, const char *what, const char *effect,
			    const struct ls_prefixes *all)
{
	for (size_t i = 0; i < all->count; i++) {
		if (all->items[i].length == 0)
			ls_warnings_add(
				check->warnings, "%s holds %s: %s every IPv%u address %s", what,
				all->items[i].family == LS_IPV4 ? "0.0.0.0/0" : "::/0", effect,
				all->items[i].family, "that no longer prefix names");
	}
}

static int check_lists(const struct check *check)
{
	const struct ls_policy *const policy = check->policy;
	struct ls_prefixes allow = { 0 }, deny = { 0 };
	_cleanup_free_ struct ls_prefix *allow_items = NULL, *deny_items = NULL;
	char text[LS_PREFIX_TEXT];
	size_t overruled = 0;

	if (ls_members_flatten(policy, &policy->allow, &allow) < 0)
		return -ENOMEM;
	allow_items = allow.items;
	if (ls_members_flatten(policy, &policy->deny, &deny) < 0)
		return -ENOMEM;
	deny_items = deny.items;

	check_everybody(check, "allow", "it frees", &allow);
	check_everybody(check, "deny", "it drops", &deny);
	if (check_members(check, "allow", &policy->allow, &allow) < 0 ||
	    check_members(check, "deny", &policy->deny, &deny) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < deny.count; i++) {
		if (ls_prefixes_hold(&allow, &deny.items[i]) && overruled++ == 0)
			ls_prefix_format(&deny.items[i], text);
	}
	if (overruled > 0)
		ls_warnings_add(check->warnings,
				"deny: %zu of its entries %s in allow too, which wins; the first "
				"is %s",
				overruled, overruled == 1 ? "is" : "are", text);
	return 0;
}

static bool uses_set(const struct ls_members *members, size_t set)
{
	for (size_t i = 0; i < members->count; i++) {
		if (members->items[i].set == (int)set)
			return true;
	}
	return false;
}

static bool set_is_used(const struct ls_policy *policy, size_t set)
{
	bool used = uses_set(&policy->allow, set) || uses_set(&policy->deny, set);

	for (size_t i = 0; i < policy->n_nats && !used; i++)
		used = uses_set(&policy->nats[i].sources, set);
	for (size_t i = 0; i < policy->n_classes && !used; i++)
		used = uses_set(&policy->classes[i].match.to, set) ||
		       uses_set(&policy->classes[i].match.from, set);
	return used;
}

static void check_sets(const struct check *check)
{
	const struct ls_policy *const policy = check->policy;
	char what[LS_NAME_BYTES + 8];

	for (size_t i = 0; i < policy->n_sets; i++) {
		const struct ls_set *const set = &policy->sets[i];

		snprintf(what, sizeof(what), "set '%s'", set->name);
		if (set->entries.count == 0)
			ls_warnings_add(check->warnings, "%s is an empty list", what);
		if (!set_is_used(policy, i))
			ls_warnings_add(check->warnings, "%s is not used", what);
		check_hidden(check, what, &set->entries);
	}
}

/* A bucket that holds 100 ms of the rate must hold one packet over the reserve of the priority. */
static void check_overload_max(const struct check *check, const char *kind, struct ls_rate rate)
{
	/* reserve = numerator / 8 of the burst */
	static const struct {
		enum ls_priority priority;
		unsigned reserve;
	} shares[] = {
		{ LS_PRIORITY_LOW, 4 },
		{ LS_PRIORITY_NORMAL, 2 },
		{ LS_PRIORITY_HIGH, 1 },
		{ LS_PRIORITY_CRITICAL, 0 },
	};
	_cleanup_buffer_ struct ls_buffer names = LS_BUFFER_INIT;
	char text[LS_UNIT_TEXT];

	for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
		/* rate / 10 * (8 - reserve) / 8 < 1 */
		const struct ls_rate room = ls_rate_scale(rate, 8 - shares[i].reserve, 80);

		if (ls_rate_compare(room, ls_rate_make(1, LS_NS_PER_S)) < 0)
			ls_buffer_format(&names, "%s%s", names.length ? ", " : "",
					 ls_priority_names[shares[i].priority]);
	}
	if (names.length > 0)
		ls_warnings_add(check->warnings,
				"overload.max: at %s %s no new work of priority %s is ever "
				"admitted, as 100 ms of it hold less than one and the reserve",
				ls_rate_items_format(rate, text), kind, ls_buffer_string(&names));
}

/* Of two `nat` entries with the same prefix the first counts. */
static void check_nat_order(const struct check *check, size_t later)
{
	const struct ls_policy *const policy = check->policy;
	const struct ls_members *const members = &policy->nats[later].sources;

	for (size_t i = 0; i < members->count && members->count < PAIRS_MAX / 1024; i++) {
		const struct ls_member *const member = &members->items[i];

		for (size_t earlier = 0; earlier < later; earlier++) {
			const struct ls_members *const first = &policy->nats[earlier].sources;
			_cleanup_buffer_ struct ls_buffer name = LS_BUFFER_INIT;
			bool same = false;

			for (size_t j = 0; j < first->count && !same; j++)
				same = member->set == first->items[j].set &&
				       (member->set >= 0 ||
					ls_prefix_equal(&member->prefix, &first->items[j].prefix));
			if (!same)
				continue;
			ls_print_member(&name, policy, member);
			ls_warnings_add(check->warnings,
					"nat: %s is in entry %zu and again in entry %zu, where it "
					"does not count",
					ls_buffer_string(&name), earlier + 1, later + 1);
			break;
		}
	}
}

int ls_policy_check(const struct ls_policy *policy, struct ls_warnings *warnings)
{
	_cleanup_free_ uint8_t *set_in_set = calloc(policy->n_sets + 1, policy->n_sets + 1);
	const struct check check = {
		.policy = policy,
		.warnings = warnings,
		.set_in_set = set_in_set,
	};
	int result;

	if (!set_in_set)
		return -ENOMEM;
	check_sets(&check);
	result = check_lists(&check);
	if (result < 0)
		return result;
	for (size_t i = 1; i < policy->n_nats; i++)
		check_nat_order(&check, i);
	if (policy->overload.has_packets)
		check_overload_max(&check, "packets", policy->overload.packets);
	if (policy->overload.has_connections)
		check_overload_max(&check, "connections", policy->overload.connections);
	for (size_t i = 0; i < policy->n_classes; i++)
		check_class(&check, i);
	return 0;
}
