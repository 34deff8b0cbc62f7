/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_OVERLOAD_SIGNALS_H
#define LOADSHED_USER_OVERLOAD_SIGNALS_H

/*
 * The signals of a policy, measured. One that cannot be measured is named with the reason, and the others go on. What is
 * asked of services runs in the loop; everything else is a file or a socket that answers at once.
 */

#include <stdbool.h>
#include <stdint.h>

#include "user/overload/ask.h"
#include "user/overload/control.h"
#include "user/overload/host.h"
#include "user/overload/sockets.h"

struct ls_loop;
struct ls_signals;

#define LS_SIGNAL_WHY_BYTES 40

struct ls_measured {
	struct ls_signal signals[LS_SIGNAL_MAX];
	char why[LS_SIGNAL_MAX][LS_SIGNAL_WHY_BYTES]; /* of one that is on and not present */
	bool is_on[LS_SIGNAL_MAX];
	double accepted; /* connections that the applications took, in this period; < 0: not known */
	double finished; /* that were closed; < 0: not known */
	bool has_waiting;
};

struct ls_gauges {
	const struct ls_signals *policy;
	struct ls_host host;
	int sockets_fd;
	struct ls_ask load, probe;
	/* Looks within the period. */
	struct ls_accept_queues queues;
	const char *queues_why;
	unsigned looks, looks_waiting;
	uint64_t waiting_before;
	const char *tcp_why;		   /* NULL: what follows is known */
	double accepted, finished;	   /* connections, in this period */
	double accepted_now, finished_now; /* and since the last look */
	double inside_sent,
		inside_answered; /* that stood when the newest probe, the last answered one, was sent */
	/* Smoothed or kept from one period to the next. */
	double cpu, pressure;
	double load_value;
	uint64_t load_at_ns, probe_at_ns, memory_at_ns;
	double memory;
	uint64_t probe_latency_ns;
	bool has_cpu, has_pressure;
};

/* `policy` and `loop` must outlive it. Nothing that is missing makes it fail. */
void ls_gauges_init(struct ls_gauges *gauges, const struct ls_signals *policy,
		    struct ls_loop *loop);
void ls_gauges_fini(struct ls_gauges *gauges);

/* A look at the accept queues and at the questions on their way: some times per period. */
void ls_gauges_look(struct ls_gauges *gauges, uint64_t now_ns);

/* The longest wait of the accept queues as they were at the last look, in pieces of work. */
double ls_gauges_waiting(const struct ls_gauges *gauges);

/*
 * Of the two delays the one that is the larger part of its target, as it is now, and what was served since the last
 * look; leaves the rest of *ret alone.
 */
void ls_gauges_delay(const struct ls_gauges *gauges, const struct ls_overload_state *state,
		     uint64_t now_ns, struct ls_overload_look *ret);

/* Ends the period: `elapsed_s` since the last end. */
void ls_gauges_measure(struct ls_gauges *gauges, const struct ls_overload_state *state,
		       uint64_t now_ns, double elapsed_s, struct ls_measured *ret);

#endif
