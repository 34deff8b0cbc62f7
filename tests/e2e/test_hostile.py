# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Hostile surroundings and hostile words: what others name, close, fill or take away changes no answer."""

import os
import subprocess

from harness import LOADSHED, case, check, check_equal, main, wait_for

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


if __name__ == "__main__":
    main()
