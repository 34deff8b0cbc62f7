/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BENCH_RIVALS_H
#define LOADSHED_USER_BENCH_RIVALS_H

/* The alternatives that the bench measures beside ours (bpf/bench/rivals.bpf.c), loaded for this process alone. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "user/base/cleanup.h"

struct ls_error;
struct ls_prefix;
struct ls_rivals;

/* In this order in the tables: id, name. */
enum ls_rival {
	LS_RIVAL_LRU,	 /* a token bucket in an LRU hash */
	LS_RIVAL_PERCPU, /* … in a per-CPU hash */
	LS_RIVAL_LOCK,	 /* … under a spin lock */
	LS_RIVAL_TRIE4,	 /* a list in the kernel's LPM trie */
	LS_RIVAL_TRIE6,
	LS_RIVAL_MAX,
};

/* `sources`: how many their tables must hold; `prefixes`: the same of the tries. Negative with a line. */
int ls_rivals_open(uint32_t sources, uint32_t prefixes, struct ls_rivals **ret,
		   struct ls_error *error);
void ls_rivals_close(struct ls_rivals *rivals);
DEFINE_CLEANUP(struct ls_rivals *, ls_rivals_close);

int ls_rivals_fd(const struct ls_rivals *rivals, enum ls_rival rival);
/* The LRU hash's bucket as a classifier of tc that refuses nearly everything. */
int ls_rivals_tc_fd(const struct ls_rivals *rivals);
/* Adds prefixes to the trie of their family, which must be one. Negative with a line. */
int ls_rivals_list(struct ls_rivals *rivals, const struct ls_prefix *prefixes, size_t count,
		   struct ls_error *error);

#endif
