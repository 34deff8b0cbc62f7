#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# A lab of two network namespaces joined by one veth pair, so that attaching and flooding touch nothing of
# the machine's own network.
#
#	scripts/lab.sh up NAME [--mtu N] [--queues N] [--clients N] [--no-bpffs]
#	scripts/lab.sh exec NAME srv|cli COMMAND [ARGUMENT…]
#	scripts/lab.sh down NAME
#
#	namespace   interface  MAC                addresses
#	NAME-srv    vs         02:00:00:00:09:01  10.9.0.1/24  fd00:9::1/64
#	NAME-cli    vc         02:00:00:00:09:02  10.9.0.2/24  fd00:9::2/64
#	--clients N adds, on NAME-cli, 10.10.0.0 + k and fd00:a:0:k::1 for k = 1 to N: every one is a source
#	of its own, IPv6 too, where a source is a /64; srv reaches them through 10.9.0.2 and fd00:9::2
#
# --queues N gives both ends N receive and transmit queues. vc has a queue of packets in front of it, so
# that a sender which is faster than the pair waits (kernel 6.16) instead of losing packets unseen.
#
# Quiet network: no address detection, no router solicitations, no multicast reports, permanent neighbour
# entries between the two ends. srv drops what comes from a source that it has no route to (rp_filter), so
# spoofed packets cost it no answers. ICMP rate limits are off, so honest pings are answered beside a flood.
#
# bpffs: `ip netns exec` gives commands a private /sys. State is pinned in the host's /sys/fs/bpf, which is
# mounted if it is not, and unmounted by `down` of the lab that mounted it, if it is empty by then.
#
# `down` removes what `up` made, in whatever state that is: it ends the processes in the two namespaces
# (which are nobody else's), and can be run twice.

set -u

die() {
	echo "lab: $*" >&2
	exit 1
}

usage() {
	sed -n '3,12s/^# \{0,1\}//p' "$0" >&2
	exit 2
}

in_srv() { ip netns exec "$name-srv" "$@"; }
in_cli() { ip netns exec "$name-cli" "$@"; }
bpffs_mark() { echo "/run/loadshed-lab-$name.bpffs"; }

bpffs_is_mounted() { awk '$2 == "/sys/fs/bpf" && $3 == "bpf" { found = 1 } END { exit !found }' /proc/1/mounts; }

# In the mount namespace of PID 1, where the pins are to be found again.
on_host() {
	if [ "$(readlink /proc/1/ns/mnt)" = "$(readlink /proc/self/ns/mnt)" ]; then
		"$@"
	else
		nsenter -t 1 -m "$@"
	fi
}

bpffs_up() {
	bpffs_is_mounted && return
	on_host mount -t bpf bpf /sys/fs/bpf || die "cannot mount bpffs at /sys/fs/bpf"
	: >"$(bpffs_mark)"
}

bpffs_down() {
	[ -e "$(bpffs_mark)" ] || return 0
	rm -f "$(bpffs_mark)"
	bpffs_is_mounted && [ -z "$(on_host find /sys/fs/bpf -mindepth 1 -print -quit 2>/dev/null)" ] &&
		on_host umount /sys/fs/bpf 2>/dev/null
	return 0
}

set_sysctl() { # namespace key value, where the kernel has it
	ip netns exec "$1" sysctl -qw "$2=$3" 2>/dev/null
}

quiet() { # namespace interface
	local key
	for key in all default "$2"; do
		set_sysctl "$1" "net.ipv6.conf.$key.accept_dad" 0
		set_sysctl "$1" "net.ipv6.conf.$key.accept_ra" 0
		set_sysctl "$1" "net.ipv6.conf.$key.router_solicitations" 0
		set_sysctl "$1" "net.ipv6.conf.$key.addr_gen_mode" 1
		set_sysctl "$1" "net.ipv6.conf.$key.force_mld_version" 0
	done
	set_sysctl "$1" net.ipv4.icmp_ratelimit 0
	set_sysctl "$1" net.ipv4.icmp_msgs_per_sec 1000000
	set_sysctl "$1" net.ipv4.icmp_msgs_burst 1000000
	set_sysctl "$1" net.ipv6.icmp.ratelimit 0
}

# One batch for thousands of addresses: one process instead of as many.
clients_up() {
	local k
	for ((k = 1; k <= clients; k++)); do
		echo "address add 10.10.$((k / 256)).$((k % 256))/32 dev lo"
	done | in_cli ip -batch - || return
	for ((k = 1; k <= clients; k++)); do
		printf 'address add fd00:a:0:%x::1/128 dev lo nodad\n' "$k"
	done | in_cli ip -6 -batch - || return
	in_srv ip route add 10.10.0.0/16 via 10.9.0.2 && in_srv ip -6 route add fd00:a::/32 via fd00:9::2
}

build() { # in a subshell: the first failure ends it
	set -e
	ip netns add "$name-srv"
	ip netns add "$name-cli"
	quiet "$name-srv" lo
	quiet "$name-cli" lo
	ip link add vs netns "$name-srv" address 02:00:00:00:09:01 mtu "$mtu" \
		numrxqueues "$queues" numtxqueues "$queues" type veth \
		peer name vc netns "$name-cli" address 02:00:00:00:09:02 mtu "$mtu" \
		numrxqueues "$queues" numtxqueues "$queues"
	quiet "$name-srv" vs
	quiet "$name-cli" vc
	set_sysctl "$name-srv" net.ipv4.conf.all.rp_filter 1 || true
	set_sysctl "$name-srv" net.ipv4.conf.vs.rp_filter 1 || true
	in_srv ip link set lo up
	in_cli ip link set lo up
	in_srv ip address add 10.9.0.1/24 dev vs
	in_cli ip address add 10.9.0.2/24 dev vc
	in_srv ip address add fd00:9::1/64 dev vs nodad
	in_cli ip address add fd00:9::2/64 dev vc nodad
	in_srv ip link set vs up
	in_cli ip link set vc up
	in_srv ip neighbour replace 10.9.0.2 lladdr 02:00:00:00:09:02 dev vs nud permanent
	in_srv ip neighbour replace fd00:9::2 lladdr 02:00:00:00:09:02 dev vs nud permanent
	in_cli ip neighbour replace 10.9.0.1 lladdr 02:00:00:00:09:01 dev vc nud permanent
	in_cli ip neighbour replace fd00:9::1 lladdr 02:00:00:00:09:01 dev vc nud permanent
	if [ "$queues" = 1 ]; then
		in_cli tc qdisc replace dev vc root pfifo limit 2000 2>/dev/null || true
	fi
	[ "$clients" = 0 ] || clients_up
}

up() {
	local mtu=1500 queues=1 clients=0 bpffs=1
	while [ $# -gt 0 ]; do
		case $1 in
		--mtu) mtu=${2:?}; shift 2 ;;
		--queues) queues=${2:?}; shift 2 ;;
		--clients) clients=${2:?}; shift 2 ;;
		--no-bpffs) bpffs=; shift ;;
		*) usage ;;
		esac
	done
	[ "$clients" -le 65000 ] || die "--clients: at most 65000"
	[ ! -e "/run/netns/$name-srv" ] && [ ! -e "/run/netns/$name-cli" ] ||
		die "lab '$name' is there already; scripts/lab.sh down $name"
	[ -z "$bpffs" ] || bpffs_up
	# Not in a condition: `set -e` is ignored there.
	(build)
	if [ $? != 0 ]; then
		down
		die "cannot build lab '$name'; are you root, and does the kernel have veth?"
	fi
}

# Ends the processes of one of our namespaces: asked first, then killed.
end_processes() {
	local signal pids
	for signal in TERM TERM KILL KILL; do
		pids=$(ip netns pids "$1" 2>/dev/null)
		[ -n "$pids" ] || return 0
		# shellcheck disable=SC2086
		kill -"$signal" $pids 2>/dev/null
		sleep 0.1
	done
}

down() {
	local side
	for side in srv cli; do
		[ -e "/run/netns/$name-$side" ] || continue
		end_processes "$name-$side"
		ip -n "$name-$side" link del "$([ $side = srv ] && echo vs || echo vc)" 2>/dev/null
		ip netns del "$name-$side"
	done
	bpffs_down
}

[ $# -ge 2 ] || usage
verb=$1 name=$2
shift 2
[[ $name =~ ^[a-zA-Z0-9][a-zA-Z0-9_-]*$ ]] || die "'$name' is no name for a lab"
case $verb in
up) up "$@" ;;
down) down ;;
exec)
	[ $# -ge 2 ] || usage
	case $1 in srv | cli) ;; *) usage ;; esac
	side=$1
	shift
	exec ip netns exec "$name-$side" "$@"
	;;
*) usage ;;
esac
