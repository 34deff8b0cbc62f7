/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/wait.h"

#include "pure/bucket.h"
#include "pure/window.h"

#define TICKS_PER_NS (1ULL << LS_TICKS_PER_NS_SHIFT)

/* a * b / c, rounded down; the result fits, as c is not below a or b. */
static uint64_t scale(uint64_t a, uint64_t b, uint64_t c)
{
	return (uint64_t)((unsigned __int128)a * b / c);
}

static uint64_t fixed_wait(const struct ls_standing *standing, struct ls_window_clock clock,
			   uint64_t cost)
{
	if (cost > standing->ceiling)
		return LS_WAIT_NEVER;
	if (ls_fixed_count(standing->state, clock.number) + cost <= standing->ceiling)
		return 0;
	return clock.remaining;
}

/*
 * The most of a window that may be left for previous * left / window to fit into `room`; `previous` is not 0.
 * Rounded down, so that it fits with that much left.
 */
static uint64_t most_left(uint64_t previous, uint64_t room, uint64_t window_ns)
{
	return room >= previous ? window_ns : scale(room, window_ns, previous);
}

static uint64_t sliding_wait(const struct ls_standing *standing, struct ls_window_clock clock,
			     uint64_t cost)
{
	const uint64_t window_ns = standing->limit->window_ns, limit = standing->ceiling;
	const struct ls_sliding_counts counts = ls_sliding_counts(standing->state, clock.number);

	if (cost > limit)
		return LS_WAIT_NEVER;
	if (counts.current + cost <= limit) {
		const uint64_t left = counts.previous == 0
					      ? window_ns
					      : most_left(counts.previous,
							  limit - counts.current - cost, window_ns);
		return left >= clock.remaining ? 0 : clock.remaining - left;
	}
	/* Not in this window; in the next one, what is now current counts less and less. */
	return clock.remaining + window_ns - most_left(counts.current, limit - cost, window_ns);
}

static uint64_t log_wait(const struct ls_standing *standing, uint64_t now)
{
	const uint64_t admitted = standing->state ? standing->state - 1 : 0;
	const uint64_t window = standing->limit->window_ns << LS_TICKS_PER_NS_SHIFT;

	if (!standing->log || admitted < standing->ceiling)
		return 0;
	const uint64_t oldest =
		standing->log->stamp[(admitted - standing->ceiling) & (LS_LOG_STAMPS - 1)];
	return ls_tick_after(oldest + window, now)
		       ? (oldest + window - now + TICKS_PER_NS - 1) / TICKS_PER_NS
		       : 0;
}

static uint64_t window_of(const struct ls_limit_abi *limit)
{
	return limit->window_ns | !limit->window_ns; /* never 0, as in pure/limit.h */
}

uint64_t ls_standing_wait(const struct ls_standing *standing, struct ls_instant at, uint64_t cost)
{
	const struct ls_limit_abi *limit = standing->limit;

	switch (limit->algorithm) {
	case LS_ABI_TOKEN_BUCKET:
		return (ls_bucket_wait(standing->state, at.now, cost, standing->ceiling,
				       limit->clamp) +
			TICKS_PER_NS - 1) /
		       TICKS_PER_NS;
	case LS_ABI_SLIDING_LOG:
		return log_wait(standing, at.now);
	case LS_ABI_FIXED_WINDOW:
		return fixed_wait(standing, ls_window_at(at.wall_ns, window_of(limit)), cost);
	default:
		return sliding_wait(standing, ls_window_at(at.wall_ns, window_of(limit)), cost);
	}
}

/* The most units whose price, c * mult >> shift and then / factor, is at most `ticks`. */
static uint64_t units_for(const struct ls_standing *standing, uint64_t ticks)
{
	const struct ls_limit_abi *limit = standing->limit;
	const uint64_t factor = standing->factor > 1 ? standing->factor : 1;

	if (!limit->mult)
		return 0;
	/* ticks <= 2^61; factor below 2^14; shift below 58, and then mult is near 2^43: see compile_limit.c. */
	const unsigned __int128 below = ((unsigned __int128)ticks + 1) * factor;
	if (below >> (127 - limit->shift))
		return (uint64_t)(below / limit->mult) << limit->shift;
	return (uint64_t)(((below << limit->shift) - 1) / limit->mult);
}

static uint64_t log_remaining(const struct ls_standing *standing, uint64_t now)
{
	const uint64_t admitted = standing->state ? standing->state - 1 : 0;
	const uint64_t window = standing->limit->window_ns << LS_TICKS_PER_NS_SHIFT;
	uint64_t live = 0;

	while (standing->log && live < admitted && live < standing->ceiling &&
	       ls_tick_after(standing->log->stamp[(admitted - 1 - live) & (LS_LOG_STAMPS - 1)] +
				     window,
			     now))
		live++;
	return standing->ceiling - live;
}

/* limit - current - previous * left / window, rounded down. */
static uint64_t sliding_remaining(const struct ls_standing *standing, struct ls_window_clock clock)
{
	const uint64_t window_ns = window_of(standing->limit);
	const struct ls_sliding_counts counts = ls_sliding_counts(standing->state, clock.number);
	const unsigned __int128 weighted = (unsigned __int128)counts.previous * clock.remaining;
	const uint64_t used = counts.current + (uint64_t)((weighted + window_ns - 1) / window_ns);

	return used < standing->ceiling ? standing->ceiling - used : 0;
}

uint64_t ls_standing_remaining(const struct ls_standing *standing, struct ls_instant at)
{
	const struct ls_limit_abi *limit = standing->limit;
	uint64_t used;

	switch (limit->algorithm) {
	case LS_ABI_TOKEN_BUCKET:
		used = ls_bucket_used(standing->state, at.now, limit->clamp);
		return used < standing->ceiling ? units_for(standing, standing->ceiling - used) : 0;
	case LS_ABI_SLIDING_LOG:
		return log_remaining(standing, at.now);
	case LS_ABI_FIXED_WINDOW:
		used = ls_fixed_count(standing->state,
				      ls_window_at(at.wall_ns, window_of(limit)).number);
		return used < standing->ceiling ? standing->ceiling - used : 0;
	default:
		return sliding_remaining(standing, ls_window_at(at.wall_ns, window_of(limit)));
	}
}

uint64_t ls_standing_ceiling(const struct ls_standing *standing)
{
	return standing->limit->algorithm == LS_ABI_TOKEN_BUCKET
		       ? units_for(standing, standing->ceiling)
		       : standing->ceiling;
}

static unsigned log_share(uint64_t now, const struct ls_slot_abi *slot, uint64_t state,
			  const struct ls_log *log)
{
	const uint64_t window = slot->window_ns << LS_TICKS_PER_NS_SHIFT;
	const uint64_t eighth = slot->limit / 8, admitted = state - 1;
	const __u64 *stamp = log->stamp;

	if (!admitted || !ls_tick_after(stamp[(admitted - 1) & (LS_LOG_STAMPS - 1)] + window, now))
		return 0;
	return admitted > eighth &&
			       ls_tick_after(stamp[(admitted - 1 - eighth) & (LS_LOG_STAMPS - 1)] +
						     window,
					     now)
		       ? 255
		       : 1;
}

unsigned ls_state_share(struct ls_instant at, const struct ls_slot_abi *slot, unsigned table,
			uint64_t state, const struct ls_log *log)
{
	uint64_t used;

	if (!slot->known || !state)
		return 0;
	if (table == LS_TABLE_LOG)
		return log_share(at.now, slot, state, log);
	if (table == LS_TABLE_STRIKE)
		return !ls_tick_after(at.now, state + (slot->window_ns << LS_TICKS_PER_NS_SHIFT));
	if (slot->algorithm == LS_ABI_TOKEN_BUCKET) {
		used = ls_bucket_used(state, at.now, LS_COST_TICKS_MAX);
	} else {
		const struct ls_window_clock clock =
			ls_window_at(at.wall_ns, slot->window_ns | !slot->window_ns);
		const struct ls_sliding_counts counts = ls_sliding_counts(state, clock.number);
		used = slot->algorithm == LS_ABI_FIXED_WINDOW ? ls_fixed_count(state, clock.number)
							      : counts.previous + counts.current;
	}
	return used ? (unsigned)(used >> (slot->share_shift & 63)) | 1 : 0;
}
