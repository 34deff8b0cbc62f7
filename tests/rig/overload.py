# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Overload on real traffic: a service of known capacity in one namespace, an open-loop crowd with timeouts and retries in
another, and what sheds the excess: nothing, a short backlog, a CoDel-like drop, or loadshed.

    overload.sh [--seconds N] [--work-us N] [--cases NAME,…] [--again N] [--lock FILE] [--out FILE.json] [--plot FILE.svg]
    overload.sh --plot FILE.svg --from FILE.json,…     the plot and the table of earlier runs

A case is LOAD/METHOD, such as 10x/loadshed; without --cases all are run. The service is pinned to the first CPU and in a
cgroup of its own with one CPU's time, where this machine has them; the crowd runs on another, both before everything else. Capacity is measured before and
after each case, by the same service with a short backlog and twice what it can do, and a case's goodput is answers in time per
second, relative to the mean of both; where they differ by more than 3 %, or the crowd stood still, the case is run again
(--again times). High are 8 % of the visitors (so 80 % of the capacity at 10x). Needs root.
"""

import argparse
import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LOADSHED = os.environ.get("LOADSHED", ROOT + "/build/loadshed")
TOOLS = os.environ.get("LOADSHED_TOOLS", ROOT + "/build/tests/tools")
NAME = "ls-rig-%d" % os.getpid()
INSTANCE = "rig-%d" % os.getpid()
SOURCES, HIGH = 500, 40
BEFORE, AFTER = 5, 5
CAPACITY_S = 8
STEADY = 0.03  # of the capacity: chance is 1.8 % of 3200 pieces of exponential work
METHODS = ("nothing", "short-backlog", "codel", "loadshed")
CASES = ["%s/%s" % (load, method) for load in ("3x", "10x") for method in METHODS] + \
    ["10x/nothing-early", "3x/loadshed-early", "10x/loadshed-early", "10x/loadshed-kill"]

POLICY = """version: 1
overload: {%s}
sets:
  good: [10.10.0.1-high]
classes:
  - { name: good, match: { protocol: tcp, ports: [8080], from: [good] }, priority: high }
  - { name: others, match: { protocol: tcp, ports: [8080] } }
"""


def run(*command, check=True):
    return subprocess.run(command, check=check, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)


def inside(side, *command):
    return ["ip", "netns", "exec", "%s-%s" % (NAME, side), *map(str, command)]


def loadshed(*arguments, check=True):
    return run(*inside("srv", LOADSHED, "-I", INSTANCE, *arguments), check=check).stdout


class Tool:
    """A process in a namespace, on a CPU, whose last output is one JSON document."""

    def __init__(self, side, cpu, *command, realtime=False):
        # What else runs here must not change what the service can do, nor when the crowd comes.
        pin = ["nice", "-n", "-20"] + (["taskset", "-c", str(cpu)] if os.cpu_count() > 1 else []) + \
            (["chrt", "--fifo", "1"] if realtime and os.cpu_count() > 1 else [])
        self.process = subprocess.Popen(inside(side, *pin, *command), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        universal_newlines=True)
        line = self.process.stderr.readline()
        if line.strip() != "ready":
            raise SystemExit("%s: %s" % (command[0], line + self.process.stderr.read()))

    def result(self, end=False):
        if end:
            self.process.send_signal(signal.SIGTERM)
        out, _ = self.process.communicate()
        return json.loads(out)


@contextlib.contextmanager
def cgroup(name, limits):
    """
    Yields a function that moves a pid into a cgroup (v2) of its own, before everything else; limits: one CPU's time at most.
    v1's groups refuse a task of real-time priority, which the service is: there it is pinned only.
    """
    path = os.path.join("/sys/fs/cgroup", "%s-%s" % (NAME, name))
    if not os.path.exists("/sys/fs/cgroup/cgroup.procs"):
        print("no cgroup v2 here: '%s' is pinned only" % name, file=sys.stderr)
        yield lambda pid: None
        return
    try:
        os.mkdir(path)
        for key, value in (("cpu.weight", "10000"), ("cpu.max", "100000 100000"))[:2 if limits else 1]:
            with open(os.path.join(path, key), "w") as file:
                file.write(value)
    except OSError as why:
        with contextlib.suppress(OSError):
            os.rmdir(path)
        print("no cgroup with a CPU limit here (%s): '%s' is pinned only" % (why, name), file=sys.stderr)
        yield lambda pid: None
        return

    def put(pid):
        with open(os.path.join(path, "cgroup.procs"), "w") as file:
            file.write(str(pid))
    try:
        yield put
    finally:
        for _ in range(50):
            with contextlib.suppress(OSError):
                os.rmdir(path)
                break
            time.sleep(0.1)


def policy(early):
    """The good ones are 10.10.0.1 to 10.10.0.HIGH."""
    text = POLICY % ('probe: { http: "http://127.0.0.1:8080/", target: 20ms }' if early else "")
    return text.replace("10.10.0.1-high", ", ".join("10.10.0.%d" % k for k in range(1, HIGH + 1)))


class Rig:
    def __init__(self, options):
        self.options = options
        self.stack = contextlib.ExitStack()
        self.folder = tempfile.mkdtemp(prefix="loadshed-rig-")
        self.stack.callback(shutil.rmtree, self.folder, True)
        self.stack.callback(shutil.rmtree, "/var/lib/loadshed/" + INSTANCE, True)
        self.stack.callback(run, ROOT + "/scripts/lab.sh", "down", NAME, check=False)
        self.stack.callback(loadshed, "detach", "--all", check=False)
        run(ROOT + "/scripts/lab.sh", "up", NAME, "--clients", str(SOURCES))
        run(*inside("srv", "sysctl", "-qw", "net.core.somaxconn=4096", "net.ipv4.tcp_max_syn_backlog=8192"))
        run(*inside("cli", "sysctl", "-qw", "net.ipv4.ip_local_port_range=1024 65000"))
        self.put_service = self.stack.enter_context(cgroup("service", True))
        self.put_others = self.stack.enter_context(cgroup("others", False))
        self.serve = None

    def service(self, *arguments):
        tool = Tool("srv", 0, TOOLS + "/service", "--work-us", self.options.work_us, *arguments, realtime=True)
        self.put_service(tool.process.pid)
        return tool

    def crowd(self, rate, seconds, base_rate=0, before=0, after=0):
        tool = Tool("cli", os.cpu_count() - 1, TOOLS + "/crowd", "--to", "10.9.0.1", "--rate", int(rate), "--seconds",
                    int(seconds), "--sources", SOURCES, "--high", HIGH, "--base-rate", int(base_rate), "--before", before,
                    "--after", after)
        self.put_others(tool.process.pid)
        return tool

    def capacity(self):
        """Answers per second of a service that always has work."""
        service = self.service("--backlog", 64)
        answers = self.crowd(2e6 / self.options.work_us, CAPACITY_S + 1).result()["answers"][10:]
        service.result(end=True)
        return sum(answers) / (len(answers) / 10)

    def accept_cost(self):
        """CPU seconds of one connection to a service that has nothing else to do."""
        idle = Tool("srv", 0, TOOLS + "/service", "--work-us", 0)
        self.crowd(1500, 4).result()
        result = idle.result(end=True)
        return result["cpu_s"] / max(1, result["served"])

    def steady_case(self, name):
        """A case between two measurements of the capacity; what others do on this machine must not be in it."""
        before = self.capacity()
        for attempt in range(1 + self.options.again):
            clients, service, extra = self.case(name, before)
            after = self.capacity()
            stood = standing(clients["asked"])
            if abs(after - before) <= STEADY * before and not stood:
                break
            print("%s: the capacity was %.0f/s before and %.0f/s after, and the crowd stood still for %d ms: something else "
                  "took CPU time%s" % (name, before, after, stood, "; once more" if attempt < self.options.again else ""),
                  file=sys.stderr)
            before = after if attempt < self.options.again else before
        return judge(name, (before, after), self.options.seconds, clients, service, extra)

    def start_loadshed(self, early):
        path = os.path.join(self.folder, "policy.yaml")
        with open(path, "w") as file:
            file.write(policy(early))
        loadshed("attach", "vs", "--policy", path)
        self.start_serve()

    def start_serve(self):
        self.serve = subprocess.Popen(inside("srv", "nice", "-n", "-20", LOADSHED, "-I", INSTANCE, "serve",
                                             "--metrics", "none"),
                                      stderr=subprocess.DEVNULL)
        self.put_others(self.serve.pid)
        for _ in range(100):
            if json.loads(loadshed("-o", "json", "overload", "explain"))["controlled"]:
                return
            time.sleep(0.05)
        raise SystemExit("loadshed serve does not measure")

    def stop_loadshed(self):
        self.serve.terminate()
        self.serve.wait()
        loadshed("detach", "--all")

    def program(self):
        """(run_time_ns, run_cnt) of our program."""
        number = json.loads(loadshed("-o", "json", "status"))["interfaces"][0]["program_id"]
        info = json.loads(run("bpftool", "-j", "prog", "show", "id", str(number)).stdout)
        return info.get("run_time_ns", 0), info.get("run_cnt", 0)

    def case(self, name, capacity):
        load, method = name.split("/")
        method, _, variant = method.partition("-") if method.startswith(("loadshed", "nothing")) else (method, "", "")
        times = float(load[:-1])
        early = variant == "early"
        arguments = ["--backlog", 128 if method == "short-backlog" else 4096]
        arguments += ["--codel"] if method == "codel" else []
        arguments += ["--early"] if early else []
        service = self.service(*arguments)
        if method == "loadshed":
            self.start_loadshed(early)
        seconds = self.options.seconds
        crowd = self.crowd(times * capacity, seconds, 0.5 * capacity, BEFORE, AFTER)
        extra = {}
        if method == "loadshed":
            time.sleep(BEFORE + 2)
            before = self.program()
            extra["sentence"] = loadshed("overload", "explain").splitlines()[0]
            time.sleep(max(1, seconds / 2 - 2))
            after = self.program()
            if after[1] > before[1]:
                extra["ns_per_packet"] = (after[0] - before[0]) / (after[1] - before[1])
            if variant == "kill":
                self.serve.kill()
                self.serve.wait()
                time.sleep(1.2)
                extra["level_after_kill"] = json.loads(loadshed("-o", "json", "overload", "explain"))["level"]
                time.sleep(1)
                self.start_serve()
        clients = crowd.result()
        if method == "loadshed":
            view = json.loads(loadshed("-o", "json", "overload", "explain"))
            extra["changes"] = view["changes"]
            extra["priorities"] = view["priorities"]
            self.stop_loadshed()
        return clients, service.result(end=True), extra


def standing(asked):
    """For how many ms nobody came though many should have: it was not the service that failed then."""
    return 100 * sum(not n for n in asked[BEFORE * 10:-AFTER * 10])


def judge(name, measured, seconds, clients, service, extra):
    capacity = sum(measured) / 2
    first, last = BEFORE * 10, (BEFORE + seconds) * 10
    lost = [k for k, n in enumerate(clients["unanswered"]) if n]
    in_load = [k for k in lost if first <= k]
    return dict(extra, name=name, capacity=capacity, measured=measured,
                goodput=sum(clients["answers"][first:last]) / seconds / capacity,
                high=clients["high"]["served"] / max(1, clients["high"]["visitors"]),
                others=clients["others"]["served"] / max(1, clients["others"]["visitors"]),
                wait_ms=service["wait_ms"], attempts=clients["attempts"],
                first_refusal_ms=(in_load[0] - first) * 100 if in_load else None,
                last_refusal_ms=max(0, (lost[-1] - last + 1) * 100) if lost else None,
                lost_before=len([k for k in lost if k < first]),
                trouble=clients["failed"] + clients["no_slot"], answers=clients["answers"], asked=clients["asked"])


def table(results):
    print("%-24s %8s %8s %8s %9s %9s %9s %8s" % ("case", "goodput", "high", "others", "p50 wait", "p99 wait", "longest",
                                                "lost")) 
    for result in results["cases"]:
        wait = result["wait_ms"]
        print("%-24s %6.1f %% %6.1f %% %6.1f %% %6.0f ms %6.0f ms %6.0f ms   first %s ms, last %s ms%s%s%s" % (
            result["name"], 100 * result["goodput"], 100 * result["high"], 100 * result["others"], wait["p50"],
            wait["p99"], wait["max"], result["first_refusal_ms"], result["last_refusal_ms"],
            ", %d changes" % result["changes"] if "changes" in result else "",
            ", lost before %d x 100 ms" % result["lost_before"] if result["lost_before"] else "",
            ", %.0f ns a packet" % result["ns_per_packet"] if "ns_per_packet" in result else ""))
    print("capacity %.0f/s (median of the cases'); an accepted connection takes %.1f us of the service's process with no "
          "work in it" % (sorted(r["capacity"] for r in results["cases"])[len(results["cases"]) // 2],
                          results["accept_us"]))


# ---- the plot ----

COLOURS = {"nothing": "#b91c1c", "short-backlog": "#a16207", "codel": "#6d28d9", "loadshed": "#15803d"}


def panel(x, y, title, results, load):
    width, height = 520, 200
    out = ['<text x="%d" y="%d" font-size="14" font-weight="bold">%s</text>' % (x, y - 12, title)]
    for k in range(0, 5):
        level = y + height - height * k / 4 * 100 / 120
        out.append('<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" font-size="11" '
                   'text-anchor="end">%d %%</text>' % (x, x + width, level, level, x - 6, level + 4, 25 * k))
    cases = [r for r in results["cases"] if r["name"].split("/")[0] == load and r["name"].split("/")[1] in COLOURS]
    lengths = [len(result["answers"]) // 10 for result in cases]
    # Of cases of different length, as far as the load is on in all of them.
    is_whole = len(set(lengths)) == 1
    total = min(lengths, default=0) - (0 if is_whole else AFTER)
    for n, result in enumerate(cases):
        method = result["name"].split("/")[1]
        seconds = [sum(result["answers"][k:k + 10]) for k in range(0, 10 * total, 10)]
        points = " ".join("%.1f,%.1f" % (x + width * k / max(1, len(seconds) - 1),
                                         y + height - min(1.2, answers / result["capacity"]) / 1.2 * height)
                          for k, answers in enumerate(seconds))
        out.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>' % (points, COLOURS[method]))
        out.append('<text x="%d" y="%d" font-size="12" fill="%s">%s: %.1f %% of capacity, high %.1f %%</text>' % (
            x + width + 14, y + 20 + 20 * n, COLOURS[method], method, 100 * result["goodput"], 100 * result["high"]))
    if cases:
        for at in (BEFORE, total - AFTER)[:1 + is_whole]:
            out.append('<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#999" stroke-dasharray="4 3"/>' % (
                x + width * at / total, x + width * at / total, y, y + height))
        out.append('<text x="%d" y="%d" font-size="11">0 to %d s; the load is on %s</text>' % (
            x, y + height + 16, total, "between the dashed lines" if is_whole else "from the dashed line on"))
    return out


def plot(results, path):
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 880 560" font-family="sans-serif">',
             '<rect width="880" height="560" fill="white"/>',
             '<text x="50" y="24" font-size="16">Answers in time, of what the service can do (tests/rig/overload.sh)</text>']
    parts += panel(60, 70, "3 times the capacity", results, "3x")
    parts += panel(60, 330, "10 times the capacity", results, "10x")
    with open(path, "w") as file:
        file.write("\n".join(parts + ["</svg>"]) + "\n")


@contextlib.contextmanager
def locked(path):
    if not path:
        yield
        return
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def measure(options):
    results = {"cases": [], "accept_us": 0}
    stats = "/proc/sys/kernel/bpf_stats_enabled"
    with open(stats) as file:
        had = file.read()
    rig = Rig(options)
    try:
        with open(stats, "w") as file:
            file.write("1")
        for name in options.cases.split(","):
            with locked(options.lock):
                if not results["accept_us"]:
                    results["accept_us"] = 1e6 * rig.accept_cost()
                results["cases"].append(rig.steady_case(name))
            print("%s done" % name, file=sys.stderr)
            if options.out:
                with open(options.out, "w") as file:
                    json.dump(results, file)
    finally:
        with open(stats, "w") as file:
            file.write(had)
        if rig.serve and rig.serve.poll() is None:
            rig.serve.terminate()
        rig.stack.close()
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--work-us", type=int, default=2500)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--again", type=int, default=1)
    parser.add_argument("--lock")
    parser.add_argument("--out")
    parser.add_argument("--plot")
    parser.add_argument("--from", dest="source")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if options.source:
        results = {"cases": [], "accept_us": 0}
        for path in options.source.split(","):
            with open(path) as file:
                part = json.load(file)
            results = dict(part, cases=results["cases"] + part["cases"])
    else:
        results = measure(options)
    table(results)
    if options.plot:
        plot(results, options.plot)


if __name__ == "__main__":
    main()
