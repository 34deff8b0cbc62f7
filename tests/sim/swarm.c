/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * A swarm: many controllers in one process, each with its own connection, its own state and the program's own code, against
 * a real Redis and the real script, in real time. Arrivals are synthetic, everything behind them is what runs in `serve`.
 *
 *	swarm URL NODES KEYS SECONDS LOAD [hop]
 *
 * Prints one line of JSON: the largest error over ten seconds, the rounds, and what went wrong.
 */

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "pure/bucket.h"
#include "pure/hot.h"
#include "user/cluster/sync.h"

#define RATE 1000.0
#define TICKS_PER_S (64 * 1000000000ULL)
#define TURN_NS 4000000ULL /* each node is looked at every 4 ms */
#define SECONDS_MAX 600

struct source {
	uint64_t tat;
	uint32_t frac, admit;
	double admitted, offered, owed; /* since the last look; owed: arrivals that are due */
};

struct node {
	struct ls_sync *sync;
	struct source *sources;
	double weight;
	uint64_t looked_ns;
};

static uint64_t seed = 1;

static double uniform(void)
{
	uint64_t z = (seed += 0x9e3779b97f4a7c15ULL);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static bool admits(struct source *source, uint64_t now_ns)
{
	__u64 next = 0;

	source->offered++;
	if (!ls_bucket_take(source->tat, now_ns * 64, TICKS_PER_S / (uint64_t)RATE, TICKS_PER_S,
			    TICKS_PER_S, &next) ||
	    ls_hot_thins(source->admit, &source->frac))
		return false;
	source->tat = next;
	source->admitted++;
	return true;
}

static void hand_over(struct node *node, unsigned n_keys, uint64_t now_ns, uint64_t wall_ns)
{
	for (unsigned k = 0; k < n_keys; k++) {
		struct ls_sync_key *const key = ls_sync_at(node->sync, k);
		struct source *const source = &node->sources[k];
		ls_sync_offer(node->sync, key, now_ns, source->admitted, source->offered);
		source->admitted = source->offered = 0;
		(void)ls_sync_decide(node->sync, key, now_ns, wall_ns);
		source->admit = key->decision.admit >= 1
					? LS_HOT_ADMIT_ALL
					: (uint32_t)(key->decision.admit * 4294967295.0);
	}
}

int main(int argc, char **argv)
{
	static double admitted[SECONDS_MAX], offered[SECONDS_MAX];
	struct ls_redis_url url;

	if (argc < 6 || ls_redis_url_parse(argv[1], &url)) {
		fprintf(stderr, "usage: swarm URL NODES KEYS SECONDS LOAD [hop]\n");
		return 2;
	}
	const unsigned n = (unsigned)atoi(argv[2]), n_keys = (unsigned)atoi(argv[3]);
	const unsigned duration = (unsigned)atoi(argv[4]);
	const double load = atof(argv[5]);
	const bool hops = argc > 6;
	const struct rlimit files = { 16384, 16384 };
	struct node *const nodes = calloc(n, sizeof(*nodes));
	double sum = 0;
	char prefix[32];

	setrlimit(RLIMIT_NOFILE, &files);
	if (!nodes || !n || !n_keys || duration > SECONDS_MAX)
		return 2;
	const uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
	snprintf(prefix, sizeof(prefix), "swarm%x:", (unsigned)start_ns);
	for (unsigned i = 0; i < n; i++) {
		char name[32];
		snprintf(name, sizeof(name), "n%u", i);
		const struct ls_sync_config config = {
			.store = { .urls = &url, .n_urls = 1 },
			.node = name,
			.prefix = prefix,
			.random = start_ns + i,
		};
		nodes[i].sources = calloc(n_keys, sizeof(struct source));
		if (ls_sync_new(&config, start_ns, &nodes[i].sync) < 0 || !nodes[i].sources)
			return 2;
		nodes[i].looked_ns = start_ns + (uint64_t)(uniform() * (double)TURN_NS);
		sum += nodes[i].weight = pow(i + 1, -1.2);
		for (unsigned k = 0; k < n_keys; k++) {
			char key[32];
			snprintf(key, sizeof(key), "k%u", k);
			ls_sync_add(nodes[i].sync, key)->rate = RATE;
			nodes[i].sources[k].frac = (uint32_t)(uniform() * 4294967295.0);
			nodes[i].sources[k].admit = LS_HOT_ADMIT_ALL;
		}
	}
	for (;;) {
		const uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
		const uint64_t wall_ns = clock_ns(CLOCK_REALTIME);
		const uint64_t second = (now_ns - start_ns) / 1000000000;
		bool rested = true;
		if (second >= duration)
			break;
		for (unsigned i = 0; i < n; i++) {
			struct node *const node = &nodes[i];
			const double passed_s = (double)(int64_t)(now_ns - node->looked_ns) / 1e9;
			if (now_ns < node->looked_ns + TURN_NS)
				continue;
			rested = false;
			node->looked_ns = now_ns;
			const double weight = !hops		    ? node->weight / sum
					      : i == second / 5 % n ? 1
								    : 0;
			for (unsigned k = 0; k < n_keys; k++) {
				struct source *const source = &node->sources[k];
				/* Poisson by thinning is not the point here: arrivals with a jitter. */
				source->owed += load * RATE * weight * passed_s * 2 * uniform();
				for (; source->owed >= 1; source->owed--) {
					offered[second]++;
					admitted[second] += admits(source, now_ns);
				}
			}
			if (ls_sync_work(node->sync, now_ns, wall_ns))
				hand_over(node, n_keys, now_ns, wall_ns);
		}
		if (rested)
			nanosleep(&(struct timespec){ .tv_nsec = 500000 }, NULL);
	}
	uint64_t rounds = 0, failed = 0, foreign = 0, period_ns = 0;
	char trouble[192] = "";
	for (unsigned i = 0; i < n; i++) {
		struct ls_sync_facts facts;
		ls_sync_facts(nodes[i].sync, &facts);
		rounds += facts.rounds;
		failed += facts.failed;
		foreign += facts.foreign;
		period_ns = facts.period_ns;
		if (facts.trouble[0])
			snprintf(trouble, sizeof(trouble), "%s", facts.trouble);
	}
	/* Warm for ten seconds; then the worst ten in a row. */
	double worst = 0, all = 0, all_offered = 0;
	for (unsigned s = 10; s < duration; s++) {
		double window = 0;
		all += admitted[s];
		all_offered += offered[s];
		for (unsigned j = s; s + 10 <= duration && j < s + 10; j++)
			window += admitted[j];
		if (s + 10 <= duration)
			worst = fmax(worst,
				     fabs(window / (10 * RATE * n_keys * fmin(load, 1)) - 1));
	}
	printf("{\"nodes\":%u,\"keys\":%u,\"error_10s\":%.5f,\"mean\":%.5f,\"refused\":%.5f,\"rounds\":%llu,\"failed\":%llu,\"foreign\":%llu,\"period_ms\":%llu,\"trouble\":\"%s\",\"admitted\":[",
	       n, n_keys, worst, all / ((duration - 10) * RATE * n_keys), 1 - all / all_offered,
	       (unsigned long long)rounds, (unsigned long long)failed, (unsigned long long)foreign,
	       (unsigned long long)period_ns / 1000000, trouble);
	for (unsigned s = 0; s < duration; s++)
		printf("%s%.0f", s ? "," : "", admitted[s]);
	printf("]}\n");
	for (unsigned i = 0; i < n; i++)
		ls_sync_free(nodes[i].sync);
	return 0;
}
