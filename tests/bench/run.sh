#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# All the speed rows, in a minute and a half: table on stdout and in build/bench.txt, JSON in build/bench.json, plot in
# build/bench.svg. Missing a goal is no failure of the run. Arguments: only these groups (see bench.c).
#
# RUNS=N: the whole N times, and then row by row whether the runs agree; bench.json is what they say together, that of
# each run is bench-1.json and so on.

set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${BUILD:-$root/build}
[[ $build == /* ]] || build=$root/$build
out=$build/tests/bench
runs=${RUNS:-1}

if [ "$(id -u)" != 0 ]; then
	echo "the bench loads BPF programs: run it as root" >&2
	exit 1
fi
if ! [[ $runs =~ ^[1-9]$ ]]; then
	echo "RUNS is how many times, 1 to 9, not '$runs'" >&2
	exit 2
fi
BUILD=$build "$root/tests/tools/gen.sh" "$out" "$here/bench.c"
set -o pipefail
export LS_OWN_SESSION=1
: > "$build/bench.txt"
documents=("$build/bench.json")
[ "$runs" = 1 ] || documents=($(printf "$build/bench-%s.json " $(seq "$runs")))
for document in "${documents[@]}"; do
	[ "$runs" = 1 ] || printf '\n%s of %s runs\n' "$(basename "$document" .json)" "$runs"
	setsid -w timeout 900 "$out/bench" "$document" "$@"
done | tee -a "$build/bench.txt"
if [ "$runs" -gt 1 ]; then
	/usr/bin/python3 "$here/report.py" agree "$build/bench.json" "${documents[@]}" | tee -a "$build/bench.txt"
fi
/usr/bin/python3 "$here/plot.py" "$build/bench.json" "$build/bench.svg"
