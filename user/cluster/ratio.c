/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cluster/ratio.h"

#include <math.h>
#include <string.h>

const char *const ls_link_names[LS_LINK_STATES] = {
	[LS_LINK_LOCAL] = "local",
	[LS_LINK_HOLD] = "hold",
	[LS_LINK_RESUME] = "resume",
	[LS_LINK_OK] = "ok",
};

/* Of the filters: three periods. Silence for that long is a gap. */
#define GAP_PERIODS 3.0
#define GAP_MIN_S 0.5 /* less is a busy machine */

#define PERIOD_MIN_S 0.2
#define PERIOD_MAX_S 1.0
#define STORE_PART 0.4 /* of one core of the store */
#define ROUND_S 55e-6
#define KEY_S 5e-6

#define STRETCH_STEP 1.5
#define STRETCH_MAX 4.0
#define STRETCH_BACK 0.98
#define SLOW_ROUNDS 3
#define SLOW_PART 0.75

#define CLOCK_JUMP_S 1.0

#define RETRY_FIRST_S 0.25
#define RETRY_MAX_S 0.7 /* and half of it: with what is learned then OK in three seconds */

/* The mean of a minute. */
#define SHARE_TIME_S 60.0

/*
 * A node's share on loss: nine tenths of it by what it was offered, the rest in equal parts, so that a node to
 * which load moves later has something. Both sums over all nodes are 1, so theirs is.
 */
#define SHARE_BY_DEMAND 0.9

static double clamp(double value, double low, double high)
{
	return value < low ? low : value > high ? high : value;
}

/* ---- the link ---- */

void ls_link_init(struct ls_link *link, double period_s, double now_s)
{
	memset(link, 0, sizeof(*link));
	link->agreed_s = period_s;
	link->stretch = 1;
	link->next_s = now_s;
}

void ls_link_join(struct ls_link *link, double period_s, double now_s)
{
	ls_link_init(link, period_s, now_s);
	link->state = LS_LINK_OK;
	link->was_good = true;
	link->last_good_s = now_s;
}

double ls_link_period(const struct ls_link *link)
{
	return link->agreed_s * link->stretch;
}

void ls_link_tick(struct ls_link *link, double now_s)
{
	const double silent_s = now_s - link->last_good_s;

	if (!link->was_good)
		return;
	if (silent_s > LS_LINK_HOLD_S)
		link->state = LS_LINK_LOCAL;
	else if (silent_s > fmax(GAP_PERIODS * ls_link_period(link), GAP_MIN_S))
		link->state = LS_LINK_HOLD;
	else if (link->state == LS_LINK_RESUME && now_s >= link->resume_until_s)
		link->state = LS_LINK_OK;
}

void ls_link_good(struct ls_link *link, double now_s, const struct ls_round *round, double random)
{
	const double period_s = ls_link_period(link);
	const bool has_other_data = link->epoch &&
				    (link->epoch != round->epoch ||
				     fabs(link->clock_s - round->clock_s) > CLOCK_JUMP_S);

	ls_link_tick(link, now_s);
	if (!link->was_good) {
		link->state = LS_LINK_OK;
	} else if (has_other_data || link->state == LS_LINK_HOLD || link->state == LS_LINK_LOCAL) {
		link->state = LS_LINK_RESUME;
		link->resume_until_s = now_s + LS_RATIO_LEARN * LS_RATIO_FILTER * period_s;
	}
	link->was_good = true;
	link->last_good_s = now_s;
	link->epoch = round->epoch;
	link->clock_s = round->clock_s;
	link->failed = 0;
	if (round->took_s > SLOW_PART * period_s) {
		if (++link->slow >= SLOW_ROUNDS) {
			link->stretch = fmin(link->stretch * STRETCH_STEP, STRETCH_MAX);
			link->slow = 0;
		}
	} else {
		link->slow = 0;
		link->stretch = fmax(link->stretch * STRETCH_BACK, 1);
	}
	/* From when it was sent, so that a slow answer does not slow the rounds down. */
	link->next_s =
		fmax(now_s, now_s - round->took_s + ls_link_period(link) * (0.9 + 0.2 * random));
}

void ls_link_bad(struct ls_link *link, double now_s, double random)
{
	const double again_s =
		RETRY_FIRST_S * (double)(1U << (link->failed < 8 ? link->failed : 8));
	const double wait_s = link->failed ? fmin(again_s / 2, RETRY_MAX_S)
					   : fmin(ls_link_period(link) / 2, RETRY_FIRST_S);

	link->failed++;
	link->failed_s = now_s;
	link->slow = 0;
	link->next_s = now_s + wait_s * (0.5 + random);
}

void ls_link_wait(struct ls_link *link, double now_s, double random)
{
	const double wait_s = link->failed ? link->agreed_s : link->agreed_s / 4;

	link->failed++;
	link->failed_s = now_s;
	link->slow = 0;
	link->next_s = now_s + wait_s * (0.75 + 0.5 * random);
}

double ls_ratio_period(double nodes, double keys)
{
	return clamp(nodes * (ROUND_S + KEY_S * keys) / STORE_PART, PERIOD_MIN_S, PERIOD_MAX_S);
}

/* ---- a source under a limit by rate ---- */

void ls_ratio_count(struct ls_ratio *ratio, double now_s, double period_s, double admitted,
		    double offered)
{
	const double time_s = LS_RATIO_FILTER * period_s;

	ratio->admitted += admitted;
	ratio->offered += offered;
	/* The sum of the nodes' filters is the filter of the sum, so the store's has the same time. */
	ratio->own_demand *= exp(-(now_s - ratio->own_at_s) / time_s);
	ratio->own_demand += offered / time_s;
	ratio->own_at_s = now_s;
}

/*
 * For how long nothing was left of the debt last answered. The store came back at some time since the last round that
 * failed, and from then on others report: half-way is right in the mean.
 */
static double drained_s(const struct ls_ratio *ratio, const struct ls_link *link, double now_s)
{
	const double until_s = link->failed_s > ratio->answered_s ? (link->failed_s + now_s) / 2
								  : now_s;

	return fmax(until_s - ratio->answered_s - ratio->debt_s, 0);
}

/* What the store is to know again of a gap. */
static double rebuild(const struct ls_ratio *ratio, const struct ls_link *link, double now_s,
		      double rate)
{
	const double own_rate = ls_ratio_share(ratio) * rate;
	const double run_off = own_rate * (ratio->gap_drained_s + drained_s(ratio, link, now_s));
	const double most = LS_RATIO_TARGET * ls_link_period(link) * own_rate;

	return clamp(ratio->gap_admitted - run_off, 0, most);
}

void ls_ratio_report(struct ls_ratio *ratio, const struct ls_link *link, double now_s, double rate,
		     double *ret_admitted, double *ret_offered)
{
	if (!ratio->is_sent) {
		ratio->sent_admitted = ratio->admitted + rebuild(ratio, link, now_s, rate);
		ratio->gap_admitted = ratio->gap_drained_s = 0;
		ratio->sent_offered = ratio->offered;
		ratio->admitted = ratio->offered = 0;
		ratio->is_sent = true;
	}
	*ret_admitted = ratio->sent_admitted;
	*ret_offered = ratio->sent_offered;
}

void ls_ratio_forget(struct ls_ratio *ratio)
{
	ratio->gap_admitted += ratio->admitted;
	ratio->admitted = ratio->offered = 0;
}

/*
 * Both are read just after this node's own report, when its part of either filter is at its peak: by x / (1 - exp(-x)) above
 * its mean, x = T / filter = 1/3.
 */
static void learn_share(struct ls_ratio *ratio, double now_s)
{
	const double peak = 1 - LS_RATIO_FILTER * (1 - exp(-1 / LS_RATIO_FILTER));
	const double excess = ratio->own_demand * peak;
	const double part = 1 - exp(-(now_s - ratio->mean_at_s) / SHARE_TIME_S);

	ratio->own_mean += (ratio->own_demand - excess - ratio->own_mean) * part;
	ratio->demand_mean += (ratio->demand - excess - ratio->demand_mean) * part;
	ratio->mean_at_s = now_s;
}

double ls_ratio_share(const struct ls_ratio *ratio)
{
	return ratio->demand_mean > 0 ? clamp(ratio->own_mean / ratio->demand_mean, 0, 1) : 0;
}

void ls_ratio_answer(struct ls_ratio *ratio, const struct ls_link *link, double now_s,
		     double debt_s, double demand)
{
	const double period_s = ls_link_period(link);
	const double u = 1 + (LS_RATIO_TARGET * period_s - debt_s) / (LS_RATIO_HORIZON * period_s);
	const bool is_learning = link->state == LS_LINK_RESUME && ratio->is_known;

	ratio->is_sent = false;
	ratio->sent_admitted = ratio->sent_offered = 0;
	/* The answer to a round from before the gap: what was admitted in it comes with the next. */
	if (ratio->gap_admitted > 0)
		ratio->gap_drained_s += drained_s(ratio, link, now_s);
	ratio->answered_s = now_s;
	ratio->debt_s = debt_s;
	ratio->u = clamp(u, 0, is_learning ? 1 : LS_RATIO_U_MAX);
	/* What the store knows again is less than all for a while: the old demand stands until then. */
	ratio->demand = is_learning ? fmax(ratio->demand, demand) : demand;
	if (!ratio->is_known)
		ratio->held = 1;
	ratio->is_known = true;
	if (!is_learning)
		learn_share(ratio, now_s);
}

/* The share of the limit that this node keeps to by itself; 1 when nothing is known of others. */
static double share_on_loss(const struct ls_ratio *ratio, double nodes)
{
	if (nodes < 1)
		return 1;
	if (ratio->demand_mean <= 0)
		return 1 / nodes;
	return SHARE_BY_DEMAND * ls_ratio_share(ratio) + (1 - SHARE_BY_DEMAND) / nodes;
}

/* What the ratio `held` becomes the longer the store stays away. */
static struct ls_decision decide_alone(const struct ls_ratio *ratio, const struct ls_link *link,
				       double now_s, double held, enum ls_loss loss, double nodes)
{
	const double away_s = now_s - link->last_good_s - LS_LINK_HOLD_S;
	const double slid =
		link->was_good && ratio->is_known ? clamp(away_s / LS_LINK_SLIDE_S, 0, 1) : 1;
	const double end = loss == LS_LOSS_CLOSED ? 0 : 1;

	return (struct ls_decision){
		.admit = held + (end - held) * slid,
		/* At once: the bucket holds the share of the limit that the ratio gave up to now. */
		.share = loss == LS_LOSS_LOCAL ? share_on_loss(ratio, nodes) : 1,
	};
}

struct ls_decision ls_ratio_decide(struct ls_ratio *ratio, const struct ls_link *link, double now_s,
				   double rate, enum ls_loss loss, double nodes)
{
	struct ls_decision decision = { .admit = 1, .share = 1 };
	const double period_s = ls_link_period(link);
	const double demand = fmax(ratio->own_demand, ratio->demand);
	const double excess_s = ratio->debt_s - (LS_RATIO_TARGET + LS_RATIO_HORIZON) * period_s;

	if (!ratio->is_known)
		return link->state == LS_LINK_LOCAL
			       ? decide_alone(ratio, link, now_s, 1, loss, nodes)
			       : decision;
	if (link->state == LS_LINK_OK) {
		decision.admit = demand > 0 ? fmin(1, ratio->u * rate / demand) : 1;
		ratio->held += (decision.admit - ratio->held) / LS_RATIO_HORIZON;
		decision.blocked_s = fmax(excess_s, 0);
		return decision;
	}
	/* One moment's correction and one filter's noise would stand for as long as nobody corrects them. */
	decision.admit = ratio->held;
	if (ratio->own_demand > ratio->demand)
		decision.admit = fmin(decision.admit, rate / ratio->own_demand);
	if (link->state == LS_LINK_LOCAL)
		return decide_alone(ratio, link, now_s, decision.admit, loss, nodes);
	return decision;
}

/* ---- a source under a window ---- */

double ls_quota_ceiling(const struct ls_quota *quota)
{
	const double nodes = fmax(quota->nodes, 1);
	const double others = fmax(quota->all - quota->own_reported, 0);
	/* Of a sliding window the kernel counts this node's last window itself. */
	const double left = quota->limit - others - quota->own - quota->previous * quota->remaining;
	const double share = quota->share > 0 ? SHARE_BY_DEMAND * fmin(quota->share, 1) +
							(1 - SHARE_BY_DEMAND) / nodes
					      : 1 / nodes;
	const double base = quota->own + quota->own_previous * quota->remaining;

	if (left <= 0)
		return quota->own;
	return floor(base + left * share + (nodes > 1 ? quota->random * 0.999 : 0));
}
