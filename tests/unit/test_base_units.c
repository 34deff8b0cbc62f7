/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/base/units.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "user/base/error.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static void expect_refusal(const struct ls_error *error, const char *text, const char *contains)
{
	if (!ls_error_is_set(error))
		fail_msg("'%s' was accepted", text);
	if (!strstr(error->text, contains))
		fail_msg("'%s': \"%s\" lacks \"%s\"", text, error->text, contains);
}

static void item_rates_are_exact_or_refused(void **state)
{
	static const struct {
		const char *text;
		uint64_t units, period_ns; /* reduced; 0: refused */
		const char *shown;	   /* or what the refusal says */
	} rows[] = {
		{ "10/s", 1, 100000000, "10/s" },
		{ "600/m", 1, 100000000, "10/s" },
		{ "36k/h", 1, 100000000, "10/s" },
		{ "600/h", 1, 6000000000, "10/m" },
		{ "10k/s", 1, 100000, "10k/s" },
		{ "1.5M/s", 3, 2000, "1.5M/s" },
		{ "1.5k/s", 3, 2000000, "1500/s" },
		{ "0.5/s", 1, 2000000000, "30/m" },
		{ "0.001/s", 1, 1000000000000, "0.001/s" },
		{ "100/m", 1, 600000000, "100/m" },
		{ "1/d", 1, 86400000000000, "1/d" },
		{ "36/d", 1, 2400000000000, "36/d" },
		{ "500/d", 1, 172800000000, "500/d" },
		{ "4G/s", 4, 1, "4G/s" },
		{ "4000000000/s", 4, 1, "4G/s" },
		{ "100M/s", 1, 10, "100M/s" },
		{ "1.001/d", 1001, 86400000000000000, "1.001/d" },
		{ "0.5/d", 0, 0, "from 1/d to 4G/s" },
		{ "0/s", 0, 0, "from 1/d to 4G/s" },
		{ "4294967295/s", 0, 0, "from 1/d to 4G/s" },
		{ "4294967296/s", 0, 0, "from 1/d to 4G/s" },
		{ "5G/s", 0, 0, "from 1/d to 4G/s" },
		{ "240.001G/m", 0, 0, "from 1/d to 4G/s" },
		{ "18446744073709551616/s", 0, 0, "from 1/d to 4G/s" },
		{ "99999999999999999999999999999999999999999999/s", 0, 0, "from 1/d to 4G/s" },
		{ "10k", 0, 0, "no period" },
		{ "10K", 0, 0, "no period" },
		{ "10K/s", 0, 0, "/s, /m, /h or /d" },
		{ "10kpps", 0, 0, "/s, /m, /h or /d" },
		{ "10 kpps", 0, 0, "no space" },
		{ "10 k/s", 0, 0, "no space" },
		{ "10 /s", 0, 0, "no space" },
		{ "10Ki/s", 0, 0, "unit is unknown" },
		{ "1.5M", 0, 0, "no period" },
		{ "1,000/s", 0, 0, "unit is unknown" },
		{ "1_000/s", 0, 0, "unit is unknown" },
		{ "1e6/s", 0, 0, "unit is unknown" },
		{ "+5/s", 0, 0, "no sign" },
		{ "-5/s", 0, 0, "no sign" },
		{ "0x10/s", 0, 0, "unit is unknown" },
		{ "\xd9\xa1\xd9\xa0/s", 0, 0, "no digit" },
		{ "1Gbit/s", 0, 0, "unit is unknown" },
		{ "1Gbit", 0, 0, "no period" },
		{ "1gbps", 0, 0, "no period" },
		{ "1GB/s", 0, 0, "unit is unknown" },
		{ "10/min", 0, 0, "period is unknown" },
		{ "10/sec", 0, 0, "period is unknown" },
		{ "10/S", 0, 0, "period is unknown" },
		{ "1/10s", 0, 0, "period is unknown" },
		{ "10/ms", 0, 0, "period is unknown" },
		{ "10 M", 0, 0, "no space" },
		{ "10MM/s", 0, 0, "unit is unknown" },
		{ "10kk/s", 0, 0, "unit is unknown" },
		{ "010/s", 0, 0, "leading zeros" },
		{ "00.5/s", 0, 0, "leading zeros" },
		{ "1./s", 0, 0, "missing after the point" },
		{ ".5/s", 0, 0, "no digit" },
		{ "1.2345/s", 0, 0, "three decimals" },
		{ "1.5.5/s", 0, 0, "unit is unknown" },
		{ "/s", 0, 0, "no digit" },
		{ "10/s ", 0, 0, "period is unknown" },
		{ "unlimited", 0, 0, "no digit" },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(rows); i++) {
		struct ls_error error = LS_ERROR_INIT;
		struct ls_rate rate = { 99, 99 };
		char text[LS_UNIT_TEXT];
		const int result = ls_rate_items_parse(rows[i].text, &rate, &error);

		if (rows[i].units == 0) {
			expect_refusal(&error, rows[i].text, rows[i].shown);
			assert_int_equal(rate.units, 99);
			continue;
		}
		if (result < 0)
			fail_msg("%s", error.text);
		if (rate.units != rows[i].units || rate.period_ns != rows[i].period_ns)
			fail_msg("'%s': %llu in %llu ns", rows[i].text,
				 (unsigned long long)rate.units,
				 (unsigned long long)rate.period_ns);
		assert_string_equal(ls_rate_items_format(rate, text), rows[i].shown);
	}
}

static void byte_rates_are_exact_or_refused(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes, period_ns; /* 0: refused */
		const char *shown, *other;
	} rows[] = {
		{ "8bit/s", 1, 1000000000, "8bit/s", "1B/s" },
		{ "1B/s", 1, 1000000000, "8bit/s", "1B/s" },
		{ "8kbit/s", 1, 1000000, "8kbit/s", "1kB/s" },
		{ "8Mbit/s", 1, 1000, "8Mbit/s", "1MB/s" },
		{ "1MB/s", 1, 1000, "8Mbit/s", "1MB/s" },
		{ "100Mbit/s", 1, 80, "100Mbit/s", "12.5MB/s" },
		{ "40Mbit/s", 1, 200, "40Mbit/s", "5MB/s" },
		{ "1Gbit/s", 1, 8, "1Gbit/s", "125MB/s" },
		{ "1000Gbit/s", 125, 1, "1000Gbit/s", "125GB/s" },
		{ "1GB/s", 1, 1, "8Gbit/s", "1GB/s" },
		{ "64KiB/s", 128, 1953125, "64KiB/s", "524288bit/s" },
		{ "1MiB/s", 2048, 1953125, "1MiB/s", "8388608bit/s" },
		{ "1GiB/s", 2097152, 1953125, "1GiB/s", "8589934592bit/s" },
		{ "0.001bit/s", 1, 8000000000000, "0.001bit/s", "" },
		{ "1.5kB/s", 3, 2000000, "12kbit/s", "1.5kB/s" },
		{ "0bit/s", 0, 0, "up to", "" },
		{ "1001Gbit/s", 0, 0, "1000Gbit/s", "" },
		{ "126GB/s", 0, 0, "1000Gbit/s", "" },
		{ "1Mb/s", 0, 0, "MiB/s", "" },
		{ "8Mbps", 0, 0, "Mbit/s", "" },
		{ "1mBps", 0, 0, "Mbit/s", "" },
		{ "8mbit", 0, 0, "Mbit/s", "" },
		{ "8mbit/s", 0, 0, "Mbit/s", "" },
		{ "1Tbit/s", 0, 0, "Gbit/s", "" },
		{ "1Kbit/s", 0, 0, "kbit/s", "" },
		{ "1Kibit/s", 0, 0, "kbit/s", "" },
		{ "8000000", 0, 0, "no unit", "" },
		{ "100M/s", 0, 0, "Mbit/s", "" },
		{ "100Mbit/m", 0, 0, "Mbit/s", "" },
		{ "100 Mbit/s", 0, 0, "no space", "" },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(rows); i++) {
		struct ls_error error = LS_ERROR_INIT;
		struct ls_rate rate = { 0, 0 };
		char text[LS_UNIT_TEXT];
		const int result = ls_rate_bytes_parse(rows[i].text, &rate, &error);

		if (rows[i].bytes == 0) {
			if (strcmp(rows[i].shown, "up to") == 0)
				expect_refusal(&error, rows[i].text, "out of range");
			else
				expect_refusal(&error, rows[i].text, rows[i].shown);
			continue;
		}
		if (result < 0)
			fail_msg("%s", error.text);
		if (rate.units != rows[i].bytes || rate.period_ns != rows[i].period_ns)
			fail_msg("'%s': %llu in %llu ns", rows[i].text,
				 (unsigned long long)rate.units,
				 (unsigned long long)rate.period_ns);
		assert_string_equal(ls_rate_bytes_format(rate, text), rows[i].shown);
		assert_string_equal(ls_rate_bytes_format_other(rate, text), rows[i].other);
	}
}

enum kind { COUNT, SIZE, TIME, NUMBER };

static void counts_sizes_and_times_are_exact_or_refused(void **state)
{
	static const struct {
		enum kind kind;
		const char *text;
		uint64_t value; /* 0: refused */
		const char *shown;
	} rows[] = {
		{ COUNT, "1", 1, "1" },
		{ COUNT, "10k", 10000, "10k" },
		{ COUNT, "10000", 10000, "10k" },
		{ COUNT, "1500", 1500, "1500" },
		{ COUNT, "2M", 2000000, "2M" },
		{ COUNT, "3G", 3000000000, "3G" },
		{ COUNT, "18446744073709551615", UINT64_MAX, "18446744073709551615" },
		{ COUNT, "18446744073709551616", 0, "out of range" },
		{ COUNT, "18446744073709551616k", 0, "out of range" },
		{ COUNT, "0", 0, "out of range" },
		{ COUNT, "1.5k", 0, "whole" },
		{ COUNT, "10K", 0, "unit is unknown" },
		{ COUNT, "10kk", 0, "unit is unknown" },
		{ COUNT, "1e6", 0, "unit is unknown" },
		{ COUNT, "010", 0, "leading zeros" },
		{ COUNT, "10 k", 0, "no space" },
		{ COUNT, "1_000", 0, "unit is unknown" },
		{ COUNT, "", 0, "no digit" },
		{ SIZE, "1B", 1, "1B" },
		{ SIZE, "4MiB", 4194304, "4MiB" },
		{ SIZE, "64KiB", 65536, "64KiB" },
		{ SIZE, "1kB", 1000, "1kB" },
		{ SIZE, "1.5kB", 1500, "1.5kB" },
		{ SIZE, "0.5KiB", 512, "512B" },
		{ SIZE, "12.5MB", 12500000, "12.5MB" },
		{ SIZE, "1514B", 1514, "1514B" },
		{ SIZE, "2GB", 2000000000, "2GB" },
		{ SIZE, "2GiB", 2147483648, "2GiB" },
		{ SIZE, "0B", 0, "out of range" },
		{ SIZE, "1.5B", 0, "whole number of bytes" },
		{ SIZE, "0.0001KiB", 0, "three decimals" },
		{ SIZE, "100", 0, "no unit" },
		{ SIZE, "100k", 0, "unit is unknown" },
		{ SIZE, "100KB", 0, "unit is unknown" },
		{ SIZE, "100b", 0, "unit is unknown" },
		{ SIZE, "100 MB", 0, "no space" },
		{ SIZE, "100Mbit", 0, "unit is unknown" },
		{ SIZE, "17179869184GiB", 0, "out of range" },
		{ TIME, "1ms", 1000000, "1ms" },
		{ TIME, "1000ms", 1000000000, "1s" },
		{ TIME, "60s", 60000000000, "1m" },
		{ TIME, "90s", 90000000000, "90s" },
		{ TIME, "24h", 86400000000000, "1d" },
		{ TIME, "30d", 2592000000000000, "30d" },
		{ TIME, "10", 0, "no unit" },
		{ TIME, "1.5s", 0, "whole" },
		{ TIME, "10sec", 0, "unit is unknown" },
		{ TIME, "10S", 0, "unit is unknown" },
		{ TIME, "10us", 0, "unit is unknown" },
		{ TIME, "1w", 0, "unit is unknown" },
		{ TIME, "1h30m", 0, "unit is unknown" },
		{ TIME, "0s", 0, "out of range" },
		{ TIME, "4000d", 0, "out of range" },
		{ TIME, "10 s", 0, "no space" },
		{ NUMBER, "80", 80, NULL },
		{ NUMBER, "65535", 65535, NULL },
		{ NUMBER, "65536", 0, "from 0 to 65535" },
		{ NUMBER, "080", 0, "leading zeros" },
		{ NUMBER, "8k", 0, "something follows" },
		{ NUMBER, "80.0", 0, "decimals" },
		{ NUMBER, "http", 0, "no digit" },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(rows); i++) {
		struct ls_error error = LS_ERROR_INIT;
		char shown[LS_UNIT_TEXT] = "";
		uint64_t value = 0;

		switch (rows[i].kind) {
		case COUNT:
			if (ls_count_parse(rows[i].text, 1, UINT64_MAX, &value, &error) == 0)
				ls_count_format(value, shown);
			break;
		case SIZE:
			if (ls_size_parse(rows[i].text, UINT64_MAX, &value, &error) == 0)
				ls_size_format(value, shown);
			break;
		case TIME:
			if (ls_time_parse(rows[i].text, 1000000, LS_TIME_MAX_NS, &value, &error) ==
			    0)
				ls_time_format(value, shown);
			break;
		case NUMBER:
			ls_number_parse(rows[i].text, 0, 65535, &value, &error);
			break;
		}
		if (rows[i].value == 0) {
			expect_refusal(&error, rows[i].text, rows[i].shown);
			continue;
		}
		if (value != rows[i].value)
			fail_msg("'%s': %llu (%s)", rows[i].text, (unsigned long long)value,
				 error.text);
		if (rows[i].shown)
			assert_string_equal(shown, rows[i].shown);
	}
}

static void zero_is_a_number_where_the_range_has_it(void **state)
{
	struct ls_error error = LS_ERROR_INIT;
	uint64_t value = 9;

	(void)state;
	assert_int_equal(ls_number_parse("0", 0, 255, &value, &error), 0);
	assert_int_equal(value, 0);
}

/* A random spelling of at most three decimals. */
static void random_number(char *text, size_t size)
{
	static const uint64_t bound[] = { 2, 10, 1000, 5000, 2000000, 4000000000 };
	const uint64_t whole = ((uint64_t)rand() << 31 | (uint64_t)rand()) % bound[rand() % 6];

	if (rand() % 3 == 0)
		snprintf(text, size, "%llu.%03d", (unsigned long long)whole, rand() % 1000);
	else
		snprintf(text, size, "%llu", (unsigned long long)whole);
}

static void whatever_is_read_is_shown_so_that_it_reads_back(void **state)
{
	static const char *const item_units[] = { "/s",	 "k/s", "M/s", "G/s", "/m",  "k/m",
						  "M/m", "G/m", "/h",  "k/h", "M/h", "G/h",
						  "/d",	 "k/d", "M/d", "G/d" };
	static const char *const byte_units[] = { "bit/s", "kbit/s", "Mbit/s", "Gbit/s",
						  "B/s",   "kB/s",   "MB/s",   "GB/s",
						  "KiB/s", "MiB/s",  "GiB/s" };
	static const char *const sizes[] = { "B", "kB", "MB", "GB", "KiB", "MiB", "GiB" };
	const unsigned seed = 3;
	unsigned read = 0;

	(void)state;
	srand(seed);
	for (unsigned i = 0; i < 300000; i++) {
		char number[32], text[64], shown[LS_UNIT_TEXT];
		struct ls_rate rate, again;
		uint64_t size, size_again;

		random_number(number, sizeof(number));
		snprintf(text, sizeof(text), "%s%s", number, item_units[rand() % 16]);
		if (ls_rate_items_parse(text, &rate, NULL) == 0) {
			read++;
			ls_rate_items_format(rate, shown);
			if (ls_rate_items_parse(shown, &again, NULL) < 0 ||
			    !ls_rate_equal(rate, again))
				fail_msg("seed %u: '%s' shown as '%s'", seed, text, shown);
		}
		snprintf(text, sizeof(text), "%s%s", number, byte_units[rand() % 11]);
		if (ls_rate_bytes_parse(text, &rate, NULL) == 0) {
			read++;
			ls_rate_bytes_format(rate, shown);
			if (ls_rate_bytes_parse(shown, &again, NULL) < 0 ||
			    !ls_rate_equal(rate, again))
				fail_msg("seed %u: '%s' shown as '%s'", seed, text, shown);
			ls_rate_bytes_format_other(rate, shown);
			if (*shown && (ls_rate_bytes_parse(shown, &again, NULL) < 0 ||
				       !ls_rate_equal(rate, again)))
				fail_msg("seed %u: '%s' also '%s'", seed, text, shown);
		}
		snprintf(text, sizeof(text), "%s%s", number, sizes[rand() % 7]);
		if (ls_size_parse(text, UINT64_MAX, &size, NULL) == 0) {
			read++;
			ls_size_format(size, shown);
			if (ls_size_parse(shown, UINT64_MAX, &size_again, NULL) < 0 ||
			    size != size_again)
				fail_msg("seed %u: '%s' shown as '%s'", seed, text, shown);
		}
	}
	assert_true(read > 300000);
}

static void a_rate_that_nothing_spells_is_marked(void **state)
{
	char text[LS_UNIT_TEXT];
	struct ls_rate rate;

	(void)state;
	assert_string_equal(ls_rate_items_format(ls_rate_make(1, 7000000000), text), "~0.142/s");
	assert_int_equal(ls_rate_items_parse(text, &rate, NULL), -1);
	ls_rate_bytes_format(ls_rate_make(1, 7000000000), text);
	assert_int_equal(text[0], '~');
}

static void rates_compare_and_scale_exactly(void **state)
{
	const struct ls_rate second = ls_rate_make(1, LS_NS_PER_S);
	const struct ls_rate third = ls_rate_make(1, 3 * LS_NS_PER_S);

	(void)state;
	assert_true(ls_rate_compare(third, second) < 0);
	assert_true(ls_rate_equal(ls_rate_scale(third, 3, 1), second));
	assert_int_equal(ls_rate_over(third, LS_NS_PER_S), 1);
	assert_int_equal(ls_rate_over(ls_rate_make(3, 2 * LS_NS_PER_S), LS_NS_PER_S), 2);
	assert_true(ls_rate_over(ls_rate_make(UINT64_MAX, 1), UINT64_MAX) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(item_rates_are_exact_or_refused),
		cmocka_unit_test(byte_rates_are_exact_or_refused),
		cmocka_unit_test(counts_sizes_and_times_are_exact_or_refused),
		cmocka_unit_test(zero_is_a_number_where_the_range_has_it),
		cmocka_unit_test(whatever_is_read_is_shown_so_that_it_reads_back),
		cmocka_unit_test(a_rate_that_nothing_spells_is_marked),
		cmocka_unit_test(rates_compare_and_scale_exactly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
