/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/timed.h"

/*
 * The control word and what stands beside it, written by whoever holds the lock.
 *
 * Every change is one store that packets see whole; what belongs to it is stored before. A process that is
 * killed in between leaves fields that no packet looks at, or a flag that makes packets look at fields that say
 * nothing; both mean what was in force before, and ls_timed_settle() clears them.
 *
 *	off, panic	until, then the flag
 *	on		the flag away (with a confirm pending: both fields), then the fields
 *	confirm		previous word, deadline, then the new word with the flag
 *	confirmed	deadline away, then the flag
 *	deadline passed	packets go by the previous word; then, by the next holder of the lock: that word into its place,
 *			a grace period (a packet may hold the other), the deadline away, the tables settled
 *	rollback	the word; then the tables settled (ls_publish_settle)
 */

#include <inttypes.h>

#include "pure/timed.h"
#include "user/base/error.h"
#include "user/base/output.h"
#include "user/plane/events.h"
#include "user/plane/internal.h"
#include "user/plane/overload.h"
#include "user/policy/check.h"
#include "user/policy/policy.h"

static uint64_t number_of(uint64_t word)
{
	return word >> LS_WORD_NUMBER_SHIFT;
}

static uint64_t load(const __u64 *field)
{
	return __atomic_load_n((const uint64_t *)field, __ATOMIC_ACQUIRE);
}

static void store(__u64 *field, uint64_t value)
{
	__atomic_store_n((uint64_t *)field, value, __ATOMIC_SEQ_CST);
}

/* Nanoseconds that are left of a field. */
static uint64_t left(const struct ls_plane *plane, const __u64 *until)
{
	const uint64_t now_ns = ls_plane_now(plane), until_ns = load(until);

	return load(&ls_plane_control_rw(plane)->word) & LS_WORD_TIMED && until_ns > now_ns
		       ? until_ns - now_ns
		       : 0;
}

uint64_t ls_plane_off_left(const struct ls_plane *plane)
{
	return left(plane, &ls_plane_control_rw(plane)->off_until);
}

uint64_t ls_plane_panic_left(const struct ls_plane *plane)
{
	return left(plane, &ls_plane_control_rw(plane)->panic_until);
}

/* Without the flip, a deadline was prepared by a process that was killed. */
static bool was_flipped(const struct ls_control *control)
{
	return number_of(load(&control->word)) != number_of(load(&control->previous_word));
}

uint64_t ls_plane_pending(const struct ls_plane *plane)
{
	const struct ls_control *control = ls_plane_control_rw(plane);

	return was_flipped(control) ? left(plane, &control->confirm_until) : 0;
}

unsigned ls_timed_lasting_half(const struct ls_plane *plane)
{
	const unsigned half = ls_plane_half(plane);

	return ls_plane_pending(plane) ? !half : half;
}

uint64_t ls_timed_next_number(const struct ls_plane *plane)
{
	const struct ls_state *state = ls_plane_state(plane);
	uint64_t number = number_of(load(&ls_plane_control_rw(plane)->word));

	for (int half = 0; half < 2; half++)
		if (number_of(state->words[half]) > number)
			number = number_of(state->words[half]);
	return number + 1;
}

void ls_timed_flip(struct ls_plane *plane, uint64_t base, uint64_t confirm_ns)
{
	struct ls_control *control = ls_plane_control_rw(plane);
	const uint64_t before = load(&control->word);
	uint64_t word = base | (before & LS_WORD_TIMED);

	if (ls_plane_state(plane)->flags & LS_STATE_MONITOR)
		word |= LS_WORD_MONITOR;
	if (ls_plane_hand_left(plane))
		word |= LS_WORD_LEVEL;
	if (confirm_ns) {
		store(&control->previous_word, before);
		store(&control->confirm_until, ls_plane_now(plane) + confirm_ns);
		word |= LS_WORD_TIMED;
	}
	store(&control->word, word);
}

static void tell(struct ls_plane *plane, enum ls_event_kind kind, const char *action,
		 uint64_t for_ns)
{
	ls_journal_write(plane, &(struct ls_journal_entry){
					.kind = kind, .action = action, .value = for_ns });
}

/* Whether one of the fields still says something. */
static bool is_timed(const struct ls_plane *plane)
{
	const struct ls_control *control = ls_plane_control_rw(plane);
	const uint64_t now_ns = ls_plane_now(plane);

	return load(&control->confirm_until) || load(&control->off_until) > now_ns ||
	       load(&control->panic_until) > now_ns;
}

/* Takes the flag away when nothing is left that it stands for, and then what has ended. */
static void drop_flag(struct ls_plane *plane)
{
	struct ls_control *control = ls_plane_control_rw(plane);

	if (is_timed(plane))
		return;
	store(&control->word, load(&control->word) & ~LS_WORD_TIMED);
	store(&control->off_until, 0);
	store(&control->panic_until, 0);
}

void ls_timed_finish(struct ls_plane *plane)
{
	struct ls_state *state = ls_plane_state(plane);
	const uint64_t word = load(&ls_plane_control_rw(plane)->word);
	const unsigned half = word & LS_WORD_GENERATION;

	/* Before the first one nothing was counted. */
	if (!state->words[1 - half] || ls_publish_settle(plane, half, NULL) == 0)
		state->half[half].number = number_of(word);
}

/* The deadline has passed: what packets do already becomes what is written. */
static void go_back(struct ls_plane *plane)
{
	struct ls_control *control = ls_plane_control_rw(plane);
	const unsigned refused = load(&control->word) & LS_WORD_GENERATION;

	/* It was never agreed to, so rollback does not go there. */
	ls_plane_state(plane)->half[refused].number = 0;
	ls_plane_state(plane)->half[1 - refused].number = 0; /* until it is settled */
	store(&control->word, load(&control->previous_word) | LS_WORD_TIMED);
	ls_grace_period();
	store(&control->confirm_until, 0);
	ls_timed_finish(plane);
	tell(plane, LS_EVENT_POLICY, "expire", 0);
}

void ls_timed_settle(struct ls_plane *plane)
{
	struct ls_control *control = ls_plane_control_rw(plane);
	struct ls_state *state = ls_plane_state(plane);
	const uint64_t word = load(&control->word);
	const unsigned half = word & LS_WORD_GENERATION;

	if (number_of(word) && !state->half[half].number &&
	    number_of(state->words[half]) == number_of(word))
		ls_timed_finish(plane);
	if (!(word & LS_WORD_TIMED)) {
		store(&control->confirm_until, 0);
		store(&control->off_until, 0);
		store(&control->panic_until, 0);
		return;
	}
	if (load(&control->confirm_until)) {
		if (!was_flipped(control))
			store(&control->confirm_until, 0);
		else if (ls_plane_now(plane) >= load(&control->confirm_until))
			go_back(plane);
	}
	drop_flag(plane);
}

int ls_plane_refuse_pending(const struct ls_plane *plane, struct ls_error *error)
{
	char text[LS_HUMAN_TEXT];
	const uint64_t left_ns = ls_plane_pending(plane);

	if (!left_ns)
		return 0;
	return ls_error_set(
		error,
		"cannot change the policy: generation %" PRIu64
		" waits to be confirmed for another %s; 'loadshed policy confirm' keeps it, and without that the previous policy is back by itself",
		ls_plane_generation(plane), ls_human_time(left_ns, text));
}

int ls_timed_check_program(const struct ls_plane *plane, struct ls_error *error)
{
	if (ls_plane_state(plane)->flags & LS_STATE_TIMED)
		return 0;
	return ls_error_set(
		error,
		"cannot set what ends by itself: the program that runs (%.31s) is too old to judge it; 'loadshed attach IFACE' replaces it and keeps the state",
		ls_plane_state(plane)->version);
}

int ls_plane_confirm(struct ls_plane *plane, struct ls_error *error)
{
	struct ls_control *control = ls_plane_control_rw(plane);

	(void)error;
	if (!ls_plane_pending(plane))
		return LS_PLANE_E_NOT_PENDING;
	store(&control->confirm_until, 0);
	drop_flag(plane);
	tell(plane, LS_EVENT_POLICY, "confirm", 0);
	return 0;
}

uint64_t ls_plane_previous_number(const struct ls_plane *plane)
{
	const struct ls_state *state = ls_plane_state(plane);
	const unsigned half = !ls_plane_half(plane);

	/* What was never confirmed in time is no previous generation, also while nobody has written that down. */
	if ((load(&ls_plane_control_rw(plane)->word) & LS_WORD_GENERATION) == half)
		return 0;
	return state->words[half] ? state->half[half].number : 0;
}

int ls_plane_rollback(struct ls_plane *plane, struct ls_warnings *notes, struct ls_error *error)
{
	_cleanup_(ls_policy_freep) struct ls_policy *policy = NULL;
	struct ls_state *state = ls_plane_state(plane);
	const unsigned half = !ls_plane_half(plane);
	int r = ls_plane_refuse_pending(plane, error);

	if (r == 0)
		r = ls_plane_previous(plane, &policy, NULL, error);
	if (r == 0)
		r = ls_publish_check_tags(plane, policy, error);
	if (r)
		return r;
	ls_publish_refresh_clock(plane);
	ls_timed_flip(plane, state->words[half], 0);
	state->half[half].number = 0; /* until it is settled */
	state->half[half].since_ns = ls_now_unix();
	ls_timed_finish(plane);
	tell(plane, LS_EVENT_POLICY, "rollback", 0);
	if (policy->sources != state->sources)
		ls_warnings_add(notes, "capacity stays at %" PRIu64 " sources, as at attach",
				(uint64_t)state->sources);
	return 0;
}

static int set_until(struct ls_plane *plane, __u64 *until, uint64_t for_ns, const char *action,
		     struct ls_error *error)
{
	struct ls_control *control = ls_plane_control_rw(plane);
	const int r = ls_timed_check_program(plane, error);

	if (r < 0)
		return r;
	store(until, ls_plane_now(plane) + for_ns);
	store(&control->word, load(&control->word) | LS_WORD_TIMED);
	tell(plane, LS_EVENT_MODE, action, for_ns);
	return 0;
}

int ls_plane_off(struct ls_plane *plane, uint64_t for_ns, struct ls_error *error)
{
	return set_until(plane, &ls_plane_control_rw(plane)->off_until, for_ns, "off", error);
}

int ls_plane_panic(struct ls_plane *plane, uint64_t for_ns, struct ls_error *error)
{
	return set_until(plane, &ls_plane_control_rw(plane)->panic_until, for_ns, "panic", error);
}

void ls_plane_on(struct ls_plane *plane)
{
	struct ls_control *control = ls_plane_control_rw(plane);

	if (!load(&control->confirm_until))
		store(&control->word, load(&control->word) & ~LS_WORD_TIMED);
	store(&control->off_until, 0);
	store(&control->panic_until, 0);
	tell(plane, LS_EVENT_MODE, "on", 0);
}
