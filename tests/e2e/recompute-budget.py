#!/usr/bin/env python3
"""--mem is kept to the byte: what is chosen and why, rows of `ztc memory`, a budget that changes nothing, one that nothing meets (with what
would help, measured); --explain sums to the peak; `ztc diff` says what a choice changes."""
import json
import re

from support import GOLDEN, check, finish, run, scratch

MODEL = GOLDEN / "grouped" / "model.onnx"
SHAPE = ["--batch=64", "--seq=16", "--threads=1", "--precision=fp32"]


def rows(*arguments):
    return json.loads(run("ztc", "memory", MODEL, *SHAPE, "--json", *arguments).stdout)["rows"]


kept, layer = (rows(f"--recompute={level}")[0]["peak_bytes"] for level in ("none", "layer"))
budgets = [kept - (kept - layer) * i // 5 for i in range(6)]
found = [rows(f"--mem={budget}B")[0] for budget in budgets]
check("every budget between none and layer is kept", all(r["fits"] and r["peak_bytes"] <= b for r, b in zip(found, budgets)), [r["peak_bytes"] for r in found])
check("peaks fall with the budget", all(a["peak_bytes"] >= b["peak_bytes"] for a, b in zip(found, found[1:])))
check("with room for all nothing is computed again", found[0]["recomputed"] == "none" and found[0]["recompute_flops"] == 0, found[0])
check("with less something is", all(r["recomputed"] != "none" and r["recompute_flops"] > 0 for r in found[1:]))
check("a row says what keeping all needs", all(r["peak_bytes_kept"] == kept and r["cost_model_seconds_kept"] < r["cost_model_seconds"] for r in found[1:]))
check("--reserve counts", rows(f"--mem={budgets[2] + 4096}B", "--reserve=4096B")[0]["recomputed"] == found[2]["recomputed"])
check("auto without --mem changes nothing", rows()[0]["peak_bytes"] == kept and rows("--recompute=auto")[0]["recompute_flops"] == 0)
several = rows(f"--mem={kept}B", "--zero=0", "--gpus=1,4")
check("each row has its own choice", [r["recomputed"] == "none" for r in several] == [True, False] and all(r["fits"] for r in several),
      [r["recomputed"] for r in several])
text = run("ztc", "memory", MODEL, *SHAPE, f"--mem={budgets[3]}B").stdout
check("the table names the choice", re.search(r"; recomputed: pointwise \d/2", text), text)

with scratch() as work:
    plans = [work / "a.bin", work / "b.bin"]
    done = run("ztc", "compile", MODEL, *SHAPE, "--gpus=1", f"--mem={budgets[3]}B", "-o", plans[1])
    check("compile says what is computed again and why", all(re.search(x, done.stdout) for x in (
        "with everything kept the step needs", r"pointwise in \d of 2 blocks, .* not kept: norms and activations", "longer by the cost model")), done.stdout)
    arena = int(re.search(r"arena .* \((\d+) bytes\)", done.stdout)[1])
    check("the compiled plan has the peak of the search", arena == found[3]["peak_bytes"] <= budgets[3], (arena, found[3]["peak_bytes"]))
    done = run("ztc", "compile", MODEL, *SHAPE, "--mem=1GiB", "-o", plans[0])
    check("a budget that changes nothing says so", "--mem=1.00 GiB changes nothing" in done.stdout, done.stdout)

    anywhere = work / "anywhere.bin"
    run("ztc", "compile", MODEL, *SHAPE, f"--mem={budgets[3]}B", "-o", anywhere)
    for ranks in (1, 3):
        done = run("ztc-run", anywhere, f"--ranks={ranks}", "--threads=1", "--steps=1", "--log-json", work / "log.jsonl")
        head = json.loads((work / "log.jsonl").read_text().splitlines()[0])
        check(f"without --gpus the budget holds on {ranks} ranks", head["allocated_bytes"] <= budgets[3], head["allocated_bytes"])
        (work / "log.jsonl").unlink()

    done = run("ztc", "diff", plans[0], plans[1], "--threads=1", expect=1)
    check("diff: memory, time, traffic, blocks, steps", all(x in done.stdout for x in (
        f"memory at the peak: {kept} -> {arena} bytes", "time of a step by the cost model:", "sent per optimizer step: 0 -> 0 bytes", "by block, each:",
        "option recomputed: (absent) ->", "x blocks: ")) and "microstep + " in done.stdout, done.stdout)
    check("diff: a plan and itself", "the plans are equal" in run("ztc", "diff", plans[0], plans[0]).stdout)

    done = run("ztc", "compile", MODEL, *SHAPE, f"--mem={layer // 2}B", "-o", work / "no.bin", expect=1)
    missing = re.search(r"\((\d+) bytes\), (\d+) bytes more than --mem", done.stderr)
    check("nothing fits: how many bytes are missing", missing and int(missing[1]) - int(missing[2]) == layer // 2, done.stderr)
    for line in ("--batch=32: ", "--batch=1: ", "--zero=3 --gpus="):
        check(f"nothing fits: {line} is measured", f"  {line}" in done.stderr, done.stderr)
    check("nothing fits: no plan", not (work / "no.bin").exists())
    # What is said to help does.
    advice = re.search(r"  --batch=1: (.*)", done.stderr)[1]
    one = run("ztc", "compile", MODEL, "--batch=1", "--seq=16", "--threads=1", "--precision=fp32", f"--mem={layer // 2}B", "-o", work / "one.bin", expect=None)
    check("what is said to fit fits", advice.endswith("fits") == (one.returncode == 0), (advice, one.stderr))

for arguments in ((), ("--recompute=layer", "--zero=3", "--gpus=2")):
    row = rows("--explain", *arguments)[0]
    check(f"--explain {' '.join(arguments)}: bytes sum to the peak", sum(x["bytes"] for x in row["explain"]) == row["peak_bytes"])
    check(f"--explain {' '.join(arguments)}: a class and a reason for each", all(x["class"] in row["by_class"] and x["reason"] for x in row["explain"]),
          [x for x in row["explain"] if not x["reason"]])
    if arguments:
        check("--explain: what is computed again says so", any("computed again" in x["reason"] for x in row["explain"]))
    for name, size in row["by_class"].items():
        check(f"--explain {' '.join(arguments)}: {name}", sum(x["bytes"] for x in row["explain"] if x["class"] == name) == size)
finish()
