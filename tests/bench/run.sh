#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# All the speed rows, in about two minutes: table on stdout and in build/bench.txt, JSON in build/bench.json, plot in
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
documents=()
for run in $(seq "$runs"); do
	[ "$runs" = 1 ] || printf '\nRun %s of %s\n' "$run" "$runs"
	setsid -w timeout 900 "$out/bench" "$build/bench-$run.json" "$@"
done | tee -a "$build/bench.txt"
for run in $(seq "$runs"); do
	documents+=("$build/bench-$run.json")
done
if [ "$runs" = 1 ]; then
	mv "$build/bench-1.json" "$build/bench.json"
else
	/usr/bin/python3 "$here/report.py" agree "$build/bench.json" "${documents[@]}" | tee -a "$build/bench.txt"
fi
/usr/bin/python3 "$here/plot.py" "$build/bench.json" "$build/bench.svg"
