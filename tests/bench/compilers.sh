#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# What the same program costs built by each clang that is installed: the rows over XDP_DROP, three runs of each in turns,
# a column for each. COMPILERS: others than those found. Arguments: groups of `loadshed bench`; none: limits.

set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${BUILD:-$root/build}
[[ $build == /* ]] || build=$root/$build
[ $# -gt 0 ] || set -- limits

if [ -z "${COMPILERS:-}" ]; then
	COMPILERS=$(compgen -c clang- | grep -xE 'clang-[0-9]+' | sort -Vu | tr '\n' ' ')
	[ -n "$COMPILERS" ] || COMPILERS=clang
fi
for compiler in $COMPILERS; do
	echo "building with $compiler"
	"${MAKE:-make}" --no-print-directory -s -C "$root" -j"$(nproc)" CLANG="$compiler" \
		BUILD="$build/by-$compiler" "$build/by-$compiler/loadshed" >/dev/null
done
documents=()
for run in 1 2 3; do
	for compiler in $COMPILERS; do
		document=$build/by-$compiler/bench-$run.json
		"$build/by-$compiler/loadshed" -o json bench "$@" > "$document"
		documents+=("$compiler=$document")
	done
done
/usr/bin/python3 "$here/report.py" compilers "${documents[@]}"
