# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Hostile surroundings and hostile words: what others name, close, fill or take away changes no answer."""

import fcntl
import ipaddress
import os
import random
import subprocess

from harness import LOADSHED, case, check, check_equal, main, tally, wait_for
from packets import udp_frame

POLICY = "version: 1\nclasses:\n  - { name: rest, match: any, limits: [{ rate: 10/s }] }\n"
MONITOR = "version: 1\nmode: monitor\n"


def shell(lab, command, code=None):
    """A verb behind a shell's redirections; LS stands for it."""
    verb = "%s -I %s" % (LOADSHED, lab.instance)
    return lab.srv("sh", "-c", command.replace("LS", verb), code=code)


@case("names that are no UTF-8 or steer a terminal: every row is in the JSON, none in raw on the screen")
def odd_names(test):
    lab = test.lab()
    name = "v\udcff\x1b[1m"
    lab.srv("ip", "link", "add", name, "type", "veth", "peer", "name", "vz")
    lab.srv("ip", "link", "set", name, "up")
    lab.ls("attach", name)
    shown = "v\ufffd\x1b[1m"
    check_equal("status", [row["name"] for row in lab.status()["interfaces"]], [shown])
    check_equal("stats", [row["name"] for row in lab.stats()["interfaces"]], [shown])
    subjects = {row["subject"] for row in lab.ls("-o", "json", "check", name, code=None).json()["checks"]}
    check(shown in subjects, subjects)
    check("\x1b" not in lab.ls("status").out, "the terminal is steered")
    path = os.path.join(test.folder, "p\udce4.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(POLICY)
    check_equal("path", lab.ls("-o", "json", "policy", "check", path).json()["file"], path.replace("\udce4", "\ufffd"))
    lab.ls("policy", "apply", path)
    check(lab.ls("-o", "json", "policy", "show").json()["path"].endswith("p\ufffd.yaml"), "no path shown")
    result = lab.ls("ban", "add", "192.0.2.1", "--for", "1h", "--reason", "\udcff", code=2)
    check("UTF-8" in result.err, result.err)
    lab.ls("ban", "add", "192.0.2.1", "--for", "1h", "--reason", "été")
    check_equal("bans", [ban["reason"] for ban in lab.bans()], ["été"])


@case("a verb with stdin, stdout or stderr closed prints into no file of its own, and says that it could not print")
def closed_files(test):
    lab = test.lab()
    lab.attach(POLICY)
    path = test.file("new.yaml", MONITOR)
    result = shell(lab, "LS policy apply %s >&-" % path, code=1)
    check("cannot write to stdout" in result.err, result.err)
    check_equal("mode", lab.status()["mode"], "monitor")
    for verb in ("ban add 192.0.2.1 --for 1h", "ban del 192.0.2.1", "allow add 192.0.2.9", "panic", "on", "status",
                 "policy rollback", "-o json stats", "explain 192.0.2.1"):
        result = shell(lab, "LS %s >&-" % verb, code=1)
        check("cannot write to stdout" in result.err, "%s: %s" % (verb, result.err))
        shell(lab, "LS %s <&- >&- 2>&-" % verb)
    # What it keeps is still whole.
    lab.ls("detach", "vs")
    lab.attach(POLICY)
    lab.ls("ban", "add", "192.0.2.1", "--for", "1h")
    shell(lab, "LS ban add 192.0.2.2 --for 1h <&- >&- 2>&-")
    check_equal("bans", len(lab.bans()), 2)
    for name in os.listdir("/run/loadshed"):
        if name.startswith(lab.instance + "@") and name.endswith(".lock"):
            with open(os.path.join("/run/loadshed", name), encoding="utf-8", errors="replace") as lock:
                text = lock.read()
            check(text.strip("\n\0").isdigit(), "printed into the lock: %r" % text)


@case("an editor that fails and leaves the text as it was leaves no file behind")
def editor_fails(test):
    lab = test.lab()
    lab.attach(POLICY)
    before = sorted(os.listdir(test.folder))
    for editor in ("false", "/nonexistent/editor"):
        result = lab.srv("env", "EDITOR=" + editor, LOADSHED, "-I", lab.instance, "policy", "edit", code=1)
        check("kept" not in result.err, result.err)
    check_equal("files", sorted(os.listdir(test.folder)), before)


def pin_folder(lab):
    inode = lab.srv("stat", "-Lc", "%i", "/proc/self/ns/net").out.strip()
    return "/sys/fs/bpf/loadshed/%s@%s" % (lab.instance, inode)


@case("whatever pin somebody removes: traffic is judged on, and attach brings policy and bans back")
def pins_removed(test):
    lab = test.lab()
    lab.attach("version: 1\ndeny: [203.0.113.7]\n")
    lab.ls("ban", "add", "192.0.2.5", "--for", "1h")
    for pin in sorted(os.listdir(pin_folder(lab))):
        os.unlink(os.path.join(pin_folder(lab), pin))
        lab.ls("attach", "vs")
        check("203.0.113.7" in lab.ls("policy", "show").out, "%s: the policy is lost" % pin)
        check_equal(pin + ": bans", [ban["source"] for ban in lab.bans()], ["192.0.2.5"])
        check(lab.interface()["program_id"], "%s: not attached" % pin)


@case("a detach under serve is no takeover, however often")
def detach_is_no_takeover(test):
    lab = test.lab()
    lab.attach(POLICY)
    with open(test.path("log"), "wb") as log:
        serve = subprocess.Popen(["ip", "netns", "exec", lab.name + "-srv", LOADSHED, "-I", lab.instance, "serve",
                                  "--metrics", "none"], stdout=log, stderr=log)

    def end():
        serve.kill()
        serve.wait()

    test.stack.callback(end)

    def said():
        with open(test.path("log"), encoding="utf-8") as text:
            return text.read()

    wait_for("serve runs", lambda: "is attached to 1" in said())
    for _ in range(15):
        lab.ls("detach", "--all")
        lab.ls("attach", "vs")
    check("took our program off" not in said(), said())


def read_only(lab, folder, verb, code=None):
    """A verb where a folder can only be read."""
    return lab.srv("unshare", "-m", "sh", "-c", "mount --bind {0} {0} && mount -o remount,ro,bind {0} && exec {1} -I {2} {3}".format(
        folder, LOADSHED, lab.instance, verb), code=code)


@case("with /run or /var/lib that can only be read, panic, off, on and detach work, and what else does says what is not saved")
def read_only_disk(test):
    lab = test.lab()
    for folder in ("/run", "/var/lib"):
        lab.attach(POLICY)
        read_only(lab, folder, "panic", code=0)
        check(lab.status()["panic_seconds"], folder + ": no panic")
        read_only(lab, folder, "off", code=0)
        check(lab.status()["off_seconds"], folder + ": not off")
        read_only(lab, folder, "on", code=0)
        # Where a namespace that has a name is saved, and what it is locked with.
        result = read_only(lab, folder, "ban add 192.0.2.1 --for 1h")
        check(result.code == 0 or "banned, but not saved" in result.err, "%s: %s" % (folder, result.err))
        check_equal(folder + ": bans", len(lab.bans()), 1)
        result = read_only(lab, folder, "policy apply " + test.file("monitor.yaml", MONITOR))
        check(result.code == 0 or "in force as generation 2, but not saved" in result.err, result.err)
        check_equal(folder + ": mode", lab.status()["mode"], "monitor")
        result = read_only(lab, folder, "detach vs")
        check(result.code == 0 or "detached, but still saved" in result.err, "%s: %s" % (folder, result.err))
        check("xdp" not in lab.srv("ip", "link", "show", "vs").out, folder + ": still attached")
        lab.attach(POLICY)
        lab.ls("detach", "vs")


@case("from a mount namespace in a mount namespace, neither of which has bpffs, the state is found")
def nested_mounts(test):
    lab = test.lab()
    lab.attach(POLICY)
    found = lab.srv("unshare", "-m", "sh", "-c", "unshare -m %s -I %s -o json status; true" % (LOADSHED, lab.instance)).json()
    check_equal("interfaces", [row["name"] for row in found["interfaces"]], ["vs"])


@case("a process that holds the lock and stands still: whoever only looks is answered, the others name it and end")
def stopped_holder(test):
    lab = test.lab()
    lab.attach(POLICY)
    lock, = (name for name in os.listdir("/run/loadshed")
             if name.startswith(lab.instance + "@") and name.endswith(".lock"))
    with open(os.path.join("/run/loadshed", lock), "r+", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write("%d\n" % os.getpid())
        file.flush()
        for verb in ("status", "stats", "ban list", "policy show", "explain 192.0.2.1"):
            lab.ls(*verb.split())
        waiting = [verb_start(lab, verb) for verb in ("panic", "ban add 192.0.2.1 --for 1h", "policy rollback", "detach vs")]
        for process in waiting:
            err = process.communicate(timeout=30)[1].decode()
            check_equal(err, process.returncode, 1)
            check("process %d has held it" % os.getpid() in err, err)
    lab.ls("panic")


def verb_start(lab, verb):
    return subprocess.Popen(["ip", "netns", "exec", lab.name + "-srv", LOADSHED, "-I", lab.instance, *verb.split()],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@case("verbs that all change something at once are done one after the other, each whole, or say why not")
def all_at_once(test):
    lab = test.lab()
    names = ["vw%d" % i for i in range(4)]
    for name in names:
        lab.srv("ip", "link", "add", name, "type", "veth", "peer", "name", name + "p")
        lab.srv("ip", "link", "set", name, "up")
    attaching = [verb_start(lab, "attach %s --policy %s" % (name, test.file("policy.yaml", POLICY))) for name in names]
    for process in attaching:
        err = process.communicate(timeout=60)[1].decode()
        check_equal("attach: " + err, process.returncode, 0)
    check_equal("attached", sorted(row["name"] for row in lab.status()["interfaces"]), names)
    check_equal("generation", lab.status()["generation"], 1)
    files = [test.file("p%d.yaml" % i, POLICY.replace("10/s", "%d/s" % (20 + i))) for i in range(4)]
    lists = [test.file("b%d" % i, "\n".join("10.%d.%d.%d" % (i, j >> 8, j & 255) for j in range(1000))) for i in range(4)]
    changing = [verb_start(lab, "policy apply " + file) for file in files]
    changing += [verb_start(lab, "ban import %s --for 1h" % file) for file in lists]
    changing += [verb_start(lab, "allow add 192.0.2.%d" % i) for i in range(4)]
    changing += [verb_start(lab, "attach vs"), verb_start(lab, "detach vw0"), verb_start(lab, "detach vw1")]
    for process in changing:
        err = process.communicate(timeout=60)[1].decode()
        check_equal("%s: %s" % (process.args[-3:], err), process.returncode, 0)
    check_equal("bans", len(lab.bans()), 4000)
    check_equal("attached", sorted(row["name"] for row in lab.status()["interfaces"]), ["vs", "vw2", "vw3"])
    check_equal("generation", lab.status()["generation"], 9)
    check_equal("degraded", lab.status()["degraded"], [])


@case("an interface that is moved to another network namespace: status says so, and detach takes the program off there")
def moved(test):
    lab = test.lab()
    other = lab.name + "-other"
    lab.srv("ip", "link", "add", "vm", "type", "veth", "peer", "name", "vn")
    lab.attach(POLICY, interface="vm")
    index = lab.interface()["ifindex"]
    subprocess.run(["ip", "netns", "add", other], check=True)
    test.stack.callback(subprocess.run, ["ip", "netns", "del", other], check=False)
    lab.srv("ip", "link", "set", "vm", "netns", other)

    def there():
        return subprocess.run(["ip", "-n", other, "link", "show", "vm"], check=True, capture_output=True, text=True).stdout
    check("xdp" in there(), "the kernel took the program off")
    check("moved to another network namespace" in lab.status()["degraded"][0], lab.status()["degraded"])
    check("moved" in lab.ls("status").out, "the table says something else")
    # Another one in its place, with its index, is not what was attached.
    lab.srv("ip", "link", "add", "name", "vk", "index", index, "type", "veth", "peer", "name", "vl")
    check_equal("program", lab.interface()["program_id"], None)
    check("moved to another network namespace" in lab.status()["degraded"][0], lab.status()["degraded"])
    result = lab.ls("attach", "vk", code=1)
    check("'loadshed detach vm'" in result.err, result.err)
    check("not attached" in lab.ls("detach", "vk").err, "vk was taken for it")
    check_equal("detached", lab.ls("-o", "json", "detach", "vm").json()["detached"], 1)
    check("xdp" not in there(), "the program is still on it")


@case("a symbolic link in the place of what is saved is replaced, and the file behind it stays")
def saved_link(test):
    lab = test.lab()
    foreign = test.file("foreign", "foreign")
    lab.attach(POLICY)
    lab.ls("ban", "add", "192.0.2.1", "--for", "1h")
    place = "/var/lib/loadshed/%s/netns/%s-srv" % (lab.instance, lab.name)
    for name in ("policy.blob", "attach", "bans"):
        os.unlink(os.path.join(place, name))
        os.symlink(foreign, os.path.join(place, name))
    lab.ls("ban", "add", "192.0.2.2", "--for", "1h")
    lab.apply(MONITOR)
    for name in ("policy.blob", "attach", "bans"):
        check(not os.path.islink(os.path.join(place, name)), name + " is still a link")
    with open(foreign, encoding="ascii") as file:
        check_equal("the file", file.read(), "foreign")


@case("lists that grow and shrink under one program: each address, at every edge, has what the list in force says")
def lists_in_turn(test):
    lab = test.lab()
    chance = random.Random(7)
    lab.attach("version: 1\n")
    lengths = {32: ([24], [25, 31, 32], [17, 24, 32], list(range(8, 33))),
               128: ([64], [48, 64, 128], list(range(20, 129)), [29, 32, 36, 40, 48, 56, 64])}
    for count4, count6 in ((50000, 3), (1, 20000), (0, 1), (3000, 50), (2, 0), (20000, 5000)):
        listed = {32: set(), 128: set()}
        for bits, count in ((32, count4), (128, count6)):
            among = chance.choice(lengths[bits])
            for _ in range(count):  # 64.0.0.0/2 and 2000::/3
                address = 1 << (bits - (2 if bits == 32 else 3)) | chance.getrandbits(bits - (2 if bits == 32 else 3))
                length = chance.choice(among)
                listed[bits].add((address >> (bits - length) << (bits - length), length))
        test.file("list", "".join("%s/%d\n" % (text_of(address, bits), length)
                                  for bits in listed for address, length in listed[bits]))
        lab.apply("version: 1\nsets: { l: { file: list } }\ndeny: [l]\n")
        frames, wanted = [], 0
        for _ in range(300):
            bits = chance.choice((32, 128))
            address = chance.getrandbits(bits)
            if listed[bits] and chance.random() < 0.8:
                first, length = chance.choice(sorted(listed[bits])[:500])
                last = first | (1 << (bits - length)) - 1
                address = chance.choice((first, last, first - 1, last + 1, chance.randint(first, last)))
            if address >> (bits - 4) in (0, 7, 14, 15):
                continue  # of no sender, or several's
            wanted += any((address >> (bits - length) << (bits - length), length) in listed[bits]
                          for length in range(bits + 1))
            frames.append(udp_frame(text_of(address, bits), port=9))
        before = lab.stats()
        lab.send(*frames)
        wait_for("all are judged", lambda: lab.stats()["seen"]["packets"] >= before["seen"]["packets"] + len(frames))
        check_equal("denied with %d and %d prefixes" % (count4, count6),
                    tally(lab.stats(), "drop", "deny") - tally(before, "drop", "deny"), wanted)


def text_of(address, bits):
    return str(ipaddress.IPv4Address(address) if bits == 32 else ipaddress.IPv6Address(address))


if __name__ == "__main__":
    main()
