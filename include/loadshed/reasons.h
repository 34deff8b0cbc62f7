/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_REASONS_H
#define LOADSHED_REASONS_H

/*
 * Why a packet got its verdict: one list for stats, metrics, events, replay and explain.
 * The text is what users see; the order is ABI (counters are indexed by it): append only.
 */
#define LS_REASONS(X)                                                                              \
	X(NON_IP, "non-ip")	  /* no IPv4 and no IPv6: passed */                                \
	X(CONTROL, "control")	  /* what keeps links alive, and ICMP errors in their budget */    \
	X(ALLOW, "allow")	  /* the source is in `allow` */                                   \
	X(UNMATCHED, "unmatched") /* no class matched */                                           \
	X(ADMITTED, "admitted")	  /* every limit of its class had room */                          \
	X(INTERNAL, "internal")	  /* trouble of our own: passed, never an outage */                \
	X(MALFORMED, "malformed")                                                                  \
	X(DENY, "deny")                                                                            \
	X(BAN, "ban")                                                                              \
	X(LIMIT, "limit")                                                                          \
	X(CROWD, "crowd") /* the source table had no place: the limit's shared bucket refused */   \
	X(OVERLOAD, "overload")                                                                    \
	X(PANIC, "panic")

enum ls_reason {
#define LS_REASON_ENUM(id, text) LS_REASON_##id,
	LS_REASONS(LS_REASON_ENUM)
#undef LS_REASON_ENUM
		LS_REASON_MAX,
};

#define LS_REASON_DROPS(reason) ((reason) >= LS_REASON_MALFORMED)

/*
 * What happened to it. A would-drop is a packet that an enforcing policy would have dropped: it is
 * passed on, counted once, and is a subset of what passed.
 */
#define LS_VERDICTS(X)                                                                             \
	X(PASS, "pass")                                                                            \
	X(DROP, "drop")                                                                            \
	X(WOULD_DROP, "would-drop")

enum ls_verdict {
#define LS_VERDICT_ENUM(id, text) LS_VERDICT_##id,
	LS_VERDICTS(LS_VERDICT_ENUM)
#undef LS_VERDICT_ENUM
		LS_VERDICT_MAX,
};

/* Where a ban came from. */
#define LS_ORIGINS(X)                                                                              \
	X(OPERATOR, "operator")                                                                    \
	X(IMPORT, "import")                                                                        \
	X(CLASS, "class")                                                                          \
	X(CLUSTER, "cluster")

enum ls_origin {
#define LS_ORIGIN_ENUM(id, text) LS_ORIGIN_##id,
	LS_ORIGINS(LS_ORIGIN_ENUM)
#undef LS_ORIGIN_ENUM
		LS_ORIGIN_MAX,
};

#endif
