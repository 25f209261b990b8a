#!/usr/bin/env python3
"""One thread and two give the same bits, over whole runs of 30 steps: losses, norms, and every weight at the end."""
import json

from support import GOLDEN, check, compile_golden, finish, optimizer_arguments, read_log, run, scratch

with scratch() as work:
    # The last one has rows and columns that no tile divides, and products large enough to be cut.
    for name, batch, seq in (("grouped", 2, 16), ("head-norms", 2, 16), ("tied", 2, 16), ("grouped", 5, 61)):
        plan = compile_golden(work, name, batch=batch, seq=seq)
        golden = json.loads((GOLDEN / name / "golden.json").read_text())
        whole = (batch, seq) == (golden["batch"], golden["seq"])
        runs = {}
        for threads in (1, 2):
            out, log = work / f"out{threads}", work / f"log{threads}"
            options = [f"--threads={threads}", f"--log-json={log}", "--overwrite"]
            if whole:
                options += [f"--data={GOLDEN / name / 'data.safetensors'}", f"--export={out}", *optimizer_arguments(golden)]
            else:
                options += ["--device=cpu"]
            run("ztc-run", plan, "--steps=30", *options)
            steps = read_log(log)[1]
            runs[threads] = ([(s["loss"], s["grad_norm"]) for s in steps],
                             (out / "model.safetensors").read_bytes() if whole else b"")
        where = f"{name} B={batch} S={seq}"
        check(f"{where}: 30 losses and norms", len(runs[1][0]) == 30 and runs[1][0] == runs[2][0])
        if whole:
            check(f"{where}: every weight after 30 steps", len(runs[1][1]) > 0 and runs[1][1] == runs[2][1])
finish()
