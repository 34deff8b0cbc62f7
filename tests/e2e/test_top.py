# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Who sends most: figures, bounds, bans from the list, and the screen in a real terminal."""

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time

from harness import LOADSHED, Skip, case, check, check_equal, main, run, wait_for

HEAVY, SHARED, QUIET = "198.51.100.7", "203.0.113.77", "2001:db8:7::/64"
POLICY = """version: 1
nat:
  - { sources: [203.0.113.77], factor: 2 }
classes:
  - { name: all, match: any, limits: [{ rate: 300/s, burst: 300 }] }
"""
LONG = os.environ.get("LS_LONG") == "1"


def top(lab, *options):
    return lab.ls("-o", "json", "top", *options).json()


def rows(document):
    """By source; nobody is there twice."""
    names = [row["source"] for row in document["sources"]]
    check_equal("names in the list", len(set(names)), len(names))
    return {row["source"]: row for row in document["sources"]}


def start_traffic(lab):
    """Three sources at known rates, until the end of the case."""
    for source, rate in ((HEAVY, 4000), (SHARED, 2000), ("2001:db8:7::1", 500)):
        lab.flood_start("--from", source, "--rate", rate, "--seconds", 100)


def settled(lab):
    """A document whose whole interval saw all three."""
    return wait_for("a second of traffic", lambda: (lambda d: d if len(rows(d)) >= 3 and
                    d["packets_per_second"] > 6000 else None)(top(lab)))


@case("T-01 top shows rates, drops and bounds by source and prefix, and -i narrows it")
def figures(test):
    lab = test.lab()
    lab.attach(POLICY)
    start_traffic(lab)
    settled(lab)
    wait_for("every burst is spent", lambda: rows(top(lab))[QUIET]["drops_per_second"] > 120)
    document = top(lab)
    check(0.9 < document["interval_seconds"] < 1.2, "interval: %s" % document["interval_seconds"])
    by_source = rows(document)
    for source, rate, drops in ((HEAVY, 4000, 3700), (SHARED, 2000, 1400), (QUIET, 500, 200)):
        row = by_source.get(source)
        check(row, "%s is not listed: %s" % (source, list(by_source)))
        # The flood is paced, but on a busy machine it comes in lumps.
        for what, wanted, error in (("packets", rate, row["error_packets_per_second"]),
                                    ("drops", drops, row["error_drops_per_second"])):
            shown = row[what + "_per_second"]
            check(abs(shown - wanted) <= error + 0.35 * wanted, "%s: %s/s %s instead of %s" % (
                source, what, shown, wanted))
        check_equal("would-drops", row["would_drops_per_second"], 0)
        check(row["drops_per_second"] <= row["packets_per_second"], "%s" % row)
    check_equal("who is first", document["sources"][0]["source"], HEAVY)
    prefixes = {row["prefix"] for row in document["prefixes"]}
    for prefix in ("198.51.100.0/24", "203.0.113.0/24", "2001:db8:7::/48"):
        check(prefix in prefixes, "%s is not in %s" % (prefix, prefixes))
    narrowed = top(lab, "-i", "vs")
    check(HEAVY in rows(narrowed) and narrowed["packets_per_second"] > 3000, "-i vs: %s" % narrowed)
    check("not attached" in lab.ls("top", "-i", "lo", code=1).err, "-i lo is not refused")
    text = lab.ls("top").out
    check(HEAVY in text and "MOST DROPS" in text and "nat x2" in text, "the table: %s" % text)
    lab.apply(POLICY.replace("version: 1", "version: 1\nmode: monitor"))
    monitored = wait_for("would-drops", lambda: (lambda r: r if r["would_drops_per_second"] > 2000 and
                         r["drops_per_second"] == 0 else None)(rows(top(lab)).get(HEAVY)))
    check(monitored, "no would-drops")


@case("T-02 top --ban bans who loses most, and says whom it leaves out and why")
def bans(test):
    lab = test.lab()
    lab.attach(POLICY)
    start_traffic(lab)
    settled(lab)
    check_equal("exit", lab.ls("top", "--ban", "2", code=2).code, 2)
    check_equal("exit", lab.ls("top", "--for", "10m", code=2).code, 2)
    check_equal("exit", lab.ls("top", "--ban", "0", "--for", "10m", code=2).code, 2)
    # In the session of the heavy one: it is left out, and so are those behind NAT.
    result = lab.srv("env", "SSH_CONNECTION=%s 50000 10.9.0.1 22" % HEAVY, LOADSHED, "-I", lab.instance,
                     "-o", "json", "top", "--ban", "3", "--for", "10m")
    document = result.json()
    check_equal("banned", [row["source"] for row in document["banned"]], [QUIET])
    check_equal("left out", {row["source"] for row in document["left_out"]}, {HEAVY, SHARED})
    check("your own session" in result.err and "'nat'" in result.err, result.err)
    check_equal("bans", [ban["source"] for ban in lab.bans()], [QUIET])
    text = lab.ls("top", "--ban", "1", "--for", "10m").out
    check(text.startswith(HEAVY + ": banned for 10m"), text)
    check_equal("bans", {ban["source"] for ban in lab.bans()}, {HEAVY, QUIET})
    check("longer already" in lab.ls("top", "--ban", "1", "--for", "1m").out, "again, for less")
    # The host's own addresses, however much seems to come from them.
    lab.ls("detach", "--all")
    lab.attach(POLICY)
    lab.flood_start("--from", "10.9.0.1", "--rate", 20000, "--seconds", 100)
    wait_for("own address first", lambda: top(lab)["sources"][:1] and
             rows(top(lab)).get("10.9.0.1", {}).get("drops_per_second", 0) > 2000)
    check("10.9.0.1 is not banned: own address" in lab.ls("top", "--ban", "1", "--for", "1m").err, "own address")
    check_equal("no ban of it", "10.9.0.1" in {ban["source"] for ban in lab.bans()}, False)


@case("M-09 top always ends in time under a spoofed flood, without duplicates")
def flood(test):
    lab = test.lab()
    lab.attach(POLICY + "capacity: { sources: 10k }\n")
    lab.flood_start("--from", "0.0.0.0/1", "--sources", "37000", "--order", "random", "--rate", 0,
                    "--seconds", 200)
    wait_for("the flood", lambda: top(lab)["packets_per_second"] > 20000)
    end = time.monotonic() + (60 if LONG else 5)
    slowest = runs = 0
    while time.monotonic() < end:
        start = time.monotonic()
        document = top(lab)
        slowest = max(slowest, time.monotonic() - start)
        runs += 1
        check(len(rows(document)) <= 300, "%d rows" % len(document["sources"]))
        prefixes = [row["prefix"] for row in document["prefixes"]]
        check_equal("prefixes in the list", len(set(prefixes)), len(prefixes))
        for row in document["sources"]:
            # Each is one of 37 000; no row claims more than its bound lets it.
            fair = 2 * document["packets_per_second"] / 37000 + 50
            check(row["packets_per_second"] - row["error_packets_per_second"] <= fair, "%s" % row)
    check(runs >= 3, "%d runs" % runs)
    check(slowest < 2, "%.2f s" % slowest)


# ---- the screen ----

class Terminal:
    """`top` in a pseudo-terminal of a session of its own."""

    def __init__(self, lab, lines=24, columns=80):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm"
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            try:
                os.execvp("ip", ["ip", "netns", "exec", lab.name + "-srv", LOADSHED, "-I", lab.instance, "top"])
            finally:
                os._exit(127)
        lab.test.stack.callback(self.close)
        self.out = b""
        self.status = None
        self.resize(lines, columns)
        self.before = termios.tcgetattr(self.fd)

    def resize(self, lines, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self, seconds=0.1):
        while select.select([self.fd], [], [], seconds)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                return False
            if not data:
                return False
            self.out += data
            seconds = 0
        return True

    def wait_text(self, text):
        def seen():
            self.read()
            return text in re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()=>].?", b" ", self.out)
        wait_for("'%s' on the screen" % text.decode(), seen)

    def send(self, keys):
        os.write(self.fd, keys)

    def wait_end(self):
        """Exit status as of waitpid(), once it has ended."""
        def ended():
            self.read(0.02)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
            return pid
        wait_for("the end of top", ended)
        self.read(0.1)
        return self.status

    def close(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


def check_restored(terminal, before, how):
    """The normal screen, the cursor, and the settings of the line are back."""
    check(terminal.out.rfind(b"\x1b[?1049l") > terminal.out.rfind(b"\x1b[?1049h"), "%s: still the other screen" % how)
    check(terminal.out.rfind(b"\x1b[?25h") > terminal.out.rfind(b"\x1b[?25l") or
          terminal.out.rfind(b"\x1b[?12l\x1b[?25h") > 0, "%s: no cursor" % how)
    check_equal("%s: settings of the line" % how, termios.tcgetattr(terminal.fd)[:4], before[:4])


@case("T-03 the screen gives the terminal back, whatever ends it")
def terminal_is_restored(test):
    lab = test.lab()
    lab.attach(POLICY)
    ways = [("q", None, 0), ("SIGINT", signal.SIGINT, signal.SIGINT), ("SIGTERM", signal.SIGTERM, signal.SIGTERM),
            ("SIGHUP", signal.SIGHUP, signal.SIGHUP), ("SIGSEGV", signal.SIGSEGV, signal.SIGSEGV),
            ("SIGABRT", signal.SIGABRT, signal.SIGABRT)]
    for how, number, wanted in ways:
        # Held open here: the settings can be asked for after the end.
        terminal = Terminal(lab)
        terminal.wait_text(b"loadshed top")
        before = terminal.before
        terminal.resize(10, 40)
        terminal.resize(50, 160)
        terminal.wait_text(b"WOULD/S")
        if number is None:
            terminal.send(b"q")
        else:
            os.kill(terminal.pid, number)
        status = terminal.wait_end()
        check_equal("%s: ended by" % how, os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, wanted)
        check_restored(terminal, before, how)
    terminal = Terminal(lab)
    terminal.wait_text(b"loadshed top")
    lab.ls("detach", "--all")
    status = terminal.wait_end()
    check_equal("exit after a detach", os.WEXITSTATUS(status), 1)
    check_restored(terminal, terminal.before, "detach")
    check(b"nothing is attached any more" in terminal.out, "%r" % terminal.out[-200:])


@case("T-04 the screen sorts, toggles, selects and bans, at 80x24 in tmux")
def screen(test):
    if not shutil.which("tmux"):
        raise Skip("tmux is not installed")
    lab = test.lab()
    lab.attach(POLICY)
    start_traffic(lab)
    settled(lab)
    server = "loadshed-%d" % os.getpid()

    def tmux(*arguments):
        return run(["tmux", "-L", server, *arguments]).out

    test.stack.callback(lambda: subprocess.run(["tmux", "-L", server, "kill-server"], check=False,
                                               stderr=subprocess.DEVNULL))
    run(["tmux", "-L", server, "-f", "/dev/null", "new-session", "-d", "-s", "top", "-x", "80", "-y", "24",
         "ip netns exec %s-srv %s -I %s top; read line" % (lab.name, LOADSHED, lab.instance)])

    def shown():
        return tmux("capture-pane", "-p", "-t", "top")

    def wait_shown(*texts):
        return wait_for("%s on the screen" % (texts,), lambda: (lambda s: s if all(
            re.search(text, s, re.M) for text in texts) else None)(shown()))

    text = wait_shown(r"^  198\.51\.100\.7 +\d", r"enforce", r"refused by limit", r"2001:db8:7::/64", r"nat x2",
                      r"seen \S+/s")
    lines = text.splitlines()
    check(all(len(line) <= 80 for line in lines), "wider than the terminal: %s" % lines)
    first = [line for line in lines if "198.51.100.7" in line or "203.0.113.77" in line]
    check("198.51.100.7" in first[0], "order: %s" % first)
    wait_shown(r"\*PACKETS")
    tmux("send-keys", "-t", "top", "d")
    wait_shown(r"\*REFUSED")
    tmux("send-keys", "-t", "top", "b")
    wait_shown(r"\*BIT/S")
    tmux("send-keys", "-t", "top", "s")
    wait_shown(r"PREFIX", r"198\.51\.100\.0/24")
    tmux("send-keys", "-t", "top", "s", "p")
    wait_shown(r"SOURCE", r"\*PACKETS")
    tmux("send-keys", "-t", "top", "Down")
    wait_shown(r"^> 198\.51\.100\.7")
    tmux("send-keys", "-t", "top", "Space", "Space")
    wait_shown(r"^ \*198\.51\.100\.7", r"^.\*203\.0\.113\.77")
    tmux("send-keys", "-t", "top", "x")
    wait_shown(r"ban the 2 marked for how long\?.* 10m")
    check_equal("no ban before it is confirmed", lab.bans(), [])
    tmux("send-keys", "-t", "top", "BSpace", "BSpace", "BSpace", "2", "h", "Enter")
    wait_shown(r"1 banned for 2h; 203\.0\.113\.77 is not banned: in a 'nat' set")
    check_equal("bans", [ban["source"] for ban in lab.bans()], [HEAVY])
    wait_shown(r"198\.51\.100\.7 .*ban 1h 59m", r"refused by ban")
    tmux("send-keys", "-t", "top", "x")
    wait_shown(r"for how long")
    tmux("send-keys", "-t", "top", "BSpace", "BSpace", "BSpace", "5", "x", "Enter")
    wait_shown(r"'5x'")
    tmux("resize-window", "-t", "top", "-x", "120", "-y", "12")
    wait_shown(r"DROPS/S +WOULD/S")
    tmux("send-keys", "-t", "top", "h")
    wait_shown(r"sort by packets")
    tmux("send-keys", "-t", "top", "h", "q")
    wait_for("the screen is gone", lambda: "loadshed top" not in shown())


if __name__ == "__main__":
    main()
