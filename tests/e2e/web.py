# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A controller with its listener in a lab, HTTP to it, a strict reader of its metrics, and a browser."""

import contextlib
import ctypes
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

from harness import LOADSHED, Fail, Skip, check, wait_for

CLONE_NEWNET = 0x40000000
PORT = 9644
OPEN = "application/openmetrics-text; version=1.0.0"


def connect(lab, port=PORT):
    """A TCP connection made in the lab's srv: by a thread of its own, which alone goes there."""
    result = []

    def work():
        try:
            with open("/run/netns/%s-srv" % lab.name, "rb") as namespace:
                if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            result.append(socket.create_connection(("127.0.0.1", port), 10))
        except OSError as error:
            result.append(error)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if isinstance(result[0], OSError):
        raise result[0]
    return result[0]


class Answer:
    def __init__(self, response):
        self.status, self.headers = response.status, {k.lower(): v for k, v in response.getheaders()}
        self.body = response.read().decode()


def ask(lab, path, method="GET", headers=None, port=PORT):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.sock = connect(lab, port)
    with contextlib.closing(connection):
        connection.request(method, path, headers=headers or {})
        return Answer(connection.getresponse())


class Serve:
    """`loadshed serve` with its listener, in srv."""

    count = 0

    def __init__(self, test, lab):
        Serve.count += 1
        self.lab, self.path = lab, test.path("serve-%d.log" % Serve.count)
        test.stack.callback(self.end)
        self.start()

    def start(self):
        with open(self.path, "ab") as log:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", self.lab.name + "-srv", LOADSHED, "-I", self.lab.instance, "serve"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for("an answer of serve (%s)" % self.log()[-300:], self.answers)

    def answers(self):
        if self.process.poll() is not None:
            raise Fail("serve ended: " + self.log()[-400:])
        try:
            return ask(self.lab, "/health").body
        except OSError:
            return None

    def log(self):
        with open(self.path, encoding="utf-8") as file:
            return file.read()

    def metrics(self, accept=""):
        answer = ask(self.lab, "/metrics", headers={"Accept": accept})
        check(answer.status == 200, "/metrics: status %d" % answer.status)
        return answer.body

    def samples(self):
        return parse_open_metrics(self.metrics(OPEN))

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def restart(self):
        self.end()
        self.start()


NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\n"])*)"(,|\})')
NUMBER = re.compile(r"(NaN|[+-]Inf|-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?)\Z")
UNITS = ("seconds", "bytes", "ratio")


def parse_open_metrics(text):
    """OpenMetrics 1.0, strictly, as far as this project writes it. Samples as {(name, ((label, value), …)): number}.

    Checked: the end, one block for each family, TYPE before samples, suffixes by type, units at the end of names,
    escapes, no sample twice, counters that are no less than 0.
    """
    lines = text.split("\n")
    check(lines[-2:] == ["# EOF", ""], "the text does not end in '# EOF': %r" % lines[-3:])
    families, samples, family = {}, {}, None
    for line in lines[:-2]:
        meta = re.match(r"# (TYPE|UNIT|HELP) (%s) (.*)\Z" % NAME, line)
        if meta:
            kind, name, rest = meta.groups()
            if kind == "TYPE":
                check(name not in families, "family twice: " + name)
                check(rest in ("counter", "gauge", "info"), "type of " + line)
                family = families[name] = {"name": name, "type": rest}
            check(family and family["name"] == name, "out of its family: " + line)
            check(kind != "UNIT" or (rest in UNITS and name.endswith("_" + rest)), "unit: " + line)
            check(kind != "HELP" or rest.endswith("."), "help is no sentence: " + line)
            family[kind] = rest
            continue
        match = re.match(r"(%s)(\{|\ )" % NAME, line)
        check(match and family, "no sample: %r" % line)
        name, at, labels = match.group(1), match.end(), []
        suffix = {"counter": "_total", "info": "_info", "gauge": ""}[family["type"]]
        check(name == family["name"] + suffix, "name of a %s: %s" % (family["type"], line))
        check("HELP" in family, "no help: " + line)
        if match.group(2) == "{":
            while True:
                label = LABEL.match(line, at)
                check(label, "labels: %r" % line)
                labels.append(label.group(1, 2))
                at = label.end()
                if label.group(3) == "}":
                    break
            check(line[at:at + 1] == " ", "after the labels: %r" % line)
            at += 1
        check(NUMBER.match(line[at:]), "number: %r" % line)
        key = (name, tuple(labels))
        check(len({name for name, _ in labels}) == len(labels), "label twice: " + line)
        check(key not in samples, "sample twice: " + line)
        samples[key] = int(line[at:]) if line[at:].isdigit() else float(line[at:])
        check(family["type"] == "gauge" or samples[key] >= 0, "less than 0: " + line)
    return samples


def total(samples, name, **labels):
    """Sum of the samples of a name with those labels."""
    wanted = set(labels.items())
    return sum(value for (sample, of), value in samples.items() if sample == name and wanted <= set(of))


def browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name) and "snap" not in os.path.realpath(shutil.which(name)):
            return name
    raise Skip("no chromium on this machine")


class Browser:
    """A headless Chromium in srv, by the DevTools protocol over two pipes."""

    def __init__(self, test, lab, width=1280, height=900):
        to_read, self.to_write = os.pipe()
        self.from_read, from_write = os.pipe()

        def pipes():
            # 3 and 4 by the protocol; both ends may have these very numbers.
            read, write = os.dup(to_read), os.dup(from_write)
            high_read, high_write = os.dup2(read, 60), os.dup2(write, 61)
            os.dup2(high_read, 3)
            os.dup2(high_write, 4)
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", lab.name + "-srv", browser(), "--headless=new", "--no-sandbox", "--disable-gpu",
             "--remote-debugging-pipe", "--no-first-run", "--disable-extensions", "--disable-background-networking",
             "--user-data-dir=" + test.path("chromium"), "--window-size=%d,%d" % (width, height), "about:blank"],
            preexec_fn=pipes, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_read)
        os.close(from_write)
        test.stack.callback(self.end)
        self.number, self.events, self.left = 0, [], b""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    session = None

    def _receive(self, seconds):
        end = time.monotonic() + seconds
        os.set_blocking(self.from_read, False)
        while b"\0" not in self.left:
            try:
                more = os.read(self.from_read, 65536)
                check(more, "the browser has ended")
                self.left += more
            except BlockingIOError:
                check(time.monotonic() < end, "the browser does not answer")
                time.sleep(0.005)
        message, self.left = self.left.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.to_write, json.dumps(request).encode() + b"\0")
        while True:
            message = self._receive(30)
            if message.get("id") == self.number:
                check("error" not in message, "%s: %s" % (method, message.get("error")))
                return message["result"]
            self.events.append(message)

    def open(self, url):
        self.call("Page.navigate", url=url)

    def value(self, script):
        """What a script returns, as JSON."""
        result = self.call("Runtime.evaluate", expression="JSON.stringify(%s)" % script)
        check("exceptionDetails" not in result, "script: %s" % result)
        return json.loads(result["result"].get("value", "null"))

    def seen(self, method):
        return [e["params"] for e in self.events if e.get("method") == method]

    def complaints(self):
        """Uncaught exceptions, and what the console shows as errors, refused contents among it."""
        found = [str(e["exceptionDetails"].get("exception", e["exceptionDetails"]))
                 for e in self.seen("Runtime.exceptionThrown")]
        found += [e["entry"]["text"] for e in self.seen("Log.entryAdded") if e["entry"]["level"] == "error"]
        return found + [str(e["args"]) for e in self.seen("Runtime.consoleAPICalled") if e["type"] in ("error", "assert")]

    def end(self):
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for fd in (self.to_write, self.from_read):
            with contextlib.suppress(OSError):
                os.close(fd)
