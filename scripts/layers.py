#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Holds the direction of includes that scripts/layers.txt states.

    layers.py [ROOT]     prints each include that goes the wrong way; exit 1 if there is one

A file belongs to its own rule, if layers.txt has one for it, or else to the longest folder of layers.txt that it lies
in (a folder's own rule does not reach into folders that have one). It may include what that rule lists, what lies in its own folder, and the C library:
any <header> that names no folder of the project and no library that some rule names.
"""

import os
import re
import sys

# The C library's and the kernel's user headers that every user folder may read.
LIBC = re.compile(r"^(sys|netinet|arpa|net|asm|bits)/|^[a-z0-9_]+\.h$")


def read_rules(path):
    """layers.txt as {folder: [allowed prefix]}."""
    rules = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            line = line.split("#")[0].strip()
            if line:
                folder, allowed = line.split(":")
                rules[folder.strip()] = allowed.split()
    return rules


def allowed(header, quoted, folder, rules):
    """Whether a file of `folder` may include `header`."""
    if any(header.startswith(prefix) for prefix in rules[folder]):
        return True
    if header.startswith(folder + "/") or "/" not in header and quoted:
        return True
    libraries = [p for rule in rules.values() for p in rule if p.endswith(".h") and "/" not in p or p == "pcap"]
    if any(header.startswith(library) for library in libraries):
        return False
    return folder.startswith("user/") and not quoted and LIBC.match(header) is not None


def violations(root, rules):
    """Yields 'file:line: text' for each include that no rule allows."""
    for top in ("include", "bpf", "user"):
        for path, _, names in os.walk(os.path.join(root, top)):
            folder = os.path.relpath(path, root)
            while folder and folder not in rules:
                folder = os.path.dirname(folder)
            for name in sorted(names):
                if not name.endswith((".c", ".h")):
                    continue
                file = os.path.join(path, name)
                if not folder:
                    yield f"{os.path.relpath(file, root)}: no rule of layers.txt covers its folder"
                    continue
                own = os.path.relpath(file, root)
                rule = own if own in rules else folder
                with open(file, encoding="utf-8") as lines:
                    for number, line in enumerate(lines, 1):
                        match = re.match(r'\s*#\s*include\s+(["<])([^">]+)', line)
                        if match and not allowed(match[2], match[1] == '"', rule, rules):
                            yield f"{own}:{number}: {rule} must not include {match[2]}"


def main():
    """Exit code as the module says."""
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    rules = read_rules(os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers.txt"))
    found = list(violations(root, rules))
    print("\n".join(found)) if found else None
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
