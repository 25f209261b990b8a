#!/usr/bin/env python3
"""Runs ztc, PyTorch and compiled PyTorch in turn on random tokens and prints a table: tokens per second, memory, share of the matmul bound.

  compare.py --python PYTHON_WITH_TORCH --out FOLDER [--rounds N] [--threads T] [MODEL...]

Tokens per second are medians over steps (the first two left out), then over rounds; ratios are taken round by round, so that what else the machine
does falls on all contenders. Memory: the peak of the process; for PyTorch without what it holds once torch and transformers are imported.
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SPECS = {  # batch, sequence, steps of ztc, steps of PyTorch, least ratio of tokens per second that we aim at
    "llama-mini": (4, 128, 30, 12, 1.4),
    "stories15m": (8, 256, 8, 6, 1.4),
    "stories110m": (2, 512, 6, 5, 1.15),
}
MEMORY_TARGET, BOUND_TARGET = 0.40, 0.80
MIB = 2 ** 20


def run(command, limit=1800):
    """Standard output of a command that must succeed."""
    process = subprocess.Popen([str(x) for x in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        text, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        sys.exit(f"{command[0]}: no end within {limit} s")
    if process.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit status {process.returncode}\n{text[-1000:]}{errors[-3000:]}")
    return text


def read_log(path):
    lines = [json.loads(x) for x in path.read_text().splitlines()]
    path.unlink()
    return lines


def ztc(arguments, model, log, extra=()):
    """One trial run; the log's lines."""
    steps = SPECS[model][2]
    run([pathlib.Path(os.environ.get("ZTC_BIN", "build/bin")) / "ztc-run", arguments.out / f"{model}.bin", "--device=cpu",
         f"--threads={arguments.threads}", f"--steps={steps}", f"--log-json={log}", *extra])
    return read_log(log)


def peak_of_ztc(arguments, model):
    """Peak resident bytes of ztc-run, by a Python that does nothing else."""
    program = pathlib.Path(os.environ.get("ZTC_BIN", "build/bin")) / "ztc-run"
    code = "import resource,subprocess,sys;subprocess.run(sys.argv[1:],check=True,stdout=subprocess.DEVNULL);" \
           "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss*1024)"
    return int(run([sys.executable, "-c", code, program, arguments.out / f"{model}.bin", "--device=cpu", f"--threads={arguments.threads}", "--steps=3"]))


def torch(arguments, model, compiled):
    batch, seq, _, steps = SPECS[model][:4]
    text = run([arguments.python, HERE / "torch_side.py", "train", model, "--batch", batch, "--seq", seq, "--steps", steps,
                "--threads", arguments.threads] + (["--compile"] if compiled else []))
    return json.loads(text.splitlines()[-1])


def prepare(arguments, model):
    batch, seq = SPECS[model][:2]
    onnx = arguments.out / f"{model}.onnx"
    if not onnx.exists():
        run([arguments.python, HERE / "torch_side.py", "export", model, onnx, "--seq", seq])
    run([pathlib.Path(os.environ.get("ZTC_BIN", "build/bin")) / "ztc", "compile", onnx, f"--batch={batch}", f"--seq={seq}", "--precision=fp32", "-o",
         arguments.out / f"{model}.bin"])


def measure(arguments, model):
    prepare(arguments, model)
    log = arguments.out / "log.jsonl"
    rates = {"ztc": [], "eager": [], "compiled": []}
    memory = {"ztc": peak_of_ztc(arguments, model)}
    for _ in range(arguments.rounds):
        lines = ztc(arguments, model, log)
        rates["ztc"].append(statistics.median(x["tokens_per_second"] for x in lines if x.get("step", 0) >= 2 and "loss" in x))
        for name in ("eager", "compiled"):
            theirs = torch(arguments, model, name == "compiled")
            rates[name].append(theirs["tokens_per_second"])
            memory[name] = min(memory.get(name, 1 << 60), theirs["peak_bytes_without_import"])
        print(f"{model:12}" + "".join(f"   {name} {values[-1]:8.0f} tokens/s" for name, values in rates.items()), flush=True)
    profile = [x for x in ztc(arguments, model, log, ["--profile"]) if x.get("event") == "profile"][0]
    ratio = statistics.median(z / max(e, c) for z, e, c in zip(rates["ztc"], rates["eager"], rates["compiled"]))
    share = memory["ztc"] / min(memory["eager"], memory["compiled"])
    batch, seq, _, _, target = SPECS[model]
    return (f"| {model} | {batch} x {seq} | " + " | ".join(f"{statistics.median(rates[n]):.0f}" for n in ("ztc", "eager", "compiled"))
            + f" | {ratio:.2f} ({target}) | {memory['ztc'] / MIB:.0f} | {memory['eager'] / MIB:.0f} | {memory['compiled'] / MIB:.0f}"
            f" | {100 * share:.0f} % ({100 * MEMORY_TARGET:.0f} %) | {100 * profile['matmul_bound_share']:.0f} % ({100 * BOUND_TARGET:.0f} %) |")


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("models", nargs="*", metavar="MODEL")
parser.add_argument("--python", required=True)
parser.add_argument("--out", required=True, type=pathlib.Path)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--threads", type=int, default=2)
arguments = parser.parse_args()
unknown = [x for x in arguments.models if x not in SPECS]
if unknown:
    parser.error(f"unknown model {unknown[0]}: {', '.join(SPECS)}")
start = time.time()
load = os.getloadavg()[0]
rows = [measure(arguments, model) for model in arguments.models or SPECS]
print(f"\n{datetime.date.today()}, {processor()}, {arguments.threads} threads of {os.cpu_count()}, load before the start {load:.1f}, {arguments.rounds} rounds,"
      f" {time.time() - start:.0f} s; targets in brackets\n")
print("| model | B x S | ztc, tokens/s | PyTorch eager | compiled | ratio to the better | ztc, MiB | eager, MiB | compiled, MiB | memory | of the matmul bound |")
print("|---|---|---|---|---|---|---|---|---|---|---|")
print("\n".join(rows))
