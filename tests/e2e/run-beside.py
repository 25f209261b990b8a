#!/usr/bin/env python3
"""On the host too a checkpoint is written while the run goes on: each is that of a run that stopped there, to the bit, and the run is the one that never saved."""
from support import GOLDEN, check, compile_golden, finish, read_log, run, scratch, tensor_files

STEPS = 5


with scratch() as work:
    for name, arguments, ranks in (("fp32", [], ["--threads=2"]), ("bf16", ["--precision=bf16"], ["--threads=1", "--accumulate=2"]),
                                   ("two ranks with shards", ["--zero=3"], ["--ranks=2", "--threads=1", "--accumulate=2"])):
        folder = work / name.replace(" ", "-")
        folder.mkdir()
        plan = compile_golden(folder, "grouped", *arguments, batch=1)
        common = [plan, f"--data={GOLDEN / 'grouped' / 'data.safetensors'}", "--device=cpu", f"--steps={STEPS}", "--lr=2e-3", *ranks]
        run("ztc-run", *common, f"--export={folder / 'never'}", f"--log-json={folder / 'never.log'}")
        done = run("ztc-run", *common, f"--save={folder / 'ck'}", "--save-every=1", f"--export={folder / 'each'}", f"--log-json={folder / 'each.log'}")
        key = lambda log: [(s["loss"], s["grad_norm"]) for s in read_log(log)[1]]
        check(f"{name}: losses and norms of the run that never saved", key(folder / "never.log") == key(folder / "each.log"))
        check(f"{name}: its weights, to the bit", tensor_files(folder / "never") == tensor_files(folder / "each") != {})
        check(f"{name}: each save is said", done.stdout.count("steps: saved") == STEPS, done.stdout[-500:])
        for step in range(1, STEPS):
            run("ztc-run", *common, f"--stop-after={step}", f"--save={folder / f'to{step}'}")
            here, there = (folder / x / f"step-{step:08}" for x in ("ck", f"to{step}"))
            check(f"{name}: the checkpoint of step {step} is that of a run that stopped there", tensor_files(here) == tensor_files(there) != {})
        run("ztc-run", *common, f"--resume={folder / 'ck' / 'step-00000002'}", f"--export={folder / 'rest'}")
        check(f"{name}: a resume ends in the same weights", tensor_files(folder / "rest") == tensor_files(folder / "never"))
finish()
