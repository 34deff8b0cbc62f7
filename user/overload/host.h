/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_OVERLOAD_HOST_H
#define LOADSHED_USER_OVERLOAD_HOST_H

/*
 * What /proc says about the host. Each reading is the difference since the last one; a file that is not there, or says
 * nothing, is a reason in words. The files are kept open and read from the start.
 */

#include <stdbool.h>
#include <stdint.h>

enum ls_host_file {
	LS_HOST_STAT,	  /* CPU time */
	LS_HOST_PRESSURE, /* pressure/cpu */
	LS_HOST_SOFTNET,  /* net/softnet_stat: of the whole host */
	LS_HOST_MEMINFO,
	LS_HOST_SNMP,	 /* net/snmp: of this network namespace */
	LS_HOST_NETSTAT, /* net/netstat: the same */
	LS_HOST_FILES,
};

struct ls_host {
	const char *root; /* "/proc", or a test's folder */
	int fd[LS_HOST_FILES];
	uint64_t cpu_busy, cpu_all;
	uint64_t pressure_us, pressure_at_ns;
	uint64_t softnet_dropped;
	bool has_softnet;
	uint64_t opened, closed;
	uint64_t inside; /* connections that stand, in and out, as ls_host_tcp() saw them last */
	bool has_tcp;
	uint64_t overflows;
	bool has_overflows;
};

void ls_host_init(struct ls_host *host, const char *root);
void ls_host_fini(struct ls_host *host);

/*
 * Each returns NULL and a value, or why there is none. The first call of a difference says that it is the first.
 */
const char *ls_host_cpu(struct ls_host *host, double *ret_part);
const char *ls_host_pressure(struct ls_host *host, uint64_t now_ns, double *ret_part);
/* Packets that the receive path dropped because its queue was full. */
const char *ls_host_softnet(struct ls_host *host, uint64_t *ret_dropped);
const char *ls_host_memory(struct ls_host *host, double *ret_part);
/* TCP connections that came in and reached the accept queue, and those that were finished, in and out. */
const char *ls_host_tcp(struct ls_host *host, uint64_t *ret_opened, uint64_t *ret_finished);
/* Connections that were lost because an accept queue was full. */
const char *ls_host_overflows(struct ls_host *host, uint64_t *ret_lost);

#endif
