# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What serve shows: metrics that add up and never go down, a listener that nobody can hurt, a live page."""

import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time

from harness import ROOT, Fail, Skip, case, check, check_equal, main, run, wait_for
from web import OPEN, Browser, Serve, ask, connect, parse_open_metrics, total

POLICY = """version: 1
deny: [203.0.113.0/24]
classes:
  - name: web
    match: { protocol: tcp, ports: [80] }
    limits: [{ name: new, count: connections, rate: 50/s }]
  - name: tried
    match: { protocol: udp, ports: [53] }
    mode: monitor
    limits: [{ name: query, rate: 5/s }, { name: all, per: class, rate: 2/s }]
  - name: rest
    match: any
    limits: [{ name: all, rate: 100/s }]
"""
RENAMED = POLICY.replace("name: rest", "name: other")
REMOVED = POLICY[:POLICY.index("  - name: rest")]
LONG = bool(os.environ.get("LS_LONG"))


def promtool(*arguments, stdin=None):
    if not shutil.which("promtool"):
        raise Skip("no promtool on this machine")
    return run(["promtool", *arguments], code=None, stdin=stdin)


def check_sums(samples):
    """seen = pass + drop, classes and limits, of one scrape."""
    for unit in ("packets", "bytes"):
        all_of = total(samples, "loadshed_%s_total" % unit)
        check_equal("seen " + unit, total(samples, "loadshed_seen_%s_total" % unit), all_of)
        check_equal("pass + drop " + unit, all_of, sum(
            total(samples, "loadshed_%s_total" % unit, verdict=v) for v in ("pass", "drop", "would-drop")))
        for reason in ("limit", "crowd"):
            check_equal("%s of %s, by limit" % (unit, reason),
                        total(samples, "loadshed_limit_%s_total" % unit, reason=reason),
                        total(samples, "loadshed_%s_total" % unit, reason=reason))


def check_never_down(before, after):
    for key, value in before.items():
        if key[0].endswith("_total"):
            check(key in after, "%s %s is gone" % key)
            check(after[key] >= value, "%s %s went from %s down to %s" % (*key, value, after[key]))


@case("metrics: promtool has nothing to say, and a strict reader of OpenMetrics neither")
def formats(test):
    lab = test.lab()
    lab.attach(POLICY)
    serve = Serve(test, lab)
    lab.flood("--from", "192.0.2.0/24", "--sources", "3", "--packets", "2000", "--port", "53")
    lab.flood("--from", "203.0.113.9", "--packets", "50")
    lab.ls("ban", "add", "198.51.100.1", "--for", "1h")
    answer = ask(lab, "/metrics", headers={"Accept": OPEN})
    check(answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0"),
          "type %s" % answer.headers["content-type"])
    samples = parse_open_metrics(answer.body)
    check_sums(samples)
    check(total(samples, "loadshed_packets_total", verdict="would-drop", **{"class": "tried"}) > 1000, "no would-drops")
    check_equal("denied", total(samples, "loadshed_packets_total", reason="deny"), 50)
    wait_for("the ban", lambda: total(serve.samples(), "loadshed_bans", origin="operator") == 1)
    stats = lab.stats()
    samples = serve.samples()
    for key, verdict in (("drop", "drop"), ("would_drop", "would-drop")):
        check_equal("%s in stats and metrics" % key, stats[key]["packets"],
                    total(samples, "loadshed_packets_total", verdict=verdict))
    answer = ask(lab, "/metrics")
    check(answer.headers["content-type"].startswith("text/plain; version=0.0.4"), "type")
    result = promtool("check", "metrics", stdin=answer.body.encode())
    check(result.code == 0 and not result.err and not result.out, "promtool: %s%s" % (result.out, result.err))


@case("X-01 metrics: as many lines after 37 000 sources as before")
def bounded(test):
    lab = test.lab()
    # A bucket that is empty for five minutes: it stays in use, in the long table.
    lab.attach(POLICY.replace("{ name: all, rate: 100/s }", "{ name: all, rate: 1/m, burst: 5 }"))
    serve = Serve(test, lab)
    lab.flood("--from", "192.0.2.1", "--packets", "1000")
    before = wait_for("a drop", lambda: (lambda s: total(s, "loadshed_packets_total", verdict="drop") and s)(
        serve.samples()))
    lab.flood("--from", "10.64.0.0/12", "--sources", "37000", "--packets", "74000", "--rate", "40000")
    # What the sender handed over is judged a moment later where the CPU is short.
    after = wait_for("all packets", lambda: (lambda s: total(s, "loadshed_seen_packets_total") >= 75000 and s)(
        serve.samples()))
    check_equal("series that are new", sorted(set(after) - set(before)), [])
    check(not re.search(r'="[^"]*10\.(6[4-9]|7[0-9])\.', serve.metrics()), "an address is a label")
    wait_for("an estimate of the states in use", lambda: 33000 < total(
        serve.samples(), "loadshed_table_entries", table="long") < 41000, 15)


@case("X-03 X-05 metrics: no counter goes down, and all add up, over edits, detach, attach and a restart, 20 times a second")
def monotonic(test):
    lab = test.lab()
    lab.attach(POLICY)
    serve = Serve(test, lab)
    lab.flood_start("--from", "192.0.2.0/24", "--sources", "20", "--rate", "20000", "--port", "5", "--port-to", "90")
    stop, faults, count = threading.Event(), [], [0]

    def watch():
        before = {}
        while not stop.wait(0.05):
            try:
                now = serve.samples()
                check_sums(now)
                check_never_down(before, now)
                before = now
                count[0] += 1
            except (Fail, OSError) as fault:
                faults.append(str(fault))
                return

    def more(what):
        """Waits until packets have been scraped after a change."""
        start = count[0]
        wait_for("scrapes after " + what, lambda: count[0] > start + 6 or faults)
        check(not faults, "%s: %s" % (what, faults))
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        more("the start")
        start_time = total(serve.samples(), "loadshed_start_time_seconds")
        for name, policy in (("rename", RENAMED), ("remove", REMOVED), ("add again", POLICY)):
            lab.apply(policy)
            more(name)
        seen = total(serve.samples(), "loadshed_seen_packets_total")
        events, lost, drops = (total(serve.samples(), name) for name in (
            "loadshed_events_total", "loadshed_events_lost_total", "loadshed_packets_total"))
        check(0 < events < drops and 0 < lost < drops, "events %d, lost %d of %d packets" % (events, lost, drops))
        lab.ls("detach", "vs")
        wait_for("detached", lambda: total(serve.samples(), "loadshed_attached") == 0)
        check_equal("health", ask(lab, "/health").status, 503)
        more("detach")
        lab.attach(POLICY)
        wait_for("attached", lambda: total(serve.samples(), "loadshed_attached") == 1)
        more("attach")
        check(total(serve.samples(), "loadshed_seen_packets_total") > seen, "nothing was counted since")
        check_equal("start time", total(serve.samples(), "loadshed_start_time_seconds"), start_time)
    finally:
        stop.set()
        watcher.join()
    # What the kernel counted outlives the process.
    kernel = lab.stats()["seen"]["packets"]
    serve.restart()
    after = serve.samples()
    check_sums(after)
    check(total(after, "loadshed_seen_packets_total") >= kernel, "a restart lost counts")
    check(total(after, "loadshed_start_time_seconds") > start_time, "the start time did not change")


@case("metrics: 256 classes of 8 limits under 50 ms")
def many_classes(test):
    lab = test.lab()
    lines = ["version: 1", "classes:"]
    for number in range(256):
        limits = ", ".join("{ name: l%d, per: class, rate: %d/s, burst: %d }" % (k, 8 - k, 20 - k) for k in range(8))
        lines.append("  - { name: class-%d, match: { protocol: udp, ports: [%d] }, limits: [%s] }" % (
            number, 1000 + number, limits))
    lab.attach("\n".join(lines) + "\n")
    serve = Serve(test, lab)
    lab.flood("--from", "192.0.2.1", "--packets", str(256 * 60), "--port", "1000", "--port-to", "1255")
    samples = serve.samples()
    check_sums(samples)
    check(len(samples) > 256 * 5, "only %d samples" % len(samples))
    took = []
    for _ in range(12):
        time.sleep(0.12)  # older than what is shown again: each one is a reading of its own
        serve.metrics()
        took.append(total(serve.samples(), "loadshed_scrape_duration_seconds"))
    # The quickest: what other processes of the machine took from the slower ones is not ours.
    check(min(took) < 0.050, "a scrape takes %.1f ms" % (1e3 * min(took)))


@case("http: reads only, says what it knows, and only to this machine")
def contract(test):
    lab = test.lab()
    lab.attach(POLICY)
    serve = Serve(test, lab)
    page = ask(lab, "/")
    check_equal("status", page.status, 200)
    check("default-src 'none'" in page.headers["content-security-policy"] and
          "unsafe" not in page.headers["content-security-policy"], "policy of contents")
    check_equal("sniffing", page.headers["x-content-type-options"], "nosniff")
    check_equal("caching", page.headers["cache-control"], "no-store")
    check(not re.search(r'(src|href)="https?:', page.body), "the page refers to the outside")
    head = ask(lab, "/metrics", "HEAD")
    check(head.status == 200 and not head.body and int(head.headers["content-length"]) > 1000, "HEAD")
    rows = [("GET", "/nope", {}, 404), ("POST", "/metrics", {}, 405), ("DELETE", "/", {}, 405),
            ("GET", "/../etc/passwd", {}, 404), ("GET", "/", {"Host": "evil.example"}, 403),
            ("GET", "/", {"Host": "127.0.0.1.evil.example"}, 403), ("GET", "/", {"Host": "localhost:9644"}, 200),
            ("GET", "/", {"Host": "[::1]:9644"}, 200), ("GET", "/live.json?since=%ff%00zz", {}, 200),
            ("GET", "/live.json?since=99999999999", {}, 200)]
    for method, path, headers, status in rows:
        check_equal("%s %s %s" % (method, path, headers), ask(lab, path, method, headers).status, status)
    check_equal("too large a request", ask(lab, "/", headers={"X": "x" * 60000}).status in (413, 414, 431), True)
    check_equal("health", (ask(lab, "/health").status, ask(lab, "/health").body), (200, "ok\n"))
    policy = ask(lab, "/policy").body
    check_equal("policy", policy, lab.ls("policy", "show").out)
    json.loads(ask(lab, "/live.json").body)
    lab.ls("off", "--for", "10m")
    health = wait_for("degraded", lambda: (lambda a: "degraded" in a.body and a)(ask(lab, "/health")))
    check_equal("health while off", health.status, 200)
    result = lab.ls("serve", "--metrics", "127.0.0.1:9644", code=1)
    check(result.err.count("\n") == 1, "not one line: %r" % result.err)
    check_equal("still there", serve.process.poll(), None)


@case("http: an address in use is one clear line")
def in_use(test):
    lab = test.lab()
    lab.attach()
    with open("/dev/null", "wb") as null:
        other = subprocess.Popen(["ip", "netns", "exec", lab.name + "-srv", "/usr/bin/python3", "-c",
                                  "import socket,time;s=socket.create_server(('127.0.0.1',9644));print(1,flush=1);time.sleep(60)"],
                                 stdout=subprocess.PIPE, stderr=null)
    test.stack.callback(other.wait)
    test.stack.callback(other.kill)
    other.stdout.readline()
    result = lab.ls("serve", code=1)
    check("cannot listen on 127.0.0.1:9644: another program does" in result.err and "--metrics" in result.err,
          "it says %r" % result.err)


@case("http: fifty slow readers, fifty slow writers and a crowd hurt nobody")
def slow(test):
    lab = test.lab()
    lab.attach(POLICY)
    serve = Serve(test, lab)
    sockets = []
    test.stack.callback(lambda: [s.close() for s in sockets])
    fds = total(serve.samples(), "process_open_fds")
    for number in range(100):
        s = connect(lab)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + (b"\r\n" if number % 2 else b"X-Slow: "))
        sockets.append(s)
    took = []
    for _ in range(20):
        start = time.monotonic()
        check_sums(serve.samples())
        took.append(time.monotonic() - start)
        for s in sockets[:100:2]:
            try:
                s.sendall(b"y")
            except OSError:
                pass  # it was shut down, which is right
    check(sorted(took)[10] < 1, "a scrape takes %.2f s beside slow ones" % sorted(took)[10])
    # More than there is room for: those who hold their place longest without an end lose it.
    for _ in range(40):
        sockets.append(connect(lab))
    wait_for("an answer with all connections taken", lambda: ask(lab, "/health").status == 200, 20)
    check(total(serve.samples(), "loadshed_http_expired_total") > 0, "nobody was ended")
    for s in sockets:
        s.close()
    wait_for("their descriptors are closed", lambda: total(serve.samples(), "process_open_fds") <= fds + 2)


# Has no sample before the first answer of Redis.
LATER = {"loadshed_sync_age_seconds"}


@case("alerts and dashboard: every metric that they name is exported")
def named_metrics(test):
    lab = test.lab()
    lab.attach(POLICY + """
    check: { tcp: 127.0.0.1:1 }
overload: {}
cluster: { redis: "unix:/nowhere/redis" }
""")
    serve = Serve(test, lab)
    # Modules begin once they have seen the policy, and a signal shows once it was measured.
    wait_for("all modules", lambda: all(name in serve.metrics() for name in
                                        ("loadshed_redis_up ", "loadshed_overload_signal_ratio{")))
    exported = set(re.findall(r"^# TYPE (\S+)", serve.metrics(), re.M))
    for name in ("grafana/loadshed.json", "alerts/loadshed.rules.yml"):
        with open(os.path.join(ROOT, "user/share", name), encoding="utf-8") as file:
            contents = file.read()
        named = set(re.findall(r"\b(?:loadshed|process)_[a-z0-9_]+", re.sub(r'"uid": *"[^"]*"', "", contents)))
        named = {n for n in named if not n.startswith("loadshed_rules")}
        check(len(named) > 5, "%s names only %s" % (name, named))
        check_equal("%s names metrics that are not exported" % name, sorted(named - exported - LATER), [])


@case("alerts: promtool accepts the rules, and they fire when they should")
def rules(_test):
    folder = os.path.join(ROOT, "user/share/alerts")
    for arguments in (["check", "rules", folder + "/loadshed.rules.yml"],
                      ["test", "rules", os.path.join(ROOT, "tests/e2e/alerts.test.yml")]):
        result = promtool(*arguments)
        check(result.code == 0, "promtool %s: %s" % (arguments[:2], (result.out + result.err)[-600:]))


@case("dashboard: promtool can read every query")
def queries(test):
    with open(os.path.join(ROOT, "user/share/grafana/loadshed.json"), encoding="utf-8") as file:
        dashboard = json.load(file)
    found = [t["expr"] for p in dashboard["panels"] for t in p["targets"]]
    found += [a["expr"] for a in dashboard["annotations"]["list"]]
    check(len(found) > 15, "only %d queries" % len(found))
    rules_of = [{"record": "query_%d" % i, "expr": e.replace("$__rate_interval", "1m").replace("$instance", ".*")}
                for i, e in enumerate(found)]
    path = test.file("queries.yml", json.dumps({"groups": [{"name": "queries", "rules": rules_of}]}))
    result = promtool("check", "rules", path)
    check(result.code == 0, "promtool: %s" % (result.out + result.err)[-600:])


@case("page: shows what is dropped and why, runs nothing foreign, comes back after a restart, fits a phone and the dark")
def page(test):
    lab = test.lab()
    lab.attach(POLICY)
    serve = Serve(test, lab)
    chromium = Browser(test, lab)
    lab.ls("ban", "add", "198.51.100.1", "--for", "1h", "--reason", "<img src=x onerror=alert(document.domain)>")
    lab.flood_start("--from", "192.0.2.7", "--rate", "2000", "--port", "9")
    lab.flood_start("--from", "203.0.113.7", "--rate", "500")
    chromium.open("http://127.0.0.1:9644/")

    def shown(script, what, seconds=20):
        return wait_for(what, lambda: chromium.value(script), seconds)
    rows = "[...document.querySelectorAll('#classes tr')].map(r => r.innerText)"
    shown("document.querySelector('#headline')?.innerText.includes('Shedding')", "the headline")
    shown(rows + ".some(t => t.startsWith('rest') && t.includes('all'))", "the class and its limit")
    shown(rows + ".some(t => t.includes('deny'))", "what is denied")
    shown("document.querySelectorAll('#drops path').length > 8", "the chart")
    shown("document.querySelector('#sources').innerText.includes('192.0.2.7')", "the top source")
    check_equal("the reason of the ban", shown(
        "[...document.querySelectorAll('#ban-rows td')].map(c => c.textContent).filter(t => t.includes('onerror'))", "the ban"),
        ["<img src=x onerror=alert(document.domain)>"])
    check_equal("images", chromium.value("document.images.length"), 0)
    check_equal("dialogs", chromium.seen("Page.javascriptDialogOpening"), [])
    chromium.value("document.querySelector('summary').click()")
    shown("document.querySelector('#policy').textContent.includes('name: tried')", "the policy")
    chromium.value("document.querySelector('#drops').focus()")
    for _ in range(3):
        chromium.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowLeft", code="ArrowLeft", windowsVirtualKeyCode=37)
    shown(r"/^\d\d:\d\d:\d\d/.test(document.querySelector('#drops-read').textContent)", "a second, by the keyboard")
    check_equal("what is not in use", chromium.value(
        "['overload', 'cluster'].map(id => document.getElementById(id).hidden)"), [True, True])
    lab.ls("overload", "set", "low", "--for", "5m")
    shown("document.querySelector('#overload-level').innerText.startsWith('level 25 %, by hand')", "the level")
    check_equal("the priorities", chromium.value(
        "[...document.querySelectorAll('#priorities tr')].map(r => r.cells[0].textContent + ' ' + r.cells[3].textContent)"),
        ["critical 0 %", "high 0 %", "normal 0 %", "low 100 %"])
    lab.ls("overload", "auto")
    shown("document.querySelector('#overload').hidden", "that nothing is shed any more")
    urls = {e["request"]["url"] for e in chromium.seen("Network.requestWillBeSent")}
    outside = [u for u in urls if not u.startswith(("http://127.0.0.1:9644/", "data:"))]
    check_equal("requests to the outside", outside, [])
    check_equal("complaints", chromium.complaints(), [])
    for width, height in ((360, 780), (1280, 900)):
        chromium.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 400)
        shown("document.documentElement.scrollWidth <= %d && innerWidth == %d" % (width, width), "a page that fits %d" % width)
    colour = "getComputedStyle(document.body).backgroundColor"
    light = chromium.value(colour)
    chromium.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    check(chromium.value(colour) != light, "the dark looks like the day: " + light)
    serve.end()
    shown("document.querySelector('#link').textContent.includes('no answer')", "that serve is away")
    serve.start()
    shown("document.querySelector('#link').textContent.includes('live')", "that serve is back")


if __name__ == "__main__":
    main()
