/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_TWIN_TWIN_H
#define LOADSHED_TWIN_TWIN_H

/* From a policy in YAML to the host build of the program, and frames to hand it. */

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "loadshed/reasons.h"
#include "loadshed/table_abi.h"
#include "tests/twin/host.h"
#include "user/base/error.h"
#include "user/policy/policy.h"
#include "user/policy/read.h"

#define TWIN_XDP_DROP 1
#define TWIN_XDP_PASS 2
#define TWIN_SECOND 1000000000ULL

/* Seeded, so that a failure can be run again. */
static inline uint64_t twin_random(void *state)
{
	uint64_t *s = state, z = *s += 0x9e3779b97f4a7c15ULL;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static struct ls_ledger twin_ledger;

/* Publishes the policy `yaml` into `half` of a plane that ls_host_start() made. */
static inline void twin_publish(const char *yaml, unsigned half)
{
	struct ls_error error = LS_ERROR_INIT;
	struct ls_policy *policy = NULL;
	struct ls_image *image = NULL;
	uint64_t seed = 7;
	if (ls_policy_read_memory("test.yaml", yaml, strlen(yaml), NULL, &policy, &error) ||
	    ls_policy_compile(policy, half, &twin_ledger, twin_random, &seed, &image, &error))
		fail_msg("%s", error.text);
	ls_host_publish(image, half);
	ls_image_free(image);
	ls_policy_free(policy);
}

static inline void twin_start(unsigned cpus, const char *yaml)
{
	memset(&twin_ledger, 0, sizeof(twin_ledger));
	ls_host_start(cpus, 4096, 42);
	ls_host_set_clock(0);
	ls_host_set_epoch(0, 0);
	ls_host_set_jiffies(1); /* not 0: what is refused is sampled, too */
	twin_publish(yaml, 0);
}

#define TWIN_UDP_BYTES 42

/* UDP from `source` (host order) to 198.51.100.10:port. */
static inline void twin_udp(uint8_t *frame, uint32_t source, uint16_t port)
{
	static const uint8_t base[TWIN_UDP_BYTES] = {
		2, 0,  0,  0, 0, 1, 2, 0, 0, 0,	  0,  2,   8,  0,    0x45, 0, 0, 28, 0, 1, 0,
		0, 64, 17, 0, 0, 0, 0, 0, 0, 198, 51, 100, 10, 0x13, 0x88, 0, 0, 0,  8, 0, 0,
	};
	memcpy(frame, base, sizeof(base));
	for (int i = 0; i < 4; i++)
		frame[26 + i] = (uint8_t)(source >> (24 - 8 * i));
	frame[36] = (uint8_t)(port >> 8);
	frame[37] = (uint8_t)port;
}

#endif
