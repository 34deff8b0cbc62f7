/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * What limits in cluster scope cost the packet path, by BPF_PROG_TEST_RUN: the same class with its limit in node scope, in
 * cluster scope without a controller, with one and no shared source, and with the source shared. The rows are taken in
 * turns and the smallest of each counts, so that a busy machine moves them together.
 */

#include <unistd.h>

#include <bpf/bpf.h>

#include "tests/kern/common.h"
#include "user/plane/hot.h"

#define REPEAT 200000
#define TURNS 15

enum row { NODE, ALONE, NONE_HOT, HOT, ROWS };
static const char *const names[ROWS] = { "limit in node scope", "cluster scope, no controller",
					 "nothing is shared", "the source is shared" };

static uint8_t frame[64] = {
	2, 0,  0,  0, 0, 1,   2, 0,   0, 0,   0,  2,   8,  0,	 0x45, 0,    0,	   28, 0, 1, 0,
	0, 64, 17, 0, 0, 203, 0, 113, 7, 198, 51, 100, 10, 0x13, 0x88, 0x13, 0x88, 0,  8, 0, 0,
};

static uint32_t run(const struct ls_plane *plane)
{
	uint8_t out[256];
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = frame, .data_size_in = sizeof(frame),
		    .data_out = out, .data_size_out = sizeof(out), .repeat = REPEAT);

	if (bpf_prog_test_run_opts(plane->program_fd, &opts) < 0)
		return UINT32_MAX;
	return opts.duration;
}

static struct ls_plane *plane_of(bool is_cluster)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "version: 1\ncapacity: { sources: 10k }\n%sclasses:\n  - name: a\n    match: any\n"
		 "    limits: [{ rate: 1G/s, burst: 1G%s }]\n",
		 is_cluster ? "cluster: { redis: redis://h }\n" : "",
		 is_cluster ? ", scope: cluster" : "");
	return kern_sandbox(text, 10000, true);
}

static void share(struct ls_hot_writer *writer, struct ls_plane *plane, bool is_shared)
{
	struct ls_class_abi class;
	const struct ls_hot_news subject = { .family = 4, .source_low = 0xcb007107 };
	struct ls_hot_limit limit = { .scale = LS_HOT_SCALE_ONE,
				      .report_at = 1U << 30,
				      .epoch_shift = 30 };

	ls_hot_class(plane, 0, &class);
	ls_hot_set_limit(writer, class.limit[0].slot, limit, 0, false);
	ls_hot_enable(writer, 1000000000000ULL);
	if (!is_shared)
		return;
	const int entry = ls_hot_claim(
		writer, ls_hot_key(plane, &class.limit[0], class.slot, &subject), &subject);
	ls_hot_set(writer, entry, 0xf0000000, 1000000000000ULL, NULL);
}

int main(void)
{
	uint32_t best[ROWS] = { UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX };
	struct ls_plane *planes[ROWS];
	struct ls_hot_writer *writers[ROWS] = { NULL };
	struct ls_error error = LS_ERROR_INIT;

	for (int row = 0; row < ROWS; row++) {
		planes[row] = plane_of(row != NODE);
		if (row < NONE_HOT)
			continue;
		if (ls_hot_open(planes[row], &writers[row], &error) < 0) {
			kern_result(false, "the side table is there", "%s", error.text);
			return kern_status();
		}
		share(writers[row], planes[row], row == HOT);
	}
	for (int turn = 0; turn < TURNS; turn++)
		for (int row = 0; row < ROWS; row++) {
			const uint32_t ns = run(planes[row]);
			best[row] = ns < best[row] ? ns : best[row];
		}
	for (int row = 0; row < ROWS; row++)
		printf("# %-30s %3u ns a packet\n", names[row], best[row]);
	kern_result(best[NONE_HOT] <= best[NODE] + 5, "while nothing is shared it costs little",
		    "%u ns instead of %u", best[NONE_HOT], best[NODE]);
	kern_result(best[ALONE] <= best[NODE] + 3,
		    "without a controller cluster scope costs nothing", "%u ns instead of %u",
		    best[ALONE], best[NODE]);
	/* Generous, since other processes run: the figure is what counts. */
	kern_result(best[HOT] <= best[NODE] + 40, "a shared source costs little",
		    "%u ns instead of %u", best[HOT], best[NODE]);
	for (int row = 0; row < ROWS; row++) {
		ls_hot_close(writers[row]);
		ls_plane_close(planes[row]);
	}
	return kern_status();
}
