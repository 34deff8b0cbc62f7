/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/observe/export.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "user/base/cleanup.h"
#include "user/base/facts.h"
#include "user/base/metrics.h"
#include "user/base/reason.h"
#include "user/base/sha256.h"
#include "user/observe/reading.h"

#define NS 1e9

static double seconds(uint64_t ns)
{
	return (double)ns / NS;
}

/* ---- what happened ---- */

enum unit { PACKETS, BYTES };

static uint64_t amount(const struct ls_tally *tally, enum unit unit)
{
	return unit == PACKETS ? tally->packets : tally->bytes;
}

/* Rows of one class, verdict and reason lie together and differ in the limit: one sample is their sum. */
static void write_verdicts(const struct ls_steady *verdicts, enum unit unit,
			   struct ls_metrics *metrics)
{
	for (size_t i = 0; i < verdicts->count;) {
		const struct ls_steady_row *first = verdicts->rows[i];
		uint64_t sum = 0;
		for (; i < verdicts->count && verdicts->rows[i]->number == first->number &&
		       strcmp(verdicts->rows[i]->name, first->name) == 0;
		     i++)
			sum += amount(&verdicts->rows[i]->value, unit);
		ls_metrics_integer(metrics, sum, "class", first->name, "verdict",
				   ls_verdict_name(LS_READING_VERDICT(first->number)), "reason",
				   ls_reason_name(LS_READING_REASON(first->number)), NULL);
	}
}

static void write_limits(const struct ls_steady *verdicts, enum unit unit,
			 struct ls_metrics *metrics)
{
	for (size_t i = 0; i < verdicts->count; i++) {
		const struct ls_steady_row *row = verdicts->rows[i];
		if (row->detail[0])
			ls_metrics_integer(metrics, amount(&row->value, unit), "class", row->name,
					   "limit", row->detail, "verdict",
					   ls_verdict_name(LS_READING_VERDICT(row->number)),
					   "reason", ls_reason_name(LS_READING_REASON(row->number)),
					   NULL);
	}
}

static void write_seen(const struct ls_steady *verdicts, enum unit unit, struct ls_metrics *metrics)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < verdicts->count; i++)
		sum += amount(&verdicts->rows[i]->value, unit);
	ls_metrics_integer(metrics, sum, NULL);
}

static void write_interface_counters(const struct ls_steady *interfaces, enum unit unit,
				     struct ls_metrics *metrics)
{
	for (size_t i = 0; i < interfaces->count; i++) {
		const struct ls_steady_row *row = interfaces->rows[i];
		ls_metrics_integer(metrics, amount(&row->value, unit), "interface", row->name,
				   "verdict", ls_verdict_name((enum ls_verdict)row->number), NULL);
	}
}

static void write_counters(const struct ls_reading *reading, struct ls_metrics *metrics)
{
	const struct ls_steady *verdicts = &reading->verdicts;

	ls_metrics_family(
		metrics, LS_METRIC_COUNTER, "loadshed_packets_total",
		"Packets by class, verdict and reason; class is empty before any class. A would-drop was passed on.");
	write_verdicts(verdicts, PACKETS, metrics);
	ls_metrics_family(metrics, LS_METRIC_COUNTER, "loadshed_bytes_total",
			  "Bytes of those packets, from the Ethernet header on.");
	write_verdicts(verdicts, BYTES, metrics);
	ls_metrics_family(metrics, LS_METRIC_COUNTER, "loadshed_seen_packets_total",
			  "All packets: the sum of loadshed_packets_total, of the same reading.");
	write_seen(verdicts, PACKETS, metrics);
	ls_metrics_family(metrics, LS_METRIC_COUNTER, "loadshed_seen_bytes_total",
			  "All bytes: the sum of loadshed_bytes_total, of the same reading.");
	write_seen(verdicts, BYTES, metrics);
	ls_metrics_family(
		metrics, LS_METRIC_COUNTER, "loadshed_limit_packets_total",
		"Packets that a limit refused (drop) or would have refused (would-drop): those of loadshed_packets_total with reason limit or crowd, by limit.");
	write_limits(verdicts, PACKETS, metrics);
	ls_metrics_family(metrics, LS_METRIC_COUNTER, "loadshed_limit_bytes_total",
			  "Bytes of those packets.");
	write_limits(verdicts, BYTES, metrics);
	ls_metrics_family(metrics, LS_METRIC_COUNTER, "loadshed_interface_packets_total",
			  "Packets by interface and verdict, pass (would-drops included) or drop.");
	write_interface_counters(&reading->interfaces, PACKETS, metrics);
	ls_metrics_family(metrics, LS_METRIC_COUNTER, "loadshed_interface_bytes_total",
			  "Bytes of those packets.");
	write_interface_counters(&reading->interfaces, BYTES, metrics);
}

/* ---- what is attached and in force ---- */

static void write_interfaces(const struct ls_reading *reading, struct ls_metrics *metrics)
{
	const struct ls_plane_status *status = &reading->status;

	ls_metrics_family(metrics, LS_METRIC_INFO, "loadshed_interface_info",
			  "Interfaces of the instance and the mode of the program there.");
	for (size_t i = 0; i < status->n_interfaces; i++)
		ls_metrics_integer(metrics, 1, "interface", status->interfaces[i].name, "mode",
				   ls_plane_mode_name(status->interfaces[i].mode), NULL);
	ls_metrics_family(
		metrics, LS_METRIC_GAUGE, "loadshed_interface_attached",
		"1 while the program runs on the interface; 0: the interface has vanished.");
	for (size_t i = 0; i < status->n_interfaces; i++)
		ls_metrics_integer(metrics, status->interfaces[i].program_id != 0, "interface",
				   status->interfaces[i].name, NULL);
}

static void write_policy(const struct ls_reading *reading, uint64_t unix_ns,
			 struct ls_metrics *metrics)
{
	const struct ls_plane_status *status = &reading->status;
	char digest[2 * sizeof(status->policy_sha256) + 1];

	for (size_t i = 0; i < sizeof(status->policy_sha256); i++)
		snprintf(digest + 2 * i, 3, "%02x", status->policy_sha256[i]);
	ls_metrics_one(metrics, LS_METRIC_GAUGE, "loadshed_policy_generation",
		       "Number of the policy in force, from 1.", (double)status->generation);
	ls_metrics_family(metrics, LS_METRIC_INFO, "loadshed_policy_info",
			  "SHA-256 of the canonical text of the policy in force.");
	ls_metrics_integer(metrics, 1, "sha256", digest, NULL);
	ls_metrics_one(metrics, LS_METRIC_GAUGE, "loadshed_policy_publish_timestamp_seconds",
		       "Unix time when the policy in force was published.",
		       seconds(status->published_ns));
	ls_metrics_one(
		metrics, LS_METRIC_GAUGE, "loadshed_policy_age_seconds", "Time since then.",
		seconds(unix_ns > status->published_ns ? unix_ns - status->published_ns : 0));
	ls_metrics_one(metrics, LS_METRIC_GAUGE, "loadshed_enforcing",
		       "1 while packets are dropped; 0: monitor mode, or off.", !status->monitor);
	ls_metrics_family(
		metrics, LS_METRIC_GAUGE, "loadshed_temporary_seconds",
		"Time left of what ends by itself: off, panic, a policy that waits to be confirmed; 0: not set.");
	ls_metrics_number(metrics, seconds(status->off_ns), "what", "off", NULL);
	ls_metrics_number(metrics, seconds(status->panic_ns), "what", "panic", NULL);
	ls_metrics_number(metrics, seconds(status->confirm_ns), "what", "confirm", NULL);
}

/* ---- tables and bans ---- */

static void write_tables(const struct ls_reading *reading, struct ls_metrics *metrics)
{
	ls_metrics_family(
		metrics, LS_METRIC_GAUGE, "loadshed_table_entries",
		"States that hold something, by table; an estimate from a sample where a table is large.");
	for (unsigned i = 0; i < LS_TABLES; i++)
		ls_metrics_integer(metrics, reading->occupancy.live[i], "table", ls_table_name(i),
				   NULL);
	ls_metrics_family(metrics, LS_METRIC_GAUGE, "loadshed_table_capacity",
			  "Places for states, by table.");
	for (unsigned i = 0; i < LS_TABLES; i++)
		ls_metrics_integer(metrics, reading->occupancy.ways[i], "table", ls_table_name(i),
				   NULL);
}

static uint64_t pressure_of(const struct ls_reading *reading, unsigned number)
{
	for (size_t i = 0; i < reading->pressure.count; i++)
		if (reading->pressure.rows[i]->number == number)
			return reading->pressure.rows[i]->value.packets;
	return 0;
}

static void write_pressure(const struct ls_reading *reading, struct ls_metrics *metrics)
{
	ls_metrics_family(
		metrics, LS_METRIC_COUNTER, "loadshed_table_evicted_total",
		"States with the least used share of their limit that gave way to a newcomer.");
	ls_metrics_integer(metrics, pressure_of(reading, LS_READING_EVICTED), "table", "long",
			   NULL);
	ls_metrics_family(
		metrics, LS_METRIC_COUNTER, "loadshed_table_unplaced_total",
		"Newcomers that found no place: in the short table charged to their limit's crowd bucket, in the others passed.");
	ls_metrics_integer(metrics, pressure_of(reading, LS_READING_UNPLACED_SHORT), "table",
			   "short", NULL);
	ls_metrics_integer(metrics, pressure_of(reading, LS_READING_UNPLACED_LONG), "table", "long",
			   NULL);
	ls_metrics_family(
		metrics, LS_METRIC_COUNTER, "loadshed_contended_total",
		"Packets passed because other CPUs changed the same state first, each time it was tried.");
	ls_metrics_integer(metrics, pressure_of(reading, LS_READING_CONTENDED), NULL);
	ls_metrics_family(metrics, LS_METRIC_GAUGE, "loadshed_bans",
			  "Bans that have not ended, by where they came from.");
	for (unsigned i = 0; i < LS_ORIGIN_MAX; i++)
		ls_metrics_integer(metrics, reading->bans.count[i], "origin",
				   ls_origin_name((enum ls_origin)i), NULL);
	ls_metrics_family(metrics, LS_METRIC_COUNTER, "loadshed_bans_lost_total",
			  "Bans by classes that found no room.");
	ls_metrics_integer(metrics, pressure_of(reading, LS_READING_BANS_LOST), NULL);
}

void ls_export_metrics(const struct ls_reading *reading, uint64_t unix_ns,
		       struct ls_metrics *metrics)
{
	const struct ls_plane_status *status = &reading->status;

	ls_metrics_one(metrics, LS_METRIC_GAUGE, "loadshed_attached",
		       "1 while an instance is attached; 0: nothing is protected.",
		       reading->is_attached);
	write_counters(reading, metrics);
	write_interfaces(reading, metrics);
	write_tables(reading, metrics);
	write_pressure(reading, metrics);
	ls_metrics_one(metrics, LS_METRIC_GAUGE, "loadshed_degraded_conditions",
		       "Lines that 'loadshed status' shows as degraded.",
		       (double)status->n_degraded);
	if (!reading->status.made_ns)
		return;
	ls_metrics_family(metrics, LS_METRIC_INFO, "loadshed_program_info",
			  "Version of the program that judges packets.");
	ls_metrics_integer(metrics, 1, "version", status->version, NULL);
	ls_metrics_one(metrics, LS_METRIC_GAUGE, "loadshed_counters_start_time_seconds",
		       "Unix time when the kernel's counters began.", seconds(status->made_ns));
	write_policy(reading, unix_ns, metrics);
}

/* ---- the controller ---- */

static void write_results(struct ls_metrics *metrics, const char *name, const char *help,
			  uint64_t good, uint64_t bad)
{
	ls_metrics_family(metrics, LS_METRIC_COUNTER, name, help);
	ls_metrics_integer(metrics, good, "result", "ok", NULL);
	ls_metrics_integer(metrics, bad, "result", "failed", NULL);
}

void ls_export_facts(const struct ls_facts *facts, struct ls_metrics *metrics)
{
	ls_metrics_family(metrics, LS_METRIC_INFO, "loadshed_build_info",
			  "Version of 'loadshed serve'.");
	ls_metrics_integer(metrics, 1, "version", LS_VERSION, NULL);
	ls_metrics_one(metrics, LS_METRIC_GAUGE, "loadshed_start_time_seconds",
		       "Unix time when 'loadshed serve' started.", seconds(facts->start_ns));
	write_results(metrics, "loadshed_reloads_total",
		      "Policy files read again at SIGHUP; failed: the policy before stayed.",
		      facts->reloads, facts->reloads_failed);
	write_results(metrics, "loadshed_list_updates_total",
		      "List files that changed and are in force, or could not be used.",
		      facts->list_publishes, facts->list_failures);
	write_results(metrics, "loadshed_reattaches_total",
		      "Interfaces that came back and were attached again, or could not be.",
		      facts->reattached, facts->reattach_failed);
	ls_metrics_family(metrics, LS_METRIC_COUNTER, "loadshed_takeovers_total",
			  "Times that somebody took our program off an interface.");
	ls_metrics_integer(metrics, facts->takeovers, NULL);
	ls_metrics_one(metrics, LS_METRIC_GAUGE, "loadshed_loop_longest_seconds",
		       "Longest wait in the event loop during the last second.",
		       seconds(facts->loop_longest_ns));
}

static unsigned count_fds(void)
{
	DIR *directory = opendir("/proc/self/fd");
	unsigned count = 0;

	if (!directory)
		return 0;
	while (readdir(directory))
		count++;
	closedir(directory);
	return count > 3 ? count - 3 : 0; /* ".", ".." and the directory itself */
}

static void read_memory(uint64_t *ret_virtual, uint64_t *ret_resident)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/self/statm", "re");
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	if (!file || fscanf(file, "%" SCNu64 " %" SCNu64, ret_virtual, ret_resident) != 2)
		*ret_virtual = *ret_resident = 0;
	*ret_virtual *= page;
	*ret_resident *= page;
}

void ls_export_process(uint64_t start_ns, struct ls_metrics *metrics)
{
	struct timespec used = { 0 };
	struct rlimit files = { 0 };
	uint64_t virtual_bytes = 0, resident_bytes = 0;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	getrlimit(RLIMIT_NOFILE, &files);
	read_memory(&virtual_bytes, &resident_bytes);
	ls_metrics_one(metrics, LS_METRIC_COUNTER, "process_cpu_seconds_total",
		       "CPU time of 'loadshed serve', user and system.",
		       (double)used.tv_sec + (double)used.tv_nsec / NS);
	ls_metrics_one(metrics, LS_METRIC_GAUGE, "process_open_fds", "Open file descriptors.",
		       count_fds());
	ls_metrics_one(metrics, LS_METRIC_GAUGE, "process_max_fds",
		       "Most file descriptors that may be open.", (double)files.rlim_cur);
	ls_metrics_one(metrics, LS_METRIC_GAUGE, "process_virtual_memory_bytes",
		       "Virtual memory size.", (double)virtual_bytes);
	ls_metrics_one(
		metrics, LS_METRIC_GAUGE, "process_resident_memory_bytes",
		"Resident memory size, with the parts of the kernel's tables that are mapped.",
		(double)resident_bytes);
	ls_metrics_one(metrics, LS_METRIC_GAUGE, "process_start_time_seconds",
		       "Unix time when the process started.", seconds(start_ns));
}
