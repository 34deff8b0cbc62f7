# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Every verb that changes something, killed at each of its steps: old or new, whole, and nothing is left.

strace kills a run at its Nth system call of one kind, for all N until the run gets through. After each kill the
state must be that from before or that of the verb's end; the same verb must then work, and reach that end. Between two
system calls a process only writes to memory that it shares with the kernel; tests/unit/test_plane_timed.c has
those states.

By default the calls that change something, the first ones singly and then ever wider; LS_LONG: every call of every kind.
"""

import json
import os
import shutil

import harness
from harness import LOADSHED, Skip, case, check, check_equal, main, run, wait_for
from packets import udp_frame

SOURCE, OTHER = "203.0.113.7", "198.51.100.9"
OLD = "version: 1\ndeny: [203.0.113.7]\n"
NEW = "version: 1\ndeny: [198.51.100.9]\n"
LONG = os.environ.get("LS_LONG")
CALLS = ("bpf", "membarrier", "rename", "fsync", "mmap", "openat", "flock", "write", "ftruncate", "mkdir", "unlink",
         "munmap", "close", "fstat", "getrandom") if LONG else ("bpf", "membarrier", "rename", "fsync", "mmap")

# What publishes as apply does is killed at fewer of its calls.
FEW_CALLS = CALLS if LONG else ("bpf", "rename")

if LONG:
    harness.CASE_SECONDS = 3600


def state(lab):
    """What an operator sees of everything that the verbs change."""
    status = lab.status()
    if not status["interfaces"]:
        return "absent"
    return (status["policy_sha256"], status["confirm_seconds"] is not None, status["off_seconds"] is not None,
            status["panic_seconds"] is not None, tuple(b["source"] for b in lab.bans()))


def enforced(lab):
    """Which of two sources is dropped, by the packets themselves."""
    before = lab.stats()["drop"]["packets"]
    lab.send(udp_frame(SOURCE), udp_frame(SOURCE), udp_frame(OTHER))
    wait_for("packets", lambda: lab.stats()["drop"]["packets"] > before)
    return lab.stats()["drop"]["packets"] - before


def kernel_objects():
    """Ids of the project's maps, programs and links on this machine."""
    ids = set()
    for kind in ("map", "prog"):
        for item in json.loads(run(["bpftool", "-j", kind, "show"]).out):
            if item.get("name", "").startswith("ls_") or item.get("name", "").startswith("loadshed"):
                ids.add((kind, item["id"]))
    return ids


def pins(lab):
    inode = lab.srv("stat", "-Lc", "%i", "/proc/self/ns/net").out.strip()
    found = []
    for name in os.listdir("/sys/fs/bpf/loadshed"):
        if name.startswith(lab.instance + "@" + inode):
            found += [name + "/" + pin for pin in os.listdir("/sys/fs/bpf/loadshed/" + name)]
    return sorted(found)


def kill_at_every_step(lab, arguments, prepare, before_state, after_state, again=0, env=(), calls=CALLS):
    """Returns how many kills there were."""
    kills = 0
    for call in calls:
        step = 0
        while True:
            step += 1 if LONG else 1 + step // 3
            if state(lab) != before_state:
                prepare()
            result = lab.srv("env", *env, "strace", "-qq", "-o", "/dev/null", "-e", "trace=" + call, "-e",
                             "inject=%s:signal=KILL:when=%d" % (call, step), LOADSHED, "-I", lab.instance,
                             *arguments, code=None)
            if result.code not in (-9, 137):
                check_equal("%s untouched by %s %d: exit" % (arguments, call, step), result.code, 0)
                break
            kills += 1
            where = "%s killed at %s %d" % (" ".join(arguments), call, step)
            now = state(lab)
            check(now in (before_state, after_state), "%s: %r is neither %r nor %r" % (
                where, now, before_state, after_state))
            result = lab.srv("env", *env, LOADSHED, "-I", lab.instance, *arguments, code=None)
            check(result.code in (0, again), "%s, then again: exit %d: %s" % (where, result.code, result.err))
            check_equal(where + ", then again", state(lab), after_state)
    return kills


def needs():
    for tool in ("strace", "bpftool"):
        if shutil.which(tool) is None:
            raise Skip("needs " + tool)


def try_verb(test, arguments, prepare, again=0, env=(), calls=CALLS):
    """prepare(lab, test): commands that lead to the state before. again: exit of the verb when there is nothing to do."""
    needs()
    lab = test.lab()
    test.file("old.yaml", OLD)
    test.file("new.yaml", NEW)
    lab.ls("attach", "vs", "--policy", test.path("old.yaml"))
    start = kernel_objects()
    first_pins = pins(lab)

    def reset():
        prepare(lab, test)

    arguments = [test.path(a) if a.endswith(".yaml") else a for a in arguments]
    reset()
    before_state = state(lab)
    lab.srv("env", *env, LOADSHED, "-I", lab.instance, *arguments)
    after_state = state(lab)
    check(before_state != after_state, "the case tries nothing")
    kills = kill_at_every_step(lab, arguments, reset, before_state, after_state, again, env, calls)
    check(kills >= 5, "only %d kills" % kills)
    if after_state != "absent":
        lab.ls("on")
        lab.ls("policy", "confirm", code=None)
        lab.ls("policy", "apply", test.path("old.yaml"))
        check_equal("pins", pins(lab), first_pins)
        check_equal("packets of the old policy", enforced(lab), 2)
        lab.ls("policy", "apply", test.path("new.yaml"))
        check_equal("packets of the new policy", enforced(lab), 1)
    made = kernel_objects() - start
    lab.ls("detach", "--all")
    check_equal("pins after detach", pins(lab), [])
    # Other tests of this machine may run at the same time; what they make goes, too, when they end.
    wait_for("what was made meanwhile goes", lambda: not made & kernel_objects(), 100)


def old_policy(lab, test):
    if state(lab) == "absent":
        lab.ls("attach", "vs", "--policy", test.path("old.yaml"))
    lab.ls("policy", "confirm", code=None)
    lab.ls("policy", "apply", test.path("old.yaml"))


@case("kill -9 at every step of policy apply")
def kill_apply(test):
    try_verb(test, ["policy", "apply", "new.yaml"], old_policy)


@case("kill -9 at every step of policy apply --confirm")
def kill_apply_confirm(test):
    # Again while it is pending is refused.
    try_verb(test, ["policy", "apply", "new.yaml", "--confirm", "1h"], old_policy, again=1)


@case("kill -9 at every step of policy confirm")
def kill_confirm(test):
    def pending(lab, test):
        old_policy(lab, test)
        lab.ls("policy", "apply", test.path("new.yaml"), "--confirm", "1h")
    try_verb(test, ["policy", "confirm"], pending, again=1)


@case("kill -9 at every step of policy rollback")
def kill_rollback(test):
    def two(lab, test):
        old_policy(lab, test)
        lab.ls("policy", "apply", test.path("new.yaml"))
        lab.ls("policy", "apply", test.path("old.yaml"))

    needs()
    lab = test.lab()
    test.file("old.yaml", OLD)
    test.file("new.yaml", NEW)
    lab.ls("attach", "vs", "--policy", test.path("old.yaml"))
    two(lab, test)
    old = state(lab)
    lab.ls("policy", "rollback")
    new = state(lab)
    kills = 0
    for call in CALLS:
        step = 0
        while True:
            step += 1 if LONG else 1 + step // 3
            result = lab.srv("strace", "-qq", "-o", "/dev/null", "-e", "trace=" + call, "-e",
                             "inject=%s:signal=KILL:when=%d" % (call, step), LOADSHED, "-I", lab.instance,
                             "policy", "rollback", code=None)
            if result.code not in (-9, 137):
                break
            kills += 1
            now = state(lab)
            check(now in (old, new), "killed at %s %d: %r" % (call, step, now))
            lab.ls("policy", "rollback")
            check(state(lab) in (old, new) and state(lab) != now, "it does not swap after %s %d" % (call, step))
    check(kills >= 5, "only %d kills" % kills)


@case("kill -9 at every step of attach")
def kill_attach(test):
    def detached(lab, test):
        lab.ls("detach", "--all")
    try_verb(test, ["attach", "vs", "--policy", "new.yaml"], detached)


@case("kill -9 at every step of detach")
def kill_detach(test):
    def attached(lab, test):
        lab.ls("attach", "vs", "--policy", test.path("old.yaml"))
    try_verb(test, ["detach", "--all"], attached)


@case("kill -9 at every step of allow add and del")
def kill_allow(test):
    def put(lab, test):
        old_policy(lab, test)
        lab.ls("allow", "add", "192.0.2.1")
    try_verb(test, ["allow", "add", "192.0.2.1"], old_policy)
    # Again, when it is gone, says that there is nothing of the kind.
    try_verb(test, ["allow", "del", "192.0.2.1"], put, again=1, calls=FEW_CALLS)


@case("kill -9 at every step of deny add and del")
def kill_deny(test):
    def put(lab, test):
        old_policy(lab, test)
        lab.ls("deny", "add", "192.0.2.1")
    try_verb(test, ["deny", "add", "192.0.2.1"], old_policy, calls=FEW_CALLS)
    try_verb(test, ["deny", "del", "192.0.2.1"], put, again=1, calls=FEW_CALLS)


@case("kill -9 at every step of policy edit")
def kill_edit(test):
    try_verb(test, ["policy", "edit"], old_policy, env=["EDITOR=cp " + test.path("new.yaml")],
             calls=FEW_CALLS)


@case("kill -9 at every step of ban import: those that were put stand, and the same command completes them")
def kill_import(test):
    needs()
    lab = test.lab()
    lab.attach(OLD)
    entries = ["192.0.2.%d" % i for i in range(1, 4)] + ["2001:db8:%x::/64" % i for i in range(1, 3)]
    feed = test.file("feed.txt", "\n".join(entries) + "\n")
    kills = 0
    for call in CALLS:
        step = 0
        while True:
            step += 1 if LONG else 1 + step // 3
            for ban in lab.bans():
                lab.ls("ban", "del", ban["source"])
            result = lab.srv("strace", "-qq", "-o", "/dev/null", "-e", "trace=" + call, "-e",
                             "inject=%s:signal=KILL:when=%d" % (call, step), LOADSHED, "-I", lab.instance,
                             "ban", "import", feed, "--for", "1h", code=None)
            if result.code not in (-9, 137):
                check_equal("exit", result.code, 0)
                break
            kills += 1
            where = "killed at %s %d" % (call, step)
            some = {ban["source"] for ban in lab.bans()}
            check(some <= set(entries), "%s: %s" % (where, some))
            lab.ls("ban", "import", feed, "--for", "1h")
            check_equal(where, {ban["source"] for ban in lab.bans()}, set(entries))
    check(kills >= 5, "only %d kills" % kills)
    check_equal("packets of the policy", enforced(lab), 2)


@case("kill -9 at every step of ban add and ban del")
def kill_ban(test):
    def clear(lab, test):
        lab.ls("ban", "del", "192.0.2.1", code=None)

    def put(lab, test):
        lab.ls("ban", "add", "192.0.2.1", "--for", "1h")
    try_verb(test, ["ban", "add", "192.0.2.1", "--for", "1h"], clear)
    try_verb(test, ["ban", "del", "192.0.2.1"], put, again=1)


@case("kill -9 at every step of off, panic and on")
def kill_modes(test):
    def on(lab, test):
        lab.ls("on")

    def both(lab, test):
        lab.ls("off", "--for", "1h")
        lab.ls("panic", "--for", "1h")
    try_verb(test, ["off", "--for", "1h"], on)
    try_verb(test, ["panic", "--for", "1h"], on)
    try_verb(test, ["on"], both)


if __name__ == "__main__":
    main()
