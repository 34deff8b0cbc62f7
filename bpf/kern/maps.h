/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_KERN_MAPS_H
#define LOADSHED_KERN_MAPS_H

/*
 * The maps of include/loadshed/maps.h, and the constants that are fixed when the object is loaded. Sizes
 * given as 1 here are set by the loader, which knows the capacity and the number of CPUs.
 *
 * Every map that a packet looks into is an array: the kernel inlines a look-up in an array to a bounds check and an address, it
 * never allocates on a packet's path, and user space maps it and reads it without a system call.
 */

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "kern/cpu.h"
#include "loadshed/control_abi.h"
#include "loadshed/event_abi.h"
#include "loadshed/hot_abi.h"
#include "loadshed/ledger_abi.h"
#include "loadshed/overload_abi.h"
#include "loadshed/state_abi.h"
#include "loadshed/table_abi.h"
#include "loadshed/tables_abi.h"
#include "loadshed/top_abi.h"

/* The inner map is a template only: the loader makes real ones of the size that a policy needs. Sizes
 * instead of types: clang 14 leaves a type that only a template names undefined. */
#define LS_ARRAY_OF_ARRAYS(name, entries, element_bytes)                                           \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);                                          \
		__uint(max_entries, entries);                                                      \
		__uint(key_size, sizeof(__u32));                                                   \
		__array(                                                                           \
			values, struct {                                                           \
				__uint(type, BPF_MAP_TYPE_ARRAY);                                  \
				__uint(max_entries, 1);                                            \
				__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);               \
				__uint(key_size, sizeof(__u32));                                   \
				__uint(value_size, element_bytes);                                 \
			});                                                                        \
	} name SEC(".maps")

/* Sizes rather than types, for the same reason and because one element is a plain integer. */
#define LS_ARRAY(name, element, entries)                                                           \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(max_entries, entries);                                                      \
		__uint(map_flags, BPF_F_MMAPABLE);                                                 \
		__uint(key_size, sizeof(__u32));                                                   \
		__uint(value_size, sizeof(element));                                               \
	} name SEC(".maps")

LS_ARRAY(ls_ways, struct ls_ways, 1);
LS_ARRAY(ls_logs, struct ls_log, LS_WAYS);
LS_ARRAY(ls_strikes, struct ls_strikes, 1);
LS_ARRAY(ls_bans, struct ls_bans, 1);
LS_ARRAY(ls_ban_info, struct ls_ban_info, 1);
LS_ARRAY(ls_counters, struct ls_counters, 1);
LS_ARRAY(ls_top, struct ls_top, 1);
LS_ARRAY(ls_ledger, struct ls_ledger, 1);
LS_ARRAY(ls_state, struct ls_state, 1);
LS_ARRAY(ls_hot, struct ls_hot, 1);
LS_ARRAY(ls_hot_cpus, struct ls_hot_cpu, 1);
LS_ARRAY(ls_retired, struct ls_counters, 1);
LS_ARRAY(ls_events, struct ls_event_ring, 1);
LS_ARRAY(ls_offered, struct ls_offered, 1);
LS_ARRAY(ls_flows, struct ls_flow_line, LS_FLOW_LINES);
LS_ARRAY_OF_ARRAYS(ls_lists, 2, sizeof(struct ls_line));
LS_ARRAY_OF_ARRAYS(ls_texts, 2, LS_TEXT_CHUNK);

/* The one map that is no array: no packet looks into it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(key_size, sizeof(struct ls_ban_text_key));
	__uint(value_size, sizeof(struct ls_ban_text));
} ls_ban_texts SEC(".maps");

/*
 * What has a fixed size is the object's section .bss instead, a map of one element: its address is a constant of the
 * program, so an access costs no look-up. In a look-up the index goes to the stack and comes back, five cycles of
 * latency each; a verdict had six of them in a row.
 */
struct ls_static ls_static;

/* The control record, in a section of its own for the same reason. */
struct ls_control ls_control SEC(".data.control");

/* What the sampling of events counts: pinned nowhere, so it starts anew with each program. */
struct ls_samples ls_samples[LS_CPUS] SEC(".data.samples");
/* Levels, guard and breakers: read while LS_WORD_LEVEL is set. */
struct ls_overload ls_overload SEC(".data.overload");

/* One packet's clock in and verdict out, for replay and tests; a live program never touches it. */
struct ls_replay_abi ls_replay SEC(".data.replay");

/* Set before loading, constants of the verifier after it (the host build of the tests sets them, too). */
#ifndef LS_LOAD_CONSTANT
#define LS_LOAD_CONSTANT const volatile
#endif
LS_LOAD_CONSTANT __u32 ls_is_replay = 0;
LS_LOAD_CONSTANT __u32 ls_table_base[LS_TABLES] = { 0 }; /* first set of each table in ls_ways */
LS_LOAD_CONSTANT __u32 ls_table_mask[LS_TABLES] = { 0 }; /* and its sets - 1 */
LS_LOAD_CONSTANT __u32 ls_ban_mask = 0;
LS_LOAD_CONSTANT __u32 ls_banks = 1;

#endif
