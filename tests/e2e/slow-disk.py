#!/usr/bin/env python3
"""A disk that takes its time: steps go on beside the checkpoint that is on its way, the next checkpoint waits for it and says so, and the numbers are those of a run
that never saved."""
import os
import shutil
import subprocess

from support import GOLDEN, check, compile_golden, finish, read_log, run, scratch, tensor_files

SYNC_SECONDS = 0.4  # of every file and folder that a checkpoint waits for
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
int fsync(int descriptor) {
  usleep(%d);
  return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(descriptor);
}
""" % int(SYNC_SECONDS * 1e6)


with scratch() as work:
    compiler = shutil.which("cc") or shutil.which("clang-22")
    if not compiler:
        print("no C compiler for a slow disk")
        raise SystemExit(77)
    (work / "shim.c").write_text(SHIM)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", work / "shim.so", work / "shim.c", "-ldl"], check=True)
    slow = {**os.environ, "LD_PRELOAD": str(work / "shim.so")}
    plan = compile_golden(work, "grouped")
    common = [plan, f"--data={GOLDEN / 'grouped' / 'data.safetensors'}", "--device=cpu", "--threads=1", "--lr=2e-3"]
    steps = 4000
    run("ztc-run", *common, f"--steps={steps}", f"--export={work / 'never'}", f"--log-json={work / 'never.log'}")
    key = lambda log: [(s["loss"], s["grad_norm"]) for s in read_log(log)[1]]

    # One checkpoint in the middle: no step after it has the time of a single sync, of which a checkpoint has many.
    done = run("ztc-run", *common, f"--steps={steps}", f"--save={work / 'once'}", "--save-every=1000", "--stop-after=1900", f"--log-json={work / 'once.log'}", env=slow)
    milliseconds = [s["step_ms"] for s in read_log(work / "once.log")[1]]
    written = sum(1 for p in (work / "once/step-00001000").iterdir()) * SYNC_SECONDS
    check("a checkpoint takes seconds on this disk", written >= 4 * SYNC_SECONDS and done.stdout.count("saved") >= 2, done.stdout[-400:])
    check("no step waits for it", max(milliseconds[1000:]) < SYNC_SECONDS * 1000, (max(milliseconds[1000:]), written))
    check("nobody waited between two saves", "waited" not in done.stdout, done.stdout[-400:])

    # Checkpoints sooner than the disk takes them: each waits for the one before, which is said, and is whole.
    done = run("ztc-run", *common, f"--steps={steps}", f"--save={work / 'often'}", "--save-every=5", "--stop-after=15", f"--log-json={work / 'often.log'}", env=slow)
    for step, before in ((10, 5), (15, 10)):
        check(f"the save of step {step} waits for that of step {before}, and says so", f"after {step} steps: waited" in done.stdout and f"for the checkpoint of step {before}" in done.stdout, done.stdout[-900:])
    names = sorted(p.name for p in (work / "often").glob("step-*"))
    check("all are there", names == ["step-00000005", "step-00000010", "step-00000015"], names)
    check("losses and norms are those of the run that never saved", key(work / "often.log") == key(work / "never.log")[:15] and key(work / "once.log") == key(work / "never.log")[:1900])
    run("ztc-run", *common, f"--steps={steps}", f"--resume={work / 'once/step-00001000'}", f"--export={work / 'rest'}")
    check("a resume from what was written meanwhile ends in the same weights", tensor_files(work / "rest") == tensor_files(work / "never") != {})
finish()
