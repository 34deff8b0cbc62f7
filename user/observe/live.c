/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/observe/live.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/buffer.h"
#include "user/base/reason.h"
#include "user/observe/reading.h"

#define SECOND_NS UINT64_C(1000000000)

/* ---- a sample each second ---- */

/* One class with all its rows: `count` of them from `first` on. */
struct group {
	const struct ls_steady_row *const *first;
	size_t count;
	struct ls_live_class sum;
	uint64_t bytes;
};

static void add_rate(struct ls_live_class *to, const struct ls_steady_row *row)
{
	const enum ls_verdict verdict = LS_READING_VERDICT(row->number);

	if (verdict == LS_VERDICT_DROP)
		to->drop += row->rate.packets;
	else
		to->pass += row->rate.packets;
	if (verdict == LS_VERDICT_WOULD_DROP)
		to->would_drop += row->rate.packets;
}

static void add_class(struct ls_live_class *to, const struct ls_live_class *what)
{
	to->pass += what->pass;
	to->drop += what->drop;
	to->would_drop += what->would_drop;
}

/* Those with most drops first, then those with most packets, then by name. */
static int compare_groups(const void *a, const void *b)
{
	const struct ls_live_class *left = &((const struct group *)a)->sum;
	const struct ls_live_class *right = &((const struct group *)b)->sum;
	const uint64_t left_bad = left->drop + left->would_drop;
	const uint64_t right_bad = right->drop + right->would_drop;

	if (left_bad != right_bad)
		return left_bad < right_bad ? 1 : -1;
	if (left->pass != right->pass)
		return left->pass < right->pass ? 1 : -1;
	return strcmp(left->name, right->name);
}

/* All classes, sorted; the caller frees it. NULL: none, or no memory. */
static struct group *group_classes(const struct ls_steady *verdicts, size_t *ret_count)
{
	struct group *groups = calloc(verdicts->count + 1, sizeof(*groups));
	size_t count = 0;

	*ret_count = 0;
	if (!groups)
		return NULL;
	for (size_t i = 0; i < verdicts->count; i++) {
		const struct ls_steady_row *row = verdicts->rows[i];
		if (count == 0 || strcmp(groups[count - 1].sum.name, row->name) != 0) {
			struct group *group = &groups[count++];
			group->first = (const struct ls_steady_row *const *)&verdicts->rows[i];
			snprintf(group->sum.name, sizeof(group->sum.name), "%s", row->name);
		}
		groups[count - 1].count++;
		groups[count - 1].bytes += row->rate.bytes;
		add_rate(&groups[count - 1].sum, row);
	}
	qsort(groups, count, sizeof(*groups), compare_groups);
	*ret_count = count;
	return groups;
}

static bool is_idle(const struct ls_live_class *class)
{
	return class->pass == 0 && class->drop == 0;
}

static void fill_classes(struct ls_live_sample *sample, const struct ls_steady *verdicts)
{
	size_t count = 0;
	struct group *groups = group_classes(verdicts, &count);

	for (size_t i = 0; groups && i < count; i++) {
		const struct ls_live_class *class = &groups[i].sum;
		if (is_idle(class))
			continue;
		if (sample->n_classes < LS_LIVE_CLASSES)
			sample->classes[sample->n_classes++] = *class;
		else
			add_class(&sample->others, class);
	}
	free(groups);
}

void ls_live_tick(struct ls_live *live, struct ls_reading *reading, uint64_t now_ns,
		  uint64_t unix_ns)
{
	const uint64_t span_ns = live->tick_ns ? now_ns - live->tick_ns : 0;
	struct ls_live_sample *sample = &live->samples[live->next];
	const struct ls_steady *verdicts = &reading->verdicts;

	live->tick_ns = now_ns;
	ls_steady_rates(&reading->verdicts, span_ns);
	ls_steady_rates(&reading->interfaces, span_ns);
	ls_steady_rates(&reading->pressure, span_ns);
	*sample = (struct ls_live_sample){ .unix_s = unix_ns / SECOND_NS,
					   .is_attached = reading->is_attached };
	for (size_t i = 0; i < verdicts->count; i++) {
		const struct ls_steady_row *row = verdicts->rows[i];
		const bool is_drop = LS_READING_VERDICT(row->number) == LS_VERDICT_DROP;
		add_rate(&sample->all, row);
		*(is_drop ? &sample->drop_bytes : &sample->pass_bytes) += row->rate.bytes;
		if (is_drop)
			sample->drop[LS_READING_REASON(row->number)] += row->rate.packets;
	}
	fill_classes(sample, verdicts);
	live->next = (live->next + 1) % LS_LIVE_SAMPLES;
}

/* ---- as JSON ---- */

static void add_class_row(struct ls_buffer *buffer, const struct ls_live_class *class,
			  const char *name, bool *any)
{
	ls_buffer_text(buffer, *any ? ",[" : "[");
	if (name)
		ls_buffer_json(buffer, name);
	else
		ls_buffer_text(buffer, "null");
	ls_buffer_format(buffer, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", class->pass, class->drop,
			 class->would_drop);
	*any = true;
}

static void add_sample(struct ls_buffer *buffer, const struct ls_live_sample *sample, bool comma)
{
	bool any = false;

	ls_buffer_format(buffer,
			 "%s{\"t\":%" PRIu64 ",\"attached\":%s,\"pass\":%" PRIu64
			 ",\"drop\":%" PRIu64 ",\"would_drop\":%" PRIu64 ",\"pass_bits\":%" PRIu64
			 ",\"drop_bits\":%" PRIu64 ",\"reasons\":{",
			 comma ? "," : "", sample->unix_s, sample->is_attached ? "true" : "false",
			 sample->all.pass, sample->all.drop, sample->all.would_drop,
			 sample->pass_bytes * 8, sample->drop_bytes * 8);
	for (unsigned i = 0; i < LS_REASON_MAX; i++) {
		if (!sample->drop[i])
			continue;
		ls_buffer_format(buffer, "%s\"%s\":%" PRIu64, any ? "," : "",
				 ls_reason_name((enum ls_reason)i), sample->drop[i]);
		any = true;
	}
	ls_buffer_text(buffer, "},\"classes\":[");
	any = false;
	for (size_t i = 0; i < sample->n_classes; i++)
		add_class_row(buffer, &sample->classes[i], sample->classes[i].name, &any);
	if (!is_idle(&sample->others))
		add_class_row(buffer, &sample->others, NULL, &any);
	ls_buffer_text(buffer, "]}");
}

static void add_samples(struct ls_buffer *buffer, const struct ls_live *live, uint64_t since)
{
	bool any = false;

	ls_buffer_text(buffer, ",\"samples\":[");
	for (size_t i = 0; i < LS_LIVE_SAMPLES; i++) {
		const struct ls_live_sample *sample =
			&live->samples[(live->next + i) % LS_LIVE_SAMPLES];
		if (!sample->unix_s || sample->unix_s <= since)
			continue;
		add_sample(buffer, sample, any);
		any = true;
	}
	ls_buffer_text(buffer, "]");
}

/* Why packets of a class were refused, or where they went: its rows that move, or that ever did. */
static void add_why(struct ls_buffer *buffer, const struct group *group)
{
	bool any = false;
	size_t shown = 0;

	ls_buffer_text(buffer, ",\"why\":[");
	for (size_t i = 0; i < group->count && shown < LS_LIVE_ROWS; i++) {
		const struct ls_steady_row *row = group->first[i];
		if (!row->value.packets)
			continue;
		ls_buffer_format(buffer, "%s{\"verdict\":\"%s\",\"reason\":\"%s\",\"limit\":",
				 any ? "," : "", ls_verdict_name(LS_READING_VERDICT(row->number)),
				 ls_reason_name(LS_READING_REASON(row->number)));
		ls_buffer_json(buffer, row->detail);
		ls_buffer_format(buffer, ",\"rate\":%" PRIu64 ",\"total\":%" PRIu64 "}",
				 row->rate.packets, row->value.packets);
		any = true;
		shown++;
	}
	ls_buffer_text(buffer, "]");
}

static void add_classes(struct ls_buffer *buffer, const struct ls_reading *reading)
{
	size_t count = 0;
	struct group *groups = group_classes(&reading->verdicts, &count);
	const size_t shown = count < LS_LIVE_ROWS ? count : LS_LIVE_ROWS;

	ls_buffer_text(buffer, ",\"classes\":[");
	for (size_t i = 0; groups && i < shown; i++) {
		const struct ls_live_class *sum = &groups[i].sum;
		ls_buffer_text(buffer, i ? ",{\"name\":" : "{\"name\":");
		ls_buffer_json(buffer, sum->name);
		ls_buffer_format(buffer,
				 ",\"pass\":%" PRIu64 ",\"drop\":%" PRIu64
				 ",\"would_drop\":%" PRIu64 ",\"bits\":%" PRIu64,
				 sum->pass, sum->drop, sum->would_drop, groups[i].bytes * 8);
		add_why(buffer, &groups[i]);
		ls_buffer_text(buffer, "}");
	}
	ls_buffer_format(buffer, "],\"classes_not_shown\":%zu", count - shown);
	free(groups);
}

static struct ls_tally interface_rate(const struct ls_reading *reading, const char *name,
				      enum ls_verdict verdict)
{
	for (size_t i = 0; i < reading->interfaces.count; i++) {
		const struct ls_steady_row *row = reading->interfaces.rows[i];
		if (row->number == verdict && strcmp(row->name, name) == 0)
			return row->rate;
	}
	return (struct ls_tally){ 0 };
}

static void add_interfaces(struct ls_buffer *buffer, const struct ls_reading *reading)
{
	ls_buffer_text(buffer, ",\"interfaces\":[");
	for (size_t i = 0; i < reading->status.n_interfaces; i++) {
		const struct ls_plane_interface *interface = &reading->status.interfaces[i];
		const struct ls_tally pass =
			interface_rate(reading, interface->name, LS_VERDICT_PASS);
		const struct ls_tally drop =
			interface_rate(reading, interface->name, LS_VERDICT_DROP);
		ls_buffer_text(buffer, i ? ",{\"name\":" : "{\"name\":");
		ls_buffer_json(buffer, interface->name);
		ls_buffer_format(buffer,
				 ",\"mode\":\"%s\",\"attached\":%s,\"mtu\":%u,\"pass\":%" PRIu64
				 ",\"drop\":%" PRIu64 ",\"bits\":%" PRIu64 "}",
				 ls_plane_mode_name(interface->mode),
				 interface->program_id ? "true" : "false", interface->mtu,
				 pass.packets, drop.packets, (pass.bytes + drop.bytes) * 8);
	}
	ls_buffer_text(buffer, "]");
}

static void add_tables(struct ls_buffer *buffer, const struct ls_reading *reading)
{
	ls_buffer_text(buffer, ",\"tables\":[");
	for (unsigned i = 0; i < LS_TABLES; i++)
		ls_buffer_format(buffer,
				 "%s{\"name\":\"%s\",\"entries\":%" PRIu64 ",\"capacity\":%" PRIu64
				 "}",
				 i ? "," : "", ls_table_name(i), reading->occupancy.live[i],
				 reading->occupancy.ways[i]);
	ls_buffer_text(buffer, "]");
}

static void add_bans(struct ls_buffer *buffer, const struct ls_ban_survey *bans)
{
	uint64_t count = 0;
	char text[LS_PREFIX_TEXT];

	for (unsigned i = 0; i < LS_ORIGIN_MAX; i++)
		count += bans->count[i];
	ls_buffer_format(buffer, ",\"bans\":{\"count\":%" PRIu64 ",\"rows\":[", count);
	for (size_t i = 0; i < bans->n_entries; i++) {
		const struct ls_ban_entry *entry = &bans->entries[i];
		ls_buffer_format(buffer,
				 "%s{\"source\":\"%s\",\"remaining_seconds\":%" PRIu64
				 ",\"origin\":\"%s\",\"reason\":",
				 i ? "," : "", ls_prefix_format(&entry->prefix, text),
				 entry->remaining_ns / SECOND_NS, ls_origin_name(entry->origin));
		ls_buffer_json(buffer, entry->reason);
		ls_buffer_text(buffer, "}");
	}
	ls_buffer_text(buffer, "]}");
}

static void add_sources(struct ls_buffer *buffer, const struct ls_top_reading *top)
{
	char text[LS_PREFIX_TEXT];

	ls_buffer_text(buffer, ",\"sources\":[");
	for (size_t i = 0; i < top->sources.count && i < LS_LIVE_SOURCES; i++) {
		const struct ls_top_row *row = &top->sources.rows[i];
		ls_buffer_format(
			buffer,
			"%s{\"source\":\"%s\",\"packets\":%.0f,\"bits\":%.0f,\"drops\":%.0f,"
			"\"would_drops\":%.0f,\"error\":%.0f,\"share\":%.4f}",
			i ? "," : "", ls_prefix_format(&row->prefix, text), row->packets,
			row->bytes * 8, row->drops, row->would_drops, row->error, row->share);
	}
	ls_buffer_text(buffer, "]");
}

bool ls_live_health(const struct ls_reading *reading, char *line, size_t size)
{
	const struct ls_plane_status *status = &reading->status;
	size_t running = 0;

	line[0] = '\0';
	for (size_t i = 0; i < status->n_interfaces; i++)
		running += status->interfaces[i].program_id != 0;
	if (!reading->is_attached)
		snprintf(line, size, "nothing is attached: no packet is judged");
	else if (!running)
		snprintf(line, size, "no interface is left: no packet is judged");
	else if (status->n_degraded)
		snprintf(line, size, "%s", status->degraded[0]);
	return running != 0;
}

static void add_health(struct ls_buffer *buffer, const struct ls_reading *reading)
{
	const struct ls_plane_status *status = &reading->status;
	char line[LS_PLANE_NOTE_BYTES];
	const bool is_judged = ls_live_health(reading, line, sizeof(line));

	ls_buffer_format(buffer, ",\"health\":{\"state\":\"%s\",\"lines\":[",
			 !is_judged ? "unprotected"
			 : line[0]  ? "degraded"
				    : "ok");
	if (!is_judged)
		ls_buffer_json(buffer, line);
	for (size_t i = 0; i < status->n_degraded; i++) {
		if (i || !is_judged)
			ls_buffer_text(buffer, ",");
		ls_buffer_json(buffer, status->degraded[i]);
	}
	ls_buffer_text(buffer, "]}");
}

void ls_live_json(const struct ls_live *live, const struct ls_reading *reading, uint64_t unix_ns,
		  uint64_t since, struct ls_buffer *buffer)
{
	const struct ls_plane_status *status = &reading->status;
	const uint64_t now_s = unix_ns / SECOND_NS;

	/* A reader from the future has a clock that was set back: it gets all. */
	if (since > now_s)
		since = 0;
	ls_buffer_format(buffer, "{\"now\":%" PRIu64 ",\"attached\":%s,\"instance\":", now_s,
			 reading->is_attached ? "true" : "false");
	ls_buffer_json(buffer, status->instance);
	ls_buffer_format(buffer,
			 ",\"version\":\"%s\",\"mode\":\"%s\",\"generation\":%" PRIu64
			 ",\"published\":%" PRIu64 ",\"off_seconds\":%" PRIu64
			 ",\"panic_seconds\":%" PRIu64 ",\"confirm_seconds\":%" PRIu64,
			 LS_VERSION, status->monitor ? "monitor" : "enforce", status->generation,
			 status->published_ns / SECOND_NS, status->off_ns / SECOND_NS,
			 status->panic_ns / SECOND_NS, status->confirm_ns / SECOND_NS);
	add_health(buffer, reading);
	add_interfaces(buffer, reading);
	add_classes(buffer, reading);
	add_tables(buffer, reading);
	add_bans(buffer, &reading->bans);
	add_sources(buffer, &reading->top);
	ls_now_json(&reading->now, reading->top_ns, buffer);
	add_samples(buffer, live, since);
	ls_buffer_text(buffer, "}\n");
}
