/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BASE_CLEANUP_H
#define LOADSHED_USER_BASE_CLEANUP_H

/*
 * Ownership that a reader can check without opening the callees: every local that owns something is
 * tagged, and initialised where it is declared. What is handed on is taken out of the variable
 * first.
 *
 *	_cleanup_free_ char *text = NULL;
 *	_cleanup_close_ int fd = -1;
 *	…
 *	*ret_text = TAKE_PTR(text);
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(function) __attribute__((cleanup(function)))

/* The value of a pointer variable, which is NULL afterwards. */
#define TAKE_PTR(pointer)                                                                          \
	({                                                                                         \
		__typeof__(pointer) *const take_from_ = &(pointer);                                \
		__typeof__(pointer) const taken_ = *take_from_;                                    \
		*take_from_ = NULL;                                                                \
		taken_;                                                                            \
	})

/* The value of a file descriptor variable, which is -1 afterwards. */
#define TAKE_FD(fd)                                                                                \
	({                                                                                         \
		int *const take_from_ = &(fd);                                                     \
		const int taken_ = *take_from_;                                                    \
		*take_from_ = -1;                                                                  \
		taken_;                                                                            \
	})

/*
 * DEFINE_CLEANUP(struct ls_policy *, ls_policy_free) makes ls_policy_freep() for the cleanup
 * attribute, out of a function that frees one pointer and accepts NULL.
 */
#define DEFINE_CLEANUP(type, function)                                                             \
	static inline void function##p(type *pointer)                                              \
	{                                                                                          \
		function(*pointer);                                                                \
	}                                                                                          \
	struct ls_cleanup_needs_a_semicolon

static inline void ls_cleanup_free(void *pointer)
{
	/*
	 * A void * parameter fits every pointer variable's address; memory is read as the pointer
	 * in it.
	 */
	free(*(void **)pointer);
}

/* errno survives, so that a failure that is being returned is not replaced by that of a close. */
static inline void ls_cleanup_close(const int *fd)
{
	const int kept = errno;

	if (*fd >= 0)
		close(*fd);
	errno = kept;
}

static inline void ls_cleanup_fclose(FILE **file)
{
	if (*file)
		fclose(*file);
}

#define _cleanup_free_ _cleanup_(ls_cleanup_free)
#define _cleanup_close_ _cleanup_(ls_cleanup_close)
#define _cleanup_fclose_ _cleanup_(ls_cleanup_fclose)

#endif
