"""The embedded engine on the real model, through the gateway. Skipped where the model has not been fetched."""
import json

import pytest

from conftest import ROOT, Files, Gateway, Process, fetch, until

MODEL = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
# Generous times: under the thread sanitizer the engine takes seconds for a prompt.
CONFIG = """
policy: policy.yaml
limits: {{between_tokens_timeout: 120s}}
classes: {{normal: {{first_token_timeout: 300s}}}}
pools:
  - name: chat
    models: [smollm2-135m]
    replicas: [{replicas}]
    priority_scheduling: true
    no_progress_timeout: 300s
"""
QUESTION = [{"role": "user", "content": "What is a dam for?"}]


class Embedded(Process):
    def __init__(self):
        super().__init__("engine", "--model", MODEL, "--port", 0, "--name", "smollm2-135m")
        self.port = int(self.wait_for(r"listening on http://127\.0\.0\.1:(\d+)").group(1))
        self.url = f"http://127.0.0.1:{self.port}"


@pytest.fixture
def gateway(folder, started):
    if not MODEL.exists():
        pytest.skip("the model is not here: tools/fetch_model")
    engine = started(Embedded)
    gateway = started(Gateway, Files(folder, engine, config=CONFIG).config)
    gateway.engine = engine
    until(lambda: fetch(gateway.url + "/readyz")[0] == 200)
    return gateway


def ask(gateway, **body):
    body = {"model": "smollm2-135m", "temperature": 0, "max_tokens": 12, "messages": QUESTION, **body}
    return fetch(gateway.url + "/v1/chat/completions", body)


def test_answers_sensibly_the_same_streamed_and_not(gateway):
    status, _, body = ask(gateway)
    reply = json.loads(body)
    text = reply["choices"][0]["message"]["content"]
    assert status == 200 and "dam is a structure" in text
    _, _, stream = ask(gateway, stream=True)
    events = [json.loads(line[6:]) for line in stream.decode().split("\n") if line.startswith("data: {")]
    pieces = [e["choices"][0]["delta"].get("content") or "" for e in events]
    assert "".join(pieces) == text and sum(map(bool, pieces)) > 5


def test_stop_strings_budgets_and_seeds(gateway):
    _, _, body = ask(gateway, stop=["structure"])
    assert "structure" not in json.loads(body)["choices"][0]["message"]["content"]
    assert json.loads(body)["choices"][0]["finish_reason"] == "stop"
    _, _, body = ask(gateway, max_tokens=3)
    assert json.loads(body)["usage"]["completion_tokens"] == 3
    drawn = [json.loads(ask(gateway, temperature=1, seed=7)[2])["choices"][0]["message"]["content"] for _ in range(2)]
    assert drawn[0] == drawn[1]


def test_requests_that_can_not_be_served(gateway):
    status, _, body = ask(gateway, max_tokens=100000)
    assert status == 400 and json.loads(body)["error"]["code"] == "context_length_exceeded"
    status, _, _ = ask(gateway, messages=[{"role": "user", "content": "word " * 20000}])
    assert status == 400
