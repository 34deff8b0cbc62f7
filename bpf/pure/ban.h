/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_PURE_BAN_H
#define LOADSHED_PURE_BAN_H

/*
 * Bans: where one lives, what its words mean, and how a way is taken. The kernel bans by class and user
 * space bans by hand, at the same time and on the same table, so both go by this file.
 *
 * A ban lives in its home set or, when that was full, in its other set; way 0 of the home set then says so,
 * so that a packet looks at the other set only where it must. Nothing but its end, or who put it there,
 * takes a ban out: traffic never evicts one. The mark in way 0 stays; it costs a look and no correctness.
 *
 * Taking a way: CAS until (free or ended) -> LS_STATE_BUSY, write subject and info, then store until. A
 * reader between the steps sees BUSY, which is no subject's kind, so it never sees half a ban.
 */

#include "loadshed/table_abi.h"
#include "pure/base.h"

/* What kind of subject a prefix is: IPv4 1 to 32 bits, IPv6 1 to 64 bits. */
LS_INLINE __u64 ls_ban_kind(__u32 length, int is_ipv6)
{
	if (!is_ipv6)
		return LS_BAN_KIND_IPV4;
	return length == 64 ? LS_BAN_KIND_IPV6 : LS_BAN_KIND_IPV6_SHORT;
}

/*
 * A prefix as one word. `word` is the IPv4 address or the first 64 bits of an IPv6 address, in host order; what
 * lies behind `length` does not matter. IPv4: length << 32 | masked address. IPv6: the masked word, and for
 * fewer than 64 bits a 1 behind them, which tells the length.
 */
LS_INLINE __u64 ls_ban_subject(__u64 word, __u32 length, int is_ipv6)
{
	__u32 host = (is_ipv6 ? 64U : 32U) - length;
	if (host)
		word = (word >> (host & 63) << (host & 63)) |
		       (is_ipv6 ? 1ULL << ((host - 1) & 63) : 0);
	return is_ipv6 ? word : (__u64)length << 32 | word;
}

/* The way back: the masked word and the length. */
LS_INLINE __u64 ls_ban_word_of(__u64 subject, __u64 kind, __u32 *ret_length)
{
	if (kind == LS_BAN_KIND_IPV4) {
		*ret_length = (__u32)(subject >> 32);
		return subject & 0xffffffffULL;
	}
	*ret_length = 64;
	if (kind == LS_BAN_KIND_IPV6 || !subject)
		return subject;
	*ret_length = 63;
	for (__u64 bit = 1; !(subject & bit); bit <<= 1)
		(*ret_length)--;
	return subject & (subject - 1);
}

/* Places of a subject: home in the top 32 bits, other in the low 32 bits; `key` is ls_control.hash_key. */
LS_INLINE __u64 ls_ban_place(const __u64 *key, __u64 subject, __u64 kind)
{
	__u64 home =
		key[28] + key[1] * (__u32)subject + key[2] * (__u32)(subject >> 32) + key[3] * kind;
	__u64 other = key[29] + key[17] * (__u32)subject + key[18] * (__u32)(subject >> 32) +
		      key[19] * kind;
	return (home & 0xffffffff00000000ULL) | other >> 32;
}

/* `until` of a ban that ends at end_ns since the epoch; below 2^61. */
LS_INLINE __u64 ls_ban_until(__u64 end_ns, __u64 kind)
{
	return end_ns << LS_BAN_END_SHIFT | kind;
}

/* Nanoseconds since the epoch at which it ends. */
LS_INLINE __u64 ls_ban_end(__u64 until)
{
	return until >> LS_BAN_END_SHIFT;
}

LS_INLINE int ls_ban_is_live(__u64 until, __u64 now_ns)
{
	return ls_ban_end(until) > now_ns;
}

/* Way of `set` that bans the subject, live or not; -1: none. *ret_until is what it said. */
LS_INLINE int ls_ban_find(const struct ls_bans *set, __u64 subject, __u64 kind, __u64 *ret_until)
{
	for (int i = 0; i < LS_WAYS; i++) {
		__u64 until = LS_READ_ONCE(set->way[i].until);
		/* The end first: once it is live, the subject before it stays. */
		if (LS_READ_ONCE(set->way[i].subject) != subject ||
		    (until & LS_BAN_KIND_MASK) != kind)
			continue;
		*ret_until = until;
		return i;
	}
	return -1;
}

#define LS_BAN_PUT 1
#define LS_BAN_FULL 0

/*
 * Puts or prolongs a ban in one set: the later end wins. Returns LS_BAN_PUT, or LS_BAN_FULL when no way is
 * free. Any number of CPUs and processes may do so at once; a way lost to another is tried no second time
 * but the next one is.
 */
LS_INLINE int ls_ban_put(struct ls_bans *set, struct ls_ban_info *info, __u64 subject, __u64 kind,
			 __u64 end_ns, __u64 now_ns, __u32 what)
{
	__u64 wanted = ls_ban_until(end_ns, kind);
	__u64 until;
	int way = ls_ban_find(set, subject, kind, &until);
	if (way >= 0) {
		way &= LS_WAYS - 1;
		if (until >> LS_BAN_END_SHIFT >= wanted >> LS_BAN_END_SHIFT)
			return LS_BAN_PUT;
		info->way[way] = what;
		wanted |= until & LS_BAN_OVERFLOWED;
		if (__sync_val_compare_and_swap(&set->way[way].until, until, wanted) == until)
			return LS_BAN_PUT;
	}
	for (int i = 0; i < LS_WAYS; i++) {
		until = LS_READ_ONCE(set->way[i].until);
		if (until == LS_STATE_BUSY || ls_ban_is_live(until, now_ns))
			continue;
		if (__sync_val_compare_and_swap(&set->way[i].until, until, LS_STATE_BUSY) != until)
			continue;
		LS_WRITE_ONCE(set->way[i].subject, subject);
		LS_WRITE_ONCE(info->way[i], what);
		/* A full exchange: the subject is out before the ban is live. */
		__sync_lock_test_and_set(&set->way[i].until,
					 ls_ban_until(end_ns, kind) | (until & LS_BAN_OVERFLOWED));
		return LS_BAN_PUT;
	}
	return LS_BAN_FULL;
}

/* Marks a home set whose ban went to the other set; 0 when way 0 was being claimed (then try again). */
LS_INLINE int ls_ban_mark(struct ls_bans *home)
{
	__u64 until = LS_READ_ONCE(home->way[0].until);
	if (until & LS_BAN_OVERFLOWED && until != LS_STATE_BUSY)
		return 1;
	return until != LS_STATE_BUSY &&
	       __sync_val_compare_and_swap(&home->way[0].until, until, until | LS_BAN_OVERFLOWED) ==
		       until;
}

#endif
