#!/usr/bin/env python3
"""Writes a Llama of any size as `ztc compile --to=import` would: shapes without weights, for `ztc memory --from=import`.

  tests/bench/llama-ir.py 70b --seq=8192 > llama-70b.mlir
  ztc memory llama-70b.mlir --from=import --zero=3 --gpus=64 --mem=78GiB
"""
import argparse
import re

# width, inner width, blocks, query heads, key/value heads, words; heads of 128
SIZES = {"8b": (4096, 14336, 32, 32, 8, 128256), "70b": (8192, 28672, 80, 64, 8, 128256), "405b": (16384, 53248, 126, 128, 8, 128256)}
HEAD = 128

parser = argparse.ArgumentParser()
parser.add_argument("size", choices=SIZES)
parser.add_argument("--batch", type=int, default=1)
parser.add_argument("--seq", type=int, default=2048)
a = parser.parse_args()
h, f, blocks, heads, kv, words = SIZES[a.size]
rows, q, k = a.batch * a.seq, heads * HEAD, kv * HEAD


def t(*shape, type="f32"):
    return f"tensor<{'x'.join(map(str, shape))}x{type}>"


parameters, lines = [], []


def parameter(name, *shape):
    """An argument of @forward."""
    block = re.search(r"\.layers\.(\d+)\.", name)
    layer = f"graph.layer = {block[1]} : i64, " if block else ""
    parameters.append(f"    %p{len(parameters)}: {t(*shape)} {{graph.role = #graph.role<parameter>, {layer}graph.name = \"{name}.weight\"}}")
    return f"%p{len(parameters) - 1}"


def op(scope, text):
    lines.append(f'    %{len(lines)} = graph.{text} loc("{scope}")')
    return f"%{len(lines) - 1}"


def reshape(scope, x, old, new):
    return op(scope, f"reshape {x} : {old} -> {new}")


def linear(scope, x, n, width):
    return op(scope, f"matmul {x}, {parameter(scope, n, width)} {{transpose_b}} : {t(rows, width)}, {t(n, width)} -> {t(rows, n)}")


def norm(scope, x):
    return op(scope, f"rms_norm {x}, {parameter(scope, h)}, 1.0e-5 : {t(rows, h)}, {t(h)}")


def split(scope, x, n):
    return reshape(scope, x, t(rows, n * HEAD), t(a.batch, a.seq, n, HEAD))


table = t(a.seq, HEAD // 2)
cos, sin = (op("model.rotary_emb", f"constant dense<{value}> : {table}") for value in ("1.0", "0.5"))
flat = reshape("model", "%tokens", t(a.batch, a.seq, type="i32"), t(rows, type="i32"))
x = op("model.embed_tokens", f"embedding {parameter('model.embed_tokens', words, h)}, {flat} : {t(words, h)}, {t(rows, type='i32')} -> {t(rows, h)}")
for i in range(blocks):
    at = f"model.layers.{i}"
    n = norm(f"{at}.input_layernorm", x)
    query, key, value = (split(f"{at}.self_attn", linear(f"{at}.self_attn.{name}_proj", n, width, h), width // HEAD)
                         for name, width in (("q", q), ("k", k), ("v", k)))
    query, key = (op(f"{at}.self_attn", f"rope {y}, {cos}, {sin} : {t(a.batch, a.seq, count, HEAD)}, {table}") for y, count in ((query, heads), (key, kv)))
    out = op(f"{at}.self_attn", f"attention {query}, {key}, {value}, {HEAD ** -0.5} {{causal}} : {t(a.batch, a.seq, heads, HEAD)}, {t(a.batch, a.seq, kv, HEAD)}")
    out = linear(f"{at}.self_attn.o_proj", reshape(f"{at}.self_attn", out, t(a.batch, a.seq, heads, HEAD), t(rows, q)), h, q)
    x = op(at, f"add {x}, {out} : {t(rows, h)}")
    n = norm(f"{at}.post_attention_layernorm", x)
    gate, up = (linear(f"{at}.mlp.{name}_proj", n, f, h) for name in ("gate", "up"))
    x = op(at, f"add {x}, {linear(f'{at}.mlp.down_proj', op(f'{at}.mlp', f'swiglu {gate}, {up} : {t(rows, f)}'), h, f)} : {t(rows, h)}")
logits = t(a.batch, a.seq, words)
y = reshape("lm_head", linear("lm_head", norm("model.norm", x), words, h), t(rows, words), logits)
print(f'module attributes {{graph.model = "llama-{a.size}", graph.batch = {a.batch} : i64, graph.seq = {a.seq} : i64, '
      f"graph.vocabulary = {words} : i64, graph.layers = {blocks} : i64}} {{")
print(f"  func.func @forward(%tokens: {t(a.batch, a.seq, type='i32')} {{graph.role = #graph.role<tokens>}},")
print(",\n".join(parameters) + f") -> ({logits} {{graph.result = #graph.result<logits>}}) attributes {{graph.entry = #graph.entry<forward>}} {{")
print("\n".join(lines))
print(f"    return {y} : {logits}\n  }}\n}}")
