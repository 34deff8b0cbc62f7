/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_OBSERVE_STEADY_H
#define LOADSHED_USER_OBSERVE_STEADY_H

/*
 * Counters that never go down while this process lives, made of readings that may: the kernel's counters begin anew when
 * the last interface is detached, those of an interface when it is attached again, and those of a name that the
 * ledger had to forget are gone. What a counter had reached then is kept here and goes on being shown.
 *
 * A row is known by two names and a number. Rows are sorted, so that those of one name lie together. When there are more
 * than LS_STEADY_ROWS of them, those that are read no longer are added up under the name "(past)", by number; so the
 * sums over all rows never go down either, and there are at most as many rows again as the kernel has counters.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loadshed/bounds.h"
#include "user/plane/counters.h"

#define LS_STEADY_ROWS LS_COUNTERS
#define LS_STEADY_PAST "(past)"

struct ls_steady_row {
	char name[LS_NAME_BYTES];
	char detail[LS_NAME_BYTES]; /* "": none */
	unsigned number;	    /* what it counts, to the caller */
	struct ls_tally value;	    /* what is shown */
	struct ls_tally base;	    /* of it, from counters that are gone */
	struct ls_tally last;	    /* of it, the last reading */
	struct ls_tally sum;	    /* of the pass under way */
	struct ls_tally before;	    /* value at the last ls_steady_rates() */
	struct ls_tally rate;	    /* per second, between the last two of those */
	bool is_read;		    /* in the pass under way, or the last one */
};

struct ls_steady {
	struct ls_steady_row **rows; /* owned, each; sorted by name, number, detail */
	size_t count, capacity;
	uint64_t epoch;
	bool failed; /* memory ran out: a row is missing */
};

void ls_steady_fini(struct ls_steady *steady);

/* Begins a pass of readings. Another `epoch` than that of the pass before: every counter has begun anew. */
void ls_steady_begin(struct ls_steady *steady, uint64_t epoch);
/* Names are cut at 31 bytes. A row that is read twice in a pass is the sum. */
void ls_steady_read(struct ls_steady *steady, const char *name, unsigned number, const char *detail,
		    struct ls_tally now);
/* Ends it, and only now values change. Rows that were not read keep what they had. */
void ls_steady_end(struct ls_steady *steady);

/* Sets all rates, from what has come since the last call, `span_ns` ago; 0: there was none, and they are 0. */
void ls_steady_rates(struct ls_steady *steady, uint64_t span_ns);

#endif
