"""The shape of stories15M (6 layers, width 288, 32000 words) on Debian's fortunes by bytes, 500 steps of 4 x 128 tokens from the same random
weights: what training in bf16 and fp16, with smaller states and without masters ends at, beside fp32. The runs share the cores, one thread each."""
import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from llama_text import llama_text
from fortunes import split_text
from support import BIN, check, finish, read_log, run, scratch

BATCH, SEQ, STEPS, LIMIT = 4, 128, 500, 0.01
RUNS = {"fp32": ["--precision=fp32"], "bf16": ["--precision=bf16"], "bf16 with bf16 moments": ["--precision=bf16", "--optimizer-state=bf16"],
        "bf16 without masters": ["--precision=bf16", "--master=none"], "bf16 without masters, states in bf16": ["--precision=bf16", "--master=none", "--optimizer-state=bf16"],
        "fp32 with states in int8": ["--precision=fp32", "--optimizer-state=int8"], "bf16 with states in int8": ["--precision=bf16", "--optimizer-state=int8"],
        "bf16 without masters, states in int8": ["--precision=bf16", "--master=none", "--optimizer-state=int8"],
        "fp16": ["--precision=fp16"]}

with scratch() as work:
    text = work / "stories15m.mlir"
    text.write_text(llama_text(BATCH, SEQ, 288, 768, 6, 6, 32000))
    train, held_out = split_text(work)
    waiting = list(enumerate(RUNS.items()))
    running, ends = [], {}
    while waiting or running:
        while waiting and len(running) < max(1, len(os.sched_getaffinity(0))):
            index, (name, options) = waiting.pop(0)
            plan, log = work / f"{index}.bin", work / f"{index}.jsonl"
            run("ztc", "compile", text, "--from=import", *options, "-o", plan)
            running.append((name, log, subprocess.Popen(
                [str(x) for x in (BIN / "ztc-run", plan, "--device=cpu", "--threads=1", "--init=normal:0.02", "--data", train, "--tokenizer=bytes",
                                  "--shuffle", f"--steps={STEPS}", "--lr=1e-3", "--warmup=40", "--eval-data", held_out, f"--eval-every={STEPS}",
                                  "--no-save", f"--log-json={log}", "--overwrite")], stdout=subprocess.DEVNULL)))
        name, log, process = running.pop(0)
        status = process.wait()
        check(f"{name}: it ran", status == 0, f"exit status {status}")
        head, steps = read_log(log)
        evaluations = [x["eval_loss"] for x in map(json.loads, log.read_text().splitlines()) if x.get("event") == "eval"]
        ends[name] = (statistics.mean(x["loss"] for x in steps[-20:]), evaluations[-1])
        print(f"     {name}: mean of the last 20 losses {ends[name][0]:.4f}, held out {ends[name][1]:.4f}, first {steps[0]['loss']:.4f}, "
              f"skipped {sum(bool(x.get('skipped')) for x in steps)}", flush=True)
    for name, (last, held) in ends.items():
        for what, value, reference in (("the last losses", last, ends["fp32"][0]), ("held-out text", held, ends["fp32"][1])):
            error = abs(value - reference) / reference
            check(f"{name}: {what} within 1 % of fp32's", error <= LIMIT, f"{100 * error:.2f} %")
finish()
