#!/usr/bin/env python3
"""Mixtures of experts in plain PyTorch, in the forms in which people write them (golden/expert_modules.py): in every program of a plan the chosen experts compute each
token; remarks report how many, and no warning appears; text with planned caches, two ranks with shards."""
import array
import json

from support import GOLDEN, check, finish, read_log, run, scratch, write_safetensors

# Of each model: how many of four experts a token of each layer chooses.
MODELS = {"picked-rows": (2, 2), "compared-choices": (2, 2, 1, 2), "experts-in-one": (2, 2, 2)}

for name, layers in MODELS.items():
    folder = GOLDEN / "families" / name
    with scratch() as work:
        plan = work / "plan.bin"
        said = run("ztc", "compile", folder / "model.onnx", f"--weights={folder / 'model.safetensors'}", "-o", plan, "--batch=1", "--seq=24", "--precision=fp32",
                   "--target=x86-64-v3", "--generate", "--remarks=route-experts").stderr
        remarks = [line for line in said.splitlines() if "experts compute each token" in line]
        for layer, chosen in enumerate(layers):
            want = f"layers.{layer}: {chosen} of 4 experts compute each token"
            check(f"{name}: {want}", any(want in line for line in remarks), said)
        check(f"{name}: nothing is dense", "every expert" not in said and "warning" not in said, said)
        programs = json.loads(run("ztc", "inspect", plan, "--json").stdout)["programs"]
        for program in ("microstep", "eval", "generate", "decode"):
            kinds = [step["kind"] for step in programs[program]]
            counts = [sum(kind.startswith(family) for kind in kinds) for family in ("route", "grouped")]
            check(f"{name}: {program} routes, and multiplies rows group by group", counts[0] == len(layers) and counts[1] >= 3 * len(layers), counts)

        # The cache of @decode gives the text that whole rows give.
        (work / "prompt.txt").write_bytes(bytes([3, 17, 42, 8]) + b"\n")
        texts = []
        for options in ([], ["--disable-pass=ztc-route-experts"]):
            run("ztc", "compile", folder / "model.onnx", f"--weights={folder / 'model.safetensors'}", "-o", plan, "--batch=1", "--seq=24", "--precision=fp32",
                "--target=x86-64-v3", "--generate", *options)
            done = run("ztc-run", plan, "--device=cpu", "--prompts", work / "prompt.txt", "--generate=16")
            texts.append(json.loads(done.stdout or "{}").get("text", done.stderr))
        check(f"{name}: the text is that of all experts on all tokens", texts[0] == texts[1] and texts[0], texts)

        tokens = array.array("q", [i * i * 7 % 61 for i in range(4 * 24)])
        write_safetensors(work / "data.safetensors", {key: ([2, 2, 24], tokens) for key in ("input_ids", "labels")})
        losses = []
        for zero in (0, 3):
            run("ztc", "compile", folder / "model.onnx", f"--weights={folder / 'model.safetensors'}", "-o", plan, "--batch=1", "--seq=24", f"--zero={zero}", "--target=x86-64-v3")
            run("ztc-run", plan, "--device=cpu", f"--data={work / 'data.safetensors'}", "--steps=2", "--ranks=2", "--threads=1", "--no-save", f"--log-json={work / 'log'}", "--overwrite")
            losses.append([(step["loss"], step["grad_norm"]) for step in read_log(work / "log")[1]])
        check(f"{name}: ZeRO-3 on 2 ranks has the bits of ZeRO-0", len(losses[0]) == 2 and losses[0] == losses[1], losses)

finish()
