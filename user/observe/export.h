/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_OBSERVE_EXPORT_H
#define LOADSHED_USER_OBSERVE_EXPORT_H

/*
 * A reading as metrics. The number of series depends on the policy, the interfaces and the names that they had while this
 * process ran, never on who sends.
 */

#include <stdint.h>

struct ls_facts;
struct ls_metrics;
struct ls_reading;

/* unix_ns: now, for ages. */
void ls_export_metrics(const struct ls_reading *reading, uint64_t unix_ns,
		       struct ls_metrics *metrics);

/* What the controller did since it started. */
void ls_export_facts(const struct ls_facts *facts, struct ls_metrics *metrics);

/* process_*: what the client libraries of Prometheus export of a process, by the same names. */
void ls_export_process(uint64_t start_ns, struct ls_metrics *metrics);

#endif
