#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Load tests of the real program in this machine's kernel: a minute and a half, or four with
# LS_LONG=1. Lines of `ok NAME`, `not ok NAME: why`, `skip NAME: why`; exits 1 if something was not
# ok. Arguments: only these tests.

set -u

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${BUILD:-$root/build}
out=$build/tests/kern
tests=(rates untouched race apply flood top hot listener)
[ $# -gt 0 ] && tests=("$@")

if [ "$(id -u)" != 0 ]; then
	echo "skip kern: BPF programs can be loaded by root only"
	exit 0
fi
"$root/tests/tools/gen.sh" "$out" $(printf "$here/%s.c " "${tests[@]}") 2>&1 || exit 1
status=0
export LS_OWN_SESSION=1
for test in "${tests[@]}"; do
	setsid -w timeout 300 "$out/$test"
	code=$?
	[ $code = 0 ] || status=1
	[ $code -le 1 ] || echo "not ok $test: ended with $code"
done
exit $status
