#!/usr/bin/env python3
"""Two ranks that Open MPI or torchrun started. What is not installed is skipped by name."""
import os
import re
import shutil
import signal

from support import BIN, GOLDEN, Running, check, compile_golden, finish, free_port, rank_processes, read_log, scratch, wait_until

data = GOLDEN / "grouped" / "data.safetensors"


launchers = {}
if shutil.which("mpirun"):
    launchers["mpirun"] = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2"]
if shutil.which("torchrun"):
    launchers["torchrun"] = ["torchrun", "--no-python", "--nproc-per-node", "2", "--master-addr", "127.0.0.1", "--master-port"]
for name in ("mpirun", "torchrun"):
    if name not in launchers:
        print(f"skip {name}: not installed")

with scratch() as work:
    plan = compile_golden(work, "grouped", "--zero=3", batch=1)

    def start(name, log, *arguments):
        port = [str(free_port())] if name == "torchrun" else []
        return Running([*launchers[name], *port, BIN / "ztc-run", plan, "--device=cpu", f"--data={data}", f"--log-json={log}", *arguments])

    def is_under_way(running, log):
        return wait_until(lambda: running.process.poll() is not None or (log.exists() and log.read_text().count('"loss"') > 3), 60) and running.process.poll() is None

    for name in launchers:
        with start(name, work / f"{name}.log", "--steps=4", "--no-save") as running:
            status = running.finish(120)
            check(f"{name}: exit status 0", status == 0, (status, running.err[-2000:]))
            header, steps = read_log(work / f"{name}.log")
            check(f"{name}: two ranks, four steps", header["world"] == 2 and len(steps) == 4, header)

        log = work / f"{name}-killed.log"
        with start(name, log, "--steps=1000000", "--no-save") as running:
            check(f"{name}: the run begins", is_under_way(running, log))
            os.kill(rank_processes(running.pid, plan)[1], signal.SIGKILL)
            status = running.finish(30)
            check(f"{name}: a rank killed: failed", status not in (0, 3, None), status)
            check(f"{name}: the lost rank is named", re.search(r"ztc-run: error: rank 1 is lost.*step \d", running.err), running.err[-2000:])
finish()
