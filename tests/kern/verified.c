/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * Loads an object as the loader does, with all that this kernel can do, and prints how many instructions the verifier
 * walked for each program (kernel 5.16): NAME COUNT.
 */

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <string.h>

#include "user/plane/internal.h"

/* Where a constant of the object lies, or NULL. */
static void *constant(struct bpf_object *object, const char *name)
{
	const struct btf *btf = bpf_object__btf(object);
	const int section = btf__find_by_name_kind(btf, ".rodata", BTF_KIND_DATASEC);
	const struct btf_type *type = section < 0 ? NULL : btf__type_by_id(btf, (__u32)section);
	struct bpf_map *map;
	size_t bytes;

	bpf_object__for_each_map(map, object)
	{
		if (!strstr(bpf_map__name(map), ".rodata"))
			continue;
		char *memory = (char *)(uintptr_t)bpf_map__initial_value(map, &bytes);
		for (unsigned i = 0; memory && type && i < btf_vlen(type); i++) {
			const struct btf_var_secinfo *at = &btf_var_secinfos(type)[i];
			const struct btf_type *variable = btf__type_by_id(btf, at->type);
			if (strcmp(btf__name_by_offset(btf, variable->name_off), name) == 0)
				return memory + at->offset;
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct bpf_object *object = argc == 2 ? bpf_object__open(argv[1]) : NULL;
	struct ls_listener_fields *fields = object ? constant(object, "ls_listener_fields") : NULL;
	struct bpf_program *program;

	if (!fields) {
		fprintf(stderr, "cannot read the object '%s'\n", argc == 2 ? argv[1] : "");
		return 1;
	}
	const char *why = ls_fields_find(fields);
	if (why)
		fprintf(stderr, "without the accept queues: %s\n", why);
	if (bpf_object__load(object) < 0)
		return 1;
	bpf_object__for_each_program(program, object)
	{
		struct bpf_prog_info info = { 0 };
		__u32 bytes = sizeof(info);
		if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &bytes) < 0)
			return 1;
		printf("%s %u\n", bpf_program__name(program), info.verified_insns);
	}
	bpf_object__close(object);
	return 0;
}
