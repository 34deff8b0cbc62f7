/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_PURE_BASE_H
#define LOADSHED_PURE_BASE_H

/*
 * What every pure header needs in both builds, the kernel's and the host's: nothing here or in its
 * neighbours calls a helper, reads a map or has a global.
 */

#include <linux/types.h>

#define LS_INLINE static inline __attribute__((always_inline, unused))

#define LS_LIKELY(x) __builtin_expect(!!(x), 1)
#define LS_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Reads or writes exactly once: the other side is another CPU. */
#define LS_READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define LS_WRITE_ONCE(x, value) (*(volatile __typeof__(x) *)&(x) = (value))

/* Before a loop that shall stay one: its body unrolled is code that the verifier goes through as often. */
#ifdef __clang__
#define LS_NO_UNROLL _Pragma("clang loop unroll(disable)")
#else
#define LS_NO_UNROLL
#endif

/*
 * Makes the compiler forget where a pointer came from, so that it addresses what is behind it by small offsets from
 * here. BPF's loads and stores have 16 bits of offset; from the start of a section of megabytes every access would
 * take an addition and a register, and a third of a verdict was spills of those.
 */
#define LS_REBASE(pointer) __asm__ volatile("" : "+r"(pointer))

/*
 * An index below `count`, a power of two, that every verifier believes. Those of 6.1 lose the bounds of a sum or an
 * `or` of 32-bit values, and a mask that the compiler finds superfluous it leaves out; so it is made to forget them first.
 */
LS_INLINE __u64 ls_bounded(__u64 index, __u64 count)
{
	__asm__ volatile("" : "+r"(index));
	return index & (count - 1);
}

/*
 * Position of the lowest bit of a word that is not 0: BPF has no instruction for it, so it is multiplied by a de
 * Bruijn sequence, whose top six bits then tell (Leiserson, Prokop and Randall, "Using de Bruijn sequences to
 * index a 1 in a computer word", 1998).
 */
static const __u8 ls_bit_position[64] __attribute__((unused)) = {
	0,  1,	48, 2,	57, 49, 28, 3,	61, 58, 50, 42, 38, 29, 17, 4,	62, 55, 59, 36, 53, 51,
	43, 22, 45, 39, 33, 30, 24, 18, 12, 5,	63, 47, 56, 27, 60, 41, 37, 16, 54, 35, 52, 21,
	44, 32, 23, 11, 46, 26, 40, 15, 34, 20, 31, 10, 25, 14, 19, 9,	13, 8,	7,  6,
};

LS_INLINE __u32 ls_lowest_bit(__u64 bits)
{
	return ls_bit_position[(bits & -bits) * 0x03f79d71b4cb0a89ULL >> 58];
}

/* Whether tick a lies after tick b; both on a clock that wraps after 2^64, less than half of it apart. */
LS_INLINE int ls_tick_after(__u64 a, __u64 b)
{
	return (__s64)(a - b) > 0;
}

#endif
