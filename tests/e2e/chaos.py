#!/usr/bin/env python3
"""A run of two ranks through chaos: kills, stops, a full disk, a cut network, slow ranks; each round resumes, and every step has the numbers of the run that nobody disturbed, bit for bit.

chaos.py [ROUNDS [SEED]]: 20 rounds of seed 1 by default. The seed chooses what happens and after how many steps; what a moment hits depends on the machine.
"""
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

from support import BIN, GOLDEN, Running, check, compile_golden, failures, finish, is_alive, rank_processes, run, scratch, small_disk, tensor_files, wait_until

rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
choose = random.Random(seed)
steps = 6 * rounds + 100
TIMEOUT = 5  # of the ranks, in seconds: what a cut network costs
root = os.geteuid() == 0


class Log:
    """What a log that goes on says of each step, read once: it becomes long."""

    def __init__(self, path):
        self.path, self.found, self.differs, self.offset = path, {}, [], 0

    def forget(self):
        self.path.unlink(missing_ok=True)
        self.found, self.offset = {}, 0

    def lines(self):
        """Of this round so far."""
        if not self.path.exists():
            return 0
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return file.read().count(b"\n")

    def read(self):
        """step -> (loss, gradient norm, learning rate), as text, of what is new; every line of a step must say the same."""
        new = {}
        if not self.path.exists():
            return new
        with self.path.open("rb") as file:
            file.seek(self.offset)
            text = file.read()
        self.offset += text.rfind(b"\n") + 1
        for line in text[:text.rfind(b"\n") + 1].splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # a line that a kill cut
            if "grad_norm" in entry:
                new[entry["step"]] = value = tuple(repr(entry[k]) for k in ("loss", "grad_norm", "lr", "tokens"))
                if self.found.setdefault(entry["step"], value) != value:
                    self.differs.append(entry["step"])
        return new


def send(pids, which):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, which)


class Chaos:
    """What happens to a run under way; each returns whether the run is to end by itself now."""

    def __init__(self, disk):
        self.disk = disk

    def kill_rank(self, child, ranks):
        send([choose.choice(ranks)], signal.SIGKILL)
        return True

    def kill_launcher(self, child, ranks):
        send([child.pid], signal.SIGKILL)
        return True

    def kill_all(self, child, ranks):
        send([child.pid, *ranks], signal.SIGKILL)
        return True

    def ask_to_stop(self, child, ranks):
        send([child.pid], choose.choice((signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)))
        return True

    def slow_rank(self, child, ranks):
        slow = choose.choice(ranks)
        for _ in range(choose.randint(1, 4)):
            send([slow], signal.SIGSTOP)
            time.sleep(choose.uniform(0.01, 0.15))
            send([slow], signal.SIGCONT)
            time.sleep(0.02)
        return False

    def stop_all(self, child, ranks):
        send([child.pid, *ranks], signal.SIGSTOP)
        time.sleep(choose.uniform(0.05, 0.3))
        send([child.pid, *ranks], signal.SIGCONT)
        return False

    def full_disk(self, child, ranks):
        with open(self.disk / "filler", "wb", buffering=0) as out, contextlib.suppress(OSError):
            while True:
                out.write(bytes(4096))
        time.sleep(choose.uniform(0.02, 0.2))
        if choose.random() < 0.3:  # and a kill while it is full
            send([child.pid, *ranks], signal.SIGKILL)
        (self.disk / "filler").unlink()
        return False

    def network(self, child, state):
        subprocess.run(["nsenter", f"--net=/proc/{child}/ns/net", "ip", "link", "set", "lo", state], capture_output=True)

    def cut_network(self, child, ranks):
        self.network(child.pid, "down")
        time.sleep(choose.uniform(0.05, 0.4))
        self.network(child.pid, "up")  # addresses of connections stay: the kernel sends again
        return False


with scratch() as work, contextlib.ExitStack() as stack:
    plan, disk = compile_golden(work, "grouped", "--zero=3", batch=1), work / "disk"
    events = ["kill_rank", "kill_rank", "kill_launcher", "kill_all", "ask_to_stop", "slow_rank", "stop_all"]
    if small_disk(stack, disk, "16m", "a full disk"):
        events += ["full_disk", "full_disk"]
    own_network = root and shutil.which("nsenter") and subprocess.run(["unshare", "-n", "ip", "link", "set", "lo", "up"], capture_output=True).returncode == 0
    if own_network:
        events += ["cut_network"]
    else:
        print("left out (needs root, unshare, nsenter and ip): a cut network")
    common = [plan, f"--data={GOLDEN / 'grouped' / 'data.safetensors'}", f"--steps={steps}", "--device=cpu", "--ranks=2", "--threads=1", "--accumulate=2", "--shuffle",
              "--seed=5", "--lr=2e-3", f"--timeout={TIMEOUT}"]
    run("ztc-run", *common, f"--export={work / 'whole'}", f"--log-json={work / 'whole.jsonl'}", timeout=1200 + rounds)
    want = Log(work / "whole.jsonl").read()
    check("the undisturbed run has every step", len(want) == steps, len(want))

    save, log, chaos, happened = disk / "ck", Log(work / "log"), Chaos(disk), {}
    seconds = {}
    for number in range(rounds):
        event = choose.choice(events)
        resume = [f"--resume={save}"] if any(save.glob("step-*")) else []
        if not resume:
            log.forget()
        command = [BIN / "ztc-run", *common, f"--save={save}", "--save-every=1", "--keep=3", f"--log-json={log.path}", *resume]
        if own_network:
            command = ["unshare", "-n", "sh", "-c", 'ip link set lo up; exec "$@"', "sh", *command]
        after, began = choose.randint(0, 3), time.monotonic()
        with Running(command) as child:
            wait_until(lambda: log.lines() > after or child.process.poll() is not None, 60)
            time.sleep(choose.uniform(0, 0.05))
            ranks = rank_processes(child.pid, plan)
            if child.process.poll() is None and len(ranks) == 2:
                ends = getattr(chaos, event)(child, ranks)
                if not ends and child.process.poll() is None:  # it goes on, and is stopped some steps later
                    at = log.lines()
                    wait_until(lambda: log.lines() > at or child.process.poll() is not None, 2 * TIMEOUT + 20)
                    send([child.pid], signal.SIGTERM)
            status = child.finish(60)
            check(f"round {number}: {event}: the run ends", status is not None, child.err[-400:]) if status is None else None
            if status is None:
                break
            if status in (2, 139, 134, -signal.SIGSEGV, -signal.SIGABRT) or "terminate called" in child.err:
                check(f"round {number}: {event}: no crash, and its own command line is taken", False, (status, child.err[-600:]))
                break
            if not wait_until(lambda: not any(is_alive(p) for p in ranks), 10):
                check(f"round {number}: {event}: no process is left", False, ranks)
        happened[event] = happened.get(event, 0) + 1
        differs = [step for step, value in log.read().items() if want.get(step) != value] + log.differs
        seconds[event] = seconds.get(event, 0) + time.monotonic() - began
        if differs:
            check(f"round {number}: {event}: every step has the undisturbed run's numbers", False, sorted(set(differs))[:5])
            break
        if (number + 1) % 50 == 0 and rounds > 50:
            print(f"note {number + 1} of {rounds} rounds, step {max(log.found, default=0)}", flush=True)
        left = [p.name for p in save.glob("*") if not p.name.startswith("step-")] if save.exists() and event not in ("kill_launcher", "kill_rank", "kill_all", "full_disk") else []
        if left:
            check(f"round {number}: {event}: nothing temporary is left", False, left)
    check(f"{rounds} rounds, each with the undisturbed run's numbers", sum(happened.values()) == rounds and not failures, f"({happened}, seed {seed})")
    print("note step reached:", max(log.found, default=0), flush=True)
    print("note seconds a round:", {event: round(seconds[event] / count, 2) for event, count in happened.items()}, flush=True)
    run("ztc-run", *common, f"--save={save}", "--keep=3", *([f"--resume={save}"] if any(save.glob("step-*")) else []), f"--export={work / 'end'}", timeout=1200)
    check("the weights of the undisturbed run, bit for bit", tensor_files(work / "whole") == tensor_files(work / "end") != {})
    check("nothing temporary is left", [p.name for p in save.iterdir() if not p.name.startswith("step-")] == [], list(save.iterdir()))
finish()
