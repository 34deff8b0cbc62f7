# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What is saved, and what comes back: FIELD S-04, S-06 and C-11."""

import glob
import hashlib
import os
import shutil
import time

from harness import (LOADSHED, ROOT, Background, Skip, case, check, check_equal, main, run)
from probes import DENY, LIMIT, SOURCE, is_enforced, lose_pins, program_on

SAVED = "/var/lib/loadshed"


def place(lab):
    """Where this lab's instance is saved."""
    return "%s/%s/netns/%s-srv" % (SAVED, lab.instance, lab.name)


def write_lines(path, text):
    """A file of lines with its last line, as the program writes it."""
    body = text.encode()
    with open(path, "wb") as file:
        file.write(body + b"end %d %s\n" % (len(body), hashlib.sha256(body).hexdigest().encode()))


def second_interface(lab):
    lab.srv("ip", "link", "add", "vs2", "type", "veth", "peer", "name", "vs3")
    lab.srv("ip", "link", "set", "vs2", "up")


@case("S-06 restore brings back policy, list contents, bans, interfaces and mode")
def everything(test):
    lab = test.lab()
    second_interface(lab)
    test.file("blocked.txt", SOURCE + "\n")
    policy = test.file("policy.yaml", "version: 1\nsets:\n  bad: { file: blocked.txt }\ndeny: [bad]\n")
    lab.ls("attach", "vs", "--policy", policy, "--mode", "native")
    lab.ls("attach", "vs2", "--mode", "generic")
    lab.ls("ban", "add", "192.0.2.1", "--for", "1h", "--reason", "scanned us")
    lab.ls("ban", "add", "2001:db8:bad::/48", "--for", "2h")
    wanted, bans, shown = lab.status(), lab.bans(), lab.ls("policy", "show", "--expand").out
    lose_pins(lab)
    check_equal("after the pins are gone", lab.ls("-o", "json", "status").json()["interfaces"], [])
    os.unlink(test.path("blocked.txt"))
    os.unlink(policy)
    result = lab.ls("restore")
    check_equal("lines on stderr", [line for line in result.err.splitlines() if "generic mode" not in line], [])
    status = lab.status()
    check_equal("interfaces", sorted((i["name"], i["attach"]) for i in status["interfaces"]),
                [("vs", "native"), ("vs2", "generic")])
    check_equal("policy", status["policy_sha256"], wanted["policy_sha256"])
    check_equal("list", lab.ls("policy", "show", "--expand").out, shown)
    check_equal("degraded", [line.split(" since")[0] for line in status["degraded"]],
                [line.split(" since")[0] for line in wanted["degraded"]])
    check(is_enforced(lab), "the policy is not enforced")
    check_equal("bans", [(b["source"], b["reason"], b["origin"]) for b in lab.bans()],
                [(b["source"], b["reason"], b["origin"]) for b in bans])
    for before, now in zip(bans, lab.bans()):
        check(before["remaining_seconds"] - 60 <= now["remaining_seconds"] <= before["remaining_seconds"],
              "%s: %d s left of %d" % (now["source"], now["remaining_seconds"], before["remaining_seconds"]))


@case("S-06 restore of attach --monitor drops nothing")
def monitor(test):
    lab = test.lab()
    lab.attach(DENY, "--monitor")
    lose_pins(lab)
    lab.ls("restore")
    check_equal("mode", lab.status()["mode"], "monitor")
    check(not is_enforced(lab), "it drops")


@case("S-06 restore of what is attached changes nothing, twice")
def again(test):
    lab = test.lab()
    lab.attach(DENY)
    lab.ls("ban", "add", "192.0.2.1", "--for", "1h")
    before, bans = lab.status(), place(lab) + "/bans"
    shutil.copy(bans, test.path("bans"))
    lab.ls("ban", "del", "192.0.2.1")
    shutil.copy(test.path("bans"), bans)  # as if the removal had been killed before it was saved
    for _ in range(2):
        result = lab.ls("restore")
        check("attached already" in result.err, "stderr: %r" % result.err)
        check_equal("status", lab.status(), before)
        check_equal("bans", lab.bans(), [])


@case("S-06 a policy that nobody confirmed does not come back, nor does what is temporary")
def unconfirmed(test):
    lab = test.lab()
    lab.attach(DENY)
    old = lab.status()["policy_sha256"]
    lab.apply(LIMIT % "1k/s", "--confirm", "10m")
    new = lab.status()["policy_sha256"]
    lab.ls("ban", "add", "192.0.2.1", "--for", "1h")
    lab.ls("off", "--for", "10m", code=None)
    lose_pins(lab)
    lab.ls("restore")
    check_equal("policy", lab.status()["policy_sha256"], old)
    check(is_enforced(lab), "not enforced")
    check_equal("bans", [ban["source"] for ban in lab.bans()], ["192.0.2.1"])
    lab.apply(LIMIT % "1k/s", "--confirm", "10m")
    lab.ls("policy", "confirm")
    lab.ls("off", "--for", "10m")
    lab.ls("panic", "--for", "10m")
    lose_pins(lab)
    lab.ls("restore")
    status = lab.status()
    check_equal("policy after confirm", status["policy_sha256"], new)
    check_equal("mode", (status["mode"], status["degraded"]), ("enforce", []))


@case("W-01 restore by hand does not cut the session that it is typed in")
def session(test):
    lab = test.lab()
    lab.attach(DENY)
    lab.ls("ban", "add", "192.0.2.1", "--for", "1h")
    for address in (SOURCE, "192.0.2.1"):
        lose_pins(lab)
        env = dict(os.environ, SSH_CONNECTION=address + " 50000 10.9.0.1 22")
        result = lab.ls("restore", code=1, env=env)
        check(address in result.err and "--yes" in result.err, "stderr: %r" % result.err)
        check_equal("program", program_on(lab), None)
        lab.ls("restore", "--yes", env=env)
        check(is_enforced(lab), "--yes does not restore")
        lab.ls("restore", env=env)  # nothing changes, so nothing is cut


@case("S-06 nothing saved is nothing to do")
def nothing(test):
    lab = test.lab()
    check("nothing is saved" in lab.ls("restore").err, "not said")
    check_equal("json", lab.ls("-o", "json", "restore").json()["interfaces"], [])
    lab.attach(DENY)
    lab.ls("detach", "--all")
    check("nothing is saved" in lab.ls("restore").err, "not said after detach --all")
    check_equal("program", program_on(lab), None)
    lab.attach(DENY)
    lose_pins(lab)
    result = lab.ls("detach", "--all")
    check("does not come back" in result.err, "detach of what is only saved: %r" % result.err)
    lab.ls("restore")
    check_equal("program after detach of what was only saved", program_on(lab), None)


@case("S-06 an interface that is missing is named, the others are protected, and it is not forgotten")
def missing(test):
    lab = test.lab()
    second_interface(lab)
    lab.ls("attach", "vs2", "vs", "--policy", test.file("policy.yaml", DENY))
    lose_pins(lab)
    lab.srv("ip", "link", "del", "vs2")
    result = lab.ls("restore", code=1)
    check("vs2" in result.err and result.err.count("\n") == 1, "stderr: %r" % result.err)
    check(is_enforced(lab), "vs is not protected")
    check(any("vs2" in line for line in lab.status()["degraded"]), "vs2 is not in degraded")
    lab.apply(DENY + (LIMIT % "1k/s").split("\n", 1)[1])
    lab.ls("ban", "add", "192.0.2.1", "--for", "1h")
    second_interface(lab)
    lab.ls("restore")
    status = lab.status()
    check_equal("interfaces", sorted(i["name"] for i in status["interfaces"]), ["vs", "vs2"])
    check_equal("degraded", [line for line in status["degraded"] if "saved" in line], [])
    lose_pins(lab)
    lab.srv("ip", "link", "del", "vs2")
    lab.ls("restore", code=1)
    lab.ls("detach", "vs2")
    check_equal("after detach vs2", [line for line in lab.status()["degraded"] if "vs2" in line], [])
    lab.ls("restore")
    lab.ls("detach", "nosuch", code=1)


@case("S-06 detaching the last interface keeps one that is waited for")
def last(test):
    lab = test.lab()
    second_interface(lab)
    lab.ls("attach", "vs", "vs2")
    lose_pins(lab)
    lab.srv("ip", "link", "del", "vs2")
    lab.ls("restore", code=1)
    lab.ls("detach", "vs")
    check("vs2" in lab.ls("restore", code=1).err, "vs2 was forgotten")
    check_equal("vs", program_on(lab), None)


@case("S-06 one that another program has taken is named, and the others are protected")
def taken(test):
    lab = test.lab()
    second_interface(lab)
    lab.ls("attach", "vs2", "vs", "--policy", test.file("policy.yaml", DENY))
    lose_pins(lab)
    other = Background(["ip", "netns", "exec", lab.name + "-srv", "/usr/bin/python3",
                        os.path.join(ROOT, "tests/e2e/foreign.py"), "vs2", "link", "native"])
    test.stack.callback(other.end)
    before = program_on(lab, "vs2")
    result = lab.ls("restore", code=1)
    check("vs2" in result.err and "foreign_pass" in result.err, "stderr: %r" % result.err)
    check(is_enforced(lab), "vs is not protected")
    check_equal("the other program", program_on(lab, "vs2"), before)
    other.stop()


@case("S-06 a renamed interface comes back under its new name")
def renamed(test):
    lab = test.lab()
    second_interface(lab)
    lab.ls("attach", "vs2", "--policy", test.file("policy.yaml", DENY))
    lab.srv("ip", "link", "set", "vs2", "down")
    lab.srv("ip", "link", "set", "vs2", "name", "wan0")
    lab.apply(DENY + (LIMIT % "1k/s").split("\n", 1)[1])
    lose_pins(lab)
    lab.ls("restore")
    check_equal("name", lab.interface()["name"], "wan0")


@case("C-11 a cut-off or damaged file is an error, never an empty policy")
def damaged(test):
    lab = test.lab()
    lab.attach(DENY)
    lab.ls("ban", "add", "192.0.2.1", "--for", "1h")
    lose_pins(lab)
    for name in ("policy.blob", "attach", "bans"):
        path = os.path.join(place(lab), name)
        with open(path, "rb") as file:
            good = file.read()
        bad = [good[:cut] for cut in (0, 1, len(good) // 2, len(good) - 1)]
        bad += [good[:-9] + b"x" + good[-8:], good + b"\n", b"\0" * len(good)]
        for contents in bad:
            with open(path, "wb") as file:
                file.write(contents)
            what = "%s of %d bytes" % (name, len(contents))
            result = lab.ls("restore", code=1)
            check(path in result.err, "%s: %r" % (what, result.err))
            if name == "bans":
                check(is_enforced(lab), what + ": the policy is not enforced")
                with open(path, "rb") as file:
                    check_equal(what + ": afterwards", file.read(), contents)
                lose_pins(lab)
            else:
                check_equal(what, program_on(lab), None)
        with open(path, "wb") as file:
            file.write(good)
    os.rename(place(lab) + "/policy.blob", place(lab) + "/away")
    check("policy.blob" in lab.ls("restore", code=1).err, "a missing policy is not named")
    check_equal("without a policy", program_on(lab), None)
    os.rename(place(lab) + "/away", place(lab) + "/policy.blob")
    lab.ls("restore")
    check(is_enforced(lab), "the whole files are not restored")


@case("S-04 bans that have ended do not come back, and a clock that is behind makes none longer")
def clocks(test):
    lab = test.lab()
    lab.attach(DENY)
    lose_pins(lab)
    now, s = time.time_ns(), 10**9
    write_lines(place(lab) + "/bans", "loadshed bans 1\nsaved %d\n192.0.2.1 %d operator \n192.0.2.2 %d operator \n"
                "192.0.2.3 %d class web\n" % (now - 100 * s, now - s, now + 1000, now + 600 * s))
    lab.ls("restore")
    bans = lab.bans()
    check_equal("bans", [(b["source"], b["origin"], b["reason"]) for b in bans], [("192.0.2.3", "class", "web")])
    lose_pins(lab)
    write_lines(place(lab) + "/bans", "loadshed bans 1\nsaved %d\n192.0.2.3 %d import \n" % (
        now + 10**6 * s, now + 10**6 * s + 600 * s))
    lab.ls("restore")
    left = lab.bans()[0]["remaining_seconds"]
    check(590 <= left <= 600, "saved in the future with 600 s left: %d s" % left)


@case("A-09 the same instance name in two network namespaces is saved twice")
def namespaces(test):
    one, two = test.lab(), test.lab()
    one.attach(DENY)
    two.attach("version: 1\ndeny: [198.51.100.9]\n")
    two.ls("ban", "add", "192.0.2.2", "--for", "1h")
    one.ls("ban", "add", "192.0.2.1", "--for", "1h")
    wanted = one.status()["policy_sha256"], two.status()["policy_sha256"]
    lose_pins(one)
    lose_pins(two)
    one.ls("restore")
    two.ls("restore")
    check_equal("policies", (one.status()["policy_sha256"], two.status()["policy_sha256"]), wanted)
    check_equal("bans", [[b["source"] for b in lab.bans()] for lab in (one, two)],
                [["192.0.2.1"], ["192.0.2.2"]])
    one.ls("detach", "--all")
    lose_pins(two)
    two.ls("restore")
    check_equal("the other after detach --all", len(two.status()["interfaces"]), 1)
    check_equal("files of the machine's own namespace", [name for name in os.listdir(
        "%s/%s" % (SAVED, test.instance)) if name != "netns"], [])


@case("A-09 a namespace without a name is saved where nothing outlives a reboot")
def unnamed(test):
    directory = "/run/loadshed/saved/%s@*" % test.instance
    test.stack.callback(lambda: [shutil.rmtree(path, True) for path in glob.glob(directory)])
    script = ("set -e; ip link set lo up; {0} attach lo --policy {1} >&2; {0} ban add 192.0.2.1 --for 1h >&2;"
              "rm -r /sys/fs/bpf/loadshed/{2}@$(stat -Lc %i /proc/self/ns/net);"
              "{0} restore >&2; {0} -o json ban list; {0} detach --all >&2").format(
        "%s -I %s" % (LOADSHED, test.instance), test.file("policy.yaml", DENY), test.instance)
    result = run(["unshare", "-n", "sh", "-c", script])
    check_equal("bans", [ban["source"] for ban in result.json()["bans"]], ["192.0.2.1"])
    check_equal("places", len(glob.glob(directory)), 1)
    check(not os.path.exists("%s/%s" % (SAVED, test.instance)), "it is in %s, too" % SAVED)


@case("C-11 a full disk leaves the old files whole, and is said")
def full_disk(test):
    lab = test.lab()
    lab.attach(DENY)
    lab.ls("ban", "add", "192.0.2.1", "--for", "1h")
    big = test.file("big.yaml", DENY + "sets:\n  big: [%s]\n" % ", ".join(
        "10.%d.%d.0/24" % (i // 200, i % 200) for i in range(20000)) + "allow: [big]\n")
    script = ("mount -t tmpfs -o size=64k,mode=700 none {0} && cp -a {1}/. {0} && mkdir -p {2} && "
              "cp -a {0}/policy.blob {0}/attach {0}/bans {2}; cd /; {3} policy apply {4}; echo code $?;"
              "for i in policy.blob attach bans; do cmp {1}/$i {2}/$i || exit 1; done; ls -A {2} | wc -l").format(
        SAVED, test.path("kept"), place(lab), "%s -I %s" % (LOADSHED, lab.instance), big)
    shutil.copytree(place(lab), test.path("kept"))
    result = run(["nsenter", "--net=/run/netns/%s-srv" % lab.name, "unshare", "-m", "sh", "-c", script])
    check_equal("exit and files", result.out.split()[-3:], ["code", "1", "3"])
    check("not saved" in result.err and "No space left" in result.err, "stderr: %r" % result.err)
    check(is_enforced(lab), "not enforced after the full disk")
    lab.ls("policy", "apply", big)
    lose_pins(lab)
    lab.ls("restore")
    check_equal("entries", lab.ls("policy", "show", "--expand").out.count("/24"), 20000)


# Calls that change a file, a pin or the kernel; strace counts each kind by itself.
STEPS = ("bpf", "rename", "unlink", "unlinkat", "mkdir", "fsync", "write", "openat", "ftruncate", "mmap")


def kill_at_every_step(lab, arguments, before, after):
    """Runs a verb again and again, killed at its first, second … call of each kind, until it gets through."""
    kills = 0
    for call in STEPS:
        step = 0
        while True:
            step += 1 + step // 16  # the first sixteen one by one, then ever wider
            before()
            result = lab.srv("strace", "-qq", "-o", "/dev/null", "-e", "trace=" + call, "-e",
                             "inject=%s:signal=KILL:when=%d" % (call, step), LOADSHED, "-I", lab.instance,
                             *arguments, code=None)
            if result.code >= 0 and result.code != 137:
                break
            kills += 1
            after("killed at %s %d" % (call, step))
    return kills


def needs_strace():
    if shutil.which("strace") is None:
        raise Skip("needs strace, which kills a program at a chosen system call")


@case("C-11 restore that is killed at any step can be repeated")
def killed_restore(test):
    needs_strace()
    lab = test.lab()
    lab.attach(DENY)
    lab.ls("ban", "add", "192.0.2.1", "--for", "1h")

    def after(what):
        if program_on(lab) is not None and lab.ls("status", code=None).out.find("enforce") >= 0:
            check_equal(what + ": bans of what is attached", len(lab.bans()), 1)
        lab.ls("restore")
        check_equal(what + ": bans", [ban["source"] for ban in lab.bans()], ["192.0.2.1"])
        check_equal(what + ": program", program_on(lab), lab.interface()["program_id"])

    kills = kill_at_every_step(lab, ["restore"], lambda: lose_pins(lab), after)
    check(kills > 40, "only %d kills" % kills)
    check(is_enforced(lab), "not enforced at the end")


@case("C-11 a save that is killed at any step leaves files that restore, old or new, and no rubbish")
def killed_save(test):
    needs_strace()
    lab = test.lab()
    lab.attach(DENY)
    lab.ls("ban", "add", "192.0.2.1", "--for", "1h")
    files = [test.file("p%d.yaml" % i, DENY + (LIMIT % ("%dk/s" % (i + 1))).split("\n", 1)[1]) for i in (0, 1)]
    digests = []
    for file in files:
        lab.ls("policy", "apply", file)
        digests.append(lab.status()["policy_sha256"])

    def after(what):
        lose_pins(lab)
        lab.ls("restore")
        check(lab.status()["policy_sha256"] in digests, what + ": neither policy")
        check_equal(what + ": bans", [ban["source"] for ban in lab.bans()], ["192.0.2.1"])
        lab.ls("ban", "add", "192.0.2.1", "--for", "90m")
        check_equal(what + ": files", sorted(os.listdir(place(lab))), ["attach", "bans", "policy.blob"])

    global STEPS
    steps, STEPS = STEPS, ("rename", "fsync", "write", "openat", "unlink")
    try:
        kills = kill_at_every_step(lab, ["policy", "apply", files[0]],
                                   lambda: lab.ls("policy", "apply", files[1]), after)
    finally:
        STEPS = steps
    check(kills > 10, "only %d kills" % kills)
    # What was killed between the publish and the save is saved by the same command once more.
    lab.ls("policy", "apply", files[1])
    lab.srv("strace", "-qq", "-o", "/dev/null", "-e", "trace=rename", "-e", "inject=rename:signal=KILL:when=1",
            LOADSHED, "-I", lab.instance, "policy", "apply", files[0], code=None)
    lab.ls("policy", "apply", files[0])
    lose_pins(lab)
    lab.ls("restore")
    check_equal("policy", lab.status()["policy_sha256"], digests[0])


if __name__ == "__main__":
    main()
