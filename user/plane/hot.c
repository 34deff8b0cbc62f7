/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/hot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "pure/hash.h"
#include "pure/hot.h"
#include "pure/window.h"
#include "user/base/error.h"
#include "user/plane/internal.h"

struct ls_hot_writer {
	struct ls_plane *plane;
	struct ls_hot *hot;
	struct ls_hot_cpu *cpus;
	struct ls_control *control;
	size_t hot_bytes, cpus_bytes, control_bytes;
	uint32_t n_cpus;
	uint64_t *read; /* of each CPU's ring: entries that were read or lost */
};

/* ---- memory ---- */

/* A mapping of its own, which may be written whatever the plane was opened for. */
static void *map_writable(const struct ls_plane *plane, enum ls_map map, size_t *ret_bytes)
{
	const struct ls_plane_map *of = &plane->maps[map];
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const size_t bytes = (size_t)((of->value_bytes + 7U) & ~7U) * of->entries;

	*ret_bytes = (bytes + page - 1) / page * page;
	void *const memory = mmap(NULL, *ret_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, of->fd, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

int ls_hot_open(struct ls_plane *plane, struct ls_hot_writer **ret, struct ls_error *error)
{
	if (plane->maps[LS_MAP_HOT].fd < 0 || plane->maps[LS_MAP_HOT_CPUS].fd < 0) {
		ls_error_set(
			error,
			"the program that runs is of a build that shares no limits; 'loadshed attach' of this one replaces it");
		return -ENOENT;
	}
	struct ls_hot_writer *const writer = calloc(1, sizeof(*writer));
	if (!writer)
		return ls_error_oom(error);
	writer->plane = plane;
	writer->n_cpus = plane->maps[LS_MAP_HOT_CPUS].entries;
	writer->hot = map_writable(plane, LS_MAP_HOT, &writer->hot_bytes);
	writer->cpus = map_writable(plane, LS_MAP_HOT_CPUS, &writer->cpus_bytes);
	writer->control = map_writable(plane, LS_MAP_CONTROL, &writer->control_bytes);
	writer->read = calloc(writer->n_cpus, sizeof(*writer->read));
	if (!writer->hot || !writer->cpus || !writer->control || !writer->read) {
		ls_hot_close(writer);
		return ls_error_set(error, "cannot map the table of shared sources");
	}
	for (uint32_t cpu = 0; cpu < writer->n_cpus; cpu++)
		writer->read[cpu] = __atomic_load_n(&writer->cpus[cpu].head, __ATOMIC_ACQUIRE);
	*ret = writer;
	return 0;
}

void ls_hot_close(struct ls_hot_writer *writer)
{
	if (!writer)
		return;
	if (writer->hot)
		munmap(writer->hot, writer->hot_bytes);
	if (writer->cpus)
		munmap(writer->cpus, writer->cpus_bytes);
	if (writer->control)
		munmap(writer->control, writer->control_bytes);
	free(writer->read);
	free(writer);
}

/*
 * Whether packets may look at every eighth only: no source is shared, every limit is its own, and no threshold is so low
 * that a sample that counts as eight says too much.
 */
static bool may_sample(const struct ls_hot_writer *writer, uint64_t now_ns)
{
	const struct ls_hot *const hot = writer->hot;

	for (int set = 0; set < LS_HOT_SETS; set++)
		for (int i = 0; i < LS_HOT_WAYS; i++)
			if (hot->sets[set].way[i].key &&
			    ls_hot_is_live(hot->sets[set].way[i].until, now_ns))
				return false;
	for (unsigned slot = 0; slot < LS_SLOTS; slot++) {
		const struct ls_hot_limit *const limit = &hot->limits[slot];
		if (ls_hot_is_live(limit->until, now_ns) ||
		    (limit->report_at && limit->report_at < LS_HOT_SAMPLED_FROM))
			return false;
	}
	return true;
}

/* Something is about to hold that every packet has to look at. */
static void look_always(struct ls_hot_writer *writer)
{
	__atomic_and_fetch(&writer->control->hot_until, ~LS_HOT_F_SAMPLED, __ATOMIC_SEQ_CST);
}

void ls_hot_enable(struct ls_hot_writer *writer, uint64_t for_ns)
{
	const uint64_t now_ns = ls_plane_now(writer->plane);
	uint64_t until = for_ns ? (now_ns + for_ns) & ~LS_HOT_F_SAMPLED : 0;

	if (until && may_sample(writer, now_ns))
		until |= LS_HOT_F_SAMPLED;
	__atomic_store_n(&writer->control->hot_until, until, __ATOMIC_RELEASE);
}

/* ---- what CPUs tell ---- */

static size_t read_ring(struct ls_hot_writer *writer, uint32_t cpu, struct ls_hot_news *ret,
			size_t room, uint64_t *ret_lost)
{
	const struct ls_hot_cpu *const of = &writer->cpus[cpu];
	uint64_t *const at = &writer->read[cpu];
	size_t n = 0;

	while (n < room) {
		const uint64_t head = __atomic_load_n(&of->head, __ATOMIC_ACQUIRE);
		if (*at == head)
			break;
		if (head - *at > LS_HOT_RING - 1) {
			*ret_lost += head - *at - (LS_HOT_RING - 1);
			*at = head - (LS_HOT_RING - 1);
		}
		ret[n] = of->ring[*at % LS_HOT_RING];
		/* Overwritten while it was copied. */
		if (__atomic_load_n(&of->head, __ATOMIC_ACQUIRE) - *at > LS_HOT_RING - 1)
			continue;
		(*at)++;
		n++;
	}
	return n;
}

size_t ls_hot_news(struct ls_hot_writer *writer, struct ls_hot_news *ret, size_t room,
		   uint64_t *ret_lost)
{
	size_t n = 0;

	*ret_lost = 0;
	for (uint32_t cpu = 0; cpu < writer->n_cpus; cpu++)
		n += read_ring(writer, cpu, ret + n, room - n, ret_lost);
	return n;
}

/* ---- entries ---- */

static struct ls_hot_way *way_of(struct ls_hot_writer *writer, int entry)
{
	return &writer->hot->sets[entry / LS_HOT_WAYS].way[entry % LS_HOT_WAYS];
}

uint64_t ls_hot_key_at(const struct ls_hot_writer *writer, int entry)
{
	return writer->hot->sets[entry / LS_HOT_WAYS].way[entry % LS_HOT_WAYS].key;
}

struct ls_hot_info *ls_hot_info(struct ls_hot_writer *writer, int entry)
{
	return &writer->hot->info[entry];
}

/* Where the remainders begin is drawn, so that senders that keep time do not all meet the same gap. */
static void seed_remainders(struct ls_hot_writer *writer, int entry)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	for (uint32_t cpu = 0; cpu < writer->n_cpus; cpu++)
		writer->cpus[cpu].count[entry].frac =
			(uint32_t)(((uint64_t)now.tv_nsec + cpu * 7919U + (uint64_t)entry) *
					   0x9e3779b97f4a7c15ULL >>
				   32);
}

int ls_hot_claim(struct ls_hot_writer *writer, uint64_t key, const struct ls_hot_news *subject)
{
	const int first = (int)(ls_hot_set_of(key) * LS_HOT_WAYS);
	int free = -1;

	for (int entry = first; entry < first + LS_HOT_WAYS; entry++) {
		const uint64_t has = way_of(writer, entry)->key;
		if (has == key)
			return entry;
		if (!has && free < 0)
			free = entry;
	}
	if (free < 0)
		return -1;
	struct ls_hot_info *const info = &writer->hot->info[free];
	memset(info, 0, sizeof(*info));
	info->subject = *subject;
	info->subject.key = key;
	seed_remainders(writer, free);
	__atomic_store_n(&way_of(writer, free)->until, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&way_of(writer, free)->key, key, __ATOMIC_RELEASE);
	return free;
}

bool ls_hot_is_held(const struct ls_hot_writer *writer, int entry)
{
	return ls_hot_is_live(writer->hot->sets[entry / LS_HOT_WAYS].way[entry % LS_HOT_WAYS].until,
			      ls_plane_now(writer->plane));
}

void ls_hot_release(struct ls_hot_writer *writer, int entry)
{
	__atomic_store_n(&way_of(writer, entry)->until, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&way_of(writer, entry)->key, 0, __ATOMIC_RELEASE);
}

static uint32_t end_after(const struct ls_hot_writer *writer, uint64_t for_ns)
{
	return ls_hot_time(ls_plane_now(writer->plane) + for_ns) & ~LS_HOT_F_MORE;
}

void ls_hot_set(struct ls_hot_writer *writer, int entry, uint32_t admit, uint64_t for_ns,
		const struct ls_hot_more *more)
{
	struct ls_hot_way *const way = way_of(writer, entry);

	look_always(writer);
	if (more) {
		struct ls_hot_more *const to = &writer->hot->more[entry];
		/* No packet may take the old ceiling for the new window's. */
		if (to->number != more->number)
			__atomic_store_n(&to->number, LS_HOT_NO_WINDOW, __ATOMIC_RELEASE);
		__atomic_store_n(&to->ceiling, more->ceiling, __ATOMIC_RELEASE);
		__atomic_store_n(&to->scale, more->scale, __ATOMIC_RELEASE);
		__atomic_store_n(&to->number, more->number, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&way->admit, admit, __ATOMIC_RELEASE);
	__atomic_store_n(&way->until, end_after(writer, for_ns) | (more ? LS_HOT_F_MORE : 0),
			 __ATOMIC_RELEASE);
}

void ls_hot_counts(const struct ls_hot_writer *writer, int entry, uint64_t *ret_offered,
		   uint64_t *ret_admitted)
{
	*ret_offered = *ret_admitted = 0;
	for (uint32_t cpu = 0; cpu < writer->n_cpus; cpu++) {
		const struct ls_hot_count *const count = &writer->cpus[cpu].count[entry];
		/* Admitted first: it is counted after the offer, so it is never more. */
		*ret_admitted += __atomic_load_n(&count->admitted, __ATOMIC_ACQUIRE);
		*ret_offered += __atomic_load_n(&count->offered, __ATOMIC_ACQUIRE);
	}
}

void ls_hot_set_limit(struct ls_hot_writer *writer, uint16_t slot, struct ls_hot_limit limit,
		      uint64_t for_ns, bool is_closed)
{
	struct ls_hot_limit *const to = &writer->hot->limits[slot % LS_SLOTS];

	if (for_ns || limit.report_at < LS_HOT_SAMPLED_FROM)
		look_always(writer);
	__atomic_store_n(&to->tau, limit.tau, __ATOMIC_RELEASE);
	__atomic_store_n(&to->scale, limit.scale, __ATOMIC_RELEASE);
	__atomic_store_n(&to->epoch_shift, limit.epoch_shift, __ATOMIC_RELEASE);
	__atomic_store_n(&to->report_at, limit.report_at, __ATOMIC_RELEASE);
	__atomic_store_n(&to->until,
			 for_ns ? end_after(writer, for_ns) | (is_closed ? LS_HOT_F_CLOSED : 0) : 0,
			 __ATOMIC_RELEASE);
}

struct ls_hot_status *ls_hot_status(struct ls_hot_writer *writer)
{
	return &writer->hot->status;
}

#define READ_TRIES 1000

bool ls_hot_read_status(struct ls_plane *plane, struct ls_hot_status *ret)
{
	if (plane->maps[LS_MAP_HOT].fd < 0)
		return false;
	const struct ls_hot *const hot = ls_plane_memory(plane, LS_MAP_HOT, NULL);
	for (int i = 0; hot && i < READ_TRIES; i++) {
		const uint32_t version = __atomic_load_n(&hot->status.version, __ATOMIC_ACQUIRE);
		*ret = hot->status;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		/* A writer that died in the middle leaves it odd; then it is as good as it gets. */
		if ((!(version & 1) || i == READ_TRIES - 1) &&
		    __atomic_load_n(&hot->status.version, __ATOMIC_ACQUIRE) == version)
			return ret->beat_ns != 0;
	}
	return false;
}

/* ---- policy and state ---- */

bool ls_hot_class(struct ls_plane *plane, unsigned index, struct ls_class_abi *ret)
{
	const struct ls_tables *const tables = ls_plane_memory(plane, LS_MAP_TABLES, NULL);

	if (!tables || index >= LS_CLASSES)
		return false;
	*ret = tables->classes[ls_plane_half(plane) * LS_CLASSES + index];
	return true;
}

static struct ls_packet packet_of(const struct ls_hot_news *subject)
{
	return (struct ls_packet){
		.source = { .high = subject->source_high, .low = subject->source_low },
		.destination = { .high = subject->destination_high,
				 .low = subject->destination_low },
		.source_port = subject->source_port,
		.port = subject->port,
		.family = subject->family,
		.protocol = (uint8_t)subject->protocol,
		.known = (subject->has_ports ? LS_KNOWN_PORTS : 0) |
			 (subject->protocol < 256 ? LS_KNOWN_PROTOCOL : 0),
	};
}

static struct ls_hash hash_of(const struct ls_plane *plane, const struct ls_limit_abi *limit,
			      unsigned class_slot, const struct ls_hot_news *subject)
{
	const __u64 *const keys = ls_plane_control(plane)->hash_key;
	const struct ls_packet packet = packet_of(subject);

	return limit->per == LS_ABI_PER_SOURCE
		       ? ls_hash_source(keys, class_slot, LS_ABI_PER_SOURCE, &packet)
		       : ls_hash_other(keys, class_slot, limit->per, limit->bits4, limit->bits6,
				       &packet);
}

uint64_t ls_hot_key(const struct ls_plane *plane, const struct ls_limit_abi *limit,
		    unsigned class_slot, const struct ls_hot_news *subject)
{
	return ls_hash_key(hash_of(plane, limit, class_slot, subject), limit->slot);
}

uint64_t ls_hot_wall(const struct ls_plane *plane)
{
	return ls_plane_control(plane)->wall_ns + ls_plane_now(plane);
}

/* The word of the limit's state; 0: untouched. */
static uint64_t state_of(struct ls_plane *plane, const struct ls_limit_abi *limit, uint64_t key,
			 struct ls_hash hash)
{
	const struct ls_state *const state = ls_plane_state(plane);
	const struct ls_tables *const tables = ls_plane_memory(plane, LS_MAP_TABLES, NULL);
	const struct ls_ways *const ways = ls_plane_memory(plane, LS_MAP_WAYS, NULL);
	uint32_t base = 0;

	if (!tables || !ways)
		return 0;
	if (limit->per == LS_ABI_PER_CLASS)
		return __atomic_load_n(&tables->shared[limit->slot].state, __ATOMIC_RELAXED);
	for (unsigned table = 0; table < limit->table; table++)
		base += state->sets[table];
	const struct ls_ways *const set =
		&ways[base + ls_hash_set(hash, state->sets[limit->table] - 1)];
	for (int way = 0; way < LS_WAYS; way++) {
		const uint64_t word = __atomic_load_n(&set->way[way].state, __ATOMIC_RELAXED);
		if (__atomic_load_n(&set->way[way].key, __ATOMIC_RELAXED) == key &&
		    word != LS_STATE_BUSY)
			return word;
	}
	return 0;
}

void ls_hot_window(struct ls_plane *plane, const struct ls_limit_abi *limit, uint64_t key,
		   const struct ls_hot_news *subject, unsigned class_slot, uint64_t *ret_number,
		   uint64_t *ret_count, uint64_t *ret_before)
{
	const struct ls_hash hash = hash_of(plane, limit, class_slot, subject);
	const struct ls_window_clock clock =
		ls_window_at(ls_hot_wall(plane), limit->window_ns | !limit->window_ns);
	const uint64_t word = state_of(plane, limit, key, hash);

	*ret_number = clock.number;
	*ret_before = 0;
	if (limit->algorithm == LS_ABI_FIXED_WINDOW) {
		*ret_count = ls_fixed_count(word, clock.number);
		*ret_before = ls_fixed_count(word, (clock.number - 1) & LS_WINDOW_NUMBER_MASK);
		return;
	}
	const struct ls_sliding_counts counts = ls_sliding_counts(word, clock.number);
	*ret_count = counts.current;
	*ret_before = counts.previous;
}

/* ---- subjects ---- */

static int put_address(char *text, size_t size, uint8_t family, struct ls_address address)
{
	return family == 4 ? snprintf(text, size, "%08" PRIx32, (uint32_t)address.low)
			   : snprintf(text, size, "%016" PRIx64 "%016" PRIx64,
				      (uint64_t)address.high, (uint64_t)address.low);
}

static const char *get_address(const char *text, uint8_t family, __u64 *ret_high, __u64 *ret_low)
{
	const int digits = family == 4 ? 8 : 32;
	uint64_t words[2] = { 0 };

	for (int i = 0; i < digits; i++, text++) {
		const char c = *text;
		const int digit = c >= '0' && c <= '9'	 ? c - '0'
				  : c >= 'a' && c <= 'f' ? c - 'a' + 10
							 : -1;
		if (digit < 0)
			return NULL;
		words[0] = words[0] << 4 | words[1] >> 60;
		words[1] = words[1] << 4 | (uint64_t)digit;
	}
	*ret_high = words[0];
	*ret_low = words[1];
	return text;
}

/* What of source and destination the limit looks at. */
static struct ls_address source_of(const struct ls_limit_abi *limit, const struct ls_packet *packet)
{
	const uint32_t bits = packet->family == 4 ? limit->bits4 : limit->bits6;

	return limit->per == LS_ABI_PER_FLOW ? packet->source
					     : ls_masked(packet->source, packet->family, bits);
}

void ls_hot_subject_format(const struct ls_limit_abi *limit, const struct ls_hot_news *subject,
			   char text[static LS_HOT_SUBJECT_TEXT])
{
	const struct ls_packet packet = packet_of(subject);
	char *at = text, *const end = text + LS_HOT_SUBJECT_TEXT;

	if (limit->per == LS_ABI_PER_CLASS) {
		strcpy(text, "c");
		return;
	}
	*at++ = packet.family == 4 ? '4' : '6';
	if (limit->per != LS_ABI_PER_DESTINATION)
		at += put_address(at, (size_t)(end - at), packet.family, source_of(limit, &packet));
	if (limit->per == LS_ABI_PER_DESTINATION || limit->per == LS_ABI_PER_FLOW)
		at += put_address(at, (size_t)(end - at), packet.family, packet.destination);
	if (limit->per == LS_ABI_PER_FLOW)
		at += snprintf(at, (size_t)(end - at), "%04x%04x%03x%u", packet.source_port,
			       packet.port, subject->protocol, subject->has_ports);
	if (limit->per == LS_ABI_PER_SOURCE && subject->factor > 1)
		snprintf(at, (size_t)(end - at), "x%u", subject->factor);
	else
		*at = '\0';
}

bool ls_hot_subject_parse(const struct ls_limit_abi *limit, const char *text,
			  struct ls_hot_news *ret)
{
	struct ls_hot_news subject = { .protocol = 256 };
	unsigned from_port, port, protocol, has_ports;

	if (limit->per == LS_ABI_PER_CLASS) {
		*ret = subject;
		return strcmp(text, "c") == 0;
	}
	if (*text != '4' && *text != '6')
		return false;
	subject.family = (uint8_t)(*text++ - '0');
	if (limit->per != LS_ABI_PER_DESTINATION)
		text = get_address(text, subject.family, &subject.source_high, &subject.source_low);
	if (text && (limit->per == LS_ABI_PER_DESTINATION || limit->per == LS_ABI_PER_FLOW))
		text = get_address(text, subject.family, &subject.destination_high,
				   &subject.destination_low);
	if (!text)
		return false;
	if (limit->per == LS_ABI_PER_FLOW) {
		if (strlen(text) != 12 ||
		    sscanf(text, "%4x%4x%3x%1u", &from_port, &port, &protocol, &has_ports) != 4)
			return false;
		subject.source_port = (uint16_t)from_port;
		subject.port = (uint16_t)port;
		subject.protocol = (uint16_t)protocol;
		subject.has_ports = has_ports != 0;
		text += 12;
	}
	if (*text == 'x' && limit->per == LS_ABI_PER_SOURCE) {
		char *end = NULL;
		const unsigned long factor = strtoul(text + 1, &end, 10);
		if (factor < 2 || factor > LS_NAT_FACTOR)
			return false;
		subject.factor = (uint32_t)factor;
		text = end;
	}
	*ret = subject;
	return *text == '\0';
}
