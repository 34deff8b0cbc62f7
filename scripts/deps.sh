#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Installs what is missing, by apt, on Debian 12 and later and Ubuntu 24.04 and later.
#
#	scripts/deps.sh build|check|demo
#
# Every need is a row: a probe that says whether it is there (however it came), and the packages that
# bring it, alternatives in the order in which they are tried, because names differ between releases. When
# all probes pass, nothing is said and apt is not touched. Exit 1: something that is needed is still
# missing; it is named. An optional need is tried and, when it cannot be had, named as such.

set -u

mode=${1:-build}
case $mode in
build | check | demo) ;;
*)
	echo "usage: scripts/deps.sh build|check|demo" >&2
	exit 2
	;;
esac

has() { command -v "$1" >/dev/null 2>&1; }
has_lib() { pkg-config --exists "$1" 2>/dev/null; }
has_package() { dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }
has_module() {
	local python
	for python in python3 /usr/bin/python3; do
		"$python" -c "import importlib.util as u, sys; sys.exit(u.find_spec('$1') is None)" \
			2>/dev/null && return
	done
	return 1
}

# clang counts from 14 on: older ones lack what the BPF program uses.
has_clang() {
	local version
	version=$(clang -dumpversion 2>/dev/null) || return 1
	[ "${version%%.*}" -ge 14 ]
}

# Ubuntu's package of that name is a snap, which cannot run in a lab: any other browser of that family will do.
has_chromium() { has chromium || has chromium-browser || has google-chrome; }

# Ubuntu's bpftool is a script that looks for the one of the running kernel; any other works as well.
has_bpftool() {
	local tool
	for tool in bpftool /usr/lib/linux-tools/*/bpftool /usr/lib/linux-tools-*/bpftool; do
		"$tool" version >/dev/null 2>&1 && return
	done
	return 1
}

# rows: name | probe | package or packages, alternatives separated by / ; "?" before the name: optional
rows_build() {
	cat <<-'ROWS'
		C compiler|has gcc|gcc
		libc headers|test -e /usr/include/stdio.h|libc6-dev
		kernel headers|test -e /usr/include/linux/bpf.h|linux-libc-dev
		make|has make|make
		pkg-config|has pkg-config|pkg-config / pkgconf
		clang 14 or later|has_clang|clang
		llvm-strip|has llvm-strip|llvm
		libbpf 1.0 or later|has_lib "libbpf >= 1.0"|libbpf-dev
		libelf|has_lib libelf|libelf-dev
		zlib|has_lib zlib|zlib1g-dev
		bpftool|has_bpftool|bpftool / linux-tools-generic linux-tools-common / linux-tools-common
		libyaml|has_lib yaml-0.1|libyaml-dev
		libpcap|has_lib libpcap|libpcap-dev
		jansson|has_lib jansson|libjansson-dev
		hiredis|has_lib hiredis|libhiredis-dev
		ncurses|has_lib ncurses|libncurses-dev
		libmicrohttpd|has_lib libmicrohttpd|libmicrohttpd-dev
		libseccomp|has_lib libseccomp|libseccomp-dev
	ROWS
}

rows_demo() {
	rows_build
	cat <<-'ROWS'
		ip|has ip|iproute2
		python3|has python3|python3
		sysctl|has sysctl|procps
	ROWS
}

rows_check() {
	rows_demo
	cat <<-'ROWS'
		cmocka|has_lib cmocka|libcmocka-dev
		scapy|has_module scapy|python3-scapy
		PyYAML|has_module yaml|python3-yaml
		ping|has ping|iputils-ping
		ethtool|has ethtool|ethtool
		tcpdump|has tcpdump|tcpdump
		nft|has nft|nftables
		?redis-server|has redis-server|redis-server
		?faketime|has faketime|faketime
		iptables|has iptables|iptables
		tc|has tc|iproute2
		?tshark|has tshark|tshark
		?promtool|has promtool|prometheus
		?chromium|has_chromium|chromium
		?xdp-filter|has xdp-filter|xdp-tools
		?strace|has strace|strace
		?tmux|has tmux|tmux
		?setpriv|has setpriv|util-linux
		?mandoc|has mandoc|mandoc
		?zsh|has zsh|zsh
		?fish|has fish|fish
		?clang 16|has clang-16|clang-16
		?clang 19|has clang-19|clang-19
		?sanitizers of clang|compgen -G /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer*|libclang-rt-dev / libclang-rt-19-dev / libclang-rt-18-dev / libclang-rt-16-dev / libclang-rt-14-dev
	ROWS
}

# Prints the rows whose probe fails. Probes come from the table above, never from outside.
missing() {
	local name probe packages
	rows_"$mode" | while IFS='|' read -r name probe packages; do
		eval "$probe" >/dev/null 2>&1 </dev/null || printf '%s|%s|%s\n' "$name" "$probe" "$packages"
	done
}

apt() {
	DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 \
		-y -qq "$@" </dev/null
}

known() {
	local package
	for package in "$@"; do
		[ -n "$(apt-cache madison "$package" 2>/dev/null)" ] || return 1
	done
}

# One row: the alternatives in order until the probe passes.
install_row() {
	local probe=$1 packages=$2 alternative log
	log=$(mktemp)
	while [ -n "$packages" ]; do
		alternative=${packages%%/*}
		[ "$alternative" = "$packages" ] && packages='' || packages=${packages#*/}
		# shellcheck disable=SC2086 # several packages are several words
		if known $alternative && ! apt install --no-install-recommends $alternative >"$log" 2>&1; then
			tail -n 3 "$log" >&2
		fi
		hash -r
		eval "$probe" >/dev/null 2>&1 </dev/null && break
	done
	rm -f "$log"
	eval "$probe" >/dev/null 2>&1 </dev/null
}

rows=$(missing)
[ -n "$rows" ] || exit 0

# Optional ones were tried once; do not ask the network again at every run.
stamp=/var/tmp/loadshed-deps-optional.$(id -u)
if [ -f "$stamp" ] && [ -z "$(find "$stamp" -mtime +0 2>/dev/null)" ]; then
	rows=$(printf '%s\n' "$rows" | grep -v '^?')
	[ -n "$rows" ] || exit 0
fi

names=$(printf '%s\n' "$rows" | cut -d'|' -f1 | tr -d '?' | paste -sd, - | sed 's/,/, /g')
if ! has apt-get; then
	echo "deps: missing: $names; this machine has no apt-get, install them by hand" >&2
	printf '%s\n' "$rows" | grep -qv '^?' && exit 1
	exit 0
fi
if [ "$(id -u)" != 0 ]; then
	echo "deps: missing: $names; run as root: scripts/deps.sh $mode" >&2
	printf '%s\n' "$rows" | grep -qv '^?' && exit 1
	exit 0
fi

echo "deps: installing: $names"
apt update >/dev/null || echo "deps: apt-get update failed; trying with the lists that are there" >&2

# All first choices at once is one run of apt instead of one for each; what fails is then tried singly.
first=
while IFS='|' read -r name probe packages; do
	case $name in \?*) continue ;; esac
	# shellcheck disable=SC2086
	known ${packages%%/*} && first="$first ${packages%%/*}"
done <<<"$rows"
# shellcheck disable=SC2086
[ -z "$first" ] || apt install --no-install-recommends $first >/dev/null 2>&1
hash -r

failed=
while IFS='|' read -r name probe packages; do
	if eval "$probe" >/dev/null 2>&1 </dev/null || install_row "$probe" "$packages"; then
		continue
	fi
	case $name in
	\?*)
		echo "deps: ${name#\?} is not to be had here; what needs it is skipped"
		: >"$stamp"
		;;
	*)
		echo "deps: cannot install $name (packages tried: $packages)" >&2
		failed=1
		;;
	esac
done <<<"$rows"
[ -z "$failed" ]
