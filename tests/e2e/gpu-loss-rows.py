#!/usr/bin/env python3
"""Rows of logits at a time on a GPU, over the stand-ins: plans of one number have the same bits at every ZeRO stage and with recomputation; another
number orders the sums of the head's gradient alone."""

from support import GOLDEN, check, compile_golden, finish, read_log, read_safetensors, run, scratch, stand_ins

ENVIRONMENT = stand_ins(2, ZTC_CUDNN="0")


def train(work, name, rows, *options, gpus=2):
    """Losses of two steps and the first gradients, of a model with 32 tokens a micro-batch; two micro-steps."""
    folder = work / name
    folder.mkdir()
    plan = compile_golden(folder, "grouped", "--precision=bf16", "--target=simt", f"--loss-rows={rows}", *options, batch=2)
    log, gradients = folder / "log", folder / "gradients"
    run("ztc-run", plan, f"--data={GOLDEN / 'grouped' / 'data.safetensors'}", "--steps=2", "--lr=2e-3", "--no-save", f"--gpus={gpus}", f"--log-json={log}",
        f"--dump-gradients={gradients}", env=ENVIRONMENT)
    return [step["loss"] for step in read_log(log)[1]], read_safetensors(gradients), plan


with scratch() as work:
    losses, gradients, plan = train(work, "stage 0", 10, "--zero=0")
    text = run("ztc", "inspect", plan, "--text").stdout
    check("the plan states the rows of a chunk: four chunks of 32 rows", "(8 on a GPU)" in text and "--loss-rows=10" in text, text)
    for name, options in {"stage 2": ["--zero=2"], "stage 3": ["--zero=3"], "recomputation": ["--zero=0", "--recompute=layer"]}.items():
        other = train(work, name, 10, *options)
        check(f"{name} has the bits of stage 0", other[0] == losses and other[1] == gradients, (losses, other[0]))
    whole = train(work, "all rows", 32, "--zero=3")
    check("all rows at a time: the same first loss", whole[0][0] == losses[0], (whole[0], losses))
    differ = sorted(name for name in gradients if whole[1][name] != gradients[name])
    check("and the same gradients but for the head's", all("embed" in name or "lm_head" in name for name in differ), differ)
finish()
