/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/base/output.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "user/base/buffer.h"
#include "user/base/sha256.h"

static void columns_are_aligned(void **state)
{
	_cleanup_table_ struct ls_table table;
	_cleanup_free_ char *text = NULL;
	size_t length = 0;
	FILE *file = open_memstream(&text, &length);

	(void)state;
	ls_table_init(&table, 3, 1 << 1);
	ls_table_cell(&table, "class");
	ls_table_cell(&table, "packets");
	ls_table_cell(&table, "reason");
	ls_table_cell(&table, "größer");
	ls_table_cell(&table, "%d", 12);
	ls_table_cell(&table, "limit");
	ls_table_cell(&table, "x");
	assert_int_equal(ls_table_print(&table, file), 0);
	fclose(file);
	assert_string_equal(text, "class   packets  reason\n"
				  "größer       12  limit\n"
				  "x\n");
}

static void a_last_column_without_a_word_leaves_no_blanks(void **state)
{
	_cleanup_table_ struct ls_table table;
	static char text[256];
	FILE *file = fmemopen(text, sizeof(text), "w");
	static const char *const cells[] = { "a", "b", "", "aa", "1", "", "a", "b", "word" };

	(void)state;
	ls_table_init(&table, 3, 0);
	for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++)
		ls_table_cell(&table, "%s", cells[i]);
	assert_int_equal(ls_table_print(&table, file), 0);
	fclose(file);
	assert_string_equal(text, "a   b\n"
				  "aa  1\n"
				  "a   b  word\n");
}

static void numbers_have_three_digits_and_never_look_larger(void **state)
{
	static const struct {
		uint64_t value;
		const char *count, *bits;
	} rows[] = {
		{ 0, "0", "0 bit/s" },
		{ 999, "999", "999 bit/s" },
		{ 1000, "1.00k", "1.00 kbit/s" },
		{ 1234, "1.23k", "1.23 kbit/s" },
		{ 12999, "12.9k", "12.9 kbit/s" },
		{ 999999, "999k", "999 kbit/s" },
		{ 1000000, "1.00M", "1.00 Mbit/s" },
		{ UINT64_MAX, "18.4E", "18.4 Ebit/s" },
	};
	char text[LS_HUMAN_TEXT];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_string_equal(ls_human_count(rows[i].value, text), rows[i].count);
		assert_string_equal(ls_human_bits(rows[i].value, text), rows[i].bits);
	}
	assert_string_equal(ls_human_bytes(1500000, text), "1.50 MB");
}

static void times_have_two_units(void **state)
{
	static const struct {
		uint64_t ms;
		const char *text;
	} rows[] = {
		{ 0, "0ms" },	   { 999, "999ms" },   { 1000, "1s" },	       { 1500, "1.5s" },
		{ 2050, "2s" },	   { 59999, "59s" },   { 60000, "1m" },	       { 725000, "12m 5s" },
		{ 3600000, "1h" }, { 86400000, "1d" }, { 273600000, "3d 4h" },
	};
	char text[LS_HUMAN_TEXT];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_string_equal(ls_human_time(rows[i].ms * 1000000, text), rows[i].text);
}

static void a_file_has_no_colour(void **state)
{
	FILE *file = tmpfile();

	(void)state;
	assert_string_equal(ls_color(file, LS_COLOR_RED), "");
	fclose(file);
}

static void a_buffer_grows_and_is_handed_over(void **state)
{
	_cleanup_buffer_ struct ls_buffer buffer = LS_BUFFER_INIT;
	size_t length = 0;
	char *bytes;

	(void)state;
	assert_string_equal(ls_buffer_string(&buffer), "");
	for (unsigned i = 0; i < 1000; i++)
		ls_buffer_format(&buffer, "%03u,", i);
	ls_buffer_u32(&buffer, 0x01020304);
	assert_int_equal(buffer.length, 4004);
	assert_memory_equal(buffer.bytes + 3996, "999,\4\3\2\1", 8);
	bytes = ls_buffer_take(&buffer, &length);
	assert_int_equal(length, 4004);
	assert_int_equal(buffer.length, 0);
	free(bytes);
	bytes = ls_buffer_take(&buffer, &length);
	assert_string_equal(bytes, "");
	free(bytes);
}

static void a_buffer_remembers_that_memory_ran_out(void **state)
{
	_cleanup_buffer_ struct ls_buffer buffer = LS_BUFFER_INIT;

	(void)state;
	ls_buffer_text(&buffer, "kept");
	assert_true(ls_buffer_reserve(&buffer, SIZE_MAX / 2) < 0);
	ls_buffer_text(&buffer, " lost");
	assert_true(buffer.failed);
	assert_string_equal(ls_buffer_string(&buffer), "kept");
	assert_null(ls_buffer_take(&buffer, NULL));
}

static void sha256_gives_the_published_digests(void **state)
{
	static const struct {
		const char *text, *digest;
	} rows[] = {
		/* FIPS 180-4 examples */
		{ "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
		{ "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
		{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
	};
	uint8_t digest[LS_SHA256_BYTES], whole[LS_SHA256_BYTES];
	char text[LS_SHA256_TEXT];
	uint8_t bytes[300];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ls_sha256(rows[i].text, strlen(rows[i].text), digest);
		assert_string_equal(ls_sha256_format(digest, text), rows[i].digest);
	}
	/* in pieces of every size, over every block boundary */
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	for (size_t length = 0; length <= sizeof(bytes); length++) {
		struct ls_sha256 sha;
		const size_t step = length % 67 + 1;

		ls_sha256(bytes, length, whole);
		ls_sha256_init(&sha);
		for (size_t at = 0; at < length; at += step)
			ls_sha256_update(&sha, bytes + at, length - at < step ? length - at : step);
		ls_sha256_final(&sha, digest);
		assert_memory_equal(digest, whole, sizeof(digest));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(columns_are_aligned),
		cmocka_unit_test(a_last_column_without_a_word_leaves_no_blanks),
		cmocka_unit_test(numbers_have_three_digits_and_never_look_larger),
		cmocka_unit_test(times_have_two_units),
		cmocka_unit_test(a_file_has_no_colour),
		cmocka_unit_test(a_buffer_grows_and_is_handed_over),
		cmocka_unit_test(a_buffer_remembers_that_memory_ran_out),
		cmocka_unit_test(sha256_gives_the_published_digests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
