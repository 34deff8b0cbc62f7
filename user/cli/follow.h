/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_CLI_FOLLOW_H
#define LOADSHED_USER_CLI_FOLLOW_H

/* What goes on until something ends it: `events` and `capture`, which follow the events of an instance, `stats --watch`. */

#include <stdint.h>

#include "user/cli/cli.h"
#include "user/plane/events.h"

struct ls_follow {
	/* Set by the verb. */
	void *context;
	int out_fd; /* where it writes: when nobody reads that any more, it ends */
	bool only_packets;
	/* One event that is wanted; `lost`: that many were lost; `drained`: there is nothing more at the moment. False:
	 * it could not be written, errno says why. */
	bool (*show)(void *context, const struct ls_event *event);
	bool (*lost)(void *context, uint64_t events);
	bool (*drained)(void *context);
};

/*
 * Follows, narrowed by -i, --reason and --count, until --count events were shown, SIGINT or SIGTERM, nobody reads
 * out_fd (each is LS_EXIT_DONE), or the instance is gone (LS_EXIT_FAILED with a line). `ready` is called once, when all
 * that happens from then on will be shown; false from it ends with LS_EXIT_FAILED.
 */
int ls_follow(struct ls_cli *cli, const struct ls_follow *what, bool (*ready)(void *context));

/* From here on SIGINT and SIGTERM only say that it is over, and interrupt what waits: a write to a full pipe, too. */
void ls_follow_catch(void);
bool ls_follow_is_over(void);

/* Unix time. */
uint64_t ls_follow_now(void);

/* Whether packets are refused for it. */
bool ls_reason_refuses(enum ls_reason reason);

#endif
