/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_SERVE_MODULES_H
#define LOADSHED_USER_SERVE_MODULES_H

/* The modules of this folder (user/base/module.h); each file says what its own does. */

struct ls_module;

extern const struct ls_module ls_module_adopt;
extern const struct ls_module ls_module_ended;
extern const struct ls_module ls_module_reload;
extern const struct ls_module ls_module_watch;

#endif
