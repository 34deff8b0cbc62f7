# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""explain: why a client is refused, on one screen and as JSON, from what packets are really judged by."""

import os

from harness import LOADSHED, case, check, check_equal, main, run

import packets

SOURCE, OTHER, SERVER = "203.0.113.7", "203.0.113.9", "10.9.0.1"
POLICY = """version: 1
allow: [198.51.100.9, 2001:db8:1::/64]
deny: [203.0.113.128/25]
nat: [{ sources: [100.64.0.0/10], factor: 32 }]
classes:
  - name: web
    match: { protocol: tcp, ports: [80, 443], to: [10.9.0.1] }
    limits:
      - { name: new, count: connections, rate: 6/m, burst: 3 }
      - { name: net, per: { ipv4: 24, ipv6: 48 }, count: connections, rate: 500/s }
      - { name: flow, per: flow, rate: 100/s }
      - { name: total, per: class, rate: 20k/s }
  - name: trial
    match: { ports: [8443] }
    mode: monitor
    limits: [{ name: minute, limit: 2, window: 60s, algorithm: sliding-window }]
  - name: rest
    match: any
    limits: [{ rate: 1/s, burst: 5 }]
"""
WEB = ("--to", SERVER, "--protocol", "tcp", "--port", "443")
SYN = ("--flags", "syn,no-ack")
SHAPE = ("source", "verdict", "reason", "class", "limits", "ban")


def ask(lab, source, *options):
    return lab.ls("-o", "json", "explain", source, *options).json()


def said(answer):
    return tuple(answer[key] for key in ("verdict", "reason", "class", "limit"))


def syn(source, port):
    return packets.tcp_frame(source, SERVER, port)


@case("explain names the limit that refuses, and how long it will")
def limit(test):
    lab = test.lab()
    lab.attach(POLICY)
    check_equal("before", said(ask(lab, SOURCE, *WEB, *SYN)), ("pass", "admitted", "web", None))
    lab.send(*[syn(SOURCE, 443)] * 3)
    answer = ask(lab, SOURCE, *WEB, *SYN)
    check_equal("after", said(answer), ("drop", "limit", "web", "new"))
    for key in SHAPE:
        check(key in answer, "no '%s' in %r" % (key, answer))
    first = answer["limits"][0]
    check_equal("limit", (first["name"], first["per"], first["key"], first["remaining"]),
                ("new", "source", SOURCE, 0))
    check(0 < first["retry_after_seconds"] <= 10, "retry after %r" % first["retry_after_seconds"])
    check_equal("keys", [limit["key"] for limit in answer["limits"]],
                [SOURCE, "203.0.113.0/24", SOURCE + " port 0 to " + SERVER + " port 443, protocol 6", "web"])
    check_equal("another source", said(ask(lab, OTHER, *WEB, *SYN)), ("pass", "admitted", "web", None))
    # What carries on is not counted as a connection; without flags both are shown.
    check_equal("ack", said(ask(lab, SOURCE, *WEB, "--flags", "ack")), ("pass", "admitted", "web", None))
    answer = ask(lab, SOURCE, *WEB)
    check_equal("no flags", said(answer), ("pass", "admitted", "web", None))
    check_equal("a connection", said(answer["connection"]), ("drop", "limit", "web", "new"))
    # Asking charges nothing.
    for _ in range(20):
        answer = ask(lab, OTHER, *WEB, *SYN)
    check_equal("left after 20 questions", answer["limits"][0]["remaining"], 3)


@case("explain: what is left out matches only classes that do not ask for it")
def left_out(test):
    lab = test.lab()
    lab.attach(POLICY)
    for options, wanted in (((), "rest"), (("--port", "8443"), "trial"), (WEB[2:], "rest"), (WEB, "web"),
                            (("--to", SERVER, "--port", "443"), "rest"),
                            (("--protocol", "udp", "--port", "8443"), "trial"),
                            (("--protocol", "icmp"), "rest"), (("--protocol", "gre"), "rest")):
        check_equal(" ".join(options), ask(lab, SOURCE, *options)["class"], wanted)
    # Where protocols and ports are all that is asked for, the kernel's tables hold the class itself.
    lab.apply("version: 1\nclasses:\n"
              "  - { name: t, match: { protocol: tcp, ports: [443] } }\n"
              "  - { name: u, match: { protocol: udp, ports: [443] } }\n"
              "  - { name: all, match: { ports: [443, 80] } }\n"
              "  - { name: tcp, match: { protocol: tcp } }\n")
    for options, wanted in (((), None), (("--port", "443"), "all"), (("--port", "80"), "all"),
                            (("--port", "81"), None), (("--from-port", "443"), None),
                            (("--protocol", "tcp", "--port", "443"), "t"), (("--protocol", "tcp"), "tcp"),
                            (("--protocol", "udp", "--port", "443"), "u"), (SYN, "tcp"),
                            ((*SYN, "--port", "80"), "all"), (("--protocol", "sctp", "--port", "443"), "all")):
        check_equal("direct: " + " ".join(options), ask(lab, SOURCE, *options)["class"], wanted)
    # A flag that is left open may be either way.
    lab.apply("version: 1\nclasses:\n"
              "  - { name: new, match: { tcp_flags: [syn, no-ack] } }\n"
              "  - { name: syn, match: { tcp_flags: [syn] } }\n"
              "  - { name: rest, match: any }\n")
    for flags, wanted in (("syn", "syn"), ("syn,no-ack", "new"), ("syn,ack", "syn"), ("ack", "rest"),
                          ("no-syn", "rest")):
        check_equal(flags, ask(lab, SOURCE, "--flags", flags)["class"], wanted)


@case("explain: lists, bans, monitor, off, panic")
def others(test):
    lab = test.lab()
    lab.attach(POLICY)
    check_equal("allow", said(ask(lab, "198.51.100.9")), ("pass", "allow", None, None))
    check_equal("allow of IPv6", said(ask(lab, "2001:db8:1::5")), ("pass", "allow", None, None))
    check_equal("deny", said(ask(lab, "203.0.113.200")), ("drop", "deny", None, None))
    check_equal("no ban", ask(lab, SOURCE)["ban"], None)
    check_equal("nat", ask(lab, "100.64.1.1")["limits"][0]["remaining"], 5 * 32)
    lab.ls("ban", "add", "203.0.113.8/31", "--for", "10m", "--reason", "too noisy")
    answer = ask(lab, OTHER, *WEB)
    check_equal("ban", said(answer), ("drop", "ban", None, None))
    ban = answer["ban"]
    check_equal("ban", (ban["reason"], ban["origin"]), ("too noisy", "operator"))
    check(590 < ban["remaining_seconds"] <= 600, "ban: %r" % ban)
    for port, wanted in ((8443, "would-drop"), (9, "drop")):
        lab.send(*[syn(SOURCE, port)] * 5)
        check_equal("port %d" % port, ask(lab, SOURCE, "--port", port)["verdict"], wanted)
    lab.ls("off", "--for", "1m")
    check_equal("off", said(ask(lab, "203.0.113.200")), ("would-drop", "deny", None, None))
    check(50 < ask(lab, SOURCE)["off_seconds"] <= 60, "off_seconds")
    lab.ls("on")
    check_equal("on", said(ask(lab, "203.0.113.200")), ("drop", "deny", None, None))
    lab.ls("panic", "--for", "1m")
    check_equal("panic", [limit["name"] for limit in ask(lab, SOURCE)["panic"]],
                ["packets", "connections"])


@case("explain fits a screen, and says what is wrong with a question")
def screen(test):
    lab = test.lab()
    lab.attach(POLICY)
    for options in ((SOURCE, *WEB), ("2001:db8:1234:5678:9abc:def0:1234:5678", "--port", "8443"), (SOURCE,)):
        out = lab.ls("explain", *options).out
        check("verdict   pass" in out, out)
        check(out.count("\n") <= 24 and max(map(len, out.splitlines())) <= 80, out)
        check("\x1b" not in out, "colour without a terminal")
    for options in (("203.0.113.0/24",), ("nonsense",), (SOURCE, "--to", "::1"), (SOURCE, "--port", "70000"),
                    (SOURCE, "--flags", "syn,foo"), (SOURCE, "--flags", "syn,no-syn"),
                    (SOURCE, "--protocol", "icmp", "--port", "3"), (SOURCE, "--protocol", "xyz"),
                    (SOURCE, "--protocol", "udp", "--flags", "syn"), ()):
        result = lab.ls("explain", *options, code=2)
        check(result.err.count("\n") == 1 and not result.out, "%r: %r" % (options, result.err))
    run([LOADSHED, "-I", test.instance + "x", "explain", SOURCE], code=1, env=dict(os.environ))


if __name__ == "__main__":
    main()
