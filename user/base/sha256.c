/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/base/sha256.h"

#include <string.h>

/* FIPS 180-4, section 4.2.2: cube roots of the first 64 primes. */
static const uint32_t round_constant[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2,
};

static inline uint32_t rotate_right(uint32_t value, unsigned bits)
{
	return value >> bits | value << (32 - bits);
}

static inline uint32_t load_be32(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

static void store_be32(uint8_t *bytes, uint32_t value)
{
	for (unsigned i = 0; i < 4; i++)
		bytes[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void sha256_blocks(uint32_t state[8], const uint8_t *bytes, size_t blocks)
{
	uint32_t w[64];

	for (; blocks > 0; blocks--, bytes += 64) {
		uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
		uint32_t e = state[4], f = state[5], g = state[6], h = state[7];

		for (unsigned i = 0; i < 16; i++)
			w[i] = load_be32(bytes + 4 * i);
		for (unsigned i = 16; i < 64; i++) {
			const uint32_t s0 = rotate_right(w[i - 15], 7) ^
					    rotate_right(w[i - 15], 18) ^ w[i - 15] >> 3;
			const uint32_t s1 = rotate_right(w[i - 2], 17) ^
					    rotate_right(w[i - 2], 19) ^ w[i - 2] >> 10;

			w[i] = w[i - 16] + s0 + w[i - 7] + s1;
		}
		for (unsigned i = 0; i < 64; i++) {
			const uint32_t s1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^
					    rotate_right(e, 25);
			const uint32_t s0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^
					    rotate_right(a, 22);
			const uint32_t t1 =
				h + s1 + ((e & f) ^ (~e & g)) + round_constant[i] + w[i];
			const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));

			h = g;
			g = f;
			f = e;
			e = d + t1;
			d = c;
			c = b;
			b = a;
			a = t1 + t2;
		}
		state[0] += a;
		state[1] += b;
		state[2] += c;
		state[3] += d;
		state[4] += e;
		state[5] += f;
		state[6] += g;
		state[7] += h;
	}
}

void ls_sha256_init(struct ls_sha256 *sha)
{
	*sha = (struct ls_sha256){
		.state = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
			   0x1f83d9ab, 0x5be0cd19 },
	};
}

void ls_sha256_update(struct ls_sha256 *sha, const void *data, size_t length)
{
	const size_t held = sha->length % 64;
	const uint8_t *bytes = data;

	if (length == 0)
		return;
	sha->length += length;
	if (held > 0) {
		const size_t part = length < 64 - held ? length : 64 - held;

		memcpy(sha->block + held, bytes, part);
		bytes += part;
		length -= part;
		if (held + part < 64)
			return;
		sha256_blocks(sha->state, sha->block, 1);
	}
	sha256_blocks(sha->state, bytes, length / 64);
	memcpy(sha->block, bytes + length / 64 * 64, length % 64);
}

void ls_sha256_final(struct ls_sha256 *sha, uint8_t ret_digest[static LS_SHA256_BYTES])
{
	const uint64_t bits = sha->length * 8;
	uint8_t tail[72] = { 0x80 };
	/* One bit, zeros, and the length in the last 8 bytes of a block. */
	const size_t zeros = (119 - sha->length % 64) % 64;

	store_be32(tail + 1 + zeros, (uint32_t)(bits >> 32));
	store_be32(tail + 1 + zeros + 4, (uint32_t)bits);
	ls_sha256_update(sha, tail, 1 + zeros + 8);
	for (unsigned i = 0; i < 8; i++)
		store_be32(ret_digest + 4 * i, sha->state[i]);
}

void ls_sha256(const void *bytes, size_t length, uint8_t ret_digest[static LS_SHA256_BYTES])
{
	struct ls_sha256 sha;

	ls_sha256_init(&sha);
	ls_sha256_update(&sha, bytes, length);
	ls_sha256_final(&sha, ret_digest);
}

char *ls_sha256_format(const uint8_t digest[static LS_SHA256_BYTES],
		       char text[static LS_SHA256_TEXT])
{
	static const char digits[] = "0123456789abcdef";

	for (unsigned i = 0; i < LS_SHA256_BYTES; i++) {
		text[2 * i] = digits[digest[i] >> 4];
		text[2 * i + 1] = digits[digest[i] & 15];
	}
	text[2 * LS_SHA256_BYTES] = '\0';
	return text;
}
