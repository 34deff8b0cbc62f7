/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/* Prints how many instructions the verifier walked for a pinned program (kernel 5.16). */

#include <bpf/bpf.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	struct bpf_prog_info info;
	__u32 bytes = sizeof(info);
	memset(&info, 0, sizeof(info));
	int fd = argc == 2 ? bpf_obj_get(argv[1]) : -1;
	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &bytes)) {
		fprintf(stderr, "cannot read the program pinned at '%s'\n",
			argc == 2 ? argv[1] : "");
		return 1;
	}
	printf("%u\n", info.verified_insns);
	return 0;
}
