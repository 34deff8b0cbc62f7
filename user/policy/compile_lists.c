/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/compile_lists.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/cleanup.h"
#include "user/base/error.h"
#include "user/policy/compile_stack.h"
#include "user/policy/compile_standings.h"
#include "user/policy/policy.h"

/*
 * All lists of a policy are compiled together: an address is looked up once, and what is found, its
 * label, says everything about it (policy_abi.h). Three steps, each linear but for sorting:
 *
 * 1. Collect. Every set gets a role: what it means to be in it, all uses of the set together. Every
 *    prefix of a used set becomes one entry with that role, however often the set is used.
 * 2. Walk. In order of address, then length, the prefixes that cover the current one form a stack.
 *    The standing of a prefix is that of its parent changed by its own role: the outcome of allow
 *    and deny and the NAT factor are replaced (the longer prefix wins), `from` and `to` are added.
 *    Equal standings are one label. A prefix that changes nothing is left out from here on.
 * 3. Build the tables that the kernel reads: compile_tables.c.
 *
 * A standing counts as a label even if longer prefixes hide it everywhere; only whoever is close to
 * 255 labels could notice.
 */

/* ---- collecting ---- */

/*
 * An IPv4 prefix in one number while lists are collected, so that a million of them are sorted and
 * walked quickly; afterwards an entry as LS_HOST4 takes its place.
 */
#define TAG4(address, length, role)                                                                \
	((uint64_t)(address) << 32 | (uint64_t)(length) << 24 | (uint64_t)(role))
#define TAG4_KEY(tagged) ((tagged) >> 24)
#define TAG4_LENGTH(tagged) ((unsigned)((tagged) >> 24 & 0xff))
#define TAG4_ROLE(tagged) ((uint32_t)((tagged) & (TAG4_ROLES - 1)))
#define TAG4_ROLES (1U << 24)

/* What it means to be in a list. */
struct role {
	bool allow, deny;
	uint32_t nat; /* index of the `nat` entry + 1; of several the first */
	uint32_t factor;
	struct ls_class_set from, to;
};

struct collection {
	struct role *roles; /* owned; one for each set, then those of prefixes outside sets */
	bool *used;	    /* owned; which sets are used at all */
	size_t n_roles;
	size_t room4, room6; /* entries that the arrays of the lists must hold */
	struct ls_lists *lists;
};

static void collection_fini(struct collection *collection)
{
	free(collection->roles);
	free(collection->used);
}

static void merge_roles(struct role *role, const struct role *other)
{
	role->allow |= other->allow;
	role->deny |= other->deny;
	if (other->nat && (!role->nat || other->nat < role->nat)) {
		role->nat = other->nat;
		role->factor = other->factor;
	}
	for (unsigned word = 0; word < LS_CLASS_WORDS; word++) {
		role->from.word[word] |= other->from.word[word];
		role->to.word[word] |= other->to.word[word];
	}
}

typedef int member_function(struct collection *collection, const struct ls_policy *policy,
			    const struct ls_members *members, const struct role *role);

/* Calls `function` for each list of members in the policy, with its role. Stops at an error. */
static int for_each_members(struct collection *collection, const struct ls_policy *policy,
			    member_function *function)
{
	const struct role allow = { .allow = true };
	const struct role deny = { .deny = true };
	int error = function(collection, policy, &policy->allow, &allow);

	if (!error)
		error = function(collection, policy, &policy->deny, &deny);
	for (size_t i = 0; !error && i < policy->n_nats; i++) {
		const struct role nat = { .nat = (uint32_t)i + 1,
					  .factor = policy->nats[i].factor };

		error = function(collection, policy, &policy->nats[i].sources, &nat);
	}
	for (size_t i = 0; !error && i < policy->n_classes; i++) {
		const struct ls_match *match = &policy->classes[i].match;
		struct role from = { .allow = false }, to = { .allow = false };

		ls_class_set_add(&from.from, i);
		ls_class_set_add(&to.to, i);
		error = function(collection, policy, &match->from, &from);
		if (!error)
			error = function(collection, policy, &match->to, &to);
	}
	return error;
}

static void count_family(struct collection *collection, const struct ls_prefix *prefix)
{
	if (prefix->family == LS_IPV4)
		collection->room4++;
	else
		collection->room6++;
}

/* First pass: roles of sets, and how much there will be. */
static int count_members(struct collection *collection, const struct ls_policy *policy,
			 const struct ls_members *members, const struct role *role)
{
	(void)policy;
	for (size_t i = 0; i < members->count; i++) {
		const struct ls_member *member = &members->items[i];

		if (member->set >= 0) {
			merge_roles(&collection->roles[member->set], role);
			collection->used[member->set] = true;
		} else {
			count_family(collection, &member->prefix);
		}
	}
	return 0;
}

static uint64_t load_be(const uint8_t *bytes, size_t count)
{
	uint64_t value = 0;

	for (size_t i = 0; i < count; i++)
		value = value << 8 | bytes[i];
	return value;
}

static void add_prefix(struct ls_lists *lists, const struct ls_prefix *prefix, size_t role)
{
	if (prefix->family == LS_IPV4)
		lists->nets4[lists->n_nets4++] =
			TAG4(load_be(prefix->bytes, 4), prefix->length, role);
	else
		lists->nets6[lists->n_nets6++] = (struct ls_net){
			.high = load_be(prefix->bytes, 8),
			.low = load_be(prefix->bytes + 8, 8),
			.length = prefix->length,
			.tag = (uint32_t)role,
		};
}

/* Second pass: the prefixes outside sets, which share one role per list of members. */
static int add_members(struct collection *collection, const struct ls_policy *policy,
		       const struct ls_members *members, const struct role *role)
{
	bool any = false;

	(void)policy;
	for (size_t i = 0; i < members->count; i++) {
		if (members->items[i].set >= 0)
			continue;
		add_prefix(collection->lists, &members->items[i].prefix, collection->n_roles);
		any = true;
	}
	if (any)
		collection->roles[collection->n_roles++] = *role;
	return 0;
}

static int collect(struct collection *collection, const struct ls_policy *policy)
{
	struct ls_lists *lists = collection->lists;
	/* Members: allow, deny, each NAT entry, from and to of each class. */
	const size_t n_roles = policy->n_sets + 2 + policy->n_nats + 2 * policy->n_classes;

	if (n_roles > TAG4_ROLES)
		return -ENOMEM; /* 16 M sets: memory would have run out before */
	collection->roles = calloc(n_roles, sizeof(*collection->roles));
	collection->used = calloc(policy->n_sets + 1, sizeof(*collection->used));
	if (!collection->roles || !collection->used)
		return -ENOMEM;
	collection->n_roles = policy->n_sets;
	for_each_members(collection, policy, count_members);
	for (size_t i = 0; i < policy->n_sets; i++)
		for (size_t j = 0; collection->used[i] && j < policy->sets[i].entries.count; j++)
			count_family(collection, &policy->sets[i].entries.items[j]);
	lists->nets4 = calloc(collection->room4 + 1, sizeof(*lists->nets4));
	lists->nets6 = calloc(collection->room6 + 1, sizeof(*lists->nets6));
	if (!lists->nets4 || !lists->nets6)
		return -ENOMEM;
	for (size_t i = 0; i < policy->n_sets; i++)
		for (size_t j = 0; collection->used[i] && j < policy->sets[i].entries.count; j++)
			add_prefix(lists, &policy->sets[i].entries.items[j], i);
	return for_each_members(collection, policy, add_members);
}

/* ---- sorting ---- */

static bool is_sorted4(const uint64_t *items, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (items[i - 1] > items[i])
			return false;
	return true;
}

/* Radix sort by bytes 3 to 7, length and address; the order of roles does not matter. */
static int sort4(uint64_t **items, size_t count)
{
	_cleanup_free_ uint64_t *other = NULL;

	if (is_sorted4(*items, count))
		return 0;
	other = calloc(count, sizeof(*other));
	if (!other)
		return -ENOMEM;
	for (unsigned shift = 24; shift < 64; shift += 8) {
		size_t start[257] = { 0 };
		uint64_t *from = *items;

		for (size_t i = 0; i < count; i++)
			start[(from[i] >> shift & 255) + 1]++;
		for (unsigned byte = 1; byte < 256; byte++)
			start[byte] += start[byte - 1];
		for (size_t i = 0; i < count; i++)
			other[start[from[i] >> shift & 255]++] = from[i];
		*items = other;
		other = from;
	}
	return 0;
}

static int compare_nets(const void *left, const void *right)
{
	const struct ls_net *a = left, *b = right;

	if (a->high != b->high)
		return a->high < b->high ? -1 : 1;
	if (a->low != b->low)
		return a->low < b->low ? -1 : 1;
	return (a->length > b->length) - (a->length < b->length);
}

static void sort6(struct ls_net *nets, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		if (compare_nets(&nets[i - 1], &nets[i]) > 0) {
			qsort(nets, count, sizeof(*nets), compare_nets);
			return;
		}
	}
}

/* ---- the walk ---- */

/* Remembered results of "this role below that label": there are few, and they come in runs. */
#define MEMOS 4096

struct memo {
	uint32_t parent;
	uint32_t role; /* + 1; 0: free */
	uint32_t label;
};

struct walk {
	const struct role *roles;
	struct ls_standings standings;
	struct ls_stack stack;
	struct memo memos[MEMOS];
};

static void walk_free(struct walk *walk)
{
	if (!walk)
		return;
	ls_standings_fini(&walk->standings);
	free(walk);
}

DEFINE_CLEANUP(struct walk *, walk_free);

static int apply_role(struct walk *walk, uint32_t parent, const struct role *role,
		      uint32_t *ret_label)
{
	struct ls_standing standing = walk->standings.items[parent];

	if (role->allow)
		standing.list = LS_LIST_ALLOW;
	else if (role->deny)
		standing.list = LS_LIST_DENY;
	if (role->nat)
		standing.factor = role->factor;
	for (unsigned word = 0; word < LS_CLASS_WORDS; word++) {
		standing.from.word[word] |= role->from.word[word];
		standing.to.word[word] |= role->to.word[word];
	}
	return ls_standings_intern(&walk->standings, &standing, ret_label);
}

static int apply_remembered(struct walk *walk, uint32_t parent, uint32_t role, uint32_t *ret_label)
{
	struct memo *memo = &walk->memos[(parent * 31 + role) % MEMOS];

	if (memo->role != role + 1 || memo->parent != parent) {
		uint32_t label;

		if (apply_role(walk, parent, &walk->roles[role], &label) < 0)
			return -ENOMEM;
		*memo = (struct memo){ .parent = parent, .role = role + 1, .label = label };
	}
	*ret_label = memo->label;
	return 0;
}

/*
 * The label of the next prefix in order. `merged` is its role when several entries are for this
 * prefix, else NULL and `role` is the number of the one.
 * Returns 1 if the label differs from that around it, 0 if the prefix is as good as absent, or
 * -ENOMEM.
 */
static int walk_enter(struct walk *walk, ls_u128 address, unsigned length, uint32_t role,
		      const struct role *merged, uint32_t *ret_label)
{
	const uint32_t parent = ls_stack_seek(&walk->stack, address)->label;
	uint32_t label;
	const int error = merged ? apply_role(walk, parent, merged, &label)
				 : apply_remembered(walk, parent, role, &label);

	if (error)
		return error;
	if (label == parent)
		return 0;
	ls_stack_push(&walk->stack, address, length, label);
	*ret_label = label;
	return 1;
}

/* From tagged prefixes to LS_HOST4 entries, in place. Labels above 255 are cut: the count tells. */
static int walk_nets4(struct walk *walk, struct ls_lists *lists)
{
	uint64_t *nets = lists->nets4;
	size_t kept = 0;

	ls_stack_init(&walk->stack, 0);
	for (size_t i = 0, next; i < lists->n_nets4; i = next) {
		const uint64_t first = nets[i];
		const uint64_t address = first >> 32;
		struct role merged = { .allow = false };
		uint32_t label;
		int changes;

		for (next = i + 1; next < lists->n_nets4 && TAG4_KEY(nets[next]) == TAG4_KEY(first);
		     next++) {
			if (next == i + 1)
				merged = walk->roles[TAG4_ROLE(first)];
			merge_roles(&merged, &walk->roles[TAG4_ROLE(nets[next])]);
		}
		changes = walk_enter(walk, ls_address4(address), TAG4_LENGTH(first),
				     TAG4_ROLE(first), next > i + 1 ? &merged : NULL, &label);
		if (changes < 0)
			return changes;
		if (changes)
			nets[kept++] = LS_HOST4(address, TAG4_LENGTH(first), label & 0xff);
	}
	lists->n_nets4 = kept;
	return 0;
}

static bool same_net(const struct ls_net *a, const struct ls_net *b)
{
	return a->high == b->high && a->low == b->low && a->length == b->length;
}

/* The same for IPv6: tags become labels, and ::/0 a label of its own. */
static int walk_nets6(struct walk *walk, struct ls_lists *lists)
{
	struct ls_net *nets = lists->nets6;
	size_t kept = 0;

	ls_stack_init(&walk->stack, 0);
	for (size_t i = 0, next; i < lists->n_nets6; i = next) {
		struct ls_net net = nets[i];
		struct role merged = { .allow = false };
		int changes;

		for (next = i + 1; next < lists->n_nets6 && same_net(&nets[next], &net); next++) {
			if (next == i + 1)
				merged = walk->roles[net.tag];
			merge_roles(&merged, &walk->roles[nets[next].tag]);
		}
		changes = walk_enter(walk, ls_address6(net.high, net.low), net.length, net.tag,
				     next > i + 1 ? &merged : NULL, &net.tag);
		if (changes < 0)
			return changes;
		if (changes && net.length == 0)
			lists->label6 = net.tag;
		else if (changes)
			nets[kept++] = net;
	}
	lists->n_nets6 = kept;
	return 0;
}

void ls_lists_free(struct ls_lists *lists)
{
	if (!lists)
		return;
	free(lists->standings);
	free(lists->nets4);
	free(lists->nets6);
	free(lists);
}

DEFINE_CLEANUP(struct ls_lists *, ls_lists_free);

int ls_lists_resolve(const struct ls_policy *policy, struct ls_lists **ret_lists)
{
	_cleanup_(ls_lists_freep) struct ls_lists *lists = calloc(1, sizeof(*lists));
	_cleanup_(walk_freep) struct walk *walk = calloc(1, sizeof(*walk));
	_cleanup_(collection_fini) struct collection collection = { .lists = lists };
	const struct ls_standing nothing = { .list = LS_LIST_NONE };
	uint32_t label;

	if (!lists || !walk || collect(&collection, policy) < 0)
		return -ENOMEM;
	if (sort4(&lists->nets4, lists->n_nets4) < 0)
		return -ENOMEM;
	sort6(lists->nets6, lists->n_nets6);
	walk->roles = collection.roles;
	if (ls_standings_intern(&walk->standings, &nothing, &label) < 0)
		return -ENOMEM;
	assert(label == 0);
	if (walk_nets4(walk, lists) < 0 || walk_nets6(walk, lists) < 0)
		return -ENOMEM;
	lists->n_standings = walk->standings.count;
	lists->standings = TAKE_PTR(walk->standings.items);
	*ret_lists = TAKE_PTR(lists);
	return 0;
}

/* ---- too many ---- */

/* One distinction that standings make; without it fewer may be left. */
struct distinction {
	char text[64];
	size_t left; /* standings that differ otherwise */
};

/* Standings looked at to find out what splits them: the line must come at once, not be exact. */
#define STANDINGS_SAMPLE 2048

enum distinction_kind {
	DISTINCTION_LIST,
	DISTINCTION_NAT,
	DISTINCTION_FROM,
	DISTINCTION_TO,
};

static int count_without(const struct ls_lists *lists, enum distinction_kind kind, size_t class,
			 size_t *ret_left)
{
	_cleanup_(ls_standings_fini) struct ls_standings others = { 0 };
	const uint64_t bit = ~(1ULL << class % 64);

	for (size_t i = 0; i < lists->n_standings && i < STANDINGS_SAMPLE; i++) {
		struct ls_standing standing = lists->standings[i];
		uint32_t label;

		if (kind == DISTINCTION_LIST)
			standing.list = LS_LIST_NONE;
		else if (kind == DISTINCTION_NAT)
			standing.factor = 0;
		else if (kind == DISTINCTION_FROM)
			standing.from.word[class / 64] &= bit;
		else
			standing.to.word[class / 64] &= bit;
		if (ls_standings_intern(&others, &standing, &label) < 0)
			return -ENOMEM;
	}
	*ret_left = others.count;
	return 0;
}

/* Puts `text` among the two best if it leaves fewer standings. */
static void rank(struct distinction best[2], const char *text, size_t left)
{
	if (left >= best[1].left)
		return;
	best[1].left = left;
	snprintf(best[1].text, sizeof(best[1].text), "%s", text);
	if (left < best[0].left) {
		const struct distinction better = best[1];

		best[1] = best[0];
		best[0] = better;
	}
}

static void find_distinctions(const struct ls_lists *lists, const struct ls_policy *policy,
			      struct distinction best[2])
{
	size_t left;

	if (count_without(lists, DISTINCTION_LIST, 0, &left) == 0)
		rank(best, "'allow' and 'deny'", left);
	if (count_without(lists, DISTINCTION_NAT, 0, &left) == 0)
		rank(best, "the factors of 'nat'", left);
	for (size_t i = 0; i < policy->n_classes; i++) {
		const struct ls_class *class = &policy->classes[i];
		char text[64];

		snprintf(text, sizeof(text), "'from' of class '%s'", class->name);
		if (class->match.from.count &&
		    count_without(lists, DISTINCTION_FROM, i, &left) == 0)
			rank(best, text, left);
		snprintf(text, sizeof(text), "'to' of class '%s'", class->name);
		if (class->match.to.count && count_without(lists, DISTINCTION_TO, i, &left) == 0)
			rank(best, text, left);
	}
}

int ls_lists_error(const struct ls_lists *lists, const struct ls_policy *policy,
		   struct ls_error *error)
{
	struct distinction best[2] = { { .left = SIZE_MAX }, { .left = SIZE_MAX } };

	find_distinctions(lists, policy, best);
	return ls_error_set(error,
			    "cannot compile the policy: its lists overlap in %zu different "
			    "combinations, and at most %d can be told apart; merge some: %s and %s "
			    "divide most",
			    lists->n_standings - 1, LS_LABELS - 1, best[0].text, best[1].text);
}
