#!/usr/bin/env python3
"""A compiler that a signal ends, at any moment, leaves nothing in the temporary folder and no process: folders of kernels on their way to the linker and the assembler,
of steps that are compared, of programs that it has begun."""
import os
import re
import shutil
import signal
import time

from support import BIN, GOLDEN, Running, check, descendants, finish, is_alive, run, scratch, wait_until

progress = re.compile("ztc: (full|lora|qlora), --zero=|ztc: the program crashed in ")
MODEL = GOLDEN / "grouped" / "model.onnx"
SIZES = ["--batch=1", "--seq=8"]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def left_of(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


with scratch() as work:
    none = "--kernel-cache=none"
    out = work / "out"
    out.mkdir()
    verify = ["compile", MODEL, *SIZES, "--target=x86-64-v3", none, "--verify", "-o", out / "plan.bin"]
    searched = ["plan", MODEL, "--gpu=host", "--mem=1GiB", "--batch=64", "--global-batch=1048576"]
    # What is run, the folder that the signal waits for ("" where any moment will do), and how many times.
    cases = [("a crash", verify, "ztc-link", 1), ("compile --verify", verify, "ztc-link", 3), ("compile --verify", verify, "ztc-verify-plan", 3), ("compile --verify", verify, "", 9),
             ("plan", searched, "ztc-workers", 3), ("plan --verify", [*searched, "--verify=1"], "ztc-plan-verify", 3),
             ("a compiler that the compiler has begun", [*searched, "--verify=1"], "ztc-link", 3)]
    assembler = work / "cuda" / "bin" / "ptxas"
    assembler.parent.mkdir(parents=True)
    assembler.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "release 12.8" && exit\nfor word; do case $before in -o) : >"$word";; esac; before=$word; done\nexec sleep 60\n')
    assembler.chmod(0o755)
    cases.append(("compile for a GPU", ["compile", MODEL, *SIZES, "--target=sm_90a", none, "-o", out / "gpu.bin"], "ztc-ptx/kernels.cubin", 3))
    seconds = []
    for _ in range(2):
        began = time.monotonic()
        run("ztc", *verify)
        seconds.append(time.monotonic() - began)
    seconds = 0.9 * min(seconds)

    def when_there(child, pattern):
        """Waits for a path, which may be there for milliseconds; False where the program ended without that."""
        while child.process.poll() is None:
            if next(temporary.glob(pattern), None):
                return True
            time.sleep(0.001)
        return False

    temporary = work / "tmp"
    environment = {**os.environ, "TMPDIR": str(temporary), "CUDA_HOME": str(work / "cuda")}
    for name, command, awaited, times in cases:
        folder, _, file = awaited.partition("/")
        for i in range(times):
            number = signal.SIGSEGV if name == "a crash" else SIGNALS[i % len(SIGNALS)]
            case = f"{name}, {number.name} at {awaited or f'{i} of {times}'}"
            for _ in range(20):
                temporary.mkdir()
                for path in out.iterdir(): # of a run that ended before its signal
                    path.unlink()
                with Running([BIN / "ztc", *command], env=environment) as child:
                    if folder:
                        begun = when_there(child, f"{folder}-*/{file}" if file else f"{folder}-*")
                    else:
                        begun = wait_until(lambda: child.process.poll() is not None, seconds * i / times) is False
                    if begun:
                        below = descendants(child.pid)
                        os.kill(child.pid, number)
                    status = child.finish(60)
                    said = [x for x in child.err.splitlines() if not progress.match(x)]
                left = wait_until(lambda: not left_of(temporary), 5) or left_of(temporary)
                shutil.rmtree(temporary)
                if begun and status != 0: # else it had ended just before
                    break
            check(f"{case}: it ends by the signal", status == -number and not said, (status, said[-3:]))
            check(f"{case}: no process goes on", wait_until(lambda: not any(is_alive(p) for p in below), 10), below)
            check(f"{case}: nothing is left", left is True and not left_of(out), (left, left_of(out)))
finish()
