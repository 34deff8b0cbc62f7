#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Builds the lab's tools into a folder, those that are older than their sources: tests/tools/build.sh OUT

set -eu

out=${1:?usage: tests/tools/build.sh OUT}
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$out"
for tool in flood sink echo goodclients service crowd; do
	newest=$(ls -t "$root/tests/tools/$tool.c" "$root/tests/tools/tool.h" \
		"$root/user/base/addr.c" "$root/user/base/addr.h" | head -n 1)
	[ "$out/$tool" -nt "$newest" ] && continue
	# Under another name first: several test runs may build at once.
	${CC:-gcc} -D_GNU_SOURCE -std=gnu11 -O2 -g -Wall -Wextra -Wconversion -Wshadow -Werror \
		-I"$root" -I"$root/include" "$root/tests/tools/$tool.c" "$root/user/base/addr.c" \
		-o "$out/$tool.$$" -lm -lpthread
	mv "$out/$tool.$$" "$out/$tool"
done
