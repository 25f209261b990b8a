#!/usr/bin/env python3
"""`ztc compile --explain-passes`: a row for each phase with what its options change; the rows add up to the plan that is written, whose memory and time
`ztc memory` knows too."""
import json
import re

from support import GOLDEN, check, finish, run, scratch

model = GOLDEN / "grouped" / "model.onnx"
shape = ["--batch=2", "--seq=16", "--threads=1", "--target=x86-64-v3"]
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
PHASES = ("import", "backward", "precision", "shard", "recompute", "fuse", "schedule", "assign")


def table(text):
    """Rows by their names: cells by heading."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("what changes a step"))
    headings = lines[first + 1].split()
    rows = {}
    for line in lines[first + 2:]:
        cells = re.split(r"  +", line.strip())
        if len(cells) == len(headings) + 1:
            rows[cells[0]] = dict(zip(headings, cells[1:]))
    return rows


def size(text):
    number, unit = text.lstrip("+-").split()
    return float(number) * UNITS[unit] * (-1 if text.startswith("-") else 1)


with scratch() as work:
    plain = table(run("ztc", "compile", model, *shape, "--explain-passes", "-o", work / "plan.bin").stdout)
    check("a row for each phase", all(f"phase {phase}" in plain for phase in PHASES), list(plain))
    check("by default nothing differs from the default", all(set(plain[f"phase {phase}"].values()) == {"."} for phase in PHASES), plain)

    options = ["--precision=fp32", "--zero=3", "--recompute=layer"]
    rows = table(run("ztc", "compile", model, *shape, *options, "--gpus=2", "--explain-passes", "-o", work / "plan.bin").stdout)
    check("fp32 needs more memory than bf16", rows["phase precision"]["peak"].startswith("+"), rows)
    check("the shards of two ranks need less, and more is sent", rows["phase shard"]["peak"].startswith("-") and rows["phase shard"]["sent"].startswith("+"), rows)
    check("what is computed again costs FLOPs", rows["phase recompute"]["FLOPs"].startswith("+"), rows)
    quiet = [phase for phase in PHASES if phase not in ("precision", "shard", "recompute")]
    check("phases without options change nothing", all(set(rows[f"phase {phase}"].values()) == {"."} for phase in quiet), rows)
    said = json.loads(run("ztc", "memory", model, *shape, *options, "--gpus=2", "--json").stdout)["rows"][0]
    step = rows["the step"]
    check("the last row is the plan's memory", abs(size(step["peak"]) / said["peak_bytes"] - 1) < 0.01, (step, said["peak_bytes"]))
    changes = [rows[name]["peak"] for name in rows if name.startswith("phase ") and rows[name]["peak"] != "."]
    total = size(rows["before phase import"]["peak"]) + sum(size(change) for change in changes)
    check("rows add up", abs(total / size(step["peak"]) - 1) < 0.02, rows)

    done = run("ztc", "compile", model, *shape, "--explain-passes", "--to=shard")
    check("with --to standard output is IR alone", done.stdout.lstrip().startswith(("module", "#")) and "phase shard" in done.stderr, done.stderr)
finish()
