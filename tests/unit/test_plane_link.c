/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/link.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <net/if_arp.h>

#include "user/base/error.h"
#include "user/plane/internal.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* What the kernel and its drivers answer, and the words that an operator needs then (FIELD ). */
static void a_refused_attach_names_interface_cause_and_way_out(void **state)
{
	static const struct {
		const char *what;
		enum ls_plane_mode mode;
		uint32_t mtu;
		int code;
		const char *said;
		const char *wanted[4];
	} rows[] = {
		{ "veth above one buffer",
		  LS_PLANE_NATIVE,
		  9000,
		  ERANGE,
		  "Peer MTU is too large to set XDP",
		  { "MTU of 9000", "mtu 1500", "--mode generic", "Peer MTU" } },
		{ "a driver that says EINVAL for it",
		  LS_PLANE_NATIVE,
		  9000,
		  EINVAL,
		  "",
		  { "MTU of 9000", "about 3498", "mtu 1500" } },
		{ "a driver that says EOPNOTSUPP for it",
		  LS_PLANE_AUTO,
		  9000,
		  EOPNOTSUPP,
		  "MTU too large for XDP",
		  { "MTU of 9000", "mtu 1500", "MTU too large" } },
		{ "no native mode at all",
		  LS_PLANE_NATIVE,
		  65536,
		  EOPNOTSUPP,
		  "Underlying driver does not support XDP in native mode",
		  { "no native mode", "--mode auto", "Underlying driver" } },
		{ "queues as out of memory",
		  LS_PLANE_NATIVE,
		  1500,
		  ENOMEM,
		  "",
		  { "queues", "ethtool -L nosuch0" } },
		{ "queues in the text",
		  LS_PLANE_NATIVE,
		  1500,
		  EINVAL,
		  "XDP requires more TX queues than available",
		  { "queues", "ethtool -L nosuch0", "more TX" } },
		{ "not root", LS_PLANE_NATIVE, 1500, EPERM, "", { "root" } },
		{ "somebody came first",
		  LS_PLANE_NATIVE,
		  1500,
		  EBUSY,
		  "",
		  { "another XDP program" } },
		{ "anything else",
		  LS_PLANE_GENERIC,
		  1500,
		  EIO,
		  "",
		  { "generic mode", "MTU 1500" } },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(rows); i++) {
		const struct ls_device device = { .name = "nosuch0",
						  .mtu = rows[i].mtu,
						  .driver = "some" };
		struct ls_error error = LS_ERROR_INIT;
		print_message("%s\n", rows[i].what);
		assert_int_equal(ls_target_explain(&device, rows[i].mode, rows[i].code,
						   rows[i].said, &error),
				 -rows[i].code);
		assert_non_null(strstr(error.text, "nosuch0"));
		for (size_t k = 0; k < LENGTH(rows[i].wanted) && rows[i].wanted[k]; k++)
			if (!strstr(error.text, rows[i].wanted[k]))
				fail_msg("'%s' is not in: %s", rows[i].wanted[k], error.text);
	}
}

/* FIELD A-17: what a kernel that is too old writes about a program, hundreds of lines, is one line here. */
static void a_refused_program_names_kernel_cause_and_way_out(void **state)
{
	static const struct {
		const char *what;
		int code;
		const char *log;
		const char *wanted[3];
		const char *unwanted;
	} rows[] = {
		{ "a helper that is not there",
		  EINVAL,
		  "0: R1=ctx(off=0,imm=0) R10=fp0\n; __u64 now = bpf_jiffies64();\n"
		  "181: (85) call unknown#189\ninvalid func unknown#189\n"
		  "processed 181 insns (limit 1000000) max_states_per_insn 1 total_states 9\n",
		  { "kernel ", "5.15 or later", "invalid func unknown#189" },
		  "R1=ctx" },
		{ "an instruction that is not there",
		  EINVAL,
		  "12: (db) r0 = atomic64_cmpxchg((u64 *)(r1 +0), r0, r2)\nBPF_STX uses reserved fields\n"
		  "verification time 20 usec\nstack depth 8\n",
		  { "kernel ", "5.15 or later", "reserved fields" },
		  "stack depth" },
		{ "no log at all", EINVAL, "", { "kernel ", "5.15 or later", "-v shows" }, ": ;" },
		{ "not root", EPERM, "", { "root", "CAP_BPF" }, "5.15" },
		{ "no memory", ENOMEM, "", { "capacity" }, "5.15" },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(rows); i++) {
		struct ls_error error = LS_ERROR_INIT;
		char *log = strdup(rows[i].log);
		print_message("%s\n", rows[i].what);
		assert_int_equal(ls_load_explain(rows[i].code, log, &error), -rows[i].code);
		free(log);
		for (size_t k = 0; k < LENGTH(rows[i].wanted); k++)
			if (rows[i].wanted[k] && !strstr(error.text, rows[i].wanted[k]))
				fail_msg("'%s' is not in: %s", rows[i].wanted[k], error.text);
		if (strstr(error.text, rows[i].unwanted))
			fail_msg("'%s' is in: %s", rows[i].unwanted, error.text);
		assert_null(strchr(error.text, '\n'));
	}
}

static void only_ethernet_is_attached_to(void **state)
{
	static const struct {
		uint16_t type;
		bool is_good;
	} rows[] = {
		{ ARPHRD_ETHER, true }, { ARPHRD_LOOPBACK, true },   { ARPHRD_NONE, false },
		{ ARPHRD_PPP, false },	{ ARPHRD_IEEE80211, false }, { ARPHRD_TUNNEL, false },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(rows); i++) {
		const struct ls_device device = { .name = "d", .type = rows[i].type };
		struct ls_error error = LS_ERROR_INIT;
		assert_int_equal(ls_device_check(&device, &error) == 0, rows[i].is_good);
		assert_int_equal(ls_error_is_set(&error), !rows[i].is_good);
	}
}

static void names_of_instances_are_checked(void **state)
{
	static const char *const good[] = { "default", "a", "edge-1", "a_b-c9",
					    "a234567890123456789012345678901" };
	static const char *const bad[] = { "",
					   "9a",
					   "-a",
					   "_a",
					   "A",
					   "a.b",
					   "a/b",
					   "a b",
					   "a@b",
					   "ä",
					   "a2345678901234567890123456789012" };

	(void)state;
	for (size_t i = 0; i < LENGTH(good); i++)
		assert_true(ls_plane_instance_valid(good[i]));
	for (size_t i = 0; i < LENGTH(bad); i++)
		assert_false(ls_plane_instance_valid(bad[i]));
}

static void modes_are_exact_words(void **state)
{
	(void)state;
	for (unsigned mode = 0; mode < LS_PLANE_MODE_MAX; mode++)
		assert_int_equal(ls_plane_mode_parse(ls_plane_mode_name((enum ls_plane_mode)mode)),
				 mode);
	assert_int_equal(ls_plane_mode_parse("nat"), LS_PLANE_MODE_MAX);
	assert_int_equal(ls_plane_mode_parse(""), LS_PLANE_MODE_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_refused_attach_names_interface_cause_and_way_out),
		cmocka_unit_test(a_refused_program_names_kernel_cause_and_way_out),
		cmocka_unit_test(only_ethernet_is_attached_to),
		cmocka_unit_test(names_of_instances_are_checked),
		cmocka_unit_test(modes_are_exact_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
