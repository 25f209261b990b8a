#!/usr/bin/env python3
"""50 kills at random moments of a 2-rank run, each followed by a resume, end with the weights of the run that nobody disturbed, bit for bit.

kill-resume.py [SEED [KILLS]]: moments are chosen by the seed as (log lines, then milliseconds); what a moment hits depends on the machine.
"""
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from support import BIN, GOLDEN, check, compile_golden, finish, run, scratch  # noqa: E402

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
kills = int(sys.argv[2]) if len(sys.argv) > 2 else 50
steps = 4 * kills
choose = random.Random(seed)
data = GOLDEN / "grouped" / "data.safetensors"


def descendants(pid):
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parents.setdefault(int(stat.read_text().rsplit(")", 1)[1].split()[1]), []).append(int(stat.parent.name))
        except OSError:
            pass
    found, todo = [], [pid]
    while todo:
        todo += (new := parents.get(todo.pop(), []))
        found += new
    return sorted(found)


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def lines(log):
    return log.read_text().count("\n") if log.exists() else 0


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


with scratch() as work:
    plan = compile_golden(work, "grouped", "--zero=3", batch=1)
    common = [plan, f"--data={data}", f"--steps={steps}", "--device=cpu", "--ranks=2", "--threads=1", "--accumulate=2", "--shuffle", "--seed=5", "--lr=2e-3"]
    run("ztc-run", *common, f"--export={work / 'whole'}")
    save, log, hits, done = work / "ck", work / "log", {}, 0
    command = [str(BIN / "ztc-run"), *map(str, common), f"--save={save}", "--save-every=1", "--keep=3", f"--log-json={log}"]
    while done < kills:
        resume = [f"--resume={save}"] if any(save.glob("step-*")) else ["--overwrite"]
        child = subprocess.Popen([*command, *resume], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wanted, deadline = lines(log) + choose.choice((0, 1, 1, 2, 3, 4)), time.time() + 60
        while child.poll() is None and lines(log) < wanted and time.time() < deadline:
            time.sleep(0.002)
        time.sleep(choose.uniform(0, 0.06))
        victim = choose.choice(("rank 0", "rank 1", "all"))
        ranks = [p for p in descendants(child.pid) if plan.name in pathlib.Path(f"/proc/{p}/cmdline").read_text()] if child.poll() is None else []
        if child.poll() is not None or len(ranks) < 2 and victim != "all":  # too early for ranks, or a failure
            if child.poll() is None:
                kill([child.pid, *ranks])
            _, text = child.communicate(timeout=30)
            if child.returncode > 0:
                check("a resume works", False, text[-500:])
                break
            victim = "before the ranks"
        else:
            start = time.time()
            kill([child.pid, *ranks] if victim == "all" else [ranks[int(victim[-1])]])
            _, text = child.communicate(timeout=60)
            if victim != "all" and time.time() - start > 10:
                check("all end within 10 s", False, f"({time.time() - start:.1f} s, {victim})")
            left = [p for p in ranks if is_running(p)]
            if victim == "all":
                kill(left)
            elif left:
                check("no process is left", False, left)
        hits[victim] = hits.get(victim, 0) + 1
        done += 1
        if log.exists() and re.search(rf'"step": ?{steps - 1},', log.read_text()):
            break
    check(f"{kills} kills before the last step", done == kills, f"({done}: {hits}, seed {seed})")
    found = sorted(p.name for p in save.glob("step-*"))
    print("note checkpoints before the last resume:", found, flush=True)
    run("ztc-run", *common, f"--save={save}", "--save-every=1", "--keep=3", f"--resume={save}", f"--export={work / 'end'}")
    files = lambda folder: {p.name: p.read_bytes() for p in sorted(folder.glob("*.safetensors"))}
    check("the weights of the undisturbed run, bit for bit", files(work / "whole") == files(work / "end") and files(work / "end"))
    check("nothing temporary is left", [p.name for p in save.iterdir() if not p.name.startswith("step-")] == [], list(save.iterdir()))
    check("--keep holds", len(list(save.iterdir())) == 3)
finish()
