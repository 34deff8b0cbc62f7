/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/base/reason.h"

#include "loadshed/reasons.h"

#define NAME(id, text) text,

static const char *const reasons[] = { LS_REASONS(NAME) };
static const char *const verdicts[] = { LS_VERDICTS(NAME) };
static const char *const origins[] = { LS_ORIGINS(NAME) };

const char *ls_reason_name(unsigned reason)
{
	return reason < LS_REASON_MAX ? reasons[reason] : "unknown";
}

const char *ls_verdict_name(unsigned verdict)
{
	return verdict < LS_VERDICT_MAX ? verdicts[verdict] : "unknown";
}

const char *ls_origin_name(unsigned origin)
{
	return origin < LS_ORIGIN_MAX ? origins[origin] : "unknown";
}
