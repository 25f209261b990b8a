#!/usr/bin/env python3
"""PyTorch's side of the training benchmark: exports a random Llama to ONNX, or trains it for some steps on random tokens. To train, MODEL may be a folder with a
config.json, whose model gets fresh weights.

  torch_side.py export MODEL OUT.onnx
  torch_side.py train MODEL --batch B --seq S [--steps N] [--seconds S] [--threads T] [--compile] [--mode MODE]
Training prints one JSON object. MODE: fp32; autocast (f32 parameters, products in bf16); bf16 (parameters, gradients and moments in bf16, no masters).
"""
import argparse
import json
import pathlib
import resource
import statistics
import time

import torch
import transformers

SHAPES = {  # hidden, feed-forward, layers, heads, key/value heads, vocabulary, tied
    "llama-mini": (256, 688, 4, 8, 4, 1024, False),
    "llama-deep": (256, 688, 16, 8, 4, 1024, False),  # llama-mini with more layers: for the overlap of communication
    "stories15m": (288, 768, 6, 6, 6, 32000, True),
    "stories110m": (768, 2048, 12, 12, 12, 32000, True),
}


def build(name, seq):
    torch.manual_seed(0)
    if name not in SHAPES:
        return transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(name, use_cache=False), dtype=torch.float32)
    hidden, feed, layers, heads, groups, vocabulary, tied = SHAPES[name]
    config = transformers.LlamaConfig(hidden_size=hidden, intermediate_size=feed, num_hidden_layers=layers, num_attention_heads=heads,
                                      num_key_value_heads=groups, vocab_size=vocabulary, tie_word_embeddings=tied,
                                      max_position_embeddings=max(256, seq), use_cache=False)
    return transformers.LlamaForCausalLM(config)


def export(arguments):
    model = build(arguments.model, arguments.seq).eval()
    dims = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence")}
    torch.onnx.export(model, (), arguments.out, kwargs={"input_ids": torch.zeros(2, 16, dtype=torch.int64)}, dynamo=True,
                      opset_version=18, dynamic_shapes={"input_ids": dims}, external_data=True)


def train(arguments):
    torch.set_num_threads(arguments.threads)
    empty = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    model = build(arguments.model, arguments.seq).to(torch.bfloat16 if arguments.mode == "bf16" else torch.float32).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    forward = torch.compile(model) if arguments.compile else model
    seconds = []
    while len(seconds) < 2 or (len(seconds) < arguments.steps and sum(seconds) < arguments.seconds):
        ids = torch.randint(0, model.config.vocab_size, (arguments.batch, arguments.seq))
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=arguments.mode == "autocast"):
            loss = forward(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds[2:] or seconds[1:])
    print(json.dumps({"model": arguments.model, "torch": torch.__version__, "tokens_per_second": arguments.batch * arguments.seq / median,
                      "peak_bytes_without_import": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - empty}))


def known_model(name):
    if name in SHAPES or pathlib.Path(name, "config.json").is_file():
        return name
    raise argparse.ArgumentTypeError(f"'{name}' is neither a folder with a config.json nor one of {', '.join(SHAPES)}")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("what", choices=["export", "train"])
parser.add_argument("model", type=known_model)
parser.add_argument("out", nargs="?")
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--seq", type=int, default=128)
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--seconds", type=float, default=120, help="after these no step begins, but for the second")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--compile", action="store_true")
parser.add_argument("--mode", choices=["fp32", "autocast", "bf16"], default="fp32")
arguments = parser.parse_args()
export(arguments) if arguments.what == "export" else train(arguments)
