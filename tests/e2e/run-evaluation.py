#!/usr/bin/env python3
"""Evaluation: several sets by name, a run that only evaluates, patience over a resume, the best checkpoint of one set."""
import json
import math
import struct

from support import check, finish, read_log, run, scratch, write_tiny_llama


def evaluations(log):
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line for line in lines if line.get("event") == "eval"]


with scratch() as work:
    write_tiny_llama(work / "model", vocabulary=64)
    plan = work / "plan.bin"
    done = run("ztc", "compile", work / "model", "--batch=2", "--seq=16", "--target=host", "--precision=fp32", "-o", plan)
    check("the model compiles", done.returncode == 0, done.stderr)
    for name, step, count in (("train", 1, 800), ("wiki", 1, 200), ("code", 5, 120)):
        tokens = [(i * step + i // 9) % 60 for i in range(count)]
        (work / f"{name}.bin").write_bytes(struct.pack(f"<{count}H", *tokens))
    common = [plan, "--device=cpu", "--threads=1"]
    training = [*common, "--data", work / "train.bin", "--lr=1e-2", "--seed=1"]
    sets = ["--eval-data", f"wiki={work / 'wiki.bin'}", f"code={work / 'code.bin'}"]

    log = work / "log"
    done = run("ztc-run", *training, *sets, "--steps=6", "--eval-every=2", "--export", work / "trained", "--export-dtype=fp32", f"--log-json={log}", f"--tensorboard={work / 'events'}")
    found = evaluations(log)
    check("each set is logged by its name", [(x["step"], x["name"]) for x in found] == [(step, name) for step in (2, 4, 6) for name in ("wiki", "code")], found)
    check("with its perplexity", all(abs(x["perplexity"] - math.exp(x["eval_loss"])) < 1e-9 * x["perplexity"] for x in found), found)
    last = {x["name"]: x for x in found[-2:]}
    check("and said", f"after 6 steps: held-out loss of code {last['code']['eval_loss']:.4f} (perplexity " in done.stdout, done.stdout[-900:])
    summary = json.loads(log.read_text().splitlines()[-1])
    best = {name: min(x["eval_loss"] for x in found if x["name"] == name) for name in ("wiki", "code")}
    check("the summary has the best of each", {name: x["eval_loss"] for name, x in summary["best_evals"].items()} == best and summary["best_eval_loss"] == best["wiki"], summary)
    events = next((work / "events").iterdir()).read_bytes()
    check("TensorBoard has both", b"eval/wiki/loss" in events and b"eval/code/loss" in events)

    before = sorted(work.rglob("*"))
    only = work / "only"
    done = run("ztc-run", *common, "--eval-only", *sets, "--weights", work / "trained", f"--log-json={only}", "--lr=1", "--skip-spikes=6")
    check("what only training looks at is a note", all(f"note: {name} has no effect with --eval-only" in done.stderr for name in ("--lr", "--skip-spikes"))
          and "--log-json" not in done.stderr, done.stderr)
    again = {x["name"]: x for x in evaluations(only)}
    check("--eval-only finds what the run found at its end", all(abs(again[name]["eval_loss"] - last[name]["eval_loss"]) < 1e-6 and again[name]["targets"] == last[name]["targets"]
                                                                 for name in last), (again, last))
    check("it prints loss and perplexity", all(f"held-out loss of {name} {x['eval_loss']:.4f} (perplexity {x['perplexity']:.4g}), {x['targets']} targets" in done.stdout
                                               for name, x in again.items()), done.stdout)
    check("and leaves nothing but its log", sorted(work.rglob("*")) == sorted([*before, only]))
    both = work / "both"
    run("ztc-run", *common, "--eval-only", "--eval-data", work / "wiki.bin", work / "code.bin", "--weights", work / "trained", f"--log-json={both}")
    together = sum(x["eval_loss"] * x["targets"] for x in again.values()) / sum(x["targets"] for x in again.values())
    check("files without a name are one set", [x["eval_loss"] for x in evaluations(both)] and "name" not in evaluations(both)[0]
          and abs(evaluations(both)[0]["eval_loss"] - together) < 1e-5, evaluations(both))
    two = work / "two"
    run("ztc-run", plan, "--device=cpu", "--ranks=2", "--threads=1", "--eval-only", *sets, "--weights", work / "trained", f"--log-json={two}")
    check("two ranks find the same", all(abs(x["eval_loss"] - again[x["name"]]["eval_loss"]) < 1e-5 for x in evaluations(two)) and len(evaluations(two)) == 2, evaluations(two))

    # Patience: with a rate of nothing no evaluation is better than the first.
    still = [*common, "--data", work / "train.bin", "--lr=0", "--steps=20", "--eval-every=2", "--patience=2", *sets]
    log = work / "patience"
    done = run("ztc-run", *still, f"--log-json={log}", "--export", work / "still")
    said = "after 6 steps: the held-out loss of wiki has not improved in 2 evaluations"
    summary = json.loads(log.read_text().splitlines()[-1])
    check("patience ends a run that gets no better", said in done.stdout and [x["step"] for x in read_log(log)[1]] == list(range(6)) and summary["ended_by"] == "patience", done.stdout[-900:])
    check("and its model is there", (work / "still/model.safetensors").exists())
    run("ztc-run", *still, "--stop-after=4", "--save", work / "ck")
    state = json.loads((work / "ck/step-00000004/trainer.json").read_text())["best_evaluation"]
    check("a checkpoint has the count", state["since"] == 1 and state["step"] == 2 and state["name"] == "wiki", state)
    done = run("ztc-run", *still, "--save", work / "ck", "--resume", work / "ck")
    check("a resumed run goes on with it", said in done.stdout and (work / "ck/step-00000006").exists(), done.stdout[-900:])
    run("ztc-run", *training, *sets, "--steps=6", "--eval-every=2", "--patience=1", "--no-save", "--overwrite", f"--log-json={log}")
    check("a run that gets better goes to its end", len(read_log(log)[1]) == 6)

    # The best of one set stays.
    log = work / "best.log"
    run("ztc-run", *common, "--data", work / "code.bin", "--lr=3e-2", "--schedule=constant", "--steps=30", *sets, "--eval-every=5", "--save", work / "best", "--keep=1",
        "--keep-best=code", f"--log-json={log}")
    of = lambda name: {x["step"]: x["eval_loss"] for x in evaluations(log) if x["name"] == name}
    kept = sorted(int(path.name[5:]) for path in (work / "best").glob("step-*"))
    code = of("code")
    check("--keep-best=NAME keeps the best of that set", min(code, key=code.get) in kept and len(kept) <= 2, (kept, code, of("wiki")))
    states = {step: json.loads((work / f"best/step-{step:08}/trainer.json").read_text()).get("eval_loss") for step in kept}
    check("by its loss", all(loss == code[step] for step, loss in states.items()), (states, code))

    for options, said in ((["--eval-only"], "--eval-only has no effect without --eval-data"), ([*sets, "--eval-only", "--steps=3"], "leave --steps and --epochs out"),
                          ([*sets, "--eval-only", "--data", "x"], "leave --data out"), (sets, "--eval-data has no effect without --data or --eval-only"),
                          ([*sets, "--data", "x", "--steps=2", "--patience=2"], "--patience has no effect without --eval-every"),
                          ([*sets, "--data", "x", "--steps=2", "--save", "y", "--keep-best=news"], "--keep-best=news: no --eval-data has this name (known are wiki, code)"),
                          (["--eval-only", "--eval-data", "wiki="], "'wiki=' names no file")):
        done = run("ztc-run", *common, *options, expect=2)
        check(said, said in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr)
    done = run("ztc-run", *common, "--eval-only", "--eval-data", f"news={work / 'none.bin'}", expect=1)
    check("a file that is not there is said with its set", "--eval-data news" in done.stderr and "none.bin" in done.stderr, done.stderr)
finish()
