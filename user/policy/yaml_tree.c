/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/yaml_tree.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "user/base/cleanup.h"
#include "user/base/error.h"

/*
 * Nodes and texts come from blocks that are freed together: a list of a million addresses is two
 * million small objects, and nothing of a tree outlives it.
 */
#define BLOCK_BYTES 65536U
#define KEY_MAX 1024 /* how far libyaml looks back for a key */

struct block {
	struct block *next;
	size_t used, size;
	_Alignas(16) char bytes[];
};

struct ls_tree {
	struct block *blocks;
};

/* A list or map that is being filled. */
struct level {
	struct ls_node *node;
	struct ls_node *last;	   /* child */
	const struct ls_node *key; /* map: waiting for its value */
};

struct builder {
	const char *name;
	struct ls_error *error;
	struct ls_tree *tree;
	struct level levels[LS_NODE_DEPTH];
	unsigned depth;
	struct ls_node *root;
};

void ls_tree_free(struct ls_tree *tree)
{
	if (!tree)
		return;
	for (struct block *block = tree->blocks; block;) {
		struct block *const next = block->next;

		free(block);
		block = next;
	}
	free(tree);
}

DEFINE_CLEANUP(struct ls_tree *, ls_tree_free);

static void *tree_allocate(struct ls_tree *tree, size_t size)
{
	struct block *block = tree->blocks;
	void *memory;

	size = (size + 7) & ~(size_t)7;
	if (!block || block->size - block->used < size) {
		const size_t room = size > BLOCK_BYTES ? size : BLOCK_BYTES;

		block = malloc(sizeof(*block) + room);
		if (!block)
			return NULL;
		block->next = tree->blocks;
		block->used = 0;
		block->size = room;
		tree->blocks = block;
	}
	memory = block->bytes + block->used;
	block->used += size;
	return memory;
}

static int refuse_at(const struct builder *builder, const yaml_mark_t *mark, const char *why)
{
	return ls_error_set(builder->error, "%s:%zu:%zu: %s", builder->name, mark->line + 1,
			    mark->column + 1, why);
}

static struct ls_node *new_node(struct builder *builder, enum ls_node_kind kind,
				const yaml_mark_t *mark)
{
	struct ls_node *node = tree_allocate(builder->tree, sizeof(*node));

	if (!node) {
		ls_error_oom(builder->error);
		return NULL;
	}
	*node = (struct ls_node){
		.kind = kind,
		.line = (uint32_t)mark->line + 1,
		.column = (uint32_t)mark->column + 1,
	};
	return node;
}

/*
 * What would move a cursor or break a line when it is shown: C0 and C1 controls, DEL, U+2028,
 * U+2029, and U+FEFF. libyaml has made sure that it is UTF-8.
 */
static bool has_control(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		const unsigned char c = (unsigned char)text[i];
		const unsigned char c1 = i + 1 < length ? (unsigned char)text[i + 1] : 0;
		const unsigned char c2 = i + 2 < length ? (unsigned char)text[i + 2] : 0;

		if (c < 0x20 || c == 0x7f || (c == 0xc2 && c1 < 0xa0))
			return true;
		if (c == 0xe2 && c1 == 0x80 && (c2 == 0xa8 || c2 == 0xa9))
			return true;
		if (c == 0xef && c1 == 0xbb && c2 == 0xbf)
			return true;
	}
	return false;
}

static int add_key(struct builder *builder, struct level *level, const struct ls_node *key,
		   bool plain, const yaml_mark_t *mark)
{
	if (key->kind != LS_NODE_TEXT)
		return refuse_at(builder, mark, "a key must be a word, not a list or map");
	if (plain && strcmp(key->text, "<<") == 0)
		return refuse_at(
			builder, mark,
			"merge keys are not accepted; write the keys out where they apply");
	if (level->node->count == LS_NODE_KEYS)
		return refuse_at(builder, mark, "more than 4096 keys in one map");
	for (const struct ls_node *at = level->node->first; at; at = at->next) {
		if (strcmp(at->key->text, key->text) == 0)
			return ls_error_set(builder->error,
					    "%s:%u:%u: key '%.60s' is there twice, first in line "
					    "%u; remove one",
					    builder->name, key->line, key->column, key->text,
					    at->key->line);
	}
	level->key = key;
	return 0;
}

/* Puts a finished or opened node where it belongs. `plain`: an unquoted scalar. */
static int add_node(struct builder *builder, struct ls_node *node, bool plain,
		    const yaml_mark_t *mark)
{
	struct level *const level = builder->depth ? &builder->levels[builder->depth - 1] : NULL;

	if (!level) {
		builder->root = node;
		return 0;
	}
	if (level->node->kind == LS_NODE_MAP && !level->key)
		return add_key(builder, level, node, plain, mark);
	node->key = level->key;
	level->key = NULL;
	if (level->last)
		level->last->next = node;
	else
		level->node->first = node;
	level->last = node;
	level->node->count++;
	return 0;
}

static int add_scalar(struct builder *builder, const yaml_event_t *event)
{
	const char *const value = (const char *)event->data.scalar.value;
	const size_t length = event->data.scalar.length;
	struct ls_node *node;
	char *text;

	if (event->data.scalar.anchor)
		return refuse_at(builder, &event->start_mark,
				 "anchors are not accepted; write the value where it applies");
	if (event->data.scalar.tag)
		return refuse_at(builder, &event->start_mark,
				 "tags are not accepted; every value is read as text");
	if (has_control(value, length))
		return refuse_at(builder, &event->start_mark,
				 "the text holds a control character or more than one line");
	node = new_node(builder, LS_NODE_TEXT, &event->start_mark);
	text = tree_allocate(builder->tree, length + 1);
	if (!node || !text)
		return ls_error_oom(builder->error);
	memcpy(text, value, length + 1);
	node->text = text;
	return add_node(builder, node, event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE,
			&event->start_mark);
}

static int open_level(struct builder *builder, enum ls_node_kind kind, const char *anchor,
		      const char *tag, const yaml_mark_t *mark)
{
	struct ls_node *node;
	int result;

	if (anchor)
		return refuse_at(builder, mark,
				 "anchors are not accepted; write the value where it applies");
	if (tag)
		return refuse_at(builder, mark,
				 "tags are not accepted; every value is read as text");
	if (builder->depth == LS_NODE_DEPTH)
		return refuse_at(builder, mark, "lists and maps are nested more than 16 deep");
	node = new_node(builder, kind, mark);
	if (!node)
		return -ENOMEM;
	result = add_node(builder, node, false, mark);
	if (result < 0)
		return result;
	builder->levels[builder->depth++] = (struct level){ .node = node };
	return 0;
}

/* Line and column of a byte, for the errors of libyaml's decoder, which knows only the offset. */
static yaml_mark_t mark_of_offset(const char *bytes, size_t length, size_t offset)
{
	yaml_mark_t mark = { 0 };

	for (size_t i = 0; i < offset && i < length; i++) {
		if (bytes[i] == '\n') {
			mark.line++;
			mark.column = 0;
		} else if (((unsigned char)bytes[i] & 0xc0) != 0x80) {
			mark.column++;
		}
	}
	return mark;
}

/* The byte at a mark: libyaml counts characters, not bytes. */
static char byte_at(const char *bytes, size_t length, const yaml_mark_t *mark)
{
	size_t character = 0;

	for (size_t i = 0; i < length; i++) {
		if (((unsigned char)bytes[i] & 0xc0) == 0x80)
			continue;
		if (character++ == mark->index)
			return bytes[i];
	}
	return '\0';
}

static int refuse_syntax(const struct builder *builder, const yaml_parser_t *parser,
			 const char *bytes, size_t length)
{
	const char *const problem = parser->problem ? parser->problem : "it cannot be read";
	const char *const context = parser->context ? parser->context : "";
	yaml_mark_t mark = parser->problem_mark;

	switch (parser->error) {
	case YAML_MEMORY_ERROR:
		return ls_error_oom(builder->error);
	case YAML_READER_ERROR:
		mark = mark_of_offset(bytes, length, parser->problem_offset);
		return ls_error_set(builder->error,
				    "%s:%zu:%zu: this is no text in UTF-8: %s (0x%x)",
				    builder->name, mark.line + 1, mark.column + 1, problem,
				    (unsigned)parser->problem_value);
	default:
		break;
	}
	if (byte_at(bytes, length, &mark) == '\t')
		return refuse_at(builder, &mark,
				 "a tab where YAML wants blanks; indent with blanks only");
	if (strstr(problem, "expected ':'") &&
	    parser->mark.index > parser->context_mark.index + KEY_MAX)
		return refuse_at(builder, &parser->context_mark,
				 "a key has at most 1024 bytes, and this has more or no ':'");
	if (byte_at(bytes, length, &mark) == ':' && mark.column > KEY_MAX)
		return refuse_at(
			builder, &mark,
			"a ':' of no key: a key has at most 1024 bytes, and a value that starts or ends with ':' needs quotes");
	/* libyaml takes "[::1]" for a map without key, as YAML 1.1 has it. */
	if (byte_at(bytes, length, &mark) == ':')
		return refuse_at(
			builder, &mark,
			"a value that starts or ends with ':' needs quotes here, such as '::1'");
	return ls_error_set(builder->error, "%s:%zu:%zu: not valid YAML: %s%s%s", builder->name,
			    mark.line + 1, mark.column + 1, problem, *context ? " " : "", context);
}

/* 1: go on, 0: the document is complete, negative: refused. */
static int take_event(struct builder *builder, const yaml_event_t *event)
{
	int result = 0;

	switch (event->type) {
	case YAML_DOCUMENT_START_EVENT:
		if (event->data.document_start.version_directive ||
		    event->data.document_start.tag_directives.start !=
			    event->data.document_start.tag_directives.end)
			return refuse_at(builder, &event->start_mark,
					 "directives (lines with '%') are not accepted");
		if (builder->root)
			return refuse_at(builder, &event->start_mark,
					 "a second document starts here; a policy is one document");
		break;
	case YAML_ALIAS_EVENT:
		return refuse_at(builder, &event->start_mark,
				 "aliases are not accepted; write the value where it applies");
	case YAML_SCALAR_EVENT:
		result = add_scalar(builder, event);
		break;
	case YAML_SEQUENCE_START_EVENT:
		result = open_level(
			builder, LS_NODE_LIST, (const char *)event->data.sequence_start.anchor,
			(const char *)event->data.sequence_start.tag, &event->start_mark);
		break;
	case YAML_MAPPING_START_EVENT:
		result = open_level(
			builder, LS_NODE_MAP, (const char *)event->data.mapping_start.anchor,
			(const char *)event->data.mapping_start.tag, &event->start_mark);
		break;
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		builder->depth--;
		break;
	case YAML_STREAM_END_EVENT:
		return 0;
	default:
		break;
	}
	return result < 0 ? result : 1;
}

static void skip_byte_order_mark(const char **bytes, size_t *length)
{
	if (*length >= 3 && memcmp(*bytes, "\xef\xbb\xbf", 3) == 0) {
		*bytes += 3;
		*length -= 3;
	}
}

int ls_tree_read(const char *name, const char *bytes, size_t length, struct ls_tree **ret,
		 const struct ls_node **ret_root, struct ls_error *error)
{
	_cleanup_(ls_tree_freep) struct ls_tree *tree = calloc(1, sizeof(*tree));
	struct builder builder = { .name = name, .error = error, .tree = tree };
	yaml_parser_t parser;
	int result = 1;

	if (!tree || !yaml_parser_initialize(&parser))
		return ls_error_oom(error);
	/* Not UTF-16, which libyaml would accept too: a policy is text that any tool can read. */
	skip_byte_order_mark(&bytes, &length);
	yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&parser, (const unsigned char *)bytes, length);
	while (result > 0) {
		yaml_event_t event;

		if (!yaml_parser_parse(&parser, &event)) {
			result = refuse_syntax(&builder, &parser, bytes, length);
			break;
		}
		result = take_event(&builder, &event);
		yaml_event_delete(&event);
	}
	yaml_parser_delete(&parser);
	if (result < 0)
		return result;
	if (!builder.root)
		return ls_error_set(
			error, "%s:1:1: there is no policy in it; the smallest is 'version: 1'",
			name);
	*ret = TAKE_PTR(tree);
	*ret_root = builder.root;
	return 0;
}

const struct ls_node *ls_node_get(const struct ls_node *map, const char *key)
{
	for (const struct ls_node *at = map->first; at; at = at->next) {
		if (strcmp(at->key->text, key) == 0)
			return at;
	}
	return NULL;
}

const struct ls_node *ls_node_begin(const struct ls_node *node)
{
	return node->kind == LS_NODE_LIST ? node->first : node;
}

const struct ls_node *ls_node_after(const struct ls_node *node, const struct ls_node *item)
{
	return item == node ? NULL : item->next;
}
