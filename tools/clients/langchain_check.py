"""LangChain's OpenAI chat model against the gateway: whole, streamed, asynchronous, an unknown model, leaving early."""
import asyncio
import sys

import openai
from langchain_openai import ChatOpenAI

url = sys.argv[1] + "/v1"
chat = ChatOpenAI(base_url=url, api_key="none", model="sim", max_tokens=12, timeout=20, max_retries=2)
reply = chat.invoke("What is a dam for?")
assert reply.content and reply.usage_metadata["output_tokens"] == 12, reply
print(f"invoke: {reply.usage_metadata['output_tokens']} tokens, {reply.response_metadata['finish_reason']}")
pieces = list(chat.stream("What is a dam for?", stream_usage=True))
usage = [p.usage_metadata for p in pieces if p.usage_metadata]
assert "".join(p.content for p in pieces) and usage and usage[-1]["output_tokens"] == 12, pieces
print(f"stream: {len(pieces)} pieces, usage {usage[-1]['output_tokens']}")


async def many():
    return await asyncio.gather(*(chat.ainvoke(f"question {i}") for i in range(20)))


assert all(r.content for r in asyncio.run(many()))
print("ainvoke: 20 at once")
try:
    ChatOpenAI(base_url=url, api_key="none", model="nobody", max_retries=0).invoke("x")
    raise AssertionError("an unknown model was accepted")
except openai.NotFoundError as error:
    assert error.code == "model_not_found"
    print("unknown model:", error.code)
for piece in ChatOpenAI(base_url=url, api_key="none", model="sim", max_tokens=2000).stream("x"):
    break
print("left a stream after its first piece")
