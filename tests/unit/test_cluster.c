/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/* The policy's side of sharing, and the arithmetic where it is not a fleet's (tests/sim/cluster.c is that). */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "user/base/buffer.h"
#include "user/base/error.h"
#include "user/cluster/ratio.h"
#include "user/plane/hot.h"
#include "user/policy/blob.h"
#include "user/policy/diff.h"
#include "user/policy/policy.h"
#include "user/policy/print.h"
#include "user/policy/read.h"

static struct ls_policy *read_text(const char *text, struct ls_error *error)
{
	struct ls_policy *policy = NULL;

	(void)ls_policy_read_memory("p.yaml", text, strlen(text), NULL, &policy, error);
	return policy;
}

static void urls(void **state)
{
	static const struct {
		const char *text;
		const char *canonical; /* NULL: refused */
	} rows[] = {
		{ "redis://h", "redis://h:6379" },
		{ "rediss://h:1", "rediss://h:1" },
		{ "redis://[2001:db8::1]:7000/3", "redis://[2001:db8::1]:7000/3" },
		{ "redis://u:p%40ss@h/mymaster", "redis://u:***@h:6379/mymaster" },
		{ "redis://:p@h", "redis://:***@h:6379" },
		{ "redis://u@h", "redis://u@h:6379" },
		{ "unix:/run/r.sock", "unix:/run/r.sock" },
		{ "unix:///run/r.sock", "unix:/run/r.sock" },
		{ "redis://", NULL },
		{ "redis://h:0", NULL },
		{ "redis://h:70000", NULL },
		{ "redis://h:06379", NULL },
		{ "redis://h:1x", NULL },
		{ "redis://u:***@h", NULL },
		{ "redis://u:@h", NULL },
		{ "redis://u:%zz@h", NULL },
		{ "redis://[::1", NULL },
		{ "redis://h/a b", NULL },
		{ "redis://h h", NULL },
		{ "http://h", NULL },
		{ "unix:r.sock", NULL },
		{ "unix:/", NULL },
		{ "", NULL },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ls_redis_url url;
		char text[4 * LS_REDIS_TEXT];
		const char *const why = ls_redis_url_parse(rows[i].text, &url);
		if (!rows[i].canonical != !!why)
			fail_msg("'%s': %s", rows[i].text, why ? why : "accepted");
		if (!why)
			assert_string_equal(ls_redis_url_format(&url, LS_SECRETS_MASKED, text),
					    rows[i].canonical);
	}
}

static void refusals_name_their_place(void **state)
{
	static const struct {
		const char *cluster, *limit, *starts, *contains;
	} rows[] = {
		{ "redis: http://h", "", "p.yaml:2:19", "is not redis://" },
		{ "redis: []", "", "p.yaml:2:19", "empty" },
		{ "redis: redis://h, period: 1ms", "", "p.yaml:2:38", "period" },
		{ "redis: redis://h, key_prefix: 'a{b'", "", "p.yaml:2:42", "key_prefix" },
		{ "redis: redis://h, on_loss: shut", "", "p.yaml:2:39", "local, open, closed" },
		{ "redis: redis://h, password_file: x", "", "p.yaml:2:45", "absolute" },
		{ "redis: 'redis://u:p@h', password_file: /x", "", "p.yaml:2:51", "leave one out" },
		{ "redis: redis://h, shards: 3", "", "p.yaml:2:30", "unknown" },
		{ "redis: redis://h", "scope: node, on_loss: open", "p.yaml:6:", "scope: cluster" },
		{ "redis: redis://h",
		  "algorithm: sliding-log, limit: 5, window: 9s, scope: cluster",
		  "p.yaml:6:", "sliding-window" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[512];
		struct ls_error error = LS_ERROR_INIT;
		const char *const rate = strstr(rows[i].limit, "algorithm") ? "" : "rate: 1/s, ";
		snprintf(
			text, sizeof(text),
			"version: 1\ncluster: { %s }\nclasses:\n  - name: a\n    match: any\n    limits: [{ %s%s }]\n",
			rows[i].cluster, rate, rows[i].limit[0] ? rows[i].limit : "name: x");
		_cleanup_policy_ struct ls_policy *policy = read_text(text, &error);
		if (policy || strncmp(error.text, rows[i].starts, strlen(rows[i].starts)) != 0 ||
		    !strstr(error.text, rows[i].contains))
			fail_msg("'%s' '%s': %s", rows[i].cluster, rows[i].limit,
				 policy ? "accepted" : error.text);
	}
}

static const char example[] =
	"version: 1\n"
	"cluster:\n"
	"  redis: [ 'redis://bob:s%40cret@h1', unix:/run/r.sock ]\n"
	"  node: n-1\n"
	"  period: 300ms\n"
	"  key_prefix: 'shop:'\n"
	"  on_loss: open\n"
	"  share_bans: true\n"
	"classes:\n"
	"  - name: a\n"
	"    match: any\n"
	"    limits:\n"
	"      - { rate: 1k/s, scope: cluster }\n"
	"      - { name: w, algorithm: fixed-window, limit: 9, window: 1d, scope: cluster, on_loss: closed }\n";

static void a_password_is_kept_and_never_shown(void **state)
{
	struct ls_error error = LS_ERROR_INIT;
	_cleanup_policy_ struct ls_policy *policy = read_text(example, &error), *again = NULL,
					  *other = NULL;
	_cleanup_buffer_ struct ls_buffer shown = LS_BUFFER_INIT, blob = LS_BUFFER_INIT,
					  diff = LS_BUFFER_INIT;
	uint8_t digest[32], other_digest[32];
	char changed[sizeof(example)];

	(void)state;
	assert_non_null(policy);
	assert_int_equal(policy->classes[0].limits[0].on_loss, LS_LOSS_OPEN);
	assert_int_equal(policy->classes[0].limits[1].on_loss, LS_LOSS_CLOSED);
	ls_policy_print(policy, false, &shown);
	assert_null(strstr(ls_buffer_string(&shown), "cret"));
	assert_non_null(strstr(ls_buffer_string(&shown), "redis://bob:***@h1:6379"));
	/* What is shown cannot be applied by mistake: the mask is no password. */
	assert_null(read_text(ls_buffer_string(&shown), &error));
	ls_blob_write(policy, NULL, &blob);
	assert_int_equal(ls_blob_read("blob", blob.bytes, blob.length, &again, NULL, &error), 0);
	assert_string_equal(again->cluster.redis[0].password, "s@cret");
	assert_true(ls_policy_equal(policy, again));
	assert_int_equal(again->cluster.period_ns, 300000000);
	assert_true(again->cluster.share_bans);

	/* Another password is another policy, and the difference does not say which. */
	strcpy(changed, example);
	memcpy(strstr(changed, "s%40cret"), "s%40CRET", 8);
	other = read_text(changed, &error);
	assert_non_null(other);
	assert_true(ls_policy_diff(policy, other, &diff));
	assert_null(strstr(ls_buffer_string(&diff), "CRET"));
	assert_int_equal(ls_policy_digest(policy, digest), 0);
	assert_int_equal(ls_policy_digest(other, other_digest), 0);
	assert_memory_not_equal(digest, other_digest, 32);
}

static void subjects_are_the_same_text_on_every_node(void **state)
{
	static const struct ls_limit_abi limits[] = {
		{ .per = LS_ABI_PER_SOURCE, .bits4 = 32, .bits6 = 64 },
		{ .per = LS_ABI_PER_PREFIX, .bits4 = 24, .bits6 = 48 },
		{ .per = LS_ABI_PER_FLOW, .bits4 = 32, .bits6 = 128 },
		{ .per = LS_ABI_PER_DESTINATION, .bits4 = 32, .bits6 = 128 },
		{ .per = LS_ABI_PER_CLASS },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		for (unsigned family = 4; family <= 6; family += 2) {
			const struct ls_hot_news subject = {
				.source_high = family == 6 ? 0x20010db800010002 : 0,
				.source_low = family == 6 ? 77 : 0xcb007107,
				.destination_high = family == 6 ? 0x20010db8ffff0000 : 0,
				.destination_low = 0xc6336401,
				.source_port = 1234,
				.port = 443,
				.protocol = 6,
				.family = (uint8_t)family,
				.has_ports = 1,
				.factor = 32,
			};
			char text[LS_HOT_SUBJECT_TEXT], again[LS_HOT_SUBJECT_TEXT],
				bad[LS_HOT_SUBJECT_TEXT + 1];
			struct ls_hot_news parsed;
			ls_hot_subject_format(&limits[i], &subject, text);
			assert_true(ls_hot_subject_parse(&limits[i], text, &parsed));
			ls_hot_subject_format(&limits[i], &parsed, again);
			assert_string_equal(text, again);
			/* Whatever a foreign hand puts there is no subject. */
			snprintf(bad, sizeof(bad), "%s!", text);
			assert_false(ls_hot_subject_parse(&limits[i], bad, &parsed));
			snprintf(bad, sizeof(bad), "%.*s", (int)strlen(text) - 1, text);
			assert_false(ls_hot_subject_parse(&limits[i], bad, &parsed) &&
				     limits[i].per != LS_ABI_PER_SOURCE);
		}
	}
}

static struct ls_round answered(double took_s, uint64_t epoch)
{
	return (struct ls_round){ .took_s = took_s, .epoch = epoch };
}

static void the_link_goes_through_its_states(void **state)
{
	struct ls_link link;
	struct ls_round round = answered(0.001, 1);

	(void)state;
	ls_link_init(&link, 0.2, 100);
	assert_int_equal(link.state, LS_LINK_LOCAL);
	ls_link_good(&link, 100, &round, 0.5);
	assert_int_equal(link.state, LS_LINK_OK);
	ls_link_tick(&link, 100.5);
	assert_int_equal(link.state, LS_LINK_OK);
	ls_link_tick(&link, 100.7);
	assert_int_equal(link.state, LS_LINK_HOLD);
	ls_link_tick(&link, 110.1);
	assert_int_equal(link.state, LS_LINK_LOCAL);
	ls_link_good(&link, 120, &round, 0.5);
	assert_int_equal(link.state, LS_LINK_RESUME);
	for (double now = 120.2; now < 121; now += 0.2)
		ls_link_good(&link, now, &round, 0.5);
	assert_int_equal(link.state, LS_LINK_RESUME);
	ls_link_good(&link, 121.1, &round, 0.5);
	ls_link_tick(&link, 121.3);
	assert_int_equal(link.state, LS_LINK_OK);
	/* Data that began anew, and a clock that jumped, are a store that knows nothing. */
	round.epoch = 2;
	ls_link_good(&link, 121.4, &round, 0.5);
	assert_int_equal(link.state, LS_LINK_RESUME);
	for (double now = 121.6; now < 123; now += 0.2)
		ls_link_good(&link, now, &round, 0.5);
	assert_int_equal(link.state, LS_LINK_OK);
	round.clock_s = 3600;
	ls_link_good(&link, 123.2, &round, 0.5);
	assert_int_equal(link.state, LS_LINK_RESUME);
}

static void slow_rounds_stretch_the_period_and_failures_back_off(void **state)
{
	struct ls_link link;
	const struct ls_round slow = answered(0.19, 1), fast = answered(0.001, 1);

	(void)state;
	ls_link_init(&link, 0.2, 0);
	for (int i = 0; i < 3; i++)
		ls_link_good(&link, i, &slow, 0.5);
	assert_true(ls_link_period(&link) > 0.29 && ls_link_period(&link) < 0.31);
	for (int i = 0; i < 60; i++)
		ls_link_good(&link, 3 + i * 0.3, &fast, 0.5);
	assert_true(fabs(ls_link_period(&link) - 0.2) < 1e-9);
	double before = 0;
	for (int i = 0; i < 8; i++) {
		ls_link_bad(&link, 100, 0.5);
		assert_true(link.next_s - 100 >= before && link.next_s - 100 <= 0.71);
		before = link.next_s - 100;
	}
	ls_link_bad(&link, 100, 1);
	assert_true(link.next_s - 100 <= 1.06);
	/* What was not sent is not slowed down, however often. */
	ls_link_wait(&link, 100, 1);
	assert_true(link.next_s - 100 > 0.2 && link.next_s - 100 <= 0.26);
}

static void shares_on_loss_sum_to_the_limit(void **state)
{
	static const double demand[] = { 500, 300, 150, 50 };
	struct ls_link link;
	double sum = 0;

	(void)state;
	ls_link_init(&link, 0.2, 0);
	ls_link_good(&link, 0, &(struct ls_round){ .epoch = 1 }, 0.5);
	for (int i = 0; i < 4; i++) {
		struct ls_ratio ratio = { 0 };
		for (int step = 1; step <= 3000; step++) {
			ls_ratio_count(&ratio, step * 0.2, 0.2, demand[i] * 0.05, demand[i] * 0.2);
			ls_ratio_answer(&ratio,
					&(struct ls_link){ .state = LS_LINK_OK,
							   .agreed_s = 0.2,
							   .stretch = 1 },
					step * 0.2, 0.5, 1000 + demand[i] * 0.176);
		}
		struct ls_link lost = link;
		lost.last_good_s = 600;
		ls_link_tick(&lost, 700);
		assert_int_equal(lost.state, LS_LINK_LOCAL);
		sum += ls_ratio_decide(&ratio, &lost, 700, 250, LS_LOSS_LOCAL, 4).share;
		assert_true(ls_ratio_decide(&ratio, &lost, 700, 250, LS_LOSS_OPEN, 4).share == 1);
		assert_true(ls_ratio_decide(&ratio, &lost, 700, 250, LS_LOSS_CLOSED, 4).admit == 0);
	}
	assert_true(fabs(sum - 1) < 0.02);
}

static void what_a_window_has_left_is_not_given_twice(void **state)
{
	double given = 0;

	(void)state;
	/* Four nodes, 700 of 1000 used; by shares of demand that sum to 1. */
	static const double own[] = { 400, 200, 80, 20 }, share[] = { .1, .2, .3, .4 };
	for (int i = 0; i < 4; i++) {
		const struct ls_quota quota = { .limit = 1000,
						.own = own[i],
						.all = 700,
						.own_reported = own[i],
						.share = share[i],
						.nodes = 4 };
		given += ls_quota_ceiling(&quota) - own[i];
	}
	assert_true(given <= 300 && given >= 296);
	const struct ls_quota over = {
		.limit = 1000, .own = 10, .all = 1001, .own_reported = 10, .nodes = 4
	};
	assert_true(ls_quota_ceiling(&over) == 10);
	const struct ls_quota alone = {
		.limit = 1000, .own = 10, .all = 10, .own_reported = 10, .nodes = 1, .share = 1
	};
	assert_true(ls_quota_ceiling(&alone) == 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(urls),
		cmocka_unit_test(refusals_name_their_place),
		cmocka_unit_test(a_password_is_kept_and_never_shown),
		cmocka_unit_test(subjects_are_the_same_text_on_every_node),
		cmocka_unit_test(the_link_goes_through_its_states),
		cmocka_unit_test(slow_rounds_stretch_the_period_and_failures_back_off),
		cmocka_unit_test(shares_on_loss_sum_to_the_limit),
		cmocka_unit_test(what_a_window_has_left_is_not_given_twice),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
