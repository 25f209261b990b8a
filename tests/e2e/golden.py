#!/usr/bin/env python3
"""Whole runs against PyTorch: every gradient, losses, norms and learning rates of tests/golden (made by make.py there)."""
import json
import math

from support import GOLDEN, check, compile_golden, finish, optimizer_arguments, read_log, read_safetensors, run, scratch

# fp32: the limits are some fifty times what a second route through PyTorch differs by.
LOSS, GRADIENT, RUN, NORM = 1e-5, 5e-5, 1e-4, 1e-4

for folder in sorted(p for p in GOLDEN.iterdir() if p.is_dir()):
    golden = json.loads((folder / "golden.json").read_text())
    with scratch() as work:
        plan = compile_golden(work, folder.name, batch=golden["batch"], seq=golden["seq"])
        done = run("ztc-run", plan, f"--data={folder / 'data.safetensors'}", f"--steps={golden['steps']}",
                   f"--log-json={work / 'log'}", f"--dump-gradients={work / 'gradients'}", *optimizer_arguments(golden))
        if done.returncode:
            continue
        head, steps = read_log(work / "log")
        check(f"{folder.name}: allocated = predicted", head["allocated_bytes"] == head["predicted_bytes"] == sum(head["by_class"].values()))
        check(f"{folder.name}: first loss", abs(steps[0]["loss"] - golden["losses"][0]) <= LOSS, abs(steps[0]["loss"] - golden["losses"][0]))
        mine, want = read_safetensors(work / "gradients"), read_safetensors(folder / "golden.safetensors")
        check(f"{folder.name}: gradients have PyTorch's names", set(mine) == set(want), sorted(set(mine) ^ set(want))[:4])
        largest, worst = max(math.sqrt(sum(x * x for x in v)) for _, v in want.values()), (0.0, "")
        for name in set(mine) & set(want):
            (shape, g), (expected, w) = mine[name], want[name]
            check(f"{folder.name}: shape of {name}", shape == expected) if shape != expected else None
            norm = math.sqrt(sum(x * x for x in w))
            error = math.sqrt(sum((a - b) ** 2 for a, b in zip(g, w))) / max(norm, 1e-3 * largest)
            worst = max(worst, (error, name))
        check(f"{folder.name}: worst gradient, relative L2", worst[0] <= GRADIENT and worst[1], worst)
        for what, key, limit, relative in (("loss", "losses", RUN, False), ("grad_norm", "gradient_norms", NORM, True), ("lr", "rates", 1e-5, True)):
            errors = [abs(s[what] - w) / (abs(w) if relative else 1) for s, w in zip(steps, golden[key])]
            check(f"{folder.name}: {what} over {golden['steps']} steps", len(errors) == golden["steps"] and max(errors) <= limit, max(errors, default=None))
finish()
