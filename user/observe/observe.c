/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/observe/observe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "page.h"
#include "user/base/buffer.h"
#include "user/base/error.h"
#include "user/base/listen.h"
#include "user/base/log.h"
#include "user/base/loop.h"
#include "user/base/metrics.h"
#include "user/base/module.h"
#include "user/base/facts.h"
#include "user/base/sha256.h"
#include "user/base/units.h"
#include "user/observe/export.h"
#include "user/observe/http.h"
#include "user/observe/live.h"
#include "user/observe/reading.h"

/* A reading so old is shown again: a hundred readers cost what ten do each second. */
#define FRESH_NS 100000000ULL

struct observe {
	struct ls_module_host *host;
	struct ls_http *http;
	struct ls_reading reading;
	struct ls_live live;
	struct ls_error said; /* about what cannot be read: once */
	uint64_t scrapes;
	uint64_t scrape_ns; /* what the last one took */
	char security[512];
};

static void look(struct observe *observe, uint64_t now_ns)
{
	struct ls_error error = LS_ERROR_INIT;
	struct ls_reading *reading = &observe->reading;

	if (ls_reading_take(reading, observe->host->plane, now_ns, &error)) {
		ls_error_clear(&observe->said);
		return;
	}
	if (strcmp(error.text, observe->said.text) != 0)
		ls_log(LS_LOG_ERROR, "metrics: %s", error.text);
	observe->said = error;
}

static void refresh(struct observe *observe)
{
	const uint64_t now_ns = ls_loop_monotonic_ns();

	if (now_ns - observe->reading.read_ns > FRESH_NS)
		look(observe, now_ns);
}

/* ---- answers ---- */

static void export_listener(const struct observe *observe, struct ls_metrics *metrics)
{
	struct ls_http_counts counts;

	ls_http_read(observe->http, &counts);
	ls_metrics_one(metrics, LS_METRIC_GAUGE, "loadshed_http_connections",
		       "Connections of the HTTP listener.", counts.connections);
	ls_metrics_family(metrics, LS_METRIC_COUNTER, "loadshed_http_requests_total",
			  "Requests to the HTTP listener.");
	ls_metrics_integer(metrics, counts.requests, NULL);
	ls_metrics_family(
		metrics, LS_METRIC_COUNTER, "loadshed_http_refused_total",
		"Those of them that were refused, by method, path, host or for lack of room.");
	ls_metrics_integer(metrics, counts.refused, NULL);
	ls_metrics_family(metrics, LS_METRIC_COUNTER, "loadshed_http_expired_total",
			  "Connections that were ended because they took too long.");
	ls_metrics_integer(metrics, counts.expired, NULL);
	ls_metrics_family(metrics, LS_METRIC_COUNTER, "loadshed_scrapes_total",
			  "Readings of these metrics, this one included.");
	ls_metrics_integer(metrics, observe->scrapes, NULL);
	ls_metrics_one(metrics, LS_METRIC_GAUGE, "loadshed_scrape_duration_seconds",
		       "What the reading before this one took.", (double)observe->scrape_ns / 1e9);
}

/*
 * Whether the reader asks for OpenMetrics 1. By name: weights are not compared, since whoever names it can read it, and
 * the answer says what it is.
 */
static enum ls_metrics_format format_for(const char *accept)
{
	return strstr(accept, "application/openmetrics-text") ? LS_METRICS_OPENMETRICS
							      : LS_METRICS_TEXT;
}

static bool answer_metrics(struct observe *observe, const struct ls_http_request *request,
			   struct ls_http_answer *ret)
{
	_cleanup_metrics_ struct ls_metrics metrics = LS_METRICS_INIT(format_for(request->accept));
	const uint64_t start_ns = ls_loop_monotonic_ns();
	const struct ls_facts *facts = observe->host->facts;

	observe->scrapes++;
	refresh(observe);
	ls_export_metrics(&observe->reading, ls_loop_unix_ns(), &metrics);
	ls_export_facts(facts, &metrics);
	if (observe->host->write_metrics)
		observe->host->write_metrics(observe->host, &metrics);
	export_listener(observe, &metrics);
	ls_export_process(facts->start_ns, &metrics);
	ret->type = ls_metrics_content_type(metrics.format);
	if (!ls_metrics_end(&metrics) || observe->reading.verdicts.failed)
		return false;
	ret->bytes = ls_buffer_take(&metrics.text, &ret->length);
	observe->scrape_ns = ls_loop_monotonic_ns() - start_ns;
	return ret->bytes != NULL;
}

static bool take_text(struct ls_http_answer *ret, const char *type, struct ls_buffer *buffer)
{
	ret->type = type;
	ret->bytes = ls_buffer_take(buffer, &ret->length);
	return ret->bytes != NULL;
}

static bool answer_live(struct observe *observe, const struct ls_http_request *request,
			struct ls_http_answer *ret)
{
	_cleanup_buffer_ struct ls_buffer buffer = LS_BUFFER_INIT;
	uint64_t since = 0;

	(void)ls_number_parse(request->since, 0, UINT64_MAX, &since, NULL);
	refresh(observe);
	ls_reading_look_at_now(&observe->reading, observe->host->plane, ls_loop_monotonic_ns());
	ls_live_json(&observe->live, &observe->reading, ls_loop_unix_ns(), since, &buffer);
	return take_text(ret, "application/json", &buffer);
}

static bool answer_policy(struct observe *observe, struct ls_http_answer *ret)
{
	_cleanup_buffer_ struct ls_buffer buffer = LS_BUFFER_INIT;
	struct ls_error error = LS_ERROR_INIT;
	const char *text = ls_reading_policy(&observe->reading, observe->host->plane, &error);

	if (!text)
		ret->status = 503;
	ls_buffer_text(&buffer, text ? text : error.text);
	return take_text(ret, "text/plain; charset=utf-8", &buffer);
}

static bool answer_health(struct observe *observe, struct ls_http_answer *ret)
{
	_cleanup_buffer_ struct ls_buffer buffer = LS_BUFFER_INIT;
	char line[LS_PLANE_NOTE_BYTES];

	refresh(observe);
	const bool is_judged = ls_live_health(&observe->reading, line, sizeof(line));
	ret->status = is_judged ? 200 : 503;
	ls_buffer_format(&buffer, "%s%s\n",
			 !is_judged ? "unprotected: "
			 : line[0]  ? "degraded: "
				    : "ok",
			 line);
	return take_text(ret, "text/plain; charset=utf-8", &buffer);
}

static bool answer_page(struct ls_http_answer *ret)
{
	_cleanup_buffer_ struct ls_buffer buffer = LS_BUFFER_INIT;

	ls_buffer_add(&buffer, ls_page, sizeof(ls_page));
	return take_text(ret, "text/html; charset=utf-8", &buffer);
}

static bool answer(void *data, const struct ls_http_request *request, struct ls_http_answer *ret)
{
	struct observe *observe = data;

	if (strcmp(request->path, "/") == 0)
		return answer_page(ret);
	if (strcmp(request->path, "/metrics") == 0)
		return answer_metrics(observe, request, ret);
	if (strcmp(request->path, "/live.json") == 0)
		return answer_live(observe, request, ret);
	if (strcmp(request->path, "/policy") == 0)
		return answer_policy(observe, ret);
	if (strcmp(request->path, "/health") == 0)
		return answer_health(observe, ret);
	return false;
}

/* ---- the policy of the page's contents ---- */

static void base64(const uint8_t digest[static 32], char text[static 45])
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t length = 0;

	for (size_t i = 0; i < 33; i += 3) {
		const uint32_t group = (uint32_t)digest[i] << 16 | (uint32_t)digest[i + 1] << 8 |
				       (i + 2 < 32 ? digest[i + 2] : 0U);
		for (int shift = 18; shift >= 0; shift -= 6)
			text[length++] = digits[group >> shift & 63];
	}
	text[43] = '='; /* 32 bytes are ten groups and two bytes */
	text[44] = '\0';
}

/* The digest of what stands between <tag> and </tag> of the page. */
static void digest_of(const char *tag, char text[static 45])
{
	char open[16], close[16];
	uint8_t digest[32] = { 0 };

	snprintf(open, sizeof(open), "<%s>", tag);
	snprintf(close, sizeof(close), "</%s>", tag);
	const char *start = memmem(ls_page, sizeof(ls_page), open, strlen(open));
	if (start) {
		start += strlen(open);
		const size_t left = sizeof(ls_page) - (size_t)(start - (const char *)ls_page);
		const char *end = memmem(start, left, close, strlen(close));
		ls_sha256(start, end ? (size_t)(end - start) : left, digest);
	}
	base64(digest, text);
}

/* One page, whose script and style are known by their digests: nothing else runs, and it asks nobody but us. */
static void write_security(struct observe *observe)
{
	char script[45], style[45];

	digest_of("script", script);
	digest_of("style", style);
	snprintf(
		observe->security, sizeof(observe->security),
		"default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; connect-src 'self'; "
		"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		script, style);
}

/* ---- the module ---- */

static void stop(void *state)
{
	struct observe *observe = state;

	if (!observe)
		return;
	ls_http_free(observe->http);
	ls_reading_fini(&observe->reading);
	free(observe);
}

static inline void cleanup_observe(struct observe **observe)
{
	stop(*observe);
}

static int start(struct ls_module_host *host, void **ret_state, struct ls_error *error)
{
	_cleanup_(cleanup_observe) struct observe *observe = NULL;

	/* Nowhere to listen: then nobody looks, and nothing has to be counted. */
	if (!host->listen) {
		*ret_state = NULL;
		return 0;
	}
	observe = calloc(1, sizeof(*observe));
	if (!observe)
		return ls_error_oom(error);
	observe->host = host;
	write_security(observe);
	const struct ls_http_listen request = {
		.at = host->listen,
		.security = observe->security,
		.answer = answer,
		.data = observe,
	};
	const int r = ls_http_new(host->loop, &request, &observe->http, error);
	if (r < 0)
		return r;
	ls_log(LS_LOG_NOTICE, "metrics and live page at http://%s/", host->listen->text);
	*ret_state = TAKE_PTR(observe);
	return 0;
}

static void tick(void *state, uint64_t now_ns)
{
	struct observe *observe = state;

	if (!observe)
		return;
	look(observe, now_ns);
	ls_live_tick(&observe->live, &observe->reading, now_ns, ls_loop_unix_ns());
	ls_http_tick(observe->http, now_ns);
}

const struct ls_module ls_module_observe = {
	.name = "observe",
	.start = start,
	.tick = tick,
	.tick_ns = 1000000000ULL,
	.stop = stop,
};
