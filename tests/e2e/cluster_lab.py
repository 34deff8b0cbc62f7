# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A fleet: nodes that are labs of their own, each with its controller, and a hub with the Redis that they share.

Every node is a pair of namespaces (scripts/lab.sh): packets come in at vs, judged by a real program, sent by a real
sender behind the cable. The hub is one more namespace with a bridge, to which every node has a cable of its own, and in
which redis-server runs.
"""

import os
import shutil
import signal
import subprocess
import time

from harness import LOADSHED, Skip, run, wait_for

REDIS = shutil.which("redis-server")
CLI = shutil.which("redis-cli")


class Server:
    """One redis-server in the hub, or a Sentinel."""

    def __init__(self, fleet, port, *options, sentinel=None):
        self.fleet, self.port, self.options, self.sentinel = fleet, port, options, sentinel
        self.folder = fleet.test.path("redis-%d" % port)
        os.makedirs(self.folder, exist_ok=True)
        self.process = None
        fleet.test.stack.callback(self.kill)
        if sentinel:
            with open(os.path.join(self.folder, "sentinel.conf"), "w") as file:
                file.write(sentinel)
        self.start()

    def start(self):
        if self.sentinel:
            command = [REDIS, os.path.join(self.folder, "sentinel.conf"), "--sentinel"]
        else:
            command = [REDIS, "--save", "", "--appendonly", "no"]
        command += ["--port", str(self.port), "--bind", "10.77.0.1", "--dir", self.folder, "--protected-mode", "no",
                    *self.options]
        self.process = subprocess.Popen(["ip", "netns", "exec", self.fleet.hub, *command],
                                        stdout=open(os.path.join(self.folder, "log"), "ab"),
                                        stderr=subprocess.STDOUT)
        wait_for("redis on port %d answers" % self.port, lambda: "PONG" in self.cli("PING", code=None)
                 or "NOAUTH" in self.cli("PING", code=None))

    def cli(self, *words, code=0):
        result = run(["ip", "netns", "exec", self.fleet.hub, CLI, "-h", "10.77.0.1", "-p", str(self.port), *words],
                     code=code)
        return (result.out + result.err).strip()

    def signal(self, number):
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()


class Node:
    def __init__(self, fleet, index):
        self.fleet, self.index = fleet, index
        self.lab = fleet.test.lab()
        self.name = "n%d" % index
        self.serving = None
        veth = "%s%d" % (fleet.hub[-8:], index)
        run(["ip", "link", "add", veth, "netns", fleet.hub, "type", "veth", "peer", "name", "ctl", "netns",
             self.lab.name + "-srv"])
        run(["ip", "-n", fleet.hub, "link", "set", veth, "master", "br0", "up"])
        run(["ip", "-n", self.lab.name + "-srv", "addr", "add", "10.77.0.%d/24" % (10 + index), "dev", "ctl"])
        run(["ip", "-n", self.lab.name + "-srv", "link", "set", "ctl", "up"])

    def attach(self, policy):
        policy = policy.replace("NODE", self.name)
        self.lab.ls("attach", "vs", "--policy", self.fleet.test.file("policy-%s.yaml" % self.name, policy))

    def apply(self, policy):
        policy = policy.replace("NODE", self.name)
        self.lab.ls("policy", "apply", self.fleet.test.file("policy-%s.yaml" % self.name, policy))

    def serve(self, wrap=()):
        log = open(self.fleet.test.path("serve-%s.log" % self.name), "ab")
        command = ["ip", "netns", "exec", self.lab.name + "-srv", *wrap, LOADSHED, "-I", self.lab.instance, "serve",
                   "--metrics", "none"]
        self.serving = subprocess.Popen(command, stdout=log, stderr=log)
        self.fleet.test.stack.callback(self.end)
        return self

    def end(self, number=signal.SIGKILL):
        if self.serving and self.serving.poll() is None:
            self.serving.send_signal(number)
            self.serving.wait()

    def log(self):
        with open(self.fleet.test.path("serve-%s.log" % self.name)) as file:
            return file.read()

    def cluster(self):
        return self.lab.ls("-o", "json", "cluster", "status", code=None).json()

    def is_ok(self):
        status = self.cluster()
        return status["redis_up"] and status["state"] == "ok" and status

    def admitted(self):
        """Packets of class `shared` that passed, and all of them."""
        stats = self.lab.stats()
        passed = seen = 0
        for entry in stats["classes"]:
            if entry["name"] == "shared":
                for item in entry["verdicts"]:
                    seen += item["packets"]
                    passed += item["packets"] if item["verdict"] == "pass" else 0
        return passed, seen

    def flood(self, *arguments):
        return self.lab.flood_start(*arguments)


class Fleet:
    def __init__(self, test, nodes=4):
        if not REDIS or not CLI:
            raise Skip("redis-server or redis-cli is not installed")
        self.test = test
        self.hub = "ls-hub-%d" % (os.getpid() % 100000)
        run(["ip", "netns", "add", self.hub])
        test.stack.callback(subprocess.run, ["ip", "netns", "del", self.hub], check=False)
        run(["ip", "-n", self.hub, "link", "set", "lo", "up"])
        run(["ip", "-n", self.hub, "link", "add", "br0", "type", "bridge"])
        run(["ip", "-n", self.hub, "addr", "add", "10.77.0.1/24", "dev", "br0"])
        run(["ip", "-n", self.hub, "link", "set", "br0", "up"])
        self.nodes = [Node(self, i) for i in range(nodes)]

    def server(self, port=6379, *options, **keywords):
        return Server(self, port, *options, **keywords)

    def up(self, policy):
        for node in self.nodes:
            node.attach(policy)
            node.serve()
        wait_for("all nodes share", lambda: all(node.is_ok() and node.cluster()["nodes"] >= len(self.nodes)
                                                for node in self.nodes), 15)

    def admitted(self):
        pairs = [node.admitted() for node in self.nodes]
        return sum(p[0] for p in pairs), sum(p[1] for p in pairs)

    def measure(self, seconds):
        """Rates of admission over the time, by the counters, which are exact; and of the offer."""
        start, first = time.monotonic(), self.admitted()
        time.sleep(seconds)
        end, last = time.monotonic(), self.admitted()
        took = end - start
        return (last[0] - first[0]) / took, (last[1] - first[1]) / took


def zipf(n, exponent=1.2):
    weights = [(i + 1) ** -exponent for i in range(n)]
    return [w / sum(weights) for w in weights]
