/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BASE_REASON_H
#define LOADSHED_USER_BASE_REASON_H

/* What users see of the lists in loadshed/reasons.h. Of a number that is in none: "unknown". */

const char *ls_reason_name(unsigned reason);
const char *ls_verdict_name(unsigned verdict);
const char *ls_origin_name(unsigned origin);

#endif
