/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_POLICY_READER_H
#define LOADSHED_USER_POLICY_READER_H

/*
 * What the parts of the policy reader share. Every function here returns 0, or negative after it
 * has set the one line of refusal; `what` names the thing that a node should be, for that line.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "user/policy/names.h"
#include "user/policy/policy.h"
#include "user/policy/yaml_tree.h"

struct ls_error;
struct ls_policy_files;
struct ls_warnings;

struct ls_reader {
	const char *name;      /* of the policy, in messages */
	const char *directory; /* that list files are relative to, with its slash; may be "" */
	const struct ls_policy_files *files;
	struct ls_warnings *warnings; /* may be NULL */
	struct ls_error *error;
	struct ls_policy *policy; /* being filled */
	size_t entries;		  /* of all lists so far, against LS_ENTRIES_MAX */
	uint32_t factor;	  /* the largest NAT factor, 1 without any */
};

/* FILE:LINE:COLUMN of the node and the message. Returns -1. */
int ls_refuse(struct ls_reader *reader, const struct ls_node *node, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * That `node` is a map with none but these keys. A word that belongs elsewhere, or is misspelt, is
 * refused with the place or the spelling.
 */
int ls_reader_map(struct ls_reader *reader, const struct ls_node *node, const char *what,
		  const char *const *keys, size_t n_keys);

/* The text of a scalar that is not empty. */
int ls_reader_text(struct ls_reader *reader, const struct ls_node *node, const char *what,
		   const char **ret);

/* One of the words; *ret is its index. Indexes whose word is NULL are not offered. */
int ls_reader_word(struct ls_reader *reader, const struct ls_node *node, const char *what,
		   const char *const *words, size_t n_words, unsigned *ret);

/* A name: [a-z][a-z0-9_-]*, at most 31 characters. */
int ls_reader_name(struct ls_reader *reader, const struct ls_node *node, const char *what,
		   char ret[static LS_NAME_BYTES]);
bool ls_name_is_valid(const char *text);

/* The numbers of units.h, with the place of the node in front of their refusals. */
int ls_reader_number(struct ls_reader *reader, const struct ls_node *node, const char *what,
		     uint64_t low, uint64_t high, uint64_t *ret);
int ls_reader_count(struct ls_reader *reader, const struct ls_node *node, const char *what,
		    uint64_t low, uint64_t high, uint64_t *ret);
int ls_reader_size(struct ls_reader *reader, const struct ls_node *node, const char *what,
		   uint64_t highest, uint64_t *ret);
int ls_reader_rate(struct ls_reader *reader, const struct ls_node *node, const char *what,
		   bool bytes, struct ls_rate *ret);
int ls_reader_time(struct ls_reader *reader, const struct ls_node *node, const char *what,
		   uint64_t low_ns, uint64_t high_ns, uint64_t *ret_ns);

/* Of the words, the nearest that a slip of the fingers could have meant, or NULL. */
const char *ls_suggest(const char *text, const char *const *words, size_t n_words);

/* read_set.c: `sets`, and lists of members (one member or a list). */
int ls_read_sets(struct ls_reader *reader, const struct ls_node *node);
int ls_read_members(struct ls_reader *reader, const struct ls_node *node, const char *what,
		    struct ls_members *ret);

/*
 * read_list.c: the text of a list file into the set's entries and skipped. `shown` names it in
 * messages; at most `room` entries.
 */
int ls_read_list(const char *shown, const char *bytes, size_t length, size_t room,
		 struct ls_warnings *warnings, struct ls_set *set, struct ls_error *error);

/*
 * read_class.c, read_match.c, read_limit.c, read_overload.c: from the map of one class, its match, its limits, ban
 * and check; and the section `overload`.
 */
int ls_read_classes(struct ls_reader *reader, const struct ls_node *node);
int ls_read_overload(struct ls_reader *reader, const struct ls_node *node);
int ls_read_check(struct ls_reader *reader, const struct ls_node *node, struct ls_check *ret);
bool ls_ranges_hold(const struct ls_ranges *ranges, unsigned value);
int ls_read_match(struct ls_reader *reader, const struct ls_node *node, struct ls_match *ret);
int ls_read_limits(struct ls_reader *reader, const struct ls_node *node, struct ls_class *class);

/* read_cluster.c: the section, and a limit's scope and on_loss. */
int ls_read_cluster(struct ls_reader *reader, const struct ls_node *node);
int ls_read_scope(struct ls_reader *reader, const struct ls_node *node, struct ls_limit *limit);

#define LS_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

#endif
