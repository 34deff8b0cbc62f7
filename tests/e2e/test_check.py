# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""check: preflight. Where this machine can be made to have a trouble, the command that check offers is run, and
check asked again; the rest is tried with made-up facts in tests/unit/test_plane_preflight.c."""

import os

from harness import LOADSHED, ROOT, Background, Skip, case, check, check_equal, main, run

PACKETS = "version: 1\nclasses:\n  - { name: rest, match: any, limits: [{ rate: 10/s }] }\n"
TAGGED = "version: 1\nclasses:\n  - { name: t, match: { vlan: 7 }, limits: [{ rate: 10/s }] }\n"
UNDONE = """version: 1
nat: [{ sources: [100.64.0.0/10], factor: 32 }]
classes:
  - name: rest
    match: any
    limits: [{ rate: 10/s }, { name: net, per: { ipv4: 24 }, rate: 20/s }]
"""


def ask(lab, *interfaces, code=None):
    """{(subject, topic): line} of a document whose exit code and sums are right."""
    result = lab.ls("-o", "json", "check", *interfaces, code=code)
    document = result.json()
    levels = [line["level"] for line in document["checks"]]
    check_equal("errors", document["errors"], levels.count("error"))
    check_equal("warnings", document["warnings"], levels.count("warning"))
    check_equal("exit code", result.code, 1 if document["errors"] else 0)
    return {(line["subject"], line["topic"]): line for line in document["checks"]}


def fixed(lab, interface, topic, level, text):
    """The trouble is named, its command ends it. The line after it."""
    line = ask(lab, interface)[(interface, topic)]
    check_equal(topic, line["level"], level)
    check(text in line["text"], line["text"])
    command = line["fix"].replace("loadshed", LOADSHED)
    lab.srv("sh", "-c", command)
    return ask(lab, interface)[(interface, topic)]


def pair(lab):
    """A cable with both ends in srv, since some commands are for the peer."""
    lab.srv("ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1")
    lab.srv("ip", "link", "set", "v0", "up")
    lab.srv("ip", "link", "set", "v1", "up")


@case("check: a host and an interface on which nothing is wrong")
def fine(test):
    lab = test.lab()
    lines = ask(lab, "vs", code=0)
    for topic in ("privileges", "bpffs", "kernel", "jit", "btf", "memory"):
        check(("host", topic) in lines, "no line about %s" % topic)
    for topic in ("link", "program", "mode", "mtu", "lro", "vlan"):
        check_equal(topic, lines[("vs", topic)]["level"], "ok")
    out = lab.ls("check", "vs").out
    check("\x1b" not in out, "colour without a terminal")
    long = [line for line in out.splitlines() if len(line) > 80 and "fix:" not in line]
    check_equal("lines of more than 80 columns", long, [])
    check_equal("attached by looking", lab.status()["interfaces"], [])


@case("check: what is not there or cannot be protected is an error")
def impossible(test):
    lab = test.lab()
    check_equal("no interface", ask(lab, "nosuch", code=1)[("nosuch", "link")]["level"], "error")
    if lab.srv("ip", "tuntap", "add", "mode", "tun", "name", "t0", code=None).code:
        raise Skip("no tun devices here")
    line = ask(lab, "t0", code=1)[("t0", "link")]
    check("Ethernet" in line["text"], line["text"])


@case("check: an interface that is down, and one with few queues")
def down(test):
    lab = test.lab()
    pair(lab)
    lab.srv("ip", "link", "set", "v0", "down")
    check_equal("link", fixed(lab, "v0", "link", "warning", "down")["level"], "ok")
    if os.cpu_count() == 1:
        raise Skip("one CPU needs no second queue")
    check_equal("queues", fixed(lab, "v0", "queues", "warning", "1 of 2")["level"], "ok")


@case("check: a VLAN tag that is taken out of the frame under a policy that asks for it")
def tags(test):
    lab = test.lab()
    check_equal("without a policy", ask(lab, "vs")[("vs", "vlan")]["level"], "ok")
    lab.srv("ethtool", "-K", "vs", "rxvlan", "off")
    lab.attach(TAGGED)
    check_equal("off", ask(lab, "vs")[("vs", "vlan")]["level"], "ok")
    lab.srv("ethtool", "-K", "vs", "rxvlan", "on")
    check_equal("vlan", fixed(lab, "vs", "vlan", "error", "never match")["level"], "ok")


@case("check: generic mode says how many merged packets count as one")
def generic(test):
    lab = test.lab()
    pair(lab)
    lab.attach(PACKETS, "--mode", "generic", interface="v0")
    line = fixed(lab, "v0", "mode", "warning", "count as one")
    check("one by one" in line["text"] and not line["fix"], line)
    line = ask(lab, "lo")[("lo", "mode")]
    check_equal("lo", line["level"], "warning")
    check("no native mode" in line["text"], line["text"])


@case("check: somebody else's program")
def foreign(test):
    for kind, mode in (("netlink", "native"), ("netlink", "generic"), ("link", "native")):
        lab = test.lab()
        other = Background(["ip", "netns", "exec", lab.name + "-srv", "/usr/bin/python3",
                            os.path.join(ROOT, "tests/e2e/foreign.py"), "vs", kind, mode])
        test.stack.callback(other.end)
        check_equal(kind, fixed(lab, "vs", "program", "error", "by netlink" if kind == "netlink" else
                                "by BPF link")["level"], "ok")
        other.end()
        lab.down()


@case("check: another instance, and our own")
def instances(test):
    lab = test.lab()
    lab.attach(UNDONE)
    lines = ask(lab)
    check_equal("ours", lines[("vs", "program")]["level"], "ok")
    check("undoes the NAT factor" in lines[("host", "policy")]["text"], lines[("host", "policy")])
    line = lab.srv(LOADSHED, "-I", test.instance + "-b", "-o", "json", "check", "vs", code=1).json()
    program = [entry for entry in line["checks"] if entry["topic"] == "program"][0]
    check(test.instance in program["text"], program["text"])
    lab.srv("sh", "-c", program["fix"].replace("loadshed", LOADSHED))
    check_equal("after its command", lab.status()["interfaces"], [])


@case("check: bpffs that is read-only")
def read_only(test):
    script = ("mount -t bpf bpffs /sys/fs/bpf && mount -o remount,ro /sys/fs/bpf && "
              "{ %s check; %s check | sed -n 's/^ *fix: //p' | grep remount | sh; %s check | grep bpffs; }"
              % ((LOADSHED + " -I " + test.instance,) * 3))
    result = run(["unshare", "-m", "sh", "-c", script], code=None)
    if "fix: mount -o remount,rw /sys/fs/bpf" not in result.out:
        check("mount" in result.err, "%r %r" % (result.out, result.err))
        raise Skip("cannot mount a bpffs of its own: " + result.err.strip())
    last = result.out.splitlines()[-1]
    check(last.split()[:2] == ["ok", "bpffs"], last)


@case("check: who may not is told what is missing, and nothing else breaks")
def privileges(test):
    plain = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"]
    if run(plain + [LOADSHED, "version"], code=None).code:
        raise Skip("nobody may not run %s" % LOADSHED)
    result = run(plain + [LOADSHED, "-I", test.instance, "-o", "json", "check", "lo"], code=1)
    first = result.json()["checks"][0]
    check_equal("first line", (first["topic"], first["level"], first["fix"]),
                ("privileges", "error", "sudo loadshed check"))


if __name__ == "__main__":
    main()
