/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_PLANE_VERSION_H
#define LOADSHED_USER_PLANE_VERSION_H

/* The version of this program, at most 31 characters; the build may set another one. */
#ifndef LS_VERSION
#define LS_VERSION "0.1.0"
#endif

#endif
