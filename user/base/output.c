/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/base/output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void ls_table_init(struct ls_table *table, unsigned columns, uint64_t right)
{
	*table = (struct ls_table){ .columns = columns, .right = right };
}

void ls_table_fini(struct ls_table *table)
{
	for (size_t i = 0; i < table->count; i++)
		free(table->cells[i]);
	free(table->cells);
	table->cells = NULL;
	table->count = 0;
	table->capacity = 0;
}

void ls_table_cell(struct ls_table *table, const char *format, ...)
{
	va_list arguments;
	char *text;
	int length;

	if (table->count == table->capacity) {
		const size_t capacity = table->capacity ? 2 * table->capacity : 64;
		char **cells = reallocarray(table->cells, capacity, sizeof(*cells));

		if (!cells) {
			table->failed = true;
			return;
		}
		table->cells = cells;
		table->capacity = capacity;
	}
	va_start(arguments, format);
	length = vsnprintf(NULL, 0, format, arguments);
	va_end(arguments);
	text = length < 0 ? NULL : malloc((size_t)length + 1);
	if (!text) {
		table->failed = true;
		return;
	}
	va_start(arguments, format);
	vsnprintf(text, (size_t)length + 1, format, arguments);
	va_end(arguments);
	/* A name of somebody else must not steer the terminal, nor break the row. */
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	table->cells[table->count++] = text;
}

size_t ls_text_width(const char *text, size_t bytes)
{
	size_t width = 0;

	for (size_t i = 0; i < bytes; i++)
		width += ((unsigned char)text[i] & 0xc0) != 0x80;
	return width;
}

static int text_width(const char *text)
{
	return (int)ls_text_width(text, strlen(text));
}

int ls_table_print(const struct ls_table *table, FILE *file)
{
	int width[64] = { 0 };

	if (table->failed)
		return -ENOMEM;
	for (size_t i = 0; i < table->count; i++) {
		int *const column = &width[i % table->columns];
		const int cell = text_width(table->cells[i]);

		if (cell > *column)
			*column = cell;
	}
	for (size_t i = 0; i < table->count; i++) {
		const unsigned column = (unsigned)(i % table->columns);
		const bool last = column + 1 == table->columns || i + 1 == table->count;
		/* A last column without a word in this row leaves no blanks behind. */
		const bool is_last_word = column + 2 == table->columns && i + 1 < table->count &&
					  !table->cells[i + 1][0];
		const int blanks = width[column] - text_width(table->cells[i]);

		if (table->right >> column & 1)
			fprintf(file, "%*s%s", blanks, "", table->cells[i]);
		else
			fprintf(file, "%s%*s", table->cells[i], last || is_last_word ? 0 : blanks,
				"");
		fputs(last ? "\n" : is_last_word ? "" : "  ", file);
	}
	return 0;
}

bool ls_output_has_color(FILE *file)
{
	const char *const no_color = getenv("NO_COLOR");
	const char *const terminal = getenv("TERM");

	if (no_color && *no_color)
		return false;
	if (!terminal || strcmp(terminal, "dumb") == 0)
		return false;
	return isatty(fileno(file)) == 1;
}

const char *ls_color(FILE *file, enum ls_color color)
{
	static const char *const sequences[] = {
		[LS_COLOR_RESET] = "\033[0m",  [LS_COLOR_BOLD] = "\033[1m",
		[LS_COLOR_DIM] = "\033[2m",    [LS_COLOR_RED] = "\033[31m",
		[LS_COLOR_GREEN] = "\033[32m", [LS_COLOR_YELLOW] = "\033[33m",
	};
	_Static_assert(sizeof(sequences) / sizeof(sequences[0]) == LS_COLOR_MAX, "one for each");

	return ls_output_has_color(file) ? sequences[color] : "";
}

/* Three significant digits of value / 1000^n, `unit` after the prefix of n. */
static char *format_scaled(uint64_t value, const char *space, const char *unit,
			   char text[static LS_HUMAN_TEXT])
{
	static const char prefixes[] = "kMGTPE";
	uint64_t scale = 1;
	int step = -1;

	while (value / scale >= 1000) {
		scale *= 1000;
		step++;
	}
	if (step < 0) {
		snprintf(text, LS_HUMAN_TEXT, "%u%s%s", (unsigned)value, space, unit);
	} else {
		const unsigned whole = (unsigned)(value / scale);
		const unsigned rest = (unsigned)(value % scale / (scale / 1000));

		if (whole >= 100)
			snprintf(text, LS_HUMAN_TEXT, "%u%s%c%s", whole, space, prefixes[step],
				 unit);
		else if (whole >= 10)
			snprintf(text, LS_HUMAN_TEXT, "%u.%u%s%c%s", whole, rest / 100, space,
				 prefixes[step], unit);
		else
			snprintf(text, LS_HUMAN_TEXT, "%u.%02u%s%c%s", whole, rest / 10, space,
				 prefixes[step], unit);
	}
	return text;
}

char *ls_human_count(uint64_t count, char text[static LS_HUMAN_TEXT])
{
	return format_scaled(count, "", "", text);
}

char *ls_human_bytes(uint64_t bytes, char text[static LS_HUMAN_TEXT])
{
	return format_scaled(bytes, " ", "B", text);
}

char *ls_human_bits(uint64_t bits_s, char text[static LS_HUMAN_TEXT])
{
	return format_scaled(bits_s, " ", "bit/s", text);
}

char *ls_human_time(uint64_t ns, char text[static LS_HUMAN_TEXT])
{
	static const struct {
		char name;
		uint64_t seconds;
	} units[] = { { 'd', 86400 }, { 'h', 3600 }, { 'm', 60 }, { 's', 1 } };
	const uint64_t seconds = ns / 1000000000;
	const unsigned ms = (unsigned)(ns / 1000000 % 1000);

	if (seconds == 0) {
		snprintf(text, LS_HUMAN_TEXT, "%ums", ms);
		return text;
	}
	if (seconds < 10 && ms >= 100) {
		snprintf(text, LS_HUMAN_TEXT, "%u.%us", (unsigned)seconds, ms / 100);
		return text;
	}
	for (unsigned i = 0; i < 4; i++) {
		const uint64_t first = seconds / units[i].seconds;
		const uint64_t second = i < 3 ? seconds % units[i].seconds / units[i + 1].seconds
					      : 0;

		if (first == 0)
			continue;
		snprintf(text, LS_HUMAN_TEXT, "%llu%c", (unsigned long long)first, units[i].name);
		if (second > 0)
			snprintf(text + strlen(text), LS_HUMAN_TEXT - strlen(text), " %llu%c",
				 (unsigned long long)second, units[i + 1].name);
		break;
	}
	return text;
}

void ls_print_wrapped(const char *text, size_t indent, size_t column)
{
	bool is_first = true;

	while (*text) {
		if (strncmp(text, "\n\n", 2) == 0) {
			printf("\n\n%*s", (int)indent, "");
			text += 2;
			column = indent;
			is_first = true;
			continue;
		}
		const size_t bytes = strcspn(text, " \n"), width = ls_text_width(text, bytes);
		if (!is_first && column + 1 + width > LS_OUTPUT_COLUMNS) {
			printf("\n%*s", (int)indent, "");
			column = indent;
		} else if (!is_first) {
			putchar(' ');
			column++;
		}
		fwrite(text, 1, bytes, stdout);
		column += width;
		text += bytes + (text[bytes] == ' ');
		is_first = false;
	}
	putchar('\n');
}
