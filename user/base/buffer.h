/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BASE_BUFFER_H
#define LOADSHED_USER_BASE_BUFFER_H

/*
 * A byte string that grows. Running out of memory is remembered instead of returned from every
 * call: the buffer stays as it was, later additions do nothing, and whoever finishes it asks once.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "user/base/cleanup.h"

struct ls_buffer {
	char *bytes; /* owned; NULL while empty; followed by a NUL that `length` does not count */
	size_t length;
	size_t capacity;
	bool failed; /* memory ran out, so something is missing */
};

#define LS_BUFFER_INIT                                                                             \
	{                                                                                          \
		0                                                                                  \
	}

void ls_buffer_fini(struct ls_buffer *buffer);

/* Makes room for `more` bytes beyond the length. 0 or -ENOMEM (remembered). */
int ls_buffer_reserve(struct ls_buffer *buffer, size_t more);

/* `bytes` may be NULL when length is 0; it must not lie in the buffer. */
void ls_buffer_add(struct ls_buffer *buffer, const void *bytes, size_t length);
void ls_buffer_text(struct ls_buffer *buffer, const char *text);
void ls_buffer_format(struct ls_buffer *buffer, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* What stands for bytes that are no UTF-8. */
#define LS_UTF8_REPLACEMENT "\xef\xbf\xbd"

/* Bytes of the UTF-8 character at `text` (RFC 3629: no overlong forms, no surrogates); 0: none begins there. */
size_t ls_utf8_character(const char *text);

/* The text, with what is no UTF-8 replaced. */
void ls_buffer_utf8(struct ls_buffer *buffer, const char *text);

/* As a JSON string, with its quotes; it can stand in a script, too. What is no UTF-8 is replaced. */
void ls_buffer_json(struct ls_buffer *buffer, const char *text);

/* Little endian, whatever the machine: what is saved on one can be read on another. */
void ls_buffer_u8(struct ls_buffer *buffer, uint8_t value);
void ls_buffer_u32(struct ls_buffer *buffer, uint32_t value);
void ls_buffer_u64(struct ls_buffer *buffer, uint64_t value);

/* The text so far: "" while empty. Valid until the next addition. */
const char *ls_buffer_string(const struct ls_buffer *buffer);

/* Hands the bytes over (free() them); the buffer is empty afterwards. NULL if memory ran out. */
char *ls_buffer_take(struct ls_buffer *buffer, size_t *ret_length);

#define _cleanup_buffer_ _cleanup_(ls_buffer_fini)

#endif
