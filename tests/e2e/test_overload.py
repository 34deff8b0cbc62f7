# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Overload shedding as an operator has it: levels by hand, breakers, a controller that dies. How well it keeps a server
useful is what tests/sim and tests/rig show."""

import os
import subprocess

from harness import LOADSHED, case, check, check_adds_up, check_equal, main, tally, wait_for
from packets import ACK, SYN, tcp_frame, udp_frame

PLAIN = """version: 1
allow: [10.9.0.200]
classes:
  - { name: good, match: { protocol: tcp, ports: [443] }, priority: high }
  - { name: rest, match: any, priority: low }
"""
CHECKED = """version: 1
overload: { accept_delay: 20ms }
classes:
  - name: app
    match: { protocol: tcp, ports: [7777] }
    check: { tcp: "127.0.0.1:7777", interval: 100ms, timeout: 100ms, fall: 2, rise: 1 }
"""


LISTEN = "import socket,time;s=socket.create_server(('127.0.0.1',7777));time.sleep(100)"


def overload(lab):
    return lab.ls("-o", "json", "overload", "explain").json()


def refused(lab):
    return tally(lab.stats(), "drop", "overload")


def send_counted(lab, *frames):
    """How many of them are refused by overload, after all have been judged."""
    before, seen = refused(lab), lab.stats()["seen"]["packets"]
    lab.send(*frames)
    wait_for("judged", lambda: lab.stats()["seen"]["packets"] >= seen + len(frames))
    return refused(lab) - before


class Serve:
    """A controller in srv."""

    def __init__(self, test, lab):
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", lab.name + "-srv", LOADSHED, "-I", lab.instance, "serve", "--metrics", "none"],
            stdin=subprocess.DEVNULL, stderr=open(test.path("serve.log"), "wb"))
        test.stack.callback(self.kill)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@case("overload: a level by hand refuses new work from the lowest priority up, with any policy, and ends by itself")
def by_hand(test):
    lab = test.lab()
    lab.attach(PLAIN)
    good, rest = tcp_frame("10.9.0.50", port=443), tcp_frame("10.9.0.51", port=80)
    check_equal("before", send_counted(lab, good, rest), 0)
    view = lab.ls("-o", "json", "overload", "set", "low", "--for", "1m").json()
    check_equal("level", (view["level"], view["by"]), (0.25, "hand"))
    check_equal("low", send_counted(lab, rest, good, rest), 2)
    for port, verdict in (("80", "drop"), ("443", "pass")):
        said = lab.ls("-o", "json", "explain", "10.9.0.51", "--protocol", "tcp", "--port", port, "--flags",
                      "syn,no-ack").json()
        check_equal("explain " + port, said["verdict"], verdict)
    check_equal("work in progress", send_counted(lab, tcp_frame("10.9.0.51", port=80, flags=ACK)), 0)
    check_equal("allowed", send_counted(lab, tcp_frame("10.9.0.200", port=80)), 0)
    lab.ls("overload", "set", "100%")
    check_equal("all", send_counted(lab, rest, good), 2)
    check_equal("explain", lab.ls("-o", "json", "status").json()["overload"]["by"], "hand")
    lab.apply(PLAIN + "mode: monitor\n")
    check_equal("a publish keeps it", overload(lab)["by"], "hand")
    lab.apply(PLAIN)
    lab.ls("overload", "set", "100%", "--for", "1s")
    wait_for("the end", lambda: not overload(lab)["by"])
    check_equal("after", send_counted(lab, rest, good), 0)
    lab.ls("overload", "set", "high")
    lab.ls("overload", "auto")
    check_equal("auto", send_counted(lab, rest, good), 0)
    check_adds_up(lab.stats())
    for wrong in ("101%", "50", "lots", "%", ""):
        lab.ls("overload", "set", wrong, code=2)


@case("overload: a flow that was admitted goes on, a new one is refused")
def flows(test):
    lab = test.lab()
    lab.attach("version: 1\noverload: {}\n")
    known, new = udp_frame("10.9.0.60", port=4000), udp_frame("10.9.0.61", port=4000)
    check_equal("before", send_counted(lab, known), 0)
    lab.ls("overload", "set", "100%")
    check_equal("the known one", send_counted(lab, known, known), 0)
    check_equal("the new one", send_counted(lab, new, new), 2)
    query = udp_frame("10.9.0.60", port=53)
    check_equal("a query is new each time", send_counted(lab, query), 1)


@case("overload: a breaker opens when its check fails, closes when it succeeds, and does not outlive its controller")
def breaker(test):
    lab = test.lab()
    lab.attach(CHECKED)
    check("does not run" in " ".join(lab.status()["degraded"]), "status does not say that serve is missing")
    visit, other = tcp_frame("10.9.0.70", port=7777), tcp_frame("10.9.0.70", port=7778)
    check_equal("without a controller", send_counted(lab, visit, other), 0)
    serve = Serve(test, lab)
    wait_for("open", lambda: send_counted(lab, visit, other) == 1)
    listener = subprocess.Popen(["ip", "netns", "exec", lab.name + "-srv", "/usr/bin/python3", "-S", "-c", LISTEN])
    test.stack.callback(listener.kill)
    wait_for("closed", lambda: send_counted(lab, visit) == 0 and send_counted(lab, visit, visit, visit) == 0)
    listener.kill()
    listener.wait()
    wait_for("open again", lambda: send_counted(lab, visit) == 1)
    serve.kill()
    wait_for("ended with its controller", lambda: send_counted(lab, visit) == 0)


@case("overload: the signals are measured and named, what is missing with its reason")
def signals(test):
    lab = test.lab()
    word = test.path("load")
    lab.attach("version: 1\noverload:\n  cpu: 100%%\n  load: { file: %s }\n  probe: { tcp: \"127.0.0.1:9\" }\n" % word)
    Serve(test, lab)

    def signal(name):
        return next((s for s in overload(lab)["signals"] if s["name"] == name), None)

    wait_for("measured", lambda: overload(lab)["controlled"] and signal("cpu")["value"] is not None)
    check_equal("load", signal("load")["missing"], "the file is not there")
    wait_for("the refusal", lambda: signal("probe")["missing"] == "Connection refused")
    test.file("load", "0.5\n")
    wait_for("the word", lambda: signal("load")["value"] == 0.5)
    test.file("load", "no idea\n")
    wait_for("its refusal", lambda: signal("load")["missing"])
    wait_for("status", lambda: any("'probe'" in line for line in lab.status()["degraded"]), 15)
    check("near" in overload(lab)["reason"], overload(lab)["reason"])


@case("overload: a program of a build without it goes on, and says so when it is asked for")
def earlier_build(test):
    lab = test.lab()
    lab.attach(PLAIN)
    pins = [os.path.join("/sys/fs/bpf/loadshed", name) for name in os.listdir("/sys/fs/bpf/loadshed")
            if name.startswith(lab.instance + "@")]
    check_equal("folders", len(pins), 1)
    for name in ("ls_overload", "ls_offered", "ls_flows"):
        os.unlink(os.path.join(pins[0], name))
    check_equal("status", lab.status()["mode"], "enforce")
    said = lab.ls("overload", "set", "low", code=1).err
    check("earlier build" in said and said.count("\n") == 1, said)
    lab.apply(PLAIN + "deny: [192.0.2.1]\n")


if __name__ == "__main__":
    main()
