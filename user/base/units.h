/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_USER_BASE_UNITS_H
#define LOADSHED_USER_BASE_UNITS_H

/*
 * Numbers with units, strictly: every spelling means one thing or is refused with those that are
 * accepted. Mistaking Mbit for MB is a factor of eight, k for Ki 2.4 %, so nothing is guessed.
 * Values are exact integers or fractions; there is no floating point.
 *
 * The printers give the canonical spelling, which the readers read back as exactly the same value.
 *
 * Readers return 0, or -1 with a clause in `error` that quotes the text ("'10kpps' is no rate: …"),
 * to which the caller adds the place; the result is then unchanged.
 */

#include <stdbool.h>
#include <stdint.h>

struct ls_error;

/*
 * A rate as an exact fraction: `units` in `period_ns`. Packets and connections: units are items;
 * bytes: units are bytes. It is reduced (gcd 1), so that equal rates compare equal: 600/m and 10/s
 * are one rate.
 */
struct ls_rate {
	uint64_t units;
	uint64_t period_ns;
};

#define LS_NS_PER_MS 1000000ULL
#define LS_NS_PER_S 1000000000ULL
#define LS_NS_PER_DAY (86400 * LS_NS_PER_S)

/* Ten years with their leap days: the longest time that the command line and a ban accept. */
#define LS_TIME_MAX_NS (3653 * LS_NS_PER_DAY)

#define LS_RATE_ITEMS_MAX 4000000000ULL	  /* packets or connections per second */
#define LS_RATE_BYTES_MAX 125000000000ULL /* bytes per second: 1 Tbit/s */

/* Longest text of the printers below, with its NUL. */
#define LS_UNIT_TEXT 48

/* A plain decimal number from `low` to `high`: no sign, no suffix, no leading zero. */
int ls_number_parse(const char *text, uint64_t low, uint64_t high, uint64_t *ret,
		    struct ls_error *error);

/* A count: integer, optional k, M, G (1000s), from `low` to `high`. */
int ls_count_parse(const char *text, uint64_t low, uint64_t high, uint64_t *ret,
		   struct ls_error *error);

/*
 * A size in bytes, from 1 to `highest`: up to three decimals and a unit (B, kB, MB, GB, KiB, MiB, GiB); must
 * come out whole.
 */
int ls_size_parse(const char *text, uint64_t highest, uint64_t *ret, struct ls_error *error);

/* Packets or connections: number with up to three decimals, optional k, M, G, then /s /m /h /d.
 * From 1/d to 4G/s. */
int ls_rate_items_parse(const char *text, struct ls_rate *ret, struct ls_error *error);

/*
 * Bytes: number with up to three decimals, then bit/s kbit/s Mbit/s Gbit/s B/s kB/s MB/s GB/s KiB/s
 * MiB/s GiB/s. Above 0, up to 1000Gbit/s.
 */
int ls_rate_bytes_parse(const char *text, struct ls_rate *ret, struct ls_error *error);

/* A time: integer with ms, s, m, h or d, from `low_ns` to `high_ns` (whole milliseconds). */
int ls_time_parse(const char *text, uint64_t low_ns, uint64_t high_ns, uint64_t *ret_ns,
		  struct ls_error *error);

/*
 * units * numerator / denominator, reduced; operands so large that 64 bits cannot hold it:
 * saturates.
 */
struct ls_rate ls_rate_scale(struct ls_rate rate, uint64_t numerator, uint64_t denominator);

/* The reduced form of `units` in `period_ns` (> 0). */
struct ls_rate ls_rate_make(uint64_t units, uint64_t period_ns);

bool ls_rate_equal(struct ls_rate a, struct ls_rate b);

/* <0, 0, >0: exact comparison of the two rates. */
int ls_rate_compare(struct ls_rate a, struct ls_rate b);

/* How much comes in `span_ns`, rounded up; saturates at UINT64_MAX. */
uint64_t ls_rate_over(struct ls_rate rate, uint64_t span_ns);

/*
 * Canonical spellings, shortest number first: 10k; 64KiB; 90s; 1.5k/s; 100Mbit/s (bits before bytes
 * where they are equally short). A rate that no accepted spelling expresses is given to three
 * decimals with "~" in front, which no reader accepts; rates that were read, times an integer,
 * never are. They return `text`.
 */
char *ls_count_format(uint64_t count, char text[static LS_UNIT_TEXT]);
char *ls_size_format(uint64_t bytes, char text[static LS_UNIT_TEXT]);
char *ls_rate_items_format(struct ls_rate rate, char text[static LS_UNIT_TEXT]);
char *ls_rate_bytes_format(struct ls_rate rate, char text[static LS_UNIT_TEXT]);
/*
 * The byte rate in the other family: bytes where the canonical form is in bits, and the reverse; ""
 * where that has no exact spelling. For people: both are shown side by side.
 */
char *ls_rate_bytes_format_other(struct ls_rate rate, char text[static LS_UNIT_TEXT]);
char *ls_time_format(uint64_t ns, char text[static LS_UNIT_TEXT]);

#endif
