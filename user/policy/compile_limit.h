/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_POLICY_COMPILE_LIMIT_H
#define LOADSHED_USER_POLICY_COMPILE_LIMIT_H

/* The arithmetic of limits: from exact fractions to ticks. Used by compile.c only. */

#include <stdint.h>

#include "loadshed/policy_abi.h"

struct ls_limit;
struct ls_rate;

/* A refill time of 10 s: above it a state is remembered too long for the short table. */
#define LS_SHORT_NS_MAX 10000000000ULL

/*
 * Everything of the record that follows from the limit alone: all but slot and counter. `table` is
 * the one that suits the limit; an identity that the ledger knows keeps another (see
 * compile_ledger.c). The limit has passed the reader: burst / rate is at most LS_TAU_TICKS_MAX
 * (asserted).
 */
struct ls_limit_abi ls_compile_limit(const struct ls_limit *limit);

/*
 * Bytes only, else nothing happens: the clamp for a bucket that holds a state from before an edit.
 * The wide clamp of ls_compile_limit() lets the debt of one super-packet of 512 KiB stand; after a
 * raised rate that same allowance would keep a source waiting for its old debt, so it shrinks to
 * one IP packet.
 */
void ls_compile_limit_narrow(struct ls_limit_abi *record);

/* One kind of `overload.max`: a bucket for the node with a burst of 100 ms. */
struct ls_limit_abi ls_compile_overload(const struct ls_rate *rate, uint8_t count, uint16_t slot);

/* What eviction must know of a bucket that fills in `tau` ticks, also one of the program's own. */
struct ls_slot_abi ls_compile_slot_bucket(uint64_t tau);

/* What eviction must know of the states of `record`'s slot. */
struct ls_slot_abi ls_compile_slot(const struct ls_limit_abi *record);

/* And of a class's strikes: `after` refusals within `window_ns`. */
struct ls_slot_abi ls_compile_slot_strikes(uint64_t after, uint64_t window_ns);

#endif
