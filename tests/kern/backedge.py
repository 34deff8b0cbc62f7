#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Finds loops that kernels up to 6.1 refuse: backedge.py OBJECT

Their check_cfg() lets a jump lead back to an instruction whose successors are still being explored, but not the step from
one instruction to the next ("back-edge from insn"). Whether clang ends a loop by such a step depends on the order in which
it places blocks, so each object is looked at, in the order of the kernel's own search. Prints what it found; exit code 1
if anything.
"""
import re
import shutil
import subprocess
import sys


def functions(path):
    tool = next(filter(shutil.which, ("llvm-objdump", "llvm-objdump-19", "llvm-objdump-16", "llvm-objdump-14")))
    text = subprocess.run([tool, "-d", "--no-show-raw-insn", path], check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        label = re.match(r"[0-9a-f]+ <(\w+)>:", line)
        code = re.match(r"\s+(\d+):\s+(.*)", line)
        if label and not label[1].startswith("LBB"):
            name, instructions = label[1], {}
            yield name, instructions
        elif code:
            instructions[int(code[1])] = code[2]


def steps(code, at, following):
    """What may come after `at`, in the kernel's order, and whether it may be on the way here already."""
    if code.startswith("exit"):
        return []
    jump = re.search(r"goto \+?(-?(?:0x)?[0-9a-f]+)", code)
    if not jump:
        return [(following, False)]
    target = at + 1 + int(jump[1], 0)
    return [(target, True)] if code.startswith("goto") else [(following, True), (target, True)]


def back_edges(instructions):
    order = sorted(instructions)
    following = dict(zip(order, order[1:]))
    explored = {order[0]: False}
    path = [(order[0], iter(steps(instructions[order[0]], order[0], following.get(order[0]))))]
    while path:
        at, rest = path[-1]
        for to, may_be_back in rest:
            if to is not None and to not in explored:
                explored[to] = False
                path.append((to, iter(steps(instructions[to], to, following.get(to)))))
                break
            if to is not None and not explored[to] and not may_be_back:
                yield at, to
        else:
            explored[at] = True
            path.pop()


found = [f"{name}: instruction {at} falls back to {to}"
         for name, instructions in list(functions(sys.argv[1])) if instructions
         for at, to in back_edges(instructions)]
print("\n".join(found))
sys.exit(1 if found else 0)
