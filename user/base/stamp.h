/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BASE_STAMP_H
#define LOADSHED_USER_BASE_STAMP_H

/* Moments as RFC 3339 in UTC. Each returns `text`. */

#include <stdint.h>

/* 2026-11-30T18:43:00Z */
#define LS_STAMP_TEXT 32
char *ls_stamp_format(uint64_t unix_ns, char text[static LS_STAMP_TEXT]);

/* 2026-11-30T18:43:00.123456789Z */
#define LS_STAMP_NS_TEXT 64
char *ls_stamp_format_ns(uint64_t unix_ns, char text[static LS_STAMP_NS_TEXT]);

#endif
