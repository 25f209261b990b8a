#!/usr/bin/env python3
"""Whole runs against PyTorch: every gradient, losses, norms and learning rates of tests/golden (made by make.py there)."""
import json

from support import GOLDEN, check, check_run, compile_golden, finish, scratch

# fp32: the limits are some fifty times what a second route through PyTorch differs by.
LOSS, GRADIENT, RUN, NORM = 1e-5, 5e-5, 1e-4, 1e-4

for folder in sorted(p.parent for p in GOLDEN.glob("*/golden.json")):
    golden = json.loads((folder / "golden.json").read_text())
    with scratch() as work:
        plan = compile_golden(work, folder.name, batch=golden["batch"], seq=golden["seq"])
        if done := check_run(folder, golden, plan, work, LOSS, GRADIENT, RUN, NORM):
            head = done[0]
            check(f"{folder.name}: allocated = predicted", head["allocated_bytes"] == head["predicted_bytes"] == sum(head["by_class"].values()))
finish()
