/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_POLICY_PRINT_H
#define LOADSHED_USER_POLICY_PRINT_H

/*
 * The canonical form of a policy: fixed order, defaults filled in, canonical units. Reading it
 * gives the same policy again, so what is shown can be applied and changes nothing.
 */

#include <stdbool.h>
#include <stdint.h>

#include "user/policy/names.h"

struct ls_buffer;

/*
 * Appends the YAML text. Sets from files are printed as their path, with the number of entries and
 * the sha256 of the file in a comment; with `expand` as their entries instead (reading that gives
 * inline sets). Failure is remembered in the buffer.
 */
void ls_policy_print(const struct ls_policy *policy, bool expand, struct ls_buffer *buffer);

/*
 * The same without `expand`, and what becomes of passwords in URLs, which otherwise are masked. Text in which they are
 * kept is for what only root reads: the blob in the kernel and in /var/lib, and the file that an editor opens.
 */
void ls_policy_print_secrets(const struct ls_policy *policy, enum ls_secrets secrets,
			     struct ls_buffer *buffer);

/* print_cluster.c: the section `cluster` and its diff. */
void ls_print_cluster(struct ls_buffer *buffer, const struct ls_cluster_rule *cluster,
		      enum ls_secrets secrets);
/* print_words.c */
/* Starts an item of a flow list. */
void ls_print_comma(struct ls_buffer *buffer, bool *first);
/* A scalar as the policy language wants it: quoted where that is needed. */
void ls_print_text(struct ls_buffer *buffer, const char *text);

/* SHA-256 of what ls_policy_print gives without `expand`, where a mask hides a password: of sixteen bits of its
 * hash instead, so that another password is another policy. Returns 0 or -ENOMEM. */
int ls_policy_digest(const struct ls_policy *policy, uint8_t ret_digest[static 32]);

/*
 * Parts of it, for differences and messages: "[80, 443, 8000-8099]", "[tcp, udp]", "[syn, no-ack]".
 */
void ls_print_ranges(struct ls_buffer *buffer, const struct ls_ranges *ranges);
void ls_print_protocols(struct ls_buffer *buffer, const struct ls_ranges *protocols);
void ls_print_flags(struct ls_buffer *buffer, const struct ls_match *match);

/* The name of the set or the prefix. */
void ls_print_member(struct ls_buffer *buffer, const struct ls_policy *policy,
		     const struct ls_member *member);

/* What a limit holds: "rate 50/s", "burst 100"; "limit 10", "window 1m". Both return `text`. */
#define LS_AMOUNT_TEXT 64
char *ls_limit_rate_format(const struct ls_limit *limit, char text[static LS_AMOUNT_TEXT]);
char *ls_limit_amount_format(const struct ls_limit *limit, char text[static LS_AMOUNT_TEXT]);

/*
 * The value of signal `number` of `overload`, from 0, as `show` prints it; nothing for one that is not given. Returns
 * its key, NULL beyond the last.
 */
const char *ls_print_signal(const struct ls_signals *signals, unsigned number,
			    struct ls_buffer *buffer);

/* The check of a class; nothing without one. */
void ls_print_check(const struct ls_check *check, struct ls_buffer *buffer);

#endif
