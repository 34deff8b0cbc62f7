/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BASE_LOG_H
#define LOADSHED_USER_BASE_LOG_H

/*
 * The log of a long-running process: one line for each event to stderr. Under systemd (JOURNAL_STREAM names our stderr) a
 * line begins with <N>, its priority, as sd-daemon(3) defines, and the journal adds the time; else it begins with
 * the time in UTC.
 *
 * For serve and what it is made of. Verbs that end print by themselves.
 */

enum ls_log_priority {
	LS_LOG_ERROR = 3,
	LS_LOG_WARNING = 4,
	LS_LOG_NOTICE = 5,
	LS_LOG_INFO = 6,
};

/* Control characters are shown as '?', so that a line stays one. A full or closed stderr loses the line. */
void ls_log(enum ls_log_priority priority, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
