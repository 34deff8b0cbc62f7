/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * The fleet in one process: 2 to 1000 nodes of the controller's own arithmetic (user/cluster/ratio.c), the kernel's
 * own bucket and thinning (bpf/pure), and a model of the store's script, in steps of one millisecond. One source,
 * since sources do not touch each other. Arrivals are Poisson; the seed is fixed, LS_SEED chooses another.
 *
 * Each scenario has the bounds that it must keep, and the last one must fail them: a loop that is tuned as the theory
 * forbids.
 */

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pure/bucket.h"
#include "pure/hot.h"
#include "user/cluster/ratio.h"

#define RATE 1000.0 /* of the limit, per second */
#define TICK_S 1e-3
#define NODES_MAX 1000
#define SECONDS_MAX 400
#define TICKS_PER_S (64 * 1000000000ULL)

static uint64_t seed = 42;

static uint64_t random_bits(void)
{
	/* splitmix64 */
	uint64_t z = (seed += 0x9e3779b97f4a7c15ULL);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static double uniform(void)
{
	return (double)(random_bits() >> 11) * 0x1p-53;
}

static unsigned poisson(double mean)
{
	double limit = exp(-mean), product = uniform();
	unsigned n = 0;

	if (mean <= 0)
		return 0;
	if (mean > 30) { /* its normal neighbour is close enough */
		const double r = sqrt(-2 * log(1 - uniform())) * cos(2 * M_PI * uniform());
		return (unsigned)fmax(0, mean + sqrt(mean) * r + 0.5);
	}
	for (; product > limit; product *= uniform())
		n++;
	return n;
}

/* ---- the store: what round.lua does for one key ---- */

struct store {
	double tat_s, demand, last_s;
	uint64_t epoch;
	bool is_up;
	double clock_off_s; /* of the Redis that answers now */
	double thinned_s;   /* when demand was last above the limit: nodes ask for that */
};

struct answer {
	double debt_s, demand, clock_s;
	uint64_t epoch;
};

static struct answer store_round(struct store *store, double now_s, double period_s,
				 double admitted, double offered)
{
	const double filter_s = LS_RATIO_FILTER * period_s, now = now_s + store->clock_off_s;

	if (now > store->last_s)
		store->demand *= exp(-(now - store->last_s) / filter_s);
	else
		store->tat_s -=
			store->last_s - now; /* the clock went back: the debt goes with it */
	store->demand += offered / filter_s;
	store->tat_s = fmax(store->tat_s, now) + admitted / RATE;
	store->tat_s = fmin(store->tat_s, now + LS_RATIO_DEBT_CAP_S);
	store->last_s = now;
	if (store->demand > RATE)
		store->thinned_s = now_s;
	return (struct answer){ store->tat_s - now, store->demand, store->clock_off_s,
				store->epoch };
}

/* ---- a node ---- */

struct node {
	struct ls_ratio ratio;
	struct ls_link link;
	bool is_alive, is_sent, is_answered, is_lost;
	double sent_s, store_s, back_s, asked_s, counted_s;
	struct answer answer;
	uint64_t tat;
	uint32_t frac, admit;
	uint64_t price;
	double report_epoch_s;
	unsigned report_count;
	bool is_shared;
	double learned_s;
	double admitted, offered; /* since they were last handed to the controller */
	double weight;
};

struct tuning {
	double period_s, rtt_s;
	double gain, target; /* multiples of the right ones; 1 and 1 unless a test wants it wrong */
};

struct fleet {
	struct node *nodes;
	unsigned n, n_alive;
	struct store store;
	struct tuning tuning;
	double burst_s;
	uint64_t central_tat; /* of the one bucket that a single node would have */
};

static void node_decide(const struct fleet *fleet, struct node *node, double now_s)
{
	struct ls_ratio *ratio = &node->ratio;

	/* The tester's test: the same controller with a correction as it must not be. */
	if (ratio->is_known && (fleet->tuning.gain != 1 || fleet->tuning.target != 1)) {
		const double t = ls_link_period(&node->link);
		ratio->u =
			1 + fleet->tuning.gain *
				    (fleet->tuning.target * LS_RATIO_TARGET * t - ratio->debt_s) /
				    (LS_RATIO_HORIZON * t);
		ratio->u = fmin(fmax(ratio->u, 0), LS_RATIO_U_MAX);
	}
	const struct ls_decision decision =
		ls_ratio_decide(ratio, &node->link, now_s, RATE, LS_LOSS_LOCAL, fleet->n_alive);
	node->admit = decision.admit >= 1 ? LS_HOT_ADMIT_ALL
					  : (uint32_t)(decision.admit * 4294967295.0);
	node->price = (uint64_t)((double)TICKS_PER_S / RATE / decision.share);
}

static void node_count(struct fleet *fleet, struct node *node, double now_s)
{
	ls_ratio_count(&node->ratio, now_s, ls_link_period(&node->link), node->admitted,
		       node->offered);
	node->admitted = node->offered = 0;
	node->counted_s = now_s;
	(void)fleet;
}

static void node_send(struct fleet *fleet, struct node *node, double now_s)
{
	node_count(fleet, node, now_s);
	node->is_sent = true;
	node->is_answered = node->is_lost = false;
	node->sent_s = now_s;
	node->store_s = now_s + fleet->tuning.rtt_s / 2;
	node->back_s = now_s + fleet->tuning.rtt_s;
}

/* The controller's part of a tick. */
static void node_sync(struct fleet *fleet, struct node *node, double now_s)
{
	const double period_s = ls_link_period(&node->link);

	if (!node->is_shared && fleet->store.is_up)
		node->link.last_good_s = now_s; /* a beat a second says that the store answers */
	ls_link_tick(&node->link, now_s);
	if (node->is_sent && !node->is_answered && now_s >= node->store_s) {
		double admitted, offered;
		if (fleet->store.is_up) {
			ls_ratio_report(&node->ratio, &node->link, now_s, RATE, &admitted,
					&offered);
			node->answer =
				store_round(&fleet->store, now_s, period_s, admitted, offered);
			node->is_answered = true;
		} else {
			node->is_lost = true;
		}
	}
	if (node->is_sent && node->is_answered && now_s >= node->back_s) {
		node->is_sent = false;
		ls_link_good(&node->link, now_s,
			     &(struct ls_round){ .took_s = now_s - node->sent_s,
						 .epoch = node->answer.epoch,
						 .clock_s = node->answer.clock_s },
			     uniform());
		ls_ratio_answer(&node->ratio, &node->link, now_s, node->answer.debt_s,
				node->answer.demand);
		node_decide(fleet, node, now_s);
	} else if (node->is_sent && node->is_lost && now_s >= node->sent_s + period_s / 2) {
		node->is_sent = false;
		ls_link_bad(&node->link, now_s, uniform());
	}
	if (node->link.state != LS_LINK_OK && now_s >= node->counted_s + period_s) {
		/* An outage: only the last period counts, and decisions go on without answers. */
		ls_ratio_forget(&node->ratio);
		node_count(fleet, node, now_s);
		node_decide(fleet, node, now_s);
	}
	/* Once a second each node asks which sources are thinned anywhere. */
	if (!node->is_shared && now_s >= node->learned_s + 1) {
		node->learned_s = now_s;
		node->is_shared = fleet->store.is_up && fleet->store.thinned_s > now_s - 3 &&
				  fleet->store.thinned_s > 0;
	}
	if (!node->is_sent && now_s >= node->link.next_s && node->is_shared)
		node_send(fleet, node, now_s);
}

/* One packet, as the kernel judges it. */
static bool node_admits(const struct fleet *fleet, struct node *node, double now_s)
{
	const uint64_t now = (uint64_t)((now_s + 100) * (double)TICKS_PER_S);
	const uint64_t tau = (uint64_t)(fleet->burst_s * (double)TICKS_PER_S);
	__u64 next = 0;

	node->offered++;
	/* Not shared yet: noticed by its count in an epoch of about a second, and told at once. */
	if (!node->is_shared) {
		if (now_s - node->report_epoch_s > 1) {
			node->report_epoch_s = now_s;
			node->report_count = 0;
		}
		node->report_count++;
		if (node->report_count >= fmax(2, 0.25 * RATE / fleet->n) &&
		    now_s >= node->asked_s + 0.02) {
			node->is_shared = true;
			node->link.next_s = node->asked_s = now_s;
		}
	}
	if (!ls_bucket_take(node->tat, now, node->price, tau, tau, &next))
		return false;
	if (ls_hot_thins(node->admit, &node->frac))
		return false;
	node->tat = next;
	node->admitted++;
	return true;
}

/* What all nodes would admit if they were one. */
static bool central_admits(struct fleet *fleet, double now_s)
{
	const uint64_t now = (uint64_t)((now_s + 100) * (double)TICKS_PER_S);
	const uint64_t tau = (uint64_t)(fleet->burst_s * (double)TICKS_PER_S);
	__u64 next = 0;

	if (!ls_bucket_take(fleet->central_tat, now, TICKS_PER_S / (uint64_t)RATE, tau, tau, &next))
		return false;
	fleet->central_tat = next;
	return true;
}

/* ---- scenarios ---- */

struct scenario {
	const char *name;
	double seconds, warm_s; /* measured from warm_s on */
	double load;		/* times the limit */
	void (*shape)(struct fleet *fleet, double now_s, double *load);
	/* Bounds; 0: not asked. In parts of 1. */
	double error_10s, error_60s, error_1s_mean, error_1s_worst, false_drops, settle_s, excess_s;
	bool must_fail;
	struct tuning tuning;
	unsigned n_min, n_max;
};

static void zipf(struct fleet *fleet, double exponent)
{
	double sum = 0;

	for (unsigned i = 0; i < fleet->n; i++)
		sum += fleet->nodes[i].weight = pow(i + 1, -exponent);
	for (unsigned i = 0; i < fleet->n; i++)
		fleet->nodes[i].weight /= sum;
}

static void shape_steady(struct fleet *fleet, double now_s, double *load)
{
	(void)load;
	if (now_s == 0)
		zipf(fleet, 1.2);
}

static void shape_hop(struct fleet *fleet, double now_s, double *load)
{
	const unsigned at = (unsigned)(now_s / 5) * 7919 % fleet->n;

	(void)load;
	for (unsigned i = 0; i < fleet->n; i++)
		fleet->nodes[i].weight = i == at;
}

static void shape_on_off(struct fleet *fleet, double now_s, double *load)
{
	shape_steady(fleet, now_s, load);
	if ((unsigned)(now_s / 3) % 2)
		*load = 0;
}

static void shape_reshuffle(struct fleet *fleet, double now_s, double *load)
{
	static double last_s;
	double sum = 0;

	(void)load;
	if (now_s != 0 && now_s < last_s + 2)
		return;
	last_s = now_s;
	for (unsigned i = 0; i < fleet->n; i++)
		sum += fleet->nodes[i].weight = pow(uniform(), 6);
	for (unsigned i = 0; i < fleet->n; i++)
		fleet->nodes[i].weight /= sum;
}

/* A fifth of the nodes, not the busiest, leaves at 20 s with its load and comes back at 40 s, knowing nothing. */
static void shape_churn(struct fleet *fleet, double now_s, double *load)
{
	const bool leaves = now_s >= 20 && now_s < 40;

	shape_steady(fleet, now_s, load);
	fleet->n_alive = 0;
	for (unsigned i = 0; i < fleet->n; i++) {
		struct node *node = &fleet->nodes[i];
		const bool is_alive = !leaves || i % 5 != 3;
		if (is_alive && !node->is_alive) {
			const double weight = node->weight;
			memset(node, 0, sizeof(*node));
			node->weight = weight;
			ls_link_join(&node->link, fleet->tuning.period_s, now_s);
			node_decide(fleet, node, now_s);
		}
		node->is_alive = is_alive;
		fleet->n_alive += is_alive;
	}
}

static void shape_outage(struct fleet *fleet, double now_s, double *load)
{
	shape_steady(fleet, now_s, load);
	fleet->store.is_up = now_s < 15 || now_s >= 25;
}

/* A fail-over: no answer for three seconds, and the debt is as it was. */
static void shape_fail_over(struct fleet *fleet, double now_s, double *load)
{
	shape_steady(fleet, now_s, load);
	fleet->store.is_up = now_s < 15 || now_s >= 18;
}

/* Connections break as soon as they are made, but for a moment now and then. */
static void shape_broken(struct fleet *fleet, double now_s, double *load)
{
	shape_steady(fleet, now_s, load);
	fleet->store.is_up = now_s < 15 || now_s >= 19 || fmod(now_s, 1) < 0.2;
}

/* Away for a minute, so that nodes go by their shares. */
static void shape_long_outage(struct fleet *fleet, double now_s, double *load)
{
	shape_steady(fleet, now_s, load);
	fleet->store.is_up = now_s < 15;
}

static void shape_restart_empty(struct fleet *fleet, double now_s, double *load)
{
	static bool was_up;

	shape_outage(fleet, now_s, load);
	if (fleet->store.is_up && !was_up && now_s > 0)
		fleet->store = (struct store){ .epoch = fleet->store.epoch + 1, .is_up = true };
	was_up = fleet->store.is_up;
}

/* A replica whose clock is an hour off takes over. */
static void shape_clock_jump(struct fleet *fleet, double now_s, double *load)
{
	shape_steady(fleet, now_s, load);
	fleet->store.clock_off_s = now_s < 20 ? 0 : 3600;
}

static void shape_clock_back(struct fleet *fleet, double now_s, double *load)
{
	shape_steady(fleet, now_s, load);
	fleet->store.clock_off_s = now_s < 20 ? 0 : -2;
}

static void shape_step(struct fleet *fleet, double now_s, double *load)
{
	shape_steady(fleet, now_s, load);
	if (now_s < 10)
		*load = 0;
}

/* ---- measuring ---- */

struct result {
	double error_10s, error_60s, error_1s_mean, error_1s_worst, false_drops, settle_s, excess_s;
};

static void fleet_make(struct fleet *fleet, unsigned n, const struct scenario *scenario)
{
	memset(fleet, 0, sizeof(*fleet));
	fleet->nodes = calloc(n, sizeof(*fleet->nodes));
	if (!fleet->nodes)
		exit(1);
	fleet->n = fleet->n_alive = n;
	fleet->tuning = scenario->tuning;
	fleet->burst_s = 1;
	fleet->store = (struct store){ .epoch = 1, .is_up = true };
	for (unsigned i = 0; i < n; i++) {
		struct node *node = &fleet->nodes[i];
		node->is_alive = true;
		node->learned_s = -uniform();
		node->frac = (uint32_t)random_bits();
		ls_link_join(&node->link, fleet->tuning.period_s,
			     uniform() * fleet->tuning.period_s);
		node_decide(fleet, node, 0);
	}
}

/* A second's load and what became of it. */
static void fleet_second(struct fleet *fleet, const struct scenario *scenario, unsigned second,
			 double *ret_offered, double *ret_admitted, double *ret_capacity)
{
	*ret_offered = *ret_admitted = *ret_capacity = 0;
	for (unsigned tick = 0; tick < 1000; tick++) {
		const double now_s = second + tick * TICK_S;
		double load = scenario->load;
		if (tick % 100 == 0 || second == 0)
			scenario->shape(fleet, now_s, &load);
		else if (scenario->shape == shape_on_off || scenario->shape == shape_step)
			scenario->shape(fleet, now_s, &load);
		unsigned arrived = 0;
		for (unsigned i = 0; i < fleet->n; i++) {
			struct node *node = &fleet->nodes[i];
			if (!node->is_alive)
				continue;
			const unsigned n = poisson(load * RATE * node->weight * TICK_S);
			arrived += n;
			for (unsigned packet = 0; packet < n; packet++) {
				*ret_admitted += node_admits(fleet, node, now_s);
				*ret_capacity += central_admits(fleet, now_s);
			}
			node_sync(fleet, node, now_s);
		}
		*ret_offered += arrived;
	}
}

static double worst_window(const double *admitted, const double *capacity, unsigned from,
			   unsigned to, unsigned width)
{
	double worst = 0;

	for (unsigned start = from; start + width <= to; start++) {
		double a = 0, c = 0;
		for (unsigned s = start; s < start + width; s++) {
			a += admitted[s];
			c += capacity[s];
		}
		if (c > 0)
			worst = fmax(worst, fabs(a / c - 1));
	}
	return worst;
}

static struct result measure(const struct scenario *scenario, unsigned n)
{
	static double offered[SECONDS_MAX], admitted[SECONDS_MAX], capacity[SECONDS_MAX];
	const unsigned seconds = (unsigned)scenario->seconds, warm = (unsigned)scenario->warm_s;
	struct result result = { 0 };
	struct fleet fleet;
	double sum = 0, sum_offered = 0, errors = 0;

	fleet_make(&fleet, n, scenario);
	for (unsigned second = 0; second < seconds; second++)
		fleet_second(&fleet, scenario, second, &offered[second], &admitted[second],
			     &capacity[second]);
	for (unsigned second = warm; second < seconds; second++) {
		sum += admitted[second];
		sum_offered += offered[second];
		if (capacity[second] <= 0)
			continue;
		const double error = fabs(admitted[second] / capacity[second] - 1);
		errors += error;
		result.error_1s_worst = fmax(result.error_1s_worst, error);
	}
	result.error_1s_mean = errors / (seconds - warm);
	result.error_10s = worst_window(admitted, capacity, warm, seconds, 10);
	result.error_60s =
		seconds - warm >= 60 ? worst_window(admitted, capacity, warm, seconds, 60) : 0;
	result.false_drops = sum_offered > 0 ? 1 - sum / sum_offered : 0;
	/* After a step at 10 s: until every second of three is within a tenth, and what was too much by then. */
	result.settle_s = seconds;
	double excess = -RATE * fleet.burst_s;
	for (unsigned second = 10; second < seconds; second++) {
		excess += admitted[second] - RATE;
		result.excess_s = fmax(result.excess_s, excess / RATE);
	}
	for (unsigned second = seconds; second-- > 10;) {
		if (fabs(admitted[second] / RATE - 1) > 0.1)
			break;
		result.settle_s = second - 10;
	}
	free(fleet.nodes);
	return result;
}

static bool exceeds(double value, double bound)
{
	return bound > 0 && value > bound;
}

static bool is_bad(const struct scenario *scenario, const struct result *result)
{
	return exceeds(result->error_10s, scenario->error_10s) ||
	       exceeds(result->error_60s, scenario->error_60s) ||
	       exceeds(result->error_1s_mean, scenario->error_1s_mean) ||
	       exceeds(result->error_1s_worst, scenario->error_1s_worst) ||
	       exceeds(result->false_drops, scenario->false_drops) ||
	       exceeds(result->settle_s, scenario->settle_s) ||
	       exceeds(result->excess_s, scenario->excess_s);
}

#define T200                                                                                       \
	{                                                                                          \
		.period_s = 0.2, .rtt_s = 0.004, .gain = 1, .target = 1                            \
	}
#define T100                                                                                       \
	{                                                                                          \
		.period_s = 0.1, .rtt_s = 0.004, .gain = 1, .target = 1                            \
	}
#define FAR                                                                                        \
	{                                                                                          \
		.period_s = 0.2, .rtt_s = 0.1, .gain = 1, .target = 1                              \
	}
#define WRONG                                                                                      \
	{                                                                                          \
		.period_s = 0.2, .rtt_s = 0.004, .gain = 5, .target = 0.2                          \
	}

static const struct scenario scenarios[] = {
	{ "three times the limit, zipf", 72, 8, 3, shape_steady, .error_10s = .01,
	  .error_60s = .005, .tuning = T200 },
	{ "three times the limit, 100 ms away", 40, 8, 3, shape_steady, .error_10s = .01,
	  .tuning = FAR },
	{ "load hops between nodes", 72, 8, 2, shape_hop, .error_10s = .01, .error_60s = .005,
	  .tuning = T200 },
	{ "shares reshuffled", 40, 8, 3, shape_reshuffle, .error_10s = .015, .tuning = T200 },
	{ "a fifth leaves and comes back", 60, 8, 3, shape_churn, .error_10s = .025, .tuning = T200,
	  .n_min = 10 },
	{ "0.8 of the limit, zipf", 40, 8, .8, shape_steady, .false_drops = 1e-4, .tuning = T200 },
	{ "0.8 of the limit, hopping", 40, 8, .8, shape_hop, .false_drops = 1e-4, .tuning = T200 },
	{ "step to five times", 40, 20, 5, shape_step, .settle_s = 3, .excess_s = 5 * .204,
	  .tuning = T200 },
	{ "step to five times, period 100 ms", 30, 20, 5, shape_step, .settle_s = 2,
	  .excess_s = 5 * .104, .tuning = T100 },
	{ "on and off", 48, 12, 3, shape_on_off, .error_10s = .2, .tuning = T200 },
	{ "store away for 10 s", 40, 15, 3, shape_outage, .error_1s_mean = .05,
	  .error_1s_worst = .3, .tuning = T200 },
	{ "a fail-over of 3 s", 40, 8, 3, shape_fail_over, .error_10s = .05, .tuning = T200 },
	{ "connections that break for 4 s", 40, 8, 3, shape_broken, .error_10s = .05,
	  .tuning = T200 },
	{ "store comes back empty", 40, 15, 3, shape_restart_empty, .error_1s_mean = .05,
	  .error_1s_worst = .3, .tuning = T200 },
	{ "store away for good", 75, 50, 3, shape_long_outage, .error_10s = .03, .tuning = T200 },
	{ "store's clock jumps forward an hour", 40, 8, 3, shape_clock_jump, .error_10s = .06,
	  .tuning = T200 },
	{ "store's clock goes back 2 s", 40, 8, 3, shape_clock_back, .error_10s = .25,
	  .tuning = T200 },
	{ "a loop tuned as it must not be", 40, 8, 3, shape_steady, .error_10s = .01,
	  .must_fail = true, .tuning = WRONG, .n_max = 2 },
};

int main(int argc, char **argv)
{
	static const unsigned sizes[] = { 2, 10, 100, 1000 };
	const char *chosen = getenv("LS_SEED");
	const bool is_long = getenv("LS_LONG") != NULL;
	bool good = true;

	if (chosen)
		seed = strtoull(chosen, NULL, 0);
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		const struct scenario *scenario = &scenarios[i];
		if (argc > 1 && !strstr(scenario->name, argv[1]))
			continue;
		for (size_t j = 0; j < 4; j++) {
			/* The largest fleet only where it tells more than the hundred: it takes most of the time. */
			if (sizes[j] < scenario->n_min ||
			    (scenario->n_max && sizes[j] > scenario->n_max) ||
			    (sizes[j] == 1000 && !is_long && i > 2))
				continue;
			const struct result result = measure(scenario, sizes[j]);
			const bool bad = is_bad(scenario, &result);
			good = good && bad == scenario->must_fail;
			printf("%s %s, %u nodes: 10 s %.2f %%, 60 s %.2f %%, 1 s %.1f/%.1f %%, false %.3f %%, settles %.0f s, excess %.2f s\n",
			       bad == scenario->must_fail ? "ok" : "not ok", scenario->name,
			       sizes[j], 100 * result.error_10s, 100 * result.error_60s,
			       100 * result.error_1s_mean, 100 * result.error_1s_worst,
			       100 * result.false_drops, result.settle_s, result.excess_s);
		}
	}
	printf("seed %llu\n", (unsigned long long)(chosen ? strtoull(chosen, NULL, 0) : 42));
	return good ? 0 : 1;
}
