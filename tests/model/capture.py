# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Reads and writes pcap and pcapng, just enough for the model.

The idea: a record is (stamp in ns since the Unix epoch, time as text, bytes, wire length). The text
carries the digits that the capture itself has (6 for microseconds, 9 for nanoseconds), because that
is how `replay --packets` prints a time. Only Ethernet is read. A file that ends in the middle of a
record yields what came before and then says so, since a reader of the same file should have judged
those packets too.

It is written by hand, because a general packet library takes longer to read a packet than the model
takes to judge it, and because the point of the model is to share nothing with the program under
test.

It cannot do: time stamp resolutions that are powers of two, simple packet blocks, and interfaces of
different resolutions in one file; the writer does not make them and the reader refuses them.
"""

import struct

LINK_ETHERNET = 1
# Larger records are refused by the usual reader as damage; one that trusted them would read
# garbage.
LARGEST_RECORD = 262144

_PCAP_MAGIC = {
    b"\xd4\xc3\xb2\xa1": ("<", 6),
    b"\xa1\xb2\xc3\xd4": (">", 6),
    b"\x4d\x3c\xb2\xa1": ("<", 9),
    b"\xa1\xb2\x3c\x4d": (">", 9),
}
_PCAPNG_MAGIC = b"\x0a\x0d\x0d\x0a"
_PCAPNG_INTERFACE = 1
_PCAPNG_PACKET = 6
_OPTION_RESOLUTION = 9


class Unsupported(Exception):
    """The file is a kind of capture that this module does not read."""


class Truncated(Exception):
    """The file is damaged from here on; the records before it were good."""


def time_text(stamp, digits):
    """The stamp (ns since the epoch) as seconds with 6 or 9 digits after the point."""
    seconds, rest = divmod(stamp, 1000000000)
    if digits == 6:
        rest //= 1000
    return "%d.%0*d" % (seconds, digits, rest)


def read(path):
    """Yields (stamp_ns, time text, captured bytes, wire length in bytes) for each packet.

    The wire length is never less than the number of captured bytes. Raises Unsupported before the
    first record, or Truncated after the last good one.
    """
    with open(path, "rb") as file:
        data = file.read()
    magic = data[:4]
    if magic in _PCAP_MAGIC:
        return _read_pcap(data, *_PCAP_MAGIC[magic])
    if magic == _PCAPNG_MAGIC:
        return _read_pcapng(data)
    raise Unsupported("%s: neither pcap nor pcapng" % path)


def _read_pcap(data, order, digits):
    if len(data) < 24:
        raise Unsupported("pcap header is cut off")
    if struct.unpack_from(order + "I", data, 20)[0] & 0xFFFF != LINK_ETHERNET:
        raise Unsupported("link type is not Ethernet")
    return _pcap_records(data, order, digits)


def _pcap_records(data, order, digits):
    header = struct.Struct(order + "IIII")
    unit = 1000 if digits == 6 else 1
    at, end = 24, len(data)
    while at < end:
        if at + 16 > end:
            raise Truncated("record header is cut off")
        seconds, fraction, captured, wire = header.unpack_from(data, at)
        at += 16
        if captured > LARGEST_RECORD or at + captured > end:
            raise Truncated("record is cut off")
        stamp = seconds * 1000000000 + fraction * unit
        yield stamp, time_text(stamp, digits), data[at : at + captured], max(captured, wire)
        at += captured


def _read_pcapng(data):
    order = "<" if data[8:12] == b"\x4d\x3c\x2b\x1a" else ">"
    if not list(_pcapng_interfaces(data, order)):
        raise Unsupported("no interface")
    digits = set()
    for link, resolution in _pcapng_interfaces(data, order):
        if link != LINK_ETHERNET:
            raise Unsupported("link type is not Ethernet")
        digits.add(resolution)
    if len(digits) != 1 or not digits <= {6, 9}:
        raise Unsupported("time stamp resolution")
    return _pcapng_records(data, order, digits.pop())


def _blocks(data, order):
    at, end = 0, len(data)
    while at + 12 <= end:
        kind, size = struct.unpack_from(order + "II", data, at)
        if size < 12 or size % 4 or at + size > end:
            raise Truncated("block is cut off")
        yield kind, at + 8, at + size - 4
        at += size
    if at != end:
        raise Truncated("block is cut off")


def _pcapng_interfaces(data, order):
    sections = 0
    try:
        for kind, start, end in _blocks(data, order):
            sections += kind == 0x0A0D0D0A
            if sections > 1:
                raise Unsupported("more than one section")
            if kind == 3:
                raise Unsupported("simple packet block")
            if kind != _PCAPNG_INTERFACE:
                continue
            resolution = 6
            link = struct.unpack_from(order + "H", data, start)[0]
            at = start + 8
            while at + 4 <= end:
                code, size = struct.unpack_from(order + "HH", data, at)
                if code == 0:
                    break
                if code == _OPTION_RESOLUTION:
                    resolution = data[at + 4]
                at += 4 + (size + 3) // 4 * 4
            yield link, resolution
    except Truncated:
        # The records are read in a second walk, which reports the damage in its place.
        return


def _pcapng_records(data, order, digits):
    unit = 10 ** (9 - digits)
    for kind, start, end in _blocks(data, order):
        if kind != _PCAPNG_PACKET:
            continue
        high, low, captured, wire = struct.unpack_from(order + "IIII", data, start + 4)
        if captured > LARGEST_RECORD or start + 20 + captured > end:
            raise Truncated("packet is cut off")
        stamp = (high << 32 | low) * unit
        body = data[start + 20 : start + 20 + captured]
        yield stamp, time_text(stamp, digits), body, max(captured, wire)


def write(path, records, kind, digits, order, marks=True):
    """Writes records (stamp_ns, captured bytes, wire length) to a new file.

    kind is "pcap" or "pcapng", digits 6 or 9 (stamps must be multiples of that unit), order "<" or
    ">". With marks a pcapng names its resolution even where it is the default, and has a block and an
    option that readers are to skip.
    """
    out = []
    if kind == "pcap":
        magic = 0xA1B2C3D4 if digits == 6 else 0xA1B23C4D
        out.append(struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, LARGEST_RECORD, LINK_ETHERNET))
        unit = 1000 if digits == 6 else 1
        header = struct.Struct(order + "IIII")
        for stamp, body, wire in records:
            seconds, rest = divmod(stamp, 1000000000)
            out.append(header.pack(seconds, rest // unit, len(body), wire))
            out.append(body)
    else:
        out.append(_block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)))
        options = b""
        if digits != 6 or marks:
            options = struct.pack(order + "HHB3xHH", _OPTION_RESOLUTION, 1, digits, 0, 0)
        interface = struct.pack(order + "HHI", LINK_ETHERNET, 0, 0) + options
        out.append(_block(order, _PCAPNG_INTERFACE, interface))
        if marks:
            out.append(_block(order, 0x0BAD, b"skip me "))
        unit = 10 ** (9 - digits)
        comment = struct.pack(order + "HH4sHH", 1, 4, b"note", 0, 0)
        for number, (stamp, body, wire) in enumerate(records):
            units = stamp // unit
            head = struct.pack(
                order + "IIIII", 0, units >> 32, units & 0xFFFFFFFF, len(body), wire
            )
            tail = comment if marks and number % 7 == 0 else b""
            out.append(_block(order, _PCAPNG_PACKET, head + body + b"\0" * (-len(body) % 4) + tail))
    with open(path, "wb") as file:
        file.write(b"".join(out))


def _block(order, kind, body):
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + size + body + size
