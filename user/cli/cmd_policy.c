/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/cli.h"

/* policy check, show, diff: what is enforced, and what would be. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "loadshed/ledger_abi.h"
#include "user/base/addr.h"
#include "user/base/buffer.h"
#include "user/base/output.h"
#include "user/base/sha256.h"
#include "user/plane/plane.h"
#include "user/policy/check.h"
#include "user/policy/compile.h"
#include "user/policy/diff.h"
#include "user/policy/names.h"
#include "user/policy/policy.h"
#include "user/policy/print.h"
#include "user/policy/read.h"

DEFINE_CLEANUP(struct ls_image *, ls_image_free);

/* Reads the file with all that there is to warn about. */
static int read_policy(const char *path, struct ls_warnings *warnings, struct ls_policy **ret,
		       struct ls_error *error)
{
	const struct ls_policy_source source = { .name = path, .warnings = warnings };
	const int r = ls_policy_read_source(&source, ret, error);

	if (r < 0)
		return r;
	return warnings && ls_policy_check(*ret, warnings) < 0 ? ls_error_oom(error) : 0;
}

static size_t count_limits(const struct ls_policy *policy)
{
	size_t count = 0;

	for (size_t i = 0; i < policy->n_classes; i++)
		count += policy->classes[i].n_limits;
	return count;
}

static size_t count_entries(const struct ls_policy *policy)
{
	size_t count = 0;

	for (size_t i = 0; i < policy->n_sets; i++)
		count += policy->sets[i].entries.count;
	return count;
}

/* The hash of lists needs some numbers; for a check any will do. */
static uint64_t some_bits(void *context)
{
	uint64_t *const state = context;

	*state += 0x9e3779b97f4a7c15ULL;
	const uint64_t mixed = (*state ^ (*state >> 30)) * 0xbf58476d1ce4e5b9ULL;
	return mixed ^ (mixed >> 27);
}

/* What the kernel could not hold is refused here and not at apply. */
static int try_compile(const struct ls_policy *policy, const char *path, struct ls_error *error)
{
	_cleanup_free_ struct ls_ledger *ledger = calloc(1, sizeof(*ledger));
	_cleanup_(ls_image_freep) struct ls_image *image = NULL;
	uint64_t state = 1;

	if (!ledger)
		return ls_error_oom(error);
	const int r = ls_policy_compile(policy, 0, ledger, some_bits, &state, &image, error);
	if (r < 0)
		ls_error_prefix(error, "%s", path);
	return r;
}

static json_t *check_json(const char *path, const struct ls_policy *policy, int combinations,
			  const struct ls_warnings *warnings)
{
	json_t *lines = json_array();
	uint8_t digest[LS_SHA256_BYTES] = { 0 };
	char sha256[LS_SHA256_TEXT];

	for (size_t i = 0; i < warnings->count; i++)
		json_array_append_new(lines, ls_cli_text_json(warnings->lines[i]));
	(void)ls_policy_digest(policy, digest);
	return json_pack("{s:o, s:s, s:I, s:I, s:I, s:I, s:i, s:I, s:s, s:o}", "file",
			 ls_cli_text_json(path), "mode", ls_mode_names[policy->mode], "classes",
			 (json_int_t)policy->n_classes, "limits", (json_int_t)count_limits(policy),
			 "sets", (json_int_t)policy->n_sets, "entries",
			 (json_int_t)count_entries(policy), "combinations", combinations, "sources",
			 (json_int_t)policy->sources, "policy_sha256",
			 ls_sha256_format(digest, sha256), "warnings", lines);
}

int ls_cmd_policy_check(struct ls_cli *cli)
{
	_cleanup_(ls_policy_freep) struct ls_policy *policy = NULL;
	_cleanup_warnings_ struct ls_warnings warnings = LS_WARNINGS_INIT;
	struct ls_error error = LS_ERROR_INIT;
	const char *path = cli->arguments[0];

	if (read_policy(path, &warnings, &policy, &error) < 0 ||
	    try_compile(policy, path, &error) < 0)
		return ls_cli_fail(&error);
	const int combinations = ls_policy_count_labels(policy);
	if (combinations < 0) {
		ls_error_oom(&error);
		return ls_cli_fail(&error);
	}
	for (size_t i = 0; i < warnings.count; i++)
		ls_cli_note("%s: warning: %s", path, warnings.lines[i]);
	if (warnings.dropped)
		ls_cli_note("%s: warning: … and %zu more", path, warnings.dropped);
	if (cli->json)
		return ls_cli_print_json(check_json(path, policy, combinations, &warnings));
	printf("%s: valid, mode %s\n", path, ls_mode_names[policy->mode]);
	printf("  %zu classes, %zu limits\n", policy->n_classes, count_limits(policy));
	printf("  %zu sets, %zu entries, %d of 255 combinations of lists\n", policy->n_sets,
	       count_entries(policy), combinations);
	return ls_cli_flush();
}

/* The policy in force, for verbs that only look. */
static int open_current(struct ls_cli *cli, struct ls_plane **ret_plane,
			struct ls_policy **ret_policy, char **ret_path)
{
	struct ls_error error = LS_ERROR_INIT;
	const int r = ls_plane_open(cli->instance, LS_PLANE_READ, ret_plane, &error);

	if (r == LS_PLANE_E_ABSENT)
		return ls_cli_absent(cli);
	if (r < 0 || ls_plane_policy(*ret_plane, ret_policy, ret_path, &error) < 0)
		return ls_cli_fail(&error);
	return LS_EXIT_DONE;
}

int ls_cmd_policy_show(struct ls_cli *cli)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	_cleanup_(ls_policy_freep) struct ls_policy *policy = NULL;
	_cleanup_free_ char *path = NULL;
	_cleanup_buffer_ struct ls_buffer text = LS_BUFFER_INIT;
	struct ls_error error = LS_ERROR_INIT;
	const int r = open_current(cli, &plane, &policy, &path);

	if (r != LS_EXIT_DONE)
		return r;
	ls_policy_print(policy, ls_cli_has(cli, LS_OPTION_EXPAND), &text);
	if (text.failed) {
		ls_error_oom(&error);
		return ls_cli_fail(&error);
	}
	if (cli->json)
		return ls_cli_print_json(json_pack("{s:I, s:o, s:o}", "generation",
						   (json_int_t)ls_plane_generation(plane), "path",
						   ls_cli_text_json(path), "policy",
						   ls_cli_text_json(ls_buffer_string(&text))));
	fwrite(ls_buffer_string(&text), 1, text.length, stdout);
	return ls_cli_flush();
}

static json_t *diff_json(bool differs, const char *text)
{
	json_t *lines = json_array();

	while (*text) {
		const size_t length = strcspn(text, "\n");
		json_array_append_new(lines, json_stringn(text, length));
		text += length + (text[length] == '\n');
	}
	return json_pack("{s:b, s:o}", "differs", differs, "changes", lines);
}

int ls_cmd_policy_diff(struct ls_cli *cli)
{
	_cleanup_(ls_plane_closep) struct ls_plane *plane = NULL;
	_cleanup_(ls_policy_freep) struct ls_policy *current = NULL;
	_cleanup_(ls_policy_freep) struct ls_policy *wanted = NULL;
	_cleanup_buffer_ struct ls_buffer text = LS_BUFFER_INIT;
	struct ls_error error = LS_ERROR_INIT;

	if (read_policy(cli->arguments[0], NULL, &wanted, &error) < 0)
		return ls_cli_fail(&error);
	int r = open_current(cli, &plane, &current, NULL);
	if (r != LS_EXIT_DONE)
		return r;
	const bool differs = ls_policy_diff(current, wanted, &text);
	if (text.failed) {
		ls_error_oom(&error);
		return ls_cli_fail(&error);
	}
	if (cli->json) {
		r = ls_cli_print_json(diff_json(differs, ls_buffer_string(&text)));
	} else {
		fwrite(ls_buffer_string(&text), 1, text.length, stdout);
		r = ls_cli_flush();
	}
	if (r == LS_EXIT_DONE && differs && ls_cli_has(cli, LS_OPTION_EXIT_CODE))
		return LS_EXIT_FAILED;
	return r;
}
