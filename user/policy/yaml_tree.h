/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_POLICY_YAML_TREE_H
#define LOADSHED_USER_POLICY_YAML_TREE_H

/*
 * The door to libyaml: a document becomes a small tree in which every node knows its place, and in
 * which there is nothing that a policy may not have: no tags, anchors, aliases, merge keys,
 * duplicate keys, directives or second documents, and no control characters in a scalar. Scalars
 * are text: `no` is two letters.
 */

#include <stddef.h>
#include <stdint.h>

struct ls_error;
struct ls_tree;

enum ls_node_kind {
	LS_NODE_TEXT,
	LS_NODE_LIST,
	LS_NODE_MAP,
};

struct ls_node {
	enum ls_node_kind kind;
	uint32_t line, column;	    /* from 1; columns count characters */
	const char *text;	    /* LS_NODE_TEXT: without NUL inside */
	const struct ls_node *key;  /* when it is the value in a map: a text node */
	const struct ls_node *next; /* its next sibling */
	struct ls_node *first;	    /* list: its items; map: its values */
	size_t count;		    /* of those */
};

/* Nesting that a policy needs is 6; deeper ones are refused before they cost anything. */
#define LS_NODE_DEPTH 16

/* Keys of one map; checking for duplicates compares each with each. */
#define LS_NODE_KEYS 4096

/*
 * Reads a document of `length` bytes. `name` is shown in messages. *ret_root is valid as long as
 * the tree, which the caller frees. Returns 0, or negative with a line in `error`.
 */
int ls_tree_read(const char *name, const char *bytes, size_t length, struct ls_tree **ret,
		 const struct ls_node **ret_root, struct ls_error *error);

/* NULL is accepted. */
void ls_tree_free(struct ls_tree *tree);

/* The value of `key` in a map, or NULL. */
const struct ls_node *ls_node_get(const struct ls_node *map, const char *key);

/*
 * Where one value or a list of values is accepted: the first item of the list, or the value itself.
 * for (item = ls_node_begin(node); item; item = ls_node_after(node, item))
 */
const struct ls_node *ls_node_begin(const struct ls_node *node);
const struct ls_node *ls_node_after(const struct ls_node *node, const struct ls_node *item);

#endif
