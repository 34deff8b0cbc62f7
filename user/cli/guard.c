/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/session.h"

/*
 * Whether a change would cut the caller's session. Nothing is guessed: the policy is loaded into a sandbox and
 * the program itself judges a new connection of the session and three seconds of its traffic. That takes 0.2 s, and only in
 * an SSH session.
 *
 * Ten packets of 120 bytes a second are a person who types. A limit that refuses more than a few of those makes a
 * session useless, though it may let a packet through now and then.
 */

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "loadshed/reasons.h"
#include "user/base/units.h"
#include "user/base/reason.h"
#include "user/cli/cli.h"
#include "user/plane/host.h"
#include "user/plane/bans.h"
#include "user/plane/lists.h"
#include "user/plane/plane.h"
#include "user/plane/sandbox.h"
#include "user/plane/timed.h"
#include "user/policy/policy.h"

#define FRAME_BYTES 120
#define TRIAL_PACKETS 30
#define TRIAL_SPACING_NS (100 * LS_NS_PER_MS)
#define TRIAL_LOSSES 3 /* of them are no cut */

#define TCP_SYN 0x02
#define TCP_ACK 0x10

/* A TCP segment of the session; checksums are not looked at. */
static void make_frame(const struct ls_session *session, uint8_t flags,
		       uint8_t frame[static FRAME_BYTES])
{
	const bool is_ipv6 = session->client.family == LS_IPV6;
	uint8_t *ip = frame + 14, *tcp = ip + (is_ipv6 ? 40 : 20);
	const uint16_t ports[2] = { htons(session->client_port), htons(session->server_port) };
	const uint16_t ip_bytes = FRAME_BYTES - 14;

	memset(frame, 0, FRAME_BYTES);
	frame[0] = 2;
	if (is_ipv6) {
		frame[12] = 0x86, frame[13] = 0xdd;
		ip[0] = 0x60;
		ip[5] = (uint8_t)(ip_bytes - 40);
		ip[6] = IPPROTO_TCP;
		ip[7] = 64;
		memcpy(ip + 8, session->client.bytes, 16);
		memcpy(ip + 24, session->server.bytes, 16);
	} else {
		frame[12] = 0x08;
		ip[0] = 0x45;
		ip[3] = (uint8_t)ip_bytes;
		ip[8] = 64;
		ip[9] = IPPROTO_TCP;
		memcpy(ip + 12, session->client.bytes, 4);
		memcpy(ip + 16, session->server.bytes, 4);
	}
	memcpy(tcp, ports, sizeof(ports));
	tcp[12] = 5 << 4;
	tcp[13] = flags;
}

/* What the verdict says in words. */
static void explain(const struct ls_policy *policy, const struct ls_replay_abi *verdict,
		    bool is_new, char why[static LS_SESSION_WHY])
{
	const char *what = is_new ? "a new connection of it" : "its packets";
	const struct ls_class *class = verdict->class_index < policy->n_classes
					       ? &policy->classes[verdict->class_index]
					       : NULL;

	if (verdict->reason == LS_REASON_DENY)
		snprintf(why, LS_SESSION_WHY, "it is in 'deny'");
	else if (class && verdict->limit < class->n_limits)
		snprintf(why, LS_SESSION_WHY, "limit '%s' of class '%s' would refuse %s",
			 class->limits[verdict->limit].name, class->name, what);
	else
		snprintf(why, LS_SESSION_WHY, "%s would be refused%s%s%s (reason %s)", what,
			 class ? " in class '" : "", class ? class->name : "", class ? "'" : "",
			 ls_reason_name(verdict->reason));
}

/* Runs the session through the program. 1: cut, 0: not, negative: cannot tell. *ret_allowed: by `allow`. */
static int try_session(const struct ls_session_change *change, const struct ls_session *session,
		       char why[static LS_SESSION_WHY], bool *ret_allowed)
{
	_cleanup_(ls_plane_closep) struct ls_plane *sandbox = NULL;
	const struct ls_plane_sandbox request = { .policy = change->policy };
	struct ls_replay_abi verdict;
	uint8_t frame[FRAME_BYTES];
	uint64_t now_ns = (uint64_t)time(NULL) * LS_NS_PER_S;
	unsigned lost = 0;

	if (ls_plane_sandbox_open(&request, &sandbox, NULL) < 0)
		return -1;
	ls_plane_sandbox_begin(sandbox, now_ns);
	if (change->panic && ls_plane_panic(sandbox, LS_NS_PER_DAY, NULL) < 0)
		return -1;
	make_frame(session, TCP_SYN, frame);
	for (unsigned i = 0; i <= TRIAL_PACKETS; i++, now_ns += TRIAL_SPACING_NS) {
		if (ls_plane_run(sandbox, frame, sizeof(frame), sizeof(frame), now_ns, &verdict) <
		    0)
			return -1;
		*ret_allowed = verdict.reason == LS_REASON_ALLOW;
		if (verdict.verdict == LS_VERDICT_DROP) {
			explain(change->policy, &verdict, i == 0, why);
			if (i == 0 || ++lost > TRIAL_LOSSES)
				return 1;
		}
		make_frame(session, TCP_ACK, frame);
	}
	return 0;
}

static bool is_cut(const struct ls_session_change *change, const struct ls_session *session,
		   char ret_why[static LS_SESSION_WHY])
{
	struct ls_ban_entry ban;
	bool is_allowed = false;
	int cut = try_session(change, session, ret_why, &is_allowed);

	if (cut < 0) {
		/* No memory for a sandbox: the lists can still be asked. */
		const enum ls_outcome outcome = ls_lists_outcome(change->policy, &session->client);
		is_allowed = outcome == LS_OUTCOME_ALLOW;
		cut = outcome == LS_OUTCOME_DENY;
		snprintf(ret_why, LS_SESSION_WHY, "it is in 'deny'");
	}
	if (cut || is_allowed || !change->plane ||
	    ls_ban_lookup(change->plane, &session->client, &ban, NULL) != 0)
		return cut > 0;
	snprintf(ret_why, LS_SESSION_WHY, "it is banned");
	return true;
}

bool ls_session_is_cut(const struct ls_session_change *change, struct ls_session *ret_session,
		       char ret_why[static LS_SESSION_WHY])
{
	struct ls_session sessions[LS_SESSIONS_MAX];

	if (change->policy->mode == LS_MODE_MONITOR)
		return false;
	const size_t count = ls_session_find(sessions);
	for (size_t i = 0; i < count; i++) {
		*ret_session = sessions[i];
		if (is_cut(change, ret_session, ret_why))
			return true;
	}
	return false;
}

const struct ls_session *ls_session_banned(const struct ls_session *list, size_t count,
					   const struct ls_policy *policy,
					   const struct ls_prefix *prefix)
{
	for (size_t i = 0; policy->mode == LS_MODE_ENFORCE && i < count; i++) {
		const struct ls_prefix wide = ls_ban_widen(list[i].client);
		if (ls_prefix_contains(prefix, &wide) &&
		    !ls_ban_is_allowed(policy, &list[i].client, NULL))
			return &list[i];
	}
	return NULL;
}

/* What was denied already is no cut of this change. */
static int guard_host(const struct ls_session_change *change)
{
	_cleanup_(ls_policy_freep) struct ls_policy *before = NULL;
	struct ls_host_address address;
	char text[LS_PREFIX_TEXT];

	if (change->policy->mode == LS_MODE_MONITOR || change->was_in_force)
		return LS_EXIT_DONE;
	if (change->plane)
		(void)ls_plane_policy(change->plane, &before, NULL, NULL);
	if (!ls_host_is_denied(change->policy, before, &address))
		return LS_EXIT_DONE;
	ls_cli_note(
		"this would cut %s (this host's %s): it is in 'deny'; nothing was changed; add it to 'allow', or use --yes",
		ls_prefix_format(&address.address, text), address.what);
	return LS_EXIT_FAILED;
}

int ls_session_guard(struct ls_cli *cli, const struct ls_session_change *change)
{
	_cleanup_(ls_plane_status_fini) struct ls_plane_status status = { 0 };
	struct ls_error error = LS_ERROR_INIT;
	struct ls_session session;
	char why[LS_SESSION_WHY], text[LS_PREFIX_TEXT];

	if (ls_cli_has(cli, LS_OPTION_YES))
		return LS_EXIT_DONE;
	if (change->plane && ls_plane_status(change->plane, &status, &error) < 0)
		return ls_cli_fail(&error);
	if (status.attach_monitor)
		return LS_EXIT_DONE;
	if (!ls_session_is_cut(change, &session, why))
		return guard_host(change);
	ls_cli_note(
		"this would cut your own session from %s: %s; nothing was changed; add it to 'allow', or use --yes",
		ls_prefix_format(&session.client, text), why);
	return LS_EXIT_FAILED;
}
