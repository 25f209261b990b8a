#!/usr/bin/env python3
"""A model whose first block is large enough for several buckets: the ZeRO stages agree to the bit on 1, 2 and 3 ranks, memory and traffic are what `ztc memory` says, and
a checkpoint goes on at another stage and on other ranks."""
import json
import re

from support import check, finish, read_log, run, scratch, tensor_files, write_tiny_llama

with scratch() as work:
    model = work / "model"
    write_tiny_llama(model, 300, num_hidden_layers=2, hidden_size=384, intermediate_size=1024, num_attention_heads=6, num_key_value_heads=3, head_dim=64)
    (work / "text.txt").write_text("The quick brown fox jumps over the lazy dog. " * 200)

    def train(plan, name, ranks, *more, steps=3):
        save = work / f"{name}-save"
        run("ztc-run", plan, f"--data={work / 'text.txt'}", "--tokenizer=bytes", f"--steps={steps}", "--lr=2e-3", f"--ranks={ranks}", "--device=cpu", "--threads=1", f"--save={save}",
            "--overwrite", "--poison", f"--log-json={work / 'log'}", *more)
        head, lines = read_log(work / "log")
        return head, [(s["loss"], s["grad_norm"]) for s in lines], tensor_files(save / f"step-{steps:08}"), {s["sent_bytes"] for s in lines}

    for precision in ("fp32", "bf16"):
        shape = ["--batch=1", "--seq=32", "--threads=1", f"--precision={precision}"]
        plans = [work / f"{precision}-{zero}.bin" for zero in range(4)]
        for zero, plan in enumerate(plans):
            run("ztc", "compile", model, *shape, f"--zero={zero}", "--target=host", "-o", plan)
        named = re.findall(r"^  (block\w*) +\d+ elements", run("ztc", "inspect", plans[3]).stdout, re.MULTILINE)
        check(f"{precision}: the first block has a bucket for what it reads last and one for its norms, the second one in all", named == ["block0", "block0_tail", "block0_undecayed", "block1"], named)
        for ranks in (1, 2, 3):
            runs = [train(plan, f"{precision}-{zero}-{ranks}", ranks) for zero, plan in enumerate(plans)]
            table = json.loads(run("ztc", "memory", model, *shape, "--zero=0,1,2,3", f"--gpus={ranks}", "--json").stdout)["rows"]
            for zero, ((head, losses, saved, sent), row) in enumerate(zip(runs, table)):
                name = f"{precision}, ZeRO-{zero}, W={ranks}"
                check(f"{name}: the bits of ZeRO-0", losses == runs[0][1] and saved == runs[0][2] and len(losses) == 3 and saved, (losses, runs[0][1]))
                check(f"{name}: predicted = allocated", row["peak_bytes"] == head["allocated_bytes"] == head["predicted_bytes"], (row["peak_bytes"], head["allocated_bytes"]))
                check(f"{name}: bytes on the wire", sent == {row["sent_bytes"]}, (row["sent_bytes"], sent))
    whole = train(plans[3], "whole", 2, steps=4)
    run("ztc-run", plans[3], f"--data={work / 'text.txt'}", "--tokenizer=bytes", "--steps=4", "--lr=2e-3", "--ranks=2", "--device=cpu", "--threads=1", "--stop-after=2", f"--save={work / 'part'}")
    rest = train(plans[0], "rest", 2, f"--resume={work / 'part'}", steps=4)
    check("a checkpoint of ZeRO-3 goes on with ZeRO-0: the same bits", rest[2] == whole[2] and whole[1][2:] == rest[1])
finish()
