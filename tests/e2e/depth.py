#!/usr/bin/env python3
"""Compiling and planning grow with the number of layers and no faster: 16, 32 and 80 layers of one model. And with the number of experts: 64 and 512 a layer."""
import json
import os
import pathlib
import resource
import subprocess
import sys

from support import BIN, GOLDEN, ROOT, check, finish, run, scratch

DEPTHS = (16, 32, 80)


def processor_seconds(*command):
    """Of a ztc program: what it computes, whatever else the machine does."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(*command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def deepen(model, work, layers):
    out = work / f"{layers}.onnx"
    subprocess.run([sys.executable, ROOT / "samples/export/set-layers.py", model, str(layers), out], check=True, stdout=subprocess.DEVNULL)
    return out


def per_layer(values):
    """What a layer adds between the first two depths, and between the last two."""
    return [(b - a) / (n - m) for m, n, a, b in zip(DEPTHS, DEPTHS[1:], values, values[1:])]


def measure(name, model, sizes):
    with scratch() as work:
        models = [deepen(model, work, n) for n in DEPTHS]
        for options in (["--precision=fp32"], ["--precision=fp32", "--zero=3", "--recompute=layer"], ["--precision=bf16", "--zero=3"]):
            where = " ".join([name, *options])
            steps, files, seconds, planning = [], [], [], []
            for source in models:
                plan = work / "plan.bin"
                run("ztc", "compile", source, *sizes, *options, "--target=x86-64-v3", "-o", plan)
                steps.append(sum(len(x) for x in json.loads(run("ztc", "inspect", plan, "--json").stdout)["programs"].values()))
                files.append(plan.stat().st_size)
                seconds.append(processor_seconds("ztc", "compile", source, *sizes, *options, "--to=assign", "-o", work / "assigned.mlir"))
                planning.append(processor_seconds("ztc", "memory", source, *sizes, *options, "--gpus=1,8", "--accumulate=2"))
            low, high = per_layer(steps)
            check(f"{where}: every layer adds the same number of steps", low == high and low > 0, f"{steps}")
            low, high = per_layer(files)
            check(f"{where}: and the same number of bytes, within 5 %", abs(high - low) <= 0.05 * low, f"{files}")
            for what, values in (("compiling up to the kernels", seconds), ("planning for two world sizes", planning)):
                # Five times the layers are 25 times the time where it grows with the square.
                text = " ".join(f"{x:.2f}" for x in values)
                check(f"{where}: {what}, 80 layers over 16", values[2] <= 10 * values[0], f"{text} s of processor time")


def peak(*command):
    """Bytes of memory of a ztc program, at its largest."""
    process = subprocess.Popen([str(BIN / command[0]), *map(str, command[1:])], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    return usage.ru_maxrss * 1024 if status == 0 else None


def measure_experts(model, *options):
    """Where a list of all parameters is made anew for each, its copies are the square of their number: 2.3 GB here, of six layers, and 13.5 GB with adapters beside nf4."""
    found = []
    with scratch() as work:
        for experts in (64, 512):
            folder = work / str(experts)
            folder.mkdir()
            config = json.loads((model / "config.json").read_text()) | {"num_hidden_layers": 6, "num_experts": experts, "mlp_only_layers": []}
            (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k != "layer_types"}))
            found.append(peak("ztc", "compile", folder, "--batch=1", "--seq=16", "--precision=fp32", *options, "--to=assign", "-o", os.devnull))
    check(f"{model.name} {' '.join(options)}: memory of a compilation, 512 experts over 64", None not in found and found[1] <= 6 * found[0], f"{found} bytes")


measure("grouped", GOLDEN / "grouped" / "model.onnx", ["--batch=2", "--seq=16"])
measure_experts(ROOT / "tests/folders/qwen3-moe")
measure_experts(ROOT / "tests/folders/qwen3-moe", "--lora=r=2,alpha=4,targets=all-linear", "--quantize=nf4")
fixtures = os.environ.get("ZTC_FIXTURES")
if fixtures:
    model = pathlib.Path(fixtures) / "llama-3-8b" / "dynamo-op18.onnx"
    with scratch() as work:
        seconds = processor_seconds("ztc", "compile", model, "--seq=2048", "-o", work / "plan.bin")
        check("llama-3-8b for the host, both instruction sets: 10 s", seconds <= 10, f"{seconds:.2f} s of processor time")
else:
    print("left out (ZTC_FIXTURES is not set): the time for llama-3-8b")
finish()
