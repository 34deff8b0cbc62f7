/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/link.h"

/*
 * The rows of the interfaces in `ls_state`: who is attached. A row, a pin and a bank of counters belong together
 * and go together.
 */

#include <string.h>

#include <bpf/bpf.h>

#include "user/plane/presence.h"

struct ls_state_interface *ls_row_of(const struct ls_plane *plane, uint32_t ifindex)
{
	struct ls_state *state = ls_plane_state(plane);

	for (int i = 0; i < LS_STATE_INTERFACES; i++)
		if (state->interfaces[i].ifindex == ifindex)
			return &state->interfaces[i];
	return NULL;
}

/* Whether the link of a row still has its device. */
bool ls_row_is_alive(const struct ls_plane *plane, const struct ls_state_interface *row)
{
	uint32_t ifindex = 0, link_id, program_id;
	_cleanup_close_ int fd = ls_pins_get_link(plane->directory, row->ifindex);

	return fd >= 0 && ls_link_info(fd, &ifindex, &link_id, &program_id) == 0 && ifindex != 0;
}

bool ls_row_is_here(const struct ls_plane *plane, const struct ls_state_interface *row)
{
	_cleanup_close_ int fd = ls_pins_get_link(plane->directory, row->ifindex);

	return fd >= 0 && ls_link_is_here(fd, row->ifindex);
}

#define MEMBERS_MAX 16

static void set_bank(struct ls_plane *plane, uint32_t ifindex, uint16_t number)
{
	struct ls_bank_abi *place = &ls_plane_control_rw(plane)->bank[ifindex % LS_BANK_SLOTS];
	const struct ls_bank_abi bank = { ifindex, number };
	uint64_t both;

	/* Somebody else's: a member is counted in bank 0 then, and an interface was given none (choose_bank). */
	if (place->ifindex && place->ifindex != ifindex)
		return;
	memcpy(&both, &bank, sizeof(both));
	__atomic_store_n((uint64_t *)place, both, __ATOMIC_RELEASE);
}

void ls_row_set_bank(struct ls_plane *plane, uint16_t bank, uint32_t ifindex,
		     const uint32_t *members, size_t n_members)
{
	set_bank(plane, ifindex, bank);
	for (size_t i = 0; i < n_members; i++)
		set_bank(plane, members[i], bank);
}

void ls_row_find_bank(struct ls_plane *plane, uint16_t bank, const struct ls_device *device)
{
	uint32_t members[MEMBERS_MAX];
	const size_t count = ls_device_members(device->name, members, MEMBERS_MAX);

	ls_row_set_bank(plane, bank, device->ifindex, members, count);
}

/* Takes the ways to a bank away, of all who have one; it keeps what it counted. */
static void clear_bank(const struct ls_plane *plane, unsigned bank)
{
	for (unsigned slot = 0; bank && slot < LS_BANK_SLOTS; slot++) {
		struct ls_bank_abi *place = &ls_plane_control_rw(plane)->bank[slot];
		if (place->ifindex && place->bank == bank)
			__atomic_store_n(&place->ifindex, 0, __ATOMIC_RELEASE);
	}
}

/* Forgets an interface: its row, its pin, its bank. The link must be detached, or dead. */
void ls_row_drop(struct ls_plane *plane, struct ls_state_interface *row)
{
	const unsigned bank = row->bank;

	clear_bank(plane, bank);
	(void)ls_pins_remove_link(plane->directory, row->ifindex);
	if (bank) {
		ls_grace_period();
		ls_counters_retire(plane, bank);
	}
	memset(row, 0, sizeof(*row));
}

/* Takes out what a killed attach left half done. */
void ls_rows_drop_pending(struct ls_plane *plane)
{
	struct ls_state *state = ls_plane_state(plane);

	for (int i = 0; i < LS_STATE_INTERFACES; i++) {
		struct ls_state_interface *row = &state->interfaces[i];
		if (!row->ifindex || !(row->flags & LS_STATE_F_PENDING))
			continue;
		_cleanup_close_ int fd = ls_pins_get_link(plane->directory, row->ifindex);
		if (fd >= 0)
			bpf_link_detach(fd);
		ls_row_drop(plane, row);
	}
}

void ls_rows_drop_dead(struct ls_plane *plane)
{
	struct ls_state *state = ls_plane_state(plane);

	for (int i = 0; i < LS_STATE_INTERFACES; i++) {
		struct ls_presence_row row;
		if (!state->interfaces[i].ifindex)
			continue;
		ls_row_presence(plane, &state->interfaces[i], &row);
		if (row.presence != LS_PRESENCE_VANISHED)
			continue;
		ls_plane_forget(plane, state->interfaces[i].name);
		ls_row_drop(plane, &state->interfaces[i]);
	}
}
