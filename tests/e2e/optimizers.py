#!/usr/bin/env python3
"""Optimizers against PyTorch (tests/golden/optimizers.py): losses, norms and final weights; every ZeRO stage gives the same bits on 1, 2 and 3 ranks, and
so does a resumed run; options of another optimizer are said to have no effect. What is rounded stochastically is rounded alike on any number of ranks."""
import array
import json
import math

from support import GOLDEN, check, compile_golden, finish, read_log, read_safetensors, run, scratch, write_safetensors

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


def tensors(folder, kind="model"):
    """All tensors of a checkpoint or an export, as bytes."""
    return {name: (shape, values.tobytes()) for file in sorted(folder.glob(f"{kind}*.safetensors")) for name, (shape, values) in read_safetensors(file).items()}


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
        for what, key, limit, relative in (("loss", "losses", RUN, False), ("grad_norm", "gradient_norms", NORM, True)):
            errors = [abs(s[what] - w) / (abs(w) if relative else 1) for s, w in zip(steps, case[key])]
            check(f"{name}: {what} over {goldens['steps']} steps", len(errors) == goldens["steps"] and max(errors) <= limit, max(errors, default=None))
        mine = {n: v for file in last.glob("model-*.safetensors") for n, v in read_safetensors(file).items()}
        for tensor, (shape, want) in read_safetensors(GOLDEN / f"optimizers/{name}.safetensors").items():
            error = math.sqrt(sum((a - b) ** 2 for a, b in zip(mine[tensor][1], want)) / sum(x * x for x in want))
            check(f"{name}: final {tensor}", mine[tensor][0] == shape and error <= WEIGHT, error)
        states = {path.name.split("-")[0] for path in last.glob("*-00001-of-*.safetensors")} - {"model"}
        check(f"{name}: one state, by its name", states == {"exp_avg" if name == "lion" else "momentum_buffer"}, states)
        for world in (1, 2, 3) if is_whole else ():
            results = [trained(plan, work, case, ranks=world) for plan in plans]
            bits = [([(s["loss"], s["grad_norm"]) for s in steps], *(tensors(last, kind) for kind in ({"model"} | states))) for steps, last, _ in results]
            check(f"{name}: all stages give the same bits on {world} ranks", all(b == bits[0] for b in bits) and len(bits[0][1]) > 5)
        if is_whole:
            _, resumed, folder = trained(plans[3], work, case, ["--stop-after=4"], [f"--resume={work / f'checkpoints-{name}-3-2-resumed'}"], ranks=2)
            _, straight, _ = trained(plans[3], work, case, ranks=2)
            check(f"{name}: a resumed run gives the same bits", all(tensors(resumed, kind) == tensors(straight, kind) for kind in ({"model"} | states)))
    # Ranks whose targets do not count add nothing to gradients: then all bits are those of one rank, and rounding must not know how many there are.
    rows = read_safetensors(DATA)
    tokens, targets = rows["input_ids"][1], rows["labels"][1]
    (count, batch, length), each = rows["input_ids"][0], len(tokens) // goldens["steps"]
    narrow, memory = {}, {}
    for masters, stages in (("none", range(4)), ("fp32", (0, 3))):
        for zero in stages:
            folder = work / f"narrow-{masters}-{zero}"
            folder.mkdir()
            plan = compile_golden(folder, "grouped", "--precision=bf16", f"--master={masters}", "--optimizer-state=bf16", f"--zero={zero}")
            for world in (1, 2, 3):
                data = work / f"{world}.safetensors"
                ids, labels = array.array("q"), array.array("q")
                for step in range(count):
                    ids += tokens[step * each:(step + 1) * each] * world
                    labels += targets[step * each:(step + 1) * each] + array.array("q", [-100]) * (each * (world - 1))
                write_safetensors(data, {"input_ids": ((count, batch * world, length), ids), "labels": ((count, batch * world, length), labels)})
                run("ztc-run", plan, f"--data={data}", f"--steps={count}", "--lr=1e-3", "--clip=0", f"--save={folder / str(world)}", "--device=cpu", "--threads=1",
                    f"--log-json={work / 'log'}", "--overwrite", f"--ranks={world}")
                narrow[masters, zero, world] = [tensors(folder / str(world) / f"step-{count:08}", kind) for kind in ("model", "exp_avg")]
            memory[masters] = read_log(work / "log")[0]["by_class"]["optimizer"]
        mine = [bits for (kind, _, _), bits in narrow.items() if kind == masters]
        check(f"bf16, --master={masters}: the same bits at every stage on 1, 2 and 3 ranks", all(bits == mine[0] for bits in mine) and len(mine[0][0]) > 5)
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
