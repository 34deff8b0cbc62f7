# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""FIELD section P: what the parser makes of packets, honest and broken.

Most of it goes through `loadshed replay`, which runs the real program on literal bytes.
"""

import struct

from harness import (LOADSHED, Background, bucket, case, check, check_adds_up, check_equal, check_within,
                     data, main, run, tally, wait_for)
from packets import (AH, ESP, GRE, ICMPV6, UDP, arp_frame, eth, extension, fragment6, icmp, ip_frame, ipv4,
                     ipv6, pcap, pcapng, udp, udp_frame)

SOURCE, OTHER = "203.0.113.7", "198.51.100.9"
SIX, SERVER, SERVER6 = "2001:db8:1::7", "10.9.0.1", "fd00:9::1"

DENY = "version: 1\ndeny: [203.0.113.7, '2001:db8:1::7']\n"
ONE = """version: 1
classes:
  - name: dns
    match: { protocol: udp, ports: [53] }
    limits: [{ rate: 1/h, burst: 1 }]
  - name: udp
    match: { protocol: udp }
    limits: [{ rate: 1/h, burst: 2 }]
"""


def verdicts(test, policy, frames):
    return [(p["verdict"], p["reason"]) for p in test.replay_packets(policy, pcap(frames))]


@case("P-01 up to two tags are walked, more are malformed")
def tags(test):
    for tpids in ((0x8100,) * 8, (0x88A8,) + (0x8100,) * 7):
        for depth in (0, 1, 2, 3, 4, 8):
            frame = udp_frame(SOURCE, tags=[(tpids[i], 10 + i) for i in range(depth)])
            wanted = ("drop", "deny") if depth <= 2 else ("drop", "malformed")
            check_equal("%d tags" % depth, verdicts(test, DENY, [frame]), [wanted])
    cut = udp_frame(SOURCE, tags=[1, 2])[:18]
    check_equal("cut off in the tags", verdicts(test, DENY, [cut]), [("drop", "malformed")])


@case("P-03 the bytes of the source are those on the wire, behind tags, too")
def source_bytes(test):
    frames = [udp_frame(SOURCE), udp_frame(SOURCE, tags=[5]), udp_frame(SOURCE, tags=[(0x88A8, 5), 6]),
              udp_frame(SIX), udp_frame(SIX, tags=[5, 6])]
    packets = test.replay_packets(DENY, pcap(frames))
    check_equal("sources", [p["source"] for p in packets], [SOURCE] * 3 + [SIX] * 2)


@case("P-05 a lying header length is malformed and makes no bucket")
def ihl(test):
    frames = [eth(0x0800, ipv4(SOURCE, SERVER, UDP, b"", ihl=length)) for length in (0, 4, 15)]
    packets = test.replay_packets(DENY, pcap(frames))
    check_equal("verdicts", [(p["reason"], p["source"]) for p in packets], [("malformed", None)] * 3)
    passed = test.replay_packets(DENY + "malformed: pass\n", pcap(frames))
    check_equal("malformed: pass", [(p["verdict"], p["reason"]) for p in passed],
                [("pass", "malformed")] * 3)
    short = [eth(0x0800, ipv4(SOURCE, SERVER, UDP, udp(1, 2), total=19)), udp_frame(SOURCE)[:33],
             udp_frame(SIX)[:53]]
    check_equal("short", verdicts(test, DENY, short), [("drop", "malformed")] * 3)
    fine = [eth(0x0800, ipv4(SOURCE, SERVER, UDP, udp(1, 2), total=0)),
            eth(0x0800, ipv4(SOURCE, SERVER, UDP, udp(1, 2), total=9000)), udp_frame(SOURCE)[:36]]
    check_equal("not malformed", verdicts(test, DENY, fine), [("drop", "deny")] * 3)


@case("P-07 later fragments have no ports: they match what asks for none, and are charged")
def fragments(test):
    first = eth(0x0800, ipv4(SOURCE, SERVER, UDP, udp(9, 53, b"x" * 16), more=True))
    later = eth(0x0800, ipv4(SOURCE, SERVER, UDP, udp(9, 53, b"x" * 16), fragment=24))
    first6 = eth(0x86DD, ipv6(SIX, SERVER6, 44, fragment6(UDP, more=True) + udp(9, 53)))
    later6 = eth(0x86DD, ipv6(SIX, SERVER6, 44, fragment6(UDP, 8) + udp(9, 53)))
    atomic6 = eth(0x86DD, ipv6("2001:db8:2::1", SERVER6, 44, fragment6(UDP) + udp(9, 53)))
    packets = test.replay_packets(ONE, pcap([first, later, later, later, first6, later6, later6, later6,
                                             atomic6]))
    got = [(p["class"], p["verdict"]) for p in packets]
    family = [("dns", "pass"), ("udp", "pass"), ("udp", "pass"), ("udp", "drop")]
    check_equal("classes", got, family * 2 + [("dns", "pass")])


@case("P-07 big pings and fragments of other services arrive")
def fragments_live(test):
    lab = test.lab()
    lab.attach("version: 1\nclasses:\n  - name: dns\n    match: { protocol: udp, ports: [53] }\n"
               "    limits: [{ rate: 1/h, burst: 1 }]\n")
    for target in (SERVER, SERVER6):
        out = lab.cli("ping", "-c", 5, "-i", 0.1, "-W", 3, "-s", 4000, target).out
        check(" 0% packet loss" in out, "pings of 4000 bytes to %s were lost: %s" % (target, out[-200:]))
    check_adds_up(lab.stats())


@case("P-09 only extension headers are walked")
def extensions(test):
    def six(following, payload):
        return eth(0x86DD, ipv6(SIX, SERVER6, following, payload))

    policy = ("version: 1\nclasses:\n  - { name: dns, match: { protocol: udp, ports: [53] } }\n"
              "  - { name: udp, match: { protocol: udp } }\n  - { name: esp, match: { protocol: esp } }\n"
              "  - { name: other, match: { protocol: 253 } }\n  - { name: rest, match: any }\n")
    walked = udp(9, 53)
    cases = [(six(0, extension(UDP) + walked), "dns"), (six(60, extension(UDP, 14) + walked), "dns"),
             (six(43, extension(UDP, 22) + walked), "dns"), (six(135, extension(UDP) + walked), "dns"),
             (six(AH, struct.pack(">BB", UDP, 4) + b"\0" * 22 + walked), "dns"),
             (six(ESP, walked), "esp"), (six(253, extension(UDP) + walked), "other"),
             (six(59, walked), "rest"), (six(0, extension(UDP, length=200) + walked), "udp")]
    chain = walked
    following = UDP
    for depth in range(1, 11):
        chain = extension(following) + chain
        following = 60
        cases.append((six(60, chain), "dns" if depth <= 8 else None))
    packets = test.replay_packets(policy, pcap([frame for frame, _ in cases]))
    check_equal("classes", [p["class"] for p in packets], [name for _, name in cases])
    check_equal("malformed", [p["reason"] == "malformed" for p in packets],
                [name is None for _, name in cases])


@case("P-13 address resolution lives under the strictest policy, also beside its own flood")
def control(test):
    strict = "version: 1\nclasses:\n  - { name: rest, match: any, limits: [{ rate: 1/d, burst: 1 }] }\n"
    solicit = icmp(135, rest=b"\0" * 4, payload=b"\0" * 16)
    alive = [arp_frame(), eth(0x86DD, ipv6(SIX, "ff02::1:ff00:1", ICMPV6, solicit, hops=255))] * 5
    alive += [eth(0x0800, ipv4(SOURCE, "224.0.0.1", 2, b"\x11" + b"\0" * 7, ttl=1)),
              eth(0x0800, ipv4("0.0.0.0", "255.255.255.255", UDP, udp(67, 68, b"\0" * 240))),
              eth(0x86DD, ipv6("fe80::1", "fe80::2", UDP, udp(547, 546, b"\0" * 20)))]
    got = verdicts(test, strict, alive)
    check_equal("verdicts", got, [("pass", "non-ip"), ("pass", "control")] * 5 + [("pass", "control")] * 3)
    far = eth(0x86DD, ipv6(SIX, SERVER6, ICMPV6, solicit, hops=64))
    check_equal("hop limit 64", verdicts(test, strict, [far, far]),
                [("pass", "admitted"), ("drop", "limit")])

    times = [i * 50e-6 for i in range(20000)]
    flood = [(when, eth(0x86DD, ipv6("2001:db8:%x::1" % (i % 5000), "ff02::1", ICMPV6, solicit, hops=255)))
             for i, when in enumerate(times)]
    wanted = sum(bucket([i * 50 for i in range(20000)], "10000/1000000", 1000))
    summary = test.replay(strict, pcap(flood))
    check(abs(summary["reasons"]["control"] - wanted) <= 1,
          "%d passed as control, not %d" % (summary["reasons"]["control"], wanted))


@case("P-13 an allowed client keeps its neighbours")
def control_live(test):
    lab = test.lab()
    lab.attach("version: 1\nallow: [10.9.0.0/24, 'fd00:9::/64']\nclasses:\n"
               "  - { name: rest, match: any, limits: [{ rate: 1/d, burst: 1 }] }\n")
    for _ in range(5):
        for side in (lab.srv, lab.cli):
            device = "vs" if side == lab.srv else "vc"
            for family in ("-4", "-6"):
                side("ip", family, "neigh", "flush", "dev", device, "nud", "all")
        for target in (SERVER, SERVER6):
            lab.cli("ping", "-c", 1, "-W", 3, target)
    stats = lab.stats()
    check_equal("drops", stats["drop"]["packets"], 0)
    check(tally(stats, "pass", "non-ip") >= 5, "ARP is not counted as non-ip: %r" % stats["classes"])


@case("P-13 captures of LACP, LLDP, CDP and STP pass as non-ip")
def control_captures(test):
    for name in ("LACP.pcap", "LLDP_and_CDP.pcap", "802.1w_rapid_STP.pcap"):
        with open(data("odd/" + name), "rb") as file:
            summary = test.replay(DENY, file.read())
        check_equal(name, summary["pass"], summary["packets"])


@case("P-15 bytes are those of the whole frame at MTU 9000")
def jumbo(test):
    for mode in ("native", "generic"):
        lab = test.lab("--mtu", 9000)
        lab.attach("version: 1\nclasses:\n  - name: rest\n    match: { protocol: udp }\n    limits: "
                   "[{ count: bytes, rate: 1MB/s, burst: 100kB }]\n", "--mode", mode)
        before = lab.stats()["seen"]
        sink = lab.sink(flood=SOURCE)
        sent = lab.flood("--from", SOURCE, "--size", 8014, "--rate", 1000, "--packets", 3000)
        got = sink.stop()["classes"]["flood"]
        seen = wait_for("all packets are counted", lambda: (lambda s: s if s["seen"]["packets"] -
                        before["packets"] >= sent["sent"] else None)(lab.stats()))
        check_within(mode + ": bytes seen", seen["seen"]["bytes"] - before["bytes"], sent["bytes"], 0.01)
        check_within(mode + ": bytes let through", got["bytes"], 1e5 + 1e6 * sent["seconds"], 0.05)
        check_equal(mode + ": sent = passed + dropped", got["packets"] + tally(seen, "drop", "limit"),
                    sent["sent"])
        check_adds_up(seen)
        lab.ls("detach", "--all")


@case("P-15 a TCP transfer at MTU 9000 is counted whole")
def jumbo_tcp(test):
    receive = ("import socket;s=socket.socket();s.setsockopt(1,2,1);s.bind(('',9));s.listen();"
               "print('ready',file=__import__('sys').stderr,flush=True);c=s.accept()[0];n=0\n"
               "while 1:\n b=c.recv(1<<20)\n if not b: break\n n+=len(b)\nprint(n)")
    send = ("import socket;s=socket.create_connection(('10.9.0.1',9));s.sendall(bytes(10<<20));"
            "s.shutdown(1);s.recv(1)")
    for mode in ("native", "generic"):
        lab = test.lab("--mtu", 9000)
        lab.attach(None, "--mode", mode)
        server = Background(["ip", "netns", "exec", lab.name + "-srv", "/usr/bin/python3", "-c", receive])
        test.stack.callback(server.end)

        def device_bytes():
            line = next(l for l in lab.cli("cat", "/proc/net/dev").out.splitlines() if "vc:" in l)
            return int(line.split(":")[1].split()[8])

        sent, seen = device_bytes(), lab.stats()["seen"]["bytes"]
        lab.cli("/usr/bin/python3", "-c", send)
        check_equal("bytes received", server.wait(), 10 << 20)
        sent, seen = device_bytes() - sent, lab.stats()["seen"]["bytes"] - seen
        check_within(mode + ": bytes seen", seen, sent, 0.01)
        lab.ls("detach", "--all")


@case("P-17 a tunnel is its outer source")
def tunnels(test):
    policy = "version: 1\nclasses:\n  - { name: rest, match: any, limits: [{ rate: 1/h, burst: 10 }] }\n"
    inner = [udp_frame("192.0.2.%d" % i)[14:] for i in range(1, 101)]
    vxlan = b"\x08\0\0\0\0\0\x01\0" + b"\0" * 12
    kinds = {"4in4": lambda p: (4, p), "gre": lambda p: (GRE, b"\0\0\x08\0" + p),
             "vxlan": lambda p: (UDP, udp(9, 4789, vxlan + b"\x08\0" + p)),
             "geneve, cut off": lambda p: (UDP, udp(9, 6081, b"\0\0\x65\x58\0\0\x01\0" + p[:3]))}
    for name, wrap in kinds.items():
        frames = [ip_frame(SOURCE, SERVER, *wrap(p)) for p in inner]
        packets = test.replay_packets(policy, pcap(frames))
        check_equal(name + ": sources", {p["source"] for p in packets}, {SOURCE})
        check_equal(name + ": let through", sum(p["verdict"] == "pass" for p in packets), 10)
    six = [eth(0x0800, ipv4(SOURCE, SERVER, 41, udp_frame("2001:db8:%x::1" % i)[14:])) for i in range(100)]
    check_equal("6in4", test.replay(policy, pcap(six))["pass"], 10)
    check_equal("allowed peer", test.replay(policy + "allow: [203.0.113.7]\n", pcap(six))["pass"], 100)


@case("P-19 EtherType and version nibble must agree, and the families share no bucket")
def versions(test):
    broken = [eth(0x0800, ipv6(SIX, SERVER6, UDP, udp(1, 2))), eth(0x86DD, ipv4(SOURCE, SERVER, UDP,
              udp(1, 2)) + b"\0" * 40), eth(0x0800, ipv4(SOURCE, SERVER, UDP, udp(1, 2), version=5))]
    check_equal("verdicts", verdicts(test, DENY, broken), [("drop", "malformed")] * 3)
    one = "version: 1\nclasses:\n  - { name: rest, match: any, limits: [{ rate: 1/h, burst: 1 }] }\n"
    frames = [udp_frame(SOURCE), udp_frame(SOURCE), udp_frame("cb00:7107::"), udp_frame("::cb00:7107")]
    check_equal("buckets", [p["verdict"] for p in test.replay_packets(one, pcap(frames))],
                ["pass", "drop", "pass", "pass"])


@case("P-19 captures of confused versions are malformed")
def version_captures(test):
    for name in ("bad-ipv4-version-pgm-heapoverflow.pcap", "ipv6-bad-version.pcap"):
        with open(data("odd/" + name), "rb") as file:
            summary = test.replay(DENY, file.read())
        check(summary["reasons"]["malformed"] > 0, "%s: %r" % (name, summary["reasons"]))


@case("P-21 a prefix masks the right end, and is printed as it was typed")
def byte_order(test):
    lab = test.lab()
    lab.attach()
    lab.ls("ban", "add", "203.0.113.0/25", "--for", "10m")
    check_equal("ban list", [ban["source"] for ban in lab.bans()], ["203.0.113.0/25"])
    sink = lab.sink(a="203.0.113.1", b="203.0.113.200", c="1.113.0.203")
    for source in ("203.0.113.1", "203.0.113.200", "1.113.0.203"):
        lab.flood("--from", source, "--packets", 10)
    got = sink.stop()["classes"]
    check_equal("arrived", [got[name]["packets"] for name in "abc"], [0, 10, 10])
    check_equal("banned", tally(lab.stats(), "drop", "ban"), 10)


@case("replay: every capture format says the time in its own digits")
def capture_formats(test):
    frames = [(0.25, udp_frame(OTHER)), (1.123456, udp_frame(OTHER))]
    for name, capture, times in (
            ("pcap", pcap(frames), ["1700000000.250000", "1700000001.123456"]),
            ("pcap ns", pcap(frames, nano=True), ["1700000000.250000000", "1700000001.123456000"]),
            ("pcapng", pcapng(frames), ["1700000000.250000", "1700000001.123456"]),
            ("pcapng ns", pcapng(frames, 9), ["1700000000.250000000", "1700000001.123456000"]),
            ("pcapng ms", pcapng(frames, 3), ["1700000000.250", "1700000001.123"]),
            ("pcapng s", pcapng(frames, 0), ["1700000000", "1700000001"])):
        packets = test.replay_packets(DENY, capture)
        check_equal(name, [p["time"] for p in packets], times)
        check_equal(name, [p["packet"] for p in packets], [1, 2])


@case("replay: a cut-off capture says how far it came and exits 1")
def capture_cut(test):
    whole = pcap([udp_frame(OTHER)] * 3)
    for size in (len(whole) - 5, len(whole) - 50):
        result = run([LOADSHED, "replay", test.file("c", whole[:size]),
                      "--policy", test.file("p.yaml", DENY)], code=1)
        check("packet 2" in result.err or "packet 1" in result.err, "stderr: " + result.err)
    for name, bad in (("empty", b""), ("text", b"hello, world\n" * 10), ("link type", pcap([], link=101))):
        result = run([LOADSHED, "replay", test.file("c", bad),
                      "--policy", test.file("p.yaml", DENY)], code=1)
        check(result.err.count("\n") == 1, "%s: not one line: %r" % (name, result.err))


@case("replay: frames are padded to their wire length, short ones are malformed")
def capture_frames(test):
    frame = udp_frame(SOURCE, size=9000)
    summary = test.replay("version: 1\n", pcap([(0, frame[:60], 9000), (0, b"\0" * 10),
                                                 (0, udp_frame(SOURCE, size=60000))]))
    check_equal("bytes", summary["bytes"], 9000 + 10 + 60000)
    check_equal("reasons", {k: v for k, v in summary["reasons"].items() if v},
                {"unmatched": 2, "malformed": 1})
    monitored = test.replay_packets("version: 1\nmode: monitor\n", pcap([b"\0" * 10]))
    check_equal("monitored", monitored[0]["verdict"], "would-drop")
    padded = eth(0x0800, ipv4(SOURCE, SERVER, UDP, udp(9, 53)))
    packets = test.replay_packets(ONE, pcap([(0, padded[:34], 42)]))
    check_equal("ports are zeros", packets[0]["class"], "udp")


if __name__ == "__main__":
    main()
