/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/overload/host.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_BYTES                                                                                 \
	16384 /* /proc/stat of a host with many CPUs is longer: what counts stands at its start */

/* Why there is no rate yet. */
static const char first_look[] = "it is measured from the second look on";

static const char *const paths[LS_HOST_FILES] = {
	[LS_HOST_STAT] = "stat",
	[LS_HOST_PRESSURE] = "pressure/cpu",
	[LS_HOST_SOFTNET] = "net/softnet_stat",
	[LS_HOST_MEMINFO] = "meminfo",
	[LS_HOST_SNMP] = "net/snmp",
	[LS_HOST_NETSTAT] = "net/netstat",
};

void ls_host_init(struct ls_host *host, const char *root)
{
	*host = (struct ls_host){ .root = root };
	for (int file = 0; file < LS_HOST_FILES; file++) {
		char path[256];
		snprintf(path, sizeof(path), "%s/%s", root, paths[file]);
		host->fd[file] = open(path, O_RDONLY | O_CLOEXEC);
	}
}

void ls_host_fini(struct ls_host *host)
{
	for (int file = 0; file < LS_HOST_FILES; file++)
		if (host->fd[file] >= 0)
			close(host->fd[file]);
}

/* The start of the file; NULL and why. */
static const char *read_text(const struct ls_host *host, enum ls_host_file file,
			     char text[static TEXT_BYTES])
{
	const ssize_t bytes = host->fd[file] < 0 ? -1
						 : pread(host->fd[file], text, TEXT_BYTES - 1, 0);

	if (bytes <= 0)
		return file == LS_HOST_PRESSURE ? "this kernel has no PSI, or it is off"
						: "/proc does not have it";
	text[bytes] = '\0';
	return NULL;
}

const char *ls_host_cpu(struct ls_host *host, double *ret_part)
{
	char text[TEXT_BYTES];
	uint64_t field[8] = { 0 }; /* user nice system idle iowait irq softirq steal */
	const char *why = read_text(host, LS_HOST_STAT, text);

	if (why)
		return why;
	if (sscanf(text,
		   "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
		   " %" SCNu64 " %" SCNu64,
		   &field[0], &field[1], &field[2], &field[3], &field[4], &field[5], &field[6],
		   &field[7]) < 4)
		return "/proc/stat is not understood";
	uint64_t all = 0;
	for (unsigned i = 0; i < 8; i++)
		all += field[i];
	/* Time that another guest has taken cannot be used either. */
	const uint64_t busy = all - field[3] - field[4];
	const uint64_t was_all = host->cpu_all, was_busy = host->cpu_busy;
	host->cpu_all = all;
	host->cpu_busy = busy;
	if (!was_all || all <= was_all)
		return first_look;
	*ret_part = busy > was_busy ? (double)(busy - was_busy) / (double)(all - was_all) : 0;
	return NULL;
}

const char *ls_host_pressure(struct ls_host *host, uint64_t now_ns, double *ret_part)
{
	char text[TEXT_BYTES];
	const char *why = read_text(host, LS_HOST_PRESSURE, text);
	const char *total = why ? NULL : strstr(text, "total=");

	if (!total)
		return why ? why : "/proc/pressure/cpu is not understood";
	const uint64_t us = strtoull(total + strlen("total="), NULL, 10);
	const uint64_t was_us = host->pressure_us, was_ns = host->pressure_at_ns;
	host->pressure_us = us;
	host->pressure_at_ns = now_ns;
	if (!was_ns || now_ns <= was_ns)
		return first_look;
	*ret_part = (double)(us - was_us) * 1000 / (double)(now_ns - was_ns);
	return NULL;
}

const char *ls_host_softnet(struct ls_host *host, uint64_t *ret_dropped)
{
	char text[TEXT_BYTES];
	const char *why = read_text(host, LS_HOST_SOFTNET, text);
	uint64_t sum = 0;

	if (why)
		return why;
	for (char *rest = NULL, *line = strtok_r(text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		unsigned long processed, dropped;
		if (sscanf(line, "%lx %lx", &processed, &dropped) == 2)
			sum += dropped;
	}
	const bool is_first = !host->has_softnet;
	*ret_dropped = sum - host->softnet_dropped;
	host->softnet_dropped = sum;
	host->has_softnet = true;
	return is_first ? first_look : NULL;
}

const char *ls_host_memory(struct ls_host *host, double *ret_part)
{
	char text[TEXT_BYTES];
	const char *why = read_text(host, LS_HOST_MEMINFO, text);
	const char *total = why ? NULL : strstr(text, "MemTotal:");
	const char *available = why ? NULL : strstr(text, "MemAvailable:");

	if (why)
		return why;
	if (!total || !available)
		return "/proc/meminfo does not say MemAvailable";
	const double all = (double)strtoull(total + strlen("MemTotal:"), NULL, 10);
	const double left = (double)strtoull(available + strlen("MemAvailable:"), NULL, 10);
	if (all <= 0)
		return "/proc/meminfo is not understood";
	*ret_part = 1 - left / all;
	return NULL;
}

/*
 * Field `name` of the protocol `prefix` ("Tcp:") in a file of pairs of lines, names above values. False: not there.
 */
static bool find_field(char *text, const char *prefix, const char *name, uint64_t *ret)
{
	char *names = NULL, *values = NULL;

	for (char *line = text; line && *line;) {
		char *end = strchr(line, '\n');
		if (strncmp(line, prefix, strlen(prefix)) == 0) {
			values = names ? line : NULL;
			if (values)
				break;
			names = line;
		}
		line = end ? end + 1 : NULL;
	}
	while (names && values && *names != '\n' && *names) {
		const size_t n = strcspn(names, " \n"), v = strcspn(values, " \n");
		if (n == strlen(name) && strncmp(names, name, n) == 0) {
			*ret = strtoull(values, NULL, 10);
			return true;
		}
		names += n + (names[n] == ' ');
		values += v + (values[v] == ' ');
	}
	return false;
}

const char *ls_host_tcp(struct ls_host *host, uint64_t *ret_opened, uint64_t *ret_finished)
{
	char text[TEXT_BYTES];
	const char *why = read_text(host, LS_HOST_SNMP, text);
	uint64_t passive = 0, active = 0, failed = 0, established = 0;

	if (why)
		return why;
	if (!find_field(text, "Tcp:", "PassiveOpens", &passive) ||
	    !find_field(text, "Tcp:", "ActiveOpens", &active) ||
	    !find_field(text, "Tcp:", "AttemptFails", &failed) ||
	    !find_field(text, "Tcp:", "CurrEstab", &established))
		return "/proc/net/snmp is not understood";
	const uint64_t was_opened = host->opened, was_closed = host->closed;
	/* All that were ever open less those that are: those that were closed. */
	const uint64_t closed = passive + active - established;
	const bool is_first = !host->has_tcp;
	host->opened = passive;
	host->closed = closed;
	host->inside = established;
	host->has_tcp = true;
	if (is_first)
		return first_look;
	*ret_opened = passive - was_opened;
	*ret_finished = (int64_t)(closed - was_closed) > 0 ? closed - was_closed : 0;
	return NULL;
}

const char *ls_host_overflows(struct ls_host *host, uint64_t *ret_lost)
{
	char text[TEXT_BYTES];
	const char *why = read_text(host, LS_HOST_NETSTAT, text);
	uint64_t overflows = 0;

	if (why)
		return why;
	if (!find_field(text, "TcpExt:", "ListenOverflows", &overflows))
		return "/proc/net/netstat is not understood";
	const bool is_first = !host->has_overflows;
	*ret_lost = overflows - host->overflows;
	host->overflows = overflows;
	host->has_overflows = true;
	return is_first ? first_look : NULL;
}
