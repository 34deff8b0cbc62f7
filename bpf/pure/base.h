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
 * Keeps the compiler from computing an address within an element before the element's pointer has been
 * compared with NULL, which the verifier refuses (clang 16 and 19 do so where the address is all that is
 * needed of it). Stands behind the comparison.
 */
#define LS_CHECKED(pointer) __asm__ volatile("" : "+r"(pointer))

/* Whether tick a lies after tick b; both on a clock that wraps after 2^64, less than half of it apart. */
LS_INLINE int ls_tick_after(__u64 a, __u64 b)
{
	return (__s64)(a - b) > 0;
}

#endif
