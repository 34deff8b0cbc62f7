/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/policy/reader.h"

/*
 * Limits. A value is in range when it still is after the largest NAT factor, because that is what
 * the kernel will hold for some source.
 */

#include <stdio.h>
#include <string.h>

#include "user/base/error.h"

/*
 * Largest burst after a NAT factor, in items or bytes: no rate up to 1 Tbit/s needs more (2 h of
 * it), and every product with a period or a factor stays within 128 bits.
 */
#define BURST_MAX 1000000000000000ULL

/* The default burst of a byte limit is at least one merged packet. */
#define BURST_BYTES_MIN (64ULL << 10)

static const char *const limit_keys[] = { "name",  "per",   "count",  "algorithm", "rate",
					  "burst", "limit", "window", "scope",	   "on_loss" };

static int read_per(struct ls_reader *reader, const struct ls_node *node, struct ls_limit *limit)
{
	static const char *const keys[] = { "ipv4", "ipv6" };
	const struct ls_node *ipv4, *ipv6;
	uint64_t bits4 = 32, bits6 = 64;
	unsigned per = LS_PER_SOURCE;

	if (node->kind == LS_NODE_TEXT) {
		if (ls_reader_word(reader, node, "per", ls_per_names, LS_PER_MAX, &per) < 0)
			return -1;
		limit->per = per;
		return 0;
	}
	if (ls_reader_map(reader, node, "per", keys, LS_LENGTH(keys)) < 0)
		return -1;
	if (node->count == 0)
		return ls_refuse(reader, node,
				 "per is empty; write a word, such as 'per: source', "
				 "or { ipv4: 24, ipv6: 48 }");
	ipv4 = ls_node_get(node, "ipv4");
	ipv6 = ls_node_get(node, "ipv6");
	if (ipv4 && ls_reader_number(reader, ipv4, "ipv4", 0, 32, &bits4) < 0)
		return -1;
	if (ipv6 && ls_reader_number(reader, ipv6, "ipv6", 0, 128, &bits6) < 0)
		return -1;
	if (bits4 == 0 || bits6 == 0)
		return ls_refuse(reader, bits4 == 0 ? ipv4 : ipv6,
				 "a prefix of length 0 is everybody; write 'per: class' for that");
	limit->per = LS_PER_PREFIX;
	limit->per_ipv4 = (uint8_t)bits4;
	limit->per_ipv6 = (uint8_t)bits6;
	return 0;
}

/* What the range checks multiply with: only limits per source get looser by NAT. */
static uint32_t factor_of(const struct ls_reader *reader, const struct ls_limit *limit)
{
	return limit->per == LS_PER_SOURCE ? reader->factor : 1;
}

/* " times the NAT factor 32", or "" without. */
static const char *factor_clause(uint32_t factor, char text[static 48])
{
	text[0] = '\0';
	if (factor > 1)
		snprintf(text, 48, " times the NAT factor %u", factor);
	return text;
}

static int check_rate_factor(struct ls_reader *reader, const struct ls_node *node,
			     const struct ls_limit *limit)
{
	const bool bytes = limit->count == LS_COUNT_BYTES;
	const struct ls_rate highest =
		ls_rate_make(bytes ? LS_RATE_BYTES_MAX : LS_RATE_ITEMS_MAX, LS_NS_PER_S);
	const uint32_t factor = factor_of(reader, limit);
	char clause[48];

	if (ls_rate_compare(ls_rate_scale(limit->rate, factor, 1), highest) <= 0)
		return 0;
	return ls_refuse(reader, node, "rate %s%s is out of range; it is up to %s", node->text,
			 factor_clause(factor, clause), bytes ? "1000Gbit/s" : "4G/s");
}

/* The time that the burst takes to refill must fit the kernel's clock arithmetic (bounds.h). */
static int check_refill(struct ls_reader *reader, const struct ls_node *node,
			const struct ls_limit *limit)
{
	__extension__ typedef unsigned __int128 wide;
	/* burst <= 10^15 and period <= 8.64 * 10^16 ns: the products stay below 2^120. */
	const wide refill = (wide)limit->burst * limit->rate.period_ns / limit->rate.units;
	const wide highest = LS_TAU_TICKS_MAX >> LS_TICKS_PER_NS_SHIFT;
	char burst[LS_UNIT_TEXT], rate[LS_UNIT_TEXT];

	if (refill <= highest)
		return 0;
	if (limit->count == LS_COUNT_BYTES) {
		ls_size_format(limit->burst, burst);
		ls_rate_bytes_format(limit->rate, rate);
	} else {
		ls_count_format(limit->burst, burst);
		ls_rate_items_format(limit->rate, rate);
	}
	return ls_refuse(reader, node,
			 "a burst of %s takes %llu days to refill at %s, and it must be less than "
			 "%llu days; lower the burst or raise the rate",
			 burst, (unsigned long long)(refill / LS_NS_PER_DAY), rate,
			 (unsigned long long)(highest / LS_NS_PER_DAY + 1));
}

static uint64_t default_burst(const struct ls_limit *limit)
{
	const uint64_t second = ls_rate_over(limit->rate, LS_NS_PER_S);

	if (limit->count == LS_COUNT_BYTES)
		return second > BURST_BYTES_MIN ? second : BURST_BYTES_MIN;
	return second; /* at least 1, since it is rounded up */
}

/* Items, or bytes with their unit; 1 to `highest`. */
static int read_amount(struct ls_reader *reader, const struct ls_node *node, const char *what,
		       const struct ls_limit *limit, uint64_t highest, uint64_t *ret)
{
	if (limit->count == LS_COUNT_BYTES)
		return ls_reader_size(reader, node, what, highest, ret);
	return ls_reader_count(reader, node, what, 1, highest, ret);
}

static int read_bucket(struct ls_reader *reader, const struct ls_node *node, struct ls_limit *limit)
{
	const struct ls_node *const rate = ls_node_get(node, "rate");
	const struct ls_node *const burst = ls_node_get(node, "burst");
	const struct ls_node *const amount = ls_node_get(node, "limit");
	const struct ls_node *const window = ls_node_get(node, "window");
	const bool bytes = limit->count == LS_COUNT_BYTES;
	char clause[48];
	uint32_t factor;

	if (amount || window)
		return ls_refuse(reader, (amount ? amount : window)->key,
				 "'%s' does not apply to a token bucket; write rate and burst, or "
				 "an algorithm such as sliding-window",
				 (amount ? amount : window)->key->text);
	if (!rate)
		return ls_refuse(reader, node, "the limit '%s' has no rate", limit->name);
	if (ls_reader_rate(reader, rate, "rate", bytes, &limit->rate) < 0 ||
	    check_rate_factor(reader, rate, limit) < 0)
		return -1;

	limit->burst = default_burst(limit);
	if (burst && read_amount(reader, burst, "burst", limit, BURST_MAX, &limit->burst) < 0)
		return -1;
	factor = factor_of(reader, limit);
	if (limit->burst > BURST_MAX / factor)
		return ls_refuse(reader, burst ? burst : rate,
				 "the burst%s is out of range; it is up to %s",
				 factor_clause(factor, clause), bytes ? "1000000GB" : "1000000G");
	return check_refill(reader, burst ? burst : rate, limit);
}

/* Largest `limit` of each window algorithm, after a NAT factor; see bounds.h. */
static const uint64_t window_limit_max[LS_ALGORITHM_MAX] = {
	[LS_FIXED_WINDOW] = LS_FIXED_LIMIT_MAX,
	[LS_SLIDING_WINDOW] = LS_SLIDING_LIMIT_MAX,
	[LS_SLIDING_LOG] = LS_LOG_STAMPS,
};

static int read_window(struct ls_reader *reader, const struct ls_node *node,
		       const struct ls_node *algorithm, struct ls_limit *limit)
{
	const struct ls_node *const rate = ls_node_get(node, "rate");
	const struct ls_node *const burst = ls_node_get(node, "burst");
	const struct ls_node *const amount = ls_node_get(node, "limit");
	const struct ls_node *const window = ls_node_get(node, "window");
	const char *const name = ls_algorithm_names[limit->algorithm];
	const uint64_t highest = window_limit_max[limit->algorithm];
	const uint32_t factor = factor_of(reader, limit);
	char clause[48];

	if (rate || burst)
		return ls_refuse(reader, (rate ? rate : burst)->key,
				 "'%s' does not apply to a %s; write limit and window, or leave "
				 "the algorithm out for a token bucket",
				 (rate ? rate : burst)->key->text, name);
	if (limit->count == LS_COUNT_BYTES && limit->algorithm != LS_FIXED_WINDOW)
		return ls_refuse(reader, algorithm,
				 "a %s does not count bytes; use a token-bucket or a fixed-window",
				 name);
	if (!amount || !window)
		return ls_refuse(reader, node, "the limit '%s' has no %s, which a %s needs",
				 limit->name, amount ? "window" : "limit", name);
	if (read_amount(reader, amount, "limit", limit, highest, &limit->limit) < 0)
		return -1;
	if (limit->limit > highest / factor)
		return ls_refuse(reader, amount,
				 "limit %s%s is out of range; a %s holds up to %llu", amount->text,
				 factor_clause(factor, clause), name, (unsigned long long)highest);
	return ls_reader_time(reader, window, "window", LS_WINDOW_NS_MIN, LS_WINDOW_NS_MAX,
			      &limit->window_ns);
}

static int read_limit(struct ls_reader *reader, const struct ls_node *node,
		      const struct ls_class *class, struct ls_limit *limit)
{
	const struct ls_node *name, *per, *count, *algorithm;
	unsigned chosen = 0;

	if (ls_reader_map(reader, node, "a limit", limit_keys, LS_LENGTH(limit_keys)) < 0)
		return -1;
	name = ls_node_get(node, "name");
	per = ls_node_get(node, "per");
	count = ls_node_get(node, "count");
	algorithm = ls_node_get(node, "algorithm");
	snprintf(limit->name, sizeof(limit->name), "limit-%zu", class->n_limits + 1);
	if (name && ls_reader_name(reader, name, "name of a limit", limit->name) < 0)
		return -1;
	for (size_t i = 0; i < class->n_limits; i++) {
		if (strcmp(class->limits[i].name, limit->name) == 0)
			return ls_refuse(
				reader, name ? name : node,
				"the class has a limit '%s' already; give this one another "
				"name",
				limit->name);
	}
	if (per && read_per(reader, per, limit) < 0)
		return -1;
	if (count &&
	    ls_reader_word(reader, count, "count", ls_count_names, LS_COUNT_MAX, &chosen) < 0)
		return -1;
	limit->count = chosen;
	if (limit->count == LS_COUNT_CONNECTIONS && class->match.protocols.count > 0 &&
	    !ls_ranges_hold(&class->match.protocols, 6))
		return ls_refuse(reader, count,
				 "'connections' does not apply: the protocol of the class is not "
				 "tcp; count packets");
	chosen = LS_TOKEN_BUCKET;
	if (algorithm && ls_reader_word(reader, algorithm, "algorithm", ls_algorithm_names,
					LS_ALGORITHM_MAX, &chosen) < 0)
		return -1;
	limit->algorithm = chosen;
	if (ls_read_scope(reader, node, limit) < 0)
		return -1;
	return limit->algorithm == LS_TOKEN_BUCKET ? read_bucket(reader, node, limit)
						   : read_window(reader, node, algorithm, limit);
}

int ls_read_limits(struct ls_reader *reader, const struct ls_node *node, struct ls_class *class)
{
	if (node->kind != LS_NODE_LIST)
		return ls_refuse(reader, node,
				 "limits must be a list, such as [{ rate: 10k/s }]; [] for none");
	for (const struct ls_node *item = node->first; item; item = item->next) {
		struct ls_limit limit = { .per = LS_PER_SOURCE };

		if (class->n_limits == LS_CLASS_LIMITS)
			return ls_refuse(reader, item, "a class has at most %d limits",
					 LS_CLASS_LIMITS);
		if (read_limit(reader, item, class, &limit) < 0)
			return -1;
		class->limits[class->n_limits++] = limit;
	}
	return 0;
}
