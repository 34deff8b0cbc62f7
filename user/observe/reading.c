/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/observe/reading.h"

#include <stdlib.h>
#include <string.h>

#include "user/base/buffer.h"
#include "user/base/error.h"
#include "user/policy/policy.h"
#include "user/policy/print.h"

#define SECOND_NS 1000000000ULL

void ls_reading_fini(struct ls_reading *reading)
{
	ls_plane_status_fini(&reading->status);
	ls_steady_fini(&reading->verdicts);
	ls_steady_fini(&reading->interfaces);
	ls_steady_fini(&reading->pressure);
	ls_ban_survey_fini(&reading->bans);
	ls_top_fini(&reading->top);
	free(reading->policy);
	memset(reading, 0, sizeof(*reading));
}

/*
 * Rows that are there before they count anything: whoever derives a rate must see the first packet as a step from
 * zero. The reasons that the program itself has, and of each class in force what it is likely to count.
 */
static void read_zeros(struct ls_steady *verdicts, const struct ls_stats *stats)
{
	static const unsigned before_any[] = {
		LS_READING_NUMBER(LS_VERDICT_PASS, LS_REASON_NON_IP),
		LS_READING_NUMBER(LS_VERDICT_PASS, LS_REASON_CONTROL),
		LS_READING_NUMBER(LS_VERDICT_PASS, LS_REASON_ALLOW),
		LS_READING_NUMBER(LS_VERDICT_PASS, LS_REASON_UNMATCHED),
		LS_READING_NUMBER(LS_VERDICT_PASS, LS_REASON_INTERNAL),
		LS_READING_NUMBER(LS_VERDICT_DROP, LS_REASON_MALFORMED),
		LS_READING_NUMBER(LS_VERDICT_DROP, LS_REASON_DENY),
		LS_READING_NUMBER(LS_VERDICT_DROP, LS_REASON_BAN),
	};
	static const unsigned of_class[] = {
		LS_READING_NUMBER(LS_VERDICT_PASS, LS_REASON_ADMITTED),
		LS_READING_NUMBER(LS_VERDICT_DROP, LS_REASON_LIMIT),
	};
	const struct ls_tally zero = { 0 };

	for (size_t i = 0; i < sizeof(before_any) / sizeof(before_any[0]); i++)
		ls_steady_read(verdicts, "", before_any[i], "", zero);
	for (size_t i = 1; i < stats->n_current; i++)
		for (size_t k = 0; k < sizeof(of_class) / sizeof(of_class[0]); k++)
			ls_steady_read(verdicts, stats->classes[i].name, of_class[k], "", zero);
}

static void read_counters(struct ls_reading *reading, const struct ls_stats *stats)
{
	struct ls_steady *verdicts = &reading->verdicts, *interfaces = &reading->interfaces;
	const uint64_t epoch = reading->status.made_ns;

	ls_steady_begin(verdicts, epoch);
	read_zeros(verdicts, stats);
	for (size_t i = 0; i < stats->n_classes; i++)
		for (size_t k = 0; k < stats->classes[i].n_verdicts; k++) {
			const struct ls_stats_verdict *row = &stats->classes[i].verdicts[k];
			ls_steady_read(verdicts, stats->classes[i].name,
				       LS_READING_NUMBER(row->verdict, row->reason), row->limit,
				       row->tally);
		}
	ls_steady_end(verdicts);
	ls_steady_begin(interfaces, epoch);
	for (size_t i = 0; i < stats->n_interfaces; i++) {
		const struct ls_stats_interface *row = &stats->interfaces[i];
		ls_steady_read(interfaces, row->name, LS_VERDICT_PASS, "", row->pass);
		ls_steady_read(interfaces, row->name, LS_VERDICT_DROP, "", row->drop);
	}
	ls_steady_end(interfaces);
}

static void read_pressure(struct ls_reading *reading, const struct ls_pressure *pressure)
{
	struct ls_steady *steady = &reading->pressure;

	/* A difference of two counts that go on meanwhile: it may be a few less than the time before. */
	if (reading->events_lost_epoch != reading->status.made_ns)
		reading->events_lost = 0;
	reading->events_lost_epoch = reading->status.made_ns;
	if (pressure->events_lost > reading->events_lost)
		reading->events_lost = pressure->events_lost;
	const uint64_t values[] = {
		[LS_READING_EVICTED] = pressure->evicted,
		[LS_READING_UNPLACED_SHORT] = pressure->unplaced_short,
		[LS_READING_UNPLACED_LONG] = pressure->unplaced_long,
		[LS_READING_CONTENDED] = pressure->contended,
		[LS_READING_BANS_LOST] = pressure->bans_lost,
		[LS_READING_EVENTS] = pressure->events,
		[LS_READING_EVENTS_LOST] = reading->events_lost,
	};

	ls_steady_begin(steady, reading->status.made_ns);
	for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		ls_steady_read(steady, "", i, "", (struct ls_tally){ .packets = values[i] });
	ls_steady_end(steady);
}

/* What changes slowly or costs more: once a second. */
static bool read_tables(struct ls_reading *reading, struct ls_plane *plane, uint64_t now_ns,
			struct ls_error *error)
{
	struct ls_ban_survey bans = { 0 };

	if (reading->census_ns && now_ns - reading->census_ns < SECOND_NS * 9 / 10)
		return true;
	if (ls_census_take(plane, &reading->census, error) < 0 ||
	    ls_ban_survey(plane, LS_READING_BANS, &bans, error) < 0)
		return false;
	ls_ban_survey_fini(&reading->bans);
	reading->bans = bans;
	reading->census_ns = now_ns;
	ls_census_read(plane, &reading->census, &reading->occupancy);
	return true;
}

void ls_reading_look_at_now(struct ls_reading *reading, struct ls_plane *plane, uint64_t now_ns)
{
	struct ls_top_reading top = { 0 };

	if (plane && reading->top_ns && now_ns - reading->top_ns < SECOND_NS * 9 / 10)
		return;
	ls_top_fini(&reading->top);
	reading->top = (struct ls_top_reading){ 0 };
	reading->top_ns = now_ns;
	ls_now_read(&reading->now, plane, now_ns);
	if (!plane || ls_top_read(plane, NULL, &top, NULL) < 0)
		return;
	ls_top_sort(&top.sources, LS_TOP_BY_PACKETS);
	reading->top = top;
}

const char *ls_reading_policy(struct ls_reading *reading, struct ls_plane *plane,
			      struct ls_error *error)
{
	_cleanup_(ls_policy_freep) struct ls_policy *policy = NULL;
	_cleanup_buffer_ struct ls_buffer text = LS_BUFFER_INIT;

	if (!plane)
		return "";
	if (reading->policy && reading->policy_number == ls_plane_generation(plane))
		return reading->policy;
	if (ls_plane_policy(plane, &policy, NULL, error) < 0)
		return NULL;
	ls_policy_print(policy, false, &text);
	if (text.length > LS_READING_POLICY_BYTES) {
		text.length = LS_READING_POLICY_BYTES;
		ls_buffer_text(
			&text,
			"\n# cut here: too long for a page; 'loadshed policy show' prints it\n");
	}
	ls_buffer_text(&text, "");
	char *bytes = ls_buffer_take(&text, NULL);
	if (!bytes) {
		ls_error_oom(error);
		return NULL;
	}
	free(reading->policy);
	reading->policy = bytes;
	reading->policy_number = ls_plane_generation(plane);
	return reading->policy;
}

bool ls_reading_take(struct ls_reading *reading, struct ls_plane *plane, uint64_t now_ns,
		     struct ls_error *error)
{
	_cleanup_stats_ struct ls_stats stats = { 0 };
	struct ls_plane_status status = { 0 };
	struct ls_pressure pressure;

	reading->read_ns = now_ns;
	reading->is_attached = plane != NULL;
	if (!plane) {
		reading->status.n_interfaces = 0;
		reading->status.n_degraded = 0;
		memset(&reading->occupancy, 0, sizeof(reading->occupancy));
		ls_ban_survey_fini(&reading->bans);
		return true;
	}
	if (ls_plane_status(plane, &status, error) < 0)
		return false;
	if (status.made_ns != reading->status.made_ns) {
		memset(&reading->census, 0, sizeof(reading->census));
		reading->census_ns = 0;
		reading->policy_number = 0;
	}
	ls_plane_status_fini(&reading->status);
	reading->status = status;
	if (ls_stats_read(plane, NULL, &stats, error) < 0 ||
	    ls_pressure_read(plane, &pressure, error) < 0)
		return false;
	read_counters(reading, &stats);
	read_pressure(reading, &pressure);
	return read_tables(reading, plane, now_ns, error);
}
