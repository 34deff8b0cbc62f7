# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Small policies and questions that several files of cases use."""

import glob
import json
import os

from harness import wait_for

SOURCE, OTHER = "203.0.113.7", "198.51.100.9"
DENY = "version: 1\ndeny: [203.0.113.7]\n"
LIMIT = "version: 1\nclasses:\n  - { name: rest, match: any, limits: [{ rate: %s }] }\n"


def program_on(lab, interface="vs"):
    """The id of the XDP program on an interface, by the kernel's own word; None if there is none."""
    link = json.loads(lab.srv("ip", "-j", "-d", "link", "show", interface).out)[0]
    return link.get("xdp", {}).get("prog", {}).get("id")


def is_enforced(lab):
    """Whether a packet from the denied source is dropped, and one from another arrives."""
    sink = lab.sink(bad=SOURCE, good=OTHER)
    lab.flood("--from", SOURCE, "--packets", 5)
    lab.flood("--from", OTHER, "--packets", 5)
    got = sink.stop()["classes"]
    return got["bad"]["packets"] == 0 and got["good"]["packets"] == 5


def lose_pins(lab):
    """What a reboot does to the kernel's part: programs, links and maps are gone."""
    for directory in glob.glob("/sys/fs/bpf/loadshed/%s@*" % lab.instance):
        inode = os.stat("/run/netns/%s-srv" % lab.name).st_ino
        if not directory.endswith("@%d" % inode):
            continue
        for name in os.listdir(directory):
            os.unlink(os.path.join(directory, name))
        os.rmdir(directory)
    wait_for("no program on vs", lambda: program_on(lab) is None)
