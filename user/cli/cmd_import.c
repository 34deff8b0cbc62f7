/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/publish.h"

/*
 * ban import: a feed, whole or not at all as far as its lines go.
 *
 * The file is read and judged before the first ban is put: a line that is no address, or a /0, refuses all of it
 * with its place. Feeds are written by strangers, so what would hurt this host is left out and named: what
 * covers its own addresses, gateways or resolvers, and what no client can have (0/8, loopback, multicast, link-local). What the
 * policy allows is left out, too. Importing again renews: the later end wins. Each ban is one store, so packets see
 * no gap; a kill in the middle leaves those that were put, and the same command completes them.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "user/base/file.h"
#include "user/base/output.h"
#include "user/base/units.h"
#include "user/plane/host.h"
#include "user/cli/session.h"
#include "user/plane/bans.h"
#include "user/plane/events.h"
#include "user/plane/save.h"
#include "user/policy/check.h"
#include "user/policy/policy.h"
#include "user/policy/read.h"
#include "user/policy/reader.h"

#define SHOWN 10 /* entries that are left out and named; the rest is counted */

struct import {
	const char *file;
	char *bytes;
	size_t length;
	struct ls_set set;
	struct ls_policy *policy;
	struct ls_host_guard host;
	size_t put, longer, allowed, left_out;
};

static void import_free(struct import *import)
{
	if (!import)
		return;
	free(import->bytes);
	free(import->set.entries.items);
	ls_policy_free(import->policy);
	free(import);
}
DEFINE_CLEANUP(struct import *, import_free);

/* Line of an entry, for messages only; 0: not found. */
static size_t line_of(const struct import *import, const struct ls_prefix *prefix)
{
	const char *at = import->bytes, *end = import->bytes + import->length;

	for (size_t number = 1; at < end; number++) {
		const char *feed = memchr(at, '\n', (size_t)(end - at));
		struct ls_prefix found;
		const char *word = at + strspn(at, " \t");
		if (ls_prefix_parse(word, strcspn(word, " \t#\r\n"), &found) == LS_PREFIX_OK &&
		    ls_prefix_equal(&found, prefix))
			return number;
		if (!feed)
			break;
		at = feed + 1;
	}
	return 0;
}

static int read_feed(struct import *import, struct ls_error *error)
{
	int r = ls_file_read(import->file, LS_LIST_BYTES_MAX, &import->bytes, &import->length,
			     error);

	if (r == 0)
		r = ls_read_list(import->file, import->bytes, import->length, LS_ENTRIES_MAX, NULL,
				 &import->set, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < import->set.entries.count; i++) {
		const struct ls_prefix *entry = &import->set.entries.items[i];
		if (entry->length == 0)
			return ls_error_set(
				error, "%s:%zu: a ban of /0 would be everybody; nothing was banned",
				import->file, line_of(import, entry));
	}
	return 0;
}

/* The guard of the session: its place in the file is named. */
static int guard(struct ls_cli *cli, const struct import *import)
{
	struct ls_session sessions[LS_SESSIONS_MAX];
	char text[LS_PREFIX_TEXT], own[LS_PREFIX_TEXT];

	if (ls_cli_has(cli, LS_OPTION_YES))
		return LS_EXIT_DONE;
	const size_t count = ls_session_find(sessions);
	for (size_t i = 0; i < import->set.entries.count; i++) {
		const struct ls_prefix *entry = &import->set.entries.items[i];
		const struct ls_prefix banned = ls_ban_widen(*entry);
		const struct ls_session *cut =
			ls_session_banned(sessions, count, import->policy, &banned);
		if (!cut || ls_host_danger(&import->host, entry))
			continue;
		ls_cli_note(
			"%s:%zu: banning %s would cut your own session from %s; nothing was changed; use --yes if that is meant",
			import->file, line_of(import, entry), ls_prefix_format(entry, text),
			ls_prefix_format(&cut->client, own));
		return LS_EXIT_FAILED;
	}
	return LS_EXIT_DONE;
}

/* One event for all of them. */
static void tell(struct ls_plane *plane, const struct import *import, uint64_t for_ns)
{
	char text[LS_EVENT_FRAME];

	snprintf(text, sizeof(text), "%zu of %zu entries of %s", import->put,
		 import->set.entries.count, import->file);
	ls_journal_write(plane, &(struct ls_journal_entry){ .kind = LS_EVENT_BAN,
							    .origin = LS_ORIGIN_IMPORT,
							    .text = text,
							    .value = for_ns });
}

static int put_all(struct ls_plane *plane, struct import *import, uint64_t for_ns,
		   struct ls_error *error)
{
	char text[LS_PREFIX_TEXT];

	for (size_t i = 0; i < import->set.entries.count; i++) {
		const struct ls_prefix *entry = &import->set.entries.items[i];
		const struct ls_prefix banned = ls_ban_widen(*entry);
		const char *danger = ls_host_danger(&import->host, entry);
		if (danger) {
			if (import->left_out++ < SHOWN)
				ls_cli_note("%s:%zu: %s is left out: %s", import->file,
					    line_of(import, entry), ls_prefix_format(entry, text),
					    danger);
			continue;
		}
		const int r = ls_ban_add(plane, import->policy, &banned, for_ns, LS_ORIGIN_IMPORT,
					 NULL, error);
		if (r < 0) {
			ls_error_prefix(error, "%s: after %zu of %zu entries", import->file, i,
					import->set.entries.count);
			return r;
		}
		import->put += r == 0;
		import->longer += r == LS_BAN_E_LONGER;
		import->allowed += r == LS_BAN_E_ALLOWED;
	}
	tell(plane, import, for_ns);
	return 0;
}

static int report(struct ls_cli *cli, const struct import *import, uint64_t for_ns)
{
	char left[LS_HUMAN_TEXT];

	if (cli->json)
		return ls_cli_print_json(json_pack(
			"{s:I, s:I, s:I, s:I, s:I}", "entries",
			(json_int_t)import->set.entries.count, "banned", (json_int_t)import->put,
			"longer", (json_int_t)import->longer, "allowed",
			(json_int_t)import->allowed, "left_out", (json_int_t)import->left_out));
	printf("%zu of %zu entries banned for %s", import->put, import->set.entries.count,
	       ls_human_time(for_ns, left));
	if (import->longer)
		printf(", %zu for longer already", import->longer);
	if (import->allowed)
		printf(", %zu left out as the policy allows them", import->allowed);
	if (import->left_out)
		printf(", %zu left out as dangerous to this host", import->left_out);
	putchar('\n');
	return ls_cli_flush();
}

int ls_cmd_ban_import(struct ls_cli *cli)
{
	_cleanup_(import_freep) struct import *import = calloc(1, sizeof(*import));
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	struct ls_error error = LS_ERROR_INIT;
	uint64_t for_ns;
	int r = ls_cli_time(cli, LS_OPTION_FOR, 0, &for_ns);

	if (r != LS_EXIT_DONE)
		return r;
	if (!import) {
		ls_error_oom(&error);
		return ls_cli_fail(&error);
	}
	import->file = cli->arguments[0];
	if (read_feed(import, &error) < 0)
		return ls_cli_fail(&error);
	r = ls_cli_open(cli, LS_PLANE_WRITE, &plane);
	if (r != LS_EXIT_DONE)
		return r;
	if (ls_plane_policy(plane, &import->policy, NULL, &error) < 0)
		return ls_cli_fail(&error);
	ls_host_guard_init(&import->host, import->policy);
	r = guard(cli, import);
	if (r != LS_EXIT_DONE)
		return r;
	const int put = put_all(plane, import, for_ns, &error);
	if (ls_save_bans(plane, &error) < 0) {
		ls_error_prefix(&error, "banned, but not saved for the next boot");
		return ls_cli_fail(&error);
	}
	return put < 0 ? ls_cli_fail(&error) : report(cli, import, for_ns);
}
