#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Runs the end-to-end cases: tests/e2e/run.sh [NAME…], where NAME is the beginning of a case's name (A-01). Most of them
# wait most of the time, so two files run at once, each in labs of its own; those that measure, or that look at what
# the whole machine holds, run alone.
# Needs root and a built program; see harness.py for the environment. Prints a line for each case and a
# summary; exit 1 if any case is not ok.

set -u

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
export LOADSHED=${LOADSHED:-$root/build/loadshed}
export LOADSHED_TOOLS=${LOADSHED_TOOLS:-$root/build/tests/tools}
# The distribution's python first: a wrapper in front of it costs a second for each start.
python=/usr/bin/python3
[ -x "$python" ] || python=python3

if [ "$(id -u)" != 0 ]; then
	echo "skip e2e: needs root (network namespaces, BPF)"
	exit 0
fi
probe=ls-lab-$$-probe
if ! ip netns add "$probe" 2>/dev/null || ! ip -n "$probe" link add vs type veth peer name vc 2>/dev/null; then
	ip netns del "$probe" 2>/dev/null
	echo "skip e2e: this machine gives no network namespaces with veth pairs"
	exit 0
fi
ip netns del "$probe"
if [ ! -x "$LOADSHED" ]; then
	echo "not ok e2e: $LOADSHED is not built" >&2
	exit 1
fi
"$root/tests/tools/build.sh" "$LOADSHED_TOOLS" || exit 1

log=$(mktemp)
export LOADSHED_E2E_LOG=$log
trap 'rm -f "$log"' EXIT
trap 'kill $(jobs -p) 2>/dev/null; wait; exit 1' INT TERM
alone="bench kill rate"
for file in "$here"/test_*.py; do
	name=${file##*/test_}
	[[ " $alone " != *" ${name%.py} "* ]] || continue
	[ "$(jobs -rp | wc -l)" -lt 2 ] || wait -n
	PYTHONDONTWRITEBYTECODE=1 "$python" "$file" "$@" &
done
wait
for name in $alone; do
	PYTHONDONTWRITEBYTECODE=1 "$python" "$here/test_$name.py" "$@" &
	wait $!
done
passed=$(grep -c '^ok ' "$log")
failed=$(grep -c '^not ok ' "$log")
skipped=$(grep -c '^skip ' "$log")
echo "e2e: $passed ok, $failed not ok, $skipped skipped"
[ "$failed" = 0 ]
