#!/usr/bin/env python3
"""Optimizers against PyTorch (tests/golden/optimizers.py): losses, norms and final weights; every ZeRO stage gives the same bits on 1, 2 and 3 ranks, and
so does a resumed run; options of another optimizer are said to have no effect. What is rounded stochastically is rounded alike on any number of ranks."""
import json
import math

from support import GOLDEN, check, check_curves, compile_golden, finish, read_log, read_safetensors, repeated_rows, run, scratch, tensors, values_of

# As golden.py holds AdamW: losses and norms of eight steps. Weights: what they have moved by is some hundredth of them.
RUN, NORM, WEIGHT = 1e-4, 1e-4, 2e-5
goldens = json.loads((GOLDEN / "optimizers/optimizers.json").read_text())
DATA = GOLDEN / "grouped/data.safetensors"


def arguments(case):
    """The options of ztc-run that repeat a case."""
    options = [f"--lr={case['lr']}", f"--weight-decay={case['weight_decay']}", f"--clip={goldens['clip']}", f"--warmup={goldens['warmup']}",
               f"--min-lr-ratio={goldens['min_lr_ratio']}", f"--data={DATA}", f"--steps={goldens['steps']}", "--device=cpu", "--threads=1", "--overwrite"]
    if "betas" in case:
        options += [f"--beta1={case['betas'][0]}", f"--beta2={case['betas'][1]}"]
    if "momentum" in case:
        options += [f"--momentum={case['momentum']}"] + ["--nesterov"] * case.get("nesterov", False)
    return options


def trained(plan, work, case, *more, ranks=1):
    """The log's steps, the last checkpoint."""
    checkpoints = work / f"checkpoints-{plan.parent.name}-{ranks}{'-resumed' if more else ''}"
    for part in more or [()]:
        run("ztc-run", plan, *arguments(case), f"--save={checkpoints}", "--save-every=4", f"--log-json={work / 'log'}", f"--ranks={ranks}", *part)
    return read_log(work / "log")[1], checkpoints / f"step-{goldens['steps']:08}", checkpoints


with scratch() as work:
    for name, case in goldens["cases"].items():
        plans, is_whole = [], name in ("lion", "sgd-nesterov")  # of the others the numbers alone
        for zero in range(4 if is_whole else 1):
            folder = work / f"{name}-{zero}"
            folder.mkdir()
            plans.append(compile_golden(folder, "grouped", f"--optimizer={case['optimizer']}", f"--zero={zero}"))
        steps, last, _ = trained(plans[0], work, case)
        check_curves(name, steps, case, ("loss", "losses", RUN, False), ("grad_norm", "gradient_norms", NORM, True))
        mine = values_of(last)
        for tensor, (shape, want) in read_safetensors(GOLDEN / f"optimizers/{name}.safetensors").items():
            error = math.sqrt(sum((a - b) ** 2 for a, b in zip(mine[tensor][1], want)) / sum(x * x for x in want))
            check(f"{name}: final {tensor}", mine[tensor][0] == shape and error <= WEIGHT, error)
        states = {path.name.split("-")[0] for path in last.glob("*-00001-of-*.safetensors")} - {"model"}
        check(f"{name}: one state, by its name", states == {"exp_avg" if name == "lion" else "momentum_buffer"}, states)
        for world in (1, 2, 3) if is_whole else ():
            results = [trained(plan, work, case, ranks=world) for plan in plans]
            bits = [([(s["loss"], s["grad_norm"]) for s in steps], tensors(last, "model"), tensors(last, *states)) for steps, last, _ in results]
            check(f"{name}: all stages give the same bits on {world} ranks", all(b == bits[0] for b in bits) and len(bits[0][1]) > 5)
        if is_whole:
            _, resumed, folder = trained(plans[3], work, case, ["--stop-after=4"], [f"--resume={work / f'checkpoints-{name}-3-2-resumed'}"], ranks=2)
            _, straight, _ = trained(plans[3], work, case, ranks=2)
            check(f"{name}: a resumed run gives the same bits", tensors(resumed, "model", *states) == tensors(straight, "model", *states))
    # On the same rows all bits are those of one rank: rounding must not know how many there are.
    rows = {world: repeated_rows(DATA, work, world) for world in (1, 2, 3)}
    narrow, memory = {}, {}
    for masters, stages in (("none", range(4)), ("fp32", (0, 3))):
        for zero in stages:
            folder = work / f"narrow-{masters}-{zero}"
            folder.mkdir()
            plan = compile_golden(folder, "grouped", "--precision=bf16", f"--master={masters}", "--optimizer-state=bf16", f"--zero={zero}")
            for world in (1, 2, 3):
                run("ztc-run", plan, f"--data={rows[world]}", f"--steps={goldens['steps']}", "--lr=1e-3", "--clip=0", f"--save={folder / str(world)}", "--device=cpu", "--threads=1",
                    f"--log-json={work / 'log'}", "--overwrite", f"--ranks={world}")
                narrow[masters, zero, world] = tensors(folder / str(world) / f"step-{goldens['steps']:08}", "model", "exp_avg", "exp_avg_sq")
            memory[masters] = read_log(work / "log")[0]["by_class"]["optimizer"]
        mine = [bits for (kind, _, _), bits in narrow.items() if kind == masters]
        check(f"bf16, --master={masters}: the same bits at every stage on 1, 2 and 3 ranks", all(bits == mine[0] for bits in mine) and len(mine[0]) > 15)
    text = run("ztc", "inspect", work / "narrow-none-1/grouped.bin", "--text").stdout
    check("ztc inspect says how buckets are stored", "bf16, no master; exp_avg bf16, exp_avg_sq bf16" in text, text[:2000])
    check("--master=none changes weights", narrow["none", 0, 1] != narrow["fp32", 0, 1])
    check("--master=none keeps two bytes of an element less", 2 / 3 * memory["fp32"] - 4096 <= memory["none"] <= 2 / 3 * memory["fp32"] + 4096, memory)
    said = run("ztc", "compile", GOLDEN / "grouped/model.onnx", "--precision=fp32", "--master=none", "-o", work / "no.bin", expect=None)
    check("--master=none is for bf16", said.returncode != 0 and "bf16" in said.stderr, said.stderr)
    for options in (["--optimizer=lion", "--precision=fp32"], ["--optimizer=lion", "--precision=bf16"], ["--optimizer=sgd", "--precision=fp32"],
                    ["--precision=bf16", "--master=none", "--optimizer-state=bf16"]):
        said = run("ztc", "compile", GOLDEN / "grouped/model.onnx", "--batch=2", "--seq=16", "--target=host", "--verify", *options, "-o", work / "verified.bin")
        check(f"--verify holds {' '.join(options)}", said.returncode == 0 and "not checked" not in said.stderr, said.stderr[-1000:])
    folder = work / "adamw"
    folder.mkdir()
    said = run("ztc-run", compile_golden(folder, "grouped"), "--steps=1", "--momentum=0.5", "--threads=1").stderr
    check("adamw: --momentum is said to have no effect", "--momentum has no effect" in said and "--optimizer=adamw" in said, said)
finish()
