/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/* What is written, byte by byte where the draft says so, and walked block by block as a reader does. */

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "user/base/buffer.h"
#include "user/observe/pcapng.h"

static uint32_t u32(const struct ls_buffer *out, size_t at)
{
	uint32_t value = 0;

	assert_true(at + 4 <= out->length);
	for (int i = 3; i >= 0; i--)
		value = value << 8 | (uint8_t)out->bytes[at + (size_t)i];
	return value;
}

static uint32_t u16(const struct ls_buffer *out, size_t at)
{
	return u32(out, at) & 0xffff;
}

/* The block at `at`, whose two lengths must agree; returns where the next begins. */
static size_t next_block(const struct ls_buffer *out, size_t at)
{
	const uint32_t length = u32(out, at + 4);

	assert_true(length >= 12 && length % 4 == 0 && at + length <= out->length);
	assert_int_equal(u32(out, at + length - 4), length);
	return at + length;
}

/* Option `code` in the options from `at` to `end`; they must end with an end. Its place, or 0. */
static size_t find_option(const struct ls_buffer *out, size_t at, size_t end, unsigned code)
{
	size_t found = 0;

	for (;;) {
		assert_true(at + 4 <= end);
		if (u16(out, at) == 0)
			break;
		if (u16(out, at) == code)
			found = at;
		at += 4 + (u16(out, at + 2) + 3) / 4 * 4;
	}
	assert_int_equal(at + 4, end);
	return found;
}

static const uint8_t frame[300] = { 1, 2, 3, 4, 5, 6, 7 };

static struct ls_pcapng_packet packet(uint32_t ifindex, const char *interface, uint32_t bytes,
				      const char *comment)
{
	return (struct ls_pcapng_packet){
		.interface = interface,
		.ifindex = ifindex,
		.unix_ns = 0x0123456789abcdefULL,
		.frame = frame,
		.frame_bytes = bytes < 256 ? bytes : 256,
		.wire_bytes = bytes,
		.stands_for = 10,
		.comment = comment,
	};
}

static void the_bytes_are_those_of_the_draft(void **state)
{
	(void)state;
	static const uint8_t wanted[] = {
		/* section: type, length 40, magic, 1.0, unknown length, application "ls 1" */
		0x0a, 0x0d, 0x0d, 0x0a, 40, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 0xff, 0xff,
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 4, 0, 4, 0, 'l', 's', ' ', '1', 0, 0, 0, 0, 40,
		0, 0, 0,
		/* interface: Ethernet, 256 bytes, name "vs", resolution 10^-9 */
		1, 0, 0, 0, 40, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 2, 0, 2, 0, 'v', 's', 0, 0, 9, 0,
		1, 0, 9, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0,
		/* packet: interface 0, stamp, 7 of 7 bytes, comment "why" */
		6, 0, 0, 0, 52, 0, 0, 0, 0, 0, 0, 0, 0x67, 0x45, 0x23, 0x01, 0xef, 0xcd, 0xab, 0x89,
		7, 0, 0, 0, 7, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 0, 3, 0, 'w', 'h', 'y', 0, 0, 0,
		0, 0, 52, 0, 0, 0
	};
	_cleanup_buffer_ struct ls_buffer out = LS_BUFFER_INIT;
	struct ls_pcapng file;
	const struct ls_pcapng_packet one = packet(4, "vs", 7, "why");

	ls_pcapng_start(&file, &out, "ls 1", 1);
	ls_pcapng_add(&file, &one);
	assert_int_equal(out.length, sizeof(wanted));
	assert_memory_equal(out.bytes, wanted, sizeof(wanted));
}

static void each_interface_has_a_block_before_its_first_packet(void **state)
{
	(void)state;
	_cleanup_buffer_ struct ls_buffer out = LS_BUFFER_INIT;
	struct ls_pcapng file;
	static const struct {
		uint32_t ifindex;
		const char *name;
		uint32_t number;
	} rows[] = { { 4, "vs", 0 },  { 7, "eth0", 1 }, { 4, "vs", 0 },
		     { 4, "new", 2 }, { 0, "", 3 },	{ 7, "eth0", 1 } };
	unsigned interfaces = 0, packets = 0;

	ls_pcapng_start(&file, &out, "test", 1);
	for (size_t i = 0; i < 6; i++) {
		const struct ls_pcapng_packet one = packet(rows[i].ifindex, rows[i].name, 60, "c");
		ls_pcapng_add(&file, &one);
	}
	for (size_t at = 0; at < out.length; at = next_block(&out, at)) {
		if (u32(&out, at) == 1)
			interfaces++;
		if (u32(&out, at) != 6)
			continue;
		assert_int_equal(u32(&out, at + 8), rows[packets++].number);
		assert_true(u32(&out, at + 8) < interfaces);
	}
	assert_int_equal(interfaces, 4);
	assert_int_equal(packets, 6);
}

static void any_length_of_frame_and_comment_is_padded(void **state)
{
	(void)state;
	_cleanup_buffer_ struct ls_buffer out = LS_BUFFER_INIT;
	struct ls_pcapng file;
	char comment[32];

	ls_pcapng_start(&file, &out, "test", 1);
	for (uint32_t bytes = 0; bytes < 300; bytes++) {
		const size_t before = out.length;
		snprintf(comment, sizeof(comment), "%.*s", (int)(bytes % 9), "reason=limit");
		const struct ls_pcapng_packet one = packet(4, "vs", bytes, comment);
		ls_pcapng_add(&file, &one);
		size_t at = before;
		while (u32(&out, at) != 6)
			at = next_block(&out, at);
		const uint32_t kept = bytes < 256 ? bytes : 256;
		assert_int_equal(next_block(&out, at), out.length);
		assert_int_equal(u32(&out, at + 20), kept);
		assert_int_equal(u32(&out, at + 24), bytes);
		const size_t option =
			find_option(&out, at + 28 + (kept + 3) / 4 * 4, out.length - 4, 1);
		assert_int_equal(u16(&out, option + 2), strlen(comment));
		assert_memory_equal(out.bytes + option + 4, comment, strlen(comment));
	}
}

static void the_end_says_what_was_lost_once(void **state)
{
	(void)state;
	_cleanup_buffer_ struct ls_buffer out = LS_BUFFER_INIT;
	struct ls_pcapng file;
	unsigned seen = 0;

	ls_pcapng_start(&file, &out, "test", 5);
	for (uint32_t i = 0; i < 3; i++) {
		const struct ls_pcapng_packet one = packet(i / 2, "x", 60, "c");
		ls_pcapng_add(&file, &one);
	}
	ls_pcapng_end(&file, 9, 77);
	for (size_t at = 0, next; at < out.length; at = next) {
		next = next_block(&out, at);
		if (u32(&out, at) != 5)
			continue;
		const size_t options = at + 20, end = next - 4;
		assert_int_equal(u32(&out, at + 8), seen);
		assert_int_equal(u32(&out, find_option(&out, options, end, 4) + 4), seen ? 10 : 20);
		assert_int_equal(u32(&out, find_option(&out, options, end, 7) + 4), seen ? 0 : 77);
		assert_int_equal(u32(&out, find_option(&out, options, end, 8) + 4), seen ? 1 : 2);
		seen++;
	}
	assert_int_equal(seen, 2);
}

static void more_interfaces_than_fit_share_the_last(void **state)
{
	(void)state;
	_cleanup_buffer_ struct ls_buffer out = LS_BUFFER_INIT;
	struct ls_pcapng file;
	unsigned interfaces = 0;

	ls_pcapng_start(&file, &out, "test", 1);
	for (uint32_t i = 1; i <= 2 * LS_PCAPNG_INTERFACES; i++) {
		const struct ls_pcapng_packet one = packet(i, "x", 60, "c");
		ls_pcapng_add(&file, &one);
	}
	for (size_t at = 0; at < out.length; at = next_block(&out, at))
		interfaces += u32(&out, at) == 1;
	assert_int_equal(interfaces, LS_PCAPNG_INTERFACES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_bytes_are_those_of_the_draft),
		cmocka_unit_test(each_interface_has_a_block_before_its_first_packet),
		cmocka_unit_test(any_length_of_frame_and_comment_is_padded),
		cmocka_unit_test(the_end_says_what_was_lost_once),
		cmocka_unit_test(more_interfaces_than_fit_share_the_last),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
