#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Builds programs that drive the generator, for the bench and the load tests:
#	tests/tools/gen.sh OUT PROGRAM.c… [-- OBJECT.bpf.c…]
# Each PROGRAM.c becomes OUT/PROGRAM, linked with gen.c, common.c beside it if there is one, and the
# library's base, policy and plane; each OBJECT.bpf.c a skeleton that they may include.

set -eu

out=${1:?usage: tests/tools/gen.sh OUT PROGRAM.c… [-- OBJECT.bpf.c…]}
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$root/build}
make=${MAKE:-make}
mkdir -p "$out"

programs=() objects=("$root/tests/tools/gen.bpf.c")
while [ $# -gt 0 ] && [ "$1" != -- ]; do programs+=("$1"); shift; done
[ $# -gt 0 ] && shift
objects+=("$@")

library=()
for source in "$root"/user/base/*.c "$root"/user/policy/*.c "$root"/user/plane/*.c; do
	name=${source#"$root"/}
	library+=("$build/${name%.c}.o")
done
$make --no-print-directory -s -C "$root" BUILD="$build" "${library[@]}"

for source in "${objects[@]}"; do
	name=$(basename "$source" .bpf.c)
	object=$out/$name.bpf.o
	if [ "$object" -nt "$source" ] && [ "$object" -nt "$root/tests/tools/gen.h" ]; then
		continue
	fi
	${CLANG:-clang} -O2 -g -target bpf -mcpu=v3 -Wall -Wextra -Werror \
		-I"$root" -I"$root/include" -idirafter "/usr/include/$(${CC:-gcc} -print-multiarch)" \
		-c -o "$object" "$source"
	${BPFTOOL:-bpftool} gen skeleton "$object" name "${name}_skeleton" >"$out/$name.skel.h.tmp"
	mv "$out/$name.skel.h.tmp" "$out/$name.skel.h"
done

for source in "${programs[@]}"; do
	name=$(basename "$source" .c)
	common=$(dirname "$source")/common.c
	[ -e "$common" ] || common=
	newer=$(find "$source" $common "$(dirname "$source")" "$root/tests/tools" "$out" \
		"${library[@]}" -maxdepth 1 -type f -name '*.[cho]' -newer "$out/$name" \
		-print -quit 2>/dev/null || echo yes)
	[ -e "$out/$name" ] && [ -z "$newer" ] && continue
	${CC:-gcc} -std=gnu11 -D_GNU_SOURCE -O2 -g \
		-Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Werror \
		-I"$root" -I"$root/include" -isystem "$build" -isystem "$out" \
		"$source" $common "$root/tests/tools/gen.c" "${library[@]}" \
		-lbpf -lelf -lz -lyaml -ljansson -lm -lpthread -o "$out/$name.$$"
	mv "$out/$name.$$" "$out/$name"
done
