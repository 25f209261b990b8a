#!/usr/bin/env python3
"""What a run on a GPU tells of it, over the stand-ins of tests/standin: MFU, clock, power, memory; what is unknown is left out."""
import os
import re

from support import BUILD, GOLDEN, check, compile_golden, finish, read_log, run, scratch

STAND_INS = BUILD / "lib/standin"
STEPS = 3

with scratch() as work:
    plans = {precision: compile_golden(work / precision, "grouped", "--target=simt", f"--precision={precision}", "--reserve=100MiB", batch=1)
             for precision in ("fp32", "bf16") if (work / precision).mkdir() is None}

    def train(name, plan, stand_ins=STAND_INS, **variables):
        log = work / f"{name}.log"
        done = run("ztc-run", plan, "--gpus=1", f"--data={GOLDEN / 'grouped' / 'data.safetensors'}", f"--steps={STEPS}", "--no-save", f"--log-json={log}",
                   env={**os.environ, "ZTC_STAND_INS": str(stand_ins), **variables})
        return done.stdout, *read_log(log)

    # A GPU of one multiprocessor and a thousand cycles a second: figures are large enough to be compared.
    for precision, cycle in (("fp32", 256), ("bf16", 4096)):  # operations of a Hopper multiprocessor per cycle
        screen, header, steps = train(precision, plans[precision], ZTC_STAND_IN_KILOHERTZ="1")
        check(f"{precision}: the peak is that of the precision", header["peak_flops"] == cycle * 1000, header.get("peak_flops"))
        shown = re.findall(r"(\d+) tokens/s  .*?MFU (\d+\.\d) %  1234 MHz  321 W  45 C", screen)
        check(f"{precision}: progress lines have MFU, clock, power and temperature", shown, screen[-600:])
        wrong = [(pace, mfu) for pace, mfu in shown if abs(float(mfu) / (100 * header["flops_per_token"] * float(pace) / header["peak_flops"]) - 1) > 1 / float(pace)]
        check(f"{precision}: MFU is the model's operations per second of the peak", not wrong, wrong)
        check(f"{precision}: a pace for each step", len(steps) == STEPS and all(x["step_ms"] > 0 and abs(x["tokens"] / x["step_ms"] * 1e3 / x["tokens_per_second"] - 1) < 1e-6 for x in steps), steps)
        check(f"{precision}: memory: predicted, allocated, reserve", header["predicted_bytes"] == header["allocated_bytes"] and header["library_bytes"] == 64 << 20
              and header["reserve_bytes"] == 100 << 20 and "reserve 64.0 MiB measured so far, 100 MiB estimated" in screen, (header, screen[:600]))

    # Drivers that do not tell the clock, a machine without NVML.
    without = work / "without NVML"
    without.mkdir()
    for name in ("cuda", "cublaslt"):
        (without / f"libztc-standin-{name}.so").symlink_to(STAND_INS / f"libztc-standin-{name}.so")
    screen, header, _ = train("unknown", plans["fp32"], without, ZTC_STAND_IN_KILOHERTZ="0")
    lines = [x for x in screen.splitlines() if x.startswith("step ")]
    check("what is unknown is left out of the line", lines and not any(word in x for x in lines for word in ("MFU", "MHz", " W ", " C ")), lines)
    check("what is unknown is left out of the log and the header", not {"peak_flops", "library_bytes"} & set(header) and "measured so far" not in screen, header)
finish()
