#!/usr/bin/env python3
"""Follows what `ztc plan` says of what does not fit: on the ranks that it names, with the options that it names, a row fits, whose command compiles, and on half of them none does.
Covers memory below the device, steps of one micro-step, and stages and rows of a step that are given."""
import json
import re
import shlex
import subprocess

from support import BIN, GOLDEN, check, finish, run, scratch

MODEL = GOLDEN / "grouped" / "model.onnx"
HELP = re.compile(r"fits on (\d+) with --zero=3(?: --global-batch=(\d+))?(?:, (.+) of each on the host)?(?:, (.+) of each on disk)?$")


def size(bytes_):
    """As ztc prints it."""
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if bytes_ >= 1 << power:
            value = bytes_ / (1 << power)
            return f"{value:.{max(0, 2 - len(str(int(value))) + 1)}f} {unit}"
    return f"{bytes_} bytes"


def plan(**options):
    done = run("ztc", "plan", MODEL, "--seq=16", "--precision=fp32", *(f"--{name}={value}" for name, value in options.items()), "--json", expect=None)
    if not done.stdout:
        check(f"ztc plan {options}: a table", False, done.stderr)
    return json.loads(done.stdout)


def fitting(missing, options):
    """Rows of what was missing, or of what changes less and is offered in its place."""
    method, changes = missing["method"], missing["changes"]
    rows = [c for c in plan(**options)["choices"] if c["method"] == method]
    return [c for c in rows if c["changes"] == changes] or [c for c in rows if len(c["changes"]) < len(changes)]


def follow(name, **given):
    """Checks each line; returns how many ranks are said to be needed, by method and changes."""
    said = {}
    for missing in plan(**given)["missing"]:
        what = f"{name}: {missing['method']} {missing['changes']} on {missing['gpus']}: {missing['help']}"
        found = HELP.match(missing["help"])
        if not found:
            check(what, missing["help"].startswith(("activations alone", "a step is one micro-step")))
            continue
        ranks = said[(missing["method"], *missing["changes"])] = int(found[1])
        options = {**given, "zero": 3, "gpus": ranks, "method": missing["method"], **({"global-batch": found[2]} if found[2] else {})}
        if "updates in the backward" not in missing["changes"]:
            options["batch"] = missing["batch"]
        rows = fitting(missing, options)
        check(f"{what}: it does", rows)
        if not rows:
            continue
        if rows[0]["changes"] == missing["changes"] and "batch" in options:
            below = tuple(size(rows[0][space]) if rows[0][space] else None for space in ("host_bytes", "disk_bytes"))
            check(f"{what}: so much lies below", below == found.groups()[2:], below)
        words = shlex.split(rows[0]["compile"])
        done = subprocess.run([str(BIN / words[0]), *words[1:]], capture_output=True, text=True, cwd=work, timeout=240)
        check(f"{what}: its command compiles", done.returncode == 0, done.stderr)
        fewer = ranks // 2
        if not found[2] and (fewer > missing["gpus"] or (fewer == missing["gpus"] and "zero" in given)):
            less = [c for c in plan(**{**options, "gpus": fewer})["choices"] if (c["method"], c["changes"]) == (missing["method"], missing["changes"])]
            check(f"{what}: {fewer} do not suffice", not less, less)
    return said


with scratch() as work:
    gpu = {"gpu": "H100-80GB", "mem": "300KiB", "reserve": "0B"}
    alone = follow("GPU", **gpu, gpus=1, method="full", **{"host-mem": 0})
    below = follow("GPU and 100 KiB of the host", **gpu, gpus=1, method="full", **{"host-mem": "100KiB"})
    check("where much has room below, fewer ranks are needed", below[("full",)] < alone[("full",)], (alone, below))
    said = follow("stage 0 is given", **gpu, gpus=4, zero=0, method="lora", **{"host-mem": "100KiB"})
    check("a higher stage on as many ranks is the smaller change", said[("lora",)] == 4, said)
    said = follow("more ranks than rows of a step", **gpu, gpus=2, method="lora", **{"host-mem": 0, "global-batch": 2})
    check("they get more rows", said.get(("lora",), 0) > 2, said)
    on_disk = {"gpu": "host", "threads": 1, "gpus": 1, "method": "full", "mem": "350KiB", "global-batch": 16}
    alone = follow("CPU", **on_disk)
    below = follow("CPU and 100 KiB of a disk", **on_disk, disk=work, **{"disk-mem": "100KiB"})
    check("where much has room in a file, fewer ranks are needed", below[("full",)] < alone[("full",)], (alone, below))
finish()
