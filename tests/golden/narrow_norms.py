#!/usr/bin/env python3
"""How far training in bf16 and fp16 strays from a recorded fp32 run: PyTorch's own ways to do it, and ztc's logs beside them.

  narrow_norms.py FOLDER WEIGHTS [--way NAME ...] [--log NAME=LOG.jsonl ...] [--steps N] [--threads T]

FOLDER holds config.json, batches.safetensors (input_ids, labels: steps x batch x sequence) and golden.json (losses, grad_norms_preclip and the
settings of AdamW). WEIGHTS is the model before the first step (a folder with model.safetensors: `ztc-run --lr=0 --export`); LOG is a
`--log-json` of ztc-run on the same data and settings. Prints each way's deviation step by step: losses absolute, norms relative.
"""
import argparse
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file

# storage of parameters and activations, autocast type, initial loss scale, type the weights are rounded through once before the run
WAYS = {
    "fp32": (torch.float32, None, 1.0, None),
    "fp32, weights rounded to bf16 once": (torch.float32, None, 1.0, torch.bfloat16),
    "fp32, weights rounded to fp16 once": (torch.float32, None, 1.0, torch.float16),
    "bf16": (torch.bfloat16, None, 1.0, None),
    "bf16 autocast": (torch.float32, torch.bfloat16, 1.0, None),
    "fp16": (torch.float16, None, 2.0 ** 16, None),
}


def loss_of(model, ids, labels):
    logits = model(input_ids=ids).logits.float()
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)


def train(way, folder, weights, golden, steps):
    """Losses and norms before clipping. The optimizer always works on fp32 masters; a narrow model is rounded from them after each step."""
    storage, autocast, scale, rounded = WAYS[way]
    settings = golden["adamw"]
    config = transformers.AutoConfig.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    left = model.load_state_dict(load_file(weights / "model.safetensors"), strict=False)
    if left.unexpected_keys or any("lm_head" not in x for x in left.missing_keys):
        sys.exit(f"{weights} does not fit {folder}: {left}")
    if rounded:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(parameter.to(rounded))
    masters = [torch.nn.Parameter(p.detach().clone()) for p in model.parameters()]
    model = model.to(storage)
    decay = settings["weight_decay"]
    optimizer = torch.optim.AdamW([{"params": [p for p in masters if p.ndim >= 2], "weight_decay": decay},
                                   {"params": [p for p in masters if p.ndim < 2], "weight_decay": 0.0}],
                                  lr=settings["lr"], betas=settings["betas"], eps=settings["eps"], foreach=False)
    batches = load_file(folder / "batches.safetensors")
    losses, norms = [], []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = settings["lrs"][step]
        with torch.autocast("cpu", autocast or torch.bfloat16, enabled=autocast is not None):
            loss = loss_of(model, batches["input_ids"][step], batches["labels"][step])
        (loss * scale).backward()
        for master, parameter in zip(masters, model.parameters()):
            master.grad, parameter.grad = parameter.grad.float() / scale, None
        norm = torch.nn.utils.clip_grad_norm_(masters, settings["clip_grad_norm"]).item()
        if norm != norm or norm == float("inf"):
            sys.exit(f"{way}: the gradients of step {step} overflow at a loss scale of {scale}")
        optimizer.step()
        with torch.no_grad():
            for master, parameter in zip(masters, model.parameters()):
                parameter.copy_(master)
        losses.append(loss.item())
        norms.append(norm)
        print(f"{way} step {step}: loss {loss.item():.5f} norm {norm:.5f}", file=sys.stderr, flush=True)
    return losses, norms


def logged(path):
    lines = [json.loads(x) for x in pathlib.Path(path).read_text().splitlines()]
    steps = [x for x in lines if "step" in x and "loss" in x and "event" not in x]
    return [x["loss"] for x in steps], [x["grad_norm"] for x in steps]


def table(title, want, runs, deviation):
    print(f"\n| step | recorded {title} | " + " | ".join(runs) + " |\n|" + "---|" * (len(runs) + 2))
    for step, value in enumerate(want):
        print(f"| {step} | {value:.4f} | " + " | ".join(f"{deviation(x[step], value):.1e}" for x in runs.values()) + " |")
    worst = {name: max(deviation(x, y) for x, y in zip(values, want)) for name, values in runs.items()}
    print("| largest | | " + " | ".join(f"{worst[name]:.1e}" for name in runs) + " |")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("weights", type=pathlib.Path)
parser.add_argument("--way", action="append", choices=WAYS)
parser.add_argument("--log", action="append", default=[], metavar="NAME=LOG")
parser.add_argument("--steps", type=int)
parser.add_argument("--threads", type=int, default=1)
arguments = parser.parse_args()
torch.set_num_threads(arguments.threads)
golden = json.loads((arguments.folder / "golden.json").read_text())
steps = arguments.steps or len(golden["losses"])
runs = {way: train(way, arguments.folder, arguments.weights, golden, steps) for way in arguments.way or WAYS}
runs |= {name: logged(log) for name, log in (x.split("=", 1) for x in arguments.log)}
table("loss", golden["losses"][:steps], {name: run[0] for name, run in runs.items()}, lambda x, y: abs(x - y))
table("norm", golden["grad_norms_preclip"][:steps], {name: run[1] for name, run in runs.items()}, lambda x, y: abs(x - y) / y)
