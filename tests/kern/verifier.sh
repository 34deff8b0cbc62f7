#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The program loads, whichever clang built it, and costs the verifier at most 150 000 instructions (the kernel's limit
# is a million, and what a load takes grows with it). Prints the figures.
set -u
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
headers=$(gcc -print-multiarch 2>/dev/null)
for version in 14 16 19; do
	clang=clang-$version
	if ! command -v "$clang" > /dev/null; then
		echo "skip verifier-$clang: not installed"
		continue
	fi
	object=$work/loadshed-$version.o
	if ! "$clang" -O2 -g -target bpf -mcpu=v3 -Wall -Wextra -Werror -Ibpf -Iinclude \
		${headers:+-idirafter /usr/include/$headers} -c bpf/loadshed.bpf.c -o "$object"; then
		echo "not ok verifier-$clang: does not compile"
		failed=1
		continue
	fi
	if ! build/tests/kern/verified "$object" > "$work/counts" 2> "$work/log"; then
		tail -5 "$work/log"
		echo "not ok verifier-$clang: does not load"
		failed=1
		continue
	fi
	if edges=$(/usr/bin/python3 tests/kern/backedge.py "$object"); then
		echo "ok verifier-$clang-loops-that-6.1-accepts"
	else
		echo "not ok verifier-$clang-loops-that-6.1-accepts: $edges"
		failed=1
	fi
	for program in ls_xdp ls_xdp_frags; do
		count=$(awk -v program="$program" '$1 == program { print $2 }' "$work/counts")
		if [ -z "$count" ] || [ "$count" -gt 150000 ]; then
			echo "not ok verifier-$clang-$program: ${count:-no} instructions"
			failed=1
		else
			echo "ok verifier-$clang-$program: $count instructions"
		fi
	done
done
exit $failed
