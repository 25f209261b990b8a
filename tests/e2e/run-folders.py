#!/usr/bin/env python3
"""What a run leaves is never overwritten or mixed with another run's: folders and logs that another run has used are refused before the first step."""
import json
import re
import shutil
import signal

from support import BIN, GOLDEN, Running, check, compile_golden, finish, read_log, run, scratch, wait_until

DATA = f"--data={GOLDEN / 'grouped' / 'data.safetensors'}"


def content(folder):
    return {str(p.relative_to(folder)): (p.read_bytes(), p.stat().st_mtime_ns) for p in sorted(folder.rglob("*")) if p.is_file()}


def state(checkpoint):
    return json.loads((checkpoint / "trainer.json").read_text())


def names(folder):
    return sorted(p.name for p in folder.iterdir())


with scratch() as work:
    plan = compile_golden(work, "grouped")
    common = [plan, DATA, "--device=cpu", "--threads=1"]

    def refused(name, *arguments, needs):
        """Refused before the first step, in one message, and nothing is touched."""
        before = content(work)
        done = run("ztc-run", *common, *arguments, expect=1)
        lines = [x for x in done.stderr.splitlines() if "error:" in x]
        check(f"{name}: refused in one message", len(lines) == 1 and all(re.search(x, lines[0]) for x in needs), done.stderr[-400:])
        check(f"{name}: before the first step", "step 0/" not in done.stdout, done.stdout[-300:])
        check(f"{name}: nothing is touched", content(work) == before)

    # The run has one id, in log, checkpoints and export.
    first, model, log = work / "ck", work / "model", work / "log.jsonl"
    run("ztc-run", *common, "--steps=4", f"--save={first}", "--save-every=2", f"--export={model}", f"--log-json={log}")
    head, _ = read_log(log)
    ids = {head["run"], state(first / "step-00000002")["run"], state(first / "step-00000004")["run"], json.loads((model / "ztc_run.json").read_text())["run"]}
    check("log, checkpoints and export have the id of the run", len(ids) == 1 and all(ids), ids)

    new = [f"--steps=2", f"--save={work / 'other'}"]
    refused("--save of another run", "--steps=2", f"--save={first}", needs=["--save", "step-0000000", "another run", "--resume", "--overwrite"])
    refused("--export of another run", "--steps=2", f"--export={model}", needs=["--export", "holds a model", "--overwrite"])
    refused("a log of another run", "--steps=2", "--no-save", f"--log-json={log}", needs=["--log-json", "another run", "--overwrite"])
    (work / "notes.txt").write_text("not a log\n")
    refused("a file that is not a log", "--steps=2", "--no-save", f"--log-json={work / 'notes.txt'}", needs=["--log-json", "not a log"])
    before = content(work)
    done = run("ztc-run", plan, "--device=cpu", "--threads=1", f"--log-json={log}", expect=1)
    check("a trial does not take a run's log either", "--overwrite" in done.stderr and content(work) == before, done.stderr)

    # A resume goes on in its own folder and log, not in another run's.
    run("ztc-run", *common, "--steps=6", f"--resume={first}", f"--save={first}", f"--log-json={log}", f"--export={work / 'model6'}")
    check("a resumed run keeps its id and goes on in its folder", state(first / "step-00000006")["run"] == head["run"], state(first / "step-00000006")["run"])
    lines = [json.loads(x) for x in log.read_text().splitlines()]
    check("and in its log", [x["run"] for x in lines if "plan_sha256" in x] == [head["run"]] * 2)
    second = work / "second"
    run("ztc-run", *common, "--steps=2", "--seed=1", "--lr=3e-4", "--weight-decay=0.1", f"--save={second}")
    refused("a resume that saves into a third run's folder", "--steps=8", f"--resume={first}", f"--save={second}", needs=["--save", "another run"])
    refused("a resume that writes into another run's log", "--steps=4", f"--resume={second}", f"--save={second}", f"--log-json={log}", needs=["--log-json", "another run"])
    refused("a resume from before the newest checkpoint", "--steps=8", f"--resume={first / 'step-00000002'}", f"--save={first}",
            needs=["step-00000004", "ahead of step 2", "--overwrite"])
    run("ztc-run", *common, "--steps=3", f"--resume={first / 'step-00000002'}", f"--save={work / 'branch'}")
    check("a branch of a run in a folder of its own", names(work / "branch") == ["step-00000003"])

    # --keep counts this run's own checkpoints; a folder with several runs is not guessed about.
    mixed = work / "mixed"
    shutil.copytree(first, mixed)
    shutil.copytree(second / "step-00000002", mixed / "step-00000009")
    trainer = mixed / "step-00000009" / "trainer.json"
    done = run("ztc-run", *common, "--steps=8", f"--resume={mixed}", "--no-save", expect=1)
    check("a folder with checkpoints of two runs is not resumed without a name", "several runs" in done.stderr and "step-00000009" in done.stderr, done.stderr)

    # --overwrite: what was there stays until this run has something whole to put in its place.
    run("ztc-run", *common, "--steps=3", f"--save={first}", "--save-every=1", "--keep=2", "--overwrite", f"--export={model}", f"--log-json={log}")
    check("--overwrite: this run's checkpoints replace the older run's", names(first) == ["step-00000002", "step-00000003"], names(first))
    owner = {state(first / x)["run"] for x in names(first)}
    check("and they are this run's", owner == {read_log(log)[0]["run"]} and owner != {head["run"]}, owner)
    check("the model and the log too", json.loads((model / "ztc_run.json").read_text())["run"] in owner)
    check("the log has one run", log.read_text().count("plan_sha256") == 1)

    # Nobody named a folder: the next number.
    for number in (1, 2, 3):
        run("ztc-run", *common, f"--steps={number}")
    out = [work / f"grouped-out{x}" for x in ("", "-2", "-3")]
    steps = [json.loads((x / "ztc_run.json").read_text())["steps"] for x in out]
    check("the default folder takes the next number", steps == [1, 2, 3], steps)
    run("ztc-run", *common, "--steps=4", "--stop-after=2")
    fourth = work / "grouped-out-4"
    check("so do checkpoints of --stop-after", names(fourth) == ["step-00000002"], names(work))
    run("ztc-run", *common, "--steps=4", f"--resume={fourth}")
    check("its resume exports beside them", (fourth / "model.safetensors").exists() and json.loads((fourth / "ztc_run.json").read_text())["run"] == state(fourth / "step-00000002")["run"], names(fourth))

    # A resume names what is different.
    done = run("ztc-run", *common, "--steps=9", f"--resume={second}", "--no-save", "--lr=0.01", "--schedule=linear", "--weight-decay=0", "--beta2=0.999")
    for name in ("--lr 0.01, it was 0.0003", "--schedule linear, it was cosine", "--weight-decay 0, it was 0.1", "--beta2 0.999, it was 0.95", "--steps 9, it was 2"):
        check(f"a resume says {name}", f"differs from the checkpoint: {name}" in done.stdout, done.stdout[:600] if "--lr" in name else "")
    done = run("ztc-run", *common, "--steps=1", f"--resume={second}", "--no-save", expect=1)
    check("fewer steps than are done", "has done 2 steps, --steps asks for 1" in done.stderr, done.stderr)

    # A period by time: short beside the run on any machine (its 300 steps took 75 ms on a fast one).
    periodic = work / "periodic"
    run("ztc-run", *common, "--steps=300", f"--save={periodic}", "--save-period=0.005s")
    check("--save-period saves by time", len(names(periodic)) > 2, names(periodic)[:5])
    for wrong, word in (("30", "no unit"), ("soon", "30m"), ("0s", "30m")):
        done = run("ztc-run", *common, "--steps=2", f"--save={work / 'never'}", f"--save-period={wrong}", expect=2)
        check(f"--save-period={wrong}", "--save-period" in done.stderr and word in done.stderr, done.stderr)
    check("--help states the default interval of saving", "default 30m" in run("ztc-run", "--help").stdout)

    # The place of the checkpoints goes away while the run is under way, and does not come back.
    for ranks in (1, 2):
        place, blocker = work / f"place-{ranks}", work / f"blocker-{ranks}"
        (work / f"real-{ranks}").mkdir()
        place.symlink_to(f"real-{ranks}")
        blocker.write_text("a file stands in its place")
        command = [plan, DATA, "--device=cpu", f"--ranks={ranks}", "--threads=1", "--steps=100000", f"--save={place / 'saved'}", "--save-every=10", "--keep=2"]
        with Running([BIN / "ztc-run", *command], cwd=work) as child:
            wait_until(lambda: any(place.glob("saved/step-*")), 60)
            blocker.rename(place)  # at once: the run makes a folder again where there is none
            ended_early = child.finish(2) is not None
            if not ended_early:
                child.process.send_signal(signal.SIGTERM)
                child.finish(60)
        check(f"{ranks} rank(s): a save whose folder is gone does not end the run", not ended_early and "the run goes on" in child.out, (child.out[-300:], child.err[-500:]))
        rescued = list(work.glob("*-rescued/step-*"))
        check(f"{ranks} rank(s): the state is in another place", len(rescued) == 1 and "nothing is lost" in child.err, (rescued, child.err[-500:]))
        for folder in work.glob("*-rescued"):
            shutil.rmtree(folder)

    # The best one by evaluation stays.
    best = work / "best"
    done = run("ztc-run", *common, "--steps=30", "--lr=3", "--schedule=constant", "--clip=0", f"--save={best}", "--keep=1", "--keep-best",
               f"--eval-data={GOLDEN / 'grouped' / 'data.safetensors'}", "--eval-every=1", f"--log-json={work / 'best.jsonl'}", expect=None)
    evals = {x["step"]: x["eval_loss"] for x in map(json.loads, (work / "best.jsonl").read_text().splitlines()) if x.get("event") == "eval"}
    least = min(evals, key=evals.get)
    kept = [int(x[5:]) for x in names(best) if x.startswith("step-")]
    check("--keep-best keeps the best checkpoint beside the newest", least in kept and len(kept) <= 2, (least, kept))
    check("which says how good it was", abs(state(best / f"step-{least:08}")["eval_loss"] - evals[least]) < 1e-12)
    run("ztc-run", *common, "--steps=2", f"--save={work / 'x'}", "--keep-best", expect=2)

    # A checkpoint is a Hugging Face folder.
    source = work / "hf"
    source.mkdir()
    (source / "config.json").write_text('{"model_type": "llama", "dtype": "bfloat16"}')
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        (source / name).write_text("{}")
    run("ztc-run", *common, "--steps=1", f"--save={work / 'complete'}", f"--hf-config={source}")
    checkpoint = work / "complete" / "step-00000001"
    check("config, tokenizer and generation config are in a checkpoint", {"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"} <= set(names(checkpoint)), names(checkpoint))
    check("its config names the type of its weights", json.loads((checkpoint / "config.json").read_text())["dtype"] == "float32")
    listed = {x["name"] for x in json.loads((checkpoint / "manifest.json").read_text())["files"]}
    check("its manifest lists them", {"config.json", "tokenizer.json"} <= listed, listed)
    shutil.rmtree(source)
    run("ztc-run", *common, "--steps=2", f"--resume={work / 'complete'}", f"--save={work / 'complete'}", f"--export={work / 'final'}")
    check("a resume takes them from the checkpoint", {"config.json", "tokenizer.json"} <= set(names(work / "complete" / "step-00000002")) & set(names(work / "final")))
finish()
