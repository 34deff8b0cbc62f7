/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/replay/replay.h"

/*
 * One loop: read a record, make a frame of it, have it judged, add it up, print its line.
 *
 * Time. The first packet is the epoch. An earlier stamp than the latest counts as the latest, so time
 * never runs backwards. State in the tables is compared modulo 2^64 ticks (bounds.h), which holds while two
 * looks at it are less than 4.5 years apart; merged captures can have wider gaps. No bucket or window
 * outlives 417 days, so after GAP_NS of silence starting afresh is the same thing, except for a class
 * ban `for` longer than that, which is forgotten.
 *
 * Frames. What the capture cut off is zeros. The judge sees at most frame_max bytes, which hold all
 * headers there can be (8 extension headers claim at most 2 KiB each), and is told the true length.
 *
 * Lines are put together by hand: at several hundred thousand packets per second a JSON library and
 * printf would each cost more than the verdict.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/addr.h"
#include "user/base/cleanup.h"
#include "user/base/error.h"
#include "user/replay/capture.h"

/* Four years: less than half of the ticks' range, more than any state but a ban lasts. */
#define GAP_NS (4ULL * 365 * 86400 * 1000000000)

/* Longest line: constant text, two names, an address, a number and a time are below 400. */
#define LINE_BYTES 512
#define LINES_BYTES (64 * 1024)

static const char *const verdict_texts[] = {
#define LS_VERDICT_TEXT(id, text) [LS_VERDICT_##id] = text,
	LS_VERDICTS(LS_VERDICT_TEXT)
#undef LS_VERDICT_TEXT
};

static const char *const reason_texts[] = {
#define LS_REASON_TEXT(id, text) [LS_REASON_##id] = text,
	LS_REASONS(LS_REASON_TEXT)
#undef LS_REASON_TEXT
};

_Static_assert(sizeof(verdict_texts) / sizeof(*verdict_texts) == LS_VERDICT_MAX, "all named");
_Static_assert(sizeof(reason_texts) / sizeof(*reason_texts) == LS_REASON_MAX, "all named");

struct replay {
	const struct ls_replay_request *request;
	struct ls_replay_summary *summary;
	unsigned digits;
	uint8_t *frame;	   /* owned; judge.frame_max bytes, for records that were cut off */
	uint64_t now_ns;   /* latest time so far */
	char *lines;	   /* owned; LINES_BYTES */
	size_t line_bytes; /* in use */
};

static char *put(char *at, const char *text)
{
	const size_t length = strlen(text);

	memcpy(at, text, length);
	return at + length;
}

/* Decimal, with at least `digits` digits. */
static char *put_number(char *at, uint64_t value, unsigned digits)
{
	char reversed[20];
	unsigned length = 0;

	while (value || length < digits) {
		reversed[length++] = (char)('0' + value % 10);
		value /= 10;
	}
	while (length)
		*at++ = reversed[--length];
	return at;
}

/* Seconds with `digits` decimals, 0 to 9; what is finer is cut off. */
static char *put_time(char *at, uint64_t time_ns, unsigned digits)
{
	uint64_t fraction = time_ns % 1000000000;

	at = put_number(at, time_ns / 1000000000, 1);
	if (!digits)
		return at;
	for (unsigned digit = digits; digit < 9; digit++)
		fraction /= 10;
	*at++ = '.';
	return put_number(at, fraction, digits);
}

static char *put_string_or_null(char *at, const char *text)
{
	if (!text)
		return put(at, "null");
	*at++ = '"';
	at = put(at, text); /* names and addresses need no escapes */
	*at++ = '"';
	return at;
}

static char *put_source(char *at, const struct ls_replay_abi *verdict)
{
	char text[LS_PREFIX_TEXT];
	struct ls_prefix source = { .family = LS_IPV6, .length = 128 };

	if (verdict->family == 4) {
		*at++ = '"';
		for (unsigned shift = 24;; shift -= 8) {
			at = put_number(at, verdict->source_low >> shift & 0xff, 1);
			if (!shift)
				break;
			*at++ = '.';
		}
		*at++ = '"';
		return at;
	}
	if (verdict->family != 6)
		return put(at, "null");
	for (unsigned i = 0; i < 8; i++) {
		source.bytes[i] = (uint8_t)(verdict->source_high >> (56 - 8 * i));
		source.bytes[8 + i] = (uint8_t)(verdict->source_low >> (56 - 8 * i));
	}
	return put_string_or_null(at, ls_address_format(&source, text));
}

static int lines_flush(struct replay *replay, struct ls_error *error)
{
	const size_t length = replay->line_bytes;

	replay->line_bytes = 0;
	if (length && fwrite(replay->lines, 1, length, replay->request->packets) != length)
		return ls_error_set_errno(error, errno ? errno : EIO,
					  "cannot write the packets' lines");
	return 0;
}

static int line_add(struct replay *replay, const struct ls_capture_packet *packet,
		    const struct ls_replay_abi *verdict, struct ls_error *error)
{
	const struct ls_replay_request *const request = replay->request;
	const struct ls_replay_class *const class =
		verdict->class_index < request->n_classes ? &request->classes[verdict->class_index]
							  : NULL;
	const char *const limit =
		class && verdict->limit < LS_CLASS_LIMITS ? class->limits[verdict->limit] : NULL;

	if (replay->line_bytes + LINE_BYTES > LINES_BYTES) {
		const int failed = lines_flush(replay, error);

		if (failed)
			return failed;
	}
	char *const start = replay->lines + replay->line_bytes;
	char *at = put(start, "{\"packet\":");
	at = put_number(at, packet->number, 1);
	at = put(at, ",\"time\":\"");
	at = put_time(at, packet->time_ns, replay->digits);
	at = put(at, "\",\"verdict\":\"");
	at = put(at, verdict_texts[verdict->verdict]);
	at = put(at, "\",\"reason\":\"");
	at = put(at, reason_texts[verdict->reason]);
	at = put(at, "\",\"class\":");
	at = put_string_or_null(at, class ? class->name : NULL);
	at = put(at, ",\"limit\":");
	at = put_string_or_null(at, limit);
	at = put(at, ",\"source\":");
	at = put_source(at, verdict);
	at = put(at, "}\n");
	replay->line_bytes += (size_t)(at - start);
	return 0;
}

static void tally_add(struct ls_replay_tally *tally, uint8_t verdict)
{
	tally->drop += verdict == LS_VERDICT_DROP;
	tally->pass += verdict != LS_VERDICT_DROP;
	tally->would_drop += verdict == LS_VERDICT_WOULD_DROP;
}

static void summary_add(struct ls_replay_summary *summary, const struct ls_capture_packet *packet,
			const struct ls_replay_abi *verdict)
{
	summary->packets++;
	summary->bytes += packet->wire_bytes;
	summary->reasons[verdict->reason]++;
	tally_add(&summary->total, verdict->verdict);
	if (verdict->class_index < LS_CLASSES)
		tally_add(&summary->classes[verdict->class_index], verdict->verdict);
}

/* Moves time on to the packet's; starts it where it has not begun, or after a gap. */
static int clock_advance(struct replay *replay, const struct ls_capture_packet *packet,
			 struct ls_error *error)
{
	const bool first = packet->number == 1;
	const uint64_t before_ns = replay->now_ns;

	if (first || packet->time_ns > before_ns)
		replay->now_ns = packet->time_ns;
	if (first)
		replay->summary->begin_ns = packet->time_ns;
	replay->summary->end_ns = replay->now_ns;
	if (!first && replay->now_ns - before_ns <= GAP_NS)
		return 0;
	return replay->request->judge.start(replay->request->judge.context, replay->now_ns, error);
}

/* The packet as the judge takes it, padded with zeros where the capture holds less. */
static const uint8_t *frame_of(struct replay *replay, const struct ls_capture_packet *packet,
			       uint32_t *ret_length)
{
	const uint32_t max = replay->request->judge.frame_max;
	const uint32_t length = packet->wire_bytes < max ? packet->wire_bytes : max;

	*ret_length = length;
	if (packet->held_bytes >= length)
		return packet->held;
	memcpy(replay->frame, packet->held, packet->held_bytes);
	memset(replay->frame + packet->held_bytes, 0, length - packet->held_bytes);
	return replay->frame;
}

static int packet_judge(struct replay *replay, const struct ls_capture_packet *packet,
			struct ls_replay_abi *ret_verdict, struct ls_error *error)
{
	const struct ls_replay_judge *const judge = &replay->request->judge;

	if (packet->wire_bytes < LS_REPLAY_FRAME_MIN) {
		*ret_verdict = (struct ls_replay_abi){
			.verdict = (uint8_t)replay->request->malformed,
			.reason = LS_REASON_MALFORMED,
			.limit = UINT8_MAX,
			.class_index = UINT16_MAX,
		};
		return 0;
	}
	uint32_t length;
	const uint8_t *const frame = frame_of(replay, packet, &length);
	const int failed = judge->run(judge->context, frame, length, packet->wire_bytes,
				      replay->now_ns, ret_verdict);

	if (failed)
		return ls_error_set_errno(
			error, -failed, "cannot run the program on packet %llu of '%s'",
			(unsigned long long)packet->number, replay->request->capture);
	if (ret_verdict->verdict >= LS_VERDICT_MAX || ret_verdict->reason >= LS_REASON_MAX) {
		ls_error_set(error,
			     "the program gave packet %llu verdict %u and reason %u, which this "
			     "build does not know; rebuild it",
			     (unsigned long long)packet->number, ret_verdict->verdict,
			     ret_verdict->reason);
		return -EPROTO;
	}
	return 0;
}

static int capture_judge(struct replay *replay, struct ls_capture *capture, struct ls_error *error)
{
	struct ls_capture_packet packet;
	struct ls_replay_abi verdict;
	int more;

	while ((more = ls_capture_next(capture, &packet, error)) > 0) {
		int failed = clock_advance(replay, &packet, error);

		if (!failed)
			failed = packet_judge(replay, &packet, &verdict, error);
		if (failed)
			return failed;
		summary_add(replay->summary, &packet, &verdict);
		if (replay->lines) {
			failed = line_add(replay, &packet, &verdict, error);
			if (failed)
				return failed;
		}
	}
	return more;
}

int ls_replay_run(const struct ls_replay_request *request, struct ls_replay_summary *ret_summary,
		  struct ls_error *error)
{
	_cleanup_(ls_capture_closep) struct ls_capture *capture = NULL;
	_cleanup_free_ uint8_t *frame = malloc(request->judge.frame_max);
	_cleanup_free_ char *lines = request->packets ? malloc(LINES_BYTES) : NULL;
	struct replay replay = {
		.request = request,
		.summary = ret_summary,
		.frame = frame,
		.lines = lines,
	};

	memset(ret_summary, 0, sizeof(*ret_summary));
	if (!frame || (request->packets && !lines))
		return ls_error_oom(error);
	int failed = ls_capture_open(request->capture, &capture, error);
	if (failed)
		return failed;
	replay.digits = ls_capture_digits(capture);

	failed = capture_judge(&replay, capture, error);
	const int unwritten = lines_flush(&replay, error);
	return failed ? failed : unwritten;
}
