#!/usr/bin/env python3
"""Products that write gradients in the type in which they are reduced have the bits of a plan whose gradients are all rounded afterwards: at ZeRO-0, 2 and 3, with one
micro-step and with several, on one and two ranks, on the CPU and on the stand-ins' GPUs, in bf16, fp16 and fp8; and at one micro-step the stages have one another's."""
import json

from support import check, finish, read_log, run, scratch, stand_ins, tensor_files, write_tiny_llama

GPUS = stand_ins(2)
AFTERWARDS = "--disable-pass=ztc-round-in-products"


with scratch() as work:
    model = work / "model"
    write_tiny_llama(model, 300)
    (work / "text.txt").write_text("The quick brown fox jumps over the lazy dog. " * 200)
    shape = ["--batch=1", "--seq=32", "--threads=1"]

    def train(plan, ranks, accumulate, target):
        save = work / "save"
        device = (f"--gpus={ranks}",) if target == "simt" else (f"--ranks={ranks}", "--device=cpu", "--threads=1", "--poison")
        run("ztc-run", plan, f"--data={work / 'text.txt'}", "--tokenizer=bytes", "--steps=2", "--lr=2e-3", f"--accumulate={accumulate}", *device, f"--save={save}", "--overwrite",
            f"--log-json={work / 'log'}", env=GPUS if target == "simt" else None)
        head, lines = read_log(work / "log")
        return head, [(s["loss"], s["grad_norm"]) for s in lines], tensor_files(save / "step-00000002")

    # fp8 scales are of a rank's own rows: the same on any stage, not on any number of ranks.
    cases = [("bf16", "simt", (0, 2)), ("bf16", "host", (0, 3)), ("fp16", "host", (0,)), ("fp8", "host", (2,))]
    for precision, target, stages in cases:
        first = {}
        for zero in stages:
            plans = {}
            for way, options in {"in products": [], "afterwards": [AFTERWARDS]}.items():
                plans[way] = work / f"{way.replace(' ', '-')}.bin"
                run("ztc", "compile", model, *shape, f"--precision={precision}", f"--zero={zero}", f"--target={target}", "-o", plans[way], *options)
            # Products of a single micro-step whose sums stay in f32.
            wide = {}
            for way, plan in plans.items():
                kinds = [s["kind"] for s in json.loads(run("ztc", "inspect", plan, "--json").stdout)["programs"]["microstep"]]
                wide[way] = sum(k.startswith("gemm") and "-> f32" in k and "of several" not in k for k in kinds)
            check(f"{precision}, {target}, ZeRO-{zero}: products round", wide["in products"] < wide["afterwards"], wide)
            for ranks, accumulate in ((1, 1), (2, 1), (1, 2)):
                name = f"{precision}, {target}, ZeRO-{zero}, W={ranks}, M={accumulate}"
                head, losses, saved = train(plans["in products"], ranks, accumulate, target)
                _, afterwards, saved_afterwards = train(plans["afterwards"], ranks, accumulate, target)
                check(f"{name}: the bits of gradients that are rounded afterwards", losses == afterwards and saved == saved_afterwards and len(losses) == 2 and saved)
                check(f"{name}: predicted = allocated", head["allocated_bytes"] == head["predicted_bytes"], head)
                if accumulate == 1 and zero == stages[0]:
                    first[ranks] = losses, saved
                elif accumulate == 1:
                    check(f"{name}: the bits of ZeRO-{stages[0]}", first[ranks] == (losses, saved), (first[ranks][0], losses))
finish()
