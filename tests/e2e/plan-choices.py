#!/usr/bin/env python3
"""`ztc plan`: bytes of its rows are those that the printed commands compile and allocate, and its advice keeps its rules."""
import json
import os
import pathlib
import re
import shlex
import subprocess

from support import BIN, GOLDEN, check, finish, run, scratch, write_tiny_llama

folder = scratch()
work = pathlib.Path(folder.name)
model = GOLDEN / "grouped/model.onnx"


def plan(*arguments, **more):
    done = run("ztc", "plan", model, "--seq=16", "--precision=fp32", "--lora=r=2,alpha=4,targets=all-linear", *arguments, "--json", **more)
    return json.loads(done.stdout) if done.stdout else done


def execute(command):
    words = shlex.split(command)
    return subprocess.run([str(BIN / words[0]), *words[1:]], capture_output=True, text=True, cwd=work, timeout=240)


def holds(choice):
    """What the two commands of a row allocate."""
    compiled = execute(choice["compile"])
    if compiled.returncode:
        return compiled.stderr[-300:]
    run_words = choice["run"].replace(" --data=TOKENS --steps=N", " --steps=2 --no-save --log-json=log --overwrite")
    ran = execute(run_words)
    if ran.returncode:
        return ran.stderr[-300:]
    head = json.loads((work / "log").read_text().splitlines()[0])
    return head["allocated_bytes"]


roomy = plan("--gpu=host", "--mem=64MiB", "--threads=1", "--gpus=1,2", "--global-batch=8")
check("all methods are there", {"full", "lora"} <= {c["method"] for c in roomy["choices"]})
check("every row fits", all(c["fits"] and c["needed_bytes"] <= c["available_bytes"] for c in roomy["choices"]))
check("every row makes the global batch", all(c["gpus"] * c["batch"] * c["accumulate"] == 8 for c in roomy["choices"]))
recommended = [c for c in roomy["choices"] if c["recommended"]]
check("one row is recommended for each number of ranks", [c["gpus"] for c in recommended] == [1, 2])
check("and it trains all weights, exactly", all(c["method"] == "full" and not c["changes"] for c in recommended))
for c in recommended:
    rivals = [r for r in roomy["choices"] if (r["method"], r["gpus"]) == ("full", c["gpus"])]
    check(f"it is the fastest of its group on {c['gpus']}", c["tokens_per_second"] == max(r["tokens_per_second"] for r in rivals))

# Micro-batches are divisors of a rank's rows, also where these are not a power of two: 840 rows on 8 ranks are 105 each.
many = plan("--gpu=H100-80GB", "--gpus=1..8", "--method=full")
check("on 1 to 8 ranks every row makes the same global batch", {c["gpus"] * c["batch"] * c["accumulate"] for c in many["choices"]} == {840})
check("and none is left at micro-batches of one row, which are slow", {c["gpus"] for c in many["choices"] if c["batch"] > 1} == set(range(1, 9)), [(c["gpus"], c["batch"]) for c in many["choices"]])

# What is written stands: compiled and run, every row of the table.
for c in roomy["choices"]:
    found = holds(c)
    check(f"{c['method']} on {c['gpus']}, stage {c['zero']}: bytes", found == c["peak_bytes"], f"{found} of {c['peak_bytes']}")
groups = {}
for c in roomy["choices"]:
    groups.setdefault((c["method"], tuple(c["changes"]), c["gpus"]), []).append(c["tokens_per_second"])
check("within a group the fastest stands first", all(speeds == sorted(speeds, reverse=True) for speeds in groups.values()), groups)

# In fp8 the codes of weights are kept where memory is left; a GPU's head takes as many rows of logits at a time as memory is left for: a row's bytes are those of the plan that is written.
fp8 = json.loads(run("ztc", "plan", GOLDEN / "fp8", "--gpu=host", "--mem=64MiB", "--threads=1", "--gpus=1,2", "--global-batch=8", "--zero=0,3", "--batch=2", "--method=full", "--precision=fp8",
                     "--json").stdout)
check("rows in fp8 are there", {(c["gpus"], c["zero"]) for c in fp8["choices"]} >= {(1, 0), (2, 0), (2, 3)}, fp8["choices"])
for c in fp8["choices"]:
    found = holds(c)  # each thread has a workspace: the command says how many
    check(f"fp8 on {c['gpus']}, stage {c['zero']}: bytes", found == c["peak_bytes"], f"{found} of {c['peak_bytes']}")
    if c["zero"] == 0:  # at stage 3 codes are what is gathered
        check(f"fp8 on {c['gpus']}: codes are kept", "kept to the backward" in run("ztc", "inspect", work / "plan.bin", "--text").stdout)
write_tiny_llama(work / "wide", 128000)
done = run("ztc", "plan", work / "wide", "--gpu=H100-80GB", "--gpus=1,2", "--seq=64", "--batch=64", "--global-batch=128", "--zero=0,3", "--method=full", "--threads=1", "--json")
check("threads of a host are none of a GPU's", "--threads has no effect" in done.stderr, done.stderr)
wide = json.loads(done.stdout)
check("rows of a wide head are there", {(c["gpus"], c["zero"]) for c in wide["choices"]} >= {(1, 0), (2, 0), (2, 3)}, wide["choices"])
for c in wide["choices"]:
    layout = json.loads(execute(c["compile"].replace("ztc compile", "ztc memory").replace(" -o plan.bin", "") + " --json").stdout)["rows"][0]
    check(f"a wide head on {c['gpus']} GPUs, stage {c['zero']}: bytes", layout["peak_bytes"] == c["peak_bytes"], f"{layout['peak_bytes']} of {c['peak_bytes']}")

# Where nothing fits the status is 1, and the bytes are there.
least = {}
for method in ("full", "lora"):
    nothing = plan("--gpu=host", "--mem=64KiB", "--threads=1", "--gpus=1", "--global-batch=8", f"--method={method}", expect=1)
    check(f"{method}: nothing fits into 64 KiB", not nothing["choices"] and all(m["missing_bytes"] == m["needed_bytes"] - (64 << 10) for m in nothing["missing"]))
    least[method] = min(m["needed_bytes"] for m in nothing["missing"])
check("adapters need less", least["lora"] < least["full"], str(least))

# A budget between the two: LoRA is recommended, and runs.
budget = (least["lora"] + least["full"]) // 2
tight = plan("--gpu=host", f"--mem={budget}B", "--threads=1", "--gpus=1", "--global-batch=8")
processors = os.sched_getaffinity(0)
os.sched_setaffinity(0, {min(processors)})
alone = plan("--gpu=host", f"--mem={budget}B", "--threads=1", "--gpus=1", "--global-batch=8")
os.sched_setaffinity(0, processors)
check("one processor, which searches in another order than several, finds the same table", alone == tight)
missing = [m for m in tight["missing"] if m["method"] == "full"]
check("full training is missing by its bytes", missing and all(m["missing_bytes"] == m["needed_bytes"] - budget > 0 for m in missing))
first = next(c for c in tight["choices"] if c["recommended"])
check("adapters are recommended instead", first["method"] == "lora", first["method"])
found = holds(first)
check("and fit", found == first["peak_bytes"] and found <= budget, str(found))

longest = plan("--gpu=host", "--mem=64MiB", "--threads=1", "--gpus=1", "--global-batch=8", "--method=full", "--longest")
found = next(c for c in longest["choices"] if c["recommended"])
check("rows may be longer", found["longest_sequence"] > 16, str(found.get("longest_sequence")))

ranged = plan("--gpu=host", "--mem=64MiB", "--threads=1", "--gpus=1..3", "--global-batch=12", "--method=lora", "--zero=0")
check("1..3 are one, two and three ranks", {c["gpus"] for c in ranged["choices"]} == {1, 2, 3}, ranged["choices"])

# Where nothing fits on the device alone, what a step needs once lies in a file; no number changes.
disk = work / "the user's disk"  # a shell reads it as one word
disk.mkdir()
full = next(m for m in tight["missing"] if m["method"] == "full" and not m["changes"])
below = plan("--gpu=host", f"--mem={full['needed_bytes'] - 4096}B", f"--disk={disk}", "--threads=1", "--gpus=1", "--global-batch=8", "--method=full")
rows = [c for c in below["choices"] if c["disk_bytes"]]
check("a row with a disk is offered, in the group that changes nothing", rows and all(not c["changes"] for c in rows), below["choices"])
first = next(c for c in below["choices"] if c["recommended"])
check("and recommended before those that change numbers", first["disk_bytes"] > 0 and not first["changes"], first)
check("its commands name the folder", all(f"--disk={disk}" in shlex.split(first[c]) for c in ("compile", "run")), first)
found = holds(first)
check("its bytes are those of the run", found == first["peak_bytes"], f"{found} of {first['peak_bytes']}")
head = json.loads((work / "log").read_text().splitlines()[0])
check("on the disk too", head["spaces"]["disk"]["allocated_bytes"] == first["disk_bytes"], head["spaces"])
summary = json.loads((work / "log").read_text().splitlines()[-1])
check("the log ends with what moved, and how long it was waited for", summary["disk_read_bytes"] > 0 and summary["disk_written_bytes"] > 0 and summary["move_wait_seconds"] >= 0, summary)
missing_gpu = plan("--gpu=RTX-4090-24GB", "--mem=3GiB", "--reserve=2.9999GiB", "--gpus=1", "--global-batch=8", "--method=full", "--host-mem=0", expect=1)
check("--host-mem=0 forbids them", not any(c["host_bytes"] for c in missing_gpu["choices"]), missing_gpu["choices"])

gpu = plan("--gpu=h100-80gb", "--gpus=1,8", "--method=full")
check("a GPU has the driver's total less the reserve", 79 << 30 < gpu["available_bytes"] < 80e9 * 1.07 and gpu["reserved_bytes"] > 1 << 30)
check("and its commands name it, and its target", all("--target=sm_90a --gpu=H100-80GB" in c["compile"] and "--gpus=" in c["run"] for c in gpu["choices"]))

text = run("ztc", "plan", model, "--seq=16", "--gpu=A100-40GB", "--gpus=1,4").stdout
check("the table has its groups, its arrow and its commands", all(part in text for part in ("full: every weight", "LoRA:", "<-", "ztc compile", "ztc-run plan.bin --gpus=4")), text)

muon = plan("--gpu=host", "--mem=64MiB", "--threads=1", "--gpus=1", "--global-batch=8", "--zero=0", "--method=full", "--optimizer=muon", "--adjust-lr-fn=original")
check("--adjust-lr-fn is in the commands", muon["choices"] and all("--optimizer=muon --adjust-lr-fn=original" in c["compile"] for c in muon["choices"]), muon)
said = run("ztc", "plan", model, "--seq=16", "--precision=fp32", "--gpu=host", "--mem=64MiB", "--threads=1", "--gpus=1", "--zero=0", "--method=full", "--adjust-lr-fn=original")
check("and without muon a note", "note: --adjust-lr-fn has no effect" in said.stderr and "--adjust-lr-fn" not in said.stdout, said.stderr)

for arguments, words in [(["--gpu=H100-80G"], "did you mean H100-80GB?"), (["--gpu=teapot"], "known are host, "), (["--gpu=host"], "needs --mem=SIZE"),
                         (["--gpu=H100-80GB", "--gpus=3", "--global-batch=64"], "cannot be shared by 3 ranks"),
                         (["--gpu=H100-80GB", "--mem=1GiB"], "leaves nothing beside the reserve"), (["--gpu=H100-80GB", "--method=dora"], "--method")]:
    done = run("ztc", "plan", model, "--seq=16", *arguments, expect=2)
    check(f"{' '.join(arguments)}: {words}", words in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr)
# What was predicted beside what was measured, and remembered for this device.
environment = {**os.environ, "XDG_CACHE_HOME": str(work / "cache")}
small = ["--gpu=host", "--mem=64MiB", "--threads=1", "--gpus=1", "--zero=0,1", "--global-batch=4", "--method=full", "--seq=16", "--precision=fp32"]
said = run("ztc", "plan", model, *small, "--verify=2", env=environment).stdout
check("two rows are run", said.count(" s  ") >= 2 and "did not run" not in said and "measured/predicted" in said, said[-800:])
check("before, no run had confirmed the seconds", "no run has confirmed" in said)
kept = [json.loads(line) for line in (work / "cache/ztc/plan-runs.jsonl").read_text().splitlines()]
check("what was measured is kept", len(kept) == 2 and all(k["device"] == "this host" and k["measured_seconds"] > 0 and k["date"] for k in kept), kept)
said = run("ztc", "plan", model, *small, env=environment).stdout
check("and said of later tables", "times the seconds that were predicted (2 of them" in said and "by runs here" in said, said)
table = json.loads(run("ztc", "plan", model, *small, "--json", env=environment).stdout)
ratios = [k["measured_seconds"] / k["predicted_seconds"] for k in kept]
seen = table["error_seen"]
check("as JSON too", (seen["runs"], seen["date"]) == (2, kept[-1]["date"]) and abs(seen["least"] - min(ratios)) < 1e-9 and abs(seen["most"] - max(ratios)) < 1e-9, (seen, ratios))
check("times stand with the error seen", all(abs(c["seconds_by_runs"][0] - c["cost_model_seconds"] * min(ratios)) < 1e-9 and abs(c["seconds_by_runs"][1] - c["cost_model_seconds"] * max(ratios)) < 1e-9
                                             for c in table["choices"]), table["choices"])

# Another model: the same, and both are remembered.
other = GOLDEN / "tied/model.onnx"
said = run("ztc", "plan", other, *small, "--verify=3", env=environment).stdout
kept = [json.loads(line) for line in (work / "cache/ztc/plan-runs.jsonl").read_text().splitlines()]
check("runs of two models are kept", len(kept) > 2 and all(k["measured_seconds"] > 0 for k in kept), kept)
check("the second model's runs are measured", "did not run" not in said and "measured/predicted" in said, said[-800:])
said = run("ztc", "plan", other, *small, env=environment).stdout
check("the error is over all runs on the device", f"({len(kept)} of them" in said, said[-300:])

# The order of speeds is that of measurements: rows one by one against all of a step at once. Of each the best of three, as other work may be on the machine.
speeds = {}
for batch in (1, 16):
    for _ in range(3):
        run("ztc", "plan", other, "--gpu=host", "--mem=64MiB", "--threads=1", "--gpus=1", "--zero=0", f"--batch={batch}", "--global-batch=16", "--method=full", "--seq=16", "--precision=fp32",
            "--verify=1", env=environment)
        last = json.loads((work / "cache/ztc/plan-runs.jsonl").read_text().splitlines()[-1])
        before = speeds.get(batch, (0, 1e9))[1]
        speeds[batch] = (last["predicted_seconds"], min(before, last["measured_seconds"]))
check("the cost model orders micro-batches as measurement does", (speeds[1][0] > speeds[16][0]) == (speeds[1][1] > speeds[16][1]), speeds)

# --batch=auto at compile: the rows of a step stay, and no smaller micro-batch is within 2 % of the best rate.
said = run("ztc", "compile", model, "--seq=16", "--precision=fp32", "--target=host", "--batch=auto", "--global-batch=8", "--gpus=2", "-o", work / "auto.bin").stderr
found = re.search(r"micro-batches of (\d+), (\d+) of them", said)
check("--batch=auto shares the rows of a step", found and 2 * int(found[1]) * int(found[2]) == 8, said)
rates = {}
for batch in (1, 2, 4):
    table = json.loads(run("ztc", "plan", model, "--gpu=host", "--mem=1GiB", "--gpus=2", "--zero=0", f"--batch={batch}", "--global-batch=8", "--method=full", "--seq=16", "--precision=fp32",
                           "--json").stdout)
    rates[batch] = table["choices"][0]["tokens_per_second"]
best = max(rates.values())
wanted = min(batch for batch, rate in rates.items() if rate >= 0.98 * best)
check("--batch=auto is the smallest within 2 % of the best rate", found and int(found[1]) == wanted, (said, rates))
for options, word in ((["--batch=auto"], "--global-batch=N"), (["--batch=auto", "--global-batch=8", "--accumulate=2"], "exclude"), (["--batch=3", "--global-batch=8"], "cannot be shared"),
                      (["--batch=automatic"], "automatic")):
    said = run("ztc", "compile", model, "--seq=16", *options, "-o", work / "no.bin", expect=2).stderr
    check(f"{' '.join(options)} is refused", word in said and said.count("\n") == 1, said)

finish()
