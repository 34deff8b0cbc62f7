# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The demo's play and its picture; demo.sh makes the stage and clears it away.

    demo.py LAB INSTANCE FOLDER

All numbers that are shown come from outside: what was sent from the senders, what arrived from a counter
behind XDP, what was dropped and why from `loadshed stats`. At the end they must add up to the packet.
"""

import json
import os
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOADSHED = os.environ["LOADSHED"]
TOOLS = os.environ["LOADSHED_TOOLS"]
LAB, INSTANCE, FOLDER = sys.argv[1:4]

SECONDS = 24
SINGLE, BANNED, SPOOFED = "203.0.113.7", "203.0.113.66", "198.18.0.0/15"
CLIENTS = 20  # of each family

# second, text, and what begins then (flood arguments by name)
PLAY = (
    (0, "40 good clients, IPv4 and IPv6, ask an echo server over UDP and TCP", None),
    (4, "a botnet: 100 000 spoofed sources, 30 000 packets/s",
     ("spoofed", ["--from", SPOOFED, "--sources", "100k", "--order", "random", "--rate", "30k",
                  "--port", "1000", "--port-to", "9999"])),
    (9, "one source floods the game port; its class bans it by itself",
     ("single", ["--from", SINGLE, "--rate", "10k", "--port", "27015"])),
    (13, "a source that the operator banned floods the echo server itself",
     ("banned", ["--from", BANNED, "--rate", "10k", "--port", "7"])),
    (21, "the floods end; the good clients go on", None),
)
FLOODS_END = 21


class Screen:
    """Redraws a block of lines in place on a terminal; elsewhere prints one line per second."""

    def __init__(self):
        self.is_terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self.has_color = self.is_terminal and not os.environ.get("NO_COLOR")
        self.height = 0

    def color(self, number, text):
        return "\033[%dm%s\033[0m" % (number, text) if self.has_color else text

    def draw(self, lines):
        if self.height:
            sys.stdout.write("\033[%dA" % self.height)
        for line in lines:
            sys.stdout.write("\r%s\033[K\n" % line)
        self.height = len(lines)
        sys.stdout.flush()


def netns(side, *command):
    return ["ip", "netns", "exec", "%s-%s" % (LAB, side), *command]


def loadshed(*arguments):
    done = subprocess.run(netns("srv", LOADSHED, "-I", INSTANCE, *arguments), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit("demo: loadshed %s: %s" % (" ".join(arguments), done.stderr.decode().strip()))
    return done.stdout.decode()


def stats():
    return json.loads(loadshed("-o", "json", "stats"))


class Tool:
    """A process of tests/tools; its last words are JSON."""

    all = []

    def __init__(self, side, *arguments):
        self.process = subprocess.Popen(netns(side, os.path.join(TOOLS, arguments[0]), *arguments[1:]),
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        Tool.all.append(self.process)
        line = self.process.stderr.readline().decode().strip()
        if line != "ready":
            sys.exit("demo: %s: %s" % (arguments[0], line))

    def stop(self, ask=True):
        if ask and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return json.loads(self.process.communicate(timeout=30)[0])


def live(name):
    try:
        with open(os.path.join(FOLDER, name)) as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def reasons(document):
    """Dropped packets by reason."""
    sums = {}
    for entry in document["classes"]:
        for item in entry["verdicts"]:
            if item["verdict"] == "drop":
                sums[item["reason"]] = sums.get(item["reason"], 0) + item["packets"]
    return sums


def human(number):
    for limit, unit, divisor in ((10**4, "", 1), (10**7, " k", 10**3), (10**13, " M", 10**6)):
        if number < limit:
            return ("%d%s" if unit == "" else "%.1f%s") % (number / divisor, unit)
    return "%d" % number


def good_line(screen):
    good = live("good.json")
    if not good:
        return "good clients   starting", True
    lost = good["udp"]["lost"] + good["tcp"]["lost"]
    text = "good clients   %d UDP requests, %d TCP connections answered; lost: %d" % (
        good["udp"]["answered"], good["tcp"]["answered"], lost)
    return screen.color(32 if lost == 0 else 31, text), lost == 0


def picture(screen, elapsed, now, before, seconds, text):
    done = min(SECONDS, int(elapsed))
    bar = "#" * done + "-" * (SECONDS - done)
    lines = [screen.color(1, "loadshed demo  [%s] %d of %d s" % (bar, done, SECONDS)),
             screen.color(33, text), "",
             "%-14s %14s %14s" % ("", "packets/s", "packets")]

    def row(name, total, earlier):
        lines.append("%-14s %14s %14d" % (name, human(max(0, total - earlier) / seconds), total))

    row("seen", now["seen"]["packets"], before["seen"]["packets"])
    row("passed", now["pass"]["packets"], before["pass"]["packets"])
    row("dropped", now["drop"]["packets"], before["drop"]["packets"])
    drops, earlier = reasons(now), reasons(before)
    for reason in ("limit", "ban", "crowd", "overload", "deny", "malformed"):
        if reason in ("limit", "ban") or drops.get(reason):
            row("  " + reason, drops.get(reason, 0), earlier.get(reason, 0))
    lines += ["", good_line(screen)[0]]
    return lines


def one_line(elapsed, now, before, seconds):
    def per_second(key):
        return human((now[key]["packets"] - before[key]["packets"]) / seconds)

    good = live("good.json") or {"udp": {"lost": 0, "answered": 0}, "tcp": {"lost": 0, "answered": 0}}
    return "%2d/%d s  seen %s/s  passed %s/s  dropped %s/s  good: %d answered, %d lost" % (
        min(SECONDS, int(elapsed)), SECONDS, per_second("seen"), per_second("pass"), per_second("drop"),
        good["udp"]["answered"] + good["tcp"]["answered"], good["udp"]["lost"] + good["tcp"]["lost"])


def settled():
    """The counters once two readings agree on what was dropped: nothing is on its way any more."""
    before = stats()
    for _ in range(50):
        time.sleep(0.1)
        now = stats()
        if now["drop"] == before["drop"]:
            return now
        before = now
    return before


def play(screen):
    """Runs the 24 seconds; returns what each flood sent, and the good clients' account."""
    floods, text = {}, PLAY[0][1]
    pending = list(PLAY)
    good = Tool("cli", "goodclients", "--ipv4", str(CLIENTS), "--ipv6", str(CLIENTS), "--udp", "10",
                "--tcp", "2", "--seconds", str(SECONDS), "--live", os.path.join(FOLDER, "good.json"))
    start = shown = time.monotonic()
    before = stats()
    sent = {}
    while time.monotonic() - start < SECONDS:
        elapsed = time.monotonic() - start
        while pending and pending[0][0] <= elapsed:
            _, text, flood = pending.pop(0)
            if not screen.is_terminal:
                print(text, flush=True)
            if flood:
                floods[flood[0]] = Tool("cli", "flood", "--interface", "vc", *flood[1])
        if elapsed >= FLOODS_END and not sent:
            sent = {name: tool.stop() for name, tool in floods.items()}
        time.sleep(max(0.0, shown + 1 - time.monotonic()))
        now, seconds = stats(), max(0.001, time.monotonic() - shown)
        shown = time.monotonic()
        if screen.is_terminal:
            screen.draw(picture(screen, shown - start, now, before, seconds, text))
        else:
            print(one_line(shown - start, now, before, seconds), flush=True)
        before = now
    return sent, good.stop(ask=False)


def verdicts(sent, good, arrived, now):
    """What was promised, and whether it held: (holds, text) each."""
    classes = {name: arrived["classes"][name]["packets"] for name in ("spoofed", "single", "banned")}
    total = sum(flood["sent"] - flood["device_dropped"] for flood in sent.values())
    passed = sum(classes.values())
    dropped = now["drop"]["packets"]
    lost = good["udp"]["lost"] + good["tcp"]["lost"]
    bans = json.loads(loadshed("-o", "json", "ban", "list"))["bans"]
    is_banned = any(ban["source"] == SINGLE and ban["origin"] == "class" for ban in bans)
    by_reason = ", ".join("%s %d" % item for item in sorted(reasons(now).items()))
    single_sent = sent["single"]["sent"]
    return (
        (lost == 0, "good clients: %d requests and %d connections, %d lost" % (
            good["udp"]["sent"], good["tcp"]["sent"], lost)),
        (classes["banned"] == 0, "operator's ban: %d sent, %d let through" % (
            sent["banned"]["sent"], classes["banned"])),
        (is_banned and classes["single"] < single_sent // 20,
         "one-source flood: %d sent, %d let through, then banned" % (
             single_sent, classes["single"])),
        (classes["spoofed"] < sent["spoofed"]["sent"] // 5,
         "spoofed flood, 100 000 sources: %d sent, %d let through" % (sent["spoofed"]["sent"], classes["spoofed"])),
        (dropped == sum(reasons(now).values()), "dropped: %d (%s)" % (dropped, by_reason)),
        (total == passed + dropped and arrived["lost"] == 0,
         "floods: %d sent = %d passed + %d dropped" % (total, passed, dropped)),
        (now["seen"]["packets"] == now["pass"]["packets"] + now["drop"]["packets"],
         "all: %d seen = %d passed + %d dropped" % (now["seen"]["packets"], now["pass"]["packets"],
                                                   now["drop"]["packets"])),
    )


def main():
    screen = Screen()
    said = loadshed("attach", "vs", "--policy", os.path.join(ROOT, "scripts/demo-policy.yaml"), "--mode",
                    "native")
    print(said.strip())
    loadshed("ban", "add", BANNED, "--for", "1h", "--reason", "demo")
    print("policy: scripts/demo-policy.yaml; %s is banned by the operator\n" % BANNED)
    Tool("srv", "echo")
    sink = Tool("srv", "sink", "--interface", "vs", "--class", "single=%s" % SINGLE, "--class",
                "banned=%s" % BANNED, "--class", "spoofed=%s" % SPOOFED)
    sent, good = play(screen)
    now = settled()
    arrived = sink.stop()
    print()
    all_hold = True
    for holds, text in verdicts(sent, good, arrived, now):
        print("%s  %s" % (screen.color(32, "ok    ") if holds else screen.color(31, "NOT OK"), text))
        all_hold = all_hold and holds
    return 0 if all_hold else 1


if __name__ == "__main__":
    # Ctrl-C reaches us, too; demo.sh's end of us does by SIGTERM. Both unwind to here.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    code = 1
    try:
        code = main()
    except KeyboardInterrupt:
        code = 130
    finally:
        for process in Tool.all:
            if process.poll() is None:
                process.kill()
    sys.exit(code)
