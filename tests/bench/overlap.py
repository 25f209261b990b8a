#!/usr/bin/env python3
"""How much of a slow network hides behind the computation of two CPU ranks (bench-overlap), for several ways of compiling one model, run by turns.
    tests/bench/overlap.py [rounds] [layers] [accumulate] [GB/s]     needs a build with bench-overlap; the model has llama-mini's shape with so many layers (4)"""
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
programs = pathlib.Path(os.environ.get("ZTC_BIN", root / "build/bin"))
rounds, layers, accumulate, rate = (float(x) for x in (sys.argv[1:] + ["5", "4", "1", "0.2"][len(sys.argv) - 1:]))
WAYS = {"each step gathers for itself": [], "early gathers": ["--early-gathers"], "early and kept gathers": ["--early-gathers", "--keep-gathered=all"]}

with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(folder)
    (work / "model").mkdir()
    (work / "model/config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": int(layers), "num_attention_heads": 8,
        "num_key_value_heads": 4, "head_dim": 32, "vocab_size": 1024, "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
        "tie_word_embeddings": False, "initializer_range": 0.02}))
    plans, found = {}, {way: [] for way in WAYS}
    for number, (way, options) in enumerate(WAYS.items()):
        plans[way] = work / f"{number}.bin"
        subprocess.run([programs / "ztc", "compile", work / "model", "--batch=4", "--seq=128", "--precision=fp32", "--zero=3", "--target=host", "-o", plans[way], *options],
                       check=True, stdout=subprocess.DEVNULL)
    for _ in range(int(rounds)):
        for way, plan in plans.items():
            text = subprocess.run([programs / "bench-overlap", plan, "2", str(rate), "30", str(int(accumulate))], check=True, capture_output=True, text=True).stdout
            found[way].append([float(x) for x in re.search(r": ([\d.]+) ms a step, with [\d.]+ GB/s ([\d.]+) ms; the network sleeps ([\d.]+) ms, (-?\d+) %", text).groups()])
            print(f"{way}: {text}", end="", flush=True)
    print(f"\n{int(layers)} layers, M={int(accumulate)}, {rate} GB/s, medians of {int(rounds)} rounds\n")
    print("| gathers | step | with the slow network | sleep | hidden (smallest to largest) |\n|---|---|---|---|---|")
    for way, rows in found.items():
        fast, slow, sleep, hidden = (statistics.median(column) for column in zip(*rows))
        print(f"| {way} | {fast:.0f} ms | {slow:.0f} ms | {sleep:.0f} ms | {hidden:.0f} % ({min(r[3] for r in rows):.0f} to {max(r[3] for r in rows):.0f} %) |")
