/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/base/units.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "user/base/error.h"

/* Products of a 64-bit value, a period and a factor of 1000 need more than 64 bits and fit 128. */
__extension__ typedef unsigned __int128 wide;

#define ITEM_RATES                                                                                 \
	"write a number, k, M or G if needed, and /s, /m, /h or /d, such as 200/s, 1.5k/s or 10/m"
#define BYTE_RATES                                                                                 \
	"write a number and one of bit/s, kbit/s, Mbit/s, Gbit/s, B/s, kB/s, MB/s, GB/s, KiB/s, "  \
	"MiB/s, GiB/s, such as 100Mbit/s"
#define SIZES "write a number and one of B, kB, MB, GB, KiB, MiB, GiB, such as 64KiB"
#define COUNTS "write an integer, with k, M or G (1000s) if needed, such as 500 or 10k"
#define TIMES "write an integer and one of ms, s, m, h, d, such as 10s or 5m"
#define NUMBERS "write an integer such as 80"

/* How much of a text a message repeats. */
#define SHOWN 60

struct unit {
	const char *name;
	uint64_t factor; /* in base units, or eighths of a byte for rates of bits and bytes */
};

static const struct unit count_units[] = {
	{ "", 1 }, { "k", 1000 }, { "M", 1000000 }, { "G", 1000000000 }, { NULL, 0 },
};

static const struct unit size_units[] = {
	{ "B", 1 },	     { "kB", 1000 },	  { "MB", 1000000 },   { "GB", 1000000000 },
	{ "KiB", 1U << 10 }, { "MiB", 1U << 20 }, { "GiB", 1U << 30 }, { NULL, 0 },
};

static const struct unit bit_rate_units[] = {
	{ "bit/s", 1 },		  { "kbit/s", 1000 }, { "Mbit/s", 1000000 },
	{ "Gbit/s", 1000000000 }, { NULL, 0 },
};

static const struct unit byte_rate_units[] = {
	{ "B/s", 8 },
	{ "kB/s", 8000 },
	{ "MB/s", 8000000 },
	{ "GB/s", 8000000000 },
	{ "KiB/s", 8ULL << 10 },
	{ "MiB/s", 8ULL << 20 },
	{ "GiB/s", 8ULL << 30 },
	{ NULL, 0 },
};

/* Shortest first: a printer takes the first in which the number is whole. */
static const struct unit periods[] = {
	{ "/s", LS_NS_PER_S },
	{ "/m", 60 * LS_NS_PER_S },
	{ "/h", 3600 * LS_NS_PER_S },
	{ "/d", LS_NS_PER_DAY },
	{ NULL, 0 },
};

/* Longest first, for the same reason. */
static const struct unit time_units[] = {
	{ "d", LS_NS_PER_DAY }, { "h", 3600 * LS_NS_PER_S }, { "m", 60 * LS_NS_PER_S },
	{ "s", LS_NS_PER_S },	{ "ms", LS_NS_PER_MS },	     { NULL, 0 },
};

static const struct unit *find_unit(const struct unit *units, const char *name)
{
	for (; units->name; units++) {
		if (strcmp(units->name, name) == 0)
			return units;
	}
	return NULL;
}

struct number {
	wide thousandths;
	bool fraction; /* written with decimals */
	const char *rest;
};

/*
 * The digits at the start of `text`: no sign, no leading zero, one to three decimals after a point.
 * More than 20 digits stay at a value above every bound. Returns NULL, or what is wrong with it.
 */
static const char *parse_number(const char *text, struct number *ret)
{
	const char *at = text;
	wide value = 0;
	unsigned scale = 1000;

	if (*at < '0' || *at > '9')
		return *at == '+' || *at == '-' ? "no sign is accepted" : "no digit at its start";
	for (; *at >= '0' && *at <= '9'; at++) {
		if (at - text < 20)
			value = value * 10 + (unsigned)(*at - '0');
		else
			value = (wide)1 << 100;
	}
	if (*text == '0' && at - text > 1)
		return "a number has no leading zeros";
	value *= 1000;
	ret->fraction = *at == '.';
	if (ret->fraction) {
		at++;
		if (*at < '0' || *at > '9')
			return "a digit is missing after the point";
		for (; *at >= '0' && *at <= '9'; at++) {
			scale /= 10;
			if (scale == 0)
				return "three decimals at most are accepted";
			value += (wide)((unsigned)(*at - '0') * scale);
		}
	}
	if (*at == ' ')
		return "no space is accepted before the unit";
	ret->thousandths = value;
	ret->rest = at;
	return NULL;
}

/* A number and its unit. NULL, or why it is none; `whole`: what to say of decimals, NULL where they are fine. */
static const char *parse_amount(const char *text, const char *whole, const struct unit *units,
				struct number *ret_number, const struct unit **ret_unit)
{
	const char *why = parse_number(text, ret_number);

	if (!why && whole && ret_number->fraction)
		why = whole;
	if (why)
		return why;
	*ret_unit = find_unit(units, ret_number->rest);
	if (*ret_unit)
		return NULL;
	return *ret_number->rest ? "its unit is unknown" : "it has no unit";
}

static int refuse(struct ls_error *error, const char *text, const char *what, const char *why,
		  const char *accepted)
{
	if (strlen(text) > SHOWN)
		return ls_error_set(error, "'%.*s…' is no %s: %s; %s", SHOWN, text, what, why,
				    accepted);
	return ls_error_set(error, "'%s' is no %s: %s; %s", text, what, why, accepted);
}

static int refuse_range(struct ls_error *error, const char *text, const char *low, const char *high)
{
	return ls_error_set(error, "'%.*s' is out of range; it is from %s to %s", SHOWN, text, low,
			    high);
}

int ls_number_parse(const char *text, uint64_t low, uint64_t high, uint64_t *ret,
		    struct ls_error *error)
{
	char low_text[LS_UNIT_TEXT], high_text[LS_UNIT_TEXT];
	struct number number;
	const char *why = parse_number(text, &number);

	if (!why && number.fraction)
		why = "it has decimals";
	if (!why && *number.rest)
		why = "something follows the digits";
	if (why)
		return refuse(error, text, "number", why, NUMBERS);
	if (number.thousandths < (wide)low * 1000 || number.thousandths > (wide)high * 1000) {
		snprintf(low_text, sizeof(low_text), "%llu", (unsigned long long)low);
		snprintf(high_text, sizeof(high_text), "%llu", (unsigned long long)high);
		return refuse_range(error, text, low_text, high_text);
	}
	*ret = (uint64_t)(number.thousandths / 1000);
	return 0;
}

int ls_count_parse(const char *text, uint64_t low, uint64_t high, uint64_t *ret,
		   struct ls_error *error)
{
	char low_text[LS_UNIT_TEXT], high_text[LS_UNIT_TEXT];
	const struct unit *unit = NULL;
	struct number number;
	const char *why = parse_amount(text, "counts are whole", count_units, &number, &unit);
	wide value;

	if (why)
		return refuse(error, text, "count", why, COUNTS);
	value = number.thousandths / 1000 * unit->factor;
	if (value < low || value > high)
		return refuse_range(error, text, ls_count_format(low, low_text),
				    ls_count_format(high, high_text));
	*ret = (uint64_t)value;
	return 0;
}

int ls_size_parse(const char *text, uint64_t highest, uint64_t *ret, struct ls_error *error)
{
	const struct unit *unit = NULL;
	struct number number;
	char most[LS_UNIT_TEXT];
	const char *why = parse_amount(text, NULL, size_units, &number, &unit);
	wide value;

	if (why)
		return refuse(error, text, "size in bytes", why, SIZES);
	value = number.thousandths * unit->factor;
	if (value % 1000 != 0)
		return refuse(error, text, "size in bytes", "it is no whole number of bytes",
			      SIZES);
	value /= 1000;
	if (value == 0 || value > highest)
		return refuse_range(error, text, "1B", ls_size_format(highest, most));
	*ret = (uint64_t)value;
	return 0;
}

static struct ls_rate rate_reduce(wide units, wide period)
{
	wide a = units, b = period;

	while (b != 0) {
		const wide rest = a % b;

		a = b;
		b = rest;
	}
	if (a > 1) {
		units /= a;
		period /= a;
	}
	return (struct ls_rate){
		.units = units > UINT64_MAX ? UINT64_MAX : (uint64_t)units,
		.period_ns = period > UINT64_MAX ? UINT64_MAX : (uint64_t)period,
	};
}

struct ls_rate ls_rate_make(uint64_t units, uint64_t period_ns)
{
	return rate_reduce(units, period_ns);
}

struct ls_rate ls_rate_scale(struct ls_rate rate, uint64_t numerator, uint64_t denominator)
{
	return rate_reduce((wide)rate.units * numerator, (wide)rate.period_ns * denominator);
}

bool ls_rate_equal(struct ls_rate a, struct ls_rate b)
{
	return a.units == b.units && a.period_ns == b.period_ns;
}

int ls_rate_compare(struct ls_rate a, struct ls_rate b)
{
	const wide left = (wide)a.units * b.period_ns, right = (wide)b.units * a.period_ns;

	return (left > right) - (left < right);
}

uint64_t ls_rate_over(struct ls_rate rate, uint64_t span_ns)
{
	const wide product = (wide)rate.units * span_ns;
	const wide value = product / rate.period_ns + (product % rate.period_ns != 0);

	return value > UINT64_MAX ? UINT64_MAX : (uint64_t)value;
}

int ls_rate_items_parse(const char *text, struct ls_rate *ret, struct ls_error *error)
{
	const struct unit *suffix = NULL, *period = NULL;
	char suffix_name[4] = "";
	struct number number;
	const char *why = parse_number(text, &number);
	wide thousandths;

	if (!why) {
		const char *const slash = strchr(number.rest, '/');
		const size_t length = slash ? (size_t)(slash - number.rest) : sizeof(suffix_name);

		if (!slash) {
			why = "it has no period";
		} else if (length >= sizeof(suffix_name)) {
			why = "its unit is unknown";
		} else {
			memcpy(suffix_name, number.rest, length);
			suffix = find_unit(count_units, suffix_name);
			period = find_unit(periods, slash);
			if (!suffix || !period)
				why = suffix ? "its period is unknown" : "its unit is unknown";
		}
	}
	if (why)
		return refuse(error, text, "rate", why, ITEM_RATES);

	thousandths = number.thousandths * suffix->factor;
	/* 1/d <= thousandths / 1000 / period <= 4G/s */
	if (thousandths * LS_NS_PER_DAY < (wide)1000 * period->factor ||
	    thousandths > (wide)LS_RATE_ITEMS_MAX * 1000 * (period->factor / LS_NS_PER_S))
		return refuse_range(error, text, "1/d", "4G/s");
	*ret = rate_reduce(thousandths, (wide)1000 * period->factor);
	return 0;
}

int ls_rate_bytes_parse(const char *text, struct ls_rate *ret, struct ls_error *error)
{
	const struct unit *unit = NULL;
	struct number number;
	const char *why = parse_amount(text, NULL, bit_rate_units, &number, &unit);
	wide thousandths;

	if (why)
		why = parse_amount(text, NULL, byte_rate_units, &number, &unit);
	if (why)
		return refuse(error, text, "rate of bytes", why, BYTE_RATES);

	thousandths = number.thousandths * unit->factor; /* of a bit per second */
	if (thousandths == 0 || thousandths > (wide)LS_RATE_BYTES_MAX * 8 * 1000)
		return refuse_range(error, text, "0.001bit/s", "1000Gbit/s");
	*ret = rate_reduce(thousandths, (wide)8 * 1000 * LS_NS_PER_S);
	return 0;
}

int ls_time_parse(const char *text, uint64_t low_ns, uint64_t high_ns, uint64_t *ret_ns,
		  struct ls_error *error)
{
	char low_text[LS_UNIT_TEXT], high_text[LS_UNIT_TEXT];
	const struct unit *unit = NULL;
	struct number number;
	const char *why = parse_amount(text, "times are whole", time_units, &number, &unit);
	wide value;

	if (why)
		return refuse(error, text, "time", why, TIMES);
	value = number.thousandths / 1000 * unit->factor;
	if (value < low_ns || value > high_ns)
		return refuse_range(error, text, ls_time_format(low_ns, low_text),
				    ls_time_format(high_ns, high_text));
	*ret_ns = (uint64_t)value;
	return 0;
}

/* Decimal text of a number of thousandths, without zeros at the end. */
static void format_thousandths(wide thousandths, char text[static LS_UNIT_TEXT])
{
	char digits[44];
	unsigned fraction = (unsigned)(thousandths % 1000);
	wide whole = thousandths / 1000;
	size_t at = sizeof(digits);
	int decimals = 3;

	digits[--at] = '\0';
	do {
		digits[--at] = (char)('0' + (unsigned)(whole % 10));
		whole /= 10;
	} while (whole > 0);
	if (fraction == 0) {
		snprintf(text, LS_UNIT_TEXT, "%s", digits + at);
		return;
	}
	for (; fraction % 10 == 0; fraction /= 10)
		decimals--;
	snprintf(text, LS_UNIT_TEXT, "%.38s.%0*u", digits + at, decimals, fraction);
}

/*
 * numerator / denominator in the unit that makes the shortest number, first of equals, with at most
 * three decimals (or `whole`). Returns the number's length, 0 if there is none.
 */
static size_t format_shortest(wide numerator, wide denominator, const struct unit *units,
			      bool whole, const char *period, char text[static LS_UNIT_TEXT])
{
	size_t best = 0;

	for (; units->name; units++) {
		const wide divisor = denominator * units->factor;
		char number[LS_UNIT_TEXT];
		size_t length;

		if (numerator * 1000 % divisor != 0 || (whole && numerator % divisor != 0))
			continue;
		format_thousandths(numerator * 1000 / divisor, number);
		length = strlen(number);
		/* k, M and G count: 1500 and 1.5k are equals, and the plain one is first. */
		if (period)
			length += strlen(units->name);
		if (best != 0 && length >= best)
			continue;
		best = length;
		snprintf(text, LS_UNIT_TEXT, "%.30s%s%s", number, units->name,
			 period ? period : "");
	}
	return best;
}

char *ls_count_format(uint64_t count, char text[static LS_UNIT_TEXT])
{
	format_shortest(count, 1, count_units, true, "", text);
	return text;
}

char *ls_size_format(uint64_t bytes, char text[static LS_UNIT_TEXT])
{
	format_shortest(bytes, 1, size_units, false, NULL, text);
	return text;
}

char *ls_time_format(uint64_t ns, char text[static LS_UNIT_TEXT])
{
	if (ns == 0)
		snprintf(text, LS_UNIT_TEXT, "0s");
	else if (format_shortest(ns, 1, time_units, true, NULL, text) == 0)
		snprintf(text, LS_UNIT_TEXT, "~%llums", (unsigned long long)(ns / LS_NS_PER_MS));
	return text;
}

/* What no spelling expresses, rounded down to thousandths per second. */
static void format_about(wide numerator, wide denominator, const char *unit,
			 char text[static LS_UNIT_TEXT])
{
	char number[LS_UNIT_TEXT];

	format_thousandths(numerator * 1000 / denominator, number);
	snprintf(text, LS_UNIT_TEXT, "~%.38s%s", number, unit);
}

char *ls_rate_items_format(struct ls_rate rate, char text[static LS_UNIT_TEXT])
{
	for (int whole = 1; whole >= 0; whole--) {
		for (const struct unit *period = periods; period->name; period++) {
			const wide numerator = (wide)rate.units * period->factor;

			/* Whole without k, M, G: 1.5k/s is, 0.5/s is not (30/m). */
			if (whole && numerator % rate.period_ns != 0)
				continue;
			if (format_shortest(numerator, rate.period_ns, count_units, false,
					    period->name, text) > 0)
				return text;
		}
	}
	format_about((wide)rate.units * LS_NS_PER_S, rate.period_ns, "/s", text);
	return text;
}

/* Spelling in bits and in bytes; returns the canonical one, and the other in `other`. */
static void format_byte_rate(struct ls_rate rate, char canonical[static LS_UNIT_TEXT],
			     char other[static LS_UNIT_TEXT])
{
	const wide numerator = (wide)rate.units * 8 * LS_NS_PER_S;
	char bits[LS_UNIT_TEXT] = "", bytes[LS_UNIT_TEXT] = "";
	const size_t n_bits =
		format_shortest(numerator, rate.period_ns, bit_rate_units, false, NULL, bits);
	const size_t n_bytes =
		format_shortest(numerator, rate.period_ns, byte_rate_units, false, NULL, bytes);
	/* Links are thought of in bits: 40Mbit/s, not 5MB/s; but 64KiB/s, not 524.288kbit/s. */
	const bool in_bits = n_bits > 0 && (n_bytes == 0 || n_bits <= n_bytes + 1);

	if (n_bits == 0 && n_bytes == 0)
		format_about(numerator, rate.period_ns, "bit/s", bits);
	memcpy(canonical, in_bits || n_bytes == 0 ? bits : bytes, LS_UNIT_TEXT);
	memcpy(other, in_bits || n_bytes == 0 ? bytes : bits, LS_UNIT_TEXT);
}

char *ls_rate_bytes_format(struct ls_rate rate, char text[static LS_UNIT_TEXT])
{
	char other[LS_UNIT_TEXT];

	format_byte_rate(rate, text, other);
	return text;
}

char *ls_rate_bytes_format_other(struct ls_rate rate, char text[static LS_UNIT_TEXT])
{
	char canonical[LS_UNIT_TEXT];

	format_byte_rate(rate, canonical, text);
	return text;
}
