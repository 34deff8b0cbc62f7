/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/read.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "user/base/buffer.h"
#include "user/base/error.h"
#include "user/base/file.h"
#include "user/base/sha256.h"
#include "user/policy/check.h"
#include "user/policy/policy.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

struct text {
	const char *bytes;
	size_t length;
};

static int give_text(void *context, const char *file, char **ret_bytes, size_t *ret_length,
		     struct ls_error *error)
{
	const struct text *const text = context;

	(void)file;
	*ret_bytes = malloc(text->length + 1);
	if (!*ret_bytes)
		return ls_error_oom(error);
	memcpy(*ret_bytes, text->bytes, text->length);
	*ret_length = text->length;
	return 0;
}

/* A policy whose set `a` comes from a file with these bytes. */
static struct ls_policy *read_list(const char *bytes, size_t length, bool skip,
				   struct ls_warnings *warnings, struct ls_error *error)
{
	static const char refusing[] = "version: 1\nsets: { a: { file: l.txt } }\n";
	static const char skipping[] = "version: 1\nsets: { a: { file: l.txt, on_error: skip } }\n";
	struct text text = { bytes, length };
	const struct ls_policy_files files = { .context = &text, .read = give_text };
	const struct ls_policy_source source = {
		.name = "p.yaml",
		.bytes = skip ? skipping : refusing,
		.length = strlen(skip ? skipping : refusing),
		.files = &files,
		.warnings = warnings,
	};
	struct ls_policy *policy = NULL;

	ls_policy_read_source(&source, &policy, error);
	return policy;
}

static void lists_are_accepted_as_feeds_come(void **state)
{
	static const struct {
		const char *text;
		size_t entries;
	} rows[] = {
		{ "", 0 },
		{ "\n\n", 0 },
		{ "# nothing but a comment\n", 0 },
		{ "192.0.2.1", 1 },
		{ "192.0.2.1\n", 1 },
		{ "192.0.2.1\r\n192.0.2.2\r\n", 2 },
		{ "192.0.2.1\r", 1 },
		{ "\xef\xbb\xbf"
		  "192.0.2.1\n",
		  1 },
		{ "\xef\xbb\xbf# feed\n192.0.2.1\n", 1 },
		{ "192.0.2.1\t5\n192.0.2.2 6 x y z\n", 2 },
		{ "192.0.2.1 ; SBL1\n", 1 },
		{ "192.0.2.1 - spam\n192.0.2.2 -\n192.0.2.3\t- \n192.0.2.4 -1\n", 4 },
		{ "192.0.2.1#note\n192.0.2.2 # note\n  192.0.2.3\n\t192.0.2.4\n", 4 },
		{ "192.0.2.0/24\n2001:db8::/32\n2001:db8::1\n", 3 },
		{ "0.0.0.0/0\n::/0\n", 2 },
		{ "192.0.2.1\n192.0.2.1\n192.0.2.1/32\n", 1 },
		{ "198.51.100.0/24\n198.51.100.0/25\n198.51.100.7\n198.51.100.7/32\n"
		  "198.51.100.0/24\n",
		  3 },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(rows); i++) {
		struct ls_error error = LS_ERROR_INIT;
		_cleanup_policy_ struct ls_policy *policy =
			read_list(rows[i].text, strlen(rows[i].text), false, NULL, &error);

		if (!policy)
			fail_msg("row %zu: %s", i, error.text);
		assert_int_equal(policy->sets[0].entries.count, rows[i].entries);
	}
}

static void a_bad_line_is_refused_with_its_number(void **state)
{
	static const struct {
		const char *text;
		size_t length; /* 0: to the NUL */
		const char *message;
	} rows[] = {
		{ "192.0.2.1\n203.0.113.040\n", 0, "l.txt:2:1: '203.0.113.040' has leading zeros" },
		{ "# x\r\n\r\n  010.0.0.1\r\n", 0, "l.txt:3:3: " },
		{ "0x7f.1\n", 0, "l.txt:1:1: " },
		{ "127.1\n", 0, "l.txt:1:1: " },
		{ "3405803783\n", 0, "l.txt:1:1: " },
		{ "203.0.113\n", 0, "l.txt:1:1: " },
		{ "1.2.3.4.5\n", 0, "l.txt:1:1: " },
		{ "fe80::1%vs\n", 0, "l.txt:1:1: 'fe80::1%vs' has a zone" },
		{ "192.0.2.1\n192.0.2.1-192.0.2.9\n", 0,
		  "l.txt:2:1: '192.0.2.1-192.0.2.9' is a range" },
		{ "192.0.2.1 - 192.0.2.9\n", 0, "l.txt:1:1: the line is a range" },
		{ "192.0.2.0\t-\t192.0.2.9 # spam\r\n", 0, "l.txt:1:1: the line is a range" },
		{ "2001:db8:: -2001:db8::9\n", 0, "l.txt:1:1: the line is a range" },
		{ "192.0.2.0\t192.0.2.255\t24\t1234\tname\n", 0, "l.txt:1:1: the line is a range" },
		{ "192.0.2.4 192.0.2.7\n", 0, "l.txt:1:1: the line is a range" },
		{ "2001:db8:: 2001:db8::ffff\n", 0, "l.txt:1:1: the line is a range" },
		{ "192.0.2.0 255.255.255.0\n", 0, "l.txt:1:1: a netmask follows" },
		{ "192.0.2.0 0.0.0.255 # wildcard\n", 0, "l.txt:1:1: a netmask follows" },
		{ "192.0.2.0 /24\n", 0, "l.txt:1:1: a blank stands before the prefix length" },
		{ "192.0.2.1 - 192.0.2.9 , 000 , name\n", 0, "l.txt:1:1: the line is a range" },
		{ "203.0.113.7/24\n", 0, "l.txt:1:1: '203.0.113.7/24' has bits set behind" },
		{ "::ffff:203.0.113.7\n", 0, "l.txt:1:1: " },
		{ "; Spamhaus\n192.0.2.1\n", 0, "l.txt:1:1: ';' is no address" },
		{ "// note\n", 0, "l.txt:1:1: " },
		{ "192.0.2.1,5\n", 0, "l.txt:1:1: " },
		{ "example.com\n", 0, "l.txt:1:1: " },
		{ "<html>\n", 0, "l.txt:1:1: " },
		{ "192.0.2.1\r192.0.2.2\r", 0, "l.txt:1:1: a carriage return" },
		{ "192.0.2.1 x\r192.0.2.2\n", 0, "l.txt:1:1: a carriage return" },
		{ "192.0.2.1\n192.0.2.\0002\n", 21, "l.txt:2:1: the line holds a NUL byte" },
		{ "192.0.2.1\n192.0.2.2 \000\n", 21, "l.txt:2:1: the line holds a NUL byte" },
		{ "192.0.2.1\n\0\0\0\0\0\0\0\0", 18, "l.txt:2:1: the line holds a NUL byte" },
		{ "\xff\xfe"
		  "1\0.\0",
		  6, "l.txt:1:1: the line holds a NUL byte" },
		{ "\xa0"
		  "192.0.2.1\n",
		  0, "l.txt:1:1: " },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(rows); i++) {
		const size_t length = rows[i].length ? rows[i].length : strlen(rows[i].text);
		struct ls_error error = LS_ERROR_INIT;
		_cleanup_policy_ struct ls_policy *policy =
			read_list(rows[i].text, length, false, NULL, &error);

		assert_null(policy);
		if (strncmp(error.text, rows[i].message, strlen(rows[i].message)) != 0)
			fail_msg("row %zu: \"%s\" is not \"%s\"", i, error.text, rows[i].message);
	}
}

static void skipping_counts_all_and_shows_ten(void **state)
{
	_cleanup_buffer_ struct ls_buffer text = LS_BUFFER_INIT;
	_cleanup_warnings_ struct ls_warnings warnings = LS_WARNINGS_INIT;
	_cleanup_policy_ struct ls_policy *policy = NULL;
	struct ls_error error = LS_ERROR_INIT;

	(void)state;
	for (unsigned i = 0; i < 25; i++)
		ls_buffer_format(&text, "192.0.2.%u\nbad%u\n", i, i);
	policy = read_list(text.bytes, text.length, true, &warnings, &error);
	assert_non_null(policy);
	assert_int_equal(policy->sets[0].entries.count, 25);
	assert_int_equal(policy->sets[0].skipped, 25);
	assert_int_equal(warnings.count, 11);
	assert_non_null(strstr(warnings.lines[0], "l.txt:2:1: 'bad0' is no address"));
	assert_non_null(strstr(warnings.lines[9], "l.txt:20:1: 'bad9'"));
	assert_string_equal(warnings.lines[10], "l.txt: 25 lines skipped");
}

static void a_file_without_one_valid_entry_is_always_refused(void **state)
{
	static const char page[] = "<html>\n<body>404</body>\n</html>\n";
	struct ls_error error = LS_ERROR_INIT;

	(void)state;
	assert_null(read_list(page, strlen(page), true, NULL, &error));
	assert_non_null(strstr(error.text, "none of its 3 lines"));
}

static void repeated_entries_are_told(void **state)
{
	static const char text[] = "192.0.2.1\n192.0.2.2\n192.0.2.1\n192.0.2.1\n";
	_cleanup_warnings_ struct ls_warnings warnings = LS_WARNINGS_INIT;
	_cleanup_policy_ struct ls_policy *policy = NULL;

	(void)state;
	policy = read_list(text, strlen(text), false, &warnings, NULL);
	assert_int_equal(policy->sets[0].entries.count, 2);
	assert_int_equal(warnings.count, 1);
	assert_string_equal(warnings.lines[0], "l.txt: 2 repeated entries, which count once");
}

static void the_digest_is_that_of_the_bytes(void **state)
{
	static const char text[] = "192.0.2.1 # x\r\n";
	_cleanup_policy_ struct ls_policy *policy = NULL;
	uint8_t digest[LS_SHA256_BYTES];

	(void)state;
	policy = read_list(text, strlen(text), false, NULL, NULL);
	ls_sha256(text, strlen(text), digest);
	assert_memory_equal(policy->sets[0].sha256, digest, sizeof(digest));
}

static void files_are_relative_to_the_policy(void **state)
{
	char directory[] = "/tmp/ls-test-XXXXXX", path[64], list[64], command[64];
	static const char text[] = "version: 1\nsets: { a: { file: l.txt } }\n";
	_cleanup_policy_ struct ls_policy *policy = NULL;
	struct ls_error error = LS_ERROR_INIT;

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/p.yaml", directory);
	snprintf(list, sizeof(list), "%s/l.txt", directory);
	assert_int_equal(ls_file_write(path, text, strlen(text), 0644, NULL), 0);

	assert_true(ls_policy_read(path, NULL, &policy, &error) < 0);
	if (!strstr(error.text, "p.yaml:2:20: cannot open '/tmp/") ||
	    !strstr(error.text, "l.txt': No such file"))
		fail_msg("%s", error.text);
	ls_error_clear(&error);

	assert_int_equal(ls_file_write(list, "x\n", 2, 0644, NULL), 0);
	assert_true(ls_policy_read(path, NULL, &policy, &error) < 0);
	assert_int_equal(strncmp(error.text, list, strlen(list)), 0);
	ls_error_clear(&error);

	assert_int_equal(ls_file_write(list, "192.0.2.1\n", 10, 0644, NULL), 0);
	assert_int_equal(ls_policy_read(path, NULL, &policy, &error), 0);
	assert_int_equal(policy->sets[0].entries.count, 1);

	snprintf(command, sizeof(command), "rm -r %s", directory);
	assert_int_equal(system(command), 0);
}

static void a_missing_policy_is_one_line(void **state)
{
	struct ls_policy *policy = NULL;
	struct ls_error error = LS_ERROR_INIT;

	(void)state;
	assert_true(ls_policy_read("/nowhere/p.yaml", NULL, &policy, &error) < 0);
	assert_string_equal(error.text, "cannot open '/nowhere/p.yaml': No such file or directory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_are_accepted_as_feeds_come),
		cmocka_unit_test(a_bad_line_is_refused_with_its_number),
		cmocka_unit_test(skipping_counts_all_and_shows_ten),
		cmocka_unit_test(a_file_without_one_valid_entry_is_always_refused),
		cmocka_unit_test(repeated_entries_are_told),
		cmocka_unit_test(the_digest_is_that_of_the_bytes),
		cmocka_unit_test(files_are_relative_to_the_policy),
		cmocka_unit_test(a_missing_policy_is_one_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
