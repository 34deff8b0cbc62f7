#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# All the speed rows, in about two minutes: table on stdout and in build/bench.txt, JSON in build/bench.json, plot in
# build/bench.svg. Missing a goal is no failure of the run. Arguments: only these groups (see bench.c).

set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${BUILD:-$root/build}
out=$build/tests/bench

if [ "$(id -u)" != 0 ]; then
	echo "the bench loads BPF programs: run it as root" >&2
	exit 1
fi
"$root/tests/tools/gen.sh" "$out" "$here/bench.c"
set -o pipefail
export LS_OWN_SESSION=1
setsid -w timeout 900 "$out/bench" "$build/bench.json" "$@" | tee "$build/bench.txt"
/usr/bin/python3 "$here/plot.py" "$build/bench.json" "$build/bench.svg"
