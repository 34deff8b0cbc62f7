/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BENCH_FIGURE_H
#define LOADSHED_USER_BENCH_FIGURE_H

/* A measured figure: the median of five samples and what they lie between. */

#define LS_BENCH_ROUNDS 5

struct ls_figure {
	double median, low, high;
};

struct ls_figure ls_figure_of(const double samples[static LS_BENCH_ROUNDS]);

/* One that is known, not measured. */
static inline struct ls_figure ls_figure_exact(double value)
{
	return (struct ls_figure){ value, value, value };
}

#endif
