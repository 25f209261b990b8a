#!/usr/bin/env python3
"""A run that one can watch: progress with epoch and tokens, a summary, --log-every, event files that hold what the log holds."""
import json
import struct
import subprocess
import sys

from event_files import events
from support import GOLDEN, ROOT, check, compile_golden, finish, read_log, run, scratch

DATA = GOLDEN / "grouped" / "data.safetensors"

with scratch() as work:
    plan = compile_golden(work, "grouped")
    common = [plan, f"--data={DATA}", "--device=cpu", "--threads=1"]
    folder, log = work / "events", work / "log"
    done = run("ztc-run", *common, "--steps=12", f"--log-json={log}", f"--tensorboard={folder}", f"--eval-data={DATA}", "--eval-every=4", "--no-save")
    head, steps = read_log(log)
    lines = [json.loads(x) for x in log.read_text().splitlines()]
    last = [x for x in done.stdout.splitlines() if x.startswith("step 11/12")]
    check("progress says epoch, tokens and what is left", len(last) == 1 and all(x in last[0] for x in ("epoch ", " tokens  ", "left 0s")), last)
    evals = {x["step"]: x["eval_loss"] for x in lines if x.get("event") == "eval"}
    best = min(evals, key=evals.get)
    check("the summary", f"done    12 steps in " in done.stdout and f"best held-out loss {evals[best]:.4f} after {best} steps" in done.stdout and "peak " in done.stdout, done.stdout[-400:])
    check("and where the time went", any(x.startswith("time    ") and "steps " in x for x in done.stdout.splitlines()), done.stdout[-400:])
    summary = lines[-1]
    check("the log ends with it", summary.get("event") == "summary" and summary["steps"] == 12 and summary["tokens"] == sum(x["tokens"] for x in steps)
          and summary["best_eval_step"] == best and summary["peak_bytes"] == head["allocated_bytes"], summary)
    parts = sum(summary[x] for x in ("step_seconds", "eval_seconds", "save_seconds", "loading_seconds", "export_seconds", "other_seconds"))
    check("its parts are the whole", abs(parts - summary["seconds"]) < 1e-6 * max(1, parts), (parts, summary["seconds"]))

    files = list(folder.iterdir())
    check("one event file, which names the run", len(files) == 1 and files[0].name.startswith("events.out.tfevents.") and files[0].name.endswith(head["run"]), files)
    found = events(files[0])
    single = lambda x: struct.unpack("<f", struct.pack("<f", x))[0]
    curve = lambda tag: [(step, value) for step, name, value in found if name == tag]
    check("its version", found[0] == (0, "version", "brain.Event:2"), found[0])
    for tag, key in (("train/loss", "loss"), ("train/gradient_norm", "grad_norm"), ("train/learning_rate", "lr")):
        check(f"{tag} is the log's", curve(tag) == [(x["step"], single(x[key])) for x in steps], curve(tag)[:2])
    check("eval/loss is the log's", curve("eval/loss") == [(step, single(loss)) for step, loss in evals.items()], curve("eval/loss"))

    # The sample that follows a log; without the package and the network of Weights & Biases.
    done = subprocess.run([sys.executable, ROOT / "samples/watch/to_wandb.py", log, "--dry-run"], capture_output=True, text=True, timeout=60)
    sent = [json.loads(x.partition(" ")[2]) for x in done.stdout.splitlines() if x[0].isdigit()]
    check("to_wandb.py sends every step and evaluation", done.returncode == 0 and [x["train/loss"] for x in sent if "train/loss" in x] == [x["loss"] for x in steps]
          and [x["eval/loss"] for x in sent if "eval/loss" in x] == list(evals.values()), done.stderr[-300:])
    check("with the id of the run", f'"id": "{head["run"]}"' in done.stdout.splitlines()[0], done.stdout[:200])

    before = files[0].read_bytes()
    done = run("ztc-run", *common, "--steps=2", "--no-save", f"--tensorboard={folder}", expect=1)
    check("events of another run are not mixed with", "--tensorboard" in done.stderr and "another run" in done.stderr and list(folder.iterdir()) == files and files[0].read_bytes() == before, done.stderr)

    sparse = work / "sparse"
    run("ztc-run", *common, "--steps=12", f"--log-json={sparse}", "--log-every=5", "--no-save")
    check("--log-every: each fifth step and the last", [x["step"] for x in read_log(sparse)[1]] == [4, 9, 11])
    check("they are the steps of the whole log", [x["loss"] for x in read_log(sparse)[1]] == [steps[i]["loss"] for i in (4, 9, 11)])
    done = run("ztc-run", *common, "--steps=2", "--no-save", "--log-every=5")
    check("--log-every without a log is a note", "note: --log-every has no effect without --log-json or --tensorboard" in done.stderr, done.stderr)

    # A resumed run adds a file to its own folder.
    watched = work / "watched"
    run("ztc-run", *common, "--steps=4", "--stop-after=2", f"--save={work / 'ck'}", f"--tensorboard={watched}")
    run("ztc-run", *common, "--steps=4", f"--resume={work / 'ck'}", f"--save={work / 'ck'}", f"--tensorboard={watched}")
    names = sorted(p.name for p in watched.iterdir())
    both = [step for name in names for step, tag, _ in events(watched / name) if tag == "train/loss"]
    check("a resumed run goes on with the curves", len(names) == 2 and both == [0, 1, 2, 3], (names, both))
finish()
