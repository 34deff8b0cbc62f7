/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/manual.h"

/*
 * What may stand at the cursor. The shells' scripts (cmd_completion.c) hand over the words up to it and show
 * what comes back: one candidate a line, a tab, and what it is; or the line "<file>", where the shell
 * completes names of files. So all three know the same, from the tables that the parser goes by.
 *
 * A completion is never in the way: what cannot be looked up (no privileges, nothing attached) is not offered.
 */

#include <dirent.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "user/base/addr.h"
#include "user/base/output.h"
#include "user/base/reason.h"
#include "user/bench/bench.h"
#include "user/cli/follow.h"
#include "user/plane/bans.h"
#include "user/plane/plane.h"
#include "user/plane/save.h"
#include "user/policy/names.h"
#include "user/policy/policy.h"

#define INSTANCE "INSTANCE" /* what the value of -I is called here: other values are NAMEs, too */

struct at {
	const char *current;  /* what is typed of the word */
	const char *prefix;   /* goes in front of a candidate: "--mode=" */
	const char *instance; /* -I */
	const struct ls_verb *verb;
	const char *word;   /* first word of a verb of two, while the second is missing */
	size_t n_arguments; /* before the cursor */
	bool is_lost;	    /* a word was no verb */
	unsigned given;	    /* options before the cursor */
};

/* A candidate, if it begins with what is typed. */
static void offer(const struct at *at, const char *candidate, const char *text)
{
	if (strncmp(candidate, at->current, strlen(at->current)) != 0)
		return;
	printf("%s%s", at->prefix, candidate);
	if (text[0])
		printf("\t%s", text);
	putchar('\n');
}

static void offer_interfaces(const struct at *at)
{
	struct if_nameindex *list = if_nameindex();

	for (size_t i = 0; list && list[i].if_index; i++)
		offer(at, list[i].if_name, "interface");
	if (list)
		if_freenameindex(list);
}

static void offer_groups(const struct at *at)
{
	for (size_t i = 0; i < ls_n_bench_groups; i++)
		offer(at, ls_bench_groups[i].name, ls_bench_groups[i].help);
}

/* Those that are saved, and those that are pinned. */
static void offer_instances(const struct at *at)
{
	static const char *const places[] = { LS_SAVE_DIRECTORY, "/sys/fs/bpf/loadshed" };
	char seen[64][32];
	size_t n_seen = 0;

	for (size_t i = 0; i < 2; i++) {
		DIR *list = opendir(places[i]);
		const struct dirent *entry;
		while (list && (entry = readdir(list)) && n_seen < 64) {
			char name[32];
			size_t k = 0;
			snprintf(name, sizeof(name), "%.*s", (int)strcspn(entry->d_name, "@"),
				 entry->d_name);
			while (k < n_seen && strcmp(seen[k], name) != 0)
				k++;
			if (k < n_seen || !ls_plane_instance_valid(name))
				continue;
			snprintf(seen[n_seen++], sizeof(seen[0]), "%s", name);
			offer(at, name, "instance");
		}
		if (list)
			closedir(list);
	}
}

static const char *instance_of(const struct at *at)
{
	return at->instance && ls_plane_instance_valid(at->instance) ? at->instance
								     : LS_PLANE_INSTANCE;
}

static void offer_bans(const struct at *at)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	_cleanup_free_ struct ls_ban_entry *bans = NULL;
	size_t count = 0;

	if (ls_plane_open(instance_of(at), LS_PLANE_READ, &plane, NULL) != 0 ||
	    ls_ban_list(plane, &bans, &count, NULL) < 0)
		return;
	for (size_t i = 0; i < count; i++) {
		char source[LS_PREFIX_TEXT], left[LS_HUMAN_TEXT], text[128];
		ls_human_time(bans[i].remaining_ns, left);
		snprintf(text, sizeof(text), "%s left%s%s", left, bans[i].reason[0] ? ", " : "",
			 bans[i].reason);
		offer(at, ls_prefix_format(&bans[i].prefix, source), text);
	}
}

static struct ls_policy *policy_in_force(const struct at *at)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	struct ls_policy *policy = NULL;

	if (ls_plane_open(instance_of(at), LS_PLANE_READ, &plane, NULL) == 0)
		(void)ls_plane_policy(plane, &policy, NULL, NULL);
	return policy;
}

/* The entries of `allow` or `deny` that stand there themselves; those of sets are edited in the set. */
static void offer_entries(const struct at *at, bool is_allow)
{
	_cleanup_(ls_policy_freep) struct ls_policy *policy = policy_in_force(at);

	if (!policy)
		return;
	const struct ls_members *members = is_allow ? &policy->allow : &policy->deny;
	for (size_t i = 0; i < members->count; i++) {
		char text[LS_PREFIX_TEXT];
		if (members->items[i].set < 0)
			offer(at, ls_prefix_format(&members->items[i].prefix, text),
			      is_allow ? "in allow" : "in deny");
	}
}

static void offer_protocols(const struct at *at)
{
	for (size_t i = 0; i < LS_PROTOCOL_NAMES; i++)
		offer(at, ls_protocol_names[i], "protocol");
}

/* The next of a list: what is typed up to the last comma stays in front. */
static void offer_flags(const struct at *at)
{
	static const char *const flags[] = {
		"fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"
	};
	const char *comma = strrchr(at->current, ',');
	const int before = comma ? (int)(comma + 1 - at->current) : 0;

	for (size_t i = 0; i < 2 * sizeof(flags) / sizeof(flags[0]); i++) {
		char word[160];
		snprintf(word, sizeof(word), "%.*s%s%s", before < 128 ? before : 128, at->current,
			 i % 2 ? "no-" : "", flags[i / 2]);
		offer(at, word, "");
	}
}

static void offer_times(const struct at *at)
{
	static const char *const times[] = { "30s", "1m", "10m", "1h", "1d" };

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		offer(at, times[i], "");
}

/* What packets are refused for; a ban's --reason is free text. */
static void offer_reasons(const struct at *at)
{
	for (unsigned i = 0; at->verb && at->verb->takes_interface && i < LS_REASON_MAX; i++)
		if (ls_reason_refuses(i))
			offer(at, ls_reason_name(i), "");
}

/* "a|b|c" */
static void offer_words(const struct at *at, const char *words)
{
	while (*words) {
		char word[32];
		const size_t length = strcspn(words, "|");
		snprintf(word, sizeof(word), "%.*s", (int)length, words);
		offer(at, word, "");
		words += length + (words[length] == '|');
	}
}

/* What a value or an argument is called says what it is: in the table of options, and in that of verbs. */
static void offer_kind(const struct at *at, const char *kind, size_t length)
{
	static const struct {
		const char *name;
		void (*offer)(const struct at *at);
	} kinds[] = {
		{ "IFACE", offer_interfaces }, { "IFACE…", offer_interfaces },
		{ INSTANCE, offer_instances }, { "NAME", offer_protocols },
		{ "FLAG,…", offer_flags },     { "TIME", offer_times },
		{ "TEXT", offer_reasons },     { "GROUP…", offer_groups },
	};

	if (memchr(kind, '|', length)) {
		offer_words(at, kind);
		return;
	}
	if ((length == 4 && strncmp(kind, "FILE", 4) == 0) ||
	    (length == 7 && strncmp(kind, "CAPTURE", 7) == 0)) {
		puts("<file>");
		return;
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strlen(kinds[i].name) == length && strncmp(kinds[i].name, kind, length) == 0)
			kinds[i].offer(at);
}

static void offer_verbs(const struct at *at, const char *group)
{
	const size_t length = group ? strlen(group) : 0;
	char last[32] = "";

	for (size_t i = 0; i < ls_n_verbs; i++) {
		const struct ls_verb *verb = &ls_verbs[i];
		char first[32];
		if (!verb->run || !verb->help[0])
			continue;
		const char *space = strchr(verb->name, ' ');
		if (group) {
			if (space && (size_t)(space - verb->name) == length &&
			    strncmp(verb->name, group, length) == 0)
				offer(at, space + 1, verb->help);
			continue;
		}
		snprintf(first, sizeof(first), "%.*s", (int)strcspn(verb->name, " "), verb->name);
		if (strcmp(first, last) == 0)
			continue;
		memcpy(last, first, sizeof(last));
		offer(at, first, space ? "" : verb->help);
	}
}

static void offer_option(const struct at *at, const char *name, const char *text)
{
	char word[40];

	snprintf(word, sizeof(word), "--%s", name);
	offer(at, word, text);
}

static void offer_options(const struct at *at)
{
	for (unsigned option = 0; at->verb && option < LS_OPTION_MAX; option++)
		if (at->verb->allowed & ~at->given & 1U << option)
			offer_option(at, ls_option_name(option),
				     ls_manual_option(at->verb, option));
	for (size_t i = 0; i < ls_n_manual_globals; i++)
		offer_option(at, ls_manual_globals[i].name, ls_manual_globals[i].text);
}

static void offer_arguments(const struct at *at)
{
	const char *name = at->verb->name, *kind = at->verb->arguments;

	if (at->n_arguments >= at->verb->max_arguments)
		return;
	if (strcmp(name, "help") == 0) {
		offer_verbs(at, NULL);
	} else if (strcmp(name, "ban del") == 0 || strcmp(name, "explain") == 0) {
		offer_bans(at);
	} else if (strcmp(name, "allow del") == 0 || strcmp(name, "deny del") == 0) {
		offer_entries(at, name[0] == 'a');
	} else {
		kind += kind[0] == '[';
		offer_kind(at, kind, strcspn(kind, " ]"));
	}
}

static const struct ls_verb *find_verb(const char *first, const char *second)
{
	char name[64];

	snprintf(name, sizeof(name), "%s%s%s", first, second ? " " : "", second ? second : "");
	for (size_t i = 0; i < ls_n_verbs; i++)
		if (strcmp(ls_verbs[i].name, name) == 0)
			return &ls_verbs[i];
	return NULL;
}

static bool is_group(const char *word)
{
	const size_t length = strlen(word);

	for (size_t i = 0; i < ls_n_verbs; i++)
		if (strncmp(ls_verbs[i].name, word, length) == 0 && ls_verbs[i].name[length] == ' ')
			return true;
	return false;
}

/* What the value of an option is called: "" for a flag, NULL: no such option. `word` without dashes. */
static const char *value_of(struct at *at, const char *word, size_t length)
{
	for (unsigned option = 0; option < LS_OPTION_MAX; option++) {
		const char *name = ls_option_name(option);
		const bool is_letter = length == 1 && word[0] == ls_option_letter(option);
		if (!is_letter && (strlen(name) != length || strncmp(name, word, length) != 0))
			continue;
		at->given |= 1U << option;
		return ls_option_value(option);
	}
	for (size_t i = 0; i < ls_n_manual_globals; i++) {
		const struct ls_manual_global *global = &ls_manual_globals[i];
		if ((strlen(global->name) == length && strncmp(global->name, word, length) == 0) ||
		    (length == 1 && word[0] == global->letter))
			return global->letter == 'I' ? INSTANCE : global->value;
	}
	return NULL;
}

/* Goes over an option before the cursor; returns what its value is called if that is the next word. */
static const char *pass_option(struct at *at, const char *word)
{
	const bool is_long = word[1] == '-';
	const char *name = word + (is_long ? 2 : 1);
	const size_t length = is_long ? strcspn(name, "=") : 1;
	const char *value = value_of(at, name, length);

	if (!value || !value[0])
		return NULL;
	if (name[length] == '\0')
		return value;
	if (strcmp(value, INSTANCE) == 0)
		at->instance = name + length + (is_long ? 1 : 0);
	return NULL;
}

static void pass_word(struct at *at, const char *word)
{
	if (at->verb) {
		at->n_arguments++;
	} else if (!at->word && is_group(word)) {
		at->word = word;
	} else {
		at->verb = at->word ? find_verb(at->word, word) : find_verb(word, NULL);
		at->is_lost = at->is_lost || !at->verb;
	}
}

int ls_cmd_complete(struct ls_cli *cli)
{
	const size_t count = cli->n_arguments;
	struct at at = { .current = count ? cli->arguments[count - 1] : "", .prefix = "" };
	const char *wanted = NULL; /* what the value is called that the next word is */

	for (size_t i = 0; i + 1 < count; i++) {
		const char *word = cli->arguments[i];
		if (wanted) {
			if (strcmp(wanted, INSTANCE) == 0)
				at.instance = word;
			wanted = NULL;
		} else if (word[0] == '-' && word[1]) {
			wanted = pass_option(&at, word);
		} else {
			pass_word(&at, word);
		}
	}
	if (at.is_lost) {
		return LS_EXIT_DONE;
	} else if (wanted) {
		offer_kind(&at, wanted, strlen(wanted));
	} else if (strncmp(at.current, "--", 2) == 0 && strchr(at.current, '=')) {
		static char prefix[40];
		const size_t length = strcspn(at.current + 2, "=");
		const char *value = value_of(&at, at.current + 2, length);
		snprintf(prefix, sizeof(prefix), "--%.*s=", (int)(length < 32 ? length : 32),
			 at.current + 2);
		at.prefix = prefix;
		at.current += length + 3;
		if (value && value[0])
			offer_kind(&at, value, strlen(value));
	} else if (at.current[0] == '-') {
		offer_options(&at);
	} else if (at.verb) {
		offer_arguments(&at);
	} else {
		offer_verbs(&at, at.word);
	}
	return ls_cli_flush();
}
