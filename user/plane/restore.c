/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/restore.h"

#include <net/if.h>
#include <string.h>

#include "user/base/error.h"
#include "user/plane/bans.h"
#include "user/plane/plane.h"
#include "user/policy/check.h"
#include "user/policy/policy.h"

void ls_restore_fini(struct ls_restore *restore)
{
	ls_saved_attach_fini(&restore->attach);
	ls_policy_free(restore->policy);
	free(restore->path);
	free(restore->bans);
	memset(restore, 0, sizeof(*restore));
}

int ls_restore_read(const char *instance, struct ls_restore *ret, struct ls_error *bans_error,
		    struct ls_error *error)
{
	_cleanup_restore_ struct ls_restore restore = { 0 };
	int r = ls_save_read_attach(instance, &restore.attach, error);

	if (r == -ENOENT || (r == 0 && restore.attach.n_interfaces == 0))
		return LS_RESTORE_E_NOTHING;
	if (r == 0)
		r = ls_save_read_policy(instance, &restore.policy, &restore.path, error);
	if (r < 0)
		return r;
	restore.bans_failed =
		ls_save_read_bans(instance, &restore.bans, &restore.n_bans, bans_error) < 0;
	*ret = restore;
	restore = (struct ls_restore){ 0 };
	return 0;
}

static enum ls_plane_mode mode_of(const struct ls_restore *restore, const char *name)
{
	for (size_t i = 0; i < restore->attach.n_interfaces; i++)
		if (strcmp(restore->attach.interfaces[i].name, name) == 0)
			return ls_plane_mode_parse(restore->attach.interfaces[i].mode);
	return LS_PLANE_AUTO;
}

int ls_restore_interface(const char *instance, const struct ls_restore *restore, const char *name,
			 bool verbose, struct ls_warnings *notes, struct ls_error *error)
{
	bool published = false;
	const struct ls_plane_attach request = {
		.instance = instance,
		.interfaces = &name,
		.n_interfaces = 1,
		.mode = mode_of(restore, name),
		.monitor = restore->attach.monitor,
		.verbose = verbose,
		.policy = restore->policy,
		.policy_path = restore->path,
		.restore = true,
		.bans = restore->bans,
		.n_bans = restore->n_bans,
	};

	if (if_nametoindex(name) == 0)
		return ls_error_set(
			error,
			"cannot restore '%s': there is no such interface; 'loadshed restore' attaches it when it is there, 'loadshed detach %s' forgets it",
			name, name);
	const int r = ls_plane_attach(&request, notes, &published, error);
	if (r < 0)
		ls_error_prefix(error, "cannot restore '%s'", name);
	return r;
}
