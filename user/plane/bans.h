/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_BANS_H
#define LOADSHED_USER_PLANE_BANS_H

/*
 * Bans from user space: the same table that the kernel reads and writes, through the mapping, by the same
 * protocol (bpf/pure/ban.h). An add or a removal is one store, in force for the next packet; nothing is
 * published and the policy does not change.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loadshed/reasons.h"
#include "loadshed/state_abi.h"
#include "user/base/addr.h"

struct ls_error;
struct ls_plane;
struct ls_policy;

/* Positive results. */
#define LS_BAN_E_ABSENT 3  /* removal: exactly this one is not there */
#define LS_BAN_E_LONGER 4  /* add: there is one that ends later, and it stays */
#define LS_BAN_E_ALLOWED 5 /* the policy allows the source */

struct ls_ban_entry {
	struct ls_prefix prefix;
	uint64_t remaining_ns;
	uint64_t end_ns; /* CLOCK_MONOTONIC: the same at every look, unless the ban was renewed */
	enum ls_origin origin;
	char reason
		[LS_BAN_TEXT_BYTES]; /* the operator's text, or the class of a class ban; "" : none */
};

/* The prefix that a ban of `prefix` is about: IPv6 is widened to /64 at most. */
struct ls_prefix ls_ban_widen(struct ls_prefix prefix);

/* Whether `policy` allows all of `prefix`: its first address is allowed, and nothing inside is denied by a
 * longer entry. A ban of it would never apply. *ret_inside (may be NULL) is whether it does not, and yet `allow`
 * names addresses of it, which stay allowed. */
bool ls_ban_is_allowed(const struct ls_policy *policy, const struct ls_prefix *prefix,
		       bool *ret_inside);

/*
 * Bans `prefix` (widened already, not /0) for `for_ns` from now, 1 ms to ten years. `policy` is the one in
 * force: what it allows is not banned; NULL: that has been asked already. `reason` NULL or cut to
 * 63 bytes. The plane must be open for writing. LS_BAN_E_LONGER, LS_BAN_E_ALLOWED: nothing changed.
 * Negative with a line when both its sets are full of bans that last.
 */
int ls_ban_add(struct ls_plane *plane, const struct ls_policy *policy,
	       const struct ls_prefix *prefix, uint64_t for_ns, enum ls_origin origin,
	       const char *reason, struct ls_error *error);

/* Removes exactly this ban. LS_BAN_E_ABSENT. */
int ls_ban_del(struct ls_plane *plane, const struct ls_prefix *prefix, struct ls_error *error);

/* All bans that have not ended, sorted by prefix; the caller frees *ret. */
int ls_ban_list(struct ls_plane *plane, struct ls_ban_entry **ret, size_t *ret_count,
		struct ls_error *error);

/* How many bans there are, and some of them. Zero to begin with. */
struct ls_ban_survey {
	uint64_t count[LS_ORIGIN_MAX];
	struct ls_ban_entry *entries; /* owned; sorted by prefix */
	size_t n_entries;
};

/*
 * Counts all bans that have not ended and describes at most `max` of them, whichever: one pass over the table, so
 * that half a million bans cost little more than one.
 */
int ls_ban_survey(struct ls_plane *plane, size_t max, struct ls_ban_survey *ret,
		  struct ls_error *error);
void ls_ban_survey_fini(struct ls_ban_survey *survey);

/* The ban that a source would meet, longest first; 0 and *ret, or LS_BAN_E_ABSENT. */
int ls_ban_lookup(struct ls_plane *plane, const struct ls_prefix *source, struct ls_ban_entry *ret,
		  struct ls_error *error);

#endif
