/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_OBSERVE_OBSERVE_H
#define LOADSHED_USER_OBSERVE_OBSERVE_H

/*
 * The listener of `loadshed serve` as a module: metrics and the live page of what is attached.
 *
 *	/           the live page
 *	/metrics    Prometheus text, or OpenMetrics where the reader accepts it
 *	/live.json  what the page shows; ?since=UNIXSECONDS leaves out older samples
 *	/policy     canonical text of the policy in force
 *	/health     200 while packets are judged ("ok", or what is degraded), else 503 and why
 */

struct ls_module;

extern const struct ls_module ls_module_observe;

#endif
