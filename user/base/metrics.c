/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/base/metrics.h"

/*
 * Sources: prometheus.io/docs/instrumenting/exposition_formats (text format 0.0.4); OpenMetrics 1.0,
 * github.com/OpenObservability/OpenMetrics/blob/main/specification/OpenMetrics.md.
 */

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void ls_metrics_fini(struct ls_metrics *metrics)
{
	ls_buffer_fini(&metrics->text);
	metrics->name = NULL;
}

static bool ends_with(const char *text, const char *tail)
{
	const size_t length = strlen(text), tail_length = strlen(tail);

	return length > tail_length && strcmp(text + length - tail_length, tail) == 0;
}

/* What OpenMetrics takes off a family's name, because it belongs to the sample. */
static const char *suffix_of(enum ls_metric_type type)
{
	return type == LS_METRIC_COUNTER ? "_total" : type == LS_METRIC_INFO ? "_info" : "";
}

/* The text with backslash, line feed and, with `quotes`, quotation mark escaped; at most `max` bytes of it. */
static void add_escaped(struct ls_buffer *to, const char *text, bool quotes, size_t max)
{
	size_t length;

	for (const char *at = text; *at; at += length) {
		length = ls_utf8_character(at);
		if ((size_t)(at - text) + (length ? length : 1) > max)
			return;
		if (!length) {
			length = 1;
			ls_buffer_text(to, LS_UTF8_REPLACEMENT);
		} else if (*at == '\\') {
			ls_buffer_text(to, "\\\\");
		} else if (*at == '\n') {
			ls_buffer_text(to, "\\n");
		} else if (*at == '"' && quotes) {
			ls_buffer_text(to, "\\\"");
		} else {
			ls_buffer_add(to, at, length);
		}
	}
}

void ls_metrics_family(struct ls_metrics *metrics, enum ls_metric_type type, const char *name,
		       const char *help)
{
	static const char *const types[] = { "counter", "gauge", "info" };
	static const char *const units[] = { "seconds", "bytes", "ratio" };
	const bool open = metrics->format == LS_METRICS_OPENMETRICS;
	const char *suffix = suffix_of(type);
	char family[128];

	assert(!*suffix || ends_with(name, suffix));
	assert(type == LS_METRIC_COUNTER || !ends_with(name, "_total"));
	metrics->type = type;
	metrics->name = name;
	const int length = (int)(strlen(name) - (open ? strlen(suffix) : 0));
	snprintf(family, sizeof(family), "%.*s", length, name);
	ls_buffer_format(&metrics->text, "# TYPE %s %s\n", family,
			 !open && type == LS_METRIC_INFO ? "gauge" : types[type]);
	for (size_t i = 0; open && i < sizeof(units) / sizeof(units[0]); i++) {
		char tail[16];
		snprintf(tail, sizeof(tail), "_%s", units[i]);
		if (ends_with(family, tail))
			ls_buffer_format(&metrics->text, "# UNIT %s %s\n", family, units[i]);
	}
	ls_buffer_format(&metrics->text, "# HELP %s ", family);
	add_escaped(&metrics->text, help, open, SIZE_MAX);
	ls_buffer_text(&metrics->text, "\n");
}

static void add_labels(struct ls_metrics *metrics, va_list labels)
{
	struct ls_buffer *text = &metrics->text;
	const char *label;
	bool any = false;

	assert(metrics->name);
	ls_buffer_text(text, metrics->name);
	while ((label = va_arg(labels, const char *)) != NULL) {
		const char *value = va_arg(labels, const char *);
		ls_buffer_format(text, "%s%s=\"", any ? "," : "{", label);
		add_escaped(text, value, true, LS_METRICS_LABEL_BYTES);
		ls_buffer_text(text, "\"");
		any = true;
	}
	ls_buffer_text(text, any ? "} " : " ");
}

void ls_metrics_integer(struct ls_metrics *metrics, uint64_t value, ...)
{
	va_list labels;

	va_start(labels, value);
	add_labels(metrics, labels);
	va_end(labels);
	ls_buffer_format(&metrics->text, "%" PRIu64 "\n", value);
}

/* The shortest of the decimal forms that read back as the same number. */
static void add_number(struct ls_buffer *text, double value)
{
	char digits[32];

	if (isnan(value) || isinf(value)) {
		ls_buffer_text(text, isnan(value) ? "NaN\n" : value > 0 ? "+Inf\n" : "-Inf\n");
		return;
	}
	for (int precision = 6; precision <= 17; precision++) {
		snprintf(digits, sizeof(digits), "%.*g", precision, value);
		if (strtod(digits, NULL) == value)
			break;
	}
	ls_buffer_format(text, "%s\n", digits);
}

void ls_metrics_number(struct ls_metrics *metrics, double value, ...)
{
	va_list labels;

	va_start(labels, value);
	add_labels(metrics, labels);
	va_end(labels);
	add_number(&metrics->text, value);
}

void ls_metrics_one(struct ls_metrics *metrics, enum ls_metric_type type, const char *name,
		    const char *help, double value)
{
	ls_metrics_family(metrics, type, name, help);
	ls_metrics_number(metrics, value, NULL);
}

bool ls_metrics_end(struct ls_metrics *metrics)
{
	if (metrics->format == LS_METRICS_OPENMETRICS)
		ls_buffer_text(&metrics->text, "# EOF\n");
	return !metrics->text.failed;
}

const char *ls_metrics_content_type(enum ls_metrics_format format)
{
	return format == LS_METRICS_OPENMETRICS
		       ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
		       : "text/plain; version=0.0.4; charset=utf-8";
}
