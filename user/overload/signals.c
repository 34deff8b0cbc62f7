/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/overload/signals.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "user/base/cleanup.h"
#include "user/base/error.h"
#include "user/base/loop.h"

#define SMOOTH_S 0.5		  /* CPU time comes in ticks of 10 ms: one period of it is coarse */
#define ASK_EVERY_NS 100000000ULL /* probe and load */
#define ASK_TIMEOUT_NS 2000000000ULL
#define WORD_FRESH_NS 10000000000ULL /* an application that says nothing for so long says nothing */
#define MEMORY_EVERY_NS 1000000000ULL
#define SECOND 1e9
#define OVER 2.0 /* a signal that only says "too much" */

void ls_gauges_init(struct ls_gauges *gauges, const struct ls_signals *policy, struct ls_loop *loop)
{
	struct ls_error ignored = LS_ERROR_INIT;

	*gauges = (struct ls_gauges){ .policy = policy };
	ls_host_init(&gauges->host, "/proc");
	gauges->sockets_fd = ls_sockets_open(&ignored);
	gauges->queues_why = gauges->tcp_why = "not looked at yet";
	ls_ask_init(&gauges->load, loop, &policy->load, true);
	ls_ask_init(&gauges->probe, loop, &policy->probe, false);
}

void ls_gauges_fini(struct ls_gauges *gauges)
{
	ls_host_fini(&gauges->host);
	if (gauges->sockets_fd >= 0)
		close(gauges->sockets_fd);
	ls_ask_fini(&gauges->load);
	ls_ask_fini(&gauges->probe);
}

static void look_at_queues(struct ls_gauges *gauges)
{
	const int r = gauges->sockets_fd < 0 ? gauges->sockets_fd
					     : ls_sockets_read(gauges->sockets_fd, &gauges->queues);

	gauges->queues_why = r < 0			? "the kernel has no sock_diag"
			     : gauges->queues.listeners ? NULL
							: "nothing listens here";
	gauges->looks++;
	gauges->looks_waiting += r == 0 && gauges->queues.waiting > 0;
}

/* Connections, after the queues: what reached those and is no longer there was taken. */
static void look_at_connections(struct ls_gauges *gauges)
{
	uint64_t opened = 0, finished = 0;
	const double left = (double)gauges->queues.waiting - (double)gauges->waiting_before;

	gauges->tcp_why = ls_host_tcp(&gauges->host, &opened, &finished);
	gauges->waiting_before = gauges->queues.waiting;
	gauges->accepted_now = (double)opened - left > 0 ? (double)opened - left : 0;
	gauges->finished_now = (double)finished;
}

/* A probe is a connection of this host to itself, and both its ends are closed by now. */
#define PROBE_ENDS 2

static void look_at_probe(struct ls_gauges *gauges, uint64_t now_ns)
{
	struct ls_ask *ask = &gauges->probe;

	ls_ask_expire(ask, now_ns, ASK_TIMEOUT_NS);
	if (ask->is_done) {
		gauges->probe_latency_ns = ask->latency_ns;
		gauges->probe_at_ns = ask->is_good || ask->latency_ns >= ASK_TIMEOUT_NS ? now_ns
											: 0;
		gauges->inside_answered = gauges->inside_sent;
		gauges->finished_now =
			gauges->finished_now > PROBE_ENDS ? gauges->finished_now - PROBE_ENDS : 0;
		ask->is_done = false;
	}
	if (now_ns - ask->started_ns >= ASK_EVERY_NS && !ls_ask_is_busy(ask)) {
		gauges->inside_sent = (double)gauges->host.inside;
		ls_ask_start(ask, now_ns);
	}
}

void ls_gauges_look(struct ls_gauges *gauges, uint64_t now_ns)
{
	if (gauges->policy->accept_delay_ns)
		look_at_queues(gauges);
	look_at_connections(gauges);
	if (gauges->policy->probe.kind != LS_ENDPOINT_NONE)
		look_at_probe(gauges, now_ns);
	gauges->accepted += gauges->accepted_now;
	gauges->finished += gauges->finished_now;
	ls_ask_expire(&gauges->load, now_ns, ASK_TIMEOUT_NS);
}

double ls_gauges_waiting(const struct ls_gauges *gauges)
{
	return gauges->queues_why ? 0 : (double)gauges->queues.waiting;
}

/* How long work waits inside the application now, in seconds. */
static double probe_delay(const struct ls_gauges *gauges, const struct ls_overload_state *state,
			  uint64_t now_ns)
{
	const bool is_busy = ls_ask_is_busy(&gauges->probe);
	const double so_far_s = is_busy ? (double)(now_ns - gauges->probe.started_ns) / SECOND : 0;
	const double own = is_busy ? PROBE_ENDS : 0;
	const double more =
		gauges->tcp_why ? 0 : (double)gauges->host.inside - own - gauges->inside_answered;

	return ls_overload_probe_delay(state, (double)gauges->probe_latency_ns / SECOND, more,
				       so_far_s);
}

static double accept_delay(const struct ls_gauges *gauges, const struct ls_overload_state *state)
{
	return ls_overload_delay(state, (double)gauges->queues.waiting, 0);
}

void ls_gauges_delay(const struct ls_gauges *gauges, const struct ls_overload_state *state,
		     uint64_t now_ns, struct ls_overload_look *ret)
{
	const struct ls_signals *policy = gauges->policy;
	const double target_s = ls_overload_accept_target(
		state, (double)policy->accept_delay_ns / SECOND, gauges->queues.worst_most);
	const double probe_target_s = (double)policy->probe_target_ns / SECOND;
	const double probed_s = gauges->probe_at_ns ? probe_delay(gauges, state, now_ns) : 0;

	ret->is_present = target_s > 0 && !gauges->queues_why;
	ret->id = LS_SIGNAL_ACCEPT_DELAY;
	ret->delay_s = ret->is_present ? accept_delay(gauges, state) : 0;
	ret->target_s = target_s;
	ret->served = gauges->tcp_why ? -1 : gauges->accepted_now;
	if (!gauges->probe_at_ns ||
	    (ret->is_present && ret->delay_s * probe_target_s >= probed_s * target_s))
		return;
	ret->is_present = true;
	ret->id = LS_SIGNAL_PROBE;
	ret->delay_s = probed_s;
	ret->target_s = probe_target_s;
	ret->served = gauges->tcp_why ? -1 : gauges->finished_now;
}

static void miss(struct ls_measured *measured, enum ls_signal_id id, const char *why)
{
	snprintf(measured->why[id], LS_SIGNAL_WHY_BYTES, "%.*s", LS_SIGNAL_WHY_BYTES - 1, why);
}

static void put(struct ls_measured *measured, enum ls_signal_id id, double value, double target)
{
	measured->signals[id] = (struct ls_signal){ true, value, target };
}

static void measure_accept(struct ls_gauges *gauges, const struct ls_overload_state *state,
			   double elapsed_s, struct ls_measured *measured)
{
	const double target_s = (double)gauges->policy->accept_delay_ns / SECOND;
	uint64_t lost = 0;

	measured->accepted = gauges->tcp_why ? -1 : gauges->accepted;
	measured->finished = gauges->tcp_why ? -1 : gauges->finished;
	measured->is_on[LS_SIGNAL_ACCEPT_DELAY] = target_s > 0;
	if (target_s <= 0)
		return;
	if (gauges->queues_why) {
		miss(measured, LS_SIGNAL_ACCEPT_DELAY, gauges->queues_why);
		return;
	}
	const double served = measured->accepted > 0 ? measured->accepted / elapsed_s : 0;
	const double target = ls_overload_accept_target(state, target_s, gauges->queues.worst_most);
	double delay = ls_overload_delay(state, (double)gauges->queues.waiting, served);
	/* Connections that found no room were lost by lot: that is worse than any delay. */
	if (!ls_host_overflows(&gauges->host, &lost) && lost > 0 && delay < 2.5 * target)
		delay = 2.5 * target;
	put(measured, LS_SIGNAL_ACCEPT_DELAY, delay, target);
	measured->has_waiting = gauges->looks > 0 && gauges->looks_waiting == gauges->looks;
}

/* A part that is noisy within one period, smoothed over half a second. */
static void put_smooth(struct ls_measured *measured, enum ls_signal_id id, double now, double *kept,
		       bool *has, double elapsed_s, unsigned target_percent)
{
	const double weight = elapsed_s < SMOOTH_S ? elapsed_s / SMOOTH_S : 1;

	*kept = *has ? *kept + weight * (now - *kept) : now;
	*has = true;
	put(measured, id, *kept, target_percent / 100.0);
}

static void measure_host(struct ls_gauges *gauges, uint64_t now_ns, double elapsed_s,
			 struct ls_measured *measured)
{
	const struct ls_signals *policy = gauges->policy;
	double part = 0;
	uint64_t dropped = 0;
	const char *why = NULL;

	measured->is_on[LS_SIGNAL_CPU] = policy->cpu;
	measured->is_on[LS_SIGNAL_PRESSURE] = policy->pressure;
	measured->is_on[LS_SIGNAL_SOFTNET] = policy->softnet;
	measured->is_on[LS_SIGNAL_MEMORY] = policy->memory;
	if (policy->cpu && !(why = ls_host_cpu(&gauges->host, &part)))
		put_smooth(measured, LS_SIGNAL_CPU, part, &gauges->cpu, &gauges->has_cpu, elapsed_s,
			   policy->cpu);
	else if (policy->cpu)
		miss(measured, LS_SIGNAL_CPU, why);
	if (policy->pressure && !(why = ls_host_pressure(&gauges->host, now_ns, &part)))
		put_smooth(measured, LS_SIGNAL_PRESSURE, part, &gauges->pressure,
			   &gauges->has_pressure, elapsed_s, policy->pressure);
	else if (policy->pressure)
		miss(measured, LS_SIGNAL_PRESSURE, why);
	if (policy->softnet && !(why = ls_host_softnet(&gauges->host, &dropped)))
		put(measured, LS_SIGNAL_SOFTNET, dropped ? OVER : 0, 1);
	else if (policy->softnet)
		miss(measured, LS_SIGNAL_SOFTNET, why);
	if (!policy->memory)
		return;
	if (now_ns - gauges->memory_at_ns >= MEMORY_EVERY_NS) {
		why = ls_host_memory(&gauges->host, &part);
		gauges->memory_at_ns = why ? 0 : now_ns;
		gauges->memory = part;
		if (why)
			miss(measured, LS_SIGNAL_MEMORY, why);
	}
	if (gauges->memory_at_ns)
		put(measured, LS_SIGNAL_MEMORY, gauges->memory, policy->memory / 100.0);
}

/* The word in a file: NULL, or why there is none. A file that is no longer written says nothing. */
static const char *read_word_file(const char *path, double *ret)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;
	struct timespec now;
	char text[64];

	if (fd < 0 || fstat(fd, &status) < 0)
		return "the file is not there";
	clock_gettime(CLOCK_REALTIME, &now);
	const double age_s = (double)(now.tv_sec - status.st_mtim.tv_sec) +
			     (double)(now.tv_nsec - status.st_mtim.tv_nsec) / SECOND;
	if (age_s > WORD_FRESH_NS / SECOND)
		return "the file was not written for 10 s";
	const ssize_t bytes = read(fd, text, sizeof(text) - 1);
	if (bytes < 0)
		return "the file cannot be read";
	text[bytes] = '\0';
	return ls_word_parse(text, ret) ? NULL : "it is no number from 0 to 10";
}

static void measure_load(struct ls_gauges *gauges, uint64_t now_ns, struct ls_measured *measured)
{
	const struct ls_signals *policy = gauges->policy;
	const double target = policy->load_target / 100.0;
	struct ls_ask *ask = &gauges->load;
	double value = 0;

	measured->is_on[LS_SIGNAL_LOAD] = policy->load.kind != LS_ENDPOINT_NONE;
	if (!measured->is_on[LS_SIGNAL_LOAD])
		return;
	if (policy->load.kind == LS_ENDPOINT_FILE) {
		const char *why = read_word_file(policy->load.text, &value);
		if (why)
			miss(measured, LS_SIGNAL_LOAD, why);
		else
			put(measured, LS_SIGNAL_LOAD, value, target);
		return;
	}
	if (ask->is_done) {
		/* A service that says 503 is saying that it is too much; one that cannot be reached says nothing. */
		const bool is_full = ask->status == 503 || ask->status == 429;
		if (is_full || (ask->is_good && ls_word_parse(ask->body, &value))) {
			gauges->load_value = is_full ? OVER : value;
			gauges->load_at_ns = now_ns;
		} else {
			miss(measured, LS_SIGNAL_LOAD,
			     ask->is_good ? "it is no number from 0 to 10" : ask->why);
		}
		ask->is_done = false;
	}
	if (gauges->load_at_ns && now_ns - gauges->load_at_ns < WORD_FRESH_NS)
		put(measured, LS_SIGNAL_LOAD, gauges->load_value, target);
	else if (!*measured->why[LS_SIGNAL_LOAD])
		miss(measured, LS_SIGNAL_LOAD, *ask->why ? ask->why : "no answer yet");
	if (now_ns - ask->started_ns >= ASK_EVERY_NS)
		ls_ask_start(ask, now_ns);
}

static void measure_probe(const struct ls_gauges *gauges, const struct ls_overload_state *state,
			  uint64_t now_ns, struct ls_measured *measured)
{
	const struct ls_signals *policy = gauges->policy;
	const double target = (double)policy->probe_target_ns / SECOND;

	measured->is_on[LS_SIGNAL_PROBE] = policy->probe.kind != LS_ENDPOINT_NONE;
	if (!measured->is_on[LS_SIGNAL_PROBE])
		return;
	if (gauges->probe_at_ns)
		put(measured, LS_SIGNAL_PROBE, probe_delay(gauges, state, now_ns), target);
	else
		miss(measured, LS_SIGNAL_PROBE,
		     *gauges->probe.why ? gauges->probe.why : "no answer yet");
}

void ls_gauges_measure(struct ls_gauges *gauges, const struct ls_overload_state *state,
		       uint64_t now_ns, double elapsed_s, struct ls_measured *ret)
{
	*ret = (struct ls_measured){ .accepted = -1, .finished = -1 };
	measure_accept(gauges, state, elapsed_s, ret);
	measure_host(gauges, now_ns, elapsed_s, ret);
	measure_load(gauges, now_ns, ret);
	measure_probe(gauges, state, now_ns, ret);
	/* A probe that waits shows work that waits inside the application. */
	const struct ls_signal *probe = &ret->signals[LS_SIGNAL_PROBE];
	if (probe->is_present && probe->value > 0.5 * probe->target)
		ret->has_waiting = true;
	gauges->looks = gauges->looks_waiting = 0;
	gauges->accepted = gauges->finished = 0;
}
