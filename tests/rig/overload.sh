#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The overload rig: see overload.py. `tests/rig/overload.sh --help` lists the options; without any it takes 20 s a case, some
# nine minutes, and prints the table. `make rig-overload` builds first.

set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
if [ "$(id -u)" != 0 ]; then
	echo "skip rig-overload: needs root (network namespaces, BPF)"
	exit 0
fi
"$root/tests/tools/build.sh" "$root/build/tests/tools"
python=/usr/bin/python3
[ -x "$python" ] || python=python3
PYTHONDONTWRITEBYTECODE=1 exec "$python" "$root/tests/rig/overload.py" "$@"
