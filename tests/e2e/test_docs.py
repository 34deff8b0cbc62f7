# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Every command in README and guide is run, in order; every example policy is checked and replayed; the manual is
whole and free of faults; what completions offer is what the parser takes."""

import glob
import os
import re
import shutil

from harness import LOADSHED, ROOT, Skip, case, check, check_equal, main, run
from packets import pcap, tcp_frame, udp_frame

SHARE = os.path.join(ROOT, "user/share")
EXAMPLES = sorted(glob.glob(SHARE + "/examples/*.yaml"))

# What cannot run in the lab, and why. A block of the guide says so itself: <!-- not run: reason -->.
NOT_HERE = (("apt-get ", "installs onto the machine"), ("git clone", "fetches this tree"),
            ("make", "builds, tests or installs: `make check` is running"),
            ("systemctl ", "the lab has no systemd of its own"), ("loadshed stats --watch", "goes on until stopped"),
            ("loadshed events", "goes on until stopped: test_events.py runs it"),
            ("loadshed capture", "goes on until stopped: test_events.py runs it"),
            ("loadshed policy edit", "waits for an editor"))


def commands(path):
    """(line number, command, reason not to run it or None) of a document."""
    found, fence, reason, pending = [], None, None, None
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            text = line.strip()
            note = re.fullmatch(r"<!-- not run: (.*) -->", text)
            if note:
                pending = note.group(1)
            elif text.startswith("```"):
                fence = None if fence is not None else text[3:]
                reason, pending = pending, None
            elif fence == "console" or (fence is None and line.startswith("    ")):
                command = re.match(r"[#$] (.*)", text)
                if not command:
                    check(fence is None, "%s:%d: no command: %r" % (path, number, text))
                    continue
                command = re.sub(r"\s{2,}\(.*$", "", command.group(1))
                here = reason if fence == "console" else None
                for start, why in NOT_HERE:
                    if here is None and command.startswith(start):
                        here = why
                found.append((number, command, here))
    return found


def yaml_blocks(path):
    with open(path, encoding="utf-8") as file:
        return re.findall(r"^```yaml\n(.*?)^```", file.read(), re.M | re.S)


def syn(source, port=443):
    return tcp_frame(source, port=port)


def traffic():
    """A second of clients that behave and one that does not."""
    frames = [(k / 100, syn("198.51.100.%d" % (k % 50 + 1))) for k in range(100)]
    return pcap(frames + [(1 + k / 5000, syn("203.0.113.7")) for k in range(5000)])


def document(test, path):
    """Runs the commands in a lab whose interface is called eth0, in a folder with the files that they name."""
    lab = test.lab()
    lab.srv("ip", "link", "set", "vs", "down")
    lab.srv("ip", "link", "set", "vs", "name", "eth0")
    lab.srv("ip", "link", "set", "eth0", "up")
    for block in yaml_blocks(path):
        if "version:" in block:
            test.file("policy.yaml", block)
            break
    else:
        shutil.copy(SHARE + "/examples/web-server.yaml", test.path("policy.yaml"))
    test.file("capture.pcap", traffic())
    test.file("feed.txt", "# a feed\n192.0.2.1\n192.0.2.128/25 seen today\n")
    os.mkdir(test.path("bin"))
    # The instance is the test's own, unless the command names one; then it is that, with the test's in front.
    test.file("bin/loadshed", "#!/bin/sh\nfor word; do case $word in -I) own=1;; esac; done\n"
              "if [ -n \"$own\" ]; then\n\tshift; name=$1; shift; exec %s -I %s-$name \"$@\"\nfi\n"
              "exec %s -I %s \"$@\"\n" % (LOADSHED, test.instance, LOADSHED, test.instance))
    os.chmod(test.path("bin/loadshed"), 0o755)
    for name in ("inner",):
        test.stack.callback(shutil.rmtree, "/var/lib/loadshed/%s-%s" % (test.instance, name), True)
        test.stack.callback(lambda name=name: lab.srv(LOADSHED, "-I", "%s-%s" % (test.instance, name), "detach",
                                                      "--all", code=None))
    env = dict(os.environ, PATH=test.path("bin") + ":" + os.environ["PATH"], EDITOR="true")
    done = missing = 0
    for number, command, reason in commands(path):
        if reason:
            continue
        try:
            run(["ip", "netns", "exec", lab.name + "-srv", "sh", "-c", command], env=env, cwd=test.folder)
            done += 1
        except Skip as absent:
            missing += 1
            print("# %s:%d: %s" % (os.path.basename(path), number, absent), flush=True)
    if missing:
        print("# %s: %d commands run, %d not in this version yet" % (os.path.basename(path), done, missing))
    return done


@case("docs: every command of the README runs, in its order")
def readme(test):
    done = document(test, os.path.join(ROOT, "README.md"))
    check(done >= 6, "only %d commands found" % done)


@case("docs: every command of the guide runs, in its order")
def guide(test):
    done = document(test, SHARE + "/guide.md")
    check(done >= 30, "only %d commands found" % done)


@case("docs: every policy in README, guide and manual is valid")
def policies(test):
    blocks = yaml_blocks(os.path.join(ROOT, "README.md")) + yaml_blocks(SHARE + "/guide.md")
    with open(SHARE + "/loadshed-policy.5", encoding="utf-8") as file:
        blocks += [block.replace("\\-", "-") for block in re.findall(r"^\.EX\n(.*?)^\.EE", file.read(), re.M | re.S)]
    check(len(blocks) >= 3, "only %d policies found" % len(blocks))
    for block in blocks:
        text = block if "version:" in block else "version: 1\n" + block
        run([LOADSHED, "policy", "check", test.file("policy.yaml", text)])


@case("docs: the example policies monitor, have no unexplained warning, and do what they say")
def examples(test):
    check_equal("examples", [os.path.basename(path) for path in EXAMPLES],
                ["api-behind-balancer.yaml", "bastion.yaml", "dns-server.yaml", "game-server.yaml", "web-server.yaml"])
    # Who must be left alone, and who must be refused: a port, and packets or connections a second.
    ports = {"api-behind-balancer": 8443, "bastion": 22, "dns-server": 53, "game-server": 27015, "web-server": 443}
    flood = udp_frame("203.0.113.7", port=9999)
    bad = pcap([(k / 60000, flood) for k in range(90000)])
    for path in EXAMPLES:
        name = os.path.basename(path)[:-5]
        with open(path, encoding="utf-8") as file:
            text = file.read()
        check("\nmode: monitor\n" in text, name + " does not start in monitor mode")
        check("loadshed stats" in text and "loadshed replay" in text, name + " does not say how to size it")
        warnings = run([LOADSHED, "policy", "check", path]).err.splitlines()
        # The ban of the bastion is the one warning, and its comment says what follows from it.
        warnings = [line for line in warnings if "forged" not in line or "forged" not in text]
        check_equal(name + ": warnings", warnings, [])
        good = pcap([(k / 2, syn("198.51.100.9", ports[name])) for k in range(4)])
        enforce = text.replace("mode: monitor", "mode: enforce")
        check_equal(name + ": drops of monitor", test.replay(text, bad)["drop"], 0)
        check(test.replay(text, bad)["would_drop"] > 0, name + " does not see a flood")
        check_equal(name + ": refused of an honest client", test.replay(enforce, good)["drop"], 0)
        check(test.replay(enforce, bad)["drop"] > 30000, name + " lets a flood through")


def verbs():
    """Names of the verbs that this version has, by its own overview."""
    lines = run([LOADSHED, "help"]).out.splitlines()
    return [re.match(r"  ((?:policy |ban |allow |deny |overload |cluster )?\w+) ", line).group(1) for line in lines
            if re.match(r"  \w", line)][:-1]


@case("docs: help and manual know every verb and option, and show an example that parses")
def manual(test):
    page = run([LOADSHED, "__manual"]).out
    check(len(verbs()) >= 20, "verbs: %r" % verbs())
    for verb in verbs():
        text = run([LOADSHED, "help", *verb.split()]).out
        check("for example: loadshed " + verb in text, "%s: no example: %r" % (verb, text))
        check('.SS "%s"\n' % verb in page, "%s is not in the manual" % verb)
        for line in text.splitlines():
            check(len(line) <= 80, "help %s: a line of %d columns: %r" % (verb, len(line), line))
            option = re.match(r"  --([a-z-]+) \S*\s*$", line)
            check(not option, "help %s: --%s is not described" % (verb, option and option.group(1)))


@case("docs: the manual pages have no faults")
def pages(test):
    page = os.path.join(ROOT, "build/loadshed.8")
    run(["make", "-s", "-C", ROOT, "build/loadshed.8"])
    for path in (page, SHARE + "/loadshed-policy.5"):
        if shutil.which("groff"):
            result = run(["groff", "-man", "-ww", "-Tutf8", path])
            check_equal("groff of " + path, result.err, "")
        if shutil.which("mandoc"):
            result = run(["mandoc", "-T", "lint", "-W", "warning", path], code=None)
            check_equal("mandoc of " + path, [line for line in (result.out + result.err).splitlines()
                                              if "missing date" not in line], [])
    if not shutil.which("mandoc") and not shutil.which("groff"):
        raise Skip("needs groff or mandoc")


def complete(*words, lab=None):
    command = [LOADSHED, "__complete", "--", *words]
    out = lab.srv(*command).out if lab else run(command).out
    return [line.split("\t")[0] for line in out.splitlines()]


@case("completion: what is offered is what may stand there")
def completion(test):
    check_equal("verbs", set(complete("")), {verb.split()[0] for verb in verbs()})
    check_equal("policy", complete("policy", "d"), ["diff"])
    check_equal("options", set(complete("policy", "apply", "--")) - {"--instance", "--interface", "--output",
                                                                     "--verbose", "--help"}, {"--confirm", "--yes"})
    check("--yes" not in complete("policy", "apply", "--yes", "--"), "an option is offered twice")
    check_equal("values", complete("attach", "--mode", ""), ["auto", "native", "generic"])
    check_equal("values after =", complete("attach", "--mode=n"), ["--mode=native"])
    check_equal("output", complete("-o", "j"), ["json"])
    check_equal("groups", complete("bench", "c"), ["classes", "cpus"])
    check_equal("protocols", complete("explain", "192.0.2.1", "--protocol", "icmp"), ["icmp", "icmpv6"])
    check_equal("flags", complete("explain", "192.0.2.1", "--flags", "syn,no-a"), ["syn,no-ack"])
    check_equal("flags after =", complete("explain", "192.0.2.1", "--flags=f"), ["--flags=fin"])
    check_equal("files", complete("policy", "check", ""), ["<file>"])
    check_equal("files of an option", complete("attach", "eth0", "--policy", "x"), ["<file>"])
    check_equal("after the last argument", complete("policy", "check", "a", ""), [])
    check_equal("an unknown verb", complete("nosuch", ""), [])
    lab = test.lab()
    check_equal("interfaces", sorted(complete("attach", "", lab=lab)), ["lo", "vs"])
    lab.attach("version: 1\nsets:\n  office: [192.0.2.0/24]\nallow: [office, 198.51.100.7, 2001:db8:1::/48]\n")
    lab.ls("ban", "add", "203.0.113.7", "--for", "1h", "--reason", "scanned us")
    instance = ["-I", lab.instance]
    check(lab.instance in complete("-I", "", lab=lab), "the instance is not offered")
    check_equal("bans", complete(*instance, "ban", "del", "", lab=lab), ["203.0.113.7"])
    check_equal("entries", complete(*instance, "allow", "del", "", lab=lab), ["198.51.100.7", "2001:db8:1::/48"])
    check_equal("another instance", complete("--instance=nosuch", "ban", "del", "", lab=lab), [])


BASH = r"""
set -eu
source <("$1" completion bash)
complete_line() {
	COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=()
	read -ra COMP_WORDS <<< "$1"
	_loadshed
	printf '%s\n' "${COMPREPLY[@]}" | paste -sd' '
}
complete_line "$1 pol"
complete_line "$1 policy sh"
complete_line "$1 attach --mode=n"
complete_line "$1 attach --mode g"
cd "$2"
complete_line "$1 policy check po"
complete_line "$1 attach --policy=po"
complete_line "$1 -I $3 allow del 2001:db8:"
complete -p loadshed
"""


@case("completion: bash")
def bash(test):
    lab = test.lab()
    lab.attach("version: 1\nallow: [2001:db8:1::/48]\n")
    result = lab.srv("bash", "-c", BASH, "bash", LOADSHED, test.folder, lab.instance)
    check_equal("completions", result.out.splitlines(),
                ["policy", "show", "native", "generic", "policy.yaml", "policy.yaml", "1::/48",
                 "complete -F _loadshed loadshed"])


@case("completion: zsh")
def zsh(test):
    if not shutil.which("zsh"):
        raise Skip("zsh is not installed")
    script = test.file("_loadshed", run([LOADSHED, "completion", "zsh"]).out)
    run(["zsh", "-n", script])
    # The function with the shell's own completion commands replaced by ones that print.
    code = ("compdef() { : }; _describe() { print -l -- ${(P)2} }; _files() { print files };"
            "source %s; words=(%s policy d); CURRENT=3 PREFIX=d; _loadshed;"
            "words=(%s policy check x); CURRENT=4 PREFIX=x; _loadshed" % (script, LOADSHED, LOADSHED))
    lines = run(["zsh", "-f", "-c", code]).out.splitlines()
    check_equal("completions", [lines[0].split(":")[0], lines[-1], len(lines)], ["diff", "files", 2])


@case("completion: fish")
def fish(test):
    if not shutil.which("fish"):
        raise Skip("fish is not installed")
    script = test.file("loadshed.fish", run([LOADSHED, "completion", "fish"]).out)
    run(["fish", "-n", script])
    test.file("policy.txt", "")
    env = dict(os.environ, PATH=os.path.dirname(LOADSHED) + ":" + os.environ["PATH"], HOME=test.folder)
    for line, wanted in (("loadshed policy d", ["diff"]), ("loadshed attach --mode ", ["auto", "generic", "native"]),
                         ("loadshed policy check poli", ["policy.txt"])):
        out = run(["fish", "-c", "source %s; complete -C '%s'" % (script, line)], env=env, cwd=test.folder).out
        check_equal(line, sorted(item.split("\t")[0] for item in out.splitlines()), wanted)


if __name__ == "__main__":
    main()
