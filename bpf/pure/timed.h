/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_PURE_TIMED_H
#define LOADSHED_PURE_TIMED_H

/*
 * What is temporary, as one word: a policy that waits to be confirmed, `off`, `panic`. The packet path asks this
 * for every packet while LS_WORD_TIMED is set, and user space asks the same when it says what is in force; so
 * everything ends at its time with no process alive, and nobody sees another truth than packets do.
 *
 * The fields are stores of their own beside the word, so they are written in an order in which every mixture is
 * right: a deadline before the flag that makes packets look at it, the previous word before its deadline, and
 * a deadline is forgotten only when no packet can hold the word that it belongs to (user/plane/timed.c).
 */

#include "loadshed/control_abi.h"
#include "pure/base.h"

/* The word in force at now_ns (ns since the epoch), of which `word` is what the control record says. */
LS_INLINE __u64 ls_timed_word(const struct ls_control *control, __u64 word, __u64 now_ns)
{
	if (!(word & LS_WORD_TIMED))
		return word;
	__u64 confirm_until = LS_READ_ONCE(control->confirm_until);
	if (confirm_until && now_ns >= confirm_until)
		word = LS_READ_ONCE(control->previous_word);
	if (now_ns < LS_READ_ONCE(control->off_until))
		word |= LS_WORD_MONITOR;
	if (now_ns < LS_READ_ONCE(control->panic_until))
		word |= LS_WORD_PANIC;
	return word;
}

#endif
