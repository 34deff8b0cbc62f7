/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_TESTS_TOOLS_TOOL_H
#define LOADSHED_TESTS_TOOLS_TOOL_H

/*
 * What the lab's tools have in common: arguments, time, the end by a signal, and the rule that a number
 * that is printed is exact. Each tool prints one JSON document on stdout when it ends, also when it is
 * ended by SIGINT or SIGTERM, and "ready" on stderr when what it waits for can begin.
 */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "user/base/addr.h"

static volatile sig_atomic_t tool_ended;

static inline void tool_end(int signal_number)
{
	(void)signal_number;
	tool_ended = 1;
}

/* SIGINT and SIGTERM end the tool's loop; blocking calls return EINTR. */
static inline void tool_catch_signals(void)
{
	const struct sigaction action = { .sa_handler = tool_end };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* One line, exit 1. */
__attribute__((noreturn, format(printf, 1, 2))) static inline void tool_die(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

/* A decimal number from 0 to `high`, with optional k or M (1000s). */
static inline uint64_t tool_number(const char *text, uint64_t high)
{
	char *end = NULL;

	errno = 0;
	uint64_t number = strtoull(text, &end, 10);
	if (*end == 'k' || *end == 'M')
		number *= *end++ == 'k' ? 1000 : 1000000;
	if (errno || end == text || *end || *text == '-' || number > high)
		tool_die("'%s' is no number from 0 to %" PRIu64, text, high);
	return number;
}

static inline struct ls_prefix tool_prefix(const char *text)
{
	struct ls_prefix prefix;
	char clause[256];
	const enum ls_prefix_error reason = ls_prefix_parse(text, strlen(text), &prefix);

	if (reason != LS_PREFIX_OK)
		tool_die("%s",
			 ls_prefix_explain(reason, text, strlen(text), clause, sizeof(clause)));
	return prefix;
}

static inline uint64_t tool_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline void tool_sleep_until(uint64_t until_ns)
{
	const struct timespec until = { .tv_sec = (time_t)(until_ns / 1000000000),
					.tv_nsec = (long)(until_ns % 1000000000) };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

/* From 0 to less than 1, from SplitMix64 (Steele, Lea, Flood 2014): *state is the seed, then what comes next of it. */
static inline double tool_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static inline void tool_ready(void)
{
	fputs("ready\n", stderr);
	fflush(stderr);
}

#endif
