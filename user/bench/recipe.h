/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BENCH_RECIPE_H
#define LOADSHED_USER_BENCH_RECIPE_H

/* The policies that the bench puts in force, each said in two words: what kind, and how many of it. */

#include <stdint.h>

struct ls_error;
struct ls_policy;
struct ls_prefix;

enum ls_recipe_kind {
	LS_RECIPE_NONE,	   /* no policy: what XDP_DROP stands for */
	LS_RECIPE_LIMITS,  /* `number` (1 to 8) limits per source that admit everything */
	LS_RECIPE_REFUSED, /* the first of `number` limits refuses all but one packet a minute */
	LS_RECIPE_HALF, /* what goes to LS_RECIPE_PORT is admitted, what goes to the port after it refused */
	LS_RECIPE_CLASSES, /* `number` classes, one port each, from LS_RECIPE_PORT on */
	LS_RECIPE_LIST4,   /* one limit and a `deny` list of `number` prefixes */
	LS_RECIPE_LIST6,
	LS_RECIPE_BANS,		/* one limit; `number` other sources are banned */
	LS_RECIPE_BANNED,	/* one limit; the first `number` sources are banned */
	LS_RECIPE_DENIED,	/* all of IPv4 is in a `deny` list */
	LS_RECIPE_STRICT,	/* one limit per source, LS_RECIPE_STRICT_RATE packets a second */
	LS_RECIPE_CLASS_STRICT, /* the same for all sources together */
	LS_RECIPE_CLASS,	/* one limit for all sources together that admits everything */
};

struct ls_recipe {
	enum ls_recipe_kind kind;
	uint32_t number;
};

#define LS_RECIPE_PORT 1000
#define LS_RECIPE_STRICT_RATE 1000000
#define LS_RECIPE_STRICT_BURST 10000 /* 10 ms: a CPU that is taken away for less loses nothing */

/* Returns 0 and a policy that the caller frees, or negative with a line. */
int ls_recipe_policy(struct ls_recipe recipe, struct ls_policy **ret, struct ls_error *error);

/*
 * The number-th prefix of a made-up list. IPv4: of ten, seven hosts, a /28, a /24 and a /22, anywhere: 1 M of them
 * cover 2 % of all addresses. IPv6: of 16 lengths from /36 on, /48 most, in 2a00::/12: 1 % of it.
 */
#define LS_RECIPE_PREFIX6 0x2a00000000000000ULL
struct ls_prefix ls_recipe_prefix(uint8_t family, uint32_t number);

#endif
