/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/cli.h"

/* `cluster status`: what the controller last wrote into the pinned state, and how old that is. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "loadshed/hot_abi.h"
#include "user/base/output.h"
#include "user/base/units.h"
#include "user/plane/hot.h"
#include "user/plane/plane.h"
#include "user/policy/policy.h"

#define SILENT_NS                                                                                  \
	(5 *                                                                                       \
	 LS_NS_PER_S) /* a controller writes once a period, which is a second at most by itself */
#define GRACE_PERIODS 3

static const char *const states[] = { "local", "hold", "resume", "ok" };

struct picture {
	struct ls_hot_status status;
	bool is_configured, has_status, is_serving;
	uint64_t now_ns;
};

static uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * LS_NS_PER_S + (uint64_t)now.tv_nsec;
}

static uint64_t age(const struct picture *picture, uint64_t then_ns)
{
	return then_ns && picture->now_ns > then_ns ? picture->now_ns - then_ns : 0;
}

static const char *state_of(const struct picture *picture)
{
	if (!picture->is_configured)
		return "off";
	if (!picture->is_serving)
		return "not serving";
	return states[picture->status.state & 3];
}

static json_t *nodes_json(const struct picture *picture)
{
	json_t *const nodes = json_array();

	for (int i = 0; picture->has_status && i < LS_HOT_NODES; i++) {
		const struct ls_hot_node *const node = &picture->status.node_list[i];
		if (!node->name[0])
			break;
		json_array_append_new(nodes, json_pack("{s:s, s:f}", "name", node->name,
						       "age_seconds", (double)node->age_ns / 1e9));
	}
	return nodes;
}

static bool knows_error(const struct picture *picture)
{
	return picture->is_serving && picture->status.round_ns &&
	       picture->status.error_ppm != LS_HOT_ERROR_UNKNOWN;
}

static int print_json(const struct picture *picture)
{
	const struct ls_hot_status *const s = &picture->status;
	const bool has_round = picture->has_status && s->round_ns;

	return ls_cli_print_json(json_pack(
		"{s:s, s:b, s:s, s:s, s:s, s:i, s:o, s:o, s:f, s:f, s:i, s:o, s:f, s:o, s:I, s:I, s:I, s:I, s:I, s:I}",
		"state", state_of(picture), "redis_up", picture->is_serving && s->is_up, "node",
		s->node, "redis", s->store, "mode", s->mode, "nodes", (int)s->nodes, "node_list",
		nodes_json(picture), "last_round_seconds",
		has_round ? json_real((double)age(picture, s->round_ns) / 1e9) : json_null(),
		"round_took_seconds", (double)s->took_ns / 1e9, "period_seconds",
		(double)s->period_ns / 1e9, "keys", (int)s->keys, "error_estimate",
		knows_error(picture) ? json_real((double)s->error_ppm / 1e6) : json_null(),
		"clock_difference_seconds", (double)s->clock_ns / 1e9, "trouble",
		s->trouble[0] ? json_string(s->trouble) : json_null(), "rounds",
		(json_int_t)s->rounds, "rounds_failed", (json_int_t)s->failed, "scripts_sent",
		(json_int_t)s->scripts_sent, "foreign_keys", (json_int_t)s->foreign, "keys_refused",
		(json_int_t)s->dropped_keys, "bans_taken_over", (json_int_t)s->shared_bans));
}

static void print_nodes(const struct picture *picture)
{
	for (int i = 0; i < LS_HOT_NODES; i++) {
		const struct ls_hot_node *const node = &picture->status.node_list[i];
		if (!node->name[0])
			break;
		const double seconds = (double)node->age_ns / 1e9;
		printf("  %-24s last heard %.1f s ago%s\n", node->name, seconds,
		       seconds > GRACE_PERIODS ? "  silent" : "");
	}
}

static int print_table(const struct picture *picture)
{
	const struct ls_hot_status *const s = &picture->status;

	printf("state           %s\n", state_of(picture));
	if (!picture->is_configured) {
		printf("the policy in force has no section 'cluster'\n");
		return ls_cli_flush();
	}
	if (!picture->has_status) {
		printf("nothing was shared yet: 'loadshed serve' does that\n");
		return ls_cli_flush();
	}
	printf("node            %s\nredis           %s, %s%s%s\n", s->node, s->store,
	       picture->is_serving && s->is_up ? "up" : "down", s->mode[0] ? ", " : "", s->mode);
	if (s->round_ns)
		printf("last answer     %.2f s ago, took %.1f ms, period %.0f ms\n",
		       (double)age(picture, s->round_ns) / 1e9, (double)s->took_ns / 1e6,
		       (double)s->period_ns / 1e6);
	printf("keys            %u shared, %" PRIu64 " refused, %" PRIu64 " foreign\n", s->keys,
	       (uint64_t)s->dropped_keys, (uint64_t)s->foreign);
	printf("rounds          %" PRIu64 " answered, %" PRIu64 " failed, script sent %" PRIu64
	       " times\n",
	       (uint64_t)s->rounds, (uint64_t)s->failed, (uint64_t)s->scripts_sent);
	if (knows_error(picture))
		printf("error           at most %.2f %% over 10 s\n", (double)s->error_ppm / 1e4);
	else
		printf("error           unknown: Redis does not say what the other nodes admit\n");
	if (s->round_ns)
		printf("clock           Redis is %+.3f s from this node\n",
		       (double)s->clock_ns / 1e9);
	if (s->trouble[0])
		printf("trouble         %s\n", s->trouble);
	printf("nodes           %u\n", s->nodes);
	print_nodes(picture);
	return ls_cli_flush();
}

int ls_cmd_cluster_status(struct ls_cli *cli)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	_cleanup_(ls_policy_freep) struct ls_policy *policy = NULL;
	struct ls_error error = LS_ERROR_INIT;
	struct picture picture = { .now_ns = monotonic_ns() };
	int r = ls_plane_open(cli->instance, LS_PLANE_READ, &plane, &error);

	if (r == LS_PLANE_E_ABSENT)
		return ls_cli_absent(cli);
	if (r == 0)
		r = ls_plane_policy(plane, &policy, NULL, &error);
	if (r < 0)
		return ls_cli_fail(&error);
	picture.is_configured = policy->cluster.given;
	picture.has_status = ls_hot_read_status(plane, &picture.status);
	picture.is_serving = picture.has_status && picture.status.pid &&
			     age(&picture, picture.status.beat_ns) <
				     SILENT_NS + GRACE_PERIODS * picture.status.period_ns;
	return cli->json ? print_json(&picture) : print_table(&picture);
}
