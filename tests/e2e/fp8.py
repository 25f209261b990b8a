#!/usr/bin/env python3
"""Training in fp8 against PyTorch's (tests/golden/fp8, made by fp8.py there); stages, micro-steps and recomputation; what evaluation does; a GPU of the stand-ins;
what is refused."""
import json
import math

from support import GOLDEN, check, finish, gradient_errors, numbers, read_log, read_safetensors, run, scratch, stand_ins, train_golden

FOLDER = GOLDEN / "fp8"
golden = json.loads((FOLDER / "fp8.json").read_text())
SIZES = (f"--batch={golden['batch']}", f"--seq={golden['seq']}")
KEYS = ("first_loss", "gradient", "losses")
# First loss, worst gradient, losses of the run: twice what PyTorch's fp8 is off its fp32; and off itself where attention is computed by another of its ways.
KINDS = ("e5m2", "e4m3", "e5m2-fused", "e4m3-fused")
LIMITS = {kind: [2 * golden[kind]["own_differences"][key] for key in KEYS] for kind in KINDS}
# What roundings that fall otherwise do is seen once with fused layers and once without: the larger of the two counts for fused ones.
NEAR = {kind: [2 * max(golden[way]["other_attention"][key] for way in {kind, kind.split("-")[0]}) for key in KEYS] for kind in KINDS}
STAND_INS = stand_ins(2, ZTC_CUDNN="0")


def compile_plan(work, name, *arguments, model=FOLDER, **expected):
    plan = work / f"{name}.bin"
    batch = golden["batch"] if not any(str(x).startswith("--batch") for x in arguments) else None
    done = run("ztc", "compile", model, *([f"--batch={batch}"] if batch else []), SIZES[1], "--precision=fp8", "-o", plan, *arguments, **expected)
    return done if expected else plan


def train(work, plan, *more, **options):
    return train_golden(work, plan, FOLDER, golden, *more, **options)


def worst(mine, want):
    return max((error, name) for name, error in gradient_errors(mine, want).items())


def close(case, mine, steps, want, losses, limits):
    check(f"{case}: first loss", abs(steps[0]["loss"] - losses[0]) <= limits[0], abs(steps[0]["loss"] - losses[0]))
    check(f"{case}: worst gradient", worst(mine, want)[0] <= limits[1], worst(mine, want))
    drift = max(abs(s["loss"] - w) for s, w in zip(steps, losses))
    check(f"{case}: losses over {len(steps)} steps", len(steps) == len(losses) and drift <= limits[2], drift)


def memory_row(*options):
    """What `ztc memory` says of the model in fp8 on the CPU's single thread, of the plan that these options make."""
    return json.loads(run("ztc", "memory", FOLDER, SIZES[1], "--precision=fp8", "--threads=1", "--json", *options).stdout)["rows"][0]


exact = read_safetensors(FOLDER / "golden.safetensors")
with scratch() as work:
    # q, k, v and gate, up are merged, as PyTorch's fused layers are; kept apart they are torchao's layers.
    for kind in KINDS:
        merged = [] if kind.endswith("-fused") else ["--disable-pass=ztc-merge-products"]
        plan = compile_plan(work, kind, f"--fp8-gradients={kind.split('-')[0]}", *merged)
        mine, steps = train(work, plan)
        if not steps:
            continue
        check(f"{kind}: gradients have PyTorch's names", set(mine) == set(exact), sorted(set(mine) ^ set(exact))[:4])
        close(f"{kind} beside fp32", mine, steps, exact, golden["losses"], LIMITS[kind])
        close(f"{kind} beside PyTorch's fp8", mine, steps, read_safetensors(FOLDER / f"{kind}.safetensors"), golden[kind]["losses"], NEAR[kind])
        check(f"{kind}: the precision is used", worst(mine, exact)[0] > LIMITS[kind][1] / 10, worst(mine, exact))

    # Stages, recomputation and threads change no bit.
    base = numbers(train(work, compile_plan(work, "base"), "--ranks=2", "--threads=1", steps=3)[1])
    for zero in (1, 2, 3):
        found = numbers(train(work, compile_plan(work, f"zero{zero}", f"--zero={zero}"), "--ranks=2", "--threads=1", steps=3)[1])
        check(f"stage {zero}: the bits of stage 0 on two ranks", found == base and found, (found, base))
    # What stage 3 gathers of the blocks are codes: a byte an element, in both passes, with the maxima of all ranks found once.
    for prefetch in (0, 2):
        found = numbers(train(work, compile_plan(work, f"prefetch{prefetch}", f"--prefetch={prefetch}", "--zero=3"), "--ranks=2", "--threads=1", steps=3)[1])
        check(f"stage 3, {prefetch} gathers ahead: the same bits", found == base and found, (found, base))
    runs, ranks = {}, 3
    for way, options in {"gathered as codes": [], "gathered as numbers": ["--disable-pass=ztc-gather-codes"], "kept codes": ["--keep-gathered=all"]}.items():
        plan = compile_plan(work, "gathered", "--zero=3", "--batch=1", *options)
        for accumulate in (1, 3):
            steps = train(work, plan, f"--ranks={ranks}", f"--accumulate={accumulate}", "--threads=1", "--poison", steps=3)[1]
            head = read_log(work / "log")[0]
            row = memory_row("--batch=1", "--zero=3", f"--gpus={ranks}", f"--accumulate={accumulate}", *[x for x in options if "disable" not in x])
            runs[way, accumulate] = numbers(steps)
            name = f"stage 3 on {ranks} ranks, {accumulate} micro-steps, {way}"
            check(f"{name}: the same bits", runs[way, accumulate] == runs["gathered as codes", accumulate] and steps, runs)
            sent = [x["sent_bytes"] for x in steps]
            if way == "gathered as numbers":
                check(f"{name}: more bytes on the wire", all(x > row["sent_bytes"] for x in sent), (sent, row["sent_bytes"]))
            else:
                check(f"{name}: sent = planned", set(sent) == {row["sent_bytes"]}, (sent, row["sent_bytes"]))
                check(f"{name}: predicted = allocated", row["peak_bytes"] == head["allocated_bytes"] == head["predicted_bytes"], (row["peak_bytes"], head["allocated_bytes"]))
    text = run("ztc", "inspect", work / "zero3.bin", "--text").stdout
    codes = [x for x in text.splitlines() if 'over "data", e4m3' in x]
    check("codes are gathered in the forward and in the backward, numbers for evaluation", len(codes) >= 3 and any("all_gather block0_fp8" in x and "bf16" in x for x in text.splitlines()) and
          text.count(" over \"data\", f32") >= 1 and "maxima over" in text, text[:3000])

    for level in ("cheap", "layer"):
        found = numbers(train(work, compile_plan(work, level, f"--recompute={level}", "--zero=3"), "--ranks=2", "--threads=1", steps=3)[1])
        check(f"recomputation {level}: the same bits", found == base and found, (found, base))
    apart = numbers(train(work, compile_plan(work, "apart", "--disable-pass=ztc-fuse-amax"), "--ranks=2", "--threads=1", steps=3)[1])
    check("maxima found by the kernels that write, and by kernels of their own: the same bits", apart == base and apart, (apart, base))
    one = numbers(train(work, work / "base.bin", "--threads=1", steps=3)[1])
    check("threads: the same bits", numbers(train(work, work / "base.bin", "--threads=2", steps=3)[1]) == one and one)
    halves = compile_plan(work, "halves", "--batch=1")
    found = train(work, halves, "--accumulate=2", steps=3)[1]
    check("two micro-steps: nearly the losses of one", found and all(abs(a["loss"] - b[0]) < 2e-2 for a, b in zip(found, one)), (numbers(found), one))

    # The codes of weights, made once in a step and kept, or in front of each product.
    weights = 4 * json.loads((FOLDER / "config.json").read_text())["num_hidden_layers"]  # q, k, v and gate, up are one each
    for zero, recompute in ((0, "none"), (0, "layer"), (3, "layer")):
        ways = {way: compile_plan(work, f"codes-{way}", f"--keep-fp8-weights={way}", f"--zero={zero}", f"--recompute={recompute}", "--batch=1") for way in ("none", "all")}
        for ranks, accumulate in ((1, 1), (1, 3), (2, 2)):
            name = f"codes of weights, stage {zero}, recomputation {recompute}, {ranks} ranks, {accumulate} micro-steps"
            shape = (f"--ranks={ranks}", f"--accumulate={accumulate}", "--threads=1", "--poison")
            runs = {way: numbers(train(work, plan, *shape, steps=3)[1]) for way, plan in ways.items()}  # "all" last: its log is read below
            check(f"{name}: kept, the same bits", runs["all"] == runs["none"] and runs["all"], runs)
            head = read_log(work / "log")[0]
            row = memory_row("--batch=1", f"--zero={zero}", f"--recompute={recompute}", "--keep-fp8-weights=all", f"--gpus={ranks}", f"--accumulate={accumulate}")
            check(f"{name}: predicted = allocated", row["peak_bytes"] == head["allocated_bytes"] == head["predicted_bytes"], (row["peak_bytes"], head["allocated_bytes"]))

    def codes_row(*options):
        return memory_row(SIZES[0], "--recompute=none", "--reserve=0B", "--accumulate=2", *options)
    least, most = codes_row("--keep-fp8-weights=none"), codes_row("--keep-fp8-weights=all")
    check("all weights have codes that can be kept", (least["fp8_weights"], least["kept_fp8_weights"], most["kept_fp8_weights"]) == (weights, 0, weights), (least, most))
    counts = []
    for budget in range(least["peak_bytes"], most["peak_bytes"] + 1, (most["peak_bytes"] - least["peak_bytes"]) // 4):
        found = codes_row(f"--mem={budget}B")
        counts.append(found["kept_fp8_weights"])
        check(f"codes of weights within --mem={budget}B", found["fits"] and found["peak_bytes"] <= budget, found)
    check("the more memory, the more codes are kept, in the end all", counts == sorted(counts) and codes_row(f"--mem={most['peak_bytes']}B")["kept_fp8_weights"] == weights, counts)
    text = run("ztc", "inspect", compile_plan(work, "codes-text", "--keep-fp8-weights=all"), "--text").stdout
    once = [x for x in text.splitlines() if "(first micro-step only)" in x]
    check("kept codes are made in the first micro-step, in both orders at once", len([x for x in once if " by both" in x]) == weights == len([x for x in once if " row_amax" in x]) and
          " e4m3 by columns" not in text, once)
    said = run("ztc", "compile", FOLDER, *SIZES, "--precision=bf16", "--keep-fp8-weights=all", "-o", work / "unused.bin").stderr
    check("--keep-fp8-weights without fp8 is a note", "note: --keep-fp8-weights has no effect" in said, said)

    # What backward keeps of linear layers is a byte an element.
    def activations(precision):
        plan = work / f"memory-{precision}.bin"
        run("ztc", "compile", FOLDER, "--batch=16", SIZES[1], f"--precision={precision}", "-o", plan)
        report = json.loads(run("ztc", "inspect", plan, "--json", "--threads=1").stdout)
        return (report["memory"] if "memory" in report else report)["by_class"]["activations"]

    check("activations are fewer bytes than in bf16", activations("fp8") < activations("bf16"), (activations("fp8"), activations("bf16")))
    text = run("ztc", "inspect", work / "base.bin", "--text").stdout
    quantized = [x for x in text.splitlines() if " quantize " in x and " bf16 to e" in x]
    unread = [x for x in quantized if "given amax" in x]
    check("operands but for attention's results and products' are read once", len(quantized) / 2 < len(unread) < len(quantized), (len(unread), quantized))
    check("inspect shows products of codes", " bT e4m3 e4m3 -> bf16" in text and "e5m2" in text and "quantize" in text, text[:2000])

    # Evaluation and text are those of bf16.
    wide = work / "bf16.bin"
    run("ztc", "compile", FOLDER, *SIZES, "--precision=bf16", "-o", wide)
    losses = []
    for plan in (work / "base.bin", wide):
        log = work / "eval.log"
        log.unlink(missing_ok=True)
        run("ztc-run", plan, "--eval-only", f"--eval-data={FOLDER / 'data.safetensors'}", "--device=cpu", f"--log-json={log}")
        losses.append([json.loads(x).get("eval_loss") for x in log.read_text().splitlines() if "eval_loss" in x])
    check("evaluation has the bits of bf16", losses[0] == losses[1] and losses[0], losses)

    # Low-rank adapters: the frozen layers' products are in fp8, those of the adapter are not.
    lora = compile_plan(work, "lora", "--lora=r=16,alpha=32,targets=all-linear")
    found = train(work, lora, "--threads=1", steps=3)[1]
    check("adapters: the first loss is that of the model alone", found and abs(found[0]["loss"] - one[0][0]) < 1e-3, (numbers(found), one))
    text = run("ztc", "inspect", lora, "--text").stdout
    check("adapters: products of both kinds", "e4m3 e4m3 -> bf16" in text and " bf16" in text)

    # A GPU of the stand-ins: codes and scales are the host's, sums have another order.
    both = compile_plan(work, "simt", "--target=x86-64-v3,simt", "--batch=1")
    apart = compile_plan(work, "simt-apart", "--target=x86-64-v3,simt", "--batch=1", "--disable-pass=ztc-fuse-amax")
    want, host = train(work, both, "--threads=1", steps=2)
    mine, gpu = train(work, both, "--gpus=1", steps=2, env=STAND_INS)
    if host and gpu:
        again = numbers(train(work, apart, "--gpus=1", steps=2, env=STAND_INS)[1])
        check("simt: maxima found elsewhere, the same bits", again == numbers(gpu), (again, numbers(gpu)))
        check("simt: loss", abs(gpu[0]["loss"] - host[0]["loss"]) <= 4e-3, (gpu[0]["loss"], host[0]["loss"]))
        check("simt: worst gradient", worst(mine, want)[0] <= NEAR["e5m2-fused"][1], worst(mine, want))
    kept = compile_plan(work, "simt-kept", "--target=x86-64-v3,simt", "--batch=1", "--keep-fp8-weights=all")
    runs = [numbers(train(work, plan, "--gpus=1", "--accumulate=2", steps=2, env=STAND_INS)[1]) for plan in (both, kept)]
    check("simt: kept codes of weights, the same bits", runs[0] == runs[1] and runs[0], runs)
    shards = compile_plan(work, "shards", "--target=x86-64-v3,simt", "--batch=1", "--zero=3")
    found = train(work, shards, "--gpus=2", steps=2, env=STAND_INS)[1]
    check("simt: shards on two", len(found) == 2 and all(math.isfinite(x["loss"]) for x in found), found)
    wide = compile_plan(work, "wide", "--target=x86-64-v3,simt", "--batch=1", "--zero=3", "--disable-pass=ztc-gather-codes")
    check("simt: gathered as codes or as numbers, the same bits", numbers(found) == numbers(train(work, wide, "--gpus=2", steps=2, env=STAND_INS)[1]), found)

    # The interpreter agrees: unrounded with the graph before, rounded with a run.
    done = run("ztc", "compile", FOLDER, *SIZES, "--precision=fp8", "--verify", "-o", work / "verified.bin")
    check("--verify: passes keep what they should, and so does a run", "so do two updates of a run" in done.stdout + done.stderr, done.stdout + done.stderr)

    # Refused.
    for target in ("sm_80", "sm_86"):
        done = compile_plan(work, "refused", f"--target={target}", expect=2)
        check(f"{target}: no products in fp8", f"--target={target}: has no products in fp8" in done.stderr, done.stderr)
    done = compile_plan(work, "refused", "--lora=r=4,alpha=8,targets=all-linear", "--quantize=nf4", expect=2)
    check("beside weights in fewer bits", "--precision=fp8 beside --quantize=nf4" in done.stderr, done.stderr)
    done = run("ztc", "compile", FOLDER, *SIZES, "--precision=bf16", "--fp8-gradients=e4m3", "-o", work / "refused.bin", expect=2)
    check("formats of gradients without fp8", "--fp8-gradients is an option of --precision=fp8" in done.stderr, done.stderr)
    done = run("ztc", "compile", FOLDER, "--batch=1", "--seq=9", "--precision=fp8", "-o", work / "refused.bin", expect=1)
    check("sizes that no product has", "no product of a transformer block can be in fp8" in done.stderr, done.stderr)
    policy = work / "policy.json"
    policy.write_text(json.dumps({"bf16": ["mlp"], "fp32": ["layers.0.self_attn"]}))
    kept = run("ztc", "inspect", compile_plan(work, "kept", f"--precision-policy={policy}"), "--text").stdout
    products = [x for x in kept.splitlines() if "e4m3 e4m3" in x]
    check("a policy names layers for bf16 and fp32", products and all("layer 1" in x and "mlp" not in x for x in products), products)
    policy.write_text(json.dumps({"fp16": ["mlp"]}))
    done = compile_plan(work, "refused", f"--precision-policy={policy}", expect=1)
    check("a policy of another type", "expected {\"fp32\"" in done.stderr, done.stderr)
finish()
