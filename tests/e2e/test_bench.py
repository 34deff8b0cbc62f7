# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""bench: it measures, says what it measured, touches nothing that is live, and leaves nothing behind."""

import glob
import json
import os
import shutil
import signal
import subprocess
import sys

from harness import COMMAND_SECONDS, LOADSHED, ROOT, Skip, case, check, check_equal, main, run, wait_for

import packets

sys.path.insert(0, os.path.join(ROOT, "tests/bench"))
import plot  # noqa: E402
import report  # noqa: E402

MACHINE = ("cpu", "cpus", "load", "kernel", "architecture", "version", "compiler", "jit", "rounds", "tries")
DENY = "version: 1\ndeny: [198.51.100.1]\n"


def check_figure(what, figure):
    check_equal(what, sorted(figure), ["high", "low", "median"])
    check(figure["low"] <= figure["median"] <= figure["high"], "%s is out of order: %r" % (what, figure))
    check(all(-1e6 < value < 1e6 for value in figure.values()), "%s is no number: %r" % (what, figure))


@case("bench: some groups as JSON, beside an instance that notices nothing")
def groups(test):
    lab = test.lab()
    lab.attach(DENY)
    lab.send(packets.udp_frame("198.51.100.1"))
    before, links = lab.ls("-o", "json", "stats").json(), lab.status()["interfaces"]
    document = lab.ls("-o", "json", "bench", "bans", "classes", "apply").json()
    for key in MACHINE:
        check(key in document["machine"], "no '%s' in %r" % (key, document["machine"]))
    rows = document["rows"]
    check_equal("groups", sorted({row["group"] for row in rows}), ["apply", "bans", "classes"])
    for row in rows:
        check_figure(row["name"], row["loadshed"])
    names = {row["name"]: row for row in rows}
    check_equal("over", {row["over"] for row in rows}, {"no bans", "one class", None})
    check("last of 256 classes" in names, "rows: %r" % list(names))
    check_equal("bytes per source", names["table bytes per tracked (source, limit)"]["loadshed"]["median"], 64)
    check_equal("links", lab.status()["interfaces"], links)
    check_equal("drops", lab.ls("-o", "json", "stats").json()["drop"], before["drop"])
    check("ls_" not in run(["ip", "-details", "link", "show", "lo"]).out, "something is on lo")


@case("bench: the table has the rivals' columns, and a plot is made of the JSON")
def table(test):
    text = run([LOADSHED, "bench", "frames"]).out
    for word in ("CPUs", "kernel", "Medians", "loadshed", "IPv6: four extension headers"):
        check(word in text, "no '%s' in %r" % (word, text))
    document = {"machine": {"cpu": "<any>", "cpus": 1, "kernel": "6", "version": "0", "compiler": "c"}, "rows": []}
    figure = {"median": 30, "low": 29, "high": 40}
    for name in ("one limit, 1 source", "one limit, 1 k sources"):
        document["rows"].append({"group": "limits", "name": name, "unit": "ns", "loadshed": figure,
                                 "rivals": {"LRU hash": figure}})
    source, picture = test.file("bench.json", json.dumps(document)), test.path("bench.svg")
    run([sys.executable, os.path.join(ROOT, "tests/bench/plot.py"), source, picture])
    with open(picture, encoding="utf-8") as file:
        svg = file.read()
    check_equal("bars", svg.count("<path"), 4)
    check("&lt;any&gt;" in svg and "one limit, 1 k sources" in svg, "labels are missing: %r" % svg[:300])
    check_equal("nothing to show", plot.panels([]), [])


def a_run(median, goal=None):
    """A document of one row."""
    row = {"group": "limits", "name": "one limit, 1 k sources", "unit": "ns", "over": "XDP_DROP",
           "loadshed": {"median": median, "low": median - 1, "high": median + 1},
           "rivals": {"LRU hash": {"median": 2 * median, "low": 50, "high": 90}}}
    if goal:
        row.update(goal=goal, met=median <= goal)
    return {"machine": {"cpu": "any", "cpus": 2, "load": "0.1", "kernel": "6.18", "version": "0", "compiler": "clang"},
            "rows": [row, {"group": "veth-limit", "name": "tc police", "skipped": "Error: no classifier"}]}


@case("bench: several runs agree or do not, and README's table is made of what they say together")
def together(test):
    script, out = os.path.join(ROOT, "tests/bench/report.py"), test.path("out.json")
    for medians, word in (((30, 31, 33), "1 of 1 rows agree"), ((30, 31, 40), "0 of 1 rows agree")):
        runs = [test.file("run%d-%d.json" % (median, len(word)), json.dumps(a_run(median, 32))) for median in medians]
        text = run([sys.executable, script, "agree", out, *runs]).out
        check(word in text, "no '%s' in %r" % (word, text))
        with open(out, encoding="utf-8") as file:
            row = json.load(file)["rows"][0]
        check_equal("together", row["loadshed"], {"median": 31, "low": 29, "high": medians[2] + 1})
        check_equal("met", (row["met"], row["agree"]), (True, medians[2] == 33))
    skips = report.merge([a_run(30), {"machine": {"load": "1"}, "rows": []}])["rows"][0]
    check("medians" not in skips, "a row of one run was called one of both: %r" % skips)
    page = test.file("README.md", "before\n<!-- bench: begin -->\nold\n<!-- bench: end -->\nafter\n")
    run([sys.executable, script, "docs", out, page])
    with open(page, encoding="utf-8") as file:
        text = file.read()
    check(text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text, "page %r" % text)
    for word in ("RUNS=3", "| one limit, 1 000 sources | 31 (29 to 41) | LRU hash 62 |", "no classifier"):
        check(word in text, "no '%s' in %r" % (word, text))
    run([sys.executable, script, "docs", out, test.file("other.md", "no marks\n")], code=1)


@case("bench: wrong words are usage, and without privileges there is one line")
def refused(test):
    result = run([LOADSHED, "bench", "limits", "nosuch"], code=2)
    check("'nosuch'" in result.err and "limits, classes" in result.err, "stderr %r" % result.err)
    check_equal("output", result.out, "")
    if not shutil.which("setpriv"):
        raise Skip("needs setpriv")
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if run([*nobody, LOADSHED, "version"], code=None).code != 0:
        raise Skip("nobody may not run %s" % LOADSHED)
    result = run([*nobody, LOADSHED, "bench"], code=1)
    check("root" in result.err, "stderr %r" % result.err)
    check_equal("lines", len(result.err.splitlines()), 1)


def held_by(pid):
    """(kind, id) of the BPF programs and maps that a process holds, and the inodes of its network namespaces."""
    found, namespaces = set(), set()
    for fd in os.listdir("/proc/%d/fdinfo" % pid):
        try:
            with open("/proc/%d/fdinfo/%s" % (pid, fd), encoding="utf-8") as file:
                found |= {(line[:line.index("_")], int(line.split()[1])) for line in file
                          if line.startswith(("prog_id:", "map_id:"))}
            if os.readlink("/proc/%d/fd/%s" % (pid, fd)).startswith("net:"):
                namespaces.add(os.stat("/proc/%d/fd/%s" % (pid, fd)).st_ino)
        except FileNotFoundError:
            pass  # it was closed meanwhile
    return found, namespaces - {os.stat("/proc/self/ns/net").st_ino}


def alive(objects):
    """Those of these programs and maps that exist: in a process, attached or pinned."""
    return {(kind, number) for kind, number in objects
            if run(["bpftool", kind, "show", "id", str(number)], code=None).code == 0}


def namespaces_in_use():
    """Inodes of the network namespaces that have a name or a process."""
    found = set()
    for path in glob.glob("/run/netns/*") + glob.glob("/proc/[0-9]*/ns/net"):
        try:
            found.add(os.stat(path).st_ino)
        except OSError:
            pass  # it is gone, and with it the use
    return found


def by_terminal():
    """What a terminal's Ctrl-C finds: a shell that starts this file in the background has SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@case("bench: Ctrl-C ends it at once and nothing stays")
def interrupted(test):
    output = test.path("bench.txt")
    # A file, not a pipe: the bench must not be held up by whoever reads its rows.
    with open(output, "wb") as file:
        process = subprocess.Popen([LOADSHED, "bench"], stdout=file, stderr=subprocess.STDOUT, preexec_fn=by_terminal)
    try:
        def first_row():
            check(process.poll() is None, "it ended before its first row")
            with open(output, encoding="utf-8") as file:
                return "\none limit, 1 source " in file.read()
        wait_for("its first row", first_row, COMMAND_SECONDS)
        held, namespaces = held_by(process.pid)
        check(len(held) >= 10 and len(namespaces) == 2, "holds %r, namespaces %r" % (held, namespaces))
        check_equal("loaded", alive(held), held)
        check(process.poll() is None, "it ended before it was interrupted")
        process.send_signal(signal.SIGINT)
        # By the signal itself, which a shell calls 130.
        check_equal("exit", process.wait(timeout=10), -signal.SIGINT)
    finally:
        process.kill()
        process.wait()
    wait_for("its programs and maps are gone, so that none is pinned", lambda: not alive(held))
    check_equal("namespaces", namespaces & namespaces_in_use(), set())


if __name__ == "__main__":
    main()
