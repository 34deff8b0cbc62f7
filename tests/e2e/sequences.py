# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Random sequences of verbs against a model of what an operator may expect; a failure is cut down to its core.

    sequences.py SEED COUNT FOLDER INSTANCE      runs in the network namespace of the lab's server

The model knows the contract, not the program: a policy is its file and the entries added by hand, one previous
generation is kept, a number is given once, a pending confirm refuses every other publish. After each verb its exit
code and the whole of `status` must be the model's; contents and bans are looked at now and then, and at the end.
Exit 0: all as it should be; 1: what was not, and the shortest sequence that still shows it.
"""

import copy
import ipaddress
import json
import os
import random
import subprocess
import sys
import time

LOADSHED = os.environ["LOADSHED"]
ENTRIES = ["203.0.113.7", "198.51.100.0/24", "2001:db8::/32"]
BANS = ["203.0.113.7", "203.0.113.0/24", "2001:db8:1::/64"]
FILES = {  # allow, deny, text
    "empty": ([], [], "version: 1\n"),
    "deny": ([], ["192.0.2.0/24"], "version: 1\ndeny: [192.0.2.0/24]\n"),
    "allow": (["203.0.113.7"], [], "version: 1\nallow: [203.0.113.7]\nclasses:\n  - { name: rest, match: any, "
              "limits: [{ rate: 10/s }] }\n"),
}
BAD = "version: 1\nallow: [203.0.113.07]\n"


class Policy:
    def __init__(self, name):
        self.name, (self.allow, self.deny) = name, copy.deepcopy(FILES[name][:2])

    def same(self, other):
        return (self.name == other.name or {self.name, other.name} <= {"empty", "deny"}) and \
            set(self.allow) == set(other.allow) and set(self.deny) == set(other.deny)

    def key(self):
        return "allow" if self.name == "allow" else "none", tuple(self.allow), tuple(self.deny)


class Model:
    """What is true; do(verb) changes it and returns the exit code that is right."""

    def __init__(self):
        self.forget()

    def forget(self):
        self.current, self.previous, self.last = None, None, 0
        self.pending = self.off = self.panic = False
        self.bans = set()

    def publish(self, policy, confirm=False):
        if self.pending:
            return 1
        if policy.same(self.current[1]):
            return 0
        self.last += 1
        self.previous, self.current = self.current, (self.last, policy)
        self.pending = confirm
        return 0

    def do(self, verb):
        kind, *rest = verb
        if kind == "attach":
            if self.current is None:
                self.last, self.current = 1, (1, Policy(rest[0] or "empty"))
                return 0
            return self.publish(Policy(rest[0])) if rest[0] else 0
        if kind == "detach":
            self.forget()
            return 0
        if self.current is None:
            return 1
        return getattr(self, "do_" + kind)(*rest)

    def do_apply(self, name, confirm):
        return self.publish(Policy(name), confirm) if name != "bad" else 1

    def do_expire(self, name):
        code = self.publish(Policy(name), True)
        if code == 0 and self.pending:
            self.current, self.previous, self.pending = self.previous, None, False
        return code

    def do_confirm(self):
        code, self.pending = (0 if self.pending else 1), False
        return code

    def do_rollback(self):
        if self.pending or self.previous is None:
            return 1
        self.current, self.previous = self.previous, self.current
        return 0

    def do_list(self, name, what, entry):
        policy = copy.deepcopy(self.current[1])
        entries = getattr(policy, name)
        if what == "add" and entry not in entries:
            entries.append(entry)
        if what == "del":
            if entry not in entries:
                return 1
            entries.remove(entry)
        return self.publish(policy)

    def is_allowed(self, source):
        """Whether an entry of `allow` covers all of it; no entry of `deny` here is longer than one that does."""
        banned = ipaddress.ip_network(source)
        return any(banned.version == entry.version and banned.subnet_of(entry)
                   for entry in map(ipaddress.ip_network, self.current[1].allow))

    def do_ban(self, what, source):
        if what == "add":
            if self.is_allowed(source):
                return 1
            self.bans.add(source)
            return 0
        if what == "del":
            code = 0 if source in self.bans else 1
            self.bans.discard(source)
            return code
        self.bans |= {source for source in BANS[:2] if not self.is_allowed(source)}
        return 0

    def do_off(self):
        self.off = True
        return 0

    def do_panic(self):
        self.panic = True
        return 0

    def do_on(self):
        self.off = self.panic = False
        return 0

    def status(self):
        if self.current is None:
            return None
        return {"generation": self.current[0], "previous": self.previous[0] if self.previous else None,
                "pending": self.pending, "off": self.off, "panic": self.panic,
                "mode": "monitor" if self.off else "enforce"}


class Wrong(Exception):
    pass


class Program:
    """The real thing."""

    def __init__(self, folder, instance):
        self.folder, self.instance = folder, instance
        for name, parts in list(FILES.items()) + [("bad", (None, None, BAD))]:
            with open(self.file(name), "w") as file:
                file.write(parts[2])
        with open(self.file("feed"), "w") as file:
            file.write("\n".join(BANS[:2]) + "\n")
        self.digests = {}

    def file(self, name):
        return os.path.join(self.folder, name + ".yaml")

    def run(self, *arguments):
        return subprocess.run([LOADSHED, "-I", self.instance, *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)

    def json(self, *arguments):
        return json.loads(self.run("-o", "json", *arguments).stdout)

    def do(self, verb):
        kind, *rest = verb
        arguments = {
            "attach": lambda: ["attach", "vs"] + (["--policy", self.file(rest[0])] if rest[0] else []),
            "detach": lambda: ["detach", "--all"],
            "apply": lambda: ["policy", "apply", self.file(rest[0])] + (["--confirm", "1h"] if rest[1] else []),
            "expire": lambda: ["policy", "apply", self.file(rest[0]), "--confirm", "1s"],
            "confirm": lambda: ["policy", "confirm"],
            "rollback": lambda: ["policy", "rollback"],
            "list": lambda: rest,
            "ban": lambda: ["ban", "import", self.file("feed"), "--for", "1h"] if rest[0] == "import" else
            ["ban", rest[0], rest[1]] + (["--for", "1h"] if rest[0] == "add" else []),
            "off": lambda: ["off", "--for", "1h"],
            "panic": lambda: ["panic", "--for", "1h"],
            "on": lambda: ["on"],
        }[kind]()
        result = self.run(*arguments)
        if kind == "expire" and result.returncode == 0:
            time.sleep(1.01)
        return result.returncode, result.stderr.decode(errors="replace").strip()

    def check(self, model, deep):
        status = self.json("status")
        wanted = model.status()
        if wanted is None:
            if status["interfaces"]:
                raise Wrong("status: attached, though it should not be")
            return
        got = {"generation": status["generation"], "previous": status["previous_generation"],
               "pending": status["confirm_seconds"] is not None, "off": status["off_seconds"] is not None,
               "panic": status["panic_seconds"] is not None, "mode": status["mode"]}
        if got != wanted:
            raise Wrong("status: %s instead of %s" % (got, wanted))
        # One text has one digest, whatever way it came into force.
        key = model.current[1].key()
        if self.digests.setdefault(key, status["policy_sha256"]) != status["policy_sha256"]:
            raise Wrong("policy_sha256 is not that of %s" % (key,))
        if deep:
            self.check_deep(model)

    def check_deep(self, model):
        bans = {ban["source"] for ban in self.json("ban", "list")["bans"]}
        if bans != model.bans:
            raise Wrong("bans: %s instead of %s" % (sorted(bans), sorted(model.bans)))
        text = self.json("policy", "show")["policy"]
        for name in ("allow", "deny"):
            line = next((line for line in text.splitlines() if line.startswith(name + ":")), name + ": []")
            shown = {part.strip() for part in line.split("[")[1].rstrip("]").split(",") if part.strip()}
            if shown != set(getattr(model.current[1], name)):
                raise Wrong("show: %s is %s, not %s" % (name, shown, getattr(model.current[1], name)))


def draw(rng):
    name = rng.choice(list(FILES))
    return rng.choices([
        ("apply", name, False), ("apply", name, True), ("apply", "bad", False), ("expire", name), ("confirm",),
        ("rollback",), ("list", rng.choice(["allow", "deny"]), rng.choice(["add", "add", "del"]), rng.choice(ENTRIES)),
        ("ban", rng.choice(["add", "del", "import"]), rng.choice(BANS)), ("off",), ("panic",), ("on",),
        ("attach", rng.choice([None, name])), ("detach",)],
        weights=[18, 7, 2, 2, 12, 12, 20, 12, 3, 3, 5, 3, 1.5])[0]


def play(program, verbs, deep_every=25):
    """Index of the verb after which something is wrong, and what; or None."""
    model = Model()
    program.run("detach", "--all")
    for index, verb in enumerate(verbs):
        wanted = model.do(verb)
        code, err = program.do(verb)
        try:
            if code != wanted:
                raise Wrong("exit %d instead of %d: %s" % (code, wanted, err))
            program.check(model, index % deep_every == 0 or index == len(verbs) - 1)
        except Wrong as wrong:
            return index, str(wrong)
    return None


def shrink(program, verbs):
    """Takes out ever smaller runs of verbs as long as what is left is still wrong."""
    size = len(verbs) // 2
    end = time.monotonic() + 120
    while size and time.monotonic() < end:
        at = 0
        while at < len(verbs) - 1:
            less = verbs[:at] + verbs[at + size:]
            found = play(program, less, 1) if less else None
            if found:
                verbs = less[:found[0] + 1]
            else:
                at += size
        size //= 2
    return verbs


def main():
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    program = Program(sys.argv[3], sys.argv[4])
    rng = random.Random(seed)
    done = 0
    while done < count:
        verbs = [("attach", rng.choice(list(FILES)))] + [draw(rng) for _ in range(min(199, count - done))]
        found = play(program, verbs)
        done += len(verbs)
        if found:
            verbs = shrink(program, verbs[:found[0] + 1])
            again = play(program, verbs, 1)
            print("seed %d: %s; shortest: %s: %s" % (seed, found[1], verbs, again and again[1]))
            sys.exit(1)
    program.run("detach", "--all")
    print("seed %d: %d verbs" % (seed, done))


if __name__ == "__main__":
    main()
