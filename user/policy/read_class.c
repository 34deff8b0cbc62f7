/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/reader.h"

#include <stdlib.h>
#include <string.h>

#include "user/base/error.h"

static int read_ban(struct ls_reader *reader, const struct ls_node *node, struct ls_ban_rule *ret)
{
	static const char *const keys[] = { "after", "within", "for" };
	const struct ls_node *after, *within, *duration;

	if (ls_reader_map(reader, node, "'ban'", keys, LS_LENGTH(keys)) < 0)
		return -1;
	after = ls_node_get(node, "after");
	within = ls_node_get(node, "within");
	duration = ls_node_get(node, "for");
	if (!after || !within || !duration)
		return ls_refuse(reader, node,
				 "ban needs all three: { after: 100, within: 10s, for: 10m }");
	/* The factor makes `after` larger for addresses that many share, as it does with limits. */
	if (ls_reader_count(reader, after, "after", 1, LS_BAN_AFTER_MAX / reader->factor,
			    &ret->after) < 0 ||
	    ls_reader_time(reader, within, "within", LS_NS_PER_MS, LS_WINDOW_NS_MAX,
			   &ret->within_ns) < 0 ||
	    ls_reader_time(reader, duration, "for", LS_NS_PER_MS, LS_TIME_MAX_NS, &ret->for_ns) < 0)
		return -1;
	ret->given = true;
	return 0;
}

static int read_class_name(struct ls_reader *reader, const struct ls_node *node,
			   struct ls_class *class)
{
	const struct ls_node *const name = ls_node_get(node, "name");
	const struct ls_policy *const policy = reader->policy;

	if (!name)
		return ls_refuse(reader, node, "the class has no name");
	if (ls_reader_name(reader, name, "name of a class", class->name) < 0)
		return -1;
	for (const struct ls_class *other = policy->classes; other < class; other++) {
		if (strcmp(other->name, class->name) == 0)
			return ls_refuse(reader, name, "there is a class '%s' already",
					 class->name);
	}
	return 0;
}

static int read_class(struct ls_reader *reader, const struct ls_node *node, struct ls_class *class)
{
	static const char *const keys[] = { "name",   "match", "mode", "priority",
					    "limits", "ban",   "check" };
	const struct ls_node *match, *mode, *priority, *limits, *ban, *check;
	unsigned chosen;

	if (ls_reader_map(reader, node, "a class", keys, LS_LENGTH(keys)) < 0 ||
	    read_class_name(reader, node, class) < 0)
		return -1;
	match = ls_node_get(node, "match");
	mode = ls_node_get(node, "mode");
	priority = ls_node_get(node, "priority");
	limits = ls_node_get(node, "limits");
	ban = ls_node_get(node, "ban");
	check = ls_node_get(node, "check");
	if (!match)
		return ls_refuse(reader, node,
				 "class '%s' has no match; write 'match: any' if every packet is "
				 "meant",
				 class->name);
	if (ls_read_match(reader, match, &class->match) < 0)
		return -1;
	chosen = LS_MODE_ENFORCE;
	if (mode && ls_reader_word(reader, mode, "mode", ls_mode_names, LS_MODE_MAX, &chosen) < 0)
		return -1;
	class->mode = chosen;
	chosen = LS_PRIORITY_NORMAL;
	if (priority && ls_reader_word(reader, priority, "priority", ls_priority_names,
				       LS_PRIORITY_MAX, &chosen) < 0)
		return -1;
	class->priority = chosen;
	if (limits && ls_read_limits(reader, limits, class) < 0)
		return -1;
	if (ban && read_ban(reader, ban, &class->ban) < 0)
		return -1;
	if (check && ls_read_check(reader, check, &class->check) < 0)
		return -1;
	if (ban && class->n_limits == 0)
		return ls_refuse(reader, ban->key,
				 "'ban' does not apply: class '%s' has no limits that could refuse",
				 class->name);
	return 0;
}

int ls_read_classes(struct ls_reader *reader, const struct ls_node *node)
{
	struct ls_policy *const policy = reader->policy;

	if (node->kind != LS_NODE_LIST)
		return ls_refuse(
			reader, node,
			"classes must be a list of classes, each '- name: …'; [] for none");
	policy->classes = calloc(node->count < LS_CLASSES ? node->count + 1 : LS_CLASSES,
				 sizeof(*policy->classes));
	if (!policy->classes)
		return ls_error_oom(reader->error);
	for (const struct ls_node *item = node->first; item; item = item->next) {
		if (policy->n_classes == LS_CLASSES)
			return ls_refuse(reader, item, "a policy has at most %d classes",
					 LS_CLASSES);
		/*
		 * Counted first, so that a class that is refused half-way is freed with the policy.
		 */
		if (read_class(reader, item, &policy->classes[policy->n_classes++]) < 0)
			return -1;
	}
	return 0;
}
