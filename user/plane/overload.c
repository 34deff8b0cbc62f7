/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/overload.h"

#include <string.h>

#include "pure/level.h"
#include "user/base/error.h"
#include "user/plane/internal.h"

#define TICKS_PER_S (1000000000.0 * (1 << LS_TICKS_PER_NS_SHIFT))
#define RATE_LEAST 0.01 /* per second: its cost in ticks is far below 2^62 */
#define READ_TRIES 64

static void store(__u64 *field, uint64_t value)
{
	__atomic_store_n((uint64_t *)field, value, __ATOMIC_RELEASE);
}

bool ls_plane_has_signals(const struct ls_plane *plane)
{
	return ls_plane_state(plane)->words[ls_plane_half(plane)] & LS_WORD_LEVEL;
}

uint64_t ls_plane_hand_left(struct ls_plane *plane)
{
	const struct ls_overload *overload =
		plane->maps[LS_MAP_OVERLOAD].fd < 0 ? NULL : ls_plane_overload(plane, NULL);
	const uint64_t until_ns = overload ? LS_READ_ONCE(overload->hand.until_ns) : 0;
	const uint64_t now_ns = ls_plane_now(plane);

	return until_ns > now_ns ? until_ns - now_ns : 0;
}

bool ls_plane_counts_offers(const struct ls_plane *plane)
{
	return ls_plane_word(plane) & LS_WORD_LEVEL;
}

struct ls_overload *ls_plane_overload(struct ls_plane *plane, struct ls_error *error)
{
	return ls_plane_memory(plane, LS_MAP_OVERLOAD, error);
}

const struct ls_offered *ls_plane_offered(struct ls_plane *plane, unsigned *ret_cpus,
					  struct ls_error *error)
{
	const struct ls_offered *offered = ls_plane_memory(plane, LS_MAP_OFFERED, error);

	*ret_cpus = offered ? plane->maps[LS_MAP_OFFERED].entries : 0;
	return offered;
}

uint64_t ls_plane_ticking_ns(const struct ls_plane *plane)
{
	return ls_plane_now(plane);
}

bool ls_plane_level(struct ls_plane *plane, __u64 ret_admit[static LS_PRIORITIES],
		    bool *ret_is_hand, uint64_t *ret_left_ns)
{
	const struct ls_overload *overload = ls_plane_overload(plane, NULL);
	const uint64_t now_ns = ls_plane_now(plane);

	if (!overload || !ls_plane_counts_offers(plane))
		return false;
	*ret_is_hand = now_ns < LS_READ_ONCE(overload->hand.until_ns);
	const struct ls_level_abi *level = *ret_is_hand ? &overload->hand : &overload->level;
	const uint64_t until_ns = LS_READ_ONCE(level->until_ns);
	if (now_ns >= until_ns)
		return false;
	*ret_left_ns = until_ns - now_ns;
	for (unsigned p = 0; p < LS_PRIORITIES; p++)
		ret_admit[p] = LS_READ_ONCE(level->admit[p]);
	return true;
}

int ls_plane_set_hand(struct ls_plane *plane, const __u64 admit[static LS_PRIORITIES],
		      uint64_t for_ns, struct ls_error *error)
{
	struct ls_overload *overload = ls_plane_overload(plane, error);

	if (!overload)
		return -EIO;
	for (unsigned p = 0; p < LS_PRIORITIES; p++)
		store(&overload->hand.admit[p], admit[p]);
	store(&overload->hand.until_ns, for_ns ? ls_plane_now(plane) + for_ns : 0);
	/* The stage stays until the next publish: it refuses nothing when the level has ended. */
	if (for_ns)
		store(&ls_plane_control_rw(plane)->word,
		      LS_READ_ONCE(ls_plane_control_rw(plane)->word) | LS_WORD_LEVEL);
	return 0;
}

void ls_plane_set_guard(struct ls_plane *plane, double rate, uint64_t for_ns)
{
	struct ls_overload *overload = ls_plane_overload(plane, NULL);

	if (!overload)
		return;
	if (rate < RATE_LEAST) {
		store(&overload->guard_until_ns, 0);
		return;
	}
	const uint64_t cost = (uint64_t)(TICKS_PER_S / rate);
	/* Their mixture with the old values for an instant is a rate between both. */
	store(&overload->guard.tau, ls_overload_guard_tau(cost));
	store(&overload->guard.clamp, ls_overload_guard_tau(cost));
	store(&overload->guard.mult, cost ? cost : 1);
	store(&overload->guard_until_ns, ls_plane_now(plane) + for_ns);
}

double ls_plane_guard(struct ls_plane *plane)
{
	const struct ls_overload *overload = ls_plane_overload(plane, NULL);

	if (!overload || ls_plane_now(plane) >= LS_READ_ONCE(overload->guard_until_ns))
		return 0;
	const uint64_t cost = LS_READ_ONCE(overload->guard.mult);
	return cost ? TICKS_PER_S / (double)cost : 0;
}

void ls_plane_set_queue_most(struct ls_plane *plane, uint32_t most, uint64_t in_ns)
{
	struct ls_overload *overload = ls_plane_overload(plane, NULL);

	if (!overload)
		return;
	store(&overload->queue_from_ns, ls_plane_now(plane) + in_ns);
	__atomic_store_n(&overload->queue_most, most, __ATOMIC_RELAXED);
}

void ls_plane_accept_queue(struct ls_plane *plane, struct ls_accept_queue_view *ret)
{
	const struct ls_control *control = ls_plane_control(plane);
	const struct ls_generation_abi *generation = &control->generation[ls_plane_half(plane)];
	const uint64_t now_ns = ls_plane_now(plane);
	unsigned n = 0;
	const struct ls_offered *cpus = ls_plane_offered(plane, &n, NULL);

	*ret = (struct ls_accept_queue_view){
		.percent = generation->queue_at[LS_ABI_NORMAL] * 100 / LS_QUEUE_WHOLE,
		.is_read = ls_plane_state(plane)->flags & LS_STATE_LISTENERS,
		.ago_ns = UINT64_MAX,
	};
	for (unsigned cpu = 0; cpu < n; cpu++) {
		const uint64_t last_ns = LS_READ_ONCE(cpus[cpu].queue_ns);
		for (unsigned p = 0; p < LS_PRIORITIES; p++)
			ret->refused += LS_READ_ONCE(cpus[cpu].refused_queue[p]);
		const uint64_t ago_ns = now_ns > last_ns ? now_ns - last_ns : 0;
		if (!last_ns || ago_ns >= ret->ago_ns)
			continue;
		ret->ago_ns = ago_ns;
		ret->port = cpus[cpu].queue_port;
	}
}

int ls_plane_class_slot(const struct ls_plane *plane, const char *name)
{
	const struct ls_ledger *ledger = ls_plane_ledger(plane);

	for (int slot = 0; ledger && slot < LS_CLASS_SLOTS; slot++)
		if (strncmp(ledger->classes[slot].name, name, LS_NAME_BYTES) == 0)
			return slot;
	return -1;
}

bool ls_plane_overload_report(struct ls_plane *plane, struct ls_overload_report_abi *ret)
{
	const struct ls_overload *overload = ls_plane_overload(plane, NULL);

	for (int i = 0; overload && i < READ_TRIES; i++) {
		const uint64_t before = __atomic_load_n((const uint64_t *)&overload->report.version,
							__ATOMIC_ACQUIRE);
		memcpy(ret, &overload->report, sizeof(*ret));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (!(before & 1) && LS_READ_ONCE(overload->report.version) == before)
			return before > 0;
	}
	return false;
}
