/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cluster/sync.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS 1000000000ULL
#define HURRY_NS 20000000ULL
#define LIFE_MS 30000 /* of a state in the store: three times the largest debt */
#define ERROR_NS (10 * SECOND_NS)
#define NAMES_MAX 256 /* bytes of a key's name */
#define TEXT_MAX 40   /* of one argument */
#define QUIET_PERIODS 3
#define PERIOD_START_NS 200000000ULL

struct round {
	struct ls_sync *sync;
	unsigned shard;
	struct ls_link link;
	uint64_t sequence;
	bool is_under_way, is_repeat;
	bool has_sources;
	uint64_t hurried_ns;
	/* Those of the round that is under way, by number. */
	struct ls_sync_key **keys;
	size_t n_keys;
};

struct ls_sync {
	struct ls_sync_config config;
	struct ls_store *store;
	char id[96], prefix[40];
	uint64_t random;
	struct ls_sync_key *keys[LS_SYNC_KEYS];
	size_t n_keys;
	struct round rounds[LS_STORE_SHARDS];
	unsigned shards;
	uint64_t agreed_ns;
	uint64_t beat_ns, beat_good_ns, learn_ns[LS_STORE_SHARDS], period_at_ns, error_at_ns;
	unsigned beats;
	double nodes;
	uint64_t now_ns, wall_ns, round_ns, took_ns, n_rounds, n_failed, n_foreign;
	int64_t clock_ns;
	char trouble[192];
	struct ls_sync_facts listed; /* only the list of nodes is used */
};

/* ---- small things ---- */

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

double ls_sync_random(struct ls_sync *sync)
{
	uint64_t z = (sync->random += 0x9e3779b97f4a7c15ULL);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

const char *ls_sync_id(const struct ls_sync *sync)
{
	return sync->id;
}

void ls_sync_key_name(const struct ls_sync *sync, unsigned shard, const char *what, char *ret,
		      size_t size)
{
	snprintf(ret, size, "%s{%s}%s", sync->prefix, ls_store_tag(shard), what);
}

/* FNV-1a: which shard a source is in, the same on every node. */
static unsigned hash_of(const char *name)
{
	uint32_t hash = 2166136261U;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619U;
	return hash ^ hash >> 15;
}

static unsigned shard_of(const struct ls_sync *sync, const struct ls_sync_key *key)
{
	return hash_of(key->name) % sync->shards;
}

static void set_trouble(struct ls_sync *sync, const char *text)
{
	snprintf(sync->trouble, sizeof(sync->trouble), "%.190s", text);
}

/* ---- keys ---- */

struct ls_sync_key *ls_sync_find(struct ls_sync *sync, const char *name)
{
	for (size_t i = 0; i < sync->n_keys; i++)
		if (strcmp(sync->keys[i]->name, name) == 0)
			return sync->keys[i];
	return NULL;
}

struct ls_sync_key *ls_sync_add(struct ls_sync *sync, const char *name)
{
	if (sync->n_keys == LS_SYNC_KEYS || strlen(name) >= LS_SYNC_NAME)
		return NULL;
	struct ls_sync_key *const key = calloc(1, sizeof(*key));
	if (!key)
		return NULL;
	strcpy(key->name, name);
	key->decision = (struct ls_decision){ .admit = 1, .share = 1 };
	key->ceiling = HUGE_VAL;
	key->offered_ns = sync->now_ns;
	key->is_new = true;
	key->ratio.own_at_s = key->ratio.mean_at_s = seconds(sync->now_ns);
	key->debt_low[0] = key->debt_low[1] = HUGE_VAL;
	sync->keys[sync->n_keys++] = key;
	return key;
}

void ls_sync_remove(struct ls_sync *sync, struct ls_sync_key *key)
{
	for (unsigned shard = 0; shard < LS_STORE_SHARDS; shard++)
		for (size_t i = 0; i < sync->rounds[shard].n_keys; i++)
			if (sync->rounds[shard].keys[i] == key)
				sync->rounds[shard].keys[i] = NULL;
	for (size_t i = 0; i < sync->n_keys; i++) {
		if (sync->keys[i] == key) {
			sync->keys[i] = sync->keys[--sync->n_keys];
			free(key);
			return;
		}
	}
}

size_t ls_sync_count(const struct ls_sync *sync)
{
	return sync->n_keys;
}

struct ls_sync_key *ls_sync_at(struct ls_sync *sync, size_t i)
{
	return sync->keys[i];
}

static struct ls_link *link_of(struct ls_sync *sync, const struct ls_sync_key *key)
{
	return &sync->rounds[shard_of(sync, key)].link;
}

void ls_sync_offer(struct ls_sync *sync, struct ls_sync_key *key, uint64_t now_ns, double admitted,
		   double offered)
{
	const struct ls_link *const link = link_of(sync, key);

	/* An outage: what was counted before this period is put aside. */
	if (link->state != LS_LINK_OK && now_ns - key->forgot_ns >= sync->agreed_ns) {
		key->forgot_ns = now_ns;
		ls_ratio_forget(&key->ratio);
	}
	ls_ratio_count(&key->ratio, seconds(now_ns), ls_link_period(link), admitted, offered);
	if (offered > 0)
		key->offered_ns = now_ns;
}

void ls_sync_hurry(struct ls_sync *sync, const struct ls_sync_key *key, uint64_t now_ns)
{
	struct round *const round = &sync->rounds[shard_of(sync, key)];

	if (round->link.failed || now_ns - round->hurried_ns < HURRY_NS)
		return;
	round->hurried_ns = now_ns;
	round->link.next_s = fmin(round->link.next_s, seconds(now_ns));
}

/* ---- decisions ---- */

static double window_share(const struct ls_sync *sync, const struct ls_sync_key *key)
{
	const double demand = fmax(key->ratio.demand, key->ratio.own_demand);

	(void)sync;
	return demand > 0 ? key->ratio.own_demand / demand : 0;
}

static void decide_window(struct ls_sync *sync, struct ls_sync_key *key, const struct ls_link *link,
			  uint64_t wall_ns)
{
	const bool is_lost = link->state == LS_LINK_LOCAL || key->is_foreign;
	const bool is_answered = key->answered_number == key->window.number && key->answered_number;
	const uint64_t left_ns = key->window_ns - wall_ns % key->window_ns;
	const double nodes = fmax(sync->nodes, 1);
	struct ls_quota quota = {
		.limit = key->limit,
		.own = (double)key->window.own,
		.all = is_answered ? key->all : 0,
		.previous = is_answered ? key->all_before : key->all,
		.own_previous = (double)key->before.own,
		.own_reported = is_answered ? (double)key->own_reported : 0,
		.remaining = key->is_sliding ? (double)left_ns / (double)key->window_ns : 0,
		.share = window_share(sync, key),
		.nodes = nodes,
		.random = ls_sync_random(sync),
	};

	if (is_lost && key->loss == LS_LOSS_OPEN)
		key->ceiling = HUGE_VAL;
	else if (is_lost && key->loss == LS_LOSS_CLOSED && link->was_good)
		key->ceiling = quota.own;
	else
		key->ceiling = ls_quota_ceiling(&quota);
}

bool ls_sync_decide(struct ls_sync *sync, struct ls_sync_key *key, uint64_t now_ns,
		    uint64_t wall_ns)
{
	const struct round *const round = &sync->rounds[shard_of(sync, key)];
	struct ls_link link = round->link;

	if (key->is_foreign)
		link.state = LS_LINK_LOCAL;
	if (key->is_new && link.state != LS_LINK_LOCAL)
		return false;
	if (key->window_ns)
		decide_window(sync, key, &link, wall_ns);
	else
		key->decision = ls_ratio_decide(&key->ratio, &link, seconds(now_ns), key->rate,
						key->loss, sync->nodes);
	return true;
}

/* ---- rounds ---- */

/* Words of a call: one block that grows. */
struct words {
	const char **items;
	char *text;
	size_t n, size, used, room;
	bool failed;
};

static void words_add(struct words *words, const char *text)
{
	const size_t length = strlen(text) + 1;

	if (words->n == words->size || words->used + length > words->room) {
		words->failed = true;
		return;
	}
	memcpy(words->text + words->used, text, length);
	words->items[words->n++] = words->text + words->used;
	words->used += length;
}

static void words_number(struct words *words, double value)
{
	char text[TEXT_MAX];

	snprintf(text, sizeof(text), "%.12g", value);
	words_add(words, text);
}

static void words_integer(struct words *words, uint64_t value)
{
	char text[TEXT_MAX];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	words_add(words, text);
}

static bool words_make(struct words *words, size_t n_keys)
{
	words->size = 3 + 6 + 5 * n_keys;
	words->room = words->size * TEXT_MAX + (n_keys + 3) * NAMES_MAX;
	words->items = calloc(words->size, sizeof(*words->items));
	words->text = malloc(words->room);
	return words->items && words->text;
}

static void words_free(struct words *words)
{
	free(words->items);
	free(words->text);
}

/* The store's number of a window that this node calls `number`: by the store's clock, to the nearest. */
static uint64_t store_number(const struct ls_sync *sync, const struct ls_sync_key *key,
			     uint64_t number)
{
	const double offset = (double)sync->clock_ns / (double)key->window_ns;

	return (uint64_t)((int64_t)number + llround(offset));
}

static void add_window(struct ls_sync *sync, struct ls_sync_key *key, struct words *words,
		       const struct round *round)
{
	double admitted, offered;

	ls_ratio_report(&key->ratio, &round->link, seconds(sync->now_ns), 0, &admitted, &offered);
	if (!round->is_repeat) {
		key->sent_before = key->before.number && key->before.own > key->before.reported;
		const struct ls_sync_window *const of = key->sent_before ? &key->before
									 : &key->window;
		key->sent = of->own > of->reported ? of->own - of->reported : 0;
	}
	words_number(words, -(double)key->window_ns / 1e6);
	words_integer(words, key->sent);
	words_number(words, offered);
	words_integer(words,
		      store_number(sync, key,
				   key->sent_before ? key->before.number : key->window.number));
}

static void add_bucket(const struct ls_sync *sync, struct ls_sync_key *key, struct words *words,
		       const struct ls_link *link)
{
	double admitted, offered;

	ls_ratio_report(&key->ratio, link, seconds(sync->now_ns), key->rate, &admitted, &offered);
	words_number(words, key->rate);
	words_number(words, admitted);
	words_number(words, offered);
	words_add(words, "0");
}

static void track_debt(struct ls_sync_key *key, double debt_s)
{
	key->debt_low[0] = fmin(key->debt_low[0], debt_s);
	key->debt_high[0] = fmax(key->debt_high[0], debt_s);
}

static void take_answer(struct ls_sync *sync, struct round *round, struct ls_sync_key *key,
			const struct ls_reply *reply, size_t at)
{
	const int64_t first = ls_reply_integer(ls_reply_at(reply, at), -1);
	const double demand = (double)ls_reply_integer(ls_reply_at(reply, at + 1), 0) / 1000;
	const double now_s = seconds(sync->now_ns);
	char text[192], name[NAMES_MAX];

	if (first < 0) {
		ls_sync_key_name(sync, round->shard, key->name, name, sizeof(name));
		snprintf(
			text, sizeof(text),
			"key '%.100s' holds something that is not loadshed's; remove it or change key_prefix",
			name);
		set_trouble(sync, text);
		sync->n_foreign += !key->is_foreign;
		key->is_foreign = true;
		key->ratio.is_sent = false;
		return;
	}
	key->is_foreign = key->is_new = false;
	if (!key->window_ns) {
		track_debt(key, (double)first / 1e6);
		ls_ratio_answer(&key->ratio, &round->link, now_s, (double)first / 1e6, demand);
		return;
	}
	ls_ratio_answer(&key->ratio, &round->link, now_s, 0, demand);
	struct ls_sync_window *const of = key->sent_before ? &key->before : &key->window;
	of->reported += key->sent;
	if (!key->sent_before) {
		key->all = (double)first;
		key->all_before = (double)ls_reply_integer(ls_reply_at(reply, at + 2), 0);
		key->answered_number = key->window.number;
		key->own_reported = key->window.reported;
	}
	key->sent = 0;
}

static void round_failed(struct ls_sync *sync, struct round *round, const char *why, bool was_sent)
{
	sync->n_failed++;
	set_trouble(sync, why);
	(was_sent ? ls_link_bad : ls_link_wait)(&round->link, seconds(sync->now_ns),
						ls_sync_random(sync));
	ls_link_tick(&round->link, seconds(sync->now_ns));
}

static void learn(struct ls_sync *sync, const struct ls_reply *names)
{
	for (size_t i = 0; sync->config.learn && i < ls_reply_count(names); i++)
		sync->config.learn(sync->config.data, ls_reply_text(ls_reply_at(names, i)));
}

static void on_round(void *data, const struct ls_reply *reply, const char *why, uint64_t took_ns)
{
	struct round *const round = data;
	struct ls_sync *const sync = round->sync;
	const size_t n = ls_reply_count(reply);

	round->is_under_way = false;
	if (!reply || n < 4 + 3 * round->n_keys) {
		/* Nobody knows whether it counted: the next one repeats it. */
		round->is_repeat = true;
		round_failed(sync, round, why ? why : "the script answers something else", true);
		return;
	}
	const int64_t micro = ls_reply_integer(ls_reply_at(reply, 1), 0) * 1000000 +
			      ls_reply_integer(ls_reply_at(reply, 2), 0);
	const int64_t middle_ns = micro * 1000 + (int64_t)took_ns / 2;
	const struct ls_round answered = {
		.took_s = seconds(took_ns),
		.epoch = (uint64_t)ls_reply_integer(ls_reply_at(reply, 0), 0),
		.clock_s = (double)(middle_ns - (int64_t)sync->now_ns) / 1e9,
	};
	sync->clock_ns = middle_ns - (int64_t)sync->wall_ns;
	sync->round_ns = sync->now_ns;
	sync->took_ns = took_ns;
	sync->n_rounds++;
	sync->trouble[0] = '\0';
	ls_link_good(&round->link, seconds(sync->now_ns), &answered, ls_sync_random(sync));
	round->is_repeat = false;
	for (size_t i = 0; i < round->n_keys; i++)
		if (round->keys[i])
			take_answer(sync, round, round->keys[i], reply, 4 + 3 * i);
	if (n > 4 + 3 * round->n_keys)
		learn(sync, ls_reply_at(reply, n - 1));
}

/* Three rounds of silence, and nothing left to say: the store keeps it for as long as that matters. */
static bool is_quiet(const struct ls_sync *sync, const struct ls_sync_key *key)
{
	return !key->is_new && !key->ratio.is_sent &&
	       key->ratio.admitted + key->ratio.offered == 0 &&
	       sync->now_ns - key->offered_ns > QUIET_PERIODS * sync->agreed_ns &&
	       key->window.own == key->window.reported && key->before.own <= key->before.reported;
}

/* The keys of the round: of a repeated one those that are still there, with the same numbers. */
static bool choose_keys(struct ls_sync *sync, struct round *round)
{
	size_t n = 0;

	if (round->is_repeat) {
		for (size_t i = 0; i < round->n_keys; i++)
			if (round->keys[i])
				round->keys[n++] = round->keys[i];
		round->n_keys = n;
		if (n > 0)
			return true;
		round->is_repeat = false;
	}
	if (!round->keys)
		round->keys = calloc(LS_SYNC_KEYS, sizeof(struct ls_sync_key *));
	if (!round->keys)
		return false;
	for (size_t i = 0; i < sync->n_keys; i++)
		if ((sync->shards == 1 || shard_of(sync, sync->keys[i]) == round->shard) &&
		    !is_quiet(sync, sync->keys[i]))
			round->keys[n++] = sync->keys[i];
	round->n_keys = n;
	return n > 0;
}

static void send_round(struct ls_sync *sync, struct round *round)
{
	struct words words = { 0 };
	char name[NAMES_MAX], what[128];
	const double period_us = ls_link_period(&round->link) * 1e6;
	/* A source that is thinned elsewhere is asked for once a second. */
	const bool asks = sync->now_ns - sync->learn_ns[round->shard] >= SECOND_NS;

	if (!round->is_repeat)
		round->sequence++;
	if (words_make(&words, round->n_keys)) {
		snprintf(what, sizeof(what), "s:%s", sync->id);
		ls_sync_key_name(sync, round->shard, what, name, sizeof(name));
		words_add(&words, name);
		ls_sync_key_name(sync, round->shard, "e", name, sizeof(name));
		words_add(&words, name);
		ls_sync_key_name(sync, round->shard, "h", name, sizeof(name));
		words_add(&words, name);
		for (size_t i = 0; i < round->n_keys; i++) {
			ls_sync_key_name(sync, round->shard, round->keys[i]->name, name,
					 sizeof(name));
			words_add(&words, name);
		}
		words_integer(&words, round->sequence);
		words_number(&words, LS_RATIO_FILTER * period_us);
		words_number(&words, LS_RATIO_DEBT_CAP_S * 1e6);
		words_integer(&words, LIFE_MS);
		words_add(&words, asks ? "1" : "0");
		ls_sync_key_name(sync, round->shard, "", name, sizeof(name));
		words_integer(&words, strlen(name));
		for (size_t i = 0; i < round->n_keys; i++) {
			if (round->keys[i]->window_ns)
				add_window(sync, round->keys[i], &words, round);
			else
				add_bucket(sync, round->keys[i], &words, &round->link);
		}
		const struct ls_store_call call = {
			.script = LS_SCRIPT_ROUND,
			.shard = sync->shards == 1 ? 0 : round->shard,
			.n_keys = 3 + round->n_keys,
			.n_words = words.n,
			.words = words.items,
			.timeout_ns = (uint64_t)(period_us * 1000 / 2),
			.answer = on_round,
			.data = round,
		};
		round->is_under_way = true;
		const int r = words.failed ? -ENOMEM
					   : ls_store_call(sync->store, &call, sync->now_ns);
		if (r < 0) {
			round->is_under_way = false;
			round->is_repeat = true;
			round_failed(sync, round, "the store does not answer", false);
		} else if (asks) {
			sync->learn_ns[round->shard] = sync->now_ns;
		}
	}
	words_free(&words);
}

static void work_round(struct ls_sync *sync, struct round *round)
{
	const double now_s = seconds(sync->now_ns);
	const char *why = NULL;

	/* A shard that had no source for a while knows of no silence. */
	if (!round->has_sources) {
		const bool is_up = ls_store_is_ready(sync->store, NULL) &&
				   sync->now_ns - sync->beat_good_ns < 3 * SECOND_NS;
		if (is_up)
			ls_link_join(&round->link, seconds(sync->agreed_ns), now_s);
		else
			ls_link_init(&round->link, seconds(sync->agreed_ns), now_s);
	}
	ls_link_tick(&round->link, now_s);
	round->link.agreed_s = seconds(sync->agreed_ns);
	round->has_sources = choose_keys(sync, round);
	if (!round->has_sources || now_s < round->link.next_s)
		return;
	if (ls_store_is_ready(sync->store, &why))
		send_round(sync, round);
	else
		round_failed(sync, round, why, false);
}

/* Another deployment has other shards: begin anew with what is known. */
static void set_shards(struct ls_sync *sync, unsigned shards)
{
	if (sync->shards == shards)
		return;
	sync->shards = shards;
	for (unsigned i = 0; i < LS_STORE_SHARDS; i++) {
		struct round *const round = &sync->rounds[i];
		round->n_keys = 0;
		round->is_repeat = false;
		round->has_sources = false;
		round->sync = sync;
		round->shard = i;
	}
	for (size_t i = 0; i < sync->n_keys; i++)
		sync->keys[i]->ratio.is_sent = false;
}

/* ---- beats ---- */

static void on_beat(void *data, const struct ls_reply *reply, const char *why, uint64_t took_ns)
{
	struct ls_sync *const sync = data;
	const size_t n = ls_reply_count(reply);

	(void)took_ns;
	if (!reply || n < 4) {
		sync->n_failed++;
		set_trouble(sync, why ? why : "the script answers something else");
		return;
	}
	sync->beat_good_ns = sync->now_ns;
	sync->nodes = (double)ls_reply_integer(ls_reply_at(reply, 0), 1);
	const int64_t period_ms = ls_reply_integer(ls_reply_at(reply, 1), 0);
	if (!sync->config.period_ns && period_ms >= 50 && period_ms <= 10000)
		sync->agreed_ns = (uint64_t)period_ms * 1000000;
	if (!sync->n_keys) {
		const int64_t micro = ls_reply_integer(ls_reply_at(reply, 2), 0) * 1000000 +
				      ls_reply_integer(ls_reply_at(reply, 3), 0);
		sync->clock_ns = micro * 1000 + (int64_t)took_ns / 2 - (int64_t)sync->wall_ns;
		sync->round_ns = sync->now_ns;
		sync->took_ns = took_ns;
		sync->trouble[0] = '\0';
	}
	struct ls_sync_facts *const listed = &sync->listed;
	listed->n_listed = 0;
	for (size_t i = 4; i + 1 < n && listed->n_listed < LS_SYNC_NODES; i += 2) {
		char *const name = listed->list[listed->n_listed].name;
		snprintf(name, sizeof(listed->list[0].name), "%.63s",
			 ls_reply_text(ls_reply_at(reply, i)));
		/* Behind the last dot is what tells processes of one name apart. */
		char *const dot = strrchr(name, '.');
		if (dot)
			*dot = '\0';
		listed->list[listed->n_listed++].age_ns =
			(uint64_t)ls_reply_integer(ls_reply_at(reply, i + 1), 0) * 1000000;
	}
}

static int send_beat(struct ls_sync *sync, bool leaves)
{
	char nodes[NAMES_MAX], period[NAMES_MAX], wanted[TEXT_MAX];
	const double wanted_s =
		sync->config.period_ns
			? seconds(sync->config.period_ns)
			: ls_ratio_period(fmax(sync->nodes, 1), fmax((double)sync->n_keys, 1));

	ls_sync_key_name(sync, LS_STORE_COMMON, "nodes", nodes, sizeof(nodes));
	ls_sync_key_name(sync, LS_STORE_COMMON, "period", period, sizeof(period));
	snprintf(wanted, sizeof(wanted), "%.0f", wanted_s * 1000);
	const char *const words[] = { nodes, period, sync->id, wanted, leaves ? "1" : "0" };
	const struct ls_store_call call = {
		.script = LS_SCRIPT_BEAT,
		.shard = LS_STORE_COMMON,
		.n_keys = 2,
		.n_words = 5,
		.words = words,
		.timeout_ns = SECOND_NS,
		.answer = on_beat,
		.data = sync,
	};
	return ls_store_call(sync->store, &call, sync->now_ns);
}

/* ---- the whole ---- */

static void turn_errors(struct ls_sync *sync)
{
	if (sync->now_ns - sync->error_at_ns < ERROR_NS)
		return;
	sync->error_at_ns = sync->now_ns;
	for (size_t i = 0; i < sync->n_keys; i++) {
		struct ls_sync_key *const key = sync->keys[i];
		key->debt_low[1] = key->debt_low[0];
		key->debt_high[1] = key->debt_high[0];
		key->debt_low[0] = HUGE_VAL;
		key->debt_high[0] = 0;
	}
}

bool ls_sync_work(struct ls_sync *sync, uint64_t now_ns, uint64_t wall_ns)
{
	sync->now_ns = now_ns;
	sync->wall_ns = wall_ns;
	ls_store_work(sync->store, now_ns, ls_sync_random(sync));
	const bool is_ready = ls_store_is_ready(sync->store, NULL);
	if (is_ready)
		set_shards(sync, ls_store_shards(sync->store));
	if (is_ready && now_ns - sync->beat_ns >= SECOND_NS) {
		sync->beat_ns = now_ns;
		(void)send_beat(sync, false);
	}
	for (unsigned i = 0; i < sync->shards; i++)
		if (!sync->rounds[i].is_under_way)
			work_round(sync, &sync->rounds[i]);
		else
			ls_link_tick(&sync->rounds[i].link, seconds(now_ns));
	turn_errors(sync);
	if (now_ns < sync->period_at_ns)
		return false;
	sync->period_at_ns = now_ns + sync->agreed_ns;
	return true;
}

bool ls_sync_is_due(const struct ls_sync *sync, uint64_t now_ns)
{
	for (unsigned i = 0; i < sync->shards; i++)
		if (sync->rounds[i].has_sources && !sync->rounds[i].is_under_way &&
		    seconds(now_ns) >= sync->rounds[i].link.next_s)
			return true;
	return false;
}

uint64_t ls_sync_rounds(const struct ls_sync *sync)
{
	return sync->n_rounds;
}

int ls_sync_fd(const struct ls_sync *sync)
{
	return ls_store_fd(sync->store);
}

struct ls_store *ls_sync_store(struct ls_sync *sync)
{
	return sync->store;
}

void ls_sync_facts(const struct ls_sync *sync, struct ls_sync_facts *ret)
{
	const char *why = NULL;

	*ret = sync->listed;
	ret->state = LS_LINK_OK;
	ret->is_up = ls_store_is_ready(sync->store, &why);
	/* Without a source it is the beats that tell how long the store has been silent. */
	const uint64_t silent_ns = sync->now_ns - sync->beat_good_ns;
	if (!ret->is_up)
		ret->state = sync->beat_good_ns && seconds(silent_ns) < LS_LINK_HOLD_S
				     ? LS_LINK_HOLD
				     : LS_LINK_LOCAL;
	bool is_beat = true;
	for (unsigned i = 0; i < sync->shards; i++) {
		const struct round *const round = &sync->rounds[i];
		if (!round->has_sources)
			continue;
		if (round->link.state < ret->state || is_beat)
			ret->state = round->link.state;
		is_beat = false;
		ret->is_up = ret->is_up && !round->link.failed;
	}
	ret->nodes = sync->nodes;
	ret->period_ns = sync->agreed_ns;
	ret->round_ns = sync->round_ns;
	ret->took_ns = sync->took_ns;
	ret->clock_ns = sync->clock_ns;
	ret->rounds = sync->n_rounds;
	ret->failed = sync->n_failed;
	ret->foreign = sync->n_foreign;
	snprintf(ret->trouble, sizeof(ret->trouble), "%s",
		 sync->trouble[0] ? sync->trouble
		 : ret->is_up	  ? ""
		 : why		  ? why
				  : "");
	ret->has_error = sync->round_ns && ret->is_up && ret->state == LS_LINK_OK;
	for (size_t i = 0; i < sync->n_keys; i++) {
		const struct ls_sync_key *const key = sync->keys[i];
		ret->foreign_now += key->is_foreign;
		const double low = fmin(key->debt_low[0], key->debt_low[1]);
		const double high = fmax(key->debt_high[0], key->debt_high[1]);
		/* admitted(W) = R * W + R * (debt at the end - at the start). */
		if (high > low && (high - low) / seconds(ERROR_NS) * 1e6 > (double)ret->error_ppm)
			ret->error_ppm = (uint64_t)((high - low) / seconds(ERROR_NS) * 1e6);
	}
}

int ls_sync_new(const struct ls_sync_config *config, uint64_t now_ns, struct ls_sync **ret)
{
	struct ls_sync *const sync = calloc(1, sizeof(*sync));

	if (!sync)
		return -ENOMEM;
	sync->config = *config;
	sync->random = config->random;
	sync->nodes = config->nodes;
	sync->agreed_ns = config->period_ns ? config->period_ns : PERIOD_START_NS;
	sync->now_ns = sync->error_at_ns = now_ns;
	snprintf(sync->prefix, sizeof(sync->prefix), "%.31s", config->prefix);
	(void)ls_sync_random(sync);
	snprintf(sync->id, sizeof(sync->id), "%.60s.%08x", config->node,
		 (unsigned)(ls_sync_random(sync) * 4294967295.0));
	set_shards(sync, 1);
	const int r = ls_store_new(&config->store, &sync->store);
	if (r < 0) {
		free(sync);
		return r;
	}
	*ret = sync;
	return 0;
}

void ls_sync_free(struct ls_sync *sync)
{
	if (!sync)
		return;
	if (ls_store_is_ready(sync->store, NULL))
		(void)send_beat(sync, true);
	ls_store_free(sync->store);
	for (size_t i = 0; i < sync->n_keys; i++)
		free(sync->keys[i]);
	for (unsigned i = 0; i < LS_STORE_SHARDS; i++)
		free(sync->rounds[i].keys);
	free(sync);
}
