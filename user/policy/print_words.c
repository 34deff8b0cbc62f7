/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/print.h"

/* The words of the language: what stands for a port range, a flag, a member, an amount, in a policy and in a diff alike. */

#include <stdio.h>
#include <string.h>

#include "user/base/buffer.h"
#include "user/base/units.h"

void ls_print_comma(struct ls_buffer *buffer, bool *first)
{
	ls_buffer_text(buffer, *first ? "[" : ", ");
	*first = false;
}

void ls_print_ranges(struct ls_buffer *buffer, const struct ls_ranges *ranges)
{
	bool first = true;

	for (size_t i = 0; i < ranges->count; i++) {
		const struct ls_range *const range = &ranges->items[i];

		ls_print_comma(buffer, &first);
		if (range->low == range->high)
			ls_buffer_format(buffer, "%u", range->low);
		else
			ls_buffer_format(buffer, "%u-%u", range->low, range->high);
	}
	ls_buffer_text(buffer, first ? "[]" : "]");
}

void ls_print_protocols(struct ls_buffer *buffer, const struct ls_ranges *protocols)
{
	char name[LS_PROTOCOL_TEXT];
	bool first = true;

	for (size_t i = 0; i < protocols->count; i++) {
		for (unsigned p = protocols->items[i].low; p <= protocols->items[i].high; p++) {
			ls_print_comma(buffer, &first);
			ls_buffer_text(buffer, ls_protocol_format(p, name));
		}
	}
	ls_buffer_text(buffer, first ? "[]" : "]");
}

void ls_print_flags(struct ls_buffer *buffer, const struct ls_match *match)
{
	bool first = true;

	for (unsigned bit = 0; bit < 8; bit++) {
		const bool set = match->flags_set >> bit & 1;

		if (!set && !(match->flags_clear >> bit & 1))
			continue;
		ls_print_comma(buffer, &first);
		ls_buffer_format(buffer, "%s%s", set ? "" : "no-", ls_tcp_flag_name(bit));
	}
	ls_buffer_text(buffer, first ? "[]" : "]");
}

void ls_print_member(struct ls_buffer *buffer, const struct ls_policy *policy,
		     const struct ls_member *member)
{
	char text[LS_PREFIX_TEXT];

	ls_buffer_text(buffer, member->set >= 0 ? policy->sets[member->set].name
						: ls_prefix_format(&member->prefix, text));
}

char *ls_limit_rate_format(const struct ls_limit *limit, char text[static LS_AMOUNT_TEXT])
{
	char value[LS_UNIT_TEXT];

	if (limit->algorithm != LS_TOKEN_BUCKET)
		snprintf(text, LS_AMOUNT_TEXT, "window %s",
			 ls_time_format(limit->window_ns, value));
	else if (limit->count == LS_COUNT_BYTES)
		snprintf(text, LS_AMOUNT_TEXT, "rate %s", ls_rate_bytes_format(limit->rate, value));
	else
		snprintf(text, LS_AMOUNT_TEXT, "rate %s", ls_rate_items_format(limit->rate, value));
	return text;
}

char *ls_limit_amount_format(const struct ls_limit *limit, char text[static LS_AMOUNT_TEXT])
{
	const bool bucket = limit->algorithm == LS_TOKEN_BUCKET;
	const uint64_t amount = bucket ? limit->burst : limit->limit;
	char value[LS_UNIT_TEXT];

	if (limit->count == LS_COUNT_BYTES)
		ls_size_format(amount, value);
	else
		ls_count_format(amount, value);
	snprintf(text, LS_AMOUNT_TEXT, "%s %s", bucket ? "burst" : "limit", value);
	return text;
}

/*
 * A scalar: as it is where that is safe, else in double quotes. The reader lets no
 * control character into the model, so only the quote and the backslash need escaping.
 */
void ls_print_text(struct ls_buffer *buffer, const char *path)
{
	static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				   "_./-";

	if (*path != '-' && path[strspn(path, safe)] == '\0') {
		ls_buffer_text(buffer, path);
		return;
	}
	ls_buffer_text(buffer, "\"");
	for (; *path; path++) {
		if (*path == '"' || *path == '\\')
			ls_buffer_text(buffer, "\\");
		ls_buffer_add(buffer, path, 1);
	}
	ls_buffer_text(buffer, "\"");
}
