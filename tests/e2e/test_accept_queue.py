# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A SYN is refused in the driver when its listener has too little place: real listeners, real connections, no controller."""

import contextlib
import ctypes
import select
import socket
import threading

from harness import LOADSHED, case, check, check_adds_up, check_equal, main, tally, wait_for
from packets import ACK, SYN, TCP, eth, extension, ipv4, ipv6, tcp, tcp_frame
from web import Serve

CLONE_NEWNET = 0x40000000
PORT = 7777
POLICY = """version: 1
allow: [10.9.0.200]
overload: { accept_delay: off, memory: off, softnet: off }
classes:
  - { name: best, match: { from: [10.9.0.99] }, priority: critical }
  - { name: good, match: { from: [10.9.0.98] }, priority: high }
  - { name: last, match: { from: [10.9.0.97] }, priority: low }
"""
SOURCES = ["10.9.0.%d" % n for n in (97, 98, 99, 200)]
BACKLOG = 16  # low has 8 of it, normal 12, high 14, critical 16


def inside(lab, side, work):
    """What `work` returns in a namespace of the lab: in a thread of its own, which alone goes there. Sockets stay there."""
    result = []

    def go():
        try:
            with open("/run/netns/%s-%s" % (lab.name, side), "rb") as namespace:
                if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            result.append(work())
        except OSError as error:
            result.append(error)
    thread = threading.Thread(target=go)
    thread.start()
    thread.join()
    if isinstance(result[0], OSError):
        raise result[0]
    return result[0]


def listen(test, lab, backlog=BACKLOG, shared=False):
    """A server for both families that accepts only when the case says so."""
    def work():
        server = socket.socket(socket.AF_INET6)
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if shared:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.bind(("::", PORT))
        server.listen(backlog)
        server.setblocking(False)
        return server
    server = inside(lab, "srv", work)
    test.stack.callback(server.close)
    return server


def accept(test, server, count):
    for _ in range(count):
        check(select.select([server], [], [], 10)[0], "nothing more to accept")
        test.stack.callback(server.accept()[0].close)


class Clients:
    """Connections from cli."""

    def __init__(self, test, lab):
        self.test, self.lab = test, lab
        for source in SOURCES:
            lab.cli("ip", "address", "add", source + "/24", "dev", "vc")
        # The first packets of a lab wait for addresses to be resolved and to be found nobody else's.
        wait_for("IPv6", lambda: lab.cli("ping", "-6", "-c1", "-W1", "fd00:9::1", code=None).code == 0)

    def start(self, source):
        def work():
            six = ":" in source
            client = socket.socket(socket.AF_INET6 if six else socket.AF_INET)
            client.bind((source, 0))
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.connect(("fd00:9::1" if six else "10.9.0.1", PORT))
            return client
        client = inside(self.lab, "cli", work)
        self.test.stack.callback(client.close)
        return client

    def enter(self, source, count=1):
        """Connections that get in, one after the other."""
        for number in range(count):
            client = self.start(source)
            check(is_in(client, 10), "connection %d of %s does not get in" % (number + 1, source))


def is_in(client, seconds=0.0):
    _, writable, _ = select.select([], [client], [], seconds)
    return bool(writable) and client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0


def refused(lab, verdict="drop"):
    return tally(lab.stats(), verdict, "overload")


def is_refused(lab, source, verdict="drop"):
    """Whether a SYN that nobody sent, and so nobody repeats, is refused."""
    before, seen = refused(lab, verdict), lab.stats()["seen"]["packets"]
    lab.send(tcp_frame(source, port=PORT))
    wait_for("judged", lambda: lab.stats()["seen"]["packets"] > seen)
    return refused(lab, verdict) - before == 1


def kernel_refused(lab):
    """What the kernel itself refused for want of place, in srv: ListenOverflows and ListenDrops."""
    rows = [line.split() for line in lab.srv("cat", "/proc/net/netstat").out.splitlines() if line.startswith("TcpExt")]
    counts = dict(zip(rows[0][1:], map(int, rows[1][1:])))
    return counts["ListenOverflows"] + counts["ListenDrops"]


def queue(lab):
    return lab.ls("-o", "json", "overload", "explain").json()["accept_queue"]


@case("accept queue: a full listener's SYNs are refused in the driver by priority, and get in when it accepts again")
def by_priority(test):
    lab = test.lab()
    lab.attach(POLICY)
    check(not any("accept_queue" in line for line in lab.status()["degraded"]), "status says that it is not in force")
    check_equal("it is read", (queue(lab)["readable"], queue(lab)["percent"], queue(lab)["port"]), (True, 75, None))
    server, clients = listen(test, lab), Clients(test, lab)
    # Each priority as far as its place goes, IPv4 and IPv6 alike.
    clients.enter("10.9.0.97", 8)
    check(is_refused(lab, "10.9.0.97"), "low is admitted to a queue that is half full")
    clients.enter("10.9.0.2", 2)
    clients.enter("fd00:9::2", 2)
    for source in ("10.9.0.2", "fd00:9::2", "10.9.0.97"):
        check(is_refused(lab, source), source + " is admitted at 12 of 16")
    waiting = clients.start("10.9.0.2")
    before = queue(lab)["refused"]
    clients.enter("10.9.0.98", 2)
    check(is_refused(lab, "10.9.0.98"), "high is admitted at 14 of 16")
    clients.enter("10.9.0.99", 2)
    check(is_refused(lab, "10.9.0.99"), "critical is admitted to a full queue")
    clients.enter("10.9.0.200")  # allowed: the kernel holds one more than the backlog
    check(not is_in(waiting), "a connection that was refused is in")
    said = lab.ls("-o", "json", "overload", "explain").json()
    check(said["shedding"] and "port 7777 are refused in the driver" in said["reason"], said["reason"])
    check(said["accept_queue"]["refusing"] and said["accept_queue"]["refused"] > before >= 4, said["accept_queue"])
    check_equal("port", said["accept_queue"]["port"], PORT)
    check_equal("what the kernel had to refuse", kernel_refused(lab), 0)
    check_equal("by priority", sum(row["refused"] for row in said["priorities"]), refused(lab))
    accept(test, server, 17)
    check(is_in(waiting, 10), "the repeated SYN does not get in, though the server accepted")
    clients.enter("10.9.0.97")
    check_equal("what the kernel had to refuse", kernel_refused(lab), 0)
    check_adds_up(lab.stats())


@case("accept queue: with serve, and after it was killed; metrics name what refused")
def controller_dies(test):
    lab = test.lab()
    lab.attach(POLICY)
    serve = Serve(test, lab)
    server, clients = listen(test, lab), Clients(test, lab)
    clients.enter("10.9.0.2", 12)
    check(is_refused(lab, "10.9.0.2"), "a SYN is admitted at 12 of 16")
    line = 'loadshed_overload_refused_total{priority="normal",by="accept_queue"} 1'
    check(line in serve.metrics(), [row for row in serve.metrics().splitlines() if "accept_queue" in row])
    serve.process.kill()
    serve.process.wait()
    check(is_refused(lab, "10.9.0.2"), "a SYN is admitted without a controller")
    clients.enter("10.9.0.98", 2)
    accept(test, server, 14)
    clients.enter("10.9.0.2", 12)
    check(is_refused(lab, "10.9.0.2"), "a SYN is admitted at 12 of 16 the second time")
    check_equal("what the kernel had to refuse", kernel_refused(lab), 0)


@case("accept queue: a threshold of one's own, off, monitor, a backlog of none, a port of nobody's")
def keys(test):
    lab = test.lab()
    lab.attach("version: 1\noverload: { accept_queue: 25% }\n")
    clients = Clients(test, lab)
    check(not is_refused(lab, "10.9.0.2"), "a SYN is refused without a listener")
    listen(test, lab)
    clients.enter("10.9.0.2", 4)
    check(is_refused(lab, "10.9.0.2"), "a SYN is admitted at 4 of 16 and 25 %")
    lab.apply("version: 1\noverload: { accept_queue: 25%, mode: monitor }\n")
    check(is_refused(lab, "10.9.0.2", "would-drop"), "monitored it does not count")
    clients.enter("10.9.0.2")
    lab.apply("version: 1\noverload: { accept_queue: off }\n")
    check_equal("percent", queue(lab)["percent"], None)
    clients.enter("10.9.0.2")
    lab.apply("version: 1\noverload: { max: { connections: 1k/s } }\n")
    clients.enter("10.9.0.2")
    lab.ls("policy", "check", test.file("bad.yaml", "version: 1\noverload: { accept_queue: 0% }\n"), code=1)


@case("accept queue: each member of an SO_REUSEPORT group by its own queue; a backlog of 0 still holds one")
def group(test):
    lab = test.lab()
    lab.attach("version: 1\noverload: {}\n")
    clients = Clients(test, lab)
    servers = [listen(test, lab, 4, shared=True), listen(test, lab, 8, shared=True)]
    entered = outside = 0
    # Which member a connection is for is a hash of its ports: tried until both have had enough of them.
    while outside < 40:
        before = refused(lab)
        client = clients.start("10.9.0.2")
        wait_for("an answer or a refusal", lambda: is_in(client) or refused(lab) > before)
        if is_in(client):
            entered += 1
        else:
            outside += 1
            client.close()
    check_equal("3 of 4 and 6 of 8", entered, 9)
    check_equal("what the kernel had to refuse", kernel_refused(lab), 0)
    for server in servers:
        server.close()
    listen(test, lab, 0)
    clients.enter("10.9.0.2")
    check(is_refused(lab, "10.9.0.2"), "a second one is admitted to a backlog of 0")


@case("accept queue: what goes through this host is not refused by its own wildcard listener")
def router(test):
    lab = test.lab()
    lab.attach("version: 1\noverload: {}\n")
    clients = Clients(test, lab)
    listen(test, lab)
    clients.enter("10.9.0.2", 12)
    check(is_refused(lab, "10.9.0.2"), "a SYN is admitted at 12 of 16")
    lab.srv("sysctl", "-qw", "net.ipv4.ip_forward=1")
    before, seen = refused(lab), lab.stats()["seen"]["packets"]
    lab.send(tcp_frame("10.9.0.2", to="10.9.0.77", port=PORT))
    wait_for("judged", lambda: lab.stats()["seen"]["packets"] > seen)
    check_equal("refused of another host's", refused(lab) - before, 0)
    check(is_refused(lab, "10.9.0.2"), "its own is admitted once it forwards")


@case("accept queue: on a kernel that does not describe its types the rest works, and status says what is missing")
def without_types(test):
    lab = test.lab()
    file = test.file("policy.yaml", "version: 1\noverload: {}\ndeny: [10.9.0.50]\n")
    blind = "mount -t tmpfs none /sys/kernel/btf && exec %s -I %s " % (LOADSHED, lab.instance)
    lab.srv("unshare", "-m", "sh", "-c", blind + "attach vs --policy " + file)
    check(any("'accept_queue' is not in force" in line for line in lab.status()["degraded"]), lab.status()["degraded"])
    check_equal("it is read", (queue(lab)["readable"], queue(lab)["percent"]), (False, 75))
    said = lab.srv("unshare", "-m", "sh", "-c", blind + "check", code=None)
    check("does not describe its types" in said.out, said.out)
    clients = Clients(test, lab)
    listen(test, lab)
    clients.enter("10.9.0.2", 13)
    check(not is_refused(lab, "10.9.0.2"), "a SYN is refused by what cannot be read")
    lab.send(tcp_frame("10.9.0.50", port=PORT))
    wait_for("the list", lambda: tally(lab.stats(), "drop", "deny") == 1)


@case("accept queue: odd SYNs to a full listener are refused, and what is no SYN, or of a connection that is there, is not")
def odd_frames(test):
    lab = test.lab()
    lab.attach("version: 1\noverload: {}\n")
    clients = Clients(test, lab)
    listen(test, lab)
    client = clients.start("10.9.0.2")
    check(is_in(client, 10), "not in")
    clients.enter("10.9.0.2", 11)
    syn, six = tcp(40000, PORT), ("fd00:9::2", "fd00:9::1")
    rows = (
        (1, "VLAN", tcp_frame("10.9.0.2", port=PORT, tags=[5])),
        (1, "payload", tcp_frame("10.9.0.2", port=PORT, payload=b"GET /" * 100)),
        (1, "IP options", eth(0x0800, ipv4("10.9.0.2", "10.9.0.1", TCP, syn, options=b"\1" * 40))),
        (1, "first fragment", eth(0x0800, ipv4("10.9.0.2", "10.9.0.1", TCP, syn, more=True))),
        (1, "extension headers", eth(0x86DD, ipv6(*six, 0, extension(60) + extension(TCP) + syn))),
        (0, "later fragment", eth(0x0800, ipv4("10.9.0.2", "10.9.0.1", TCP, syn, fragment=64))),
        (0, "SYN+ACK", tcp_frame("10.9.0.2", port=PORT, flags=SYN | ACK)),
        (0, "no flags", tcp_frame("10.9.0.2", port=PORT, flags=0)),
        (0, "another port", tcp_frame("10.9.0.2", port=PORT + 1)),
        (0, "its connection", tcp_frame("10.9.0.2", port=PORT, from_port=client.getsockname()[1])),
        (0, "cut off", tcp_frame("10.9.0.2", port=PORT)[:40]),
    )
    for wanted, what, frame in rows:
        before, seen = refused(lab), lab.stats()["seen"]["packets"]
        lab.send(frame)
        wait_for("judged", lambda seen=seen: lab.stats()["seen"]["packets"] > seen)
        check_equal(what, refused(lab) - before, wanted)


if __name__ == "__main__":
    main()
