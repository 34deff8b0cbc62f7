/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/bench/figure.h"

#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct ls_figure ls_figure_of(const double samples[static LS_BENCH_ROUNDS])
{
	double sorted[LS_BENCH_ROUNDS];

	memcpy(sorted, samples, sizeof(sorted));
	qsort(sorted, LS_BENCH_ROUNDS, sizeof(sorted[0]), ascending);
	return (struct ls_figure){ sorted[LS_BENCH_ROUNDS / 2], sorted[0],
				   sorted[LS_BENCH_ROUNDS - 1] };
}
