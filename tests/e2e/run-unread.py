#!/usr/bin/env python3
"""Output that nobody takes: a pipe whose reader stands still, a frozen terminal, a log into a pipe. No step waits for it, and the run ends as it should."""
import fcntl
import json
import os
import pty
import subprocess
import time

from support import BIN, GOLDEN, check, compile_golden, finish, run, scratch

DATA = GOLDEN / "grouped" / "data.safetensors"
STEPS = 300  # with a line each: more than a terminal or a small pipe holds


def fifo(work, name):
    """A pipe that is open for reading, and never read."""
    path = work / name
    os.mkfifo(path)
    return path, os.open(path, os.O_RDONLY | os.O_NONBLOCK)


def chatty(plan, folder, *arguments):
    """A run with a line of output for every step."""
    return [BIN / "ztc-run", plan, "--device=cpu", "--threads=1", f"--data={DATA}", f"--eval-data={DATA}", "--eval-every=1", f"--steps={STEPS}",
            f"--save={folder}", "--timeout=4", *arguments]


with scratch() as work:
    plan = compile_golden(work, "grouped", "--zero=3", batch=1)
    # In the order: of one rank, of two.
    for ranks in (1, 2):
        path, reader = fifo(work, f"pipe-{ranks}")
        folder = work / f"pipe-saved-{ranks}"
        with open(path, "wb", buffering=0) as out:
            fcntl.fcntl(out, fcntl.F_SETPIPE_SZ, 4096)
            done = subprocess.run(list(map(str, chatty(plan, folder, f"--ranks={ranks}"))), stdout=out, stderr=subprocess.PIPE, text=True, timeout=120)
        check(f"{ranks} rank(s), a pipe that nobody reads: the run ends well", done.returncode == 0, (done.returncode, done.stderr[-300:]))
        check(f"{ranks} rank(s), a pipe that nobody reads: the model is there", [p.name for p in folder.glob("step-*")] == [f"step-{STEPS:08}"], list(folder.glob("*")))
        os.close(reader)

    # A terminal that nobody reads, as an ssh session of a sleeping computer: output and errors go there.
    for ranks in (1, 2):
        keyboard, terminal = pty.openpty()
        folder = work / f"terminal-saved-{ranks}"
        begin = time.monotonic()
        process = subprocess.Popen(list(map(str, chatty(plan, folder, f"--ranks={ranks}"))), stdout=terminal, stderr=terminal)
        try:
            status = process.wait(120)
        except subprocess.TimeoutExpired:
            status = None
            process.kill()
        os.close(terminal)
        os.close(keyboard)
        check(f"{ranks} rank(s), a frozen terminal: the run ends well", status == 0, status)
        check(f"{ranks} rank(s), a frozen terminal: the model is there", [p.name for p in folder.glob("step-*")] == [f"step-{STEPS:08}"], time.monotonic() - begin)

    # A reader that comes late gets whole lines, and hears what is missing.
    done = subprocess.run(["sh", "-c", '"$@" | (sleep 4; cat)', "sh", *map(str, chatty(plan, work / "late"))], capture_output=True, text=True, timeout=120)
    lines = done.stdout.splitlines()
    check("a late reader gets it all", sum("eval" in line or "held-out" in line for line in lines) >= STEPS and any("saved" in line for line in lines[-3:]), (len(lines), lines[-3:]))

    # The log, into a pipe.
    path, reader = fifo(work, "log")
    done = run("ztc-run", plan, "--device=cpu", f"--data={DATA}", "--steps=3", "--no-save", f"--log-json={path}")
    text = os.read(reader, 1 << 16).decode()
    check("a log into a pipe", [json.loads(line)["step"] for line in text.splitlines() if '"step"' in line and '"loss"' in line][:3] == [0, 1, 2], text[-300:])
    os.close(reader)
    done = run("ztc-run", plan, "--device=cpu", f"--data={DATA}", "--steps=3", "--no-save", f"--log-json={path}", expect=1, timeout=20)
    check("a log into a pipe without a reader is refused at the start", "nobody reads" in done.stderr, done.stderr)
finish()
