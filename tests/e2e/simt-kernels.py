#!/usr/bin/env python3
"""Every generated kernel of a plan, run as a GPU would run it, on the SIMT engine: equal to the host's kernel to the bit where nothing is
summed, else within rounding; large operands are moved once."""
from support import GOLDEN, compile_golden, check, finish, run, scratch

with scratch() as work:
    for name in ("grouped", "head-norms"):
        plan = compile_golden(work, name, "--target=host,simt")
        print(run("simt-kernels", plan).stdout)
        listed = run("ztc", "inspect", plan, "--kernels").stdout
        check(f"{name}: inspect says how blocks look", "simt: 1024 threads a block" in listed or "threads a block" in listed)
finish()
