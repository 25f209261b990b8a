#!/usr/bin/env python3
"""What is computed again has the bits of what is kept: losses, norms and weights of none, cheap and layer are equal, on one rank
and on two with ZeRO-3. Activations at the peak fall with each level; a level that changes nothing is an error."""
import json
import os
import pathlib

from support import GOLDEN, check, compile_golden, finish, read_log, run, scratch

LEVELS = ("none", "cheap", "layer")


def trained(work, name, level, zero, *run_arguments):
    """Losses, norms and weights of a short run."""
    plan = compile_golden(work, name, f"--zero={zero}", f"--recompute={level}")
    log, out = work / f"{level}.log", work / f"{level}{zero}"
    run("ztc-run", plan, f"--data={GOLDEN / name / 'data.safetensors'}", "--steps=12", "--lr=2e-3", "--warmup=2", "--device=cpu", "--seed=3",
        "--threads=1", f"--log-json={log}", f"--export={out}", *run_arguments)
    steps = [(s["loss"], s["grad_norm"]) for s in read_log(log)[1]]
    log.unlink(missing_ok=True)
    return steps, {p.name: p.read_bytes() for p in sorted(out.glob("*.safetensors"))}


def row(model, level, zero, *arguments):
    text = run("ztc", "memory", model, f"--zero={zero}", f"--recompute={level}", "--threads=1", "--json", *arguments).stdout
    return json.loads(text)["rows"][0]


def check_falls(name, model, zero, largest, *arguments):
    """Kept bytes and arenas fall from level to level, with `layer` to `largest` of what they were; flops rise."""
    rows = [row(model, level, zero, *arguments) for level in LEVELS]
    kept = [r["by_class"]["activations"] for r in rows]
    check(f"{name} ZeRO-{zero}: activations at the peak fall", kept[0] > kept[1] > kept[2], kept)
    check(f"{name} ZeRO-{zero}: with layer to {largest}", kept[2] <= largest * kept[0], kept)
    check(f"{name} ZeRO-{zero}: so does the peak", rows[0]["peak_bytes"] > rows[1]["peak_bytes"] > rows[2]["peak_bytes"])
    check(f"{name} ZeRO-{zero}: recompute_flops", 0 == rows[0]["recompute_flops"] < rows[1]["recompute_flops"] < rows[2]["recompute_flops"])


with scratch() as work:
    for name, zero, more in (("grouped", 0, ()), ("head-norms", 3, ("--ranks=2", "--accumulate=2")), ("tied", 3, ("--ranks=2",))):
        base = trained(work, name, "none", zero, *more)
        check(f"{name} ZeRO-{zero} {' '.join(more)}: every step is there", len(base[0]) == 12 and base[1])
        for level in LEVELS[1:]:
            same = trained(work, name, level, zero, *more)
            check(f"{name} ZeRO-{zero} {' '.join(more)}: {level} has the losses and norms of none", same[0] == base[0])
            check(f"{name} ZeRO-{zero} {' '.join(more)}: {level} has the weights of none", same[1] == base[1])

    # A micro-batch whose activations are most of the peak; of the goldens' two layers the last one stays.
    for zero in (0, 3):
        check_falls("head-norms", GOLDEN / "head-norms" / "model.onnx", zero, 0.7, "--batch=512", "--seq=16")
    fixtures = os.environ.get("ZTC_FIXTURES")
    if fixtures:
        model = pathlib.Path(fixtures) / "llama-mini" / "dynamo-op18.onnx"
        for zero in (0, 3):
            check_falls("llama-mini", model, zero, 0.6, "--batch=4", "--seq=256", "--gpus=2")
    else:
        print("skip llama-mini: ZTC_FIXTURES is not set")

    # Frozen parameters alone need nothing of the blocks behind them again.
    done = run("ztc", "compile", GOLDEN / "grouped" / "model.onnx", "--batch=2", "--seq=16", "--recompute=cheap", "--freeze=^(model|norm|layers)",
               "-o", work / "no.bin", expect=1)
    check("a level that changes nothing is an error", "--recompute=cheap changes nothing" in done.stderr, done.stderr[-500:])
finish()
