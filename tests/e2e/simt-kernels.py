#!/usr/bin/env python3
"""Every generated kernel of whole plans, run as a GPU would run it, on the SIMT engine: equal to the host's kernel to the bit where nothing is
summed, else within rounding; large operands are moved once (at most 1.02 times). Kernels of library calls are not among them: what they compute is
held to the host by tests/conformance, what they move to their tilings by tests/unit/compiler/CodegenBytesTests.cpp."""
from support import check, compile_golden, finish, run, scratch

CASES = (("grouped", "fp32", "--zero=0"), ("head-norms", "fp32", "--zero=3", "--recompute=layer"), ("grouped", "bf16", "--zero=3", "--recompute=layer"),
         ("tied", "bf16", "--zero=0"), ("head-norms", "fp16", "--zero=2", "--recompute=cheap"))

with scratch() as work:
    for name, precision, *options in CASES:
        plan = compile_golden(work, name, "--target=x86-64-v3,simt", f"--precision={precision}", *options)
        done = run("simt-kernels", plan)
        print(done.stdout)
        check(f"{name} {precision} {' '.join(options)}", done.returncode == 0)
        listed = run("ztc", "inspect", plan, "--kernels").stdout
        check(f"{name}: inspect says how blocks look", "threads a block" in listed)
finish()
