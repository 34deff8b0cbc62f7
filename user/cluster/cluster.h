/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_CLUSTER_CLUSTER_H
#define LOADSHED_USER_CLUSTER_CLUSTER_H

/*
 * The module of `serve` that makes limits in cluster scope hold for all nodes, and shares bans. Every 20 ms it reads which
 * sources have become worth sharing; once a period it tells the store what was counted and the kernel what is decided.
 * All that it tells the kernel ends by itself within ten seconds.
 */

#include "user/base/module.h"

extern const struct ls_module ls_module_cluster;

#endif
