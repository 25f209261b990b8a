#!/usr/bin/env python3
"""PyTorch's side of section fast: trains a random model of a config.json in bf16 (parameters, gradients and moments) with AdamW and prints its pace."""
import argparse
import json
import pathlib
import statistics
import time

import torch
import transformers

parser = argparse.ArgumentParser()
parser.add_argument("config")
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--seq", type=int, required=True)
parser.add_argument("--accumulate", type=int, default=8)
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--compile", action="store_true")
arguments = parser.parse_args()

config = transformers.AutoConfig.for_model(**json.loads(pathlib.Path(arguments.config).read_text()))
config.use_cache = False
config._attn_implementation = "sdpa"
torch.manual_seed(0)
with torch.device("cuda"):
    torch.set_default_dtype(torch.bfloat16)
    model = transformers.AutoModelForCausalLM.from_config(config).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
forward = torch.compile(model) if arguments.compile else model
seconds = []
for _ in range(arguments.steps):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(arguments.accumulate):
        ids = torch.randint(0, config.vocab_size, (arguments.batch, arguments.seq), device="cuda")
        (forward(input_ids=ids, labels=ids).loss / arguments.accumulate).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    seconds.append(time.perf_counter() - start)
tokens = arguments.batch * arguments.seq * arguments.accumulate
print(f"{arguments.config}: PyTorch {torch.__version__} {'compile' if arguments.compile else 'eager'}: "
      f"{tokens / statistics.median(seconds[3:]):.0f} tokens/s, {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
