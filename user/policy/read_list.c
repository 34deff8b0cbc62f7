/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/reader.h"

/*
 * List files, as feeds come: one address or prefix a line in the first column, whatever follows
 * after a blank is somebody's note, '#' starts a comment, and lines may end as on Windows. A line
 * that is anything else is refused, because a list that silently lost a part protects less than it
 * says.
 *
 * One pass, no copy of a line: a million IPv4 addresses in random order take 200 ms with reading,
 * SHA-256 and sorting.
 */

#include <stdlib.h>
#include <string.h>

#include "user/base/error.h"
#include "user/policy/check.h"
#include "user/policy/read.h"

/* Skipped lines that are shown; the rest is only counted. */
#define SKIPPED_SHOWN 10

struct line {
	const char *start, *end; /* without the line feed */
	size_t number;
	const char *word; /* its first column, NULL if there is none */
	size_t length;
};

static inline bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/*
 * Whether "- 203.0.113.9" follows the first column: a range with blanks around its dash, of which we would
 * take the first address alone. Notes may begin with a dash, too.
 */
static bool is_range_end(const char *at, const char *end)
{
	const char *word;
	struct ls_prefix last;

	while (at < end && is_blank(*at))
		at++;
	if (at == end || *at++ != '-')
		return false;
	while (at < end && is_blank(*at))
		at++;
	for (word = at; at < end && !is_blank(*at) && *at != '#' && *at != '\r' && *at != ','; at++)
		;
	return ls_prefix_parse(word, (size_t)(at - word), &last) == LS_PREFIX_OK;
}

/* How many of an address's bits, from the last on, are as `bit` says. */
static unsigned trailing_bits(const struct ls_prefix *address, bool bit)
{
	unsigned count = 0;

	while (count < address->length &&
	       (address->bytes[(address->length - 1 - count) / 8] >> (count % 8) & 1) == bit)
		count++;
	return count;
}

/* Whether the two are the first and the last address of a prefix: the columns of DShield's list. */
static bool is_span(const struct ls_prefix *first, const struct ls_prefix *last)
{
	const unsigned free_bits = trailing_bits(last, true);
	struct ls_prefix start = *last;

	for (unsigned i = 0; i < free_bits; i++) {
		start.bytes[(last->length - 1 - i) / 8] &= (uint8_t) ~(1U << (i % 8));
		if (ls_prefix_compare(&start, first) == 0)
			return true;
	}
	return false;
}

/*
 * A netmask, a length or the last address of a range in the second column: what follows an address is somebody's
 * note, but of these the first column alone would be one host of many.
 */
static const char *address_goes_on(const struct line *line, const char *at, const char *end)
{
	struct ls_prefix first, second;
	const char *word;

	if (memchr(line->word, '/', line->length))
		return NULL;
	while (at < end && is_blank(*at))
		at++;
	for (word = at; at < end && !is_blank(*at) && *at != '#' && *at != '\r' && *at != ','; at++)
		;
	if (at > word + 1 && *word == '/' && word[1] >= '0' && word[1] <= '9')
		return "a blank stands before the prefix length; write it without";
	if (ls_prefix_parse(word, (size_t)(at - word), &second) != LS_PREFIX_OK ||
	    memchr(word, '/', (size_t)(at - word)) ||
	    ls_prefix_parse(line->word, line->length, &first) != LS_PREFIX_OK ||
	    first.length != second.length)
		return NULL;
	if (second.length == 32) {
		const unsigned zeros = trailing_bits(&second, false),
			       ones = trailing_bits(&second, true);
		const uint32_t bits = (uint32_t)second.bytes[0] << 24 |
				      (uint32_t)second.bytes[1] << 16 |
				      (uint32_t)second.bytes[2] << 8 | second.bytes[3];

		/* 255.255.255.0 or, inverted, 0.0.0.255. */
		if ((zeros > 0 && zeros < 32 && (~bits >> zeros) == 0) ||
		    (ones > 0 && ones < 32 && (bits >> ones) == 0))
			return "a netmask follows; write the prefix length, such as /24";
	}
	return is_span(&first, &second)
		       ? "the line is a range, with its end in the second column; write the prefixes that cover it"
		       : NULL;
}

/*
 * Finds the first column. `unusual`: the file holds NUL bytes somewhere, so look for them.
 * Returns NULL, or why the line cannot be used.
 */
static const char *split_line(struct line *line, bool unusual)
{
	const char *end = line->end, *at = line->start;

	line->word = NULL;
	if (unusual && memchr(line->start, '\0', (size_t)(line->end - line->start)))
		return "the line holds a NUL byte, so this is no text";
	if (end > at && end[-1] == '\r')
		end--;
	while (at < end && is_blank(*at))
		at++;
	if (at == end || *at == '#')
		return NULL;
	line->word = at;
	while (at < end && !is_blank(*at) && *at != '#' && *at != '\r')
		at++;
	line->length = (size_t)(at - line->word);
	/*
	 * A file with bare carriage returns is one long line to us: most of it would be lost as a
	 * note.
	 */
	if (at < end && memchr(at, '\r', (size_t)(end - at)))
		return "a carriage return stands inside the line; end lines with a line feed";
	if (at < end && is_range_end(at, end))
		return "the line is a range; write the prefixes that cover it";
	return at < end ? address_goes_on(line, at, end) : NULL;
}

static size_t count_lines(const char *bytes, size_t length)
{
	const char *const end = bytes + length;
	size_t lines = 1;

	for (const char *at = bytes; (at = memchr(at, '\n', (size_t)(end - at))); at++)
		lines++;
	return lines;
}

/*
 * Where and why; `clause` is split_line's answer or NULL when it is for the address reader to say.
 */
static void explain_line(const char *shown, const struct line *line, const char *clause,
			 enum ls_prefix_error reason, struct ls_error *error)
{
	char text[256];
	const char *const at = line->word ? line->word : line->start;

	if (!clause)
		clause = ls_prefix_explain(reason, line->word, line->length, text, sizeof(text));
	ls_error_set(error, "%s:%zu:%zu: %s", shown, line->number, (size_t)(at - line->start) + 1,
		     clause);
}

struct list {
	const char *shown;
	size_t room; /* entries that may still come */
	struct ls_warnings *warnings;
	struct ls_set *set;
	struct ls_error *error;
};

/* A line that is no entry: an error, or one more that is skipped. */
static int bad_line(struct list *list, const struct line *line, const char *clause,
		    enum ls_prefix_error reason)
{
	struct ls_error skipped = LS_ERROR_INIT;

	if (!list->set->skip_errors) {
		explain_line(list->shown, line, clause, reason, list->error);
		return -1;
	}
	if (list->set->skipped++ < SKIPPED_SHOWN) {
		explain_line(list->shown, line, clause, reason, &skipped);
		ls_warnings_add(list->warnings, "%s (skipped)", skipped.text);
	}
	return 0;
}

static int take_line(struct list *list, struct line *line, bool unusual)
{
	struct ls_prefixes *const entries = &list->set->entries;
	const char *const clause = split_line(line, unusual);
	enum ls_prefix_error reason;

	if (clause)
		return bad_line(list, line, clause, LS_PREFIX_OK);
	if (!line->word)
		return 0;
	if (entries->count == list->room)
		return ls_error_set(list->error,
				    "%s:%zu: this is where the policy's lists exceed %zu entries "
				    "together",
				    list->shown, line->number, (size_t)LS_ENTRIES_MAX);
	reason = ls_prefix_parse(line->word, line->length, &entries->items[entries->count]);
	if (reason != LS_PREFIX_OK)
		return bad_line(list, line, NULL, reason);
	entries->count++;
	return 0;
}

static int take_lines(struct list *list, const char *bytes, size_t length)
{
	const char *const end = bytes + length;
	const bool unusual = memchr(bytes, '\0', length) != NULL;
	struct line line = { .number = 1 };

	if (length >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0)
		bytes += 3;
	for (const char *at = bytes; at < end; at = line.end + 1, line.number++) {
		const char *const feed = memchr(at, '\n', (size_t)(end - at));

		line.start = at;
		line.end = feed ? feed : end;
		if (take_line(list, &line, unusual) < 0)
			return -1;
		if (!feed)
			break;
	}
	return 0;
}

int ls_read_list(const char *shown, const char *bytes, size_t length, size_t room,
		 struct ls_warnings *warnings, struct ls_set *set, struct ls_error *error)
{
	struct list list = {
		.shown = shown,
		.room = room,
		.warnings = warnings,
		.set = set,
		.error = error,
	};
	size_t lines = count_lines(bytes, length);
	struct ls_prefix *fitted;
	ptrdiff_t kept;

	if (lines > room)
		lines = room;
	/* One more than fits: a line is read into place before it is known to be an entry. */
	set->entries.items = malloc((lines + 1) * sizeof(*set->entries.items));
	if (!set->entries.items)
		return ls_error_oom(error);
	if (take_lines(&list, bytes, length) < 0)
		return -1;
	if (set->skipped > 0 && set->entries.count == 0)
		return ls_error_set(error,
				    "%s: none of its %zu lines is an address or prefix; is this "
				    "the right file?",
				    shown, set->skipped);
	if (set->skipped > 0)
		ls_warnings_add(warnings, "%s: %zu line%s skipped", shown, set->skipped,
				set->skipped == 1 ? "" : "s");

	kept = ls_prefix_sort(set->entries.items, set->entries.count);
	if (kept < 0)
		return ls_error_oom(error);
	if ((size_t)kept < set->entries.count)
		ls_warnings_add(warnings, "%s: %zu repeated entries, which count once", shown,
				set->entries.count - (size_t)kept);
	set->entries.count = (size_t)kept;
	fitted = realloc(set->entries.items, ((size_t)kept + 1) * sizeof(*fitted));
	if (fitted)
		set->entries.items = fitted;
	return 0;
}
