#!/usr/bin/env python3
"""--update=in-backward against PyTorch's hooks (tests/golden/in_backward.py): losses, norms and final weights, without clipping, by the norm of each block and by
that of the step before; every ZeRO stage gives the same bits on 1, 2 and 3 ranks, and without clipping those of a plan that updates after; a resumed run gives
the same bits; gradients take what the largest buckets need; what it cannot be together with is refused by name; a step that is bad leaves the last checkpoint."""
import json
import math

from support import GOLDEN, ROOT, check, check_curves, compile_golden, finish, read_log, read_safetensors, run, scratch, tensors, values_of

# As optimizers.py.
RUN, NORM, WEIGHT = 1e-4, 1e-4, 2e-5
goldens = json.loads((GOLDEN / "in_backward/in_backward.json").read_text())
DATA = GOLDEN / "grouped/data.safetensors"
IN_BACKWARD = "--update=in-backward"


def arguments(case):
    """The options of ztc-run that repeat a case."""
    options = [f"--lr={case['lr']}", f"--weight-decay={case['weight_decay']}", f"--clip={case['clip']}", f"--warmup={goldens['warmup']}",
               f"--min-lr-ratio={goldens['min_lr_ratio']}", f"--data={DATA}", f"--steps={goldens['steps']}", "--device=cpu", "--threads=1", "--overwrite"]
    if "betas" in case:
        options += [f"--beta1={case['betas'][0]}", f"--beta2={case['betas'][1]}", f"--epsilon={case['eps']}"]
    if "momentum" in case:
        options += [f"--momentum={case['momentum']}"]
    return options


def trained(plan, work, case, *more, ranks=1, poison=True):
    """The log's steps, and what the last checkpoint holds."""
    checkpoints = work / f"checkpoints-{plan.parent.name}-{ranks}{'-resumed' if more else ''}"
    for part in more or [()]:
        run("ztc-run", plan, *arguments(case), f"--save={checkpoints}", "--save-every=4", f"--log-json={work / 'log'}", f"--ranks={ranks}", *["--poison"] * poison, *part)
    return read_log(work / "log")[1], tensors(checkpoints / f"step-{goldens['steps']:08}"), checkpoints


def bits(steps, held, norms=True):
    return [(s["loss"], *[s["grad_norm"]] * norms) for s in steps], held


with scratch() as work:
    def compiled(name, *options):
        folder = work / name
        folder.mkdir(exist_ok=True)
        return compile_golden(folder, "grouped", *options)

    for name, case in goldens["cases"].items():
        optimizer = f"--optimizer={case['optimizer']}"
        plans = [compiled(f"{name}-{zero}", optimizer, f"--zero={zero}", IN_BACKWARD) for zero in range(4 if name in ("adamw", "block", "previous") else 1)]
        steps, held, _ = trained(plans[0], work, case)
        check_curves(name, steps, case, ("loss", "losses", RUN, False), ("grad_norm", "gradient_norms", NORM, True))
        last = work / f"checkpoints-{plans[0].parent.name}-1/step-{goldens['steps']:08}"
        mine = values_of(last)
        for tensor, (shape, want) in read_safetensors(GOLDEN / f"in_backward/{name}.safetensors").items():
            error = math.sqrt(sum((a - b) ** 2 for a, b in zip(mine[tensor][1], want)) / sum(x * x for x in want))
            check(f"{name}: final {tensor}", mine[tensor][0] == shape and error <= WEIGHT, error)
        if len(plans) == 1:
            continue
        for world in (1, 2, 3):
            results = [trained(plan, work, case, ranks=world) for plan in plans]
            mine = [bits(steps, held) for steps, held, _ in results]
            check(f"{name}: all stages give the same bits on {world} ranks", all(b == mine[0] for b in mine) and len(mine[0][1]) > 10)
            if name == "adamw":
                after = trained(compiled("after", optimizer), work, case, ranks=world)
                check(f"{name}: the bits of updates after the backward on {world} ranks", bits(*after[:2], norms=False) == bits(*results[0][:2], norms=False))
        if name == "adamw":
            continue
        # The norm of the step before is in the checkpoint.
        resumed = trained(plans[3], work, case, ["--stop-after=4"], [f"--resume={work / f'checkpoints-{name}-3-2-resumed'}"], ranks=2)[1]
        check(f"{name}: a resumed run gives the same bits", resumed == trained(plans[3], work, case, ranks=2)[1])

    # In 16 bits, with recomputation, narrow states, no masters.
    case = goldens["cases"]["adamw"]
    for options in (["--precision=bf16"], ["--precision=bf16", "--recompute=layer", "--master=none", "--optimizer-state=bf16"]):
        name = "narrow" + str(len(options))
        for world in (1, 2):
            held = [bits(*trained(compiled(f"{name}-{zero}", *options, f"--zero={zero}", IN_BACKWARD), work, case, ranks=world)[:2]) for zero in range(4)]
            after = bits(*trained(compiled(f"{name}-after", *options), work, case, ranks=world)[:2], norms=False)
            check(f"{' '.join(options)}: all stages give the same bits on {world} ranks", all(b == held[0] for b in held))
            check(f"{' '.join(options)}: the bits of updates after the backward on {world} ranks", ([(loss,) for loss, _ in held[0][0]], held[0][1]) == after)

    # What is allocated is what was said; gradients are those of two buckets at most, with what goes over the wire.
    classes = {}
    for update in ("after", "in-backward"):
        options = [ROOT / "samples/quickstart/model.onnx", "--batch=1", "--seq=16", "--precision=fp32", f"--update={update}", "--target=host"]
        said = json.loads(run("ztc", "memory", *options, "--threads=1", "--json").stdout)
        row = (said["rows"] if isinstance(said, dict) and "rows" in said else said)[0]
        plan = work / f"{update}.bin"
        run("ztc", "compile", *options, "-o", plan)
        run("ztc-run", plan, "--steps=1", "--clip=0", "--threads=1", "--device=cpu", f"--log-json={work / 'log'}", "--overwrite")
        head = read_log(work / "log")[0]
        check(f"{update}: what is allocated is what ztc memory says", head["by_class"] == row["by_class"], (head["by_class"], row["by_class"]))
        classes[update] = row["by_class"].get("gradients", 0)
    check("gradients never exist all at once", 0 < classes["in-backward"] <= 0.5 * classes["after"], classes)

    plan = work / "in-backward.bin"
    for options, words in ((["--steps=1"], ["--clip=1 (the default)", "--update=in-backward", "--clip=block"]), (["--steps=1", "--clip=0.5"], ["--clip=0.5", "--clip=previous"]),
                           (["--steps=1", "--clip=0", "--accumulate=2"], ["--accumulate=2", "one micro-step"]), (["--steps=1", "--clip=0", "--skip-spikes=6"], ["--skip-spikes"]),
                           (["--steps=1", "--clip=0", f"--dump-gradients={work / 'g'}"], ["--dump-gradients"]), (["--steps=1", "--clip=block:0"], ["more than 0"]),
                           (["--steps=1", "--clip=blocks"], ["'blocks'", "previous"])):
        said = run("ztc-run", plan, *options, "--device=cpu", expect=2 if str(options[-1]).startswith("--clip=block") else 1)
        check(f"{' '.join(map(str, options))} is refused", all(word in said.stderr for word in words) and said.stderr.count("\n") == 1, said.stderr)
    said = run("ztc-run", work / "after.bin", "--steps=1", "--clip=previous", "--device=cpu", expect=1)
    check("--clip=previous is refused where updates come after", "--update=in-backward" in said.stderr, said.stderr)
    for options, word in ((["--precision=fp16"], "fp16"), (["--accumulate=4"], "--accumulate=4")):
        said = run("ztc", "compile", GOLDEN / "grouped/model.onnx", IN_BACKWARD, *options, "-o", work / "no.bin", expect=2)
        check(f"{IN_BACKWARD} {options[0]} is refused", word in said.stderr and not (work / "no.bin").exists(), said.stderr)

    # A step that is bad has changed weights: nothing of it is saved.
    folder = work / "bad"
    plan = work / "block-0/grouped.bin"
    said = run("ztc-run", plan, f"--data={DATA}", "--steps=8", "--lr=1e36", "--schedule=constant", "--clip=0", f"--save={folder}", "--save-every=1", "--device=cpu", "--threads=1", expect=1)
    kept = sorted(path.name for path in folder.iterdir())
    check("a bad step ends the run at the last checkpoint", "is not finite" in said.stderr and kept and f"{kept[-1]} is the last checkpoint" in said.stderr and not any("diverged" in n for n in kept), (kept, said.stderr))

    for options in (["--precision=fp32"], ["--precision=bf16", "--zero=3"], ["--precision=bf16", "--optimizer=lion", "--zero=1", "--recompute=layer"]):
        said = run("ztc", "compile", GOLDEN / "grouped/model.onnx", "--batch=2", "--seq=16", "--target=host", "--verify", IN_BACKWARD, *options, "-o", work / "verified.bin")
        check(f"--verify holds {' '.join(options)}", said.returncode == 0 and "not checked" not in said.stderr, said.stderr[-1000:])
finish()
