/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_OVERLOAD_CONTROL_H
#define LOADSHED_USER_OVERLOAD_CONTROL_H

/*
 * The overload controller as arithmetic: what was measured in a period in, what the kernel shall admit out. It knows
 * no clock, no file and no map, so tests/sim runs the same code against a simulated server.
 *
 * Guard, level and the integral of delay:
 *
 *	A = M (1 - g e)		new work admitted per second; M: what the server finishes while it has work waiting
 *	e = (q - d) / T_c	of a signal that is a queue: its delay q, target d, period T_c
 *	e = x - 1		of one that is a part: x = value / target (CPU, memory, an application's own word)
 *
 * A backlog integrates A - M, and its delay is backlog / M, so q[k+1] = q[k] - g (q[k-m] - d) with m periods of lag:
 * stable for g = 0.2 up to m = 7, without overshoot up to m = 1 (roots of z^(m+1) - z^m + g; Levin and May, "A note on
 * difference-delay equations", 1976). The largest e of all signals decides.
 *
 * A queue is looked at several times in a period, and A trimmed by what is seen. Chance is what makes a slow server's
 * queue long or empty: at 400 pieces of work per second, 9 of a period's 40 come or go by chance, and a target of 25 ms
 * is 10. So the gain is the larger the more of the target is chance; it is small where work is fast, because there a
 * look is short against the round trip of a client, which is the lag. What was admitted beyond A is known before it is
 * in any queue, and taken back from the next look.
 *
 * A becomes a level by inverting the histogram of what was offered: priorities are filled from the top until A is
 * used up, so one step is exact whatever the overload, and a lower priority never comes before a higher one but for
 * its floor. What is offered decides, not what passed: refusing does not make the overload look over.
 *
 * The guard is a bucket at 1.25 times the capacity that was last seen, always armed once one is known. It bounds what
 * the first period of a flood, which nobody has measured yet, can put into a queue. While nothing waits it gives
 * way, so that a server that has become faster is not held at what it could do before.
 */

#include <stdbool.h>
#include <stdint.h>

#include "loadshed/overload_abi.h"

#define LS_OVERLOAD_PERIOD_S 0.1
#define LS_OVERLOAD_GAIN 0.2
#define LS_OVERLOAD_LOOK_S 0.02

/* Every signal: id, key in the policy, whether it is a queue's delay in seconds (else a part of 1). */
#define LS_SIGNAL_LIST(X)                                                                          \
	X(ACCEPT_DELAY, "accept_delay", true)                                                      \
	X(CPU, "cpu", false)                                                                       \
	X(PRESSURE, "pressure", false)                                                             \
	X(SOFTNET, "softnet", false)                                                               \
	X(MEMORY, "memory", false)                                                                 \
	X(LOAD, "load", false)                                                                     \
	X(PROBE, "probe", true)

enum ls_signal_id {
#define LS_SIGNAL_ENUM(id, key, queue) LS_SIGNAL_##id,
	LS_SIGNAL_LIST(LS_SIGNAL_ENUM)
#undef LS_SIGNAL_ENUM
		LS_SIGNAL_MAX,
};

extern const char *const ls_signal_keys[LS_SIGNAL_MAX];
bool ls_signal_is_queue(enum ls_signal_id id);

struct ls_signal {
	bool is_present; /* measured in this period */
	double value;
	double target;
};

/* What one period has shown. */
struct ls_overload_input {
	double period_s;
	const uint32_t *offered; /* [LS_LEVELS]: new work by index */
	double admitted;	 /* new work that passed */
	double refused_guard;
	double served; /* that was finished; < 0: not known, then what was admitted stands for it */
	bool has_waiting; /* work was seen waiting: the server did what it can */
	struct ls_signal signals[LS_SIGNAL_MAX];
};

#define LS_BUSY_PERIODS 15 /* of which M is the mean, at most */
#define LS_PEAK_PERIODS 50 /* over which the guard remembers the largest M: 5 s */

struct ls_overload_state {
	double floor
		[LS_PRIORITIES]; /* by LS_ABI_*: part of A that a priority always gets; set once */
	double busy_served[LS_BUSY_PERIODS], busy_s[LS_BUSY_PERIODS]; /* a ring */
	unsigned n_busy;
	double peaks[LS_PEAK_PERIODS]; /* the most that got done per second, by period; a ring */
	unsigned peak_at;
	double peak;			   /* the largest of them */
	bool has_peak;			   /* a queue was ever seen to wait */
	double served;			   /* per second, of the last period */
	double capacity;		   /* M, per second; 0: not known */
	double admit;			   /* A, per second; 0: everything */
	double guard;			   /* per second; 0: none */
	double shape[LS_LEVELS];	   /* offered per second by index, smoothed */
	double offered;			   /* per second */
	double offered_before;		   /* the same one period earlier */
	double offered_recent;		   /* mean of the last three */
	double offered_slow;		   /* the same over about 1 s */
	double demand_slow[LS_PRIORITIES]; /* and by priority, as LS_ABI_* */
	double wanted;		    /* A at the last look, without what makes up for chance */
	double debt;		    /* pieces of work that were admitted beyond it */
	double held;		    /* pieces of work that waited at the last look */
	double held_served, held_s; /* of this period's looks that began with enough of them */
	double unheld_s;	    /* for how long there was no such look */
	double queue_gain;	    /* of the queue that is the cause */
	double error;		    /* the largest e of the last period */
	enum ls_signal_id cause;    /* whose that was */
	struct ls_signal seen[LS_SIGNAL_MAX];
	bool waits; /* the server had work waiting: what it served is what it can do */
	bool sheds;
	double quiet_s;	  /* for how long nothing had to be refused */
	uint64_t changes; /* of `sheds` */
};

/* What the kernel shall do in the next period. */
struct ls_overload_output {
	__u64 admit[LS_PRIORITIES]; /* LS_ADMIT(), by LS_ABI_* */
	double guard;		    /* per second; 0: none */
	uint32_t queue_most;	    /* connections in an accept queue; 0: its backlog alone */
	uint32_t heavy_after;	    /* filled by whoever counts the sources */
};

void ls_overload_init(struct ls_overload_state *state, const double floor[static LS_PRIORITIES]);

/* One period. */
void ls_overload_step(struct ls_overload_state *state, const struct ls_overload_input *input,
		      struct ls_overload_output *ret);

/* What a look between two periods has shown. */
struct ls_overload_look {
	double elapsed_s; /* since the last look */
	double admitted;  /* new work that passed since then */
	double served;	  /* that was finished; < 0: not known */
	bool is_present;  /* whether the delay is known */
	enum ls_signal_id id;
	double delay_s, target_s;
};

/* Each look, before a step or a trim: learns from it what the server can do. */
void ls_overload_watch(struct ls_overload_state *state, const struct ls_overload_look *look);

/*
 * Some times per period while it sheds, so that chance is made up for before it is a queue: A follows the delay as it
 * is now, and what was admitted beyond A is taken back from the next look. Leaves all but ret->admit alone, and that
 * too while it does not shed.
 */
void ls_overload_trim(struct ls_overload_state *state, const struct ls_overload_look *look,
		      struct ls_overload_output *ret);

/* How long what is behind `waiting` pieces of work waits, in seconds; served: per second, in this period. */
double ls_overload_delay(const struct ls_overload_state *state, double waiting, double served);

/*
 * How long work waits inside an application that accepts at once: as long as the last probe, and what has come in less
 * what got done (`more`) since that was sent; at least as long as the one that is on its way.
 */
double ls_overload_probe_delay(const struct ls_overload_state *state, double last_s, double more,
			       double so_far_s);

/* The target of an accept queue: a backlog so short that it is full before target_s has its half as target. */
double ls_overload_accept_target(const struct ls_overload_state *state, double target_s,
				 double backlog_most);

/*
 * Whether a flood has begun that should not wait for the end of the period: far more came in elapsed_s than gets done,
 * and the queue shows it.
 */
bool ls_overload_hurries(const struct ls_overload_state *state, double offered, double served,
			 double elapsed_s, double delay_s, double target_s);

/* The part of all indices that a level refuses, 0 to 1: what people see as its height. */
double ls_overload_height(const __u64 admit[static LS_PRIORITIES]);

/* The level that refuses this part of all indices from the lowest up; height 0 to 1. */
void ls_overload_by_height(double height, __u64 ret_admit[static LS_PRIORITIES]);

/* One sentence that says what it does now and why. At most LS_OVERLOAD_TEXT_BYTES; returns text. */
char *ls_overload_sentence(const struct ls_overload_state *state,
			   char text[static LS_OVERLOAD_TEXT_BYTES]);

#endif
