/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * Ten heavy sources beside a million others, from every CPU at once and as fast as the program takes them: `top` names
 * exactly those ten first, each figure is within its bound of what was sent, and no other row is above its own.
 *
 * What was sent is known at the end of each round of a few milliseconds, an epoch ends in the middle of one: so the
 * truth of the measured interval is an interval, too.
 */

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "tests/kern/common.h"
#include "user/plane/top.h"

#define HEAVY 10
#define FLOOD_SOURCES 1000000U
#define FLOOD_PACKETS 20000U	/* of one round */
#define FIRST_HEAVY 0xC6120001U /* 198.18.0.1 */
#define THREADS_MAX 8
#define ROUNDS_MAX 65536
#define LATE_NS 12000000ULL /* a CPU may leave an epoch a jiffy late */

struct round {
	uint64_t end_ns;
	uint64_t rounds; /* so many are done */
};

struct sender {
	unsigned cpu;
	int program;
	struct ls_gen *gen;
	struct round *rounds;
	size_t n_rounds;
};

static atomic_bool ended;

/* Packets of a heavy source in one round of one sender: 1.5 to 3 % of all. */
static uint32_t per_round(unsigned heavy)
{
	return 750 - 40 * heavy;
}

static void *sender_main(void *context)
{
	struct sender *sender = context;
	struct ls_gen_config *config = ls_gen_config(sender->gen);
	struct ls_gen_frame frame;

	gen_pin(sender->cpu);
	gen_frame_make(&frame, 4, 17, 53, 0);
	ls_gen_frame_use(sender->gen, &frame);
	while (!ended && sender->n_rounds < ROUNDS_MAX) {
		config->sources = FLOOD_SOURCES;
		config->base = 0x0A000000;
		gen_run(sender->gen, FLOOD_PACKETS);
		config->sources = 1;
		for (unsigned i = 0; i < HEAVY; i++) {
			config->base = FIRST_HEAVY + i;
			gen_run(sender->gen, per_round(i));
		}
		sender->rounds[sender->n_rounds] =
			(struct round){ ls_gen_now_ns(), sender->n_rounds + 1 };
		sender->n_rounds++;
	}
	return NULL;
}

/* How many rounds lie in a time, at least or at most. */
static uint64_t rounds_in(const struct sender *sender, uint64_t from_ns, uint64_t to_ns, bool most)
{
	uint64_t count = 0;

	for (size_t i = 1; i < sender->n_rounds; i++) {
		const uint64_t start_ns = sender->rounds[i - 1].end_ns;
		const uint64_t end_ns = sender->rounds[i].end_ns;
		count += most ? end_ns > from_ns && start_ns < to_ns
			      : start_ns >= from_ns && end_ns <= to_ns;
	}
	return count;
}

static uint32_t address_of(const struct ls_top_row *row)
{
	return (uint32_t)row->prefix.bytes[0] << 24 | (uint32_t)row->prefix.bytes[1] << 16 |
	       (uint32_t)row->prefix.bytes[2] << 8 | row->prefix.bytes[3];
}

/* The reading against what was sent while it was measured. */
static void judge(const struct ls_plane *plane, const struct ls_top_reading *reading,
		  const struct sender *senders, unsigned n)
{
	const double seconds = (double)reading->interval_ns / 1e9;
	const uint64_t epoch_ns = ls_plane_control(plane)->epoch_ns;
	const uint64_t to_ns = epoch_ns + (reading->number << LS_TOP_EPOCH_SHIFT);
	const uint64_t from_ns = to_ns - reading->interval_ns;
	uint64_t least = 0, most = 0, found = 0, out = 0, high = 0;
	bool has_twice = false;

	for (unsigned i = 0; i < n; i++) {
		least += rounds_in(&senders[i], from_ns + LATE_NS, to_ns - LATE_NS, false);
		most += rounds_in(&senders[i], from_ns - LATE_NS, to_ns + LATE_NS, true);
	}
	for (size_t i = 0; i < reading->sources.count; i++) {
		const struct ls_top_row *row = &reading->sources.rows[i];
		const unsigned heavy = address_of(row) - FIRST_HEAVY;
		const double shown = row->packets * seconds, error = row->error * seconds;
		for (size_t k = 0; k < i; k++)
			has_twice |=
				ls_prefix_equal(&row->prefix, &reading->sources.rows[k].prefix);
		if (heavy < HEAVY) {
			found += i < HEAVY;
			out += shown + error < (double)(least * per_round(heavy)) ||
			       shown - error > (double)(most * per_round(heavy));
			continue;
		}
		/* One of a million: a Poisson number of packets, not above this in the life of the test. */
		const double mean = (double)(most * FLOOD_PACKETS) / FLOOD_SOURCES;
		high += shown - error > mean + 8 * sqrt(mean) + 8;
	}
	kern_result(least > 50, "top_measured_something", "%" PRIu64 " to %" PRIu64 " rounds",
		    least, most);
	kern_result(found == HEAVY, "top_names_the_ten_heaviest_of_a_million_first",
		    "%" PRIu64 " of %d, one packet in %u looked at", found, HEAVY, reading->weight);
	kern_result(out == 0, "top_heavy_rows_are_within_their_bounds", "%" PRIu64 " are not", out);
	kern_result(high == 0, "top_no_other_row_is_above_its_bound", "%" PRIu64 " of %zu rows are",
		    high, reading->sources.count);
	kern_result(!has_twice, "top_names_nobody_twice", "%zu rows", reading->sources.count);
}

static bool is_same(const struct ls_top_list *a, const struct ls_top_list *b)
{
	return a->count == b->count && memcmp(a->rows, b->rows, a->count * sizeof(a->rows[0])) == 0;
}

int main(void)
{
	struct ls_plane *plane = kern_sandbox("version: 1\n", 100000, true);
	const unsigned n = gen_cpus() < THREADS_MAX ? gen_cpus() : THREADS_MAX;
	struct sender senders[THREADS_MAX] = { 0 };
	pthread_t threads[THREADS_MAX];
	struct ls_error error = LS_ERROR_INIT;
	struct ls_top_reading reading = { 0 }, again = { 0 };

	for (unsigned i = 0; i < n; i++) {
		senders[i] = (struct sender){ .cpu = i,
					      .program = ls_plane_program_fd(plane),
					      .gen = gen_open(),
					      .rounds = calloc(ROUNDS_MAX, sizeof(struct round)) };
		gen_target(senders[i].gen, senders[i].program);
		ls_gen_seed(senders[i].gen, i + 1);
		ls_gen_config(senders[i].gen)->spread = LS_GEN_SPREAD;
		if (!senders[i].rounds ||
		    pthread_create(&threads[i], NULL, sender_main, &senders[i]))
			abort();
	}
	/* The first epoch is that of the ramp; the two after it are measured. */
	uint64_t number = 0;
	if (ls_top_read(plane, NULL, &reading, &error) < 0)
		abort();
	number = reading.number + 3;
	ls_top_fini(&reading);
	while (ls_top_wait_ns(plane, number - 1) > 0)
		nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
	const int r = ls_top_read(plane, NULL, &reading, &error);
	const int r_again = ls_top_read(plane, NULL, &again, &error);
	ended = true;
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	if (r < 0 || r_again < 0) {
		kern_result(false, "top_reads", "%s", error.text);
		return kern_status();
	}
	judge(plane, &reading, senders, n);
	/* The second reading may have met the next epoch: then there is nothing to compare. */
	if (again.number == reading.number)
		kern_result(is_same(&reading.sources, &again.sources) &&
				    is_same(&reading.prefixes, &again.prefixes),
			    "top_readers_see_the_same", "%zu rows", reading.sources.count);
	else
		kern_skip("top_readers_see_the_same", "an epoch ended between the two");
	ls_top_fini(&reading);
	ls_top_fini(&again);
	for (unsigned i = 0; i < n; i++) {
		ls_gen_close(senders[i].gen);
		free(senders[i].rounds);
	}
	ls_plane_close(plane);
	return kern_status();
}
