/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/names.h"

#include <stdio.h>
#include <string.h>

#include "user/base/units.h"

const char *const ls_loss_names[LS_LOSS_MAX] = {
	[LS_LOSS_LOCAL] = "local",
	[LS_LOSS_OPEN] = "open",
	[LS_LOSS_CLOSED] = "closed",
};

const char *const ls_mode_names[LS_MODE_MAX] = {
	[LS_MODE_ENFORCE] = "enforce",
	[LS_MODE_MONITOR] = "monitor",
};

const char *const ls_endpoint_names[LS_ENDPOINT_MAX] = {
	[LS_ENDPOINT_NONE] = "none", [LS_ENDPOINT_FILE] = "file", [LS_ENDPOINT_TCP] = "tcp",
	[LS_ENDPOINT_HTTP] = "http", [LS_ENDPOINT_UNIX] = "unix",
};

const char *const ls_priority_names[LS_PRIORITY_MAX] = {
	[LS_PRIORITY_LOW] = "low",
	[LS_PRIORITY_NORMAL] = "normal",
	[LS_PRIORITY_HIGH] = "high",
	[LS_PRIORITY_CRITICAL] = "critical",
};

const char *const ls_algorithm_names[LS_ALGORITHM_MAX] = {
	[LS_TOKEN_BUCKET] = "token-bucket",
	[LS_FIXED_WINDOW] = "fixed-window",
	[LS_SLIDING_WINDOW] = "sliding-window",
	[LS_SLIDING_LOG] = "sliding-log",
};

const char *const ls_count_names[LS_COUNT_MAX] = {
	[LS_COUNT_PACKETS] = "packets",
	[LS_COUNT_BYTES] = "bytes",
	[LS_COUNT_CONNECTIONS] = "connections",
};

const char *const ls_per_names[LS_PER_MAX] = {
	[LS_PER_SOURCE] = "source",
	[LS_PER_FLOW] = "flow",
	[LS_PER_DESTINATION] = "destination",
	[LS_PER_CLASS] = "class",
};

const char *const ls_protocol_names[LS_PROTOCOL_NAMES] = { "tcp",  "udp", "icmp", "icmpv6",
							   "sctp", "gre", "esp" };

/* IANA protocol numbers, in the same order. */
static const uint8_t protocol_numbers[LS_PROTOCOL_NAMES] = { 6, 17, 1, 58, 132, 47, 50 };

/* Byte 13 of the TCP header from the lowest bit (RFC 9293, section 3.1). */
static const char *const flag_names[8] = { "fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr" };

char *ls_per_format(const struct ls_limit *limit, char text[static LS_PER_TEXT])
{
	if (limit->per == LS_PER_PREFIX)
		snprintf(text, LS_PER_TEXT, "{ ipv4: %u, ipv6: %u }", limit->per_ipv4,
			 limit->per_ipv6);
	else
		snprintf(text, LS_PER_TEXT, "%s", ls_per_names[limit->per]);
	return text;
}

char *ls_protocol_format(unsigned protocol, char text[static LS_PROTOCOL_TEXT])
{
	for (unsigned i = 0; i < LS_PROTOCOL_NAMES; i++) {
		if (protocol_numbers[i] == protocol) {
			snprintf(text, LS_PROTOCOL_TEXT, "%s", ls_protocol_names[i]);
			return text;
		}
	}
	snprintf(text, LS_PROTOCOL_TEXT, "%u", protocol & 0xff);
	return text;
}

int ls_protocol_parse(const char *text)
{
	uint64_t number = 0;

	for (unsigned i = 0; i < LS_PROTOCOL_NAMES; i++) {
		if (strcmp(ls_protocol_names[i], text) == 0)
			return protocol_numbers[i];
	}
	return ls_number_parse(text, 0, 255, &number, NULL) < 0 ? -1 : (int)number;
}

bool ls_tcp_flag_parse(const char *text, uint8_t *set, uint8_t *clear)
{
	const bool wants_clear = strncmp(text, "no-", 3) == 0;

	for (unsigned bit = 0; bit < 8; bit++) {
		if (strcmp(text + (wants_clear ? 3 : 0), flag_names[bit]) == 0) {
			*(wants_clear ? clear : set) |= (uint8_t)(1U << bit);
			return true;
		}
	}
	return false;
}

const char *ls_tcp_flag_name(unsigned bit)
{
	return flag_names[bit & 7];
}
