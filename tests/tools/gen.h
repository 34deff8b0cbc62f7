/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_TESTS_TOOLS_GEN_H
#define LOADSHED_TESTS_TOOLS_GEN_H

/*
 * The bench's generator (user/bench/gen.h) for tests: what fails ends the process with a line, since
 * nothing can be tested then.
 */

#include <stdint.h>

#include "user/bench/gen.h"

struct ls_gen *gen_open(void);
void gen_target(struct ls_gen *gen, int program_fd);
/* Mean nanoseconds of a packet. */
double gen_run(struct ls_gen *gen, uint32_t packets);
void gen_send(struct ls_gen *gen, uint32_t packets);
/* One frame through a program; XDP_* is returned. */
int gen_once(int program_fd, const struct ls_gen_frame *frame);

void gen_frame_make(struct ls_gen_frame *frame, int family, int protocol, uint16_t port,
		    uint8_t tcp_flags);
void gen_pin(unsigned cpu);
unsigned gen_cpus(void);
/*
 * The calling thread and those that it starts get most of a CPU that others want, too; with
 * LS_OWN_SESSION=1 in the environment also beside other sessions. Others of its own session starve.
 */
void gen_prefer(void);

#endif
