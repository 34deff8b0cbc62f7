/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/overload/breaker.h"

#define FIRST_SHIFT 3

void ls_breaker_init(struct ls_breaker *breaker, unsigned fall, unsigned rise)
{
	*breaker = (struct ls_breaker){ .fall = fall, .rise = rise };
}

bool ls_breaker_note(struct ls_breaker *breaker, bool is_good)
{
	const unsigned before = breaker->state;

	breaker->failures = is_good ? 0 : breaker->failures + 1;
	breaker->successes = is_good ? breaker->successes + 1 : 0;
	if (breaker->state == LS_BREAKER_CLOSED && breaker->failures >= breaker->fall)
		breaker->state = LS_BREAKER_OPEN;
	else if (breaker->state == LS_BREAKER_HALF_OPEN && !is_good)
		breaker->state = LS_BREAKER_OPEN;
	else if (breaker->state == LS_BREAKER_HALF_OPEN && --breaker->shift == 0)
		breaker->state = LS_BREAKER_CLOSED;
	else if (breaker->state == LS_BREAKER_OPEN && breaker->successes >= breaker->rise) {
		breaker->state = LS_BREAKER_HALF_OPEN;
		breaker->shift = FIRST_SHIFT;
	}
	if (breaker->state == LS_BREAKER_OPEN && before != LS_BREAKER_OPEN) {
		breaker->successes = 0;
		breaker->opened++;
	}
	return breaker->state != before;
}

uint32_t ls_breaker_boundary(const struct ls_breaker *breaker)
{
	return breaker->state == LS_BREAKER_HALF_OPEN ? UINT32_MAX >> breaker->shift : 0;
}
