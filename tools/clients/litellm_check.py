"""LiteLLM as a caller: whole, streamed, text completions, embeddings' error, an unknown model, retries."""
import sys

import litellm

url = sys.argv[1] + "/v1"
options = {"api_base": url, "api_key": "none", "timeout": 20}
ask = {"messages": [{"role": "user", "content": "What is a dam for?"}], "max_tokens": 12}
reply = litellm.completion(model="openai/sim", **ask, **options)
assert reply.choices[0].message.content and reply.usage.completion_tokens == 12, reply
print(f"completion: {reply.usage.completion_tokens} tokens, {reply.choices[0].finish_reason}")
pieces = list(litellm.completion(model="openai/sim", stream=True, stream_options={"include_usage": True}, **ask, **options))
text = "".join(p.choices[0].delta.content or "" for p in pieces if p.choices)
usage = [p.usage for p in pieces if getattr(p, "usage", None)]
assert text and usage[-1].completion_tokens == 12, pieces
print(f"stream: {len(pieces)} pieces, usage {usage[-1].completion_tokens}")
reply = litellm.text_completion(model="text-completion-openai/sim", prompt="Once", max_tokens=8, **options)
assert reply.choices[0].text
print("text completion")
try:
    litellm.completion(model="openai/nobody", **ask, **options)
    raise AssertionError("an unknown model was accepted")
except litellm.NotFoundError:
    print("unknown model: NotFoundError")
reply = litellm.completion(model="openai/sim", num_retries=2, extra_headers={"x-spillway-class": "critical"}, **ask, **options)
assert reply.choices
print("with retries and a class")
