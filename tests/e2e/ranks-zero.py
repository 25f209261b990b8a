#!/usr/bin/env python3
"""ZeRO on 3 and 4 ranks, in every precision: the stages agree to the bit, memory is what `ztc memory` says, traffic is what the formula says."""
import json

from support import GOLDEN, check, compile_golden, finish, read_log, run, scratch, tensor_files


def train(plan, work, name, ranks, accumulate, data):
    log, export = work / f"{name}.log", work / name
    run("ztc-run", plan, f"--ranks={ranks}", f"--accumulate={accumulate}", f"--data={data}", "--steps=5", "--lr=2e-3", "--device=cpu", "--threads=1",
        f"--export={export}", f"--log-json={log}")
    head, steps = read_log(log)
    return head, [(s["loss"], s["grad_norm"]) for s in steps], tensor_files(export), steps


with scratch() as work:
    for model, ranks, precision in (("tied", 3, "fp32"), ("grouped", 4, "fp32"), ("tied", 3, "bf16"), ("grouped", 3, "fp16")):
        name = f"{model} in {precision}"
        data = GOLDEN / model / "data.safetensors"
        plans = {}
        for zero in (0, 1, 2, 3):
            (work / f"{name}{zero}").mkdir()
            plans[zero] = compile_golden(work / f"{name}{zero}", model, f"--zero={zero}", f"--precision={precision}", batch=1)
        for accumulate in (1, 2):
            runs = {zero: train(plans[zero], work, f"{name}-z{zero}-m{accumulate}", ranks, accumulate, data) for zero in plans}
            for one, two in ((0, 1), (2, 3)) + (((1, 2),) if accumulate == 1 else ()):
                same = runs[one][1] == runs[two][1] and len(runs[one][1]) == 5
                check(f"{name}, W={ranks}, M={accumulate}: ZeRO-{one} and ZeRO-{two}: losses and norms to the bit", same, "" if same else (runs[one][1], runs[two][1]))
                check(f"{name}, W={ranks}, M={accumulate}: ZeRO-{one} and ZeRO-{two}: weights to the bit", runs[one][2] == runs[two][2] and runs[one][2])
            far = max(abs(a[0] - b[0]) for a, b in zip(runs[1][1], runs[2][1]))
            check(f"{name}, W={ranks}, M={accumulate}: the two pairs agree within rounding", far < {"fp32": 2e-5, "bf16": 1e-2, "fp16": 1e-3}[precision], far)
            table = json.loads(run("ztc", "memory", GOLDEN / model / "model.onnx", "--batch=1", "--seq=16", f"--precision={precision}", "--zero=0,1,2,3", f"--gpus={ranks}", f"--accumulate={accumulate}",
                                   "--threads=1", "--json").stdout)["rows"]
            for row in table:
                head, _, _, steps = runs[row["zero"]]
                check(f"{name}, W={ranks}, M={accumulate}, ZeRO-{row['zero']}: predicted = allocated", row["peak_bytes"] == head["allocated_bytes"] == head["predicted_bytes"],
                      (row["peak_bytes"], head["allocated_bytes"]))
                check(f"{name}, W={ranks}, M={accumulate}, ZeRO-{row['zero']}: bytes on the wire", {s["sent_bytes"] for s in steps} == {row["sent_bytes"]},
                      (row["sent_bytes"], steps[-1]["sent_bytes"]))
finish()
