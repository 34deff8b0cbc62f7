# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tests the model against values worked out by hand from the contract, without the program.

The idea: the model judges the program, so something else has to judge the model. Each test is a
table or a short story whose right end was computed on paper; the sequences at random compare the
exact buckets with a small integer bucket of the kind the program uses, to prove the bound on
rounding that model.py claims. Run by `agree.py --self-test`.
"""

import collections
import json
import os
import random
import sys
import tempfile
from fractions import Fraction

import agree
import capture
import generate
import model

SECOND = model.SECOND
MS = 1000000
A, B = bytes((203, 0, 113, 7)), bytes((198, 51, 100, 10))
A6 = bytes.fromhex("20010db8000100020000000000000001")
A6_SAME_64 = bytes.fromhex("20010db8000100020000000000000099")
B6 = bytes.fromhex("20010db8009900000000000000000001")


# ------------------------------------------------------------------------------------------------
# Helpers
# ------------------------------------------------------------------------------------------------


def policy_of(text, **files):
    """A policy from its text; files: name without .txt = content."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            with open(os.path.join(folder, name + ".txt"), "wb") as file:
                file.write(content)
        path = os.path.join(folder, "policy.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write("version: 1\n" + text)
        return model.Policy(path)


def model_of(text, **files):
    return model.Model(policy_of(text, **files))


def udp(source=A, to=B, sport=40000, dport=53, size=42):
    """A whole UDP frame of `size` bytes."""
    body = generate._udp(sport, dport)
    if len(source) == 4:
        frame = generate._ethernet(0x0800, generate._ipv4(source, to, 17, body))
    else:
        frame = generate._ethernet(0x86DD, generate._ipv6(source, B6, 17, body))
    return frame.ljust(size, b"\0")


def tcp(flags, source=A, dport=443):
    return generate._ethernet(
        0x0800, generate._ipv4(source, B, 6, generate._tcp(40000, dport, flags))
    )


def icmp6(kind, hops=64, headers=()):
    """An ICMPv6 frame behind empty extension headers of the given numbers."""
    chain = list(headers) + [58]
    body = b"".join(bytes([inner]) + bytes(7) for inner in chain[1:])
    body += generate._icmp(kind, bytes(16))
    return generate._ethernet(0x86DD, generate._ipv6(A6, B6, chain[0], body, hops))


def reasons(judge, frames, now=0):
    """How often each reason came out for frames at one instant."""
    found = collections.Counter()
    for frame in frames:
        found[judge.judge(now, frame, len(frame))[1]] += 1
    return dict(found)


def check(got, want, what=""):
    if got != want:
        raise AssertionError("%s: got %r, want %r" % (what, got, want))


# ------------------------------------------------------------------------------------------------
# Numbers and lists
# ------------------------------------------------------------------------------------------------


def numbers_are_read_exactly():
    for read, text, want in (
        (model.read_count, "20k", 20000),
        (model.read_item_rate, "1/d", Fraction(1, 86400 * SECOND)),
        (model.read_item_rate, "90/m", Fraction(3, 2 * SECOND)),
        (model.read_item_rate, "1.5k/s", Fraction(1500, SECOND)),
        (model.read_byte_rate, "100Mbit/s", Fraction(12500000, SECOND)),
        (model.read_byte_rate, "8bit/s", Fraction(1, SECOND)),
        (model.read_byte_rate, "1KiB/s", Fraction(1024, SECOND)),
        (model.read_byte_rate, "1kB/s", Fraction(1000, SECOND)),
        (model.read_size, "4MiB", 4194304),
        (model.read_size, "1.5KiB", 1536),
        (model.read_time, "60s", 60 * SECOND),
        (model.read_time, "1500ms", 1500 * MS),
    ):
        check(read(text), want, text)
    for read, text in (
        (model.read_count, "010"),
        (model.read_count, "1 k"),
        (model.read_item_rate, "5"),
        (model.read_size, "10"),
    ):
        try:
            read(text)
        except (ValueError, KeyError):
            continue
        raise AssertionError("%r was accepted" % text)


def spelled_numbers_read_back():
    rng = random.Random("spelling")
    for _ in range(3000):
        wanted = 10 ** rng.uniform(-4, 9)
        text = generate.spell_item_rate(rng, wanted)
        rate = model.read_item_rate(text) * SECOND
        assert Fraction(1, 86400) <= rate <= 4 * 10**9, text
        assert wanted < 1 or abs(rate / Fraction(wanted) - 1) < 0.5, (text, wanted)
        model.read_byte_rate(generate.spell_byte_rate(rng, max(1, wanted)))
        number = rng.randint(1, 10**6)
        assert model.read_size(generate.spell_size(rng, number)) > 0
        check(model.read_count(generate.spell_count(rng, number)), number)
        check(model.read_time(generate.spell_time(rng, number)), number * MS)


def longer_prefix_wins_and_allow_wins_a_tie():
    judge = model_of(
        "allow: [203.0.113.0/24, 203.0.113.9, '2001:db8::/32']\n"
        "deny: [203.0.0.0/16, 203.0.113.7, 203.0.113.9, '2001:db8:1:2::/64']\n"
    )
    for last, want in ((7, "deny"), (8, "allow"), (9, "allow")):
        check(reasons(judge, [udp(bytes((203, 0, 113, last)))]), {want: 1}, last)
    check(reasons(judge, [udp(bytes((203, 0, 1, 1)))]), {"deny": 1})
    check(reasons(judge, [udp(bytes((203, 1, 1, 1)))]), {"unmatched": 1})
    check(reasons(judge, [udp(A6)]), {"deny": 1})


def list_file_is_read_in_every_dress():
    content = b"\xef\xbb\xbf203.0.113.0/24 more columns\r\n\r\n# 192.0.2.1\r\n2001:DB8::1\t# x\r\nno\r\n"
    policy = policy_of("sets: { s: { file: s.txt, on_error: skip } }\ndeny: [s]\n", s=content)
    check(len(policy.sets["s"]), 2)
    check(policy.lists.find(A), (24, "deny"))


# ------------------------------------------------------------------------------------------------
# Parsing
# ------------------------------------------------------------------------------------------------


def base_frame_is_read():
    frame = bytes.fromhex(
        "02000000000102000000000208004500001c0001000040110000cb0071070a0900011388138800080000"
    )
    packet = model.parse(frame, len(frame))
    check(packet[:6], (A, bytes((10, 9, 0, 1)), 17, 5000, 5000, None))
    check(model.parse(frame[:33], 33), model.MALFORMED, "cut header")
    check(model.parse(frame[:34], 34)[2:5], (17, None, None), "no transport header")
    check(model.parse(frame[:41], 41)[3], None, "7 bytes of UDP")
    check(model.parse(frame[:13], 13), model.MALFORMED, "no Ethernet header")
    for position, value, want in (
        (14, 0x44, model.MALFORMED),
        (14, 0x4F, model.MALFORMED),
        (14, 0x65, model.MALFORMED),
        (17, 19, model.MALFORMED),
        (17, 20, 17),
        (17, 0, 17),
        (12, 0x86, model.NON_IP),
    ):
        changed = bytearray(frame)
        changed[position] = value
        packet = model.parse(bytes(changed), len(changed))
        check(packet[2] if isinstance(packet, tuple) else packet, want, "byte %d" % position)


def two_tags_are_read_and_three_are_malformed():
    inner = generate._ipv4(A, B, 17, generate._udp(1, 2))
    for count in range(5):
        tags = [((0x8100, 0x88A8, 0x9100)[n % 3], 0xE000 | 5 + n) for n in range(count)]
        frame = generate._ethernet(0x0800, inner, tags)
        packet = model.parse(frame, len(frame))
        if count > 2:
            check(packet, model.MALFORMED, count)
        else:
            check((packet[4], packet[6]), (2, 5 if count else None), count)
    frame = generate._ethernet(0x0806, bytes(28), [(0x8100, 1)] * 3)
    check(model.parse(frame, len(frame)), model.MALFORMED)
    check(model.parse(frame[:16], 16), model.MALFORMED)


def extension_headers_are_walked():
    body = generate._udp(7, 9)
    for what, first, chain, want in (
        ("none", 17, b"", (17, 7, 9)),
        ("hop-by-hop", 0, bytes([17, 0]) + bytes(6), (17, 7, 9)),
        ("16 bytes", 60, bytes([17, 1]) + bytes(14), (17, 7, 9)),
        ("AH of 24 bytes", 51, bytes([17, 4]) + bytes(22), (17, 7, 9)),
        ("shim6 then HIP", 140, bytes([139, 0]) + bytes(6) + bytes([17, 0]) + bytes(6), (17, 7, 9)),
        ("atomic", 44, bytes([17]) + bytes(7), (17, 7, 9)),
        ("first", 44, bytes([17, 0, 0, 1]) + bytes(4), (17, 7, 9)),
        ("later", 44, bytes([17, 0, 0, 8]) + bytes(4), (17, None, None)),
        ("later, then an extension", 44, bytes([60, 0, 0, 8]) + bytes(4), (60, None, None)),
        ("past the end", 60, bytes([17, 9]) + bytes(6), (17, None, None)),
        ("unknown", 253, b"", (253, None, None)),
        ("ESP", 50, b"", (50, None, None)),
        ("no next header", 59, b"", (59, None, None)),
        ("eight", 60, (bytes([60]) + bytes(7)) * 7 + bytes([17]) + bytes(7), (17, 7, 9)),
    ):
        frame = generate._ethernet(0x86DD, generate._ipv6(A6, B6, first, chain + body))
        check(model.parse(frame, len(frame))[2:5], want, what)
    nine = (bytes([60]) + bytes(7)) * 8 + bytes([17]) + bytes(7)
    frame = generate._ethernet(0x86DD, generate._ipv6(A6, B6, 60, nine + body))
    check(model.parse(frame, len(frame)), model.MALFORMED)
    frame = generate._ethernet(0x86DD, generate._ipv6(A6, B6, 44, bytes(7)))
    check(model.parse(frame, len(frame))[2], None, "fragment header cut off")
    frame = generate._ethernet(0x86DD, generate._ipv6(A6, B6, 60, bytes([17, 0])))
    check(model.parse(frame, len(frame))[2:5], (17, None, None), "two bytes of a header")


def control_is_exactly_what_keeps_links_alive():
    for what, frame, want in (
        ("ND", icmp6(135, 255), True),
        ("ND, hop limit 254", icmp6(135, 254), False),
        ("ND behind hop-by-hop", icmp6(135, 255, [0]), False),
        ("redirect", icmp6(137, 255), False),
        ("MLD", icmp6(143, 1), True),
        ("MLD behind hop-by-hop", icmp6(130, 1, [0]), True),
        ("MLD behind destination options", icmp6(130, 1, [60]), False),
        ("MLD, hop limit 255", icmp6(130, 255), False),
        ("DHCP reply", udp(sport=67, dport=68), True),
        ("DHCP request", udp(sport=68, dport=67), False),
        ("DHCPv6 reply", udp(A6, sport=547, dport=546), True),
        ("DHCPv6 ports on IPv4", udp(sport=547, dport=546), False),
    ):
        check(model.parse(frame, len(frame))[7], want, what)
    for ttl, fragment, want in ((1, 0, True), (2, 0, False), (1, 0x2000, True), (1, 5, False)):
        frame = generate._ethernet(0x0800, generate._ipv4(A, B, 2, bytes(8), ttl, fragment))
        check(model.parse(frame, len(frame))[7], want, "IGMP %d %d" % (ttl, fragment))


# ------------------------------------------------------------------------------------------------
# Algorithms
# ------------------------------------------------------------------------------------------------


def asker(judge):
    """ask(now_ns, cost) -> admitted or not, for one subject."""

    def ask(now, cost=1, factor=1):
        code, state = judge.ask(0, cost, now, factor)
        if code == model.ADMIT:
            judge.state[0] = state
        return code == model.ADMIT

    return ask


def burst_is_admitted_then_rate_holds():
    ask = asker(model.TokenBucket(Fraction(10, SECOND), 5, False, (1,)))
    check([ask(SECOND) for _ in range(6)], [True] * 5 + [False])
    check(ask(SECOND + 100 * MS - 1), False)
    check(ask(SECOND + 100 * MS), True)
    check(ask(SECOND + 100 * MS), False)
    check([ask(3600 * SECOND) for _ in range(6)], [True] * 5 + [False], "full, not fuller")


def packet_larger_than_burst_leaves_a_debt():
    # 1000 B/s, burst 1000: 1500 pass on a full bucket and leave −500; 100 need 600 ms.
    ask = asker(model.TokenBucket(Fraction(1000, SECOND), 1000, True, (1,)))
    check(ask(0, 1500), True)
    check(ask(600 * MS - 1, 100), False)
    check(ask(600 * MS, 100), True)
    # Now 0 tokens; 1500 again need a full bucket.
    check(ask(1600 * MS - 1, 1500), False)
    check(ask(1600 * MS, 1500), True)


def factor_multiplies_rate_and_burst():
    ask = asker(model.TokenBucket(Fraction(10, SECOND), 5, False, (1, 32)))
    check(sum(ask(0, 1, 32) for _ in range(200)), 160)
    check(ask(3124999, 1, 32), False)
    check(ask(3125000, 1, 32), True)


def fixed_window_is_aligned_to_the_epoch():
    ask = asker(model.FixedWindow(3, SECOND))
    check([ask(999 * MS) for _ in range(4)], [True] * 3 + [False])
    check(ask(SECOND - 1), False)
    check(ask(SECOND), True)
    ask = asker(model.FixedWindow(1000, SECOND))
    check([ask(0, 600), ask(0, 600), ask(0, 400), ask(0, 1)], [True, False, True, False])


def sliding_window_meets_the_check_value():
    ask = asker(model.SlidingWindow(50, 60 * SECOND))
    start = 1000 * 60 * SECOND
    check(all(ask(start - 1) for _ in range(42)), True)
    check([ask(start + 15 * SECOND) for _ in range(19)], [True] * 18 + [False])
    # One window on, 18 are previous and 42 are forgotten: 18 + 32 at its first instant.
    check(sum(ask(start + 60 * SECOND) for _ in range(50)), 32)
    check(sum(ask(start + 180 * SECOND) for _ in range(60)), 50)


def sliding_log_drops_an_entry_exactly_as_old_as_the_window():
    ask = asker(model.SlidingLog(2, SECOND))
    check([ask(0), ask(1), ask(2)], [True, True, False])
    check([ask(SECOND - 1), ask(SECOND), ask(SECOND)], [False, True, False])
    check([ask(SECOND + 1), ask(SECOND + 1)], [True, False])


def reserves_are_kept_for_higher_priorities():
    # 1000/s: burst 100. low keeps 50 back, normal 25, high 12.5, critical nothing.
    for priority, want in (("low", 50), ("normal", 75), ("high", 87), ("critical", 100)):
        judge = model_of(
            "overload: { max: { packets: 1k/s } }\n"
            "classes: [{ name: a, match: any, priority: %s }]\n" % priority
        )
        check(reasons(judge, [udp()] * 120), {"admitted": want, "overload": 120 - want}, priority)
    judge = model_of("overload: { max: { packets: 1k/s } }\n")
    check(reasons(judge, [tcp(16)] * 120), {"unmatched": 120}, "other TCP is never refused")
    check(reasons(judge, [udp()]), {"overload": 1}, "but it consumes")
    check(reasons(judge, [udp()], 26 * MS - 1), {"overload": 1}, "down to 0, not below")
    check(reasons(judge, [udp()], 26 * MS), {"unmatched": 1})
    judge = model_of("overload: { max: { connections: 1k/s } }\n")
    check(reasons(judge, [udp(), tcp(16)] * 50 + [tcp(2)] * 80), {"unmatched": 175, "overload": 5})


def integer_bucket_stays_within_the_claimed_bound():
    """Costs and burst in 1/64 ns, rounded down, against the exact bucket; edges follow the integers."""
    rng = random.Random("twin")
    edges = 0
    for case in range(400):
        of_bytes = case % 2 == 1
        rate = Fraction(rng.choice((3, 7, 999, 1001, 30011, 10**6 + 3, 3 * 10**9, rng.randint(1, 10**8))),
                        SECOND * rng.choice((1, 1, 60, 7)))
        burst = rng.choice((1, 2, 5, 100, 1000)) * (300 if of_bytes else 1)
        exact = model.TokenBucket(rate, burst, of_bytes, (1,))
        shift = 20
        multiplier = int(64 / rate * 2**shift) if of_bytes else int(64 / rate) << shift
        if of_bytes:
            tau = burst * multiplier >> shift
        else:
            tau = int(64 * burst / rate)
        due = 0
        now = rng.randrange(10**9)
        for _ in range(400):
            cost = rng.choice((42, 60, 1514)) if of_bytes else 1
            step = cost * multiplier >> shift
            base = max(due, now * 64)
            admitted = base + min(step, tau) - now * 64 <= tau
            code, state = exact.ask(0, cost, now, 1)
            if code == model.EDGE:
                edges += 1
            else:
                check(code == model.ADMIT, admitted, "rate %s, burst %d" % (rate, burst))
            if admitted:
                due = base + step
                exact.state[0] = state if state else exact.state[0]
            # Half of the time the next instant is the last one at which the packet must be refused,
            # or the first at which it must pass.
            conforms = (due + min(step, tau) - tau) // 64
            choice = rng.random()
            if choice < 0.5 and conforms > now:
                now = max(now, conforms + rng.randint(-1, 1))
            elif choice < 0.6:
                now += rng.randrange(1 + int(3 / rate))
    assert 0 < edges < 400 * 400 * 0.2, edges


# ------------------------------------------------------------------------------------------------
# Judgement
# ------------------------------------------------------------------------------------------------


def refused_packet_consumes_nothing():
    judge = model_of(
        "classes:\n"
        "  - name: a\n    match: any\n    limits:\n"
        "      - { name: first, rate: 1/s, burst: 10 }\n"
        "      - { name: second, per: destination, limit: 2, window: 1s, algorithm: fixed-window }\n"
    )
    answers = [judge.judge(0, udp(), 42) for _ in range(5)]
    check([a[3] for a in answers], [None, None, "second", "second", "second"])
    check(sum(judge.judge(SECOND, udp(), 42)[0] == "pass" for _ in range(3)), 2)
    # 10 − 2 + 1 (one second) − 2 = 7 left, so the fixed window goes on naming the verdict.
    check(judge.judge(SECOND, udp(), 42)[3], "second")


def defaults_are_those_of_the_manual():
    judge = model_of("classes: [{ name: a, match: any, limits: [{ rate: 10/s }] }]\n")
    answers = [judge.judge(0, udp(), 42) for _ in range(11)]
    check(answers[9], ("pass", "admitted", "a", None, "203.0.113.7"))
    check(answers[10], ("drop", "limit", "a", "limit-1", "203.0.113.7"))
    check(judge.judge(0, udp(bytes((203, 0, 113, 8))), 42)[0], "pass", "each source its own")
    judge = model_of("classes: [{ name: a, match: any, limits: [{ count: bytes, rate: 1B/s }] }]\n")
    check(reasons(judge, [udp(size=1024)] * 65), {"admitted": 64, "limit": 1}, "64 KiB")


def ipv6_source_is_its_64():
    judge = model_of("classes: [{ name: a, match: any, limits: [{ rate: 1/s }] }]\n")
    check(reasons(judge, [udp(A6), udp(A6_SAME_64)]), {"admitted": 1, "limit": 1})
    check(judge.judge(0, udp(A6_SAME_64), 62)[4], "2001:db8:1:2::99")


def connections_cost_other_packets_nothing():
    judge = model_of(
        "classes: [{ name: a, match: any, limits: [{ count: connections, rate: 1/s, burst: 2 }] }]\n"
    )
    frames = [tcp(2), tcp(0xC2), tcp(2), tcp(18), tcp(16), udp()]
    check([judge.judge(0, f, len(f))[0] for f in frames], ["pass"] * 2 + ["drop"] + ["pass"] * 3)


def control_is_bounded():
    judge = model_of("classes: [{ name: a, match: any, limits: [{ rate: 1/s }] }]\n")
    found = reasons(judge, [icmp6(135, 255)] * 1005)
    check(found, {"control": 1000, "admitted": 1, "limit": 4})
    check(reasons(judge, [icmp6(135, 255)] * 2, 100000), {"control": 1, "limit": 1})


def icmp_errors_pass_ten_a_second_per_source():
    judge = model_of("classes: [{ name: a, match: any, limits: [{ rate: 1/s }] }]\n")
    check(reasons(judge, [icmp6(1)] * 25), {"control": 20, "admitted": 1, "limit": 4})
    check(reasons(judge, [icmp6(2)] * 2, 100 * MS), {"control": 1, "limit": 1})
    judge = model_of("deny: ['2001:db8::/32']\n")
    check(reasons(judge, [icmp6(1)]), {"deny": 1}, "deny comes first")


def ban_follows_refusals():
    text = (
        "classes:\n"
        "  - name: a\n    match: any\n    limits: [{ rate: 1/d, burst: 1 }]\n"
        "    ban: { after: 3, within: 10s, for: 20s }\n"
    )
    judge = model_of(text)
    story = ((0, "admitted"), (1, "limit"), (2, "limit"), (12, "limit"), (13, "limit"),
             (14, "limit"), (15, "ban"), (33, "ban"), (34, "limit"), (44, "limit"), (44, "limit"),
             (45, "ban"))
    # Refusals at 1 and 2; 12 is more than 10 s after 1, so it is the first again; 14 is the third.
    # 44 is exactly 10 s after 34, which still counts.
    for seconds, want in story:
        check(reasons(judge, [udp()], seconds * SECOND), {want: 1}, "at %d s" % seconds)
    judge = model_of("nat: [{ sources: [203.0.113.0/24], factor: 1 }]\n" + text)
    check(reasons(judge, [udp()] * 9), {"admitted": 1, "limit": 8}, "never behind NAT")
    judge = model_of(text.replace("match: any", "match: any\n    mode: monitor"))
    check(reasons(judge, [udp()] * 9), {"admitted": 1, "limit": 8}, "never by a monitored class")


def monitor_drops_nothing():
    text = (
        "mode: monitor\ndeny: [192.0.2.0/24]\n"
        "classes:\n  - name: a\n    match: any\n    limits: [{ rate: 1/s, burst: 1 }]\n"
        "    ban: { after: 2, within: 1s, for: 1s }\n"
    )
    judge = model_of(text)
    answers = [judge.judge(0, udp(), 42)[:2] for _ in range(4)]
    check(answers, [("pass", "admitted")] + [("would-drop", "limit")] * 2 + [("would-drop", "ban")])
    check(judge.judge(0, udp(bytes((192, 0, 2, 1))), 42)[:2], ("would-drop", "deny"))
    check(judge.judge(0, b"", 0), ("would-drop", "malformed", None, None, None))
    judge = model_of("malformed: pass\n")
    check(judge.judge(0, b"", 0), ("pass", "malformed", None, None, None))


def later_fragments_match_only_classes_without_ports():
    judge = model_of(
        "classes:\n  - { name: dns, match: { ports: 53 } }\n  - { name: all, match: { protocol: udp } }\n"
    )
    later = generate._ethernet(
        0x0800, generate._ipv4(A, B, 17, generate._udp(53, 53), fragment=9)
    )
    check(judge.judge(0, later, len(later))[2], "all")
    check(judge.judge(0, udp(), 42)[2], "dns")


def time_never_runs_backwards():
    judge = model_of("classes: [{ name: a, match: any, limits: [{ rate: 1/s, burst: 1 }] }]\n")
    check(reasons(judge, [udp()], 5 * SECOND), {"admitted": 1})
    check(reasons(judge, [udp()], 3 * SECOND), {"limit": 1})
    check(reasons(judge, [udp()], 6 * SECOND), {"admitted": 1})


def example_policy_judges_as_its_comments_say():
    with tempfile.TemporaryDirectory() as folder:
        judge = model.Model(model.Policy(generate.write_example(folder)))
    check(reasons(judge, [udp()]), {"allow": 1})
    check(reasons(judge, [udp(bytes((192, 0, 2, 200)))]), {"deny": 1})
    source = bytes((192, 0, 2, 1))
    check(reasons(judge, [udp(source)] * 500), {"admitted": 400, "limit": 100})
    shared = bytes((100, 64, 0, 1))
    check(reasons(judge, [tcp(2, shared, 8443)] * 330, 60 * SECOND), {"admitted": 320, "limit": 10})


# ------------------------------------------------------------------------------------------------
# The tools themselves
# ------------------------------------------------------------------------------------------------


def captures_read_back_as_written():
    rng = random.Random("captures")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "c")
        for kind in ("pcap", "pcapng"):
            for digits in (6, 9):
                for order in "<>":
                    for marks in (False, True):
                        unit = 1000 if digits == 6 else 1
                        records = [
                            (rng.randrange(2**60) // unit // 10 * unit, bytes(rng.randrange(70)), 70)
                            for _ in range(30)
                        ]
                        capture.write(path, records, kind, digits, order, marks)
                        got = list(capture.read(path))
                        check([(r[0], r[2], r[3]) for r in got], records, (kind, digits, order))
                        check({len(r[1].split(".")[1]) for r in got}, {digits})
        with open(path, "rb") as file:
            data = file.read()
        with open(path, "wb") as file:
            file.write(data[:-5])
        got = []
        try:
            for record in capture.read(path):
                got.append(record)
        except capture.Truncated:
            check(len(got), 29)
            return
    raise AssertionError("a cut file was not noticed")


def same_seed_gives_the_same_bytes():
    def contents(seed):
        with tempfile.TemporaryDirectory() as folder:
            paths = generate.write_pair(seed, folder, 2000)
            found = {}
            for name in sorted(os.listdir(folder)):
                with open(os.path.join(folder, name), "rb") as file:
                    found[name] = file.read()
            answers = list(model.run(*paths))
        return found, answers

    for seed in ("a", "b", "c"):
        check(contents(seed) == contents(seed), True, seed)
    check(contents("a") == contents("b"), False)


def random_policies_bite():
    """Every reason that replay can give without a controller comes up, and enough of each."""
    found = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(40):
            for answer in model.run(*generate.write_pair("bite %d" % seed, folder, 4000)):
                found[answer[3]] += 1
    total = sum(found.values())
    for reason in ("non-ip", "control", "allow", "unmatched", "admitted", "malformed", "deny", "ban",
                   "limit", "overload"):
        assert found[reason] > total / 500, (reason, dict(found))


def planted_faults_are_found():
    with tempfile.TemporaryDirectory() as folder:
        policy_path, capture_path = generate.write_pair("fault", folder, 3000)
        records = list(capture.read(capture_path))
        good = [
            json.dumps(dict(zip(model.FIELDS, answer)))
            for answer in model.run(policy_path, capture_path)
        ]
        policy = model.Policy(policy_path)
        packets, _, _, followed, failure = agree.compare(policy, records, good)
        check((packets, followed, failure), (3000, 0, None))
        for number, field, value in (
            (1, "time", "0.0"),
            (700, "verdict", "maybe"),
            (1500, "reason", "internal"),
            (2000, "class", "nobody"),
            (2500, "limit", "nothing"),
            (3000, "source", "192.0.2.77"),
            (3000, "packet", 1),
        ):
            changed = json.loads(good[number - 1])
            changed[field] = value
            lines = good[: number - 1] + [json.dumps(changed)] + good[number:]
            packets, _, _, _, failure = agree.compare(policy, records, lines)
            check(packets, number, field)
            assert failure.startswith("packet %d\n" % number), failure
        bad = good[:9] + ["{}"] + good[10:]
        assert agree.compare(policy, records, bad)[4].startswith("packet 10:")


TESTS = [
    value
    for name, value in list(globals().items())
    if callable(value)
    and getattr(value, "__module__", "") == __name__
    and value.__code__.co_argcount == 0
]


def main():
    """Runs every function above that takes no argument and tests something; returns the exit status."""
    failed = 0
    for test in TESTS:
        try:
            test()
            print("ok      %s" % test.__name__)
        except AssertionError as error:
            failed += 1
            print("FAILED  %s: %s" % (test.__name__, error))
    print("%d tests, %d failed" % (len(TESTS), failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
