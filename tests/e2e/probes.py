# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Small policies and questions that several files of cases use."""

import json

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
