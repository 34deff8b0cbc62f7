#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A newcomer's walk: every command of README and guide, in order, on a clean machine, with the time of each.

    tests/e2e/walk.py ROOT [--check]

ROOT is the root of a clean system, such as `debootstrap --variant=minbase bookworm ROOT` makes, with a network to
install from. It is entered by chroot, in a mount namespace of this run, with /proc, /sys and /dev of this machine; the
tree is cloned into it from here. `eth0` is one end of a cable in a namespace of the walk's own. Needs root, git,
iproute2 and python3 outside. --check runs `make check`, too (a quarter of an hour).

Prints a table of Markdown: step, command, seconds, what was seen (its last line). Exit 1 if a command failed.
"""

import os
import subprocess
import sys
import time

import test_docs
from harness import LAB, ROOT

FOLDER = "/root/loadshed"
# What has no end, or no place in a chroot; and what takes more than a quarter of an hour.
SKIPPED = (("systemctl ", "there is no systemd in a chroot"), ("tcpdump ", "waits for traffic"),
           ("ssh ", "another machine"), ("make bench", "needs a quiet machine"), ("make fuzz", "has no end"),
           ("make vm", "fetches a kernel"), ("make rig", "takes ten minutes of a quiet machine"))
# What fetches or builds, and so wants the machine's own network.
OUTSIDE = ("apt-get ", "git ", "make", "mkdir ", "cp ", "rm ")
# What goes on until Ctrl-C: gets one after three seconds.
ENDLESS = ("loadshed stats --watch", "loadshed events", "loadshed capture")


def enter(root):
    """Into a mount namespace of our own, so that whatever is mounted goes when we end."""
    if os.environ.get("LS_WALK") != root:
        os.environ["LS_WALK"] = root
        os.execvp("unshare", ["unshare", "-m", "--propagation", "private", sys.executable, *sys.argv])
    # A mount of its own, as `/` is on a machine: `ip netns exec` asks for one.
    subprocess.run(["mount", "--bind", root, root], check=True)
    for name in ("proc", "sys", "dev"):
        subprocess.run(["mount", "--rbind", "/" + name, os.path.join(root, name)], check=True)
    os.makedirs(root + "/src", exist_ok=True)
    subprocess.run(["mount", "--bind", ROOT, root + "/src"], check=True)
    git = subprocess.run(["git", "-C", ROOT, "rev-parse", "--path-format=absolute", "--git-common-dir"], check=True,
                         stdout=subprocess.PIPE).stdout.decode().strip()
    # A worktree's objects lie elsewhere: at the same path inside, so that the clone finds them.
    os.makedirs(root + git, exist_ok=True)
    subprocess.run(["mount", "--bind", git, root + git], check=True)


def seen(output):
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    text = lines[-1].replace("|", "/") if lines else ""
    return text if len(text) <= 70 else text[:67] + "..."


class Walk:
    def __init__(self, root, lab):
        self.root, self.lab, self.step, self.failed = root, lab, 0, 0

    def run(self, command, inside):
        """`inside`: where eth0 is."""
        if command.startswith(ENDLESS):
            command = "timeout --preserve-status -s INT 3 " + command
        folder = FOLDER if os.path.isdir(self.root + FOLDER) else "/root"
        prefix = ["ip", "netns", "exec", self.lab + "-srv"] if inside else []
        start = time.monotonic()
        result = subprocess.run([*prefix, "chroot", self.root, "/bin/sh", "-c", "cd %s && %s" % (folder, command)],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                                     "HOME": "/root", "LANG": "C.UTF-8", "EDITOR": "true",
                                     "DEBIAN_FRONTEND": "noninteractive"})
        return result, time.monotonic() - start

    def row(self, name, command, seconds, text):
        self.step += 1
        print("| %s %d | `%s` | %s | %s |" % (name, self.step, command.replace("|", "\\|"), seconds, text), flush=True)

    def command(self, name, command):
        for start, why in SKIPPED:
            if command.startswith(start):
                return self.row(name, command, "", "not run: " + why)
        if command.startswith("git clone"):
            command = "git -c safe.directory='*' clone -q /src loadshed"
        result, seconds = self.run(command, not command.startswith(OUTSIDE))
        text = seen(result.stdout)
        if result.returncode != 0:
            self.failed += 1
            text = "**exit %d**: %s" % (result.returncode, text)
            sys.stderr.buffer.write(result.stdout[-4000:])
        return self.row(name, command, "%.1f" % seconds, text)

    def files(self, path):
        """What the text tells to write, or to have."""
        block = next((b for b in test_docs.yaml_blocks(path) if "version:" in b), None)
        if block is None:
            with open(test_docs.SHARE + "/examples/web-server.yaml", encoding="utf-8") as file:
                block = file.read()
        contents = {"policy.yaml": block.encode(), "capture.pcap": test_docs.traffic(),
                    "feed.txt": b"# a feed\n192.0.2.1\n192.0.2.128/25 seen today\n"}
        for name, data in contents.items():
            with open(os.path.join(self.root + FOLDER, name), "wb") as file:
                file.write(data)


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    if len(arguments) != 1 or not os.path.isdir(arguments[0] + "/etc"):
        sys.exit(__doc__)
    root = os.path.realpath(arguments[0])
    global SKIPPED
    if "--check" not in sys.argv:
        SKIPPED += (("make check", "takes a quarter of an hour: --check"),)
    enter(root)
    subprocess.run(["rm", "-rf", root + FOLDER], check=True)
    lab = "ls-walk-%d" % os.getpid()
    subprocess.run([LAB, "up", lab], check=True)
    walk = Walk(root, lab)
    try:
        for command in ("ip link set vs down", "ip link set vs name eth0", "ip link set eth0 up"):
            subprocess.run(["ip", "netns", "exec", lab + "-srv", *command.split()], check=True)
        print("| step | command | seconds | what was seen |\n|---|---|---|---|")
        for name, path in (("README", ROOT + "/README.md"), ("guide", test_docs.SHARE + "/guide.md")):
            walk.step = 0
            for _, command, _ in test_docs.commands(path):
                if os.path.isdir(root + FOLDER) and not os.path.exists(root + FOLDER + "/feed.txt"):
                    walk.files(path)
                walk.command(name, command)
            for leftover in ("feed.txt", "policy.yaml"):
                os.unlink(os.path.join(root + FOLDER, leftover))
    finally:
        walk.run("loadshed detach --all; loadshed -I inner detach --all; rm -rf /var/lib/loadshed", True)
        subprocess.run([LAB, "down", lab], check=False)
    print("\n%d commands failed" % walk.failed)
    sys.exit(1 if walk.failed else 0)


if __name__ == "__main__":
    main()
