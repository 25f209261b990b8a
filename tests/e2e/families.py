#!/usr/bin/env python3
"""Exports of many families train with PyTorch's numbers: every gradient, losses and norms of tests/golden/families (made by golden/families.py).

families.py [NAME...]
"""
import json
import sys

from support import GOLDEN, check_run, finish, run, scratch

# What the export itself says is seen where it is compiled without a checkpoint.
ALONE = ("dictionaries", "groups")
# Of the first loss, each gradient, the losses and the norms of a run. fp32: the limits of golden.py. In bf16 half as much again as PyTorch's own run in that type
# is off its fp32 run, where that is more: a bias of keys has next to no gradient, a rounding may choose another expert. fp16: tests/long/families.py.
LIMITS = {"fp32": (1e-5, 5e-5, 1e-4, 1e-4), "bf16": (4e-3, 4e-2, 6e-3, 2e-2)}


def limits_of(golden, precision):
    own = golden["own_differences"].get(precision)
    if not own:
        return LIMITS[precision]
    return [max(limit, 1.5 * x) for limit, x in zip(LIMITS[precision], (own["loss"], own["gradient"], own["losses"], own["norms"][-1]))]


for folder in sorted(p.parent for p in (GOLDEN / "families").glob("*/golden.json")):
    if sys.argv[1:] and folder.name not in sys.argv[1:]:
        continue
    golden = json.loads((folder / "golden.json").read_text())
    weights = [f"--weights={folder / 'model.safetensors'}"]
    for precision, given in [*((precision, weights) for precision in LIMITS), *([("fp32", [])] if folder.name in ALONE else [])]:
        with scratch() as work:
            plan = work / "plan.bin"
            compiled = run("ztc", "compile", folder / "model.onnx", *given, f"--batch={golden['batch']}", f"--seq={golden['seq']}", f"--precision={precision}",
                           "--target=x86-64-v3", "-o", plan)
            if compiled.returncode == 0:
                print(precision, *given)
                check_run(folder, golden, plan, work, *limits_of(golden, precision))
finish()
