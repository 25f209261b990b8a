#!/usr/bin/env python3
"""Exports of many families train with PyTorch's numbers: every gradient, losses and norms of tests/golden/families (made by golden/families.py).

families.py [NAME...]
"""
import json
import sys

from support import GOLDEN, check, check_run, finish, run, scratch

# fp32: the limits of golden.py.
LOSS, GRADIENT, RUN, NORM = 1e-5, 5e-5, 1e-4, 1e-4

for folder in sorted(p.parent for p in (GOLDEN / "families").glob("*/golden.json")):
    if sys.argv[1:] and folder.name not in sys.argv[1:]:
        continue
    golden = json.loads((folder / "golden.json").read_text())
    with scratch() as work:
        plan = work / "plan.bin"
        compiled = run("ztc", "compile", folder / "model.onnx", f"--weights={folder / 'model.safetensors'}", f"--batch={golden['batch']}",
                       f"--seq={golden['seq']}", "--precision=fp32", "--target=x86-64-v3", "-o", plan)
        if compiled.returncode == 0:
            check_run(folder, golden, plan, work, LOSS, GRADIENT, RUN, NORM)
finish()
