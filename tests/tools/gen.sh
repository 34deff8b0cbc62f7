#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Builds programs that drive the bench's generator, for the bench and the load tests:
#	tests/tools/gen.sh OUT PROGRAM.c…
# Each PROGRAM.c becomes OUT/PROGRAM, linked with gen.c, common.c beside it if there is one, and the library.

set -eu

out=${1:?usage: tests/tools/gen.sh OUT PROGRAM.c…}
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$root/build}
mkdir -p "$out"
"${MAKE:-make}" --no-print-directory -s -C "$root" BUILD="$build" "$build/libloadshed.a"

for source in "$@"; do
	name=$(basename "$source" .c)
	common=$(dirname "$source")/common.c
	[ -e "$common" ] || common=
	newer=$(find "$source" $common "$(dirname "$source")" "$root/tests/tools" "$build/libloadshed.a" \
		-maxdepth 1 -type f -name '*.[cha]' -newer "$out/$name" -print -quit 2>/dev/null || echo yes)
	[ -e "$out/$name" ] && [ -z "$newer" ] && continue
	${CC:-gcc} -std=gnu11 -D_GNU_SOURCE -O2 -g \
		-Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Werror \
		-I"$root" -I"$root/include" -isystem "$build" \
		"$source" $common "$root/tests/tools/gen.c" "$build/libloadshed.a" \
		-lbpf -lelf -lz -lyaml -lpcap -ljansson -lm -lpthread -o "$out/$name.$$"
	mv "$out/$name.$$" "$out/$name"
done
