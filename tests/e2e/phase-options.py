#!/usr/bin/env python3
"""IR between two phases knows what the phases before were told: `--from` needs none of it again, refuses what contradicts it, and the plan says the truth."""
import json

from support import GOLDEN, check, finish, run, scratch

MODEL = GOLDEN / "grouped" / "model.onnx"
OPTIONS = ["--batch=2", "--seq=16", "--precision=fp16", "--optimizer-state=bf16", "--zero=1", "--freeze=embed_tokens", "--no-decay=q_proj", "--lr-of=q_proj=2",
           "--target=x86-64-v3"]


def described(plan):
    """The options that a plan says it was made with."""
    words = run("ztc", "inspect", plan).stdout.split()
    return {x.split("=")[0]: x.split("=", 1)[1] for x in words if x.startswith("--") and "=" in x}


with scratch() as work:
    whole = work / "whole.bin"
    run("ztc", "compile", MODEL, *OPTIONS, "-o", whole)
    for phase in ("import", "precision", "shard", "assign", "plan"):
        ir, plan = work / f"{phase}.mlir", work / f"{phase}.bin"
        run("ztc", "compile", MODEL, *OPTIONS, f"--to={phase}", "-o", ir)
        if phase == "import":
            continue
        done = run("ztc", "compile", ir, f"--from={phase}", *[x for x in OPTIONS if phase == "precision" and "zero" in x or "target" in x and phase != "plan"], "-o", plan)
        check(f"{phase}: the plan says what it was made with", described(plan) == described(whole), (described(plan), described(whole)))
    for phase, options in (("import", ["batch=4", "seq=8", "weights=nothing", "input=tokens=input_ids", "padding-token=3"]),
                           ("precision", ["precision=bf16", "optimizer-state=fp32", "freeze=norm", "no-decay=k_proj", "lr-of=k_proj=3", "batch=3", "seq=32"]),
                           ("shard", ["zero=3"]), ("plan", ["recompute=cheap", "prefetch=3", "target=x86-64-v4", "zero=0", "precision=fp32"])):
        for option in options:
            name = option.split("=")[0]
            done = run("ztc", "compile", work / f"{phase}.mlir", f"--from={phase}", f"--{option}", "-o", work / "x.bin", expect=2)
            lines = done.stderr.splitlines()
            check(f"{phase}: --{option} comes too late", len(lines) == 1 and lines[0].startswith(f"ztc: --{name}: the input is IR after phase {phase}"), done.stderr)
    # A pass of a phase that is over has run; one of a later phase is left out.
    done = run("ztc", "compile", work / "precision.mlir", "--from=precision", "--disable-pass=ztc-build-generate", "-o", work / "x.bin", expect=2)
    check("--disable-pass of a phase that is over", done.stderr == "ztc: --disable-pass=ztc-build-generate: no pipeline of this compilation has that pass (--print-pipeline lists them)\n", done.stderr)
    done = run("ztc", "compile", work / "precision.mlir", "--from=precision", "--disable-pass=ztc-merge-products", "--target=x86-64-v3", "-o", work / "x.bin")
    check("--disable-pass of a phase to come stands in the plan", described(work / "x.bin").get("--disable-pass") == "ztc-merge-products", described(work / "x.bin"))
    done = run("ztc", "compile", work / "shard.mlir", "--from=shard", "--zero=1", "--batch=2", "--precision=fp16", "-o", work / "same.bin")
    notes = [x for x in done.stderr.splitlines() if "note:" in x]
    check("what the IR has is a note", len(notes) == 3 and all("which has it already" in x for x in notes), done.stderr)
    done = run("ztc", "memory", work / "shard.mlir", "--from=shard", "--zero=0,3", expect=2)
    check("ztc memory: other stages come too late", "--zero" in done.stderr and "--zero=1" in done.stderr, done.stderr)
    rows = json.loads(run("ztc", "memory", work / "shard.mlir", "--from=shard", "--json").stdout)["rows"]
    check("ztc memory: the stage is that of the IR", [x["zero"] for x in rows] == [1], rows)
finish()
