/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/reader.h"

/* The section `cluster`, and what of it a limit may say. */

#include <stdlib.h>
#include <string.h>

#include "user/base/error.h"

#define PERIOD_MIN_NS (50 * 1000000ULL)
#define PERIOD_MAX_NS (10 * LS_NS_PER_S)

static int read_url(struct ls_reader *reader, const struct ls_node *node)
{
	struct ls_cluster_rule *const cluster = &reader->policy->cluster;
	const char *text = NULL, *why;

	if (ls_reader_text(reader, node, "redis", &text) < 0)
		return -1;
	if (cluster->n_redis == LS_CLUSTER_URLS)
		return ls_refuse(reader, node, "redis names more than %d servers", LS_CLUSTER_URLS);
	why = ls_redis_url_parse(text, &cluster->redis[cluster->n_redis]);
	/* The URL is not repeated: a password may be in it. */
	if (why)
		return ls_refuse(reader, node, "the URL of redis %s", why);
	cluster->n_redis++;
	return 0;
}

static int read_urls(struct ls_reader *reader, const struct ls_node *node)
{
	if (node->kind != LS_NODE_LIST)
		return read_url(reader, node);
	if (node->count == 0)
		return ls_refuse(reader, node,
				 "redis is empty; write redis://HOST or a list of them");
	for (const struct ls_node *item = node->first; item; item = item->next)
		if (read_url(reader, item) < 0)
			return -1;
	return 0;
}

/* Text of letters, digits and some more, which goes into keys of the store. */
static int read_plain(struct ls_reader *reader, const struct ls_node *node, const char *what,
		      size_t size, char *ret)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-";
	const char *text = NULL;

	if (ls_reader_text(reader, node, what, &text) < 0)
		return -1;
	if (strlen(text) >= size)
		return ls_refuse(reader, node, "%s is longer than %zu characters", what, size - 1);
	if (text[strspn(text, allowed)] != '\0')
		return ls_refuse(
			reader, node,
			"%s '%.80s' has other characters than letters, digits, '.', '_', ':' and '-'",
			what, text);
	strcpy(ret, text);
	return 0;
}

static int read_password_file(struct ls_reader *reader, const struct ls_node *node)
{
	const char *text = NULL;

	if (ls_reader_text(reader, node, "password_file", &text) < 0)
		return -1;
	if (*text != '/')
		return ls_refuse(
			reader, node,
			"password_file '%.200s' is not an absolute path; the controller reads it "
			"wherever it runs",
			text);
	reader->policy->cluster.password_file = strdup(text);
	return reader->policy->cluster.password_file ? 0 : ls_error_oom(reader->error);
}

static int read_on_loss(struct ls_reader *reader, const struct ls_node *node, enum ls_loss *ret)
{
	unsigned chosen = 0;

	if (ls_reader_word(reader, node, "on_loss", ls_loss_names, LS_LOSS_MAX, &chosen) < 0)
		return -1;
	*ret = chosen;
	return 0;
}

static int read_share_bans(struct ls_reader *reader, const struct ls_node *node)
{
	static const char *const words[] = { "false", "true" };
	unsigned chosen = 0;

	if (ls_reader_word(reader, node, "share_bans", words, LS_LENGTH(words), &chosen) < 0)
		return -1;
	reader->policy->cluster.share_bans = chosen == 1;
	return 0;
}

static int read_period(struct ls_reader *reader, const struct ls_node *node)
{
	uint64_t *const period = &reader->policy->cluster.period_ns;

	if (node->kind == LS_NODE_TEXT && strcmp(node->text, "automatic") == 0)
		return 0;
	return ls_reader_time(reader, node, "period", PERIOD_MIN_NS, PERIOD_MAX_NS, period);
}

static int check_passwords(struct ls_reader *reader, const struct ls_node *node)
{
	const struct ls_cluster_rule *const cluster = &reader->policy->cluster;

	for (size_t i = 0; cluster->password_file && i < cluster->n_redis; i++)
		if (cluster->redis[i].has_password)
			return ls_refuse(
				reader, node,
				"redis has a password and password_file is given, too; leave one out");
	return 0;
}

int ls_read_cluster(struct ls_reader *reader, const struct ls_node *node)
{
	static const char *const keys[] = { "redis",	     "node",	"period",    "key_prefix",
					    "password_file", "on_loss", "share_bans" };
	struct ls_cluster_rule *const cluster = &reader->policy->cluster;
	const struct ls_node *nodes[LS_LENGTH(keys)];

	if (ls_reader_map(reader, node, "'cluster'", keys, LS_LENGTH(keys)) < 0)
		return -1;
	for (size_t i = 0; i < LS_LENGTH(keys); i++)
		nodes[i] = ls_node_get(node, keys[i]);
	if (!nodes[0])
		return ls_refuse(reader, node,
				 "cluster names no Redis; write 'redis: redis://HOST' or a list");
	strcpy(cluster->key_prefix, LS_CLUSTER_PREFIX);
	if (read_urls(reader, nodes[0]) < 0 ||
	    (nodes[1] &&
	     read_plain(reader, nodes[1], "node", sizeof(cluster->node), cluster->node) < 0) ||
	    (nodes[2] && read_period(reader, nodes[2]) < 0) ||
	    (nodes[3] && read_plain(reader, nodes[3], "key_prefix", sizeof(cluster->key_prefix),
				    cluster->key_prefix) < 0) ||
	    (nodes[4] && read_password_file(reader, nodes[4]) < 0) ||
	    (nodes[5] && read_on_loss(reader, nodes[5], &cluster->on_loss) < 0) ||
	    (nodes[6] && read_share_bans(reader, nodes[6]) < 0))
		return -1;
	cluster->given = true;
	return nodes[4] ? check_passwords(reader, nodes[4]) : 0;
}

int ls_read_scope(struct ls_reader *reader, const struct ls_node *node, struct ls_limit *limit)
{
	static const char *const words[] = { "node", "cluster" };
	const struct ls_node *const scope = ls_node_get(node, "scope");
	const struct ls_node *const on_loss = ls_node_get(node, "on_loss");
	const struct ls_cluster_rule *const cluster = &reader->policy->cluster;
	unsigned chosen = 0;

	if (scope && ls_reader_word(reader, scope, "scope", words, LS_LENGTH(words), &chosen) < 0)
		return -1;
	limit->cluster = chosen == 1;
	if (limit->cluster && !cluster->given)
		return ls_refuse(
			reader, scope,
			"'scope: cluster' needs a section 'cluster' that names a Redis, such as "
			"cluster: { redis: redis://HOST }");
	if (limit->cluster && limit->algorithm == LS_SLIDING_LOG)
		return ls_refuse(
			reader, scope,
			"a sliding-log holds the stamps of one node and has no 'scope: cluster'; "
			"use a sliding-window");
	if (on_loss && !limit->cluster)
		return ls_refuse(reader, on_loss->key,
				 "'on_loss' applies to a limit with 'scope: cluster' only");
	limit->on_loss = cluster->on_loss;
	return on_loss ? read_on_loss(reader, on_loss, &limit->on_loss) : 0;
}
