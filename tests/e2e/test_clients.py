"""The official OpenAI clients, unmodified."""
import os
import pathlib
import shutil
import subprocess

import openai
import pytest

from conftest import ROOT, until


def client_of(pair):
    return openai.OpenAI(base_url=pair.url + "/v1", api_key="any", max_retries=0)


def test_python_chat_whole(pair):
    reply = client_of(pair).chat.completions.create(
        model="sim", messages=[{"role": "user", "content": "hello"}], max_tokens=7
    )
    assert len(reply.choices[0].message.content.split()) == 7
    assert reply.choices[0].finish_reason == "length"
    assert reply.usage.completion_tokens == 7


def test_python_chat_streamed_token_by_token(pair):
    stream = client_of(pair).chat.completions.create(
        model="sim", messages=[{"role": "user", "content": "hello"}], max_tokens=7, stream=True
    )
    chunks = list(stream)
    assert sum(1 for c in chunks if c.choices and c.choices[0].delta.content) == 7
    assert chunks[-1].choices[0].finish_reason == "length"
    assert all(c.usage is None for c in chunks)


def test_python_usage_only_where_asked(pair):
    stream = client_of(pair).chat.completions.create(
        model="alias",
        messages=[{"role": "user", "content": "hello"}],
        max_tokens=3,
        stream=True,
        stream_options={"include_usage": True},
    )
    assert list(stream)[-1].usage.completion_tokens == 3


def test_python_completions_and_models(pair):
    client = client_of(pair)
    reply = client.completions.create(model="sim", prompt="once upon", max_tokens=4)
    assert len(reply.choices[0].text.split()) == 4
    assert [m.id for m in client.models.list()] == ["sim", "alias"]


def test_python_sees_typed_errors(pair):
    client = client_of(pair)
    with pytest.raises(openai.NotFoundError) as raised:
        client.chat.completions.create(model="nowhere", messages=[{"role": "user", "content": "x"}])
    assert raised.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="sim", messages=[])


CHAT = {"model": "sim", "messages": [{"role": "user", "content": "hello"}]}


def test_python_retries_when_it_was_told_to_come_back(pair):
    """The engine is full for a moment; the client obeys retry-after-ms and is served."""
    pair.engine.fault(fault="wrong_status", status=503, for_s=0.4)
    client = openai.OpenAI(base_url=pair.url + "/v1", api_key="any", max_retries=4)
    reply = client.chat.completions.create(**CHAT, max_tokens=3, extra_headers={"x-spillway-class": "critical"})
    assert reply.usage.completion_tokens == 3
    with pytest.raises(openai.InternalServerError) as raised:
        pair.engine.fault(fault="wrong_status", status=503, for_s=5)
        client_of(pair).chat.completions.create(**CHAT)
    assert int(raised.value.response.headers["retry-after"]) >= 1
    pair.engine.fault(fault="none")


def test_python_sees_an_error_in_the_stream(pair):
    pair.engine.fault(fault="cut", after_tokens=3)
    stream = client_of(pair).chat.completions.create(**CHAT, max_tokens=20, stream=True, extra_body={"ignore_eos": True})
    pieces = []
    with pytest.raises(openai.APIError) as raised:
        for chunk in stream:
            pieces.append(chunk)
    assert pieces and raised.value.code == "engine_cut"
    pair.engine.fault(fault="none")


def test_python_timeouts(pair):
    pair.engine.fault(fault="slow_first_token", delay_s=30, for_s=60)
    with pytest.raises(openai.InternalServerError) as raised:  # the class's own time, as a status
        client_of(pair).chat.completions.create(**CHAT, stream=True, extra_headers={"x-spillway-first-token-timeout-ms": "300"})
    assert raised.value.status_code == 504 and raised.value.code == "timeout"
    with pytest.raises(openai.APITimeoutError):  # the client's
        client_of(pair).with_options(timeout=0.3).chat.completions.create(**CHAT)
    pair.engine.fault(fault="none")
    until(lambda: pair.pool()["in_flight"] == 0)


def test_python_leaves_a_stream(pair):
    with client_of(pair).chat.completions.create(**CHAT, max_tokens=3000, stream=True, extra_body={"ignore_eos": True}) as stream:
        next(iter(stream))
    until(lambda: pair.engine.metric("vllm:num_requests_running") == 0)
    assert until(lambda: [r for r in pair.records() if r["outcome"] == "caller_gone"])


def test_node_client(pair):
    modules = ROOT / "build/node/node_modules"
    if not shutil.which("node") or not modules.exists():
        pytest.skip("node or its openai package is not here")
    script = pathlib.Path(__file__).with_name("node_client.mjs")
    copy = ROOT / "build/node/node_client.mjs"  # modules are found from where the script lies
    copy.write_text(script.read_text())
    done = subprocess.run(
        ["node", copy], env={**os.environ, "BASE_URL": pair.url + "/v1", "ENGINE_URL": pair.engine.url}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:6] == [
        "whole 7 length",
        "streamed 7 length",
        "error 404 model_not_found",
        "timeout 504 timeout",
        "retried 3",
        "left",
    ]
    until(lambda: pair.engine.metric("vllm:num_requests_running") == 0)
