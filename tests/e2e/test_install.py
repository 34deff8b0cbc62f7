# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""make install and uninstall, into a folder; the units; and that what the unit may do is enough."""

import os
import re
import shutil
import signal
import subprocess

from harness import LOADSHED, ROOT, Fail, Skip, case, check, check_equal, main, run, wait_for
from probes import DENY, is_enforced, lose_pins

UNIT = os.path.join(ROOT, "user/share/loadshed.service")
SERVE_UNIT = os.path.join(ROOT, "user/share/loadshed-serve.service")
WANTED = """lib/systemd/system/loadshed.service lib/systemd/system/loadshed@.service sbin/loadshed
lib/systemd/system/loadshed-serve.service lib/systemd/system/loadshed-serve@.service
share/bash-completion/completions/loadshed share/doc/loadshed/NEWS.md share/doc/loadshed/bench.svg share/doc/loadshed/overload.svg share/doc/loadshed/guide.md
share/fish/vendor_completions.d/loadshed.fish share/man/man5/loadshed-policy.5 share/man/man8/loadshed.8
share/zsh/site-functions/_loadshed""".split()


UNITS = ("loadshed.service", "loadshed@.service", "loadshed-serve.service", "loadshed-serve@.service")


def tree(folder):
    found = {}
    for path, _, files in os.walk(folder):
        for name in files:
            with open(os.path.join(path, name), "rb") as file:
                found[os.path.relpath(os.path.join(path, name), folder)] = file.read()
    return found


def make(test, *arguments):
    run(["make", "-s", "-C", ROOT, *arguments, "DESTDIR=" + test.folder], seconds=300)


@case("install: everything is there, twice is once, and uninstall leaves nothing")
def install(test):
    make(test, "install", "PREFIX=/opt/shed")
    first = tree(test.path("opt/shed"))
    missing = [name for name in WANTED if name not in first]
    check_equal("missing", missing, [])
    check_equal("examples", sum("/examples/" in name for name in first),
                len(os.listdir(os.path.join(ROOT, "user/share/examples"))))
    check(all(first.values()), "empty: %r" % [name for name, text in first.items() if not text])
    for name in UNITS:
        text = first["lib/systemd/system/" + name].decode()
        check("/opt/shed/sbin/loadshed" in text and "/usr/local/sbin" not in text, name + ": the wrong path")
        verb = "serve" if "serve" in name else "restore"
        check(("-I %%i %s" % verb in text) == ("@" in name), name + ": the wrong instance")
        if verb == "serve":
            check(("Wants=loadshed@%i.service" in text) == ("@" in name), name + ": waits for the wrong instance")
    check_equal("version", run([test.path("opt/shed/sbin/loadshed"), "version"]).out,
                run([LOADSHED, "version"]).out)
    make(test, "install", "PREFIX=/opt/shed")
    check_equal("after the second time", tree(test.path("opt/shed")), first)
    test.file("opt/shed/share/doc/other", "of somebody else")
    make(test, "uninstall", "PREFIX=/opt/shed")
    check_equal("left", list(tree(test.path("opt/shed"))), ["share/doc/other"])
    check(not os.path.exists(test.path("opt/shed/share/doc/loadshed")), "an empty folder is left")
    make(test, "uninstall", "PREFIX=/opt/shed")


@case("unit: systemd has nothing against it")
def verify(test):
    if not shutil.which("systemd-analyze"):
        raise Skip("needs systemd-analyze")
    make(test, "install")
    folder = test.path("usr/local/lib/systemd/system")
    for name in UNITS:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            text = file.read().replace("/usr/local/sbin/", test.path("usr/local/sbin/"))
        test.file(name, text)
    for name in ("loadshed.service", "loadshed@inner.service", "loadshed-serve.service",
                 "loadshed-serve@inner.service"):
        result = run(["systemd-analyze", "verify", "--man=no", test.path(name)])
        check_equal(name, [line for line in result.err.splitlines() if "loadshed" in line], [])


def unit_value(key, unit=UNIT):
    with open(unit, encoding="utf-8") as file:
        return re.search(r"^%s=(.*)$" % key, file.read(), re.M).group(1).split()


@case("unit: its capabilities are enough to restore")
def capabilities(test):
    if not shutil.which("setpriv"):
        raise Skip("needs setpriv")
    lab = test.lab()
    lab.attach(DENY)
    lab.ls("ban", "add", "192.0.2.1", "--for", "1h")
    lose_pins(lab)
    bounds = "-all," + ",".join("+" + name[4:].lower() for name in unit_value("CapabilityBoundingSet"))
    result = lab.srv("setpriv", "--bounding-set", bounds, "--no-new-privs", LOADSHED, "-I", lab.instance, "restore")
    check_equal("stderr", result.err, "")
    check(is_enforced(lab), "not enforced")
    check_equal("bans", [ban["source"] for ban in lab.bans()], ["192.0.2.1"])


def allowed_calls(unit):
    """Those of a unit's filter, its groups taken apart."""
    allowed = set()
    for name in unit_value("SystemCallFilter", unit):
        if not name.startswith("@"):
            allowed.add(name)
    groups, todo = {}, [name for name in unit_value("SystemCallFilter", unit) if name.startswith("@")]
    for line in run(["systemd-analyze", "syscall-filter"]).out.splitlines():
        if line.startswith("@"):
            groups[line.strip()] = members = []
        elif line.startswith("    ") and not line.strip().startswith("#"):
            members.append(line.strip())
    while todo:
        for name in groups[todo.pop()]:
            (todo.append if name.startswith("@") else allowed.add)(name)
    return allowed


def used_calls(test):
    with open(test.path("calls"), encoding="utf-8", errors="replace") as file:
        return set(re.findall(r"^\d+ +(\w+)\(", file.read(), re.M))


@case("unit: its system calls are enough to restore")
def system_calls(test):
    if not shutil.which("systemd-analyze") or not shutil.which("strace"):
        raise Skip("needs systemd-analyze and strace")
    lab = test.lab()
    lab.attach(DENY)
    lose_pins(lab)
    lab.srv("strace", "-f", "-qq", "-o", test.path("calls"), LOADSHED, "-I", lab.instance, "restore")
    used = used_calls(test)
    check("bpf" in used, "strace shows no bpf()")
    check_equal("not allowed", sorted(used - allowed_calls(UNIT)), [])


@case("unit: what that of serve may do is enough to restore, reload and attach again")
def serve_unit(test):
    for tool in ("systemd-analyze", "strace", "setpriv"):
        if not shutil.which(tool):
            raise Skip("needs " + tool)
    lab = test.lab()
    lab.attach(DENY)
    lose_pins(lab)
    bounds = "-all," + ",".join("+" + name[4:].lower() for name in unit_value("CapabilityBoundingSet", SERVE_UNIT))
    serve = subprocess.Popen(["ip", "netns", "exec", lab.name + "-srv", "strace", "-f", "-qq", "-o", test.path("calls"),
                              "setpriv", "--bounding-set", bounds, "--no-new-privs", LOADSHED, "-I", lab.instance, "serve",
                              "--metrics", "none"], stderr=open(test.path("log"), "wb"))
    test.stack.callback(serve.kill)
    try:
        wait_for("restored", lambda: lab.status()["serve"] and is_enforced(lab), 20)
        pid = lab.status()["serve"]["pid"]
        test.stack.callback(lambda: subprocess.run(["kill", "-KILL", str(pid)], check=False, stderr=subprocess.DEVNULL))
        test.file("policy.yaml", DENY + "mode: monitor\n")
        os.kill(pid, signal.SIGHUP)
        wait_for("reloaded", lambda: lab.status()["mode"] == "monitor", 20)
        lab.srv("ip", "link", "del", "vs")
        lab.srv("ip", "link", "add", "vs", "type", "veth", "peer", "name", "vc", "netns", lab.name + "-cli")
        wait_for("attached again", lambda: lab.interface()["program_id"], 30)
        os.kill(pid, signal.SIGTERM)
        check_equal("exit", serve.wait(20), 0)
    except Fail as why:
        with open(test.path("log"), encoding="utf-8") as log:
            raise Fail("%s; log: %s" % (why, log.read()[-500:])) from None
    started = {"execve", "setpriv"}  # of strace and setpriv, before it is serve
    check_equal("not allowed", sorted(used_calls(test) - allowed_calls(SERVE_UNIT) - started), [])


if __name__ == "__main__":
    main()
