"""Restarts, reloads, shutdown and limits, on real processes: nobody is refused, nothing is lost."""
import json
import os
import pathlib
import re
import signal
import socket
import threading
import time

from conftest import ROOT, Engine, Files, Gateway, fetch, replace, until

CHAT = {"model": "sim", "max_tokens": 5, "messages": [{"role": "user", "content": "hello"}]}


def ask(gateway, body=None, **headers):
    headers = {key.replace("_", "-"): value for key, value in headers.items()}
    return fetch(gateway.url + "/v1/chat/completions", body or CHAT, headers)


def children(process):
    """Process ids of the children, with their subcommand."""
    found = {}
    for task in pathlib.Path(f"/proc/{process.child.pid}/task").iterdir():
        for pid in (task / "children").read_text().split():
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            found[int(pid)] = words[1].decode() if len(words) > 1 else ""
    return found


class Callers:
    """A few callers who ask one after another, on a new connection each time, until told to stop."""

    def __init__(self, gateway, count=4, pause=0.005):
        self.gateway, self.pause = gateway, pause
        self.statuses, self.errors, self.stopped = [], [], threading.Event()
        self.threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def _ask(self):
        while not self.stopped.is_set():
            try:
                self.statuses.append(ask(self.gateway, {**CHAT, "max_tokens": 2})[0])
            except Exception as error:  # a reply that was cut is no OSError
                self.errors.append(repr(error))
            time.sleep(self.pause)

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join()


def test_a_new_gateway_takes_over_and_refuses_nobody(pair):
    slow = []
    stream = threading.Thread(
        target=lambda: slow.append(ask(pair, {**CHAT, "max_tokens": 100, "ignore_eos": True, "stream": True})),
        daemon=True,
    )
    stream.start()
    until(lambda: pair.pool()["in_flight"] == 1)
    callers = Callers(pair)
    for _ in range(3):
        before = set(children(pair))
        pair.child.send_signal(signal.SIGUSR2)
        until(lambda: set(children(pair)) - before)
        time.sleep(0.3)
    callers.stop()
    stream.join()
    assert not callers.errors and set(callers.statuses) == {200} and len(callers.statuses) > 50
    assert slow[0][0] == 200 and slow[0][2].endswith(b"data: [DONE]\n\n")
    until(lambda: len(children(pair)) == 1)  # the old ones have drained


def test_a_gateway_that_dies_is_started_again_and_callers_wait_in_its_queue(pair):
    (gateway,) = children(pair)
    os.kill(gateway, signal.SIGKILL)
    assert ask(pair)[0] == 200  # no refused connection: the socket is not the gateway's
    assert children(pair) and gateway not in children(pair)
    assert "signal 9" in "".join(pair.err)


def test_serve_keeps_its_engine_running(folder, started):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    files = Files(folder, config=(ROOT / "examples/simulate/spillway.yaml").read_text().replace("{", "{{").replace("}", "}}"))
    profile = ROOT / "examples/simulate/engine.yaml"
    gateway = started(Gateway, files.config, "--with-simulated-engine", profile, "--engine-port", port)
    until(lambda: ask(gateway)[0] == 200)
    (engine,) = [pid for pid, what in children(gateway).items() if what == "engine"]
    os.kill(engine, signal.SIGKILL)
    until(lambda: ask(gateway)[0] == 200)
    assert gateway.stop() == 0
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0  # it went with its owner


def test_readiness_is_false_while_it_drains(pair):
    keep = socket.create_connection(("127.0.0.1", pair.port))
    keep.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
    assert b"200" in keep.recv(1000)
    body = json.dumps({**CHAT, "max_tokens": 100, "ignore_eos": True, "stream": True})
    busy = socket.create_connection(("127.0.0.1", pair.port))
    busy.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    assert busy.recv(1000)
    pair.child.send_signal(signal.SIGTERM)
    until(lambda: pair.status()["draining"])
    assert keep.recv(1000) == b""  # idle connections are closed, the stream goes on
    received = b""
    while piece := busy.recv(65536):
        received += piece
    assert b"[DONE]" in received
    assert pair.stop() == 0


def test_a_thousand_reloads_under_load_lose_nothing(folder, started):
    engine = started(Engine)
    files = Files(folder, engine)
    gateway = started(Gateway, files.config)
    until(lambda: fetch(gateway.url + "/readyz")[0] == 200)
    callers = Callers(gateway, count=3, pause=0)
    (child,) = children(gateway)
    policy = files.policy.read_text()
    sent = 0
    while gateway.status()["reloads"] < 1000:  # signals of one kind are merged while one is pending
        replace(files.policy, policy.replace("version: 1.0.0", f"version: 1.0.{sent}"))  # a reload may be reading it
        for _ in range(50):
            os.kill(child, signal.SIGHUP)
            time.sleep(0.003)
        sent += 50
        assert sent < 20000
    callers.stop()
    assert not callers.errors and set(callers.statuses) == {200}
    answered = len(callers.statuses)

    def ids():
        return [r["request_id"] for r in gateway.records() if r["route"] == "/v1/chat/completions"]

    until(lambda: len(ids()) >= answered)
    found = ids()
    assert (len(found), len(set(found))) == (answered, answered)
    assert gateway.status()["reloads_failed"] == 0


def test_the_bypass_is_timed_and_logged(folder, started):
    engine = started(Engine)
    gateway = started(Gateway, Files(folder, engine).config, "--pin-level", "3")
    until(lambda: gateway.pool()["level"] == 3)
    assert ask(gateway)[0] == 429
    for bad in ({}, {"seconds": -1}, {"seconds": "x"}, {"seconds": 100000}):
        assert fetch(gateway.admin + "/admin/v1/bypass", bad)[0] == 400
    assert fetch(gateway.admin + "/admin/v1/bypass", {"seconds": 600})[0] == 200
    status, headers, _ = until(lambda: (reply := ask(gateway))[0] == 200 and reply)
    assert headers["x-spillway-actions"] == "bypass"
    assert 590 < gateway.status()["bypass_seconds_left"] <= 600
    assert re.search(r"^spillway_bypass 1$", fetch(gateway.admin + "/metrics")[2].decode(), re.M)
    assert fetch(gateway.admin + "/admin/v1/bypass", {"seconds": 0})[0] == 200
    until(lambda: ask(gateway)[0] == 429)
    until(lambda: len([line for line in gateway.log() if line.get("event") == "bypass"]) == 2)
    assert fetch(gateway.url + "/admin/v1/bypass", {"seconds": 1})[0] == 404  # not for callers


def test_beyond_the_connection_limit_there_is_a_clean_503(folder, started):
    engine = started(Engine)
    files = Files(folder, engine)
    files.config.write_text(files.config.read_text().replace("limits: {", "limits: {connections: 5, "))
    gateway = started(Gateway, files.config)
    until(lambda: fetch(gateway.url + "/readyz")[0] == 200)
    held = [socket.create_connection(("127.0.0.1", gateway.port)) for _ in range(5)]
    until(lambda: gateway.status()["connections"] == 5)
    status, headers, body = ask(gateway)
    assert status == 503 and headers["retry-after"] == "1" and json.loads(body)["error"]["code"] == "connections"
    for connection in held:
        connection.close()
    until(lambda: ask(gateway)[0] == 200)
    assert re.search(r"at most \d+ streams at once; \d+ descriptors", "".join(gateway.err))


def test_a_slow_reader_costs_a_bounded_number_of_bytes(folder, started):
    """Many readers who never read: the gateway stops reading the engine for them."""
    engine = started(Engine)
    gateway = started(Gateway, Files(folder, engine).config)
    until(lambda: fetch(gateway.url + "/readyz")[0] == 200)
    (child,) = children(gateway)

    def resident():
        return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{child}/status").read_text()).group(1)) * 1024

    before = resident()
    body = json.dumps({**CHAT, "max_tokens": 3000, "ignore_eos": True, "stream": True})
    readers = []
    for _ in range(20):
        reader = socket.socket()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", gateway.port))
        reader.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        readers.append(reader)
    time.sleep(6)
    assert resident() - before < len(readers) * 600_000 + 30_000_000
    assert ask(gateway)[0] == 200  # and nobody else waits for them
    for reader in readers:
        reader.close()
    until(lambda: engine.metric("vllm:num_requests_running") == 0)


def test_callers_who_go_stop_the_engine_in_every_phase(folder, started):
    engine = started(Engine)
    gateway = started(Gateway, Files(folder, engine).config)
    until(lambda: fetch(gateway.url + "/readyz")[0] == 200)
    for stream in (True, False):
        for wait in (0.0, 0.05, 0.5):
            callers = []
            body = json.dumps({**CHAT, "max_tokens": 5000, "ignore_eos": True, "stream": stream})
            for _ in range(8):
                caller = socket.create_connection(("127.0.0.1", gateway.port))
                caller.sendall(
                    f"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
                )
                callers.append(caller)
            time.sleep(wait)
            for caller in callers:
                caller.close()
            until(lambda: gateway.pool()["in_flight"] == 0)
            until(lambda: engine.metric("vllm:num_requests_running") == 0)
            assert engine.metric("vllm:num_requests_waiting") == 0
