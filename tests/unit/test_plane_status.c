/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/* What `status` must say of trouble that the kernel counted: nothing that is counted is told nowhere. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "user/base/error.h"
#include "user/plane/internal.h"

static struct ls_plane plane;
static struct ls_control control;
static struct ls_state record;

static int start(void **state)
{
	(void)state;
	memset(&control, 0, sizeof(control));
	memset(&record, 0, sizeof(record));
	ls_plane_init(&plane, "ls-unit-status", LS_PLANE_READ);
	plane.maps[LS_MAP_CONTROL].memory = &control;
	plane.maps[LS_MAP_STATE].memory = &record;
	ls_load_digest(record.object_sha256);
	record.made_ns = 1000;
	return 0;
}

static void assert_degraded(const char *text)
{
	struct ls_plane_status status = { 0 };
	struct ls_error error = LS_ERROR_INIT;

	assert_int_equal(ls_plane_status(&plane, &status, &error), 0);
	assert_int_equal(status.n_degraded, text ? 1 : 0);
	if (text)
		assert_non_null(strstr(status.degraded[0], text));
	ls_plane_status_fini(&status);
}

static void packets_that_passed_uncharged_are_told(void **state)
{
	(void)state;
	assert_degraded(NULL);
	control.contended = 17;
	assert_degraded("17 packets passed uncharged");
}

static void bans_that_found_no_room_are_told(void **state)
{
	(void)state;
	control.bans_lost = 3;
	assert_degraded("3 bans by classes found no room");
}

static void a_program_runs_since_it_was_replaced(void **state)
{
	struct ls_plane_status status = { 0 };
	struct ls_error error = LS_ERROR_INIT;

	(void)state;
	for (uint64_t upgraded = 0; upgraded < 6000; upgraded += 5000) {
		record.upgraded_ns = upgraded;
		assert_int_equal(ls_plane_status(&plane, &status, &error), 0);
		assert_int_equal(status.program_ns, upgraded ? upgraded : record.made_ns);
		ls_plane_status_fini(&status);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(packets_that_passed_uncharged_are_told, start),
		cmocka_unit_test_setup(bans_that_found_no_room_are_told, start),
		cmocka_unit_test_setup(a_program_runs_since_it_was_replaced, start),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
