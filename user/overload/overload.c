/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/overload/overload.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/conditions.h"
#include "user/base/error.h"
#include "user/base/log.h"
#include "user/base/loop.h"
#include "user/base/metrics.h"
#include "user/base/module.h"
#include "user/overload/breaker.h"
#include "user/overload/control.h"
#include "user/overload/signals.h"
#include "user/plane/events.h"
#include "user/plane/overload.h"
#include "user/plane/plane.h"
#include "user/policy/names.h"
#include "user/policy/policy.h"

#define LOOK_NS ((uint64_t)(LS_OVERLOAD_LOOK_S * 1e9))
#define PERIOD_NS 100000000ULL
#define LATE_NS (3 * LOOK_NS)
#define LEVEL_NS 1000000000ULL /* a level that nobody renews ends by then */
#define GUARD_NS                                                                                   \
	(3600 * 1000000000ULL)	 /* and a guard by then: the capacity of an hour ago is nobody's */
#define MISSING_NS 5000000000ULL /* a signal that is missing for so long is named in `status` */
#define HEAVY_LEAST 4		 /* new work per window that no source is called heavy for */
#define SOURCES_NS 1000000000ULL

/* One class's check and breaker. */
struct check {
	const struct ls_class *class; /* of the module's policy */
	int slot;
	struct ls_ask ask;
	struct ls_breaker breaker;
	uint64_t next_ns;
};

struct ls_overload_module {
	struct ls_module_host *host;
	int timer;
	/* What the policy in force says; NULL while it asks for nothing. */
	struct ls_policy *policy;
	uint64_t generation;
	struct ls_gauges gauges;
	struct check *checks;
	size_t n_checks;
	struct ls_overload_state state;
	uint64_t stepped_ns, sources_ns;
	uint64_t missing_since_ns[LS_SIGNAL_MAX];
	struct ls_measured measured;
	uint64_t since_ns; /* Unix time of the last change of `sheds` */
	/* Sums over CPUs at the last step. */
	uint32_t offered[LS_LEVELS];
	uint64_t admitted, admitted_tcp, refused_guard;
	/* At the last look. */
	uint64_t looked_ns, looked_admitted, looked_admitted_tcp;
	uint32_t heavy_after, queue_most;
	struct kept *kept; /* owned */
};

/*
 * Counters as they are exported: they never go down while the process lives, though the kernel's begin anew when the last
 * interface is detached.
 */
enum { COUNTS_ADMITTED, COUNTS_LEVEL, COUNTS_GUARD, COUNTS_BREAKER, COUNTS_QUEUE, COUNTS_MAX };

struct kept {
	uint64_t last[COUNTS_MAX][LS_PRIORITIES]; /* as read from the tables that are there */
	uint64_t shown[COUNTS_MAX][LS_PRIORITIES];
};

/* ---- what the kernel counted ---- */

struct sums {
	uint32_t offered[LS_LEVELS];
	uint64_t admitted[LS_PRIORITIES], refused_level[LS_PRIORITIES],
		refused_guard[LS_PRIORITIES], refused_breaker[LS_PRIORITIES],
		refused_queue[LS_PRIORITIES];
	uint64_t admitted_tcp;
};

static void add_up(const struct ls_offered *cpus, unsigned n, struct sums *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (unsigned cpu = 0; cpu < n; cpu++) {
		const struct ls_offered *of = &cpus[cpu];
		for (unsigned i = 0; i < LS_LEVELS; i++)
			ret->offered[i] += of->offered[i];
		for (unsigned p = 0; p < LS_PRIORITIES; p++) {
			ret->admitted[p] += of->admitted[p];
			ret->refused_level[p] += of->refused_level[p];
			ret->refused_guard[p] += of->refused_guard[p];
			ret->refused_breaker[p] += of->refused_breaker[p];
			ret->refused_queue[p] += of->refused_queue[p];
		}
		ret->admitted_tcp += of->admitted_tcp;
	}
}

static uint64_t total(const uint64_t *by_priority)
{
	return by_priority[0] + by_priority[1] + by_priority[2] + by_priority[3];
}

/*
 * About how many sources sent new work in the last window, by the cells of the sketch that were touched (linear
 * counting: Whang, Vander-Zanden and Taylor, 1990). Above some 30 000 the row is full, and that is the answer.
 */
static double count_sources(const struct ls_offered *cpus, unsigned n, uint64_t now_ns,
			    unsigned *ret_cpus)
{
	const uint32_t window = (uint32_t)(now_ns >> LS_SKETCH_WINDOW_SHIFT);
	double most = 0;

	*ret_cpus = 0;
	for (unsigned cpu = 0; cpu < n; cpu++) {
		unsigned touched = 0;
		for (unsigned i = 0; i < LS_SKETCH_CELLS; i++)
			touched += window - (uint32_t)(cpus[cpu].sketch[0][i] >> 32) <= 1;
		if (!touched)
			continue;
		++*ret_cpus;
		const double free = touched < LS_SKETCH_CELLS ? LS_SKETCH_CELLS - touched : 1;
		most = fmax(most, -LS_SKETCH_CELLS * log(free / LS_SKETCH_CELLS));
	}
	return most;
}

/* The fair rate: what gets done, divided by those who ask. A CPU sees its share of a source. */
static uint32_t fair_rate(struct ls_overload_module *module, const struct ls_offered *cpus,
			  unsigned n, uint64_t now_ns)
{
	unsigned receiving = 0;
	const double sources = count_sources(cpus, n, now_ns, &receiving);
	const double window_s = (double)(1U << LS_SKETCH_WINDOW_SHIFT) / 1e9;

	if (module->state.capacity <= 0 || sources <= 0)
		return 0;
	const double fair = module->state.capacity * window_s / sources / receiving;
	return fair > HEAVY_LEAST ? (uint32_t)fmin(fair, 65000) : HEAVY_LEAST;
}

/* ---- the policy ---- */

static void forget_policy(struct ls_overload_module *module)
{
	if (!module->policy)
		return;
	ls_gauges_fini(&module->gauges);
	for (size_t i = 0; i < module->n_checks; i++)
		ls_ask_fini(&module->checks[i].ask);
	free(module->checks);
	module->checks = NULL;
	module->n_checks = 0;
	ls_policy_free(module->policy);
	module->policy = NULL;
	for (int id = 0; id < LS_SIGNAL_MAX; id++) {
		(void)ls_conditions_clear(module->host->conditions, ls_signal_keys[id]);
		module->missing_since_ns[id] = 0;
	}
}

static void make_checks(struct ls_overload_module *module)
{
	module->checks = calloc(module->policy->n_classes + 1, sizeof(*module->checks));
	for (size_t i = 0; module->checks && i < module->policy->n_classes; i++) {
		const struct ls_class *class = &module->policy->classes[i];
		struct check *check = &module->checks[module->n_checks];
		const int slot = ls_plane_class_slot(module->host->plane, class->name);
		if (class->check.endpoint.kind == LS_ENDPOINT_NONE || slot < 0)
			continue;
		check->class = class;
		check->slot = slot;
		ls_ask_init(&check->ask, module->host->loop, &class->check.endpoint, false);
		ls_breaker_init(&check->breaker, class->check.fall, class->check.rise);
		module->n_checks++;
	}
}

/* Starts the sums anew: what was counted before is nobody's period. */
static void start_counting(struct ls_overload_module *module, uint64_t now_ns)
{
	unsigned n = 0;
	const struct ls_offered *cpus = ls_plane_offered(module->host->plane, &n, NULL);
	struct sums sums;

	if (!cpus)
		return;
	add_up(cpus, n, &sums);
	memcpy(module->offered, sums.offered, sizeof(module->offered));
	module->admitted = total(sums.admitted);
	module->admitted_tcp = sums.admitted_tcp;
	module->refused_guard = total(sums.refused_guard);
	module->stepped_ns = module->looked_ns = now_ns;
	module->looked_admitted = module->admitted;
	module->looked_admitted_tcp = module->admitted_tcp;
}

/* Follows the policy in force; whether it asks for anything. */
static bool follow_policy(struct ls_overload_module *module, uint64_t now_ns)
{
	struct ls_plane *plane = module->host->plane;
	double floor[LS_PRIORITIES];

	if (!plane || !ls_plane_has_signals(plane)) {
		forget_policy(module);
		return false;
	}
	const uint64_t generation = ls_plane_generation(plane);
	if (module->policy && module->generation == generation)
		return true;
	/* Other signals, the same server: what is known of it is kept, so that an edit does not open everything. */
	const bool is_new = !module->policy;
	forget_policy(module);
	if (ls_plane_policy(plane, &module->policy, NULL, NULL) < 0)
		return false;
	module->generation = generation;
	for (unsigned p = 0; p < LS_PRIORITIES; p++)
		floor[p] = module->policy->signals.floor[p] / 100.0;
	if (is_new) {
		ls_overload_init(&module->state, floor);
		/* What a controller before this one knew of the server holds until this one knows better. */
		module->state.guard = ls_plane_guard(plane);
	}
	memcpy(module->state.floor, floor, sizeof(floor));
	ls_gauges_init(&module->gauges, &module->policy->signals, module->host->loop);
	make_checks(module);
	start_counting(module, now_ns);
	return true;
}

/* ---- checks and breakers ---- */

static void step_check(struct ls_overload_module *module, struct check *check,
		       struct ls_overload *overload, uint64_t now_ns)
{
	const struct ls_check *of = &check->class->check;
	struct ls_breaker_abi *record = &overload->breaker[check->slot];

	ls_ask_expire(&check->ask, now_ns, of->timeout_ns);
	if (check->ask.is_done) {
		check->ask.is_done = false;
		const unsigned before = check->breaker.state;
		if (ls_breaker_note(&check->breaker, check->ask.is_good)) {
			static const char *const words[] = {
				"closed: its check succeeds", "open: new work is refused at once",
				"half open: a part of new work is admitted"
			};
			ls_log(LS_LOG_NOTICE, "class '%s': the breaker is %s%s%s",
			       check->class->name, words[check->breaker.state],
			       *check->ask.why ? ": " : "", check->ask.why);
		}
		if (check->breaker.state == LS_BREAKER_CLOSED && before != LS_BREAKER_CLOSED)
			__atomic_store_n(&record->until_ns, 0, __ATOMIC_RELEASE);
	}
	if (check->breaker.state != LS_BREAKER_CLOSED) {
		record->state = check->breaker.state;
		__atomic_store_n(&record->boundary, ls_breaker_boundary(&check->breaker),
				 __ATOMIC_RELAXED);
		/* A controller that dies stops checking: then nothing is refused for a check. */
		__atomic_store_n(&record->until_ns,
				 ls_plane_ticking_ns(module->host->plane) + LEVEL_NS,
				 __ATOMIC_RELEASE);
	}
	if (now_ns >= check->next_ns && !ls_ask_is_busy(&check->ask)) {
		check->next_ns = now_ns + of->interval_ns;
		ls_ask_start(&check->ask, now_ns);
	}
}

/* ---- the report ---- */

static void report_signals(const struct ls_overload_module *module,
			   struct ls_overload_report_abi *report)
{
	unsigned n = 0;

	memset(report->signal, 0, sizeof(report->signal));
	for (int id = 0; id < LS_SIGNAL_MAX && n < LS_OVERLOAD_SIGNALS; id++) {
		const struct ls_signal *signal = &module->measured.signals[id];
		struct ls_overload_signal_abi *of = &report->signal[n];
		if (!module->measured.is_on[id])
			continue;
		n++;
		snprintf(of->name, sizeof(of->name), "%s", ls_signal_keys[id]);
		of->scale = ls_signal_is_queue(id) ? 1000000000 : 1000;
		if (!signal->is_present) {
			snprintf(of->why, sizeof(of->why), "%s", module->measured.why[id]);
			continue;
		}
		of->value = (uint64_t)(signal->value * of->scale);
		of->target = (uint64_t)(signal->target * of->scale);
		of->flags = LS_SIGNAL_F_PRESENT |
			    (signal->value > signal->target ? LS_SIGNAL_F_OVER : 0);
	}
	report->n_signals = n;
}

static void write_report(struct ls_overload_module *module, struct ls_overload *overload)
{
	struct ls_overload_report_abi *report = &overload->report;
	const struct ls_overload_state *state = &module->state;
	const uint64_t version = report->version | 1;

	__atomic_store_n((uint64_t *)&report->version, version, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	report->written_ns = ls_plane_ticking_ns(module->host->plane);
	report->since_ns = module->since_ns;
	report->changes = state->changes;
	report->sheds = state->sheds;
	report->capacity_mps = (uint64_t)(state->capacity * 1000);
	report->admit_mps = (uint64_t)(state->admit * 1000);
	report->offered_mps = (uint64_t)(state->offered * 1000);
	ls_overload_sentence(state, report->text);
	report_signals(module, report);
	__atomic_store_n((uint64_t *)&report->version, version + 1, __ATOMIC_RELEASE);
}

/* What is on and missing for a while is named in `status`. */
static void name_missing(struct ls_overload_module *module, uint64_t now_ns)
{
	for (int id = 0; id < LS_SIGNAL_MAX; id++) {
		const bool is_missing = module->measured.is_on[id] &&
					!module->measured.signals[id].is_present;
		if (!is_missing) {
			if (module->missing_since_ns[id] &&
			    ls_conditions_clear(module->host->conditions, ls_signal_keys[id]))
				ls_log(LS_LOG_NOTICE, "overload: '%s' can be measured again",
				       ls_signal_keys[id]);
			module->missing_since_ns[id] = 0;
			continue;
		}
		if (!module->missing_since_ns[id])
			module->missing_since_ns[id] = now_ns;
		if (now_ns - module->missing_since_ns[id] >= MISSING_NS &&
		    ls_conditions_set(module->host->conditions, ls_signal_keys[id],
				      "overload goes on without '%s': %s", ls_signal_keys[id],
				      module->measured.why[id]))
			ls_log(LS_LOG_WARNING,
			       "overload: cannot measure '%s': %s; the other signals go on",
			       ls_signal_keys[id], module->measured.why[id]);
	}
}

/* ---- a period ---- */

static void write_admit(struct ls_overload_module *module, const __u64 admit[static LS_PRIORITIES],
			struct ls_overload *overload)
{
	struct ls_level_abi *level = &overload->level;

	for (unsigned p = 0; p < LS_PRIORITIES; p++)
		__atomic_store_n((uint64_t *)&level->admit[p], admit[p], __ATOMIC_RELAXED);
	__atomic_store_n((uint64_t *)&level->until_ns,
			 ls_plane_ticking_ns(module->host->plane) + LEVEL_NS, __ATOMIC_RELEASE);
}

static void write_level(struct ls_overload_module *module, const struct ls_overload_output *output,
			struct ls_overload *overload)
{
	const uint64_t hour = ls_loop_unix_ns() / GUARD_NS;

	__atomic_store_n((uint64_t *)&overload->salt, hour * 0x9e3779b97f4a7c15ULL,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&overload->heavy_after, module->heavy_after, __ATOMIC_RELAXED);
	write_admit(module, output->admit, overload);
	module->queue_most = output->queue_most;
	ls_plane_set_guard(module->host->plane, output->guard, GUARD_NS);
}

/* Into the log and the journal, which `events` shows. */
static void say_change(struct ls_overload_module *module, const struct ls_overload_output *output,
		       const char *sentence)
{
	const struct ls_overload_state *state = &module->state;
	const struct ls_journal_entry entry = {
		.kind = LS_EVENT_OVERLOAD,
		.action = state->sheds ? "begin" : "end",
		.text = state->cause < LS_SIGNAL_MAX ? ls_signal_keys[state->cause] : NULL,
		.value = (uint64_t)(ls_overload_height(output->admit) * 100),
	};

	ls_log(LS_LOG_NOTICE, "overload: %s", sentence);
	ls_journal_write(module->host->plane, &entry);
}

static void step(struct ls_overload_module *module, const struct sums *sums, uint64_t now_ns)
{
	struct ls_overload *overload = ls_plane_overload(module->host->plane, NULL);
	struct ls_overload_output output;
	uint32_t offered[LS_LEVELS];
	const double period_s = (double)(now_ns - module->stepped_ns) / 1e9;
	struct ls_overload_input input = {
		.period_s = period_s,
		.offered = offered,
		.admitted = (double)(total(sums->admitted) - module->admitted),
		.refused_guard = (double)(total(sums->refused_guard) - module->refused_guard),
	};
	const double beside_tcp =
		input.admitted - (double)(sums->admitted_tcp - module->admitted_tcp);

	for (unsigned i = 0; i < LS_LEVELS; i++)
		offered[i] = sums->offered[i] - module->offered[i];
	ls_gauges_measure(&module->gauges, &module->state, now_ns, period_s, &module->measured);
	memcpy(input.signals, module->measured.signals, sizeof(input.signals));
	input.has_waiting = module->measured.has_waiting;
	/* An application that takes everything at once shows its capacity by what it has finished. */
	const bool is_inside = input.has_waiting && ls_gauges_waiting(&module->gauges) <= 0;
	const double tcp = is_inside ? module->measured.finished : module->measured.accepted;
	input.served = tcp < 0 ? -1 : tcp + fmax(0, beside_tcp);
	const uint64_t changes = module->state.changes;
	ls_overload_step(&module->state, &input, &output);
	memcpy(module->offered, sums->offered, sizeof(module->offered));
	module->admitted = total(sums->admitted);
	module->admitted_tcp = sums->admitted_tcp;
	module->refused_guard = total(sums->refused_guard);
	module->stepped_ns = now_ns;
	if (!overload)
		return;
	write_level(module, &output, overload);
	if (module->state.changes != changes || !module->since_ns)
		module->since_ns = ls_loop_unix_ns();
	write_report(module, overload);
	if (module->state.changes != changes)
		say_change(module, &output, overload->report.text);
	name_missing(module, now_ns);
}

/* Whether the queue that is looked at within the period shows a flood. */
static bool is_flood(const struct ls_overload_module *module, const struct ls_overload_look *look,
		     double offered, uint64_t now_ns)
{
	const struct ls_overload_state *state = &module->state;
	const double elapsed_s = (double)(now_ns - module->stepped_ns) / 1e9;
	/* Of what is inside an application nobody knows what is done before it is; so as much as in the last period. */
	const double served = look->id == LS_SIGNAL_PROBE
				      ? state->served * elapsed_s
				      : fmax(0, offered - ls_gauges_waiting(&module->gauges));

	return look->is_present && ls_overload_hurries(state, offered, served, elapsed_s,
						       look->delay_s, look->target_s);
}

/* What happened since the last look. */
static void fill_look(struct ls_overload_module *module, const struct sums *sums, uint64_t now_ns,
		      struct ls_overload_look *ret)
{
	const uint64_t admitted = total(sums->admitted);
	const double tcp = (double)(sums->admitted_tcp - module->looked_admitted_tcp);

	*ret = (struct ls_overload_look){
		.elapsed_s = (double)(now_ns - module->looked_ns) / 1e9,
		.admitted = (double)(admitted - module->looked_admitted),
	};
	ls_gauges_delay(&module->gauges, &module->state, now_ns, ret);
	if (ret->served >= 0)
		ret->served += fmax(0, ret->admitted - tcp);
	module->looked_ns = now_ns;
	module->looked_admitted = admitted;
	module->looked_admitted_tcp = sums->admitted_tcp;
}

static void look(void *data, uint64_t now_ns)
{
	struct ls_overload_module *module = data;
	struct ls_overload_output output;
	struct ls_overload_look look;
	unsigned n = 0;
	struct sums sums;

	if (!follow_policy(module, now_ns))
		return;
	const struct ls_offered *cpus = ls_plane_offered(module->host->plane, &n, NULL);
	struct ls_overload *overload = ls_plane_overload(module->host->plane, NULL);
	if (!cpus || !overload)
		return;
	for (size_t i = 0; i < module->n_checks; i++)
		step_check(module, &module->checks[i], overload, now_ns);
	if (!module->policy->signals.given)
		return;
	ls_gauges_look(&module->gauges, now_ns);
	add_up(cpus, n, &sums);
	double offered = 0;
	for (unsigned i = 0; i < LS_LEVELS; i++)
		offered += sums.offered[i] - module->offered[i];
	if (now_ns - module->sources_ns >= SOURCES_NS) {
		module->sources_ns = now_ns;
		module->heavy_after =
			fair_rate(module, cpus, n, ls_plane_ticking_ns(module->host->plane));
	}
	fill_look(module, &sums, now_ns, &look);
	ls_overload_watch(&module->state, &look);
	if (is_flood(module, &look, offered, now_ns) ||
	    now_ns - module->stepped_ns + LOOK_NS / 2 >= PERIOD_NS)
		step(module, &sums, now_ns);
	if (!module->state.sheds) {
		/* Until it knows the server, what a controller that died has left holds. */
		if (module->state.capacity > 0)
			ls_plane_set_queue_most(module->host->plane, 0, LATE_NS);
		return;
	}
	ls_overload_trim(&module->state, &look, &output);
	write_admit(module, output.admit, overload);
	ls_plane_set_queue_most(module->host->plane, module->queue_most, LATE_NS);
}

/* ---- the module ---- */

static int start(struct ls_module_host *host, void **ret_state, struct ls_error *error)
{
	struct ls_overload_module *module = calloc(1, sizeof(*module));

	if (!module)
		return ls_error_oom(error);
	module->kept = calloc(1, sizeof(*module->kept));
	if (!module->kept) {
		free(module);
		return ls_error_oom(error);
	}
	module->host = host;
	module->timer = ls_loop_timer(host->loop, LOOK_NS, look, module);
	if (module->timer < 0) {
		const int code = -module->timer;
		free(module->kept);
		free(module);
		return ls_error_set_errno(error, code, "cannot start a timer");
	}
	*ret_state = module;
	return 0;
}

static void plane_changed(void *state)
{
	struct ls_overload_module *module = state;

	forget_policy(module);
	module->generation = 0;
	memset(module->kept->last, 0, sizeof(module->kept->last));
}

static void stop(void *state)
{
	struct ls_overload_module *module = state;

	ls_loop_timer_stop(module->host->loop, module->timer);
	forget_policy(module);
	free(module->kept);
	free(module);
}

/* ---- metrics ---- */

static void keep_counts(struct kept *kept, const struct sums *sums)
{
	const uint64_t *const now[COUNTS_MAX] = {
		[COUNTS_ADMITTED] = sums->admitted,   [COUNTS_LEVEL] = sums->refused_level,
		[COUNTS_GUARD] = sums->refused_guard, [COUNTS_BREAKER] = sums->refused_breaker,
		[COUNTS_QUEUE] = sums->refused_queue,
	};

	for (int count = 0; count < COUNTS_MAX; count++)
		for (unsigned p = 0; p < LS_PRIORITIES; p++) {
			const uint64_t last = kept->last[count][p];
			kept->shown[count][p] += now[count][p] - (now[count][p] < last ? 0 : last);
			kept->last[count][p] = now[count][p];
		}
}

static void write_counts(const struct kept *kept, struct ls_metrics *metrics)
{
	static const char *const by[COUNTS_MAX] = {
		[COUNTS_LEVEL] = "level",
		[COUNTS_GUARD] = "guard",
		[COUNTS_BREAKER] = "breaker",
		[COUNTS_QUEUE] = "accept_queue",
	};

	ls_metrics_family(metrics, LS_METRIC_COUNTER, "loadshed_overload_admitted_total",
			  "New work that was admitted, by priority.");
	for (unsigned p = 0; p < LS_PRIORITIES; p++)
		ls_metrics_integer(metrics, kept->shown[COUNTS_ADMITTED][p], "priority",
				   ls_priority_names[p], NULL);
	ls_metrics_family(metrics, LS_METRIC_COUNTER, "loadshed_overload_refused_total",
			  "New work that overload shedding refused, by priority and by what.");
	for (int count = COUNTS_LEVEL; count < COUNTS_MAX; count++)
		for (unsigned p = 0; p < LS_PRIORITIES; p++)
			ls_metrics_integer(metrics, kept->shown[count][p], "priority",
					   ls_priority_names[p], "by", by[count], NULL);
}

static void write_signals(const struct ls_overload_module *module, struct ls_metrics *metrics)
{
	ls_metrics_family(metrics, LS_METRIC_GAUGE, "loadshed_overload_signal_ratio",
			  "A signal as a part of its target: above 1 it is too much.");
	for (int id = 0; id < LS_SIGNAL_MAX; id++) {
		const struct ls_signal *signal = &module->measured.signals[id];
		if (module->measured.is_on[id] && signal->is_present && signal->target > 0)
			ls_metrics_number(metrics, signal->value / signal->target, "signal",
					  ls_signal_keys[id], NULL);
	}
	ls_metrics_family(metrics, LS_METRIC_GAUGE, "loadshed_overload_signal_up",
			  "Whether a signal that is on can be measured.");
	for (int id = 0; id < LS_SIGNAL_MAX; id++)
		if (module->measured.is_on[id])
			ls_metrics_integer(metrics, module->measured.signals[id].is_present,
					   "signal", ls_signal_keys[id], NULL);
	ls_metrics_family(metrics, LS_METRIC_GAUGE, "loadshed_overload_breaker_state",
			  "State of a class's breaker: 0 closed, 1 open, 2 half open.");
	for (size_t i = 0; i < module->n_checks; i++)
		ls_metrics_integer(metrics, module->checks[i].breaker.state, "class",
				   module->checks[i].class->name, NULL);
}

void ls_overload_metrics(const struct ls_overload_module *module, struct ls_metrics *metrics)
{
	struct ls_plane *plane = module->host->plane;
	__u64 admit[LS_PRIORITIES];
	bool is_hand = false;
	uint64_t left_ns = 0;
	unsigned n = 0;
	struct sums sums;

	ls_metrics_one(
		metrics, LS_METRIC_GAUGE, "loadshed_overload_level",
		"Part of all priority levels whose new work is refused: 0 nothing, 1 everything.",
		plane && ls_plane_level(plane, admit, &is_hand, &left_ns)
			? ls_overload_height(admit)
			: 0);
	const struct ls_offered *cpus = plane ? ls_plane_offered(plane, &n, NULL) : NULL;
	if (cpus) {
		add_up(cpus, n, &sums);
		keep_counts(module->kept, &sums);
	}
	write_counts(module->kept, metrics);
	if (!module->policy)
		return;
	ls_metrics_one(metrics, LS_METRIC_GAUGE, "loadshed_overload_shedding",
		       "Whether new work is being shed.", module->state.sheds);
	ls_metrics_one(metrics, LS_METRIC_COUNTER, "loadshed_overload_changes_total",
		       "Changes between shedding and not shedding.", (double)module->state.changes);
	ls_metrics_one(metrics, LS_METRIC_GAUGE, "loadshed_overload_capacity",
		       "New work per second that gets done, as measured while some was waiting.",
		       module->state.capacity);
	ls_metrics_one(
		metrics, LS_METRIC_GAUGE, "loadshed_overload_guard",
		"New work per second that the guard admits at most; 0: no capacity is known.",
		module->state.guard);
	write_signals(module, metrics);
}

static void write_metrics(const void *state, struct ls_metrics *metrics)
{
	ls_overload_metrics(state, metrics);
}

const struct ls_module ls_module_overload = {
	.name = "overload",
	.start = start,
	.plane_changed = plane_changed,
	.metrics = write_metrics,
	.stop = stop,
};
