# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""FIELD sections M and S: what is kept in the kernel, and what becomes of it over time."""

import json
import os
import shutil
import subprocess
import time

from harness import (LOADSHED, Skip, case, check, check_adds_up, check_equal, check_within, data, main, run,
                     tally, wait_for)

SOURCE, OTHER, ALLOWED = "203.0.113.7", "198.51.100.9", "192.0.2.9"
REST = "classes:\n  - { name: rest, match: { protocol: udp }, limits: [{ %s }] }\n"


def arrived(lab, source, packets=20, rate=10000):
    """How many of so many packets of a source get through."""
    sink = lab.sink(it=source)
    lab.flood("--from", source, "--packets", packets, "--rate", rate)
    return sink.stop()["classes"]["it"]["packets"]


@case("M-01 a spoofed flood pushes out no ban, no limited source and no allow entry")
def pushed_out(test):
    lab = test.lab()
    lab.attach("version: 1\ncapacity: { sources: 10k }\nallow: [192.0.2.9]\n" + REST % "rate: 5/h, burst: 5")
    lab.ls("ban", "add", SOURCE, "--for", "10m")
    check_equal("first five", arrived(lab, OTHER, 10), 5)
    for turn in range(3):
        lab.flood("--from", "100.64.0.0/10", "--sources", 40000, "--packets", 40000, "--rate", 100000,
                  "--seed", turn + 10)
    check_equal("banned", arrived(lab, SOURCE), 0)
    check_equal("limited", arrived(lab, OTHER), 0)
    check_equal("allowed", arrived(lab, ALLOWED), 20)
    check_equal("ban list", [ban["source"] for ban in lab.bans()], [SOURCE])
    check_adds_up(lab.stats())


@case("M-01 the real spoofed SYN flood, three times over")
def pushed_out_real(test):
    with open(data("pkt.TCP.synflood.spoofed.pcap"), "rb") as file:
        capture = file.read()
    policy = ("version: 1\nclasses:\n  - name: rest\n    match: any\n    limits:\n"
              "      - { name: own, count: connections, rate: 10/s }\n"
              "      - { name: all, per: class, count: connections, rate: 500/s, burst: 500 }\n")
    summary = test.replay(policy, capture)
    check_equal("packets", summary["packets"], 37841)
    check(summary["pass"] <= 500 + 500 * 24, "%d passed" % summary["pass"])
    check_equal("reasons", sum(summary["reasons"].values()), summary["packets"])


@case("M-03 a full table gives no free pass, and is seen")
def full(test):
    lab = test.lab()
    lab.attach("version: 1\ncapacity: { sources: 1000 }\n" + REST % "rate: 1/s, burst: 5")
    sink = lab.sink(flood="100.64.0.0/10")
    sent = lab.flood("--from", "100.64.0.0/10", "--sources", 20000, "--packets", 400000, "--rate", 100000)
    got = sink.stop()
    stats = lab.stats()
    check_adds_up(stats)
    passed = got["classes"]["flood"]["packets"]
    dropped = tally(stats, "drop", None, "rest")
    if got["lost"] == 0:
        check_equal("sent = passed + dropped", passed + dropped, sent["sent"])
    check(tally(stats, "drop", "crowd") > 0, "no crowd drops: %r" % stats["classes"])
    # 4 000 ways: so many sources have their burst and rate, all others together one of each
    bound = (16384 + 1) * (5 + sent["seconds"])
    check(passed <= bound, "%d of %d passed, at most %d may" % (passed, sent["sent"], bound))


@case("M-05 a list of 100 000 prefixes is replaced under traffic, without a gap")
def big_list(test):
    lab = test.lab()
    entries = ["%d.%d.%d.0/24" % (i % 90 + 11, i // 90 % 256, i // 23040) for i in range(100000)]
    lists = [test.file("list%d.txt" % turn, "\n".join(entries[turn:] + [SOURCE]) + "\n")
             for turn in range(2)]
    policies = ["version: 1\nsets:\n  bad: { file: list%d.txt }\ndeny: [bad]\n" % turn for turn in range(2)]
    del lists
    lab.attach(policies[0])
    sink = lab.sink(bad=SOURCE, good=OTHER)
    bad = lab.flood_start("--from", SOURCE, "--rate", 2000, "--seconds", 100)
    good = lab.flood_start("--from", OTHER, "--rate", 2000, "--seconds", 100)
    times = []
    for turn in range(10):
        start = time.monotonic()
        lab.apply(policies[(turn + 1) % 2])
        times.append(time.monotonic() - start)
    bad, good = bad.stop(), good.stop()
    got = sink.stop()
    check_equal("let through of the listed", got["classes"]["bad"]["packets"], 0)
    check_equal("let through of the others", got["classes"]["good"]["packets"] + got["lost"], good["sent"])
    check(max(times) < 5, "an apply took %.1f s" % max(times))


@case("M-05 real lists of whole countries are applied")
def real_lists(test):
    lab = test.lab()
    sets = "".join("  s%d: { file: %s }\n" % (i, data("lists/" + name)) for i, name in enumerate(
        ("prefixes-v4-172k.txt", "prefixes-v6-73k.txt", "hosts-120k.txt", "hosts-with-counts.txt")))
    lab.attach("version: 1\nsets:\n%sdeny: [s0, s1, s2, s3]\nallow: ['10.9.0.0/24', 'fd00:9::/64']\n" % sets)
    for target in ("10.9.0.1", "fd00:9::1"):
        lab.cli("ping", "-c", 3, "-i", 0.1, "-W", 3, target)
    lab.ls("detach", "--all")


def _range(how, policy, prepare):
    """M-07 for one way of naming the ranges; prepare(lab, test) does what the policy does not."""
    inside = ("203.0.113.0", "203.0.113.1", "203.0.113.149", "203.0.113.255", "2001:db8:1::1",
              "2001:db8:1:ffff:ffff:ffff:ffff:ffff")
    outside = ("203.0.112.255", "203.0.114.0", "2001:db8:0:ffff::1", "2001:db8:2::")

    @case("M-07 a range holds for all its addresses: " + how)
    def ranges(test):
        test.file("feed.txt", "203.0.113.0/24 # comment\r\n2001:db8:1::/48\n")
        lab = test.lab()
        lab.attach(policy)
        prepare(lab, test)
        for source in inside:
            check_equal(source, arrived(lab, source, 3), 0)
        for source in outside:
            check_equal(source, arrived(lab, source, 3), 3)


def _each(*verb):
    return lambda lab, test: [lab.ls(*(verb[:2] + (source,) + verb[2:]))
                              for source in ("203.0.113.0/24", "2001:db8:1::/48")]


_range("ban add", "version: 1\n", _each("ban", "add", "--for", "10m"))
_range("ban import", "version: 1\n",
       lambda lab, test: lab.ls("ban", "import", test.path("feed.txt"), "--for", "10m"))
_range("deny in the policy", "version: 1\ndeny: [203.0.113.0/24, '2001:db8:1::/48']\n",
       lambda lab, test: None)
_range("deny from a file", "version: 1\nsets:\n  feed: { file: feed.txt }\ndeny: [feed]\n",
       lambda lab, test: None)
_range("deny add", "version: 1\n", _each("deny", "add"))


@case("M-09 listing what changes ends, without duplicates")
def listing(test):
    lab = test.lab()
    lab.attach("version: 1\ncapacity: { sources: 10k }\nclasses:\n  - name: rest\n    match: { protocol: udp }\n"
               "    limits: [{ rate: 1/s, burst: 1 }]\n    ban: { after: 2, within: 10s, for: 5s }\n")
    flood = lab.flood_start("--from", "100.64.0.0/10", "--sources", 5000, "--rate", 40000, "--seconds", 60)
    wait_for("class bans", lab.bans)
    for _ in range(20):
        start = time.monotonic()
        bans = [ban["source"] for ban in lab.bans()]
        check_equal("duplicates", len(bans), len(set(bans)))
        check(len(bans) <= 5000, "%d bans of 5000 sources" % len(bans))
        check_adds_up(lab.stats())
        lab.status()
        check(time.monotonic() - start < 6, "three verbs took %.1f s" % (time.monotonic() - start))
    flood.stop()


@case("M-13 another build takes over with bans and counters kept")
def upgrade(test):
    other = os.environ.get("LOADSHED_OTHER")
    if not other:
        raise Skip("LOADSHED_OTHER names no other build of the program")
    lab = test.lab()
    path = test.file("policy.yaml", "version: 1\ndeny: [198.51.100.9]\n")
    lab.srv(other, "-I", lab.instance, "attach", "vs", "--policy", path)
    lab.srv(other, "-I", lab.instance, "ban", "add", SOURCE, "--for", "1h")
    arrived(lab, SOURCE, 10)
    # Asked of that build: where the layouts differ, this one does not read it.
    before = json.loads(lab.srv(other, "-I", lab.instance, "-o", "json", "status").out)["interfaces"][0]
    is_same_layout = "carried over" not in lab.ls("attach", "vs").err
    after = lab.interface()
    check_equal("link", after["link_id"], before["link_id"])
    check(after["program_id"] != before["program_id"], "the program is the old one")
    check_equal("bans", [ban["source"] for ban in lab.bans()], [SOURCE])
    if is_same_layout:
        check_equal("counted before", tally(lab.stats(), "drop", "ban"), 10)
    check_equal("banned", arrived(lab, SOURCE), 0)
    check_equal("denied", arrived(lab, OTHER), 0)


def make_other_layout(lab):
    """Says in the pinned state that a build with another layout made it."""
    inode = lab.srv("stat", "-Lc", "%i", "/proc/self/ns/net").out.strip()
    pin = "/sys/fs/bpf/loadshed/%s@%s/ls_state" % (lab.instance, inode)
    state = json.loads(run(["bpftool", "-j", "map", "dump", "pinned", pin]).out)[0]["value"]
    state[0] = "0xff"
    run(["bpftool", "map", "update", "pinned", pin, "key", "0", "0", "0", "0", "value", *state])


@case("M-13 a build with another layout of the maps takes over policy, bans, off, panic and a confirm that is pending")
def upgrade_layout(test):
    if shutil.which("bpftool") is None:
        raise Skip("needs bpftool")
    lab = test.lab()
    lab.attach("version: 1\ndeny: [198.51.100.9]\n")
    lab.ls("ban", "add", SOURCE, "--for", "1h")
    lab.ls("off", "--for", "1h")
    lab.ls("panic", "--for", "2h")
    lab.apply("version: 1\nallow: [198.51.100.9]\n", "--confirm", "6s")
    before = lab.status()
    make_other_layout(lab)
    check("carried over" in lab.ls("attach", "vs").err, "not said")
    after = lab.status()
    check_equal("link", after["interfaces"][0]["link_id"], before["interfaces"][0]["link_id"])
    for name in ("generation", "policy_sha256", "mode"):
        check_equal(name, after[name], before[name])
    for name in ("off_seconds", "panic_seconds", "confirm_seconds"):
        check(after[name] and before[name] - 5 < after[name] <= before[name], "%s: %s, before %s" % (
            name, after[name], before[name]))
    lab.ls("on")
    check_equal("banned", arrived(lab, SOURCE), 0)
    wait_for("the deadline", lambda: lab.status()["confirm_seconds"] is None, 10)
    check_equal("denied again", arrived(lab, OTHER), 0)


@case("A-07 the lock goes with the instance, and who waited for it gets one that others see")
def lock_goes(test):
    lab = test.lab()

    def locks():
        return [name for name in os.listdir("/run/loadshed")
                if name.startswith(lab.instance + "@") and name.endswith(".lock")]

    lab.attach()
    check_equal("while attached", len(locks()), 1)
    verbs = [["attach", "vs"], ["ban", "add", SOURCE, "--for", "1h"], ["detach", "--all"], ["detach", "vs"]]
    for turn in range(8):  # all at once: none may see half of another
        runs = [subprocess.Popen(["ip", "netns", "exec", lab.name + "-srv", LOADSHED, "-I", lab.instance, *verb],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for verb in verbs]
        for verb, one in zip(verbs, runs):
            err = one.communicate(timeout=60)[1].decode()
            check(one.returncode == 0 or (verb[0] == "ban" and "attached" in err), "%s: %r" % (verb, err))
    lab.ls("detach", "--all")
    check_equal("after detach", locks(), [])
    lab.ls("ban", "add", SOURCE, "--for", "1h", code=1)
    check_equal("after a verb on nothing", locks(), [])


@case("S-02 adding a ban again renews it, and the later end wins")
def renewed(test):
    lab = test.lab()
    lab.attach()

    def left():
        return {ban["source"]: ban["remaining_seconds"] for ban in lab.bans()}

    lab.ls("ban", "add", SOURCE, "--for", "5s")
    lab.ls("ban", "add", SOURCE, "--for", "100s")
    check(95 < left()[SOURCE] <= 100, "left after renewal: %r" % left())
    lab.ls("ban", "add", SOURCE, "--for", "10s", code=None)
    check(90 < left()[SOURCE] <= 100, "left after a shorter one: %r" % left())
    lab.ls("ban", "del", SOURCE)
    check(SOURCE not in left(), "still there after del")
    lab.ls("ban", "del", SOURCE, code=1)


@case("S-02 importing a feed again renews all of it")
def feed_renewed(test):
    lab = test.lab()
    lab.attach()
    feed = test.file("feed.txt", "".join("198.18.%d.%d\n" % (i // 250, i % 250 + 1) for i in range(1000)))
    lab.ls("ban", "import", feed, "--for", "3s")
    lab.ls("ban", "import", feed, "--for", "60s")
    remaining = [ban["remaining_seconds"] for ban in lab.bans()]
    check_equal("imported", len(remaining), 1000)
    check(min(remaining) > 50, "left of the imported: %s" % min(remaining))
    check_equal("origins", {ban["origin"] for ban in lab.bans()}, {"import"})


@case("S-02 a ban ends by itself, in the kernel, when it said")
def ends(test):
    lab = test.lab()
    lab.attach()
    start = time.monotonic()
    lab.ls("ban", "add", SOURCE, "--for", "2s")
    check_equal("while it lasts", arrived(lab, SOURCE, 5), 0)
    flood = lab.flood_start("--from", SOURCE, "--rate", 200, "--seconds", 20)
    passed = tally(lab.stats(), "pass", "unmatched")
    wait_for("the end of the ban", lambda: tally(lab.stats(), "pass", "unmatched") > passed + 5, 10)
    took = time.monotonic() - start
    flood.stop()
    check(1.9 < took < 4, "it lasted %.1f s" % took)
    check_equal("ban list", lab.bans(), [])


@case("S-08 a new limit reaches sources that are known already")
def new_limits(test):
    lab = test.lab()
    policy = "version: 1\n" + REST
    lab.attach(policy % "rate: 500/s, burst: 50")
    flood = lab.flood_start("--from", SOURCE, "--rate", 1000, "--seconds", 60)

    def rate(seconds=2.0):
        """Packets per second that are admitted from now on."""
        first, start = tally(lab.stats(), "pass", "admitted"), time.monotonic()
        wait_for("time to measure", lambda: time.monotonic() - start > seconds, seconds + 5)
        last, end = tally(lab.stats(), "pass", "admitted"), time.monotonic()
        return (last - first) / (end - start)

    wait_for("refusals", lambda: tally(lab.stats(), "drop", "limit") > 10)
    check_within("at 500/s", rate(), 500, 0.08)
    lab.apply(policy % "rate: 50/s, burst: 5")
    check_within("lowered to 50/s", rate(), 50, 0.2)
    lab.apply(policy % "rate: 2k/s, burst: 200")
    check_within("raised to 2000/s", rate(), 1000, 0.08)
    flood.stop()


@case("S-08 a raised rate reaches at once whom a slow one had refused")
def raised(test):
    lab = test.lab()
    for slow, fast in (("rate: 1/d, burst: 1", "rate: 1k/s, burst: 100"),
                       ("rate: 1/h, burst: 1, per: class", "rate: 1k/s, burst: 100, per: class"),
                       ("rate: 1B/s, burst: 10kB, count: bytes", "rate: 1MB/s, burst: 10kB, count: bytes")):
        for between in (False, True):  # also when the limit was away for a while
            lab.attach("version: 1\n" + REST % slow)
            check(arrived(lab, SOURCE, 400) < 400, "%s: not refused" % slow)
            if between:
                lab.apply("version: 1\n")
                lab.apply("version: 1\nmode: monitor\n")
            lab.apply("version: 1\n" + REST % fast)
            start = time.monotonic()
            wait_for("the bucket to fill", lambda: time.monotonic() > start + 0.5)
            got = arrived(lab, SOURCE, 50, 200)
            check(got >= 48, "%s, then %s: %d of 50 arrived" % (slow, fast, got))
            lab.ls("detach", "--all")


@case("S-08 a counter never goes down when a class is inserted")
def counters_stay(test):
    lab = test.lab()
    lab.attach("version: 1\n" + REST % "rate: 1/h, burst: 5")
    arrived(lab, SOURCE, 20)
    check_equal("refused", tally(lab.stats(), "drop", "limit", "rest"), 15)
    lab.apply("version: 1\nclasses:\n  - { name: first, match: { protocol: sctp } }\n" +
              (REST % "rate: 1/h, burst: 5").split("\n", 1)[1])
    check_equal("refused after the insertion", tally(lab.stats(), "drop", "limit", "rest"), 15)
    check_equal("state kept", arrived(lab, SOURCE, 5), 0)
    check_equal("refused then", tally(lab.stats(), "drop", "limit", "rest"), 20)


@case("S-10 no gap while a list is swapped, nor after a swap that fails")
def swap(test):
    lab = test.lab()
    entries = "".join("%d.%d.%d.%d\n" % (i % 90 + 11, i // 90 % 256, i // 23040, i % 256)
                      for i in range(100000))
    for turn in range(2):
        test.file("bad%d.txt" % turn, entries + SOURCE + "\n198.18.0.%d\n" % (turn + 1))
    test.file("broken.txt", entries + "203.0.113.999\n")
    text = "version: 1\nsets: { bad: { file: %s } }\ndeny: [bad]\nallow: [192.0.2.9]\n"
    strict = REST % "rate: 1/d, burst: 1"
    lab.attach(text % "bad0.txt" + strict)
    sink = lab.sink(bad=SOURCE, allowed=ALLOWED)
    bad = lab.flood_start("--from", SOURCE, "--rate", 5000, "--seconds", 100)
    allowed = lab.flood_start("--from", ALLOWED, "--rate", 5000, "--seconds", 100)
    for turn in range(20):
        lab.apply(text % ("bad%d.txt" % ((turn + 1) % 2)) + strict)
        if turn % 5 == 0:
            result = lab.apply(text % "broken.txt" + strict, code=1)
            check("broken.txt:100001" in result.err, "the line is not named: %r" % result.err)
    bad, allowed = bad.stop(), allowed.stop()
    got = sink.stop()
    check_equal("let through of the denied", got["classes"]["bad"]["packets"], 0)
    check_equal("let through of the allowed", got["classes"]["allowed"]["packets"] + got["lost"],
                allowed["sent"])
    check_equal("denied", tally(lab.stats(), "drop", "deny"), bad["sent"])


@case("S: confirm that does not come puts the old policy back, in the kernel")
def confirm(test):
    lab = test.lab()
    lab.attach("version: 1\n")
    lab.apply("version: 1\ndeny: [203.0.113.7]\n", "--confirm", "2s")
    check_equal("while pending", arrived(lab, SOURCE, 5), 0)
    refused = lab.apply("version: 1\ndeny: [198.51.100.9]\n", code=1)
    check("confirm" in refused.err, "stderr: %r" % refused.err)
    wait_for("the old policy", lambda: arrived(lab, SOURCE, 5) == 5, 15)
    lab.apply("version: 1\ndeny: [203.0.113.7]\n", "--confirm", "30s")
    lab.ls("policy", "confirm")
    check_equal("confirmed", lab.status()["confirm_seconds"], None)
    check_equal("after confirm", arrived(lab, SOURCE, 5), 0)
    lab.ls("policy", "rollback")
    check_equal("after rollback", arrived(lab, SOURCE, 5), 5)


@case("S: a class bans a source that does not stop, and never an allowed one")
def class_ban(test):
    lab = test.lab()
    lab.attach("version: 1\nallow: [192.0.2.9]\nclasses:\n  - name: rest\n    match: { protocol: udp }\n"
               "    limits: [{ rate: 10/h, burst: 10 }]\n    ban: { after: 5, within: 10s, for: 10m }\n")
    check_equal("let through", arrived(lab, SOURCE, 100), 10)
    check_equal("allowed", arrived(lab, ALLOWED, 100), 100)
    stats = lab.stats()
    check_equal("refused, then banned", (tally(stats, "drop", "limit"), tally(stats, "drop", "ban")), (5, 85))
    check_equal("bans", [(ban["source"], ban["origin"]) for ban in lab.bans()], [(SOURCE, "class")])


@case("C-11 a save that is killed or forbidden leaves no half file, and no litter for long")
def saves(test):
    lab = test.lab()
    lab.attach("version: 1\n")
    saved = next(path for path, _, files in os.walk("/var/lib/loadshed/" + lab.instance) if "attach" in files)
    open(saved + "/.ls-4194304-0", "w").close()  # of a pid that the kernel never gives
    before = sorted(os.listdir(saved))
    result = lab.srv("prlimit", "--fsize=0", LOADSHED, "-I", lab.instance, "ban", "add", SOURCE, "--for", "1h",
                     code=1)
    check("not saved" in result.err and "large" in result.err, "said: %r" % result.err)
    check_equal("bans", [ban["source"] for ban in lab.bans()], [SOURCE])
    check_equal("files", sorted(os.listdir(saved)), [name for name in before if not name.startswith(".ls-")])


@case("S: an allowed source and /0 cannot be banned, and IPv6 is widened aloud")
def ban_refusals(test):
    lab = test.lab()
    lab.attach("version: 1\nallow: [192.0.2.0/24]\n")
    for source in ("192.0.2.9", "0.0.0.0/0", "::/0", "203.0.113.7/24", "203.0.113.999"):
        result = lab.ls("ban", "add", source, "--for", "10m", code=None)
        check(result.code in (1, 2), "ban add %s: exit %d" % (source, result.code))
    result = lab.ls("ban", "add", "2001:db8:1:2:3::4", "--for", "10m")
    check("2001:db8:1:2::/64" in result.out + result.err, "not said: %r" % (result.out + result.err))
    check_equal("ban list", [ban["source"] for ban in lab.bans()], ["2001:db8:1:2::/64"])
    check_equal("its neighbour in the /64", arrived(lab, "2001:db8:1:2:ffff::1", 3), 0)
    lab.apply("version: 1\nallow: [192.0.2.0/24]\ndeny: [192.0.2.128/25]\n")
    result = lab.ls("ban", "add", "192.0.2.0/24", "--for", "10m")
    check("allow" in result.err, "a ban of what is allowed in part: %r" % result.err)
    check(run([LOADSHED, "ban", "add"], code=None).code == 2, "no source is no usage error")


if __name__ == "__main__":
    main()
