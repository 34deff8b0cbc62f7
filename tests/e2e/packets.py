# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Frames and captures, byte by byte.

Every length and every field can be given, so that broken packets are as easy as whole ones; what is not
given is right. Addresses are those that RFC 5737 and RFC 3849 set aside for documentation.
"""

import socket
import struct

VS = "020000000901"  # the lab's server and client
VC = "020000000902"

TCP, UDP, ICMP, ICMPV6, SCTP, GRE, ESP, AH = 6, 17, 1, 58, 132, 47, 50, 51
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16


def ip(text):
    """The bytes of an address of either family."""
    return socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(">%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def eth(ethertype, payload, to=VS, source=VC, tags=()):
    """tags: VLAN numbers, or (TPID, number), the outermost first."""
    head = bytes.fromhex(to) + bytes.fromhex(source)
    for tag in tags:
        tpid, number = tag if isinstance(tag, tuple) else (0x8100, tag)
        head += struct.pack(">HH", tpid, number)
    return head + struct.pack(">H", ethertype) + payload


def ipv4(source, to, protocol, payload, version=4, ihl=None, total=None, ident=1, fragment=0, more=False,
         ttl=64, options=b""):
    """fragment: offset in bytes."""
    ihl = 5 + len(options) // 4 if ihl is None else ihl
    total = 20 + len(options) + len(payload) if total is None else total
    head = struct.pack(">BBHHHBBH4s4s", version << 4 | ihl, 0, total & 0xFFFF, ident,
                       (0x2000 if more else 0) | fragment // 8, ttl, protocol, 0, ip(source), ip(to))
    head = head[:10] + struct.pack(">H", checksum(head + options)) + head[12:]
    return head + options + payload


def ipv6(source, to, following, payload, version=6, length=None, hops=64):
    length = len(payload) if length is None else length
    return struct.pack(">IHBB16s16s", version << 28, length & 0xFFFF, following, hops, ip(source),
                       ip(to)) + payload


def extension(following, body_bytes=6, length=None):
    """Hop-by-hop, routing, destination options: eight bytes times (length + 1)."""
    length = (body_bytes + 2) // 8 - 1 if length is None else length
    return struct.pack(">BB", following, length) + b"\0" * body_bytes


def fragment6(following, offset=0, more=False, ident=1):
    return struct.pack(">BBHI", following, 0, offset & 0xFFF8 | int(more), ident)


def pseudo(source, to, protocol, length):
    if ":" in source:
        return ip(source) + ip(to) + struct.pack(">II", length, protocol)
    return ip(source) + ip(to) + struct.pack(">BBH", 0, protocol, length)


def udp(from_port, port, payload=b"", addresses=None):
    head = struct.pack(">HHHH", from_port, port, 8 + len(payload), 0)
    if addresses:
        value = checksum(pseudo(*addresses, UDP, 8 + len(payload)) + head + payload) or 0xFFFF
        head = head[:6] + struct.pack(">H", value)
    return head + payload


def tcp(from_port, port, flags=SYN, payload=b""):
    return struct.pack(">HHIIBBHHH", from_port, port, 1, 0, 5 << 4, flags, 64240, 0, 0) + payload


def icmp(kind, code=0, rest=b"\0\0\0\0", payload=b""):
    body = struct.pack(">BBH", kind, code, 0) + rest + payload
    return body[:2] + struct.pack(">H", checksum(body)) + body[4:]


def udp_frame(source, to=None, port=5000, from_port=5000, size=0, tags=()):
    """A whole UDP packet in a frame of at least `size` bytes."""
    to = to or ("fd00:9::1" if ":" in source else "10.9.0.1")
    head = 14 + 4 * len(tags) + (40 if ":" in source else 20) + 8
    return ip_frame(source, to, UDP, udp(from_port, port, b"\0" * max(0, size - head), (source, to)), tags)


def tcp_frame(source, to=None, port=80, from_port=40000, flags=SYN, payload=b"", tags=()):
    to = to or ("fd00:9::1" if ":" in source else "10.9.0.1")
    return ip_frame(source, to, TCP, tcp(from_port, port, flags, payload), tags)


def ip_frame(source, to, protocol, payload, tags=()):
    if ":" in source:
        return eth(0x86DD, ipv6(source, to, protocol, payload), tags=tags)
    return eth(0x0800, ipv4(source, to, protocol, payload), tags=tags)


def arp_frame():
    return eth(0x0806, bytes.fromhex("0001080006040001") + bytes.fromhex(VC) + ip("10.9.0.2") +
               b"\0" * 6 + ip("10.9.0.1"), to="ff" * 6)


def pcap(records, nano=False, link=1, start=1700000000):
    """records: frames, or (seconds after start, frame), or (seconds, frame, bytes on the wire)."""
    unit = 10**9 if nano else 10**6
    out = [struct.pack("<IHHiIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, 4, 0, 0, 262144, link)]
    for record in records:
        if isinstance(record, bytes):
            record = (0, record)
        when, frame = record[0], record[1]
        wire = record[2] if len(record) > 2 else len(frame)
        ticks = start * unit + round(when * unit)
        out.append(struct.pack("<IIII", ticks // unit, ticks % unit, len(frame), wire))
        out.append(frame)
    return b"".join(out)


def pcapng(records, resolution=None, link=1, start=1700000000):
    """One section, one interface; resolution: if_tsresol as a power of ten, default none (6)."""
    def block(kind, body):
        body += b"\0" * (-len(body) % 4)
        return struct.pack("<II", kind, 12 + len(body)) + body + struct.pack("<I", 12 + len(body))

    options = b""
    if resolution is not None:
        options = struct.pack("<HHB3x", 9, 1, resolution) + struct.pack("<HH", 0, 0)
    unit = 10 ** (6 if resolution is None else resolution)
    out = [block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)),
           block(1, struct.pack("<HHI", link, 0, 262144) + options)]
    for record in records:
        if isinstance(record, bytes):
            record = (0, record)
        when, frame = record[0], record[1]
        wire = record[2] if len(record) > 2 else len(frame)
        ticks = start * unit + round(when * unit)
        out.append(block(6, struct.pack("<IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), wire) +
                         frame))
    return b"".join(out)
