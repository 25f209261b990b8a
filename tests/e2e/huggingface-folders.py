#!/usr/bin/env python3
"""Hugging Face folders against transformers (tests/folders, made by make.py there): losses, gradients, norms; every way of writing a config.json."""
import array
import json
import math
import os
import re
import shutil
import sys

from support import ROOT, check, finish, optimizer_arguments, read_log, read_safetensors, run, scratch, write_safetensors

# accept limits of the goldens: fp32 is some fifty times what a second route through PyTorch differs by
LIMITS = {"fp32": (1e-5, 5e-5, 1e-4, 2e-4), "bf16": (4e-3, 4e-2, 6e-3, 2e-2)}
FOLDERS = ROOT / "tests/folders"
# Where products add their biases, or residuals and biases, or give GELU before they are rounded, the limits are the same. How many products add a bias, a residual, give GELU, and
# how many kernels a micro-step launches less: OPT's scaled queries and rectified hidden values have kernels in any case, which add their biases too, and so have Qwen2's k and v, here of 20 columns.
BIASES = ["--pass-option=ztc-fuse-biases.enabled=true"]
BOTH = [*BIASES, "--pass-option=ztc-fuse-residuals.enabled=true"]
ALL = [*BOTH, "--pass-option=ztc-fuse-activations.enabled=true"]
FUSED = {"gpt2": [(BIASES, (8, 0, 0, 4)), (BOTH, (8, 4, 0, 7)), (ALL, (8, 4, 2, 13))], "qwen2": [(BIASES, (2, 0, 0, 2)), (BOTH, (2, 4, 0, 6))],
         "opt-behind": [(BIASES, (12, 0, 0, 2)), (BOTH, (12, 4, 0, 2))]}


def kind(name):
    return re.sub(r"\d+", "*", name)


def norms(path):
    return {name: math.sqrt(sum(x * x for x in values)) for name, (_, values) in read_safetensors(path).items()}


def steps_of(plan):
    """Of a micro-step: how many products have a bias, a residual and GELU, and how many steps there are."""
    steps = [step["kind"] for step in json.loads(run("ztc", "inspect", plan, "--json").stdout)["programs"]["microstep"]]
    return *(sum(kind.startswith("gemm") and what in kind for kind in steps) for what in ("+ bias", "+ d", "gelu")), len(steps)

# Experts that hand a token on stand beside others.
DENSE = ("longcat-flash",)


def train(folder, golden, precision, work, options=(), expected=()):
    shape = [golden["batch"], golden["seq"]]
    write_safetensors(work / "data.safetensors", {key: ([golden["steps"], *shape], array.array("q", [x for b in golden[key] for row in b for x in row]))
                                                  for key in ("input_ids", "labels")})
    plan = work / f"{'fused' if options else precision}.bin"
    compiled = run("ztc", "compile", folder, "-o", plan, "--target=host", f"--batch={shape[0]}", f"--seq={shape[1]}", f"--precision={precision}", *options,
                   expect=None)
    if compiled.returncode:
        return check(f"{folder.name}: compiles for {precision}", False, compiled.stderr[-600:])
    isDense = "all of them compute it" in compiled.stderr
    check(f"{folder.name}: {precision}: {'a' if folder.name in DENSE else 'no'} mixture stays dense", isDense == (folder.name in DENSE), compiled.stderr[-600:])
    if options:
        usual, fused = steps_of(work / "bf16.bin"), steps_of(plan)
        check(f"{folder.name}: kernels of what products add are gone", (*usual[:3], *fused[:3], usual[3] - fused[3]) == (0, 0, 0, *expected), (usual, fused))
    done = run("ztc-run", plan, f"--data={work / 'data.safetensors'}", f"--steps={golden['steps']}", f"--log-json={work / precision}", "--overwrite",
               f"--dump-gradients={work / 'gradients'}", *optimizer_arguments(golden["optimizer"]))
    if done.returncode:
        return
    _, steps = read_log(work / precision)
    first, gradient, losses, sizes = LIMITS[precision]
    # In bf16 a sum that cancels has few digits, and near experts change places: where PyTorch's own is far off, ours may be twice as far.
    # What a parameter is in one layer it is in all: a key's bias has no gradient but rounding's in any.
    own = {}
    for name, error in (golden.get("own_errors", {}) if precision == "bf16" else {}).items():
        own[kind(name)] = max(error, own.get(kind(name), 0))
    first, losses = max(first, 2 * own.get("loss", 0)), max(losses, 2 * own.get("loss", 0), 2 * own.get("losses", 0))
    sizes = max(sizes, 2 * own.get("gradient_norms", 0))
    error = abs(steps[0]["loss"] - golden["losses"][0])
    check(f"{folder.name}: {precision}: first loss", error <= first, error)
    mine, want = norms(work / "gradients"), golden["gradients"]
    check(f"{folder.name}: {precision}: gradients have the checkpoint's names", set(mine) == set(want), sorted(set(mine) ^ set(want))[:4])
    largest = max(want.values())
    errors = {n: abs(mine[n] - want[n]) / max(want[n], 1e-3 * largest) for n in set(mine) & set(want)}
    worst = max(((error * gradient / max(gradient, 2 * own.get(kind(n), 0)), n) for n, error in errors.items()), default=None)
    check(f"{folder.name}: {precision}: worst norm of a gradient", worst and worst[0] <= gradient, worst)
    for what, key, limit, relative in (("loss", "losses", losses, False), ("grad_norm", "gradient_norms", sizes, True)):
        errors = sorted(abs(s[what] - w) / (abs(w) if relative else 1) for s, w in zip(steps, golden[key]))
        if relative and precision != "fp32" and errors and errors[-1] < 0.3:
            errors[-1] = errors[-2]  # one step of six may amplify a rounding
        check(f"{folder.name}: {precision}: {what} over {golden['steps']} steps", len(errors) == golden["steps"] and max(errors) <= limit, max(errors, default=None))


def imported(folder):
    """The graph without what is particular to this copy of the folder."""
    done = run("ztc", "compile", folder, "--to=import", "--batch=1", "--seq=20", "--precision=fp32")
    return done.stdout.replace(str(folder), "FOLDER")


def writings(folder, work):
    """Every other config.json gives the same graph."""
    copy = work / folder.name
    shutil.copytree(folder, copy)
    usual = imported(copy)
    for config in sorted(folder.glob("config-*.json")):
        shutil.copy(config, copy / "config.json")
        check(f"{folder.name}: {config.name} gives the same graph", imported(copy) == usual != "")


names = sys.argv[1:] or os.environ.get("ZTC_FOLDERS", "").split()
for folder in sorted(p for p in FOLDERS.iterdir() if (p / "golden.json").exists() and (not names or p.name in names)):
    golden = json.loads((folder / "golden.json").read_text())
    with scratch() as work:
        for precision in LIMITS:
            train(folder, golden, precision, work)
        for options, expected in FUSED.get(folder.name, ()):
            train(folder, golden, "bf16", work, options, expected)
        writings(folder, work)
finish()
