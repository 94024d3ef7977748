"""Real processes on free ports: a simulated engine and a gateway in front of it.

Threads of tests are daemons: a test that fails while they run must not keep pytest from ending.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("SPILLWAY_BINARY", str(ROOT / "build/release/src/main/spillway"))
DEADLINE = 240  # generous: sanitizers and shared machines are slow; only failures wait for it


class Process:
    """A program whose output is gathered, and which is ended with the test."""

    def __init__(self, *arguments):
        self.child = subprocess.Popen(
            [BINARY, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.out, self.err = [], []
        self.readers = [
            threading.Thread(target=self._read, args=(stream, lines), daemon=True)
            for stream, lines in ((self.child.stdout, self.out), (self.child.stderr, self.err))
        ]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def _read(stream, lines):
        for line in stream:
            lines.append(line)

    def wait_for(self, pattern):
        """The first match of the pattern in what it printed on stderr."""

        def look():
            return re.search(pattern, "".join(self.err))

        return until(look, lambda: f"{pattern!r} in {self.err}, exit code {self.child.poll()}")

    def stop(self, how=signal.SIGTERM):
        if self.child.poll() is None:
            self.child.send_signal(how)
        code = self.child.wait(timeout=60)
        for reader in self.readers:
            reader.join(timeout=10)
        return code

    def log(self):
        return [json.loads(line) for line in self.out]

    def records(self):
        return [line for line in self.log() if "request_id" in line]


def until(condition, what=lambda: "a condition"):
    """Waits until the condition gives something true; never longer than the deadline."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError("waited in vain for " + what())


def fetch(url, body=None, headers=None, method=None):
    """(status, headers, body) whatever the status."""
    data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
    request = urllib.request.Request(url, data=data, headers=headers or {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE) as reply:
            return reply.status, reply.headers, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


class Gateway(Process):
    def __init__(self, config, *flags):
        super().__init__("serve", "--config", config, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", *flags)
        self.port = int(self.wait_for(r"callers +http://127\.0\.0\.1:(\d+)").group(1))
        self.admin_port = int(self.wait_for(r"operators +http://127\.0\.0\.1:(\d+)").group(1))
        self.url = f"http://127.0.0.1:{self.port}"
        self.admin = f"http://127.0.0.1:{self.admin_port}"

    def status(self):
        return json.loads(fetch(self.admin + "/admin/v1/status")[2])

    def pool(self):
        return self.status()["pools"][0]


class Engine(Process):
    def __init__(self, profile=ROOT / "examples/simulate/engine.yaml", port=0):
        super().__init__("engine", "--simulate", profile, "--port", port, "--name", "sim")
        self.port = int(self.wait_for(r"listening on http://127\.0\.0\.1:(\d+)").group(1))
        self.url = f"http://127.0.0.1:{self.port}"

    def fault(self, **order):
        status, _, body = fetch(self.url + "/sim/faults", order)
        assert status == 200, body

    def metric(self, name):
        page = fetch(self.url + "/metrics")[2].decode()
        return float(re.search(rf"^{re.escape(name)}{{[^}}]*}} (\S+)$", page, re.M).group(1))


CONFIG = """
policy: policy.yaml
limits: {{body: 64 KiB, between_tokens_timeout: 3s, drain_timeout: 10s}}
classes:
  critical: {{first_token_timeout: 3s}}
  high: {{first_token_timeout: 3s}}
  normal: {{first_token_timeout: 3s}}
pools:
  - name: chat
    models: [sim, alias]
    replicas: [{replicas}]
    scrape_interval: 200ms
    priority_scheduling: true
    max_in_flight: 5000
"""


def replace(path, text):
    """Writes as careful editors do: a reader sees the old file or the new one, never half of it."""
    other = path.with_suffix(".new")
    other.write_text(text)
    other.rename(path)


class Files:
    """A folder with a configuration and a policy."""

    def __init__(self, folder, *engines, config=CONFIG, policy=None):
        self.folder = folder
        self.config = self.folder / "spillway.yaml"
        self.policy = self.folder / "policy.yaml"
        replicas = ", ".join(f"{{url: {engine.url}}}" for engine in engines)
        self.config.write_text(config.format(replicas=replicas))
        self.policy.write_text(policy or (ROOT / "examples/simulate/policy.yaml").read_text())


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory() as path:
        yield pathlib.Path(path)


@pytest.fixture
def started():
    """Starts processes and ends them after the test."""
    running = []

    def start(kind, *arguments, **options):
        process = kind(*arguments, **options)
        running.append(process)
        return process

    yield start
    for process in reversed(running):
        process.stop()
    reports = [line for process in running for line in process.err if "Sanitizer" in line]
    assert not reports, reports


@pytest.fixture
def pair(folder, started):
    """A simulated engine with a gateway in front."""
    engine = started(Engine)
    gateway = started(Gateway, Files(folder, engine).config)
    gateway.engine = engine
    until(lambda: fetch(gateway.url + "/readyz")[0] == 200)
    return gateway
