#!/usr/bin/env python3
"""Configurations of well-known models as they are published (tests/folders/published.py): each has the published number of parameters, and checks and plans with fewer
layers; what ztc does not read is refused by its name."""
import json
import re
import sys

from support import ROOT, check, finish, run, scratch

sys.path.append(str(ROOT / "tests/folders"))
from published import PUBLISHED, REFUSED  # noqa: E402

LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
PER_LAYER = ("layer_types", "no_rope_layers", "attention_layers", "hybrid_override_pattern")
MOST_NODES = 600  # experts of all layers: a graph of more takes half a minute


def part(config):
    config = config.get("thinker_config", config)
    return config.get("text_config", config)


def parameters(folder):
    """How many elements the parameters of the imported graph have."""
    done = run("ztc", "compile", folder, "--to=import", "--batch=1", "--seq=16")
    header = next((line for line in done.stdout.splitlines() if "func.func @forward" in line), "")
    count = 0
    for shape in re.findall(r"tensor<([0-9x]+)xf32> {[^}]*graph.role = #graph.role<parameter>", header):
        elements = 1
        for size in shape.split("x"):
            elements *= int(size)
        count += elements
    return count


def smaller(config):
    """Two layers, four experts."""
    config = json.loads(json.dumps(config))
    text = part(config)
    text.update({key: 2 for key in LAYERS if key in text})
    text.update({key: min(value, 4) for key, value in text.items() if key in EXPERTS})
    text.update({key: value[:2] for key, value in text.items() if key in PER_LAYER})
    text.update({key: 2 for key in ("num_experts_per_tok", "num_experts_per_token") if key in text})
    if text.get("n_group", 1) and text.get("n_group", 1) > 1:
        text.update(n_group=2, topk_group=1)
    if "linear_attn_config" in text:
        text["linear_attn_config"] |= {"full_attn_layers": [2], "kda_layers": [1]}
    if "attention_types" in text:
        text["attention_types"] = [[["global", "local"], 1]]
    return config


names = sys.argv[1:]
with scratch() as work:
    for name, (config, count) in PUBLISHED.items():
        if names and name not in names:
            continue
        folder = work / name
        folder.mkdir()
        text = part(config)
        experts = next((text[key] for key in EXPERTS if key in text), 0) * next((text[key] for key in LAYERS if key in text), 0)
        if experts <= MOST_NODES or names:
            (folder / "config.json").write_text(json.dumps(config))
            found = parameters(folder)
            check(f"{name}: {count} parameters", found == count, found)
        (folder / "config.json").write_text(json.dumps(smaller(config)))
        done = run("ztc", "check", folder, "--batch=1", "--seq=16", expect=None)
        check(f"{name}: ztc check", done.returncode == 0 and "the plan compiles" in done.stdout, (done.stdout + done.stderr)[-300:] if done.returncode else "")
        if not any(key in text for key in EXPERTS):
            (folder / "config.json").write_text(json.dumps(config))
        done = run("ztc", "compile", folder, "--verify", "--to=import", "-o", work / "small.mlir", expect=None)
        check(f"{name}: its small form", "2 x 8 tokens" in done.stdout, done.stderr[-300:])
        (folder / "config.json").write_text(json.dumps(smaller(config)))
        done = run("ztc", "memory", folder, "--batch=1", "--seq=16", expect=None)
        check(f"{name}: ztc memory", done.returncode == 0, done.stderr[-300:] if done.returncode else "")
    for name, (config, message) in REFUSED.items():
        if names and name not in names:
            continue
        folder = work / name
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        for command in ("check", "memory"):
            done = run("ztc", command, folder, expect=None)
            said = done.stdout + done.stderr
            check(f"{name}: ztc {command} refuses it", done.returncode == 1 and message in said, said[-300:] if message not in said else "")
finish()
