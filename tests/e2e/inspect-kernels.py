#!/usr/bin/env python3
"""ztc inspect --kernels: every kernel and library call of a plan with what it moves and computes; Llama plans hold no copy."""
import os
import pathlib
import re
from collections import Counter

from support import check, compile_golden, finish, run, scratch

UNITS = {"B": 1, "KiB": 2 ** 10, "MiB": 2 ** 20, "GiB": 2 ** 30}


def amounts(text):
    """(name, bytes, GFLOP) of the lines under "generated kernels" and under "library calls"."""
    sections, current = {}, None
    for line in text.splitlines():
        if not line.startswith(" "):
            current = sections.setdefault(line, [])
        found = re.match(r"  (\S.*?)\s+([\d.,]+) (B|KiB|MiB|GiB)\s+([\d.]+) GFLOP", line)
        if found:
            current.append((found[1], float(found[2].replace(",", "")) * UNITS[found[3]], float(found[4])))
    return sections


with scratch() as work:
    plan = compile_golden(work, "grouped", batch=2, seq=32)
    text = run("ztc", "inspect", plan, "--kernels").stdout
    sections = amounts(text)
    kernels, calls = sections["generated kernels"], sections["library calls"]
    check("kernels have their forms and targets", re.search(r"swiglu\s+row .*x86-64-v3", text) is not None)
    for call in ("gemm", "attention", "attention_grad", "linear_cross_entropy", "gather", "scatter_add"):
        check(f"the call {call} is listed", any(name.startswith(call) for name, _, _ in calls))
    check("a kernel never launched is said to be called by library steps",
          all("called by library steps" in line for line in text.splitlines() if re.search(r"\sservice\s", line)))
    # One line for all launches of a kernel: equal layers share it.
    check("no kernel or call has two lines", max(Counter(name for name, _, _ in kernels + calls).values()) == 1)
    check("the largest mover is first", [x[1] for x in kernels] == sorted((x[1] for x in kernels), reverse=True))
    by_flops = amounts(run("ztc", "inspect", plan, "--kernels", "--sort=flops").stdout)["library calls"]
    check("by flops: the largest product is first", [x[2] for x in by_flops] == sorted((x[2] for x in by_flops), reverse=True))
    total = re.search(r"all\s+[\d.,]+ \S+\s+([\d.]+) GFLOP", text)
    check("the sum is that of the lines", abs(float(total[1]) - sum(x[2] for x in kernels + calls)) < 1e-3 * len(kernels + calls), total[0])
    done = run("ztc", "inspect", plan, "--sort=flops", expect=2)
    check("--sort without --kernels is refused", "--kernels" in done.stderr, done.stderr)

    plans = {"grouped": plan, "tied": compile_golden(work, "tied")}
    fixtures = os.environ.get("ZTC_FIXTURES")
    if fixtures:
        for name in ("llama-tiny", "llama-tiny-tied", "llama-mini"):
            plans[name] = work / f"{name}.bin"
            run("ztc", "compile", pathlib.Path(fixtures) / name / "dynamo-op18.onnx", "--batch=2", "--seq=32", "--precision=fp32", "-o", plans[name])
    else:
        print("left out (ZTC_FIXTURES is not set): exported models")
    for name, path in plans.items():
        names = [x[0] for lines in amounts(run("ztc", "inspect", path, "--kernels").stdout).values() for x in lines]
        copies = [x for x in names if x.startswith("copy")]
        check(f"{name}: nothing is copied", names and not copies, " ".join(copies))
finish()
