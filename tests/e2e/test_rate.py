# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""FIELD sections R and N: rates, and whose they are.

Where the capture's clock decides, the right number is computed in exact arithmetic (harness.bucket) and the
program may differ by a single packet, the rounding of its ticks.
"""

import os
import time

from harness import (LOADSHED, Background, bucket, case, check, check_adds_up, check_equal, check_within,
                     main, run, tally, wait_for)
from packets import ACK, SYN, pcap, tcp_frame, udp_frame

SOURCE, OTHER, SIX = "203.0.113.7", "198.51.100.9", "2001:db8:1::7"


def one(limit, more="", match="any"):
    """A policy of one class with one limit, both in YAML's flow form."""
    return "version: 1\n%sclasses:\n  - { name: rest, match: %s, limits: [{ %s }] }\n" % (more, match, limit)


def admitted(test, policy, records, nano=True):
    return [p["verdict"] == "pass" for p in test.replay_packets(policy, pcap(records, nano=nano))]


@case("R-01 no fraction of a token is lost at a refill")
def fractions(test):
    frame = udp_frame(SOURCE)
    # rate, burst, packets, milliseconds between them
    for rate, burst, count, step in ((3, 1, 400, 250), (3, 2, 400, 250), (7, 1, 1000, 100),
                                     (7, 3, 1000, 100), (999, 1, 20000, 1), (999, 5, 20000, 1)):
        times = [i * step for i in range(count)]
        wanted = sum(bucket(times, "%d/1000" % rate, burst))
        got = sum(admitted(test, one("rate: %d/s, burst: %d" % (rate, burst)),
                           [(t / 1000, frame) for t in times]))
        check(abs(got - wanted) <= 1, "rate %d/s burst %d, every %d ms: %d passed, not %d" % (
            rate, burst, step, got, wanted))


@case("R-03 very high rates are exact, and too high ones refused")
def high_rates(test):
    frame = udp_frame(SOURCE)
    for rate, text in ((10**6, "1M"), (10**7, "10M"), (10**8, "100M")):
        count = 20000
        step = max(1, 10**9 // rate // 4)  # ns: four times the rate
        times = [i * step for i in range(count)]
        wanted = sum(bucket(times, "%d/1000000000" % rate, 100))
        got = sum(admitted(test, one("rate: %s/s, burst: 100" % text),
                           [(t / 10**9, frame) for t in times]))
        check_within("passed at %s/s" % text, got, wanted, 0.01)
    for text, code in (("4G/s", 0), ("4001M/s", 1), ("5G/s", 1)):
        run([LOADSHED, "policy", "check", test.file("p.yaml", one("rate: " + text))], code=code)
    for text, code in (("1000Gbit/s", 0), ("1001Gbit/s", 1)):
        run([LOADSHED, "policy", "check", test.file("p.yaml", one("count: bytes, rate: " + text))], code=code)


@case("R-05 time that goes backwards gives no tokens and locks nobody out")
def backwards(test):
    frame = udp_frame(SOURCE)
    records = [(100, frame)] * 10 + [(1, frame)] * 50 + [(99.9, frame)] * 50 + [(100.1, frame)] * 2
    got = admitted(test, one("rate: 10/s, burst: 10"), records)
    check_equal("verdicts", got, [True] * 10 + [False] * 100 + [True, False])


@case("R-07 a burst of 0 is refused, of 1 is one packet, absent is a second's worth")
def bursts(test):
    frames = [udp_frame(SOURCE)] * 30
    run([LOADSHED, "policy", "check", test.file("p.yaml", one("rate: 10/s, burst: 0"))], code=1)
    check_equal("burst 1", sum(admitted(test, one("rate: 10/s, burst: 1"), frames)), 1)
    check_equal("no burst", sum(admitted(test, one("rate: 10/s"), frames)), 10)
    check_equal("less than one in a second", sum(admitted(test, one("rate: 1/m"), frames)), 1)
    huge = run([LOADSHED, "policy", "check", test.file("p.yaml", one("rate: 10/s, burst: 5G"))], code=None)
    check(huge.code in (0, 1), "burst 5G: exit %d" % huge.code)


@case("R-11 two CPUs do not spend a token twice, nor lose one")
def race(test):
    cpus = sorted(os.sched_getaffinity(0))
    lab = test.lab("--queues", 2)
    for rate in (1000, 20000):
        # A burst of a second's worth: senders that this machine stalls for less let no token go to waste.
        lab.attach(one("rate: %d/s, burst: %d" % (rate, rate), match="{ protocol: udp }"))
        sink = lab.sink(flood=SOURCE)
        before = tally(lab.stats(), "drop", "limit")
        start = time.monotonic()
        senders = []
        for cpu in (cpus * 2)[:2]:
            sender = lab.flood_start("--from", SOURCE, "--rate", 25000, "--seconds", 4, "--seed", cpu)
            os.sched_setaffinity(sender.process.pid, {cpu})
            senders.append(sender)
        results = [sender.wait() for sender in senders]
        took = time.monotonic() - start
        got = sink.stop()
        lost = got["lost"] + sum(r["device_dropped"] for r in results)
        passed = got["classes"]["flood"]["packets"]
        most, least = rate + rate * took, rate + rate * min(r["seconds"] for r in results)
        check(passed <= most * 1.02 + 16 * len(cpus), "rate %d: %d passed, at most %d may" % (
            rate, passed, most))
        check(passed + lost >= least * 0.98, "rate %d: only %d passed of %d" % (rate, passed, least))
        if lost == 0:
            check_equal("sent = passed + dropped",
                        passed + tally(lab.stats(), "drop", "limit") - before,
                        sum(r["sent"] for r in results))
        lab.ls("detach", "--all")


@case("R-15 bits are not bytes, and what could be either is refused")
def units(test):
    frames = [(i / 1000, udp_frame(SOURCE, size=1000)) for i in range(4000)]
    counts = {text: sum(admitted(test, one("count: bytes, rate: %s, burst: 10kB" % text), frames, False))
              for text in ("8Mbit/s", "1MB/s", "8000kbit/s", "1000kB/s", "500kB/s")}
    check_equal("equal spellings", {counts[t] for t in ("8Mbit/s", "1MB/s", "8000kbit/s", "1000kB/s")},
                {4000})
    wanted = sum(bucket([i for i in range(4000)], 500, 10000, [1000] * 4000))
    check(abs(counts["500kB/s"] - wanted) <= 1, "500kB/s: %d, not %d" % (counts["500kB/s"], wanted))
    for text in ("8mbit", "8Mbps", "1mBps", "8000000", "8Mb/s", "1MB", "8 Mbit/s"):
        result = run([LOADSHED, "policy", "check",
                      test.file("p.yaml", one("count: bytes, rate: %s" % text))], code=1)
        check("bit/s" in result.err, "%s: the accepted spellings are not said: %s" % (text, result.err))


@case("R-17 a packet needs room in every limit, and a refused one takes nothing")
def two_limits(test):
    policy = ("version: 1\nclasses:\n  - name: rest\n    match: any\n    limits:\n"
              "      - { name: packets, rate: 1/h, burst: 5 }\n"
              "      - { name: bytes, count: bytes, rate: 1B/s, burst: 300B }\n")
    frame = udp_frame(SOURCE, size=100)
    records = [(0, frame)] * 13 + [(100, frame), (200, frame), (300, frame)]
    packets = test.replay_packets(policy, pcap(records))
    got = [p["limit"] for p in packets]
    check_equal("refused by", got, [None] * 3 + ["bytes"] * 10 + [None, None, "packets"])


@case("R-19 a packet dearer than the bucket passes on a full one, and the rate holds")
def dear_packets(test):
    for burst, size in ((100, 1514), (1000, 1500), (1514, 9000), (1000, 60000)):
        times = [i * 250 for i in range(400)]
        wanted = bucket(times, "3", burst, [size] * 400)  # 3000 B/s in ms
        got = admitted(test, one("count: bytes, rate: 3kB/s, burst: %dB" % burst),
                       [(t / 1000, udp_frame(SOURCE, size=size)) for t in times], False)
        check(abs(sum(got) - sum(wanted)) <= 1, "burst %d, packets of %d: %d passed, not %d" % (
            burst, size, sum(got), sum(wanted)))


@case("R: the windows count what they say")
def windows(test):
    frame = udp_frame(SOURCE)
    start = 1700000040  # divisible by 60
    sliding = one("algorithm: sliding-window, limit: 50, window: 60s")
    records = [(i, frame) for i in range(42)] + [(75, frame)] * 20
    packets = test.replay_packets(sliding, pcap(records, start=start))
    check_equal("sliding-window", sum(p["verdict"] == "pass" for p in packets), 42 + 18)
    fixed = one("algorithm: fixed-window, limit: 10, window: 60s")
    records = [(55, frame)] * 15 + [(60, frame)] * 15
    packets = test.replay_packets(fixed, pcap(records, start=start))
    check_equal("fixed-window", [p["verdict"] == "pass" for p in packets],
                ([True] * 10 + [False] * 5) * 2)
    log = one("algorithm: sliding-log, limit: 3, window: 10s")
    records = [(t, frame) for t in (0, 1, 2, 3, 9.999999, 10, 10.5, 11, 12, 12.5)]
    packets = test.replay_packets(log, pcap(records, start=start))
    check_equal("sliding-log", [p["verdict"] == "pass" for p in packets],
                [True, True, True, False, False, True, False, True, True, False])


@case("R: silences of years neither lock out nor give more than a burst")
def long_silences(test):
    frame, year = udp_frame(SOURCE), 365 * 86400
    records = [(years * year, frame) for years in (0, 1, 3.5, 7.9, 15, 33) for _ in range(20)]
    got = admitted(test, one("rate: 1/d, burst: 10"), records)
    check_equal("verdicts", got, ([True] * 10 + [False] * 10) * 6)


@case("R: only connections cost a connections limit")
def connections(test):
    policy = one("count: connections, rate: 1/h, burst: 2", match="{ protocol: tcp }")
    frames = [tcp_frame(SOURCE, flags=SYN), tcp_frame(SOURCE, flags=ACK), tcp_frame(SOURCE, flags=SYN),
              tcp_frame(SOURCE, flags=SYN), tcp_frame(SOURCE, flags=SYN | ACK), tcp_frame(SOURCE, flags=ACK)]
    check_equal("verdicts", admitted(test, policy, frames), [True, True, True, False, True, True])


@case("R: limits hold on the wire")
def live_limit(test):
    lab = test.lab()
    lab.attach(one("rate: 500/s, burst: 50", match="{ protocol: udp }"))
    for family, source in (("v4", SOURCE), ("v6", SIX)):
        sink = lab.sink(flood=source)
        before = tally(lab.stats(), "drop", "limit")
        sent = lab.flood("--from", source, "--rate", 5000, "--packets", 15000)
        got = sink.stop()
        passed = got["classes"]["flood"]["packets"]
        check_within(family + ": passed", passed, 50 + 500 * sent["seconds"], 0.02)
        check_equal(family + ": sent = passed + dropped",
                    passed + tally(lab.stats(), "drop", "limit") - before, sent["sent"])
    check_adds_up(lab.stats())


@case("N-01 many users behind one address get a looser bound, and a flood still meets it")
def nat(test):
    crowd = [(i / 500, udp_frame(SOURCE, from_port=1024 + i % 100)) for i in range(5000)]
    flood = [(i / 50000, udp_frame(SOURCE)) for i in range(100000)]
    limit = "rate: 100/s, burst: 100"
    nat_entry = "nat: [{ sources: [203.0.113.0/24], factor: 32 }]\n"
    for more, records, step, rate, burst in (("", crowd, 500, 100, 100), (nat_entry, crowd, 500, 3200, 3200),
                                             (nat_entry, flood, 50000, 3200, 3200)):
        wanted = sum(bucket([i for i in range(len(records))], "%d/%d" % (rate, step), burst))
        got = sum(admitted(test, one(limit, more), records, False))
        check(abs(got - wanted) <= 1, "%r at %d/s: %d passed, not %d" % (more, step, got, wanted))


@case("N-03 a /64 is one source, a wider limit holds a /48, and a neighbour is not touched")
def rotation(test):
    policy = ("version: 1\nclasses:\n  - name: rest\n    match: any\n    limits:\n"
              "      - { name: own, rate: 100/s, burst: 100 }\n"
              "      - { name: net, per: { ipv6: 48 }, rate: 1k/s, burst: 1k }\n")
    rotating = [(i / 20000, udp_frame("2001:db8:1:2:%x:%x:%x:1" % (i * 7919 % 65536, i * 31 % 65536, i)))
                for i in range(20000)]
    wanted = sum(bucket([i for i in range(20000)], "100/20000", 100))
    got = sum(admitted(test, policy, rotating, False))
    check(abs(got - wanted) <= 1, "one /64: %d passed, not %d" % (got, wanted))

    spread = [(i / 20000, udp_frame("2001:db8:1:%x::1" % (i % 20000))) for i in range(40000)]
    wanted = sum(bucket([i for i in range(40000)], "1000/20000", 1000))
    honest = [(i / 10 + 1e-5, udp_frame("2001:db8:2:1::1")) for i in range(19)]
    records = sorted(spread + honest, key=lambda record: record[0])
    packets = test.replay_packets(policy, pcap(records))
    passed = [p for p in packets if p["verdict"] == "pass"]
    mine = sum(p["source"] == "2001:db8:2:1::1" for p in passed)
    check_equal("honest neighbour", mine, 19)
    check(abs(len(passed) - mine - wanted) <= 1, "a /48: %d passed, not %d" % (len(passed) - mine, wanted))


@case("N-05 the server's own downloads are not throttled by a connections limit")
def downloads(test):
    policy = ("version: 1\nclasses:\n  - name: in\n    match: { protocol: tcp }\n    limits: "
              "[{ name: new, count: connections, rate: 10/s, burst: 10 }]\n"
              "  - name: answers\n    match: { protocol: udp, source_ports: [53] }\n"
              "    limits: [{ rate: 1k/s }]\n")
    download = [(i / 20000, tcp_frame(OTHER, port=40000, from_port=443, flags=ACK, payload=b"x" * 1400))
                for i in range(20000)]
    answers = [(i / 500, udp_frame(OTHER, port=40001, from_port=53)) for i in range(500)]
    summary = test.replay(policy, pcap(sorted(download + answers, key=lambda record: record[0])))
    check_equal("dropped", summary["drop"], 0)
    lab = test.lab()
    lab.attach(policy)
    fetch = ("import socket;s=socket.socket();s.bind(('',9));s.listen();"
             "print('ready',file=__import__('sys').stderr,flush=True);c=s.accept()[0];"
             "c.sendall(bytes(20<<20));c.shutdown(1);c.recv(1);print(0)")
    server = Background(["ip", "netns", "exec", lab.name + "-cli", "/usr/bin/python3", "-c", fetch])
    test.stack.callback(server.end)
    out = lab.srv("/usr/bin/python3", "-c",
                  "import socket;s=socket.create_connection(('10.9.0.2',9));n=0\n"
                  "while 1:\n b=s.recv(1<<20)\n if not b: break\n n+=len(b)\nprint(n)").out
    check_equal("downloaded", int(out), 20 << 20)
    check_equal("dropped live", lab.stats()["drop"]["packets"], 0)


@case("replay and the live program agree on a flood within one burst")
def replay_is_live(test):
    policy = one("rate: 1/h, burst: 7", match="{ protocol: udp }")
    frames = [udp_frame("203.0.113.%d" % (i % 50)) for i in range(1000)]
    lab = test.lab()
    lab.attach(policy)
    lab.send(*frames)
    stats = wait_for("all are judged", lambda: (lambda s: s if tally(s, None, None, "rest") >= 1000 else None)(
        lab.stats()))
    summary = test.replay(policy, pcap(frames))
    check_equal("drops", tally(stats, "drop", "limit"), summary["reasons"]["limit"])
    check_equal("passes", tally(stats, "pass", "admitted"), summary["reasons"]["admitted"])


if __name__ == "__main__":
    main()
