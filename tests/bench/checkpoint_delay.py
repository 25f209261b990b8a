#!/usr/bin/env python3
"""What a checkpoint costs the steps beside which it is written: runs with --save-every and without, interleaved.
    tests/bench/checkpoint_delay.py PLAN DATA [ROUNDS]      ZTC_BIN: ztc's programs (build/bin)"""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

STEPS, EVERY = 40, 8


def steps_of(plan, data, folder, *options):
    """Milliseconds from loss to loss; the bytes of a checkpoint."""
    log = folder / "log"
    subprocess.run([str(pathlib.Path(os.environ.get("ZTC_BIN", "build/bin")) / "ztc-run"), plan, f"--data={data}", "--device=cpu", f"--steps={STEPS}", f"--log-json={log}", "--overwrite", *options],
                   check=True, capture_output=True)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return {line["step"]: line["step_ms"] for line in lines if "step_ms" in line}


with tempfile.TemporaryDirectory() as scratch:
    scratch = pathlib.Path(scratch)
    plain, beside, others = [], [], []
    for _ in range(int(sys.argv[3]) if len(sys.argv) > 3 else 3):
        plain += [ms for step, ms in steps_of(*sys.argv[1:3], scratch, "--no-save").items() if step > 1]
        saving = steps_of(*sys.argv[1:3], scratch, f"--save={scratch / 'ck'}", f"--save-every={EVERY}", "--keep=1")
        size = sum(p.stat().st_size for p in next((scratch / "ck").glob("step-*")).iterdir())
        shutil.rmtree(scratch / "ck")
        # The step after a save computes while the state is read, and the next one while checksums are made.
        beside += [ms for step, ms in saving.items() if step >= EVERY and step % EVERY < 2]
        others += [ms for step, ms in saving.items() if step > 1 and not (step >= EVERY and step % EVERY < 2)]
    medians = [statistics.median(x) for x in (plain, others, beside)]
    print(f"a step without saving {medians[0]:.0f} ms; between saves {medians[1]:.0f} ms; the two after a save {medians[2]:.0f} ms, at most {max(beside):.0f} ms (without saving at most "
          f"{max(plain):.0f} ms); a checkpoint has {size / 1e6:.0f} MB")
