/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_CLUSTER_RATIO_H
#define LOADSHED_USER_CLUSTER_RATIO_H

/*
 * One limit for all nodes: the arithmetic of it, without a clock, a socket or a map.
 *
 * Every node thins a source by one ratio q = min(1, u * R / D), where R is the limit, D what all nodes together are
 * offered and u a correction. Equal ratios need no weights and no list of members: sum of q * d[i] is q * D wherever
 * the load is, so it may hop between nodes, and nodes may come and go. D is what clients offer, which does not depend
 * on what we do, so the main loop is open and cannot oscillate (global random drop of Raghavan et al., "Cloud Control
 * with Distributed Rate Limiting", SIGCOMM 2007, with the ratio computed from a shared sum).
 *
 * The store keeps per source the global theoretical arrival time, whose distance from now is the debt: what was
 * admitted beyond R, in seconds of R. u = 1 + (target - debt) / horizon steers it to a target that never lets it
 * reach zero. While it is not clamped, admitted(W) = R * W + R * (debt at the end - at the start), so the relative
 * error over W is at most (largest debt - smallest) / W and vanishes with W.
 *
 * Everything scales with the period T between two rounds. With g = T / horizon = 1/5 the loop has no overshoot for a
 * delay of one period (bound 1/4). One reporter makes a saw-tooth of height T in the debt whose foot must not reach
 * zero: so the target is 2.5 T; at 0.5 T the limit would be missed by a third (tests/sim/cluster.c shows it).
 *
 * Times are seconds on any steady clock of the caller's; amounts are packets, connections or bytes.
 */

#include <stdbool.h>
#include <stdint.h>

#include "user/policy/policy.h"

/* Multiples of the period. */
#define LS_RATIO_FILTER 3.0  /* time constant of the filter of what is offered */
#define LS_RATIO_TARGET 2.5  /* debt that is aimed at */
#define LS_RATIO_HORIZON 5.0 /* within which a debt that is off is corrected */
#define LS_RATIO_LEARN 2.0   /* filters' time constants of learning after an outage */

#define LS_RATIO_DEBT_CAP_S 10.0 /* nobody is punished for longer */
#define LS_RATIO_U_MAX 1.25

/* ---- the link: whether the store answers ---- */

enum ls_link_state {
	LS_LINK_LOCAL, /* no answer for LS_LINK_HOLD_S, or never one */
	LS_LINK_HOLD,  /* no answer for three periods: everything stays as it was */
	LS_LINK_RESUME, /* answers again, or from a store that lost its data: not all that it says counts yet */
	LS_LINK_OK,
	LS_LINK_STATES,
};
extern const char *const ls_link_names[LS_LINK_STATES];

#define LS_LINK_HOLD_S 10.0
#define LS_LINK_SLIDE_S 20.0 /* over which ratios give way to what on_loss says */

struct ls_link {
	enum ls_link_state state;
	bool was_good;	    /* there was an answer, ever */
	double last_good_s; /* of the last one; valid with was_good */
	double resume_until_s;
	uint64_t epoch;	       /* of the store's data, from the last answer; 0: none */
	double clock_s;	       /* the store's clock minus ours, from the last answer */
	double agreed_s;       /* period that the nodes agreed on */
	double stretch;	       /* what the circuit breaker makes of it: 1 and more */
	unsigned slow, failed; /* rounds in a row that took more than half a period, that failed */
	double failed_s;       /* when a round last failed */
	double next_s;	       /* when the next round or try is due */
};

void ls_link_init(struct ls_link *link, double period_s, double now_s);
/* The same for a store that is known to answer: nothing is held or shared out until it has said something. */
void ls_link_join(struct ls_link *link, double period_s, double now_s);

/* The period in force: what was agreed, stretched by the breaker. */
double ls_link_period(const struct ls_link *link);

/* What silence makes of the state; call it before asking for a decision. */
void ls_link_tick(struct ls_link *link, double now_s);

/* What a round's answer says beside the sources. */
struct ls_round {
	double took_s;
	uint64_t epoch; /* of the store's data */
	double clock_s; /* the store's clock minus ours; a jump of a second is a store that lost its data */
};

/*
 * A round was answered. Three slow ones in a row (3/4 of a period) stretch the period by half, up to four times; each
 * one that is not slow takes 2 % back. random is 0 to 1: rounds keep 10 % of jitter so that nodes do not march in step.
 */
void ls_link_good(struct ls_link *link, double now_s, const struct ls_round *round, double random);

/* A round failed: the next is due after half a period, then 0.25, 0.5, 0.7 s, with a jitter of 50 %. */
void ls_link_bad(struct ls_link *link, double now_s, double random);

/*
 * A round could not be sent, which costs nobody anything: the next is due after a period, the first
 * time after a quarter since the connection may just have been cut, with a jitter of 25 %. So the first
 * round comes soon after the store does, and yet not from all nodes at once.
 */
void ls_link_wait(struct ls_link *link, double now_s, double random);

/*
 * The period that this many nodes with that many shared sources each want: so that they take 40 % of a core of the
 * store at most, at 55 us for a round and 5 us for a key (measured with tests/sim/swarm.c), 0.2 s to 1 s.
 */
double ls_ratio_period(double nodes, double keys);

/* ---- a source under a limit by rate ---- */

struct ls_ratio {
	/* Counted since the last report that was answered, without what is under way. */
	double admitted, offered;
	double sent_admitted, sent_offered; /* under way: an answer takes them off */
	bool is_sent;
	/* Admitted while there was no answer, and for how much of that time the store's debt had run off already. */
	double gap_admitted, gap_drained_s;
	double answered_s; /* when debt_s and demand were answered */
	double own_demand; /* what this node is offered, per second, filtered */
	double own_at_s;
	/* Means of a minute, from 0 on: only their quotient, this node's part of all demand, is used. */
	double own_mean, demand_mean;
	double mean_at_s;
	double held; /* mean of the ratios of one horizon: what stands when answers stop */
	double debt_s, demand; /* of the last answer */
	bool is_known;	       /* there was one */
	double u;
};

/* What the kernel is told. */
struct ls_decision {
	double admit;	  /* 0 to 1: the part that passes */
	double share;	  /* above 0 to 1: the part of the limit that this node's own bucket has */
	double blocked_s; /* for how long nothing will pass; 0: not blocked */
};

/* Adds what was counted since the last call, `period_s` being the filter's unit. */
void ls_ratio_count(struct ls_ratio *ratio, double now_s, double period_s, double admitted,
		    double offered);

/*
 * Amounts for the next report. The same until an answer comes, so that a round whose outcome nobody knows can be sent
 * again under its number.
 *
 * While the store is away its debt runs off to zero and no further, though nodes go on admitting about the limit: were
 * only the last period reported, the debt would be admitted once more, half a second of the limit; were all of an
 * outage, everybody would be blocked for as long. So the first report afterwards has, beside the last period, what was
 * admitted in the gap less this node's share of what the limit let pass once the debt had run off: the debt aimed at, for
 * this share, at most. `rate`: the limit; 0 for a window, which has no debt.
 */
void ls_ratio_report(struct ls_ratio *ratio, const struct ls_link *link, double now_s, double rate,
		     double *ret_admitted, double *ret_offered);

/* Puts aside what was counted before the current period; once a period while the link is not OK. */
void ls_ratio_forget(struct ls_ratio *ratio);

/* The store's answer to the last report: debt in seconds of the limit's rate, demand per second. */
void ls_ratio_answer(struct ls_ratio *ratio, const struct ls_link *link, double now_s,
		     double debt_s, double demand);

/* This node's part of what all nodes are offered, 0 to 1; 0: unknown. */
double ls_ratio_share(const struct ls_ratio *ratio);

/* Once a period. `nodes`: how many there were when that was last known; 0: never known. */
struct ls_decision ls_ratio_decide(struct ls_ratio *ratio, const struct ls_link *link, double now_s,
				   double rate, enum ls_loss loss, double nodes);

/* ---- a source under a window ---- */

struct ls_quota {
	double limit;
	double own; /* this node's count in the window */
	double all,
		previous; /* all nodes' counts, in the window and the one before, as last answered */
	double own_previous;
	double own_reported; /* of `all` */
	double remaining; /* part of the window that is left, 0 to 1, for a sliding window; else 0 */
	double share;	  /* this node's part of the demand; 0: unknown */
	double nodes;
	double random; /* 0 to 1: which node gets the odd one */
};

/*
 * Up to which count of its own this node may admit in the window: its count plus its share of what all nodes have left.
 * The shares of all nodes sum to 1, so what is left is not spent twice while demand keeps its shares; what one round
 * leaves over is dealt out in the next.
 */
double ls_quota_ceiling(const struct ls_quota *quota);

#endif
