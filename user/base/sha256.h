/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BASE_SHA256_H
#define LOADSHED_USER_BASE_SHA256_H

/* SHA-256 (FIPS 180-4), to name contents: what a list held, whether a saved file is whole. */

#include <stddef.h>
#include <stdint.h>

#define LS_SHA256_BYTES 32
#define LS_SHA256_TEXT 65 /* hexadecimal, with its NUL */

struct ls_sha256 {
	uint32_t state[8];
	uint64_t length; /* bytes so far */
	uint8_t block[64];
};

void ls_sha256_init(struct ls_sha256 *sha);
void ls_sha256_update(struct ls_sha256 *sha, const void *bytes, size_t length);
void ls_sha256_final(struct ls_sha256 *sha, uint8_t ret_digest[static LS_SHA256_BYTES]);

/* All three at once. */
void ls_sha256(const void *bytes, size_t length, uint8_t ret_digest[static LS_SHA256_BYTES]);

/* Lower-case hexadecimal. Returns `text`. */
char *ls_sha256_format(const uint8_t digest[static LS_SHA256_BYTES],
		       char text[static LS_SHA256_TEXT]);

#endif
