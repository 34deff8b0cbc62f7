#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""An independent model of what loadshed does with a packet.

The idea: the contract says in words what happens to every packet. This file says it a second time,
in plain Python and exact integers, written from those words alone and without a look at the
program. Where the two disagree, one of them has misread the contract. So nothing here may be copied
from the program, and nothing here may be tuned until it agrees.

How time and rates stay exact. A rate is a fraction a/b of items per nanosecond. A bucket counts
time in units of 1/a ns (of 1/(a·m) ns, where m makes every NAT factor fit); then one item costs
exactly b units, `now` is a whole number of units, and no rounding exists. The state of a bucket is
the instant at which it is full again (its "due" time); tokens = (burst time − (due − now)) / cost.
Windows compare integers after multiplying the inequality with the window length.

Where the program may differ, and by how much. It keeps the same instant as a whole number of 1/64
ns and rounds what a packet costs and what a burst lasts downwards. Take one bucket, D its exact due
time and d the program's. A charge adds the exact cost in one and at most `w` units of 1/64 ns less
in the other (w = 0 if the cost of one item is a whole number of such units, 1 for items, 2 for
bytes, where the multiplier of the length is rounded as well); max(due, now) never widens the
distance; and it is 0 again once D is past. So 0 ≤ D − d ≤ w · (charges since the bucket was last
full), and:

  - what the model admits, the program must admit. There is no tolerance on this side: n packets at
    one instant pass a burst of n. (The sums that the program compares are whole numbers not above
    the exact ones, and a whole number not above a real burst time is not above its floor.)
  - what the model refuses, the program may admit only if it is short by less than that distance,
    plus w for this packet, plus one unit for the order in which burst and cost are rounded (only if
    w > 0).

Such a decision is an *edge*. The model then takes the program's answer as its own, goes on from
there, and counts it; the count is reported, and one that is not tiny is a defect. Windows, logs,
lists, bans and the two control buckets (whose costs are whole numbers of 1/64 ns) have no tolerance
at all.

What it cannot do: `cluster`, overload signals that need a controller, and a crowded source table
(it has a place for everybody).
"""

import argparse
import copy
import ipaddress
import json
import os
import re
import socket
import sys
from fractions import Fraction
from math import lcm

import yaml

import capture

SECOND = 1000000000

# How far headers can reach: 2 tags, IPv6, 8 extension headers of the largest claimed size (2048),
# TCP. A frame is padded only this far; its length is kept beside it.
HEADER_REACH = 14 + 8 + 40 + 8 * 2048 + 60

# ------------------------------------------------------------------------------------------------
# Numbers as a policy spells them
# ------------------------------------------------------------------------------------------------

_ITEM_SCALE = {"": 1, "k": 1000, "M": 1000000, "G": 1000000000}
_RATE_PERIOD = {"s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND, "d": 86400 * SECOND}
_SIZE_UNIT = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
_BYTE_RATE_UNIT = {name + "/s": Fraction(value) for name, value in _SIZE_UNIT.items()}
_BYTE_RATE_UNIT.update(
    {
        "bit/s": Fraction(1, 8),
        "kbit/s": Fraction(1000, 8),
        "Mbit/s": Fraction(10**6, 8),
        "Gbit/s": Fraction(10**9, 8),
    }
)
_TIME_UNIT = {"ms": 10**6, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND, "d": 86400 * SECOND}

_DECIMAL = r"((?:0|[1-9][0-9]*)(?:\.[0-9]{1,3})?)"
_ITEM_RATE = re.compile(_DECIMAL + r"([kMG]?)/([smhd])")
_UNIT_VALUE = re.compile(_DECIMAL + r"([A-Za-z/]+)")
_COUNT = re.compile(r"(0|[1-9][0-9]*)([kMG]?)")


def _must(match, kind, text):
    if match is None:
        raise ValueError("not a %s: %r" % (kind, text))
    return match


def read_count(text):
    """A number of items: '1k' is 1000."""
    number, scale = _must(_COUNT.fullmatch(text), "count", text).groups()
    return int(number) * _ITEM_SCALE[scale]


def read_item_rate(text):
    """A rate of packets or connections as a Fraction of items per nanosecond."""
    number, scale, period = _must(_ITEM_RATE.fullmatch(text), "rate", text).groups()
    return Fraction(number) * _ITEM_SCALE[scale] / _RATE_PERIOD[period]


def read_byte_rate(text):
    """A byte rate as a Fraction of bytes per nanosecond."""
    number, unit = _must(_UNIT_VALUE.fullmatch(text), "byte rate", text).groups()
    return Fraction(number) * _BYTE_RATE_UNIT[unit] / SECOND


def read_size(text):
    """A number of bytes, a whole one: '1.5KiB' is 1536."""
    number, unit = _must(_UNIT_VALUE.fullmatch(text), "size", text).groups()
    size = Fraction(number) * _SIZE_UNIT[unit]
    if size.denominator != 1:
        raise ValueError("not a whole number of bytes: %r" % text)
    return int(size)


def read_time(text):
    """A time in nanoseconds."""
    number, unit = _must(_UNIT_VALUE.fullmatch(text), "time", text).groups()
    return int(number) * _TIME_UNIT[unit]


# ------------------------------------------------------------------------------------------------
# Addresses and lists. An address is its 4 or 16 bytes; the length is the family.
# ------------------------------------------------------------------------------------------------


def read_prefix(text):
    """(address bytes with host bits zero, prefix length) of an address or prefix."""
    network = ipaddress.ip_network(text, strict=True)
    return network.network_address.packed, network.prefixlen


def prefix_key(address, length):
    """What all addresses in the same prefix of `length` bits share, and no others."""
    bits = len(address) * 8
    return bits, length, int.from_bytes(address, "big") >> (bits - length)


def source_key(address):
    """The subject of `per: source`: the IPv4 address, or the first 8 bytes of the IPv6 address."""
    return address if len(address) == 4 else address[:8]


def address_text(address):
    """RFC 5952 text."""
    if len(address) == 4:
        return socket.inet_ntop(socket.AF_INET, address)
    return str(ipaddress.IPv6Address(address))


class PrefixTable:
    """Prefixes with a value each; the longest that contains an address is found."""

    def __init__(self):
        self.value = {}
        self.lengths = {32: [], 128: []}

    def add(self, prefix, value):
        """The first value that a prefix was given is kept."""
        address, length = prefix
        key = prefix_key(address, length)
        if key not in self.value:
            self.value[key] = value
            lengths = self.lengths[key[0]]
            if length not in lengths:
                lengths.append(length)
                lengths.sort(reverse=True)

    def find(self, address):
        """(length, value) of the longest prefix that contains the address, or (-1, None)."""
        bits = len(address) * 8
        for length in self.lengths[bits]:
            key = prefix_key(address, length)
            if key in self.value:
                return length, self.value[key]
        return -1, None


def read_list_file(path, skip):
    """The prefixes of a list file: first column, # comments, blank lines, CRLF and BOM accepted."""
    with open(path, "rb") as file:
        text = file.read().decode("utf-8-sig", "replace")
    prefixes = []
    for line in text.split("\n"):
        columns = line.split("#", 1)[0].split()
        if not columns:
            continue
        try:
            prefixes.append(read_prefix(columns[0]))
        except ValueError:
            if not skip:
                raise
    return prefixes


# ------------------------------------------------------------------------------------------------
# Limits. ask() changes nothing: it returns (ADMIT | REFUSE | EDGE, the state to store if it
# passes).
# ------------------------------------------------------------------------------------------------

ADMIT, REFUSE, EDGE = 0, 1, 2
_REFUSED = (REFUSE, None)
_FULL = (0, 0)


class TokenBucket:
    """Tokens grow at `rate` up to `burst`; a packet needs min(cost, burst) and takes its cost."""

    def __init__(self, rate, burst, of_bytes, factors):
        multiple = lcm(*factors)
        self.state = {}  # subject -> (due in units, distance bound in 1/64 ns)
        self.rate, self.burst = rate, burst
        self.per_ns = rate.numerator * multiple
        self.burst_units = burst * rate.denominator * multiple
        self.item = {}
        for factor in factors:
            cost = rate.denominator * multiple // factor
            exact = 64 * cost % self.per_ns == 0
            self.item[factor] = (cost, 0 if exact else 2 if of_bytes else 1)

    def ask(self, subject, cost, now, factor):
        """cost in items, now in ns. The NAT factor divides the cost: rate and burst grow alike."""
        item, inexact = self.item[factor]
        due, distance = self.state.get(subject, _FULL)
        now *= self.per_ns
        if due <= now:
            due, distance = now, 0
        price = cost * item
        full = self.burst_units
        short = due - now + (price if price < full else full) - full
        if short <= 0:
            return ADMIT, (due + price, distance + inexact)
        if inexact:
            distance += inexact
            if short * 64 < self.per_ns * (distance + 1):
                return EDGE, (due + price, distance)
        elif distance and short * 64 < self.per_ns * distance:
            return EDGE, (due + price, distance)
        return _REFUSED

    def conforms_at(self, subject, cost, now, factor):
        """The first ns at which what is refused now would be admitted if nothing else came."""
        need = min(cost * self.item[factor][0], self.burst_units)
        return -((self.burst_units - need - self.state[subject][0]) // self.per_ns)

    def describe(self, subject, now, factor):
        due, distance = self.state.get(subject, _FULL)
        backlog = max(0, due - now * self.per_ns)
        tokens = Fraction(self.burst_units - backlog, self.item[factor][0])
        return "tokens %.9f of %d, rate %.6f/s, factor %d, may differ by %d/64 ns" % (
            tokens,
            self.burst * factor,
            self.rate * factor * SECOND,
            factor,
            distance,
        )


class FixedWindow:
    """Count so far in the aligned window + cost ≤ limit."""

    def __init__(self, limit, window):
        self.state = {}  # subject -> (index of the window since the epoch, count)
        self.limit, self.window = limit, window

    def ask(self, subject, cost, now, factor):
        """cost in items, now in ns."""
        index = now // self.window
        known, count = self.state.get(subject, _FULL)
        if known == index:
            cost += count
        if cost > self.limit * factor:
            return _REFUSED
        return ADMIT, (index, cost)

    def conforms_at(self, subject, cost, now, factor):
        """As for the token bucket; for a packet larger than the limit it is only the next window."""
        return (now // self.window + 1) * self.window

    def describe(self, subject, now, factor):
        known, count = self.state.get(subject, _FULL)
        if known != now // self.window:
            count = 0
        return "count %d of %d, %d ns into the window of %d" % (
            count,
            self.limit * factor,
            now % self.window,
            self.window,
        )


class SlidingWindow:
    """previous·(1 − f) + current + cost ≤ limit, f = part of the aligned window that has passed."""

    def __init__(self, limit, window):
        self.state = {}  # subject -> (index of the window, previous count, current count)
        self.limit, self.window = limit, window

    def _counts(self, subject, index):
        known, previous, current = self.state.get(subject, (index, 0, 0))
        if known == index:
            return previous, current
        if known == index - 1:
            return current, 0
        return 0, 0

    def ask(self, subject, cost, now, factor):
        """cost in items, now in ns."""
        window = self.window
        index, passed = divmod(now, window)
        previous, current = self._counts(subject, index)
        current += cost
        if previous * (window - passed) + current * window > self.limit * factor * window:
            return _REFUSED
        return ADMIT, (index, previous, current)

    def conforms_at(self, subject, cost, now, factor):
        """As for the token bucket; the next window if the current one is full by itself."""
        index = now // self.window
        previous, current = self._counts(subject, index)
        left = self.limit * factor - current - cost
        if left < 0:
            return (index + 1) * self.window
        return (index + 1) * self.window - left * self.window // previous

    def describe(self, subject, now, factor):
        index, passed = divmod(now, self.window)
        return "previous %d, current %d, limit %d, %d ns into the window of %d" % (
            *self._counts(subject, index),
            self.limit * factor,
            passed,
            self.window,
        )


class SlidingLog:
    """Fewer than `limit` admitted in the last `window`; an entry exactly `window` old is out."""

    def __init__(self, limit, window):
        self.state = {}  # subject -> stamps of what was admitted, oldest first
        self.limit, self.window = limit, window

    def ask(self, subject, cost, now, factor):
        """cost is 1 (a log counts packets or connections), now in ns."""
        oldest = now - self.window
        stamps = [stamp for stamp in self.state.get(subject, ()) if stamp > oldest]
        if len(stamps) >= self.limit * factor:
            return _REFUSED
        stamps.append(now)
        return ADMIT, stamps

    def conforms_at(self, subject, cost, now, factor):
        """As for the token bucket."""
        return self.state[subject][-self.limit * factor] + self.window

    def describe(self, subject, now, factor):
        stamps = [s for s in self.state.get(subject, ()) if s > now - self.window]
        ages = ", ".join(str(now - stamp) for stamp in stamps)
        return "%d of %d, window %d ns, ages in ns: %s" % (
            len(stamps),
            self.limit * factor,
            self.window,
            ages or "none",
        )


class Reserve:
    """One bucket of overload `max`: burst 100 ms of the rate, part of it kept for higher priorities.

    Units are 1/(8a) ns, so that the reserves of 1/2, 1/4 and 1/8 are whole numbers.
    """

    # In eighths of the burst, what a packet of this priority may use up.
    USABLE = {"low": 4, "normal": 6, "high": 7, "critical": 8}

    def __init__(self, rate):
        self.due, self.distance = 0, 0
        self.rate = rate
        self.per_ns = 8 * rate.numerator
        self.cost = 8 * rate.denominator
        self.burst_units = SECOND // 10 * self.per_ns
        self.inexact = 0 if 64 * self.cost % self.per_ns == 0 else 1

    def ask(self, now, is_new, priority):
        """Asks for one item at `now` ns; is_new: work that can be refused."""
        now *= self.per_ns
        due, distance = self.due, self.distance
        if due <= now:
            due, distance = now, 0
        after = due + self.cost
        distance += self.inexact
        if not is_new:
            return ADMIT, (min(after, now + self.burst_units), distance)
        short = after - now - self.burst_units // 8 * self.USABLE[priority]
        if short <= 0:
            return ADMIT, (after, distance)
        if short * 64 < self.per_ns * (distance + self.inexact):
            return EDGE, (after, distance)
        return _REFUSED

    def conforms_at(self, now, priority):
        """The first ns at which new work that is refused now would be admitted."""
        usable = self.burst_units // 8 * self.USABLE[priority]
        return -((usable - self.cost - max(self.due, now * self.per_ns)) // self.per_ns)

    def describe(self, now):
        backlog = max(0, self.due - now * self.per_ns)
        return "tokens %.9f of %.3f, may differ by %d/64 ns" % (
            Fraction(self.burst_units - backlog, self.cost),
            Fraction(self.burst_units, self.cost),
            self.distance,
        )


# ------------------------------------------------------------------------------------------------
# Policy
# ------------------------------------------------------------------------------------------------

PROTOCOLS = {"tcp": 6, "udp": 17, "icmp": 1, "icmpv6": 58, "sctp": 132, "gre": 47, "esp": 50}
TCP, UDP, SCTP = 6, 17, 132
FLAGS = {"fin": 1, "syn": 2, "rst": 4, "psh": 8, "ack": 16, "urg": 32, "ece": 64, "cwr": 128}
SYN, ACK = FLAGS["syn"], FLAGS["ack"]


def _listed(value):
    """A key that takes one value or a list, as a list."""
    return value if isinstance(value, list) else [value]


def _only(mapping, allowed, where):
    unknown = set(mapping) - set(allowed.split())
    if unknown:
        raise ValueError("%s: unknown key %s" % (where, ", ".join(sorted(unknown))))


class Limit:
    """One limit of a class: what it counts, for whom, and the algorithm that judges."""

    def __init__(self, spec, number, factors):
        _only(spec, "name per count rate burst limit window algorithm scope", "limit")
        self.name = spec.get("name", "limit-%d" % number)
        self.count = spec.get("count", "packets")
        per = spec.get("per", "source")
        self.per = per
        # Only `per: source` is stretched by a NAT factor.
        self.natted = per == "source"
        self.prefixes = None
        if isinstance(per, dict):
            self.prefixes = int(per.get("ipv4", 32)), int(per.get("ipv6", 64))
        self.subjects = {}  # source -> prefix key, a memo
        algorithm = spec.get("algorithm", "token-bucket")
        of_bytes = self.count == "bytes"
        if algorithm == "token-bucket":
            rate = (read_byte_rate if of_bytes else read_item_rate)(spec["rate"])
            if "burst" in spec:
                burst = (read_size if of_bytes else read_count)(spec["burst"])
            else:
                burst = max(rate * SECOND, 65536 if of_bytes else 1)
                if burst.denominator != 1:
                    raise ValueError("the default burst is not a whole number: %s" % spec["rate"])
                burst = int(burst)
            self.judge = TokenBucket(rate, burst, of_bytes, factors if self.natted else (1,))
        else:
            limit = (read_size if of_bytes else read_count)(spec["limit"])
            kinds = {
                "fixed-window": FixedWindow,
                "sliding-window": SlidingWindow,
                "sliding-log": SlidingLog,
            }
            self.judge = kinds[algorithm](limit, read_time(spec["window"]))
        self.algorithm = algorithm

    def subject(self, key, packet):
        """Whose bucket it is. key: the source's own key."""
        per = self.per
        if per == "source":
            return key
        if per == "class":
            return 0
        if per == "destination":
            return packet[1]
        if per == "flow":
            # Ports that are unknown count as 0; an unknown protocol is like no known one.
            return packet[0], packet[1], packet[2], packet[3] or 0, packet[4] or 0
        source = packet[0]
        found = self.subjects.get(source)
        if found is None:
            found = prefix_key(source, self.prefixes[len(source) == 16])
            self.subjects[source] = found
        return found


class Class:
    """One class: what it matches, its limits, and its ban."""

    def __init__(self, spec, policy):
        _only(spec, "name match priority limits mode ban", "class")
        self.name = spec["name"]
        self.priority = spec.get("priority", "normal")
        self.monitor = spec.get("mode", "enforce") == "monitor"
        self.limits = [
            Limit(limit, number, policy.factors)
            for number, limit in enumerate(spec.get("limits", []), 1)
        ]
        self.ban = None
        self.refusals = {}  # source key -> (instant of the first refusal, how many)
        if "ban" in spec:
            ban = spec["ban"]
            _only(ban, "after within for", "ban")
            self.ban = read_count(ban["after"]), read_time(ban["within"]), read_time(ban["for"])
        self._read_match(spec["match"], policy)

    def _read_match(self, match, policy):
        self.protocols = self.ports = self.source_ports = self.to = self.source = None
        self.vlans = None
        self.flags_mask = self.flags_value = 0
        if match == "any":
            return
        _only(match, "protocol ports source_ports to from vlan tcp_flags", "match")
        if "protocol" in match:
            self.protocols = {
                PROTOCOLS[text] if text in PROTOCOLS else int(text)
                for text in _listed(match["protocol"])
            }
        for key, name in (("ports", "ports"), ("source_ports", "source_ports")):
            if key in match:
                setattr(self, name, [_read_range(text) for text in _listed(match[key])])
                if self.protocols is None:
                    self.protocols = {TCP, UDP, SCTP}
        for key, name in (("to", "to"), ("from", "source")):
            if key in match:
                table = PrefixTable()
                for prefix in policy.prefixes(match[key]):
                    table.add(prefix, True)
                setattr(self, name, table)
        if "vlan" in match:
            self.vlans = {int(text) for text in _listed(match["vlan"])}
        for text in _listed(match.get("tcp_flags", [])):
            wanted = not text.startswith("no-")
            bit = FLAGS[text if wanted else text[3:]]
            self.flags_mask |= bit
            if wanted:
                self.flags_value |= bit

    def matches(self, packet):
        """Whether every key that is given holds for the parsed packet."""
        source, to, protocol, source_port, port, flags, vlan = packet[:7]
        if self.protocols is not None and protocol not in self.protocols:
            return False
        if self.ports is not None and not _in_ranges(port, self.ports):
            return False
        if self.source_ports is not None and not _in_ranges(source_port, self.source_ports):
            return False
        if self.flags_mask and (flags is None or flags & self.flags_mask != self.flags_value):
            return False
        if self.vlans is not None and vlan not in self.vlans:
            return False
        if self.to is not None and self.to.find(to)[0] < 0:
            return False
        return self.source is None or self.source.find(source)[0] >= 0


def _read_range(text):
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _in_ranges(port, ranges):
    return port is not None and any(first <= port <= last for first, last in ranges)


class Policy:
    """A policy file as a value. Reading believes that the policy is valid; it checks only keys."""

    def __init__(self, path):
        with open(path, "rb") as file:
            tree = yaml.load(file, Loader=yaml.BaseLoader)
        _only(tree, "version mode sets allow deny nat overload classes malformed capacity", path)
        folder = os.path.dirname(path)
        self.monitor = tree.get("mode", "enforce") == "monitor"
        self.malformed_drops = tree.get("malformed", "drop") == "drop"
        self.sets = {}
        for name, spec in tree.get("sets", {}).items():
            if isinstance(spec, dict):
                file_path = os.path.join(folder, spec["file"])
                self.sets[name] = read_list_file(file_path, spec.get("on_error") == "skip")
            else:
                self.sets[name] = [read_prefix(text) for text in spec]
        # Allow is entered first, so it keeps a prefix that deny names too: it wins the tie.
        self.lists = PrefixTable()
        for key in ("allow", "deny"):
            for prefix in self.prefixes(tree.get(key, [])):
                self.lists.add(prefix, key)
        self.nat = PrefixTable()
        self.factors = [1]
        for entry in tree.get("nat", []):
            _only(entry, "sources factor", "nat")
            factor = int(entry["factor"])
            self.factors.append(factor)
            for prefix in self.prefixes(entry["sources"]):
                self.nat.add(prefix, factor)
        overload = tree.get("overload", {})
        _only(overload, "max", "overload")
        self.max = {kind: read_item_rate(text) for kind, text in overload.get("max", {}).items()}
        _only(self.max, "packets connections", "max")
        self.classes = [Class(spec, self) for spec in tree.get("classes", [])]

    def prefixes(self, names):
        """The prefixes meant by one name or a list of names: sets, addresses and prefixes."""
        found = []
        for name in _listed(names):
            found += self.sets[name] if name in self.sets else [read_prefix(name)]
        return found


# ------------------------------------------------------------------------------------------------
# Parsing
# ------------------------------------------------------------------------------------------------

NON_IP, MALFORMED = "non-ip", "malformed"
_TAGS = frozenset((0x8100, 0x88A8, 0x9100))
# Those with the (length + 1) · 8 rule, and 44 and 51 which have their own.
_EXTENSIONS = frozenset((0, 43, 44, 51, 60, 135, 139, 140))
_MAX_EXTENSIONS = 8
_TRANSPORT = {6: 20, 17: 8, 1: 8, 58: 8, 132: 12}


def parse(f, end):
    """What a frame says: NON_IP, MALFORMED, or a tuple.

    f: bytes, padded with zeros as far as headers can reach; end: the frame's length in bytes.
    The tuple is (source, destination, protocol, source port, destination port, TCP flags, VLAN of the
    outer tag, is control, is ICMP error, is a new connection); None for what is not known.
    """
    if end < 14:
        return MALFORMED
    kind = f[12] << 8 | f[13]
    at = 14
    vlan = None
    if kind in _TAGS:
        if end < 18:
            return MALFORMED
        vlan = (f[14] << 8 | f[15]) & 0xFFF
        kind = f[16] << 8 | f[17]
        at = 18
        if kind in _TAGS:
            if end < 22:
                return MALFORMED
            kind = f[20] << 8 | f[21]
            at = 22
            if kind in _TAGS:
                return MALFORMED
    if kind == 0x0800:
        return _parse_ipv4(f, at, end, vlan)
    if kind == 0x86DD:
        return _parse_ipv6(f, at, end, vlan)
    return NON_IP


def _parse_ipv4(f, at, end, vlan):
    if end < at + 20:
        return MALFORMED
    first = f[at]
    size = (first & 15) * 4
    if first >> 4 != 4 or size < 20 or at + size > end:
        return MALFORMED
    total = f[at + 2] << 8 | f[at + 3]
    if 0 < total < size:
        return MALFORMED
    source, to, protocol = f[at + 12 : at + 16], f[at + 16 : at + 20], f[at + 9]
    fragment = f[at + 6] << 8 | f[at + 7]
    if fragment & 0x1FFF:
        return source, to, protocol, None, None, None, vlan, False, False, False
    at += size
    sport = dport = flags = None
    control = error = new = False
    if protocol == 6:
        if at + 20 <= end:
            sport, dport, flags = f[at] << 8 | f[at + 1], f[at + 2] << 8 | f[at + 3], f[at + 13]
            new = flags & 18 == 2
    elif protocol == 17:
        if at + 8 <= end:
            sport, dport = f[at] << 8 | f[at + 1], f[at + 2] << 8 | f[at + 3]
            control = sport == 67 and dport == 68 and not fragment & 0x2000
    elif protocol == 1:
        error = at + 8 <= end and f[at] in (3, 11, 12)
    elif protocol == 132:
        if at + 12 <= end:
            sport, dport = f[at] << 8 | f[at + 1], f[at + 2] << 8 | f[at + 3]
    elif protocol == 2:
        control = f[at - size + 8] == 1
    return source, to, protocol, sport, dport, flags, vlan, control, error, new


def _parse_ipv6(f, at, end, vlan):
    if end < at + 40 or f[at] >> 4 != 6:
        return MALFORMED
    source, to = f[at + 8 : at + 24], f[at + 24 : at + 40]
    protocol, hops = f[at + 6], f[at + 7]
    at += 40
    headers = 0
    only_hop_by_hop = True
    reached = True  # the walk came to a payload whose first byte is the transport header's
    while protocol in _EXTENSIONS:
        if headers == _MAX_EXTENSIONS:
            return MALFORMED
        headers += 1
        if protocol:
            only_hop_by_hop = False
        if at + (8 if protocol == 44 else 2) > end:
            protocol, reached = None, False
            break
        inner = f[at]
        if protocol == 44:
            if (f[at + 2] << 8 | f[at + 3]) & 0xFFF8:
                protocol, reached = inner, False
                break
            size = 8
        elif protocol == 51:
            size = (f[at + 1] + 2) * 4
        else:
            size = (f[at + 1] + 1) * 8
        at += size
        protocol = inner
        if at > end:
            reached = False
            break
    sport = dport = flags = None
    control = error = new = False
    if reached and at + _TRANSPORT.get(protocol, 0) <= end:
        if protocol == 58:
            kind = f[at]
            error = 1 <= kind <= 4
            if hops == 255:
                control = 133 <= kind <= 136 and not headers
            elif hops == 1:
                control = (130 <= kind <= 132 or kind == 143) and only_hop_by_hop
        elif protocol == 6 or protocol == 17 or protocol == 132:
            sport, dport = f[at] << 8 | f[at + 1], f[at + 2] << 8 | f[at + 3]
            if protocol == 6:
                flags = f[at + 13]
                new = flags & 18 == 2
            elif protocol == 17:
                control = sport == 547 and dport == 546 and not headers
    return source, to, protocol, sport, dport, flags, vlan, control, error, new


# ------------------------------------------------------------------------------------------------
# Judgement
# ------------------------------------------------------------------------------------------------

_ABSENT = object()
# A memo of (packet fields) -> class must not grow without end on a long capture of random packets.
_MEMO_SIZE = 1 << 20


class Source:
    """All that a policy says about one source address; it does not change while a policy runs."""

    __slots__ = ("text", "key", "listed", "factor", "in_nat")

    def __init__(self, address, policy):
        self.text = address_text(address)
        self.key = source_key(address)
        self.listed = policy.lists.find(address)[1]
        length, factor = policy.nat.find(address)
        self.in_nat = length >= 0
        self.factor = factor if self.in_nat else 1


class Model:
    """Judges the packets of one capture, in order, under one policy.

    edges: decisions so close that the program may differ; followed: those in which it did.
    """

    def __init__(self, policy):
        # The limits of a policy hold their own state; each model starts from an untouched copy.
        self.policy = policy = copy.deepcopy(policy)
        self.now = 0
        self.edges = self.followed = 0
        self.sources = {}
        self.class_memo = {}
        self.bans = {}  # source key -> instant at which the ban is over
        # 10 000/s with a burst of 1 000, and 10/s with a burst of 20, both for packets.
        self.control = TokenBucket(Fraction(10000, SECOND), 1000, False, (1,))
        self.icmp_errors = TokenBucket(Fraction(10, SECOND), 20, False, (1,))
        rates = policy.max
        self.max_packets = Reserve(rates["packets"]) if "packets" in rates else None
        self.max_connections = Reserve(rates["connections"]) if "connections" in rates else None
        self.dropped = "would-drop" if policy.monitor else "drop"
        malformed = self.dropped if policy.malformed_drops else "pass"
        self.non_ip_answer = ("pass", "non-ip", None, None, None)
        self.malformed_answer = (malformed, "malformed", None, None, None)

    def judge(self, stamp, frame, wire, observed=None):
        """The answer for the next packet: (verdict, reason, class, limit, source).

        stamp: ns since the epoch; frame: captured bytes; wire: length on the wire. observed: the
        (reason, limit) that the program gave; it is looked at only where a decision is an edge.
        """
        if stamp > self.now:
            self.now = stamp
        now = self.now
        if len(frame) < wire:
            frame = frame.ljust(min(wire, HEADER_REACH), b"\0")
        packet = parse(frame, wire)
        if packet is NON_IP:
            return self.non_ip_answer
        if packet is MALFORMED:
            return self.malformed_answer

        address = packet[0]
        source = self.sources.get(address)
        if source is None:
            source = self.sources[address] = Source(address, self.policy)
        text, key = source.text, source.key
        if packet[7]:
            code, state = self.control.ask(0, 1, now, 1)
            if code == ADMIT:
                self.control.state[0] = state
                return "pass", "control", None, None, text
        if source.listed == "allow":
            return "pass", "allow", None, None, text
        if self.bans and now < self.bans.get(key, 0):
            return self.dropped, "ban", None, None, text
        if source.listed == "deny":
            return self.dropped, "deny", None, None, text
        if packet[8]:
            code, state = self.icmp_errors.ask(key, 1, now, 1)
            if code == ADMIT:
                self.icmp_errors.state[key] = state
                return "pass", "control", None, None, text

        memo_key = packet[:7]
        found = self.class_memo.get(memo_key, _ABSENT)
        if found is _ABSENT:
            found = self._classify(packet, memo_key)
        return self._limits(found, packet, source, wire, now, observed)

    def _classify(self, packet, memo_key):
        found = next((c for c in self.policy.classes if c.matches(packet)), None)
        if len(self.class_memo) >= _MEMO_SIZE:
            self.class_memo.clear()
        self.class_memo[memo_key] = found
        return found

    def _limits(self, found, packet, source, wire, now, observed):
        """Steps 8 to 10: asks everything, and stores new states only if nothing refused."""
        is_new_connection = packet[9]
        changes = []
        followed = 0
        dropped = self.dropped
        name, priority = None, "normal"
        if found is not None:
            name, priority = found.name, found.priority
            if found.monitor:
                dropped = "would-drop"
            for limit in found.limits:
                count = limit.count
                if count == "packets":
                    cost = 1
                elif count == "bytes":
                    cost = wire
                elif is_new_connection:
                    cost = 1
                else:
                    continue
                subject = limit.subject(source.key, packet)
                judge = limit.judge
                code, state = judge.ask(subject, cost, now, source.factor if limit.natted else 1)
                if code != ADMIT:
                    if code == REFUSE or self._edge_refuses(observed, ("limit", limit.name)):
                        self._refused(found, source, now)
                        return dropped, "limit", name, limit.name, source.text
                    followed += 1
                changes.append((judge.state, subject, state))
        reserves = []
        for reserve in (self.max_packets, self.max_connections if is_new_connection else None):
            if reserve is None:
                continue
            is_new = is_new_connection or packet[2] != TCP
            code, state = reserve.ask(now, is_new, priority)
            if code != ADMIT:
                if code == REFUSE or self._edge_refuses(observed, ("overload", None)):
                    return dropped, "overload", name, None, source.text
                followed += 1
            reserves.append((reserve, state))
        for states, subject, state in changes:
            states[subject] = state
        for reserve, state in reserves:
            reserve.due, reserve.distance = state
        self.followed += followed
        if found is None:
            return "pass", "unmatched", None, None, source.text
        return "pass", "admitted", name, None, source.text

    def _edge_refuses(self, observed, answer):
        """At an edge the exact answer is a refusal, unless the program is seen to have gone on."""
        self.edges += 1
        return observed is None or observed == answer

    def _refused(self, found, source, now):
        """Counts a refusal by a limit towards the ban of its class."""
        if found.ban is None or found.monitor or source.in_nat:
            return
        after, within, length = found.ban
        first, count = found.refusals.get(source.key, (now, 0))
        if now - first > within:
            first, count = now, 0
        count += 1
        if count < after:
            found.refusals[source.key] = first, count
            return
        # A ban uses up the refusals that led to it.
        found.refusals.pop(source.key, None)
        self.bans[source.key] = max(self.bans.get(source.key, 0), now + length)

    def turning_points(self, frame, wire):
        """Instants in ns at which the answer for this packet, judged just now, turns.

        For a packet whose last answer was `ban`, `limit` or `overload`: the end of the ban, the
        first instant at which what refused it admits it, the end of the time in which refusals
        count together. Captures put packets there.
        """
        now = self.now
        packet = parse(frame.ljust(min(wire, HEADER_REACH), b"\0"), wire)
        source = self.sources[packet[0]]
        if self.bans.get(source.key, 0) > now:
            return [self.bans[source.key]]
        found = self.class_memo.get(packet[:7])
        points = []
        if found and found.ban and source.key in found.refusals:
            points.append(found.refusals[source.key][0] + found.ban[1])
        costs = {"packets": 1, "bytes": wire, "connections": int(packet[9])}
        for limit in found.limits if found else ():
            asked = limit.subject(source.key, packet), costs[limit.count], now
            asked += (source.factor if limit.natted else 1,)
            if asked[1] and limit.judge.ask(*asked)[0] != ADMIT:
                return points + [limit.judge.conforms_at(*asked)]
        priority = found.priority if found else "normal"
        for reserve in (self.max_packets, self.max_connections if packet[9] else None):
            if reserve and reserve.ask(now, packet[9] or packet[2] != TCP, priority)[0] != ADMIT:
                return points + [reserve.conforms_at(now, priority)]
        return points

    def explain(self, stamp, frame, wire):
        """Lines of text: what the next packet would meet, before it changes anything."""
        now = max(self.now, stamp)
        packet = parse(frame.ljust(min(wire, HEADER_REACH), b"\0"), wire)
        lines = ["now %d ns, wire length %d" % (now, wire)]
        if not isinstance(packet, tuple):
            return lines + ["parsed as %s" % packet]
        lines.append(
            "from %s to %s, protocol %s, ports %s -> %s, flags %s, vlan %s, control %s, "
            "ICMP error %s, new connection %s"
            % (address_text(packet[0]), address_text(packet[1]), *packet[2:])
        )
        source = Source(packet[0], self.policy)
        lines.append(
            "list %s, factor %s%s, ban left %d ns"
            % (
                source.listed,
                source.factor,
                " (nat)" if source.in_nat else "",
                max(0, self.bans.get(source.key, 0) - now),
            )
        )
        lines.append("control: " + self.control.describe(0, now, 1))
        lines.append("ICMP errors: " + self.icmp_errors.describe(source.key, now, 1))
        found = next((c for c in self.policy.classes if c.matches(packet)), None)
        lines.append("class %s" % (found.name if found else None))
        if found is not None:
            for limit in found.limits:
                factor = source.factor if limit.natted else 1
                subject = limit.subject(source.key, packet)
                lines.append(
                    "limit %s, %s, per %s, %s: %s"
                    % (
                        limit.name,
                        limit.count,
                        limit.per,
                        limit.algorithm,
                        limit.judge.describe(subject, now, factor),
                    )
                )
            if found.ban:
                first, count = found.refusals.get(source.key, (now, 0))
                lines.append("%d refusals, the first %d ns ago" % (count, now - first))
        for kind, reserve in (("packets", self.max_packets), ("connections", self.max_connections)):
            if reserve is not None:
                lines.append("max %s: %s" % (kind, reserve.describe(now)))
        return lines


FIELDS = ("packet", "time", "verdict", "reason", "class", "limit", "source")


def run(policy_path, capture_path):
    """Yields (packet, time, verdict, reason, class, limit, source), as `replay --packets` would."""
    model = Model(Policy(policy_path))
    for number, (stamp, text, frame, wire) in enumerate(capture.read(capture_path), 1):
        yield (number, text, *model.judge(stamp, frame, wire))


def main():
    """Prints the model's own answers, one JSON object per packet."""
    parser = argparse.ArgumentParser(description="what the contract says happens to each packet")
    parser.add_argument("capture")
    parser.add_argument("--policy", required=True)
    options = parser.parse_args()
    try:
        for answer in run(options.policy, options.capture):
            print(json.dumps(dict(zip(FIELDS, answer))))
    except (capture.Truncated, capture.Unsupported, ValueError, OSError) as error:
        sys.exit("cannot replay %s: %s" % (options.capture, error))


if __name__ == "__main__":
    main()
