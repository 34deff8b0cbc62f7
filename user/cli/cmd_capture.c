/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/cli/follow.h"

/* capture: the packets of events, into a file that Wireshark reads. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "user/base/buffer.h"
#include "user/base/reason.h"
#include "user/observe/pcapng.h"
#include "user/plane/version.h"

#define FLUSH_BYTES (1U << 20) /* written at the latest when that much has come together */

struct capture {
	const char *path;
	bool is_stdout;
	bool is_broken; /* the file: nothing more is written to it */
	FILE *file;
	struct ls_buffer buffer;
	struct ls_pcapng pcapng;
	uint64_t packets, stood_for, lost;
};

static void capture_fini(struct capture *capture)
{
	if (capture->file && !capture->is_stdout)
		fclose(capture->file);
	capture->file = NULL;
	ls_buffer_fini(&capture->buffer);
}

/* The file is written through, so that it can be looked at while it grows. */
static bool flush(struct capture *capture)
{
	struct ls_buffer *buffer = &capture->buffer;

	if (buffer->failed)
		errno = ENOMEM;
	else if (fwrite(buffer->bytes, 1, buffer->length, capture->file) == buffer->length &&
		 fflush(capture->file) == 0) {
		buffer->length = 0;
		return true;
	}
	capture->is_broken = true;
	return false;
}

static bool drained(void *context)
{
	struct capture *capture = context;

	return !capture->buffer.length || flush(capture);
}

static bool lost(void *context, uint64_t events)
{
	((struct capture *)context)->lost += events;
	return true;
}

/* "reason=limit class=web limit=new verdict=drop stands_for=12" */
static void comment_of(const struct ls_event *event, char *text, size_t size)
{
	snprintf(text, size, "reason=%s%s%s%s%s verdict=%s stands_for=%" PRIu64,
		 ls_reason_name(event->reason), event->class[0] ? " class=" : "", event->class,
		 event->limit[0] ? " limit=" : "", event->limit, ls_verdict_name(event->verdict),
		 event->stands_for);
}

static bool show(void *context, const struct ls_event *event)
{
	struct capture *capture = context;
	char comment[256];

	comment_of(event, comment, sizeof(comment));
	ls_pcapng_add(&capture->pcapng,
		      &(struct ls_pcapng_packet){
			      .interface = event->interface,
			      .ifindex = event->ifindex,
			      .unix_ns = event->unix_ns,
			      .frame = event->frame,
			      .frame_bytes = event->frame_bytes,
			      .wire_bytes = event->bytes > event->frame_bytes ? event->bytes
									      : event->frame_bytes,
			      .stands_for = event->stands_for,
			      .comment = comment,
		      });
	capture->packets++;
	capture->stood_for += event->stands_for;
	return capture->buffer.length < FLUSH_BYTES || flush(capture);
}

/* Only now, when there is something to capture from, is a file that was there overwritten. */
static bool ready(void *context)
{
	struct capture *capture = context;

	capture->file = capture->is_stdout ? stdout : fopen(capture->path, "we");
	if (!capture->file) {
		ls_cli_note("cannot write '%s': %s; nothing was captured", capture->path,
			    strerror(errno));
		return false;
	}
	ls_pcapng_start(&capture->pcapng, &capture->buffer, "loadshed " LS_VERSION,
			ls_follow_now());
	if (!flush(capture)) {
		ls_cli_note("cannot write '%s': %s", capture->path, strerror(errno));
		return false;
	}
	ls_cli_note("capturing refused packets to '%s'; Ctrl-C ends it", capture->path);
	return true;
}

/* The statistics at the end, and what there is to be said. */
static int finish(struct ls_cli *cli, struct capture *capture, int r)
{
	if (!capture->file)
		return r;
	if (!capture->is_broken) {
		ls_pcapng_end(&capture->pcapng, ls_follow_now(), capture->lost);
		if (!flush(capture) && errno != EPIPE) {
			ls_cli_note("cannot write '%s': %s", capture->path, strerror(errno));
			r = LS_EXIT_FAILED;
		}
	}
	ls_cli_note("%" PRIu64 " packets captured, standing for %" PRIu64 " refused ones",
		    capture->packets, capture->stood_for);
	if (capture->lost)
		ls_cli_note(
			"%" PRIu64
			" more were lost because this was too slow for them; later ones of their kind stand for them",
			capture->lost);
	if (cli->json && r == LS_EXIT_DONE)
		return ls_cli_print_json(json_pack(
			"{s:o, s:I, s:I, s:I}", "file", ls_cli_text_json(capture->path), "packets",
			(json_int_t)capture->packets, "stands_for", (json_int_t)capture->stood_for,
			"lost", (json_int_t)capture->lost));
	return r;
}

int ls_cmd_capture(struct ls_cli *cli)
{
	_cleanup_(capture_fini) struct capture capture = {
		.path = cli->values[LS_OPTION_WRITE],
		.buffer = LS_BUFFER_INIT,
	};

	capture.is_stdout = strcmp(capture.path, "-") == 0;
	if (capture.is_stdout && cli->json)
		return ls_cli_usage("'-w -' writes the capture to stdout, so -o json has no place");
	if (capture.is_stdout && isatty(STDOUT_FILENO))
		return ls_cli_usage("'-w -' writes binary data; send it to a program or a file");
	const struct ls_follow what = {
		.context = &capture,
		.out_fd = capture.is_stdout ? STDOUT_FILENO : -1,
		.only_packets = true,
		.show = show,
		.lost = lost,
		.drained = drained,
	};
	return finish(cli, &capture, ls_follow(cli, &what, ready));
}
