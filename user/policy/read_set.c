/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/reader.h"

/*
 * Sets, inline or from a file, and the lists that refer to them. A word without dots and colons is
 * the name of a set; everything else must be an address or prefix, so the two never mix.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/buffer.h"
#include "user/base/error.h"
#include "user/base/sha256.h"
#include "user/policy/check.h"
#include "user/policy/read.h"

static int refuse_prefix(struct ls_reader *reader, const struct ls_node *node,
			 enum ls_prefix_error reason)
{
	char clause[256];

	return ls_refuse(
		reader, node, "%s",
		ls_prefix_explain(reason, node->text, strlen(node->text), clause, sizeof(clause)));
}

static int count_entry(struct ls_reader *reader, const struct ls_node *node, size_t count)
{
	reader->entries += count;
	if (reader->entries > LS_ENTRIES_MAX)
		return ls_refuse(reader, node,
				 "this is where the policy's lists exceed %lu entries together",
				 LS_ENTRIES_MAX);
	return 0;
}

/*
 * A list or map where an entry should be. One that was meant as an address is the likeliest: YAML
 * reads 2001:db8:: as a key with nothing behind it.
 */
static int refuse_kind(struct ls_reader *reader, const struct ls_node *node, const char *what)
{
	if (node->kind == LS_NODE_MAP && node->count > 0 && strchr(node->first->key->text, ':'))
		return ls_refuse(reader, node, "an address that ends with ':' needs quotes: '%s:'",
				 node->first->key->text);
	return ls_refuse(reader, node,
			 "an entry of %s must be a single address, prefix or set, not a %s", what,
			 node->kind == LS_NODE_LIST ? "list" : "map");
}

static int read_inline_entry(struct ls_reader *reader, const struct ls_node *node,
			     struct ls_prefix *ret)
{
	enum ls_prefix_error reason;

	if (node->kind != LS_NODE_TEXT)
		return refuse_kind(reader, node, "a set");
	if (ls_name_is_valid(node->text))
		return ls_refuse(reader, node,
				 "'%.60s' is no address or prefix, and sets hold no sets; name "
				 "both where they are used",
				 node->text);
	reason = ls_prefix_parse(node->text, strlen(node->text), ret);
	return reason == LS_PREFIX_OK ? 0 : refuse_prefix(reader, node, reason);
}

static int read_inline(struct ls_reader *reader, const struct ls_node *node, struct ls_set *set)
{
	struct ls_prefixes *const entries = &set->entries;
	ptrdiff_t kept;

	if (count_entry(reader, node, node->count) < 0)
		return -1;
	entries->items = calloc(node->count + 1, sizeof(*entries->items));
	if (!entries->items)
		return ls_error_oom(reader->error);
	for (const struct ls_node *item = ls_node_begin(node); item;
	     item = ls_node_after(node, item)) {
		if (read_inline_entry(reader, item, &entries->items[entries->count]) < 0)
			return -1;
		entries->count++;
	}
	kept = ls_prefix_sort(entries->items, entries->count);
	if (kept < 0)
		return ls_error_oom(reader->error);
	if ((size_t)kept < entries->count)
		ls_warnings_add(reader->warnings,
				"set '%s': %zu repeated entries, which count once", set->name,
				entries->count - (size_t)kept);
	entries->count = (size_t)kept;
	return 0;
}

/* The file as it can be opened from here, for messages. NULL: out of memory. */
static char *shown_path(const struct ls_reader *reader, const char *file)
{
	struct ls_buffer path = LS_BUFFER_INIT;

	ls_buffer_format(&path, "%s%s", *file == '/' ? "" : reader->directory, file);
	return ls_buffer_take(&path, NULL);
}

static int load_file(struct ls_reader *reader, const struct ls_node *node, struct ls_set *set)
{
	_cleanup_free_ char *bytes = NULL, *shown = NULL;
	struct ls_error found = LS_ERROR_INIT;
	size_t length = 0;

	if (reader->files->fill) {
		if (reader->files->fill(reader->files->context, set, &found) < 0)
			return ls_refuse(reader, node, "%s", found.text);
		return count_entry(reader, node, set->entries.count);
	}
	if (reader->files->read(reader->files->context, set->file, &bytes, &length, &found) < 0)
		return ls_refuse(reader, node, "%s", found.text);
	ls_sha256(bytes, length, set->sha256);
	shown = shown_path(reader, set->file);
	if (!shown)
		return ls_error_oom(reader->error);
	if (ls_read_list(shown, bytes, length, LS_ENTRIES_MAX - reader->entries, reader->warnings,
			 set, reader->error) < 0)
		return -1;
	return count_entry(reader, node, set->entries.count);
}

static int read_file_set(struct ls_reader *reader, const struct ls_node *node, struct ls_set *set)
{
	static const char *const keys[] = { "file", "on_error" };
	static const char *const on_error[] = { "refuse", "skip" };
	const struct ls_node *const file = ls_node_get(node, "file");
	const struct ls_node *const errors = ls_node_get(node, "on_error");
	const char *path = NULL;
	unsigned skip = 0;

	if (ls_reader_map(reader, node, "a set from a file", keys, LS_LENGTH(keys)) < 0)
		return -1;
	if (!file)
		return ls_refuse(
			reader, node,
			"set '%s' has no 'file'; write { file: PATH } or a list of entries",
			set->name);
	if (ls_reader_text(reader, file, "file", &path) < 0)
		return -1;
	if (errors &&
	    ls_reader_word(reader, errors, "on_error", on_error, LS_LENGTH(on_error), &skip) < 0)
		return -1;
	set->skip_errors = skip == 1;
	set->file = strdup(path);
	if (!set->file)
		return ls_error_oom(reader->error);
	return load_file(reader, file, set);
}

static int read_set(struct ls_reader *reader, const struct ls_node *node, struct ls_set *set)
{
	if (ls_reader_name(reader, node->key, "name of a set", set->name) < 0)
		return -1;
	if (node->kind == LS_NODE_MAP)
		return read_file_set(reader, node, set);
	if (node->kind == LS_NODE_TEXT && !*node->text)
		return ls_refuse(reader, node,
				 "set '%s' has no value; write a list of entries, [] for none",
				 set->name);
	if (node->kind == LS_NODE_TEXT &&
	    (strchr(node->text, '/') == node->text || strstr(node->text, ".txt")))
		return ls_refuse(reader, node,
				 "'%.60s' is no address or prefix; for a file write "
				 "{ file: %.60s }",
				 node->text, node->text);
	return read_inline(reader, node, set);
}

int ls_read_sets(struct ls_reader *reader, const struct ls_node *node)
{
	struct ls_policy *const policy = reader->policy;

	if (node->kind != LS_NODE_MAP)
		return ls_refuse(reader, node,
				 "sets must be a map of names and lists, such as "
				 "'office: [203.0.113.0/24]'");
	if (node->count > LS_SETS_MAX)
		return ls_refuse(reader, node, "%zu sets are more than %d", node->count,
				 LS_SETS_MAX);
	policy->sets = calloc(node->count + 1, sizeof(*policy->sets));
	if (!policy->sets)
		return ls_error_oom(reader->error);
	for (const struct ls_node *at = node->first; at; at = at->next) {
		/*
		 * Counted first, so that a set that is refused half-way is freed with the policy.
		 */
		if (read_set(reader, at, &policy->sets[policy->n_sets++]) < 0)
			return -1;
	}
	return 0;
}

static int find_set(const struct ls_policy *policy, const char *name)
{
	for (size_t i = 0; i < policy->n_sets; i++) {
		if (strcmp(policy->sets[i].name, name) == 0)
			return (int)i;
	}
	return -1;
}

static int refuse_set(struct ls_reader *reader, const struct ls_node *node)
{
	const struct ls_policy *const policy = reader->policy;
	const char *names[LS_SETS_MAX];
	const char *nearest;

	for (size_t i = 0; i < policy->n_sets; i++)
		names[i] = policy->sets[i].name;
	nearest = ls_suggest(node->text, names, policy->n_sets);
	if (nearest)
		return ls_refuse(reader, node, "there is no set '%.60s'; did you mean '%s'?",
				 node->text, nearest);
	return ls_refuse(
		reader, node,
		"'%.60s' is neither an address or prefix nor a set; define it under 'sets'",
		node->text);
}

static int read_member(struct ls_reader *reader, const struct ls_node *node, const char *what,
		       struct ls_member *ret)
{
	struct ls_member member = { .set = -1 };
	const char *const text = node->text;
	enum ls_prefix_error reason;

	if (node->kind != LS_NODE_TEXT)
		return refuse_kind(reader, node, what);
	if (!*text)
		return ls_refuse(reader, node,
				 "an entry of %s is empty; write an address, a prefix or a set",
				 what);
	if (ls_name_is_valid(text)) {
		member.set = find_set(reader->policy, text);
		if (member.set < 0)
			return refuse_set(reader, node);
	} else {
		reason = ls_prefix_parse(text, strlen(text), &member.prefix);
		if (reason != LS_PREFIX_OK)
			return refuse_prefix(reader, node, reason);
		if (count_entry(reader, node, 1) < 0)
			return -1;
	}
	*ret = member;
	return 0;
}

struct ordered {
	struct ls_member member;
	size_t place;
};

static int compare_ordered(const void *a, const void *b)
{
	const struct ordered *const left = a, *const right = b;
	int order = (left->member.set > right->member.set) - (left->member.set < right->member.set);

	if (order == 0)
		order = ls_prefix_compare(&left->member.prefix, &right->member.prefix);
	if (order == 0)
		order = (left->place > right->place) - (left->place < right->place);
	return order;
}

static bool same_member(const struct ls_member *a, const struct ls_member *b)
{
	return a->set == b->set && ls_prefix_equal(&a->prefix, &b->prefix);
}

/* Keeps the first of equal members, in the order of the file. */
static int remove_repeated(struct ls_reader *reader, const char *what, struct ls_members *members)
{
	_cleanup_free_ struct ordered *order = calloc(members->count + 1, sizeof(*order));
	_cleanup_free_ bool *repeated = calloc(members->count + 1, sizeof(*repeated));
	size_t kept = 0;

	if (!order || !repeated)
		return ls_error_oom(reader->error);
	for (size_t i = 0; i < members->count; i++)
		order[i] = (struct ordered){ members->items[i], i };
	qsort(order, members->count, sizeof(*order), compare_ordered);
	for (size_t i = 1; i < members->count; i++)
		repeated[order[i].place] = same_member(&order[i - 1].member, &order[i].member);
	for (size_t i = 0; i < members->count; i++) {
		if (!repeated[i])
			members->items[kept++] = members->items[i];
	}
	if (kept < members->count)
		ls_warnings_add(reader->warnings, "%s: %zu repeated entries, which count once",
				what, members->count - kept);
	members->count = kept;
	return 0;
}

int ls_read_members(struct ls_reader *reader, const struct ls_node *node, const char *what,
		    struct ls_members *ret)
{
	const size_t count = node->kind == LS_NODE_LIST ? node->count : 1;

	if (node->kind == LS_NODE_MAP)
		return ls_refuse(reader, node, "%s must be a list of sets, addresses and prefixes",
				 what);
	if (node->kind == LS_NODE_TEXT && !*node->text && node->key &&
	    strcmp(node->key->text, what) == 0)
		return ls_refuse(reader, node, "%s has no value; write a list, [] for an empty one",
				 what);
	if (count > LS_MEMBERS_MAX)
		return ls_refuse(reader, node,
				 "%s has %zu entries, more than %lu; put them into a set", what,
				 count, LS_MEMBERS_MAX);
	if (count == 0)
		ls_warnings_add(reader->warnings, "%s:%u:%u: %s is an empty list", reader->name,
				node->line, node->column, what);
	ret->items = calloc(count + 1, sizeof(*ret->items));
	if (!ret->items)
		return ls_error_oom(reader->error);
	for (const struct ls_node *item = ls_node_begin(node); item;
	     item = ls_node_after(node, item)) {
		if (read_member(reader, item, what, &ret->items[ret->count]) < 0)
			return -1;
		ret->count++;
	}
	return remove_repeated(reader, what, ret);
}
