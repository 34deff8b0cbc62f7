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

/* Whether tick a lies after tick b; both on a clock that wraps after 2^64, less than half of it apart. */
LS_INLINE int ls_tick_after(__u64 a, __u64 b)
{
	return (__s64)(a - b) > 0;
}

#endif
