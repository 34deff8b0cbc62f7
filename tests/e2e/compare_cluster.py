#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""One limit of 1 000/s for four nodes, in five ways on one rig: prints the table of user/share/cluster.md.

	sudo LOADSHED=build/loadshed tests/e2e/compare_cluster.py

The first three ways are loadshed's, with real packets: the limit on each node, a quarter of it on each node, and scope
cluster. The other two ask Redis before each request, over a connection of each node's own, as a service would: INCR and EXPIRE
of a window of a second, and a bucket in Lua. Needs root, redis-server, and about three minutes.
"""

import atexit
import json
import random
import socket
import subprocess
import sys
import time

from cluster_lab import Fleet, zipf
from harness import Test

RATE, NODES = 1000, 4
SETTLE, WINDOW = 4, 5
LOADS = (("3 x, Zipf", 3, None), ("2 x, all on one node", 2, [1, 0, 0, 0]), ("0.8 x, Zipf", 0.8, None))
BUCKET = """local t = redis.call('TIME')
local now, tat = t[1] * 1000000 + t[2], tonumber(redis.call('GET', KEYS[1]) or '') or 0
if tat < now then tat = now end
if tat - now > 1000000 - 1000 then return 0 end
redis.call('SET', KEYS[1], string.format('%.0f', tat + 1000), 'PX', 5000)
return 1"""


def encode(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in (str(x).encode() for x in words))


def ask(way, rate, seconds):
    """In a node: asks Redis before each request of a Poisson stream, and prints what became of it."""
    link = socket.create_connection(("10.77.0.1", 6379))
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    answers = link.makefile("rb")
    if way == "lua":
        link.sendall(encode("SCRIPT", "LOAD", BUCKET))
        answers.readline()
        sha1 = answers.readline().strip().decode()
    admitted, offered, waits = 0, 0, []
    begin = time.monotonic()
    due = begin
    while due < begin + seconds:
        due += random.expovariate(rate)
        time.sleep(max(0, due - time.monotonic()))
        start = time.monotonic()
        if way == "incr":
            key = "c:%d" % time.time()
            link.sendall(encode("INCR", key) + encode("EXPIRE", key, 5))
            passes = int(answers.readline()[1:]) <= RATE
            answers.readline()
        else:
            link.sendall(encode("EVALSHA", sha1, 1, "bucket"))
            passes = answers.readline()[1:].strip() == b"1"
        waits.append(time.monotonic() - start)
        if due > begin + SETTLE:
            offered += 1
            admitted += passes
    waits.sort()
    took = time.monotonic() - begin - SETTLE
    print(json.dumps({"admitted": admitted / took, "offered": offered / took, "median_us": waits[len(waits) // 2] * 1e6,
                      "p99_us": waits[len(waits) * 99 // 100] * 1e6}))


def row(name, cells, wait):
    print("| %s | %s | %s |" % (name, " | ".join("%.0f /s, %.1f %% refused" % cell for cell in cells), wait), flush=True)


def rig():
    """A case of its own, which ends with the program if not before."""
    test = Test()
    atexit.register(test.stack.close)
    fleet = Fleet(test, NODES)
    fleet.server()
    return test, fleet


def by_loadshed(name, limit, cluster):
    cells = []
    for _what, times, weights in LOADS:
        test, fleet = rig()
        fleet.up("version: 1\ncluster: { redis: \"redis://10.77.0.1:6379\", node: NODE }\nclasses:\n"
                 "  - { name: shared, match: { protocol: udp }, limits: [{ name: it, rate: %d/s, burst: %d%s }] }\n"
                 % (limit, limit, ", scope: cluster" if cluster else ""))
        floods = [node.flood("--from", "203.0.113.7", "--rate", max(1, int(times * RATE * weight)), "--seconds", 60)
                  for node, weight in zip(fleet.nodes, weights or zipf(NODES)) if weight > 0]
        time.sleep(SETTLE)
        got, offered = fleet.measure(WINDOW)
        cells.append((got, 100 * (1 - got / offered)))
        for flood in floods:
            flood.stop()
        test.stack.close()
    row(name, cells, "nothing")


def by_redis(name, way):
    cells, medians, p99s = [], [], []
    for _what, times, weights in LOADS:
        test, fleet = rig()
        asking = [subprocess.Popen(["ip", "netns", "exec", node.lab.name + "-srv", sys.executable, __file__, "ask", way,
                                    str(times * RATE * weight), str(SETTLE + WINDOW)], stdout=subprocess.PIPE)
                  for node, weight in zip(fleet.nodes, weights or zipf(NODES)) if weight > 0]
        said = [json.loads(one.communicate()[0]) for one in asking]
        got, offered = sum(s["admitted"] for s in said), sum(s["offered"] for s in said)
        cells.append((got, 100 * (1 - got / offered)))
        medians.append(max(s["median_us"] for s in said))
        p99s.append(max(s["p99_us"] for s in said))
        test.stack.close()
    row(name, cells, "Redis: median %.0f to %.0f us, 99th of 100 %.0f to %.0f us" % (
        min(medians), max(medians), min(p99s), max(p99s)))


def main():
    print("| way | %s | a request waits for |\n|---|%s---|" % (" | ".join(load[0] for load in LOADS), "---|" * len(LOADS)))
    by_loadshed("the limit on each node", RATE, False)
    by_loadshed("a quarter of it on each node", RATE // NODES, False)
    by_redis("INCR in Redis for each request", "incr")
    by_redis("a bucket in Lua for each request", "lua")
    by_loadshed("`scope: cluster`", RATE, True)


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] == "ask":
        ask(sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
