#!/usr/bin/env python3
"""Training in fp8 with delayed scaling: beside PyTorch's fp8 and fp32 (tests/golden/fp8); stages, ranks, micro-steps, recomputation and fusion change no bit; checkpoints;
evaluation; a GPU of the stand-ins; what is refused."""
import json
import math

from support import GOLDEN, check, finish, gradient_errors, numbers, optimizer_arguments, read_log, read_safetensors, run, scratch, stand_ins, train_golden

FOLDER = GOLDEN / "fp8"
golden = json.loads((FOLDER / "fp8.json").read_text())
KEYS = ("first_loss", "gradient", "losses")
STAND_INS = stand_ins(2, ZTC_CUDNN="0")
DATA = f"--data={FOLDER / 'data.safetensors'}"


def compile_plan(work, name, *arguments, **expected):
    plan = work / f"{name}.bin"
    batch = [] if any(str(x).startswith("--batch") for x in arguments) else [f"--batch={golden['batch']}"]
    scaling = [] if any(str(x).startswith("--fp8-scaling") for x in arguments) else ["--fp8-scaling=delayed"]
    done = run("ztc", "compile", FOLDER, *batch, f"--seq={golden['seq']}", "--precision=fp8", *scaling, "-o", plan, *arguments, **expected)
    return done if expected else plan


def train(work, plan, *more, **options):
    return train_golden(work, plan, FOLDER, golden, *more, **options)


def worst(mine, want):
    return max((error, name) for name, error in gradient_errors(mine, want).items())


def texts(plan):
    return run("ztc", "inspect", plan, "--text").stdout.splitlines()


with scratch() as work:
    # The first step's scales are those of its own numbers, found before it: what dynamic scaling has, but for what codes of the way there change. Later ones are a step
    # old, and the learning rate is small beside that.
    exact = read_safetensors(FOLDER / "golden.safetensors")
    for kind in ("e5m2-fused", "e4m3-fused"):
        plan = compile_plan(work, kind, f"--fp8-gradients={kind.split('-')[0]}")
        mine, steps = train(work, plan)
        if not steps:
            continue
        for beside, want, losses, differences in (("fp32", exact, golden["losses"], golden[kind]["own_differences"]),
                                                  ("PyTorch's fp8", read_safetensors(FOLDER / f"{kind}.safetensors"), golden[kind]["losses"], None)):
            limits = [2 * (differences[key] if differences else max(golden[way]["other_attention"][key] for way in {kind, kind.split("-")[0]})) for key in KEYS]
            found = [abs(steps[0]["loss"] - losses[0]), worst(mine, want)[0], max(abs(s["loss"] - w) for s, w in zip(steps, losses))]
            for key, value, limit in zip(KEYS, found, limits):
                check(f"{kind} beside {beside}: {key}", len(steps) == len(losses) and value <= limit, (value, limit))

    # What writes a matrix writes its codes; nothing of this changes a bit.
    one = numbers(train(work, compile_plan(work, "one"), "--threads=1", steps=4)[1])
    check("threads: the same bits", numbers(train(work, work / "one.bin", "--threads=2", steps=4)[1]) == one and one)
    apart = compile_plan(work, "apart", "--disable-pass=ztc-fuse-codes")
    check("codes by the kernels that write, and by kernels of their own: the same bits", numbers(train(work, apart, "--threads=1", steps=4)[1]) == one and one, one)
    lines = texts(work / "one.bin")
    own = [x for x in lines if "known scale" in x]
    noted = [x for x in lines if "note amax" in x]
    layers = json.loads((FOLDER / "config.json").read_text())["num_hidden_layers"]
    check("a library writes attention's result, and heads are written side by side: 2 of 8 matrices of a block", (len(own), len(noted)) == (2 * layers, 6 * layers), (len(own), len(noted)))
    check("weights have scales of their own", sum(" given amax" in x for x in lines) >= 4 * layers)

    base = numbers(train(work, compile_plan(work, "base"), "--ranks=2", "--threads=1", steps=4)[1])
    for zero in (1, 2, 3):
        found = numbers(train(work, compile_plan(work, f"zero{zero}", f"--zero={zero}"), "--ranks=2", "--threads=1", "--poison", steps=4)[1])
        check(f"stage {zero}: the bits of stage 0 on two ranks", found == base and found, (found, base))
    for level in ("cheap", "layer"):
        found = numbers(train(work, compile_plan(work, level, f"--recompute={level}", "--zero=3"), "--ranks=2", "--threads=1", "--poison", steps=4)[1])
        check(f"recomputation {level}: the same bits", found == base and found, (found, base))
    # Of several micro-steps stages 2 and 3 round each one's gradient, 0 and 1 their sum.
    ways = {zero: compile_plan(work, f"three{zero}", "--batch=1", f"--zero={zero}") for zero in range(4)}
    runs = {zero: numbers(train(work, plan, "--ranks=3", "--accumulate=3", "--threads=1", "--poison", steps=3)[1]) for zero, plan in ways.items()}
    for one_stage, other in ((0, 1), (2, 3)):
        check(f"three ranks and micro-steps: stages {one_stage} and {other} have the same bits", runs[one_stage] == runs[other] and runs[one_stage], runs)
    kept = compile_plan(work, "kept", "--batch=1", "--keep-fp8-weights=all")
    found = [numbers(train(work, plan, "--accumulate=2", "--threads=1", steps=3)[1]) for plan in (ways[0], kept)]
    check("kept codes of weights: the same bits", found[0] == found[1] and found[0], found)

    # The predicted bytes are those of a run, fewer than with scales of the matrices themselves.
    def memory_row(batch, scaling):
        return json.loads(run("ztc", "memory", FOLDER, f"--batch={batch}", f"--seq={golden['seq']}", "--precision=fp8", f"--fp8-scaling={scaling}", "--threads=1", "--json").stdout)["rows"][0]

    rows = [memory_row(16, scaling)["peak_bytes"] for scaling in ("delayed", "dynamic")]
    check("fewer bytes than with dynamic scaling", rows[0] < rows[1], rows)
    train(work, work / "one.bin", "--threads=1", steps=1)
    row, head = memory_row(golden["batch"], "delayed"), read_log(work / "log")[0]
    check("predicted = allocated", row["peak_bytes"] == head["allocated_bytes"] == head["predicted_bytes"], (row["peak_bytes"], head["allocated_bytes"]))

    # A resumed run knows the maxima: it repeats the undisturbed one, at another stage too.
    def part(plan, *more, steps):
        log = work / "log"
        log.unlink(missing_ok=True)
        run("ztc-run", plan, DATA, f"--steps={steps}", f"--log-json={log}", *[x for x in optimizer_arguments(golden) if "--device" not in x and x != "--no-save"], "--device=cpu", "--threads=1", "--ranks=2", *more)
        return numbers(read_log(log)[1])

    whole = part(work / "base.bin", "--no-save", steps=6)
    part(work / "base.bin", f"--save={work / 'saved'}", "--stop-after=3", steps=6)
    state = json.loads((work / "saved/step-00000003/trainer.json").read_text())
    check("a checkpoint has the maximum of each matrix", len(state["fp8_maxima"]) == 8 * layers and all(x > 0 for x in state["fp8_maxima"]), state.get("fp8_maxima"))
    for name, plan in (("the same stage", work / "base.bin"), ("stage 3", work / "zero3.bin")):
        found = part(plan, f"--resume={work / 'saved'}", "--no-save", steps=6)
        check(f"resumed, {name}: the bits of the undisturbed run", found == whole[3:] and found, (found, whole))
    found = part(compile_plan(work, "others", "--disable-pass=ztc-merge-products"), f"--resume={work / 'saved'}", "--no-save", steps=6)
    check("resumed with other matrices: their scales are found anew", len(found) == 3 and all(math.isfinite(x) for pair in found for x in pair), found)

    # Evaluation changes no maximum and has the bits of bf16.
    held = f"--eval-data={FOLDER / 'data.safetensors'}"
    check("evaluation between steps changes no bit", part(work / "base.bin", held, "--eval-every=2", "--no-save", steps=6) == whole)
    wide = work / "bf16.bin"
    run("ztc", "compile", FOLDER, f"--batch={golden['batch']}", f"--seq={golden['seq']}", "--precision=bf16", "-o", wide)
    losses = []
    for plan in (work / "one.bin", wide):
        log = work / "eval.log"
        log.unlink(missing_ok=True)
        run("ztc-run", plan, "--eval-only", held, "--device=cpu", f"--log-json={log}")
        losses.append([json.loads(x).get("eval_loss") for x in log.read_text().splitlines() if "eval_loss" in x])
    check("evaluation has the bits of bf16", losses[0] == losses[1] and losses[0], losses)

    # Low-rank adapters: layers that are frozen have no gradient, and codes in one order alone.
    found = numbers(train(work, compile_plan(work, "lora", "--lora=r=16,alpha=32,targets=all-linear"), "--threads=1", steps=3)[1])
    check("adapters: the first loss is that of the model alone", found and abs(found[0][0] - one[0][0]) < 1e-3, (found, one))

    # A GPU of the stand-ins.
    both = compile_plan(work, "simt", "--target=x86-64-v3,simt", "--batch=1")
    want, host = train(work, both, "--threads=1", "--accumulate=2", steps=3)
    mine, gpu = train(work, both, "--gpus=1", "--accumulate=2", steps=3, env=STAND_INS)
    if host and gpu:
        near = 2 * max(golden[way]["other_attention"]["gradient"] for way in ("e5m2", "e5m2-fused"))
        check("simt: loss", abs(gpu[0]["loss"] - host[0]["loss"]) <= 4e-3, (gpu[0]["loss"], host[0]["loss"]))
        check("simt: worst gradient", worst(mine, want)[0] <= near, worst(mine, want))
        apart = compile_plan(work, "simt-apart", "--target=x86-64-v3,simt", "--batch=1", "--disable-pass=ztc-fuse-codes")
        again = numbers(train(work, apart, "--gpus=1", "--accumulate=2", steps=3, env=STAND_INS)[1])
        check("simt: codes by kernels of their own, the same bits", again == numbers(gpu), (again, numbers(gpu)))
    shards = [numbers(train(work, compile_plan(work, f"shards{zero}", "--target=x86-64-v3,simt", "--batch=1", f"--zero={zero}"), "--gpus=2", steps=2, env=STAND_INS)[1]) for zero in (0, 3)]
    check("simt: stages 0 and 3 on two have the same bits", shards[0] == shards[1] and shards[0], shards)

    done = compile_plan(work, "verified", "--verify", expect=0)
    said = done.stdout + done.stderr
    check("--verify: passes keep what they should, and so does a run", "so do two updates of a run" in said, said)
    check("--verify: kernels that write codes too, at their real sizes", "at their real sizes, agree" in said and "its real size" not in said, said)

    # Refused.
    done = compile_plan(work, "refused", "--update=in-backward", expect=None)
    check("updates in the backward", done.returncode and "--fp8-scaling=delayed beside --update=in-backward" in done.stderr, done.stderr)
    done = run("ztc", "compile", FOLDER, f"--seq={golden['seq']}", "--precision=bf16", "--fp8-scaling=delayed", "-o", work / "refused.bin", expect=2)
    check("without fp8", "--fp8-scaling is an option of --precision=fp8" in done.stderr, done.stderr)
finish()
