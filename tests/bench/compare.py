#!/usr/bin/env python3
"""Runs ztc, PyTorch and compiled PyTorch in turn on random tokens and prints a table: tokens per second, memory, share of the matmul bound.

  compare.py --python PYTHON_WITH_TORCH --out FOLDER [--precision fp32|bf16] [--rounds N] [--threads T] [MODEL...]

Tokens per second are medians over steps (the first two left out), then over rounds; ratios are taken round by round, so that what else the machine
does falls on all contenders. Memory: the peak of the process; for PyTorch without what it holds once torch and transformers are imported.
In bf16 PyTorch runs in both of its modes, autocast and parameters in bf16, and in fp32 for comparison. Of a contender that is ten times slower
than PyTorch's best in the first round that round counts alone.
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
SLOWER = 10
# PyTorch's contenders: the arguments of torch_side.py
CONTENDERS = {
    "fp32": {"eager": [], "compiled": ["--compile"]},
    "bf16": {"autocast": ["--mode=autocast"], "autocast, compiled": ["--mode=autocast", "--compile"], "bf16": ["--mode=bf16"],
             "bf16, compiled": ["--mode=bf16", "--compile"]},
}
REFERENCE = {"fp32": {}, "bf16": {"fp32": [], "fp32, compiled": ["--compile"]}}  # run beside them; they do not enter the ratio
BF16_RATIOS = {"AVX512-BF16": 1.2, "AMX": 2.0}  # least ratios in bf16, by the instructions that multiply
MIB = 2 ** 20


def program(name):
    return pathlib.Path(os.environ.get("ZTC_BIN", "build/bin")) / name


def plan(arguments, model):
    return arguments.out / f"{model}.{arguments.precision}.bin"


def run(command, limit=3600):
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
    run([program("ztc-run"), plan(arguments, model), "--device=cpu", f"--threads={arguments.threads}", f"--steps={steps}", f"--log-json={log}", "--overwrite", *extra])
    return read_log(log)


def peak_of_ztc(arguments, model):
    """Peak resident bytes of ztc-run, by a Python that does nothing else."""
    code = "import resource,subprocess,sys;subprocess.run(sys.argv[1:],check=True,stdout=subprocess.DEVNULL);" \
           "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss*1024)"
    return int(run([sys.executable, "-c", code, program("ztc-run"), plan(arguments, model), "--device=cpu", f"--threads={arguments.threads}", "--steps=3"]))


def torch(arguments, model, extra):
    batch, seq, _, steps = SPECS[model][:4]
    text = run([arguments.python, HERE / "torch_side.py", "train", model, "--batch", batch, "--seq", seq, "--steps", steps,
                "--threads", arguments.threads, *extra])
    return json.loads(text.splitlines()[-1])


def prepare(arguments, model):
    batch, seq = SPECS[model][:2]
    onnx = arguments.out / f"{model}.onnx"
    if not onnx.exists():
        run([arguments.python, HERE / "torch_side.py", "export", model, onnx, "--seq", seq])
    run([program("ztc"), "compile", onnx, f"--batch={batch}", f"--seq={seq}", f"--precision={arguments.precision}", "-o", plan(arguments, model)])


def measure(arguments, model):
    prepare(arguments, model)
    log = arguments.out / "log.jsonl"
    contenders, reference = CONTENDERS[arguments.precision], REFERENCE[arguments.precision]
    rates = {name: [] for name in ("ztc", *contenders, *reference)}
    memory = {"ztc": peak_of_ztc(arguments, model)}
    for _ in range(arguments.rounds):
        lines = ztc(arguments, model, log)
        rates["ztc"].append(statistics.median(x["tokens_per_second"] for x in lines if x.get("step", 0) >= 2 and "loss" in x))
        best = max((rates[name][0] for name in contenders if rates[name]), default=0)
        for name, extra in (contenders | reference).items():
            if rates[name] and rates[name][0] * SLOWER < best:
                continue
            theirs = torch(arguments, model, extra)
            rates[name].append(theirs["tokens_per_second"])
            memory[name] = min(memory.get(name, 1 << 60), theirs["peak_bytes_without_import"])
        print(f"{model:12}" + "".join(f"   {name} {values[-1]:8.0f} tokens/s" for name, values in rates.items()), flush=True)
    profile = [x for x in ztc(arguments, model, log, ["--profile"]) if x.get("event") == "profile"][0]

    def ratio(others):
        """To the best of the others, round by round."""
        return statistics.median(z / max(rates[n][i] for n in others if i < len(rates[n])) for i, z in enumerate(rates["ztc"]))

    share = memory["ztc"] / min(memory[name] for name in contenders)
    batch, seq, _, _, target = SPECS[model]
    limits = (f" ({target})", f" ({100 * MEMORY_TARGET:.0f} %)", f" ({100 * BOUND_TARGET:.0f} %)")
    if arguments.precision == "bf16":
        target = next((x for name, x in BF16_RATIOS.items() if f"by {name}" in profile["matmul"]), None)
        limits = (f" ({target})" if target else "", "", "")
    cells = [model, f"{batch} x {seq}", *(f"{statistics.median(x):.0f}" for x in rates.values()), f"{ratio(contenders):.2f}{limits[0]}"]
    cells += [f"{ratio(reference):.2f}"] if reference else []
    cells += [f"{memory[name] / MIB:.0f}" for name in rates] + [f"{100 * share:.0f} %{limits[1]}", f"{100 * profile['matmul_bound_share']:.0f} %{limits[2]}"]
    print(f"{model}: {100 * profile['matmul_bound_share']:.0f} % of {profile['matmul_flops_per_second'] / 1e9:.1f} GFLOP/s, {profile['matmul']}", flush=True)
    return "| " + " | ".join(cells) + " |"


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("models", nargs="*", metavar="MODEL")
parser.add_argument("--python", required=True)
parser.add_argument("--out", required=True, type=pathlib.Path)
parser.add_argument("--precision", choices=CONTENDERS, default="fp32")
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--threads", type=int, default=2)
arguments = parser.parse_args()
unknown = [x for x in arguments.models if x not in SPECS]
if unknown:
    parser.error(f"unknown model {unknown[0]}: {', '.join(SPECS)}")
start = time.time()
load = os.getloadavg()[0]
rows = [measure(arguments, model) for model in arguments.models or SPECS]
print(f"\n{datetime.date.today()}, {processor()}, {arguments.threads} threads of {os.cpu_count()}, {arguments.precision}, load before the start {load:.1f}, {arguments.rounds} rounds,"
      f" {time.time() - start:.0f} s; targets in brackets\n")
names = ["ztc", *CONTENDERS[arguments.precision], *REFERENCE[arguments.precision]]
titles = ["model", "B x S", *(f"{x}, tokens/s" for x in names), "ratio to the best"] + (["to fp32"] if REFERENCE[arguments.precision] else [])
titles += [*(f"{x}, MiB" for x in names), "memory", "of the matmul bound"]
print("| " + " | ".join(titles) + " |\n|" + "---|" * len(titles))
print("\n".join(rows))
