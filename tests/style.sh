#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# What a reader may rely on: the direction of includes, licences, headers that stand alone, one format. Each rule
# is first shown a sample that breaks it, so that a rule that cannot fail is noticed.
set -u
cd "$(dirname "$0")/.."
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() { # NAME TEXT-OF-WHAT-IS-WRONG
	if [ -z "$2" ]; then
		echo "ok $1"
	else
		echo "$2" | head -20
		echo "not ok $1: $(echo "$2" | wc -l) places"
		failed=1
	fi
}

mkdir -p "$work/bpf/pure" "$work/user/replay"
echo '#include "kern/maps.h"' > "$work/bpf/pure/sample.h"
echo '#include <bpf/libbpf.h>' > "$work/user/replay/sample.c"
caught=$(/usr/bin/python3 scripts/layers.py "$work" | wc -l)
say includes-against-the-direction-are-caught "$([ "$caught" -eq 2 ] || echo "$caught of 2 samples")"
say includes-go-one-way "$(/usr/bin/python3 scripts/layers.py)"

sources=$(git ls-files '*.c' '*.h' '*.sh' '*.py' Makefile '*.mk' 2>/dev/null)
say every-source-names-its-licence "$(for file in $sources; do
	head -3 "$file" | grep -q 'SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause' || echo "$file"
done)"

alone() { # HEADER: what the compiler says of it
	case $1 in
	bpf/kern/*) set -- "$1" clang -target bpf -g -Ibpf -Iinclude \
		-idirafter "/usr/include/$(gcc -print-multiarch)" ;;
	*) set -- "$1" gcc -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -I. -Iinclude -Ibpf -isystem build ;;
	esac
	echo "#include \"$1\"" | "${@:2}" -I. -Werror -x c -fsyntax-only - 2>&1 | grep -m1 error |
		sed "s|^|$1: |"
}
export -f alone
printf 'unknown_type x;\n' > "$work/sample.h"
say a-header-that-does-not-stand-alone-is-caught "$([ -n "$(alone "$work/sample.h")" ] || echo missed)"
say headers-stand-alone "$(git ls-files 'include/*.h' 'bpf/*.h' 'user/*.h' | xargs -P 2 -I{} bash -c 'alone {}')"

if command -v clang-format > /dev/null && [ "$(clang-format --version | grep -oE '[0-9]+' | head -1)" = 14 ]; then
	say code-is-formatted "$(git ls-files 'include/*.h' 'bpf/*.[ch]' 'user/*.[ch]' 'tests/*.[ch]' |
		xargs clang-format --dry-run 2>&1 | grep -oE '^[^:]+:[0-9]+' | sort -u)"
else
	echo "skip code-is-formatted: needs clang-format 14"
fi
exit $failed
