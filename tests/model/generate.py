#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Random policies and captures in which every rule of the contract bites.

The idea: a *world* is a handful of sources, destinations and ports, and a number of packets per
second. Policy and capture are both drawn from the same world, so that lists contain sources that
send, classes match what is sent, and limits are a fraction of what is offered. A large random space
would do the opposite: nearly every packet would be `unmatched`.

A capture is drawn from a pool of ready frames, since building one costs more than judging it. The
pool holds whole packets, and a share of damaged ones: cut at every offset, with lying lengths and
versions, or with flipped bits. Its clock mixes bursts within one nanosecond, round instants (which
fall on the edges of windows and on the exact instant at which a token is there), idle gaps, and
stamps that run backwards. The model runs along while a capture is made: some packets that it
refuses are sent again just before, at, and after the first instant at which they would pass, for
`>` in the place of `>=` shows only there.

Everything follows from one `random.Random`; the same seed gives the same bytes.

It keeps clear of what the contract leaves open and of what would make a run say little: a default
burst that is no whole number, NAT prefixes inside an IPv6 /64, a `max` whose burst is below 2
packets, more sources than the table holds.
"""

import argparse
import os
import random
import struct

import capture
import model

SECOND = model.SECOND

# The example policy of the manual and a list for it, to be run over captures of real traffic.
EXAMPLE = """\
version: 1
mode: enforce                 # or monitor: count what would be dropped, drop nothing

sets:                         # named lists of addresses and prefixes, inline or from a file
  office:
    - 203.0.113.0/24
    - 2001:db8:10::/48
  blocked: { file: blocked.txt }   # relative to the policy file
  cgnat: [100.64.0.0/10]

allow: [office, 198.51.100.7]      # never limited, never shed
deny:  [blocked]                   # always dropped

nat:                               # addresses shared by many users get looser bounds
  - { sources: [cgnat], factor: 32 }

overload:                          # the whole node, whoever sends; works in the kernel alone
  max: { packets: 2M/s, connections: 20k/s }

classes:                           # first match wins
  - name: dns
    match: { protocol: udp, ports: [53] }
    priority: high                 # critical, high, normal (default), low
    limits:
      - { name: query, per: source, count: packets, rate: 200/s, burst: 400 }

  - name: web
    match: { protocol: tcp, ports: [80, 443, 8000-8099], to: [198.51.100.10] }
    limits:
      - { name: new,   per: source, count: connections, rate: 50/s, burst: 100 }
      - { name: bulk,  per: source, count: bytes, rate: 100Mbit/s, burst: 4MiB }
      - { name: net,   per: { ipv4: 24, ipv6: 48 }, count: connections, rate: 500/s }
      - { name: total, per: class, count: connections, rate: 20k/s }

  - name: login
    match: { protocol: tcp, ports: [8443] }
    mode: monitor                  # one class can be tried out while the others enforce
    limits:
      - { name: minute, per: source, count: connections, limit: 10, window: 60s, algorithm: sliding-window }
    ban: { after: 100, within: 10s, for: 10m }

  - name: rest
    match: any
    priority: low
    limits:
      - { rate: 10k/s }            # defaults: name limit-1, per source, count packets
"""
EXAMPLE_BLOCKED = "# blocked\n192.0.2.128/25\n2001:db8:bad::/48\n172.16.0.0/12\n"


# ------------------------------------------------------------------------------------------------
# The world
# ------------------------------------------------------------------------------------------------


class World:
    """Who talks to whom. Addresses are bytes of 4 or 16; pps is packets per second at work."""

    def __init__(self):
        self.sources = []
        self.weights = []
        self.destinations = []
        self.ports = []
        self.vlans = []
        self.pps = 0.0
        self.mean_size = 150

    def source(self, rng):
        return rng.choices(self.sources, self.weights)[0]

    def destination(self, rng, family):
        return rng.choice([d for d in self.destinations if len(d) == family])


def random_world(rng):
    """A few related addresses of both families: hosts in one /24, hosts in one /64, /64s in one /48."""
    world = World()
    nets = [(203, 0, 113), (198, 51, 100), (192, 0, 2), (100, 64, rng.randrange(64)), (10, 1, 2)]
    for net in rng.sample(nets, rng.randint(2, 4)):
        for _ in range(rng.randint(1, 4)):
            world.sources.append(bytes(net) + bytes([rng.randint(1, 254)]))
    for _ in range(rng.randint(1, 3)):
        site = bytes.fromhex("20010db8") + bytes([rng.choice((0, 0, 0x12)), rng.randrange(256)])
        for _ in range(rng.randint(1, 3)):
            subnet = site + bytes([rng.choice((0, 0, 1, 0xFE)), rng.randrange(256)])
            for _ in range(rng.randint(1, 3)):
                low = [0, 0, 0, 0, 0, 0, rng.choice((0, 0, 1)), rng.randint(1, 255)]
                if rng.random() < 0.4:
                    low = [rng.randrange(256) for _ in range(8)]
                world.sources.append(subnet + bytes(low))
    # An IPv6 source that begins with the bytes of an IPv4 source must not share its bucket.
    world.sources.append(world.sources[0] + bytes(11) + b"\x01")
    world.sources = list(dict.fromkeys(world.sources))
    rng.shuffle(world.sources)
    world.weights = [1 / (1 + rank) ** 0.7 for rank in range(len(world.sources))]
    world.destinations = [bytes((198, 51, 100, 10 + n)) for n in range(rng.randint(1, 4))]
    world.destinations += [
        bytes.fromhex("20010db800990000") + bytes(7) + bytes([n + 1])
        for n in range(rng.randint(1, 4))
    ]
    world.ports = rng.sample((53, 80, 443, 22, 123, 8000, 8080, 8443, 5060, 65535), 5)
    world.vlans = rng.sample(range(1, 4095), 3)
    world.pps = 10 ** rng.uniform(2, 5.5)
    return world


def world_of_capture(records):
    """A world from what a capture holds, or None if nothing in it can be parsed.

    records: a list of (stamp, time text, bytes, wire length), as capture.read() yields them.
    """
    sources, destinations, ports, vlans = {}, {}, {}, {}
    sizes = 0
    for _, _, frame, wire in records:
        padded = frame.ljust(min(wire, model.HEADER_REACH), b"\0")
        packet = model.parse(padded, wire)
        sizes += wire
        if not isinstance(packet, tuple):
            continue
        for table, value in ((sources, packet[0]), (destinations, packet[1]), (ports, packet[4])):
            table[value] = table.get(value, 0) + 1
        if packet[6]:
            vlans[packet[6]] = True
    if not sources:
        return None
    world = World()
    world.sources = sorted(sources, key=lambda s: (-sources[s], s))[:40]
    world.weights = [sources[s] for s in world.sources]
    world.destinations = sorted(destinations, key=lambda d: (-destinations[d], d))[:8]
    known = [port for port in ports if port]
    world.ports = sorted(known, key=lambda p: (-ports[p], p))[:8] + [53, 443]
    world.vlans = [v for v in vlans if 0 < v < 4095][:3] or [5]
    stamps = [record[0] for record in records]
    span = max(stamps) - min(stamps)
    world.pps = max(1.0, min(1e6, len(records) * SECOND / max(span, SECOND // 1000)))
    world.mean_size = max(60, sizes // len(records))
    return world


# ------------------------------------------------------------------------------------------------
# Spelling
# ------------------------------------------------------------------------------------------------


def _decimal(thousandths):
    """A number with up to three decimals, none of them a trailing zero."""
    whole, rest = divmod(thousandths, 1000)
    return ("%d.%03d" % (whole, rest)).rstrip("0") if rest else str(whole)


def spell_count(rng, number):
    """A positive whole number, with k or M where that is exact."""
    for scale, letter in ((10**6, "M"), (1000, "k")):
        if number % scale == 0 and rng.random() < 0.7:
            return "%d%s" % (number // scale, letter)
    return str(number)


def spell_item_rate(rng, per_second):
    """A rate near per_second, in any period in which the number is at least 1."""
    choices = [
        (letter, per_second * seconds)
        for letter, seconds in (("s", 1), ("s", 1), ("m", 60), ("h", 3600), ("d", 86400))
        if 1 <= per_second * seconds < 4e9
    ]
    letter, number = rng.choice(choices or [("d", 1)])
    if rng.random() < 0.6:
        return spell_count(rng, max(1, round(number))) + "/" + letter
    for scale, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= scale and rng.random() < 0.7:
            return _decimal(round(number / scale * 1000)) + prefix + "/" + letter
    return _decimal(round(number * 1000)) + "/" + letter


def spell_byte_rate(rng, per_second):
    """A rate near per_second bytes per second, in any unit in which the number is at least 1."""
    choices = [
        (unit, per_second / float(size))
        for unit, size in model._BYTE_RATE_UNIT.items()
        if per_second / float(size) >= 1
    ]
    unit, number = rng.choice(choices or [("B/s", 1)])
    if rng.random() < 0.5:
        return "%d%s" % (max(1, round(number)), unit)
    return _decimal(max(1000, round(number * 1000))) + unit


def spell_size(rng, number):
    """A whole number of bytes near `number` (exactly, for B); always with a unit."""
    choices = [(unit, size) for unit, size in model._SIZE_UNIT.items() if size <= number]
    unit, size = rng.choice(choices)
    if size == 1:
        return "%d%s" % (number, unit)
    if size % 1000 == 0:
        return _decimal(round(number / size * 1000)) + unit
    # Only whole, half, quarter and eighth KiB are whole bytes with three decimals.
    return _decimal(max(125, round(number / size * 8) * 125)) + unit


def spell_time(rng, milliseconds):
    """A time, exactly; milliseconds is a positive whole number."""
    choices = [("ms", milliseconds)]
    for unit, size in (("s", 1000), ("m", 60000), ("h", 3600000), ("d", 86400000)):
        if milliseconds % size == 0:
            choices += [(unit, milliseconds // size)] * 3
    unit, number = rng.choice(choices)
    return "%d%s" % (number, unit)


def spell_address(rng, address):
    """The address in one of the accepted spellings (IPv6 has several)."""
    text = model.address_text(address)
    if len(address) == 4 or rng.random() < 0.6:
        return text
    groups = ["%x" % (address[n] << 8 | address[n + 1]) for n in range(0, 16, 2)]
    form = rng.randrange(3)
    if form == 0:
        return ":".join(groups)
    if form == 1:
        return ":".join(group.zfill(4) for group in groups)
    return text.upper()


def spell_prefix(rng, address, length):
    """The prefix of `length` bits around an address."""
    bits = len(address) * 8
    if length == bits and rng.random() < 0.7:
        return spell_address(rng, address)
    value = int.from_bytes(address, "big") >> (bits - length) << (bits - length)
    return "%s/%d" % (spell_address(rng, value.to_bytes(bits // 8, "big")), length)


# ------------------------------------------------------------------------------------------------
# YAML
# ------------------------------------------------------------------------------------------------


def _plain(rng, text):
    """A scalar, quoted where YAML needs it and sometimes where it does not."""
    text = str(text)
    if text[0] == ":" or text[-1] == ":":
        return '"%s"' % text
    if rng.random() < 0.05:
        return rng.choice(('"%s"', "'%s'")) % text
    return text


def _flow(rng, node):
    if isinstance(node, dict):
        inner = ", ".join("%s: %s" % (key, _flow(rng, value)) for key, value in node.items())
        return "{ %s }" % inner if inner else "{}"
    if isinstance(node, list):
        return "[%s]" % ", ".join(_flow(rng, value) for value in node)
    return _plain(rng, node)


def _is_small(node):
    if isinstance(node, dict):
        return all(_is_small(value) for value in node.values())
    if isinstance(node, list):
        return len(node) < 8 and not any(isinstance(value, (dict, list)) for value in node)
    return True


def _block(rng, node, indent, out):
    pad = " " * indent
    pairs = node.items() if isinstance(node, dict) else [(None, value) for value in node]
    for key, value in pairs:
        head = pad + ("-" if key is None else key + ":")
        if not isinstance(value, (dict, list)):
            out.append(head + " " + _plain(rng, value))
        elif not value or (_is_small(value) and rng.random() < 0.6):
            out.append(head + " " + _flow(rng, value))
        elif key is None:
            inner = []
            _block(rng, value, indent + 2, inner)
            out.append(pad + "- " + inner[0][indent + 2 :])
            out += inner[1:]
        else:
            out.append(head + rng.choice(("", "", "    # note")))
            _block(rng, value, indent + rng.choice((2, 2, 4)), out)


def yaml_text(rng, tree):
    """A tree of dicts, lists and scalars as YAML, block and flow style mixed."""
    out = []
    if rng.random() < 0.2:
        out.append("---")
    if rng.random() < 0.5:
        out.append("# made at random")
    _block(rng, tree, 0, out)
    return "\n".join(out) + "\n"


# ------------------------------------------------------------------------------------------------
# Policies
# ------------------------------------------------------------------------------------------------

_LENGTHS = {4: (8, 16, 20, 22, 24, 24, 25, 28, 30, 31, 32, 32, 32), 16: (
    32, 40, 44, 48, 56, 60, 63, 64, 64, 65, 80, 112, 127, 128, 128)}
# A bucket of a /64 has one factor only if no NAT prefix is longer.
_NAT_LENGTHS = {4: _LENGTHS[4], 16: (32, 44, 48, 56, 60, 63, 64, 64)}


def _some_prefixes(rng, addresses, count, lengths=None, longest=False):
    """Spelled prefixes around some of the addresses; longest: mostly single hosts."""
    found = []
    for _ in range(count):
        address = rng.choice(addresses)
        choices = (lengths or _LENGTHS)[len(address)]
        if longest and rng.random() < 0.7:
            choices = choices[-4:]
        found.append(spell_prefix(rng, address, rng.choice(choices)))
    return found


def _list_file_text(rng, prefixes, skip):
    """A list file in one of the accepted dresses; with skip, some lines are no prefixes at all."""
    end = rng.choice(("\n", "\r\n"))
    lines = ["# made at random"] if rng.random() < 0.5 else []
    for prefix in prefixes:
        lines.append(rng.choice(("", "", " ", "\t")) + prefix + rng.choice(
            ("", "", " # why", "\t2024-01-01 abuse", "  ", " ; 17")))
        if rng.random() < 0.2:
            lines.append(rng.choice(("", "   ", "# 192.0.2.1", "\t# x")))
        if skip and rng.random() < 0.4:
            lines.append(rng.choice(
                ("bad", "192.0.2.1/24", "10.0.0.1-10.0.0.9", "1.2.3", "2001:db8::1/64", "::g")))
    return (b"\xef\xbb\xbf" if rng.random() < 0.3 else b"") + (
        end.join(lines) + rng.choice(("", end))).encode()


class PolicyMaker:
    """Draws one policy from a world. result: self.tree, and self.files {name: bytes}."""

    def __init__(self, rng, world):
        self.rng, self.world = rng, world
        self.files = {}
        self.sets = {}
        self.tree = {}

    def make(self):
        """Fills tree and files."""
        rng, world = self.rng, self.world
        body = {}
        self._sets()
        # Classes choose among these, so that a policy with many classes has few kinds of address.
        self.froms = [self._addresses(world.sources) for _ in range(5)]
        self.tos = [self._addresses(world.destinations) for _ in range(5)]
        self._lists(body)
        self.factor = 1
        if rng.random() < 0.5:
            body["nat"] = [self._nat_entry() for _ in range(rng.randint(1, 4))]
        if rng.random() < 0.5:
            body["overload"] = {"max": self._max()}
        if rng.random() < 0.15:
            body["mode"] = "monitor"
        elif rng.random() < 0.4:
            body["mode"] = "enforce"
        if rng.random() < 0.4:
            body["malformed"] = rng.choice(("pass", "drop"))
        if rng.random() < 0.2:
            body["capacity"] = {"sources": rng.choice(("100k", "1M", "200000"))}
        if rng.random() < 0.97:
            count = rng.choice((1, 2, 3, 4, 5, 6, 8, 12, rng.randint(60, 140)))
            names = ["c%d%s" % (n, rng.choice(("", "-x", "_y"))) for n in range(count)]
            body["classes"] = [self._class(name, n == count - 1) for n, name in enumerate(names)]
        if self.sets:
            body["sets"] = self.sets
        keys = list(body)
        rng.shuffle(keys)
        self.tree = {"version": "1"}
        self.tree.update((key, body[key]) for key in keys)

    def _sets(self):
        rng = self.rng
        for number in range(rng.randint(0, 4)):
            name = "%s%d" % (rng.choice(("set", "net-", "group_")), number)
            prefixes = _some_prefixes(
                rng, self.world.sources + self.world.destinations, rng.randint(1, 5), longest=True)
            if rng.random() < 0.5:
                self.sets[name] = prefixes
                continue
            file_name = name + ".txt"
            skip = rng.random() < 0.3
            self.files[file_name] = _list_file_text(rng, prefixes, skip)
            self.sets[name] = {"file": file_name}
            if skip:
                self.sets[name]["on_error"] = "skip"

    def _lists(self, body):
        """allow and deny. Drawn again until enough of the traffic is left for the limits."""
        rng, world = self.rng, self.world
        for _ in range(20):
            lists = {}
            for key in ("allow", "deny"):
                if rng.random() < 0.75:
                    lists[key] = _some_prefixes(rng, world.sources, rng.randint(1, 4), longest=True)
                    if rng.random() < 0.3 and self.sets:
                        lists[key].append(rng.choice(list(self.sets)))
            if rng.random() < 0.3:
                # The same prefix on both sides: allow wins.
                prefix = _some_prefixes(rng, world.sources, 1, longest=True)[0]
                for key in ("allow", "deny"):
                    lists.setdefault(key, []).append(prefix)
            if rng.random() < 0.05:
                lists.setdefault("deny", []).append(rng.choice(("0.0.0.0/0", "::/0")))
            if self._left(lists) >= 0.6:
                break
        else:
            lists = {}
        for entries in lists.values():
            entries[:] = list(dict.fromkeys(entries))
            rng.shuffle(entries)
        body.update(lists)

    def _resolve(self, names):
        found = []
        for name in names:
            spec = self.sets.get(name)
            if spec is None:
                found.append(model.read_prefix(name))
            elif isinstance(spec, list):
                found += [model.read_prefix(text) for text in spec]
            else:
                for line in self.files[spec["file"]].decode("utf-8-sig").splitlines():
                    try:
                        found.append(model.read_prefix(line.split("#")[0].split()[0]))
                    except (ValueError, IndexError):
                        pass
        return found

    def _left(self, lists):
        table = model.PrefixTable()
        for key in ("allow", "deny"):
            for prefix in self._resolve(lists.get(key, [])):
                table.add(prefix, key)
        weights = zip(self.world.sources, self.world.weights)
        return sum(w for s, w in weights if table.find(s)[0] < 0) / sum(self.world.weights)

    def _nat_entry(self):
        rng = self.rng
        factor = rng.choice((1, 2, 3, 4, 7, 32))
        self.factor = max(self.factor, factor)
        sources = _some_prefixes(rng, self.world.sources, rng.randint(1, 3), _NAT_LENGTHS)
        return {"sources": sources, "factor": str(factor)}

    def _max(self):
        rng, pps = self.rng, self.world.pps
        found = {}
        if rng.random() < 0.8:
            found["packets"] = self._max_rate(pps * rng.uniform(0.1, 1.0))
        if rng.random() < 0.5 or not found:
            found["connections"] = self._max_rate(pps * rng.uniform(0.02, 0.3))
        return found

    def _max_rate(self, wanted):
        # A multiple of 80 has a whole eighth of its burst, so the reserves are met exactly.
        if self.rng.random() < 0.5:
            return spell_count(self.rng, max(1, round(wanted / 80)) * 80) + "/s"
        return spell_item_rate(self.rng, max(30, wanted))

    def _class(self, name, last):
        rng = self.rng
        spec = {"name": name}
        if last and rng.random() < 0.75:
            spec["match"] = "any"
        else:
            spec["match"] = self._match()
        if rng.random() < 0.6:
            spec["priority"] = rng.choice(("critical", "high", "normal", "low"))
        if rng.random() < 0.15:
            spec["mode"] = "monitor"
        elif rng.random() < 0.2:
            spec["mode"] = "enforce"
        match = spec["match"]
        has_tcp = match == "any" or self._has_tcp(match)
        count = rng.choice((0, 1, 1, 1, 2, 2, 3, 8)) if rng.random() < 0.95 else 8
        if count or rng.random() < 0.3:
            spec["limits"] = [self._limit(n, has_tcp) for n in range(1, count + 1)]
        if count and rng.random() < 0.25:
            spec["ban"] = {
                "after": spell_count(rng, rng.choice((1, 2, 2, 3, 5, 20, 100))),
                "within": spell_time(rng, rng.choice((1, 20, 100, 500, 1000, 2000, 10000, 60000))),
                "for": spell_time(rng, rng.choice((100, 300, 1000, 2000, 5000, 60000))),
            }
        keys = list(spec)
        rng.shuffle(keys)
        return {key: spec[key] for key in keys}

    def _one_or_list(self, values):
        values = list(dict.fromkeys(values))
        if len(values) == 1 and self.rng.random() < 0.5:
            return values[0]
        return values

    def _ports(self):
        rng = self.rng
        found = []
        for _ in range(rng.randint(1, 3)):
            port = rng.choice(self.world.ports)
            if rng.random() < 0.3:
                low = max(1, port - rng.randrange(100))
                high = min(65535, port + rng.randrange(2000))
                found.append("%d-%d" % (low, high) if low < high else str(port))
            else:
                found.append(str(port))
        return self._one_or_list(found)

    def _addresses(self, addresses):
        rng = self.rng
        found = _some_prefixes(rng, addresses, rng.randint(1, 3))
        if self.sets and rng.random() < 0.3:
            found.append(rng.choice(list(self.sets)))
        return self._one_or_list(found)

    def _match(self):
        rng, world = self.rng, self.world
        match = {}
        kind = rng.random()
        if kind < 0.3:
            if rng.random() < 0.8:
                match["protocol"] = self._one_or_list(
                    rng.sample((("tcp", "udp", "sctp"), ("6", "17", "132"))[rng.random() < 0.2],
                               rng.randint(1, 3)))
            match["ports"] = self._ports()
            if rng.random() < 0.2:
                match["source_ports"] = self._one_or_list(["1-65535"] if rng.random() < 0.3 else [
                    rng.choice(("1024-65535", "40000-40003", "53"))])
        elif kind < 0.4:
            match["source_ports"] = self._one_or_list([rng.choice(("40000", "1-50000", "40000-40001"))])
        elif kind < 0.7:
            match["protocol"] = self._one_or_list(rng.sample(
                ("tcp", "udp", "icmp", "icmpv6", "sctp", "gre", "esp", "0", "2", "59", "253", "43",
                 "60", "255"), rng.randint(1, 3)))
        if rng.random() < 0.2 and self._has_tcp(match):
            names = rng.sample(list(model.FLAGS), rng.randint(1, 2))
            match["tcp_flags"] = self._one_or_list([rng.choice(("", "no-")) + name for name in names])
            if rng.random() < 0.4:
                match["tcp_flags"] = ["syn", "no-ack"]
        if rng.random() < 0.2:
            match["to"] = rng.choice(self.tos)
        if rng.random() < 0.25:
            match["from"] = rng.choice(self.froms)
        if rng.random() < 0.1:
            match["vlan"] = self._one_or_list(
                [str(v) for v in rng.sample(world.vlans, rng.randint(1, min(2, len(world.vlans))))])
        if not match:
            match["to"] = rng.choice(self.tos)
        keys = list(match)
        rng.shuffle(keys)
        return {key: match[key] for key in keys}

    @staticmethod
    def _has_tcp(match):
        """Whether flags and connections may be asked for: the protocols do not exclude TCP."""
        protocol = match.get("protocol", "tcp")
        return not {"tcp", "6"}.isdisjoint(protocol if isinstance(protocol, list) else [protocol])

    def _per(self):
        rng = self.rng
        kind = rng.choices(("source", "prefix", "flow", "destination", "class"), (6, 2, 1, 1, 2))[0]
        if kind != "prefix":
            return kind
        per = {}
        if rng.random() < 0.8:
            per["ipv4"] = str(rng.choice((1, 8, 16, 22, 24, 25, 31)))
        if rng.random() < 0.8 or not per:
            per["ipv6"] = str(rng.choice((1, 32, 44, 48, 52, 56, 63, 65, 96, 128)))
        return per

    def _limit(self, number, has_tcp):
        rng, world = self.rng, self.world
        spec = {}
        if rng.random() < 0.7:
            spec["name"] = "l%d" % number
        per = self._per()
        if per != "source" or rng.random() < 0.5:
            spec["per"] = per
        counts = ["packets", "packets", "bytes"] + (["connections"] * 2 if has_tcp else [])
        count = rng.choice(counts)
        if count != "packets" or rng.random() < 0.5:
            spec["count"] = count
        # What one subject offers, per second: a source has a share, a class may have all of it.
        share = 1 if per == "class" else 2 / len(world.sources)
        offered = world.pps * share * (0.15 if count == "connections" else 1)
        if count == "bytes":
            offered *= world.mean_size
        wanted = offered * 10 ** rng.uniform(-2, 0)
        algorithm = rng.choices(
            ("token-bucket", "fixed-window", "sliding-window", "sliding-log"), (5, 2, 4, 2))[0]
        if count == "bytes" and algorithm.startswith("sliding"):
            algorithm = "fixed-window"
        if algorithm != "token-bucket" or rng.random() < 0.3:
            spec["algorithm"] = algorithm
        factor = self.factor if per == "source" else 1
        if algorithm == "token-bucket":
            self._bucket(spec, count, wanted, factor)
        else:
            self._window(spec, count, wanted, algorithm, factor)
        if rng.random() < 0.1:
            spec["scope"] = "node"
        keys = list(spec)
        rng.shuffle(keys)
        return {key: spec[key] for key in keys}

    def _bucket(self, spec, count, wanted, factor):
        rng = self.rng
        if rng.random() < 0.02:
            # So fast that one item costs a few units of the program's clock.
            wanted = 10 ** rng.uniform(8, 9.5 if count == "bytes" else 9) / factor
        if count == "bytes":
            spec["rate"] = spell_byte_rate(rng, max(1, wanted))
            default = max(model.read_byte_rate(spec["rate"]) * SECOND, 65536)
            if rng.random() < 0.8 or default.denominator != 1:
                burst = rng.choice((1, 60, 125, 1000, 1514, 4096, 20000, 65536))
                spec["burst"] = spell_size(rng, burst)
            return
        spec["rate"] = spell_item_rate(rng, max(1.2e-5, wanted))
        default = max(model.read_item_rate(spec["rate"]) * SECOND, 1)
        if rng.random() < 0.75 or default.denominator != 1:
            spec["burst"] = spell_count(rng, rng.choice((1, 1, 2, 3, 5, 10, 20, 50, 1000)))

    def _window(self, spec, count, wanted, algorithm, factor):
        rng = self.rng
        span = 20000 * 1000 / self.world.pps
        lengths = (1000, 1500, 2000, 5000, 10000, 60000, 3600000, 86400000)
        windows = [length for length in lengths if length < span]
        milliseconds = rng.choice(windows or [1000])
        if rng.random() < 0.03:
            milliseconds = 30 * 86400000
        limit = min(10**10, max(1, round(wanted * milliseconds / 1000)))
        if algorithm == "sliding-log":
            limit = rng.randint(1, max(1, 64 // factor)) if limit > 64 // factor else limit
            if 64 // factor < 1:
                algorithm = spec["algorithm"] = "fixed-window"
        if algorithm == "sliding-window":
            limit = min(limit, 1000000 // factor)
        spec["window"] = spell_time(rng, milliseconds)
        if count == "bytes":
            spec["limit"] = spell_size(rng, min(limit, 10**9) + 60)
        else:
            spec["limit"] = spell_count(rng, limit)


def write_policy(rng, world, folder, name="policy.yaml"):
    """Writes a random policy and its list files below folder; returns the path of the policy."""
    maker = PolicyMaker(rng, world)
    maker.make()
    for file_name, data in maker.files.items():
        with open(os.path.join(folder, file_name), "wb") as file:
            file.write(data)
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(yaml_text(rng, maker.tree))
    return path


def write_example(folder):
    """Writes the example policy and its list; returns the path of the policy."""
    with open(os.path.join(folder, "blocked.txt"), "w", encoding="utf-8") as file:
        file.write(EXAMPLE_BLOCKED)
    path = os.path.join(folder, "policy.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(EXAMPLE)
    return path


# ------------------------------------------------------------------------------------------------
# Frames
# ------------------------------------------------------------------------------------------------

_MACS = bytes.fromhex("020000000001020000000002")
_TAG_TYPES = (0x8100, 0x8100, 0x88A8, 0x9100)
# Flags of TCP: new connections must be frequent, or connection limits never bite.
_TCP_FLAGS = (2, 2, 2, 2, 0x42, 0xC2, 0x10, 0x10, 0x18, 0x12, 0x11, 0x04, 0x14, 0, 0x29, 0x3F, 0xFF)
_EXTENSION_KINDS = (0, 43, 44, 51, 60, 135, 139, 140)


def _ethernet(kind, payload, tags=()):
    head = b"".join(struct.pack(">HH", tag, tci) for tag, tci in tags)
    return _MACS + head + struct.pack(">H", kind) + payload


def _ipv4(source, to, protocol, payload, ttl=64, fragment=0, options=b"", total=None, first=None):
    size = 20 + len(options)
    if total is None:
        total = min(65535, size + len(payload))
    if first is None:
        first = 0x40 | size // 4
    return struct.pack(
        ">BBHHHBBH4s4s", first, 0, total, 7, fragment, ttl, protocol, 0, source, to
    ) + options + payload


def _ipv6(source, to, protocol, payload, hops=64, length=None, first=0x60):
    if length is None:
        length = min(65535, len(payload))
    return struct.pack(">B3xHBB16s16s", first, length, protocol, hops, source, to) + payload


def _tcp(sport, dport, flags, payload=b""):
    return struct.pack(">HHIIBBHHH", sport, dport, 1, 1, 0x50, flags, 1000, 0, 0) + payload


def _udp(sport, dport, payload=b""):
    return struct.pack(">HHHH", sport, dport, 8 + len(payload), 0) + payload


def _icmp(kind, payload=b""):
    return struct.pack(">BBHI", kind, 0, 0, 1) + payload


def _sctp(sport, dport, payload=b""):
    return struct.pack(">HHII", sport, dport, 1, 0) + payload


class FrameMaker:
    """Draws frames from a world. Every method returns the bytes of one whole frame."""

    def __init__(self, rng, world):
        self.rng, self.world = rng, world

    def tags(self):
        rng = self.rng
        count = rng.choices((0, 1, 2, 3), (80, 12, 6, 1))[0]
        vlans = self.world.vlans + [0, 4095]
        return [
            (rng.choice(_TAG_TYPES), rng.choice(vlans) | rng.choice((0, 0, 0x1000, 0xE000)))
            for _ in range(count)
        ]

    def payload(self):
        rng = self.rng
        return bytes(rng.choice((0, 1, 8, 18, 40, 100, 100, 400, rng.randrange(1400))))

    def sport(self):
        rng = self.rng
        some = rng.choice(self.world.ports)
        return rng.choice((40000, 40001, 40002, 40003, 53, 547, 67, 1024, some))

    def dport(self):
        rng = self.rng
        if rng.random() < 0.9:
            return rng.choice(self.world.ports)
        return rng.choice((0, 68, 546, 9, 65535))

    def transport(self, family):
        """(protocol, bytes) of some transport header with a payload."""
        rng = self.rng
        kind = rng.choices(
            ("tcp", "udp", "icmp", "error", "sctp", "gre", "other"), (50, 25, 4, 3, 4, 3, 5))[0]
        if kind == "tcp":
            return 6, _tcp(self.sport(), self.dport(), rng.choice(_TCP_FLAGS), self.payload())
        if kind == "udp":
            return 17, _udp(self.sport(), self.dport(), self.payload())
        if kind == "sctp":
            return 132, _sctp(self.sport(), self.dport(), self.payload())
        if kind == "icmp":
            protocol = rng.choice((1, 58, 1 if family == 4 else 58))
            return protocol, _icmp(rng.choice((0, 8, 128, 129, 137, 5, 133, 200)), self.payload())
        if kind == "error":
            if family == 4:
                return 1, _icmp(rng.choice((3, 11, 12)), self.payload())
            return 58, _icmp(rng.choice((1, 2, 3, 4)), self.payload())
        if kind == "gre":
            # What is inside must not be looked at.
            inner = _ipv4(b"\xc0\0\2\1", b"\xc0\0\2\2", 6, _tcp(1, 443, 2))
            return rng.choice((47, 4)), (b"\0\0\x08\0" if rng.random() < 0.5 else b"") + inner
        return rng.choice((2, 50, 59, 89, 103, 136, 253, 255, 33, 0, 43)), self.payload()

    def ip(self, source=None, protocol=None, body=None):
        """A plain IP frame of the source's family."""
        rng = self.rng
        source = source or self.world.source(rng)
        try:
            to = self.world.destination(rng, len(source))
        except IndexError:
            to = bytes(len(source))
        if protocol is None:
            protocol, body = self.transport(len(source))
        if len(source) == 4:
            options = bytes([1]) * (4 * rng.randint(1, 10)) if rng.random() < 0.1 else b""
            packet = _ipv4(source, to, protocol, body, rng.choice((64, 64, 1, 255)),
                           rng.choice((0, 0x4000)), options)
            return _ethernet(0x0800, packet, self.tags())
        return _ethernet(0x86DD, _ipv6(source, to, protocol, body, rng.choice((64, 64, 1, 255))),
                         self.tags())

    def _family(self, family):
        rng = self.rng
        found = [s for s in self.world.sources if len(s) == family]
        source = rng.choice(found) if found else bytes((32, 1, 13, 184)).ljust(family, b"\1")
        try:
            return source, self.world.destination(rng, family)
        except IndexError:
            return source, bytes(family)

    def fragment(self):
        rng = self.rng
        protocol, body = self.transport(rng.choice((4, 16)))
        if rng.random() < 0.5:
            source, to = self._family(4)
            value = rng.choice((0x2000, 0x2000, 1, 0x2001, 0x1FFF, 0x2100, 0x8000, 0x4000))
            return _ethernet(0x0800, _ipv4(source, to, protocol, body, fragment=value), self.tags())
        source, to = self._family(16)
        value = rng.choice((0, 0, 1, 1, 8, 9, 0xFFF8, 6, 7))
        head = struct.pack(">BBHI", protocol, 0, value, 5)
        return _ethernet(0x86DD, _ipv6(source, to, 44, head + body), self.tags())

    def chain(self):
        """An IPv6 frame with extension headers, now and then one whose length lies."""
        rng = self.rng
        source, to = self._family(16)
        protocol, body = self.transport(16)
        count = rng.choice((1, 1, 2, 2, 3, 4, 7, 8, 8, 9, 10))
        kinds = [rng.choice(_EXTENSION_KINDS) for _ in range(count)]
        if rng.random() < 0.25:
            kinds = [0] * rng.randint(1, 2) + rng.choice(([], [], [60], [43]))
            if rng.random() < 0.5:
                protocol, body = 58, _icmp(rng.choice((130, 131, 132, 143, 135)), self.payload())
        following = kinds[1:] + [protocol]
        out = b""
        for kind, inner in zip(kinds, following):
            out += self._extension(kind, inner)
        return _ethernet(
            0x86DD, _ipv6(source, to, kinds[0], out + body, rng.choice((64, 1, 1, 255))), self.tags())

    def _extension(self, kind, inner):
        rng = self.rng
        lies = rng.random() < 0.03
        if kind == 44:
            return struct.pack(">BBHI", inner, 0, rng.choice((0, 0, 0, 1, 6)) if not lies else 8, 5)
        if kind == 51:
            words = rng.choice((4, 4, 1, 0, 7, 2))
            size = (words + 2) * 4
        else:
            words = rng.choice((0, 0, 0, 1, 2, 5, 40 if rng.random() < 0.1 else 0))
            size = (words + 1) * 8
        claimed = rng.choice((255, words + 1, max(0, words - 1), 20)) if lies else words
        return bytes([inner, claimed]).ljust(size, b"\0")

    def control(self):
        """What keeps a link alive, and near misses of it."""
        rng = self.rng
        exact = rng.random() < 0.65
        kind = rng.randrange(5)
        if kind == 0:
            source, to = self._family(16)
            body = _icmp(rng.choice((133, 134, 135, 136, 137 if not exact else 136)), bytes(16))
            return _ethernet(0x86DD, _ipv6(source, to, 58, body, 255 if exact else 254), self.tags())
        if kind == 1:
            source, to = self._family(16)
            body = _icmp(rng.choice((130, 131, 132, 143)), bytes(16))
            if rng.random() < 0.6:
                body = bytes([58, 0, 5, 2, 0, 0, 1, 0]) + body
                return _ethernet(0x86DD, _ipv6(source, to, 0, body, 1 if exact else 2))
            return _ethernet(0x86DD, _ipv6(source, to, 58, body, 1 if exact else 255))
        if kind == 2:
            source, to = self._family(4)
            return _ethernet(0x0800, _ipv4(
                source, to, 2, bytes(rng.choice((8, 8, 0, 3))), 1 if exact else rng.choice((0, 2, 64)),
                rng.choice((0, 0, 0x2000, 3)), rng.choice((b"", b"\x94\x04\0\0"))))
        if kind == 3:
            source, to = self._family(4)
            ports = (67, 68) if exact else rng.choice(((68, 67), (67, 67), (547, 546)))
            return _ethernet(0x0800, _ipv4(source, to, 17, _udp(*ports, bytes(240)),
                                           fragment=rng.choice((0, 0, 0, 0x4000, 0x2000))))
        source, to = self._family(16)
        body = _udp(*((547, 546) if exact else rng.choice(((546, 547), (67, 68)))), bytes(30))
        if rng.random() < 0.2:
            return _ethernet(0x86DD, _ipv6(source, to, 44, bytes([17]) + bytes(7) + body))
        return _ethernet(0x86DD, _ipv6(source, to, 17, body))

    def non_ip(self):
        rng = self.rng
        kind = rng.choice((0x0806, 0x88CC, 0x0026, 0x8847, 0x0000, 0xFFFF, 0x8864, 0x05DC))
        return _ethernet(kind, bytes(rng.choice((0, 28, 46))), self.tags())

    def lie(self):
        """A frame of which one field of a fixed header lies."""
        rng = self.rng
        protocol, body = self.transport(4)
        if rng.random() < 0.7:
            source, to = self._family(4)
            size = 20 + len(body)
            kind = rng.randrange(4)
            if kind == 0:
                first = rng.choice((0x65, 0x05, 0x40, 0x44, 0x4F, 0x55, 0x41, 0x60, 0x46))
                packet = _ipv4(source, to, protocol, body, first=first)
            elif kind == 1:
                total = rng.choice((0, 1, 19, 20, size - 1, size + 1, 65535, 21, 40))
                packet = _ipv4(source, to, protocol, body, total=total)
            elif kind == 2:
                packet = _ipv4(source, to, protocol, body[: rng.randrange(24)],
                               first=0x40 | rng.randint(5, 15), total=rng.choice((60, 44, 24, 23)))
            else:
                return _ethernet(0x86DD, _ipv4(source, to, protocol, body), self.tags())
            return _ethernet(0x0800, packet, self.tags())
        source, to = self._family(16)
        kind = rng.randrange(3)
        if kind == 0:
            packet = _ipv6(source, to, protocol, body, first=rng.choice((0x40, 0, 0x70, 0x6F)))
            return _ethernet(0x86DD, packet, self.tags())
        if kind == 1:
            packet = _ipv6(source, to, protocol, body, length=rng.choice((0, 1, 65535)))
            return _ethernet(0x86DD, packet, self.tags())
        return _ethernet(0x0800, _ipv6(source, to, protocol, body), self.tags())

    def flipped(self):
        """A good frame with a few bytes of its headers changed."""
        rng = self.rng
        frame = bytearray(rng.choice((self.ip, self.chain, self.fragment))())
        for _ in range(rng.randint(1, 3)):
            frame[rng.randrange(12, min(len(frame), 90))] = rng.randrange(256)
        return bytes(frame)

    def other_source(self):
        """A frame from an address that is not in the world but near it."""
        rng = self.rng
        source = bytearray(self.world.source(rng))
        source[-1 if rng.random() < 0.6 else rng.randrange(len(source))] ^= 1 << rng.randrange(8)
        return self.ip(bytes(source))


# ------------------------------------------------------------------------------------------------
# Captures
# ------------------------------------------------------------------------------------------------


def _cut(rng, frame):
    """(captured bytes, wire length): really short, or cut by the capture and to be padded."""
    size = rng.randrange(len(frame) + 1)
    return frame[:size], size if rng.random() < 0.6 else len(frame)


def _super_packet(rng, maker):
    """A merged packet: total length 0, tens of kilobytes on the wire, little of it captured."""
    source, to = maker._family(4)
    body = _tcp(maker.sport(), maker.dport(), rng.choice((0x10, 0x18, 2)), bytes(100))
    frame = _ethernet(0x0800, _ipv4(source, to, 6, body, total=0))
    return frame, rng.choice((2000, 3000, 4500, 9014, 20000, 65549))


def frame_pool(rng, world, size):
    """[(captured bytes, wire length)]: what a capture is drawn from, all kinds mixed."""
    maker = FrameMaker(rng, world)
    kinds = (maker.ip, maker.fragment, maker.chain, maker.control, maker.non_ip, maker.lie,
             maker.flipped, maker.other_source)
    weights = [w * rng.uniform(0.4, 1.6) for w in (60, 8, 10, 5, 3, 5, 3, 2)]
    pool = []
    for make in rng.choices(kinds, weights, k=size):
        frame = make()
        pool.append((frame, len(frame)))
        if rng.random() < 0.06:
            pool.append(_cut(rng, frame))
    for _ in range(max(1, size // 300)):
        pool.append(_super_packet(rng, maker))
    return pool


def _all_cuts(rng, maker):
    """One frame cut at every offset; at most its first 150 bytes matter."""
    frame = rng.choice((maker.ip, maker.chain, maker.fragment, maker.control))()[:150]
    padded = rng.random() < 0.4
    return [(frame[:n], len(frame) if padded else n) for n in range(len(frame) + 1)]


def random_records(rng, world, judge, count, digits):
    """`count` records (stamp_ns, captured bytes, wire length) at about world.pps packets a second.

    judge: a model.Model that will have judged them all.
    """
    maker = FrameMaker(rng, world)
    pool = frame_pool(rng, world, max(200, count // 4))
    clock = _Clock(rng, world.pps, digits)
    records = []

    def send(stamp, frame, wire):
        """Adds a packet; now and then, if it is refused, also when it would pass."""
        records.append((stamp, frame, wire))
        refused = judge.judge(stamp, frame, wire)[1] in _PASSING_REFUSALS
        if not refused or rng.random() > 0.06:
            return
        instant = rng.choice(judge.turning_points(frame, wire) or [0])
        if not clock.at < instant < clock.at + clock.reach():
            return
        for _ in range(rng.randint(1, 3)):
            stamp = clock.move(instant + rng.randint(-1, 1) * clock.unit)
            records.append((stamp, frame, wire))
            judge.judge(stamp, frame, wire)

    storms = []
    if rng.random() < 0.25:
        # Enough to use up the 1 000 that are let through at once, whoever sends.
        frames = [maker.control() for _ in range(40)]
        frames = [frame for frame in frames if model.parse(frame, len(frame))[7]]
        storms.append((rng.randrange(count // 2), frames, rng.randint(1050, 2000)))
    for _ in range(rng.randint(0, 3)):
        source = world.source(rng)
        protocol, kinds = (1, (3, 11, 12)) if len(source) == 4 else (58, (1, 2, 3, 4))
        frames = [maker.ip(source, protocol, _icmp(kind, bytes(28))) for kind in kinds]
        storms.append((rng.randrange(count), frames, rng.randint(15, 80)))
    cuts = [(rng.randrange(count), _all_cuts(rng, maker)) for _ in range(2)]
    storms = sorted(storms, key=lambda storm: storm[0])
    cuts = sorted(cuts, key=lambda cut: cut[0])
    while len(records) < count:
        if storms and len(records) >= storms[0][0]:
            _, frames, length = storms.pop(0)
            pause = rng.choice((0, 0, 1000, 20000, 80000))
            for _ in range(length):
                frame = rng.choice(frames)
                send(clock.after(pause), frame, len(frame))
            continue
        if cuts and len(records) >= cuts[0][0]:
            for frame, wire in cuts.pop(0)[1]:
                send(clock.next(), frame, wire)
            continue
        frame, wire = rng.choice(pool)
        # The same packet again and again is what fills one bucket.
        for _ in range(rng.choice((1, 1, 1, 1, 1, 2, 3, 10, 40)) if rng.random() < 0.3 else 1):
            send(clock.next(), frame, wire)
    return records[:count]


# Refusals that time alone lifts.
_PASSING_REFUSALS = ("ban", "limit", "overload")


class _Clock:
    """Stamps in ns, multiples of the capture's unit. It changes its manner every few packets."""

    def __init__(self, rng, pps, digits):
        self.rng = rng
        self.unit = 1000 if digits == 6 else 1
        self.gap = SECOND / pps
        self.at = rng.choice((0, 1, 1699999999, 1700000000)) * SECOND + rng.randrange(SECOND)
        self.left = 0
        self.manner = "even"
        self.at -= self.at % self.unit

    def _choose(self):
        rng = self.rng
        self.left = rng.choice((1, 5, 20, 100, 300))
        self.manner = rng.choices(
            ("random", "even", "burst", "round", "idle", "dense"), (40, 10, 10, 12, 6, 15))[0]
        self.step = max(1, round(self.gap * rng.choice((0.25, 0.5, 1, 1, 2))))
        # The longest round steps that still keep the mean rate: exact multiples meet exact edges.
        choices = [s for s in (1000, 10**6, 10**7, 10**8, 5 * 10**8, SECOND) if s <= self.gap * 40]
        self.round = rng.choice(choices[-2:] or [1000])

    def after(self, pause):
        """A stamp `pause` ns after the last one."""
        self.at += pause - pause % self.unit
        return self.at

    def reach(self):
        """How far in ns a packet may be put off so that it conforms."""
        return self.gap * 200 if self.rng.random() < 0.75 else 10 * SECOND

    def move(self, instant):
        """A stamp at `instant` ns, rounded up, or at the last one if that is later."""
        self.at = max(self.at, instant + -instant % self.unit)
        return self.at

    def next(self):
        """The stamp of the next packet."""
        rng = self.rng
        if self.left <= 0:
            self._choose()
        self.left -= 1
        manner = self.manner
        if manner == "random":
            self.at += round(rng.expovariate(1) * self.gap)
        elif manner == "even":
            self.at += self.step
        elif manner == "dense":
            self.at += round(rng.expovariate(1) * self.gap / 20)
        elif manner == "round":
            if rng.random() < 0.3:
                self.at += self.round - self.at % self.round
        elif manner == "idle":
            # A pause of many gaps, then on as usual; rarely one in which long windows end too.
            pause = self.gap * rng.choice((200, 1000, 5000))
            if rng.random() < 0.05:
                pause = rng.choice((60, 3600, 86400)) * SECOND
            elif rng.random() < 0.3:
                pause = rng.choice((1, 2, 5)) * SECOND
            self.at += round(pause)
            self.left = 0
        self.at -= self.at % self.unit
        if rng.random() < 0.01:
            back = min(self.at, rng.choice((1, 1000, 10**6, SECOND, 3 * SECOND)))
            return self.at - back - (self.at - back) % self.unit
        return self.at


def write_capture(rng, world, policy_path, folder, count):
    """Writes a random capture of `count` packets for a policy below folder; returns its path."""
    kind = rng.choice(("pcap", "pcap", "pcapng"))
    digits = rng.choice((6, 9, 9))
    judge = model.Model(model.Policy(policy_path))
    records = random_records(rng, world, judge, count, digits)
    path = os.path.join(folder, "capture." + kind)
    capture.write(path, records, kind, digits, rng.choice("<<>"), rng.random() < 0.5)
    return path


def write_pair(seed, folder, count):
    """Writes a policy and a capture of `count` packets; returns (policy path, capture path)."""
    rng = random.Random(seed)
    world = random_world(rng)
    policy_path = write_policy(rng, world, folder)
    return policy_path, write_capture(rng, world, policy_path, folder, count)


def main():
    """Writes one pair below a folder, for a look at it."""
    parser = argparse.ArgumentParser(description="write a random policy and a capture for it")
    parser.add_argument("folder")
    parser.add_argument("--seed", required=True)
    parser.add_argument("--packets", type=int, default=15000)
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    for path in write_pair(options.seed, options.folder, options.packets):
        print(path)


if __name__ == "__main__":
    main()
