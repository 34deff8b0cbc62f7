/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_OVERLOAD_OVERLOAD_H
#define LOADSHED_USER_OVERLOAD_OVERLOAD_H

/*
 * The module of the controller that measures the signals of `overload`, steps the control law ten times a second and
 * writes levels, guard and breakers into the kernel's records; at once when a flood begins.
 */

struct ls_metrics;
struct ls_module;
struct ls_overload_module;

extern const struct ls_module ls_module_overload;

/* Level, capacity, signals, and what was admitted and refused by priority. */
void ls_overload_metrics(const struct ls_overload_module *module, struct ls_metrics *metrics);

#endif
