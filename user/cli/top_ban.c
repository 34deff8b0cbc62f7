/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/top_ban.h"

#include <stdio.h>
#include <string.h>

#include "user/plane/bans.h"
#include "user/plane/plane.h"
#include "user/plane/save.h"
#include "user/policy/policy.h"

int ls_top_ban_open(struct ls_cli *cli, struct ls_top_ban *ret, struct ls_error *error)
{
	memset(ret, 0, sizeof(*ret));
	int r = ls_plane_open(cli->instance, LS_PLANE_WRITE, &ret->plane, error);
	if (r == 0)
		r = ls_plane_policy(ret->plane, &ret->policy, NULL, error);
	if (r) {
		ls_top_ban_close(ret);
		return r;
	}
	ls_host_guard_init(&ret->host, ret->policy);
	ret->n_sessions = ls_session_find(ret->sessions);
	return 0;
}

void ls_top_ban_close(struct ls_top_ban *ban)
{
	ls_plane_close(TAKE_PTR(ban->plane));
	ls_policy_free(TAKE_PTR(ban->policy));
}

static bool overlaps(const struct ls_prefix *a, const struct ls_prefix *b)
{
	return ls_prefix_contains(a, b) || ls_prefix_contains(b, a);
}

/* Whether some address of it is shared by many users, as the policy says. */
static bool is_shared(const struct ls_policy *policy, const struct ls_prefix *prefix)
{
	for (size_t i = 0; i < policy->n_nats; i++)
		for (size_t k = 0; k < policy->nats[i].sources.count; k++) {
			const struct ls_member *member = &policy->nats[i].sources.items[k];
			const struct ls_prefixes *set =
				member->set < 0 ? NULL : &policy->sets[member->set].entries;
			if (!set && overlaps(&member->prefix, prefix))
				return true;
			for (size_t at = 0; set && at < set->count; at++)
				if (overlaps(&set->items[at], prefix))
					return true;
		}
	return false;
}

/* Why it may not be banned here; NULL: it may. */
static const char *refusal(const struct ls_top_ban *ban, const struct ls_prefix *prefix)
{
	bool inside = false;

	const char *danger = ls_host_danger(&ban->host, prefix);
	if (danger)
		return danger;
	if (ls_ban_is_allowed(ban->policy, prefix, &inside) || inside)
		return "in 'allow'";
	if (is_shared(ban->policy, prefix))
		return "in a 'nat' set: many users share it";
	return ls_session_banned(ban->sessions, ban->n_sessions, ban->policy, prefix)
		       ? "your own session comes from there"
		       : NULL;
}

int ls_top_ban_put(struct ls_top_ban *ban, const struct ls_prefix *prefix, uint64_t for_ns,
		   char why[static LS_TOP_BAN_WHY], struct ls_error *error)
{
	const char *no = refusal(ban, prefix);

	if (no) {
		snprintf(why, LS_TOP_BAN_WHY, "%s", no);
		return LS_BAN_E_ALLOWED;
	}
	return ls_ban_add(ban->plane, NULL, prefix, for_ns, LS_ORIGIN_OPERATOR, "top", error);
}

int ls_top_ban_save(struct ls_top_ban *ban, struct ls_error *error)
{
	const int r = ls_save_bans(ban->plane, error);

	if (r < 0)
		ls_error_prefix(error, "banned, but not saved for the next boot");
	return r;
}
