/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BASE_ADDR_H
#define LOADSHED_USER_BASE_ADDR_H

/*
 * Addresses and prefixes, one type for both families. An address is a prefix of full length.
 *
 * The reader is strict, because the lenient readers of libc turn a typing error into another victim
 * (203.0.113.040 is .32 for some of them): what is not exactly one address or prefix is refused,
 * with a reason, and with the corrected form where there is one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LS_IPV4 4
#define LS_IPV6 6

/* Longest text of a prefix with its NUL: 39 characters, "/128". */
#define LS_PREFIX_TEXT 48

struct ls_prefix {
	uint8_t family; /* LS_IPV4 or LS_IPV6 */
	uint8_t length; /* 0 to 32 or 128 */
	/* Network order; IPv4 in the first four, the rest zero. Host bits are zero. */
	uint8_t bytes[16];
};

/* What can be wrong with the text of a prefix. 0 is success. */
enum ls_prefix_error {
	LS_PREFIX_OK,
	LS_PREFIX_E_SYNTAX,	  /* no address at all */
	LS_PREFIX_E_EMPTY,	  /* nothing there */
	LS_PREFIX_E_SHORT,	  /* 127.1 or 203.0.113 or a lone number */
	LS_PREFIX_E_LONG,	  /* 1.2.3.4.5, or more than eight groups */
	LS_PREFIX_E_OCTET,	  /* 203.0.113.256 */
	LS_PREFIX_E_HEX,	  /* 0x7f.0.0.1 */
	LS_PREFIX_E_LEADING_ZERO, /* 203.0.113.040 or /08 */
	LS_PREFIX_E_HOST_BITS,	  /* 203.0.113.7/24 */
	LS_PREFIX_E_LENGTH,	  /* /33, /129, /, /x */
	LS_PREFIX_E_MASK,	  /* 203.0.113.0/255.255.255.0 */
	LS_PREFIX_E_RANGE,	  /* 203.0.113.1-203.0.113.9 */
	LS_PREFIX_E_MAPPED,	  /* ::ffff:203.0.113.7 */
	LS_PREFIX_E_ZONE,	  /* fe80::1%eth0 */
	LS_PREFIX_E_PORT,	  /* 203.0.113.7:80, [2001:db8::1]:443 */
	LS_PREFIX_E_MAX,
};

/*
 * Reads exactly `length` bytes as one address or prefix. IPv4: four decimal octets; IPv6: any form
 * of RFC 4291 section 2.2, hexadecimal digits of either case, also with an IPv4 tail. No blanks.
 *
 * Returns LS_PREFIX_OK, or the first thing that is wrong; *ret is then unchanged.
 */
enum ls_prefix_error ls_prefix_parse(const char *text, size_t length, struct ls_prefix *ret);

/*
 * One clause for people about a refusal of that text, such as "'203.0.113.040' has
 * leading zeros, which some programs read as octal; write 203.0.113.40". Cut at `size` bytes. Returns `clause`.
 */
const char *ls_prefix_explain(enum ls_prefix_error reason, const char *text, size_t length,
			      char *clause, size_t size);

/*
 * Canonical text: RFC 5952 for IPv6, "/length" unless it is a host prefix. Returns `text`; the
 * number of characters is at most LS_PREFIX_TEXT - 1.
 */
char *ls_prefix_format(const struct ls_prefix *prefix, char text[static LS_PREFIX_TEXT]);

/* The address alone, without "/length", in the same form. */
char *ls_address_format(const struct ls_prefix *prefix, char text[static LS_PREFIX_TEXT]);

/*
 * Total order: IPv4 before IPv6, then by address, then shorter before longer. <0, 0, >0 as for
 * qsort.
 */
int ls_prefix_compare(const struct ls_prefix *a, const struct ls_prefix *b);

bool ls_prefix_equal(const struct ls_prefix *a, const struct ls_prefix *b);

/* Whether every address of `inner` is in `outer`; a prefix contains itself; families never mix. */
bool ls_prefix_contains(const struct ls_prefix *outer, const struct ls_prefix *inner);

/* 32 or 128. */
uint8_t ls_prefix_full_length(uint8_t family);

/* Whether it is one address. */
bool ls_prefix_is_host(const struct ls_prefix *prefix);

/* `prefix` shortened to at most `length` bits, host bits cleared; a shorter one stays as it is. */
struct ls_prefix ls_prefix_widen(struct ls_prefix prefix, uint8_t length);

/*
 * Sorts by ls_prefix_compare and removes duplicates, in place. A look is enough when it is in order
 * already, else it is a radix sort that needs three times the memory for a while.
 * Returns how many are left, or -ENOMEM (then the order may have changed).
 */
ptrdiff_t ls_prefix_sort(struct ls_prefix *prefixes, size_t count);

#endif
