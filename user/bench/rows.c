/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/bench/internal.h"

/* The rows that are a table: which policy, which frames, from how many sources, against what. */

#define OF(what, count) ((struct ls_recipe){ LS_RECIPE_##what, count })
#define LIMITS(count) OF(LIMITS, count)
/* A frame of UDP; what more there is to it follows. */
#define FRAME_TO(to, of, ...)                                                                      \
	((struct ls_gen_kind){ .family = of, .protocol = 17, .port = to, ##__VA_ARGS__ })
#define FRAME(of, ...) FRAME_TO(LS_RECIPE_PORT, of, ##__VA_ARGS__)
#define UDP4 FRAME(4)
#define UDP6 FRAME(6)
#define UDP4_LAST(count) FRAME_TO(LS_RECIPE_PORT + (count)-1, 4)

/* Over XDP_DROP; over another policy and frame; a goal or rivals may follow. */
#define ROW(text, policy, kind, from, ...)                                                         \
	{                                                                                          \
		.name = text, .recipe = policy, .frame = kind, .sources = from, ##__VA_ARGS__      \
	}
#define ROW_OVER(text, policy, kind, from, other, other_kind, ...)                                 \
	ROW(text, policy, kind, from, .base = other, .base_frame = other_kind, ##__VA_ARGS__)

#define SPOOFED 0
#define BIT(rival) (1U << LS_RIVAL_##rival)
#define BUCKETS (BIT(LRU) | BIT(PERCPU) | BIT(LOCK))

#define RUN(over, works)                                                                           \
	ls_bench_works(bench, over, works, sizeof(works) / sizeof((works)[0]), error)

int ls_bench_limits(struct ls_bench *bench, struct ls_error *error)
{
	static const struct ls_report_group group = {
		.name = "limits",
		.title = "ns over XDP_DROP; rivals: a bucket, no more",
		.rivals = { "LRU hash", "per-CPU hash", "spin lock" },
		.n_rivals = 3,
	};
	const struct ls_bench_work works[] = {
		ROW("one limit, 1 source", LIMITS(1), UDP4, 1, .rivals = BUCKETS),
		ROW("one limit, 1 k sources", LIMITS(1), UDP4, 1000, .rivals = BUCKETS, .goal = 25),
		ROW("one limit, 1 k sources, all refused", OF(REFUSED, 1), UDP4, 1000),
		ROW("one limit, 1 k sources, half refused", OF(HALF, 1), FRAME(4, .ports = 2),
		    1000),
		ROW("three limits, 1 k sources", LIMITS(3), UDP4, 1000, .goal = 45),
		ROW("first of three refuses, 1 k sources", OF(REFUSED, 3), UDP4, 1000),
		ROW("eight limits, 1 k sources", LIMITS(8), UDP4, 1000),
		ROW("IPv6: one limit, 1 k sources", LIMITS(1), UDP6, 1000, .rivals = BIT(LRU)),
		ROW("one limit, 131 k sources", LIMITS(1), UDP4, 131072, .rivals = BUCKETS),
		ROW("one limit, 1 M sources", LIMITS(1), UDP4, 1000000, .rivals = BUCKETS,
		    .goal = 150),
		ROW("one limit, 1 M sources, all refused", OF(REFUSED, 1), UDP4, 1000000),
		ROW("three limits, 1 M sources", LIMITS(3), UDP4, 1000000),
		ROW("IPv6: one limit, 1 M sources", LIMITS(1), UDP6, 1000000, .rivals = BIT(LRU)),
		ROW("one limit, random spoofed sources", LIMITS(1), UDP4, SPOOFED,
		    .rivals = BIT(LRU), .goal = LS_BENCH_GOAL_MILLION),
	};

	ls_report_group(bench->report, &group);
	return RUN("XDP_DROP", works);
}

int ls_bench_classes(struct ls_bench *bench, struct ls_error *error)
{
	static const struct ls_report_group group = {
		.name = "classes",
		.title = "ns over one class, 1 k sources",
	};
	const struct ls_bench_work works[] = {
		ROW_OVER("last of 64 classes", OF(CLASSES, 64), UDP4_LAST(64), 1000, OF(CLASSES, 1),
			 UDP4),
		ROW_OVER("last of 256 classes", OF(CLASSES, 256), UDP4_LAST(256), 1000,
			 OF(CLASSES, 1), UDP4, .goal = 3),
	};

	ls_report_group(bench->report, &group);
	return RUN("one class", works);
}

int ls_bench_lists(struct ls_bench *bench, struct ls_error *error)
{
	static const struct ls_report_group group = {
		.name = "lists",
		.title = "ns over no lists; rival: over XDP_DROP",
		.rivals = { "LPM trie" },
		.n_rivals = 1,
	};
#define LIST(of, text, count, from, ...)                                                           \
	ROW_OVER(text, OF(LIST##of, count), UDP##of, from, LIMITS(1), UDP##of,                     \
		 .rivals = BIT(TRIE##of), ##__VA_ARGS__)
	const struct ls_bench_work works[] = {
		LIST(4, "1 k IPv4 prefixes, 1 k sources", 1000, 1000),
		LIST(4, "1 k IPv4 prefixes, random sources", 1000, SPOOFED),
		LIST(4, "120 k IPv4 prefixes, 1 k sources", 120000, 1000),
		LIST(4, "120 k IPv4 prefixes, random sources", 120000, SPOOFED),
		LIST(4, "1 M IPv4 prefixes, 1 k sources", 1000000, 1000, .goal = 5),
		LIST(4, "1 M IPv4 prefixes, random sources", 1000000, SPOOFED, .goal = 50),
		LIST(6, "1 k IPv6 prefixes, 1 k sources", 1000, 1000),
		LIST(6, "1 k IPv6 prefixes, random sources", 1000, SPOOFED),
		LIST(6, "120 k IPv6 prefixes, 1 k sources", 120000, 1000),
		LIST(6, "120 k IPv6 prefixes, random sources", 120000, SPOOFED, .goal = 150),
		LIST(6, "1 M IPv6 prefixes, 1 k sources", 1000000, 1000),
		LIST(6, "1 M IPv6 prefixes, random sources", 1000000, SPOOFED),
		ROW_OVER("all of IPv4 is denied, 1 k sources", OF(DENIED, 1), UDP4, 1000, LIMITS(1),
			 UDP4),
	};
#undef LIST

	ls_report_group(bench->report, &group);
	return RUN("no lists", works);
}

int ls_bench_bans(struct ls_bench *bench, struct ls_error *error)
{
	static const struct ls_report_group group = {
		.name = "bans",
		.title = "ns over no bans, 1 k sources",
	};
	const struct ls_bench_work works[] = {
		ROW_OVER("1 source is banned, others send", OF(BANS, 1), UDP4, 1000, LIMITS(1),
			 UDP4),
		ROW_OVER("5 k sources are banned, others send", OF(BANS, 5000), UDP4, 1000,
			 LIMITS(1), UDP4),
		ROW_OVER("all 1 k sources are banned", OF(BANNED, 1000), UDP4, 1000, LIMITS(1),
			 UDP4),
	};

	ls_report_group(bench->report, &group);
	return RUN("no bans", works);
}

int ls_bench_frames(struct ls_bench *bench, struct ls_error *error)
{
	static const struct ls_report_group group = {
		.name = "frames",
		.title = "ns over the plain frame, 1 k sources",
	};
	const struct ls_bench_work works[] = {
		ROW_OVER("one VLAN tag", LIMITS(1), FRAME(4, .tags = 1), 1000, LIMITS(1), UDP4),
		ROW_OVER("two VLAN tags", LIMITS(1), FRAME(4, .tags = 2), 1000, LIMITS(1), UDP4),
		ROW_OVER("IPv6 instead of IPv4", LIMITS(1), UDP6, 1000, LIMITS(1), UDP4),
		ROW_OVER("IPv6: one extension header", LIMITS(1), FRAME(6, .extensions = 1), 1000,
			 LIMITS(1), UDP6),
		ROW_OVER("IPv6: four extension headers", LIMITS(1), FRAME(6, .extensions = 4), 1000,
			 LIMITS(1), UDP6),
	};

	ls_report_group(bench->report, &group);
	return RUN("the plain frame", works);
}
