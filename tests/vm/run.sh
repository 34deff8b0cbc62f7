#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Boots a kernel of the distribution in emulation and does there what a newcomer does: check, replay, attach to a
# veth pair, status, detach. `make vm` runs it; it needs qemu-system-x86, busybox-static and about a minute.
#
#   tests/vm/run.sh                 Debian's kernel for this release, fetched by apt-get download
#   tests/vm/run.sh VMLINUZ MODULES a kernel image and its folder of modules
set -u
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for tool in qemu-system-x86_64 busybox; do
	command -v "$tool" > /dev/null || { echo "skip vm: $tool is not installed"; exit 0; }
done
if [ $# -eq 2 ]; then
	image=$1 modules=$2
else
	package=$(apt-cache depends linux-image-amd64 2> /dev/null | awk '/Depends: linux-image/ { print $2 }')
	(cd "$work" && apt-get download "${package:-linux-image-amd64}" > /dev/null 2>&1 &&
		dpkg-deb -x linux-image-*.deb kernel) || { echo "skip vm: no kernel package to be had"; exit 0; }
	image=$(ls "$work"/kernel/boot/vmlinuz-*) modules=$work/kernel/lib/modules
fi

root=$work/root
mkdir -p "$root"/{bin,proc,sys,dev,tmp,run,var/lib}
cp "$(command -v busybox)" "$root/bin/"
for name in sh mount ip poweroff echo; do ln -s busybox "$root/bin/$name"; done
cp build/loadshed "$root/bin/"
ldd build/loadshed | grep -o '/[^ ]*' | while read -r library; do
	mkdir -p "$root$(dirname "$library")" && cp "$library" "$root$library"
done
find "$modules" -name 'veth.ko*' -exec cp {} "$root/" \;
[ ! -e "$root/veth.ko.xz" ] || xz -d "$root/veth.ko.xz"
cp scripts/demo-policy.yaml "$root/policy.yaml"
/usr/bin/python3 - "$root/one.pcap" << 'PY'
import struct, sys
frame = bytes.fromhex("02000000000102000000000208004500001c0001000040110000cb0071070a0900011388138800080000")
head = struct.pack("<IHHIIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1)
packets = b"".join(struct.pack("<IIII", 1700000000 + i, 0, 42, 42) + frame for i in range(5))
open(sys.argv[1], "wb").write(head + packets)
PY
cat > "$root/init" << 'INIT'
#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
[ ! -e /veth.ko ] || busybox insmod /veth.ko
ip link add vs type veth peer name vc
ip link set vs up
ip link set vc up
say() { if "$@" > /tmp/out 2>&1; then echo "ok vm: $*"; else echo "not ok vm: $*: $(busybox head -1 /tmp/out)"; fi; }
echo
say loadshed policy check /policy.yaml
say loadshed replay /one.pcap --policy /policy.yaml
say loadshed attach vs --policy /policy.yaml --mode native
say loadshed status
say loadshed ban add 203.0.113.7 --for 10s
say loadshed policy apply /policy.yaml
say loadshed stats
say loadshed top -o table
# The accept queue of a listener, read in the driver by this kernel as well: busybox does not accept while it serves.
printf 'version: 1\noverload: {}\n' > /queue.yaml
say loadshed policy apply /queue.yaml --yes
say sh -c 'loadshed check | busybox grep -q "accept queues can be read"'
say sh -c '! loadshed status | busybox grep -q accept_queue'
say loadshed detach --all
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | busybox cpio -o -H newc 2> /dev/null | gzip -1 > "$work/initrd.gz")
timeout 300 qemu-system-x86_64 -m 2048 -smp 2 -nographic -no-reboot -kernel "$image" -initrd "$work/initrd.gz" \
	-append "console=ttyS0 quiet panic=1" < /dev/null 2>&1 | tr -d '\r' | grep -aE '^(ok|not ok) vm' > "$work/said"
cat "$work/said"
[ "$(grep -c '^ok' "$work/said")" -eq 12 ] && exit 0
grep -q '^not ok' "$work/said" || echo "not ok vm: the machine did not finish"
exit 1
