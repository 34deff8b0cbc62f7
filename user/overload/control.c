/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/overload/control.h"

#include <stdio.h>
#include <string.h>

#define GUARD_OVER                                                                                 \
	1.25 /* the guard's rate over the capacity: room for what a level lets through at its edge */
#define GUARD_GIVES 1.25 /* per period in which it refused and nothing waited */
#define ADMIT_LEAST                                                                                \
	0.1 /* of the capacity: work that is never admitted could not show that things are better */
#define ERROR_MOST 5.0 /* then A is at its least anyway */
#define SHAPE_NEW 0.2  /* weight of the last period in the histogram's shape */
#define HELD 0.75      /* of what gets done in a look: with so much waiting it does not run out */
#define UNHELD_S 2.0   /* without such a look */
#define JUMP 1.3       /* times as much or as little as before is another load and no chance */
#define SLOW_S 1.0     /* time over which offered_slow forgets */
#define QUIET_S 5.0    /* nothing to refuse for so long: shedding is over */
#define OPENS 1.05     /* growth of A per period while nothing is too much */
#define ENTERS 2 /* targets of delay at which shedding begins when more comes than gets done */
#define ENTERS_ANYHOW 6 /* and whatever comes */
#define LONGEST 2.7 /* targets of delay that an accept queue may be long: by chance it is 3 then */
#define FLOOD 1.5   /* so many times what gets done: no chance */
#define HURRY_LEAST 32 /* pieces of new work, below which a rate is chance, too */
#define FAR_ERROR 0.5  /* half a period's work too much in the queue */
#define FAR_GAIN 0.6
#define BUSY_LEAST 2
#define BUSY_WORK 1000
#define DEBT_S 0.1	    /* of the capacity: as much as is remembered of what came too much */
#define CREDIT 0.2	    /* of that: as much as is remembered of what did not come */
#define DEBT_BACK_S 0.04    /* two looks */
#define GAIN_LEAST 0.3	    /* of a queue, per period: stable up to a round trip of 500 ms */
#define GAIN_MOST 0.6	    /* and up to 100 ms for a slow server */
#define GAIN_PER_CHANCE 60  /* over the square of a look's chance, of that which can be borne */
#define CALM 0.6	    /* of the target: a standard deviation that the queue may have */
#define SAFE 1.05	    /* of the capacity: retries are in it, which end when it is served */
#define SAFE_ERROR 0.4	    /* 40 ms above the target, and they wait, too */
#define WAITS 0.25	    /* part of its target that a queue must hold to show the capacity */
#define DELAY_UNKNOWN_S 1.0 /* of what waits when nothing was ever served */
#define FILL                                                                                       \
	0.35 /* part of a short backlog that stands for its target: above it connections are lost by lot */
#define SERVICES_WAITING                                                                           \
	10 /* a target below this many service times would be crossed by chance at 95 % load */

const char *const ls_signal_keys[LS_SIGNAL_MAX] = {
#define KEY(id, key, queue) [LS_SIGNAL_##id] = key,
	LS_SIGNAL_LIST(KEY)
#undef KEY
};

bool ls_signal_is_queue(enum ls_signal_id id)
{
	static const bool queues[LS_SIGNAL_MAX] = {
#define QUEUE(name, key, queue) [LS_SIGNAL_##name] = queue,
		LS_SIGNAL_LIST(QUEUE)
#undef QUEUE
	};

	return queues[id];
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static double smaller(double a, double b)
{
	return a < b ? a : b;
}

void ls_overload_init(struct ls_overload_state *state, const double floor[static LS_PRIORITIES])
{
	memset(state, 0, sizeof(*state));
	memcpy(state->floor, floor, sizeof(state->floor));
	state->cause = LS_SIGNAL_MAX;
	state->unheld_s = UNHELD_S;
}

/* The target that a delay is held at: never so short that the service's own chance crosses it. */
static double target_of(const struct ls_overload_state *state, enum ls_signal_id id, double target)
{
	const double rate = state->capacity > 0 ? state->capacity : state->served;

	if (!ls_signal_is_queue(id) || rate <= 0)
		return target;
	return larger(target, SERVICES_WAITING / rate);
}

/* The largest error of all signals and whose it is. */
static void find_error(struct ls_overload_state *state, const struct ls_overload_input *input)
{
	state->error = -ERROR_MOST;
	state->cause = LS_SIGNAL_MAX;
	for (int id = 0; id < LS_SIGNAL_MAX; id++) {
		const struct ls_signal *signal = &input->signals[id];
		const double target = target_of(state, id, signal->target);
		double error;

		state->seen[id] = *signal;
		if (!signal->is_present || target <= 0)
			continue;
		error = ls_signal_is_queue(id) ? (signal->value - target) / LS_OVERLOAD_PERIOD_S
					       : signal->value / target - 1;
		error = smaller(error, ERROR_MOST);
		if (error > state->error) {
			state->error = error;
			state->cause = id;
		}
	}
}

/*
 * Whether what was served is what the server can do. Something waiting at each look is not enough: at half load there
 * is often something that is just being taken. A queue that is held must be a part of its target long.
 */
static bool is_waiting(const struct ls_overload_state *state, const struct ls_overload_input *input)
{
	bool has_queue = false;

	if (!input->has_waiting)
		return false;
	for (int id = 0; id < LS_SIGNAL_MAX; id++) {
		const struct ls_signal *signal = &input->signals[id];
		if (!ls_signal_is_queue(id) || !signal->is_present || signal->target <= 0)
			continue;
		if (signal->value > WAITS * target_of(state, id, signal->target))
			return true;
		has_queue = true;
	}
	return !has_queue;
}

void ls_overload_watch(struct ls_overload_state *state, const struct ls_overload_look *look)
{
	const double rate = larger(state->capacity, state->served);

	if (look->served >= 0 && state->held > HELD * rate * look->elapsed_s) {
		state->held_served += look->served;
		state->held_s += look->elapsed_s;
	}
	state->held = look->is_present ? look->delay_s * rate : 0;
}

/*
 * M is what was done over the last periods with work waiting, however short each of them was.
 *
 * Best are looks that began with so much waiting that it could not run out: to choose by what was there before says
 * nothing about how fast it went then. A queue that is always shorter, as of a fast server with a short target, shows
 * M by periods in which something waited at every look, which is a little too low.
 */
static void learn_capacity(struct ls_overload_state *state, double served, double period_s)
{
	/* What a part that is too much was measured at is all that should be done. */
	const bool is_part = state->error > 0 && state->cause < LS_SIGNAL_MAX &&
			     !ls_signal_is_queue(state->cause);
	const bool is_held = state->held_s > 0;

	state->unheld_s = is_held ? 0 : state->unheld_s + period_s;
	if (is_held || is_part || (state->waits && state->unheld_s >= UNHELD_S)) {
		const unsigned at = state->n_busy++ % LS_BUSY_PERIODS;
		double work = 0, time_s = 0;
		state->busy_served[at] = is_held ? state->held_served : served * period_s;
		state->busy_s[at] = is_held ? state->held_s : period_s;
		state->held_served = state->held_s = 0;
		/* From the newest back, until chance is small: 1000 pieces of exponential work are within 3.2 %. */
		for (unsigned i = 0; i < LS_BUSY_PERIODS && i < state->n_busy; i++) {
			const unsigned before = (at + LS_BUSY_PERIODS - i) % LS_BUSY_PERIODS;
			if (i >= BUSY_LEAST && work >= BUSY_WORK)
				break;
			work += state->busy_served[before];
			time_s += state->busy_s[before];
		}
		state->capacity = work / time_s;
	} else if (state->n_busy) {
		/* A server that has nothing waiting shows what it was asked for, which it can do at least. */
		state->capacity = larger(state->capacity, served);
	}
	/* Only a queue shows what a server can do: CPU that others use says nothing about it. */
	state->has_peak |= state->waits;
	state->peak_at = (state->peak_at + 1) % LS_PEAK_PERIODS;
	state->peaks[state->peak_at] =
		state->has_peak ? larger(served, state->waits ? state->capacity : 0) : 0;
	state->peak = 0;
	for (unsigned i = 0; i < LS_PEAK_PERIODS; i++)
		state->peak = larger(state->peak, state->peaks[i]);
}

static void set_guard(struct ls_overload_state *state, const struct ls_overload_input *input)
{
	const double peak = state->peak;

	if (peak > 0)
		state->guard = state->waits ? GUARD_OVER * peak
					    : larger(state->guard, GUARD_OVER * peak);
	if (input->refused_guard > 0 && !state->waits)
		state->guard *= GUARD_GIVES;
}

/*
 * How long the accept queue of a listener may be, in connections: bounds the wait between two looks, and where the
 * controller has died. Only while it sheds: at 95 % of the capacity chance makes a queue as long.
 */
static uint32_t longest_queue(const struct ls_overload_state *state,
			      const struct ls_overload_input *input)
{
	const struct ls_signal *accept = &input->signals[LS_SIGNAL_ACCEPT_DELAY];

	if (!state->sheds || !accept->is_present || accept->target <= 0)
		return 0;
	const double target = target_of(state, LS_SIGNAL_ACCEPT_DELAY, accept->target);
	return (uint32_t)smaller(LONGEST * target * state->capacity + 0.5, UINT32_MAX);
}

/* Follows what is offered: the shape smoothly, so that the edge does not jump from user to user, the sum at once. */
static void follow_offered(struct ls_overload_state *state, const struct ls_overload_input *input)
{
	const double slow = smaller(1, input->period_s / SLOW_S);
	double sum = 0, smooth = 0, demand[LS_PRIORITIES] = { 0 };

	for (unsigned i = 0; i < LS_LEVELS; i++) {
		const double rate = input->offered[i] / input->period_s;
		demand[LS_ABI_CRITICAL - i / LS_LEVEL_STEPS] += rate;
		state->shape[i] += SHAPE_NEW * (rate - state->shape[i]);
		sum += rate;
		smooth += state->shape[i];
	}
	state->offered_recent = (sum + state->offered + state->offered_before) / 3;
	state->offered_before = state->offered;
	state->offered = sum;
	state->offered_slow += slow * (sum - state->offered_slow);
	for (unsigned p = 0; p < LS_PRIORITIES; p++)
		state->demand_slow[p] += slow * (demand[p] - state->demand_slow[p]);
	if (smooth > 0 && sum > 0 && (sum > JUMP * smooth || smooth > JUMP * sum))
		for (unsigned i = 0; i < LS_LEVELS; i++)
			state->shape[i] *= sum / smooth;
}

/*
 * Whether it is too much. A queue's delay crosses its target by chance below full load, too: at 95 % and with
 * exponential service it is above 40 ms 1.7 % of the time at 2000/s. So more must come than gets done, or it must be
 * far above.
 */
static bool is_overload(const struct ls_overload_state *state,
			const struct ls_overload_input *input)
{
	if (state->error <= 0 || state->capacity <= 0)
		return false;
	if (!ls_signal_is_queue(state->cause))
		return true;
	const double target = target_of(state, state->cause, input->signals[state->cause].target);
	const double times = input->signals[state->cause].value / target;
	const double done = larger(state->capacity, state->peak);

	return times > ENTERS_ANYHOW || (times > ENTERS && (state->offered > FLOOD * done ||
							    state->offered_slow > 1.02 * done));
}

double ls_overload_delay(const struct ls_overload_state *state, double waiting, double served)
{
	/* What was served while nothing much waited is what was asked for: that would make one piece look long. */
	const double rate = larger(state->capacity, served);

	return waiting <= 0 ? 0 : rate > 0 ? waiting / rate : DELAY_UNKNOWN_S;
}

double ls_overload_probe_delay(const struct ls_overload_state *state, double last_s, double more,
			       double so_far_s)
{
	const double rate = larger(state->capacity, state->served);
	const double now_s = rate > 0 ? larger(0, last_s + more / rate) : last_s;

	return larger(now_s, so_far_s);
}

double ls_overload_accept_target(const struct ls_overload_state *state, double target_s,
				 double backlog_most)
{
	const double rate = state->capacity > 0 ? state->capacity : state->served;

	return rate > 0 ? smaller(target_s, FILL * backlog_most / rate) : target_s;
}

bool ls_overload_hurries(const struct ls_overload_state *state, double offered, double served,
			 double elapsed_s, double delay_s, double target_s)
{
	const double done = larger(larger(state->capacity, state->peak), served / elapsed_s);

	return !state->sheds && offered >= HURRY_LEAST && offered > FLOOD * done * elapsed_s &&
	       delay_s > ENTERS * target_s;
}

static bool is_queue_cause(const struct ls_overload_state *state)
{
	return state->cause < LS_SIGNAL_MAX && ls_signal_is_queue(state->cause);
}

/*
 * How much less than M is admitted, as a part of it: linear near the target, and a queue that is far too long goes
 * fast. A part has been there for a period when it is seen; a queue is looked at several times in one.
 */
static double correction(const struct ls_overload_state *state)
{
	const double gain = is_queue_cause(state) ? larger(GAIN_LEAST, state->queue_gain)
						  : LS_OVERLOAD_GAIN;

	return gain * state->error + FAR_GAIN * larger(0, state->error - FAR_ERROR);
}

/* Decides between shedding and not, and A. */
static void decide(struct ls_overload_state *state, const struct ls_overload_input *input)
{
	const double wanted = state->offered;

	if (!state->sheds) {
		state->admit = 0;
		if (!is_overload(state, input))
			return;
		state->sheds = true;
		state->changes++;
		state->quiet_s = 0;
		state->admit = state->wanted = state->capacity;
		state->debt = 0;
	}
	if (state->error > 0 || state->waits) {
		/* A part only says that it is too much; its error is against what was admitted, not what was done. */
		const double base =
			is_queue_cause(state)
				? state->capacity
				: smaller(state->admit, larger(wanted, state->capacity));
		state->admit =
			larger(ADMIT_LEAST * state->capacity, base * (1 - correction(state)));
	} else {
		state->admit =
			0.01 * state->capacity +
			larger(OPENS * state->admit, state->capacity * (1 - correction(state)));
	}
	/* No more comes than gets done, and nothing waits long: what is left of the level would only refuse by chance. */
	if (state->error <= 0 && state->offered_recent <= state->capacity)
		state->admit = larger(state->admit, 2 * state->capacity);
	state->admit = smaller(state->admit, 4 * larger(wanted, state->capacity));
	state->quiet_s =
		wanted <= state->admit && state->error <= 0 ? state->quiet_s + input->period_s : 0;
	if (state->quiet_s >= QUIET_S) {
		state->sheds = false;
		state->changes++;
		state->admit = 0;
	}
}

/* How far the indices of one priority are admitted so that `room` per second pass. */
static __u64 admit_of(const double *shape, double room)
{
	for (unsigned step = 0; step < LS_LEVEL_STEPS; step++) {
		if (shape[step] > room)
			return LS_ADMIT(step, (uint32_t)(room / shape[step] * 4294967295.0));
		room -= shape[step];
	}
	return LS_ADMIT_ALL;
}

/*
 * Fills the priorities from the top with `admit` per second, after each has got its floor. Those that together ask for
 * about what gets done, retries and all, cannot make a queue long fast: while it is not far too long, only the others
 * wait for it to become shorter.
 */
static void invert(const struct ls_overload_state *state, double admit,
		   __u64 ret[static LS_PRIORITIES])
{
	double demand[LS_PRIORITIES] = { 0 }, room[LS_PRIORITIES], left = admit, above = 0;

	for (unsigned p = 0; p < LS_PRIORITIES; p++) {
		const double *shape = &state->shape[(LS_ABI_CRITICAL - p) * LS_LEVEL_STEPS];
		for (unsigned step = 0; step < LS_LEVEL_STEPS; step++)
			demand[p] += shape[step];
		room[p] = smaller(demand[p], state->floor[p] * admit);
		left -= room[p];
	}
	for (unsigned p = LS_PRIORITIES; p-- > 0;) {
		above += state->demand_slow[p];
		const bool is_safe = is_queue_cause(state) && state->error < SAFE_ERROR &&
				     above < SAFE * state->capacity;
		const double more =
			larger(0, smaller(demand[p] - room[p], is_safe ? demand[p] : left));
		left -= more;
		room[p] += more;
		/* What there is room for as a whole is admitted as a whole, whatever comes next. */
		ret[p] = room[p] >= demand[p] && (is_safe || left > 0)
				 ? LS_ADMIT_ALL
				 : admit_of(&state->shape[(LS_ABI_CRITICAL - p) * LS_LEVEL_STEPS],
					    room[p]);
	}
}

void ls_overload_step(struct ls_overload_state *state, const struct ls_overload_input *input,
		      struct ls_overload_output *ret)
{
	const double served =
		(input->served >= 0 ? input->served : input->admitted) / input->period_s;

	state->served = served;
	follow_offered(state, input);
	find_error(state, input);
	state->waits = is_waiting(state, input);
	learn_capacity(state, served, input->period_s);
	set_guard(state, input);
	decide(state, input);
	ret->guard = state->guard;
	ret->queue_most = longest_queue(state, input);
	for (unsigned p = 0; p < LS_PRIORITIES; p++)
		ret->admit[p] = LS_ADMIT_ALL;
	if (state->sheds)
		invert(state, state->admit, ret->admit);
}

/*
 * The gain of a queue that is looked at every LS_OVERLOAD_LOOK_S. n pieces of work come and go in a look, and by chance
 * sqrt(n) more or fewer; a queue of d M pieces can bear a part of that. The values were swept by tests/sim/overload.
 */
static double queue_gain(const struct ls_overload_state *state, double target)
{
	const double held = CALM * target * state->capacity;
	const double chance = held > 0 ? state->capacity * LS_OVERLOAD_LOOK_S / (held * held) : 0;

	return smaller(GAIN_MOST, larger(GAIN_LEAST, GAIN_PER_CHANCE * chance * chance));
}

void ls_overload_trim(struct ls_overload_state *state, const struct ls_overload_look *look,
		      struct ls_overload_output *ret)
{
	const double most = state->capacity * DEBT_S;

	if (!state->sheds)
		return;
	/* What came by chance above what was wanted is not admitted once more, and what did not come is not made up for. */
	state->debt += look->admitted - state->wanted * look->elapsed_s;
	state->debt = smaller(larger(state->debt, -CREDIT * most), most);
	if (look->is_present && state->cause == look->id) {
		const double target = target_of(state, look->id, look->target_s);
		state->error = smaller((look->delay_s - target) / LS_OVERLOAD_PERIOD_S, ERROR_MOST);
		state->queue_gain = queue_gain(state, target);
		if (state->error > 0 || state->waits)
			state->admit = larger(ADMIT_LEAST * state->capacity,
					      state->capacity * (1 - correction(state)));
	}
	state->wanted = state->admit;
	invert(state,
	       larger(ADMIT_LEAST * state->capacity, state->admit - state->debt / DEBT_BACK_S),
	       ret->admit);
}

double ls_overload_height(const __u64 admit[static LS_PRIORITIES])
{
	double refused = 0;

	for (unsigned p = 0; p < LS_PRIORITIES; p++)
		if (LS_ADMIT_STEP(admit[p]) < LS_LEVEL_STEPS)
			refused += LS_LEVEL_STEPS - LS_ADMIT_STEP(admit[p]) -
				   LS_ADMIT_BOUNDARY(admit[p]) / 4294967296.0;
	return refused / LS_LEVELS;
}

void ls_overload_by_height(double height, __u64 ret_admit[static LS_PRIORITIES])
{
	double refused = height * LS_LEVELS;

	for (unsigned p = 0; p < LS_PRIORITIES; p++) {
		const double here = smaller(refused, LS_LEVEL_STEPS);
		const double admitted = LS_LEVEL_STEPS - here;
		const unsigned step = (unsigned)admitted;
		ret_admit[p] =
			step >= LS_LEVEL_STEPS
				? LS_ADMIT_ALL
				: LS_ADMIT(step, (uint32_t)((admitted - step) * 4294967295.0));
		refused -= here;
	}
}

/* "20 ms", "85 %". */
static void amount(enum ls_signal_id id, double value, char text[static 24])
{
	if (!ls_signal_is_queue(id))
		snprintf(text, 24, "%.0f %%", value * 100);
	else if (value < 0.9995)
		snprintf(text, 24, "%.0f ms", value * 1000);
	else
		snprintf(text, 24, "%.1f s", value);
}

char *ls_overload_sentence(const struct ls_overload_state *state,
			   char text[static LS_OVERLOAD_TEXT_BYTES])
{
	char value[24] = "", target[24] = "";
	const double refused = state->offered > state->admit && state->offered > 0
				       ? 100 * (state->offered - state->admit) / state->offered
				       : 0;

	if (state->cause < LS_SIGNAL_MAX) {
		const struct ls_signal *signal = &state->seen[state->cause];
		amount(state->cause, signal->value, value);
		amount(state->cause, target_of(state, state->cause, signal->target), target);
	}
	if (!state->sheds && state->cause == LS_SIGNAL_MAX)
		snprintf(text, LS_OVERLOAD_TEXT_BYTES,
			 "nothing is shed, and no signal can be measured");
	else if (!state->sheds)
		snprintf(text, LS_OVERLOAD_TEXT_BYTES,
			 "nothing is shed: the signal nearest to its target is %s, at %s of %s",
			 ls_signal_keys[state->cause], value, target);
	else if (state->cause == LS_SIGNAL_MAX)
		snprintf(
			text, LS_OVERLOAD_TEXT_BYTES,
			"shedding %.0f %% of new work: %.0f/s came, of which %.0f/s are admitted; no signal can be measured now",
			refused, state->offered, state->admit);
	else
		snprintf(
			text, LS_OVERLOAD_TEXT_BYTES,
			"shedding %.0f %% of new work, lowest priority first: %.0f/s came, %.0f/s are admitted, as about %.0f/s get done; %s is %s, held at %s",
			refused, state->offered, state->admit, state->capacity,
			ls_signal_keys[state->cause], value, target);
	return text;
}
