# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Attaches somebody else's XDP program, named foreign_pass, to an interface of this network namespace.

    foreign.py IFACE link|netlink native|generic

Prints "ready" on stderr, and the program's id on stdout at the end, on SIGTERM; a
link then goes with the process, a netlink attachment is taken off.
"""

import ctypes
import os
import signal
import socket
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)
SYS_BPF = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}[os.uname().machine]
PROG_LOAD, OBJ_GET_INFO, LINK_CREATE = 5, 15, 28
DRV, SKB = 4, 2


def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes, max(len(attributes), 144))
    result = libc.syscall(SYS_BPF, command, buffer, len(buffer))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def load():
    # r0 = XDP_PASS; exit
    code = ctypes.create_string_buffer(struct.pack("<BBhiBBhi", 0xB7, 0, 0, 2, 0x95, 0, 0, 0))
    licence = ctypes.create_string_buffer(b"GPL")
    return bpf(PROG_LOAD, struct.pack("<IIQQIIQII16sII", 6, 2, ctypes.addressof(code),
                                      ctypes.addressof(licence), 0, 0, 0, 0, 0, b"foreign_pass", 0, 37))


def program_id(fd):
    info = ctypes.create_string_buffer(256)
    bpf(OBJ_GET_INFO, struct.pack("<IIQ", fd, len(info), ctypes.addressof(info)))
    return struct.unpack_from("<I", info, 4)[0]


def netlink_set(ifindex, fd, flags):
    """RTM_SETLINK with IFLA_XDP { IFLA_XDP_FD, IFLA_XDP_FLAGS }."""
    nested = struct.pack("<HHi", 8, 1, fd) + struct.pack("<HHI", 8, 3, flags)
    body = struct.pack("<BxHiII", 0, 0, ifindex, 0, 0) + struct.pack("<HH", 4 + len(nested), 43 | 0x8000)
    message = struct.pack("<IHHII", 16 + len(body) + len(nested), 19, 5, 1, 0) + body + nested
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as channel:
        channel.send(message)
        error = struct.unpack_from("<i", channel.recv(4096), 16)[0]
    if error:
        raise OSError(-error, os.strerror(-error))


def main():
    interface, kind, mode = sys.argv[1:]
    ifindex = socket.if_nametoindex(interface)
    flags = DRV if mode == "native" else SKB
    fd = load()
    if kind == "link":
        bpf(LINK_CREATE, struct.pack("<IIII", fd, ifindex, 37, flags))
    else:
        netlink_set(ifindex, fd, flags)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print("ready", file=sys.stderr, flush=True)
    try:
        signal.pause()
    finally:
        if kind == "netlink":
            try:
                netlink_set(ifindex, -1, flags)
            except OSError:
                pass  # somebody has replaced it, which is what was tried
        print(program_id(fd))


main()
