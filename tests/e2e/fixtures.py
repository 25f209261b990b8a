#!/usr/bin/env python3
"""Every export of the larger set of fixtures (the folder that ZTC_FIXTURES names) against PyTorch: loss, gradients and eight steps.

One line an export. Graph-only models, which have no goldens, must compile. ZTC_FIXTURES_ONLY=REGEX keeps those whose
"model/export" matches.
"""
import json
import math
import os
import pathlib
import re
import sys

from support import check, finish, read_log, read_safetensors, run, scratch, write_safetensors

LOSS, GRADIENT, RUN, STEPS = 1e-5, 5e-5, 2e-4, 8


def length(values):
    return math.sqrt(sum(x * x for x in values))


def options_of(adamw):
    return [f"--lr={adamw['lr']}", f"--beta1={adamw['betas'][0]}", f"--beta2={adamw['betas'][1]}", f"--epsilon={adamw['eps']}",
            f"--weight-decay={adamw['weight_decay']}", f"--clip={adamw['clip_grad_norm']}", "--schedule=cosine", "--warmup=5",
            f"--min-lr-ratio={adamw['lr_min'] / adamw['lr']}", "--device=cpu", "--no-save"]


def worst_gradient(mine, tensors):
    """The largest relative error, with a floor in the divisor: some gradients are zero in theory."""
    want = {name[5:]: value for name, (_, value) in tensors.items() if name.startswith("grad.")}
    want |= {name[13:]: value for name, (_, value) in tensors.items() if name.startswith("gradsample17.")}
    sampled = {name[13:] for name in tensors if name.startswith("gradsample17.")}
    if set(want) != set(mine):
        return math.inf, f"names {sorted(set(want) ^ set(mine))[:3]}"
    largest, worst = max(map(length, want.values())), (0.0, "none")
    for name, expected in want.items():
        got = mine[name][1][::17] if name in sampled else mine[name][1]
        error = length(a - b for a, b in zip(got, expected)) / max(length(expected), 1e-3 * largest)
        worst = max(worst, (error if len(got) == len(expected) else math.inf, name))
    return worst


def train(work, model, golden, tensors):
    """Compiles and trains as the golden was trained; problems as text."""
    folder = model.parent
    shape, ids = tensors["input_ids"]
    plan, weights = work / "plan.bin", folder / "model.safetensors"
    done = run("ztc", "compile", model, "-o", plan, f"--batch={shape[0]}", f"--seq={shape[1]}", "--precision=fp32", "--target=host",
               *([f"--weights={weights}"] if weights.exists() else []), expect=None)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["no message"])[-1]
    write_safetensors(work / "one.safetensors", {k: ([1, *shape], tensors[k][1]) for k in ("input_ids", "labels")})
    done = run("ztc-run", plan, f"--data={work / 'one.safetensors'}", "--steps=1", f"--dump-gradients={work / 'gradients'}",
               f"--log-json={work / 'log1'}", "--overwrite", *options_of(golden["adamw"]), expect=None)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["no message"])[-1]
    loss = abs(read_log(work / "log1")[1][0]["loss"] - golden["loss"])
    gradient, name = worst_gradient(read_safetensors(work / "gradients"), tensors)
    run("ztc-run", plan, f"--data={folder / 'batches.safetensors'}", f"--steps={len(golden['losses'])}", f"--stop-after={STEPS}",
        f"--log-json={work / 'log'}", "--overwrite", f"--save={work / 'saved'}", *[x for x in options_of(golden["adamw"]) if x != "--no-save"])
    losses = [s["loss"] for s in read_log(work / "log")[1]]
    course = max((abs(a - b) for a, b in zip(losses, golden["losses"])), default=math.inf)
    good = loss <= LOSS and gradient <= GRADIENT and course <= RUN and len(losses) == STEPS
    return "" if good else f"loss {loss:.1e}, gradient of {name} {gradient:.1e}, {len(losses)} losses {course:.1e}"


def main():
    root = os.environ.get("ZTC_FIXTURES")
    if not root:
        print("ZTC_FIXTURES is not set")
        sys.exit(77)
    only = re.compile(os.environ.get("ZTC_FIXTURES_ONLY", ""))
    for folder in sorted(p for p in pathlib.Path(root).iterdir() if p.is_dir()):
        golden = json.loads((folder / "golden.json").read_text()) if (folder / "golden.json").exists() else None
        tensors = read_safetensors(folder / "golden.safetensors") if golden else {}
        for model in sorted(folder.glob("*.onnx")):
            name = f"{folder.name}/{model.stem}"
            if not only.search(name):
                continue
            with scratch() as work:
                if golden:
                    problem = train(work, model, golden, tensors)
                else:
                    done = run("ztc", "memory", model, "--batch=1", "--seq=512", "--target=host", expect=None)
                    problem = done.stderr.strip() if done.returncode else ""
                check(name, not problem, problem)
    finish()


if __name__ == "__main__":
    main()
