/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/cleanup.h"
#include "user/policy/compile_lists.h"
#include "user/policy/compile_stack.h"

/*
 * The tables that tell an address's label (layout: policy_abi.h).
 *
 * IPv4: one cell for each /24, painted from left to right: the walk knows which prefix is
 * innermost, so every cell is written once however deep prefixes are nested. Prefixes longer than
 * /24 are in a hash table, and the cell says which of their lengths occur, so most addresses need
 * one read. 34 MB are in no cache, though, so what is asked first is small: a word for each /16, and
 * where that does not tell, a bit for each /24 (policy_abi.h).
 *
 * IPv6: bisection over the prefix lengths in use (Waldvogel, Varghese, Turner, Plattner: Scalable
 * high speed IP routing lookups, SIGCOMM 1997). A prefix of length L is only found if bisection
 * turns towards longer lengths at every shorter one that it visits on the way to L; so there stands
 * a marker, unless a prefix does. A marker carries the label of the longest prefix that covers it,
 * so bisection never has to go back. Sorted prefixes that share a marker are neighbours:
 * remembering the last one of each length keeps markers unique.
 *
 * Both hash tables have buckets of one cache line and two candidates for each key, filled by cuckoo
 * moves (Pagh and Rodler 2004; several entries in a bucket: Dietzfelbinger and Weidling 2007), so
 * that a look-up reads at most two lines. The first candidate is preferred, so most look-ups that
 * find something read one. With random multipliers placement almost never fails at the loads used
 * here; if it does, others are drawn, and in the end the table grows.
 *
 * Roots: bisection asks about four lengths for an address that is in no list, and that is what a
 * flood has. The first bits of all prefixes, as many as there can be without a prefix that is too short
 * for them having to be written out too often, are in the filter as well and are asked before.
 *
 * Costs: 34 MiB of cells as soon as there is one IPv4 prefix; 10 to 20 bytes for each longer one;
 * IPv6 80 to 160 bytes for each prefix or marker. With the walk before it (compile_lists.c), a
 * million random hosts take 45 to 60 ms, the 172 k prefixes of the world's IPv4 20 ms, 73 k of IPv6
 * 30 ms (2-core VM).
 */

#define CELLS (1U << 24)
#define CELLS_PER_NET (CELLS / LS_NETS4)
#define CELL_PREFIX 24

#define LINE_WORDS 8U
#define HOST_WORDS 1U
#define NET_WORDS 4U

/* Well below the thresholds of two candidates: 99.9 % for 8 entries in a bucket, 89 % for 2. */
#define HOSTS_LOAD_PERCENT 80
#define NETS_LOAD_PERCENT 40
/* A line of the filter for 32 lines of the table, so for at most 26 entries: 20 bits each, 0.3 % false. */
#define FILTER_SHIFT 5
/* Roots: with so few lengths bisection is as short. Of so few bits, nearly all that is in use would be a root; of more
 * than 64, they would be of a second word. */
#define ROOT_LENGTHS 2
#define ROOT_MIN 24
#define ROOT_MAX 64
#define MOVES_MAX 512 /* of one entry; at these loads more than a few dozen are already rare */
#define DRAWS_MAX 8   /* of multipliers, before the table that failed grows */
#define BITS_MAX 26   /* 4 GiB: the multipliers are not random */

static_assert(LS_CELLS4_LINES * sizeof(struct ls_line) == CELLS * sizeof(uint16_t), "all cells");
static_assert(LS_MARKS4_LINES * sizeof(struct ls_line) * 8 == CELLS, "a bit for each");
static_assert(sizeof(struct ls_net6) == NET_WORDS * sizeof(uint64_t), "entries are words");
static_assert(sizeof(struct ls_line) == LINE_WORDS * sizeof(uint64_t), "lines are words");

/* ---- hash tables ---- */

struct table {
	struct ls_line *lines;
	unsigned bits;	      /* 2^bits lines */
	unsigned entry_words; /* HOST_WORDS or NET_WORDS */
	const __u64 *seed;
	uint8_t *filled; /* entries by line */
	uint64_t dice;	 /* which entry has to move */
};

static void host_lines(const struct table *table, const uint64_t *entry, uint32_t ret[2])
{
	const uint32_t address = (uint32_t)(*entry >> 32);
	const uint32_t length = *entry >> 8 & 0xff;
	const uint64_t x = address ^ length * 0x9E3779B9U;

	ret[0] = (uint32_t)(x * table->seed[0] >> (64 - table->bits));
	ret[1] = (uint32_t)(x * table->seed[1] >> (64 - table->bits));
}

static void net_hashes(const struct table *table, const uint64_t *entry, uint64_t ret[2])
{
	const uint64_t high = entry[0], low = entry[1], length = entry[2];
	const uint64_t high_low = (uint32_t)high, high_high = high >> 32;
	const uint64_t low_low = (uint32_t)low, low_high = low >> 32;
	const __u64 *seed = table->seed;
	const uint64_t first = high_low * seed[0] + high_high * seed[1] + low_low * seed[2] +
			       low_high * seed[3] + length * seed[4];
	const uint64_t second = high_low * seed[5] + high_high * seed[6] + low_low * seed[7] +
				low_high * seed[1] + length * seed[3];

	ret[0] = first;
	ret[1] = second;
}

static void net_lines(const struct table *table, const uint64_t *entry, uint32_t ret[2])
{
	uint64_t hashes[2];

	net_hashes(table, entry, hashes);
	ret[0] = (uint32_t)(hashes[0] >> (64 - table->bits));
	ret[1] = (uint32_t)(hashes[1] >> (64 - table->bits));
}

static void entry_lines(const struct table *table, const uint64_t *entry, uint32_t ret[2])
{
	if (table->entry_words == HOST_WORDS)
		host_lines(table, entry, ret);
	else
		net_lines(table, entry, ret);
}

static bool put(struct table *table, uint32_t line, const uint64_t *entry)
{
	const unsigned at = table->filled[line] * table->entry_words;

	if (at == LINE_WORDS)
		return false;
	for (unsigned word = 0; word < table->entry_words; word++)
		table->lines[line].word[at + word] = entry[word];
	table->filled[line]++;
	return true;
}

/* Exchanges *entry with one of a full line. */
static void displace(struct table *table, uint32_t line, uint64_t *entry)
{
	unsigned at;

	table->dice = table->dice * 6364136223846793005ULL + 1442695040888963407ULL;
	at = (unsigned)(table->dice >> 32) % (LINE_WORDS / table->entry_words) * table->entry_words;
	for (unsigned word = 0; word < table->entry_words; word++) {
		const uint64_t moved = table->lines[line].word[at + word];

		table->lines[line].word[at + word] = entry[word];
		entry[word] = moved;
	}
}

/* false: after MOVES_MAX moves some entry still has no place, and is lost. */
static bool place(struct table *table, const uint64_t *entry)
{
	uint64_t homeless[NET_WORDS] = { 0 };
	uint32_t lines[2], line;

	entry_lines(table, entry, lines);
	if (put(table, lines[0], entry) || put(table, lines[1], entry))
		return true;
	memcpy(homeless, entry, table->entry_words * sizeof(*entry));
	line = lines[1];
	for (unsigned moves = 0; moves < MOVES_MAX; moves++) {
		displace(table, line, homeless);
		entry_lines(table, homeless, lines);
		line = lines[0] == line ? lines[1] : lines[0];
		if (put(table, line, homeless))
			return true;
	}
	return false;
}

static unsigned bits_for(size_t count, unsigned entry_words, unsigned load_percent)
{
	const size_t per_line = LINE_WORDS / entry_words;
	unsigned bits = 1; /* a shift by 64 - 0 would be undefined */

	while ((per_line << bits) * load_percent < count * 100)
		bits++;
	return bits;
}

/* ---- IPv4 ---- */

static unsigned host_length(uint64_t host)
{
	return host >> 8 & 0xff;
}

static bool place_hosts(struct table *table, const struct ls_lists *lists)
{
	for (size_t i = 0; i < lists->n_nets4; i++)
		if (host_length(lists->nets4[i]) > CELL_PREFIX && !place(table, &lists->nets4[i]))
			return false;
	return true;
}

/* Cells from `from` up to before `to`; bits of longer prefixes may be there already. */
static void paint(uint16_t *cells, uint32_t from, uint32_t to, unsigned label)
{
	if (label == 0)
		return; /* also keeps pages of what is in no list untouched */
	for (uint32_t cell = from; cell < to; cell++)
		cells[cell] = (uint16_t)(cells[cell] | label);
}

static void paint_cells(uint16_t *cells, const struct ls_lists *lists)
{
	struct {
		uint32_t end;
		unsigned label;
	} cover[CELL_PREFIX + 2] = { { .end = CELLS } };
	unsigned top = 0;
	uint32_t done = 0;

	for (size_t i = 0; i < lists->n_nets4; i++) {
		const uint64_t net = lists->nets4[i];
		const uint32_t cell = (uint32_t)(net >> 40);
		const unsigned length = host_length(net);

		if (length > CELL_PREFIX) {
			cells[cell] = (uint16_t)(cells[cell] | 1U << (8 + length - 25));
			continue;
		}
		for (; cover[top].end <= cell; top--) {
			paint(cells, done, cover[top].end, cover[top].label);
			done = cover[top].end;
		}
		paint(cells, done, cell, cover[top].label);
		done = cell;
		top++;
		cover[top].end = cell + (1U << (CELL_PREFIX - length));
		cover[top].label = net & 0xff;
	}
	for (; top > 0; top--) {
		paint(cells, done, cover[top].end, cover[top].label);
		done = cover[top].end;
	}
}

/* The word of a /16 in which longer prefixes lie, and the marks of its /24s that differ. That most of them are like
 * its first is a guess: a wrong one costs marks, no more. */
static uint16_t mark_cells(struct ls_line *lines, uint32_t net)
{
	const uint16_t *cells = (const uint16_t *)lines + net * CELLS_PER_NET;
	const uint16_t label = cells[0] & 0xff;
	__u64 *words = &lines[LS_MARK4_LINE(net << 16)].word[LS_MARK4_BIT(net << 16) / 64];

	for (unsigned i = 0; i < CELLS_PER_NET; i++)
		words[i / 64] |= (__u64)(cells[i] != label) << (i % 64);
	return LS_NET4_DEEP | label;
}

/* The word of each /16. Only those in which a prefix longer than /16 lies are looked at cell by cell. */
static void sum_up_cells(struct ls_image *image, const struct ls_lists *lists)
{
	const uint16_t *cells = (const uint16_t *)image->lines;

	memset(image->nets4, 0, sizeof(image->nets4));
	for (size_t i = 0; i < lists->n_nets4; i++) {
		const uint32_t net = (uint32_t)(lists->nets4[i] >> 48);
		const unsigned length = host_length(lists->nets4[i]);
		const uint32_t count = length < 16 ? 1U << (16 - length) : 1;

		for (uint32_t each = net; each < net + count; each++)
			/* Shorter ones come before what they cover. */
			image->nets4[each] = length > 16 ? LS_NET4_DEEP
							 : cells[each * CELLS_PER_NET];
	}
	for (uint32_t net = 0; net < LS_NETS4; net++)
		if (image->nets4[net] == LS_NET4_DEEP)
			image->nets4[net] = mark_cells(image->lines, net);
}

/* ---- IPv6 ---- */

struct nets {
	struct ls_net6 *items; /* owned */
	size_t count, capacity;
};

static void nets_fini(struct nets *nets)
{
	free(nets->items);
}

static int nets_add(struct nets *nets, struct ls_net6 net)
{
	if (nets->count == nets->capacity) {
		const size_t capacity = nets->capacity ? 2 * nets->capacity : 1024;
		struct ls_net6 *items = reallocarray(nets->items, capacity, sizeof(*items));

		if (!items)
			return -ENOMEM;
		nets->items = items;
		nets->capacity = capacity;
	}
	nets->items[nets->count++] = net;
	return 0;
}

/* Where bisection looks before each length: 128 lengths take at most 8 steps, the last its own. */
struct paths {
	uint8_t markers[LS_LENGTHS6][8]; /* shorter lengths only */
	uint8_t count[LS_LENGTHS6];
};

static void find_paths(struct paths *paths, const struct ls_generation_abi *generation)
{
	memset(paths, 0, sizeof(*paths));
	for (int i = 0; i < generation->n_lengths6; i++) {
		const uint8_t length = generation->lengths6[i];
		int low = 0, high = generation->n_lengths6 - 1, middle = (low + high) / 2;

		for (; middle != i; middle = (low + high) / 2) {
			if (middle > i) {
				high = middle - 1;
				continue;
			}
			paths->markers[length][paths->count[length]++] =
				generation->lengths6[middle];
			low = middle + 1;
		}
	}
}

static void find_lengths(const struct ls_lists *lists, struct ls_generation_abi *generation)
{
	bool used[LS_LENGTHS6] = { false };

	for (size_t i = 0; i < lists->n_nets6; i++)
		used[lists->nets6[i].length] = true;
	generation->n_lengths6 = 0;
	for (unsigned length = 1; length < LS_LENGTHS6; length++)
		if (used[length])
			generation->lengths6[generation->n_lengths6++] = (uint8_t)length;
}

static uint64_t mask64(unsigned length)
{
	return length == 0 ? 0 : length >= 64 ? ~0ULL : ~(~0ULL >> length);
}

static struct ls_net6 masked(const struct ls_net *net, unsigned length)
{
	return (struct ls_net6){
		.high = net->high & mask64(length),
		.low = length <= 64 ? 0 : net->low & mask64(length - 64),
		.length = length,
	};
}

/* The markers of one prefix that are not there yet. `last` is the latest marker of each length. */
static int add_markers(struct nets *nets, const struct ls_net *net, const struct paths *paths,
		       const struct ls_stack *stack, struct ls_net6 last[LS_LENGTHS6])
{
	for (unsigned i = 0; i < paths->count[net->length]; i++) {
		const unsigned length = paths->markers[net->length][i];
		struct ls_net6 marker = masked(net, length);
		unsigned cover = stack->top;

		while (stack->items[cover].length > length)
			cover--;
		if (stack->items[cover].length == length)
			continue; /* a prefix stands there; the bottom is of length 0, no marker */
		marker.label = stack->items[cover].label;
		if (last[length].length && last[length].high == marker.high &&
		    last[length].low == marker.low)
			continue;
		last[length] = marker;
		if (nets_add(nets, marker) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* All prefixes and their markers, and the lengths in use. */
static int find_nets(const struct ls_lists *lists, struct ls_generation_abi *generation,
		     struct nets *nets)
{
	struct ls_net6 last[LS_LENGTHS6] = { { .length = 0 } };
	struct paths paths;
	struct ls_stack stack;

	find_lengths(lists, generation);
	find_paths(&paths, generation);
	ls_stack_init(&stack, lists->label6);
	for (size_t i = 0; i < lists->n_nets6; i++) {
		const struct ls_net *net = &lists->nets6[i];
		const ls_u128 address = ls_address6(net->high, net->low);
		struct ls_net6 entry = masked(net, net->length);

		ls_stack_seek(&stack, address);
		if (add_markers(nets, net, &paths, &stack, last) < 0)
			return -ENOMEM;
		entry.label = net->tag;
		if (nets_add(nets, entry) < 0)
			return -ENOMEM;
		ls_stack_push(&stack, address, net->length, net->tag);
	}
	return 0;
}

static bool place_nets(struct table *table, const struct nets *nets)
{
	for (size_t i = 0; i < nets->count; i++) {
		uint64_t entry[NET_WORDS];

		memcpy(entry, &nets->items[i], sizeof(entry));
		if (!place(table, entry))
			return false;
	}
	return true;
}

/* Sets the bits of a prefix, a marker or a root in the filter. */
static void filter_add(struct ls_line *lines, const struct ls_generation_abi *generation,
		       struct ls_net6 net)
{
	const struct table table = { .seed = generation->seed };
	uint64_t entry[NET_WORDS], hashes[2];
	struct ls_line *line;

	memcpy(entry, &net, sizeof(entry));
	net_hashes(&table, entry, hashes);
	line = &lines[generation->filter6 + (hashes[0] >> (64 - generation->filter6_bits))];
	for (unsigned i = 0; i < LS_FILTER6_BITS; i++) {
		const unsigned bit = (unsigned)LS_FILTER6_BIT(hashes[1], i);

		line->word[bit / 64] |= 1ULL << (bit % 64);
	}
}

/* How many roots of `length` bits a prefix has. */
static uint64_t roots_of(const struct ls_net *net, unsigned length)
{
	return net->length < length ? 1ULL << (length - net->length) : 1;
}

/* The length of the roots; 0: none, where they would not spare a look-up. */
static uint8_t find_root(const struct ls_lists *lists, const struct ls_generation_abi *generation)
{
	if (generation->n_lengths6 <= ROOT_LENGTHS)
		return 0;
	for (unsigned length = ROOT_MAX; length >= ROOT_MIN; length--) {
		uint64_t count = 0;

		for (size_t i = 0; i < lists->n_nets6 && count <= 2 * lists->n_nets6; i++)
			count += roots_of(&lists->nets6[i], length);
		if (count <= 2 * lists->n_nets6)
			return (uint8_t)length;
	}
	return 0;
}

static void filter_add_roots(struct ls_line *lines, const struct ls_generation_abi *generation,
			     const struct ls_lists *lists)
{
	const unsigned length = generation->root6;

	for (size_t i = 0; length && i < lists->n_nets6; i++) {
		const struct ls_net *net = &lists->nets6[i];
		const uint64_t count = roots_of(net, length);

		for (uint64_t j = 0; j < count; j++)
			filter_add(
				lines, generation,
				(struct ls_net6){
					.high = (net->high & mask64(length)) + (j << (64 - length)),
					.length = LS_ROOT6(length),
				});
	}
}

/* ---- both ---- */

/* Places of the tables, by the bits in `generation`. Returns how many lines there are in all. */
static size_t lay_out(struct ls_generation_abi *generation, bool has4, bool has6)
{
	size_t lines = 0;

	generation->cells4 = has4 ? LS_CELLS4_LINES + LS_MARKS4_LINES : 0;
	lines += generation->cells4;
	generation->hosts4 = (uint32_t)lines;
	lines += has4 ? 1UL << generation->hosts4_bits : 0;
	generation->nets6 = (uint32_t)lines;
	lines += has6 ? 1UL << generation->nets6_bits : 0;
	generation->filter6 = (uint32_t)lines;
	generation->filter6_bits =
		generation->nets6_bits > FILTER_SHIFT ? generation->nets6_bits - FILTER_SHIFT : 1;
	/* Up to twice as many roots as prefixes: the filter has to be larger by as much. */
	if (generation->root6)
		generation->filter6_bits++;
	lines += has6 ? 1UL << generation->filter6_bits : 0;
	return lines;
}

static void table_fini(struct table *table)
{
	free(table->filled);
}

/* Fills one table, all zero before: that of `nets`, or if that is NULL that of hosts. */
static int fill_table(const struct ls_lists *lists, const struct nets *nets,
		      const struct ls_generation_abi *generation, struct ls_line *lines,
		      bool *ret_placed)
{
	_cleanup_(table_fini) struct table table = {
		.lines = lines + (nets ? generation->nets6 : generation->hosts4),
		.bits = nets ? generation->nets6_bits : generation->hosts4_bits,
		.entry_words = nets ? NET_WORDS : HOST_WORDS,
		.seed = generation->seed,
		.dice = generation->seed[0],
	};

	table.filled = calloc(1UL << table.bits, 1);
	if (!table.filled)
		return -ENOMEM;
	*ret_placed = nets ? place_nets(&table, nets) : place_hosts(&table, lists);
	return 0;
}

/* Which of the tables found places for all entries. */
struct outcome {
	bool hosts, nets;
};

/* Draws multipliers until all entries have a place, but at most DRAWS_MAX times. 0 or -ENOMEM. */
static int draw_tables(const struct ls_lists *lists, const struct nets *nets,
		       uint64_t (*random)(void *context), void *context, struct ls_image *image,
		       struct outcome *ret_outcome)
{
	struct ls_generation_abi *generation = &image->generation;
	struct outcome outcome = { false, false };

	for (unsigned draw = 0; draw < DRAWS_MAX && !(outcome.hosts && outcome.nets); draw++) {
		outcome = (struct outcome){ true, true };
		if (draw > 0)
			memset(image->lines + generation->hosts4, 0,
			       (image->n_lines - generation->hosts4) * sizeof(*image->lines));
		for (size_t i = 0; i < sizeof(generation->seed) / sizeof(*generation->seed); i++)
			generation->seed[i] = random(context) | 1;
		if (lists->n_nets4 &&
		    fill_table(lists, NULL, generation, image->lines, &outcome.hosts) < 0)
			return -ENOMEM;
		if (outcome.hosts && nets->count &&
		    fill_table(lists, nets, generation, image->lines, &outcome.nets) < 0)
			return -ENOMEM;
	}
	*ret_outcome = outcome;
	return 0;
}

int ls_lists_build(const struct ls_lists *lists, uint64_t (*random)(void *context), void *context,
		   struct ls_image *image)
{
	_cleanup_(nets_fini) struct nets nets = { 0 };
	struct ls_generation_abi *generation = &image->generation;
	const bool has4 = lists->n_nets4 > 0;
	const bool has6 = lists->n_nets6 > 0 || lists->label6 != 0;
	struct outcome outcome = { false, false };
	size_t n_hosts = 0;

	if (!has4 && !has6)
		return 0;
	for (size_t i = 0; i < lists->n_nets4; i++)
		n_hosts += host_length(lists->nets4[i]) > CELL_PREFIX;
	if (find_nets(lists, generation, &nets) < 0)
		return -ENOMEM;
	generation->label6 = (uint16_t)lists->label6;
	generation->root6 = find_root(lists, generation);
	generation->hosts4_bits = has4 ? (uint8_t)bits_for(n_hosts, HOST_WORDS, HOSTS_LOAD_PERCENT)
				       : 0;
	generation->nets6_bits = has6 ? (uint8_t)bits_for(nets.count, NET_WORDS, NETS_LOAD_PERCENT)
				      : 0;
	while (!outcome.hosts || !outcome.nets) {
		free(image->lines);
		image->n_lines = lay_out(generation, has4, has6);
		/* So large a calloc() touches nothing: cells outside all lists cost no memory. */
		image->lines = calloc(image->n_lines, sizeof(*image->lines));
		if (!image->lines ||
		    draw_tables(lists, &nets, random, context, image, &outcome) < 0)
			return -ENOMEM;
		if (!outcome.hosts && ++generation->hosts4_bits > BITS_MAX)
			return -ENOMEM;
		if (!outcome.nets && ++generation->nets6_bits > BITS_MAX)
			return -ENOMEM;
	}
	for (size_t i = 0; has6 && i < nets.count; i++)
		filter_add(image->lines, generation, nets.items[i]);
	if (has6)
		filter_add_roots(image->lines, generation, lists);
	if (has4) {
		paint_cells((uint16_t *)image->lines, lists);
		sum_up_cells(image, lists);
	}
	image->word |= (has4 ? LS_WORD_LISTS4 : 0) | (has6 ? LS_WORD_LISTS6 : 0);
	return 0;
}
