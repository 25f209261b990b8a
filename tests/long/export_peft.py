#!/usr/bin/env python3
"""ztc compile --adapter or --lora -> ztc-run --export -> PeftModel.from_pretrained: every tensor finds its place, the same loss; merged by PEFT and by ztc-run too.

export_peft.py [NAME...]
"""
import array
import json
import os
import pathlib
import sys
import warnings

os.environ["TRANSFORMERS_NO_ADVISORY_WARNINGS"] = "1"
HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / "e2e")]
import peft  # noqa: E402
import torch  # noqa: E402
from support import GOLDEN, ROOT, check, finish, optimizer_arguments, read_log, run, scratch, write_safetensors  # noqa: E402
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText  # noqa: E402

CASES = {p.name: [f"--adapter={p}"] for p in sorted((GOLDEN / "adapters").iterdir())}
FRESH = {"fresh-llama": ("llama-heads", "r=8,alpha=16,targets=all-linear"), "fresh-gpt2": ("gpt2", "r=4,alpha=4,targets=all-linear,init=orthogonal"),
         "fresh-phi3": ("phi3-short", "r=4,alpha=8,targets=qkv_proj+down_proj,rslora=true,init=gaussian"), "fresh-tied": ("gemma", "r=4,alpha=8,targets=q_proj,save=norm"),
         "fresh-latent": ("deepseek-v32", "r=4,alpha=8,targets=q_a_proj+kv_b_proj+o_proj"),
    "fresh-difference": ("diffllama", "r=4,alpha=8,targets=all-linear"),
    "fresh-hyper": ("hy-v4", "r=4,alpha=8,targets=q_a_proj+q_b_proj+o_proj"),
    "fresh-jet": ("jetmoe", "r=4,alpha=8,targets=all-linear"),
    "fresh-dora": ("llama-heads", "r=4,alpha=8,targets=all-linear,dora=true")}


def loaded(folder):
    has_vision = "vision_config" in json.loads((folder / "config.json").read_text())
    return (AutoModelForImageTextToText if has_vision else AutoModelForCausalLM).from_pretrained(folder, dtype=torch.float32)


def loss_of(model, ids, labels):
    with torch.no_grad():
        logits = model(input_ids=torch.tensor(ids), use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), torch.tensor(labels)[:, 1:].flatten(), ignore_index=-100).item()


def same_loss(name, folder, arguments, work):
    golden = json.loads((folder / "golden.json").read_text())
    rows = {key: ([golden["steps"], golden["batch"], golden["seq"]], array.array("q", [x for b in golden[key] for row in b for x in row]))
            for key in ("input_ids", "labels")}
    write_safetensors(work / "data.safetensors", rows)
    write_safetensors(work / "one.safetensors", {key: ([1, *shape[1:]], values[:len(values) // golden["steps"]]) for key, (shape, values) in rows.items()})
    plan, tuned = work / "plan.bin", work / "tuned"
    run("ztc", "compile", folder, "-o", plan, "--target=host", f"--batch={golden['batch']}", f"--seq={golden['seq']}", "--precision=fp32", *arguments)
    common = [plan, *optimizer_arguments(golden["optimizer"])]
    run("ztc-run", *common, f"--data={work / 'data.safetensors'}", f"--steps={golden['steps']}", f"--export={tuned}")
    run("ztc-run", *common, f"--data={work / 'one.safetensors'}", "--steps=1", f"--adapter={tuned}", f"--log-json={work / 'log'}")
    mine = read_log(work / "log")[1][0]["loss"]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = peft.PeftModel.from_pretrained(loaded(folder), tuned).eval()
    missing = [str(w.message)[:200] for w in said if "missing" in str(w.message).lower() and "base_layer" not in str(w.message)]
    check(f"{name}: PEFT finds every tensor", not missing, missing[:1])
    ids, labels = golden["input_ids"][0], golden["labels"][0]
    theirs = loss_of(model, ids, labels)
    check(f"{name}: the same loss in PEFT", abs(mine - theirs) <= 1e-5, (mine, theirs))
    if "lora_bias" not in str(arguments) and not json.loads((tuned / "adapter_config.json").read_text()).get("lora_bias") and "tied" not in name:
        merged = loss_of(model.merge_and_unload(), ids, labels)
        check(f"{name}: the same loss merged by PEFT", abs(mine - merged) <= 1e-4, (mine, merged))
        whole = work / "whole"
        run("ztc-run", *common, f"--data={work / 'data.safetensors'}", f"--steps={golden['steps']}", f"--export={whole}", "--merge", "--export-dtype=fp32")
        merged = loss_of(loaded(whole), ids, labels)
        check(f"{name}: the same loss merged by ztc-run, in transformers", abs(mine - merged) <= 1e-4, (mine, merged))


names = sys.argv[1:]
for name, arguments in CASES.items():
    if not names or name in names:
        with scratch() as work:
            same_loss(name, ROOT / "tests/folders" / json.loads((GOLDEN / "adapters" / name / "golden.json").read_text())["folder"], arguments, work)
for name, (folder, words) in FRESH.items():
    if not names or name in names:
        with scratch() as work:
            same_loss(name, ROOT / "tests/folders" / folder, [f"--lora={words}"], work)
finish()
