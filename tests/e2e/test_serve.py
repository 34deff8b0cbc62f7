# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""serve: a client of what is attached. What it does, what it leaves alone, and that nothing depends on it."""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import time

import harness
from harness import LOADSHED, ROOT, Fail, Skip, case, check, check_adds_up, check_equal, main, run, tally, wait_for
from packets import udp_frame

SOURCE, OTHER = "203.0.113.7", "198.51.100.9"
DENY = "version: 1\ndeny: [203.0.113.7]\n"
DENY_OTHER = "version: 1\ndeny: [198.51.100.9]\n"
LISTS = "version: 1\nsets: { feed: { file: feed.txt } }\ndeny: [feed]\n"
LONG = os.environ.get("LS_LONG")
KILL_SECONDS = 600 if LONG else 20

if LONG:
    harness.CASE_SECONDS = 1200


class Serve:
    """A controller in srv; its log, line by line, in `log()`."""

    count = 0

    def __init__(self, test, lab, *options, env=None):
        Serve.count += 1
        self.lab = lab
        self.path = test.path("serve-%d.log" % Serve.count)
        with open(self.path, "wb") as log:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", lab.name + "-srv", LOADSHED, "-I", lab.instance, "serve", "--metrics", "none",
                 *options], stdin=subprocess.DEVNULL, stderr=log, env=dict(os.environ, **(env or {})))
        test.stack.callback(self.kill)

    @property
    def pid(self):
        return self.process.pid  # `ip netns exec` becomes the command

    def log(self):
        with open(self.path, encoding="utf-8") as file:
            return file.read()

    def wait_log(self, text, count=1, seconds=10):
        try:
            wait_for(text, lambda: self.log().count(text) >= count, seconds)
        except Fail:
            raise Fail("the log does not say %r %d times, but: %s" % (text, count, self.log()[-600:])) from None

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        self.signal(signal.SIGTERM)
        check_equal("exit of serve", self.process.wait(10), 0)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def start(test, lab, *options, **keywords):
    serve = Serve(test, lab, *options, **keywords)
    serve.wait_log("is attached to")
    return serve


def degraded(lab):
    return " | ".join(lab.status()["degraded"])


def dropped(lab, *sources):
    """Of one packet from each, how many are dropped."""
    before = lab.stats()
    lab.send(*[udp_frame(source) for source in sources])
    wait_for("packets", lambda: lab.stats()["seen"]["packets"] >= before["seen"]["packets"] + len(sources))
    return lab.stats()["drop"]["packets"] - before["drop"]["packets"]


def beat(lab):
    """When the controller last said that it lives, in ns."""
    inode = lab.srv("stat", "-Lc", "%i", "/proc/self/ns/net").out.strip()
    with open("/run/loadshed/%s@%s.serve" % (lab.instance, inode), "rb") as file:
        return struct.unpack_from("<Q", file.read(), 24)[0]


def replace(test, name, contents):
    """As editors and feeds do: another file, renamed over it."""
    test.file(name + ".new", contents)
    os.rename(test.path(name + ".new"), test.path(name))


@case("serve leaves enforcement in place when it ends")
def ends(test):
    lab = test.lab()
    lab.attach(DENY)
    before = lab.interface()
    serve = start(test, lab)
    check_equal("pid in status", lab.status()["serve"]["pid"], serve.pid)
    check_equal("dropped beside it", dropped(lab, SOURCE, OTHER), 1)
    serve.end()
    check("goes on as it is" in serve.log(), serve.log())
    check_equal("serve in status", lab.status()["serve"], None)
    check_equal("dropped after it", dropped(lab, SOURCE, OTHER), 1)
    after = lab.interface()
    check_equal("link", after["link_id"], before["link_id"])
    check_equal("program", after["program_id"], before["program_id"])


@case("serve of an instance that has one is refused, one of another is not")
def second(test):
    lab = test.lab()
    lab.attach(DENY)
    serve = start(test, lab)
    result = lab.ls("serve", code=1)
    check("process %d" % serve.pid in result.err, result.err)
    other = lab.srv("timeout", "-s", "TERM", "1", LOADSHED, "-I", lab.instance + "-b", "serve", "--metrics", "none",
                    code=None)
    check("waiting" in other.err and "another" not in other.err, other.err)
    serve.kill()
    start(test, lab)  # the lock went with it


@case("serve refuses an address that is none, with one line")
def addresses(test):
    for address in ("9644", "host:80", "127.0.0.1:0", "127.0.0.1:65536", "::1:80", "[::1]", "[1.2.3.4]:80", "1.2.3:80",
                    "127.0.0.1:080", "", ":", "127.0.0.1:80 "):
        result = run([LOADSHED, "-I", test.instance, "serve", "--metrics", address], code=2)
        check_equal("lines about %r" % address, result.err.count("\n"), 1)
        check("--metrics" in result.err, result.err)


@case("serve waits when nothing is attached, and adopts what comes")
def waits(test):
    lab = test.lab()
    serve = Serve(test, lab)
    serve.wait_log("nothing is attached")
    lab.attach(DENY)
    serve.wait_log("is attached to 1 interface")
    lab.ls("detach", "--all")
    serve.wait_log("nothing is attached", 2)
    maps = [link for link in links_of(serve.pid) if "bpf-map" in link]
    check_equal("maps that it keeps", maps, [])
    lab.attach(DENY_OTHER)
    serve.wait_log("is attached to 1 interface", 2)
    check_equal("detached is not attached again: attaches", serve.log().count("vs: attached"), 0)


@case("serve restores what is saved when nothing is attached")
def restores(test):
    lab = test.lab()
    lab.attach(DENY)
    lab.ls("ban", "add", OTHER, "--for", "1h")
    inode = lab.srv("stat", "-Lc", "%i", "/proc/self/ns/net").out.strip()
    shutil.rmtree("/sys/fs/bpf/loadshed/%s@%s" % (lab.instance, inode))
    wait_for("nothing is attached", lambda: not lab.status()["interfaces"])
    serve = start(test, lab)
    check_equal("dropped", dropped(lab, SOURCE, OTHER, "192.0.2.1"), 2)
    check("vs: attached" in serve.log(), serve.log())


@case("serve typed in a session restores only what leaves the session alone")
def guarded(test):
    lab = test.lab()
    lab.attach(DENY)
    inode = lab.srv("stat", "-Lc", "%i", "/proc/self/ns/net").out.strip()
    shutil.rmtree("/sys/fs/bpf/loadshed/%s@%s" % (lab.instance, inode))
    wait_for("nothing is attached", lambda: not lab.status()["interfaces"])
    serve = Serve(test, lab, env={"SSH_CONNECTION": SOURCE + " 50000 10.9.0.1 22"})
    serve.wait_log("nothing is attached")
    check("would cut your own session" in serve.log(), serve.log())
    recreate(lab, is_attached=False)
    # By its own clock longer than a saved interface that is there waits to be attached.
    first = beat(lab)
    wait_for("three seconds of serve's", lambda: beat(lab) >= first + 3e9, 20)
    check_equal("interfaces", lab.status()["interfaces"], [])
    serve.kill()
    serve = Serve(test, lab, env={"SSH_CONNECTION": OTHER + " 50000 10.9.0.1 22"})
    serve.wait_log("vs: attached")


@case("serve leaves alone what another version attached, and says so once")
def other_version(test):
    lab = test.lab()
    lab.attach(DENY)
    before = lab.interface()
    inode = lab.srv("stat", "-Lc", "%i", "/proc/self/ns/net").out.strip()
    os.unlink("/sys/fs/bpf/loadshed/%s@%s/ls_strikes" % (lab.instance, inode))  # as a build without that map
    serve = Serve(test, lab)
    serve.wait_log("another version of loadshed made it")
    first = beat(lab)
    wait_for("three seconds of serve's", lambda: beat(lab) >= first + 3e9, 20)
    check_equal("times said", serve.log().count("another version"), 1)
    check("vs: attached" not in serve.log(), serve.log())
    link = json.loads(run(["bpftool", "-j", "link", "show", "id", str(before["link_id"])]).out)
    check_equal("program", link["prog_id"], before["program_id"])
    lab.ls("attach", "vs")
    serve.wait_log("is attached to")
    check_equal("dropped", dropped(lab, SOURCE), 1)


@case("serve does not wait for a verb that holds the lock")
def unblocked(test):
    lab = test.lab()
    serve = Serve(test, lab)
    serve.wait_log("nothing is attached")
    inode = lab.srv("stat", "-Lc", "%i", "/proc/self/ns/net").out.strip()
    # As an attach that is at work: its lock, and the pins that it puts together.
    pins_new = "/sys/fs/bpf/loadshed/%s@%s@new" % (lab.instance, inode)
    os.mkdir(pins_new)
    test.stack.callback(lambda: os.path.exists(pins_new) and os.rmdir(pins_new))
    with open("/run/loadshed/%s@%s.lock" % (lab.instance, inode), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        calls = lab.srv("timeout", "-s", "INT", "3", "strace", "-qq", "-T", "-e", "trace=epoll_wait", "-p", str(serve.pid),
                        code=None).err
        waits = len(re.findall("epoll_wait", calls))
        check(waits >= 15, "the loop went round %d times in 3 s" % waits)


@case("SIGHUP applies the file again; a bad file keeps the old policy and says so")
def hangup(test):
    lab = test.lab()
    lab.attach(DENY)
    serve = start(test, lab)
    test.file("policy.yaml", DENY_OTHER)
    serve.signal(signal.SIGHUP)
    serve.wait_log("as generation 2")
    check_equal("dropped by the new one", dropped(lab, OTHER), 1)
    check_equal("and no more by the old one", dropped(lab, SOURCE), 0)
    test.file("policy.yaml", "version: 1\ndeny: [nonsense\n")
    serve.signal(signal.SIGHUP)
    serve.wait_log("cannot reload")
    check_equal("lines about it", serve.log().count("cannot reload"), 1)
    check("the reload failed" in degraded(lab) and "since 20" in degraded(lab), degraded(lab))
    check_equal("generation", lab.status()["generation"], 2)
    check_equal("dropped as before", dropped(lab, OTHER, SOURCE), 1)
    test.file("policy.yaml", DENY_OTHER)
    serve.signal(signal.SIGHUP)
    serve.wait_log("in force already")
    check_equal("degraded", degraded(lab), "")
    # A policy that waits to be confirmed is nobody's to replace.
    lab.ls("policy", "apply", test.file("new.yaml", DENY), "--confirm", "1h")
    serve.signal(signal.SIGHUP)
    serve.wait_log("waits to be confirmed")
    check("waits to be confirmed" in degraded(lab), degraded(lab))
    check_equal("generation", lab.status()["generation"], 3)
    lab.ls("policy", "confirm")
    lab.ls("policy", "apply", test.path("policy.yaml"))
    wait_for("another apply ends it", lambda: degraded(lab) == "")


@case("a list file that changes is published: renamed over, written in place, and bad ones not")
def lists(test):
    lab = test.lab()
    test.file("feed.txt", SOURCE + "\n")
    lab.attach(LISTS)
    serve = start(test, lab)
    check_equal("before", dropped(lab, SOURCE, OTHER), 1)
    replace(test, "feed.txt", SOURCE + "\n" + OTHER + "\n")
    serve.wait_log("as generation 2")
    check("2 entries, before 1" in serve.log(), serve.log())
    check_equal("after a rename", dropped(lab, SOURCE, OTHER), 2)
    test.file("feed.txt", OTHER + "\n")
    serve.wait_log("as generation 3")
    check_equal("after writing in place", dropped(lab, SOURCE, OTHER), 1)
    replace(test, "feed.txt", "no address\n")
    serve.wait_log("stays as it was")
    check("feed.txt:1" in degraded(lab) and "since 20" in degraded(lab), degraded(lab))
    check_equal("after a bad one", dropped(lab, SOURCE, OTHER), 1)
    test.file("feed.txt", "")
    serve.wait_log("no entry any more")
    check_equal("after an empty one", dropped(lab, SOURCE, OTHER), 1)
    os.unlink(test.path("feed.txt"))
    serve.wait_log("No such file")
    check_equal("after a deletion", dropped(lab, SOURCE, OTHER), 1)
    check_equal("each said once", serve.log().count("stays as it was"), 3)
    check_equal("generation", lab.status()["generation"], 3)
    replace(test, "feed.txt", SOURCE + "\n")
    serve.wait_log("as generation 4")
    check_equal("good again", dropped(lab, SOURCE, OTHER), 1)
    wait_for("no complaint", lambda: degraded(lab) == "")
    # By hand and not in the file: a list that changes leaves it.
    lab.ls("deny", "add", "192.0.2.5")
    replace(test, "feed.txt", OTHER + "\n")
    serve.wait_log("as generation 6")
    check_equal("kept", dropped(lab, "192.0.2.5", OTHER, SOURCE), 2)


@case("a list file that changed while serve was away is published when it starts")
def lists_later(test):
    lab = test.lab()
    test.file("feed.txt", SOURCE + "\n")
    lab.attach(LISTS)
    replace(test, "feed.txt", OTHER + "\n")
    serve = start(test, lab)
    serve.wait_log("as generation 2")
    check_equal("dropped", dropped(lab, OTHER), 1)


@case("a list waits while a policy is to be confirmed")
def lists_pending(test):
    lab = test.lab()
    test.file("feed.txt", SOURCE + "\n")
    lab.attach(LISTS)
    serve = start(test, lab)
    lab.ls("policy", "apply", test.file("new.yaml", LISTS + "mode: monitor\n"), "--confirm", "1h")
    replace(test, "feed.txt", OTHER + "\n")
    wait_for("a look at it", lambda: lab.status()["generation"] == 2)
    lab.ls("policy", "confirm")
    serve.wait_log("as generation 3")
    check_equal("mode", lab.status()["mode"], "monitor")


def recreate(lab, is_attached=True):
    """The cable, made anew with the same names."""
    lab.srv("ip", "link", "del", "vs")
    if is_attached:
        wait_for("it is gone", lambda: lab.interface()["program_id"] is None)
    again(lab)


def again(lab):
    lab.srv("ip", "link", "add", "vs", "address", "02:00:00:00:09:01", "type", "veth", "peer", "name", "vc", "netns",
            lab.name + "-cli", "address", "02:00:00:00:09:02")
    lab.srv("ip", "address", "add", "10.9.0.1/24", "dev", "vs")
    lab.srv("ip", "link", "set", "vs", "up")
    lab.cli("ip", "link", "set", "vc", "up")


@case("an interface that is deleted and made anew runs the same policy and bans again")
def comes_back(test):
    lab = test.lab()
    lab.attach(DENY)
    lab.ls("ban", "add", OTHER, "--for", "1h")
    before = lab.interface()["ifindex"]
    serve = start(test, lab)
    check_equal("dropped", dropped(lab, SOURCE, OTHER, "192.0.2.1"), 2)
    seen = lab.stats()["seen"]["packets"]
    lab.srv("ip", "link", "del", "vs")
    serve.wait_log("has vanished")
    check("vanished since 20" in degraded(lab), degraded(lab))
    again(lab)
    serve.wait_log("vs: attached")
    wait_for("it is seen", lambda: lab.interface()["program_id"])
    check(lab.interface()["ifindex"] != before, "the case tries nothing")
    check_equal("dropped as before", dropped(lab, SOURCE, OTHER, "192.0.2.1"), 2)
    check(lab.stats()["seen"]["packets"] >= seen + 3, "counters went down")
    wait_for("nothing is degraded", lambda: degraded(lab) == "")
    check_equal("generation", lab.status()["generation"], 1)


@case("an interface that is renamed stays protected, and is found by its new name, made anew or at boot")
def renamed(test):
    lab = test.lab()
    lab.attach(DENY)

    def rename(old, new):
        lab.srv("ip", "link", "set", old, "down")
        lab.srv("ip", "link", "set", old, "name", new)
        lab.srv("ip", "link", "set", new, "up")

    rename("vs", "wan0")
    check_equal("dropped", dropped(lab, SOURCE), 1)
    check("vs: renamed to wan0" in degraded(lab) and "not attached" not in degraded(lab), degraded(lab))
    serve = start(test, lab)
    wait_for("the new name is saved", lambda: degraded(lab) == "")
    check_equal("name", lab.interface()["name"], "wan0")
    rename("wan0", "vs")
    serve.wait_log("wan0: renamed to vs")
    wait_for("the old name is saved again", lambda: degraded(lab) == "")
    recreate(lab)
    serve.wait_log("vs: attached")
    check_equal("dropped when made anew", dropped(lab, SOURCE), 1)


@case("our program is taken off by force: said once, within a second, and not fought over")
def taken(test):
    if shutil.which("bpftool") is None:
        raise Skip("needs bpftool")
    lab = test.lab()
    lab.attach(DENY)
    serve = start(test, lab)
    # What can be refused is refused by the kernel.
    lab.srv("ip", "link", "set", "dev", "vs", "xdp", "off", code=None)
    check_equal("after 'xdp off'", dropped(lab, SOURCE), 1)
    begin = time.monotonic()
    run(["bpftool", "link", "detach", "id", str(lab.interface()["link_id"])])
    serve.wait_log("took our program off")
    # Twice a second, and what this machine and this test need to look.
    check(time.monotonic() - begin < 2, "noticed after %.1f s" % (time.monotonic() - begin))
    check("not protected since 20" in degraded(lab) and "nothing runs there" in degraded(lab), degraded(lab))
    foreign = subprocess.Popen(["ip", "netns", "exec", lab.name + "-srv", "/usr/bin/python3",
                                os.path.join(ROOT, "tests/e2e/foreign.py"), "vs", "link", "native"],
                               stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    test.stack.callback(foreign.kill)
    check_equal("the other program", foreign.stderr.readline(), b"ready\n")
    serve.wait_log("foreign_pass")
    check("foreign_pass" in degraded(lab), degraded(lab))
    serve.kill()
    serve = start(test, lab)  # nor does one that starts fight
    serve.wait_log("took our program off")
    check_equal("times said", serve.log().count("took our program off"), 1)
    foreign.terminate()
    foreign.wait()
    serve.wait_log("nothing runs there")
    lab.ls("attach", "vs")
    serve.wait_log("nobody else's program")
    check_equal("taken back", dropped(lab, SOURCE), 1)
    wait_for("nothing is degraded", lambda: degraded(lab) == "")


@case("conditions of a serve that died are not shown")
def dead(test):
    lab = test.lab()
    lab.attach(DENY)
    serve = start(test, lab)
    test.file("policy.yaml", "nonsense")
    serve.signal(signal.SIGHUP)
    serve.wait_log("cannot reload")
    check("reload" in degraded(lab), degraded(lab))
    serve.kill()
    check_equal("degraded", degraded(lab), "")


def pins(lab):
    inode = lab.srv("stat", "-Lc", "%i", "/proc/self/ns/net").out.strip()
    return sorted(os.listdir("/sys/fs/bpf/loadshed/%s@%s" % (lab.instance, inode)))


def processes(lab):
    """Those of the program that run in srv."""
    found = []
    for pid in run(["ip", "netns", "pids", lab.name + "-srv"]).out.split():
        with contextlib.suppress(OSError):
            if os.readlink("/proc/%s/exe" % pid) == LOADSHED:
                found.append(pid)
    return found


def links_of(pid):
    return [os.readlink("/proc/%d/fd/%s" % (pid, fd)) for fd in os.listdir("/proc/%d/fd" % pid)]


def descriptors(pid):
    return len(links_of(pid))


def status_of(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


@case("serve keeps few capabilities, no new privileges, and a seccomp filter")
def sandbox(test):
    lab = test.lab()
    lab.attach(DENY)
    serve = start(test, lab)
    wait_for("the filter", lambda: status_of(serve.pid)["Seccomp"] == "2")
    status = status_of(serve.pid)
    check_equal("NoNewPrivs", status["NoNewPrivs"], "1")
    kept = int(status["CapEff"], 16)
    allowed = 1 << 12 | 1 << 21 | 1 << 2  # NET_ADMIN, SYS_ADMIN, DAC_READ_SEARCH
    check_equal("capabilities beside those", kept & ~allowed, 0)
    check_equal("permitted", status["CapPrm"], status["CapEff"])
    check_equal("bounding", int(status["CapBnd"], 16) & ~allowed, 0)
    check_equal("inheritable", int(status["CapInh"], 16), 0)
    # And with that it does what it must: publish, load the program, attach.
    test.file("policy.yaml", DENY_OTHER)
    serve.signal(signal.SIGHUP)
    serve.wait_log("as generation 2")
    recreate(lab)
    serve.wait_log("vs: attached")
    check_equal("dropped", dropped(lab, OTHER), 1)


@case("serve tells systemd: ready, reloading, status, watchdog, stopping")
def notify(test):
    lab = test.lab()
    lab.attach(DENY)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(test.path("notify"))
        manager.settimeout(10)
        serve = Serve(test, lab, env={"NOTIFY_SOCKET": test.path("notify"), "WATCHDOG_USEC": "400000"})

        def until(wanted):
            messages = []
            while wanted not in messages:
                messages += manager.recv(4096).decode().split("\n")
            return messages

        until("READY=1")
        until("WATCHDOG=1")
        serve.signal(signal.SIGHUP)
        messages = until("READY=1")
        check("RELOADING=1" in messages, messages)
        stamps = [int(m.split("=")[1]) for m in messages if m.startswith("MONOTONIC_USEC=")]
        check(len(stamps) == 1 and abs(stamps[0] / 1e6 - time.monotonic()) < 10, messages)
        test.file("policy.yaml", "nonsense")
        serve.signal(signal.SIGHUP)
        until("READY=1")
        serve.signal(signal.SIGTERM)
        until("STOPPING=1")
        check_equal("exit", serve.process.wait(10), 0)


@case("serve logs with priorities for the journal, and with times for people")
def journal(test):
    lab = test.lab()
    log = test.path("journal.log")
    with open(log, "wb") as file:
        status = os.fstat(file.fileno())
        process = subprocess.Popen(
            ["ip", "netns", "exec", lab.name + "-srv", LOADSHED, "-I", lab.instance, "serve", "--metrics", "none"],
            stderr=file, env=dict(os.environ, JOURNAL_STREAM="%d:%d" % (status.st_dev, status.st_ino)))
    test.stack.callback(process.kill)

    def lines():
        with open(log, encoding="utf-8") as file:
            return file.read().splitlines()

    wait_for("a line", lines)
    check(lines()[0].startswith("<4>nothing is attached"), lines())
    process.terminate()
    process.wait(10)
    serve = Serve(test, lab)
    serve.wait_log("nothing is attached")
    check(serve.log().startswith("20"), serve.log())


@case("serve killed with -9 again and again under traffic: no packet is misjudged, nothing grows")
def killed(test):
    lab = test.lab()
    test.file("feed.txt", "192.0.2.0/24\n")
    lab.attach(LISTS.replace("[feed]", "[feed, 203.0.113.0/24]"))
    lab.ls("ban", "add", "198.18.0.1", "--for", "1h")
    sink = lab.sink(good="198.51.100.0/24", bad="203.0.113.0/24")
    before = lab.stats()
    good = lab.flood_start("--from", "198.51.100.0/24", "--sources", 50, "--rate", "2k", "--seconds", KILL_SECONDS + 30)
    bad = lab.flood_start("--from", "203.0.113.0/24", "--sources", 50, "--rate", "2k", "--seconds", KILL_SECONDS + 30)
    first = pins(lab)
    end = time.monotonic() + KILL_SECONDS
    rounds = 0
    while time.monotonic() < end:
        serve = start(test, lab)
        rounds += 1
        # Killed at work, too: a list changes each time.
        replace(test, "feed.txt", "192.0.2.%d\n" % (rounds % 250))
        wait_for("the second passes", lambda: time.monotonic() > end - KILL_SECONDS + rounds, KILL_SECONDS)
        serve.kill()
    check(rounds >= KILL_SECONDS / 4, "only %d rounds" % rounds)
    sent_good, sent_bad = good.stop(), bad.stop()
    for sent in (sent_good, sent_bad):
        check_equal("lost by the lab", sent["device_dropped"] + sent["refused"], 0)
    arrived = sink.stop()["classes"]
    check_equal("good packets delivered", arrived["good"]["packets"], sent_good["sent"])
    check_equal("bad packets delivered", arrived["bad"]["packets"], 0)
    after = lab.stats()
    check_adds_up(after)
    check_equal("dropped", tally(after, "drop", "deny") - tally(before, "drop", "deny"), sent_bad["sent"])
    check_equal("bans", len(lab.bans()), 1)
    check_equal("pins", pins(lab), first)
    wait_for("no process is left", lambda: not processes(lab), 20)
    serve = start(test, lab)
    check("another" not in serve.log(), serve.log())


@case("serve grows neither in memory nor in descriptors, however often it works")
def growth(test):
    lab = test.lab()
    test.file("feed.txt", "192.0.2.1\n")
    lab.attach(LISTS)
    serve = start(test, lab)
    generation = 1
    for number in range(20):
        replace(test, "feed.txt", "192.0.2.%d\n" % (number + 2))
        generation += 1
        serve.wait_log("as generation %d:" % generation)
        if number == 4:
            first = descriptors(serve.pid), int(status_of(serve.pid)["VmRSS"].split()[0])
    check_equal("descriptors", descriptors(serve.pid), first[0])
    check(int(status_of(serve.pid)["VmRSS"].split()[0]) <= first[1] + 512, "from %d to %s" % (
        first[1], status_of(serve.pid)["VmRSS"]))


if __name__ == "__main__":
    main()
