/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * A simulated server under overload, shed by the controller of user/overload/control.c and the kernel's arithmetic of
 * bpf/pure, against no shedding, a short backlog and a CoDel-like drop.
 *
 *	overload		cases and grid, each held to its goals: `ok NAME` or `not ok NAME: why`
 *	overload --table	the cases with every method, as a table
 *	overload --sweep	the grid alone: capacity, load, backlog, target, a capacity that halves
 *	LS_LONG=1		the grid for 30 s and three seeds
 *	LS_SIM_SEED=N		other seeds; LS_SIM_CASE=TEXT the cases alone whose name has it
 *	LS_SIM_TRACE=1		what the controller did in each period
 *
 * The server is one FIFO queue with a bounded backlog. Clients open a connection, give up after 1 s, and try again
 * after 1, 2 and 4 s; what they gave up on is served all the same, because the server cannot know. 8 % of them are of
 * priority high. `early` accepts at once and queues inside, where only a probe's latency shows the wait. Seeds are
 * fixed; time is in steps of 0.5 ms.
 */

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pure/level.h"
#include "pure/listener.h"
#include "pure/overload.h"
#include "user/overload/control.h"

#define STEP_S 0.0005
#define TIMEOUT_S 1.0
#define TRIES 4
#define USERS 4096
#define HIGH_PART 0.08
#define QUEUE_NORMAL 7500 /* of LS_QUEUE_WHOLE: `accept_queue: 75%` */
#define QUEUE_HIGH 8750
#define LEVEL_S 1.0
#define LATE_S (3 * LS_OVERLOAD_LOOK_S)
#define SAMPLES 5	/* of the backlog per period */
#define HORIZON 16384	/* steps that a retry can lie ahead: 8 s */
#define SHAKING 65536	/* handshakes at once */
#define WAIT_BINS 10000 /* of 1 ms */

enum method { NO_SHEDDING, SHORT_BACKLOG, CODEL, NO_GUARD, OURS, METHODS };
static const char *const method_names[METHODS] = { "no shedding", "short backlog", "CoDel-like",
						   "ours, no guard", "ours" };

enum service { FIXED, EXPONENTIAL, HEAVY };

struct scenario {
	const char *name;
	double capacity; /* per second */
	double load;	 /* of it */
	unsigned backlog;
	double target_s;
	enum service service;
	bool early;	       /* the app accepts at once and queues inside */
	double drop_at_s;      /* the capacity halves; 0: never */
	double burst_period_s; /* load comes for 200 ms in every so many; 0: all the time */
	double off_s,
		on_s; /* alternating: load only in the first on_s of on_s + off_s; 0: all the time */
	double high_part; /* 0: HIGH_PART */
	double settle_s; /* waits before it are not counted, after the load began and after the drop */
	double seconds;
	double from_load; /* before `start_s`: load; a step */
	double start_s;
	unsigned users;	    /* 0: USERS */
	double handshake_s; /* from an admitted SYN to the accept queue */
	double dies_at_s;   /* the controller, for the rest; 0: never */
};

struct attempt {
	float arrived_s;
	uint16_t user;
	uint8_t try;
	bool is_high;
	bool counts; /* began while the load was on */
};

struct result {
	double goodput; /* successes per second over capacity, while loaded */
	double high;	/* part of high users' attempts series that succeed */
	double p99_wait_s, max_wait_s;
	double first_refusal_s; /* after the load began */
	double last_refusal_s;	/* after the load ended */
	uint64_t refused, offered;
	uint64_t changes;
	double done; /* per second over capacity, in time or not, while loaded */
};

struct random {
	uint64_t state;
};

static double uniform(struct random *random)
{
	uint64_t z = random->state += 0x9e3779b97f4a7c15ULL;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static unsigned poisson(struct random *random, double mean)
{
	if (mean > 50) { /* normal enough */
		const double r = sqrt(-2 * log(1 - uniform(random)));
		const double n = mean + sqrt(mean) * r * cos(2 * M_PI * uniform(random));
		return n > 0 ? (unsigned)(n + 0.5) : 0;
	}
	const double limit = exp(-mean);
	unsigned n = 0;
	for (double p = uniform(random); p > limit; p *= uniform(random))
		n++;
	return n;
}

/* One run. */
struct sim {
	const struct scenario *scenario;
	enum method method;
	struct random random;
	double now_s;
	struct attempt *queue;
	unsigned head, length, room; /* room: a power of two */
	double free_s;		     /* when the server is done with what it has */
	double capacity;
	/* retries by step */
	struct attempt *wheel[HORIZON];
	unsigned wheel_n[HORIZON], wheel_room[HORIZON];
	/* the kernel's side */
	__u64 admit[LS_PRIORITIES];
	struct ls_overload_state control;
	uint32_t offered[LS_LEVELS];
	double admitted, refused_guard, served;
	double looked_s, looked_admitted, looked_served; /* at the last look */
	double inside;					 /* what came in less what was finished */
	double inside_sent, inside_before,
		probe_last_s;	 /* as the newest probe and the last answered one found it */
	struct attempt *shaking; /* a ring: SYN admitted, handshake not done */
	unsigned shaking_head, shaking_n;
	__u32 carry;
	double guard_tat_s;
	double guard;
	uint32_t queue_most;
	/* measured */
	unsigned samples, waiting_samples;
	double stepped_s; /* when the controller ran last */
	double codel_first_s;
	double codel_next_s;
	unsigned codel_count;
	bool codel_drops;
	double probe_s;	     /* latency as last seen */
	double probe_done_s; /* when the one on its way returns */
	double probe_sent_s;
	/* results */
	struct result result;
	uint64_t wait_bins[WAIT_BINS];
	uint64_t waits;
	uint64_t high_started, high_succeeded, good, done;
	double loaded_s, load_began_s, load_ended_s;
};

static double load_at(const struct scenario *scenario, double now_s)
{
	if (now_s < scenario->start_s)
		return scenario->from_load;
	if (scenario->burst_period_s > 0)
		return fmod(now_s, scenario->burst_period_s) < 0.2 ? scenario->load
								   : scenario->from_load;
	if (scenario->on_s > 0)
		return fmod(now_s - scenario->start_s, scenario->on_s + scenario->off_s) <
				       scenario->on_s
			       ? scenario->load
			       : scenario->from_load;
	return scenario->load;
}

static double service_time(struct sim *sim)
{
	const double mean = 1 / sim->capacity;
	switch (sim->scenario->service) {
	case FIXED:
		return mean;
	case EXPONENTIAL:
		return -mean * log(1 - uniform(&sim->random));
	case HEAVY: {
		/* Bounded Pareto, alpha 1.5, up to 100 times the least: its mean is 2.7 times the least. */
		const double alpha = 1.5, most = 100;
		const double u = uniform(&sim->random);
		const double least = mean / (alpha / (alpha - 1) * (1 - pow(most, 1 - alpha)) /
					     (1 - pow(most, -alpha)));
		return least * pow(1 - u * (1 - pow(most, -alpha)), -1 / alpha);
	}
	}
	return mean;
}

static void retry(struct sim *sim, struct attempt attempt, double at_s)
{
	static const double back_off_s[TRIES] = { 1, 2, 4, 0 };
	if (attempt.try + 1 >= TRIES)
		return;
	at_s += back_off_s[attempt.try++];
	const unsigned slot = (unsigned)(at_s / STEP_S) % HORIZON;
	if (sim->wheel_n[slot] == sim->wheel_room[slot]) {
		sim->wheel_room[slot] = sim->wheel_room[slot] ? 2 * sim->wheel_room[slot] : 16;
		sim->wheel[slot] =
			realloc(sim->wheel[slot], sim->wheel_room[slot] * sizeof(**sim->wheel));
	}
	sim->wheel[slot][sim->wheel_n[slot]++] = attempt;
}

/* Whether the level, the guard and the accept queue let it in. */
static bool is_admitted(struct sim *sim, const struct attempt *attempt)
{
	if (sim->method < NO_GUARD)
		return true;
	const __u32 priority = attempt->is_high ? LS_ABI_HIGH : LS_ABI_NORMAL;
	const __u64 place = (__u64)attempt->user * 0x9e3779b97f4a7c15ULL;
	const __u32 step = ls_level_step(place, 7, 0);
	sim->offered[ls_level_index(priority, step)]++;
	if (!ls_level_admits(sim->admit[priority], step, &sim->carry))
		return false;
	if (sim->method != OURS || sim->guard <= 0)
		return true;
	/* As in the kernel, whose ticks are finer than any difference here. */
	const __u64 now = (__u64)(sim->now_s * 64e9) + 1, cost = (__u64)(64e9 / sim->guard);
	const __u64 tau = ls_overload_guard_tau(cost);
	__u64 next = 0;
	if (!ls_overload_take((__u64)sim->guard_tat_s, now, cost, tau,
			      ls_overload_reserve(tau, priority), 1, &next)) {
		sim->refused_guard++;
		return false;
	}
	sim->guard_tat_s = (double)next;
	const bool is_late = sim->now_s > sim->looked_s + LATE_S;
	return sim->scenario->early ||
	       !ls_listener_refuses(sim->length, sim->scenario->backlog, sim->shaking_n,
				    attempt->is_high ? QUEUE_HIGH : QUEUE_NORMAL, sim->queue_most,
				    is_late);
}

static void refuse(struct sim *sim, struct attempt attempt)
{
	sim->result.refused++;
	if (sim->result.first_refusal_s < 0)
		sim->result.first_refusal_s = sim->now_s - sim->load_began_s;
	if (sim->load_ended_s > 0)
		sim->result.last_refusal_s = sim->now_s - sim->load_ended_s;
	retry(sim, attempt, sim->now_s + TIMEOUT_S);
}

static void enter(struct sim *sim, struct attempt attempt);

static void arrive(struct sim *sim, struct attempt attempt)
{
	sim->result.offered++;
	attempt.arrived_s = (float)sim->now_s;
	if (!is_admitted(sim, &attempt)) {
		refuse(sim, attempt);
		return;
	}
	sim->admitted++;
	if (sim->scenario->handshake_s > 0 && sim->shaking_n < SHAKING)
		sim->shaking[(sim->shaking_head + sim->shaking_n++) % SHAKING] = attempt;
	else
		enter(sim, attempt);
}

/* It stands: the listener's queue takes it, or loses it. */
static void enter(struct sim *sim, struct attempt attempt)
{
	const unsigned backlog = sim->method == SHORT_BACKLOG ? 128 : sim->scenario->backlog;
	if (sim->length >= (sim->scenario->early ? sim->room : backlog)) {
		retry(sim, attempt, sim->now_s + TIMEOUT_S);
		return;
	}
	sim->inside++;
	sim->queue[(sim->head + sim->length++) & (sim->room - 1)] = attempt;
}

/* CoDel (RFC 8289): drops at the head of the queue while the wait stays above 5 ms for 100 ms. */
static bool codel_drops(struct sim *sim, double wait_s)
{
	const double target_s = 0.005, interval_s = 0.1;
	if (wait_s < target_s) {
		sim->codel_first_s = 0;
		sim->codel_drops = false;
		return false;
	}
	if (sim->codel_first_s == 0)
		sim->codel_first_s = sim->free_s + interval_s;
	if (!sim->codel_drops && sim->free_s >= sim->codel_first_s) {
		sim->codel_drops = true;
		sim->codel_count = sim->codel_count > 2 ? sim->codel_count - 2 : 1;
		sim->codel_next_s = sim->free_s + interval_s / sqrt(sim->codel_count);
		return true;
	}
	if (sim->codel_drops && sim->free_s >= sim->codel_next_s) {
		sim->codel_next_s += interval_s / sqrt(++sim->codel_count);
		return true;
	}
	return false;
}

static void serve(struct sim *sim)
{
	if (sim->free_s < sim->now_s - STEP_S)
		sim->free_s = sim->now_s - STEP_S;
	while (sim->length && sim->free_s < sim->now_s) {
		const struct attempt attempt = sim->queue[sim->head];
		if (sim->free_s < attempt.arrived_s)
			sim->free_s = attempt.arrived_s;
		const double wait_s = sim->free_s - attempt.arrived_s;
		sim->head = (sim->head + 1) & (sim->room - 1);
		sim->length--;
		if (sim->method == CODEL && codel_drops(sim, wait_s)) {
			retry(sim, attempt,
			      attempt.arrived_s + TIMEOUT_S > sim->now_s
				      ? attempt.arrived_s + TIMEOUT_S
				      : sim->now_s);
			continue;
		}
		sim->free_s += service_time(sim);
		sim->served++;
		sim->inside--;
		const struct scenario *scenario = sim->scenario;
		const bool loaded = sim->now_s >= scenario->start_s && sim->load_ended_s == 0;
		const bool settled = sim->now_s >= scenario->start_s + scenario->settle_s &&
				     (sim->now_s < scenario->drop_at_s ||
				      sim->now_s >= scenario->drop_at_s + scenario->settle_s);
		sim->done += loaded;
		if (loaded && settled) {
			const unsigned bin =
				(unsigned)(fmax(0, wait_s - scenario->handshake_s) * 1000);
			sim->wait_bins[bin < WAIT_BINS ? bin : WAIT_BINS - 1]++;
			sim->waits++;
			if (wait_s > sim->result.max_wait_s)
				sim->result.max_wait_s = wait_s;
		}
		if (sim->free_s - attempt.arrived_s <= TIMEOUT_S) {
			if (loaded)
				sim->good++;
			sim->high_succeeded += attempt.is_high && attempt.counts;
		} else {
			retry(sim, attempt,
			      attempt.arrived_s + TIMEOUT_S > sim->now_s
				      ? attempt.arrived_s + TIMEOUT_S
				      : sim->now_s);
		}
	}
}

static double accept_target(const struct sim *sim)
{
	return ls_overload_accept_target(&sim->control, sim->scenario->target_s,
					 sim->scenario->backlog);
}

/* The delay inside the application now: as it was for the last probe, and what has changed since that was sent. */
static double probed(const struct sim *sim)
{
	return ls_overload_probe_delay(&sim->control, sim->probe_last_s,
				       sim->inside - sim->inside_before,
				       sim->probe_done_s > 0 ? sim->now_s - sim->probe_sent_s : 0);
}

static void probe(struct sim *sim)
{
	if (sim->probe_done_s > 0 && sim->now_s >= sim->probe_done_s) {
		sim->probe_s = sim->probe_done_s - sim->probe_sent_s;
		sim->probe_done_s = 0;
		sim->probe_last_s = sim->probe_s;
		sim->inside_before = sim->inside_sent;
	}
	if (sim->probe_done_s == 0) {
		sim->inside_sent = sim->inside;
		sim->probe_sent_s = sim->now_s;
		sim->probe_done_s = sim->now_s + (sim->length + 1) / sim->capacity;
	} else if (sim->now_s - sim->probe_sent_s > sim->probe_s) {
		sim->probe_s = sim->now_s - sim->probe_sent_s; /* at least so long */
	}
}

/* A look, after which the level is trimmed. */
static void trim(struct sim *sim, const struct ls_overload_look *look)
{
	struct ls_overload_output output;
	memcpy(output.admit, sim->admit, sizeof(output.admit));
	ls_overload_trim(&sim->control, look, &output);
	memcpy(sim->admit, output.admit, sizeof(sim->admit));
}

static void control(struct sim *sim)
{
	const double period_s = sim->now_s - sim->stepped_s;
	struct ls_overload_output output;
	struct ls_overload_input input = {
		.period_s = period_s,
		.offered = sim->offered,
		.admitted = sim->admitted,
		.refused_guard = sim->refused_guard,
		.served = sim->served,
		.has_waiting = sim->waiting_samples == sim->samples,
	};
	if (sim->scenario->early) {
		input.signals[LS_SIGNAL_PROBE] =
			(struct ls_signal){ true, probed(sim), sim->scenario->target_s };
	} else {
		input.signals[LS_SIGNAL_ACCEPT_DELAY] = (struct ls_signal){
			true, ls_overload_delay(&sim->control, sim->length, sim->served / period_s),
			accept_target(sim)
		};
	}
	ls_overload_step(&sim->control, &input, &output);
	memcpy(sim->admit, output.admit, sizeof(sim->admit));
	sim->guard = output.guard;
	sim->queue_most = output.queue_most;
	memset(sim->offered, 0, sizeof(sim->offered));
	sim->admitted = sim->refused_guard = sim->served = 0;
	sim->waiting_samples = sim->samples = 0;
	sim->stepped_s = sim->now_s;
	if (getenv("LS_SIM_TRACE"))
		printf("%6.1f q %4u M %6.0f A %6.0f offered %6.0f e %6.2f guard %6.0f %s\n",
		       sim->now_s, sim->length, sim->control.capacity, sim->control.admit,
		       sim->control.offered, sim->control.error, sim->control.guard,
		       sim->control.sheds ? "sheds" : "");
}

static void step(struct sim *sim, uint64_t number)
{
	const struct scenario *scenario = sim->scenario;
	const double high_part = scenario->high_part > 0 ? scenario->high_part : HIGH_PART;
	sim->capacity = scenario->capacity;
	if (scenario->drop_at_s > 0 && sim->now_s >= scenario->drop_at_s)
		sim->capacity /= 2;
	const unsigned users = scenario->users ? scenario->users : USERS;
	const bool is_over = sim->now_s >= scenario->seconds;
	const double load = is_over ? scenario->from_load : load_at(scenario, sim->now_s);
	if (is_over && sim->load_ended_s == 0)
		sim->load_ended_s = sim->now_s;
	const unsigned n = poisson(&sim->random, load * scenario->capacity * STEP_S);
	for (unsigned i = 0; i < n; i++) {
		struct attempt attempt = { .user = (uint16_t)(uniform(&sim->random) * users) };
		attempt.is_high = attempt.user < high_part * users;
		attempt.counts = sim->now_s >= scenario->start_s && !is_over;
		sim->high_started += attempt.is_high && attempt.counts;
		arrive(sim, attempt);
	}
	while (sim->shaking_n &&
	       sim->shaking[sim->shaking_head].arrived_s + scenario->handshake_s <= sim->now_s) {
		enter(sim, sim->shaking[sim->shaking_head]);
		sim->shaking_head = (sim->shaking_head + 1) % SHAKING;
		sim->shaking_n--;
	}
	const unsigned slot = number % HORIZON;
	/* After the load has ended its retries do not count as load that goes on. */
	for (unsigned i = 0; i < sim->wheel_n[slot]; i++)
		if (!is_over || sim->wheel[slot][i].is_high)
			arrive(sim, sim->wheel[slot][i]);
	sim->wheel_n[slot] = 0;
	serve(sim);
	const unsigned period = (unsigned)(LS_OVERLOAD_PERIOD_S / STEP_S + 0.5);
	if (sim->method < NO_GUARD || (number + 1) % (period / SAMPLES) != 0)
		return;
	if (scenario->dies_at_s > 0 && sim->now_s >= scenario->dies_at_s) {
		/* In the kernel the level has an end. */
		if (sim->now_s >= scenario->dies_at_s + LEVEL_S)
			for (unsigned p = 0; p < LS_PRIORITIES; p++)
				sim->admit[p] = LS_ADMIT_ALL;
		return;
	}
	if (scenario->early)
		probe(sim);
	sim->samples++;
	sim->waiting_samples += scenario->early ? probed(sim) > 0.5 * scenario->target_s
						: sim->length > 0;
	/* A flood is not waited for until the period ends. */
	const double elapsed_s = sim->now_s - sim->stepped_s;
	double offered = 0;
	for (unsigned i = 0; i < LS_LEVELS; i++)
		offered += sim->offered[i];
	const bool is_flood = ls_overload_hurries(
		&sim->control, offered, sim->served, elapsed_s,
		scenario->early
			? probed(sim)
			: ls_overload_delay(&sim->control, sim->length, sim->served / elapsed_s),
		scenario->early ? scenario->target_s : accept_target(sim));
	const struct ls_overload_look look = {
		.elapsed_s = sim->now_s - sim->looked_s,
		.admitted = sim->admitted - sim->looked_admitted,
		.served = sim->served - sim->looked_served,
		.is_present = true,
		.id = scenario->early ? LS_SIGNAL_PROBE : LS_SIGNAL_ACCEPT_DELAY,
		.delay_s = scenario->early ? probed(sim)
					   : ls_overload_delay(&sim->control, sim->length, 0),
		.target_s = scenario->early ? scenario->target_s : accept_target(sim),
	};
	ls_overload_watch(&sim->control, &look);
	if (is_flood || sim->samples == SAMPLES)
		control(sim);
	sim->looked_s = sim->now_s;
	sim->looked_admitted = sim->admitted;
	sim->looked_served = sim->served;
	trim(sim, &look);
}

static struct result run(const struct scenario *scenario, enum method method, uint64_t seed)
{
	static const double floors[LS_PRIORITIES] = { 0 };
	struct sim *sim = calloc(1, sizeof(*sim));
	const double end_s = scenario->seconds + 3;
	sim->scenario = scenario;
	sim->method = method;
	sim->random.state = seed;
	sim->room = scenario->early ? 1U << 18 : 1U << 13;
	sim->queue = calloc(sim->room, sizeof(*sim->queue));
	sim->shaking = calloc(SHAKING, sizeof(*sim->shaking));
	sim->result.first_refusal_s = sim->result.last_refusal_s = -1;
	sim->load_began_s = scenario->start_s;
	for (unsigned p = 0; p < LS_PRIORITIES; p++)
		sim->admit[p] = LS_ADMIT_ALL;
	ls_overload_init(&sim->control, floors);
	for (uint64_t number = 0; sim->now_s < end_s; number++) {
		sim->now_s = (double)(number + 1) * STEP_S;
		step(sim, number);
	}
	struct result result = sim->result;
	const double loaded_s = scenario->seconds - scenario->start_s;
	const double mean_capacity =
		scenario->capacity *
		(scenario->drop_at_s > 0
			 ? 1 - 0.5 * (scenario->seconds - scenario->drop_at_s) / loaded_s
			 : 1);
	result.goodput = (double)sim->good / loaded_s / mean_capacity;
	result.done = (double)sim->done / loaded_s / mean_capacity;
	result.high = sim->high_started ? (double)sim->high_succeeded / (double)sim->high_started
					: 1;
	result.changes = sim->control.changes;
	uint64_t below = 0;
	for (unsigned bin = 0; bin < WAIT_BINS; bin++) {
		below += sim->wait_bins[bin];
		if ((double)below >= 0.99 * (double)sim->waits) {
			result.p99_wait_s = bin / 1000.0;
			break;
		}
	}
	for (unsigned slot = 0; slot < HORIZON; slot++)
		free(sim->wheel[slot]);
	free(sim->queue);
	free(sim->shaking);
	free(sim);
	return result;
}

#include "tests/sim/overload_cases.h"

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--table") == 0)
		return print_table();
	if (argc > 1 && strcmp(argv[1], "--sweep") == 0)
		return sweep() != 0;
	if (getenv("LS_SIM_CASE"))
		return check_goals() != 0;
	return check_goals() + check_rivals() + sweep() != 0;
}
