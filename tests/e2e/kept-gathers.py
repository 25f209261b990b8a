#!/usr/bin/env python3
"""ZeRO-3 whose updates gather for the next step, and that keeps gathered parameters: the bits of a plan that does neither, on 2 and 3 ranks and on two GPUs of the
stand-ins; predicted = allocated, bytes on the wire; evaluations, checkpoints and resumed runs between an update and the next step; what --mem leaves is used."""
import json
import re

from support import check, finish, read_log, run, scratch, stand_ins, tensor_files, write_tiny_llama

GPUS = stand_ins(2)


with scratch() as work:
    model = work / "model"
    write_tiny_llama(model, 300, num_hidden_layers=3)
    (work / "text.txt").write_text("The quick brown fox jumps over the lazy dog. " * 200)
    shape = ["--batch=1", "--seq=32", "--threads=1"]
    ways = {"neither": [], "early": ["--early-gathers"], "kept": ["--keep-gathered=all"], "both": ["--early-gathers", "--keep-gathered=all"]}

    def compiled(name, *options, target="host"):
        plan = work / f"{name}.bin"
        return plan, run("ztc", "compile", model, *shape, "--zero=3", f"--target={target}", "-o", plan, *options).stdout

    def train(plan, name, *options, ranks=2, steps=4, gpus=False):
        save = work / f"{name}-save"
        run("ztc-run", plan, f"--data={work / 'text.txt'}", "--tokenizer=bytes", f"--steps={steps}", "--lr=2e-3", *((f"--gpus={ranks}",) if gpus else (f"--ranks={ranks}", "--device=cpu", "--threads=1")), f"--save={save}", "--overwrite",
            f"--log-json={work / 'log'}", *options, env=GPUS if gpus else None)
        head, lines = read_log(work / "log")
        return head, [(s["loss"], s["grad_norm"]) for s in lines], tensor_files(save / f"step-{steps:08}"), [s["sent_bytes"] for s in lines]

    for precision in ("fp32", "bf16"):
        plans = {way: compiled(f"{way}-{precision}", f"--precision={precision}", *options)[0] for way, options in ways.items()}
        for ranks, accumulate in ((2, 1), (2, 3), (3, 2)):
            runs = {}
            for way, options in ways.items():
                name = f"{precision}, {way}, W={ranks}, M={accumulate}"
                row = json.loads(run("ztc", "memory", model, *shape, f"--precision={precision}", "--zero=3", f"--gpus={ranks}", f"--accumulate={accumulate}", "--json", *options).stdout)["rows"][0]
                runs[way] = head, losses, saved, sent = train(plans[way], "run", f"--accumulate={accumulate}", "--poison", ranks=ranks)
                check(f"{name}: the bits of neither", losses == runs["neither"][1] and saved == runs["neither"][2] and len(losses) == 4 and saved)
                check(f"{name}: predicted = allocated", row["peak_bytes"] == head["allocated_bytes"] == head["predicted_bytes"], (row["peak_bytes"], head["allocated_bytes"]))
                # The first step of a run gathers for itself and for the next one.
                more = row["early_bytes"] * (ranks - 1) // ranks
                check(f"{name}: bytes on the wire", sent == [row["sent_bytes"] + more] + [row["sent_bytes"]] * 3 and (more > 0) == (way in ("early", "both")), (row["sent_bytes"], more, sent))
                check(f"{name}: how many buckets are early, how many kept",
                      (row["gathered_buckets"], row["early_buckets"], row["kept_buckets"]) == (6, 2 * (way in ("early", "both")), 6 * (way in ("kept", "both"))), row)
            sent = {way: result[3][-1] for way, result in runs.items()}
            check(f"{precision}, W={ranks}, M={accumulate}: early gathers send no more, kept ones less", sent["early"] == sent["neither"] > sent["kept"] == sent["both"], sent)

    # Between an update and the next step: an evaluation, which has memory of its own, a checkpoint, samples; and a run that goes on from there gathers first.
    plan = compiled("both-fp32", "--precision=fp32", *ways["both"])[0]
    held = [f"--eval-data={work / 'text.txt'}", "--eval-every=1", "--save-every=2", "--accumulate=2", "--poison"]
    _, losses, saved, _ = train(plan, "whole", *held, steps=6)
    _, plain, expected, _ = train(compiled("neither-fp32", "--precision=fp32")[0], "plain", "--accumulate=2", steps=6)
    check("with evaluations and checkpoints in between: the same bits", (losses, saved) == (plain, expected))
    run("ztc-run", plan, f"--data={work / 'text.txt'}", "--tokenizer=bytes", "--steps=6", "--lr=2e-3", "--ranks=2", "--device=cpu", "--threads=1", *held, "--stop-after=3",
        f"--save={work / 'part'}", "--overwrite")
    run("ztc-run", plan, f"--data={work / 'text.txt'}", "--tokenizer=bytes", "--steps=6", "--lr=2e-3", "--ranks=2", "--device=cpu", "--threads=1", *held,
        f"--save={work / 'rest'}", f"--resume={work / 'part'}", "--overwrite")
    check("a resumed run: the same bits", tensor_files(work / "rest" / "step-00000006") == saved)

    # Frozen parameters too, with an adapter; stages below the third have nothing to keep.
    lora = {way: compiled(f"lora-{way}", "--precision=fp32", "--lora=r=4,alpha=8,targets=all-linear", *options)[0] for way, options in ways.items()}
    runs = {way: train(plan, "lora", "--accumulate=2", "--poison")[1:3] for way, plan in lora.items()}
    check("an adapter on frozen parameters: the same bits", all(r == runs["neither"] for r in runs.values()) and runs["both"][1])
    said = run("ztc", "compile", model, *shape, "--zero=2", "--target=host", "--keep-gathered=all", "-o", work / "two.bin").stderr
    check("--keep-gathered without ZeRO-3 is a note", "note: --keep-gathered has no effect" in said, said)

    # What a budget leaves keeps as much as fits, to the byte.
    def row(*options):
        return json.loads(run("ztc", "memory", model, *shape, "--precision=fp32", "--zero=3", "--gpus=2", "--accumulate=3", "--reserve=0B", "--early-gathers", "--json", *options).stdout)["rows"][0]
    least, most = row("--keep-gathered=none")["peak_bytes"], row("--keep-gathered=all")["peak_bytes"]
    counts = []
    for budget in range(least, most + 1, (most - least) // 6):
        found = row("--recompute=none", f"--mem={budget}B")
        counts.append(found["kept_buckets"])
        check(f"--mem={budget}B holds", found["fits"] and found["peak_bytes"] <= budget, found)
    # Where the peak has room for one, it costs nothing.
    check("the more memory, the more is kept, in the end everything", counts == sorted(counts) and counts[0] < 2 and row(f"--mem={most}B")["kept_buckets"] == 6, counts)
    check("--keep-gathered=none keeps nothing", row("--keep-gathered=none", f"--mem={most}B")["kept_buckets"] == 0)
    plan, said = compiled("budget", "--precision=fp32", "--early-gathers", "--gpus=2", "--accumulate=3", "--reserve=0B", f"--mem={most}B")
    check("the compiler says what is kept", "of 6 gathered buckets 2 gathered by the update before (" in said and ", 6 kept over micro-steps and to the backward (" in said, said)
    text = run("ztc", "inspect", plan, "--text", "--gpus=2").stdout
    check("ztc inspect too, step by step", " kept over micro-steps" in text and re.search(r"all_gather block1 over .*\(first micro-step only\)", text) and
          re.search(r"all_gather embedding over .*\(first micro-step only, unless the update has gathered\)", text), text[-400:])
    table = run("ztc", "memory", model, *shape, "--precision=fp32", "--zero=3", "--gpus=2", "--keep-gathered=all").stdout
    check("ztc memory too", "6 kept over micro-steps and to the backward (" in table, table)

    # GPUs: recorded programs, one with and one without the gathers.
    gpu = {way: compiled(f"gpu-{way}", "--precision=bf16", *options, target="simt")[0] for way, options in ways.items()}
    for accumulate in (1, 2):
        runs = {way: train(plan, "gpu", f"--accumulate={accumulate}", gpus=True, steps=5) for way, plan in gpu.items()}
        check(f"two GPUs, M={accumulate}: the same bits", all(r[1:3] == runs["neither"][1:3] for r in runs.values()) and len(runs["both"][1]) == 5)
        check(f"two GPUs, M={accumulate}: bytes on the wire", runs["both"][3][-1] < runs["early"][3][-1] == runs["neither"][3][-1], {way: r[3] for way, r in runs.items()})
        check(f"two GPUs, M={accumulate}: predicted = allocated", all(r[0]["allocated_bytes"] == r[0]["predicted_bytes"] for r in runs.values()))
finish()
