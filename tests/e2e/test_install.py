# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""make install and uninstall, into a folder; the units; and that what the unit may do is enough."""

import os
import re
import shutil

from harness import LOADSHED, ROOT, Skip, case, check, check_equal, main, run
from probes import DENY, is_enforced, lose_pins

UNIT = os.path.join(ROOT, "user/share/loadshed.service")
WANTED = """lib/systemd/system/loadshed.service lib/systemd/system/loadshed@.service sbin/loadshed
share/bash-completion/completions/loadshed share/doc/loadshed/NEWS.md share/doc/loadshed/bench.svg share/doc/loadshed/guide.md
share/fish/vendor_completions.d/loadshed.fish share/man/man5/loadshed-policy.5 share/man/man8/loadshed.8
share/zsh/site-functions/_loadshed""".split()


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
    for name in ("loadshed.service", "loadshed@.service"):
        text = first["lib/systemd/system/" + name].decode()
        check("/opt/shed/sbin/loadshed" in text and "/usr/local/sbin" not in text, name + ": the wrong path")
        check(("-I %i restore" in text) == ("@" in name), name + ": the wrong instance")
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
    for name in ("loadshed.service", "loadshed@.service"):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            text = file.read().replace("/usr/local/sbin/", test.path("usr/local/sbin/"))
        test.file(name, text)
    for name in ("loadshed.service", "loadshed@inner.service"):
        result = run(["systemd-analyze", "verify", "--man=no", test.path(name)])
        check_equal(name, [line for line in result.err.splitlines() if "loadshed" in line], [])


def unit_value(key):
    with open(UNIT, encoding="utf-8") as file:
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


@case("unit: its system calls are enough to restore")
def system_calls(test):
    if not shutil.which("systemd-analyze") or not shutil.which("strace"):
        raise Skip("needs systemd-analyze and strace")
    allowed = set()
    for name in unit_value("SystemCallFilter"):
        if not name.startswith("@"):
            allowed.add(name)
    groups, todo = {}, [name for name in unit_value("SystemCallFilter") if name.startswith("@")]
    for line in run(["systemd-analyze", "syscall-filter"]).out.splitlines():
        if line.startswith("@"):
            groups[line.strip()] = members = []
        elif line.startswith("    ") and not line.strip().startswith("#"):
            members.append(line.strip())
    while todo:
        for name in groups[todo.pop()]:
            (todo.append if name.startswith("@") else allowed.add)(name)
    lab = test.lab()
    lab.attach(DENY)
    lose_pins(lab)
    lab.srv("strace", "-f", "-qq", "-o", test.path("calls"), LOADSHED, "-I", lab.instance, "restore")
    with open(test.path("calls"), encoding="utf-8", errors="replace") as file:
        used = set(re.findall(r"^\d+ +(\w+)\(", file.read(), re.M))
    check("bpf" in used, "strace shows no bpf()")
    check_equal("not allowed", sorted(used - allowed), [])


if __name__ == "__main__":
    main()
