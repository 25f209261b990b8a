#!/usr/bin/env python3
"""Reports for several stages and world sizes from one import; options that no run could see."""
import json
import os
import re

from support import BUILD, GOLDEN, check, finish, run, scratch

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

held = json.loads(run("ztc", "memory", model, *shape, "--gpus=1,8", "--zero=0", "--recompute=none", f"--mem={peak}B", "--reserve=1B", "--json").stdout)["rows"]
check("--mem is held against peak and reserve", [r["fits"] for r in held] == [False, False] and held[0]["budget_bytes"] == peak, held)
text = run("ztc", "memory", model, *shape, "--gpus=1,8", "--zero=3", f"--mem={peak - 1}B").stdout
check("--mem: how much is left or lacks", "fits, " in text or "bytes too much" in text, text)

gpu = ["--batch=2", "--seq=16", "--precision=fp32", "--zero=0", "--mem=8GiB"]
beside = json.loads(run("ztc", "memory", model, *gpu, "--target=sm_90a", "--gpus=1,2,8", "--json").stdout)["rows"]
check("what libraries take beside the arena is estimated by device and ranks", [r["reserved_bytes"] >> 20 for r in beside] == [1536, 1984, 2560], beside)
told = json.loads(run("ztc", "memory", model, *gpu, "--target=sm_90a", "--gpus=8", "--reserve=0B", "--json").stdout)["rows"]
check("--reserve has the last word, 0 too", told[0]["reserved_bytes"] == 0, told)
smaller = json.loads(run("ztc", "memory", model, *gpu, "--gpus=1", "--target=sm_89", "--json").stdout)["rows"]
check("GPUs for games have smaller contexts", smaller[0]["reserved_bytes"] >> 20 == 1152, smaller)

# The loss: how many of 4096 rows of logits a GPU works on at a time.
head = ["--batch=256", "--seq=16", "--target=sm_90a", "--zero=0", "--gpus=1"]
def loss(*options):
    """Of the row for one GPU: rows of logits at a time, bytes of workspace, the peak."""
    row = json.loads(run("ztc", "memory", model, *head, *options, "--json").stdout)["rows"][0]
    return row["loss_rows"], row["by_class"]["workspace"], row["peak_bytes"]
check("all rows of logits at a time where memory allows", loss()[0] == 4096, loss())
few = loss("--loss-rows=100")
check("--loss-rows: even chunks of at most so many rows", few[0] == 100 and few[2] <= loss()[2], (few, loss()))
check("on a host there are none", "loss_rows" not in rows[0], rows[0])
done = run("ztc", "compile", model, *shape, "--loss-rows=100", "-o", "/dev/null")
check("--loss-rows without a GPU is a note", "note: --loss-rows has no effect" in done.stderr, done.stderr)

done = run("ztc", "compile", model, "--batch=2", "--seq=16", "--precision=bf16", "--tf32", "--threads=1", "-o", "/dev/null")
check("--tf32 without fp32 is a note", "note: --tf32 has no effect" in done.stderr, done.stderr)
done = run("ztc", "compile", model, *shape, "--prefetch=2", "-o", "/dev/null")
check("--prefetch without ZeRO-3 is a note", "note: --prefetch has no effect" in done.stderr, done.stderr)

with scratch() as work:
    def targets(name, *options, **variables):
        """Targets of the plan's kernels, and what the compiler said beside its report."""
        done = run("ztc", "compile", model, *shape, *options, "-o", work / name, env={**os.environ, **variables})
        return re.search(r"--target=(\S+)", run("ztc", "inspect", work / name).stdout)[1], done.stderr

    host, both = "host", "host,sm_90a"
    stand_ins = {"ZTC_STAND_INS": str(BUILD / "lib/standin")}
    found, said = targets("here.bin", ZTC_LIBCUDA="/nowhere/libcuda.so.1")
    check("a driver that was named and is not there: kernels for the host, and a note", found == host and "/nowhere" in said, (found, said))
    found, said = targets("gpus.bin", **stand_ins, ZTC_STAND_IN_GPUS="2")
    check("by default for the host and the GPUs that are here", found == both and "no kernels" not in said, (found, said))
    found, said = targets("none.bin", **stand_ins, ZTC_STAND_IN_DRIVER="0")
    check("a driver without a GPU: kernels for the host, and a note", found == host and "no kernels for a GPU" in said, (found, said))
    found, said = targets("asked.bin", "--target=host", **stand_ins)
    check("--target is obeyed", found == host, found)
    found, said = targets("twice.bin", "--target=host,x86-64-v3", "--target=host", **stand_ins)
    check("`host` is both of its instruction sets, and is made once", found == host, (found, said))
    links = {}
    for name in ("L40S-48GB", "H100-80GB"):
        moved = json.loads(run("ztc", "memory", model, *gpu[:3], "--zero=0", "--target=sm_89", "--gpus=1", f"--gpu={name}", "--host-mem=1GiB", "--json", env={**os.environ, "XDG_CACHE_HOME": str(work)}).stdout)
        links[name] = moved["rows"][0]["spaces"]["host"]["link_bytes_per_second"]
    check("--gpu prices moves by the link of that GPU", links["L40S-48GB"] * 2 == links["H100-80GB"], links)
    done = run("ztc", "compile", model, "--gpu=teapot", "-o", work / "none.bin", expect=2)
    check("a GPU that is not known is an error that names those that are", "L40S-48GB" in done.stderr and "teapot" in done.stderr, done.stderr)
    done = run("ztc", "compile", model, *shape, "--to=import", "-o", "-")
    check("-o - is standard output for IR", done.stdout == run("ztc", "compile", model, *shape, "--to=import").stdout != "", done.stderr)
    done = run("ztc", "compile", model, *shape, "-o", "-", expect=1)
    check("-o - is none for a plan", "standard output" in done.stderr and not os.path.exists("-"), done.stderr)
finish()
