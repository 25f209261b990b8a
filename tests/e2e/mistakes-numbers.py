#!/usr/bin/env python3
"""Every number that the two programs take, given as something that is not a number: one line that names the option, exit status 2. The options come from --help, so
that one that is added is held to it too."""
import re

from support import GOLDEN, check, finish, run, scratch

WHOLE = ["", "-1", "1.5", "0x10", "1e3", "18446744073709551616", "nan", "2 3"]
REAL = ["", "abc", "nan", "inf", "-inf", "1e400", "0x", "1,5", "-1"]
SIZE = ["", "40", "-1GB", "1e400GB", "nan", "inf", "5parsecs", "GB"]
TIME = ["", "30", "-1m", "nan", "inf", "1e400s", "5parsecs"]
KINDS = {"N": WHOLE, "T": WHOLE, "I": WHOLE, "S": WHOLE, "M": WHOLE, "K": WHOLE, "2|4": WHOLE, "UINT": WHOLE, "UINT:INT": WHOLE,
         "X": REAL, "E": REAL, "R": REAL, "P": REAL, "SECONDS": REAL, "SIZE": SIZE, "TIME": TIME}


def numbers(program, *command):
    """Options with a number: name to what is none."""
    found = {}
    for line in run(program, *command, "--help").stdout.splitlines():
        match = re.match(r"\s+(?:-\w,\s*)?--([\w-]+)\s+(\S+)", line)
        if match and (kind := re.sub(r"(:|\[|,\.\.\.).*| \.\.\.", "", match[2])) in KINDS:
            found[match[1]] = KINDS[kind]
    return found


def refused(name, text, done):
    lines = [x for x in done.stderr.splitlines() if x.strip()]
    return done.returncode == 2 and len(lines) == 1 and f"--{name}" in lines[0]


with scratch() as work:
    model = GOLDEN / "grouped" / "model.onnx"
    commands = [("ztc-run", [], ["no-plan.bin"], 20), ("ztc", ["compile"], [model, "-o", work / "x"], 6), ("ztc", ["memory"], [model], 6), ("ztc", ["inspect"], ["no-plan.bin"], 2)]
    for program, command, rest, least in commands:
        options = numbers(program, *command)
        what = " ".join([program, *command])
        check(f"{what}: its numbers are found", len(options) >= least, sorted(options))
        for name, texts in options.items():
            bad = [text for text in texts if not refused(name, text, run(program, *command, *rest, f"--{name}={text}", expect=None))]
            check(f"{what} --{name}", not bad, bad and [(text, run(program, *command, *rest, f"--{name}={text}", expect=None).stderr[-200:]) for text in bad])
    check("--mem=0 is not a budget", run("ztc", "compile", model, "--mem=0", "-o", work / "x", expect=2).stderr.startswith("ztc: --mem: more than 0"))
    done = run("ztc", "compile", model, "--batch=010", "--seq=16", "--target=x86-64-v3", "-o", work / "ten.bin")
    check("a batch of 010 is ten", "micro-batch 10 x 16" in done.stdout, done.stdout)
    done = run("ztc", "compile", model, "--batch=1", "--seq=16", "--target=" + ",".join(["x86-64-v3"] * 1000), "-o", work / "one.bin", timeout=60)
    check("a target that is named a thousand times is one", run("ztc", "inspect", work / "one.bin").stdout.count("x86-64-v3") < 10)
finish()
