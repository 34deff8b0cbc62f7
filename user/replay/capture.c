/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* fopencookie */
#endif
#include "user/replay/capture.h"

/*
 * libpcap reads the records; it knows byte orders, vendors' variants and pcapng, and has met more broken
 * files than we ever shall. Two things it does not tell, so the first bytes of the file are looked at
 * here, too: how many decimals the stamps really have (it scales all of them to ns), and the same for
 * pcapng, where the first interface's if_tsresol says it. A capture whose interfaces have different
 * resolutions is shown with the digits of the first; the stamps themselves stay exact.
 *
 * The file is read through a stdio stream of our own that gives back the bytes already looked at. That
 * works for pipes, where one cannot seek, and for files alike, so there is one path.
 */

#include <errno.h>
#include <fcntl.h>
#include <pcap/pcap.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "user/base/error.h"

/* What is looked at in advance: a section header and an interface block with long comments. */
#define HEAD_BYTES 16384
/* Stdio's block: reading is a tenth of the replay's time at 4 KiB, nothing at this. */
#define STREAM_BYTES (256 * 1024)

struct ls_capture {
	char *name; /* owned, for messages */
	pcap_t *pcap;
	int fd;
	uint8_t head[HEAD_BYTES];
	size_t head_bytes, head_read;
	unsigned digits;
	uint64_t packets;
};

static ssize_t stream_read(void *cookie, char *bytes, size_t size)
{
	struct ls_capture *const capture = cookie;
	const size_t left = capture->head_bytes - capture->head_read;

	if (left) {
		const size_t some = left < size ? left : size;

		memcpy(bytes, capture->head + capture->head_read, some);
		capture->head_read += some;
		return (ssize_t)some;
	}
	ssize_t some;
	do
		some = read(capture->fd, bytes, size);
	while (some < 0 && errno == EINTR);
	return some;
}

static int stream_close(void *cookie)
{
	struct ls_capture *const capture = cookie;

	close(capture->fd);
	capture->fd = -1;
	return 0;
}

/* Fills head: as much of HEAD_BYTES as there is. 0 or a negative errno. */
static int head_fill(struct ls_capture *capture)
{
	while (capture->head_bytes < HEAD_BYTES) {
		const ssize_t some = read(capture->fd, capture->head + capture->head_bytes,
					  HEAD_BYTES - capture->head_bytes);

		if (some < 0 && errno == EINTR)
			continue;
		if (some < 0)
			return -errno;
		if (some == 0)
			break;
		capture->head_bytes += (size_t)some;
	}
	return 0;
}

static uint32_t word_at(const struct ls_capture *capture, size_t offset, bool swapped)
{
	uint32_t word;

	memcpy(&word, capture->head + offset, sizeof(word));
	return swapped ? __builtin_bswap32(word) : word;
}

static uint16_t half_at(const struct ls_capture *capture, size_t offset, bool swapped)
{
	uint16_t half;

	memcpy(&half, capture->head + offset, sizeof(half));
	return swapped ? __builtin_bswap16(half) : half;
}

/* Decimals of if_tsresol: a power of ten says it; a power of two is shown to the ns. */
static unsigned digits_of_resolution(uint8_t resolution)
{
	return resolution & 0x80 || resolution > 9 ? 9 : resolution;
}

/* Looks for if_tsresol (option 9) among the options in [offset, end) of an interface block. */
static unsigned digits_of_interface(const struct ls_capture *capture, size_t offset, size_t end,
				    bool swapped)
{
	while (offset + 4 <= end) {
		const uint16_t code = half_at(capture, offset, swapped);
		const uint16_t length = half_at(capture, offset + 2, swapped);

		if (code == 0)
			break;
		if (code == 9 && length >= 1 && offset + 5 <= end)
			return digits_of_resolution(capture->head[offset + 4]);
		offset += 4 + ((size_t)length + 3) / 4 * 4;
	}
	return 6; /* the format's default */
}

/* draft-ietf-opsawg-pcapng: section header, then the first interface description block. */
static unsigned digits_of_pcapng(const struct ls_capture *capture)
{
	if (capture->head_bytes < 12)
		return 6;
	const bool swapped = word_at(capture, 8, false) != 0x1a2b3c4d;
	size_t offset = 0;

	while (offset + 8 <= capture->head_bytes) {
		const uint32_t type = word_at(capture, offset, swapped);
		const uint32_t length = word_at(capture, offset + 4, swapped);
		const size_t end = offset + (size_t)length;

		if (length < 12 || length % 4)
			break;
		if (type == 1) {
			const size_t options_end =
				end - 4 < capture->head_bytes ? end - 4 : capture->head_bytes;

			return digits_of_interface(capture, offset + 16, options_end, swapped);
		}
		offset = end;
	}
	return 6;
}

static unsigned digits_of_file(const struct ls_capture *capture)
{
	if (capture->head_bytes < 4)
		return 6;
	switch (word_at(capture, 0, false)) {
	case 0xa1b23c4d: /* ns, either byte order */
	case 0x4d3cb2a1:
	case 0x1c0001ac: /* IXIA's ns variant, either byte order */
	case 0xac01001c:
		return 9;
	case 0x0a0d0d0a:
		return digits_of_pcapng(capture);
	default:
		return 6;
	}
}

void ls_capture_close(struct ls_capture *capture)
{
	if (!capture)
		return;
	if (capture->pcap)
		pcap_close(capture->pcap); /* closes the stream, and that the descriptor */
	if (capture->fd >= 0)
		close(capture->fd);
	free(capture->name);
	free(capture);
}

static int pcap_attach(struct ls_capture *capture, struct ls_error *error)
{
	static const cookie_io_functions_t functions = { .read = stream_read,
							 .close = stream_close };
	char reason[PCAP_ERRBUF_SIZE] = "";
	_cleanup_fclose_ FILE *stream = fopencookie(capture, "rb", functions);

	if (!stream || setvbuf(stream, NULL, _IOFBF, STREAM_BYTES))
		return ls_error_oom(error);
	capture->pcap = pcap_fopen_offline_with_tstamp_precision(stream, PCAP_TSTAMP_PRECISION_NANO,
								 reason);
	if (!capture->pcap) {
		ls_error_set(error, "cannot read '%s' as a capture: %s; pcap and pcapng are read",
			     capture->name, reason);
		return -EBADMSG;
	}
	(void)TAKE_PTR(stream);

	const int link = pcap_datalink(capture->pcap);
	if (link != DLT_EN10MB) {
		const char *const text = pcap_datalink_val_to_name(link);

		ls_error_set(
			error,
			"cannot replay '%s': its link type is %s (%d), and only Ethernet (1) has "
			"the header that the program reads; capture on an Ethernet interface",
			capture->name, text ? text : "unknown", link);
		return -EPROTONOSUPPORT;
	}
	return 0;
}

int ls_capture_open(const char *path, struct ls_capture **ret_capture, struct ls_error *error)
{
	_cleanup_(ls_capture_closep) struct ls_capture *capture = calloc(1, sizeof(*capture));

	if (!capture)
		return ls_error_oom(error);
	capture->fd = -1;
	const bool is_stdin = strcmp(path, "-") == 0;
	capture->name = strdup(is_stdin ? "standard input" : path);
	if (!capture->name)
		return ls_error_oom(error);

	capture->fd = is_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
			       : open(path, O_RDONLY | O_CLOEXEC);
	if (capture->fd < 0)
		return ls_error_set_errno(error, errno, "cannot open capture '%s'", capture->name);
	int failed = head_fill(capture);
	if (failed)
		return ls_error_set_errno(error, -failed, "cannot read capture '%s'",
					  capture->name);
	if (capture->head_bytes == 0) {
		ls_error_set(error, "cannot read '%s' as a capture: it is empty", capture->name);
		return -EBADMSG;
	}
	capture->digits = digits_of_file(capture);
	failed = pcap_attach(capture, error);
	if (failed)
		return failed;
	*ret_capture = TAKE_PTR(capture);
	return 0;
}

/*
 * libpcap keeps the 32-bit seconds of pcap files as signed, but they count to 2106; a fraction beyond a
 * second, as broken writers leave, is carried.
 */
static uint64_t time_of(const struct timeval *stamp)
{
	uint64_t seconds = (uint64_t)stamp->tv_sec;
	const uint64_t fraction = stamp->tv_usec > 0 ? (uint64_t)stamp->tv_usec : 0; /* ns */

	if (stamp->tv_sec < 0)
		seconds = (uint32_t)stamp->tv_sec;
	if (seconds >= LS_CAPTURE_TIME_MAX_NS / 1000000000 ||
	    fraction > LS_CAPTURE_TIME_MAX_NS - seconds * 1000000000)
		return LS_CAPTURE_TIME_MAX_NS;
	return seconds * 1000000000 + fraction;
}

int ls_capture_next(struct ls_capture *capture, struct ls_capture_packet *ret_packet,
		    struct ls_error *error)
{
	struct pcap_pkthdr *header = NULL;
	const uint8_t *held = NULL;

	switch (pcap_next_ex(capture->pcap, &header, &held)) {
	case 1:
		break;
	case PCAP_ERROR_BREAK:
		return 0;
	default:
		ls_error_set(error, "cannot read '%s' further than packet %llu: %s", capture->name,
			     (unsigned long long)capture->packets, pcap_geterr(capture->pcap));
		return -EBADMSG;
	}
	*ret_packet = (struct ls_capture_packet){
		.number = ++capture->packets,
		.time_ns = time_of(&header->ts),
		.wire_bytes = header->len > header->caplen ? header->len : header->caplen,
		.held_bytes = header->caplen,
		.held = held,
	};
	return 1;
}

unsigned ls_capture_digits(const struct ls_capture *capture)
{
	return capture->digits;
}
