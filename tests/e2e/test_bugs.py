"""Public bug reports of gateways, played against a real gateway: each is handled as its `right_behaviour` says.

The reports lie outside the project (../shared/data/bugs.jsonl); without them these tests are skipped and say so.
Beside the report's own input, variants of the same kind are played. As a program it prints the list:

    .venv/bin/python tests/e2e/test_bugs.py
"""
import http.client
import json
import pathlib
import re
import socket
import sys
import tempfile
import threading
import time

import pytest

from conftest import ROOT, Files, Gateway, fetch, replace, until
from scripted_engine import HEAD, ScriptedEngine

REPORTS = ROOT.parent / "shared/data/bugs.jsonl"
CONFIG = """
policy: policy.yaml
limits: {{LIMITS}}
classes: {{normal: {{first_token_timeout: 6s}}}}
pools:
  - name: chat
    models: [m, alias]
    replicas: [{replicas}]
    scrape_interval: 200ms
    POOL
"""
DELTA = 'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n'
STREAM = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
WHOLE = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
ANSWER = '{"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}'

CHECKS = {}
LATER = {
    "B038": "queueing between classes comes with admission",
    "B040": "limits shared by several gateways come with tenants' quotas",
    "B046": "policy reader: policy/yaml_document_test.cc",
    "B047": "policy reader: policy/yaml_document_test.cc",
    "B049": "policy reader: policy/yaml_document_test.cc",
    "B050": "policy reader: policy/units_test.cc",
    "B052": "alerts come with the signs",
    "B055": "metrics pages: signals/engine_facts_test.cc (usage: mean; the maximum comes with admission)",
    "B059": "metrics pages of llama.cpp come with the signs",
}


def check(*ids):
    def keep(function):
        for report in ids:
            CHECKS[report] = function
        return function

    return keep


class Bench:
    """Engines and a gateway of one check, and what a caller sees."""

    def __init__(self, folder, started):
        self.folder, self.started = folder, started

    def gateway(self, *engines, limits="body: 8 MiB", pool="", policy=None):
        config = CONFIG.replace("LIMITS", limits).replace("POOL", pool)
        self.files = Files(self.folder, *engines, config=config, policy=policy)
        self.gate = self.started(Gateway, self.files.config)
        until(lambda: fetch(self.gate.url + "/readyz")[0] == 200)
        return self.gate

    def engine(self, respond, **options):
        return self.started(ScriptedEngine, respond, **options)

    def ask(self, body=STREAM, path="/v1/chat/completions", timeout=30, **headers):
        """(status, headers, body bytes as far as they came, whole?)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.gate.port, timeout=timeout)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, data, {key.replace("_", "-"): value for key, value in headers.items()})
        reply = connection.getresponse()
        try:
            received, whole = reply.read(), True
        except http.client.IncompleteRead as cut:
            received, whole = cut.partial, False
        connection.close()
        return reply.status, reply.headers, received, whole

    def raw(self, data, wait=10, half_close=False):
        """What comes back on a plain socket until the other end closes or falls silent."""
        with socket.create_connection(("127.0.0.1", self.gate.port)) as caller:
            caller.sendall(data)
            if half_close:
                caller.shutdown(socket.SHUT_WR)
            caller.settimeout(wait)
            received = b""
            try:
                while piece := caller.recv(65536):
                    received += piece
            except TimeoutError:
                pass
            return received

    def last(self, count=1):
        return until(lambda: len(records := [r for r in self.gate.records() if r["method"] == "POST"]) >= count and records)[-1]

    def metric(self, name):
        page = fetch(self.gate.admin + "/metrics")[2].decode()
        found = re.search(rf"^{name}(?:{{[^}}]*}})? (\S+)$", page, re.M)
        return float(found.group(1)) if found else None


def same_bytes(bench, writes, expected=None, cuts=(None, 1, 3)):
    """The writes arrive as they are, whole or cut into pieces of any size."""
    joined = b"".join(w if isinstance(w, bytes) else w.encode() for w in writes)
    for size in cuts:
        pieces = writes if size is None else [joined[i : i + size] for i in range(0, len(joined), size)]
        engine = bench.engine(lambda c, pieces=pieces, size=size: c.stream(pieces, gap=0.02 if size is None else 0))
        bench.gateway(engine)
        status, _, body, whole = bench.ask()
        assert status == 200 and whole and body == (joined if expected is None else expected), (size, body)
        record = bench.last()
        assert record["outcome"] == "ok"
        yield record


@check("B001")
def utf8_over_reads(bench, report):
    writes = [bytes.fromhex(write) for write in report["input"]["writes"]]
    assert list(same_bytes(bench, writes))
    assert "\ufffd".encode() not in b"".join(writes)


@check("B002")
def comments_stay_comments(bench, report):
    for record in same_bytes(bench, report["input"]["writes"]):
        assert record["output_tokens"] == 1 and record["unreadable_events"] == 1


@check("B004")
def bare_cr(bench, report):
    for _ in same_bytes(bench, report["input"]["writes"]):
        pass
    arrived = []

    def one_by_one(connection):
        connection.send(HEAD)
        for write in report["input"]["writes"][:1]:
            connection.chunk(write.encode())
        until(lambda: arrived)  # the first event is there before the next is written
        for write in report["input"]["writes"][1:]:
            connection.chunk(write.encode())
        connection.send(b"0\r\n\r\n")

    bench.gateway(bench.engine(one_by_one))
    with socket.create_connection(("127.0.0.1", bench.gate.port)) as caller:
        body = json.dumps(STREAM)
        caller.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        received = b""
        while b'"x"' not in received:
            received += caller.recv(65536)
        arrived.append(True)
        while b"[DONE]" not in received:
            received += caller.recv(65536)
    # An event without an end is bounded.
    bench.gateway(bench.engine(lambda c: c.stream([DELTA % "a", b"data: " + b"x" * (9 << 20)], gap=0)))
    _, _, body, _ = bench.ask()
    assert b'"error"' in body and bench.last()["outcome"] == "engine_error"


@check("B005")
def a_reset_is_no_stop(bench, report):
    def cut(how):
        def respond(connection):
            connection.stream(report["input"]["writes"], end=False)
            getattr(connection, how)()

        return respond

    for how in ("reset", "close"):
        bench.gateway(bench.engine(cut(how)))
        status, _, body, _ = bench.ask()
        assert status == 200 and b'"error"' in body and b'"stop"' not in body
        assert body.endswith(b"data: [DONE]\n\n")
        assert bench.last()["outcome"] == "engine_cut"
    # Cut in the middle of an event, of a chunk, and a whole reply in the middle of its body.
    for data in (HEAD + b"30\r\n" + (DELTA % "a").encode()[:20], HEAD + b"5", b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"):
        bench.gateway(bench.engine(lambda c, data=data: (c.send(data), c.reset())))
        status, _, body, _ = bench.ask()
        assert status == 502 and json.loads(body)["error"]["message"]


@check("B007")
def odd_choices(bench, report):
    usage = report["input"]["writes"][1].encode()
    joined = "".join(report["input"]["writes"]).encode()
    for record in same_bytes(bench, report["input"]["writes"], expected=joined.replace(usage, b"")):
        assert record["prompt_tokens"] == 3 and record["output_tokens"] == 1
    odd = ['data: {"choices":[null,5,{}]}\n\n', 'data: []\n\n', "data: null\n\n", 'data: {"choices":{}}\n\n', DELTA % "a", "data: [DONE]\n\n"]
    assert list(same_bytes(bench, odd))


@check("B008")
def usage_only_for_who_asked(bench, report):
    writes = report["input"]["upstream_writes"]
    bench.gateway(bench.engine(lambda c: c.stream(writes)))
    assert writes[1].encode() not in bench.ask()[2]
    asked = {**STREAM, "stream_options": {"include_usage": True}}
    assert bench.ask(asked)[2].count(writes[1].encode()) == 1
    bench.gateway(engine := bench.engine(lambda c: c.stream(writes)))
    bench.ask()
    assert json.loads(engine.requests[0][2])["stream_options"]["include_usage"] is True


@check("B010")
def cancelled_without_a_stream(bench, report):
    gone = []
    engine = bench.engine(lambda c: gone.append(c.wait_until_closed()))
    bench.gateway(engine)
    body = json.dumps(WHOLE)
    for i in range(10):
        with socket.create_connection(("127.0.0.1", bench.gate.port)) as caller:
            caller.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            until(lambda: len(engine.requests) > i)
        until(lambda: len(gone) > i)
    assert engine.most_active == 1 and max(gone) < 1
    assert {r["outcome"] for r in until(lambda: len(bench.gate.records()) > 9 and bench.gate.records()) if r["method"] == "POST"} == {"caller_gone"}


@check("B011")
def many_leave_together(bench, report):
    big = (DELTA % ("x" * 65000)).encode()
    bench.gateway(bench.engine(lambda c: c.stream([big] * 80, gap=0.001)))
    body = json.dumps(STREAM)
    callers = []
    for _ in range(30):
        caller = socket.create_connection(("127.0.0.1", bench.gate.port))
        caller.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        caller.recv(1000)
        callers.append(caller)
    for caller in callers:
        caller.close()
    slowest = 0
    for _ in range(20):
        began = time.monotonic()
        assert fetch(bench.gate.url + "/livez")[0] == 200
        slowest = max(slowest, time.monotonic() - began)
    assert slowest < 2
    until(lambda: bench.gate.pool()["in_flight"] == 0)


@check("B013")
def large_bodies(bench, report):
    bench.gateway(bench.engine(lambda c: c.whole(ANSWER)))
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 1_200_000}}
    assert bench.ask({**WHOLE, "messages": [{"role": "user", "content": [image]}]})[0] == 200
    status, _, body, _ = bench.ask({**WHOLE, "messages": [{"role": "user", "content": "x" * (9 << 20)}]})
    error = json.loads(body)["error"]
    assert status == 413 and str(8 << 20) in error["message"] and error["code"] == "body_too_large"


@check("B014")
def a_body_is_never_a_request(bench, report):
    bench.gateway(bench.engine(lambda c: c.whole(ANSWER)), limits="body: 1 KiB")
    smuggled = b"GET /v1/models HTTP/1.1\r\nHost: t\r\n\r\n"
    for head in (b"Content-Length: 5000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % 5000):
        received = bench.raw(b"POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\n" + head + b"B" * 4000 + smuggled, wait=3)
        assert received.startswith(b"HTTP/1.1 413 ") and received.count(b"HTTP/1.1 ") == 1


@check("B016")
def surrogates(bench, report):
    engine = bench.engine(lambda c: c.whole(ANSWER))
    bench.gateway(engine)
    for body in report["input"]["bodies"]:
        path = "/v1/completions" if '"prompt"' in body else "/v1/chat/completions"
        status, _, reply, _ = bench.ask(body.encode(), path=path)
        if "ud83d\\ude00" in body:
            assert status == 200
        else:
            assert status == 400 and json.loads(reply)["error"]["type"] == "invalid_request_error"
    assert len(engine.requests) == 1


TRUNCATING = """
apiVersion: spillway.dev/v1
kind: DegradationPolicy
metadata: {name: t, version: 1.0.0}
spec:
  ladder:
    - level: 1
      name: short
      when: {pressure: 85%, hysteresis: 20%}
      actions:
        - truncate: {prompt: 50 tokens, classes: [critical, high, normal]}
        - budget: {max_tokens: 64 tokens, classes: [critical, high, normal]}
"""


def pinned(bench, engine, policy):
    bench.files = Files(bench.folder, engine, config=CONFIG.replace("LIMITS", "body: 8 MiB").replace("POOL", ""), policy=policy)
    bench.gate = bench.started(Gateway, bench.files.config, "--pin-level", "1")
    until(lambda: bench.gate.pool()["level"] == 1)


@check("B017")
def truncation_of_parts(bench, report):
    engine = bench.engine(lambda c: c.whole(ANSWER))
    pinned(bench, engine, TRUNCATING)
    body = json.loads(json.dumps(report["input"]["body"]).replace("long long text (x400)", "long long text " * 400))
    _, headers, _, _ = bench.ask(body)
    sent = json.loads(engine.requests[-1][2])
    # The newest question may not go, so nothing is cut, and nobody says that it was.
    assert sent["messages"] == body["messages"] and "truncate" not in headers.get("x-spillway-actions", "")
    old = [{"role": "user", "content": [{"type": "text", "text": "old " * 300}]}, {"role": "assistant", "content": "old " * 300}] * 3
    body["messages"] = body["messages"][:1] + old + [{"role": "user", "content": "new"}]
    _, headers, _, _ = bench.ask(body)
    sent = json.loads(engine.requests[-1][2])
    assert sent["messages"][0] == body["messages"][0] and sent["messages"][-1] == body["messages"][-1]
    assert len(sent["messages"]) < len(body["messages"]) and "truncate=" in headers["x-spillway-actions"]


@check("B019")
def unknown_parts(bench, report):
    engine = bench.engine(lambda c: c.whole(ANSWER))
    bench.gateway(engine)
    body = {"model": "m", **report["input"]["body"]}
    assert bench.ask(body)[0] == 200
    assert json.loads(engine.requests[0][2])["messages"] == body["messages"]
    bench.gateway(bench.engine(lambda c: c.whole(ANSWER.replace('"usage"', '"_"'))))
    huge = {"type": "video_url", "video_url": {"url": "data:video/mp4;base64," + "A" * 1_000_000}}
    bench.ask({"model": "m", "messages": [{"role": "user", "content": [huge]}]})
    assert bench.last()["prompt_tokens"] < 2000  # base64 is not counted as text


@check("B020")
def no_retry_after_content(bench, report):
    def fails(connection):
        connection.stream([DELTA % "a", DELTA % "b", DELTA % "c"], end=False)
        connection.reset()

    def works(connection):
        connection.stream([DELTA % "good", "data: [DONE]\n\n"])

    first, second = bench.engine(fails), bench.engine(works)
    bench.gateway(first, second)
    for _ in range(6):
        status, _, body, _ = bench.ask()
        contents = re.findall(rb'"content":"(\w+)"', body)
        assert contents in ([b"a", b"b", b"c"], [b"good"]) and (b'"error"' in body) == (contents[0] == b"a")
    # Before the first content a retry is allowed and invisible, whatever had come.
    for so_far in ([], [": ping\n\n"], ['data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n']):
        first = bench.engine(lambda c, so_far=so_far: (c.stream(so_far, end=False), c.reset()))
        second = bench.engine(works)
        bench.gateway(first, second)
        assert all(bench.ask()[2] == (DELTA % "good" + "data: [DONE]\n\n").encode() for _ in range(3))


@check("B022")
def the_smallest_rest_is_told(bench, report):
    engines = [bench.engine(lambda c, s=s: c.whole('{"error":{"message":"full"}}', 429, fields=f"Retry-After: {s}\r\n")) for s in (37, 52)]
    bench.gateway(*engines)
    for _ in range(2):
        assert bench.ask(WHOLE)[0] == 429
    status, headers, body, _ = bench.ask(WHOLE)
    assert status == 429 and 35 <= int(headers["retry-after"]) <= 37 and json.loads(body)["error"]["code"] == "full"
    assert int(headers["retry-after-ms"]) <= 37000
    assert sum(len(engine.requests) for engine in engines) == 2  # nobody is asked while both rest


@check("B023")
def odd_retry_after(bench, report):
    for value in report["input"]["values"]:
        bench.gateway(engine := bench.engine(lambda c, v=value: c.whole("{}", 503, fields=f"Retry-After: {v}\r\n")))
        assert bench.ask(WHOLE)[0] == 503
        status, headers, _, _ = bench.ask(WHOLE)
        rests = value in ("86400", "99999999999999999999", "  7 ", "1.5", "Wed, 21 Oct 2037 07:28:00 GMT")
        assert (len(engine.requests) == 1) == rests, value
        assert not rests or (status == 429 and 1 <= int(headers["retry-after"]) <= 60)


@check("B025")
def errors_that_say_200(bench, report):
    for body in report["input"]["bodies"]:
        kind = "text/html" if body.startswith("<") else "application/json"
        bad = bench.engine(lambda c, body=body, kind=kind: c.whole(body, content_type=kind))
        bench.gateway(bad)
        status, _, reply, _ = bench.ask(WHOLE)
        assert status in (502, 503) and json.loads(reply)["error"]["message"]
        bench.gateway(bad, bench.engine(lambda c: c.whole(ANSWER)))
        assert all(bench.ask(WHOLE)[0] == 200 for _ in range(3))


@check("B026")
def one_of_each_header(bench, report):
    engine = bench.engine(lambda c: c.whole(ANSWER))
    bench.gateway(engine)
    body = json.dumps(WHOLE).encode()
    bench.raw(
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nHOST2: x\r\ncontent-length: %d\r\nX-Request-ID: 1\r\nx-request-id: 2\r\n"
        b"Connection: close, X-Private\r\nX-Private: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\nProxy-Authorization: x\r\n\r\n%s" % (len(body), body)
    )
    names = [name for name, _ in engine.requests[0][1]]
    for name in ("host", "content-length", "x-request-id", "host2"):
        assert names.count(name) == 1, (name, names)
    assert not {"connection", "keep-alive", "te", "proxy-authorization", "transfer-encoding", "x-private"} & set(names)
    assert dict(engine.requests[0][1])["x-request-id"] == "1"


@check("B028")
def connections_that_die_in_the_pool(bench, report):
    def fin(connection):
        connection.whole(ANSWER)
        time.sleep(0.03)
        connection.close()

    def close_when_asked_again(connection):
        if getattr(connection, "served", False):
            connection.close()
        connection.served = True
        connection.whole(ANSWER)

    def reset_when_asked_again(connection):
        if getattr(connection, "served", False):
            connection.reset()
        connection.served = True
        connection.whole(ANSWER)

    for respond in (fin, close_when_asked_again, reset_when_asked_again):
        bench.gateway(bench.engine(respond))
        for i in range(20):
            assert bench.ask(WHOLE)[0] == 200
            time.sleep(0.01 if i % 2 else 0.04)
        assert bench.gate.pool()["replicas"][0]["failure"] is None
    idle = []

    def measure(connection):
        connection.whole(ANSWER)
        idle.append(connection.wait_until_closed(10))

    bench.gateway(bench.engine(measure))
    assert bench.ask(WHOLE)[0] == 200
    until(lambda: idle)
    assert idle[0] < 5  # before uvicorn closes it


@check("B029")
def one_byte_now_and_then(bench, report):
    bench.gateway(bench.engine(lambda c: c.whole(ANSWER)), limits="header_timeout: 1s, body_timeout: 1500ms")
    for start in (b"GET /livez HTTP/1.1\r\nX: ", b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"):
        slow = [socket.create_connection(("127.0.0.1", bench.gate.port)) for _ in range(100)]
        began = time.monotonic()
        for caller in slow:
            caller.sendall(start)
        while time.monotonic() - began < 1.2 and not time.sleep(0.2):
            for caller in slow:
                try:
                    caller.sendall(b"x")
                except OSError:
                    pass
        assert bench.ask(WHOLE)[0] == 200
        for caller in slow:
            caller.settimeout(5)
            try:
                assert caller.recv(1000).startswith(b"HTTP/1.1 408 ")
            except ConnectionError:
                pass  # reset, since it went on sending
            caller.close()
        assert time.monotonic() - began < 6


@check("B031")
def chunked_requests(bench, report):
    engine = bench.engine(lambda c: c.whole('{"object":"list"}'))
    bench.gateway(engine)
    data = report["input"]["bytes"].replace("/v1/chat/completions", "/v1/embeddings").encode()
    assert bench.raw(data, wait=2).startswith(b"HTTP/1.1 200 ")
    head, fields, body = engine.requests[0]
    assert body == b'{"model":"m"} ' and dict(fields)["content-length"] == str(len(body))
    assert not {"transfer-encoding", "trailer", "x-sum"} & {name for name, _ in fields}


@check("B032")
def http_1_0(bench, report):
    bench.gateway(bench.engine(lambda c: c.stream([DELTA % "a", "data: [DONE]\n\n"])))
    body = b'{"model":"m","stream":true,"messages":[{"role":"user"}]}'
    for extra in (b"", b"Connection: keep-alive\r\n", b"Host: a\r\n"):
        received = bench.raw(b"POST /v1/chat/completions HTTP/1.0\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s" % (extra, len(body), body))
        head, payload = received.split(b"\r\n\r\n", 1)
        assert b"transfer-encoding" not in head.lower() and payload == (DELTA % "a" + "data: [DONE]\n\n").encode()
    assert bench.raw(b"GET /livez HTTP/1.1\r\n\r\n", wait=2).startswith(b"HTTP/1.1 400 ")


@check("B034")
def lengths_of_rewritten_bodies(bench, report):
    engine = bench.engine(lambda c: c.whole(ANSWER))
    bench.gateway(engine)
    for model in ("alias", "m"):
        body = b'{"model":"%s","messages":[{"role":"user","content":"x"}],"n":1}    ' % model.encode()
        assert bench.ask(body, connection="keep-alive")[0] == 200
        _, fields, sent = engine.requests[-1]
        assert dict(fields)["content-length"] == str(len(sent)) and json.loads(sent)["model"] == "m"


@check("B035")
def bodies_that_do_not_come(bench, report):
    engine = bench.engine(lambda c: c.whole(ANSWER))
    bench.gateway(engine, limits="body_timeout: 1s")
    data = report["input"]["bytes"].encode()
    assert bench.raw(data).startswith(b"HTTP/1.1 408 ")
    assert bench.raw(data, half_close=True).startswith(b"HTTP/1.1 400 ")
    assert not engine.requests and bench.gate.pool()["in_flight"] == 0


@check("B037", "B044")
def names_are_opaque(bench, report):
    bench.gateway(bench.engine(lambda c: c.whole(ANSWER)))
    names = report["input"].get("names") or [f"gpt-4o-mimi-{i}" for i in range(2000)] + ['x"} 1\nfake 2']
    connection = http.client.HTTPConnection("127.0.0.1", bench.gate.port)
    before = len(fetch(bench.gate.admin + "/metrics")[2])
    for name in names:
        connection.request("POST", "/v1/chat/completions", json.dumps({**WHOLE, "model": name}))
        reply = connection.getresponse()
        error = json.loads(reply.read())["error"]
        good_name = isinstance(name, str) and 0 < len(name.encode()) <= 512
        assert reply.status == (404 if good_name else 400), (name, error)
    page = fetch(bench.gate.admin + "/metrics")[2]
    assert len(page) < before + 4000 and b"mimi" not in page and b"fake" not in page


@check("B041")
def half_written_files(bench, report):
    engine = bench.engine(lambda c: c.whole(ANSWER))
    bench.gateway(engine)
    config = bench.files.config
    text = config.read_text()
    wanted = text + f"  - name: other\n    models: [n1, n2]\n    replicas: [{{url: {engine.url}}}]\n"
    pieces = [wanted[: len(wanted) // 3], wanted[len(wanted) // 3 : len(text) - 3], wanted[len(text) - 3 :]]

    def in_pieces():
        config.write_text("")
        for piece in pieces:
            with config.open("a") as file:
                file.write(piece)
            time.sleep(0.1)

    def renamed():
        replace(config, wanted)

    def removed_and_made():
        config.unlink()
        time.sleep(0.1)
        config.write_text(wanted)

    for write in (in_pieces, renamed, removed_and_made):
        config.write_text(text)
        until(lambda: len(bench.gate.status()["pools"]) == 1)
        write()
        until(lambda: len(bench.gate.status()["pools"]) == 2)
        assert bench.ask(WHOLE)[0] == 200


@check("B043")
def all_or_nothing(bench, report):
    bench.gateway(bench.engine(lambda c: c.whole(ANSWER)))
    text = bench.files.config.read_text()
    replace(bench.files.config, text.replace("8 MiB", "2 KiB") + "otlp: {endpoint: nonsense}\n")
    until(lambda: bench.gate.status()["reloads_failed"] > 0)
    big = {**WHOLE, "messages": [{"role": "user", "content": "x" * 5000}]}
    assert bench.ask(big)[0] == 200  # the limit of the refused file is not in force
    assert "otlp.endpoint" in bench.gate.status()["last_reload_error"]


@check("B053")
def hung_behind_a_good_health(bench, report):
    engine = bench.engine(lambda c: c.wait_until_closed())
    engine.page["vllm:num_requests_running"] = 2
    good = bench.engine(lambda c: c.whole(ANSWER))
    bench.gateway(engine, good, pool="no_progress_timeout: 1s")
    until(lambda: any("hangs" in (r["failure"] or "") for r in bench.gate.pool()["replicas"]))
    before = len(engine.requests)
    assert [bench.ask(WHOLE)[0] for _ in range(20)] == [200] * 20
    assert len(engine.requests) - before <= 3  # now and then one real request looks whether it lives
    engine.respond = lambda c: c.whole(ANSWER)
    engine.page.update({"vllm:num_requests_running": 0})
    until(lambda: bench.ask(WHOLE)[0] == 200 and all(r["failure"] is None or "returning" in r["failure"] for r in bench.gate.pool()["replicas"]))


@check("B056")
def one_probe_at_a_time(bench, report):
    engine = bench.engine(lambda c: c.close())
    bench.gateway(engine)
    for i in range(4):
        bench.ask({**WHOLE, "seed": i})
    assert bench.gate.pool()["replicas"][0]["failure"]
    engine.stop()
    until(lambda: bench.ask({**WHOLE, "seed": 99})[0] == 503)
    slow = bench.engine(lambda c: (time.sleep(1), c.whole(ANSWER)), port=engine.port)
    replies = []
    callers = [threading.Thread(target=lambda i=i: replies.append(bench.ask({**WHOLE, "seed": 100 + i})[0]), daemon=True)
               for i in range(100)]
    until(lambda: fetch(bench.gate.url + "/readyz")[0] == 200)
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert slow.most_active == 1 and replies.count(200) == 1 and replies.count(503) == 99


@check("B058")
def two_limits_for_silence(bench, report):
    def late(wait, gaps, comments=0):
        def respond(connection):
            connection.send(HEAD)
            time.sleep(wait)
            for _ in range(comments):
                connection.chunk(b": still here\n\n")
                time.sleep(0.3)
            for gap in gaps:
                connection.chunk((DELTA % "a").encode())
                time.sleep(gap)
            connection.chunk(b"data: [DONE]\n\n")
            connection.send(b"0\r\n\r\n")

        return respond

    def run(respond):
        bench.gateway(bench.engine(respond), limits="between_tokens_timeout: 1s, keepalive_interval: 400ms")
        status, _, body, _ = bench.ask()
        assert status == 200 and body.endswith(b"data: [DONE]\n\n")
        return b'"error"' not in body

    assert run(late(3, [0.1] * 10))  # the first may take longer than the others
    assert run(late(0, [0.7, 0.7, 0]))
    assert not run(late(0, [1.4, 0]))
    assert not run(late(0, [], comments=30))  # comments keep the connection, not the request


@check("B061")
def keep_alive_within_a_stream(bench, report):
    def respond(connection):
        connection.stream(report["input"]["upstream_writes"], end=False)
        time.sleep(1.5)
        connection.chunk((DELTA % "b").encode())
        connection.chunk(b"data: [DONE]\n\n")
        connection.send(b"0\r\n\r\n")

    bench.gateway(bench.engine(respond), limits="keepalive_interval: 400ms")
    body = bench.ask()[2].decode()
    assert body.count(": keep-alive\n") >= 2 and ": keep-alive\n\n" not in body
    assert body.replace(": keep-alive\n", "") == report["input"]["upstream_writes"][0] + DELTA % "b" + "data: [DONE]\n\n"


@check("B062")
def odd_budgets(bench, report):
    engine = bench.engine(lambda c: c.whole(ANSWER))
    pinned(bench, engine, TRUNCATING)
    for field in report["input"]["field"]:
        for value in report["input"]["values"]:
            text = value if isinstance(value, str) and value.startswith("1e400") else json.dumps(value)
            text = "1e400" if text.startswith("1e400") else text
            before = len(engine.requests)
            status, _, _, _ = bench.ask(b'{"model":"m","%s":%s,"messages":[{"role":"user","content":"x"}]}' % (field.encode(), text.encode()))
            if len(engine.requests) > before:
                sent = json.loads(engine.requests[-1][2])[field]
                assert status == 200 and (value is None or value == 0 or 1 <= sent <= 64), (field, value, sent)
                assert value not in (0,) or sent == 0  # never raised
            else:
                assert status == 400, (field, value)
    both = {**WHOLE, "max_tokens": 500, "max_completion_tokens": 400}
    bench.ask(both)
    sent = json.loads(engine.requests[-1][2])
    assert sent["max_tokens"] <= 64 and sent["max_completion_tokens"] <= 64


@check("B064")
def one_broken_event(bench, report):
    for record in same_bytes(bench, report["input"]["writes"]):
        assert record["unreadable_events"] == 1 and record["usage"] == "counted"
        assert bench.metric("spillway_unreadable_events_total") == 1


@check("B065")
def poison(bench, report):
    engines = []

    def dies(connection):
        if b"poison" not in connection.body:
            connection.whole(ANSWER)
            return
        connection.engine_dies()

    for _ in range(3):
        engine = bench.engine(None)

        def respond(connection, engine=engine):
            if b"poison" in connection.body:
                engine.stop()
            else:
                connection.whole(ANSWER)

        engine.respond = respond
        engines.append(engine)
    bench.gateway(*engines)
    bad = {**WHOLE, "messages": [{"role": "user", "content": "poison"}]}
    status, headers, body, _ = bench.ask(bad)
    assert status == 502 and json.loads(body)["error"]["code"] == "poison_request" and headers["x-should-retry"] == "false"
    assert bench.ask(bad)[0] == 502
    assert sum(b"poison" in request[2] for engine in engines for request in engine.requests) == 2
    assert bench.ask(WHOLE)[0] == 200  # the third is still alive


def reports():
    return {r["id"]: r for r in map(json.loads, REPORTS.read_text().splitlines())} if REPORTS.exists() else {}


@pytest.mark.skipif(not REPORTS.exists(), reason="../shared/data/bugs.jsonl is not here")
@pytest.mark.parametrize("report", sorted(CHECKS))
def test_report(report, folder, started):
    CHECKS[report](Bench(folder, started), reports()[report])


@pytest.mark.skipif(not REPORTS.exists(), reason="../shared/data/bugs.jsonl is not here")
def test_every_report_is_accounted_for():
    assert set(reports()) == set(CHECKS) | set(LATER)


def main():
    if not REPORTS.exists():
        print(f"{REPORTS} is not here: nothing was checked")
        return 2
    failed = 0
    for name, report in reports().items():
        if name in LATER:
            print(f"{name}  {report['area']:<16} not here    {LATER[name]}")
            continue
        running = []

        def start(kind, *arguments, **options):
            process = kind(*arguments, **options)
            running.append(process)
            return process

        with tempfile.TemporaryDirectory() as folder:
            try:
                CHECKS[name](Bench(pathlib.Path(folder), start), report)
                verdict = "handled"
            except Exception as error:  # the list goes on
                verdict, failed = f"NOT handled: {type(error).__name__}: {str(error)[:300]}", failed + 1
            for process in reversed(running):
                process.stop()
        print(f"{name}  {report['area']:<16} {verdict:<11} {report['symptom']}", flush=True)
    print(f"{len(CHECKS) - failed} handled, {failed} not, {len(LATER)} not here")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
