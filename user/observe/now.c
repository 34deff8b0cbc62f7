/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/observe/now.h"

#include <inttypes.h>
#include <string.h>

#include "user/base/buffer.h"
#include "user/plane/hot.h"
#include "user/plane/overload.h"
#include "user/plane/plane.h"
#include "user/policy/names.h"

#define SECOND_NS UINT64_C(1000000000)
#define SILENT_NS (5 * SECOND_NS) /* a controller of the cluster writes once a second at least */
#define GRACE_PERIODS 3

static double refused_part(__u64 admit)
{
	const double admitted =
		LS_ADMIT_STEP(admit) + (double)LS_ADMIT_BOUNDARY(admit) / 4294967296.0;

	return admitted < LS_LEVEL_STEPS ? 1 - admitted / LS_LEVEL_STEPS : 0;
}

static void read_counts(struct ls_now *now, struct ls_plane *plane)
{
	unsigned cpus = 0;
	const struct ls_offered *of = ls_plane_offered(plane, &cpus, NULL);

	for (unsigned cpu = 0; of && cpu < cpus; cpu++)
		for (unsigned p = 0; p < LS_PRIORITIES; p++) {
			now->admitted[p] += of[cpu].admitted[p];
			now->refused[p] += of[cpu].refused_level[p] + of[cpu].refused_guard[p] +
					   of[cpu].refused_breaker[p];
		}
}

static bool is_alive(const struct ls_hot_status *status, uint64_t now_ns)
{
	return status->pid &&
	       (now_ns < status->beat_ns ||
		now_ns - status->beat_ns < SILENT_NS + GRACE_PERIODS * status->period_ns);
}

void ls_now_read(struct ls_now *now, struct ls_plane *plane, uint64_t now_ns)
{
	__u64 admit[LS_PRIORITIES];

	memset(now, 0, sizeof(*now));
	if (!plane)
		return;
	now->has_cluster = ls_hot_read_status(plane, &now->cluster) &&
			   is_alive(&now->cluster, now_ns);
	const bool has_signals = ls_plane_has_signals(plane);
	now->has_level = ls_plane_level(plane, admit, &now->is_hand, &now->left_ns);
	now->has_overload = has_signals || (now->has_level && now->is_hand);
	if (!now->has_overload)
		return;
	now->has_report = has_signals && ls_plane_overload_report(plane, &now->report);
	for (unsigned p = 0; now->has_level && p < LS_PRIORITIES; p++)
		now->part[p] = refused_part(admit[p]);
	read_counts(now, plane);
}

static void add_overload(const struct ls_now *now, struct ls_buffer *buffer)
{
	const bool is_reported = now->has_report && !now->is_hand;
	double level = 0;

	for (unsigned p = 0; p < LS_PRIORITIES; p++)
		level += now->part[p] / LS_PRIORITIES;
	ls_buffer_format(buffer,
			 ",\"overload\":{\"level\":%.4f,\"hand\":%s,\"left_seconds\":%" PRIu64
			 ",\"offered\":%" PRIu64 ",\"capacity\":%" PRIu64 ",\"reason\":",
			 level, now->is_hand ? "true" : "false", now->left_ns / SECOND_NS,
			 (uint64_t)now->report.offered_mps / 1000,
			 (uint64_t)now->report.capacity_mps / 1000);
	ls_buffer_json(buffer, now->is_hand  ? "set by hand"
			       : is_reported ? now->report.text
					     : "no signal has been measured");
	ls_buffer_text(buffer, ",\"priorities\":[");
	for (unsigned p = LS_PRIORITIES; p-- > 0;)
		ls_buffer_format(buffer,
				 "%s{\"name\":\"%s\",\"part\":%.4f,\"admitted\":%" PRIu64
				 ",\"refused\":%" PRIu64 "}",
				 p + 1 == LS_PRIORITIES ? "" : ",", ls_priority_names[p],
				 now->part[p], now->admitted[p], now->refused[p]);
	ls_buffer_text(buffer, "]}");
}

static void add_cluster(const struct ls_hot_status *status, uint64_t now_ns,
			struct ls_buffer *buffer)
{
	static const char *const states[] = { "local", "hold", "resume", "ok" };
	const uint64_t age_ns =
		status->round_ns && now_ns > status->round_ns ? now_ns - status->round_ns : 0;

	ls_buffer_format(buffer,
			 ",\"cluster\":{\"state\":\"%s\",\"up\":%s,\"nodes\":%u,\"keys\":%u"
			 ",\"answered\":%s,\"age_ms\":%" PRIu64 ",\"node\":",
			 states[status->state & 3], status->is_up ? "true" : "false", status->nodes,
			 status->keys, status->round_ns ? "true" : "false", age_ns / 1000000);
	ls_buffer_json(buffer, status->node);
	ls_buffer_text(buffer, ",\"store\":");
	ls_buffer_json(buffer, status->store);
	ls_buffer_text(buffer, ",\"trouble\":");
	ls_buffer_json(buffer, status->trouble);
	ls_buffer_text(buffer, "}");
}

void ls_now_json(const struct ls_now *now, uint64_t now_ns, struct ls_buffer *buffer)
{
	if (now->has_overload)
		add_overload(now, buffer);
	else
		ls_buffer_text(buffer, ",\"overload\":null");
	if (now->has_cluster)
		add_cluster(&now->cluster, now_ns, buffer);
	else
		ls_buffer_text(buffer, ",\"cluster\":null");
}
