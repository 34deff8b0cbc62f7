#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Shows what loadshed does, in half a minute, without touching the machine's own network: a lab of two
# network namespaces, well-behaved clients, three floods, and what is shed, live. Run by `make demo` after
# the build. Exit 0 only if no good client lost anything, the banned got nothing through, and every
# packet is accounted for.

set -u

root=$(cd "$(dirname "$0")/.." && pwd)
export LOADSHED=${LOADSHED:-$root/build/loadshed}
export LOADSHED_TOOLS=${LOADSHED_TOOLS:-$root/build/tests/tools}

[ "$(id -u)" = 0 ] || { echo "demo: needs root, for network namespaces and BPF: sudo make demo" >&2; exit 1; }
[ -x "$LOADSHED" ] || { echo "demo: $LOADSHED is not built: make" >&2; exit 1; }
"$root/tests/tools/build.sh" "$LOADSHED_TOOLS" || exit 1

name=ls-lab-$$-demo
instance=demo-$$
folder=$(mktemp -d)
child=

# Ends what was started, in the order in which it depends on each other; runs once, however we end.
clean_up() {
	trap '' INT TERM
	if [ -n "$child" ] && kill "$child" 2>/dev/null; then
		wait "$child"
	fi
	[ -e "/run/netns/$name-srv" ] &&
		ip netns exec "$name-srv" "$LOADSHED" -I "$instance" detach --all >/dev/null 2>&1
	"$root/scripts/lab.sh" down "$name"
	rm -rf "$folder" "/var/lib/loadshed/$instance"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"$root/scripts/lab.sh" up "$name" --clients 20 || exit 1

python=/usr/bin/python3
[ -x "$python" ] || python=python3
PYTHONDONTWRITEBYTECODE=1 "$python" "$root/scripts/demo.py" "$name" "$instance" "$folder" &
child=$!
wait "$child"
status=$?
child=
exit "$status"
