/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/blob.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "user/base/buffer.h"
#include "user/base/error.h"
#include "user/base/sha256.h"
#include "user/policy/diff.h"
#include "user/policy/policy.h"
#include "user/policy/read.h"

static int give_list(void *context, const char *file, char **ret_bytes, size_t *ret_length,
		     struct ls_error *error)
{
	(void)context;
	(void)file;
	*ret_bytes = strdup("192.0.2.0/24\nbad\n2001:db8::/32\n198.51.100.66\n");
	*ret_length = strlen(*ret_bytes);
	return *ret_bytes ? 0 : ls_error_oom(error);
}

static struct ls_policy *sample(void)
{
	static const char text[] = "version: 1\n"
				   "sets:\n"
				   "  inline: [203.0.113.7]\n"
				   "  a: { file: a.txt, on_error: skip }\n"
				   "  b: { file: b.txt, on_error: skip }\n"
				   "deny: [a, b, inline]\n"
				   "classes: [{ name: c, match: any, limits: [{ rate: 1/s }] }]\n";
	const struct ls_policy_files files = { .read = give_list };
	struct ls_policy *policy = NULL;

	assert_int_equal(ls_policy_read_memory("p", text, strlen(text), &files, &policy, NULL), 0);
	return policy;
}

static void a_blob_brings_everything_back(void **state)
{
	_cleanup_policy_ struct ls_policy *policy = sample(), *again = NULL;
	_cleanup_buffer_ struct ls_buffer blob = LS_BUFFER_INIT;
	_cleanup_free_ char *path = NULL;

	(void)state;
	ls_blob_write(policy, "/etc/loadshed/policy.yaml", &blob);
	assert_false(blob.failed);
	assert_int_equal(ls_blob_read("x", blob.bytes, blob.length, &again, &path, NULL), 0);
	assert_string_equal(path, "/etc/loadshed/policy.yaml");
	assert_true(ls_policy_equal(policy, again));
	for (size_t i = 0; i < policy->n_sets; i++) {
		assert_int_equal(policy->sets[i].skipped, again->sets[i].skipped);
		assert_memory_equal(policy->sets[i].sha256, again->sets[i].sha256, 32);
	}
	assert_int_equal(again->sets[1].skipped, 1);
}

static void a_blob_without_a_path_has_none(void **state)
{
	_cleanup_policy_ struct ls_policy *policy = ls_policy_new(), *again = NULL;
	_cleanup_buffer_ struct ls_buffer blob = LS_BUFFER_INIT;
	char *path = NULL;

	(void)state;
	ls_blob_write(policy, NULL, &blob);
	assert_int_equal(ls_blob_read("x", blob.bytes, blob.length, &again, &path, NULL), 0);
	assert_null(path);
	assert_true(ls_policy_equal(policy, again));
}

static void refuse(const void *bytes, size_t length, const char *what, size_t at)
{
	struct ls_error error = LS_ERROR_INIT;
	struct ls_policy *policy = NULL;
	/* a copy of its own size, so that reading past the end is seen */
	char *const copy = malloc(length + !length);

	memcpy(copy, bytes, length);
	if (ls_blob_read("state", copy, length, &policy, NULL, &error) == 0)
		fail_msg("accepted: %s at %zu", what, at);
	if (strncmp(error.text, "cannot read the saved policy in 'state': ", 41) != 0)
		fail_msg("%s at %zu: %s", what, at, error.text);
	assert_null(policy);
	free(copy);
}

static void a_blob_cut_at_any_length_is_refused(void **state)
{
	_cleanup_policy_ struct ls_policy *policy = sample();
	_cleanup_buffer_ struct ls_buffer blob = LS_BUFFER_INIT;

	(void)state;
	ls_blob_write(policy, "p", &blob);
	for (size_t cut = 0; cut < blob.length; cut++)
		refuse(blob.bytes, cut, "cut", cut);
}

static void a_blob_changed_anywhere_or_longer_is_refused(void **state)
{
	_cleanup_policy_ struct ls_policy *policy = sample();
	_cleanup_buffer_ struct ls_buffer blob = LS_BUFFER_INIT;

	(void)state;
	ls_blob_write(policy, "p", &blob);
	for (size_t at = 0; at < blob.length; at++) {
		blob.bytes[at] ^= 0x20;
		refuse(blob.bytes, blob.length, "changed", at);
		blob.bytes[at] ^= 0x20;
	}
	ls_buffer_u8(&blob, 0);
	refuse(blob.bytes, blob.length, "longer", blob.length);
}

/* Damage that a matching checksum hides, as of a faulty program: refused or read, never a crash. */
static void a_forged_blob_does_no_harm(void **state)
{
	_cleanup_policy_ struct ls_policy *policy = sample();
	_cleanup_buffer_ struct ls_buffer blob = LS_BUFFER_INIT;
	size_t body;

	(void)state;
	ls_blob_write(policy, "p", &blob);
	body = blob.length - LS_SHA256_BYTES;
	for (size_t at = 20; at < body; at++) {
		static const uint8_t flips[] = { 0x01, 0x20, 0x80, 0xff };

		for (size_t flip = 0; flip < sizeof(flips); flip++) {
			struct ls_policy *again = NULL;
			const char before = blob.bytes[at];

			blob.bytes[at] = (char)(before ^ (char)flips[flip]);
			ls_sha256(blob.bytes, body, (uint8_t *)blob.bytes + body);
			ls_blob_read("x", blob.bytes, blob.length, &again, NULL, NULL);
			ls_policy_free(again);
			blob.bytes[at] = before;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_blob_brings_everything_back),
		cmocka_unit_test(a_blob_without_a_path_has_none),
		cmocka_unit_test(a_blob_cut_at_any_length_is_refused),
		cmocka_unit_test(a_blob_changed_anywhere_or_longer_is_refused),
		cmocka_unit_test(a_forged_blob_does_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
