/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BASE_FACTS_H
#define LOADSHED_USER_BASE_FACTS_H

/* What the controller has done and found since it started, for metrics and the live page. Unix times in ns; 0: never. */

#include <stdint.h>

struct ls_facts {
	uint64_t start_ns;
	uint64_t reloads;	  /* SIGHUPs after which the file's policy is in force */
	uint64_t reloads_failed;  /* and those after which the policy before stayed */
	uint64_t reload_ns;	  /* the last good one */
	uint64_t list_publishes;  /* list files that changed and are in force */
	uint64_t list_failures;	  /* and those that changed and could not be used */
	uint64_t reattached;	  /* interfaces that came back and run the program again */
	uint64_t reattach_failed; /* tries that failed */
	uint64_t takeovers;	  /* times that somebody took our program off an interface */
	uint64_t loop_longest_ns; /* longest wait in the event loop during the last second */
};

#endif
