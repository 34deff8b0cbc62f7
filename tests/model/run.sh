#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The program against the independent model, packet by packet: a million random ones, and each capture below
# the folder given (skipped aloud without one). LS_SEED repeats a run, LS_MODEL_PACKETS changes its length.
set -u
cd "$(dirname "$0")/../.."
seed=${LS_SEED:-$(date +%s)}
packets=${LS_MODEL_PACKETS:-1000000}
keep=$(mktemp -d)
trap 'rm -rf "$keep"' EXIT
run() {
	local name=$1
	shift
	if /usr/bin/python3 tests/model/agree.py --loadshed "${BUILD:-build}/loadshed" --seed "$seed" \
		--jobs 2 --keep "$keep" "$@"; then
		echo "ok $name (seed $seed)"
	else
		echo "not ok $name: seed $seed"
		failed=1
	fi
}
failed=0
if [ $# -gt 0 ]; then
	run program-and-model-agree-on-random-packets-and-captures --packets "$packets" --data "$1"
else
	run program-and-model-agree-on-random-packets --packets "$packets"
	echo "skip program-and-model-agree-on-captures: no folder of captures beside the checkout"
fi
exit $failed
