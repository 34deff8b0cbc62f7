# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""events and capture: what is refused and what is done, seen while it happens.

Sums: each CPU counts its refusals exactly, and an event stands for those since the one before. What is missing
from the sum is what came after the last sample of each CPU, so less than a refill and a jiffy of a flood (12 ms).
"""

import json
import os
import shutil
import signal
import subprocess
import time

from harness import (LOADSHED, Fail, Skip, case, check, check_adds_up, check_equal, main, run, tally,
                     wait_for)
from packets import (SYN, UDP, eth, fragment6, ipv4, ipv6, tcp_frame, udp, udp_frame)

FLOOD, RARE, OTHER = "203.0.113.7", "198.51.100.9", "198.51.100.10"

POLICY = """version: 1
deny: [198.51.100.9, 192.0.2.0/24]
classes:
  - name: web
    match: { protocol: udp, ports: [7] }
    limits: [ { name: new, rate: 1/h, burst: 1 } ]
  - name: tried
    match: { protocol: udp, ports: [8] }
    mode: monitor
    limits: [ { name: only, rate: 1/h, burst: 1 } ]
  - name: login
    match: { protocol: tcp, ports: [22] }
    limits: [ { name: few, rate: 1/h, burst: 1 } ]
    ban: { after: 3, within: 10s, for: 1h }
"""


class Follower:
    """`loadshed events` or `capture` beside the case; what it prints goes to files, which never block."""

    def __init__(self, test, lab, *arguments, name="events"):
        self.out_path, self.err_path = test.path(name + ".out"), test.path(name + ".err")
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", lab.name + "-srv", LOADSHED, "-I", lab.instance, *arguments],
                stdout=out, stderr=err)
        test.stack.callback(self.kill)
        wait_for("%s is ready" % (arguments,), self.is_ready)

    def is_ready(self):
        if self.process.poll() is not None:
            raise Fail("ended at once: %s" % self.err())
        return "from now on" in self.err() or "capturing" in self.err()

    def err(self):
        with open(self.err_path) as file:
            return file.read()

    def lines(self):
        """Whole lines so far."""
        with open(self.out_path) as file:
            return [json.loads(line) for line in file.read().split("\n")[:-1]]

    def wait_line(self, what, seconds=10, **wanted):
        """The first event that has these values."""
        return wait_for(what, lambda: next(
            (e for e in self.lines() if all(e.get(k) == v for k, v in wanted.items())), None), seconds)

    def end(self, number=signal.SIGINT, code=0):
        self.process.send_signal(number)
        check_equal("exit code", self.wait(), code)

    def ended(self):
        """Its lines, after Ctrl-C."""
        self.end()
        return self.lines()

    def wait(self, seconds=20):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Fail("does not end") from None

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()


def events(test, lab, *arguments, name="events"):
    return Follower(test, lab, "-v", "events", *arguments, name=name)


def packets_of(lines, reason=None, kind="drop"):
    return [e for e in lines if e["event"] == kind and reason in (None, e["reason"])]


def lost_of(lines):
    return sum(e["events"] for e in lines if e["event"] == "lost")


def mark(lab, follower, text):
    """Whatever happened before has been read once this is there."""
    lab.ls("ban", "add", "100.64.%d.1" % len(text), "--for", "1h", "--reason", text)
    follower.wait_line(text, event="ban", reason=text, seconds=30)


@case("EV-01 a flood of one reason hides no other, readers see the same, and sums are the counters")
def flood(test):
    lab = test.lab()
    lab.attach(POLICY)
    readers = [events(test, lab, name="reader-%d" % i) for i in range(3)]
    narrow = events(test, lab, "--reason", "deny", name="narrow")
    beside = lab.flood_start("--from", FLOOD, "--seconds", "4", "--rate", "0")
    rare = lab.flood("--from", RARE, "--rate", "5", "--packets", "15")["sent"]
    sent = beside.wait()["sent"]
    stats = lab.stats()
    check_adds_up(stats)
    for i, reader in enumerate(readers):
        mark(lab, reader, "end" + "." * i)
    wait_for("the narrow reader is done", lambda: len(narrow.lines()) >= rare)
    all_lines = [reader.ended() for reader in readers]

    for lines in all_lines:
        check_equal("rare ones", len(packets_of(lines, "deny")), rare)
        check_equal("what they stand for", sum(e["sampled_of"] for e in packets_of(lines, "deny")), rare)
        flooded = packets_of(lines, "limit")
        counted = tally(stats, "drop", "limit")
        stood_for = sum(e["sampled_of"] for e in flooded)
        bound = os.cpu_count() * 0.012 * sent  # 12 ms on each CPU; the whole flood was of several seconds
        check(counted - bound <= stood_for <= counted, "events stand for %d of %d drops (sent %d)" % (
            stood_for, counted, sent))
        seconds = 5  # of the flood, and what a late start adds
        check(len(flooded) + lost_of(lines) <= os.cpu_count() * (64 + 128 * seconds),
              "%d events of one reason" % len(flooded))
        check(len(flooded) >= 128, "only %d events of a flood of %d" % (len(flooded), sent))
    check_equal("those narrowed to deny", [e["event"] for e in narrow.ended()], ["drop"] * rare)
    totals = [len(packets_of(lines)) + lost_of(lines) for lines in all_lines]
    check_equal("what the three saw or lost", totals, [totals[0]] * 3)
    whole = [packets_of(lines) for lines in all_lines if not lost_of(lines)]
    for lines in whole[1:]:
        # Two CPUs' events may change places when both are being written.
        seen = [sorted((e["id"], e["source"], e["sampled_of"]) for e in which) for which in (lines, whole[0])]
        check(seen[0] == seen[1], "two readers saw different things: %s" % sorted(
            set(seen[0]) ^ set(seen[1]))[:4])


@case("EV-02 a reader that was stopped says how many it lost, and still adds up")
def stopped(test):
    lab = test.lab()
    lab.attach(POLICY)
    lab.ls("ban", "add", "203.0.113.99", "--for", "1h")
    fast, slow = events(test, lab, name="fast"), events(test, lab, name="slow")
    slow.process.send_signal(signal.SIGSTOP)
    malformed = eth(0x800, ipv4(FLOOD, "10.9.0.1", UDP, b"", ihl=3)).hex()
    floods = [lab.flood_start(*options, "--seconds", "4", "--rate", "20000") for options in (
        ("--from", FLOOD), ("--from", FLOOD, "--port", "8"), ("--from", RARE),
        ("--from", "203.0.113.99"), ("--frame", malformed))]
    for one in floods:
        one.wait()
    stats = lab.stats()
    mark(lab, fast, "end")
    slow.process.send_signal(signal.SIGCONT)
    slow.wait_line("the slow one has caught up", event="ban", reason="end", seconds=30)
    lines = {"fast": fast.ended(), "slow": slow.ended()}
    check(lost_of(lines["slow"]) > 0, "it lost nothing, so the test shows nothing")
    shown = {who: sum(1 for e in all_ if e["event"] != "lost") for who, all_ in lines.items()}
    check_equal("shown and lost", shown["slow"] + lost_of(lines["slow"]),
                shown["fast"] + lost_of(lines["fast"]))
    check("too slow" in slow.err(), "nothing on stderr: %r" % slow.err())
    for who, all_ in lines.items():
        for kind, reason in (("drop", "limit"), ("would-drop", "limit"), ("drop", "deny"),
                             ("drop", "ban"), ("drop", "malformed")):
            counted = tally(stats, kind, reason)
            stood_for = sum(e["sampled_of"] for e in packets_of(all_, reason, kind))
            check(0 <= counted - stood_for <= os.cpu_count() * 0.02 * 20000,
                  "%s: %s %s: events stand for %d of %d" % (who, kind, reason, stood_for, counted))


def hostile():
    """Frames that parsers have died of; all of them are malformed or fragments."""
    six, to = "2001:db8:1::7", "fd00:9::1"
    return [
        eth(0x800, b""), eth(0x86DD, b"\x60"), eth(0x8100, b"\0"),
        eth(0x800, ipv4(FLOOD, "10.9.0.1", UDP, b"", ihl=3)),
        eth(0x800, ipv4(FLOOD, "10.9.0.1", UDP, b"", ihl=15)),
        eth(0x800, ipv4(FLOOD, "10.9.0.1", UDP, b"abc", total=5)),
        eth(0x86DD, ipv6(six, to, 44, fragment6(UDP, offset=8) + b"\xff" * 3, length=3)),  # "negative" length
        eth(0x86DD, ipv6(six, to, 44, fragment6(UDP, offset=0, more=True), length=8)),
        eth(0x86DD, ipv6(six, to, 44, b"\x11")),
        eth(0x86DD, ipv6(six, to, 0, (b"\0" + b"\0" * 7) * 9)),
        eth(0x88A8, b"\x00\x01\x81\x00\x00\x02\x81\x00\x00\x03\x08\x00" + ipv4(FLOOD, "10.9.0.1", UDP, b"")),
        udp_frame("192.0.2.1", port=9, size=9000),
    ]


@case("EV-03 hostile frames end neither events nor capture, and are shown as malformed (P-11)")
def hostile_frames(test):
    lab = test.lab("--mtu", 9000)
    lab.attach("version: 1\ndeny: [0.0.0.0/1, 128.0.0.0/1, '::/1', '8000::/1']\n")
    shown, people = events(test, lab), events(test, lab, "-o", "table", name="people")
    path = test.path("hostile.pcapng")
    capture = Follower(test, lab, "capture", "-w", path, name="capture")
    frames = hostile()
    lab.send(*frames)
    wait_for("all of them", lambda: len(packets_of(shown.lines())) >= len(frames))
    lines = packets_of(shown.ended())
    check_equal("how many", len(lines), len(frames))
    check_equal("bytes", [e["bytes"] for e in lines], [max(len(f), 14) for f in frames])
    malformed = [e for e in lines if e["reason"] == "malformed"]
    check(len(malformed) >= 8, "malformed: %d" % len(malformed))
    for event in malformed:
        check_equal("source of a malformed packet", (event["source"], event["port"]), (None, None))
    big = lines[-1]
    check_equal("the large one", (big["bytes"], big["reason"]), (len(frames[-1]), "deny"))
    def lines_for_people():
        with open(people.out_path) as file:
            return len(file.read().splitlines()) == len(frames)
    wait_for("as many lines for people", lines_for_people)
    people.end()
    wait_for("all of them in the capture", lambda: os.path.getsize(path) > sum(min(len(f), 256) for f in frames))
    capture.end(signal.SIGTERM)
    if not shutil.which("tshark"):
        raise Skip("tshark is not installed: the capture was not read")
    fields = tshark(path, "frame.len", "frame.cap_len", "frame.comment")
    check_equal("lengths", [int(f[0]) for f in fields], [len(f) for f in frames])
    check_equal("kept", [int(f[1]) for f in fields], [min(len(f), 256) for f in frames])


def tshark(path, *fields):
    result = run(["tshark", "-r", path, "-T", "fields", *[x for f in fields for x in ("-e", f)]])
    return [line.split("\t") for line in result.out.splitlines()]


@case("EV-04 an event that is read after an edit has the names of the policy that judged it")
def edited(test):
    lab = test.lab()
    lab.attach(POLICY)
    reader = events(test, lab)
    reader.process.send_signal(signal.SIGSTOP)
    lab.send(*[udp_frame(FLOOD, port=7)] * 3)
    for other in ("beta", "gamma"):
        lab.apply("version: 1\nclasses:\n  - name: %s\n    match: { ports: [7] }\n    limits:\n"
                  "      - { name: %s-limit, rate: 1/h, burst: 1 }\n" % (other, other))
        lab.send(*[udp_frame(OTHER, port=7)] * 3)
    reader.process.send_signal(signal.SIGCONT)
    wait_for("six drops", lambda: len(packets_of(reader.lines())) >= 6)
    check_equal("names", [(e["class"], e["limit"], e["generation"]) for e in packets_of(reader.ended())],
                [("web", "new", 1)] * 2 + [("beta", "beta-limit", 2)] * 2 +
                [("gamma", "gamma-limit", 3)] * 2)


@case("EV-05 captures open in tshark with interface and comment; capinfos and editcap take them")
def captures(test):
    if not all(shutil.which(tool) for tool in ("tshark", "capinfos", "editcap")):
        raise Skip("tshark, capinfos or editcap is not installed")
    lab = test.lab()
    lab.attach(POLICY)
    path, limits = test.file("all.pcapng", "something that was there before" * 100), test.path("limit.pcapng")
    whole = Follower(test, lab, "capture", "-w", path, name="whole")
    narrow = Follower(test, lab, "capture", "-w", limits, "--reason", "limit", "--count", "3",
                      "-i", "vs", name="narrow")
    before = time.time()
    frames = ([udp_frame(FLOOD, port=7)] * 4 + [udp_frame(RARE, port=7, size=1000)] +
              [udp_frame(FLOOD, port=8)] * 2)
    lab.send(*frames)
    check_equal("--count ends it", narrow.wait(), 0)
    wait_for("the drops are in the file", lambda: len(tshark_quiet(path)) >= 5)
    whole.end()
    check("5 packets captured, standing for 5" in whole.err(), whole.err())

    rows = tshark(path, "frame.interface_name", "frame.comment", "frame.len", "frame.cap_len", "frame.time_epoch",
                  "ip.src")
    limit = "reason=limit class=web limit=new verdict=drop stands_for=1"
    check_equal("rows", [(r[0], r[1], r[2], r[3], r[5]) for r in rows], [
        ("vs", limit, str(len(frames[0])), str(len(frames[0])), FLOOD)] * 3 + [
        ("vs", "reason=deny verdict=drop stands_for=1", str(len(frames[4])), "256", RARE),
        ("vs", "reason=limit class=tried limit=only verdict=would-drop stands_for=1", str(len(frames[5])),
         str(len(frames[5])), FLOOD)])
    for row in rows:
        check(before - 1 <= float(row[4]) <= time.time() + 1, "time %s" % row[4])
    check_equal("narrowed", [r[0] for r in tshark(limits, "frame.comment")], [limit] * 3)
    info = run(["capinfos", path]).out
    check("Number of packets:   5" in info and "Name = vs" in info, info)
    check("nanoseconds" in info, info)
    run(["editcap", "-F", "pcapng", path, test.path("copy.pcapng")])
    check_equal("after editcap", tshark(test.path("copy.pcapng"), "frame.comment"),
                [[r[1]] for r in rows])


def tshark_quiet(path):
    try:
        return tshark(path, "frame.number")
    except Fail:  # it is being written
        return []


@case("EV-06 capture to a pipe can be read while it grows, and ends with its reader")
def piped(test):
    if not shutil.which("tshark"):
        raise Skip("tshark is not installed")
    lab = test.lab()
    lab.attach(POLICY)
    with open(test.path("err"), "wb") as err:
        capture = subprocess.Popen(["ip", "netns", "exec", lab.name + "-srv", LOADSHED, "-I", lab.instance,
                                    "capture", "-w", "-"], stdout=subprocess.PIPE, stderr=err)
    with open(test.path("out"), "wb") as out:
        reader = subprocess.Popen(["tshark", "-l", "-r", "-", "-c", "2", "-T", "fields", "-e", "frame.comment"],
                                  stdin=capture.stdout, stdout=out, stderr=subprocess.DEVNULL)
    capture.stdout.close()
    test.stack.callback(lambda: [p.kill() or p.wait() for p in (capture, reader) if p.poll() is None])

    def text(name):
        with open(test.path(name)) as file:
            return file.read()
    wait_for("it captures", lambda: "capturing" in text("err"))
    lab.send(*[udp_frame(RARE, port=7)] * 2)
    check_equal("tshark", reader.wait(20), 0)
    check_equal("what it read", text("out"), "reason=deny verdict=drop stands_for=1\n" * 2)
    check_equal("capture ends with its reader", capture.wait(20), 0)


@case("EV-07 events end with exit 0 on a signal and on a closed pipe, and say when the instance is gone")
def ends(test):
    lab = test.lab()
    result = lab.ls("events", code=1)
    check("nothing is attached" in result.err and len(result.err.splitlines()) == 1, result.err)
    check_equal("capture without an instance", lab.ls("capture", "-w", test.path("never"), code=1).code, 1)
    check(not os.path.exists(test.path("never")), "a file was made although nothing is attached")
    lab.attach(POLICY)
    for number in (signal.SIGINT, signal.SIGTERM):
        events(test, lab).end(number)

    with open(test.path("err"), "wb") as err:
        piped_ = subprocess.Popen(["ip", "netns", "exec", lab.name + "-srv", LOADSHED, "-I", lab.instance, "-v",
                                   "events"], stdout=subprocess.PIPE, stderr=err)
    test.stack.callback(lambda: piped_.poll() is None and piped_.kill())
    piped_.stdout.close()  # and nothing happens that could be written
    check_equal("closed pipe", piped_.wait(20), 0)

    counted = events(test, lab, "--count", "2", name="counted")
    lab.send(*[udp_frame(RARE, port=7)] * 5)
    check_equal("--count", (counted.wait(), len(counted.lines())), (0, 2))
    for wrong in (["events", "--reason", "speed"], ["events", "--count", "0"], ["capture"],
                  ["events", "-w", "x"]):
        check_equal("exit of %s" % wrong, lab.ls(*wrong, code=2).err.count("\n"), 1)
    result = lab.ls("capture", "-w", "/nonexistent/x", code=1)
    check("/nonexistent/x" in result.err and result.err.count("\n") == 1, result.err)
    check("not attached there" in lab.ls("events", "-i", "lo", code=1).err, "lo is no interface of ours")

    reader = events(test, lab, name="last")
    lab.ls("detach", "--all")
    check_equal("after detach", reader.wait(), 1)
    check_equal("its last event", (reader.lines()[-1]["event"], reader.lines()[-1]["interface"]),
                ("detach", "vs"))
    check("nothing is attached" in reader.err(), reader.err())


@case("EV-08 what operators and classes do is told, in order")
def journal(test):
    lab = test.lab()
    lab.attach(POLICY)
    reader = events(test, lab)
    lab.ls("ban", "add", "2001:db8:7::/48", "--for", "10m", "--reason", "tëst")
    lab.ls("ban", "del", "2001:db8:7::/48")
    lab.ls("ban", "import", test.file("feed.txt", "203.0.113.5\n203.0.113.6\n"), "--for", "1h")
    lab.ls("panic", "--for", "5m", "--yes")
    lab.ls("off", "--for", "1m")
    lab.ls("on")
    lab.apply(POLICY.replace("1/h", "2/h"), "--confirm", "1h")
    lab.ls("policy", "confirm")
    lab.ls("policy", "rollback")
    lab.ls("deny", "add", "192.0.3.0/24")
    lab.ls("allow", "del", "192.0.3.0/24", code=1)  # changed nothing: tells nothing
    lab.send(*[tcp_frame(OTHER, port=22, flags=SYN)] * 5)
    lab.ls("attach", "vs", "--monitor")
    reader.wait_line("the last one", event="mode", action="monitor")
    lines = [e for e in reader.ended() if e["event"] not in ("drop", "would-drop")]

    def short(event):
        keys = ("event", "action", "source", "seconds", "origin", "reason", "generation", "confirm_seconds")
        return {k: event[k] for k in keys if event.get(k) is not None}
    path = test.path("feed.txt")
    check_equal("events", [short(e) for e in lines], [
        {"event": "ban", "source": "2001:db8:7::/48", "seconds": 600, "origin": "operator", "reason": "tëst"},
        {"event": "unban", "source": "2001:db8:7::/48", "origin": "operator"},
        {"event": "ban", "seconds": 3600, "origin": "import", "reason": "2 of 2 entries of " + path},
        {"event": "mode", "action": "panic", "seconds": 300},
        {"event": "mode", "action": "off", "seconds": 60},
        {"event": "mode", "action": "on"},
        {"event": "policy", "action": "apply", "generation": 2, "confirm_seconds": 3600},
        {"event": "policy", "action": "confirm", "generation": 2},
        {"event": "policy", "action": "rollback", "generation": 1},
        {"event": "policy", "action": "apply", "generation": 3},
        {"event": "ban", "source": OTHER, "seconds": 3600, "origin": "class", "reason": "login"},
        {"event": "mode", "action": "monitor"},
    ])
    times = [e["time"] for e in lines]
    check_equal("in order of time", times, sorted(times))


@case("EV-09 an instance of a build without events goes on, says so, and gets them at the next attach")
def upgraded(test):
    lab = test.lab()
    with open(LOADSHED, "rb") as file:
        program = file.read()
    # The licence is part of the object that the program carries: another one is another build.
    check(program.count(b"Dual BSD/GPL\0") > 0, "the object is not where it was looked for")
    old = test.file("old", program.replace(b"Dual BSD/GPL\0", b"Dual MIT/GPL\0"))
    os.chmod(old, 0o755)
    lab.srv(old, "-I", lab.instance, "attach", "vs", "--policy", test.file("policy.yaml", POLICY))
    early = events(test, lab, name="early")
    check("another build's" in early.err(), "nothing about the other build: %r" % early.err())
    early.end()
    inode = int(lab.srv("stat", "-Lc", "%i", "/proc/self/ns/net").out)
    os.unlink("/sys/fs/bpf/loadshed/%s@%d/ls_events" % (lab.instance, inode))
    lab.send(*[udp_frame(RARE, port=7)] * 4)
    for verb in (["events"], ["capture", "-w", test.path("x")]):
        result = lab.ls(*verb, code=1)
        check("too old" in result.err and "loadshed attach" in result.err and result.err.count("\n") == 1,
              result.err)
    lab.ls("ban", "add", OTHER, "--for", "1h")
    check_equal("drops", tally(lab.stats(), "drop", "deny"), 4)

    lab.ls("attach", "vs")
    check_equal("drops, kept", tally(lab.stats(), "drop", "deny"), 4)
    check_equal("bans, kept", [b["source"] for b in lab.bans()], [OTHER])
    reader = events(test, lab)
    lab.send(*[udp_frame(RARE, port=7)] * 4)
    wait_for("events of the new program", lambda: len(packets_of(reader.lines(), "deny")) == 4)
    reader.end()


@case("EV-10 -i narrows to one interface; a reader goes on when the instance is attached anew")
def interfaces(test):
    lab = test.lab()
    for command in (("link", "add", "ws", "type", "veth", "peer", "name", "wc"),
                    ("link", "set", "wc", "netns", lab.name + "-cli"), ("link", "set", "ws", "up")):
        lab.srv("ip", *command)
    lab.cli("ip", "link", "set", "wc", "up")
    lab.attach(POLICY)
    lab.ls("attach", "ws")
    both, one = events(test, lab, name="both"), events(test, lab, "-i", "ws", name="one")
    lab.send(*[udp_frame(RARE, port=7)] * 3)
    code = ("import socket,sys;s=socket.socket(17,3);s.bind(('wc',0));"
            "[s.send(bytes.fromhex(l.strip())) for l in sys.stdin]")
    lab.cli("/usr/bin/python3", "-S", "-c", code, stdin=udp_frame("192.0.2.2", port=7).hex().encode())
    one.wait_line("the one on ws", event="drop", source="192.0.2.2", interface="ws")
    wait_for("all four", lambda: len(packets_of(both.lines())) == 4)
    check_equal("both", sorted(e["interface"] for e in packets_of(both.ended())), ["vs", "vs", "vs", "ws"])
    check_equal("one", [e["source"] for e in packets_of(one.ended())], ["192.0.2.2"])

    again = events(test, lab, name="again")
    again.process.send_signal(signal.SIGSTOP)  # it must not look while nothing is attached
    lab.ls("detach", "--all")
    lab.attach(POLICY)
    lab.send(udp_frame(RARE, port=7))
    again.process.send_signal(signal.SIGCONT)
    again.wait_line("a drop in the new instance", event="drop", source=RARE)
    check_equal("over the change", [(e["event"], e.get("interface")) for e in again.ended()], [
        ("detach", "vs"), ("detach", "ws"), ("policy", None), ("attach", "vs"), ("drop", "vs")])


@case("events: what ends by itself is told while serve runs, and what a command ends is told once")
def ended_by_itself(test):
    lab = test.lab()
    lab.attach(POLICY)
    reader = events(test, lab)
    serve = subprocess.Popen(["ip", "netns", "exec", lab.name + "-srv", LOADSHED, "-I", lab.instance, "serve", "--metrics",
                              "none"], stdin=subprocess.DEVNULL, stderr=open(test.path("serve.log"), "wb"))
    test.stack.callback(lambda: (serve.kill(), serve.wait()))
    wait_for("serve looks", lambda: "does not run" not in " ".join(lab.status()["degraded"]))
    lab.ls("panic", "--for", "1s", "--yes")
    reader.wait_line("the end of panic", event="mode", action="panic-end")
    lab.ls("off", "--for", "1s")
    reader.wait_line("the end of off", event="mode", action="off-end")
    lab.ls("overload", "set", "low", "--for", "1s")
    reader.wait_line("the end of the level", event="overload", action="end")
    lab.ls("off", "--for", "1m")
    lab.ls("on")
    lab.ls("overload", "set", "low", "--for", "1m")
    lab.ls("overload", "auto")
    lab.ls("off", "--for", "1s")
    wait_for("the second end", lambda: sum(e.get("action") == "off-end" for e in reader.lines()) == 2)
    check_equal("levels", sum(e.get("event") == "overload" and e.get("action") == "end" for e in reader.lines()), 1)


if __name__ == "__main__":
    main()
