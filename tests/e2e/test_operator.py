# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The verbs of an operator in the middle of an attack: going back, what holds for a time, lists, feeds, editing."""

import contextlib
import glob
import os
import random
import shutil
import subprocess
import time

from harness import LOADSHED, Skip, case, check, check_adds_up, check_equal, main, run, tally, wait_for
from packets import ACK, SYN, tcp_frame, udp_frame

SOURCE, OTHER, FRIEND = "203.0.113.7", "198.51.100.9", "192.0.2.33"
PLAIN = "version: 1\nallow: [192.0.2.33]\n"
DENY = PLAIN + "deny: [203.0.113.7]\n"
SLOW = PLAIN + "classes:\n  - { name: rest, match: any, limits: [{ rate: 1/m }] }\n"


def verdicts(lab, frames):
    """Sends and returns how many got each (verdict, reason), but for what the lab's kernels say among themselves."""
    def read():
        stats = lab.stats()
        check_adds_up(stats)
        rows = {}
        for entry in stats["classes"]:
            for item in entry["verdicts"]:
                key = item["verdict"], item["reason"]
                if key[1] not in ("control", "non-ip"):
                    rows[key] = rows.get(key, 0) + item["packets"]
        return rows

    before = read()
    wanted = sum(before.values()) + len(frames)
    lab.send(*frames)
    wait_for("all packets judged", lambda: sum(read().values()) >= wanted)
    return {key: count - before.get(key, 0) for key, count in read().items() if count != before.get(key, 0)}


def saved_policy(lab):
    files = glob.glob("/var/lib/loadshed/%s/**/policy.blob" % lab.instance, recursive=True)
    with open(files[0], "rb") as file:
        return file.read()


def session(lab, source, *arguments, server="10.9.0.1", code=0):
    """A verb in an SSH session from there."""
    return lab.srv("env", "SSH_CONNECTION=%s 50000 %s 22" % (source, server), LOADSHED, "-I", lab.instance,
                   *arguments, code=code)


@case("W-01 what is applied with --confirm undoes itself in the kernel, with no process alive")
def confirm_expires(test):
    lab = test.lab()
    lab.attach(PLAIN)
    frame = udp_frame(SOURCE)
    lab.apply(DENY, "--confirm", "3s")
    deadline = time.monotonic() + 3
    check_equal("pending", verdicts(lab, [frame] * 5), {("drop", "deny"): 5})
    check(0 < lab.status()["confirm_seconds"] <= 3, "status: %s" % lab.status())
    other = test.file("other.yaml", SLOW)
    for verb in (["policy", "apply", other], ["policy", "apply", other, "--confirm", "9s"], ["allow", "add", OTHER],
                 ["allow", "del", FRIEND], ["deny", "add", OTHER], ["deny", "del", SOURCE], ["policy", "rollback"],
                 ["policy", "edit"], ["attach", "vs", "--policy", other]):
        check("waits to be confirmed" in lab.ls(*verb, code=1).err, "%s is not refused" % verb)
    lab.ls("ban", "add", OTHER, "--for", "1h")
    check(SOURCE.encode() not in saved_policy(lab), "what is not confirmed would come back at boot")
    check(time.monotonic() < deadline, "this machine is too slow for the case")
    time.sleep(max(0, deadline - time.monotonic()) + 0.05)  # the kernel's clock alone decides
    check_equal("after the deadline", verdicts(lab, [frame] * 5), {("pass", "unmatched"): 5})
    check_equal("the ban", verdicts(lab, [udp_frame(OTHER)]), {("drop", "ban"): 1})
    status = lab.status()
    check_equal("status", (status["generation"], status["confirm_seconds"]), (1, None))
    check("deny" not in lab.ls("policy", "show").out.replace("deny: []", ""), "show shows what is not in force")
    lab.ls("policy", "confirm", code=1)
    lab.ls("policy", "rollback", code=1)
    check_equal("and for good", verdicts(lab, [frame]), {("pass", "unmatched"): 1})
    lab.apply(SLOW)
    check_equal("a number is given once", lab.status()["generation"], 3)


@case("W-01 confirm keeps what was applied, and then it is saved")
def confirm_keeps(test):
    lab = test.lab()
    lab.attach(PLAIN)
    lab.ls("policy", "confirm", code=1)
    lab.apply(DENY, "--confirm", "2s")
    lab.ls("policy", "confirm")
    check(SOURCE.encode() in saved_policy(lab), "not saved")
    time.sleep(2.1)  # nothing must happen then, and there is no sign of that but the kernel's clock
    check_equal("after the time", verdicts(lab, [udp_frame(SOURCE)]), {("drop", "deny"): 1})
    check_equal("status", lab.status()["confirm_seconds"], None)
    lab.apply(DENY, "--confirm", "1s")
    check_equal("the same policy waits for nobody", lab.status()["confirm_seconds"], None)
    for wrong in ("0s", "5", "1.5s", "11000d", "-1s", "500ms"):
        lab.apply(DENY, "--confirm=" + wrong, code=2)


@case("rollback swaps with the one previous generation, whole, and bans stay")
def rollback(test):
    lab = test.lab()
    lab.attach(PLAIN)
    lab.ls("policy", "rollback", code=1)
    lab.apply(DENY)
    lab.ls("ban", "add", OTHER, "--for", "1h")
    for number, wanted in ((1, "pass"), (2, "drop"), (1, "pass")):
        lab.ls("policy", "rollback")
        check_equal("generation", lab.status()["generation"], number)
        check_equal("verdict", [key[0] for key in verdicts(lab, [udp_frame(SOURCE)])], [wanted])
        check_equal("diff", lab.ls("policy", "diff", test.file("d.yaml", DENY), "--exit-code", code=None).code,
                    1 if wanted == "pass" else 0)
        check_equal("saved", SOURCE.encode() in saved_policy(lab), wanted == "drop")
    check_equal("bans", len(lab.bans()), 1)
    lab.apply(SLOW)
    check_equal("next number", lab.status()["generation"], 3)
    lab.ls("policy", "rollback")
    check_equal("the last before", lab.status()["generation"], 1)


@case("S-08 going back to a faster limit helps at once: by rollback, and by a confirm that was not given in time")
def back_to_faster(test):
    lab = test.lab()
    fast = "version: 1\nclasses:\n  - { name: rest, match: any, limits: [{ rate: 1k/s }] }\n"
    day = fast.replace("1k/s", "1/d")
    lab.attach(fast)
    for confirm in ([], ["--confirm", "1s"]):
        lab.apply(day, *confirm)
        got = verdicts(lab, [udp_frame(SOURCE)] * 5)
        check(got.get(("drop", "limit"), 0) >= 4, "1/d: %s" % got)
        if confirm:
            wait_for("the deadline", lambda: lab.status()["confirm_seconds"] is None, 3)
            lab.ls("on")  # any verb that changes something
        else:
            lab.ls("policy", "rollback")
        check_equal("again 1k/s", verdicts(lab, [udp_frame(SOURCE)]), {("pass", "admitted"): 1})


@case("off drops nothing and ends by itself; on ends it at once")
def off(test):
    lab = test.lab()
    lab.attach(DENY)
    frames = [udp_frame(SOURCE)] * 3
    lab.ls("off", "--for", "2s")
    check_equal("off", verdicts(lab, frames), {("would-drop", "deny"): 3})
    check_equal("mode", lab.status()["mode"], "monitor")
    lab.apply(DENY + "mode: enforce\nmalformed: pass\n")  # a publish does not end it
    check_equal("off after apply", verdicts(lab, frames), {("would-drop", "deny"): 3})
    lab.ls("policy", "rollback")
    wait_for("off ends", lambda: lab.status()["off_seconds"] is None, 3)
    check_equal("after", verdicts(lab, frames), {("drop", "deny"): 3})
    lab.ls("off")
    check(595 <= lab.status()["off_seconds"] <= 600, "default: %s" % lab.status())
    lab.ls("on")
    check_equal("on", verdicts(lab, frames), {("drop", "deny"): 3})
    lab.ls("on")
    # off while a confirm is pending, and its end
    lab.apply(PLAIN, "--confirm", "2s")
    lab.ls("off", "--for", "1h")
    check_equal("off and pending", verdicts(lab, frames), {("pass", "unmatched"): 3})
    wait_for("the deadline", lambda: lab.status()["confirm_seconds"] is None, 3)
    check_equal("off and back", verdicts(lab, frames), {("would-drop", "deny"): 3})
    lab.ls("on")
    check_equal("on and back", verdicts(lab, frames), {("drop", "deny"): 3})


PANIC = """version: 1
allow: [192.0.2.33]
classes:
  - { name: bulk, match: { protocol: udp, ports: [6000] }, priority: low }
  - { name: trial, match: { protocol: udp, ports: [7000] }, mode: monitor }
  - { name: web, match: { protocol: tcp, ports: [80] }, limits: [{ rate: 100k/s }] }
"""


@case("panic is strict beside the policy: connections, packets, low priority; allowed sources are exempt")
def panic(test):
    lab = test.lab()
    lab.attach(PANIC)
    syns = [tcp_frame(SOURCE)] * 60
    check_equal("before", verdicts(lab, syns), {("pass", "admitted"): 60})
    lab.ls("panic", "--for", "1h")
    start = time.monotonic()
    got = verdicts(lab, syns)
    more = 1 + 20 * (time.monotonic() - start)
    check(20 <= got[("pass", "admitted")] <= 20 + more, "connections: %s" % got)
    check_equal("the rest", sum(got.values()) - got[("pass", "admitted")], got[("drop", "panic")])
    check_equal("work in progress", verdicts(lab, [tcp_frame(SOURCE, flags=ACK)] * 50), {("pass", "admitted"): 50})
    start = time.monotonic()
    got = verdicts(lab, [udp_frame(OTHER, port=9)] * 6000)
    more = 1 + 2000 * (time.monotonic() - start)
    check(2000 <= got[("pass", "unmatched")] <= 2000 + more, "packets: %s" % got)
    check(got.get(("drop", "panic"), 0) > 0, "nothing was refused: this machine is too slow for the case")
    check_equal("low", verdicts(lab, [udp_frame("198.51.100.1", port=6000)] * 5), {("drop", "panic"): 5})
    got = verdicts(lab, [udp_frame("198.51.100.2", port=7000)] * 5000)
    check_equal("a monitored class drops nothing", {key[0] for key in got}, {"pass", "would-drop"})
    check_equal("allowed", verdicts(lab, [udp_frame(FRIEND, port=6000)] * 5000), {("pass", "allow"): 5000})
    check_equal("IPv6 low", verdicts(lab, [udp_frame("2001:db8::1", port=6000)] * 5), {("drop", "panic"): 5})
    lab.ls("off", "--for", "1h")
    check_equal("off", verdicts(lab, [udp_frame("198.51.100.1", port=6000)] * 5), {("would-drop", "panic"): 5})
    lab.ls("on")
    check_equal("after", verdicts(lab, [udp_frame("198.51.100.1", port=6000)] * 5), {("pass", "admitted"): 5})
    lab.ls("panic", "--for", "1s")
    lab.apply(PANIC.replace("100k", "99k"))
    check_equal("after apply", verdicts(lab, [udp_frame("198.51.100.1", port=6000)]), {("drop", "panic"): 1})
    wait_for("panic ends", lambda: lab.status()["panic_seconds"] is None, 2)
    check_equal("ended", verdicts(lab, [udp_frame("198.51.100.1", port=6000)]), {("pass", "admitted"): 1})


@case("allow and deny: a generation each, seen by show, diff and rollback; del needs the exact entry")
def lists(test):
    lab = test.lab()
    policy = "version: 1\nsets:\n  bad: [203.0.113.0/24]\ndeny: [bad]\n"
    lab.attach(policy)
    lab.ls("allow", "add", SOURCE)
    check_equal("allowed", verdicts(lab, [udp_frame(SOURCE)]), {("pass", "allow"): 1})
    check_equal("generation", lab.status()["generation"], 2)
    lab.ls("allow", "add", SOURCE)
    check_equal("again", lab.status()["generation"], 2)
    check("allow: [%s]" % SOURCE in lab.ls("policy", "show").out, "not shown")
    check(SOURCE in lab.ls("policy", "diff", test.file("p.yaml", policy)).out, "no difference")
    lab.ls("policy", "rollback")
    check_equal("rolled back", verdicts(lab, [udp_frame(SOURCE)]), {("drop", "deny"): 1})
    lab.ls("policy", "rollback")
    lab.ls("allow", "del", "203.0.113.0/24", code=1)
    lab.ls("allow", "del", "203.0.113.8", code=1)
    lab.ls("allow", "del", SOURCE)
    check_equal("denied again", verdicts(lab, [udp_frame(SOURCE)]), {("drop", "deny"): 1})
    check("set 'bad'" in lab.ls("deny", "del", "203.0.113.0/24", code=1).err, "the set is not named")
    lab.ls("deny", "add", "2001:db8::/32")
    check_equal("IPv6", verdicts(lab, [udp_frame("2001:db8::7")]), {("drop", "deny"): 1})
    for wrong in ("203.0.113.7/24", "203.0.113.07", "::ffff:1.2.3.4", "everybody", "1.2.3.4/33"):
        lab.ls("deny", "add", wrong, code=2)
    lab.ls("deny", "add", "0.0.0.0/0", code=1)
    lab.ls("allow", "add", "::/0", code=1)
    lab.apply(policy)
    check_equal("apply says what is true", verdicts(lab, [udp_frame("2001:db8::7")]), {("pass", "unmatched"): 1})


@case("C-13 ban import takes 100 000 lines in under a second, all or nothing, and renews (S-02)")
def feeds(test):
    lab = test.lab()
    lab.attach(PLAIN)
    numbers = random.Random(7).sample(range(1 << 24), 100000)
    lines = ["11.%d.%d.%d" % (n >> 16, n >> 8 & 255, n & 255) for n in numbers]
    feed = test.file("feed.txt", "# a feed\r\n\n" + "\n".join(lines) + "\n2001:db8:7::/48 note\n")
    start = time.monotonic()
    result = lab.ls("-o", "json", "ban", "import", feed, "--for", "1h").json()
    seconds = time.monotonic() - start
    check_equal("counts", (result["entries"], result["banned"], result["left_out"]), (100001, 100001, 0))
    check(seconds < 1, "%.2f s" % seconds)
    check_equal("bans", len(lab.bans()), 100001)
    check_equal("enforced", verdicts(lab, [udp_frame(lines[0]), udp_frame(lines[-1]), udp_frame("2001:db8:7::9"),
                                           udp_frame(OTHER)]), {("drop", "ban"): 3, ("pass", "unmatched"): 1})
    lab.ls("ban", "import", feed, "--for", "2h")
    ban = next(b for b in lab.bans() if b["source"] == lines[5])
    check(7190 < ban["remaining_seconds"] <= 7200 and ban["origin"] == "import", "not renewed: %s" % ban)
    check_equal("shorter", lab.ls("-o", "json", "ban", "import", feed, "--for", "1h").json()["longer"], 100001)
    for text, line in (("192.0.2.1\n192.0.2.300\n", ":2:"), ("192.0.2.1\n192.0.2.4-192.0.2.9\n", ":2:"),
                       ("192.0.2.1\n\n0.0.0.0/0\n", ":3:"), ("192.0.2.1\n192.0.2.3/24\n", ":2:"), ("x\n", ":1:")):
        result = lab.ls("ban", "import", test.file("bad.txt", text), "--for", "1h", code=1)
        check("bad.txt" + line in result.err, "%r: %r" % (text, result.err))
    check_equal("nothing of a bad feed", [b for b in lab.bans() if b["source"].startswith("192.0.2.")], [])
    lab.ls("ban", "import", feed, code=2)
    lab.ls("ban", "import", test.path("absent"), "--for", "1h", code=1)


@case("C-07 a feed cannot ban this host's own addresses, loopback, multicast or who is allowed")
def dangerous_feed(test):
    lab = test.lab()
    lab.attach(PLAIN)
    lab.srv("ip", "route", "add", "default", "via", "10.9.0.2")
    bad = ["0.0.0.0/8", "10.0.0.0/8", "0.0.0.0", "10.9.0.0/24", "10.9.0.2", "127.0.0.0/8", "224.0.0.0/4",
           "255.255.255.255", "fe80::/10", "fd00:9::/64"]
    feed = test.file("feed.txt", "\n".join(bad + ["203.0.113.0/24", FRIEND]) + "\n")
    result = lab.ls("-o", "json", "ban", "import", feed, "--for", "1h")
    check_equal("counts", [result.json()[key] for key in ("banned", "left_out", "allowed")], [1, len(bad), 1])
    for number, entry in enumerate(bad, 1):
        check("feed.txt:%d: %s is left out" % (number, entry) in result.err, "%s is not named" % entry)
    check_equal("bans", [b["source"] for b in lab.bans()], ["203.0.113.0/24"])


@case("C-09 bans of overlapping prefixes are apart: one ends, the others stand")
def overlaps(test):
    lab = test.lab()
    lab.attach("version: 1\n")
    feed = test.file("a.txt", "198.51.100.0/24\n198.51.100.0/25\n198.51.100.7\n198.51.100.7/32\n198.51.100.0/24\n")
    lab.ls("ban", "import", feed, "--for", "1h")
    lab.ls("ban", "import", test.file("b.txt", "198.51.100.7\n"), "--for", "2h")
    lab.ls("ban", "del", "198.51.100.0/24")
    check_equal("verdicts", verdicts(lab, [udp_frame("198.51.100.7"), udp_frame("198.51.100.100"),
                                           udp_frame("198.51.100.200")]),
                {("drop", "ban"): 2, ("pass", "unmatched"): 1})
    left = {b["source"]: b["remaining_seconds"] for b in lab.bans()}
    check_equal("bans", sorted(left), ["198.51.100.0/25", "198.51.100.7"])
    check(left["198.51.100.7"] > 7000, "the longer time does not win")


def edit(lab, command, *options, code=0):
    return lab.srv("env", "EDITOR=" + command, LOADSHED, "-I", lab.instance, "policy", "edit", *options, code=code)


@case("edit checks, shows the difference and applies; what is refused is kept in a file that is named")
def editing(test):
    lab = test.lab()
    test.file("bad.txt", "203.0.113.0/24\n")
    lab.attach("version: 1\nsets: { bad: { file: bad.txt } }\ndeny: [bad]\n"
               "classes:\n  - { name: web, match: any, limits: [{ rate: 5/s }] }\n")
    before = sorted(os.listdir(test.folder))
    result = edit(lab, "sed -i s,rate:.5/s,rate:\\ 7/s,")
    check("rate 5/s -> 7/s" in result.out, "no difference shown: %r" % result.out)
    check("rate: 7/s" in lab.ls("policy", "show").out, "not applied")
    check_equal("list files are found", verdicts(lab, [udp_frame(SOURCE)]), {("drop", "deny"): 1})
    edit(lab, "true")
    check_equal("nothing edited", lab.status()["generation"], 2)
    check_equal("no file is left", sorted(os.listdir(test.folder)), before)
    for command in ("sed -i s,rate:,rat:,", "sh -c 'echo nonsense >>$1; exit 0' sh",
                    "sh -c 'sed -i s/7/9/ $1; false' sh"):
        result = edit(lab, command, code=1)
        name = result.err.split("kept in '")[1].split("'")[0]
        check(os.path.getsize(name) > 50, "%s: the text is lost" % command)
        os.unlink(name)
        check_equal("generation", lab.status()["generation"], 2)
    result = lab.srv("env", "EDITOR=sed -i s/7/8/", "SSH_CONNECTION=203.0.113.9 1 10.9.0.1 22", LOADSHED, "-I",
                     lab.instance, "policy", "edit", code=1)
    check("203.0.113.9" in result.err and "kept in" in result.err, "guard: %r" % result.err)


@case("two who edit at once: one wins, the other is told and has his text")
def two_editors(test):
    lab = test.lab()
    lab.attach(SLOW)
    go = test.path("go")
    slow = "sh -c 'touch %s.ready; while ! [ -e %s ]; do sleep .02; done; sed -i s,1/m,2/m, $1' sh" % (go, go)
    loser = subprocess.Popen(["ip", "netns", "exec", lab.name + "-srv", "env", "EDITOR=" + slow, LOADSHED, "-I",
                              lab.instance, "policy", "edit"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    test.stack.callback(loser.kill)
    wait_for("the first editor", lambda: os.path.exists(go + ".ready"))
    edit(lab, "sed -i s,1/m,3/m,")
    open(go, "w").close()
    _, err = loser.communicate(timeout=20)
    err = err.decode()
    check_equal("exit", loser.returncode, 1)
    check("somebody changed the policy meanwhile" in err, "%r" % err)
    name = err.split("kept in '")[1].split("'")[0]
    with open(name) as file:
        check("rate: 2/m" in file.read(), "the text is lost")
    check("rate: 3/m" in lab.ls("policy", "show").out, "the winner's is not in force")
    lab.ls("policy", "apply", name)
    os.unlink(name)


@case("W-01 no verb cuts the caller's own session without --yes")
def guards(test):
    lab = test.lab()
    lab.attach("version: 1\n")
    me = "10.9.0.2"
    ssh = "version: 1\nclasses:\n  - name: ssh\n    match: { protocol: tcp, ports: [22] }\n    priority: %s\n" \
          "    limits: [{ rate: %s }]\n"
    bad = [test.file("%d.yaml" % i, text) for i, text in enumerate((
        "version: 1\ndeny: [0.0.0.0/0]\n", "version: 1\ndeny: [10.9.0.0/24]\n", ssh % ("normal", "1/s"),
        ssh.replace("rate: %s", "limit: 5, window: 60s, algorithm: fixed-window") % "normal",
        "version: 1\nclasses:\n  - { name: all, match: any, limits: [{ count: connections, limit: 1, "
        "window: 1d, algorithm: sliding-log }, { rate: 2/m, name: b }] }\n"))]
    for path in bad:
        for verb in (["policy", "apply", path], ["policy", "apply", path, "--confirm", "60s"]):
            result = session(lab, me, *verb, code=1)
            check(me in result.err and "--yes" in result.err, "%s: %r" % (verb, result.err))
    for verb in (["deny", "add", "10.9.0.0/24"], ["ban", "add", me, "--for", "1m"],
                 ["ban", "import", test.file("feed.txt", "192.0.2.1\n10.9.0.0/25\n"), "--for", "1m"]):
        if verb[1] != "import":
            check(me in session(lab, me, *verb, code=1).err, "%s" % verb)
    check("feed.txt:2" in session(lab, "10.8.0.2", "ban", "import", test.file("feed.txt", "192.0.2.1\n10.8.0.0/16\n"),
                                  "--for", "1m", code=1).err, "ban import")
    check_equal("nothing was changed", (lab.status()["generation"], lab.bans()), (1, []))
    # Mode, allow and enough room let it pass; IPv6; what is mapped
    session(lab, me, "policy", "apply", test.file("m.yaml", "version: 1\nmode: monitor\ndeny: [0.0.0.0/0]\n"))
    session(lab, me, "policy", "apply", test.file("a.yaml", "version: 1\nallow: [%s]\ndeny: [10.9.0.2/31]\n" % me))
    check(me in session(lab, me, "allow", "del", me, code=1).err, "allow del")
    session(lab, me, "policy", "apply", test.file("f.yaml", ssh % ("low", "100/s")))
    check(me in session(lab, me, "panic", code=1).err, "panic and low priority")
    session(lab, me, "policy", "apply", test.file("f.yaml", ssh % ("normal", "100/s")))
    session(lab, me, "panic")
    session(lab, me, "on")
    six = "fd00:9::2"
    check(six in session(lab, six, "deny", "add", "fd00:9::/64", server="fd00:9::1", code=1).err, "IPv6")
    check(me in session(lab, "::ffff:" + me, "deny", "add", me, server="::ffff:10.9.0.1", code=1).err, "mapped")
    # rollback, and on after off
    lab.ls("deny", "add", me)
    lab.ls("deny", "del", me)
    check(me in session(lab, me, "policy", "rollback", code=1).err, "rollback")
    lab.ls("off")
    lab.ls("deny", "add", me)
    check(me in session(lab, me, "on", code=1).err, "on")
    session(lab, me, "on", "--yes")
    session(lab, me, "deny", "del", me)
    # sudo takes the variable out of the environment: the nearest ancestor that has it counts
    script = "env -u SSH_CONNECTION %s -I %s deny add %s; code=$?; exit $code" % (LOADSHED, lab.instance, me)
    lab.srv("env", "SSH_CONNECTION=%s 50000 10.9.0.1 22" % me, "sh", "-c", script, code=1)
    session(lab, me, "deny", "add", me, "--yes")
    check_equal("with --yes", verdicts(lab, [udp_frame(me)]), {("drop", "deny"): 1})


@case("W-01 no verb denies a gateway or a resolver, or bans them or an own address of this host, without --yes")
def guards_host(test):
    lab = test.lab()
    lab.attach("version: 1\n")
    gateway, resolver = "10.9.0.2", "192.0.2.53"
    lab.srv("ip", "route", "add", "default", "via", gateway)
    folder = "/etc/netns/%s-srv" % lab.name  # what `ip netns exec` puts over /etc
    os.makedirs(folder)
    test.stack.callback(subprocess.run, ["rm", "-rf", folder], check=False)
    with open(folder + "/resolv.conf", "w") as file:
        file.write("nameserver %s\n" % resolver)
    wide = {gateway: "10.9.0.2/31", resolver: "192.0.2.0/24", "10.9.0.1": "10.9.0.0/31", "fd00:9::1": "fd00:9::/64"}
    for address, prefix in wide.items():
        bad = test.file("bad.yaml", "version: 1\ndeny: ['%s']\n" % prefix)
        verbs = [["policy", "apply", bad], ["policy", "apply", bad, "--confirm", "1m"], ["deny", "add", prefix],
                 ["ban", "add", prefix, "--for", "1m"], ["attach", "vs", "--policy", bad]]
        own = address not in (gateway, resolver)  # what comes with it from outside is forged: it may be denied
        for verb in verbs[3:4] if own else verbs:
            err = lab.ls(*verb, code=1).err
            check(address in err and "--yes" in err, "%s: %r" % (verb, err))
        if not own:
            err = edit(lab, "cp " + bad, code=1).err
            check(address in err, "edit: %r" % err)
            os.unlink(err.split("kept in '")[1].split("'")[0])
        err = lab.ls("ban", "import", test.file("feed.txt", prefix + "\n"), "--for", "1m").err
        check("feed.txt:1" in err, "import: %r" % err)
    check_equal("nothing was changed", (lab.status()["generation"], lab.bans()), (1, []))
    # What is allowed is not cut; monitor cuts nobody; what was cut with --yes is not asked about again
    lab.apply("version: 1\nallow: [%s]\ndeny: ['192.0.2.0/24']\n" % resolver)
    check(resolver in lab.ls("allow", "del", resolver, code=1).err, "allow del")
    lab.apply("version: 1\nmode: monitor\ndeny: ['192.0.2.0/24']\n")
    check(resolver in lab.apply("version: 1\ndeny: ['192.0.2.0/24']\n", code=1).err, "from monitor to enforce")
    lab.apply("version: 1\ndeny: ['192.0.2.0/24']\n", "--yes")
    lab.ls("deny", "add", SOURCE)
    lab.ls("deny", "del", "192.0.2.0/24")
    check(resolver in lab.ls("policy", "rollback", code=1).err, "rollback")
    lab.ls("policy", "rollback", "--yes")
    lab.ls("ban", "add", resolver, "--for", "1m", "--yes")
    lab.ls("detach", "--all")
    lab.attach("version: 1\ndeny: ['%s']\n" % gateway, "--yes")


@case("W-01 under tmux the login of whoever looks at it now counts, not only that in which it was started")
def guards_tmux(test):
    for tool in ("tmux", "script"):
        if shutil.which(tool) is None:
            raise Skip("needs " + tool)
    lab = test.lab()
    lab.attach("version: 1\n")
    first, now = "10.9.0.2", "10.9.0.3"
    socket, seen = test.path("tmux"), test.path("seen")
    # Its server loses its ancestors, and with them whose /sys it was; so the network namespace alone.
    inside = ["nsenter", "--net=/run/netns/%s-srv" % lab.name, "env", "-u", "TMUX", "TERM=xterm"]
    tmux = ["tmux", "-f", "/dev/null", "-S", socket]
    run([*inside, "SSH_CONNECTION=%s 50000 10.9.0.1 22" % first, *tmux, "new-session", "-d", "sh"])
    test.stack.callback(lambda: run([*inside, *tmux, "kill-server"], code=None))

    def deny(address):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(seen)
        run([*inside, *tmux, "send-keys", "%s -I %s deny add %s 2>%s.new; mv %s.new %s" % (
            LOADSHED, lab.instance, address, seen, seen, seen), "Enter"])
        wait_for("the verb", lambda: os.path.exists(seen), 20)
        with open(seen) as file:
            return file.read()

    err = deny(first)
    check(first in err, "the login it was started in: %r" % err)
    check_equal("nobody looks", deny(now), "")
    lab.ls("deny", "del", now)
    client = subprocess.Popen([*inside, "SSH_CONNECTION=%s 50001 10.9.0.1 22" % now, "script", "-qfc",
                               " ".join(tmux) + " attach", "/dev/null"],
                              stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    test.stack.callback(client.kill)
    wait_for("the client", lambda: run([*inside, *tmux, "list-clients"]).out.strip(), 20)
    err = deny(now)
    check(now in err and "own session" in err, "somebody looks from there: %r" % err)
    check(first in deny(first), "and the login it was started in")


@case("what becomes of lists, bans, off and panic on apply, rollback, attach, detach")
def fates(test):
    lab = test.lab()
    lab.attach(PLAIN)
    lab.ls("allow", "add", OTHER)
    lab.ls("ban", "add", SOURCE, "--for", "1h")
    lab.ls("panic", "--for", "1h")
    lab.ls("off", "--for", "1h")

    def state():
        status = lab.status()
        return (OTHER in lab.ls("policy", "show").out, len(lab.bans()), status["off_seconds"] is not None,
                status["panic_seconds"] is not None)

    check_equal("set", state(), (True, 1, True, True))
    lab.ls("attach", "vs")
    check_equal("attach again", state(), (True, 1, True, True))
    lab.apply(PLAIN)
    check_equal("apply", state(), (False, 1, True, True))
    lab.ls("policy", "rollback")
    check_equal("rollback", state(), (True, 1, True, True))
    lab.ls("detach", "--all")
    lab.attach(PLAIN)
    check_equal("detach", state(), (False, 0, False, False))
    lab.ls("policy", "rollback", code=1)


@case("X-07 the seen counter rises always; sent is dropped and delivered; monitor counts and drops nothing")
def end_to_end(test):
    lab = test.lab()
    lab.attach()
    check_equal("no policy", verdicts(lab, [udp_frame(SOURCE)] * 100), {("pass", "unmatched"): 100})
    for mode, verdict in (("monitor", "would-drop"), ("enforce", "drop")):
        lab.apply(SLOW + "mode: %s\n" % mode)
        sink = lab.sink(them=SOURCE)
        got = verdicts(lab, [tcp_frame(SOURCE, flags=SYN)] * 100)
        delivered = sink.stop()["classes"]["them"]["packets"]
        refused = got.get((verdict, "limit"), 0)
        check(refused >= 98, "%s: %s" % (mode, got))
        check_equal("%s: delivered" % mode, delivered, 100 if mode == "monitor" else 100 - refused)


if __name__ == "__main__":
    main()
