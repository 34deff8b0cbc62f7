/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/base/metrics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* One of everything, as a module would write it. */
static void write_all(struct ls_metrics *metrics)
{
	ls_metrics_family(metrics, LS_METRIC_COUNTER, "ls_packets_total", "Packets.");
	ls_metrics_integer(metrics, 7, "class", "web", "reason", "limit", NULL);
	ls_metrics_integer(metrics, UINT64_MAX, "class", "", "reason", "deny", NULL);
	ls_metrics_family(metrics, LS_METRIC_COUNTER, "ls_bytes_total", "Bytes.");
	ls_metrics_integer(metrics, 0, NULL);
	ls_metrics_family(metrics, LS_METRIC_INFO, "ls_build_info", "Which build.");
	ls_metrics_integer(metrics, 1, "version", "0.1.0", NULL);
	ls_metrics_one(metrics, LS_METRIC_GAUGE, "ls_age_seconds", "Age.", 0.25);
	assert_true(ls_metrics_end(metrics));
}

static void text_names_counters_as_their_samples(void **state)
{
	_cleanup_metrics_ struct ls_metrics metrics = LS_METRICS_INIT(LS_METRICS_TEXT);

	(void)state;
	write_all(&metrics);
	assert_string_equal(ls_buffer_string(&metrics.text),
			    "# TYPE ls_packets_total counter\n"
			    "# HELP ls_packets_total Packets.\n"
			    "ls_packets_total{class=\"web\",reason=\"limit\"} 7\n"
			    "ls_packets_total{class=\"\",reason=\"deny\"} 18446744073709551615\n"
			    "# TYPE ls_bytes_total counter\n"
			    "# HELP ls_bytes_total Bytes.\n"
			    "ls_bytes_total 0\n"
			    "# TYPE ls_build_info gauge\n"
			    "# HELP ls_build_info Which build.\n"
			    "ls_build_info{version=\"0.1.0\"} 1\n"
			    "# TYPE ls_age_seconds gauge\n"
			    "# HELP ls_age_seconds Age.\n"
			    "ls_age_seconds 0.25\n");
}

static void openmetrics_declares_counters_without_total_and_units_and_the_end(void **state)
{
	_cleanup_metrics_ struct ls_metrics metrics = LS_METRICS_INIT(LS_METRICS_OPENMETRICS);

	(void)state;
	write_all(&metrics);
	assert_string_equal(ls_buffer_string(&metrics.text),
			    "# TYPE ls_packets counter\n"
			    "# HELP ls_packets Packets.\n"
			    "ls_packets_total{class=\"web\",reason=\"limit\"} 7\n"
			    "ls_packets_total{class=\"\",reason=\"deny\"} 18446744073709551615\n"
			    "# TYPE ls_bytes counter\n"
			    "# UNIT ls_bytes bytes\n"
			    "# HELP ls_bytes Bytes.\n"
			    "ls_bytes_total 0\n"
			    "# TYPE ls_build info\n"
			    "# HELP ls_build Which build.\n"
			    "ls_build_info{version=\"0.1.0\"} 1\n"
			    "# TYPE ls_age_seconds gauge\n"
			    "# UNIT ls_age_seconds seconds\n"
			    "# HELP ls_age_seconds Age.\n"
			    "ls_age_seconds 0.25\n"
			    "# EOF\n");
}

static void labels_hold_anything(void **state)
{
	static const struct {
		const char *value, *shown;
	} rows[] = {
		{ "eth0", "eth0" },
		{ "", "" },
		{ "a\\b", "a\\\\b" },
		{ "a\nb", "a\\nb" },
		{ "\"} 1\nfake{x=\"", "\\\"} 1\\nfake{x=\\\"" },
		{ "größe", "größe" },
		{ "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80" },
		{ "a\xff"
		  "b",
		  "a\xef\xbf\xbd"
		  "b" },
		{ "\xc3", "\xef\xbf\xbd" },		    /* cut off */
		{ "\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd" }, /* overlong */
		{ "\xe0\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" }, /* surrogate */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		_cleanup_metrics_ struct ls_metrics metrics = LS_METRICS_INIT(LS_METRICS_TEXT);
		char wanted[128];
		ls_metrics_family(&metrics, LS_METRIC_GAUGE, "ls_x", "X.");
		ls_metrics_integer(&metrics, 1, "l", rows[i].value, NULL);
		snprintf(wanted, sizeof(wanted),
			 "# TYPE ls_x gauge\n# HELP ls_x X.\nls_x{l=\"%s\"} 1\n", rows[i].shown);
		assert_string_equal(ls_buffer_string(&metrics.text), wanted);
	}
}

static void labels_are_cut_between_characters(void **state)
{
	_cleanup_metrics_ struct ls_metrics metrics = LS_METRICS_INIT(LS_METRICS_TEXT);
	char value[400];

	(void)state;
	/* One byte, then characters of two: the bound falls into the middle of one. */
	value[0] = 'x';
	for (size_t i = 1; i + 1 < sizeof(value); i += 2)
		memcpy(value + i, "\xc3\xa4", 2);
	value[sizeof(value) - 1] = '\0';
	ls_metrics_family(&metrics, LS_METRIC_GAUGE, "ls_x", "X.");
	const size_t before = metrics.text.length;
	ls_metrics_integer(&metrics, 1, "l", value, NULL);
	assert_int_equal(metrics.text.length - before,
			 strlen("ls_x{l=\"\"} 1\n") + LS_METRICS_LABEL_BYTES - 1);
}

static void help_is_escaped_by_the_rules_of_its_format(void **state)
{
	_cleanup_metrics_ struct ls_metrics text = LS_METRICS_INIT(LS_METRICS_TEXT);
	_cleanup_metrics_ struct ls_metrics open = LS_METRICS_INIT(LS_METRICS_OPENMETRICS);

	(void)state;
	ls_metrics_family(&text, LS_METRIC_GAUGE, "ls_x", "a \"b\" \\ \n");
	ls_metrics_family(&open, LS_METRIC_GAUGE, "ls_x", "a \"b\" \\ \n");
	assert_string_equal(ls_buffer_string(&text.text),
			    "# TYPE ls_x gauge\n# HELP ls_x a \"b\" \\\\ \\n\n");
	assert_string_equal(ls_buffer_string(&open.text),
			    "# TYPE ls_x gauge\n# HELP ls_x a \\\"b\\\" \\\\ \\n\n");
}

static void numbers_read_back_as_they_were(void **state)
{
	static const struct {
		double value;
		const char *shown;
	} rows[] = {
		{ 0, "0" },
		{ 0.1, "0.1" },
		{ 1.0 / 3, "0.3333333333333333" },
		{ 1780000000.123, "1780000000.123" },
		{ -1.5, "-1.5" },
		{ NAN, "NaN" },
		{ INFINITY, "+Inf" },
		{ -INFINITY, "-Inf" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		_cleanup_metrics_ struct ls_metrics metrics = LS_METRICS_INIT(LS_METRICS_TEXT);
		char wanted[128];
		ls_metrics_one(&metrics, LS_METRIC_GAUGE, "ls_x", "X.", rows[i].value);
		snprintf(wanted, sizeof(wanted), "# TYPE ls_x gauge\n# HELP ls_x X.\nls_x %s\n",
			 rows[i].shown);
		assert_string_equal(ls_buffer_string(&metrics.text), wanted);
	}
}

static void lack_of_memory_is_said_at_the_end(void **state)
{
	_cleanup_metrics_ struct ls_metrics metrics = LS_METRICS_INIT(LS_METRICS_TEXT);

	(void)state;
	metrics.text.failed = true;
	ls_metrics_one(&metrics, LS_METRIC_GAUGE, "ls_x", "X.", 1);
	assert_false(ls_metrics_end(&metrics));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_names_counters_as_their_samples),
		cmocka_unit_test(openmetrics_declares_counters_without_total_and_units_and_the_end),
		cmocka_unit_test(labels_hold_anything),
		cmocka_unit_test(labels_are_cut_between_characters),
		cmocka_unit_test(help_is_escaped_by_the_rules_of_its_format),
		cmocka_unit_test(numbers_read_back_as_they_were),
		cmocka_unit_test(lack_of_memory_is_said_at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
