# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""FIELD section A: attaching, detaching, and what happens to others and to ourselves meanwhile."""

import os
import random
import signal
import subprocess
import time

from harness import (LOADSHED, ROOT, Background, Skip, case, check, check_adds_up, check_equal, main, run,
                     tally, wait_for)
from probes import DENY, LIMIT, OTHER, SOURCE, is_enforced, program_on


@case("A-01 attaches natively at every MTU")
def mtu(test):
    for size in (1500, 3506, 3520, 9000):
        lab = test.lab("--mtu", size)
        lab.attach(DENY, "--mode", "native")
        interface = lab.interface()
        check_equal("MTU %d" % size, (interface["name"], interface["attach"], interface["mtu"]),
                    ("vs", "native", size))
        check_equal("program", interface["program_id"], program_on(lab))
        check(is_enforced(lab), "MTU %d: the policy is not enforced" % size)
        lab.ls("detach", "vs")
        check_equal("after detach", program_on(lab), None)
        lab.down()


@case("A-03 falls back to generic only when asked, and then says so")
def fallback(test):
    lab = test.lab()
    result = lab.attach(None, "--mode", "native", interface="lo", code=1)
    check("lo" in result.err and result.err.count("\n") == 1, "stderr: %r" % result.err)
    check_equal("after the refusal", program_on(lab, "lo"), None)
    result = lab.attach(None, "--mode", "auto", interface="lo")
    check("generic" in result.out + result.err, "nothing said about generic: %r" % result.out)
    status = lab.status()
    check_equal("attach", status["interfaces"][0]["attach"], "generic")
    check(any("generic" in line for line in status["degraded"]), "degraded: %r" % status["degraded"])


@case("A-03 all interfaces or none")
def all_or_none(test):
    lab = test.lab()
    lab.ls("attach", "vs", "nosuch", code=1)
    check_equal("vs after the refusal", program_on(lab), None)
    lab.ls("attach", "vs", "lo", "--mode", "native", code=1)
    check_equal("vs after the second refusal", program_on(lab), None)
    lab.ls("attach", "vs", "vs", "lo", "--mode", "auto")
    check_equal("interfaces", sorted(i["name"] for i in lab.status()["interfaces"]), ["lo", "vs"])


@case("A-05 somebody else's program is named and left alone, unless --replace")
def foreign(test):
    for kind, mode in (("link", "native"), ("netlink", "native"), ("netlink", "generic"),
                       ("link", "generic")):
        lab = test.lab()
        other = Background(["ip", "netns", "exec", lab.name + "-srv", "/usr/bin/python3",
                            os.path.join(ROOT, "tests/e2e/foreign.py"), "vs", kind, mode])
        test.stack.callback(other.end)
        before = program_on(lab)
        result = lab.attach(DENY, code=1)
        what = "%s, %s: %r" % (kind, mode, result.err)
        check("foreign_pass" in result.err and str(before) in result.err and "--replace" in result.err, what)
        check(result.err.count("\n") == 1, "more than one line: " + what)
        check_equal("program afterwards", program_on(lab), before)
        result = lab.attach(DENY, "--replace", code=None)
        if result.code == 0:
            check(program_on(lab) not in (None, before), "%s: --replace replaced nothing" % kind)
            check(is_enforced(lab), "%s: not enforced after --replace" % kind)
        else:
            check(kind == "link", "netlink, %s: %s" % (mode, result.err))
            check_equal("program after a refused --replace", program_on(lab), before)
        lab.ls("detach", "--all")
        other.stop()
        lab.down()


@case("A-07 a CLI that is killed leaves the old policy or the new one, whole")
def killed(test):
    lab = test.lab()
    lab.attach(DENY)
    lab.ls("ban", "add", "192.0.2.1", "--for", "1h")
    first = lab.interface()
    chance = random.Random(1)
    files = [test.file("p%d.yaml" % i, DENY + (LIMIT % ("%dk/s" % (i + 1))).split("\n", 1)[1])
             for i in range(2)]
    for turn in range(20):
        process = subprocess.Popen(["ip", "netns", "exec", lab.name + "-srv", LOADSHED, "-I", lab.instance,
                                    "policy", "apply", files[turn % 2]], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0, 0.06))
        process.send_signal(signal.SIGKILL)
        process.wait()
        now = lab.interface()
        check_equal("turn %d" % turn, (now["program_id"], now["link_id"]),
                    (first["program_id"], first["link_id"]))
        if turn % 5 == 0:
            check(is_enforced(lab), "turn %d: not enforced" % turn)
    lab.ls("policy", "apply", files[0])
    lab.ls("policy", "apply", files[1])
    check_equal("bans", [ban["source"] for ban in lab.bans()], ["192.0.2.1"])
    check_adds_up(lab.stats())


@case("A-07 a killed attach or detach can be repeated, and never leaves two programs")
def killed_attach(test):
    lab = test.lab()
    path = test.file("policy.yaml", DENY)
    chance = random.Random(2)
    for turn in range(16):
        verb = ["attach", "vs", "--policy", path] if turn % 2 == 0 else ["detach", "vs"]
        process = subprocess.Popen(["ip", "netns", "exec", lab.name + "-srv", LOADSHED, "-I", lab.instance,
                                    *verb], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0, 0.3))
        process.send_signal(signal.SIGKILL)
        process.wait()
        lab.ls(*verb)
        if verb[0] == "attach":
            check_equal("turn %d" % turn, program_on(lab), lab.interface()["program_id"])
            check(is_enforced(lab), "turn %d: not enforced" % turn)
        else:
            check_equal("turn %d: after detach" % turn, program_on(lab), None)


@case("A-07 a detach that is killed once the program is off leaves nothing that an attach trips over")
def killed_detach(test):
    lab = test.lab()
    for turn in range(6):
        lab.attach(DENY)
        process = subprocess.Popen(["ip", "netns", "exec", lab.name + "-srv", LOADSHED, "-I", lab.instance,
                                    "detach", "--all"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for("the program to go", lambda: program_on(lab) is None)
        process.send_signal(signal.SIGKILL)  # while it waits for the last packets, or a little later
        process.wait()
        if turn % 2:
            lab.ls("detach", "--all")
            check_equal("turn %d: after detach" % turn, lab.status()["interfaces"], [])
        else:
            lab.attach(DENY)
            check_equal("turn %d" % turn, program_on(lab), lab.interface()["program_id"])
        lab.ls("detach", "--all")


@case("A-09 the same ifindex in two network namespaces is two attachments")
def namespaces(test):
    one, two = test.lab(), test.lab()
    one.attach(DENY)
    two.attach("version: 1\ndeny: [198.51.100.9]\n")
    second = two.interface()
    two.flood("--from", OTHER, "--packets", 10)
    wait_for("ten drops", lambda: tally(two.stats(), "drop", "deny") == 10)
    check_equal("drops in the first", tally(one.stats(), "drop", "deny"), 0)
    one.ls("detach", "--all")
    check_equal("first", program_on(one), None)
    check_equal("second", two.interface(), second)
    check_equal("second's drops", tally(two.stats(), "drop", "deny"), 10)
    two.flood("--from", OTHER, "--packets", 10)
    wait_for("ten more drops", lambda: tally(two.stats(), "drop", "deny") == 20)


@case("A-15 fifty edits keep program, link and carrier")
def edits(test):
    lab = test.lab()
    lab.attach(LIMIT % "1k/s")
    before, carrier = lab.interface(), lab.carrier_changes()
    generation = lab.status()["generation"]
    for turn in range(50):
        lab.apply(LIMIT % ("%d/s" % (turn + 10)))
        lab.ls("ban", "add", "192.0.2.%d" % turn, "--for", "1h")
    after = lab.interface()
    check_equal("interface", after, before)
    check_equal("program", program_on(lab), before["program_id"])
    check_equal("carrier changes", lab.carrier_changes(), carrier)
    check_equal("generation", lab.status()["generation"], generation + 50)
    generation = lab.status()["generation"]
    lab.ls("policy", "apply", test.file("policy.yaml", LIMIT % "59/s"))
    check_equal("applying what is in force", lab.status()["generation"], generation)


@case("A-15 edits of lists and a rollback keep program and link")
def list_edits(test):
    lab = test.lab()
    lab.attach(LIMIT % "1k/s")
    before = lab.interface()
    lab.ls("ban", "add", SOURCE, "--for", "1h")
    lab.ls("ban", "del", SOURCE)
    lab.ls("deny", "add", SOURCE)
    check(is_enforced(lab), "deny add is not enforced")
    lab.ls("policy", "rollback")
    check_equal("interface", lab.interface(), before)


@case("A-15 a bad policy changes nothing")
def bad_policy(test):
    lab = test.lab()
    lab.attach(DENY)
    before = lab.status()
    for bad in ("version: 1\nnosuch: 1\n", "version: 1\ndeny: [203.0.113.7/24]\n", "", "version: 2\n",
                "version: 1\nclasses:\n  - { name: rest, match: any, limits: [{ rate: 10Mb/s }] }\n"):
        result = lab.apply(bad, code=1)
        check("policy.yaml" in result.err, "no file named: %r" % result.err)
    after = lab.status()
    check_equal("generation", after["generation"], before["generation"])
    check_equal("policy", after["policy_sha256"], before["policy_sha256"])
    check(is_enforced(lab), "not enforced any more")


@case("A-15 no packet is misjudged while the policy is replaced")
def gapless(test):
    lab = test.lab()
    lab.attach(DENY)
    sink = lab.sink(bad=SOURCE, good=OTHER)
    bad = lab.flood_start("--from", SOURCE, "--rate", 5000, "--seconds", 60)
    good = lab.flood_start("--from", OTHER, "--rate", 5000, "--seconds", 60)
    for turn in range(30):
        lab.apply(DENY + (LIMIT % ("%dM/s" % (turn + 1))).split("\n", 1)[1])
    bad, good = bad.stop(), good.stop()
    got = sink.stop()
    check_equal("lost by the sink and the cable",
                got["lost"] + bad["device_dropped"] + good["device_dropped"], 0)
    check_equal("let through of the denied", got["classes"]["bad"]["packets"], 0)
    check_equal("let through of the others", got["classes"]["good"]["packets"], good["sent"])
    check_equal("denied", tally(lab.stats(), "drop", "deny"), bad["sent"])


@case("A-19 state is found again from namespaces with a /sys of their own")
def private_sys(test):
    lab = test.lab()
    lab.attach(DENY)  # by ip netns exec, whose /sys has no bpffs
    wanted = lab.status()
    direct = run(["nsenter", "--net=/run/netns/%s-srv" % lab.name, LOADSHED, "-I", lab.instance, "-o",
                  "json", "status"]).json()
    check_equal("seen with the host's /sys", direct["interfaces"], wanted["interfaces"])


@case("A-19 without bpffs: an error before anything is attached, or it works")
def no_bpffs(test):
    for name, damage in (("not mounted", "umount /sys/fs/bpf 2>/dev/null; true"),
                         ("read-only", "mount -o remount,bind,ro /sys/fs/bpf 2>/dev/null; true")):
        lab = test.lab()
        path = test.file("policy.yaml", DENY)
        script = "%s\nexec %s -I %s attach vs --policy %s" % (damage, LOADSHED, lab.instance, path)
        result = run(["nsenter", "--net=/run/netns/%s-srv" % lab.name, "unshare", "-m", "sh", "-c", script],
                     code=None)
        if result.code == 0:
            check(lab.status()["interfaces"], "%s: attached, but status does not see it" % name)
            check(is_enforced(lab), "%s: not enforced" % name)
        else:
            check("bpf" in result.err, "%s: %r" % (name, result.err))
            check_equal(name + ": after the refusal", program_on(lab), None)
        lab.ls("detach", "--all")
        lab.down()


@case("A-21 a device without Ethernet header is refused")
def tun(test):
    if not os.path.exists("/dev/net/tun"):
        raise Skip("no /dev/net/tun here")
    lab = test.lab()
    make = ("import fcntl,os,struct,sys,signal;f=os.open('/dev/net/tun',os.O_RDWR);"
            "fcntl.ioctl(f,0x400454ca,struct.pack('16sH22x',b'tn0',0x1001));"
            "os.system('ip link set tn0 up');print('ready',file=sys.stderr,flush=True);"
            "signal.signal(15,lambda *_:(print(0,flush=True),os._exit(0)));signal.pause()")
    try:
        device = Background(["ip", "netns", "exec", lab.name + "-srv", "/usr/bin/python3", "-c", make])
    except Exception as reason:
        raise Skip("cannot make a tun device: %s" % reason) from None
    test.stack.callback(device.end)
    for mode in ("auto", "native", "generic"):
        result = lab.attach(DENY, "--mode", mode, interface="tn0", code=1)
        check("tn0" in result.err and "thernet" in result.err, "%s: %r" % (mode, result.err))
        check_equal("program", program_on(lab, "tn0"), None)


@case("A: detach takes only what is ours, and once is enough")
def detach(test):
    lab = test.lab()
    result = lab.ls("detach", "vs")
    check(result.out + result.err, "detach says nothing")
    lab.attach(DENY)
    again = lab.attach(DENY)
    check("already" in again.out + again.err, "a second attach says %r" % (again.out + again.err))
    lab.ls("detach", "vs")
    check_equal("program", program_on(lab), None)
    lab.ls("detach", "--all")
    status = lab.ls("-o", "json", "status", code=None)
    if status.code == 0:
        check_equal("interfaces", status.json()["interfaces"], [])


@case("A: an interface that vanished is named in degraded, and can be detached")
def vanished(test):
    lab = test.lab()
    lab.attach(DENY)
    lab.srv("ip", "link", "del", "vs")
    status = lab.status()
    check_equal("program", status["interfaces"][0]["program_id"], None)
    check(any("vs" in line for line in status["degraded"]), "degraded: %r" % status["degraded"])
    lab.ls("detach", "--all")


@case("A: the only interface is made anew under its old index, and policy and bans stand")
def made_anew(test):
    lab = test.lab()
    lab.attach(DENY)
    lab.ls("ban", "add", OTHER, "--for", "1h")
    index = lab.interface()["ifindex"]
    lab.srv("ip", "link", "del", "vs")
    check_equal("counted on a vanished one", lab.stats("-i", "vs")["interfaces"][0]["name"], "vs")
    lab.srv("ip", "link", "add", "vs", "index", index, "type", "veth", "peer", "name", "vq")
    lab.ls("attach", "vs")
    check_equal("program", program_on(lab), lab.interface()["program_id"])
    check("203.0.113.7" in lab.ls("policy", "show").out, "the policy is gone")
    check_equal("bans", [ban["source"] for ban in lab.bans()], [OTHER])


@case("A: stats --watch ends with the instance that it watches, and follows one that is made anew")
def watched(test):
    lab = test.lab()
    lab.attach(DENY)
    lab.flood("--from", SOURCE, "--packets", 1000)
    command = ["ip", "netns", "exec", lab.name + "-srv", LOADSHED, "-I", lab.instance, "stats", "--watch"]
    watching = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    test.stack.callback(watching.kill)
    watching.stdout.readline()  # it has read the first instance
    lab.ls("detach", "--all")
    lab.attach(DENY)
    rates = [line.split()[1] for line in (watching.stdout.readline().decode() for _ in range(40))
             if line.startswith("seen")]
    check(rates and all(rate in map(str, range(50)) for rate in rates),
          "packets per second of an idle interface: %r" % rates)
    lab.ls("detach", "--all")
    err = watching.communicate(timeout=10)[1].decode()
    check(watching.returncode == 1 and "nothing is attached" in err, "%r: %r" % (watching.returncode, err))


@case("stats --watch ends well by Ctrl-C and by SIGTERM")
def watched_to_the_end(test):
    lab = test.lab()
    lab.attach(DENY)
    for number in (signal.SIGINT, signal.SIGTERM):
        command = ["ip", "netns", "exec", lab.name + "-srv", LOADSHED, "-I", lab.instance, "stats", "--watch"]
        watching = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        test.stack.callback(watching.kill)
        watching.stdout.readline()
        watching.send_signal(number)
        err = watching.communicate(timeout=10)[1].decode()
        check_equal("exit and words after %s" % number.name, (watching.returncode, err), (0, ""))


@case("A-19 who may not look is not told that nothing is attached")
def may_not_look(test):
    lab = test.lab()
    lab.attach(DENY)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", LOADSHED, "-I", lab.instance]
    for verb in (["status"], ["stats"], ["ban", "list"], ["detach", "--all"], ["attach", "vs"]):
        result = lab.srv(*nobody, *verb, code=1)
        check("root" in result.err and not result.out, "%s: %r" % (verb, result.err + result.out))
    script = "mount -t tmpfs none /proc && exec %s -I %s %%s" % (LOADSHED, lab.instance)
    for verb in ("status", "attach vs", "detach --all"):
        result = lab.srv("unshare", "-m", "sh", "-c", script % verb, code=1)
        check_equal(verb + " without /proc: lines", result.err.count("\n"), 1)
    check_equal("program", program_on(lab), lab.interface()["program_id"])


@case("W-01 an interface that joins, too, does not cut the caller's session unasked")
def joins(test):
    lab = test.lab()
    lab.srv("ip", "link", "add", "vx", "type", "veth", "peer", "name", "vy")
    lab.attach(DENY)
    session = dict(os.environ, SSH_CONNECTION=SOURCE + " 50000 10.9.0.1 22")
    check("session" in lab.ls("attach", "vx", env=session, code=1).err, "no word about the session")
    check_equal("program", program_on(lab, "vx"), None)
    lab.ls("attach", "vs", env=session)  # is attached: nothing changes
    lab.ls("attach", "vx", "--yes", env=session)
    lab.ls("detach", "--all")
    lab.attach(None, "--monitor")
    lab.attach(DENY, env=session)  # drops nothing, so it cuts nobody


@case("A: attach --monitor drops nothing and counts what it would have")
def monitor(test):
    lab = test.lab()
    lab.attach(DENY, "--monitor")
    sink = lab.sink(bad=SOURCE)
    lab.flood("--from", SOURCE, "--packets", 20)
    check_equal("arrived", sink.stop()["classes"]["bad"]["packets"], 20)
    stats = lab.stats()
    check_equal("would-drop", tally(stats, "would-drop", "deny"), 20)
    check_equal("dropped", stats["drop"]["packets"], 0)
    check_adds_up(stats)


@case("A-03 attach in another mode than an interface runs in names that mode and how to change it")
def other_mode(test):
    lab = test.lab()
    lab.attach()
    before = lab.interface()
    err = lab.attach(None, "--mode", "generic").err
    check("in native mode" in err and "detach vs" in err and "attach vs --mode generic" in err, err)
    check_equal("unchanged", lab.interface(), before)
    err = lab.attach().err
    check("in native mode" in err and "detach" not in err, err)
    lab.ls("detach", "vs")
    lab.attach(None, "--mode", "generic")
    check("in generic mode" in lab.attach(None, "--mode", "auto").err, "generic is not named")


if __name__ == "__main__":
    main()
