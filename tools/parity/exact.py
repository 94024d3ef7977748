#!/usr/bin/env python3
"""The model in plain float32, without quantised activations: who is nearer to it, we or the reference?

Usage: tools/parity/exact.py MODEL.gguf      after tools/parity/run, whose files in build/parity it reads
Needs the PyPI packages gguf and numpy. Slow (a minute): it computes every prompt at once.
"""
import json
import pathlib
import sys

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "build" / "parity"
reader = GGUFReader(sys.argv[1])


def field(name):
    return reader.fields[name].contents()


TENSORS = {
    t.name: dequantize(t.data, t.tensor_type).astype(np.float32).reshape(tuple(reversed([int(n) for n in t.shape])))
    for t in reader.tensors
}
HEADS, KV_HEADS = field("llama.attention.head_count"), field("llama.attention.head_count_kv")
LAYERS, WIDTH = field("llama.block_count"), field("llama.embedding_length")
DIM, EPSILON, BASE = WIDTH // HEADS, field("llama.attention.layer_norm_rms_epsilon"), field("llama.rope.freq_base")
OUTPUT = TENSORS.get("output.weight", TENSORS["token_embd.weight"])


def norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * weight


def rope(x, positions):
    angles = positions[:, None] * BASE ** (-np.arange(0, DIM, 2) / DIM)
    c, s = np.cos(angles)[:, None, :], np.sin(angles)[:, None, :]
    out = np.empty_like(x)
    out[..., 0::2] = x[..., 0::2] * c - x[..., 1::2] * s
    out[..., 1::2] = x[..., 0::2] * s + x[..., 1::2] * c
    return out


def forward(tokens):
    n = len(tokens)
    positions = np.arange(n)
    mask = np.triu(np.full((n, n), -1e30, np.float32), 1)
    x = TENSORS["token_embd.weight"][tokens]
    for layer in range(LAYERS):
        w = lambda name: TENSORS[f"blk.{layer}.{name}.weight"]
        h = norm(x, w("attn_norm"))
        q = rope((h @ w("attn_q").T).reshape(n, HEADS, DIM), positions)
        k = rope((h @ w("attn_k").T).reshape(n, KV_HEADS, DIM), positions).repeat(HEADS // KV_HEADS, 1)
        v = (h @ w("attn_v").T).reshape(n, KV_HEADS, DIM).repeat(HEADS // KV_HEADS, 1)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(DIM) + mask
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        x = x + np.einsum("hqk,khd->qhd", scores, v).reshape(n, WIDTH) @ w("attn_output").T
        h = norm(x, w("ffn_norm"))
        gate = h @ w("ffn_gate").T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w("ffn_up").T)) @ w("ffn_down").T
    return norm(x, TENSORS["output_norm.weight"]) @ OUTPUT.T


prompts = json.loads((FOLDER / "logits-in.json").read_text())["prompts"]
ours = json.loads((FOLDER / "logits-out.json").read_text())["prompts"]
count = clear = ours_equal = ours_clear = reference_equal = reference_clear = with_next = clear_with_next = 0
distances = []
for prompt, made in zip(prompts, ours):
    logits = forward(prompt["tokens"])
    for i, position in enumerate(made["positions"]):
        exact = logits[prompt["from"] - 1 + i]
        first, second = np.argsort(-exact)[:2]
        is_clear = exact[first] - exact[second] > 0.1
        count += 1
        clear += is_clear
        ours_equal += position["argmax"] == first
        ours_clear += is_clear and position["argmax"] == first
        top = np.array(position["top"])
        theirs = exact[top[:, 0].astype(int)]
        distances.append(np.median(np.abs((top[:, 1] - top[0, 1]) - (theirs - theirs[0]))[1:]))
        if prompt["from"] + i < len(prompt["tokens"]):  # the reference chose greedily: its token is its argmax
            with_next += 1
            clear_with_next += is_clear
            chosen = prompt["tokens"][prompt["from"] + i] == first
            reference_equal += chosen
            reference_clear += is_clear and chosen
print(f"ours      {ours_equal}/{count} as float32, {ours_clear}/{clear} where its two best differ by more than 0.1")
print(f"reference {reference_equal}/{with_next} as float32, {reference_clear}/{clear_with_next} likewise")
print(f"distance of ours from float32, median over positions: {np.median(distances):.4f}")
