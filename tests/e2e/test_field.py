# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""FIELD sections W and C where files and the command line are all that is needed: degenerate values, units, addresses, feeds.

Which test covers a case of FIELD is found by its number: every case of the sections A, S, W, C and X-03, X-07 stands in the
name or the comment of a test (tests/unit has A-13, A-17 and X-03, the rest is here).
"""

import json

from harness import LOADSHED, case, check, check_adds_up, check_equal, main, run, tally, wait_for
from packets import SYN, tcp_frame, udp_frame

SOURCE, FRIEND = "203.0.113.7", "198.51.100.9"
LIMIT = "version: 1\nclasses:\n  - { name: rest, match: any, limits: [ { %s } ] }\n"


def policy_check(test, text, code=0):
    return run([LOADSHED, "policy", "check", test.file("p.yaml", text)], code=code)


def read_back(test, lab, text):
    """The rate as `policy show` has it, when what it shows has been applied and shows the same."""
    lab.apply(text)
    shown = lab.ls("policy", "show").out
    lab.apply(shown)
    check_equal("%r after a round trip" % text, lab.ls("policy", "show").out, shown)
    return next(word for word in shown.split("rate: ")[1].replace(",", " ").split())


@case("W-05 an empty list, none, /0 and an empty entry have one meaning each")
def degenerate(test):
    lab = test.lab()
    for text, verdict in (("", "pass"), ("allow: []\n", "pass"), ("deny: []\n", "pass"),
                          ("allow: [0.0.0.0/0]\ndeny: [203.0.113.7/32]\n", "drop"),
                          ("allow: [0.0.0.0/0]\ndeny: [0.0.0.0/0]\n", "pass"),
                          ("allow: ['::/0']\n", "pass"), ("deny: ['::/0']\n", "pass")):
        lab.attach("version: 1\n" + text, "--yes")
        lab.ls("policy", "apply", test.file("policy.yaml", "version: 1\n" + text), "--yes")
        got = lab.ls("-o", "json", "explain", SOURCE).json()["verdict"]
        check_equal("%r: %s" % (text, SOURCE), got, verdict)
    for text in ("allow: ['']\n", "allow:\n", "deny: [ , ]\n", "allow: [everybody]\n", "allow: [0]\n", "deny: [/0]\n"):
        err = policy_check(test, "version: 1\n" + text, code=1).err
        check("p.yaml:2:" in err, "%r: %r" % (text, err))
    for words in (["allow", "add", "0.0.0.0/0"], ["deny", "add", "0.0.0.0/0"], ["deny", "add", "::/0"],
                  ["ban", "add", "0.0.0.0/0", "--for", "1m"], ["ban", "add", "::/0", "--for", "1m"]):
        err = lab.ls(*words, code=1).err
        check("every" in err, "%s: %r" % (words, err))


@case("C-01 an unknown, misplaced or misspelt key is refused with its place, and the policy in force stays")
def unknown_keys(test):
    lab = test.lab()
    lab.attach(LIMIT % "rate: 5/s")
    for text, place in ((LIMIT % "rate: 5/s, burts: 10", "3:"), ("version: 1\nrate_limit: 5/s\n", "2:1:"),
                        ("version: 1\ncapacity: { max-sources: 5 }\n", "2:"),
                        ("version: 1\nallow:\n\t- 192.0.2.1\n", "3:"), ("version: 1\nAllow: []\n", "2:1:"),
                        ("version: 1\n'allow ': []\n", "2:1:"), ("version: 1\nallow: []\nallow: []\n", "3:1:")):
        err = lab.apply(text, code=1).err
        check("policy.yaml:" + place in err, "%r: %r" % (text, err))
    check("burst" in lab.apply(LIMIT % "rate: 5/s, burts: 10", code=1).err, "no suggestion")
    check_equal("generation", lab.status()["generation"], 1)


# What is written, and what it means for `count: packets` and for `count: bytes`; None: refused.
UNITS = (("10/s", "10/s", None), ("10k/s", "10k/s", None), ("10K/s", None, None), ("10k", None, None), ("10K", None, None),
         ("10kpps", None, None), ("10 kpps", None, None), ("10Ki", None, None), ("10Ki/s", None, None),
         ("1.5M", None, None), ("1.5M/s", "1.5M/s", None), ("1,000/s", None, None), ("1_000/s", None, None),
         ("1e6/s", None, None), ("+5/s", None, None), ("-5/s", None, None), ("0x10/s", None, None), ("١٠/s", None, None),
         ("1Gbit", None, None), ("1Gbit/s", None, "1Gbit/s"), ("1gbps", None, None), ("1GB/s", None, "8Gbit/s"),
         ("1Mb/s", None, None), ("8Mbit/s", None, "8Mbit/s"), ("1MB/s", None, "8Mbit/s"), ("1MiB/s", None, "8388.608kbit/s"),
         ("10/min", None, None), ("10/m", "10/m", None), ("600/h", "600/h", None), ("1/d", "1/d", None),
         ("1/10s", None, None), ("18446744073709551616/s", None, None), ("10 M/s", None, None), ("10MM/s", None, None),
         ("10kk/s", None, None), ("010/s", None, None), ("0/s", None, None), ("1.0005k/s", None, None), ("", None, None))


@case("C-03 every spelling of a rate is its documented number, and comes back as it was, or is refused with its place")
def units(test):
    lab = test.lab()
    lab.attach("version: 1\n")
    taken = 0
    for text, packets, count_bytes in UNITS:
        for count, wanted in (("packets", packets), ("bytes", count_bytes)):
            policy = LIMIT % ("count: %s, rate: '%s'" % (count, text))
            if wanted is None:
                err = policy_check(test, policy, code=1).err
                check("p.yaml:3:" in err, "%r as %s: %r" % (text, count, err))
                continue
            taken += 1
            shown = read_back(test, lab, policy)
            same = LIMIT % ("count: %s, rate: %s" % (count, wanted))
            check_equal("%r as %s shows as %r, which differs from %s by" % (text, count, shown, wanted), lab.ls(
                "policy", "diff", test.file("p.yaml", same), "--exit-code", code=None).code, 0)
    check(taken >= 10, "only %d were taken" % taken)


@case("C-05 every odd spelling of an address is refused with its line, in policies, feeds and on the command line")
def addresses(test):
    lab = test.lab()
    lab.attach("version: 1\n")
    for text in ("203.0.113.040", "010.0.0.1", "0x7f.1", "127.1", "3405803783", "203.0.113", "1.2.3.4.5", "fe80::1%vs",
                 "203.0.113.7/024", "203.0.113.7/33", "203.0.113.7/24", "::ffff:203.0.113.7", "2001:db8::1::2", "1.2.3.4/"):
        err = policy_check(test, "version: 1\ndeny:\n  - 192.0.2.1\n  - '%s'\n" % text, code=1).err
        check("p.yaml:4:" in err, "policy %r: %r" % (text, err))
        feed = test.file("feed.txt", "192.0.2.1\n%s\n192.0.2.3\n" % text)
        err = lab.ls("ban", "import", feed, "--for", "1m", code=1).err
        check("feed.txt:2:" in err, "feed %r: %r" % (text, err))
        lab.ls("ban", "add", text, "--for", "1m", code=2)
        lab.ls("explain", text, code=2)
        # With on_error: skip the others of the list are taken.
        skip = "version: 1\nsets:\n  bad: { file: feed.txt, on_error: skip }\ndeny: [bad]\n"
        lab.apply(skip, "--yes")
        check_equal("%r skipped" % text, [lab.ls("-o", "json", "explain", "192.0.2.%d" % i).json()["verdict"]
                                          for i in (1, 2, 3)], ["drop", "pass", "drop"])
    check_equal("bans", lab.bans(), [])


@case("C-15 what a class does is what is shown, with what it inherits from the policy's mode")
def inherited(test):
    lab = test.lab()
    one = "  - { name: %s, match: { protocol: udp, ports: [%d] }, limits: [ { rate: 1/m } ]%s }\n"
    classes = "classes:\n" + one % ("a", 1001, "") + one % ("b", 1002, ", mode: monitor")
    lab.attach("version: 1\n" + classes)
    for mode, wanted in (("enforce", ("drop", "would-drop")), ("monitor", ("would-drop", "would-drop"))):
        lab.apply("version: 1\nmode: %s\n" % mode + classes)
        check("mode: " + mode in lab.ls("policy", "show").out or mode == "enforce", "not shown")
        for port, name, verdict in zip((1001, 1002), "ab", wanted):
            before = tally(lab.stats(), verdict, "limit", name)
            lab.send(*[udp_frame(SOURCE, port=port)] * 5)
            wait_for("%s in %s: %s" % (name, mode, verdict),
                     lambda: tally(lab.stats(), verdict, "limit", name) >= before + 4)


@case("W-03 an allowed source loses nothing to overload, limits, bans or panic")
def allowed(test):
    lab = test.lab()
    lab.attach("version: 1\nallow: [%s]\noverload: { max: { packets: 100/s, connections: 10/s } }\n" % FRIEND +
               "classes:\n  - { name: rest, match: any, priority: low, limits: [ { rate: 1/m } ] }\n")
    lab.ls("panic", "--for", "1h")
    lab.ls("ban", "add", "198.51.100.0/24", "--for", "1h")
    frames = [udp_frame("203.0.113.%d" % (i % 200 + 1)) for i in range(2000)]
    friend = [tcp_frame(FRIEND, flags=SYN), udp_frame(FRIEND)] * 200
    lab.send(*frames, *friend)
    wait_for("all judged", lambda: tally(lab.stats(), "pass", "allow") >= 400)
    stats = lab.stats()
    check_adds_up(stats)
    check_equal("allowed", tally(stats, "pass", "allow"), 400)
    check(tally(stats, "drop") > 1800, "the others: %s" % json.dumps(stats["drop"]))


if __name__ == "__main__":
    main()
