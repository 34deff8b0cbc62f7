/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_POLICY_COMPILE_STACK_H
#define LOADSHED_USER_POLICY_COMPILE_STACK_H

/*
 * The prefixes that cover a point of the address space, while a sorted list is walked. Sorted by
 * address, then length, a prefix comes directly before all that it covers, so those that cover the
 * current one form a stack. Both families are walked alike: IPv4 addresses are taken as the first
 * 32 of 128 bits.
 */

#include <stdint.h>

typedef unsigned __int128 ls_u128;

struct ls_cover {
	ls_u128 last; /* its last address */
	unsigned length;
	uint32_t label;
};

/* Outermost first; the bottom is the whole space. */
struct ls_stack {
	struct ls_cover items[130]; /* the bottom, and one for each length from 0 to 128 */
	unsigned top;
};

static inline ls_u128 ls_address4(uint64_t address)
{
	return (ls_u128)address << 96;
}

static inline ls_u128 ls_address6(uint64_t high, uint64_t low)
{
	return (ls_u128)high << 64 | low;
}

static inline void ls_stack_init(struct ls_stack *stack, uint32_t label)
{
	stack->top = 0;
	stack->items[0] = (struct ls_cover){ .last = ~(ls_u128)0, .label = label };
}

/* Removes what ends before `address`; what is on top then covers it. */
static inline const struct ls_cover *ls_stack_seek(struct ls_stack *stack, ls_u128 address)
{
	while (stack->items[stack->top].last < address)
		stack->top--;
	return &stack->items[stack->top];
}

/* After a seek to `address`, which has no bits set behind `length`. */
static inline void ls_stack_push(struct ls_stack *stack, ls_u128 address, unsigned length,
				 uint32_t label)
{
	const ls_u128 host_bits = length >= 128 ? 0 : ~(ls_u128)0 >> length;

	stack->items[++stack->top] = (struct ls_cover){ address | host_bits, length, label };
}

#endif
