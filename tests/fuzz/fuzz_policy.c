/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * Any bytes as a policy: refused with one line, or read; and then shown, read again, saved and
 * restored without a change. What follows the first 0xff byte is what every list file holds.
 *
 *	clang -std=gnu11 -g -O1 -fsanitize=fuzzer,address,undefined -I. -Iinclude \
 *		tests/fuzz/fuzz_policy.c user/base/(all).c user/policy/(all but compile).c -lyaml
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/buffer.h"
#include "user/base/error.h"
#include "user/policy/blob.h"
#include "user/policy/check.h"
#include "user/policy/diff.h"
#include "user/policy/policy.h"
#include "user/policy/print.h"
#include "user/policy/read.h"

struct list {
	const uint8_t *bytes;
	size_t length;
};

static void require(bool condition, const char *what, const char *detail)
{
	if (condition)
		return;
	fprintf(stderr, "%s: %s\n", what, detail);
	abort();
}

static int give_list(void *context, const char *file, char **ret_bytes, size_t *ret_length,
		     struct ls_error *error)
{
	const struct list *const list = context;

	(void)file;
	*ret_bytes = malloc(list->length + 1);
	if (!*ret_bytes)
		return ls_error_oom(error);
	memcpy(*ret_bytes, list->bytes, list->length);
	*ret_length = list->length;
	return 0;
}

static void show_and_read(const struct ls_policy *policy, const struct ls_policy_files *files)
{
	_cleanup_buffer_ struct ls_buffer shown = LS_BUFFER_INIT, again = LS_BUFFER_INIT;
	_cleanup_buffer_ struct ls_buffer expanded = LS_BUFFER_INIT, lines = LS_BUFFER_INIT;
	_cleanup_policy_ struct ls_policy *second = NULL, *third = NULL;
	struct ls_error error = LS_ERROR_INIT;

	ls_policy_print(policy, false, &shown);
	ls_policy_read_memory("shown", ls_buffer_string(&shown), shown.length, files, &second,
			      &error);
	require(second != NULL, error.text, ls_buffer_string(&shown));
	require(!ls_policy_diff(policy, second, &lines), "differs", ls_buffer_string(&lines));
	ls_policy_print(second, false, &again);
	require(strcmp(ls_buffer_string(&shown), ls_buffer_string(&again)) == 0, "shown otherwise",
		ls_buffer_string(&again));

	ls_policy_print(policy, true, &expanded);
	ls_policy_read_memory("expanded", ls_buffer_string(&expanded), expanded.length, files,
			      &third, &error);
	require(third != NULL, error.text, ls_buffer_string(&expanded));
}

static void save_and_restore(const struct ls_policy *policy)
{
	_cleanup_buffer_ struct ls_buffer blob = LS_BUFFER_INIT, lines = LS_BUFFER_INIT;
	_cleanup_policy_ struct ls_policy *restored = NULL;
	struct ls_error error = LS_ERROR_INIT;

	ls_blob_write(policy, "path", &blob);
	ls_blob_read("blob", blob.bytes, blob.length, &restored, NULL, &error);
	require(restored != NULL, "not restored", error.text);
	require(!ls_policy_diff(policy, restored, &lines), "differs", ls_buffer_string(&lines));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *const split = size ? memchr(data, 0xff, size) : NULL;
	const size_t yaml_length = split ? (size_t)(split - data) : size;
	struct list list = { split ? split + 1 : data, split ? size - yaml_length - 1 : 0 };
	const struct ls_policy_files files = { .context = &list, .read = give_list };
	_cleanup_warnings_ struct ls_warnings warnings = LS_WARNINGS_INIT;
	const struct ls_policy_source source = {
		.name = "p",
		.bytes = (const char *)data,
		.length = yaml_length,
		.files = &files,
		.warnings = &warnings,
	};
	_cleanup_policy_ struct ls_policy *policy = NULL;
	struct ls_error error = LS_ERROR_INIT;

	if (!data)
		return 0;
	if (ls_policy_read_source(&source, &policy, &error) < 0) {
		require(ls_error_is_set(&error), "refused", "without a word");
		require(strchr(error.text, '\n') == NULL, "more than a line", error.text);
		return 0;
	}
	ls_policy_check(policy, &warnings);
	show_and_read(policy, &files);
	save_and_restore(policy);
	return 0;
}
