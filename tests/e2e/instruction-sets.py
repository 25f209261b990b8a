#!/usr/bin/env python3
"""Both versions of every generated kernel, AVX2 and AVX-512, do the same arithmetic: read from their machine code, for not every processor
runs both. What would make their bits differ is looked for: products and sums fused in one of them only, approximate instructions, other operations.
Where the processor has both, runs with either are compared too."""
import collections
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys

from support import GOLDEN, check, compile_golden, finish, read_log, run, scratch

ARITHMETIC = re.compile(r"\s+[0-9a-f]+:\s+v(fn?m(?:add|sub)|add|sub|mul|div|sqrt|max|min|rcp|rsqrt|round|rndscale)(?:\d+)?([ps])([sd])\s+(.*)")
LANES = {"x": 16, "y": 32, "z": 64}  # bytes of a register
FUSED = ("fmadds", "fmsubs", "fnmadds", "fnmsubs", "fmaddd", "fmsubd", "fnmaddd", "fnmsubd")
UNTOUCHED = ("divs", "sqrts", "maxs", "mins", "divd")  # by fusing a product and a sum


def images(plan, work):
    """The ELF files inside a plan."""
    data, at, found = plan.read_bytes(), 0, []
    while (at := data.find(b"\x7fELF", at)) >= 0:
        table, = struct.unpack_from("<Q", data, at + 40)
        size, count = struct.unpack_from("<HH", data, at + 58)
        found.append(work / f"{len(found)}.so")
        found[-1].write_bytes(data[at:at + table + size * count])
        at += 4
    return found


def arithmetic(tool, image):
    """kernel -> operation -> how many elements one pass over its code works on, lanes counted."""
    kernels, current, widest = {}, None, 0
    text = subprocess.run([tool, "-d", "--no-show-raw-insn", image], capture_output=True, text=True, check=True).stdout
    for line in text.splitlines():
        if match := re.match(r"[0-9a-f]+ <(.*)>:", line):
            current = kernels.setdefault(match[1], collections.Counter())
        elif (match := ARITHMETIC.match(line)) and current is not None:
            operation, packed, kind, operands = match.groups()
            operation = operation.replace("rndscale", "round")
            register = max((LANES[x] for x in re.findall(r"%([xyz])mm", operands)), default=16)
            widest = max(widest, register)
            current[operation + kind] += register // (4 if kind == "s" else 8) if packed == "p" else 1
    return kernels, widest


tool = shutil.which("llvm-objdump-22")
if not tool:
    print("left out: llvm-objdump-22 is not installed")
    sys.exit(77)
models = [(GOLDEN / name / "model.onnx", ["--batch=2", "--seq=16"]) for name in ("grouped", "head-norms", "tied")]
if fixtures := os.environ.get("ZTC_FIXTURES"):
    models += [(pathlib.Path(fixtures) / name / "dynamo-op18.onnx", ["--batch=2", "--seq=32"]) for name in ("gpt2-tiny", "llama-mini")]
else:
    print("left out (ZTC_FIXTURES is not set): the kernels of GPT-2 and of llama-mini")
for model, sizes in models:
    name = model.parent.name
    with scratch() as work:
        plan = work / "plan.bin"
        run("ztc", "compile", model, *sizes, "--precision=fp32", "--target=x86-64-v3,x86-64-v4", "-o", plan)
        both = [arithmetic(tool, image) for image in images(plan, work)]
        check(f"{name}: two images, of 32 and 64 bytes a register", [widest for _, widest in both] == [32, 64], [widest for _, widest in both])
        (one, _), (two, _) = both
        check(f"{name}: the same kernels", set(one) == set(two) and len(one) > 5, set(one) ^ set(two))
        approximate = [k for kernels in (one, two) for k, counts in kernels.items() if any(x.startswith(("rcp", "rsqrt")) for x in counts)]
        check(f"{name}: no approximate reciprocals or roots", not approximate, approximate)
        kinds = [k for k in one if set(one[k]) != set(two[k])]
        check(f"{name}: every kernel has the same operations in both", not kinds, [(k, dict(one[k]), dict(two[k])) for k in kinds])
        # Loops that are unrolled further count more of everything: such a kernel is compared by kinds only.
        alike = [k for k in one if any(x in one[k] for x in FUSED) and all(one[k][x] == two[k][x] for x in UNTOUCHED)]
        fused = [k for k in alike if one[k] != two[k]]
        check(f"{name}: {len(alike)} kernels with fused products: as many of each operation", alike and not fused, [(k, dict(one[k]), dict(two[k])) for k in fused])

# A run may be told to use nothing wider than a set: in f32 with the bits that the processor's best gives, in bf16 with those of all processors that
# lack AVX512-BF16, or have it and lack AMX. No bits depend on the number of threads.
SETS = {"x86-64-v3": ("x86-64-v3", "in f32 panels"), "x86-64-v4": ("x86-64-v4", "in f32 panels"), "avx512-bf16": ("x86-64-v4", "by AVX512-BF16"),
        "amx-bf16": ("x86-64-v4", "by AMX")}
OWN = ("avx512-bf16", "amx-bf16")  # bf16 products of either have bits of their own
with scratch() as work:
    for precision in ("fp32", "bf16"):
        (work / precision).mkdir()
        plan = compile_golden(work / precision, "grouped", f"--precision={precision}", batch=5, seq=61)
        losses = {}
        for name in (*SETS, ""):
            for threads in (1, 2, 3):
                log = work / f"log{precision}{name}{threads}"
                done = run("ztc-run", plan, "--device=cpu", f"--threads={threads}", "--steps=4", "--no-save", f"--log-json={log}",
                           *([f"--instruction-set={name}"] if name else []), expect=None)
                if done.returncode != 0:
                    check(f"--instruction-set={name}: a processor that lacks it", done.returncode == 1 and f"--instruction-set {name}: this processor" in done.stderr, done.stderr)
                    break
                head, steps = read_log(log)
                losses.setdefault(name, []).append([(x["loss"], x["grad_norm"]) for x in steps])
                kernels, products = SETS.get(name, ("", ""))
                device = head["versions"]["device"]
                check(f"{precision}, --instruction-set={name or 'not given'}: the log says what is used", kernels in device and (precision == "fp32" or products in device), head["versions"])
        check(f"{precision}: the same bits with 1, 2 and 3 threads", all(x[0] == x[1] == x[2] and len(x[0]) == 4 for x in losses.values()), losses)
        best = losses.pop("")
        widest = [name for name in SETS if name in losses][-1]
        check(f"{precision}: the widest, {widest}, is what a run takes by itself", best == losses[widest], (best, losses))
        own = {name: losses.pop(name) for name in OWN if name in losses and precision == "bf16"}
        for name, values in own.items():
            near = all(abs(a - b) < 0.01 * b for (a, _), (b, _) in zip(values[0], losses["x86-64-v3"][0]))
            check(f"{precision}: {name} agrees with the plainest", near, (values[0], losses["x86-64-v3"][0]))
        check(f"{precision}: equal bits with {', '.join(losses)}", all(x == losses["x86-64-v3"] for x in losses.values()), losses)
finish()
