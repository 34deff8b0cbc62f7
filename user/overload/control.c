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
#define SHAPE_NEW 0.5  /* weight of the last period in the histogram's shape */
#define SLOW_S 1.0     /* time over which offered_slow forgets */
#define QUIET_S 5.0    /* nothing to refuse for so long: shedding is over */
#define OPENS 1.05     /* growth of A per period while nothing is too much */
#define ENTERS 2 /* targets of delay at which shedding begins when more comes than gets done */
#define ENTERS_ANYHOW 6 /* and whatever comes */
#define FLOOD 1.5	/* so many times what gets done: no chance */
#define HURRY_LEAST 32	/* pieces of new work, below which a rate is chance, too */
#define FAR_ERROR 0.5	/* half a period's work too much in the queue */
#define FAR_GAIN 0.6
#define BUSY_LEAST 5
#define BUSY_WORK 500
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

/* M is what was done over the last periods with work waiting, however short each of them was. */
static void learn_capacity(struct ls_overload_state *state, double served, double period_s)
{
	/* What a part that is too much was measured at is all that should be done. */
	const bool is_part = state->error > 0 && state->cause < LS_SIGNAL_MAX &&
			     !ls_signal_is_queue(state->cause);

	if (state->waits || is_part) {
		const unsigned at = state->n_busy++ % LS_BUSY_PERIODS;
		double work = 0, time_s = 0;
		state->busy_served[at] = served * period_s;
		state->busy_s[at] = period_s;
		/* From the newest back, until chance is small: 500 pieces of exponential work are within 4.5 %. */
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

/* Follows what is offered: the shape smoothly, so that the edge does not jump from user to user, the sum at once. */
static void follow_offered(struct ls_overload_state *state, const struct ls_overload_input *input)
{
	const double slow = smaller(1, input->period_s / SLOW_S);
	double sum = 0, smooth = 0;

	for (unsigned i = 0; i < LS_LEVELS; i++) {
		const double rate = input->offered[i] / input->period_s;
		state->shape[i] += SHAPE_NEW * (rate - state->shape[i]);
		sum += rate;
		smooth += state->shape[i];
	}
	state->offered_recent = (sum + state->offered + state->offered_before) / 3;
	state->offered_before = state->offered;
	state->offered = sum;
	state->offered_slow += slow * (sum - state->offered_slow);
	if (smooth > 0 && sum > 0)
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

/* How much less than M is admitted, as a part of it: linear near the target, and a queue that is far too long goes fast. */
static double correction(double error)
{
	const double far = larger(0, error - FAR_ERROR);

	return LS_OVERLOAD_GAIN * error + FAR_GAIN * far;
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
		state->admit = state->capacity;
	}
	if (state->error > 0 || state->waits) {
		/* A part only says that it is too much; its error is against what was admitted, not what was done. */
		const double base =
			state->cause < LS_SIGNAL_MAX && ls_signal_is_queue(state->cause)
				? state->capacity
				: smaller(state->admit, larger(wanted, state->capacity));
		state->admit = larger(ADMIT_LEAST * state->capacity,
				      base * (1 - correction(state->error)));
	} else {
		state->admit = 0.01 * state->capacity +
			       larger(OPENS * state->admit,
				      state->capacity * (1 - correction(state->error)));
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

/* Fills the priorities from the top, after each has got its floor. */
static void invert(const struct ls_overload_state *state, __u64 ret[static LS_PRIORITIES])
{
	double demand[LS_PRIORITIES] = { 0 }, room[LS_PRIORITIES], left = state->admit;

	for (unsigned p = 0; p < LS_PRIORITIES; p++) {
		const double *shape = &state->shape[(LS_ABI_CRITICAL - p) * LS_LEVEL_STEPS];
		for (unsigned step = 0; step < LS_LEVEL_STEPS; step++)
			demand[p] += shape[step];
		room[p] = smaller(demand[p], state->floor[p] * state->admit);
		left -= room[p];
	}
	for (unsigned p = LS_PRIORITIES; p-- > 0;) {
		const double more = larger(0, smaller(demand[p] - room[p], left));
		left -= more;
		room[p] += more;
		/* What there is room for as a whole is admitted as a whole, whatever comes next. */
		ret[p] = room[p] >= demand[p] && left > 0
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
	for (unsigned p = 0; p < LS_PRIORITIES; p++)
		ret->admit[p] = LS_ADMIT_ALL;
	if (state->sheds)
		invert(state, ret->admit);
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
