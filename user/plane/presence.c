/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/presence.h"

#include <stdio.h>
#include <string.h>

#include "user/plane/link.h"

_Static_assert(LS_PRESENCE_ROWS == LS_STATE_INTERFACES, "a row for each interface");

void ls_row_presence(const struct ls_plane *plane, const struct ls_state_interface *row,
		     struct ls_presence_row *ret)
{
	struct ls_device device;
	struct ls_resident resident = { 0 };

	memset(ret, 0, sizeof(*ret));
	snprintf(ret->name, sizeof(ret->name), "%.15s", row->name);
	memcpy(ret->now, ret->name, sizeof(ret->now));
	ret->ifindex = row->ifindex;
	const bool is_there = ls_device_get(row->ifindex, &device) == 0;
	if (ls_row_is_alive(plane, row)) {
		if (!ls_row_is_here(plane, row))
			ret->presence = LS_PRESENCE_MOVED;
		else if (is_there)
			snprintf(ret->now, sizeof(ret->now), "%.15s", device.name);
		return;
	}
	if (!is_there) {
		ret->presence = LS_PRESENCE_VANISHED;
		return;
	}
	ret->presence = LS_PRESENCE_TAKEN_OFF;
	if (ls_device_resident(row->ifindex, &resident) < 0)
		return;
	ret->foreign_id = resident.program_id;
	snprintf(ret->foreign_name, sizeof(ret->foreign_name), "%s", resident.program_name);
}

size_t ls_presence_read(const struct ls_plane *plane,
			struct ls_presence_row ret_rows[static LS_PRESENCE_ROWS])
{
	const struct ls_state *state = ls_plane_state(plane);
	size_t count = 0;

	/* One that is being attached at this moment has no link yet. */
	for (int i = 0; i < LS_STATE_INTERFACES; i++)
		if (state->interfaces[i].ifindex &&
		    !(state->interfaces[i].flags & LS_STATE_F_PENDING))
			ls_row_presence(plane, &state->interfaces[i], &ret_rows[count++]);
	return count;
}
