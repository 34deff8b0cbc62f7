/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_MAPS_H
#define LOADSHED_MAPS_H

/*
 * The maps by name (at most 15 characters), what an element is and how it is indexed. All but the last are arrays,
 * mapped into user space, so reading costs no system call.
 * g is a generation, 0 or 1.
 *
 *   name         element               index
 *   ls_control   struct ls_control     one (the object's section .data.control)
 *   ls_tables    struct ls_tables      one (the object's section .bss), then the program's private records
 *   ls_lists     map of maps           g; inner: array of struct ls_line, made at apply; absent: no lists
 *   ls_ways      struct ls_ways        ls_table_base[table] + set, LS_TABLE_*: the four tables one after another
 *   ls_logs      struct ls_log         set of the log table * LS_WAYS + way
 *   ls_strikes   struct ls_strikes     set of the strike table; the way's state is the tick of the first refusal
 *   ls_bans      struct ls_bans        set
 *   ls_ban_info  struct ls_ban_info    set
 *   ls_counters  struct ls_counters    CPU * banks + bank
 *   ls_overload  struct ls_overload    one (the object's section .data.overload)
 *   ls_offered   struct ls_offered     CPU
 *   ls_flows     struct ls_flow_line   line
 *   ls_top       struct ls_top         CPU
 *   ls_ledger    struct ls_ledger      one; user space only
 *   ls_texts     map of maps           g; inner: the policy as a blob of 4096-byte elements; user space only
 *   ls_state     struct ls_state       one; user space only
 *   ls_hot       struct ls_hot         one; packets read sets, limits and more, serve writes
 *   ls_hot_cpus  struct ls_hot_cpu     CPU
 *   ls_retired   struct ls_counters    one; user space only: sums of interfaces that were detached
 *   ls_events    struct ls_event_ring  CPU; the last one is the journal of user space
 *   ls_ban_texts struct ls_ban_text    hash by struct ls_ban_text_key; user space only
 *
 * The number of sets is fixed when the maps are made and is a power of two.
 */
#endif
