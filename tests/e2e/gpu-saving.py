#!/usr/bin/env python3
"""Checkpoints written beside training on the CUDA device, over the stand-ins of tests/standin with slow downloads: they hold the state of their
step, with shards on two GPUs too; a run killed while it saves leaves whole ones; a full disk costs one of them; ranges as a profiler sees them."""
import os
import resource
import signal

from support import BIN, BUILD, GOLDEN, Running, check, compile_golden, finish, rank_processes, read_log, run, scratch, stand_ins, tensor_files, wait_until

QUICK = stand_ins(2)
SLOW = {**QUICK, "ZTC_STAND_IN_COPY_MS": "5"}  # each download of more than a few values
RECORDER = BUILD / "lib/standin/libztc-nvtx-recorder.so"
STEPS = 5
DATA = GOLDEN / "grouped" / "data.safetensors"


def train(plan, name, *options, env=QUICK, **more):
    log = plan.with_name(f"{name}.log")
    done = run("ztc-run", plan, f"--data={DATA}", f"--steps={STEPS}", "--lr=2e-3", f"--log-json={log}", *options, env=env, **more)
    return done, read_log(log)[1] if log.exists() else []


def figures(steps):
    return [{k: x[k] for k in ("step", "loss", "grad_norm", "sent_bytes")} for x in steps]


def profiled(plan, name, *options):
    """Ranges of a run by name: (process, thread, begin, end)."""
    record = plan.with_name(f"{name}.ranges")
    train(plan, name, *options, env={**SLOW, "NVTX_INJECTION64_PATH": str(RECORDER), "ZTC_NVTX_RECORD": str(record)})
    ranges, open_ranges, stacks = {}, {}, {}
    for line in record.read_text().splitlines():
        process, thread, at, what, number, text = line.split(" ", 5)
        if what == "push":
            stacks.setdefault(thread, []).append((text, int(at)))
        elif what == "pop":
            text, begun = stacks[thread].pop()
            ranges.setdefault(text, []).append((process, thread, begun, int(at)))
        elif what == "start":
            open_ranges[process, number] = (text, int(at))
        else:
            text, begun = open_ranges.pop((process, number))
            ranges.setdefault(text, []).append((process, thread, begun, int(at)))
    check(f"{name}: every range ends", not open_ranges and not any(stacks.values()), (open_ranges, stacks))
    return ranges


def test(work, case, ranks, plan):
    gpus = f"--gpus={ranks}"
    _, whole = train(plan, f"{case}-whole", gpus, f"--save={work / case}-whole")
    last = tensor_files(work / f"{case}-whole" / f"step-{STEPS:08}")
    beside, steps = train(plan, f"{case}-beside", gpus, f"--save={work / case}-beside", "--save-every=1", env=SLOW)
    check(f"{case}: saving changes nothing", figures(steps) == figures(whole) and tensor_files(work / f"{case}-beside" / f"step-{STEPS:08}") == last)
    check(f"{case}: every checkpoint is told", [f"after {k} steps: saved" in beside.stdout for k in range(1, STEPS + 1)] == [True] * STEPS, "" if "after 5 steps" in beside.stdout else beside.stdout[-1500:])
    for step in (1, 3):
        train(plan, f"{case}-to-{step}", gpus, f"--save={work / case}-to-{step}", f"--stop-after={step}")
        check(f"{case}: the checkpoint of step {step} is the state after it",
              tensor_files(work / f"{case}-to-{step}" / f"step-{step:08}") == tensor_files(work / f"{case}-beside" / f"step-{step:08}"))
    folder = work / f"{case}-beside" / "step-00000003"
    _, rest = train(plan, f"{case}-rest", gpus, f"--resume={folder}", f"--save={work / case}-rest")
    check(f"{case}: a resume from it gives the bits of the whole run",
          figures(rest) == figures(whole)[3:] and tensor_files(work / f"{case}-rest" / f"step-{STEPS:08}") == last)

    # Killed while a later checkpoint is being written.
    killed = work / f"{case}-killed"
    with Running([BIN / "ztc-run", plan, f"--data={DATA}", f"--steps={STEPS}", "--lr=2e-3", gpus, f"--save={killed}", "--save-every=2"],
                 env={**SLOW, "ZTC_STAND_IN_COPY_MS": "40"}) as running:
        in_the_middle = wait_until(lambda: (killed / "step-00000002").exists() and any(killed.glob(".tmp-step-4*/*.safetensors")), 120)
        for pid in rank_processes(running.pid, plan) or [running.pid]:
            os.kill(pid, signal.SIGKILL)
        running.finish(30)
    check(f"{case}: killed in the middle of a save", in_the_middle, "" if in_the_middle else (running.out[-500:], running.err[-500:]))
    there = sorted(x.name for x in killed.glob("step-*"))
    check(f"{case}: only what is whole has a name", there == ["step-00000002"] and not any(killed.glob(".tmp-*/manifest.json")), there)
    _, rest = train(plan, f"{case}-again", gpus, f"--resume={killed}", f"--save={killed}")
    check(f"{case}: the run goes on from there with the same bits",
          figures(rest) == figures(whole)[2:] and tensor_files(killed / f"step-{STEPS:08}") == last)
    check(f"{case}: what was half-written is gone", not list(killed.glob(".tmp-*")), list(killed.iterdir()))


with scratch() as work:
    (work / "one").mkdir()
    (work / "two").mkdir()
    one = compile_golden(work / "one", "grouped", "--target=simt", batch=1)
    two = compile_golden(work / "two", "grouped", "--target=simt", "--zero=3", "--precision=bf16", batch=1)
    test(work, "one GPU", 1, one)
    test(work, "shards on two GPUs", 2, two)

    # From its first checkpoint on a run may not write files of any size, as if its disk were full.
    folder, screen = work / "full", work / "screen"
    with Running(["sh", "-c", 'screen=$1; shift; exec "$@" >"$screen" 2>&1', "sh", screen, BIN / "ztc-run", two, f"--data={DATA}", f"--steps={STEPS}", "--lr=2e-3", "--gpus=2",
                  f"--save={folder}", "--save-every=1"], env={**SLOW, "ZTC_STAND_IN_COPY_MS": "20"}) as running:
        wait_until(lambda: (folder / "step-00000001").exists(), 120)
        for pid in rank_processes(running.pid, two):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (20000, 20000))
        # No other place takes the model either: the run keeps it until somebody makes room or gives it up.
        check("a full disk: the run waits at its end", wait_until(lambda: "waits and tries again" in screen.read_text(), 120), screen.read_text()[-1500:])
        os.kill(running.pid, signal.SIGTERM)
        status = running.finish(60)
    said = screen.read_text()
    there = sorted(x.name for x in folder.iterdir())
    check("a full disk: the run goes on to its end", "step 4/5" in said and said.count("the run goes on and tries again") >= 2, said[-1500:])
    check("a full disk: it costs the exit status", status == 1 and "checkpoint of step 5 was not saved" in said, (status, said[-500:]))
    check("a full disk: what is whole is named and stays, nothing else is left", there and there[0] == "step-00000001" and f"(whole is {folder / there[-1]})" in said
          and all(x.startswith("step-") for x in there), (there, running.err[-500:]))

    if RECORDER.exists():
        ranges = profiled(two, "profiled", "--gpus=2", f"--save={work / 'profiled'}", "--save-every=2", f"--eval-data={DATA}", "--eval-every=3")
        names = {name.removeprefix("ztc:") for name in ranges}
        wanted = {"microstep 0", "update", "eval", "evaluation", "save"} | {f"step {t}" for t in range(STEPS)}
        check("ranges: all are in the domain of ztc", all(name.startswith("ztc:") for name in ranges), sorted(ranges)[:5])
        check("ranges: steps, programs, saves and evaluations by name", wanted <= names, sorted(wanted - names))
        check("ranges: collectives by the plan's names", any(name.startswith("all_gather ") for name in names) and any(name.startswith("reduce_scatter ") for name in names), sorted(names))
        check("ranges: two ranks", {r[0] for r in ranges.get("ztc:step 0", ())} == {r[0] for r in ranges.get("ztc:save", ())} and len(ranges.get("ztc:step 0", ())) == 2)
        first = {r[0]: r for r in ranges.get("ztc:step 2", ())}
        ahead = [first[r[0]][2] < r[3] for r in ranges.get("ztc:step 1", ())]
        check("ranges: a step begins before the one before it has been judged", ahead == [True, True], (first, ranges.get("ztc:step 1")))
        saves = ranges.get("ztc:save", ())
        trained = [r for r in ranges.get("ztc:step 2", ()) for s in saves if s[0] == r[0] and s[1] != r[1] and s[2] < r[3] and r[2] < s[3]]
        check("ranges: a checkpoint is written while a step is trained, by another thread", len(trained) == 2, (saves, ranges.get("ztc:step 2")))
    else:
        print("left out (needs the headers of NVTX): ranges as a profiler sees them")
finish()
