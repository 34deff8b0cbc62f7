/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/base/buffer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void ls_buffer_fini(struct ls_buffer *buffer)
{
	free(buffer->bytes);
	*buffer = (struct ls_buffer)LS_BUFFER_INIT;
}

int ls_buffer_reserve(struct ls_buffer *buffer, size_t more)
{
	size_t capacity;
	char *bytes;

	if (buffer->failed)
		return -ENOMEM;
	if (buffer->bytes && more < buffer->capacity - buffer->length)
		return 0;
	if (more > SIZE_MAX / 2 - buffer->length - 64) {
		buffer->failed = true;
		return -ENOMEM;
	}

	/* Doubling, so that a million additions copy each byte about once. */
	capacity = buffer->length + more + 1;
	if (capacity < 2 * buffer->capacity)
		capacity = 2 * buffer->capacity;
	if (capacity < 64)
		capacity = 64;
	bytes = realloc(buffer->bytes, capacity);
	if (!bytes) {
		buffer->failed = true;
		return -ENOMEM;
	}
	buffer->bytes = bytes;
	buffer->capacity = capacity;
	buffer->bytes[buffer->length] = '\0';
	return 0;
}

void ls_buffer_add(struct ls_buffer *buffer, const void *bytes, size_t length)
{
	if (length == 0 || ls_buffer_reserve(buffer, length) < 0)
		return;
	memcpy(buffer->bytes + buffer->length, bytes, length);
	buffer->length += length;
	buffer->bytes[buffer->length] = '\0';
}

void ls_buffer_text(struct ls_buffer *buffer, const char *text)
{
	ls_buffer_add(buffer, text, strlen(text));
}

void ls_buffer_format(struct ls_buffer *buffer, const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(NULL, 0, format, arguments);
	va_end(arguments);
	if (length < 0) {
		buffer->failed = true;
		return;
	}
	if (ls_buffer_reserve(buffer, (size_t)length) < 0)
		return;

	va_start(arguments, format);
	vsnprintf(buffer->bytes + buffer->length, (size_t)length + 1, format, arguments);
	va_end(arguments);
	buffer->length += (size_t)length;
}

void ls_buffer_u8(struct ls_buffer *buffer, uint8_t value)
{
	ls_buffer_add(buffer, &value, 1);
}

static void buffer_little_endian(struct ls_buffer *buffer, uint64_t value, size_t width)
{
	uint8_t bytes[8];

	for (size_t i = 0; i < width; i++)
		bytes[i] = (uint8_t)(value >> (8 * i));
	ls_buffer_add(buffer, bytes, width);
}

void ls_buffer_u32(struct ls_buffer *buffer, uint32_t value)
{
	buffer_little_endian(buffer, value, 4);
}

void ls_buffer_u64(struct ls_buffer *buffer, uint64_t value)
{
	buffer_little_endian(buffer, value, 8);
}

const char *ls_buffer_string(const struct ls_buffer *buffer)
{
	return buffer->bytes ? buffer->bytes : "";
}

char *ls_buffer_take(struct ls_buffer *buffer, size_t *ret_length)
{
	_cleanup_buffer_ struct ls_buffer taken = *buffer;

	*buffer = (struct ls_buffer)LS_BUFFER_INIT;
	if (ls_buffer_reserve(&taken, 0) < 0) /* so that an empty one is "" and not NULL */
		return NULL;
	if (ret_length)
		*ret_length = taken.length;
	return TAKE_PTR(taken.bytes);
}

size_t ls_utf8_character(const char *text)
{
	const unsigned char *byte = (const unsigned char *)text;
	unsigned low = 0x80, high = 0xbf;
	size_t length;

	if (byte[0] < 0x80)
		return 1;
	if (byte[0] < 0xc2 || byte[0] > 0xf4)
		return 0;
	length = byte[0] < 0xe0 ? 2 : byte[0] < 0xf0 ? 3 : 4;
	if (byte[0] == 0xe0)
		low = 0xa0;
	else if (byte[0] == 0xed)
		high = 0x9f;
	else if (byte[0] == 0xf0)
		low = 0x90;
	else if (byte[0] == 0xf4)
		high = 0x8f;
	for (size_t i = 1; i < length; i++) {
		if (byte[i] < low || byte[i] > high)
			return 0;
		low = 0x80;
		high = 0xbf;
	}
	return length;
}

void ls_buffer_utf8(struct ls_buffer *buffer, const char *text)
{
	size_t length;

	for (; *text; text += length ? length : 1) {
		length = ls_utf8_character(text);
		ls_buffer_add(buffer, length ? text : LS_UTF8_REPLACEMENT,
			      length ? length : strlen(LS_UTF8_REPLACEMENT));
	}
}

void ls_buffer_json(struct ls_buffer *buffer, const char *text)
{
	size_t length;

	ls_buffer_text(buffer, "\"");
	for (; *text; text += length) {
		length = ls_utf8_character(text);
		if (!length) {
			length = 1;
			ls_buffer_text(buffer, LS_UTF8_REPLACEMENT);
		} else if (*text == '"' || *text == '\\' || *text == '<' ||
			   (unsigned char)*text < 0x20) {
			ls_buffer_format(buffer, "\\u%04x", (unsigned)*text);
		} else {
			ls_buffer_add(buffer, text, length);
		}
	}
	ls_buffer_text(buffer, "\"");
}
