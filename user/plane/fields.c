/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "user/plane/internal.h"

/*
 * Where this kernel keeps the accept queue of a listener, and whether it lets an XDP program look there: by the types
 * that it describes itself (BTF), and by loading a program that does nothing else. The helpers are of 5.9; the cast
 * wants CAP_PERFMON. Where it does not work, bpf/kern/listener.h is not there, and the rest is as ever.
 */

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>

#include "user/base/cleanup.h"

#define FIELDS_AT_MOST 32767 /* an instruction's offset has 16 bits; a socket has 3 KiB */

DEFINE_CLEANUP(struct btf *, btf__free);

/* The type behind const, volatile and names. */
static uint32_t strip(const struct btf *btf, uint32_t type)
{
	const struct btf_type *of = btf__type_by_id(btf, type);

	while (of && (btf_is_mod(of) || btf_is_typedef(of))) {
		type = of->type;
		of = btf__type_by_id(btf, type);
	}
	return type;
}

/* Goes from a struct to its member of `length` characters, into nameless ones too; false: it has none. */
static bool step(const struct btf *btf, uint32_t *type, const char *name, size_t length,
		 uint32_t *bits)
{
	const struct btf_type *of = btf__type_by_id(btf, *type);

	if (!of || !btf_is_composite(of))
		return false;
	for (unsigned i = 0; i < btf_vlen(of); i++) {
		const struct btf_member *member = &btf_members(of)[i];
		const char *const its = btf__name_by_offset(btf, member->name_off);
		const uint32_t before = *bits, from = *type;
		*bits += btf_member_bit_offset(of, i);
		*type = strip(btf, member->type);
		if (its && strncmp(its, name, length) == 0 && its[length] == '\0')
			return true;
		if (its && *its == '\0' && step(btf, type, name, length, bits))
			return true;
		*bits = before;
		*type = from;
	}
	return false;
}

/* Byte offset of "a.b.c" in struct tcp_sock, of four bytes; 0: there is none. */
static uint32_t offset_of(const struct btf *btf, const char *path)
{
	const int found = btf__find_by_name_kind(btf, "tcp_sock", BTF_KIND_STRUCT);
	uint32_t type = (uint32_t)found, bits = 0;

	if (found < 0)
		return 0;
	for (const char *name = path; *name;) {
		const size_t length = strcspn(name, ".");
		if (!step(btf, &type, name, length, &bits))
			return 0;
		name += length + (name[length] == '.');
	}
	return btf__resolve_size(btf, type) == 4 && bits % 32 == 0 && bits / 8 <= FIELDS_AT_MOST
		       ? bits / 8
		       : 0;
}

#define INSN(...) ((struct bpf_insn){ __VA_ARGS__ })
#define MOVE(to, from) INSN(.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = (to), .src_reg = (from))
#define SET(to, value) INSN(.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = (to), .imm = (value))
#define CALL(helper) INSN(.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_##helper)
#define SKIP_IF_NULL(by) INSN(.code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = BPF_REG_0, .off = (by))
#define ZERO(at) INSN(.code = BPF_ST | BPF_MEM | BPF_DW, .dst_reg = BPF_REG_10, .off = (at))
#define LOAD(from, at)                                                                             \
	INSN(.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = BPF_REG_1, .src_reg = (from),           \
	     .off = (int16_t)(at))

/* Whether the kernel takes what the program does with them; 0 or -errno. */
static int probe(const struct ls_listener_fields *fields)
{
	const struct bpf_insn look[] = {
		ZERO(-8),
		ZERO(-16),
		MOVE(BPF_REG_2, BPF_REG_10),
		INSN(.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_2, .imm = -16),
		SET(BPF_REG_3, 12),
		SET(BPF_REG_4, BPF_F_CURRENT_NETNS),
		SET(BPF_REG_5, 0),
		CALL(skc_lookup_tcp),
		SKIP_IF_NULL(10),
		MOVE(BPF_REG_6, BPF_REG_0),
		LOAD(BPF_REG_6, offsetof(struct bpf_sock, state)),
		MOVE(BPF_REG_1, BPF_REG_6),
		CALL(skc_to_tcp_sock),
		SKIP_IF_NULL(3),
		LOAD(BPF_REG_0, fields->waiting),
		LOAD(BPF_REG_0, fields->most),
		LOAD(BPF_REG_0, fields->coming),
		MOVE(BPF_REG_1, BPF_REG_6),
		CALL(sk_release),
		SET(BPF_REG_0, 2 /* XDP_PASS */),
		INSN(.code = BPF_JMP | BPF_EXIT),
	};
	_cleanup_close_ int fd = bpf_prog_load(BPF_PROG_TYPE_XDP, "ls_probe", "GPL", look,
					       sizeof(look) / sizeof(look[0]), NULL);

	return fd < 0 ? -errno : 0;
}

const char *ls_fields_find(struct ls_listener_fields *ret)
{
	_cleanup_(btf__freep) struct btf *btf = NULL;
	static char why[96];

	*ret = (struct ls_listener_fields){ 0 };
	btf = btf__load_vmlinux_btf();
	if (!btf)
		return "the kernel does not describe its types (BTF)";
	const struct ls_listener_fields found = {
		.waiting = offset_of(btf, "inet_conn.icsk_inet.sk.sk_ack_backlog"),
		.most = offset_of(btf, "inet_conn.icsk_inet.sk.sk_max_ack_backlog"),
		.coming = offset_of(btf, "inet_conn.icsk_accept_queue.young"),
	};
	if (!found.waiting || !found.most || !found.coming)
		return "the sockets of this kernel are not those that are known";
	const int r = probe(&found);
	if (r < 0) {
		snprintf(why, sizeof(why),
			 "the kernel does not let the program look at sockets: %s", strerror(-r));
		return why;
	}
	*ret = found;
	return NULL;
}
