/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_POLICY_NAMES_H
#define LOADSHED_USER_POLICY_NAMES_H

/* The words of the policy language, for reader, printer, messages and JSON alike. */

#include <stdbool.h>
#include <stdint.h>

#include "user/policy/policy.h"

extern const char *const ls_mode_names[LS_MODE_MAX];
extern const char *const ls_endpoint_names[LS_ENDPOINT_MAX];
extern const char *const ls_priority_names[LS_PRIORITY_MAX];
extern const char *const ls_algorithm_names[LS_ALGORITHM_MAX];
extern const char *const ls_count_names[LS_COUNT_MAX];
extern const char *const ls_loss_names[LS_LOSS_MAX];
extern const char *const ls_per_names[LS_PER_MAX]; /* NULL for LS_PER_PREFIX, which is a map */

/* "source", "{ ipv4: 24, ipv6: 48 }", "flow", …; returns `text`. */
#define LS_PER_TEXT 32
char *ls_per_format(const struct ls_limit *limit, char text[static LS_PER_TEXT]);

/* "tcp", or the number for a protocol without a name in policies; returns `text`. */
#define LS_PROTOCOL_TEXT 8
char *ls_protocol_format(unsigned protocol, char text[static LS_PROTOCOL_TEXT]);

/* 0 to 255 for a name or a decimal number, -1 for anything else. */
int ls_protocol_parse(const char *text);

/* The protocols' names, for suggestions. */
#define LS_PROTOCOL_NAMES 7
extern const char *const ls_protocol_names[LS_PROTOCOL_NAMES];

/*
 * "syn", "no-ack", …: sets the flag's bit in *set or *clear (bits as in byte 13 of the TCP header).
 * False if it is no such word.
 */
bool ls_tcp_flag_parse(const char *text, uint8_t *set, uint8_t *clear);

/* The name of one bit, 0 to 7, without "no-". */
const char *ls_tcp_flag_name(unsigned bit);

#endif
