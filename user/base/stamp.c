/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/base/stamp.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "user/base/units.h"

char *ls_stamp_format(uint64_t unix_ns, char text[static LS_STAMP_TEXT])
{
	const time_t seconds = (time_t)(unix_ns / LS_NS_PER_S);
	struct tm fields;

	if (!gmtime_r(&seconds, &fields) ||
	    !strftime(text, LS_STAMP_TEXT, "%Y-%m-%dT%H:%M:%SZ", &fields))
		snprintf(text, LS_STAMP_TEXT, "?");
	return text;
}

char *ls_stamp_format_ns(uint64_t unix_ns, char text[static LS_STAMP_NS_TEXT])
{
	char seconds[LS_STAMP_TEXT];

	ls_stamp_format(unix_ns, seconds);
	snprintf(text, LS_STAMP_NS_TEXT, "%.*s.%09" PRIu64 "Z", (int)strcspn(seconds, "Z"), seconds,
		 (uint64_t)(unix_ns % LS_NS_PER_S));
	return text;
}
