#!/usr/bin/env python3
"""Reports for several stages and world sizes from one import; options that no run could see."""
import json

from support import GOLDEN, check, finish, run

model = GOLDEN / "grouped" / "model.onnx"
shape = ["--batch=2", "--seq=16", "--threads=1", "--precision=fp32"]
rows = json.loads(run("ztc", "memory", model, *shape, "--gpus=1,2,8", "--zero=0,1,2,3", "--json").stdout)["rows"]
check("a row for each stage and world size", [(r["zero"], r["gpus"]) for r in rows] == [(z, w) for z in range(4) for w in (1, 2, 8)])
alone = json.loads(run("ztc", "memory", model, *shape, "--gpus=8", "--zero=3", "--json").stdout)["rows"]
check("a stage alone gives the row that it has among others", alone == [r for r in rows if (r["zero"], r["gpus"]) == (3, 8)], alone)
check("classes add up to the peak", all(sum(r["by_class"].values()) == r["peak_bytes"] for r in rows))

text = run("ztc", "memory", model, *shape, "--explain").stdout
peak = next(r["peak_bytes"] for r in rows if (r["zero"], r["gpus"]) == (0, 1))
names = set(rows[0]["by_class"])
lines = [x.split() for x in text.splitlines()]
explained = sum(int(x[0]) for x in lines if len(x) > 2 and x[0].isdigit() and x[1] in names)
check("--explain accounts for every byte of the peak", explained == peak, (explained, peak))

held = json.loads(run("ztc", "memory", model, *shape, "--gpus=1,8", "--zero=0", "--recompute=none", f"--mem={peak}", "--reserve=1", "--json").stdout)["rows"]
check("--mem is held against peak and reserve", [r["fits"] for r in held] == [False, False] and held[0]["budget_bytes"] == peak, held)
text = run("ztc", "memory", model, *shape, "--gpus=1,8", "--zero=3", f"--mem={peak - 1}").stdout
check("--mem: how much is left or lacks", "fits, " in text or "bytes too much" in text, text)

done = run("ztc", "compile", model, *shape, "--prefetch=2", "-o", "/dev/null", expect=2)
check("--prefetch without ZeRO-3 is refused", "--prefetch" in done.stderr, done.stderr)
finish()
