/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_POLICY_COMPILE_LISTS_H
#define LOADSHED_USER_POLICY_COMPILE_LISTS_H

/* The list compiler: from prefixes to labels, and to the tables that find an address's label. */

#include "user/policy/compile.h"
#include "user/policy/compile_match.h"

/* What the lists say of an address. All zero: it is in none of them. */
struct ls_standing {
	uint8_t list;	 /* LS_LIST_* */
	uint32_t factor; /* of NAT; 0: in no entry */
	struct ls_class_set from;
	struct ls_class_set to; /* classes whose `from`, `to` it is in */
};

/* An IPv6 prefix: with its role while lists are collected, with its label afterwards. */
struct ls_net {
	uint64_t high, low; /* host byte order, host bits zero */
	uint32_t length;
	uint32_t tag;
};

/*
 * All lists of a policy, resolved: which standings exist, and where in the address space each
 * holds. Prefixes are sorted by address, then length; each has another label than the prefix around
 * it.
 */
struct ls_lists {
	struct ls_standing *standings; /* owned; by label; the first is "in no list" */
	size_t n_standings;
	uint64_t *nets4; /* owned; IPv4, of any length, as LS_HOST4 */
	size_t n_nets4;
	struct ls_net *nets6; /* owned; IPv6 without ::/0 */
	size_t n_nets6;
	uint32_t label6; /* of ::/0 */
};

/*
 * Reads the lists of `policy` and finds all standings. *ret_lists does not refer to the policy.
 * Returns 0, or -ENOMEM.
 */
int ls_lists_resolve(const struct ls_policy *policy, struct ls_lists **ret_lists);

void ls_lists_free(struct ls_lists *lists);

/* The line for too many standings: how many there are, which lists to merge. Returns -1. */
int ls_lists_error(const struct ls_lists *lists, const struct ls_policy *policy,
		   struct ls_error *error);

/*
 * compile_tables.c. Builds image->lines and what image->generation and image->word say of them. At
 * most LS_LABELS standings may exist. Returns 0, or -ENOMEM.
 */
int ls_lists_build(const struct ls_lists *lists, uint64_t (*random)(void *context), void *context,
		   struct ls_image *image);

#endif
