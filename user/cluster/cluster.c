/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cluster/cluster.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "user/base/buffer.h"
#include "user/base/cleanup.h"
#include "user/base/conditions.h"
#include "user/base/error.h"
#include "user/base/log.h"
#include "user/base/loop.h"
#include "user/base/metrics.h"
#include "user/base/sha256.h"
#include "user/cluster/bans.h"
#include "user/cluster/sync.h"
#include "user/plane/events.h"
#include "user/plane/hot.h"
#include "user/plane/plane.h"
#include "user/policy/policy.h"
#include "user/policy/print.h"

#define TURN_NS 20000000ULL    /* between two looks at what CPUs tell */
#define TICK_NS 200000000ULL   /* between two looks at the policy */
#define HOLD_NS 10000000000ULL /* what the kernel is told lasts for, if nobody tells it again */
#define IDLE_NS 5000000000ULL  /* a source that was silent for so long is shared no longer */
#define NEWS 512
#define RULES (LS_CLASSES * LS_CLASS_LIMITS)
#define SECOND_NS 1000000000ULL
#define TICKS_PER_NS 64.0

/* A limit in cluster scope. */
struct rule {
	char id[24]; /* the same on every node */
	struct ls_limit_abi abi;
	unsigned class_slot;
	double rate;	/* of a bucket, per second */
	uint64_t limit; /* of a window */
	enum ls_loss loss;
};

/* What belongs to a key. */
struct source {
	const struct rule *rule;
	int entry;
	uint64_t offered, admitted; /* as counted at the last look */
};

struct cluster {
	struct ls_module_host *host;
	int timer;
	struct ls_hot_writer *writer; /* NULL: nothing to share, or nothing attached */
	struct ls_policy *policy;
	uint64_t generation;
	struct rule *rules;
	size_t n_rules;
	struct ls_sync *sync;
	struct ls_cluster_bans *bans;
	char signature[2 * LS_SHA256_BYTES + 1]; /* of the section, to see whether it changed */
	uint64_t rounds, refused;		 /* of keys for which there was no room */
	enum ls_link_state state;
	bool has_said;
	uint64_t lost_ns; /* since when the store does not answer; 0: it does */
	bool is_lost;	  /* and that has been said */
	bool was_up;	  /* since this process began */
	struct ls_hot_news news[NEWS];
};

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

/* ---- rules ---- */

static void name_rule(struct rule *rule, const struct ls_class *class, const struct ls_limit *limit)
{
	uint8_t digest[LS_SHA256_BYTES];
	char text[256];

	/* What makes a limit another one; its rate does not, so that an edit keeps the count. */
	const int length = snprintf(text, sizeof(text), "%s/%s/%d/%u/%u/%d/%d/%" PRIu64,
				    class->name, limit->name, limit->per, limit->per_ipv4,
				    limit->per_ipv6, limit->count, limit->algorithm,
				    limit->window_ns);
	ls_sha256(text, (size_t)length, digest);
	snprintf(rule->id, sizeof(rule->id), "%c%02x%02x%02x%02x%02x%02x%02x%02x:",
		 limit->algorithm == LS_TOKEN_BUCKET ? 'k' : 'w', digest[0], digest[1], digest[2],
		 digest[3], digest[4], digest[5], digest[6], digest[7]);
}

static void read_rules(struct cluster *cluster)
{
	const struct ls_policy *const policy = cluster->policy;

	cluster->n_rules = 0;
	for (unsigned i = 0; i < policy->n_classes; i++) {
		const struct ls_class *const class = &policy->classes[i];
		struct ls_class_abi abi;
		if (!ls_hot_class(cluster->host->plane, i, &abi) || abi.n_limits != class->n_limits)
			continue;
		for (unsigned j = 0; j < class->n_limits; j++) {
			const struct ls_limit *const limit = &class->limits[j];
			struct rule *const rule = &cluster->rules[cluster->n_rules];
			if (!limit->cluster || !(abi.limit[j].flags & LS_LIMIT_F_CLUSTER))
				continue;
			*rule = (struct rule){ .abi = abi.limit[j],
					       .class_slot = abi.slot,
					       .limit = limit->limit,
					       .loss = limit->on_loss };
			if (limit->algorithm == LS_TOKEN_BUCKET)
				rule->rate =
					(double)limit->rate.units / seconds(limit->rate.period_ns);
			name_rule(rule, class, limit);
			cluster->n_rules++;
		}
	}
}

static const struct rule *rule_of_slot(const struct cluster *cluster, uint64_t key)
{
	for (size_t i = 0; i < cluster->n_rules; i++)
		if (cluster->rules[i].abi.slot == (key & (LS_SLOTS - 1)))
			return &cluster->rules[i];
	return NULL;
}

static const struct rule *rule_of_name(const struct cluster *cluster, const char *name)
{
	for (size_t i = 0; i < cluster->n_rules; i++)
		if (strncmp(cluster->rules[i].id, name, strlen(cluster->rules[i].id)) == 0)
			return &cluster->rules[i];
	return NULL;
}

/* ---- sources ---- */

static void drop(struct cluster *cluster, struct ls_sync_key *key)
{
	struct source *const source = key->data;

	if (source->entry >= 0 && cluster->writer)
		ls_hot_release(cluster->writer, source->entry);
	free(source);
	ls_sync_remove(cluster->sync, key);
}

static void drop_all(struct cluster *cluster)
{
	while (cluster->sync && ls_sync_count(cluster->sync) > 0)
		drop(cluster, ls_sync_at(cluster->sync, 0));
}

/* A quota's count that the store has from an earlier process goes on where that one stopped. */
static void resume_window(struct cluster *cluster, struct ls_sync_key *key)
{
	const struct source *const source = key->data;
	const struct ls_hot_info *const info = ls_hot_info(cluster->writer, source->entry);

	key->window.number = info->window_number;
	key->window.own = key->window.reported = info->window_reported;
}

static struct ls_sync_key *share(struct cluster *cluster, const struct rule *rule,
				 const char *subject_text, const struct ls_hot_news *subject,
				 uint64_t table_key)
{
	char name[LS_SYNC_NAME];

	snprintf(name, sizeof(name), "%s%s", rule->id, subject_text);
	struct ls_sync_key *key = ls_sync_find(cluster->sync, name);
	if (key)
		return key;
	struct source *const source = calloc(1, sizeof(*source));
	if (!source)
		return NULL;
	source->rule = rule;
	source->entry = ls_hot_claim(cluster->writer, table_key, subject);
	key = source->entry >= 0 ? ls_sync_add(cluster->sync, name) : NULL;
	if (!key) {
		if (source->entry >= 0)
			ls_hot_release(cluster->writer, source->entry);
		free(source);
		cluster->refused++;
		return NULL;
	}
	const double factor =
		subject->factor > 1 && rule->abi.per == LS_ABI_PER_SOURCE ? subject->factor : 1;
	key->data = source;
	key->loss = rule->loss;
	key->rate = rule->rate * factor;
	key->window_ns = rule->abi.window_ns;
	key->is_sliding = rule->abi.algorithm == LS_ABI_SLIDING_WINDOW;
	key->limit = (double)rule->limit * factor;
	ls_hot_counts(cluster->writer, source->entry, &source->offered, &source->admitted);
	if (key->window_ns)
		resume_window(cluster, key);
	/*
	 * Counted from now on; thinned when the store has said something. What an earlier process left holds until
	 * then.
	 */
	if (!ls_hot_is_held(cluster->writer, source->entry))
		ls_hot_set(cluster->writer, source->entry, LS_HOT_ADMIT_ALL, HOLD_NS, NULL);
	return key;
}

static void read_news(struct cluster *cluster, uint64_t now_ns)
{
	uint64_t lost = 0;
	const size_t n = ls_hot_news(cluster->writer, cluster->news, NEWS, &lost);
	char text[LS_HOT_SUBJECT_TEXT];

	cluster->refused += lost;
	for (size_t i = 0; i < n; i++) {
		const struct ls_hot_news *const news = &cluster->news[i];
		const struct rule *const rule = rule_of_slot(cluster, news->key);
		if (!rule || rule->class_slot != news->class_slot)
			continue; /* of a policy that is no longer in force */
		ls_hot_subject_format(&rule->abi, news, text);
		const struct ls_sync_key *const key = share(cluster, rule, text, news, news->key);
		if (key && key->is_new)
			ls_sync_hurry(cluster->sync, key, now_ns);
	}
}

/* A source that is thinned on another node: known here before its load comes. */
static void learn(void *data, const char *name)
{
	struct cluster *const cluster = data;
	const struct rule *const rule = rule_of_name(cluster, name);
	struct ls_hot_news subject;

	if (!rule || ls_sync_find(cluster->sync, name))
		return;
	const char *const text = name + strlen(rule->id);
	if (!ls_hot_subject_parse(&rule->abi, text, &subject))
		return;
	const uint64_t table_key =
		ls_hot_key(cluster->host->plane, &rule->abi, rule->class_slot, &subject);
	subject.key = table_key;
	subject.class_slot = (uint16_t)rule->class_slot;
	(void)share(cluster, rule, text, &subject, table_key);
}

/* ---- counts in, decisions out ---- */

static void count_window(struct cluster *cluster, struct ls_sync_key *key)
{
	const struct source *const source = key->data;
	struct ls_hot_info *const info = ls_hot_info(cluster->writer, source->entry);
	uint64_t number, own, before;

	ls_hot_window(cluster->host->plane, &source->rule->abi, info->subject.key, &info->subject,
		      source->rule->class_slot, &number, &own, &before);
	/* The kernel keeps the low bits of the number; the store wants all. */
	number |= ls_hot_wall(cluster->host->plane) / key->window_ns & ~(uint64_t)0xffffff;
	if (number != key->window.number) {
		key->before = number == key->window.number + 1 ? key->window
							       : (struct ls_sync_window){ 0 };
		key->window = (struct ls_sync_window){ .number = number };
		/* What came after the last look is in the state while nothing has been counted in the new window. */
		if (key->before.number && before > key->before.own)
			key->before.own = before;
	}
	if (own > key->window.own)
		key->window.own = own;
	info->window_number = key->window.number;
	info->window_reported = key->window.reported;
}

static void count(struct cluster *cluster, struct ls_sync_key *key, uint64_t now_ns)
{
	struct source *const source = key->data;
	uint64_t offered, admitted;

	ls_hot_counts(cluster->writer, source->entry, &offered, &admitted);
	if (key->window_ns)
		count_window(cluster, key);
	ls_sync_offer(cluster->sync, key, now_ns, (double)(admitted - source->admitted),
		      (double)(offered - source->offered));
	source->offered = offered;
	source->admitted = admitted;
}

static void tell_kernel(struct cluster *cluster, struct ls_sync_key *key)
{
	const struct source *const source = key->data;
	const struct ls_decision *const decision = &key->decision;
	struct ls_hot_more more = { .scale = LS_HOT_SCALE_ONE, .number = LS_HOT_NO_WINDOW };
	uint32_t admit = LS_HOT_ADMIT_ALL;
	bool has_more = false;

	if (key->window_ns) {
		has_more = key->ceiling < key->limit;
		more.number = key->window.number & 0xffffff;
		more.ceiling = has_more ? (uint64_t)fmax(key->ceiling, 0) : ~0ULL;
	} else {
		if (decision->admit < 1)
			admit = (uint32_t)(fmax(decision->admit, 0) * 4294967294.0);
		has_more = decision->share < 1;
		more.scale = (uint32_t)fmin(LS_HOT_SCALE_ONE / fmax(decision->share, 1e-9),
					    LS_HOT_SCALE_MAX);
	}
	ls_hot_set(cluster->writer, source->entry, admit, HOLD_NS, has_more ? &more : NULL);
}

static bool is_over(const struct ls_sync_key *key, uint64_t now_ns)
{
	/* A quota is over with its window, if there is nothing left to tell. */
	if (key->window_ns && now_ns - key->offered_ns < 2 * key->window_ns && key->window.own > 0)
		return false;
	return now_ns - key->offered_ns > IDLE_NS;
}

static void count_all(struct cluster *cluster, uint64_t now_ns)
{
	for (size_t i = ls_sync_count(cluster->sync); i-- > 0;) {
		struct ls_sync_key *const key = ls_sync_at(cluster->sync, i);
		count(cluster, key, now_ns);
		if (is_over(key, now_ns))
			drop(cluster, key);
	}
}

static void decide_all(struct cluster *cluster, uint64_t now_ns)
{
	const uint64_t wall_ns = ls_hot_wall(cluster->host->plane);

	for (size_t i = 0; i < ls_sync_count(cluster->sync); i++) {
		struct ls_sync_key *const key = ls_sync_at(cluster->sync, i);
		if (ls_sync_decide(cluster->sync, key, now_ns, wall_ns))
			tell_kernel(cluster, key);
	}
}

/*
 * When a source is worth sharing: a quarter of its fair part of the limit, 0.25 * R / N, in an epoch of a second, and two
 * at least; where that is fewer than two the epoch grows, to 18 minutes at most.
 */
static void set_threshold(const struct rule *rule, double nodes, struct ls_hot_limit *ret)
{
	const double window_s = seconds(rule->abi.window_ns);
	const double per_s =
		(rule->rate > 0 ? rule->rate : (double)rule->limit / window_s) / 4 / fmax(nodes, 1);
	double epoch_s = 1.073741824; /* 2^30 ns */

	ret->epoch_shift = 30;
	while (per_s * epoch_s < 2 && ret->epoch_shift < 40) {
		ret->epoch_shift++;
		epoch_s *= 2;
	}
	ret->report_at = (uint32_t)fmin(fmax(floor(per_s * epoch_s), 2), 1e9);
}

static void set_limits(struct cluster *cluster, const struct ls_sync_facts *facts)
{
	const bool is_lost = facts->state == LS_LINK_LOCAL;
	const bool was_there = facts->nodes >= 1;

	for (size_t i = 0; i < cluster->n_rules; i++) {
		const struct rule *const rule = &cluster->rules[i];
		const double nodes = fmax(facts->nodes, 1);
		struct ls_hot_limit limit = { .scale = LS_HOT_SCALE_ONE };
		const bool is_closed = is_lost && rule->loss == LS_LOSS_CLOSED && was_there;
		const bool is_local = is_lost && rule->loss == LS_LOSS_LOCAL && nodes > 1;
		set_threshold(rule, nodes, &limit);
		if (is_local) {
			limit.scale = (uint32_t)fmin(LS_HOT_SCALE_ONE * nodes, LS_HOT_SCALE_MAX);
			if (rule->abi.window_ns)
				limit.tau = (uint64_t)fmax((double)rule->limit / nodes, 1);
		}
		ls_hot_set_limit(cluster->writer, rule->abi.slot, limit,
				 is_local || is_closed ? HOLD_NS : 0, is_closed);
	}
	ls_hot_enable(cluster->writer, HOLD_NS);
}

/* ---- what others see ---- */

static void write_status(struct cluster *cluster, const struct ls_sync_facts *facts,
			 uint64_t now_ns)
{
	struct ls_hot_status *const status = ls_hot_status(cluster->writer);
	struct ls_store_facts store;
	const uint32_t version = status->version | 1;

	ls_store_facts(ls_sync_store(cluster->sync), &store);
	__atomic_store_n(&status->version, version, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	status->pid = (uint32_t)getpid();
	status->beat_ns = now_ns;
	status->round_ns = facts->round_ns;
	status->took_ns = facts->took_ns;
	status->period_ns = facts->period_ns;
	status->clock_ns = facts->clock_ns;
	status->state = facts->state;
	status->is_up = facts->is_up;
	if (facts->nodes >= 1)
		status->nodes = (uint32_t)facts->nodes;
	status->keys = (uint32_t)ls_sync_count(cluster->sync);
	status->rounds = facts->rounds;
	status->failed = facts->failed;
	status->scripts_sent = store.scripts_sent;
	status->foreign = facts->foreign;
	status->dropped_keys = cluster->refused;
	status->error_ppm = facts->has_error ? facts->error_ppm : LS_HOT_ERROR_UNKNOWN;
	status->shared_bans = ls_cluster_bans_shared(cluster->bans);
	status->lapsed_bans = ls_cluster_bans_lapsed(cluster->bans);
	snprintf(status->mode, sizeof(status->mode), "%s", store.mode);
	snprintf(status->node, sizeof(status->node), "%.63s", ls_sync_id(cluster->sync));
	*strrchr(status->node, '.') = '\0';
	snprintf(status->store, sizeof(status->store), "%.127s", store.server);
	snprintf(status->trouble, sizeof(status->trouble), "%s", facts->trouble);
	for (size_t i = 0; i < LS_HOT_NODES; i++) {
		struct ls_hot_node *const node = &status->node_list[i];
		snprintf(node->name, sizeof(node->name), "%s",
			 i < facts->n_listed ? facts->list[i].name : "");
		node->age_ns = i < facts->n_listed ? facts->list[i].age_ns : 0;
	}
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&status->version, version + 1, __ATOMIC_RELEASE);
}

/* What `status`, the log and the journal say of the store. */
static void say(struct cluster *cluster, const char *action, const char *trouble)
{
	char server[4 * LS_REDIS_TEXT];
	const struct ls_journal_entry entry = {
		.kind = LS_EVENT_CLUSTER,
		.action = action,
		.name = server,
		.text = trouble,
	};
	struct ls_store_facts store;

	ls_store_facts(ls_sync_store(cluster->sync), &store);
	snprintf(server, sizeof(server), "%s", store.server);
	ls_journal_write(cluster->host->plane, &entry);
}

static void tell_people(struct cluster *cluster, const struct ls_sync_facts *facts, uint64_t now_ns)
{
	static const char *const what[LS_LINK_STATES] = {
		[LS_LINK_LOCAL] = "limits in cluster scope are each node's, as on_loss says",
		[LS_LINK_HOLD] = "limits in cluster scope go on with what was last known",
		[LS_LINK_RESUME] = "limits in cluster scope are being learned again",
		[LS_LINK_OK] = "limits in cluster scope go on",
	};
	const char *const trouble = facts->trouble[0] ? facts->trouble : "no answer";
	struct ls_conditions *const conditions = cluster->host->conditions;

	if (facts->is_up && !facts->foreign_now) {
		if (ls_conditions_clear(conditions, "redis")) {
			ls_log(LS_LOG_NOTICE, "cluster: Redis answers%s, %.0f node%s",
			       cluster->was_up ? " again" : "", facts->nodes,
			       facts->nodes == 1 ? "" : "s");
			say(cluster, "up", NULL);
		}
		cluster->lost_ns = 0;
		cluster->is_lost = false;
		cluster->was_up = true;
		return;
	}
	cluster->lost_ns = cluster->lost_ns ? cluster->lost_ns : now_ns;
	/* One late round is not worth a line, nor is the time that the first one takes. */
	if (now_ns - cluster->lost_ns < 3 * facts->period_ns &&
	    (facts->state == LS_LINK_OK || !facts->round_ns) && !facts->foreign_now)
		return;
	if (ls_conditions_set(conditions, "redis", "Redis: %.100s: %s", trouble,
			      what[facts->state]))
		ls_log(LS_LOG_WARNING, "cluster: %s: %s", trouble, what[facts->state]);
	if (!cluster->is_lost)
		say(cluster, facts->is_up ? "foreign key" : "down", trouble);
	cluster->is_lost = true;
}

static void write_metrics(const void *state, struct ls_metrics *metrics)
{
	const struct cluster *const cluster = state;
	struct ls_sync_facts facts;
	struct ls_store_facts store;
	const uint64_t now_ns = ls_loop_monotonic_ns();

	if (!cluster->sync)
		return;
	ls_sync_facts(cluster->sync, &facts);
	ls_store_facts(ls_sync_store(cluster->sync), &store);
	ls_metrics_one(metrics, LS_METRIC_GAUGE, "loadshed_redis_up",
		       "Whether Redis answered the last round.", facts.is_up);
	/* Without an answer ever there is no age: a scrape then has loadshed_redis_up 0 and no such sample. */
	ls_metrics_family(metrics, LS_METRIC_GAUGE, "loadshed_sync_age_seconds",
			  "Time since the last answer of Redis.");
	if (facts.round_ns)
		ls_metrics_number(metrics, seconds(now_ns - facts.round_ns), NULL);
	ls_metrics_family(metrics, LS_METRIC_GAUGE, "loadshed_sync_state",
			  "Which state the sharing of limits is in: 1 for that one.");
	for (int i = 0; i < LS_LINK_STATES; i++)
		ls_metrics_integer(metrics, (int)facts.state == i, "state", ls_link_names[i], NULL);
	ls_metrics_family(metrics, LS_METRIC_COUNTER, "loadshed_sync_rounds_total",
			  "Rounds with Redis, by how they ended.");
	ls_metrics_integer(metrics, facts.rounds, "result", "ok", NULL);
	ls_metrics_integer(metrics, facts.failed, "result", "failed", NULL);
	ls_metrics_family(metrics, LS_METRIC_COUNTER, "loadshed_sync_scripts_sent_total",
			  "Times that Redis had forgotten a script and was sent its text.");
	ls_metrics_integer(metrics, store.scripts_sent, NULL);
	ls_metrics_family(metrics, LS_METRIC_COUNTER, "loadshed_sync_redirects_total",
			  "Calls that a Redis Cluster sent to another of its nodes.");
	ls_metrics_integer(metrics, store.redirects, NULL);
	ls_metrics_one(metrics, LS_METRIC_GAUGE, "loadshed_sync_period_seconds",
		       "Time between two rounds, as the nodes agreed.", seconds(facts.period_ns));
	ls_metrics_one(metrics, LS_METRIC_GAUGE, "loadshed_sync_took_seconds",
		       "Time that the last round took.", seconds(facts.took_ns));
	ls_metrics_one(metrics, LS_METRIC_GAUGE, "loadshed_sync_keys",
		       "Sources that this node shares now.", (double)ls_sync_count(cluster->sync));
	ls_metrics_family(metrics, LS_METRIC_COUNTER, "loadshed_sync_keys_refused_total",
			  "Sources for which the table of shared ones had no room.");
	ls_metrics_integer(metrics, cluster->refused, NULL);
	/* While Redis is away nobody knows. */
	ls_metrics_family(
		metrics, LS_METRIC_GAUGE, "loadshed_sync_error_ratio",
		"Largest error of a shared limit over the last ten seconds, estimated by its debt.");
	if (facts.has_error)
		ls_metrics_number(metrics, (double)facts.error_ppm / 1e6, NULL);
	ls_metrics_one(metrics, LS_METRIC_GAUGE, "loadshed_cluster_nodes",
		       "Nodes that share limits.", facts.nodes);
	ls_metrics_one(metrics, LS_METRIC_GAUGE, "loadshed_redis_clock_offset_seconds",
		       "Clock of Redis minus that of this node.", (double)facts.clock_ns / 1e9);
	ls_metrics_family(metrics, LS_METRIC_COUNTER, "loadshed_cluster_bans_total",
			  "Bans and removals heard of from other nodes, by what became of them.");
	ls_metrics_integer(metrics, ls_cluster_bans_shared(cluster->bans), "result", "taken", NULL);
	ls_metrics_integer(metrics, ls_cluster_bans_lapsed(cluster->bans), "result", "ended", NULL);
}

/* ---- turns ---- */

/* What the store does, as it comes; returns whether a period has passed. */
static bool work(struct cluster *cluster, uint64_t now_ns)
{
	const bool is_period =
		ls_sync_work(cluster->sync, now_ns, ls_hot_wall(cluster->host->plane));
	const uint64_t rounds = ls_sync_rounds(cluster->sync);

	if (is_period)
		count_all(cluster, now_ns);
	if (is_period || rounds != cluster->rounds)
		decide_all(cluster, now_ns);
	cluster->rounds = rounds;
	return is_period;
}

static void end_period(struct cluster *cluster, uint64_t now_ns)
{
	struct ls_sync_facts facts;

	ls_sync_facts(cluster->sync, &facts);
	set_limits(cluster, &facts);
	if (cluster->bans)
		ls_cluster_bans_work(cluster->bans, cluster->sync, cluster->host->plane, now_ns);
	write_status(cluster, &facts, now_ns);
	tell_people(cluster, &facts, now_ns);
}

static void on_store(void *data, uint32_t events)
{
	struct cluster *const cluster = data;
	const uint64_t now_ns = ls_loop_monotonic_ns();

	(void)events;
	if (cluster->sync && cluster->writer && work(cluster, now_ns))
		end_period(cluster, now_ns);
}

static void turn(void *data, uint64_t now_ns)
{
	struct cluster *const cluster = data;

	if (!cluster->sync || !cluster->writer)
		return;
	read_news(cluster, now_ns);
	if (ls_sync_is_due(cluster->sync, now_ns))
		count_all(cluster, now_ns);
	if (work(cluster, now_ns))
		end_period(cluster, now_ns);
}

/* ---- coming and going ---- */

static void stop_sharing(struct cluster *cluster)
{
	drop_all(cluster);
	if (cluster->sync)
		ls_loop_remove(cluster->host->loop, ls_sync_fd(cluster->sync));
	ls_sync_free(cluster->sync);
	cluster->sync = NULL;
	ls_cluster_bans_free(cluster->bans);
	cluster->bans = NULL;
	cluster->signature[0] = '\0';
	if (cluster->timer >= 0)
		(void)ls_loop_timer_set(cluster->host->loop, cluster->timer, 0, 0);
	if (cluster->writer) {
		ls_hot_enable(cluster->writer, 0);
		ls_hot_status(cluster->writer)->pid = 0;
		ls_hot_status(cluster->writer)->is_up = 0;
	}
	(void)ls_conditions_clear(cluster->host->conditions, "redis");
}

/* Entries that an earlier process left: those of a quota say what the store has of it, so they are taken over. */
static void take_over(struct cluster *cluster)
{
	char text[LS_HOT_SUBJECT_TEXT];

	for (int entry = 0; entry < LS_HOT_ENTRIES; entry++) {
		const uint64_t key = ls_hot_key_at(cluster->writer, entry);
		const struct rule *const rule = key ? rule_of_slot(cluster, key) : NULL;
		if (!key)
			continue;
		const struct ls_hot_news subject = ls_hot_info(cluster->writer, entry)->subject;
		if (!rule || rule->class_slot != subject.class_slot) {
			ls_hot_release(cluster->writer, entry);
			continue;
		}
		ls_hot_subject_format(&rule->abi, &subject, text);
		if (!share(cluster, rule, text, &subject, key))
			ls_hot_release(cluster->writer, entry);
	}
}

static void sign(const struct ls_cluster_rule *rule, const struct rule *rules, size_t n_rules,
		 char ret[static 2 * LS_SHA256_BYTES + 1])
{
	struct ls_buffer text = LS_BUFFER_INIT;
	uint8_t digest[LS_SHA256_BYTES];

	ls_print_cluster(&text, rule, LS_SECRETS_KEPT);
	for (size_t i = 0; i < n_rules; i++)
		ls_buffer_format(&text, "%s %u %u %g %" PRIu64 " %d\n", rules[i].id,
				 rules[i].class_slot, rules[i].abi.slot, rules[i].rate,
				 rules[i].limit, rules[i].loss);
	ls_sha256(ls_buffer_string(&text), text.length, digest);
	for (int i = 0; i < LS_SHA256_BYTES; i++)
		snprintf(ret + 2 * i, 3, "%02x", digest[i]);
	ls_buffer_fini(&text);
}

static int start_sharing(struct cluster *cluster, uint64_t now_ns)
{
	const struct ls_cluster_rule *const rule = &cluster->policy->cluster;
	char host[64] = "";

	gethostname(host, sizeof(host) - 1);
	for (char *c = host; *c; c++)
		*c = strchr(" \t{}", *c) ? '-' : *c;
	struct ls_sync_config config = {
		.store = { .urls = rule->redis,
			   .n_urls = rule->n_redis,
			   .password_file = rule->password_file },
		.node = rule->node[0] ? rule->node
			: host[0]     ? host
				      : "node",
		.prefix = rule->key_prefix,
		.period_ns = rule->period_ns,
		.learn = learn,
		.data = cluster,
		.nodes = ls_hot_status(cluster->writer)->nodes,
	};
	if (getrandom(&config.random, sizeof(config.random), 0) != sizeof(config.random))
		config.random = now_ns;
	const int r = ls_sync_new(&config, now_ns, &cluster->sync);
	if (r < 0)
		return r;
	if (rule->share_bans)
		cluster->bans = ls_cluster_bans_new(cluster->host->instance);
	if (cluster->bans)
		ls_cluster_bans_catch_up(cluster->bans, cluster->host->plane,
					 ls_hot_status(cluster->writer)->beat_ns);
	take_over(cluster);
	const int added = ls_loop_add(cluster->host->loop, ls_sync_fd(cluster->sync), EPOLLIN,
				      on_store, cluster);
	return added < 0 ? added
			 : ls_loop_timer_set(cluster->host->loop, cluster->timer, TURN_NS, TURN_NS);
}

/* The policy has changed, or what is attached. */
static void look_again(struct cluster *cluster, uint64_t now_ns)
{
	struct ls_plane *const plane = cluster->host->plane;
	struct ls_error error = LS_ERROR_INIT;
	char signature[2 * LS_SHA256_BYTES + 1];

	ls_policy_free(cluster->policy);
	cluster->policy = NULL;
	cluster->generation = ls_plane_generation(plane);
	if (ls_plane_policy(plane, &cluster->policy, NULL, &error) < 0) {
		ls_log(LS_LOG_ERROR, "cluster: %s", error.text);
		cluster->generation = 0; /* again at the next tick */
		return;
	}
	if (!cluster->policy->cluster.given) {
		stop_sharing(cluster);
		return;
	}
	/* Rules are pointed to by sources: compare before they are exchanged. */
	struct rule *const old = cluster->rules;
	cluster->rules = calloc(RULES, sizeof(*cluster->rules));
	if (!cluster->rules) {
		cluster->rules = old;
		return;
	}
	read_rules(cluster);
	sign(&cluster->policy->cluster, cluster->rules, cluster->n_rules, signature);
	if (strcmp(signature, cluster->signature) == 0) {
		free(cluster->rules);
		cluster->rules = old;
		return;
	}
	stop_sharing(cluster);
	free(old);
	strcpy(cluster->signature, signature);
	const int r = start_sharing(cluster, now_ns);
	if (r < 0)
		ls_log(LS_LOG_ERROR, "cluster: cannot share limits: %s", strerror(-r));
}

static void tick(void *state, uint64_t now_ns)
{
	struct cluster *const cluster = state;
	struct ls_error error = LS_ERROR_INIT;

	if (!cluster->host->plane)
		return;
	if (!cluster->writer && !cluster->has_said &&
	    ls_hot_open(cluster->host->plane, &cluster->writer, &error) < 0) {
		cluster->has_said = true;
		ls_log(LS_LOG_WARNING, "cluster: %s", error.text);
	}
	if (cluster->writer && cluster->generation != ls_plane_generation(cluster->host->plane))
		look_again(cluster, now_ns);
}

static void plane_changed(void *state)
{
	struct cluster *const cluster = state;

	/* The old plane is still open: what it was told may lapse, and its entries are the next one's to take over. */
	if (cluster->sync) {
		while (ls_sync_count(cluster->sync) > 0) {
			struct ls_sync_key *const key = ls_sync_at(cluster->sync, 0);
			free(key->data);
			ls_sync_remove(cluster->sync, key);
		}
	}
	ls_hot_close(cluster->writer);
	cluster->writer = NULL;
	stop_sharing(cluster);
	cluster->generation = 0;
	cluster->has_said = false;
}

static int start(struct ls_module_host *host, void **ret_state, struct ls_error *error)
{
	struct cluster *const cluster = calloc(1, sizeof(*cluster));

	if (!cluster)
		return ls_error_oom(error);
	cluster->host = host;
	cluster->timer = ls_loop_timer_idle(host->loop, turn, cluster);
	if (cluster->timer < 0) {
		const int code = -cluster->timer;
		free(cluster);
		return ls_error_set_errno(error, code, "cannot make a timer");
	}
	*ret_state = cluster;
	return 0;
}

/* Entries stay: they lapse, and whoever comes next goes on with them. */
static void stop(void *state)
{
	struct cluster *const cluster = state;

	plane_changed(cluster);
	ls_loop_timer_stop(cluster->host->loop, cluster->timer);
	ls_policy_free(cluster->policy);
	free(cluster->rules);
	free(cluster);
}

const struct ls_module ls_module_cluster = {
	.name = "cluster",
	.start = start,
	.plane_changed = plane_changed,
	.tick = tick,
	.tick_ns = TICK_NS,
	.metrics = write_metrics,
	.stop = stop,
};
