/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/top.h"

#include "user/base/error.h"
#include "user/plane/internal.h"
#include "user/plane/summary.h"

#define EPOCHS 2 /* that a reading is made of: 1.07 s */
#define READ_TRIES 8
/* A CPU asks the clock once in a jiffy, up to 10 ms, and so may be that late to leave an epoch. */
#define LATE_NS (20 * 1000000ULL)

/* The newest epoch that no CPU writes into any more; 0: none. */
static uint64_t newest(const struct ls_plane *plane)
{
	const uint64_t now_ns = ls_plane_now(plane);

	return now_ns < LATE_NS ? 0 : (now_ns - LATE_NS) >> LS_TOP_EPOCH_SHIFT;
}

uint64_t ls_top_wait_ns(const struct ls_plane *plane, uint64_t number)
{
	const uint64_t now_ns = ls_plane_now(plane);
	const uint64_t ready_ns = ((number + 1) << LS_TOP_EPOCH_SHIFT) + LATE_NS;

	return ready_ns > now_ns ? ready_ns - now_ns : 0;
}

static unsigned count_interfaces(const struct ls_plane *plane)
{
	const struct ls_state *state = ls_plane_state(plane);
	unsigned count = 0;

	for (int i = 0; i < LS_STATE_INTERFACES; i++)
		count += state->interfaces[i].ifindex != 0;
	return count ? count : 1;
}

int ls_top_read(struct ls_plane *plane, const char *interface, struct ls_top_reading *ret,
		struct ls_error *error)
{
	struct ls_summary_request request = {
		.hash_key = ls_plane_control(plane)->hash_key,
		.n_interfaces = count_interfaces(plane),
		.bank = -1,
	};

	if (plane->maps[LS_MAP_TOP].fd < 0)
		return ls_error_set(
			error,
			"cannot tell who sends: the program that runs was made by a build without 'top'; 'loadshed attach' of this one, on an interface that is attached, replaces it");
	if (interface) {
		const struct ls_state_interface *row = NULL;
		const int r = ls_row_find(plane, interface, &row, error);
		if (r < 0)
			return r;
		request.ifindex = row->ifindex;
		request.bank = row->bank;
	}
	request.cpus = ls_plane_memory(plane, LS_MAP_TOP, error);
	if (!request.cpus)
		return -EIO;
	request.n_cpus = plane->maps[LS_MAP_TOP].entries;
	for (int i = 0; i < READ_TRIES; i++) {
		request.number = newest(plane);
		request.n_epochs = request.number < EPOCHS ? (unsigned)request.number : EPOCHS;
		if (request.n_epochs == 0) {
			*ret = (struct ls_top_reading){ 0 };
			return 0;
		}
		const int r = ls_summary_read(&request, ret, error);
		if (r != -EAGAIN)
			return r;
	}
	return ls_error_set(
		error,
		"cannot read who sends: this process gets no time; try again when the host is less busy");
}
