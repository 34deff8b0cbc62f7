/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/read.h"

#include <stdlib.h>
#include <string.h>

#include "user/base/buffer.h"
#include "user/base/error.h"
#include "user/base/file.h"
#include "user/policy/reader.h"

/* capacity.sources; the upper end is 4 GiB of table. */
#define SOURCES_MIN 1000ULL
#define SOURCES_MAX 64000000ULL

static int read_version(struct ls_reader *reader, const struct ls_node *root)
{
	const struct ls_node *const version = ls_node_get(root, "version");
	const char *text = NULL;

	if (!version)
		return ls_refuse(reader, root, "'version: 1' is missing");
	if (ls_reader_text(reader, version, "version", &text) < 0)
		return -1;
	if (strcmp(text, "1") != 0)
		return ls_refuse(reader, version,
				 "version '%.20s' is unknown; this program reads version 1", text);
	return 0;
}

static int read_nat(struct ls_reader *reader, const struct ls_node *node, struct ls_nat *nat)
{
	static const char *const keys[] = { "sources", "factor" };
	const struct ls_node *sources, *factor;
	uint64_t value = 0;

	if (ls_reader_map(reader, node, "a 'nat' entry", keys, LS_LENGTH(keys)) < 0)
		return -1;
	sources = ls_node_get(node, "sources");
	factor = ls_node_get(node, "factor");
	if (!sources || !factor)
		return ls_refuse(
			reader, node,
			"a 'nat' entry needs both: { sources: [100.64.0.0/10], factor: 32 }");
	if (ls_read_members(reader, sources, "sources", &nat->sources) < 0 ||
	    ls_reader_count(reader, factor, "factor", 1, LS_NAT_FACTOR, &value) < 0)
		return -1;
	nat->factor = (uint32_t)value;
	if (nat->factor > reader->factor)
		reader->factor = nat->factor;
	return 0;
}

static int read_nats(struct ls_reader *reader, const struct ls_node *node)
{
	struct ls_policy *const policy = reader->policy;

	if (node->kind != LS_NODE_LIST)
		return ls_refuse(reader, node,
				 "nat must be a list, such as "
				 "[{ sources: [100.64.0.0/10], factor: 32 }]");
	if (node->count > LS_NATS_MAX)
		return ls_refuse(reader, node, "%zu entries of nat are more than %d", node->count,
				 LS_NATS_MAX);
	policy->nats = calloc(node->count + 1, sizeof(*policy->nats));
	if (!policy->nats)
		return ls_error_oom(reader->error);
	for (const struct ls_node *item = node->first; item; item = item->next) {
		if (read_nat(reader, item, &policy->nats[policy->n_nats++]) < 0)
			return -1;
	}
	return 0;
}

static int read_capacity(struct ls_reader *reader, const struct ls_node *node)
{
	static const char *const keys[] = { "sources" };
	const struct ls_node *sources;

	if (ls_reader_map(reader, node, "'capacity'", keys, LS_LENGTH(keys)) < 0)
		return -1;
	sources = ls_node_get(node, "sources");
	if (!sources)
		return ls_refuse(reader, node, "capacity is empty; write { sources: 1M }");
	return ls_reader_count(reader, sources, "sources", SOURCES_MIN, SOURCES_MAX,
			       &reader->policy->sources);
}

static int read_mode(struct ls_reader *reader, const struct ls_node *node)
{
	unsigned chosen = 0;

	if (ls_reader_word(reader, node, "mode", ls_mode_names, LS_MODE_MAX, &chosen) < 0)
		return -1;
	reader->policy->mode = chosen;
	return 0;
}

static int read_malformed(struct ls_reader *reader, const struct ls_node *node)
{
	static const char *const words[] = { "drop", "pass" };
	unsigned chosen = 0;

	if (ls_reader_word(reader, node, "malformed", words, LS_LENGTH(words), &chosen) < 0)
		return -1;
	reader->policy->malformed_pass = chosen == 1;
	return 0;
}

static int read_allow(struct ls_reader *reader, const struct ls_node *node)
{
	return ls_read_members(reader, node, "allow", &reader->policy->allow);
}

static int read_deny(struct ls_reader *reader, const struct ls_node *node)
{
	return ls_read_members(reader, node, "deny", &reader->policy->deny);
}

/*
 * In the order in which they need one another: sets before who names them, NAT factors before
 * limits.
 */
static const struct {
	const char *key;
	int (*read)(struct ls_reader *reader, const struct ls_node *node);
} sections[] = {
	{ "mode", read_mode },
	{ "malformed", read_malformed },
	{ "capacity", read_capacity },
	{ "cluster", ls_read_cluster },
	{ "sets", ls_read_sets },
	{ "allow", read_allow },
	{ "deny", read_deny },
	{ "nat", read_nats },
	{ "overload", ls_read_overload },
	{ "classes", ls_read_classes },
};

static int read_root(struct ls_reader *reader, const struct ls_node *root)
{
	const char *keys[LS_LENGTH(sections) + 1];

	for (size_t i = 0; i < LS_LENGTH(sections); i++)
		keys[i] = sections[i].key;
	keys[LS_LENGTH(sections)] = "version";
	if (root->kind != LS_NODE_MAP)
		return ls_refuse(reader, root,
				 "a policy is a map of keys; the smallest is 'version: 1'");
	if (ls_reader_map(reader, root, "a policy", keys, LS_LENGTH(keys)) < 0 ||
	    read_version(reader, root) < 0)
		return -1;
	for (size_t i = 0; i < LS_LENGTH(sections); i++) {
		const struct ls_node *const node = ls_node_get(root, sections[i].key);

		if (node && sections[i].read(reader, node) < 0)
			return -1;
	}
	return 0;
}

/* The door to the file system: `context` is the directory with its slash, or "". */
static int read_from_disk(void *context, const char *file, char **ret_bytes, size_t *ret_length,
			  struct ls_error *error)
{
	_cleanup_buffer_ struct ls_buffer path = LS_BUFFER_INIT;

	ls_buffer_format(&path, "%s%s", *file == '/' ? "" : (const char *)context, file);
	if (path.failed)
		return ls_error_oom(error);
	return ls_file_read(ls_buffer_string(&path), LS_LIST_BYTES_MAX, ret_bytes, ret_length,
			    error);
}

/* "etc/" of "etc/policy.yaml", "" of "policy.yaml". NULL: out of memory. */
static char *directory_of(const char *path)
{
	const char *const slash = strrchr(path, '/');

	return strndup(path, slash ? (size_t)(slash - path) + 1 : 0);
}

static int read_document(const struct ls_policy_source *source, const char *bytes, size_t length,
			 struct ls_policy **ret, struct ls_error *error)
{
	_cleanup_(ls_policy_freep) struct ls_policy *policy = ls_policy_new();
	_cleanup_free_ char *directory = directory_of(source->name);
	const struct ls_policy_files disk = { .context = directory, .read = read_from_disk };
	const struct ls_node *root = NULL;
	struct ls_tree *tree = NULL;
	struct ls_reader reader = {
		.name = source->name,
		.directory = source->files || !directory ? "" : directory,
		.files = source->files ? source->files : &disk,
		.warnings = source->warnings,
		.error = error,
		.policy = policy,
		.factor = 1,
	};
	int result;

	if (!policy || !directory)
		return ls_error_oom(error);
	if (length > LS_POLICY_BYTES_MAX)
		return ls_error_set(error,
				    "%s: a policy of more than %lu MiB; put lists into files",
				    source->name, LS_POLICY_BYTES_MAX >> 20);
	result = ls_tree_read(source->name, bytes, length, &tree, &root, error);
	if (result < 0)
		return result;
	result = read_root(&reader, root);
	ls_tree_free(tree);
	if (result < 0)
		return result;
	*ret = TAKE_PTR(policy);
	return 0;
}

int ls_policy_read_source(const struct ls_policy_source *source, struct ls_policy **ret,
			  struct ls_error *error)
{
	_cleanup_free_ char *bytes = NULL;
	size_t length = 0;
	int result;

	if (source->bytes)
		return read_document(source, source->bytes, source->length, ret, error);
	result = ls_file_read(source->name, LS_POLICY_BYTES_MAX, &bytes, &length, error);
	if (result < 0)
		return result;
	return read_document(source, bytes, length, ret, error);
}

int ls_policy_read(const char *path, const struct ls_policy_files *files, struct ls_policy **ret,
		   struct ls_error *error)
{
	const struct ls_policy_source source = { .name = path, .files = files };

	return ls_policy_read_source(&source, ret, error);
}

int ls_policy_read_memory(const char *name, const char *bytes, size_t length,
			  const struct ls_policy_files *files, struct ls_policy **ret,
			  struct ls_error *error)
{
	const struct ls_policy_source source = {
		.name = name,
		.bytes = bytes,
		.length = length,
		.files = files,
	};

	return ls_policy_read_source(&source, ret, error);
}
