/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * libFuzzer on frames: any bytes, through the whole host build. The first byte moves the clock; the frame ends at
 * the end of a page. `make fuzz` builds and runs it.
 */

#include <stdlib.h>
#include <sys/mman.h>

#include "tests/twin/twin.h"

#define PAGE 4096

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	static uint8_t *pages;
	static uint64_t now = 1700000000 * TWIN_SECOND;
	if (!pages) {
		twin_start(1,
			   "version: 1\nallow: [192.0.2.0/24]\ndeny: ['2001:db8::/32']\nclasses:\n"
			   "  - name: a\n    match: { ports: [53], vlan: 7, tcp_flags: [syn] }\n"
			   "    limits: [ { rate: 9/s }, { per: flow, name: b, rate: 9/s } ]\n"
			   "  - name: b\n    match: any\n    limits: [ { rate: 99/s } ]\n");
		pages = ls_host_frame(2 * PAGE);
		mprotect(pages + PAGE, PAGE, PROT_NONE);
		ls_host_set_epoch(now, now);
	}
	if (length < 1 || length > PAGE)
		return 0;
	now += bytes[0] * 1000000ULL;
	uint8_t *frame = pages + PAGE - (length - 1);
	memcpy(frame, bytes + 1, length - 1);
	struct ls_replay_abi said = ls_host_replay(frame, length - 1, now);
	if (said.verdict >= LS_VERDICT_MAX || said.reason >= LS_REASON_MAX)
		abort();
	return 0;
}
