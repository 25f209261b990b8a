#!/usr/bin/env python3
"""ztc-run --profile and --trace: every millisecond has a line, the timeline has a row per worker, and neither changes a result."""
import json
import re

from support import check, compile_golden, finish, run, scratch

with scratch() as work:
    plan = compile_golden(work, "grouped", batch=4, seq=32)
    common = [plan, "--device=cpu", "--threads=2", "--steps=8"]
    log, plain_log, trace = work / "log", work / "plain", work / "trace.json"
    text = run("ztc-run", *common, "--profile", f"--trace={trace}", f"--log-json={log}").stdout
    check("the profile names its steps and limits", "profile of 6 steps" in text and "limits of this machine" in text, text)
    for part in ("matrix products", "attention gradient", "generated kernels", "head and loss", "gemm 128x", "(row)", "between steps"):
        check(f"the profile has a line for {part}", part in text)
    events = [json.loads(x) for x in log.read_text().splitlines()]
    profile = [x for x in events if x.get("event") == "profile"][0]
    check("what is between steps is measured", 0.5 < profile["accounted"] <= 1, str(profile))
    check("rates are in the log", profile["matmul_flops_per_second"] > 0 and 0 < profile["matmul_bound_share"] < 2, str(profile))

    (work / "bf16").mkdir()
    narrow = compile_golden(work / "bf16", "grouped", "--precision=bf16", batch=4, seq=32)
    text = run("ztc-run", narrow, "--device=cpu", "--threads=2", "--steps=4", "--profile").stdout
    check("in bf16 the measured product is the one that the processor's instructions allow",
          re.search(r"a product of 1024 x 1024 matrices \(bf16 products (in f32 panels|by AVX512-BF16|by AMX)\)", text), text)

    timeline = json.loads(trace.read_text())["traceEvents"]
    tracks = {x["tid"]: x["args"]["name"] for x in timeline if x["name"] == "thread_name"}
    check("one row per worker and stream", set(tracks.values()) >= {"programs", "stream 0: compute", "worker 0", "worker 1"}, str(tracks))
    spans = [x for x in timeline if x["ph"] == "X"]
    steps = [x for x in spans if tracks[x["tid"]].startswith("stream 0")]
    check("steps have their names", any("layer 1" in x["name"] for x in steps) and {x["cat"] for x in steps} == {"microstep", "update"})
    check("eight steps are in it", sum(x["name"] == "update" for x in spans if tracks[x["tid"]] == "programs") == 8)

    steps_text = run("ztc-run", *common, "--profile=steps").stdout
    check("step by step, in order", "update " in steps_text and steps_text.index("microstep ") < steps_text.index("update "))
    run("ztc-run", *common, f"--log-json={plain_log}")
    losses = lambda path: [x["loss"] for x in map(json.loads, path.read_text().splitlines()) if "loss" in x]
    check("observing changes nothing", losses(log) == losses(plain_log))

    done = run("ztc-run", plan, "--device=cpu", "--profile=everything", expect=2)
    check("--profile=everything is refused", "kernels or steps" in done.stderr, done.stderr)
    done = run("ztc-run", *common, "--trace=/proc/nowhere/trace.json", expect=1)
    check("a trace that cannot be written is said at the start", "--trace" in done.stderr and "step 0" not in done.stdout, done.stderr)
finish()
