"""The gateway and a simulated engine as real processes: what callers and operators see."""
import http.server
import json
import re
import signal
import socket
import subprocess
import threading

from conftest import BINARY, ROOT, Engine, Files, Gateway, Process, fetch, replace, until

CHAT = {"model": "sim", "max_tokens": 5, "messages": [{"role": "user", "content": "hello"}]}


def ask(gateway, body=None, **headers):
    headers = {key.replace("_", "-"): value for key, value in headers.items()}
    return fetch(gateway.url + "/v1/chat/completions", body or CHAT, headers)


def test_health_and_unknown_paths(pair):
    assert fetch(pair.url + "/livez")[0] == 200
    assert fetch(pair.url + "/readyz")[0] == 200
    status, _, body = fetch(pair.url + "/nowhere")
    assert status == 404 and json.loads(body)["error"]["code"] == "not_found"
    assert fetch(pair.url + "/metrics")[0] == 404  # not on the callers' port
    assert fetch(pair.url + "/sim/faults", {"fault": "die"})[0] == 404  # an engine's own paths are not reachable


def test_request_id_class_and_trace_reach_the_log(pair):
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    _, headers, _ = ask(pair, x_request_id="my-id-1", x_spillway_class="critical", traceparent=trace)
    assert headers["x-request-id"] == "my-id-1"
    record = until(lambda: [r for r in pair.records() if r["request_id"] == "my-id-1"])[0]
    assert record["class"] == "critical"
    assert record["trace_id"] == "0af7651916cd43dd8448eb211c80319c"
    assert record["outcome"] == "ok" and record["output_tokens"] == 5
    assert "hello" not in json.dumps(pair.log())  # prompts are not logged
    _, headers, _ = ask(pair, x_request_id="bad id")
    assert headers["x-request-id"].startswith("req-")


def test_bad_bodies(pair):
    def status_of(body):
        return fetch(pair.url + "/v1/chat/completions", body.encode())[0]

    assert status_of("{") == 400
    assert status_of("x" * 70000) == 413
    assert fetch(pair.url + "/livez")[0] == 200


def test_duplicate_keys_that_python_would_take_silently(pair):
    """Python's parser keeps the last of two equal keys; the gateway refuses them, so that no two readers differ."""
    pairs = [
        ('"max_tokens":1', '"max_tokens":1000'),
        ('"model":"sim"', '"model":"alias"'),
        ('"stream":false', '"stream":true'),
        ('"max_tokens":1', '"max\\u005ftokens":1000'),
    ]
    for first, second in pairs:
        body = '{"model":"sim",%s,%s,"messages":[{"role":"user","content":"x"}]}' % (first, second)
        if first.startswith('"model"'):
            body = '{%s,%s,"messages":[{"role":"user","content":"x"}]}' % (first, second)
        assert json.loads(body)  # Python accepts it
        status, _, reply = fetch(pair.url + "/v1/chat/completions", body.encode())
        assert status == 400 and json.loads(reply)["error"]["code"] == "duplicate_key", body


def test_operators_pages(pair):
    ask(pair)
    page = until(
        lambda: (text := fetch(pair.admin + "/metrics")[2].decode()) and 'outcome="ok"' in text and text
    )
    assert re.search(r'^spillway_requests_total\{pool="chat",class="normal",outcome="ok"\} 1$', page, re.M)
    pool = pair.pool()
    assert pool["level"] == 0 and pool["replicas"][0]["reachable"]
    assert fetch(pair.admin + "/nowhere")[0] == 404


def test_a_caller_that_goes_away_stops_the_engines_work(pair):
    with socket.create_connection(("127.0.0.1", pair.port)) as caller:
        body = json.dumps({**CHAT, "max_tokens": 5000, "ignore_eos": True, "stream": True})
        caller.sendall(
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        assert caller.recv(100)
        until(lambda: pair.engine.metric("vllm:num_requests_running") == 1)
    until(lambda: pair.engine.metric("vllm:num_requests_running") == 0)
    until(lambda: [r for r in pair.records() if r["outcome"] == "caller_gone"])


def test_engine_faults_give_clean_errors_and_the_gateway_stays_up(pair):
    engine = pair.engine
    stream = {**CHAT, "stream": True, "max_tokens": 20, "ignore_eos": True}

    engine.fault(fault="wrong_status", status=500)
    assert ask(pair)[0] == 500
    engine.fault(fault="error_event", status=503)
    assert ask(pair, stream)[0] == 503
    engine.fault(fault="cut", after_tokens=3)
    status, _, body = ask(pair, stream)
    assert status == 200 and b'"error"' in body and body.endswith(b"data: [DONE]\n\n") and b'"stop"' not in body
    engine.fault(fault="malformed_chunk", after_tokens=3)
    assert ask(pair, stream)[2].endswith(b"data: [DONE]\n\n")
    engine.fault(fault="stall", after_tokens=3)
    status, _, body = ask(pair, stream)
    assert b"did not answer in time" in body
    engine.fault(fault="hang", for_s=60)
    assert ask(pair, stream)[0] == 504
    engine.fault(fault="none")
    assert until(lambda: ask(pair)[0] == 200)
    outcomes = [r["outcome"] for r in pair.records()]
    assert {"engine_error", "engine_cut", "timeout", "ok"} <= set(outcomes)


def test_a_dead_engine_is_noticed_and_found_again(folder, started):
    first = started(Engine)
    gateway = started(Gateway, Files(folder, first).config)
    until(lambda: fetch(gateway.url + "/readyz")[0] == 200)
    port = first.port
    first.stop(signal.SIGKILL)
    assert ask(gateway)[0] in (502, 503)
    until(lambda: fetch(gateway.url + "/readyz")[0] == 503)
    status, headers, _ = ask(gateway)
    assert status == 503 and int(headers["retry-after"]) >= 1
    started(Engine, port=port)
    until(lambda: ask(gateway)[0] == 200)


def test_another_replica_takes_over(folder, started):
    first, second = started(Engine), started(Engine)
    gateway = started(Gateway, Files(folder, first, second).config)
    until(lambda: fetch(gateway.url + "/readyz")[0] == 200)
    first.stop(signal.SIGKILL)
    assert [ask(gateway)[0] for _ in range(10)] == [200] * 10


def test_reload_takes_valid_files_and_refuses_others(folder, started):
    engine = started(Engine)
    files = Files(folder, engine)
    gateway = started(Gateway, files.config)
    until(lambda: fetch(gateway.url + "/readyz")[0] == 200)

    replace(files.policy, files.policy.read_text().replace("version: 1.0.0", "version: 2.0.0"))
    until(lambda: gateway.status()["policy"]["version"] == "2.0.0")
    replace(files.policy, files.policy.read_text().replace("dwell:", "dwel:"))
    until(lambda: gateway.status()["reloads_failed"] == 1)
    status = gateway.status()
    assert status["policy"]["version"] == "2.0.0"
    assert 'did you mean "dwell"?' in status["last_reload_error"]
    assert ask(gateway)[0] == 200
    replace(files.policy, (ROOT / "examples/simulate/policy.yaml").read_text())
    until(lambda: gateway.status()["policy"]["version"] == "1.0.0")
    gateway.child.send_signal(signal.SIGHUP)
    until(lambda: any(line.get("message", "").startswith("SIGHUP") for line in gateway.log()))


def test_stopping_lets_streams_finish(pair):
    replies = []
    body = {**CHAT, "max_tokens": 60, "ignore_eos": True, "stream": True}
    caller = threading.Thread(target=lambda: replies.append(ask(pair, body)), daemon=True)
    caller.start()
    until(lambda: pair.pool()["in_flight"] == 1)
    assert pair.stop() == 0
    caller.join()
    assert replies[0][0] == 200 and replies[0][2].endswith(b"data: [DONE]\n\n")


def test_pinned_level_degrades_visibly(folder, started):
    engine = started(Engine)
    gateway = started(Gateway, Files(folder, engine).config, "--pin-level", "2")
    until(lambda: gateway.pool()["level"] == 2)
    status, headers, body = ask(gateway, {**CHAT, "max_tokens": 500, "ignore_eos": True})
    assert status == 200 and headers["x-spillway-level"] == "2"
    assert headers["x-spillway-actions"] == "budget=48"
    assert json.loads(body)["usage"]["completion_tokens"] == 48


def test_the_ladder_climbs_before_it_refuses_and_comes_back(folder, started):
    engine = started(Engine)
    quick = (ROOT / "examples/simulate/policy.yaml").read_text()
    quick = quick.replace("window: 30s", "window: 4s").replace("up: 10s", "up: 1s").replace("down: 30s", "down: 1s")
    gateway = started(Gateway, Files(folder, engine, policy=quick).config)
    until(lambda: fetch(gateway.url + "/readyz")[0] == 200)
    stop = threading.Event()

    def caller():
        while not stop.is_set():
            ask(gateway, {**CHAT, "max_tokens": 150, "ignore_eos": True})

    callers = [threading.Thread(target=caller, daemon=True) for _ in range(150)]
    for thread in callers:
        thread.start()
    until(lambda: gateway.pool()["level"] == 3)
    stop.set()
    for thread in callers:
        thread.join()
    until(lambda: gateway.pool()["level"] == 0)
    records = gateway.records()
    first_refusal = next((i for i, r in enumerate(records) if r["outcome"] == "refused"), len(records))
    first_degraded = next(i for i, r in enumerate(records) if r["level"] > 0)
    assert first_degraded < first_refusal
    changes = [line for line in gateway.log() if line.get("event") == "level"]
    assert all(abs(c["to"] - c["from"]) == 1 and c["reason"] for c in changes)


def run(*arguments):
    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_check_says_what_is_wrong(folder, started):
    code, out, _ = run("check", ROOT / "examples/simulate/spillway.yaml", ROOT / "examples/simulate/policy.yaml")
    assert code == 0 and out.count("valid") == 2
    engine = started(Engine)
    files = Files(folder, engine)
    files.policy.write_text(files.policy.read_text().replace("window: 30s", "window: 30"))
    code, out, _ = run("check", files.config)
    assert code == 1
    assert re.search(r'policy\.yaml:9: spec\.pressure\.window: "30" is not a duration; give a number', out), out


def test_wrong_calls_exit_with_2_and_help_with_0():
    assert run("serve")[0] == 2
    assert run("nonsense")[0] == 2
    code, out, _ = run("serve", "--help")
    assert code == 0 and "Example" in out


def test_a_taken_port_names_its_holder(pair, folder):
    config = Files(folder, pair.engine).config
    taken = Process("serve", "--config", config, "--listen", f"127.0.0.1:{pair.port}", "--admin-listen", "127.0.0.1:0")
    assert taken.child.wait(timeout=60) == 1
    taken.stop()
    assert re.search(r"held by spillway \(pid \d+\); choose another with --listen", "".join(taken.err))


def test_spans_reach_an_otlp_collector(folder, started):
    bodies = []

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append((self.path, json.loads(self.rfile.read(int(self.headers["content-length"])))))
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    engine = started(Engine)
    files = Files(folder, engine)
    endpoint = f"http://127.0.0.1:{collector.server_port}/v1/traces"
    files.config.write_text(files.config.read_text() + f"otlp: {{endpoint: {endpoint}}}\n")
    gateway = started(Gateway, files.config)
    until(lambda: fetch(gateway.url + "/readyz")[0] == 200)
    trace = "0af7651916cd43dd8448eb211c80319c"
    ask(gateway, x_request_id="spanned", traceparent=f"00-{trace}-b7ad6b7169203331-01")
    ask(gateway, x_request_id="unsampled", traceparent=f"00-{trace}-b7ad6b7169203331-00")

    def spans():
        return [
            span
            for path, body in bodies
            for scope in body["resourceSpans"][0]["scopeSpans"]
            for span in scope["spans"]
            if path == "/v1/traces" and span["traceId"] == trace
        ]

    (span,) = until(spans)
    assert span["parentSpanId"] == "b7ad6b7169203331" and span["name"] == "POST /v1/chat/completions"
    texts = {a["key"]: a["value"].get("stringValue") for a in span["attributes"]}
    assert texts["spillway.request_id"] == "spanned" and texts["spillway.outcome"] == "ok"
    assert int(span["endTimeUnixNano"]) > int(span["startTimeUnixNano"])
    (record,) = [r for r in gateway.records() if r["request_id"] == "spanned"]
    assert record["trace_id"] == trace and record["span_id"] == span["spanId"]
    collector.shutdown()
