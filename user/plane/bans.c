/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/bans.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "pure/ban.h"
#include "user/base/error.h"
#include "user/plane/events.h"
#include "user/plane/internal.h"
#include "user/plane/lists.h"
#include "user/policy/policy.h"

/* What the word holds: 73 years from attach. */
#define END_NS_MAX ((1ULL << (64 - LS_BAN_END_SHIFT)) - 1)
#define MARK_TRIES                                                                                 \
	1000 /* a way is busy for nanoseconds, or for as long as its CPU is not scheduled */

/* A ban's place in the table. */
struct place {
	uint64_t subject;
	uint64_t kind;
	struct ls_bans *set[2]; /* home, other */
	struct ls_ban_info *info[2];
};

struct ls_prefix ls_ban_widen(struct ls_prefix prefix)
{
	return prefix.family == LS_IPV6 ? ls_prefix_widen(prefix, 64) : prefix;
}

static uint64_t word_of(const struct ls_prefix *prefix)
{
	const int bytes = prefix->family == LS_IPV6 ? 8 : 4;
	uint64_t word = 0;

	for (int i = 0; i < bytes; i++)
		word = word << 8 | prefix->bytes[i];
	return word;
}

static int place_of(struct ls_plane *plane, const struct ls_prefix *prefix, struct place *ret,
		    struct ls_error *error)
{
	struct ls_bans *sets = ls_plane_memory(plane, LS_MAP_BANS, error);
	struct ls_ban_info *info = ls_plane_memory(plane, LS_MAP_BAN_INFO, error);
	const uint32_t mask = plane->maps[LS_MAP_BANS].entries - 1;
	const int is_ipv6 = prefix->family == LS_IPV6;

	if (!sets || !info)
		return -EIO;
	ret->subject = ls_ban_subject(word_of(prefix), prefix->length, is_ipv6);
	ret->kind = ls_ban_kind(prefix->length, is_ipv6);
	const uint64_t place =
		ls_ban_place(ls_plane_control_rw(plane)->hash_key, ret->subject, ret->kind);
	const uint32_t home = (uint32_t)(place >> 32) & mask, other = (uint32_t)place & mask;
	ret->set[0] = &sets[home];
	ret->set[1] = &sets[other];
	ret->info[0] = &info[home];
	ret->info[1] = &info[other];
	return 0;
}

static struct ls_prefix prefix_of(uint64_t subject, uint64_t until)
{
	const uint64_t kind = until & LS_BAN_KIND_MASK;
	uint32_t length = 0;
	const uint64_t word = ls_ban_word_of(subject, kind, &length);
	struct ls_prefix prefix = {
		.family = kind == LS_BAN_KIND_IPV4 ? LS_IPV4 : LS_IPV6,
		.length = (uint8_t)length,
	};
	const int bytes = prefix.family == LS_IPV6 ? 8 : 4;

	for (int i = 0; i < bytes; i++)
		prefix.bytes[i] = (uint8_t)(word >> (8 * (bytes - 1 - i)));
	return prefix;
}

static struct ls_ban_text_key text_key(uint64_t subject, uint64_t kind)
{
	return (struct ls_ban_text_key){ .subject = subject, .kind = (uint32_t)kind };
}

/* The word of lengths comes first: a ban that stands is one that packets look for. */
static void announce(struct ls_plane *plane, const struct ls_prefix *prefix)
{
	struct ls_control *control = ls_plane_control_rw(plane);
	uint64_t *lengths = prefix->family == LS_IPV6 ? (uint64_t *)&control->ban_lengths6
						      : (uint64_t *)&control->ban_lengths4;

	__atomic_fetch_or(lengths, 1ULL << (prefix->length - 1), __ATOMIC_SEQ_CST);
}

static bool mark_home(struct ls_bans *home)
{
	for (int i = 0; i < MARK_TRIES; i++)
		if (ls_ban_mark(home))
			return true;
	return false;
}

/* Which of both sets has a live ban of the subject, and until when; -1: neither. */
static int find_live(const struct place *place, uint64_t now_ns, uint64_t *ret_until, int *ret_way)
{
	int best = -1;

	for (int i = 0; i < 2; i++) {
		__u64 until = 0;
		const int way = ls_ban_find(place->set[i], place->subject, place->kind, &until);
		if (way < 0 || !ls_ban_is_live(until, now_ns) ||
		    (best >= 0 && ls_ban_end(until) <= ls_ban_end(*ret_until)))
			continue;
		best = i;
		*ret_until = until;
		*ret_way = way;
	}
	return best;
}

static int put(struct ls_plane *plane, const struct place *place, uint64_t end_ns, uint32_t what,
	       int preferred)
{
	const uint64_t now_ns = ls_plane_now(plane);

	if (preferred == 1 && ls_ban_put(place->set[1], place->info[1], place->subject, place->kind,
					 end_ns, now_ns, what))
		return 0;
	if (ls_ban_put(place->set[0], place->info[0], place->subject, place->kind, end_ns, now_ns,
		       what))
		return 0;
	if (mark_home(place->set[0]) && ls_ban_put(place->set[1], place->info[1], place->subject,
						   place->kind, end_ns, now_ns, what))
		return 0;
	return -ENOSPC;
}

/* Without the question whether the policy allows it. */
static int add_end(struct ls_plane *plane, const struct ls_prefix *prefix, uint64_t end_ns,
		   uint32_t what, const char *reason, struct ls_error *error)
{
	struct place place;
	uint64_t until = 0;
	int way;
	char text[LS_PREFIX_TEXT];
	const int r = place_of(plane, prefix, &place, error);

	if (r < 0)
		return r;
	const int found = find_live(&place, ls_plane_now(plane), &until, &way);
	if (found >= 0 && ls_ban_end(until) >= end_ns)
		return LS_BAN_E_LONGER;
	announce(plane, prefix);
	if (put(plane, &place, end_ns, what, found) < 0)
		return ls_error_set(
			error,
			"cannot ban %s: there is no room among the bans that stand; remove some or attach anew",
			ls_prefix_format(prefix, text));
	const struct ls_ban_text_key key = text_key(place.subject, place.kind);
	struct ls_ban_text value = { "" };
	if (reason)
		snprintf(value.text, sizeof(value.text), "%s", reason);
	if (value.text[0])
		(void)bpf_map_update_elem(plane->maps[LS_MAP_BAN_TEXTS].fd, &key, &value, BPF_ANY);
	else
		(void)bpf_map_delete_elem(plane->maps[LS_MAP_BAN_TEXTS].fd, &key);
	return 0;
}

bool ls_ban_is_allowed(const struct ls_policy *policy, const struct ls_prefix *prefix,
		       bool *ret_inside)
{
	const bool is_named = ls_lists_outcome(policy, prefix) == LS_OUTCOME_ALLOW;
	const bool is_allowed = is_named && !ls_lists_has_within(policy, LS_OUTCOME_DENY, prefix);

	if (ret_inside)
		*ret_inside = !is_allowed &&
			      (is_named || ls_lists_has_within(policy, LS_OUTCOME_ALLOW, prefix));
	return is_allowed;
}

int ls_ban_add(struct ls_plane *plane, const struct ls_policy *policy,
	       const struct ls_prefix *prefix, uint64_t for_ns, enum ls_origin origin,
	       const char *reason, struct ls_error *error)
{
	const uint64_t now_ns = ls_plane_now(plane);

	if (prefix->length == 0)
		return ls_error_set(error, "cannot ban everybody: a ban of /0 is refused");
	if (policy && ls_ban_is_allowed(policy, prefix, NULL))
		return LS_BAN_E_ALLOWED;
	const uint64_t end_ns = for_ns < END_NS_MAX - now_ns ? now_ns + for_ns : END_NS_MAX;
	const int r = add_end(plane, prefix, end_ns, LS_BAN_INFO(origin, 0), reason, error);
	/* An import tells of all its bans at once, so that they push nothing out of the journal. */
	if (r == 0 && origin != LS_ORIGIN_IMPORT)
		ls_journal_write(plane, &(struct ls_journal_entry){ .kind = LS_EVENT_BAN,
								    .subject = prefix,
								    .origin = origin,
								    .text = reason,
								    .value = for_ns });
	return r;
}

/*
 * Ends every ban of the subject in a set, at once; there can be two for a moment, when kernel and user space
 * put one at the same time. The mark of the set stays.
 */
static void end_ways(struct ls_bans *set, uint64_t subject, uint64_t kind)
{
	for (int way = 0; way < LS_WAYS; way++) {
		__u64 until = __atomic_load_n(&set->way[way].until, __ATOMIC_ACQUIRE);
		while (set->way[way].subject == subject && (until & LS_BAN_KIND_MASK) == kind &&
		       until != LS_STATE_BUSY && ls_ban_end(until) != 0 &&
		       !__atomic_compare_exchange_n(&set->way[way].until, &until,
						    until & (LS_BAN_OVERFLOWED | LS_BAN_KIND_MASK),
						    false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			;
	}
}

int ls_ban_del(struct ls_plane *plane, const struct ls_prefix *prefix, struct ls_error *error)
{
	struct place place;
	uint64_t until = 0;
	int way;
	const int r = place_of(plane, prefix, &place, error);

	if (r < 0)
		return r;
	const int found = find_live(&place, ls_plane_now(plane), &until, &way);
	for (int i = 0; i < 2; i++)
		end_ways(place.set[i], place.subject, place.kind);
	const struct ls_ban_text_key key = text_key(place.subject, place.kind);
	(void)bpf_map_delete_elem(plane->maps[LS_MAP_BAN_TEXTS].fd, &key);
	if (found < 0)
		return LS_BAN_E_ABSENT;
	ls_journal_write(plane,
			 &(struct ls_journal_entry){ .kind = LS_EVENT_UNBAN, .subject = prefix });
	return 0;
}

static void describe(struct ls_plane *plane, uint64_t subject, uint64_t until, uint32_t what,
		     const struct ls_ledger *ledger, struct ls_ban_entry *entry)
{
	const uint64_t now_ns = ls_plane_now(plane), end_ns = ls_ban_end(until);
	const uint32_t origin = what & 0xff, slot = what >> 8;
	const struct ls_ban_text_key key = text_key(subject, until & LS_BAN_KIND_MASK);
	struct ls_ban_text text = { "" };

	memset(entry, 0, sizeof(*entry));
	entry->prefix = prefix_of(subject, until);
	entry->remaining_ns = end_ns > now_ns ? end_ns - now_ns : 0;
	entry->end_ns = end_ns + ls_plane_control_rw(plane)->epoch_ns;
	entry->origin = origin < LS_ORIGIN_MAX ? (enum ls_origin)origin : LS_ORIGIN_OPERATOR;
	if (entry->origin == LS_ORIGIN_CLASS && slot < LS_CLASS_SLOTS && ledger)
		snprintf(entry->reason, sizeof(entry->reason), "%.31s", ledger->classes[slot].name);
	else if (bpf_map_lookup_elem(plane->maps[LS_MAP_BAN_TEXTS].fd, &key, &text) == 0)
		snprintf(entry->reason, sizeof(entry->reason), "%.63s", text.text);
}

static int compare_entries(const void *a, const void *b)
{
	const struct ls_ban_entry *left = a, *right = b;
	const int order = ls_prefix_compare(&left->prefix, &right->prefix);

	if (order)
		return order;
	return left->remaining_ns < right->remaining_ns	  ? 1
	       : left->remaining_ns > right->remaining_ns ? -1
							  : 0;
}

/* Of two ways with one subject, which may be for a moment, the one that ends later. */
static size_t drop_repeated(struct ls_ban_entry *entries, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (kept == 0 || !ls_prefix_equal(&entries[kept - 1].prefix, &entries[i].prefix))
			entries[kept++] = entries[i];
	return kept;
}

/* Texts of bans that have ended; only under the lock, when nobody is between the ban and its text. */
static void drop_texts(struct ls_plane *plane)
{
	const int fd = plane->maps[LS_MAP_BAN_TEXTS].fd;
	struct ls_ban_text_key key, next;
	bool has_key = false;

	while (bpf_map_get_next_key(fd, has_key ? &key : NULL, &next) == 0) {
		const struct ls_prefix prefix = prefix_of(next.subject, next.kind);
		struct place place;
		uint64_t until;
		int way;
		const bool is_dead = place_of(plane, &prefix, &place, NULL) == 0 &&
				     find_live(&place, ls_plane_now(plane), &until, &way) < 0;
		if (is_dead)
			(void)bpf_map_delete_elem(fd, &next);
		else
			key = next;
		/* After a removal the search goes on from the last that stayed. */
		has_key = has_key || !is_dead;
	}
}

int ls_ban_list(struct ls_plane *plane, struct ls_ban_entry **ret, size_t *ret_count,
		struct ls_error *error)
{
	const struct ls_bans *sets = ls_plane_memory(plane, LS_MAP_BANS, error);
	const struct ls_ban_info *info = ls_plane_memory(plane, LS_MAP_BAN_INFO, error);
	const struct ls_ledger *ledger = ls_plane_memory(plane, LS_MAP_LEDGER, error);
	_cleanup_free_ struct ls_ban_entry *entries = NULL;
	const uint64_t now_ns = ls_plane_now(plane);
	size_t count = 0, room = 0;

	if (!sets || !info || !ledger)
		return -EIO;
	for (uint32_t set = 0; set < plane->maps[LS_MAP_BANS].entries; set++) {
		for (int way = 0; way < LS_WAYS; way++) {
			/* The end first: once it is live, the subject before it stays. */
			const uint64_t until =
				__atomic_load_n(&sets[set].way[way].until, __ATOMIC_ACQUIRE);
			const uint64_t subject =
				__atomic_load_n(&sets[set].way[way].subject, __ATOMIC_RELAXED);
			if (until == LS_STATE_BUSY || !ls_ban_is_live(until, now_ns))
				continue;
			if (count == room) {
				room = room ? 2 * room : 64;
				struct ls_ban_entry *more = realloc(entries, room * sizeof(*more));
				if (!more)
					return ls_error_oom(error);
				entries = more;
			}
			describe(plane, subject, until, info[set].way[way], ledger,
				 &entries[count++]);
		}
	}
	if (count)
		qsort(entries, count, sizeof(*entries), compare_entries);
	if (plane->access == LS_PLANE_WRITE)
		drop_texts(plane);
	*ret_count = drop_repeated(entries, count);
	*ret = TAKE_PTR(entries);
	return 0;
}

int ls_ban_survey(struct ls_plane *plane, size_t max, struct ls_ban_survey *ret,
		  struct ls_error *error)
{
	const struct ls_control *control = ls_plane_control_rw(plane);
	struct ls_ban_survey survey = { 0 };

	/* Without bans the tables, 10 MiB, are not even mapped. */
	if (!control->ban_lengths4 && !control->ban_lengths6) {
		*ret = survey;
		return 0;
	}
	const struct ls_bans *sets = ls_plane_memory(plane, LS_MAP_BANS, error);
	const struct ls_ban_info *info = ls_plane_memory(plane, LS_MAP_BAN_INFO, error);
	const struct ls_ledger *ledger = ls_plane_memory(plane, LS_MAP_LEDGER, error);
	const uint64_t now_ns = ls_plane_now(plane);
	if (!sets || !info || !ledger)
		return -EIO;
	survey.entries = calloc(max ? max : 1, sizeof(*survey.entries));
	if (!survey.entries)
		return ls_error_oom(error);
	for (uint32_t i = 0; i < plane->maps[LS_MAP_BANS].entries * LS_WAYS; i++) {
		const struct ls_ban *ban = &sets[i / LS_WAYS].way[i % LS_WAYS];
		const uint64_t subject = __atomic_load_n(&ban->subject, __ATOMIC_RELAXED);
		const uint64_t until = __atomic_load_n(&ban->until, __ATOMIC_ACQUIRE);
		if (until == LS_STATE_BUSY || !ls_ban_is_live(until, now_ns))
			continue;
		const uint32_t what = info[i / LS_WAYS].way[i % LS_WAYS];
		survey.count[(what & 0xff) < LS_ORIGIN_MAX ? what & 0xff : LS_ORIGIN_OPERATOR]++;
		if (survey.n_entries < max)
			describe(plane, subject, until, what, ledger,
				 &survey.entries[survey.n_entries++]);
	}
	if (survey.n_entries)
		qsort(survey.entries, survey.n_entries, sizeof(*survey.entries), compare_entries);
	*ret = survey;
	return 0;
}

void ls_ban_survey_fini(struct ls_ban_survey *survey)
{
	free(survey->entries);
	memset(survey, 0, sizeof(*survey));
}

int ls_ban_lookup(struct ls_plane *plane, const struct ls_prefix *source, struct ls_ban_entry *ret,
		  struct ls_error *error)
{
	const struct ls_ledger *ledger = ls_plane_memory(plane, LS_MAP_LEDGER, error);
	struct ls_prefix prefix = ls_ban_widen(*source);

	if (!ledger)
		return -EIO;
	for (; prefix.length > 0; prefix = ls_prefix_widen(prefix, (uint8_t)(prefix.length - 1))) {
		struct place place;
		uint64_t until = 0;
		int way = 0;
		const int r = place_of(plane, &prefix, &place, error);
		if (r < 0)
			return r;
		const int found = find_live(&place, ls_plane_now(plane), &until, &way);
		if (found < 0)
			continue;
		describe(plane, place.subject, until, place.info[found]->way[way], ledger, ret);
		return 0;
	}
	return LS_BAN_E_ABSENT;
}

int ls_bans_put(struct ls_plane *plane, const struct ls_ban_entry *entries, size_t count,
		struct ls_error *error)
{
	for (size_t i = 0; i < count; i++) {
		/* A class keeps its name, not its slot, across versions and boots: that text is what remains. */
		const int r = add_end(
			plane, &entries[i].prefix, ls_plane_now(plane) + entries[i].remaining_ns,
			LS_BAN_INFO(entries[i].origin, LS_CLASS_SLOTS), entries[i].reason, error);
		if (r < 0)
			return r;
	}
	return 0;
}

int ls_bans_carry(struct ls_plane *from, struct ls_plane *to, struct ls_error *error)
{
	_cleanup_free_ struct ls_ban_entry *entries = NULL;
	size_t count = 0;

	if (!ls_plane_memory(from, LS_MAP_CONTROL, error))
		return -EIO;
	const int r = ls_ban_list(from, &entries, &count, error);
	return r < 0 ? r : ls_bans_put(to, entries, count, error);
}
