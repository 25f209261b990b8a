#!/usr/bin/env python3
"""Makes a table, families x exports: agrees with PyTorch, stops with an error, or other numbers. Needs numpy, safetensors and what golden/families.py made.

  families.py FOLDER [NAME...] [--exports plain,mask] [--precisions fp32,bf16,fp16] [--full]

Loss and every gradient of one batch; with --full also the losses, norms and final weights of a whole run. In 16 bits a limit is half as much again as what
PyTorch's own run in that type is off its fp32 run, where that is more: a rounding may choose another expert. Exit status 1 where one export does not agree,
but for files that onnxruntime does not run as PyTorch either: those may stop with an error, never train to other numbers.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file, save_file

BIN = pathlib.Path(os.environ.get("ZTC_BIN", pathlib.Path(__file__).resolve().parents[2] / "build/bin"))
LIMITS = {  # loss of one batch; gradient of a tensor; losses, norms (relative) and final weights' norms (relative) of a run
    "fp32": (1e-5, 5e-5, 2e-4, 5e-4, 1e-5),
    "bf16": (4e-3, 4e-2, 6e-3, 2e-2, 1e-3),
    "fp16": (5e-4, 6e-3, 2e-3, 6e-3, 3e-4),
}


def limits_of(golden, precision):
    own = golden.get("own_differences", {}).get(precision)
    if precision == "fp32" or not own:
        return LIMITS[precision]
    found = own["loss"], own["gradient"], own["losses"], own["norms"][-1], 0
    return tuple(max(limit, 1.5 * x) for limit, x in zip(LIMITS[precision], found))


def call(program, *arguments):
    return subprocess.run([str(BIN / program), *map(str, arguments)], capture_output=True, text=True, timeout=1200)


def steps_of(log):
    return [s for s in map(json.loads, log.read_text().splitlines()) if "loss" in s and not s.get("event")]


def gradients(golden, tensors, mine, limit):
    """What is wrong with the gradients, in words."""
    want = {k[5:]: v.astype(np.float64) for k, v in tensors.items() if k.startswith("grad.")}
    wrong = []
    if set(want) != set(mine):
        wrong.append(f"gradients missing {sorted(set(want) - set(mine))[:3]}, too many {sorted(set(mine) - set(want))[:3]}")
    scale = max(np.linalg.norm(v) for v in want.values())
    for name in sorted(set(want) & set(mine)):
        if mine[name].shape != want[name].shape:
            wrong.append(f"shape of {name}")
        elif not (error := np.linalg.norm(mine[name] - want[name]) / max(np.linalg.norm(want[name]), 1e-3 * scale)) <= limit:
            wrong.append(f"gradient of {name} off by {error:.2g}")
    return wrong


def whole_run(golden, folder, plan, work, limits, scale):
    _, _, losses, norms, weights = limits
    a, out = golden["adamw"], work / "export"
    done = call("ztc-run", plan, "--device=cpu", f"--data={folder / 'batches.safetensors'}", f"--steps={a['steps']}", f"--log-json={work / 'run'}", "--overwrite", f"--lr={a['lr']}",
                f"--beta1={a['betas'][0]}", f"--beta2={a['betas'][1]}", f"--epsilon={a['eps']}", f"--weight-decay={a['weight_decay']}", f"--clip={a['clip_grad_norm']}",
                "--schedule=cosine", "--warmup=5", f"--min-lr-ratio={a['lr_min'] / a['lr']}", f"--export={out}", "--export-dtype=fp32", *scale)
    if done.returncode:
        return [done.stderr.strip()[-200:]]
    log, wrong = steps_of(work / "run"), []
    if not (error := max(abs(s["loss"] - w) for s, w in zip(log, golden["losses"]))) <= losses:
        wrong.append(f"losses of the run off by {error:.2g}")
    if not (error := max(abs(s["grad_norm"] - w) / w for s, w in zip(log, golden["grad_norms_preclip"]))) <= norms:
        wrong.append(f"norms of the run off by {error:.2g}")
    final = {k: v for part in out.glob("*.safetensors") for k, v in load_file(part).items()}
    large = max(golden["final_param_l2"].values())
    for name, norm in golden["final_param_l2"].items():
        if norm > 0.05 * large and len(golden["param_shapes"][name]) > 1:
            if not abs(np.linalg.norm(final.get(name, np.array(np.nan)).astype(np.float64)) - norm) / norm <= weights:
                wrong.append(f"final {name}")
    return wrong


def examine(folder, kind, precision, full, work):
    """(state, words) of one export."""
    golden, tensors = json.loads((folder / "golden.json").read_text()), load_file(folder / "golden.safetensors")
    limits, scale = limits_of(golden, precision), ["--loss-scale=1024"] if precision == "fp16" else []
    save_file({k: tensors[k][None] for k in ("input_ids", "labels")}, work / "one.safetensors")
    done = call("ztc", "compile", folder / f"{kind}.onnx", "-o", work / "plan", f"--weights={folder / 'model.safetensors'}", f"--batch={golden['B']}",
                f"--seq={golden['S']}", f"--precision={precision}", "--target=x86-64-v3")
    if done.returncode:
        return "error", done.stderr.strip()[-300:]
    done = call("ztc-run", work / "plan", "--device=cpu", f"--data={work / 'one.safetensors'}", "--steps=1", "--no-save", f"--log-json={work / 'log'}", "--overwrite",
                f"--dump-gradients={work / 'gradients'}")
    if done.returncode:
        return "error", done.stderr.strip()[-300:]
    wrong = gradients(golden, tensors, load_file(work / "gradients"), limits[1])
    if not (error := abs(steps_of(work / "log")[0]["loss"] - golden["loss"])) <= limits[0]:
        wrong.insert(0, f"loss off by {error:.2g}")
    if full and not wrong:
        wrong = whole_run(golden, folder, work / "plan", work, limits, scale)
    return ("other numbers", "; ".join(wrong[:4])) if wrong else ("agrees", "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--exports")
    parser.add_argument("--precisions", default="fp32")
    parser.add_argument("--full", action="store_true")
    arguments = parser.parse_args()
    count, failed = {}, 0
    for folder in sorted(p.parent for p in arguments.folder.glob("*/exports.json")):
        if arguments.names and folder.name not in arguments.names:
            continue
        for kind, made in json.loads((folder / "exports.json").read_text()).items():
            if not (folder / f"{kind}.onnx").exists() or (arguments.exports and kind not in arguments.exports.split(",")):
                continue
            for precision in arguments.precisions.split(","):
                with tempfile.TemporaryDirectory() as work:
                    state, words = examine(folder, kind, precision, arguments.full, pathlib.Path(work))
                sound = made == "ok"
                failed += state == "other numbers" or (state == "error" and sound)
                count[state] = count.get(state, 0) + 1
                print(f"{folder.name:20} {kind:20} {precision} {state:14} {words}{'' if sound else ' (' + made + ')'}", flush=True)
    print(", ".join(f"{n} {state}" for state, n in sorted(count.items())))
    sys.exit(1 if failed or not count else 0)


main()
