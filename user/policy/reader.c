/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "user/base/buffer.h"
#include "user/base/error.h"

int ls_refuse(struct ls_reader *reader, const struct ls_node *node, const char *format, ...)
{
	char message[LS_ERROR_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	return ls_error_set(reader->error, "%s:%u:%u: %s", reader->name, node->line, node->column,
			    message);
}

/* Words longer than this are no slip of the fingers. */
#define SUGGEST_BYTES 24

static char fold(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c - 'A' + 'a');
	return c == '-' || c == ' ' ? '_' : c;
}

/*
 * Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours, each 1.
 * Case, and '-' for '_', cost nothing.
 */
static unsigned edit_distance(const char *a, const char *b)
{
	unsigned row[SUGGEST_BYTES + 1][SUGGEST_BYTES + 1];
	const size_t length_a = strlen(a), length_b = strlen(b);

	if (length_a > SUGGEST_BYTES || length_b > SUGGEST_BYTES)
		return SUGGEST_BYTES;
	for (size_t i = 0; i <= length_a; i++) {
		for (size_t j = 0; j <= length_b; j++) {
			unsigned best;

			if (i == 0 || j == 0) {
				row[i][j] = (unsigned)(i + j);
				continue;
			}
			best = row[i - 1][j - 1] + (fold(a[i - 1]) != fold(b[j - 1]));
			if (row[i - 1][j] + 1 < best)
				best = row[i - 1][j] + 1;
			if (row[i][j - 1] + 1 < best)
				best = row[i][j - 1] + 1;
			if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) &&
			    fold(a[i - 2]) == fold(b[j - 1]) && row[i - 2][j - 2] + 1 < best)
				best = row[i - 2][j - 2] + 1;
			row[i][j] = best;
		}
	}
	return row[length_a][length_b];
}

const char *ls_suggest(const char *text, const char *const *words, size_t n_words)
{
	const char *nearest = NULL;
	unsigned best = 3; /* two slips at most */

	for (size_t i = 0; i < n_words; i++) {
		unsigned distance;

		if (!words[i])
			continue;
		distance = edit_distance(text, words[i]);
		/* Half of a short word changed is another word. */
		if (distance < best && distance * 2 < strlen(words[i]) + 1) {
			best = distance;
			nearest = words[i];
		}
	}
	return nearest;
}

/* "a, b, c" of the words. */
static void list_words(struct ls_buffer *buffer, const char *const *words, size_t n_words)
{
	for (size_t i = 0; i < n_words; i++) {
		if (words[i])
			ls_buffer_format(buffer, "%s%s", buffer->length ? ", " : "", words[i]);
	}
}

/* Every key of a policy and where it belongs, for those that are right but in the wrong place. */
static const struct {
	const char *key, *place;
} key_places[] = {
	{ "version", "the top of the file" },
	{ "sets", "the top of the file" },
	{ "allow", "the top of the file" },
	{ "deny", "the top of the file" },
	{ "nat", "the top of the file" },
	{ "overload", "the top of the file" },
	{ "classes", "the top of the file" },
	{ "malformed", "the top of the file" },
	{ "cluster", "the top of the file" },
	{ "capacity", "the top of the file" },
	{ "mode", "the top of the file, 'overload' or a class" },
	{ "match", "a class" },
	{ "priority", "a class" },
	{ "limits", "a class" },
	{ "ban", "a class" },
	{ "protocol", "'match'" },
	{ "ports", "'match'" },
	{ "source_ports", "'match'" },
	{ "to", "'match'" },
	{ "from", "'match'" },
	{ "vlan", "'match'" },
	{ "tcp_flags", "'match'" },
	{ "per", "a limit" },
	{ "count", "a limit" },
	{ "algorithm", "a limit" },
	{ "rate", "a limit" },
	{ "burst", "a limit" },
	{ "limit", "a limit" },
	{ "window", "a limit" },
	{ "scope", "a limit" },
	{ "on_loss", "a limit or 'cluster'" },
	{ "after", "'ban'" },
	{ "within", "'ban'" },
	{ "for", "'ban'" },
	{ "file", "a set" },
	{ "on_error", "a set" },
	{ "sources", "a 'nat' entry or 'capacity'" },
	{ "factor", "a 'nat' entry" },
	{ "max", "'overload'" },
	{ "accept_delay", "'overload'" },
	{ "accept_queue", "'overload'" },
	{ "cpu", "'overload'" },
	{ "pressure", "'overload'" },
	{ "memory", "'overload'" },
	{ "softnet", "'overload'" },
	{ "load", "'overload'" },
	{ "probe", "'overload'" },
	{ "floor", "'overload'" },
	{ "check", "a class" },
};

static int refuse_key(struct ls_reader *reader, const struct ls_node *key, const char *what,
		      const char *const *keys, size_t n_keys)
{
	_cleanup_buffer_ struct ls_buffer accepted = LS_BUFFER_INIT;
	const char *const nearest = ls_suggest(key->text, keys, n_keys);

	for (size_t i = 0; i < LS_LENGTH(key_places); i++) {
		if (strcmp(key->text, key_places[i].key) == 0)
			return ls_refuse(reader, key, "key '%s' does not belong in %s but in %s",
					 key->text, what, key_places[i].place);
	}
	if (nearest)
		return ls_refuse(reader, key, "unknown key '%.60s' in %s; did you mean '%s'?",
				 key->text, what, nearest);
	list_words(&accepted, keys, n_keys);
	return ls_refuse(reader, key, "unknown key '%.60s' in %s; accepted are %s", key->text, what,
			 ls_buffer_string(&accepted));
}

int ls_reader_map(struct ls_reader *reader, const struct ls_node *node, const char *what,
		  const char *const *keys, size_t n_keys)
{
	if (node->kind != LS_NODE_MAP) {
		_cleanup_buffer_ struct ls_buffer accepted = LS_BUFFER_INIT;

		list_words(&accepted, keys, n_keys);
		return ls_refuse(reader, node, "%s must be a map with the keys %s", what,
				 ls_buffer_string(&accepted));
	}
	for (const struct ls_node *at = node->first; at; at = at->next) {
		bool known = false;

		for (size_t i = 0; i < n_keys && !known; i++)
			known = strcmp(at->key->text, keys[i]) == 0;
		if (!known)
			return refuse_key(reader, at->key, what, keys, n_keys);
	}
	return 0;
}

int ls_reader_text(struct ls_reader *reader, const struct ls_node *node, const char *what,
		   const char **ret)
{
	if (node->kind != LS_NODE_TEXT)
		return ls_refuse(reader, node, "%s must be a single value, not a %s", what,
				 node->kind == LS_NODE_LIST ? "list" : "map");
	if (!*node->text)
		return ls_refuse(reader, node, "%s has no value; write one or leave the key out",
				 what);
	*ret = node->text;
	return 0;
}

int ls_reader_word(struct ls_reader *reader, const struct ls_node *node, const char *what,
		   const char *const *words, size_t n_words, unsigned *ret)
{
	_cleanup_buffer_ struct ls_buffer accepted = LS_BUFFER_INIT;
	const char *text = NULL, *nearest;

	if (ls_reader_text(reader, node, what, &text) < 0)
		return -1;
	for (size_t i = 0; i < n_words; i++) {
		if (words[i] && strcmp(words[i], text) == 0) {
			*ret = (unsigned)i;
			return 0;
		}
	}
	nearest = ls_suggest(text, words, n_words);
	if (nearest)
		return ls_refuse(reader, node, "'%.60s' is no value of %s; did you mean '%s'?",
				 text, what, nearest);
	list_words(&accepted, words, n_words);
	return ls_refuse(reader, node, "'%.60s' is no value of %s; accepted are %s", text, what,
			 ls_buffer_string(&accepted));
}

bool ls_name_is_valid(const char *text)
{
	if (*text < 'a' || *text > 'z')
		return false;
	for (; *text; text++) {
		if (!(*text >= 'a' && *text <= 'z') && !(*text >= '0' && *text <= '9') &&
		    *text != '_' && *text != '-')
			return false;
	}
	return true;
}

int ls_reader_name(struct ls_reader *reader, const struct ls_node *node, const char *what,
		   char ret[static LS_NAME_BYTES])
{
	const char *text = NULL;

	if (ls_reader_text(reader, node, what, &text) < 0)
		return -1;
	if (!ls_name_is_valid(text))
		return ls_refuse(reader, node,
				 "'%.60s' is no %s: it starts with a letter a-z and goes on with "
				 "a-z, 0-9, '_' and '-'",
				 text, what);
	if (strlen(text) >= LS_NAME_BYTES)
		return ls_refuse(reader, node,
				 "'%.60s' is too long for a %s: at most %d characters", text, what,
				 LS_NAME_BYTES - 1);
	memset(ret, 0, LS_NAME_BYTES);
	memcpy(ret, text, strlen(text));
	return 0;
}

/* Passes on a refusal of units.h with the place and the name of the key. */
static int place(struct ls_reader *reader, const struct ls_node *node, const char *what,
		 const struct ls_error *found)
{
	return ls_refuse(reader, node, "%s: %s", what, found->text);
}

int ls_reader_number(struct ls_reader *reader, const struct ls_node *node, const char *what,
		     uint64_t low, uint64_t high, uint64_t *ret)
{
	struct ls_error found = LS_ERROR_INIT;
	const char *text = NULL;

	if (ls_reader_text(reader, node, what, &text) < 0)
		return -1;
	if (ls_number_parse(text, low, high, ret, &found) < 0)
		return place(reader, node, what, &found);
	return 0;
}

int ls_reader_count(struct ls_reader *reader, const struct ls_node *node, const char *what,
		    uint64_t low, uint64_t high, uint64_t *ret)
{
	struct ls_error found = LS_ERROR_INIT;
	const char *text = NULL;

	if (ls_reader_text(reader, node, what, &text) < 0)
		return -1;
	if (ls_count_parse(text, low, high, ret, &found) < 0)
		return place(reader, node, what, &found);
	return 0;
}

int ls_reader_size(struct ls_reader *reader, const struct ls_node *node, const char *what,
		   uint64_t highest, uint64_t *ret)
{
	struct ls_error found = LS_ERROR_INIT;
	const char *text = NULL;

	if (ls_reader_text(reader, node, what, &text) < 0)
		return -1;
	if (ls_size_parse(text, highest, ret, &found) < 0)
		return place(reader, node, what, &found);
	return 0;
}

int ls_reader_rate(struct ls_reader *reader, const struct ls_node *node, const char *what,
		   bool bytes, struct ls_rate *ret)
{
	struct ls_error found = LS_ERROR_INIT;
	const char *text = NULL;
	int result;

	if (ls_reader_text(reader, node, what, &text) < 0)
		return -1;
	result = bytes ? ls_rate_bytes_parse(text, ret, &found)
		       : ls_rate_items_parse(text, ret, &found);
	return result < 0 ? place(reader, node, what, &found) : 0;
}

int ls_reader_time(struct ls_reader *reader, const struct ls_node *node, const char *what,
		   uint64_t low_ns, uint64_t high_ns, uint64_t *ret_ns)
{
	struct ls_error found = LS_ERROR_INIT;
	const char *text = NULL;

	if (ls_reader_text(reader, node, what, &text) < 0)
		return -1;
	if (ls_time_parse(text, low_ns, high_ns, ret_ns, &found) < 0)
		return place(reader, node, what, &found);
	return 0;
}
