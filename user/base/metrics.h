/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BASE_METRICS_H
#define LOADSHED_USER_BASE_METRICS_H

/*
 * Metrics as text: one set of calls writes Prometheus text 0.0.4 or OpenMetrics 1.0, whichever the reader asked for.
 * A module exports its own:
 *
 *	void ls_cluster_metrics(const struct ls_cluster *cluster, struct ls_metrics *metrics)
 *	{
 *		ls_metrics_family(metrics, LS_METRIC_COUNTER, "loadshed_sync_rounds_total",
 *				  "Rounds of synchronisation, by how they ended.");
 *		ls_metrics_integer(metrics, cluster->good, "result", "ok", NULL);
 *		ls_metrics_integer(metrics, cluster->bad, "result", "failed", NULL);
 *		ls_metrics_family(metrics, LS_METRIC_GAUGE, "loadshed_sync_age_seconds",
 *				  "Time since the last round that went well.");
 *		ls_metrics_number(metrics, cluster->age_seconds, NULL);
 *	}
 *
 * Names are given as Prometheus shows them: `_total` on counters, `_info` on infos, base units at the end (_seconds,
 * _bytes, _ratio). What differs between the formats is derived from that: OpenMetrics declares a counter without
 * `_total`, and a unit where a name ends in one. Labels are bounded: names of classes, limits, interfaces, reasons,
 * never an address or anything else that a sender of packets chooses.
 *
 * No `_created` samples: Prometheus stores them as a second series for each counter. When the counters began is one
 * gauge, loadshed_counters_start_time_seconds.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "user/base/buffer.h"

enum ls_metrics_format {
	LS_METRICS_TEXT,	/* Prometheus text 0.0.4 */
	LS_METRICS_OPENMETRICS, /* OpenMetrics 1.0 */
};

enum ls_metric_type {
	LS_METRIC_COUNTER, /* the name ends in _total; never goes down while the process lives */
	LS_METRIC_GAUGE,
	LS_METRIC_INFO, /* the name ends in _info; the value is always 1: what counts is the labels */
};

/* A label's value is cut there, between two characters: longer than any name that there is. */
#define LS_METRICS_LABEL_BYTES 128

struct ls_metrics {
	enum ls_metrics_format format;
	enum ls_metric_type type; /* of the family that samples are being added to */
	const char *name;	  /* of that family; NULL: none yet */
	struct ls_buffer text;
};

#define LS_METRICS_INIT(which)                                                                     \
	{                                                                                          \
		.format = (which)                                                                  \
	}

void ls_metrics_fini(struct ls_metrics *metrics);

/* Begins a family; its samples follow. `name` and `help` must outlive the samples (literals do); `help` is a sentence. A
 * name is begun once. */
void ls_metrics_family(struct ls_metrics *metrics, enum ls_metric_type type, const char *name,
		       const char *help);

/*
 * One sample of the family. Labels follow as pairs of name and value, both `const char *`, ended by NULL; a value
 * may hold anything: it is escaped, and what is not UTF-8 is shown as U+FFFD. Two samples of a family differ in labels.
 */
void ls_metrics_integer(struct ls_metrics *metrics, uint64_t value, ...) __attribute__((sentinel));
void ls_metrics_number(struct ls_metrics *metrics, double value, ...) __attribute__((sentinel));

/* A family of one sample without labels. */
void ls_metrics_one(struct ls_metrics *metrics, enum ls_metric_type type, const char *name,
		    const char *help, double value);

/* Ends the text. False: memory ran out, and the text is not whole. */
bool ls_metrics_end(struct ls_metrics *metrics);

/* Value of the header Content-Type. */
const char *ls_metrics_content_type(enum ls_metrics_format format);

#define _cleanup_metrics_ _cleanup_(ls_metrics_fini)

#endif
