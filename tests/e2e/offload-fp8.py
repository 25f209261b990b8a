#!/usr/bin/env python3
"""fp8 with states, masters, weights, gradients and what blocks keep for their backward below the device: the bits of the plan that has all of it there, and its absolute
maxima, with delayed and dynamic scaling, at every stage, with micro-steps, recomputation and a resume; on a GPU too (over the stand-ins of tests/standin)."""
import json
import os
import re

from support import check, finish, read_log, run, scratch, stand_ins, tensor_files, write_tiny_llama

PIECES = "--pass-option=ztc-stream-update.piece-elements=262144"
# Gradients and what blocks keep for their backward: how many buckets and blocks in the host's memory and on the disk.
WITHIN = "--pass-option=ztc-stage-slots.choice=gradients={}/activations={}"

with scratch() as work:
    model = write_tiny_llama(work / "model", 512, hidden_size=64, intermediate_size=160, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2)
    (work / "text.txt").write_text("The quick brown fox jumps over the lazy dog. " * 200)
    disk = work / "disk"
    disk.mkdir()
    environment = {**os.environ, "XDG_CACHE_HOME": str(work / "cache")}
    on_gpus = stand_ins(2, environment, ZTC_CUDNN="0")
    PLACES = {"the host's memory": ["--host-mem=1GiB", PIECES], "the host's memory, all that moves within a micro-step too": ["--host-mem=1GiB", PIECES, WITHIN.format("99+0", "99+0")],
              "both": ["--host-mem=256KiB", f"--disk={disk}", PIECES, WITHIN.format("0+99", "2+97")]}

    def compiled(name, *options, target="host"):
        plan = work / f"{re.sub('[ ,]+', '-', name)}.bin"
        run("ztc", "compile", model, "--batch=1", "--seq=32", f"--target={target}", "--precision=fp8", "-o", plan, *options, env=environment)
        return plan

    def trained(plan, *options, steps=3, stop=None, device="--device=cpu", save=work / "checkpoints"):
        """Losses and norms, the checkpoint's tensors and maxima, the log's header."""
        end = [f"--stop-after={stop}"] if stop else []
        run("ztc-run", plan, f"--data={work / 'text.txt'}", "--tokenizer=bytes", f"--steps={steps}", "--lr=1e-3", device, f"--save={save}", "--overwrite", f"--log-json={work / 'log'}",
            *(["--threads=1"] if device == "--device=cpu" else []), *end, *options, env=environment if device == "--device=cpu" else on_gpus)
        head, lines = read_log(work / "log")
        last = sorted(save.glob("step-*"))[-1]
        return [(s["loss"], s["grad_norm"]) for s in lines], tensor_files(last), json.loads((last / "trainer.json").read_text()).get("fp8_maxima"), head

    def same(what, plain, below, *options, **more):
        poison = [] if "device" in more else ["--poison"]
        expected, found = trained(plain, *options, **more), trained(below, *options, *poison, **more)
        check(f"{what}: the same bits", found[:3] == expected[:3] and len(found[1]) >= 3, (found[0], expected[0]))
        spaces = found[3]["spaces"]
        check(f"{what}: predicted = reserved in every space", spaces and all(s["predicted_bytes"] == s["allocated_bytes"] for s in spaces.values()), spaces)
        check(f"{what}: nothing is left", not list(disk.iterdir()))
        return expected

    for scaling in ("delayed", "dynamic"):
        for zero in range(4) if scaling == "delayed" else (0, 3):
            options = [f"--fp8-scaling={scaling}", f"--zero={zero}", *(["--recompute=layer"] if zero == 2 else [])]
            plain = compiled(f"plain {scaling} {zero}", *options)
            for name, place in PLACES.items():
                below = compiled(f"{name} {scaling} {zero}", *options, *place)
                for ranks, accumulate in ((1, 1), (2, 3)):
                    expected = same(f"{scaling}, ZeRO-{zero}, {name}, {ranks} ranks, {accumulate} micro-steps", plain, below, f"--ranks={ranks}", f"--accumulate={accumulate}")
            check(f"{scaling}: maxima are in the checkpoint", bool(expected[2]) == (scaling == "delayed"), expected[2])
    text = run("ztc", "inspect", below, "--text").stdout
    check("gradients and what blocks keep move", re.search(r"gradient out ", text) and re.search(r"layer0\.\S+ again in", text), text[:3000])

    # Codes of weights that are kept over micro-steps, and a resume with the other plan.
    options = ["--fp8-scaling=delayed", "--keep-fp8-weights=all"]
    same("kept codes", compiled("plain kept", *options), compiled("below kept", *options, *PLACES["both"]), "--accumulate=2")
    plain, below = work / "plain-delayed-1.bin", work / "both-delayed-1.bin"
    straight = trained(plain, steps=4)
    for first, then in ((plain, below), (below, plain)):
        parts = work / f"parts-{first.name}"
        trained(first, steps=4, stop=2, save=parts)
        found = trained(then, f"--resume={parts}", steps=4, save=work / "rest")
        check(f"{first.name}, resumed with {then.name}: the same bits", found[:3] == straight[:3], (found[0], straight[0]))  # the log goes on too

    for scaling in ("delayed", "dynamic"):
        for zero in (0, 3):
            options = [f"--fp8-scaling={scaling}", f"--zero={zero}"]
            plain, below = (compiled(f"gpu {len(place)} {scaling} {zero}", *options, *place, target="x86-64-v3,simt") for place in ([], PLACES["both"]))
            same(f"GPUs, {scaling}, ZeRO-{zero}", plain, below, "--accumulate=2", device=f"--gpus={1 + zero // 3}")
finish()
