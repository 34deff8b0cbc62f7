/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_TESTS_UNIT_LISTS_H
#define LOADSHED_TESTS_UNIT_LISTS_H

/* What the tests of the list compiler share: compiling, asking the image, and walking along the edges of prefixes. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lookup.h"
#include "policy_builder.h"
#include "user/base/error.h"
#include "user/policy/compile_match.h"

static inline unsigned image_label(const struct ls_image *image, const struct ls_prefix *address)
{
	uint64_t high = 0, low = 0;
	unsigned probes = 0, label;

	for (unsigned i = 0; i < 8; i++) {
		high = high << 8 | address->bytes[i];
		low = low << 8 | address->bytes[8 + i];
	}
	if (address->family == LS_IPV4)
		return lookup_label4(image, (uint32_t)(high >> 32));
	label = lookup_label6(image, high, low, &probes);
	assert_true(probes <= 8);
	return label;
}

/* The address of all bits of `address` plus `step`; false: past an end of the address space. */
static inline bool step_address(struct ls_prefix *address, int step)
{
	const int bytes = address->family == LS_IPV4 ? 4 : 16;
	const uint8_t edge = step > 0 ? 0xff : 0;

	for (int i = bytes - 1; i >= 0; i--) {
		const bool carry = address->bytes[i] == edge;

		address->bytes[i] = (uint8_t)(address->bytes[i] + step);
		if (!carry)
			return true;
	}
	return false;
}

static inline struct ls_prefix first_of(struct ls_prefix prefix)
{
	prefix.length = ls_prefix_full_length(prefix.family);
	return prefix;
}

static inline struct ls_prefix last_of(struct ls_prefix prefix)
{
	for (unsigned bit = prefix.length; bit < ls_prefix_full_length(prefix.family); bit++)
		prefix.bytes[bit / 8] = (uint8_t)(prefix.bytes[bit / 8] | 0x80U >> bit % 8);
	return first_of(prefix);
}

static inline struct ls_image *compile(const struct ls_policy *policy, uint64_t chance,
				       struct ls_error *error)
{
	struct ls_ledger *ledger = calloc(1, sizeof(*ledger));
	struct ls_image *image = NULL;

	assert_non_null(ledger);
	ls_policy_compile(policy, 0, ledger, chance_next, &chance, &image, error);
	free(ledger);
	return image;
}

#endif
