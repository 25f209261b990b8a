#!/usr/bin/env python3
"""--restarts: a run whose ranks are killed goes on by itself, with the bits of one that nobody disturbed; and --skip-spikes, whose decisions outlive a restart."""
import array
import json
import os
import random
import signal

from support import BIN, GOLDEN, Running, check, compile_golden, finish, free_port, rank_processes, run, scratch, tensor_files, wait_until, write_safetensors

STEPS = 60
STEP_ROWS = 40  # of 2 ranks x 20 micro-batches
SPIKES = (25, 43)  # steps whose rows repeat one token


def lines(log):
    return log.read_bytes().count(b"\n") if log.exists() else 0


def entries(log):
    """The lines of a log that may still be written."""
    found = []
    for line in log.read_text().splitlines() if log.exists() else []:
        try:
            found.append(json.loads(line))
        except ValueError:
            pass  # a line that a kill cut
    return found


def events(log, kind):
    return [e for e in entries(log) if e.get("event") == kind]


def numbers(log):
    """step -> loss, norm and whether its update was dropped: one of each, whatever process wrote the line."""
    found = {}
    for entry in entries(log):
        if "grad_norm" in entry:
            found.setdefault(entry["step"], set()).add((entry["loss"], entry["grad_norm"], entry["skipped"]))
    return found


def kill_at(child, plan, log, step, which, count=None):
    """Kills a rank once the log has that step; false where the run was over before."""
    wait_until(lambda: max(numbers(log), default=-1) >= step or child.process.poll() is not None, 60)
    ranks = wait_until(lambda: [p for p in [rank_processes(child.pid, plan)] if not count or len(p) == count], 10)
    if child.process.poll() is not None or not ranks:
        return False
    os.kill(ranks[0][which], signal.SIGKILL)
    return True


with scratch() as work:
    plan = compile_golden(work, "grouped", batch=1)
    vocabulary = json.loads((GOLDEN / "grouped" / "config.json").read_text())["vocab_size"]
    choose = random.Random(3)
    tokens = array.array("i", (7 if i // (16 * STEP_ROWS) in SPIKES else choose.randrange(vocabulary) for i in range(STEPS * STEP_ROWS * 16)))
    write_safetensors(work / "data.safetensors", {name: ([STEPS * STEP_ROWS, 16], tokens) for name in ("input_ids", "labels")})
    # Steps of some milliseconds: the kills come between them, not after the last.
    common = [plan, f"--data={work / 'data.safetensors'}", "--device=cpu", "--threads=1", "--lr=2e-3", "--timeout=10", "--accumulate=20"]
    usual = [*common, f"--steps={STEPS}"]
    spiked = ["--skip-spikes=6"]
    run("ztc-run", *usual, *spiked, "--ranks=2", f"--export={work / 'whole'}", f"--log-json={work / 'whole.jsonl'}")
    want = numbers(work / "whole.jsonl")
    dropped = sorted(step for step, values in want.items() if next(iter(values))[2])
    check("the updates of spikes are dropped, and no others", dropped == list(SPIKES), dropped)
    summary = events(work / "whole.jsonl", "summary")[0]
    check("the summary counts them", summary.get("spikes") == len(SPIKES), summary)
    plain = work / "plain.jsonl"
    run("ztc-run", *usual, "--ranks=2", "--no-save", f"--log-json={plain}")
    check("without the option no update is", not any(next(iter(v))[2] for v in numbers(plain).values()))
    norms = [next(iter(want[s]))[1] for s in range(STEPS)]
    def limit(step):
        kept = [n for s, n in enumerate(norms[:step]) if s not in SPIKES][:-1 if step - 1 not in SPIKES else None][-64:]
        mean = sum(kept) / len(kept)
        return mean + 6 * max((sum((n - mean) ** 2 for n in kept) / len(kept)) ** 0.5, 0.01 * mean)
    check("the rule is the documented one", all((norms[s] > limit(s)) == (s in SPIKES) for s in range(17, STEPS)), (norms[SPIKES[0]], limit(SPIKES[0])))

    # Two ranks, of which one is killed twice.
    log, save = work / "log", work / "ck"
    with Running([BIN / "ztc-run", *usual, *spiked, "--ranks=2", f"--save={save}", "--save-every=3", "--keep=2", "--restarts=3", f"--log-json={log}", f"--export={work / 'restarted'}"]) as child:
        killed = kill_at(child, plan, log, 20, 1, 2) + kill_at(child, plan, log, 40, 0, 2)
        status = child.finish(120)
    check("a run whose ranks are killed ends well by itself", status == 0 and killed == 2, (status, killed, child.err[-600:]))
    check("it says so", child.err.count("restart 1 of 3") == 1 and child.err.count("restart 2 of 3") == 1 and "on 2 ranks again" in child.err, child.err[-600:])
    check("every step has the undisturbed run's numbers", numbers(log) == want, sorted(s for s in set(want) | set(numbers(log)) if want.get(s) != numbers(log).get(s))[:5])
    check("its weights are the undisturbed run's, bit for bit", tensor_files(work / "restarted") == tensor_files(work / "whole") != {})
    restarts = events(log, "restart")
    check("the log has each restart", [e["restarts"] for e in restarts] == [1, 2] and all(e["world"] == 2 and e["step"] % 3 == 0 for e in restarts), restarts)
    check("the summary counts them", events(log, "summary")[-1].get("restarts") == 2, events(log, "summary"))

    # Before the first checkpoint: from the start.
    log = work / "early.jsonl"
    with Running([BIN / "ztc-run", *usual, *spiked, "--ranks=2", f"--save={work / 'early'}", "--restarts=1", f"--log-json={log}", f"--export={work / 'early-out'}"]) as child:
        kill_at(child, plan, log, 2, 1, 2)
        status = child.finish(120)
    check("without a checkpoint it begins anew", status == 0 and "from the start" in child.err and tensor_files(work / "early-out") == tensor_files(work / "whole"), (status, child.err[-400:]))

    # What is there of somebody else stays.
    done = run("ztc-run", *usual, "--ranks=2", f"--save={work / 'early'}", "--restarts=1", expect=None)
    check("a used folder is refused as without the option", done.returncode == 1 and "--overwrite" in done.stderr and "restart" not in done.stderr, (done.returncode, done.stderr[-300:]))

    # Lost again before a further checkpoint: fewer ranks.
    log, save = work / "fewer.jsonl", work / "fewer"
    with Running([BIN / "ztc-run", *common, "--steps=200", "--ranks=3", f"--save={save}", "--save-every=50", "--restarts=3", f"--log-json={log}", f"--export={work / 'fewer-out'}"]) as child:
        killed = kill_at(child, plan, log, 80, 1, 3)
        wait_until(lambda: events(log, "restart"), 30)
        killed += kill_at(child, plan, log, 0, 2, 3)
        status = child.finish(120)
    head = [e for e in entries(log) if "world" in e]
    check("lost again, it goes on on fewer ranks that keep the global batch", status == 0 and killed == 2 and head[-1]["world"] == 2 and "from step 50" in child.err and "on 2 ranks now" in child.err, (status, killed, child.err[-600:]))

    # One rank, and the end of its restarts.
    save = work / "one"
    log = work / "one.jsonl"
    with Running([BIN / "ztc-run", *usual, f"--save={save}", "--save-every=2", "--restarts=1", f"--log-json={log}"]) as child:
        killed = kill_at(child, plan, log, 5, 0) + kill_at(child, plan, log, 15, 0)
        status = child.finish(60)
    check("one rank is started again too; at the end it says how to go on", status == 1 and killed == 2 and "are used up" in child.err and f"--resume={save}" in child.err, (status, child.err[-600:]))
    command = child.err.rsplit("go on with: ", 1)[-1].strip().splitlines()[0].split()
    done = run("ztc-run", *command[1:], expect=None)
    check("and that command goes on", done.returncode == 0, done.stderr[-300:])

    # A stop that somebody asks for is not a loss, and a fault of the run's own is not tried again.
    with Running([BIN / "ztc-run", *usual, "--ranks=2", f"--save={work / 'stop'}", "--restarts=2", f"--log-json={work / 'stop.jsonl'}"]) as child:
        wait_until(lambda: lines(work / "stop.jsonl") > 3, 30)
        os.kill(child.pid, signal.SIGTERM)
        status = child.finish(60)
    check("a stop ends it", status == 3 and "restart" not in child.err, (status, child.err[-300:]))
    done = run("ztc-run", *usual, "--ranks=2", f"--save={work / 'fault'}", "--restarts=2", f"--weights={work / 'nowhere'}", expect=None)
    check("a fault of its own ends it", done.returncode == 1 and "restart" not in done.stderr, done.stderr[-300:])

    # Who else starts ranks restarts them.
    for name, environment in (("torchrun", {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}),
                              ("Slurm", {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "localhost"})):
        done = run("ztc-run", *usual, f"--save={work / 'x'}", "--restarts=2", expect=2, env=os.environ | environment)
        check(f"{name}: refused with the reason", name in done.stderr and "--restarts" in done.stderr, done.stderr)
    done = run("ztc-run", *usual, "--nodes=2", "--node-rank=0", "--rendezvous=127.0.0.1:7000", f"--save={work / 'x'}", "--restarts=2", expect=2)
    check("several hosts: refused with the reason", "hosts" in done.stderr, done.stderr)
    done = run("ztc-run", *usual, "--restarts=2", expect=2)
    check("without --save: refused", "--save" in done.stderr, done.stderr)
finish()
