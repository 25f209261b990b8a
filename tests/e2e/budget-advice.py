#!/usr/bin/env python3
"""Tries every suggestion that `ztc compile` prints when a step exceeds --mem: those marked as fitting must compile, the others must fail. Covers --host-mem and --disk-mem,
whether the user gave them or ztc suggests them."""
import re

from support import GOLDEN, check, finish, run, scratch

MODEL = GOLDEN / "grouped" / "model.onnx"
LINE = re.compile(r"^  (--.*): \S+ \S+, (fits|still \d+ bytes too much)$", re.M)


def compiled(work, options):
    return run("ztc", "compile", MODEL, *(f"--{name}={value}" for name, value in options.items()), "-o", work / "plan.bin", expect=None)


def follow(work, name, **given):
    """Checks each line for these options; returns those that are said to fit, with their values, and all that was printed."""
    options = {"batch": 4, "seq": 16, "precision": "fp32", "reserve": "0B", **given}
    said = compiled(work, options).stderr
    lines = LINE.findall(said)
    check(f"{name}: prints advice", lines, said)
    helps = {}
    for line, outcome in lines:
        change = dict(word[2:].split("=") for word in line.split())
        if change.get("disk") == "DIR":
            change["disk"] = work
        done = compiled(work, {**options, **change})
        check(f"{name}: {line}: {outcome}", (done.returncode == 0) == (outcome == "fits"), done.stderr if done.returncode else done.stdout)
        if outcome == "fits":
            helps[line.split("=")[0]] = change
    return helps, said


def is_least(work, name, option, size, **given):
    """A size is the least where a little less is not enough."""
    number, unit = re.fullmatch(r"([\d.]+)(\w+)", size).groups()
    less = compiled(work, {"batch": 4, "seq": 16, "precision": "fp32", "reserve": "0B", **given, option: f"{float(number) * 0.97:.4f}{unit}"})
    check(f"{name}: {option}={size} is the least that does", less.returncode == 1, less.stderr)


with scratch() as work:
    for memory in (450, 300):
        name, given = f"CPU, {memory} KiB", {"mem": f"{memory}KiB", "threads": 1}
        helps, said = follow(work, name, **given)
        # A CPU's device is the host's memory itself.
        check(f"{name}: a file helps where enough can leave", ("--disk" in helps) == (memory >= 400) and "--host-mem" not in said, said)
        if "--disk" in helps:
            is_least(work, name, "disk-mem", helps["--disk"]["disk-mem"], disk=work, **given)
    for memory in (450, 400, 350):
        name, given = f"GPU, {memory} KiB", {"mem": f"{memory}KiB", "target": "simt", "gpus": 1}
        helps, said = follow(work, name, **given)
        check(f"{name}: the host's memory helps where enough can leave", ("--host-mem" in helps) == (memory >= 400), said)
        if "--host-mem" in helps:
            is_least(work, name, "host-mem", helps["--host-mem"]["host-mem"], **given)
    # Lines about something else allow what is open below the device.
    for space in ({"host-mem": "100KiB"}, {"host-mem": "100KiB", "disk": work, "disk-mem": "40KiB"}, {"disk": work}):
        name = f"{len(space)} options of memory below the device"
        helps, said = follow(work, name, mem="350KiB" if "host-mem" in space else "200KiB", target="simt", gpus=2, zero=2, **space)
        check(f"{name}: counted", "moved off the device what has room below:" in said, said)
    helps, said = follow(work, "too little below", mem="400KiB", target="simt", gpus=1, **{"host-mem": "100KiB"})
    check("too little below: more of it helps", helps.get("--host-mem"), said)
    helps, said = follow(work, "too little in a file", mem="400KiB", target="simt", gpus=1, disk=work, **{"host-mem": "100KiB", "disk-mem": "40KiB"})
    check("too little in a file: more of it helps", helps.get("--disk"), said)
    # The rows of a step are given: smaller micro-batches are more of them, which accumulate.
    follow(work, "rows of a step", mem="450KiB", target="simt", gpus=1, **{"global-batch": 4})
    # A reserve of its own for each number of ranks, where none is given.
    follow(work, "ranks of a node", mem="400KiB", threads=1, zero=1)
finish()
