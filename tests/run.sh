#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Runs every suite that this machine can run and adds up. A suite prints `ok NAME`, `not ok NAME: why` or
# `skip NAME: why` (TAP's numbers and `# SKIP` are understood, too); one that ends badly without saying what
# failed counts as a failure of its own. What a suite prints goes to build/test-logs/SUITE.log; here only
# failures and skips are shown. The last line is `N passed, N failed, N skipped`.
#
#   tests/run.sh            all suites
#   tests/run.sh SUITE…     some of them, by name
#   LS_LONG=1               longer variants of the load tests
#   LS_SEED=N               other random cases than those of seed 1; a run that must decide should not throw dice

set -u
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
LOGS=$BUILD/test-logs
PYTHON=/usr/bin/python3
export LS_SEED=${LS_SEED:-1}
export LS_TEST_SEED=${LS_TEST_SEED:-$LS_SEED}
DATA=../shared/data
if [ -d "$DATA" ]; then
	LOADSHED_DATA=$(cd "$DATA" && pwd)
	export LOADSHED_DATA
fi
mkdir -p "$LOGS"
passed=0 failed=0 skipped=0

# TAP and cmocka to the three words.
plain() {
	sed -uE -e 's/^(not )?ok [0-9]+ (- )?/\1ok /' -e 's/^ok (.*)# SKIP ?(.*)$/skip \1: \2/'
}

suite() {
	local name=$1 log=$LOGS/${1//\//-}.log start=$SECONDS
	shift
	if [ ${#chosen[@]} -gt 0 ] && [[ " ${chosen[*]} " != *" $name "* ]]; then
		return
	fi
	CMOCKA_MESSAGE_OUTPUT=TAP "$@" 2>&1 | plain > "$log"
	local code=${PIPESTATUS[0]}
	local ok bad skip
	ok=$(grep -cE '^ok\b' "$log")
	bad=$(grep -cE '^not ok\b' "$log")
	skip=$(grep -cE '^skip\b' "$log")
	if [ "$code" -ne 0 ] && [ "$bad" -eq 0 ]; then
		bad=1
		echo "not ok $name: ended with exit code $code" >> "$log"
	fi
	passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
	printf '%-28s %4d passed %3d failed %3d skipped  %4d s\n' "$name" "$ok" "$bad" "$skip" $((SECONDS - start))
	grep -E '^skip\b' "$log" | sed 's/^/    /'
	if [ "$bad" -gt 0 ]; then
		grep -E '^not ok\b' "$log" | sed 's/^/    /'
		tail -n 40 "$log" | sed 's/^/    | /'
	fi
}

# What must be the same before and after: nothing of ours may be left behind.
traces() {
	ip netns list 2>/dev/null | awk '/^ls/ { print "namespace " $1 }'
	ip -o link 2>/dev/null | awk -F': ' '$2 ~ /^ls/ { print "interface " $2 }'
	find /sys/fs/bpf/loadshed -mindepth 1 2>/dev/null | sed 's/^/pin /'
	# Programs go a moment after their last reference does.
	for _ in $(seq 50); do
		programs=$(bpftool prog show 2>/dev/null | awk '/ name ls_/ { print "program " $1 }')
		[ -z "$programs" ] && break
		sleep 0.1
	done
	[ -z "$programs" ] || echo "$programs"
	find /var/lib/loadshed -mindepth 1 2>/dev/null | sed 's/^/file /'
}

chosen=("$@")
before=$(traces)

for test in "$BUILD"/tests/unit/test_* "$BUILD"/tests/twin/test_*; do
	[ -x "$test" ] && [[ $test != *.d ]] && suite "$(basename "$(dirname "$test")")/$(basename "$test")" "$test"
done
suite sim-overload "$BUILD/tests/sim/overload"
suite style tests/style.sh
suite model-self-test "$PYTHON" tests/model/agree.py --self-test
if [ -d "$DATA" ]; then
	suite model tests/model/run.sh "$DATA"
else
	suite model tests/model/run.sh
fi
suite sim/cluster "$BUILD/tests/sim/cluster"
suite verifier tests/kern/verifier.sh
suite kern tests/kern/run.sh
suite e2e tests/e2e/run.sh

if [ ${#chosen[@]} -eq 0 ]; then
	after=$(traces)
	if [ "$before" = "$after" ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "not ok nothing-is-left-behind:"
		diff <(echo "$before") <(echo "$after") | grep '^[<>]' | sed 's/^/    /'
	fi
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
