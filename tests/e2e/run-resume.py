#!/usr/bin/env python3
"""Stopping and going on: --stop-after, signals and checkpoints give the bits of the run that never stopped; exit statuses; default folders."""
import json
import signal

from support import BIN, GOLDEN, Running, check, compile_golden, finish, read_log, read_safetensors, run, scratch, tensor_files, wait_until, write_safetensors

data = GOLDEN / "grouped" / "data.safetensors"


with scratch() as work:
    plan = compile_golden(work, "grouped")
    common = [plan, f"--data={data}", "--steps=8", "--lr=2e-3", "--warmup=2", "--device=cpu", "--shuffle", "--seed=3"]
    run("ztc-run", *common, f"--export={work / 'whole'}", f"--log-json={work / 'whole.log'}", f"--save={work / 'ck'}", "--save-every=2", "--keep=2")
    check("--keep keeps the newest", sorted(p.name for p in (work / "ck").iterdir()) == ["step-00000006", "step-00000008"], sorted(p.name for p in (work / "ck").iterdir()))
    _, whole = read_log(work / "whole.log")
    key = lambda steps: [(s["step"], s["loss"], s["grad_norm"], s["lr"]) for s in steps]

    run("ztc-run", *common, "--stop-after=3", f"--save={work / 'part'}", f"--log-json={work / 'part.log'}")
    check("--stop-after leaves one checkpoint", [p.name for p in (work / "part").iterdir()] == ["step-00000003"])
    run("ztc-run", *common, f"--resume={work / 'part'}", f"--export={work / 'resumed'}", f"--log-json={work / 'part.log'}")
    text = (work / "part.log").read_text().splitlines()
    steps = [json.loads(x) for x in text if '"loss"' in x]
    check("a resumed run appends to its log", len([x for x in text if "plan_sha256" in x]) == 2 and len(steps) == 8)
    check("losses, norms and rates of the run that never stopped", key(steps) == key(whole))
    check("its weights, to the bit", tensor_files(work / "whole") == tensor_files(work / "resumed") and tensor_files(work / "whole"))

    run("ztc-run", *common, f"--resume={work / 'part'}", "--stop-after=3", f"--save={work / 'again'}")
    check("resumed at --stop-after: no step, the same checkpoint", tensor_files(work / "again" / "step-00000003") == tensor_files(work / "part" / "step-00000003"))

    # A newest checkpoint that is not whole is passed over.
    newest = work / "ck" / "step-00000008"
    victim = sorted(newest.glob("model*.safetensors"))[0]
    victim.write_bytes(victim.read_bytes()[:-8])
    done = run("ztc-run", *common, f"--resume={work / 'ck'}", "--no-save", f"--log-json={work / 'older.log'}")
    check("a broken checkpoint is passed over and named", "step-00000008" in done.stdout + done.stderr, done.stderr[-300:])
    check("the one before it is used", key(read_log(work / "older.log")[1]) == key(whole)[6:])

    # Other data under the same run is not an error, but it is said.
    tensors = read_safetensors(data)
    tensors["input_ids"][1][0] ^= 1
    write_safetensors(work / "other.safetensors", tensors)
    other = [x if not str(x).startswith("--data=") else f"--data={work / 'other.safetensors'}" for x in common]
    done = run("ztc-run", *other, f"--resume={work / 'part'}", "--no-save", f"--log-json={work / 'other.log'}")
    differs = json.dumps(read_log(work / "other.log")[0].get("differs"))
    check("a resume on other data names that", "data " in differs and "data " in done.stdout, differs)

    # Default folders.
    run("ztc-run", plan, f"--data={data}", "--steps=1", "--device=cpu")
    out = work / "grouped-out"
    check("without --save and --export the model is exported beside the plan", any(out.glob("*.safetensors")), sorted(out.iterdir()) if out.exists() else "")
    before = sorted(work.iterdir())
    run("ztc-run", plan, f"--data={data}", "--steps=1", "--device=cpu", "--no-save", cwd=work)
    done = run("ztc-run", plan, "--device=cpu", cwd=work)
    check("neither --no-save nor a trial leaves anything", sorted(work.iterdir()) == before)
    check("a trial takes 20 steps", "19/20" in done.stdout)

    # Signals.
    for name, number in (("SIGTERM", signal.SIGTERM), ("SIGINT", signal.SIGINT), ("SIGUSR1", signal.SIGUSR1)):
        log, save = work / f"{name}.log", work / name
        with Running([BIN / "ztc-run", plan, f"--data={data}", "--steps=1000000", "--device=cpu", f"--save={save}", f"--log-json={log}"]) as child:
            wait_until(lambda: child.process.poll() is not None or log.exists() and log.read_text().count('"loss"') > 3, 60)
            child.process.send_signal(number)
            status = child.finish(30)
        steps = read_log(log)[1]
        check(f"{name}: exit status 3", status == 3, (status, child.err))
        check(f"{name}: a checkpoint of the last step", [p.name for p in save.iterdir()] == [f"step-{steps[-1]['step'] + 1:08}"], sorted(save.iterdir()))
finish()
