/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_TESTS_KERN_COMMON_H
#define LOADSHED_TESTS_KERN_COMMON_H

/*
 * What the load tests share. Each test prints lines `ok NAME`, `not ok NAME: why` or `skip NAME:
 * why` and exits 1 if one was not ok. They run the real program in the kernel, in a sandbox of this
 * process.
 */

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tools/gen.h"
#include "user/base/error.h"
#include "user/plane/counters.h"
#include "user/plane/internal.h"
#include "user/plane/sandbox.h"
#include "user/policy/policy.h"
#include "user/policy/read.h"

#define XDP_DROP_CODE 1
#define XDP_PASS_CODE 2

/* Prints the line of one test; `format` says why when it is not ok. Returns is_ok. */
bool kern_result(bool is_ok, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void kern_skip(const char *name, const char *why);
/* What the process exits with. */
int kern_status(void);

/* LS_LONG=1 asks for the full-length variants. */
bool kern_is_long(void);

/* These end the process with a line when the environment fails. */
struct ls_policy *kern_policy(const char *format, ...) __attribute__((format(printf, 1, 2)));
struct ls_plane *kern_sandbox(const char *text, uint64_t sources, bool live_clock);
void kern_publish(struct ls_plane *plane, const struct ls_policy *policy);

/* Sums of a plane's counters. class_name "": verdicts before any class; NULL: any. LS_REASON_MAX:
 * any. */
uint64_t kern_count(struct ls_plane *plane, const char *class_name, enum ls_verdict verdict,
		    enum ls_reason reason);

/* The memory of one of the plane's maps and its size. */
void *kern_memory(struct ls_plane *plane, enum ls_map map, size_t *ret_bytes);

#endif
