#!/usr/bin/env python3
"""What --recompute=auto makes of a row of budgets: prints a table. No run, no kernels.

  tests/bench/budget-table.py MODEL.onnx [ztc memory's options...] -- 160GiB 150GiB 140GiB
"""
import json
import os
import pathlib
import subprocess
import sys
import time

ztc = pathlib.Path(os.environ.get("ZTC_BIN", pathlib.Path(__file__).resolve().parents[2] / "build/bin")) / "ztc"
arguments, budgets = sys.argv[1:sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1:]
print("| budget | peak, GiB | left, MiB | computed again: groups by block | step, by the cost model | search |\n|---|---|---|---|---|---|")
for budget in budgets:
    before = time.monotonic()
    done = subprocess.run([ztc, "memory", *arguments, f"--mem={budget}", "--json"], capture_output=True, text=True, check=True)
    taken = time.monotonic() - before
    for row in json.loads(done.stdout)["rows"]:
        left = row["budget_bytes"] - row["peak_bytes"] - row["reserved_bytes"]
        more = 100 * (row["cost_model_seconds"] / row["cost_model_seconds_kept"] - 1)
        print(f"| {budget} | {row['peak_bytes'] / 2**30:.2f} | {left / 2**20:.0f} | {row['recomputed'].replace('/', ', ')} | +{more:.1f} % | {taken:.1f} s |")
