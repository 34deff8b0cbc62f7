# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What the end-to-end cases stand on: a lab of their own, the program, traffic, and waiting for conditions.

A case is a function marked with @case("A-01 what is promised"). Running its file runs its cases and prints
for each one line: `ok NAME`, `not ok NAME: reason` or `skip NAME: reason`; exit 1 if any is not ok. Every
case gets its own folder, its own instance name and, when it asks, its own lab; what it started is ended and
what it made is removed, however it ends. No case waits for time to pass where it can wait for what it
needs; every wait has an end.

Environment: LOADSHED, the program (build/loadshed); LOADSHED_TOOLS, the lab's tools (build/tests/tools);
LOADSHED_DATA, the folder of real captures (none: the cases that want them skip).
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from fractions import Fraction

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LOADSHED = os.path.abspath(os.environ.get("LOADSHED", os.path.join(ROOT, "build/loadshed")))
TOOLS = os.path.abspath(os.environ.get("LOADSHED_TOOLS", os.path.join(ROOT, "build/tests/tools")))
DATA = os.environ.get("LOADSHED_DATA", "")
LAB = os.path.join(ROOT, "scripts/lab.sh")
COMMAND_SECONDS = 60  # no verb may take longer
CASE_SECONDS = 240  # nor any case

_cases = []


class Fail(Exception):
    """A promise that does not hold."""


class Skip(Exception):
    """The case cannot be tried here; the reason says why."""


def case(name):
    def mark(function):
        _cases.append((name, function))
        return function
    return mark


def check(condition, reason):
    if not condition:
        raise Fail(reason)


def bucket(times, rate, burst, costs=None):
    """The contract's token bucket in exact arithmetic: for each packet, whether it is admitted.

    times in seconds and rate per second, as anything that Fraction takes; the cost is 1 unless given.
    """
    tokens, last, verdicts = Fraction(burst), None, []
    for index, now in enumerate(map(Fraction, times)):
        if last is not None:
            tokens = min(Fraction(burst), tokens + Fraction(rate) * (now - last))
        last = now
        cost = 1 if costs is None else costs[index]
        verdicts.append(tokens >= min(cost, burst))
        if verdicts[-1]:
            tokens -= cost
    return verdicts


def check_equal(what, is_value, wanted):
    if is_value != wanted:
        raise Fail("%s is %r, not %r" % (what, is_value, wanted))


def check_within(what, value, wanted, tolerance):
    """tolerance: a part of `wanted`."""
    if abs(value - wanted) > tolerance * wanted:
        raise Fail("%s is %s, not %s within %g %%" % (what, value, wanted, tolerance * 100))


def wait_for(what, condition, seconds=10):
    """Returns the condition's first true value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Fail("%s: not within %g s" % (what, seconds))
        time.sleep(0.02)


class Result:
    def __init__(self, process, out, err):
        self.code, self.out, self.err = process.returncode, out, err

    def json(self):
        try:
            return json.loads(self.out)
        except ValueError:
            raise Fail("no JSON on stdout: %r, stderr %r" % (self.out[:200], self.err[:300])) from None

    def lines(self):
        return [json.loads(line) for line in self.out.splitlines()]


def run(command, code=0, stdin=None, seconds=COMMAND_SECONDS, env=None, cwd=None):
    """Runs a command; `code` is the exit status that is right, None for any."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=env, cwd=cwd)
    try:
        out, err = process.communicate(stdin, timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Fail("%s: no end within %g s" % (" ".join(command), seconds)) from None
    result = Result(process, out.decode(errors="replace"), err.decode(errors="replace"))
    if result.code == 2 and "this version does not have" in result.err:
        raise Skip(result.err.strip())
    if code is not None and result.code != code:
        raise Fail("%s: exit %d instead of %d: %s" % (
            " ".join(command[-8:]), result.code, code, (result.err or result.out).strip()[-400:]))
    return result


class Background:
    """A tool that runs beside the case; stop() ends it and returns what it printed, as JSON."""

    def __init__(self, command):
        self.command = command
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = self.process.stderr.readline().decode()
        if line != "ready\n":
            self.process.kill()
            raise Fail("%s: %s" % (" ".join(command), line.strip() or "ended at once"))
        # Nothing that a tool writes may ever fill a pipe and stop it.
        self._out = []
        self._reader = threading.Thread(target=lambda: self._out.append(self.process.stdout.read()),
                                        daemon=True)
        self._reader.start()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.wait(20)

    def wait(self, seconds=CASE_SECONDS):
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Fail("%s: does not end" % " ".join(self.command)) from None
        self._reader.join(5)
        text = self._out[0] if self._out else b""
        try:
            return json.loads(text)
        except ValueError:
            raise Fail("%s: printed %r" % (" ".join(self.command), text[:200])) from None

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Lab:
    """Two namespaces and a cable, see scripts/lab.sh."""

    def __init__(self, test, name, options):
        self.test, self.name = test, name
        self.instance = test.instance
        run([LAB, "up", name, *map(str, options)])

    def srv(self, *command, **keywords):
        return run(["ip", "netns", "exec", self.name + "-srv", *map(str, command)], **keywords)

    def cli(self, *command, **keywords):
        return run(["ip", "netns", "exec", self.name + "-cli", *map(str, command)], **keywords)

    def ls(self, *arguments, **keywords):
        """A verb, run in srv on this case's instance."""
        return self.srv(LOADSHED, "-I", self.instance, *arguments, **keywords)

    def attach(self, policy=None, *options, interface="vs", **keywords):
        more = ["--policy", self.test.file("policy.yaml", policy)] if policy else []
        return self.ls("attach", interface, *more, *options, **keywords)

    def apply(self, policy, *options, **keywords):
        return self.ls("policy", "apply", self.test.file("policy.yaml", policy), *options, **keywords)

    def stats(self, *options):
        return self.ls("-o", "json", *options, "stats").json()

    def status(self):
        return self.ls("-o", "json", "status").json()

    def interface(self):
        """What status says about the one interface."""
        return self.status()["interfaces"][0]

    def bans(self):
        return self.ls("-o", "json", "ban", "list").json()["bans"]

    def _background(self, side, tool, *arguments):
        tool = Background(["ip", "netns", "exec", "%s-%s" % (self.name, side), os.path.join(TOOLS, tool),
                           *map(str, arguments)])
        self.test.stack.callback(tool.end)
        return tool

    def sink(self, **classes):
        """Counts what arrives behind XDP; classes: name=prefix or name=prefix@port."""
        options = []
        for name, prefix in classes.items():
            options += ["--class", "%s=%s" % (name, prefix)]
        return self._background("srv", "sink", "--interface", "vs", *options)

    def echo(self, *arguments):
        return self._background("srv", "echo", *arguments)

    def goodclients(self, *arguments):
        return self._background("cli", "goodclients", *arguments)

    def flood_start(self, *arguments):
        return self._background("cli", "flood", "--interface", "vc", *arguments)

    def flood(self, *arguments):
        """Sends and returns what was sent, after the last packet has been judged."""
        result = self.flood_start(*arguments).wait()
        check(result["device_dropped"] == 0 and result["refused"] == 0,
              "the lab's cable lost packets: %s" % result)
        return result

    def send(self, *frames):
        """Frames, in order, by a packet socket in cli."""
        code = ("import socket,sys;s=socket.socket(17,3);s.bind(('vc',0));"
                "[s.send(bytes.fromhex(l.strip())) for l in sys.stdin]")
        self.cli("/usr/bin/python3", "-S", "-c", code,
                 stdin="\n".join(frame.hex() for frame in frames).encode())

    def carrier_changes(self):
        return int(self.srv("cat", "/sys/class/net/vs/carrier_changes").out)

    def down(self):
        subprocess.run([LAB, "down", self.name], check=False, stdout=subprocess.DEVNULL)


class Test:
    """What one case has: a folder, an instance name, labs, and a stack of what is to be undone."""

    count = 0

    def __init__(self):
        Test.count += 1
        self.stack = contextlib.ExitStack()
        self.instance = "e2e-%d-%d" % (os.getpid(), Test.count)
        self.folder = tempfile.mkdtemp(prefix="loadshed-e2e-")
        self.stack.callback(shutil.rmtree, self.folder, True)
        # What publishing verbs save, of this instance alone.
        self.stack.callback(shutil.rmtree, "/var/lib/loadshed/" + self.instance, True)
        self.labs = 0

    def path(self, name):
        return os.path.join(self.folder, name)

    def file(self, name, contents):
        if isinstance(contents, str):
            contents = contents.encode()
        with open(self.path(name), "wb") as file:
            file.write(contents)
        return self.path(name)

    def lab(self, *options):
        self.labs += 1
        lab = Lab(self, "ls-lab-%d-%d-%d" % (os.getpid(), Test.count, self.labs), options)
        self.stack.callback(lab.down)
        # Ran before the namespaces go: a pinned link outlives its interface.
        self.stack.callback(lambda: lab.ls("detach", "--all", code=None))
        return lab

    def replay(self, policy, capture, *options, code=0):
        """capture: bytes of a file. The summary."""
        return run([LOADSHED, "-o", "json", "replay", self.file("capture", capture), "--policy",
                    self.file("policy.yaml", policy), *options], code=code).json()

    def replay_packets(self, policy, capture, code=0):
        """One dict for each packet."""
        return run([LOADSHED, "replay", self.file("capture", capture), "--policy",
                    self.file("policy.yaml", policy), "--packets"], code=code).lines()


def tally(stats, verdict=None, reason=None, class_name="*"):
    """Packets of a stats document, summed over what is asked for."""
    total = 0
    for entry in stats["classes"]:
        if class_name not in ("*", entry["name"]):
            continue
        for item in entry["verdicts"]:
            if verdict in (None, item["verdict"]) and reason in (None, item["reason"]):
                total += item["packets"]
    return total


def check_adds_up(stats):
    for unit in ("packets", "bytes"):
        check_equal("seen " + unit, stats["seen"][unit], stats["pass"][unit] + stats["drop"][unit])
    check_equal("sum of drops", tally(stats, "drop"), stats["drop"]["packets"])
    check_equal("sum of would-drops", tally(stats, "would-drop"), stats["would_drop"]["packets"])
    check_equal("sum of passes", tally(stats, "pass") + tally(stats, "would-drop"),
                stats["pass"]["packets"])


def data(name):
    """The path of a real capture or list."""
    if not DATA:
        raise Skip("LOADSHED_DATA names no folder of captures")
    path = os.path.join(DATA, name)
    if not os.path.exists(path):
        raise Skip("%s is not there" % path)
    return path


def _expire(_signal, _frame):
    raise Fail("no end within %d s" % CASE_SECONDS)


def _run_case(name, function):
    test = Test()
    signal.signal(signal.SIGALRM, _expire)
    signal.alarm(CASE_SECONDS)
    try:
        with test.stack:
            function(test)
        line, good = "ok " + name, True
    except Skip as reason:
        line, good = "skip %s: %s" % (name, reason), True
    except Fail as reason:
        line, good = "not ok %s: %s" % (name, str(reason).replace("\n", " | ")), False
    except Exception as error:  # a fault of the case itself is no pass either
        where = traceback.extract_tb(error.__traceback__)[-1]
        line, good = "not ok %s: %s: %s (%s:%s)" % (
            name, type(error).__name__, str(error).replace("\n", " | ")[:300],
            os.path.basename(where.filename), where.lineno), False
    finally:
        signal.alarm(0)
    print(line, flush=True)
    if "LOADSHED_E2E_LOG" in os.environ:
        with open(os.environ["LOADSHED_E2E_LOG"], "a") as log:
            log.write(line + "\n")
    return good


def _terminate(_signal, _frame):
    sys.exit(1)  # unwinds the stacks, so labs go down


def main():
    """Runs the cases of the file, or those whose name begins with an argument."""
    signal.signal(signal.SIGTERM, _terminate)
    wanted = sys.argv[1:]
    good = True
    for name, function in _cases:
        if not wanted or any(name.startswith(prefix) for prefix in wanted):
            good = _run_case(name, function) and good
    sys.exit(0 if good else 1)
