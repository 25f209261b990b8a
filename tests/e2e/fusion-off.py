#!/usr/bin/env python3
"""Fusion changes no bit: whole runs of 30 steps with every group split into single ops, against the same runs with fusion on. In bf16 and fp16
what fusion keeps in registers is rounded there as if it had been stored."""
import json

from support import GOLDEN, check, compile_golden, finish, optimizer_arguments, read_log, run, scratch


def compile_split(work, name, precision, batch, seq):
    """The plan of a golden model in which no kernel holds two ops (the optimizer's excepted)."""
    fused, split, plan = work / "fused.mlir", work / "split.mlir", work / f"{name}-split.bin"
    options = [f"--batch={batch}", f"--seq={seq}", f"--precision={precision}"]
    run("ztc", "compile", GOLDEN / name / "model.onnx", *options, "--to=fuse", "-o", fused)
    run("ztc-opt", fused, "--ztc-split-groups", "-o", split)
    run("ztc", "compile", split, *options, "--from=fuse", "-o", plan)
    return plan


def steps_of(plan):
    return sum(len(x) for x in json.loads(run("ztc", "inspect", plan, "--json").stdout)["programs"].values())


for name, precision in (("grouped", "fp32"), ("head-norms", "fp32"), ("tied", "fp32"), ("head-norms", "bf16"), ("grouped", "fp16")):
    golden = json.loads((GOLDEN / name / "golden.json").read_text())
    case = f"{name} {precision}"
    with scratch() as work:
        plans = {"on": compile_golden(work, name, f"--precision={precision}", batch=golden["batch"], seq=golden["seq"]),
                 "off": compile_split(work, name, precision, golden["batch"], golden["seq"])}
        check(f"{case}: more steps without fusion", steps_of(plans["off"]) > 1.5 * steps_of(plans["on"]))
        runs = {}
        for key, plan in plans.items():
            out, log = work / f"out-{key}", work / f"log-{key}"
            run("ztc-run", plan, "--steps=30", "--threads=2", f"--data={GOLDEN / name / 'data.safetensors'}", f"--export={out}", f"--log-json={log}",
                *optimizer_arguments(golden))
            runs[key] = ([(s["loss"], s["grad_norm"]) for s in read_log(log)[1]], (out / "model.safetensors").read_bytes())
        check(f"{case}: 30 losses and norms", len(runs["on"][0]) == 30 and runs["on"][0] == runs["off"][0])
        check(f"{case}: every weight after 30 steps", runs["on"][1] == runs["off"][1])
finish()
